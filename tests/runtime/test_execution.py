"""Runs: determinism, failures that leave everything usable, clones, threads, fork, memory."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.errors import DivisionExecutionError, ExecutionError


def chain(n: int = 6, size: int = 64, dtype: rlx.DType = rlx.f32) -> tuple[rlx.Graph, dict[str, np.ndarray]]:
    """n layers tanh(x @ w + b) with constants."""
    rng = np.random.default_rng(0)
    g = rlx.Graph("chain")
    v = x = g.input("x", (8, size), dtype)
    for _ in range(n):
        w = rng.standard_normal((size, size)).astype(dtype.numpy) / 8
        v = ops.tanh(v @ w + rng.standard_normal(size).astype(dtype.numpy))
    g.output("y", v)
    g.output("s", v + x)
    return g, {"x": rng.standard_normal((8, size)).astype(dtype.numpy)}


def test_same_bits_for_any_thread_count_and_after_other_data() -> None:
    g, feed = chain(size=256)
    e = rlx.compile(g, rlx.CompileOptions(threads=2, poison=True))
    first = e.run(feed, threads=1)
    e.run({"x": np.full_like(feed["x"], np.nan)})
    for threads in (2, 1, 3, 2):
        again = e.run(feed, threads=threads)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)
    fresh = rlx.compile(g, rlx.CompileOptions(threads=1)).run(feed)
    np.testing.assert_array_equal(fresh["y"], first["y"])


def test_r3_stale_lanes_never_leak() -> None:
    """Run A then B equals a fresh run of B for every length around the vector widths."""
    for n in range(1, 36):
        g = rlx.Graph("lanes")
        x = g.input("x", (n,))
        g.output("y", ops.relu(x * 2 - 1) + x)
        e = rlx.compile(g, rlx.CompileOptions(poison=True))
        a, b = np.full(n, np.inf, np.float32), np.linspace(-1, 1, n, dtype=np.float32)
        e.run({"x": a})
        np.testing.assert_array_equal(e.run({"x": b})["y"], rlx.compile(g).run({"x": b})["y"])


def test_every_run_variant_gives_the_same_result() -> None:
    g, feed = chain()
    e = rlx.compile(g, rlx.CompileOptions(poison=True))
    want = [a.tobytes() for a in e.run(feed)]
    assert [a.tobytes() for a in e.run_raw(feed)] == want
    assert [a.tobytes() for a in e.run_slots([feed["x"]])] == want
    assert [b for b, _ in e.run_typed({"x": (feed["x"].tobytes(), rlx.f32)})] == want


def test_integer_division_by_zero_names_the_node_and_leaves_the_executable_usable() -> None:
    g = rlx.Graph("div")
    x, y = g.input("x", (5,), rlx.i32), g.input("y", (5,), rlx.i32)
    g.output("q", ops.div(x, y, name="quotient"))
    g.output("r", ops.mod(x, y))
    e = rlx.compile(g)
    a, b = np.array([7, -7, 7, 3, np.iinfo(np.int32).min], np.int32), np.array([2, 2, 0, 1, -1], np.int32)
    with pytest.raises(DivisionExecutionError, match="quotient"):
        e.run({"x": a, "y": b})
    with pytest.raises(ZeroDivisionError):
        e.run({"x": a, "y": b}, threads=2)
    b[2] = 3
    out = e.run({"x": a, "y": b})
    np.testing.assert_array_equal(out["q"], [3, -3, 2, 3, np.iinfo(np.int32).min])
    np.testing.assert_array_equal(out["r"], [1, 1, 1, 0, 0])


def test_a23_division_by_zero_inside_the_pool_is_raised_after_it() -> None:
    g = rlx.Graph("bigdiv")
    x, y = g.input("x", (300_000,), rlx.i64), g.input("y", (300_000,), rlx.i64)
    g.output("q", x / y)
    e = rlx.compile(g, rlx.CompileOptions(threads=2))
    a, b = np.arange(300_000), np.ones(300_000, np.int64)
    b[299_999] = 0
    for _ in range(5):
        with pytest.raises(DivisionExecutionError):
            e.run({"x": a, "y": b})
    b[299_999] = 1
    np.testing.assert_array_equal(e.run({"x": a, "y": b})["q"], a)


def test_folding_that_would_raise_is_left_to_the_run() -> None:
    g = rlx.Graph("fold")
    x = g.input("x", (1,), rlx.i32)
    g.output("y", x + ops.div(g.constant(np.array([1], np.int32)), g.constant(np.array([0], np.int32))))
    e = rlx.compile(g)
    with pytest.raises(DivisionExecutionError):
        e.run({"x": np.ones(1, np.int32)})


def test_r25_clones_are_independent() -> None:
    g = rlx.Graph("p")
    x, w = g.input("x", (2,)), g.param("w", (2,))
    g.output("y", x * w)
    e = rlx.compile(g)
    e.set_param("w", np.array([2, 3], np.float32))
    feed = {"x": np.ones(2, np.float32)}
    c = e.clone()
    np.testing.assert_array_equal(c.run(feed)["y"], [2, 3])
    c.set_param("w", np.array([5, 7], np.float32))
    np.testing.assert_array_equal(e.run(feed)["y"], [2, 3])
    np.testing.assert_array_equal(c.run(feed)["y"], [5, 7])
    e.set_param("w", np.array([1, 1], np.float32))
    np.testing.assert_array_equal(c.run(feed)["y"], [5, 7])


def _long_graph(n: int = 2_000) -> tuple[rlx.Graph, dict[str, np.ndarray]]:
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    s = body.input("s", (64, 64))
    w = body.input("w", (64, 64))
    body.output("go", body.constant(np.asarray(True)))
    body.output("s", ops.tanh(s @ w))
    g = rlx.Graph("long")
    x, w2 = g.input("x", (64, 64)), g.input("w", (64, 64))
    out = ops.loop(g.constant(np.asarray(n)), None, x, w2, body=body, n_carried=1)
    g.output("y", out[0])
    a = np.ones((64, 64), np.float32)
    return g, {"x": a, "w": a}


def test_a109_r30_second_call_on_one_executable_raises_and_clones_run() -> None:
    g, feed = _long_graph(20_000)
    e = rlx.compile(g, rlx.CompileOptions(threads=1))
    started, errors, results = threading.Event(), [], []

    def first() -> None:
        started.set()
        results.append(e.run(feed)["y"])

    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    deadline = time.monotonic() + 10
    while not errors and thread.is_alive() and time.monotonic() < deadline:
        try:
            e.run(feed)
        except ExecutionError as error:
            errors.append(str(error))
    thread.join()
    assert errors
    assert "one call at a time" in errors[0]
    np.testing.assert_array_equal(e.run(feed)["y"], results[0])


def test_busy_wait_lets_calls_queue() -> None:
    g, feed = chain(n=3, size=64)
    e = rlx.compile(g, rlx.CompileOptions(busy="wait", threads=1))
    want = e.run(feed)["y"]
    bad = []

    def work() -> None:
        for _ in range(200):
            if not np.array_equal(e.run(feed)["y"], want):
                bad.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_eight_threads_on_clones() -> None:
    g, feed = chain(n=4, size=128)
    e = rlx.compile(g, rlx.CompileOptions(threads=2))
    want = e.run(feed)["y"]
    bad = []

    def work() -> None:
        mine = e.clone()
        for i in range(100):
            if not np.array_equal(mine.run(feed, threads=1 + i % 2)["y"], want):
                bad.append(i)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_cancel_from_another_thread_leaves_the_executable_usable() -> None:
    g, feed = _long_graph(2_000_000)
    e = rlx.compile(g, rlx.CompileOptions(threads=1))
    timer = threading.Timer(0.2, e.cancel)
    timer.start()
    start = time.monotonic()
    with pytest.raises(rlx.CancelledError):
        e.run(feed)
    assert time.monotonic() - start < 5
    small, feed2 = chain(n=1)
    rlx.compile(small).run(feed2)


def test_ctrl_c_stops_a_long_run() -> None:
    """In a process of its own: test runners may ignore the signal."""
    script = """
