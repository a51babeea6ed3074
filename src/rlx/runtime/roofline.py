"""What the processor can do at most, measured, and how near to it every node of a run comes.

The peaks come from kernels that do nothing else: multiply-adds in registers, and reading memory of
several sizes, from the first cache to main memory. A node needs at least the longer of its
operations over the peak and its bytes over the bandwidth at the size of its operands; that time
over the measured one is its share of the roofline (Williams et al. 2009).
"""

import bisect
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx.ir.graph import Node
from rlx.records import record
from rlx.runtime.kernels import KernelTable
from rlx.runtime.link import one_call
from rlx.runtime.report import Profile, table_html, table_text
from rlx.runtime.weights import aligned
from rlx.runtime.work import Work, work_of

if TYPE_CHECKING:
    from rlx.compiler import Compiled

# Bytes at which reading is measured: within the caches, and far beyond them.
SIZES = (1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 26)
UNITS = {"f32": "Gflop/s", "f64": "Gflop/s", "i8": "Gop/s"}
PROBES = {"f32": ("probe.fma.f32", np.float32), "f64": ("probe.fma.f64", np.float64), "i8": ("probe.dot.i8", np.int8)}


class _NoFailure:
    """Probes report no failures."""

    def failed(self, status: int, *_: int) -> Exception:
        return RuntimeError(f"a probe failed with status {status}")


def _call(table: KernelTable, name: str, arrays: Sequence[Any], attrs: dict[str, int], extent: int) -> _interp.Executor:
    program = one_call(table.kernel(name), attrs, [(i, 0) for i in range(len(arrays))], len(arrays), extent=extent)
    made = _interp.Executor(program, [], [], _NoFailure(), 1)
    for i, array in enumerate(arrays):
        made.bind(i, array)
    return made


def _fastest(call: Callable[[], None], seconds: float) -> float:
    """Seconds of the fastest run."""
    best, stop = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > stop:
            return best


def arithmetic_probe(table: KernelTable, unit: str) -> tuple[Callable[[], None], float]:
    """A call that does multiply-adds in registers, and how many operations it does.

    Parameters
    ----------
    table : KernelTable
    unit : str
        `f32`, `f64` or `i8`.
    """
    name, dtype = PROBES[unit]
    terms = np.full(128, 1 if unit == "i8" else 0.5, dtype)
    out, done = np.zeros(64, np.int32 if unit == "i8" else dtype), np.zeros(1)
    call = _call(table, name, (terms, out, done), {}, 40)
    call.run_bound(1)
    return lambda: call.run_bound(1), float(done[0])


