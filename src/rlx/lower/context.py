"""What a lowering rule works with: operands of values, new buffers, kernel calls.

A rule is a function ``rule(ctx, node)`` registered for op names. It reads
`ctx.operand(value)`, makes `ctx.result(value)` and appends calls. Shapes are all
numbers here.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlx import costs
from rlx._kernels import _nodes
from rlx.dtypes import DType, f32
from rlx.errors import LoweringError
from rlx.ir.graph import CONSTANT, PARAM, Graph, Node, Value
from rlx.ir.types import static_shape
from rlx.lower._index import INDEX
from rlx.lower.program import (
    Arg,
    Attrs,
    Buffer,
    Call,
    EwRef,
    NodeInfo,
    Operand,
    Port,
    Program,
    Transform,
    Weight,
)
from rlx.records import replace
from rlx.tables import Table

Rule: TypeAlias = Callable[["Context", Node], None]
RULES: Table[str, Rule] = Table("rlx.lower", INDEX)
ALIGN = 64


def lowering(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if dict.__contains__(RULES, name):
                raise LoweringError(f"lowering of {name!r}: one rule must be registered, got two")
            RULES[name] = rule
        return rule

    return register


def port_of(name: str, value: Value) -> Port:
    """An input or output of a program.

    Raises
    ------
    LoweringError
        It has more axes than a NumPy array can have.
    """
    if value.rank > 64:
        raise LoweringError(f"{name!r}: the rank of an input or output must be at most 64, got {value.rank}")
    return Port(name, value.dtype, shape_of(value))


def shape_of(value: Value) -> tuple[int, ...]:
    """Shape as ints."""
    shape = value.type.shape
    for d in shape:
        if type(d) is not int:  # a traced number, or none
            return static_shape(shape, value.name)
    return tuple(shape)  # type: ignore[arg-type]


def size_of(value: Value) -> int:
    """Number of elements."""
    size = 1
    for d in shape_of(value):
        size *= d
    return size


def split_axis(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(outer, n, inner): sizes before, of and after an axis."""
    axis %= max(len(shape), 1)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def nbytes_of(value: Value) -> int:
    """Bytes of the value, contiguous."""
    return size_of(value) * value.dtype.itemsize


def grown_at_end(node: Node) -> int | None:
    """The only axis that a padding makes longer, behind what was there, with a number; else None."""
    after = [axis for axis, n in enumerate(node.attrs["after"]) if n]
    if len(after) != 1 or any(node.attrs["before"]) or node.attrs["after"][after[0]] < 0:
        return None
    return after[0] if node.attrs["mode"] == "constant" else None


def is_leaf(value: Value) -> bool:
    """Whether the value is a constant or parameter."""
    return value.node.op is CONSTANT or value.node.op is PARAM


def narrowed(value: Value) -> Value | None:
    """The constant or parameter, of f32 or float8, of which the value is the cast to a half type."""
    if value.node.op.name != "cast" or not value.dtype.is_half:
        return None
    source = value.node.inputs[0]
    assert source is not None
    return source if is_leaf(source) and (source.dtype == f32 or source.dtype.is_float8) else None


def narrow(half: Value, source: Value, then: Transform | None) -> Transform:
    """Bring a weight into a half type when it is set, and then transform it further."""
    n, to, given = size_of(half), half.dtype, source.dtype
    attrs: Attrs = {"fn": EwRef(f"cast_{to}.{given}"), "sizes": [given.itemsize, 0, 0, 2], "params": []}
    key = ("narrow", given.name, to.name, n)
    cast = Transform("region.direct", attrs, 2 * n, n, key, args=((0, 0), None, None, (1, 0)))
    return cast if then is None else _after(cast, then)


def _after(first: Transform, then: Transform) -> Transform:
    before = first if then.first is None else _after(first, then.first)
    return replace(then, first=before, key=(before.key, then.key))