import os, signal, threading, time
import numpy as np, rlx
from rlx import ops
signal.signal(signal.SIGINT, signal.default_int_handler)
body = rlx.Graph("body")
body.input("i", (), rlx.i64)
s = body.input("s", (64, 64))
body.output("go", body.constant(np.asarray(True)))
body.output("s", ops.tanh(s @ s))
g = rlx.Graph("long")
out = ops.loop(g.constant(np.asarray(100_000_000)), None, g.input("x", (64, 64)), body=body, n_carried=1)
g.output("y", out[0])
e = rlx.compile(g, rlx.CompileOptions(threads=1))
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    e.run({"x": np.ones((64, 64), np.float32)})
except KeyboardInterrupt:
    print("interrupted")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "interrupted", result.stderr


def test_gil_is_released_during_a_run() -> None:
    g, feed = _long_graph(20_000)
    e = rlx.compile(g, rlx.CompileOptions(threads=1))
    count = 0
    done = threading.Event()

    def run() -> None:
        e.run(feed)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set():
        count += 1
        time.sleep(0.0005)
    thread.join()
    assert count > 5


def test_a110_fork_after_use_works_in_the_child() -> None:
    g, feed = chain(size=256)
    e = rlx.compile(g, rlx.CompileOptions(threads=2))
    want = e.run(feed)["y"]
    read, write = os.pipe()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        ok = b"0"
        try:
            ok = b"1" if np.array_equal(e.run(feed)["y"], want) else b"0"
        finally:
            os.write(write, ok)
            os._exit(0)
    signal.alarm(30)
    assert os.read(read, 1) == b"1"
    signal.alarm(0)
    os.waitpid(pid, 0)
    np.testing.assert_array_equal(e.run(feed)["y"], want)


