"""Environment variables: one table, parsed strictly; what is active is reported (semantics section 8)."""

import subprocess
import sys

import numpy as np
import pytest

import rlx
from rlx import config, ops
from rlx.options import MAX_THREADS, available_cpus, default_threads
from rlx.testing.files import feed, mlp


def graph() -> rlx.Graph:
    g = rlx.Graph("g")
    g.output("y", ops.tanh(g.input("x", (4,), rlx.f32)))
    return g


BAD = {
    "RLX_NUM_THREADS": ["0", "-1", "2.5", "two", "1e3", "²"],
    "RLX_ISA": ["sse", "AVX2", "avx-512"],
    "RLX_OPTIMIZE": ["2", "maybe"],
    "RLX_DISABLE": [",", "simplify,,"],
    "RLX_BUSY": ["block", "1"],
    "RLX_DENORMALS": ["flush", "0"],
    "RLX_POISON": ["2", "yes"],
    "RLX_CHECK": ["all"],
    "RLX_NAN_CHECK": ["-1"],
    "RLX_VERBOSE": ["3", "yes"],
    "RLX_VERIFY": ["x"],
    "RLX_TUNED": ["x"],
}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in BAD.items() for t in texts])
def test_r81_a_value_that_cannot_be_read_is_an_error(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(rlx.ConfigError, match=f"{name} must be .*, got"):
        config.read(name)
    with pytest.raises(rlx.ConfigError, match=name):
        rlx.RuntimeConfig.current()


@pytest.mark.parametrize(("text", "want"), [("3", 3), ("4,2", 4), (" 5 , 1", 5), ("0", None), ("all", None),
                                            (",", None), ("²", None), ("-1,2", None), ("1" * 5000, None)])
def test_of_a_list_in_omp_num_threads_the_first_counts_and_junk_is_ignored(
    text: str, want: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLX_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert rlx.RuntimeConfig.current()["OMP_NUM_THREADS"] == want
    assert default_threads() == (want or min(available_cpus(), MAX_THREADS))
    assert rlx.compile(graph()).run({"x": np.zeros(4, np.float32)})["y"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("field", "given", "want"), [
    ("dims", {"n": np.int64(2)}, {"n": 2}), ("extents", {"n": np.uint8(4)}, {"n": 4}), ("threads", np.int32(2), 2),
])
def test_sizes_and_counts_are_whatever_is_an_index(field: str, given: object, want: object) -> None:
    got = getattr(rlx.CompileOptions(**{field: given}), field)
    assert got == want
    assert all(type(n) is int for n in (got.values() if isinstance(got, dict) else [got]))


@pytest.mark.parametrize("bad", [True, np.True_, 2.0, np.float64(2), "2", None])
def test_bools_and_fractions_are_no_sizes(bad: object) -> None:
    for field in ("dims", "extents"):
        with pytest.raises(rlx.ConfigError, match=f"CompileOptions.{field}: 'n' must be an int"):
            rlx.CompileOptions(**{field: {"n": bad}})
    if bad is not None:
        with pytest.raises(rlx.ConfigError, match=r"CompileOptions.threads: must be a positive int"):
            rlx.CompileOptions(threads=bad)


@pytest.mark.parametrize("name", [n for n in BAD if config.VARIABLES[n].option])
def test_r81_bad_defaults_of_options_are_told_when_options_are_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, BAD[name][0])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(rlx.ConfigError, match=name):
        rlx.compile(graph(), rlx.CompileOptions()).run({"x": np.zeros(4, np.float32)})


@pytest.mark.parametrize(("name", "text", "field", "value"), [
    ("RLX_OPTIMIZE", "0", "optimize", False), ("RLX_OPTIMIZE", "1", "optimize", True),
    ("RLX_DISABLE", "simplify, fuse-norm", "disable", ("simplify", "fuse-norm")),
    ("RLX_BUSY", "wait", "busy", "wait"), ("RLX_DENORMALS", "zero", "denormals", "zero"),
    ("RLX_POISON", "1", "poison", True), ("RLX_CHECK", "1", "check", True),
    ("RLX_NAN_CHECK", "1", "nan_check", True),
])
def test_the_environment_gives_defaults_and_options_decide(
    name: str, text: str, field: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = rlx.CompileOptions()
    monkeypatch.setenv(name, text)
    assert getattr(rlx.CompileOptions(), field) == value
    assert getattr(rlx.CompileOptions(**{field: getattr(plain, field)}), field) == getattr(plain, field)
    monkeypatch.setenv(name, "")
    assert rlx.CompileOptions() == plain


def test_precision_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_PRECISION", "bf16")
    assert rlx.CompileOptions() == rlx.CompileOptions(precision="bf16")
    monkeypatch.setenv("RLX_PRECISION", "f17")
    with pytest.raises(rlx.ConfigError):
        rlx.CompileOptions()


@pytest.mark.parametrize("field", ["optimize", "poison", "check", "nan_check"])
def test_r81_flags_are_bools(field: str) -> None:
    with pytest.raises(rlx.ConfigError, match=rf"CompileOptions.{field}: must be a bool, got 'no'"):
        rlx.CompileOptions(**{field: "no"})


def test_the_report_says_which_options_were_active_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rlx.compile(graph()).explain().options == {}
    monkeypatch.setenv("RLX_POISON", "1")
    exe = rlx.compile(graph(), rlx.CompileOptions(threads=1, check=True))
    assert exe.explain().options == {"threads": "1 (given)", "poison": "True (RLX_POISON)", "check": "True (given)"}
    assert "option poison = True (RLX_POISON)" in str(exe.explain())


def test_settings_say_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_BUSY", "wait")
    monkeypatch.setenv("RLX_BUZY", "wait")
    settings = rlx.RuntimeConfig.current()
    assert settings["RLX_BUSY"] == "wait"
    assert settings.settings["RLX_BUSY"].source == "environment"
    assert settings.settings["RLX_CHECK"].source == "default"
    assert "RLX_BUZY" in settings.unknown
    assert "not read" in str(settings)
    assert settings._repr_html_().count("<tr>") == len(config.VARIABLES) + 1 + len(settings.unknown)
    with pytest.raises(rlx.ConfigError, match=r"got \[.*RLX_BUZY.*\]\nhint: did you mean RLX_BUSY\?"):
        rlx.RuntimeConfig.current(strict=True)


def test_show_config_lists_all_of_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_VERBOSE", "1")
    rlx.show_config()
    out = capsys.readouterr().out
    assert all(name in out for name in config.VARIABLES)
    assert any(line.split() == ["RLX_VERBOSE", "1", "environment"] for line in out.splitlines())


def test_verbose_says_what_is_compiled(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rlx.compile(graph())
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("RLX_VERBOSE", "1")
    rlx.compile(graph())
    err = capfd.readouterr().err
    assert err.startswith("rlx: compiled 'g' for ")
    assert err.count("\n") == 1
    monkeypatch.setenv("RLX_VERBOSE", "2")
    rlx.compile(graph())
    assert "kernel" in capfd.readouterr().err


def test_variables_count_when_they_are_read_not_when_rlx_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use does not win: each compilation looks anew."""
    for value in (True, False, True):
        monkeypatch.setenv("RLX_POISON", str(int(value)))
        assert rlx.compile(graph()).options.poison is value


def test_importing_does_not_look_at_bad_variables() -> None:
    code = "import rlx\ntry: rlx.CompileOptions()\nexcept rlx.ConfigError as e: print(e)"
    import os

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "RLX_BUSY": "never"})
    assert done.stdout.strip() == "RLX_BUSY must be one of ['raise', 'wait'], got 'never'"


def test_files_are_loaded_unread_when_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlx.aot.save import save_executable
    from rlx.testing.files import parts

    exe = mlp()
    exe.run(feed())
    data = bytearray(save_executable(exe) or b"")
    data[parts(bytes(data))["data"].start] ^= 1
    with pytest.raises(rlx.FormatError, match="damaged"):
        rlx.load(bytes(data))
    monkeypatch.setenv("RLX_VERIFY", "0")
    assert rlx.load(bytes(data)).run(feed())["y"].shape == (3, 40)


@pytest.mark.parametrize("isa", ["neon", "AVX2", "", 3, ["avx2"]])
def test_an_unknown_isa_level_is_refused_when_the_options_are_made(isa):
    with pytest.raises(rlx.ConfigError, match=r"CompileOptions\.isa: must be one of \['baseline', 'avx2', 'avx512'\]"):
        rlx.CompileOptions(isa=isa)
    assert rlx.CompileOptions(isa="baseline").isa == "baseline"