class Context:
    """Lowers one graph."""

    def __init__(self, graph: Graph, max_threads: int, has_kernel: Callable[[str], bool],
                 isa: str | None = None, optimise: Callable[[Graph], Graph] = lambda g: g,
                 path: str | None = None) -> None:
        self.graph = graph
        self.path = graph.name if path is None else path  # where a body is; names the streams of random ops
        self.optimise = optimise
        self._node = 0
        self.max_threads = max_threads
        self.has_kernel = has_kernel
        self.isa = isa
        self.buffers: list[Buffer] = []
        self.calls: list[Call] = []
        self.nodes: list[NodeInfo] = []
        self.places: dict[Value, Operand] = {}
        self.inputs: list[Port] = []
        self.weights: list[Weight] = []
        self._weight_at: dict[tuple[int, object], Operand] = {}
        self.uses = graph.uses()
        self.readers: dict[Value, list[Node]] = _nodes.readers(graph.nodes)
        self.strided: dict[Value, Operand] = {}  # results that lie in the rows of a concatenation
        for value in graph.inputs:
            self.inputs.append(port_of(value.node.name, value))
            self.places[value] = Operand(self._buffer("input", nbytes_of(value), value.name))

    def _buffer(self, kind: str, nbytes: int, label: str) -> Buffer:
        buffer = Buffer(len(self.buffers), kind, nbytes, label)
        self.buffers.append(buffer)
        return buffer

    # -- operands ----------------------------------------------------------------

    def operand(self, value: Value | Operand) -> Operand:
        """Where a value lies, in its natural contiguous order."""
        if isinstance(value, Operand):
            return value
        place = self.places.get(value)
        if place is None:
            if self.is_weight(value):
                place = self.weight(value, None)
            else:
                raise LoweringError(f"{value.node.place}: must be lowered before it is read, got no place")
            self.places[value] = place
        return place

    def is_weight(self, value: Value) -> bool:
        """Whether the value is a constant or parameter, perhaps narrowed to halves, so that it may be packed ahead."""
        return is_leaf(value) or narrowed(value) is not None

    def weight(self, value: Value, transform: Transform | None) -> Operand:
        """A constant or parameter as a weight, narrowed and packed by `transform` when it is set."""
        source = narrowed(value)
        if source is not None:
            value, transform = source, narrow(value, source, transform)
        key = (id(value), None if transform is None else transform.key)
        place = self._weight_at.get(key)
        if place is None:
            nbytes = nbytes_of(value) if transform is None else transform.nbytes
            param = value.node.name if value.node.op is PARAM else None
            buffer = self._buffer("weight", nbytes, value.name)
            buffer.source = Weight(value.array, param, transform, nbytes)
            self.weights.append(buffer.source)
            place = Operand(buffer)
            self._weight_at[key] = place
        return place

    def adopt(self, weight: Weight) -> Operand:
        """A weight of a body program as a weight of this one."""
        key = (id(weight.array), None if weight.transform is None else weight.transform.key)
        place = self._weight_at.get(key)
        if place is None:
            buffer = self._buffer("weight", weight.nbytes, "body")
            buffer.source = weight
            self.weights.append(weight)
            place = Operand(buffer)
            self._weight_at[key] = place
        return place

    def result(self, value: Value) -> Operand:
        """Memory for a result: new, or its part of the concatenation that alone reads it."""
        place = self._part(value)
        if place is None:
            place = Operand(self._buffer("scratch", nbytes_of(value), value.name))
        self.places[value] = place
        return place

    def _concat(self, value: Value) -> tuple[Value, int, int] | None:
        """(concatenation, axis, place on it) if that is all that reads a value, perhaps through reshapes.

        Padding behind the rows of one axis counts as a concatenation.
        """
        while self.uses.get(value) == 1 and value in self.readers:
            node = self.readers[value][0]
            if node.op.name == "reshape":
                value = node.outputs[0]
                continue
            if node.op.name == "pad":
                after = grown_at_end(node)
                return None if after is None else (node.outputs[0], after, 0)
            if node.op.name != "concat":
                return None
            axis = node.attrs["axis"] % value.rank
            start = 0
            for x in node.inputs:
                if x is value:
                    return node.outputs[0], axis, start
                assert x is not None
                start += shape_of(x)[axis]
        return None

    def _part(self, value: Value) -> Operand | None:
        found = self._concat(value)
        if found is None:
            return None
        whole, axis, start = found
        shape = shape_of(whole)
        if math.prod(shape[:axis]) != 1:
            return None
        return self._whole(whole).at(start * math.prod(shape[axis + 1 :]) * whole.dtype.itemsize)

    def _whole(self, value: Value) -> Operand:
        place = self.places.get(value)
        return self.result(value) if place is None else place

    def rows_of(self, value: Value) -> tuple[Operand, int]:
        """Memory for a result whose kernel can leave gaps between rows, and elements from row to row.

        If a concatenation along the last axis is all that reads the value, the rows go straight into it.
        """
        shape = shape_of(value)
        found = self._concat(value) if value not in self.places else None
        if found is not None:
            whole, axis, start = found
            target = shape_of(whole)
            along_last = axis == len(target) - 1 and len(target) > 1 and shape[-1:] != target[-1:]
            along_last = along_last and whole.node.op.name == "concat"
            if along_last and self._last_kept(value, whole):
                place = self._whole(whole).at(start * value.dtype.itemsize)
                self.places[value] = self.strided[value] = place
                return place, target[-1]
        return self.result(value), shape[-1]

    def _last_kept(self, value: Value, whole: Value) -> bool:
        """Whether no reshape on the way to the concatenation splits or merges the last axis."""
        node = self.readers[value][0]
        while node.outputs[0] is not whole:
            if node.outputs[0].shape[-1] != value.shape[-1]:
                return False
            node = self.readers[node.outputs[0]][0]
        return True

    def alias(self, value: Value, place: Operand) -> None:
        """The result lies where an operand lies (same bytes, other label)."""
        self.places[value] = place

    def temp(self, nbytes: int, label: str = "temp") -> Operand:
        """Memory for the time between its first and last call."""
        return Operand(self._buffer("scratch", nbytes, label))

    # -- calls -------------------------------------------------------------------

    def read(self, value: Value | Operand, nbytes: int | None = None) -> Arg:
        """Argument that a call reads."""
        return Arg("r", self.operand(value), self._size(value, nbytes))

    def write(self, value: Value | Operand, nbytes: int | None = None) -> Arg:
        """Argument that a call writes; a Value gets new memory unless it has a place."""
        if isinstance(value, Value) and value not in self.places:
            self.result(value)
        return Arg("w", self.operand(value), self._size(value, nbytes))

    def _size(self, value: Value | Operand, nbytes: int | None) -> int:
        if nbytes is not None:
            return nbytes
        return nbytes_of(value) if isinstance(value, Value) else value.buffer.nbytes - value.offset

    def maybe(self, value: Value | None) -> Arg | None:
        """Read argument of an optional operand."""
        return None if value is None else self.read(value)

    def work(self, nbytes: int) -> Arg:
        """Workspace of `nbytes` per thread (rounded up to a cache line); see `per_thread`."""
        total = per_thread(nbytes) * workspaces(self.max_threads)
        return Arg("x", self.temp(total, "work"), total)

    def call(
        self,
        kernel: str,
        args: Sequence[Arg | None],
        attrs: Attrs | None = None,
        *,
        extent: int,
        grain: int = 0,
        cost: float = 0,
        inplace: Sequence[tuple[int, int]] = (),
        phases: int = 1,
    ) -> None:
        """Append a kernel call.

        Parameters
        ----------
        extent : int
            Number of work items.
        grain : int
            Smallest number of items worth a thread; 0 keeps the call on one.
        cost : float
            Estimated nanoseconds on one core.
        inplace : pairs (written argument, read argument)
            The two may be the same memory if the read one dies here.
        phases : int
            Equal parts of the extent that depend on one another, in order.
        """
        self.calls.append(
            Call(kernel, tuple(args), attrs or {}, extent, grain, math.trunc(cost), self._node, tuple(inplace), phases)
        )

    def copy(self, source: Operand, target: Operand, nbytes: int) -> None:
        """Copy contiguous bytes."""
        self.call("copy.bytes", [self.read(source, nbytes), self.write(target, nbytes)], extent=nbytes,
                  grain=65536, cost=nbytes * costs.of().copy / 2)

    def lower(self) -> Program:
        """Lower all nodes and name the outputs; memory is not planned yet."""
        for node in self.graph.nodes:
            if node.op.has("leaf"):
                continue
            self._node = len(self.nodes)
            self.nodes.append(NodeInfo(node.name, node.op.name, node.loc))
            kind = "custom" if node.op.has("custom") else node.op.name
            try:
                rule = RULES.get(kind) or RULES["elementwise" if node.op.has("elementwise") else kind]
            except KeyError:
                raise LoweringError(f"{node.place}: no lowering for this op"
                                    "\nhint: a pass should have rewritten it; check the pass list") from None
            try:
                rule(self, node)
            except LoweringError as error:
                if node.name in str(error):
                    raise
                raise LoweringError(f"{node.place}: {error}") from None
        if not self.nodes:
            self.nodes.append(NodeInfo(self.graph.name, "graph", ""))
        outputs = self._bind_outputs()
        return Program(self.calls, self.buffers, self.inputs, outputs, self.weights, self.nodes,
                       max_threads=self.max_threads,
                       names={v.name: p for v, p in self.places.items()})

    def _bind_outputs(self) -> list[Port]:
        """Turn the buffers behind outputs into output slots; copy where that cannot be."""
        outputs = []
        written = {a.operand.buffer for c in self.calls for a in c.args if a is not None and a.role == "w"}
        slots: list[Buffer] = []
        for name, value in self.graph.outputs.items():
            place = self.operand(value)
            nbytes = nbytes_of(value)
            buffer = place.buffer
            if buffer.kind == "scratch" and place.offset == 0 and buffer.nbytes == nbytes and buffer in written:
                buffer.kind = "output"
            else:
                buffer = self._buffer("output", nbytes, name)
                self.copy(place, Operand(buffer), nbytes)
            slots.append(buffer)
            outputs.append(port_of(name, value))
        for i, buffer in enumerate(slots):
            buffer.slot = 1 + len(self.inputs) + i
            buffer.offset = 0
        return outputs


def per_thread(nbytes: int) -> int:
    """Stride of a per-thread workspace of `nbytes`."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


def workspaces(threads: int) -> int:
    """Workspaces of a call on so many threads: with several, the pool has a spare worker (pool.h)."""
    return threads + (threads > 1)


def short(dtype: DType) -> str:
    """Item-size suffix of byte-moving kernels, e.g. `b4`."""
    return f"b{dtype.itemsize}"