def read_probe(table: KernelTable, nbytes: int) -> tuple[Callable[[], None], float]:
    """A call that reads memory of about so many bytes, and how many it reads."""
    size = max(512, nbytes // 512 * 512)
    memory, result = aligned(size), np.zeros(8, np.uint64)
    memory[...] = 1
    passes = max(1, (1 << 20) // size)
    call = _call(table, "probe.read", (memory, result), {"bytes": size}, passes)
    return lambda: call.run_bound(1), float(size * passes)


@record(frozen=True)
class Machine:
    """Peaks of one processor.

    Attributes
    ----------
    level : str
        ISA level that the figures hold for.
    peak : dict of str to float
        Operations per nanosecond by unit: `f32`, `f64`, `i8`.
    bandwidth : tuple of (bytes, bytes per nanosecond)
        By the size of what is read, ascending.
    threads : int
        How many processors the figures are taken times.
    """

    level: str
    peak: dict[str, float]
    bandwidth: tuple[tuple[int, float], ...]
    threads: int = 1

    def read_rate(self, nbytes: float) -> float:
        """Bytes per nanosecond of reading that many bytes; the next larger size that was measured counts."""
        at = bisect.bisect_left([size for size, _ in self.bandwidth], nbytes)
        rate = self.bandwidth[min(at, len(self.bandwidth) - 1)][1]
        return rate * (self.threads if nbytes <= SIZES[3] else 1)

    def least(self, work: Work) -> tuple[float, str]:
        """Nanoseconds that work takes at least, and what bounds it: `compute` or `memory`."""
        compute = work.flops / (self.peak[work.unit] * self.threads)
        memory = work.nbytes / self.read_rate(work.nbytes)
        return (compute, "compute") if compute >= memory else (memory, "memory")

    def __str__(self) -> str:
        peaks = ", ".join(f"{unit} {rate:.0f} {UNITS[unit]}" for unit, rate in self.peak.items())
        reads = ", ".join(f"{size >> 10} KiB {rate:.0f}" for size, rate in self.bandwidth)
        many = f", times {self.threads} threads" if self.threads > 1 else ""
        return f"peak of one processor on {self.level}: {peaks}{many}\nreading, GB/s by size: {reads}"


def measure_machine(table: KernelTable, threads: int = 1, seconds: float = 0.01) -> Machine:
    """Measure the peaks, each for so many seconds.

    Parameters
    ----------
    table : KernelTable
        Kernels of the level to measure.
    threads : int
        Processors that the figures are taken times: all have the same.
    seconds : float
        Per figure; there are ten.
    """
    peak = {}
    for unit in PROBES:
        call, operations = arithmetic_probe(table, unit)
        peak[unit] = operations / (_fastest(call, seconds) * 1e9)
    rates = []
    for size in SIZES:
        call, nbytes = read_probe(table, size)
        rates.append((size, nbytes / (_fastest(call, seconds) * 1e9)))
    # What fits a nearer level is never slower than what does not.
    for i in range(len(rates) - 2, -1, -1):
        rates[i] = (rates[i][0], max(rates[i][1], rates[i + 1][1]))
    return Machine(table.level, peak, tuple(rates), threads)


@record(frozen=True)
class NodeTime:
    """What one node costs and what it could cost.

    Attributes
    ----------
    node, op : str
    kernels : tuple of str
        What it calls, each once.
    nanoseconds : float
        Of all its calls.
    work : Work, optional
        None when neither operations nor bytes bound it.
    least : float
        Nanoseconds at the roofline; 0 without work.
    bound : str
        `compute`, `memory` or nothing.
    """

    node: str
    op: str
    kernels: tuple[str, ...]
    nanoseconds: float
    work: Work | None
    least: float
    bound: str

    @property
    def share(self) -> float | None:
        """Share of the roofline."""
        return self.least / self.nanoseconds if self.work is not None and self.nanoseconds > 0 else None

    @property
    def rate(self) -> str:
        """Operations or bytes per second, whichever bounds the node."""
        if self.work is None or self.nanoseconds <= 0:
            return ""
        if self.bound == "compute":
            return f"{self.work.flops / self.nanoseconds:.1f} {UNITS[self.work.unit]}"
        return f"{self.work.nbytes / self.nanoseconds:.1f} GB/s"


@record(frozen=True)
class Roofline:
    """Nodes of a run, dearest first, against the machine's peaks."""

    machine: Machine
    rows: list[NodeTime]

    @property
    def total(self) -> float:
        """Nanoseconds of all nodes."""
        return sum(r.nanoseconds for r in self.rows)

    @property
    def saved(self) -> float:
        """Nanoseconds that nodes with a bound take beyond it."""
        return sum(max(0.0, r.nanoseconds - r.least) for r in self.rows if r.work is not None)

    def table(self, most: int | None = None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows as text; what is beyond `most` rows is one row."""
        total = max(self.total, 1e-9)
        rows: list[tuple[str, ...]] = []
        for r in self.rows[:most]:
            share = r.share
            name = r.node if most is None else "/".join(r.node.split("/")[-2:])
            rows.append((r.op, name, " ".join(r.kernels), f"{r.nanoseconds / 1e3:.1f}",
                         f"{100 * r.nanoseconds / total:.1f} %", r.rate, r.bound,
                         "" if share is None else f"{100 * share:.0f} %"))
        rest = self.rows[most:] if most is not None else []
        if rest:
            spent = sum(r.nanoseconds for r in rest)
            share_of_rest = f"{100 * spent / total:.1f} %"
            rows.append((f"{len(rest)} others", "", "", f"{spent / 1e3:.1f}", share_of_rest, "", "", ""))
        return ("op", "node", "kernel", "us", "share", "rate", "bound", "of roofline"), rows

    def text(self, most: int | None = None) -> str:
        """A table of the dearest nodes."""
        header, rows = self.table(most)
        left = 100 * self.saved / max(self.total, 1e-9)
        note = f"above the roofline: {left:.0f} % of the time"
        return f"{table_text(header, rows, (3, 4, 5, 7))}\n\n{self.machine}\n{note}"

    def __str__(self) -> str:
        return self.text(25)

    def _repr_html_(self) -> str:
        return table_html(*self.table())


def roofline(machine: Machine, compiled: Sequence["Compiled"], profile: Profile) -> Roofline:
    """Hold a profile against the peaks.

    Parameters
    ----------
    machine : Machine
    compiled : sequence of Compiled
        What the run goes through, in order; its programs make the rows of the profile.
    profile : Profile
    """
    rows: list[NodeTime] = []
    at = 0
    for part in compiled:
        nodes: dict[str, Node] = {n.name: n for n in part.graph.nodes}
        spent: dict[int, float] = {}
        kernels: dict[int, dict[str, None]] = {}
        for call in part.program.calls:
            spent[call.node] = spent.get(call.node, 0.0) + profile.rows[at].nanoseconds
            kernels.setdefault(call.node, {})[call.kernel] = None
            at += 1
        for index, nanoseconds in spent.items():
            info = part.program.nodes[index]
            node = nodes.get(info.name)
            work = work_of(node) if node is not None else None
            least, bound = machine.least(work) if work is not None else (0.0, "")
            rows.append(NodeTime(info.name, info.op, tuple(kernels[index]), nanoseconds, work, least, bound))
    rows.sort(key=lambda r: -r.nanoseconds)
    return Roofline(machine, rows)