def test_a116_import_and_run_leave_denormals_alone() -> None:
    tiny = np.float64(5e-324)
    g = rlx.Graph("denormal")
    x = g.input("x", (1,), rlx.f64)
    g.output("y", x / 1.0)
    assert rlx.compile(g).run({"x": np.array([tiny])})["y"][0] == tiny
    assert tiny / 1 == tiny


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_over_many_runs() -> None:
    g, feed = chain(n=2, size=64)
    e = rlx.compile(g)
    for _ in range(1000):
        e.run(feed)
    before = _rss()
    for _ in range(20_000):
        e.run(feed)
    assert _rss() - before < 2 << 20


def test_r88_chain_of_equal_ops_needs_at_most_two_scratch_slots() -> None:
    g = rlx.Graph("slots")
    v = g.input("x", (1000,))
    for _ in range(8):
        v = ops.exp(v)
    g.output("y", v)
    e = rlx.compile(g, rlx.CompileOptions(optimize=False, check=True))
    assert e.memory_report().arena <= 2 * 4096


def test_r6_every_output_of_a_chain_is_computed() -> None:
    g = rlx.Graph("both")
    a, b = g.input("a", (3,)), g.input("b", (3,))
    y = a + b
    g.output("y", y)
    g.output("z", y * 2)
    one = np.ones(3, np.float32)
    out = rlx.compile(g).run({"a": one, "b": one})
    np.testing.assert_array_equal(out["z"], [4, 4, 4])
    np.testing.assert_array_equal(out["y"], [2, 2, 2])


def test_a104_in_place_waits_for_other_readers() -> None:
    g = rlx.Graph("inplace")
    x = g.input("x", (64,))
    b = ops.relu(x)
    g.output("c", ops.neg(b))
    g.output("d", b * 3)
    v = np.linspace(-1, 1, 64, dtype=np.float32)
    for optimize in (True, False):
        out = rlx.compile(g, rlx.CompileOptions(optimize=optimize, check=True)).run({"x": v})
        np.testing.assert_array_equal(out["c"], -np.maximum(v, 0))
        np.testing.assert_array_equal(out["d"], np.maximum(v, 0) * np.float32(3))


def test_outputs_outlive_the_executable() -> None:
    g, feed = chain(n=1)
    e = rlx.compile(g)
    out = e.run(feed)["y"]
    want = out.copy()
    del e
    np.testing.assert_array_equal(out, want)


def test_loop_of_ten_thousand_steps_compiles_fast() -> None:
    start = time.perf_counter()
    g, feed = _long_graph(10_000)
    rlx.compile(g)
    assert time.perf_counter() - start < 0.5


def test_run_slots_takes_inputs_as_they_come_and_falls_back() -> None:
    """The short way (arrays that fit, nothing pending) and the long one give the same; views are read-only."""
    g = rlx.Graph("g")
    a, b = g.input("a", (3,), rlx.f32), g.input("b", (3,), rlx.f32)
    w = g.param("w", (3,), rlx.f32)
    g.output("y", a - b * w)
    exe = rlx.compile(g)
    exe.set_param("w", np.float32([1, 2, 3]))
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for give in ([x, y], (x, y), [x.tolist(), y], [x[::-1][::-1], y]) * 2:
        (found,) = exe.run_slots(give)
        assert found.tolist() == [-3, -8, -15] and not found.flags.writeable
    exe.set_param("w", np.float32([0, 0, 0]))  # pending: the long way
    assert exe.run_slots([x, y])[0].tolist() == [1, 2, 3]
    assert exe.run_slots([y, x])[0].tolist() == [4, 5, 6]
    for bad in ([x], [x, y, y], [x, y[:2]], [x.astype(np.float64), y], [x, None], "xy"):
        with pytest.raises(rlx.RlxError):
            exe.run_slots(bad)
    twin = exe.clone()
    twin.set_param("w", np.float32([1, 1, 1]))
    assert twin.run_slots([x, y])[0].tolist() == [-3, -3, -3]
    first = exe.run_slots([x, y])[0]
    assert exe.run_slots([first, y])[0].tolist() == [1, 2, 3]  # its own buffer as an input
    assert exe.run_slots([y, x])[0].tolist() == [4, 5, 6] and twin.run_slots([y, x])[0].tolist() == [3, 3, 3]


