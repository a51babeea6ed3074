"""nan_check, intermediate values, traces, dispatch: what tells where a number comes from and where time goes."""

import html.parser
import json
import pathlib
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.testing.files import feed, loop, loop_feed, mlp


def chain(options: rlx.CompileOptions | None = None, dtype: rlx.DType = rlx.f32) -> rlx.CompiledGraph:
    """log(x) * 2, then a sum."""
    g = rlx.Graph("chain")
    x = g.input("x", ("n", 4), dtype)
    h = ops.log(x, name="ratio")
    g.output("y", ops.reduce_sum(h * 2, axes=(1,)))
    return rlx.compile(g, options)


@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64, rlx.f16, rlx.bf16])
@pytest.mark.parametrize(("bad", "made"), [(0.0, "-inf"), (-1.0, "nan")])
def test_nan_check_names_the_node_the_op_and_the_element(dtype: rlx.DType, bad: float, made: str) -> None:
    exe = chain(rlx.CompileOptions(nan_check=True), dtype)
    x = np.ones((3, 4), dtype.numpy)
    assert exe.run({"x": x})["y"].shape == (3,)
    x[1, 2] = bad
    with pytest.raises(rlx.ExecutionError, match=rf"node 'ratio' \(log\).*got {made} at \[1, 2\] of 'ratio'"):
        exe.run({"x": x})
    for call in ("run_raw", "run_typed"):
        with pytest.raises(rlx.ExecutionError, match="node 'ratio'"):
            getattr(exe, call)({"x": x})
    assert exe.run({"x": np.ones((3, 4), dtype.numpy)})["y"].tolist() == [0, 0, 0]


def test_nan_check_lets_through_what_the_operands_have() -> None:
    exe = chain(rlx.CompileOptions(nan_check=True))
    x = np.ones((2, 4), np.float32)
    x[0, 0] = np.nan
    x[1, 1] = np.inf
    with np.errstate(all="ignore"):
        y = exe.run({"x": x})["y"]
    assert np.isnan(y[0])
    assert y[1] == np.inf


def test_nan_check_of_constants_parameters_and_random_numbers() -> None:
    g = rlx.Graph("masked")
    x, w = g.input("x", (3,), rlx.f32), g.param("w", (3,), rlx.f32)
    mask = g.constant(np.float32([0, -np.inf, 0]))
    g.output("y", ops.softmax(x + mask, axis=0) / w + ops.random_uniform(graph=g, shape=(3,), dtype=rlx.f32))
    results = []
    for check in (True, False):
        exe = rlx.compile(g, rlx.CompileOptions(nan_check=check, rng=rlx.RngOptions(seed=3)))
        exe.set_param("w", np.float32([1, 2, 4]))
        results.append([exe.run({"x": np.zeros(3, np.float32)})["y"].tobytes() for _ in range(3)])
    assert results[0] == results[1]  # the check draws no numbers of its own
    exe = rlx.compile(g, rlx.CompileOptions(nan_check=True))
    exe.set_param("w", np.float32([1, 2, 0]))
    with pytest.raises(rlx.ExecutionError, match=r"\(div\).*got inf at \[2\]"):
        exe.run({"x": np.zeros(3, np.float32)})


def test_nan_check_with_sizes_that_runs_tell_and_with_control_flow() -> None:
    g = rlx.Graph("found")
    x = g.input("x", (4,), rlx.f32)
    rows = ops.cast(ops.nonzero(x), dtype=rlx.f32)
    g.output("y", ops.div(np.float32(1), rows, name="inverse"))
    exe = rlx.compile(g, rlx.CompileOptions(nan_check=True))
    assert exe.run({"x": np.float32([0, 1, 0, 1])})["y"].size == 2
    with pytest.raises(rlx.ExecutionError, match="node 'inverse'"):
        exe.run({"x": np.float32([1, 0, 0, 1])})
    looping = rlx.compile(loop().graph, rlx.CompileOptions(nan_check=True))
    assert looping.run(loop_feed())["stack"].shape == (5, 8)


