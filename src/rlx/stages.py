"""The stages of a compilation as objects: a graph on its way, and the lowered program with its memory plan.

    GraphModule.bind -> legalise -> optimise -> lower -> LirModule -> compile_lir

`rlx.compile` runs the same functions one after another.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from rlx import compiler
from rlx.errors import BindingError, ConfigError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.ir.text import large_constants
from rlx.ir.verify import verify
from rlx.lower import memory
from rlx.lower.context import ALIGN
from rlx.lower.program import BodyRef, Buffer, NodeInfo, Program
from rlx.ops.parse import parse_graph
from rlx.options import CompileOptions
from rlx.passes import PassRecord, Pipeline
from rlx.records import record, replace
from rlx.runtime.extent import bind_options
from rlx.runtime.report import Signature, table_text
from rlx.runtime.staged import is_dynamic

STAGES = ("built", "bound", "legal", "optimised")
# Options that decide what is compiled; the others are about runs and may change afterwards.
DECIDING = ("dims", "extents", "optimize", "disable", "pipeline", "isa")


class GraphModule:
    """A graph and the options it is compiled with, at one of the stages `built`, `bound`, `legal`, `optimised`.

    Immutable: every step returns a new module. Equal modules have the same stage, structure and deciding options.

    Parameters
    ----------
    graph : Graph
        As it is now; later additions are not seen.
    options : CompileOptions, optional

    Attributes
    ----------
    graph : Graph
        At this stage.
    origin : Graph
        As it was given.
    records : tuple of PassRecord
        What each pass did.
    """

    def __init__(self, graph: Graph, options: CompileOptions | None = None) -> None:
        if not isinstance(graph, Graph):
            raise ConfigError(f"GraphModule: must be given a Graph, got {type(graph).__name__}")
        if options is not None and not isinstance(options, CompileOptions):
            raise ConfigError(f"GraphModule: options must be CompileOptions, got {type(options).__name__}")
        self.graph = graph.snapshot()
        self.origin = self.graph
        self.options = options or CompileOptions()
        self.stage = STAGES[0]
        self.records: tuple[PassRecord, ...] = ()

    @staticmethod
    def parse(text: str, constants: Mapping[str, Array] | None = None, options: CompileOptions | None = None,
              ) -> "GraphModule":
        """The module that a text describes (`str(module)`), its large constants beside it.

        Raises
        ------
        FormatError
            Naming the line and what must come there.
        """
        first, _, rest = text.partition("\n")
        stage = first.removeprefix("module ").strip()
        known = first.startswith("module ") and stage in STAGES
        module = GraphModule(parse_graph(rest if known else text, constants), options)
        module.stage = stage if known else STAGES[0]
        return module

    def _next(self, stage: str, graph: Graph, records: tuple[PassRecord, ...] = ()) -> "GraphModule":
        other = GraphModule.__new__(GraphModule)
        other.__dict__.update(graph=graph, origin=self.origin, options=self.options, stage=stage, records=records)
        return other

    def _until(self, stage: str) -> "GraphModule":
        """This module, moved on to a stage if it has not come there yet."""
        steps = (GraphModule.bind, GraphModule.legalise, GraphModule.optimise)
        module = self
        for step in steps[STAGES.index(self.stage) : STAGES.index(stage)]:
            module = step(module)
        return module

    def bind(self, **dims: int) -> "GraphModule":
        """Sizes become numbers: those of the options, and those given here.

        Raises
        ------
        ConfigError
            The graph has no such size, or the module is beyond this stage.
        """
        if self.stage != "built":
            raise ConfigError(f"GraphModule.bind: sizes must be bound before {self.stage!r}, got {dims}")
        options = replace(self.options, dims={**self.options.dims, **dims}) if dims else self.options
        module = self._next("bound", bind_options(self.graph, options).full)
        module.options = options
        return module

    def legalise(self) -> "GraphModule":
        """Every op and element type checked against the table of ops.

        Raises
        ------
        LegalizeError
            Lists all offenders.
        """
        module = self._until("bound")
        if self.options.check:
            verify(module.graph)
        compiler.legalise(module.graph)
        return module._next("legal", module.graph)

    def optimise(self) -> "GraphModule":
        """The passes of the options have run.

        Raises
        ------
        PassError
            A pass failed.
        """
        module = self._until("legal")
        graph, records = compiler.optimise(module.graph, module.options)
        return module._next("optimised", graph, records)

    def lower(self) -> "LirModule":
        """The program: kernel calls over planned memory.

        Raises
        ------
        BindingError
            A size is still open, or depends on data: such graphs have more than one program.
        """
        module = self._until("bound")
        if module.graph.symbols() and not is_dynamic(module.graph):
            raise BindingError(
                f"graph {self.graph.name!r}: sizes {sorted(module.graph.symbols())} must be bound before it is lowered"
                "\nhint: module.bind(size=4), or CompileOptions(dims={...}); rlx.compile binds them at every run")
        if is_dynamic(module.graph):
            raise BindingError(f"graph {self.graph.name!r}: a graph with data-dependent sizes has a program per stage,"
                               f" got {[n.name for n in module.graph.nodes if n.fresh]}\nhint: use rlx.compile")
        module = module._until("optimised")
        return LirModule(module)

    @property
    def manifest(self) -> Signature:
        """Names, element types and shapes of inputs, parameters and outputs."""
        return Signature.of(self.graph)

    @property
    def constants(self) -> dict[str, Array]:
        """The large constants, which the text only names."""
        return large_constants(self.graph)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of stage, structure and deciding options."""
        return _digest([self.stage, self.graph.structural_hash(), *_deciding(self.options)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphModule) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __str__(self) -> str:
        return f"module {self.stage}\n{self.graph}"

    def __repr__(self) -> str:
        return f"GraphModule({self.graph.name!r}, {self.stage}, {len(self.graph)} nodes)"


@record(frozen=True)
class BufferPlan:
    """Where a buffer lies.

    Attributes
    ----------
    name : str
        The value it was made for.
    kind : str
        `scratch`, `input`, `output` or `weight`.
    offset, nbytes : int
        Place inside the arena for scratch, inside its own array for the others.
    first, last : int
        First and last call that touches it; -1 if none does.
    """

    name: str
    kind: str
    offset: int
    nbytes: int
    first: int
    last: int


@record(frozen=True)
class View:
    """A value that lies inside the buffer made for another: its root, and bytes from the root's start."""

    root: str
    offset: int


class LirModule:
    """A lowered program with its memory plan; what `rlx.compile_lir` links. Made by `GraphModule.lower`.

    It holds the constants, so that any number of executables can be made from it. Equal modules run the same calls on
    the same bytes.

    Attributes
    ----------
    graph : Graph
        The optimised graph.
    origin : Graph
        As the user built it.
    options : CompileOptions
    program : Program
    records : tuple of PassRecord
    alignment : int
        Bytes to which every buffer of the arena is aligned.
    """

    alignment = ALIGN

    def __init__(self, module: GraphModule) -> None:
        self.graph = module.graph
        self.origin = module.origin
        self.options = module.options
        self.records = module.records
        self.program, self._table = compiler.lower(module.graph, module.options)

    def compiled(self) -> compiler.Compiled:
        """What an executable is made of."""
        return compiler.Compiled(self.graph, self.program, self.records, self._table, shared=True)

    @property
    def isa(self) -> str:
        """Instruction set of the kernels."""
        return self._table.level

    @property
    def manifest(self) -> Signature:
        """Names, element types and shapes of inputs, parameters and outputs."""
        return Signature.of(self.graph)

    @property
    def arena_bytes(self) -> int:
        """Bytes of scratch."""
        return self.program.arena_bytes

    @property
    def live_bound(self) -> int:
        """Most scratch bytes alive at once: no plan can be smaller."""
        return self.program.live_bound

    @cached_property
    def buffers(self) -> tuple[BufferPlan, ...]:
        """The plan, buffer by buffer."""
        spans: dict[Buffer, tuple[int, int]] = {}
        for i, call in enumerate(self.program.calls):
            for arg in call.args:
                if arg is not None:
                    spans[arg.operand.buffer] = (spans.get(arg.operand.buffer, (i, i))[0], i)
        return tuple(BufferPlan(b.label, b.kind, b.offset, b.nbytes, *spans.get(b, (-1, -1)))
                     for b in self.program.buffers)

    @cached_property
    def views(self) -> dict[str, View]:
        """Values that share the bytes of another."""
        return {name: View(place.buffer.label, place.offset) for name, place in self.program.names.items()
                if name != place.buffer.label}

    @cached_property
    def fingerprint(self) -> str:
        """Digest of calls, attributes, operands, buffers, constants, names and instruction set.

        The same in another process; another version of rlx may give another one.
        """
        return _digest([self.isa, str(self.manifest), *_lines(self.program, self.program.nodes)])

    def check(self) -> None:
        """Prove the plan independently.

        Raises
        ------
        LoweringError
            Naming the call and the buffers.
        """
        memory.check(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LirModule) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"LirModule({self.graph.name!r}, {len(self.program.calls)} calls, arena {self.arena_bytes} B)"

    def __str__(self) -> str:
        rows = [(b.kind, b.name, str(b.offset), str(b.nbytes), f"{b.first}..{b.last}") for b in self.buffers]
        plan = table_text(("kind", "buffer", "offset", "bytes", "calls"), rows, (2, 3))
        views = "".join(f"\n{name} = {v.root} + {v.offset}" for name, v in self.views.items())
        return (f"lir {self.graph.name} {self.manifest}\nfor {self.isa}, aligned to {self.alignment},"
                f" fingerprint {self.fingerprint[:16]}\n{self.program}\n\n{plan}\n{views}").rstrip()


def check_options(lir: LirModule, options: CompileOptions | None) -> CompileOptions:
    """The options of an executable made from a lowered module.

    Raises
    ------
    ConfigError
        They decide about the program, which exists already.
    """
    if not isinstance(lir, LirModule):
        raise ConfigError(f"compile_lir: must be given a LirModule, got {type(lir).__name__}")
    if options is None:
        return lir.options
    if not isinstance(options, CompileOptions):
        raise ConfigError(f"compile_lir: options must be CompileOptions, got {type(options).__name__}")
    plain = CompileOptions()
    for name in DECIDING:
        new = getattr(options, name)
        if new != getattr(lir.options, name) and new != getattr(plain, name):
            raise ConfigError(f"compile_lir: option {name!r} must be as the module was lowered with, "
                              f"{getattr(lir.options, name)!r}, got {new!r}")
    return replace(options, **{name: getattr(lir.options, name) for name in DECIDING})


def _deciding(options: CompileOptions) -> Iterator[object]:
    for name in DECIDING:
        value = getattr(options, name)
        if isinstance(value, Pipeline):
            yield [(p.name, p.run.__module__, p.run.__qualname__) for p in value]
        else:
            yield sorted(value.items()) if isinstance(value, Mapping) else value


def _lines(program: Program, nodes: Sequence[NodeInfo]) -> Iterator[object]:
    """Everything a program is, in a fixed order; `nodes` are those of the outermost one."""
    for call in program.calls:
        args = [None if a is None else (a.role, a.operand.buffer.index, a.operand.offset, a.nbytes) for a in call.args]
        node = nodes[call.node]
        yield call.kernel, args, call.extent, call.grain, call.cost, node.name, node.op
        for name, value in call.attrs.items():
            yield name
            for item in value if isinstance(value, Sequence) else (value,):
                if isinstance(item, BodyRef):
                    yield from _lines(item.program, nodes)
                else:
                    yield item
    for b in program.buffers:
        yield b.kind, b.label, b.nbytes, b.slot, b.offset
    for w in program.weights:
        array = None if w.array is None else hashlib.sha256(w.array.tobytes()).hexdigest()
        yield array, w.param, None if w.transform is None else w.transform.key, w.nbytes
    yield program.inputs, program.outputs, program.arena_bytes, program.max_threads


def _digest(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode())
    return digest.hexdigest()


__all__ = ["BufferPlan", "GraphModule", "LirModule", "View", "check_options"]
