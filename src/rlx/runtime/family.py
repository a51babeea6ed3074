"""Families: programs of many extents from one compilation.

A graph is compiled with a traced size (`rlx.ir.traced`). The numbers of its program
are then functions of the extent, valid wherever every decision would have been the
same, and a program for another extent is a copy with other numbers. Before that is
relied upon, programs compiled in the ordinary way for both ends of the valid range
must have come out equal, number by number.
"""

import _thread
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from rlx._kernels import _interp
from rlx.compiler import Compiled, legalise, lower_calls, optimise
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.ir.traced import Trace, Traced, at, intern, trace_of
from rlx.lower import memory
from rlx.lower.program import Call, EwRef, NativeRef, Operand, Port, Program
from rlx.options import CompileOptions
from rlx.records import field, record, replace
from rlx.runtime.binding import Wide
from rlx.runtime.cache import LRU
from rlx.runtime.link import Assembled, assemble
from rlx.runtime.variant import Variant
from rlx.runtime.weights import WeightStore

# Values of a number are kept for every extent of the bucket.
MAX_UPPER = 1 << 13
# Sets of families kept: one per size that is followed and values of the other extents.
MAX_SETS = 32


class CallsAt(Sequence[Call]):
    """Calls of a family's program at one extent, made when they are looked at.

    `alike` keeps what has been found out about one of them and holds for all.
    """

    def __init__(self, calls: Sequence[Call], extent: int, alike: dict[str, Any]) -> None:
        self._calls = calls
        self._extent = extent
        self.alike = alike

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, i: int) -> Call: ...
    @overload
    def __getitem__(self, i: slice) -> list[Call]: ...
    def __getitem__(self, i: int | slice) -> Call | list[Call]:
        if isinstance(i, slice):
            return [call_at(c, self._extent) for c in self._calls[i]]
        return call_at(self._calls[i], self._extent)

    def __iter__(self) -> Iterator[Call]:
        return (call_at(c, self._extent) for c in self._calls)


def call_at(call: Call, extent: int) -> Call:
    """A kernel call as it is at an extent."""
    args = tuple([None if a is None else replace(
        a, operand=Operand(a.operand.buffer, at(a.operand.offset, extent)), nbytes=at(a.nbytes, extent))
        for a in call.args])
    return replace(call, args=args, attrs={k: at(v, extent) for k, v in call.attrs.items()},
                   extent=at(call.extent, extent), grain=at(call.grain, extent), cost=at(call.cost, extent),
                   phases=at(call.phases, extent))


def ports_at(ports: Sequence[Port], extent: int) -> list[Port]:
    """Inputs or outputs as they are at an extent."""
    return [replace(p, shape=at(p.shape, extent)) for p in ports]


class Columns:
    """The numbers of thunks as functions of the extent."""

    def __init__(self, assembled: Assembled) -> None:
        self.plain = assembled.arrays()
        rows: dict[bytes, int] = {}
        values: list[Array] = []
        self.traced: list[tuple[Array, Array]] = []  # of a column: positions, and rows of `values`
        for column in assembled.columns:
            places, which = [], []
            for i, number in enumerate(column):
                if isinstance(number, Traced):
                    row = rows.setdefault(number.values.tobytes(), len(values))
                    if row == len(values):
                        values.append(number.values)
                    places.append(i)
                    which.append(row)
            self.traced.append((np.array(places, np.int64), np.array(which, np.int64)))
        self.values = np.array(values, np.int64)
        self.assembled = Assembled((), assembled.n_slots, assembled.kept)  # without the lists

    def at(self, extent: int) -> _interp.Program:
        """The thunks of an extent."""
        columns = []
        for plain, (places, which) in zip(self.plain, self.traced, strict=True):
            if len(places):
                plain = plain.copy()
                plain[places] = self.values[which, extent - 1]
            columns.append(plain)
        return self.assembled.link(columns)


@record(frozen=True)
class Place:
    """What the variants of an executable share; see `Variant`."""

    store: WeightStore
    threads: int
    name: str
    state: _interp.RunState
    wide: Wide
    scratch: Array | None


