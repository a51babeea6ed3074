"""What a person sees: signature, passes and kernels, memory, profile."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _pages
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.lower.program import BodyRef
from rlx.passes.stored import kept_wide
from rlx.records import field, record

if TYPE_CHECKING:
    from rlx.compiler import Compiled
    from rlx.lower.program import NodeInfo, Program
    from rlx.runtime.extent import ExtentReport
    from rlx.runtime.staged import Staged
    from rlx.runtime.variant import Variant


@record(frozen=True)
class Signature:
    """Names and types of inputs, parameters and outputs, in order."""

    inputs: dict[str, TensorType]
    params: dict[str, TensorType]
    outputs: dict[str, TensorType]

    @staticmethod
    def of(graph: Graph) -> "Signature":
        """Signature of a graph."""
        return Signature(
            {v.node.name: v.type for v in graph.inputs},
            {v.node.name: v.type for v in graph.params},
            {name: v.type for name, v in graph.outputs.items()},
        )

    def _repr_html_(self) -> str:
        parts = (("input", self.inputs), ("parameter", self.params), ("output", self.outputs))
        return table_html(("", "name", "type"), [(what, k, str(t)) for what, types in parts for k, t in types.items()])

    def __str__(self) -> str:
        ins = ", ".join(f"{k}: {t}" for k, t in self.inputs.items())
        outs = ", ".join(f"{k}: {t}" for k, t in self.outputs.items())
        return f"({ins}) -> ({outs})"


def human(n: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} GiB"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A plain text table."""
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            str(c).rjust(w) if i in right else str(c).ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()

    return "\n".join([line(header), line(["-" * w for w in widths]), *map(line, rows)])


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table for notebooks."""
    import html

    head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in r) + "</tr>" for r in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@record(frozen=True)
class CustomCall:
    """A node that runs through the kernel of a registered op."""

    node: str
    op: str
    how: str

    def __str__(self) -> str:
        return f"node {self.node!r} ({self.op}) runs {self.how}"


def custom_calls(program: "Program", nodes: "Sequence[NodeInfo]") -> Iterator[CustomCall]:
    """Calls of registered ops, those inside bodies too."""
    for call in program.calls:
        if call.kernel in ("custom.host", "custom.native"):
            how = "in Python, with the GIL" if call.kernel == "custom.host" else "a C function"
            yield CustomCall(nodes[call.node].name, nodes[call.node].op, how)
        for value in call.attrs.values():
            if isinstance(value, BodyRef):
                yield from custom_calls(value.program, nodes)


PASS_COLUMNS = ("pass", "nodes before", "after", "ms", "ops that came and went")


@record(frozen=True)
class Explanation:
    """Passes that ran, what they changed, and kernels that a run calls. Printed are passes that changed something."""

    graph: str
    level: str
    passes: list[tuple[str, int, int, float]]
    kernels: dict[str, int]
    changes: dict[str, str]
    custom: "tuple[CustomCall, ...]" = ()
    extents: "tuple[ExtentReport, ...]" = ()
    options: Mapping[str, str] = field(default_factory=dict)
    wide: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def _pass_rows(self) -> list[tuple[str, ...]]:
        return [(n, str(b), str(a), f"{s * 1e3:.2f}", self.changes[n] or "rewritten") for n, b, a, s in self.passes
                if n in self.changes]

    def __str__(self) -> str:
        passes = table_text(PASS_COLUMNS, self._pass_rows(), (1, 2, 3))
        kernels = table_text(("kernel", "calls"), [(k, str(c)) for k, c in self.kernels.items()], (1,))
        extents = "".join(f"\n{report}" for report in self.extents)
        custom = "".join(f"\n{call}" for call in self.custom)
        options = "".join(f"\noption {name} = {text}" for name, text in self.options.items())
        options += "".join(f"\n{n} weight{'s' if n > 1 else ''} of {what} ({human(size)}) stored in f32"
                           for what, (n, size) in self.wide.items())
        return f"graph {self.graph!r} on {self.level}{options}{extents}{custom}\n\n{passes}\n\n{kernels}"

    def _repr_html_(self) -> str:
        return table_html(PASS_COLUMNS, self._pass_rows()) + table_html(
            ("kernel", "calls"), [(k, str(c)) for k, c in self.kernels.items()])


def explain(
    compiled: "Compiled", extents: "tuple[ExtentReport, ...]" = (), options: Mapping[str, str] | None = None,
    halves: bool = False,
) -> Explanation:
    """Explanation of a compiled graph; `options` are those that are not at their built-in defaults.

    With `halves`, weights were asked to be stored in half precision: those that are not are listed.
    """
    count = Counter(c.kernel for c in compiled.program.calls)
    return Explanation(compiled.graph.name, compiled.table.level,
                       [(r.name, r.before, r.after, r.seconds) for r in compiled.records],
                       dict(count.most_common()), {r.name: r.change for r in compiled.records if r.changed},
                       tuple(custom_calls(compiled.program, compiled.program.nodes)), extents, options or {},
                       kept_wide(compiled.graph) if halves else {})


@record(frozen=True)
class MemoryReport:
    """Bytes held by an executable.

    Attributes
    ----------
    weights : int
        Constants, parameters and packed forms, each array once.
    arena : int
        Scratch of all compiled shapes.
    bound : int
        Most scratch bytes alive at once: no plan can be smaller.
    unshared : int
        Scratch if no two values shared memory.
    variants : int
        Shapes and extents that have been compiled.
    resident : int
        Scratch that is in memory now: none before the first run and after `trim()`. Whole pages count.
    """

    graph: str
    weights: int
    arena: int
    bound: int
    unshared: int
    variants: int
    resident: int = field(default=0, compare=False)

    def __str__(self) -> str:
        rows = [("weights", human(self.weights)), ("arena", human(self.arena)),
                ("arena in memory now", human(self.resident)),
                ("arena, lower bound", human(self.bound)), ("arena without sharing", human(self.unshared)),
                ("compiled shapes", str(self.variants))]
        return f"memory of {self.graph!r}\n" + table_text(("what", "size"), rows, (1,))

    def _repr_html_(self) -> str:
        return table_html(("what", "size"), [("weights", human(self.weights)), ("arena", human(self.arena)),
                                             ("arena, lower bound", human(self.bound))])


def stages_of(variant: "Variant | Staged") -> list["Variant"]:
    """The compiled programs behind a variant."""
    from rlx.runtime.staged import Staged

    if isinstance(variant, Staged):
        return [s for v in (variant.first, *variant.later.values()) for s in stages_of(v)]
    return [variant]


def memory_of(name: str, variants: Sequence["Variant | Staged"]) -> MemoryReport:
    """Memory of all variants; shared weight arrays count once."""
    seen: dict[int, int] = {}
    arenas: dict[int, int] = {}
    bound = unshared = 0
    for variant in (s for v in variants for s in stages_of(v)):
        program = variant.compiled.program
        at = variant.scratch.ctypes.data
        arenas[at] = max(arenas.get(at, 0), program.arena_bytes)
        bound += program.live_bound
        unshared += sum(b.nbytes for b in program.buffers if b.kind == "scratch")
        for i in range(len(program.weights)):
            array = variant.executor.bound(program.weight_slot(i))
            if array is not None:
                seen[array.ctypes.data] = array.nbytes
    held = {v.scratch.ctypes.data: v.scratch for item in variants for v in stages_of(item)}
    return MemoryReport(name, sum(seen.values()), sum(arenas.values()), bound, unshared, len(variants),
                        sum(_pages.resident(a) for a in held.values()))


@record(frozen=True)
class ProfileRow:
    """One kernel call: mean nanoseconds and where it comes from.

    Attributes
    ----------
    live : int
        Bytes of scratch that are in use during the call.
    """

    kernel: str
    node: str
    op: str
    nanoseconds: float
    live: int = 0


@record(frozen=True)
class Profile:
    """Time per kernel call of a run."""

    rows: list[ProfileRow]

    @staticmethod
    def of(compiled: "Compiled", spent: Any) -> "Profile":
        """Profile from nanoseconds per call."""
        from rlx.lower.memory import live_bytes

        program = compiled.program
        return Profile([
            ProfileRow(c.kernel, program.nodes[c.node].name, program.nodes[c.node].op, float(t), live)
            for c, t, live in zip(program.calls, np.asarray(spent), live_bytes(program), strict=True)
        ])

    def to_chrome_trace(self, path: Any) -> None:
        """Write the calls in their order as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Each call is as long as it was on average; scratch in use is a counter beside them.

        Parameters
        ----------
        path : path
            Of a JSON file.
        """
        from rlx.runtime.trace import write_trace

        write_trace(self, path)

    @property
    def total(self) -> float:
        """Nanoseconds of all calls."""
        return sum(r.nanoseconds for r in self.rows)

    def by_kernel(self) -> list[tuple[str, int, float]]:
        """(kernel, calls, nanoseconds), dearest first."""
        sums: dict[str, list[float]] = {}
        for r in self.rows:
            sums.setdefault(r.kernel, []).append(r.nanoseconds)
        return sorted(((k, len(v), sum(v)) for k, v in sums.items()), key=lambda x: -x[2])

    def __str__(self) -> str:
        total = max(self.total, 1e-9)
        rows = [(k, str(n), f"{t / 1e3:.1f}", f"{100 * t / total:.1f} %") for k, n, t in self.by_kernel()]
        return table_text(("kernel", "calls", "us", "share"), rows, (1, 2, 3))

    def _repr_html_(self) -> str:
        total = max(self.total, 1e-9)
        return table_html(("kernel", "calls", "us", "share"),
                          [(k, str(n), f"{t / 1e3:.1f}", f"{100 * t / total:.1f} %") for k, n, t in self.by_kernel()])