def test_nan_check_of_models() -> None:
    onnx = pytest.importorskip("onnx")
    from rlx.testing.onnx_models import proto

    nodes = [onnx.helper.make_node("Sqrt", ["x"], ["r"], name="root"), onnx.helper.make_node("Exp", ["r"], ["y"])]
    data = proto(nodes, {"x": np.zeros(3, np.float32)}, ["y"]).SerializeToString()
    m = rlx.load(data, options=rlx.CompileOptions(nan_check=True))
    assert m.run({"x": np.ones(3, np.float32)})["y"].shape == (3,)
    with pytest.raises(rlx.ExecutionError, match="node 'root'"):
        m.run({"x": np.float32([1, -1, 1])})


def test_nan_check_costs_nothing_when_it_is_off() -> None:
    exe = chain(rlx.CompileOptions(dims={"n": 2}))
    assert exe._full.nan_check is None  # type: ignore[union-attr]
    assert not exe._careful


@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64, rlx.f16, rlx.bf16, rlx.i8, rlx.i64, rlx.u16, rlx.bool_, rlx.c64])
def test_dump_nodes_of_every_element_type(dtype: rlx.DType) -> None:
    g = rlx.Graph("types")
    x = g.input("x", (6,), dtype)
    g.output("y", ops.reshape(ops.flip(x, axes=(0,), name="turned"), shape=(2, 3), name="shaped"))
    given = (np.arange(6) % 2).astype(dtype.numpy)
    found = rlx.compile(g).dump_nodes({"x": given})
    assert list(found) == ["turned", "shaped"]
    assert found["turned"].dtype == dtype.numpy
    assert found["turned"].tobytes() == given[::-1].tobytes()


def test_a_profile_becomes_a_trace(tmp_path: pathlib.Path) -> None:
    exe = mlp()
    profile = exe.profile(feed(), repeat=3)
    profile.to_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    calls = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [c["name"] for c in calls] == [r.node for r in profile.rows]
    assert sum(c["dur"] for c in calls) == pytest.approx(profile.total / 1e3)
    for before, after in zip(calls, calls[1:], strict=False):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])
    counters = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert max(counters) <= exe.memory_report().arena
    assert counters[-1] == 0
    with pytest.raises(rlx.ConfigError, match="must be writable"):
        profile.to_chrome_trace(tmp_path / "no" / "trace.json")


def test_live_bytes_reach_the_bound_and_no_more() -> None:
    from rlx.lower.memory import live_bytes

    g = rlx.Graph("wide")
    h = ops.cumsum(g.input("x", (64, 64), rlx.f32), axis=0)
    g.output("y", ops.reduce_sum(ops.cumsum(h, axis=1) @ h, axes=(0,)))
    plain = rlx.compile(g, rlx.CompileOptions(optimize=False))
    for exe, x in ((plain, {"x": np.ones((64, 64), np.float32)}), (loop(), loop_feed())):
        exe.run(x)
        program = exe.variants()[0].compiled.program
        live = live_bytes(program)
        assert len(live) == len(program.calls)
        assert 0 < max(live) <= program.arena_bytes


def test_the_dispatch_report_has_every_call() -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 64}))
    report = exe.dispatch()
    assert [r.kernel for r in report.rows] == [c.kernel for c in exe.variants()[0].compiled.program.calls]
    assert {r.op for r in report.rows} >= {"fused_matmul"} or len(report.rows) >= 2
    assert all(r.threads.startswith(("one: ", "shared, ")) for r in report.rows)
    assert any(r.memory == "output" for r in report.rows)
    assert "estimate" in str(report)


class _Well(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_reports_show_in_notebooks() -> None:
    exe = mlp()
    exe.run(feed())
    reports = [exe.explain(), exe.memory_report(), exe.profile(feed()), exe.dispatch(), exe.signature,
               rlx.RuntimeConfig.current()]
    for report in reports:
        text = report._repr_html_()
        parser = _Well()
        parser.feed(text)
        assert parser.open == []
        assert "<table>" in text


@pytest.mark.parametrize("repeat", [0, -1, 2.5, "3", True, None])
def test_a_profile_takes_a_positive_number_of_runs(repeat) -> None:
    with pytest.raises(rlx.ConfigError, match=r"repeat: must be a positive int, got "):
        mlp().profile(feed(), repeat=repeat)
    assert mlp().profile(feed(), repeat=np.int64(1)).total > 0