@record(eq=False)
class Family:
    """One compilation, and the extents it holds for.

    Attributes
    ----------
    compiled : Compiled
        With traced numbers; memory is planned for the largest of the valid extents.
    valid : array of bool
        For extents 1..upper.
    own : int
        The extent that was compiled.
    trusted : bool
        Whether ordinary compilations came out equal, so that programs of other extents need none.
    params : dict of name to shape
        Shapes of parameters, traced.
    first : Variant
        The variant that binds the constants.
    alike : dict
        Findings that hold for the programs of all extents.
    """

    compiled: Compiled
    columns: Columns
    valid: Any
    own: int
    params: dict[str, tuple[int, ...]]
    first: Variant | None = None
    trusted: bool = False
    alike: dict[str, Any] = field(default_factory=dict)

    def prove(self, exact: Callable[[int], Variant], extent: int) -> Variant:
        """Compile for an extent and for the ends of the valid range in the ordinary way, and compare.

        Returns the program for the extent. The family is trusted from now on, or valid nowhere.
        """
        found = exact(extent)
        ends = np.flatnonzero(self.valid)[[0, -1]] + 1
        others = {int(n): exact(int(n)) for n in ends if n not in (extent, self.own)}
        self.trusted = all(self.foretells(v, n) for n, v in {extent: found, **others}.items())
        if not self.trusted:
            self.valid = np.zeros_like(self.valid)
        return found

    def program_at(self, extent: int) -> Program:
        """The program of an extent; its memory is planned as for the largest one."""
        program = self.compiled.program
        return replace(program, calls=CallsAt(program.calls, extent, self.alike),
                       inputs=ports_at(program.inputs, extent), outputs=ports_at(program.outputs, extent))

    def variant(self, extent: int, place: "Place") -> Variant:
        """The program of an extent, ready to run."""
        made = Variant(replace(self.compiled, program=self.program_at(extent)), place.store, place.threads, place.name,
                       place.state, self.first, wide=place.wide, scratch=place.scratch,
                       linked=self.columns.at(extent), params={k: at(v, extent) for k, v in self.params.items()})
        self.first = self.first or made
        return made

    def foretells(self, other: Variant, extent: int) -> bool:
        """Whether a program compiled for an extent is the one that this family has for it."""
        mine, theirs = self.program_at(extent), other.compiled.program
        if not same_program(mine, theirs):
            return False
        assert self.first is not None
        for i, weight in enumerate(mine.weights):
            if weight.param is None:
                slot = mine.weight_slot(i)
                x, y = self.first.executor.bound(slot), other.executor.bound(slot)
                if x is None or y is None or (x is not y and x.tobytes() != y.tobytes()):
                    return False
        return True


def same_program(a: Program, b: Program) -> bool:
    """Whether two programs do the same, whatever their constants hold and where their memory lies."""
    if len(a.calls) != len(b.calls) or len(a.weights) != len(b.weights) or a.max_threads != b.max_threads:
        return False
    if a.inputs != b.inputs or a.outputs != b.outputs:
        return False
    for x, y in zip(a.weights, b.weights, strict=True):
        first, second = (None if w.transform is None else w.transform.key for w in (x, y))
        if x.param != y.param or x.nbytes != y.nbytes or first != second:
            return False
    return all(_same_call(x, y) for x, y in zip(a.calls, b.calls, strict=True))


def _same_call(a: Call, b: Call) -> bool:
    """Whether two calls do the same; costs and grains are estimates."""
    if (a.kernel, a.extent, a.phases, len(a.args)) != (b.kernel, b.extent, b.phases, len(b.args)):
        return False
    if a.attrs.keys() != b.attrs.keys() or any(_plain(a.attrs[k]) != _plain(b.attrs[k]) for k in a.attrs):
        return False
    for x, y in zip(a.args, b.args, strict=True):
        if x is None or y is None:
            if x is not y:
                return False
        elif (x.role, x.nbytes, x.operand.offset, x.operand.buffer.index, x.operand.buffer.label) != (
                y.role, y.nbytes, y.operand.offset, y.operand.buffer.index, y.operand.buffer.label):
            return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value.hex()  # NaN equals NaN
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def compile_family(graph: Graph, options: CompileOptions, trace: Trace) -> Family | None:
    """Compile a graph with a traced size; None if its numbers cannot be followed.

    Memory is planned so that every valid extent fits.
    """
    legalise(graph)
    final, records = optimise(graph, options)
    program, table = lower_calls(final, options)
    strange = next((c for c in program.calls if not all(map(_is_number, c.attrs.values()))), None)
    if strange is not None:
        trace.end(f"{program.nodes[strange.node].place}: holds programs or Python code for its sizes")
    for weight in program.weights:
        if trace_of([weight.nbytes, *(weight.transform.attrs.values() if weight.transform else ())]) is not None:
            trace.end("a parameter depends on the extent")
    if trace.ended:
        return None
    calls = []
    for call in program.calls:
        # Results may take over an operand's memory only where the two are equally large at every extent.
        inplace = [(w, r) for w, r in call.inplace if _alike(call.args[w], call.args[r])]
        calls.append(replace(call, inplace=tuple(inplace)))
    program.calls = calls
    for buffer in program.buffers:
        if isinstance(buffer.nbytes, Traced):
            buffer.nbytes = int(buffer.nbytes.values[trace.valid].max())
    memory.plan(program)
    if options.check:
        memory.check(program)
    columns = Columns(assemble(program, table))
    if trace.ended:
        return None
    params = {v.node.name: v.shape for v in final.params}
    settle_numbers(final, program, trace.at + 1)
    compiled = Compiled(final, program, records, table, owned=final is not graph)
    return Family(compiled, columns, trace.valid, trace.at + 1, params)  # type: ignore[arg-type]


