"""Graph -> Variant: the one pipeline that every entry point runs."""

import math

from rlx.dtypes import DType
from rlx.errors import LegalizeError, SizeError
from rlx.ir.graph import CONSTANT, Graph
from rlx.ir.opdef import Array
from rlx.ir.verify import verify
from rlx.lower import memory
from rlx.lower.context import Context
from rlx.lower.program import Program
from rlx.options import CompileOptions, default_threads, machine_bytes
from rlx.passes import Evaluate, PassManager, PassRecord
from rlx.records import record
from rlx.runtime import kernels
from rlx.runtime.kernels import KernelTable
from rlx.runtime.variant import run_once

# Constants up to this size stay readable in the compiled graph.
KEPT_BYTES = 1024


@record(eq=False)
class Compiled:
    """A graph whose sizes are numbers, lowered and planned.

    `owned` tells whether the graph was made by passes; else it is the caller's own.
    `shared` tells whether others compile from it too: its constants then stay.
    """

    graph: Graph
    program: Program
    records: tuple[PassRecord, ...]
    table: KernelTable
    owned: bool = True
    shared: bool = False

    def release(self) -> None:
        """Let go of the graph's constants: the program holds those that are yet to be bound or packed."""
        if self.owned and not self.shared:
            self.graph.release(KEPT_BYTES)


def legalise(graph: Graph, backend: str = "cpu") -> None:
    """Check every op and element type against the table.

    Raises
    ------
    LegalizeError
        Lists all offenders, not the first.
    """
    bad: list[str] = []
    _collect_illegal(graph, bad)
    if bad:
        raise LegalizeError(
            f"backend {backend!r} cannot run {len(bad)} node(s) of graph {graph.name!r}:\n" + "\n".join(bad)
        )


def _collect_illegal(graph: Graph, bad: list[str]) -> None:
    most = machine_bytes()
    few = most // 16  # elements of any type that fit
    for node in graph.nodes:
        op = node.op
        for v in node.outputs:
            kind = v.type
            n: int = math.prod(kind.shape) if kind.is_static else 0  # type: ignore[arg-type]
            if (type(n) is not int or n > few) and kind.dtype.itemsize * n > most:
                raise SizeError(f"{node.place}: a value must fit this machine's {most:,} bytes, got {kind}")
        if op is CONSTANT:
            continue
        for body in node.attrs.values():
            if isinstance(body, Graph):
                _collect_illegal(body, bad)
        if op.internal or "leaf" in op.traits or "control" in op.traits:
            continue
        first: DType | None = next((v.type.dtype for v in node.inputs if v is not None), None)
        if first is not None and first not in op.dtypes and op.name != "where":
            bad.append(f"  {node.place}: types must be one of {list(op.dtypes)}, got {first}")


def _evaluator(options: CompileOptions) -> Evaluate:
    """Compiles and runs a graph without inputs: constants are folded by the kernels that run at run time."""

    def evaluate(part: Graph) -> dict[str, Array]:
        return run_once(compile_static(part, CompileOptions(threads=1, optimize=False, isa=options.isa,
                                                          denormals=options.denormals)), {})

    return evaluate


def optimise(graph: Graph, options: CompileOptions) -> tuple[Graph, tuple[PassRecord, ...]]:
    """Run the passes of the options; returns the new graph and what each pass did."""
    manager = PassManager(options.passes, check=options.check, evaluate=_evaluator(options))
    return manager.run(graph), tuple(manager.records)


def lower_calls(graph: Graph, options: CompileOptions) -> tuple[Program, KernelTable]:
    """Nodes to kernel calls; memory is not planned."""
    table = kernels.table(options.isa)
    threads = max(options.threads or 1, default_threads())
    context = Context(graph, threads, lambda name: name in table.kernels, options.isa,
                      lambda body: optimise(body, options)[0])
    program = context.lower()
    program.zero_denormals = options.denormals == "zero"
    return program, table


def lower(graph: Graph, options: CompileOptions) -> tuple[Program, KernelTable]:
    """Nodes to kernel calls, values to planned memory."""
    program, table = lower_calls(graph, options)
    memory.plan(program)
    if options.check:
        memory.check(program)
    return program, table


def compile_static(graph: Graph, options: CompileOptions) -> Compiled:
    """Compile a graph in which every size is a number: the steps of every entry point, one after another."""
    if options.check:
        verify(graph)
    legalise(graph)
    final, records = optimise(graph, options)
    program, table = lower(final, options)
    return Compiled(final, program, records, table, owned=final is not graph)
