"""The graph of a segment while it is built: folds shape arithmetic, knows what is constant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlx.errors import RlxError
from rlx.ir.graph import CONSTANT, INPUT, Graph, Node, Value
from rlx.ir.opdef import Array, OpDef
from rlx.reference import evaluate_op

# Integer and bool results up to this many elements are computed while importing.
FOLD_ELEMENTS = 4096
# Limits of what is evaluated on the host to learn a shape or a predicate.
PROBE_NODES = 256
PROBE_ELEMENTS = 4096
# Inputs of up to this many elements (shapes, flags, scales) may become part of the key of a plan; larger ones are data.
GUARD_ELEMENTS = 64


def element_count(value: Value) -> int:
    """Number of elements; every size is a number while importing."""
    n = 1
    for d in value.shape:
        assert isinstance(d, int)
        n *= d
    return n


class TraceGraph(Graph):
    """Evaluates integer and bool ops on constants at once, exactly, by their definitions.

    Attributes
    ----------
    place : str
        Name for the nodes that are emitted now.
    pure : set of Value
        Values that depend on constants alone.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.track_source = False
        self.place = ""
        self.pure: set[Value] = set()
        self.capture_inputs: dict[Any, Value] = {}
        self.transplanted: dict[Value, Value] = {}
        self._constants: dict[int, Value] = {}

    def dismantle(self) -> None:
        super().dismantle()
        self.pure, self.capture_inputs, self.transplanted, self._constants = set(), {}, {}, {}

    def of_array(self, array: Array) -> Value:
        """The constant for an array, one per array object."""
        found = self._constants.get(id(array))
        if found is None or found.array is None:
            found = self.constant(array)
            self._constants[id(array)] = found
            if found.array is not array:  # converted: keep the source, for its identity
                self._keep(array)
        return found

    def _keep(self, array: Array) -> None:
        self.__dict__.setdefault("_kept", []).append(array)

    def constant(self, array: Any, dtype: Any = None, name: str | None = None) -> Value:
        value = super().constant(array, dtype, name)
        self.pure.add(value)
        return value

    def emit(
        self,
        op: OpDef,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any],
        name: str | None = None,
        loc: str | None = None,
        fresh: tuple[str, ...] = (),
    ) -> tuple[Value, ...]:
        known = not op.has("random") and not op.has("stateful") and not op.has("dynamic")
        known = known and all(v is None or v in self.pure for v in inputs)
        if known and all(v is None or v.array is not None for v in inputs):
            folded = self._fold(op, inputs, attrs)
            if folded is not None:
                return folded
        results = super().emit(op, inputs, attrs, name=name or self.place or None, loc=loc or "", fresh=fresh)
        if known:
            self.pure.update(results)
        return results

    def _fold(self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any]) -> tuple[Value, ...] | None:
        if any(v is not None and element_count(v) > FOLD_ELEMENTS for v in inputs):
            return None
        op.check_arity(len(inputs))
        normal = op.normal_attrs(attrs)
        types = op.infer(*(None if v is None else v.type for v in inputs), **normal)
        for t in types:
            if t.dtype.is_float or t.dtype.is_complex or not isinstance(t.size, int) or t.size > FOLD_ELEMENTS:
                return None
        try:
            arrays = evaluate_op(op, [None if v is None else v.array for v in inputs], attrs)
        except (RlxError, ArithmeticError, ValueError, IndexError):
            return None
        return tuple(self.constant(a) for a in arrays)

    def leaves(self, value: Value) -> set[Value] | None:
        """Inputs that a value depends on, None if that is too large to evaluate on the host."""
        found: set[Value] = set()
        seen: set[int] = set()
        stack = [value]
        while stack:
            v = stack.pop()
            if id(v.node) in seen:
                continue
            seen.add(id(v.node))
            if v.node.op is CONSTANT:
                continue
            if element_count(v) > PROBE_ELEMENTS or len(seen) > PROBE_NODES:
                return None
            if v.node.op is INPUT:
                found.add(v)
                continue
            if v.node.op.has("random") or v.node.op.has("stateful") or v.node.op.has("leaf"):
                return None
            stack += [i for i in v.node.inputs if i is not None]
        return found

    def evaluate(self, value: Value, given: Mapping[Value, Array]) -> Array:
        """The value by the definitions of the ops, from given inputs."""
        known: dict[Value, Array] = dict(given)
        for node in ancestors([value]):
            out = node.outputs[0]
            if out in known:
                continue
            if out.array is not None:
                known[out] = out.array
                continue
            arrays = [None if v is None else known[v] for v in node.inputs]
            known.update(zip(node.outputs, evaluate_op(node.op, arrays, node.attrs), strict=True))
        return known[value]


def ancestors(values: Iterable[Value]) -> list[Node]:
    """Nodes that values depend on, in an order in which they can be computed."""
    order: list[Node] = []
    done: set[int] = set()
    stack: list[tuple[Node, bool]] = [(v.node, False) for v in values]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in done:
            done.add(id(node))
            stack.append((node, True))
            stack += [(v.node, False) for v in node.inputs if v is not None]
    return order


def transplant(value: Value, target: TraceGraph, made: dict[Value, Value]) -> Value:
    """Copy what computes a constant expression into another graph."""
    for node in ancestors([value]):
        if node.outputs[0] in made:
            continue
        if node.op is CONSTANT:
            array = node.outputs[0].array
            assert array is not None
            made[node.outputs[0]] = target.of_array(array)
            continue
        inputs = [None if v is None else made[v] for v in node.inputs]
        made.update(zip(node.outputs, target.emit(node.op, inputs, node.attrs, name=node.name), strict=True))
    return made[value]
