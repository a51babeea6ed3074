"""A speed gate that a busy machine can run: rlx against NumPy, one thread each, alternated in one process.

Only ratios count. A case fails when rlx is slower than its bound in each of three
tries; a gate that measured nothing fails too.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import rlx
from rlx import ops
from rlx.runtime.report import table_text

Call = Callable[[], object]
ONE = rlx.CompileOptions(threads=1)


@dataclass(frozen=True)
class Case:
    """Two calls that do the same work, and the most that rlx may take, as a multiple of the other."""

    name: str
    ours: Call
    theirs: Call
    most: float


def alternate(ours: Call, theirs: Call, seconds: float = 0.3) -> tuple[float, float]:
    """Fastest time of each, measured in turns."""
    ours(), theirs()
    best = [math.inf, math.inf]
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for i, call in enumerate((ours, theirs)):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best[0], best[1]


def repeat(call: Call, n: int) -> Call:
    """`n` calls as one, for what is too short to time."""

    def many() -> None:
        for _ in range(n):
            call()

    return many


def run_cost() -> Case:
    """A whole run of a graph with one tiny op against one NumPy call."""
    g = rlx.Graph("tiny")
    g.output("y", ops.neg(g.input("x", (1,), rlx.f32)))
    exe, x = rlx.compile(g, ONE), np.ones(1, np.float32)
    feed = {"x": x}
    return Case("run() of one tiny op / np.negative", repeat(lambda: exe.run(feed), 100),
                repeat(lambda: np.negative(x), 100), 6.0)


def chain_cost() -> Case:
    """500 tiny ops that no pass can merge against 500 NumPy calls."""
    g = rlx.Graph("chain")
    v = g.input("x", (3, 5), rlx.f32)
    for _ in range(500):
        v = ops.transpose(v, perm=(1, 0)) * v.graph.constant(np.float32(1.001))
    g.output("y", v)
    exe, x = rlx.compile(g, rlx.CompileOptions(threads=1, optimize=False)), np.ones((3, 5), np.float32)
    factor = np.float32(1.001)

    def theirs() -> None:
        v = x
        for _ in range(500):
            v = np.ascontiguousarray(v.T) * factor

    return Case("500 tiny nodes / NumPy", lambda: exe.run({"x": x}), theirs, 0.5)


def elementwise() -> Case:
    """A fused chain over memory that does not fit the first cache."""
    g = rlx.Graph("ew")
    x, y = g.input("x", (1 << 17,), rlx.f32), g.input("y", (1 << 17,), rlx.f32)
    g.output("z", ops.tanh(x * y + x) - y)
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal(1 << 17, np.float32), "y": rng.standard_normal(1 << 17, np.float32)}
    exe = rlx.compile(g, ONE)
    a, b = feed["x"], feed["y"]
    return Case("tanh(x*y + x) - y, 128k f32 / NumPy", lambda: exe.run(feed), lambda: np.tanh(a * b + a) - b, 0.8)


def product() -> Case:
    """A matrix product by a weight, which rlx packs ahead."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((512, 512)).astype(np.float32)
    a = rng.standard_normal((256, 512)).astype(np.float32)
    g = rlx.Graph("product")
    g.output("y", g.input("a", a.shape, rlx.f32) @ g.constant(w))
    exe = rlx.compile(g, ONE)
    return Case("256x512 @ 512x512 f32 / BLAS", lambda: exe.run({"a": a}), lambda: a @ w, 1.6)


CASES: tuple[Callable[[], Case], ...] = (run_cost, chain_cost, elementwise, product)


def main() -> int:
    """Measure, print, judge."""
    rows, failed = [], []
    for make in CASES:
        case = make()
        ratios = []
        for _ in range(3):
            ours, theirs = alternate(case.ours, case.theirs)
            ratios.append(ours / theirs)
            if ratios[-1] <= case.most:
                break
        ratio = min(ratios)
        good = math.isfinite(ratio) and 0 < ratio <= case.most
        rows.append((case.name, f"{ours * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{ratio:.2f}", f"{case.most:.2f}",
                     "ok" if good else "TOO SLOW"))
        if not good:
            failed.append(case.name)
    print(table_text(("case", "rlx us", "other us", "ratio", "most", ""), rows, (1, 2, 3, 4)))
    if not rows:
        print("nothing was measured", file=sys.stderr)
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
