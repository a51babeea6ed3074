"""Programs of a file for many sizes, most of them without importing or compiling (docs/adr/0020-sizes-of-files.md).

A file is imported with a size that knows its values at all extents (`rlx.ir.traced`), so that one compilation
serves a whole family of programs (`rlx.runtime.family`). Which sizes move together is learnt from the runs.
"""


from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import ops
from rlx._kernels import _interp
from rlx.collector import collector_paused
from rlx.errors import BindingError, ConfigError, FormatError, GraphError
from rlx.ir.graph import Graph, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.ir.traced import Trace, at
from rlx.ir.types import TensorType, normal_axis
from rlx.onnx.declared import LENGTH, LENGTH_NEXT, CacheOf, Declared
from rlx.onnx.elements import numpy_type
from rlx.onnx.scope import NotStaticError, Scope
from rlx.onnx.steps import Start
from rlx.onnx.tracer import Tracer, placed
from rlx.onnx.tracing import TraceGraph
from rlx.records import record
from rlx.runtime import kernels
from rlx.runtime.binding import Wide
from rlx.runtime.cache import LRU, VARIANTS
from rlx.runtime.family import Families, Place
from rlx.runtime.variant import Variant

if TYPE_CHECKING:
    from rlx.onnx.block import Block, NodeDef
    from rlx.onnx.core import Core

# Vectors of sizes that the next one is compared with, to learn which sizes move together.
RECENT = 8
# Sizes of all open axes, in order, and the valid rows of the caches behind them.
Vector = tuple[int, ...]


class SizeTracer(Tracer):
    """A walk that knows shapes alone: it never runs anything, so nothing may depend on a value."""

    def __init__(self, core: "Core", trace: Trace | None) -> None:
        super().__init__(core, Start(), [], 0, 1)
        self.graph = TraceGraph(core.name, trace)

    def run_node(self, node: "NodeDef", scope: Scope) -> None:
        """Emit one node; what it would need of a run is told with its place."""
        try:
            super().run_node(node, scope)
        except NotStaticError as error:
            raise placed(error, node.place) from None

    def met(self, item: Any) -> Any:
        """Nothing is held to what one run has."""
        return None

    def demand(self, scope_items: dict[str, Any], name: str) -> Any:
        """The value of a name, which must be a constant."""
        found = self.peek(scope_items[name])
        if found is None and scope_items[name] is not None:
            raise NotStaticError(f"the value of {name!r} is needed, which only a run knows")
        if isinstance(scope_items[name], Value):
            scope_items[name] = found
        return found

    def decide(self, items: Sequence[Any], function: Callable[..., Any]) -> Any:
        """Nothing: values are not known."""
        return None

    def cut(self, extra: Sequence[Any] = ()) -> list[Any]:
        """Refused."""
        raise NotStaticError("a value is needed that only a run knows")

    def host(
        self, function: Callable[..., Any], items: Sequence[Any], *, fixed: bool = False, floats: bool = True,
        fresh: bool = False,
    ) -> tuple[Any, ...]:
        """A call on constants."""
        ready = [self._on_host(i) for i in items] if all(map(self.is_constant, items)) else None
        if ready is None or any(map(self.graph.is_sized, ready)):
            raise NotStaticError("a call of a Python function is needed")
        with np.errstate(all="ignore"):
            results = function(*ready)
        return results if isinstance(results, tuple) else (results,)