def test_run_slots_hands_out_the_same_views_unless_one_was_changed() -> None:
    g = rlx.Graph("g")
    g.output("y", ops.exp(g.input("x", (2, 3), rlx.f32)))
    exe = rlx.compile(g)
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    want = exe.run({"x": x})["y"]
    exe.run_slots([x])
    (first,), (second,) = exe.run_slots([x]), exe.run_slots([x])
    assert first is second and first.tobytes() == want.tobytes()
    first.shape = (6,)
    (third,) = exe.run_slots([x])
    assert third.shape == (2, 3) and third.tobytes() == want.tobytes()
    third.flags.writeable = True
    (fourth,) = exe.run_slots([x])
    assert not fourth.flags.writeable and fourth.tobytes() == want.tobytes()


def test_short_programs_keep_the_gil_and_others_release_it() -> None:
    """By estimate: one that is short, one that is long, one whose body runs any number of times."""

    def brief(n: int) -> bool:
        g = rlx.Graph("g")
        g.output("y", ops.exp(g.input("x", (n,), rlx.f32)))
        exe = rlx.compile(g)
        x = np.linspace(0, 1, n, dtype=np.float32)
        np.testing.assert_allclose(exe.run({"x": x})["y"], np.exp(x), rtol=1e-6)
        return bool(exe._variant.linked.brief)

    assert brief(16) and not brief(1 << 20)
    body = rlx.Graph("body")
    i, v = body.input("i", (), rlx.i64), body.input("v", (4,), rlx.f32)
    body.output("go", body.constant(np.array(True)))
    body.output("v", v + ops.cast(i, dtype=rlx.f32))
    g = rlx.Graph("g")
    x, trips = g.input("x", (4,), rlx.f32), g.input("n", (), rlx.i64)
    g.output("y", ops.loop(trips, None, x, body=body, n_carried=1)[0])
    exe = rlx.compile(g)
    assert exe.run({"x": np.zeros(4, np.float32), "n": np.array(4)})["y"].tolist() == [6, 6, 6, 6]
    assert not exe._variant.linked.brief


def test_calls_that_follow_one_another_meet_what_changed_between_them() -> None:
    g = rlx.Graph("g")
    x, w = g.input("x", (2, 3), rlx.f32), g.param("w", (3,), rlx.f32)
    g.output("y", x * w)
    exe = rlx.compile(g)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    exe.set_param("w", np.full(3, 2, np.float32))
    for call in (lambda: exe.run({"x": a})[0], lambda: exe.run_slots([a])[0]):
        for factor in (2, 5):
            exe.set_param("w", np.full(3, factor, np.float32))
            for _ in range(3):
                np.testing.assert_array_equal(call(), factor * a)
        with pytest.raises(rlx.BindingError):
            exe.run({"x": a[:, :2]})
        with pytest.raises(rlx.BindingError):
            exe.run({"x": a, "z": a})
        np.testing.assert_array_equal(call(), 5 * a)
    exe.trim()
    np.testing.assert_array_equal(exe.run_slots([a])[0], 5 * a)
    twin = exe.clone()
    exe.set_param("w", np.zeros(3, np.float32))
    np.testing.assert_array_equal(twin.run_slots([a])[0], 5 * a)
    np.testing.assert_array_equal(exe.run_slots([a])[0], 0 * a)


def test_calls_by_position_are_checked_for_nan_each_time() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (3,), rlx.f32)
    g.output("y", ops.log(x))
    exe = rlx.compile(g, rlx.CompileOptions(nan_check=True))
    for _ in range(3):
        exe.run_slots([np.ones(3, np.float32)])
    with pytest.raises(rlx.ExecutionError):
        exe.run_slots([-np.ones(3, np.float32)])
