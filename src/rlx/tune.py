"""Measure the figures of the cost model on this machine. Behind `rlx tune`.

Rates are read off a kernel that does the work. A threshold is chosen by running small graphs compiled with
each of a few values, in turns: the value whose runs are fastest in the mean wins, and the default stays
unless another is faster by more than the noise.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

import rlx
from rlx import costs, ops
from rlx.costs import Costs
from rlx.records import record, replace
from rlx.runtime import kernels
from rlx.runtime.roofline import measure_machine

Call = Callable[[], object]
# The least that a figure may be: everything is split.
LIMIT_NS = costs.LIMITS["split_ns"][0]
# A value must be faster by this share than the default to take its place.
GAIN = 0.02


@record(frozen=True)
class Found:
    """One figure: what it was, what it is, and what was measured for it."""

    name: str
    before: float
    after: float
    note: str


def product(m: int, n: int, k: int, dtype: rlx.DType = rlx.f32) -> tuple[rlx.Graph, dict[str, object]]:
    """A graph of one product by a weight, and its inputs."""
    g = rlx.Graph("product")
    draw = np.random.default_rng(0)
    if dtype == rlx.f32:
        w = draw.standard_normal((k, n)).astype(np.float32)
        g.output("y", g.input("a", (m, k), rlx.f32) @ g.constant(w))
        return g, {"a": draw.standard_normal((m, k)).astype(np.float32)}
    w8 = draw.integers(-127, 128, (k, n)).astype(np.int8)
    g.output("y", ops.matmul_integer(g.input("a", (m, k), rlx.u8), g.constant(w8)))
    return g, {"a": draw.integers(0, 256, (m, k)).astype(np.uint8)}


def convolution(channels: int, size: int) -> tuple[rlx.Graph, dict[str, object]]:
    """Two 3x3 convolutions, one behind the other, so that layouts settle between them."""
    g = rlx.Graph("convolution")
    draw = np.random.default_rng(0)
    x = g.input("x", (1, channels, size, size), rlx.f32)
    y = x
    for _ in range(2):
        w = (draw.standard_normal((channels, channels, 3, 3)) / (3 * math.sqrt(channels))).astype(np.float32)
        y = ops.relu(ops.conv(y, g.constant(w), pads=(1, 1, 1, 1)))
    g.output("y", y)
    return g, {"x": draw.standard_normal((1, channels, size, size)).astype(np.float32)}


def chain(n: int) -> tuple[rlx.Graph, dict[str, object]]:
    """An elementwise chain over n numbers."""
    g = rlx.Graph("chain")
    x = g.input("x", (n,), rlx.f32)
    g.output("y", ops.tanh(x * x + x))
    return g, {"x": np.linspace(-2, 2, n, dtype=np.float32)}


def compiled(graph: rlx.Graph, feeds: dict[str, object], threads: int = 1, level: str | None = None) -> Call:
    """A run of a graph."""
    exe = rlx.compile(graph, rlx.CompileOptions(threads=threads, isa=level))
    exe.run(feeds)
    return lambda: exe.run(feeds)


def alternate(calls: Sequence[Call], seconds: float) -> list[float]:
    """Median seconds of each call, run in turns."""
    samples: list[list[float]] = [[] for _ in calls]
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(samples[0]) < 5:
        for call, kept in zip(calls, samples, strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return [statistics.median(s) for s in samples]


def choose(
    level: str, name: str, values: Sequence[float], graphs: Sequence[tuple[rlx.Graph, dict[str, object]]],
    seconds: float, also: Callable[[float], dict[str, float]] = lambda _: {},
) -> tuple[float, str]:
    """The value of a figure whose graphs run fastest in the mean, and what was measured."""
    default = getattr(costs.of(level), name)
    tried = [default, *(v for v in values if v != default)]
    scores = [0.0] * len(tried)
    for graph, feeds in graphs:
        calls = []
        for value in tried:
            with costs.using(level, **{name: value, **also(value)}):
                calls.append(compiled(graph, feeds, 1, level))
        times = alternate(calls, seconds)
        for i, t in enumerate(times):
            scores[i] += math.log(t / times[0]) / len(graphs)
    best = min(range(len(tried)), key=lambda i: scores[i])
    if scores[best] > math.log(1 - GAIN):
        best = 0
    note = ", ".join(f"{v:g}: {math.exp(s):.3f}" for v, s in zip(tried, scores, strict=True))
    return tried[best], f"time by value, default 1: {note}"


def winograd_channels(level: str, seconds: float) -> tuple[float, str]:
    """The fewest channels from which transforms win, of a few."""
    notes = []
    wins: dict[int, bool] = {}
    for channels in (16, 32, 48, 64):
        calls = []
        for limit in (4.0, 4096.0):  # always, never
            with ExitStack() as stack:
                stack.enter_context(costs.using(level, winograd_channels=limit, winograd_products=16.0))
                stack.enter_context(costs.using(costs.level_here(), winograd_channels=limit, winograd_products=16.0))
                calls.append(compiled(*convolution(channels, 28), 1, level))
        with_, without = alternate(calls, seconds)
        wins[channels] = with_ < without * (1 - GAIN)
        notes.append(f"{channels}: {with_ / without:.3f}")
    winners = [c for c in wins if all(wins[d] for d in wins if d >= c)]
    least = float(min(winners)) if winners else 128.0
    return least, f"time with over without transforms, by channels: {', '.join(notes)}"


def split_ns(level: str, seconds: float) -> tuple[float, str]:
    """The estimated work from which a second thread pays, on an elementwise chain."""
    if rlx.options.available_cpus() < 2:
        return costs.of(level).split_ns, "one processor: nothing to measure"
    notes, found = [], None
    for n in (4096, 8192, 16384, 32768, 65536, 131072):
        graph, feeds = chain(n)
        with costs.using(level, split_ns=LIMIT_NS):
            exe = rlx.compile(graph, rlx.CompileOptions(threads=2, isa=level))
            estimate = max(c.cost for c in exe._any_variant().compiled.program.calls)
            exe.run(feeds)
            first, second = alternate([partial(exe.run, feeds, threads=t) for t in (1, 2)], seconds)
        notes.append(f"{estimate / 1e3:.0f} us: {second / first:.2f}")
        if second < first * (1 - 2 * GAIN):
            found = found if found is not None else estimate
        else:
            found = None
    return float(found or costs.LIMITS["split_ns"][1] / 100), f"time of 2 threads over 1, by work: {', '.join(notes)}"


def measure(level: str, seconds: float = 0.2) -> Iterator[Found]:
    """Every figure of an ISA level, one after another.

    Parameters
    ----------
    level : str
    seconds : float
        For each comparison; there are about thirty.
    """
    before = costs.of(level)

    def found(name: str, after: float, note: str) -> Found:
        low, high = costs.LIMITS[name]
        after = min(max(after, low), high)
        return Found(name, getattr(before, name), after if after == int(after) else float(f"{after:.4g}"), note)

    graph, feeds = product(384, 384, 384)
    fastest = _fastest(compiled(graph, feeds, 1, level), seconds)
    yield found("flops", 2 * 384**3 / fastest / 1e9, "384 x 384 x 384, f32")
    graph, feeds = product(384, 384, 384, rlx.i8)
    fastest = _fastest(compiled(graph, feeds, 1, level), seconds)
    yield found("macs_i8", 384**3 / fastest / 1e9, "384 x 384 x 384, u8 by i8")
    machine = measure_machine(kernels.table(level), seconds=seconds / 4)
    yield found("read", machine.read_rate(4 << 20), "reading 4 MiB again and again")
    graph, feeds = _copy(1 << 20)
    fastest = _fastest(compiled(graph, feeds, 1, level), seconds)
    yield found("copy", fastest * 1e9 / (1 << 20) / 2, "half of transposing 1 MiB of f32")
    wide = [product(m, n, k) for m, n, k in ((256, 1024, 1024), (128, 3072, 768), (512, 512, 2048))]
    sizes = [k * 1024.0 for k in (256, 384, 512, 768, 1024)]
    yield found("l2_block", *choose(level, "l2_block", sizes, wide, seconds))
    yield found("split_ns", *split_ns(level, seconds))
    channels, note = winograd_channels(level, seconds)
    yield found("winograd_channels", channels, note)
    yield found("winograd_products", channels * channels, "the square of the channels")


def _copy(nbytes: int) -> tuple[rlx.Graph, dict[str, object]]:
    side = math.isqrt(nbytes // 4)
    g = rlx.Graph("copy")
    g.output("y", ops.transpose(g.input("x", (side, side), rlx.f32), perm=(1, 0)))
    return g, {"x": np.ones((side, side), np.float32)}


def _fastest(call: Call, seconds: float) -> float:
    best, stop = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < stop or best == math.inf:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def applied(level: str, figures: Sequence[Found]) -> Costs:
    """The level's costs with what was found."""
    return replace(costs.of(level), **{f.name: f.after for f in figures})
