"""The cost model: defaults, the file of a machine, and files that nobody should believe."""

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import costs, tune
from rlx.cli import main
from rlx.costs import DEFAULTS, LIMITS, Costs

LEVEL = costs.level_here()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder that is believed."""
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RLX_TUNED", "1")
    costs.loaded.cache_clear()
    yield tmp_path / "cache" / "tune.json"
    costs.loaded.cache_clear()


def good(**change: Any) -> dict[str, Any]:
    """What a file holds."""
    figures = asdict(DEFAULTS[LEVEL]) | {"split_ns": 9000.0}
    return {"format": 1, "rlx": rlx.__version__, "processor": costs.processor(), "costs": {LEVEL: figures}} | change


def put(cache: Path, content: Any) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    costs.loaded.cache_clear()


def test_every_figure_has_limits_and_defaults_keep_them() -> None:
    assert set(LIMITS) == {f.name for f in fields(Costs)}
    for level in DEFAULTS.values():
        for name, value in asdict(level).items():
            assert LIMITS[name][0] <= value <= LIMITS[name][1]
    assert all(f.name in (costs.Costs.__doc__ or "") for f in fields(Costs))


def test_without_a_file_there_are_defaults(cache: Path) -> None:
    assert costs.of() == DEFAULTS[LEVEL]
    assert costs.report()[0] == "defaults"


def test_a_file_of_this_machine_is_used(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(cache, good())
    assert costs.of().split_ns == 9000.0
    assert costs.of("baseline") == (DEFAULTS["baseline"] if LEVEL != "baseline" else costs.of())
    rlx.show_config()
    out = capsys.readouterr().out
    assert "tuned" in out and "split_ns 9000" in out


def test_the_environment_can_ignore_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache, good())
    monkeypatch.setenv("RLX_TUNED", "0")
    costs.loaded.cache_clear()
    assert costs.of() == DEFAULTS[LEVEL]
    monkeypatch.setenv("RLX_TUNED", "yes")
    costs.loaded.cache_clear()
    with pytest.raises(rlx.ConfigError, match="RLX_TUNED"):
        costs.of()


def broken() -> dict[str, Any]:
    """Files that are not what was written."""
    figures = good()["costs"][LEVEL]
    return {
        "empty": b"", "no JSON": b"{", "not UTF-8": b"\xff\xfe\x00", "a list": [], "null": None, "a number": b"1e999",
        "nested": b"[" * 60_000, "long": b" " * 100_000, "NUL": b"\0" * 100,
        "huge int": json.dumps(good()).replace("9000.0", "9" * 5000).encode(),
        "other version": good(rlx="0.0.0"), "other processor": good(processor="Z80"), "other format": good(format=2),
        "a field more": good(extra=1), "no costs": good(costs=None), "other level": good(costs={"sse9": figures}),
        "figure missing": good(costs={LEVEL: {k: v for k, v in figures.items() if k != "read"}}),
        "figure more": good(costs={LEVEL: figures | {"x": 1}}), "a bool": good(costs={LEVEL: figures | {"read": True}}),
        "text": good(costs={LEVEL: figures | {"read": "30"}}), "zero": good(costs={LEVEL: figures | {"flops": 0}}),
        "nan": json.dumps(good(costs={LEVEL: figures | {"read": float("nan")}})).encode(),
        "infinite": json.dumps(good(costs={LEVEL: figures | {"l2_block": float("inf")}})).encode(),
        "negative": good(costs={LEVEL: figures | {"task_ns": -1.0}}),
    }  # fmt: skip


@pytest.mark.parametrize("name", broken())
def test_files_that_are_not_believed(name: str, cache: Path) -> None:
    put(cache, broken()[name])
    assert costs.of() == DEFAULTS[LEVEL]
    assert "not used" in costs.report()[0]
    g = rlx.Graph("g")
    g.output("y", g.input("x", (2,), rlx.f32) * 2.0)
    assert rlx.compile(g).run({"x": np.ones(2, np.float32)})["y"].tolist() == [2, 2]


def test_a_folder_in_its_place_is_no_file(cache: Path) -> None:
    cache.mkdir(parents=True)
    costs.loaded.cache_clear()
    assert costs.of() == DEFAULTS[LEVEL]


def test_figures_inside_a_block() -> None:
    before = costs.of()
    with costs.using(LEVEL, split_ns=500.0) as inner:
        assert costs.of() is inner and inner.split_ns == 500.0
        with costs.using(LEVEL, read=1.0):
            assert costs.of().split_ns == 500.0 and costs.of().read == 1.0
        assert costs.of() is inner
    assert costs.of() == before


def test_figures_change_the_cut_and_not_the_bits() -> None:
    graph, feeds = tune.product(96, 640, 700)
    want = rlx.compile(graph, rlx.CompileOptions(threads=1)).run(feeds)["y"]
    for figures in ({"l2_block": 32768.0}, {"l2_block": 8e6}, {"task_ns": 200.0}, {"flops": 1.0}, {"read": 0.2}):
        with costs.using(LEVEL, **figures):
            exe = rlx.compile(graph, rlx.CompileOptions(threads=2))
        np.testing.assert_array_equal(exe.run(feeds)["y"], want)


def test_thresholds_choose_the_algorithm() -> None:
    def transformed(limit: float) -> bool:
        graph, _ = tune.convolution(32, 16)
        with costs.using(LEVEL, winograd_channels=limit):
            found = str(rlx.compile(graph, rlx.CompileOptions(threads=1)).explain())
        return "winograd.f32" in found

    assert transformed(16.0) and not transformed(64.0)


def test_a_threshold_keeps_calls_on_one_thread() -> None:
    graph, feeds = tune.chain(1 << 18)
    results = []
    for limit in (LIMITS["split_ns"][0], LIMITS["split_ns"][1]):
        with costs.using(LEVEL, split_ns=limit):
            exe = rlx.compile(graph, rlx.CompileOptions(threads=2))
            results.append((exe._any_variant().linked.parallel, exe.run(feeds)["y"]))
    assert [r[0] for r in results] == [True, False]
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_tune_writes_what_holds_afterwards(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "-s", "0.002", "-n", "-q"]) == 0
    assert "nothing was written" in capsys.readouterr().out and not cache.exists()
    assert main(["tune", "-s", "0.002", "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(cache) and found["isa"] == LEVEL
    for figure in found["figures"]:
        assert getattr(costs.of(), figure["name"]) == figure["after"]
    assert costs.of().task_ns == DEFAULTS[LEVEL].task_ns  # not measured: stays
    assert [p.name for p in cache.parent.iterdir()] == ["tune.json"]
    assert main(["tune", "--reset"]) == 0
    assert not cache.exists() and main(["tune", "-s", "0"]) == 2


def test_choices_need_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is only a little faster is noise."""
    graph, feeds = tune.chain(64)
    default = costs.of().l2_block
    for second, want in ((0.99, default), (0.9, 65536.0)):
        monkeypatch.setattr(tune, "alternate", lambda calls, seconds, s=second: [1.0, s])
        value, note = tune.choose(LEVEL, "l2_block", [65536.0], [(graph, feeds)], 0.001)
        assert value == want and "65536" in note


def test_chains_of_the_tuner_compute(cache: Path) -> None:
    graph, feeds = tune.product(3, 5, 7, rlx.i8)
    y = rlx.compile(graph).run(feeds)["y"]
    w = graph.outputs["y"].node.inputs[1]
    assert w is not None and w.array is not None
    np.testing.assert_array_equal(y, feeds["a"].astype(np.int32) @ w.array.astype(np.int32))  # type: ignore[attr-defined]
