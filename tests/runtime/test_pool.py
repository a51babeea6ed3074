"""The thread pool beside other people's threads: same bits, nobody's processors changed, nothing hangs."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import rlx
from rlx import ops

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processor masks are Linux's")


def network() -> rlx.Graph:
    g = rlx.Graph("mlp")
    x = g.input("x", (96, 256), rlx.f32)
    rng = np.random.default_rng(0)
    for i in range(6):
        w = g.constant(rng.standard_normal((256, 256), np.float32) / 16)
        x = ops.softmax(ops.tanh(x @ w), axis=1) * 256 if i % 2 else ops.tanh(x @ w)
    g.output("y", x)
    return g


def masks(workers: bool) -> dict[int, set[int]]:
    """Processors of the pool's threads, or of all others."""
    found = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if ((task / "comm").read_text().strip() == "rlx worker") == workers:
                found[int(task.name)] = os.sched_getaffinity(int(task.name))
    return found


@pytest.fixture
def spinners():
    """As many busy processes as processors: every thread of ours loses its own again and again."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    yield
    for p in busy:
        p.kill()
        p.wait()


def test_same_bits_and_masks_beside_busy_processes(spinners):
    exe = rlx.compile(network(), rlx.CompileOptions(threads=4))
    x = np.random.default_rng(1).standard_normal((96, 256), np.float32)
    want = exe.run({"x": x}, threads=1)["y"]
    before, others = os.sched_getaffinity(0), masks(workers=False)
    for i in range(300):
        np.testing.assert_array_equal(exe.run({"x": x}, threads=2 + i % 3)["y"], want)
        assert os.sched_getaffinity(0) == before
    # A worker may still hold a processor it was given; it takes its mask back when it next runs. But for the
    # processor of the caller it may use all.
    exe.run({"x": x}, threads=4)

    def settled() -> bool:
        return all(mask <= before and len(mask) >= max(1, len(before) - 1) for mask in masks(workers=True).values())

    for _ in range(200):
        if settled():
            break
        threading.Event().wait(0.01)
    assert settled() and masks(workers=True)
    now = masks(workers=False)
    assert {tid: now[tid] for tid in others if tid in now} == {tid: others[tid] for tid in others if tid in now}


def test_a_short_program_settles_on_what_is_fastest():
    exe = rlx.compile(network(), rlx.CompileOptions(threads=2))
    x = np.random.default_rng(1).standard_normal((96, 256), np.float32)
    want = exe.run({"x": x}, threads=1)["y"]
    program = exe._variant.linked
    assert program.parallel and program.choice == -1
    chosen = []
    for _ in range(1200):  # long enough for a second trial
        np.testing.assert_array_equal(exe.run({"x": x}, threads=2)["y"], want)
        chosen.append(program.choice)
    settled = [a for a, b in zip(chosen, chosen[1:], strict=False) if a == -1 and b != -1]
    assert len(settled) == 2 and set(chosen) <= {-1, 0, 1, 2}
    assert chosen[:19] == [-1] * 19 and chosen.count(-1) < 60 + 2 * 200  # runs without workers do not count


def test_one_processor_and_four_threads():
    code = (
        "import os, numpy as np, rlx; from rlx import ops\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "g = rlx.Graph('g'); x = g.input('x', (4096, 64), rlx.f32); g.output('y', ops.exp(ops.sin(x)))\n"
        "exe = rlx.compile(g, rlx.CompileOptions(threads=4)); a = np.ones((4096, 64), np.float32)\n"
        "want = exe.run({'x': a}, threads=1)['y']\n"
        "for _ in range(300): assert (exe.run({'x': a}, threads=4)['y'] == want).all()\n"
        "assert len(os.sched_getaffinity(0)) == 1\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_other_executables_meanwhile_run_alone_and_right(spinners):
    exe = rlx.compile(network(), rlx.CompileOptions(threads=2))
    x = np.random.default_rng(1).standard_normal((96, 256), np.float32)
    want = exe.run({"x": x}, threads=1)["y"]
    wrong = []

    def work(clone):
        for _ in range(60):
            if not np.array_equal(clone.run({"x": x}, threads=2)["y"], want):
                wrong.append(clone)

    threads = [threading.Thread(target=work, args=(exe.clone(),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_failing_kernel_is_reported_once_from_any_thread(spinners):
    g = rlx.Graph("g")
    a, b = g.input("a", (1 << 18,), rlx.i32), g.input("b", (1 << 18,), rlx.i32)
    g.output("y", a // b)
    exe = rlx.compile(g, rlx.CompileOptions(threads=3))
    x, y = np.full(1 << 18, 7, np.int32), np.full(1 << 18, 2, np.int32)
    bad = y.copy()
    bad[200_001] = 0
    for _ in range(20):
        with pytest.raises(rlx.ExecutionError):
            exe.run({"a": x, "b": bad}, threads=3)
        assert (exe.run({"a": x, "b": y}, threads=3)["y"] == 3).all()
