"""A run has a floating-point mode of its own: the caller's does not reach it and is given back (A116)."""

import ctypes
import platform
import threading

import numpy as np
import pytest

import rlx

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the mode is that of x86-64's MXCSR")

ZERO, UP, DEFAULT = 0x1F80 | 0x8040, 0x1F80 | 0x4000, 0x1F80


class Mode:
    """The calling thread's MXCSR within a `with`, by way of the C library's fenv_t (its last 4 bytes)."""

    libm = ctypes.CDLL("libm.so.6")

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.before = (ctypes.c_uint32 * 8)()

    @classmethod
    def now(cls) -> int:
        """The mode of this thread."""
        state = (ctypes.c_uint32 * 8)()
        assert cls.libm.fegetenv(state) == 0
        return state[7] & ~0x3F

    def __enter__(self) -> None:
        assert self.libm.fegetenv(self.before) == 0
        state = (ctypes.c_uint32 * 8)(*self.before)
        state[7] = self.mode
        assert self.libm.fesetenv(state) == 0

    def __exit__(self, *_: object) -> None:
        assert self.libm.fesetenv(self.before) == 0


def graph(n: int = 4096) -> rlx.Graph:
    g = rlx.Graph("decay")
    x = g.input("x", (n, 16), rlx.f32)
    w = g.constant(np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32))
    g.output("half", x * np.float32(0.5))
    g.output("third", x / np.float32(3))
    g.output("product", x @ w)
    return g


def data(n: int = 4096) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, 16)).astype(np.float32)
    x[::2] *= np.float32(1e-38)
    x[::8] = np.float32(1e-45) * rng.integers(-9, 9, (len(x[::8]), 16)).astype(np.float32)
    return x


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", [ZERO, UP], ids=["flush", "up"])
def test_the_callers_mode_does_not_reach_a_run(mode: int, threads: int) -> None:
    exe, x = rlx.compile(graph(), rlx.CompileOptions(threads=threads)), data()
    want = {k: v.copy() for k, v in exe.run({"x": x}).items()}
    np.testing.assert_array_equal(want["half"], x * np.float32(0.5))
    np.testing.assert_array_equal(want["third"], x / np.float32(3))
    with Mode(mode):
        got = {k: v.copy() for k, v in exe.run({"x": x}).items()}
        slots = [np.copy(v) for v in exe.run_slots([x])]
        after = Mode.now()
    assert after == mode
    for name, slot in zip(want, slots, strict=True):
        assert got[name].tobytes() == want[name].tobytes() == slot.tobytes()
    assert Mode.now() == DEFAULT


def test_weights_packed_under_another_mode_are_the_same() -> None:
    x = data()
    want = rlx.compile(graph()).run({"x": x})
    with Mode(ZERO):
        got = rlx.compile(graph()).run({"x": x})
    assert [v.tobytes() for v in got] == [v.tobytes() for v in want]


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_zero(isa: str, threads: int) -> None:
    x = data()
    options = rlx.CompileOptions(threads=threads, denormals="zero", isa=isa)
    exe = rlx.compile(graph(), options)
    got = {k: v.copy() for k, v in exe.run({"x": x}).items()}
    tiny = np.finfo(np.float32).tiny
    flushed = np.where(np.abs(x) < tiny, np.float32(0), x)
    for name, want in (("half", flushed * np.float32(0.5)), ("third", flushed / np.float32(3))):
        want = np.where(np.abs(want) < tiny, np.float32(0), want)
        np.testing.assert_array_equal(got[name], want)
    assert Mode.now() == DEFAULT
    assert not (np.abs(got["product"][np.abs(got["product"]) > 0]) < tiny).any()
    assert exe.clone().run({"x": x})["third"].tobytes() == got["third"].tobytes()
    assert rlx.compile(graph(), rlx.CompileOptions(isa=isa)).run({"x": x})["half"].tobytes() != got["half"].tobytes()


def test_threads_of_the_pool_return_to_the_mode_of_each_run() -> None:
    x = data(1 << 16)
    keep = rlx.compile(graph(1 << 16), rlx.CompileOptions(threads=2))
    zero = rlx.compile(graph(1 << 16), rlx.CompileOptions(threads=2, denormals="zero"))
    want = {e: {k: v.tobytes() for k, v in e.run({"x": x}).items()} for e in (keep, zero)}
    for _ in range(20):
        for e in (keep, zero):
            assert {k: v.tobytes() for k, v in e.run({"x": x}).items()} == want[e]


def test_a_failed_run_gives_the_mode_back() -> None:
    g = rlx.Graph("bad")
    x, at = g.input("x", (4,), rlx.f32), g.input("at", (2,), rlx.i64)
    g.output("y", rlx.ops.gather(x, at))
    exe = rlx.compile(g, rlx.CompileOptions(denormals="zero"))
    with pytest.raises(rlx.RlxError):
        exe.run({"x": np.ones(4, np.float32), "at": np.array([0, 9])})
    assert Mode.now() == DEFAULT


def test_other_threads_of_python_keep_theirs() -> None:
    exe, x, seen = rlx.compile(graph(), rlx.CompileOptions(denormals="zero")), data(), []

    def other() -> None:
        with Mode(UP):
            exe.clone().run({"x": x})
            seen.append(Mode.now())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [UP]


@pytest.mark.parametrize("kind", ["compiled", "portable"])
def test_files_keep_the_mode(kind: str, tmp_path: object) -> None:
    x = data()
    exe = rlx.compile(graph(), rlx.CompileOptions(denormals="zero"))
    want = exe.run({"x": x})["third"].tobytes()
    path = f"{tmp_path}/decay.rlx"
    exe.save(path, portable=kind == "portable")
    assert rlx.load(path).run({"x": x})["third"].tobytes() == want


def test_the_option_is_checked() -> None:
    with pytest.raises(rlx.ConfigError, match="denormals: must be 'keep' or 'zero', got 'flush'"):
        rlx.CompileOptions(denormals="flush")
