"""close() and trim(): what is given back, what still answers, what happens beside runs."""

import os
import pathlib
import resource
import threading
import time
from typing import Any

import numpy as np
import pytest
from forked import true_in_child

import rlx
from rlx import ops
from rlx._kernels import _interp
from rlx.testing.files import feed, mlp


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def wide(busy: str = "raise", n: int = 1 << 22) -> tuple[rlx.CompiledGraph, dict[str, Any]]:
    """A graph with some 64 MiB of scratch and a small result."""
    g = rlx.Graph("wide")
    x = g.input("x", (1, 8), rlx.f32)
    rows = ops.expand(ops.reshape(x, shape=(8, 1)), shape=(8, n // 8))
    h = ops.cumsum(rows, axis=1)
    t = ops.cumsum(h, axis=0)
    g.output("y", ops.reduce_sum(h * t, axes=(1,)))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1, busy=busy))
    return exe, {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a115_trim_lowers_the_memory_of_the_process() -> None:
    exe, x = wide()
    want = exe.run(x)["y"].tobytes()
    report = exe.memory_report()
    assert report.arena > 30 << 20
    assert report.resident >= 0.9 * report.arena
    before = resident()
    freed = exe.trim()
    assert freed >= 0.9 * report.arena
    assert before - resident() >= 0.9 * report.arena
    assert exe.memory_report().resident < 1 << 20
    assert exe.trim() < 1 << 20
    assert exe.run(x)["y"].tobytes() == want
    assert exe.memory_report().resident >= 0.9 * report.arena


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a115_close_lowers_the_memory_of_the_process() -> None:
    g = rlx.Graph("weights")
    w = np.random.default_rng(0).standard_normal((2048, 2048)).astype(np.float32)
    g.output("y", g.input("x", (1, 2048), rlx.f32) @ g.param("w", (2048, 2048), rlx.f32))
    exe = rlx.compile(g)
    exe.set_param("w", w)
    exe.run({"x": np.ones((1, 2048), np.float32)})
    before = resident()
    exe.close()
    assert before - resident() >= 1.9 * w.nbytes  # as it was given, and packed


def test_close_is_final_and_may_be_repeated() -> None:
    exe = mlp()
    y = exe.run(feed())["y"]
    kept = y.copy()
    run, clone = exe.run, exe.clone()
    assert not exe.closed
    exe.close()
    exe.close()
    assert exe.closed
    for call in (lambda: exe.run(feed()), lambda: run(feed()), lambda: exe.set_param("w", 1), lambda: exe.clone(),
                 lambda: exe.explain(), lambda: exe.trim(), lambda: exe.save("x"), lambda: exe.rng,
                 lambda: exe.run_slots([feed()["x"]]), lambda: exe.handles(), lambda: exe.__enter__()):
        with pytest.raises(rlx.ExecutionError, match="graph 'mlp': the executable has been closed"):
            call()
    assert isinstance(exe, rlx.CompiledGraph)
    assert repr(exe) == "<closed graph 'mlp'>"
    report = exe.memory_report()
    assert (report.weights, report.arena, report.resident) == (0, 0, 0)
    assert list(exe.signature.outputs) == ["y", "h"]
    with pytest.raises(AttributeError):
        exe.no_such_name  # noqa: B018
    np.testing.assert_array_equal(y, kept)
    assert clone.run(feed())["y"].tobytes() == kept.tobytes()


def test_a107_results_outlive_what_made_them(tmp_path: pathlib.Path) -> None:
    """Outputs, also of a mapped file, are arrays of their own."""
    exe = mlp()
    exe.run(feed())
    exe.save(tmp_path / "a.rlx")
    loaded = rlx.load(tmp_path / "a.rlx")
    found = [e.run(feed())["y"] for e in (exe, loaded)]
    want = found[0].tobytes()
    for e in (exe, loaded):
        e.close()
    del exe, loaded
    again = mlp().run(feed(seed=5))["y"]
    assert [f.tobytes() for f in found] == [want, want]
    assert not np.may_share_memory(found[0], again)


@pytest.mark.parametrize("sizes", ["open", "known"])
def test_closing_while_a_call_begins_is_told(monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    """The call has looked at what it will run when another thread closes the executable."""
    exe, x = (mlp(), feed()) if sizes == "open" else wide(n=64)
    exe.run(x)
    closed = []

    class Late(_interp.Bound):
        @property
        def active(self) -> bool:
            thread = threading.Thread(target=exe.close)
            thread.start()
            thread.join()
            closed.append(exe.closed)
            return False

    late = Late()
    late.cells = {"x": None}  # so that the call looks at all of it
    monkeypatch.setattr(exe, "_handles", late)
    with pytest.raises(rlx.ExecutionError, match="the executable has been closed"):
        exe.run(x)
    assert closed == [True]


def test_with_statement() -> None:
    with mlp() as exe:
        exe.run(feed())
    assert exe.closed
    with pytest.raises(ZeroDivisionError), mlp() as failing:
        1 / 0  # noqa: B018
    assert failing.closed


def test_loaded_files_are_let_go(tmp_path: pathlib.Path) -> None:
    exe = mlp()
    exe.run(feed())
    exe.save(tmp_path / "a.rlx")
    loaded = rlx.load(tmp_path / "a.rlx")
    loaded.run(feed())
    loaded.close()
    with open("/proc/self/maps") as maps:
        assert "a.rlx" not in maps.read()
    with pytest.raises(rlx.ExecutionError, match="has been closed"):
        loaded.run(feed())
    with rlx.load(tmp_path / "a.rlx") as again:
        again.run(feed())


def during(exe: rlx.CompiledGraph, x: dict[str, Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that is in a run of the executable."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(exe.run(x)["y"].tobytes()))
    executor = exe._full.executor  # type: ignore[union-attr]
    thread.start()
    while not executor.is_running and thread.is_alive():
        time.sleep(0)
    return thread, results


@pytest.mark.parametrize("call", ["close", "trim"])
def test_beside_a_run_it_raises(call: str) -> None:
    exe, x = wide(n=1 << 23)
    want = exe.run(x)["y"].tobytes()
    thread, results = during(exe, x)
    with pytest.raises(rlx.ExecutionError, match="must not be called during a run"):
        getattr(exe, call)()
    thread.join()
    assert results == [want]
    assert exe.run(x)["y"].tobytes() == want
    getattr(exe, call)()


@pytest.mark.parametrize("call", ["close", "trim"])
def test_beside_a_run_it_waits_when_asked_to(call: str) -> None:
    exe, x = wide("wait", 1 << 23)
    want = exe.run(x)["y"].tobytes()
    thread, results = during(exe, x)
    getattr(exe, call)()
    thread.join()
    assert results == [want]
    assert exe.closed == (call == "close")


def test_models_too() -> None:
    onnx = pytest.importorskip("onnx")
    from rlx.testing.onnx_models import model

    x = {"x": np.arange(6, dtype=np.float32)}
    with model([onnx.helper.make_node("Tanh", ["x"], ["y"])], x, ["y"]) as m:
        y = m.run(x)["y"]
        clone = m.clone()
        assert m.trim() >= 0
        run = m.run
    for call in (lambda: m.run(x), lambda: run(x), lambda: m.explain(), lambda: m.clone()):
        with pytest.raises(rlx.ExecutionError, match="model 'test': the executable has been closed"):
            call()
    assert m.memory_report().weights == 0
    assert clone.run(x)["y"].tobytes() == y.tobytes()


def test_fork_after_close_and_trim() -> None:
    """A child can use what its parent has trimmed, and closing in the child leaves the parent alone."""
    exe = mlp()
    want = exe.run(feed())["y"].tobytes()
    exe.trim()

    def runs_and_closes() -> bool:
        same = exe.run(feed())["y"].tobytes() == want
        exe.close()
        return same and exe.closed

    assert true_in_child(runs_and_closes)
    assert exe.run(feed())["y"].tobytes() == want


def test_fork_during_a_compilation_and_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the child nothing is taken, whatever other threads were at: compiling, running, looking a program up."""
    from rlx.runtime import executable

    exes = [wide(n=64)[0] for _ in range(8)]
    x = wide(n=64)[1]
    want = exes[0].run(x)["y"].tobytes()
    inner, codes, unraisable = executable.compile_static, [], []

    def compile_static(*args: Any, **more: Any) -> Any:
        child = os.fork()
        if child == 0:
            free = all(e.turn.acquire(timeout=5) and e._variants._lock.acquire(timeout=5) for e in exes)
            os._exit(0 if free and not unraisable and all(e.run(x)["y"].tobytes() == want for e in exes) else 1)
        codes.append(os.waitpid(child, 0)[1])
        return inner(*args, **more)

    def hold(done: threading.Event, held: threading.Event) -> None:
        for e in exes:
            assert e._guard.enter()
            e.turn.acquire()
            e._variants._lock.acquire()
        held.set()
        done.wait()
        for e in exes:
            e._guard.leave()
            e.turn.release()
            e._variants._lock.release()

    done, held = threading.Event(), threading.Event()
    other = threading.Thread(target=hold, args=(done, held))
    other.start()
    held.wait()
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    monkeypatch.setattr(executable, "compile_static", compile_static)
    try:
        wide(n=64)
    finally:
        done.set()
        other.join()
    assert codes == [0]


def test_fork_beside_the_run_of_a_model() -> None:
    """The child runs models and their clones, although a thread of the parent had taken them."""
    onnx = pytest.importorskip("onnx")
    from rlx.testing.onnx_models import model

    x = {"x": np.arange(6, dtype=np.float32)}
    with model([onnx.helper.make_node("Tanh", ["x"], ["y"])], x, ["y"]) as m:
        want = m.run(x)["y"].tobytes()
        models = [m, m.clone()]
        assert models[1].run(x)["y"].tobytes() == want
        guards = [v.executor.guard for e in models for v in e._programs()]
        assert guards and all(g.enter() for g in guards)
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if all(e.run(x)["y"].tobytes() == want for e in models) else 1)
            finally:
                os._exit(2)
        for g in guards:
            g.leave()
        assert os.waitpid(child, 0)[1] == 0


def test_fork_beside_a_cache_in_use() -> None:
    """The child takes a cache's entries, although another thread of the parent had its locks."""
    g = rlx.Graph("rows")
    g.output("y", ops.tanh(g.input("x", ("n", 8), rlx.f32)))
    cache = rlx.BucketedCompileCache(g, {"n": [4, 8]})
    x = {"x": np.ones((3, 8), np.float32)}
    want = cache.run(x)["y"].tobytes()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            cache.run(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    same = [true_in_child(lambda: cache.run(x)["y"].tobytes() == want, seconds=10) for _ in range(5)]
    stop.set()
    for t in threads:
        t.join()
    assert all(same)