def plain(graph: Graph, extent: int) -> Graph:
    """The graph with its traced numbers as they are at an extent."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.op.has("leaf"):
            kind = node.outputs[0].type
            rewriter.leaf(node, TensorType(kind.dtype, at(tuple(kind.shape), extent)))
            continue
        if any(isinstance(v, Graph) for v in node.attrs.values()):
            raise NotStaticError(f"{node.place}: has a body")
        attrs = {k: at(v, extent) for k, v in node.attrs.items()}
        for old, new in zip(node.outputs, rewriter.emit(node.op, [rewriter.get(v) for v in node.inputs], attrs, node),
                            strict=True):
            rewriter.replace(old, new)
    return rewriter.finish()


def growing(block: "Block", inputs: Mapping[str, Declared]) -> dict[str, CacheOf]:
    """Outputs that are an input with rows behind it: output -> (input, axis)."""
    made = {name: node for node in block.nodes for name in node.outputs if name}
    found: dict[str, CacheOf] = {}
    for output in block.outputs:
        node = made.get(output)
        while node is not None and node.op == "Identity" and node.domain in ("", "ai.onnx"):
            node = made.get(node.inputs[0])
        if node is None or node.op != "Concat" or node.domain not in ("", "ai.onnx") or len(node.inputs) != 2:
            continue
        past = inputs.get(node.inputs[0])
        axis = node.attrs.get("axis", 1)
        if past is None or past.kind != "tensor" or past.sizes is None or not isinstance(axis, int):
            continue
        if not -len(past.sizes) <= axis < len(past.sizes) or past.sizes[axis] is not None:
            continue
        if all(c.input != node.inputs[0] for c in found.values()):
            found[output] = CacheOf(node.inputs[0], axis % len(past.sizes))
    return found


@record(frozen=True)
class Curve:
    """Sizes that move together.

    Attributes
    ----------
    moving : tuple of int
        Places in the vector; the first is the smallest, whose values are the extents.
    fixed : tuple
        The whole vector, relative to the first moving size where a size moves.
    room : tuple
        Capacities of the caches that are written.
    """

    moving: tuple[int, ...]
    fixed: Vector
    room: tuple[tuple[str, int], ...]

    @staticmethod
    def through(vector: Vector, moving: Sequence[int], room: tuple[tuple[str, int], ...]) -> "Curve":
        """The curve on which some sizes of a vector move."""
        order = tuple(sorted(moving, key=lambda i: (vector[i], i)))
        fixed = tuple(n - vector[order[0]] if i in order else n for i, n in enumerate(vector))
        return Curve(order, fixed, room)

    def vector(self, size: Any) -> tuple[Any, ...]:
        """All sizes where the first moving one is `size`."""
        return tuple([n + size if i in self.moving else n for i, n in enumerate(self.fixed)])

    def holds(self, vector: Vector) -> bool:
        """Whether a vector lies on it."""
        return self.vector(vector[self.moving[0]]) == vector


class Sized:
    """Programs of a file by the sizes of its inputs.

    Parameters
    ----------
    core : Core
    inputs : mapping of str to Declared
    upper : mapping of str to int
        Largest extents of named sizes.
    """

    def __init__(self, core: "Core", inputs: Mapping[str, Declared], upper: Mapping[str, int]) -> None:
        self.core = core
        self.inputs = dict(inputs)
        self.upper = dict(upper)
        self.caches = growing(core.block, inputs)
        self.reason = ""  # why a size could not be followed
        self.compiled = 0  # ordinary compilations and families, as a test counts them
        self._recent: list[tuple[Vector, tuple[tuple[str, int], ...]]] = []
        self._curves: list[Curve] = []
        self._limits: dict[str, int] = {}
        self._families = Families(core.model.options, self._limits, self._bind)
        self._exact: LRU[Any, Variant] = LRU(VARIANTS)
        self._guard = _interp.Guard()
        self._scratch: Array | None = None
        known = {d for t in self.inputs.values() for d in t.shape or () if isinstance(d, str)}
        strange = [n for n in upper if n not in known]
        if strange:
            raise ConfigError(f"CompileOptions.extents: sizes of the file are {sorted(known)}, got {strange}")

    def after_fork(self) -> None:
        """In a child: a thread that held a lock does not exist here."""
        self._families.after_fork()
        self._exact.after_fork()

    def programs(self) -> list[Variant]:
        """What is kept here besides the plans."""
        return list(self._exact.values())

    def axes(self, room: Mapping[str, int]) -> list[tuple[str, int]]:
        """Input and axis of every place of a vector but the last."""
        return [(n, i) for n, t in self.inputs.items() if n not in room and t.kind == "tensor"
                for i, d in enumerate(t.sizes or ()) if d is None]

    # -- programs ---------------------------------------------------------------------

    def program(self, shapes: Mapping[str, tuple[int, ...]], room: Mapping[str, int], past: int) -> Variant | None:
        """As `variant`, for a caller that does not hold the lock of the file."""
        with self.core.model.lock, collector_paused():
            return self.variant(shapes, room, past)

    def variant(self, shapes: Mapping[str, tuple[int, ...]], room: Mapping[str, int], past: int) -> Variant | None:
        """The program for inputs of these shapes; None if nothing is followed, or cannot be.

        Parameters
        ----------
        shapes : mapping of str to tuple
            Of the inputs that are no caches, and of those that are their whole memory.
        room : mapping of str to int
            Capacities of the inputs that are caches.
        past : int
            Valid rows of the caches.
        """
        if any(t.kind != "tensor" or (n in shapes and len(shapes[n]) != len(t.sizes or ()))
               for n, t in self.inputs.items()) or not (self.upper or room):
            return None
        vector = (*(shapes[n][i] if n in shapes else -1 for n, i in self.axes(room)), past)
        caches = tuple(sorted(room.items()))
        key = (vector, caches, tuple(sorted(shapes.items())))
        found = self._exact.get(key)
        if found is not None:
            return found
        try:
            found = self._find(vector, caches, shapes)
        except (NotStaticError, GraphError) as error:
            self.reason = self.reason or str(error)
            return None
        found.executor.guard = self._guard
        if self._scratch is None or found.scratch.nbytes > self._scratch.nbytes:
            self._scratch = found.scratch
        self._exact.put(key, found)
        return found

    def ordinary(self, shapes: Mapping[str, tuple[int, ...]]) -> Variant:
        """A program that is no copy of another one, for files."""
        vector = (*(shapes[n][i] if n in shapes else -1 for n, i in self.axes({})), 0)
        with self.core.model.lock:
            return self._compile(self._import(vector, (), shapes, Trace(1, 1)), 1)

    def _compile(self, graph: TraceGraph, extent: int) -> Variant:
        self.compiled += 1
        return self.core.compile(plain(graph, extent))

    def _find(self, vector: Vector, room: tuple[tuple[str, int], ...], shapes: Mapping[str, Any]) -> Variant:
        static = {n: shapes[n] for n in shapes}

        def exact(v: Vector) -> Variant:
            return self._compile(self._import(v, room, static, Trace(1, 1)), 1)

        curve = next((c for c in self._curves if c.room == room and c.holds(vector)), None) or self._learn(vector, room)
        if curve is None:
            return exact(vector)
        size = vector[curve.moving[0]]
        name = repr(curve)
        if not 1 < size <= self._limits[name]:  # 1 broadcasts: it is a case of its own
            return exact(vector)

        def at_extent(wanted: Mapping[str, int]) -> Variant:
            n = wanted[name]
            trace = Trace(n, self._limits[name])
            return self._compile(self._import(curve.vector(trace.size), room, static, trace), n)

        self._now = (curve, room, static)
        store = self.core.weights(kernels.table(self.core.model.options.isa))
        place = Place(store, self.core.model.threads, self.core.name, self.core.rng, Wide({}, {}), self._scratch)
        made = self._families.make({name: size}, at_extent, place)
        made.executor.state = self.core.rng
        made.upload({})
        return made

    def _bind(self, sizes: Mapping[str, Any]) -> Graph:
        """The graph of a family: its size is traced."""
        curve, room, static = self._now
        (size,) = sizes.values()
        self.compiled += 1
        size.trace.valid[0] = False
        return self._import(curve.vector(size), room, static, size.trace)

    def _learn(self, vector: Vector, room: tuple[tuple[str, int], ...]) -> Curve | None:
        """The curve through this vector and a recent one, if all that differs moved by the same amount."""
        places, found = self.axes(dict(room)), None
        names = [self.inputs[n].shape[i] for n, i in places]  # type: ignore[index]
        named = {d: [i for i, m in enumerate(names) if m == d] for d in self.upper}
        for other, same in reversed(self._recent):
            steps = {a - b for a, b in zip(vector, other, strict=False)} - {0}
            if same == room and len(other) == len(vector) and len(steps) == 1 and (vector[-1] > 0) == (other[-1] > 0):
                moving = [i for i, (a, b) in enumerate(zip(vector, other, strict=True)) if a != b]
                if room or any(i in moving for where in named.values() for i in where):
                    found = Curve.through(vector, moving, room)
                    break
        if found is None and not room:  # at first: sizes of one name move together
            moving = next((where for where in named.values() if where and vector[where[0]] > 0), [])
            found = Curve.through(vector, moving, room) if moving else None
        self._recent = [*self._recent[1 - RECENT :], (vector, room)]
        if found is not None:
            limits = [self.upper[d] for d in named if any(i in found.moving for i in named[d])]
            limits += [n for _, n in room]
            self._limits[repr(found)] = min(limits) - max(0, *(found.fixed[i] for i in found.moving), 0) * (not room)
            self._curves = [*self._curves[-31:], found]
        return found

    # -- importing -----------------------------------------------------------------------

    def _import(self, vector: Sequence[Any], room: tuple[tuple[str, int], ...], static: Mapping[str, Any],
                trace: Trace) -> TraceGraph:
        """The file as one graph with these sizes."""
        core, caches = self.core, dict(room)
        sizes = dict(zip(self.axes(caches), vector, strict=False))
        tracer = SizeTracer(core, trace)
        graph = tracer.graph
        scope = Scope(core.outer, dict(core.block.initialisers))
        buffers: dict[str, Value] = {}
        for name in core.inputs:
            if name not in static:
                continue
            declared = self.inputs[name]
            dtype = numpy_type(declared.code, name)
            shape = [sizes.get((name, i), n) for i, n in enumerate(static[name])]
            value = graph.input(name, shape, dtype)
            if name in caches:
                buffers[name] = value
                axis = next(c.axis for c in self.caches.values() if c.input == name)
                value = ops.slice(value, starts=(0,), stops=(vector[-1],), axes=(axis,))
            scope.items[name] = value
        length = graph.input(LENGTH, (), np.int64) if caches else None
        try:
            tracer.walk(core.block, scope)
            items = tracer.results(core.block, scope)
            for name, item in zip(core.block.outputs, items, strict=True):
                graph.output(name, graph.run_time(tracer.value(item)))
        except NotStaticError:
            raise
        except FormatError as error:
            raise NotStaticError(str(error)) from None
        if length is None:
            return graph
        return _in_place(graph, {o: (buffers[c.input], c.axis) for o, c in self.caches.items() if c.input in buffers},
                         length, trace)


def check_equal(lengths: Mapping[str, Any]) -> None:
    """Raise unless caches that have one length are equally long behind a run.

    Raises
    ------
    BindingError
        They are not.
    """
    if any(n != next(iter(lengths.values())) for n in lengths.values()):
        found = {k: int(n) for k, n in lengths.items()}
        raise BindingError(f"caches of one length must grow by as many rows, got lengths {found}"
                           "\nhint: bind and link the others as plain handles")


def _in_place(graph: TraceGraph, caches: Mapping[str, tuple[Value, int]], length: Value, trace: Trace) -> TraceGraph:
    """Concatenations of a cache and new rows as rows written behind what is valid."""
    joined: dict[Any, tuple[str, Value, int]] = {}
    for output, (buffer, axis) in caches.items():
        node = graph.outputs[output].node
        past = node.inputs[0] if node.op.name == "concat" and len(node.inputs) == 2 else None
        if past is None or past.node.inputs[:1] != (buffer,) or normal_axis(node.attrs["axis"], past.rank, "") != axis:
            raise NotStaticError(f"output {output!r}: must be its input with rows behind it")
        joined[node] = (output, buffer, axis)
    check_equal({buffer.node.name: node.outputs[0].shape[axis] for node, (_, buffer, axis) in joined.items()})
    rewriter = Rewriter(graph)
    rewriter.graph = TraceGraph(graph.name, trace)
    whole: dict[str, Value] = {}
    end: Value | None = None
    for node in graph.nodes:
        if node not in joined:
            if node.op.has("leaf"):
                rewriter.leaf(node)
            else:
                rewriter.copy(node)
            continue
        output, buffer, axis = joined[node]
        rows, total, room = rewriter.get(node.inputs[1]), node.outputs[0].shape[axis], buffer.shape[axis]
        assert rows is not None and isinstance(total, int) and isinstance(room, int)
        if total > room:
            raise BindingError(f"cache {buffer.node.name!r}: length and new rows must fit the capacity {room}, "
                               f"got {total} rows\nhint: truncate it, or bind it with a larger capacity")
        whole[output], end = ops.cache_append(rewriter.map[buffer], rows, rewriter.map[length], axis=axis,
                                              name=f"{node.name}/append")
        rewriter.replace(node.outputs[0],
                         ops.slice(whole[output], starts=(0,), stops=(total,), axes=(axis,), name=node.name))
    for name, value in graph.outputs.items():
        rewriter.graph.output(name, whole.get(name, rewriter.map[value]))
    assert end is not None
    rewriter.graph.output(LENGTH_NEXT, end)
    assert isinstance(rewriter.graph, TraceGraph)
    return rewriter.graph


