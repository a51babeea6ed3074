"""Which kernel does each node's work and why: the dispatch report."""

from typing import TYPE_CHECKING

from rlx import costs
from rlx.records import record
from rlx.runtime.report import table_html, table_text

if TYPE_CHECKING:
    from rlx.compiler import Compiled

COLUMNS = ("node", "op", "kernel", "items", "estimate", "threads", "memory")


@record(frozen=True)
class DispatchRow:
    """One kernel call.

    Attributes
    ----------
    items : int
        Of its range; what threads may share.
    nanoseconds : int
        Estimated, on one thread.
    threads : str
        Whether threads share it, and why not.
    memory : str
        Where the first result goes: `scratch`, `output`, `in place` (over an operand that dies).
    """

    node: str
    op: str
    kernel: str
    items: int
    nanoseconds: int
    threads: str
    memory: str


@record(frozen=True)
class DispatchReport:
    """The kernel calls of a program in their order."""

    graph: str
    level: str
    rows: list[DispatchRow]

    @staticmethod
    def of(compiled: "Compiled") -> "DispatchReport":
        """The report of a compiled graph."""
        program = compiled.program
        least = int(costs.of(compiled.table.level).split_ns)  # what is worth a hand-over to another thread
        rows = []
        for call in program.calls:
            info = program.nodes[call.node]
            if not call.grain:
                threads = "one: a call that is not split"
            elif call.cost <= least * call.phases:
                threads = f"one: less than {least / 1e3:g} us a part"
            else:
                threads = f"shared, {call.grain} items at least"
            written = next((a for a in call.args if a is not None and a.role == "w"), None)
            memory = "-" if written is None else written.operand.buffer.kind
            places = [(a.operand.buffer.slot, a.operand.buffer.offset + a.operand.offset) for a in call.args
                      if a is not None and a.role == "r"]
            if written is not None and written.operand.buffer.kind != "weight" and (
                written.operand.buffer.slot, written.operand.buffer.offset + written.operand.offset) in places:
                memory = "in place"
            rows.append(DispatchRow(info.name, info.op, call.kernel, call.extent, call.cost, threads, memory))
        return DispatchReport(compiled.graph.name, compiled.table.level, rows)

    def _cells(self) -> list[tuple[str, ...]]:
        return [(r.node, r.op, r.kernel, str(r.items), f"{r.nanoseconds / 1e3:.1f} us", r.threads, r.memory)
                for r in self.rows]

    def __str__(self) -> str:
        return f"graph {self.graph!r} on {self.level}\n\n" + table_text(COLUMNS, self._cells(), (3, 4))

    def _repr_html_(self) -> str:
        return table_html(COLUMNS, self._cells())
