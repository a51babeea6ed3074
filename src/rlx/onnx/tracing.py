"""The graph of a segment while it is built: folds shape arithmetic, knows what is constant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlx.errors import RlxError
from rlx.ir.graph import CONSTANT, INPUT, Graph, Node, Value
from rlx.ir.opdef import Array, OpDef
from rlx.ir.traced import Trace, Traced, trace_of

# Integer and bool results up to this many elements are computed while importing.
FOLD_ELEMENTS = 4096
# Limits of what is evaluated on the host to learn a shape or a predicate.
PROBE_NODES = 256
PROBE_ELEMENTS = 4096
# Inputs of up to this many elements (shapes, flags, scales) may become part of the key of a plan; larger ones are data.
GUARD_ELEMENTS = 64
# What two elements of a sequence that counts are put together with.
_DIGIT = 64
# Longest sequence that counts: a range of a size that is followed ends below it.
MAX_COUNT = 1 << 20


def _op(name: str) -> OpDef:
    from rlx.ops import TABLE

    return TABLE[name]


def element_count(value: Value) -> int:
    """Number of elements; every size is a number while importing."""
    n = 1
    for d in value.shape:
        assert isinstance(d, int)
        n *= d
    return n


# Of ops whose results are not told by their operands, or whose shapes are not.
_EFFECTS = frozenset({"random", "stateful", "dynamic"})


class TraceGraph(Graph):
    """Evaluates integer and bool ops on constants at once, exactly, by their definitions.

    Attributes
    ----------
    place : str
        Name for the nodes that are emitted now.
    pure : set of Value
        Values that depend on constants alone.
    trace : Trace, optional
        A size is followed (`rlx.ir.traced`): arrays made from it are known at every extent, and are not constants.
    """

    _copies = False  # arrays of a file, and made from them: told by identity, and nobody else has them

    def __init__(self, name: str, trace: Trace | None = None) -> None:
        super().__init__(name)
        self.trace = trace
        self._tables: dict[int, tuple[Array, Array]] = {}  # by identity: an array, and its values at all extents
        self._folds: dict[Any, list[Array]] = {}
        self._held: dict[Value, Value] = {}
        self._sequences: dict[int, Value] = {}  # by length
        self.track_source = False
        self.place = ""
        self.pure: set[Value] = set()
        self.capture_inputs: dict[Any, Value] = {}
        self.transplanted: dict[Value, Value] = {}
        self._constants: dict[int, Value] = {}

    def dismantle(self) -> None:
        super().dismantle()
        self.pure, self.capture_inputs, self.transplanted, self._constants = set(), {}, {}, {}
        self._tables, self._folds, self._held, self._sequences = {}, {}, {}, {}

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
        known, pure = _EFFECTS.isdisjoint(op.traits), self.pure
        if known:
            for v in inputs:
                if v is not None and v not in pure:
                    known = False
                    break
        if self.trace is not None:
            if known:
                return self._emit_traced(op, inputs, attrs, name, loc)
            inputs = [None if v is None else self.run_time(v) for v in inputs]
        if known and all(v is None or v.array is not None for v in inputs):
            folded = self._fold(op, inputs, attrs)
            if folded is not None:
                return folded
        results = super().emit(op, inputs, attrs, name=name or self.place or None, loc=loc or "", fresh=fresh)
        if known:
            self.pure.update(results)
        return results

    # -- a size that is followed ------------------------------------------------------

    def numbers(self, array: Any) -> list[Any]:
        """The elements of an array of integers, traced where they are made from the size."""
        held = self._tables.get(id(array))
        if held is None or self.trace is None:
            return [int(v) for v in np.asarray(array).reshape(-1)]
        table = held[1]
        return [self.trace.number(table[:, k]) for k in range(table.shape[1])]

    def sizes(self, shape: Sequence[Any], scalar: bool = False) -> Array:
        """Sizes as an array, of rank 0 if it is one, which keeps what is known of them."""
        array = np.asarray([int(d) for d in shape], np.int64)
        if scalar:
            array = array.reshape(())
        if self.trace is not None and trace_of(tuple(shape)) is not None:
            n = len(self.trace.valid)
            self._remember(array, np.stack([np.broadcast_to(getattr(d, "values", d), (n,)) for d in shape], 1))
        return array

    def is_sized(self, array: Any) -> bool:
        """Whether an array is made from the size that is followed."""
        return id(array) in self._tables

    def counting(self, stop: Any = 0) -> Value | None:
        """0, 1, 2, ... up to `stop`, a number that may be traced, and beyond, as a value that is no constant.

        None for numbers so large that a size is followed no more.
        """
        assert self.trace is not None
        size = 4 * len(self.trace.valid) + 64
        need = int(getattr(stop, "values", np.full(1, stop)).max())
        if need > size:
            size = 1 << (need - 1).bit_length()
        if need > MAX_COUNT:
            self.trace.end(f"a range ends at {need}")
            return None
        if size not in self._sequences:
            (self._sequences[size],) = super().emit(
                _op("hold"), [self.constant(np.arange(size, dtype=np.int64))], {}, loc="")
        return self._sequences[size]

    def _remember(self, array: Array, table: Array) -> None:
        """Keep the values of an array at all extents, unless they are the same."""
        if (table != table[self.trace.at if self.trace else 0]).any():
            self._tables[id(array)] = array, table

    def _emit_traced(
        self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any], name: str | None, loc: str | None
    ) -> tuple[Value, ...]:
        """A node on constants, of which some are made from the size, or whose attributes are."""
        by_size = trace_of(list(attrs.values())) is not None
        sized = [v for v in inputs if v is not None and id(v.array) in self._tables]
        if not by_size and all(v is None or v.array is not None for v in inputs):
            folded = self._fold_everywhere(op, inputs, attrs) if sized else self._fold(op, inputs, attrs)
            if folded is not None:
                return folded
        given = list(inputs)
        if by_size or sized:
            given = [None if v is None else self.run_time(v, by_size) for v in inputs]
        results = super().emit(op, given, attrs, name=name or self.place or None, loc=loc or "")
        if not (by_size or sized):
            self.pure.update(results)
        return results

    def run_time(self, value: Value, hold: bool = False) -> Value:
        """What is made from the size as a value that every run computes; other values too if `hold`."""
        table = self._tables.get(id(value.array))
        if table is not None:
            return self._computed(value, table[1])
        if hold and value not in self._held:
            (self._held[value],) = super().emit(_op("hold"), [value], {}, loc="")
        return self._held.get(value, value)

    def number(self, number: Any, dtype: Any) -> Value:
        """A number as a value of rank 0, traced or not; by every run if it is traced."""
        values = number.values if isinstance(number, Traced) else np.full(1, number)
        if isinstance(number, Traced) and values.max() < 0:
            return super().emit(_op("neg"), [self.number(-number, dtype)], {}, loc="")[0]
        plain = self.constant(np.asarray(int(number) if isinstance(number, int) else number).astype(dtype.numpy))
        return self._computed(plain, values[:, None]) if isinstance(number, Traced) else plain

    def _computed(self, value: Value, table: Array) -> Value:
        """The integers of a table, read from a sequence that counts: the low digit, and the rest."""
        assert self.trace is not None
        most = 4 * len(self.trace.valid) + 64
        if table.dtype == np.bool_ or not table.size or table.min() < 0 or table.max() >= most * _DIGIT:
            self.trace.end("a constant is made from the extent")
            return value
        parts = [self._digits(self.trace.number(table[:, k]), int(table.max()) < most) for k in range(table.shape[1])]
        whole = parts[0] if len(parts) == 1 else super().emit(_op("concat"), parts, {"axis": 0}, loc="")[0]
        if value.shape != whole.shape:
            (whole,) = super().emit(_op("reshape"), [whole], {"shape": value.shape}, loc="")
        if value.dtype != whole.dtype:
            (whole,) = super().emit(_op("cast"), [whole], {"dtype": value.dtype}, loc="")
        return whole

    def _digits(self, at: Any, one: bool) -> Value:
        """A number as one element of the sequence that counts, or as two of them."""
        def element(i: Any) -> Value:
            return super(TraceGraph, self).emit(
                _op("slice"), [self.counting(i + 1)], {"starts": (i,), "stops": (i + 1,)}, loc="")[0]

        if one:
            return element(at)
        base = self.constant(np.full(1, _DIGIT, np.int64))
        (high,) = super().emit(_op("mul"), [element(at // _DIGIT), base], {}, loc="")
        return super().emit(_op("add"), [high, element(at % _DIGIT)], {}, loc="")[0]

    def _fold_everywhere(
        self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
    ) -> tuple[Value, ...] | None:
        """As `_fold`, with the values at all extents; those at which the results have other shapes are ruled out."""
        here = self._fold(op, inputs, attrs)
        if here is None or self.trace is None:
            return None
        columns = [None if v is None else self._tables.get(id(v.array)) for v in inputs]
        key = (op.name, repr(op.normal_attrs(attrs)),
               *(None if v is None or v.array is None else (v.array.dtype.str, v.array.shape, v.array.tobytes())
                 for v in inputs),
               *(None if c is None else c[1].tobytes() for c in columns))
        found = self._folds.get(key)
        if found is None:
            from rlx.reference import evaluate_op

            found = []
            for e in range(len(self.trace.valid)):
                arrays = [None if v is None else v.array if c is None or v.array is None
                          else c[1][e].reshape(v.array.shape) for v, c in zip(inputs, columns, strict=True)]
                try:
                    rows = evaluate_op(op, arrays, attrs)
                except (RlxError, ArithmeticError, ValueError, IndexError):
                    rows = ()
                if [r.shape for r in rows] != [v.shape for v in here]:
                    self.trace.valid[e] = False
                    rows = tuple(v.array for v in here if v.array is not None)
                for i, r in enumerate(rows):
                    if e == 0:
                        found.append(np.empty((len(self.trace.valid), r.size), r.dtype))
                    found[i][e] = r.reshape(-1)
            self._folds[key] = found
        for v, table in zip(here, found, strict=True):
            if v.array is not None:
                self._remember(v.array, table)
        return here

    def _fold(self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any]) -> tuple[Value, ...] | None:
        if any(v is not None and element_count(v) > FOLD_ELEMENTS for v in inputs):
            return None
        op.check_arity(len(inputs))
        normal = op.normal_attrs(attrs)
        types = op.infer(*(None if v is None else v.type for v in inputs), **normal)
        for t in types:
            if t.dtype.is_float or t.dtype.is_complex or not isinstance(t.size, int) or t.size > FOLD_ELEMENTS:
                return None
        from rlx.reference import evaluate_op

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
        from rlx.reference import evaluate_op

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