def settle_numbers(graph: Graph, program: Program, own: int) -> None:
    """Leave only the numbers that are needed: those of calls, equal ones once; the graph is as at its own extent."""
    for node in graph.nodes:
        node.attrs = {k: at(v, own) for k, v in node.attrs.items()}
        for v in node.outputs:
            v.type = v.type.with_shape(at(v.shape, own))
    program.names = {k: Operand(p.buffer, at(p.offset, own)) for k, p in program.names.items()}
    table: dict[bytes, Array] = {}
    for call in program.calls:
        intern([call.extent, call.grain, call.cost, call.phases, *call.attrs.values()], table)
        intern([n for a in call.args if a is not None for n in (a.operand.offset, a.nbytes)], table)
    for port in (*program.inputs, *program.outputs):
        intern(port.shape, table)


def _is_number(value: Any) -> bool:
    """Whether an attribute is all numbers and addresses of code that gets its sizes as numbers."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_number, value))
    return isinstance(value, (int, float, EwRef, NativeRef))


def _alike(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return False
    x, y = a.operand.buffer.nbytes, b.operand.buffer.nbytes
    return bool(np.array_equal(getattr(x, "values", x), getattr(y, "values", y)))


# What a family is of: the size that is followed, and the other extents.
FamilyKey = tuple[str, tuple[tuple[str, int], ...]]


class Families:
    """The families of an executable.

    Parameters
    ----------
    options : CompileOptions
    upper : mapping of str to int
        Rows of each bucket.
    bind : callable
        ``bind(sizes) -> Graph``: the graph at these extents, of which one may be traced.
    """

    def __init__(self, options: CompileOptions, upper: Mapping[str, int],
                 bind: Callable[[Mapping[str, int]], Graph]) -> None:
        self.options = options
        self.upper = upper
        self.bind = bind
        self._lock = _thread.RLock()
        self.known: LRU[FamilyKey, list[Family]] = LRU(MAX_SETS)
        self.hopeless: set[str] = set()  # sizes that cannot be followed

    def after_fork(self) -> None:
        """In a child: a thread that held the lock does not exist here."""
        self._lock = _thread.RLock()
        self.known.after_fork()

    def make(self, wanted: Mapping[str, int], exact: Callable[[Mapping[str, int]], Variant], place: Place) -> Variant:
        """The program of extents: a copy with other numbers where that is sure, else compiled by `exact`."""
        with self._lock:
            return self._make(wanted, exact, place)

    def _make(self, wanted: Mapping[str, int], exact: Callable[[Mapping[str, int]], Variant], place: Place) -> Variant:
        name = next(iter(wanted))
        extent = wanted[name]
        key = (name, tuple(sorted((k, v) for k, v in wanted.items() if k != name)))
        families = self.known.get(key)
        if families is None:
            families = []
            self.known.put(key, families)
        for family in families:
            if not family.valid[extent - 1]:
                continue
            if family.trusted or extent == family.own:
                return family.variant(extent, place)
            made = family.prove(lambda n: exact({**wanted, name: n}), extent)
            if not family.trusted:
                self.hopeless.add(name)
                families.remove(family)
            return made
        if name in self.hopeless or self.upper[name] > MAX_UPPER:
            return exact(wanted)
        trace = Trace(extent, self.upper[name])
        found = compile_family(self.bind({**wanted, name: trace.size}), self.options, trace)
        if found is None:
            if trace.ended:
                self.hopeless.add(name)
            return exact(wanted)
        if found.valid.sum() > 1:
            families.append(found)
        return found.variant(extent, place)
