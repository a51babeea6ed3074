"""Graph, Node, Value: an append-only list of nodes in topological order.

A `Value` is bound to its graph and carries operators; building a node runs the
op's rules at once, so that a graph that exists is well typed. Passes do not
change a graph: they build a new one.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _nodes
from rlx.dtypes import DType
from rlx.errors import GraphError, TypeRuleError
from rlx.ir.dims import AnyDim, Dim, DimLike
from rlx.ir.opdef import OpDef
from rlx.ir.operators import Operators
from rlx.ir.traced import trace_of
from rlx.ir.types import Shape, TensorType, check_size

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

def _leaf_infer(*types: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
    raise GraphError("leaf: inputs, parameters and constants are made by Graph methods")


def _leaf(name: str, doc: str) -> OpDef:
    return OpDef(
        name, (), _leaf_infer, _leaf_infer, doc, dtypes=dtypes.ALL, traits=frozenset({"leaf"})
    )


INPUT = _leaf("input", "A value given at every run.")
PARAM = _leaf("param", "A value set once before the first run.")
CONSTANT = _leaf("constant", "A value that is part of the graph.")


class Node:
    """One op applied to values.

    Attributes
    ----------
    op : OpDef
    inputs : tuple of Value or None
    attrs : dict
        Normal form; subgraphs of control flow are `Graph` objects.
    outputs : tuple of Value
    name : str
        Unique in the graph.
    loc : str
        Where it was made: a source line, or the name in the imported file.
    fresh : tuple of str
        Names of the sizes that only a run can tell (dynamic ops).
    """

    __slots__ = ("attrs", "fresh", "inputs", "loc", "name", "op", "outputs")

    def __init__(
        self, op: OpDef, inputs: tuple["Value | None", ...], attrs: dict[str, Any], name: str, loc: str
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.name = name
        self.loc = loc
        self.fresh: tuple[str, ...] = ()
        self.outputs: tuple[Value, ...] = ()

    def __repr__(self) -> str:
        args = ", ".join("-" if v is None else v.name for v in self.inputs)
        return f"<{self.name} = {self.op.name}({args})>"

    @property
    def place(self) -> str:
        """Name, op and location, for errors."""
        where = f" at {self.loc}" if self.loc else ""
        return f"node {self.name!r} ({self.op.name}){where}"


class Value(Operators):
    """A result of a node: one tensor of a known type."""

    __slots__ = ("_array", "graph", "index", "node", "type")

    def __init__(self, graph: "Graph", node: Node, index: int, type_: TensorType) -> None:
        self.graph = graph
        self.node = node
        self.index = index
        self.type = type_
        self._array: Array | None = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """Sizes; ints or symbolic."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.type.shape)

    @property
    def name(self) -> str:
        """The node's name, with the result's number when there are several."""
        many = len(self.node.outputs) > 1
        return f"{self.node.name}.{self.index}" if many else self.node.name

    @property
    def array(self) -> Array | None:
        """The array of a constant, None for anything else."""
        return self._array

    def __reduce__(self) -> tuple[Any, ...]:
        from rlx.aot.pickles import value_of

        place = next(i for i, node in enumerate(self.graph.nodes) if node is self.node)
        return value_of, (self.graph, place, self.index)

    def release(self) -> None:
        """Let go of a constant's array; the graph can then be looked at, but not compiled."""
        self._array = None

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


_nodes.bind(Node, Value, CONSTANT)


class Graph:
    """A tensor program under construction, or finished.

    Parameters
    ----------
    name : str
    """

    _copies = True  # arrays that somebody else may change

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.params: list[Value] = []
        self.outputs: dict[str, Value] = {}
        self.metadata: dict[str, str] = {}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self.track_source = True

    # -- building ---------------------------------------------------------------

    def unique_name(self, stem: str) -> str:
        """A name not yet used in this graph."""
        if stem not in self._names:
            self._names.add(stem)
            return stem
        while True:
            count = self._counts.get(stem, 0) + 1
            self._counts[stem] = count
            name = f"{stem}_{count}"
            if name not in self._names:
                self._names.add(name)
                return name

    def adopt(
        self, like: Node, inputs: tuple["Value | None", ...], types: tuple[TensorType, ...]
    ) -> tuple[Value, ...]:
        """Append a node that is like one of another graph, whose rules have run already."""
        made: tuple[Value, ...] = _nodes.adopt(self, like, inputs, types)
        return made

    def _named_leaf(self, op: OpDef, name: str, shape: Iterable[DimLike], dtype: Any) -> Value:
        if not isinstance(name, str) or not name:
            raise GraphError(f"{op.name}: a name must be a non-empty string, got {name!r}")
        if name in self._names and any(v.node.name == name for v in self.inputs + self.params):
            raise GraphError(f"{op.name}: names must differ, got {name!r} twice")
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
            raise GraphError(f"{op.name} {name!r}: a shape must be a tuple of sizes, got {shape!r}")
        type_ = TensorType.of(dtypes.as_dtype(dtype), shape)
        check_size(type_, f"{op.name} {name!r}")
        if name in self._names:  # taken by a computed node: that one gives way
            for node in self.nodes:
                if node.name == name:
                    node.name = self.unique_name(name)
        value: Value = _nodes.append(self, op, (), {}, name, "", (type_,))[0]
        return value

    def fresh_input(self, name: str, type_: TensorType) -> Value:
        """An input under a name that no node has, of a type that has been checked."""
        value: Value = _nodes.append(self, INPUT, (), {}, name, "", (type_,))[0]
        self.inputs.append(value)
        return value

    def input(self, name: str, shape: Iterable[DimLike], dtype: Any = dtypes.f32) -> Value:
        """Declare an input.

        Parameters
        ----------
        name : str
        shape : iterable of int, str or Dim
            A string names a symbolic size.
        dtype : DType, name or NumPy type
        """
        value = self._named_leaf(INPUT, name, shape, dtype)
        self.inputs.append(value)
        return value

    def param(self, name: str, shape: Iterable[DimLike], dtype: Any = dtypes.f32) -> Value:
        """Declare a parameter: set before the first run, kept between runs."""
        value = self._named_leaf(PARAM, name, shape, dtype)
        self.params.append(value)
        return value

    def constant(self, array: Any, dtype: Any = None, name: str | None = None) -> Value:
        """Put an array into the graph: its values of now. A read-only array is kept as it is, others are copied."""
        data = array
        if type(array) is not np.ndarray:
            if (trace := trace_of(array)) is not None:
                trace.end("a constant is made from the extent")
            try:
                data = np.asarray(array)
            except (ValueError, TypeError, OverflowError) as error:
                raise GraphError(f"constant: must be an array, got {type(array).__name__} ({error})") from error
        if dtype is not None:
            data = data.astype(dtypes.as_dtype(dtype).numpy)
        kind = dtypes.of_array(data)
        data = np.asarray(data, kind.numpy, order="C")
        type_ = TensorType(kind, data.shape)
        check_size(type_, "constant")
        if kind.kind == "b":
            data = clean_bools(data)
        if self._copies and data.flags.writeable and (
            not isinstance(array, np.ndarray) or np.may_share_memory(data, array)
        ):
            data = data.copy()
            data.flags.writeable = False
        value: Value = _nodes.append(self, CONSTANT, (), {}, name or "const", "", (type_,))[0]
        value._array = data
        return value

    def as_value(self, item: Any, dtype: DType | None, what: str) -> Value:
        """A Value of this graph; numbers and arrays become constants.

        Raises
        ------
        GraphError
            The value belongs to another graph, or cannot be a tensor.
        """
        if isinstance(item, Value):
            if item.graph is not self:
                raise GraphError(
                    f"{what}: operands must belong to graph {self.name!r}, "
                    f"got {item.name!r} of graph {item.graph.name!r}"
                )
            return item
        if (trace := trace_of(item)) is not None:
            trace.end(f"{what}: a constant is made from the extent")
        if isinstance(item, (bool, int, float, complex)) and dtype is not None:
            return self.constant(_number(item, dtype, what))
        try:
            return self.constant(item)
        except (TypeError, ValueError) as error:
            raise GraphError(f"{what}: an operand must be a Value or an array, got {item!r}") from error

    def emit(
        self,
        op: OpDef,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any],
        name: str | None = None,
        loc: str | None = None,
        fresh: tuple[str, ...] = (),
    ) -> tuple[Value, ...]:
        """Check and append a node; returns its results.

        A dynamic op's rule names the sizes that only a run can tell `unbacked...`;
        here they get names of their own, or those in `fresh`.
        """
        given = len(inputs)
        if given < op.n_required or given > op.n_fixed:
            op.check_arity(given)
        normal = op.normal_attrs(attrs)
        if given < op.n_fixed:
            inputs = [*inputs, *[None] * (op.n_fixed - given)]
        types: list[TensorType | None] = _nodes.types_of(inputs)
        for i in range(op.n_required):
            if types[i] is None:
                raise TypeRuleError(f"{op.name}: operand {op.inputs[i]!r} must be given, got None")
        if op.is_variadic and not op.internal and any(t is None for t in types[op.n_fixed :]):
            raise TypeRuleError(f"{op.name}: operand {op.inputs[op.n_fixed]!r} must be given, got None")
        try:
            result = op.infer(*types, **normal)
        except TypeRuleError as error:
            raise type(error)(_told(str(error), op, types, name)) from None
        first = types[0] if types else None
        for t in result:
            if t is not first and not _nodes.fits(t.shape, t.dtype.itemsize):
                check_size(t, op.name)
        if loc is None:
            loc = _caller() if self.track_source else ""
        names: tuple[str, ...] = ()
        if "dynamic" in op.traits:
            result, names = self._name_fresh(result, fresh)
        made: tuple[Value, ...] = _nodes.append(self, op, tuple(inputs), normal, name or op.name, loc, result, names)
        return made

    def _name_fresh(
        self, types: tuple[TensorType, ...], names: tuple[str, ...]
    ) -> tuple[tuple[TensorType, ...], tuple[str, ...]]:
        """Replace the placeholders of a dynamic op's rule by symbols of this graph."""
        found = sorted({s for t in types for s in t.symbols() if s.startswith("unbacked")})
        names = names or tuple(self.unique_name("u") for _ in found)
        table = {old: Dim.symbol(new) for old, new in zip(found, names, strict=True)}
        return tuple(
            t.with_shape([table.get(str(d), d) if isinstance(d, Dim) else d for d in t.shape]) for t in types
        ), names

    def output(self, name: str, value: Value) -> Value:
        """Name a value as a result. The order of calls is the order of outputs."""
        if not isinstance(value, Value) or value.graph is not self:
            raise GraphError(f"output {name!r}: must be a Value of graph {self.name!r}, got {value!r}")
        if name in self.outputs:
            raise GraphError(f"output: names must differ, got {name!r} twice")
        self.outputs[name] = value
        return value

    # -- looking ----------------------------------------------------------------

    def symbols(self) -> set[str]:
        """Names of the open sizes of inputs and params."""
        return {s for v in self.inputs + self.params for s in v.type.symbols()}

    def uses(self) -> dict[Value, int]:
        """How often each value is read; being an output counts as a read."""
        count: dict[Value, int] = _nodes.uses(self.nodes)
        for value in self.outputs.values():
            count[value] = count.get(value, 0) + 1
        return count

    def snapshot(self) -> "Graph":
        """The graph as it is now; nodes are shared, later additions are not seen."""
        other = Graph(self.name)
        other.__dict__.update(self.__dict__)
        other.nodes, other.inputs, other.params = list(self.nodes), list(self.inputs), list(self.params)
        other.outputs, other.metadata = dict(self.outputs), dict(self.metadata)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a file with the graph's text and constants."""
        from rlx.aot.pickles import graph_of
        from rlx.aot.save import save_graph

        return graph_of, (save_graph(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Graph":
        other = rewrite(self, lambda rewriter, node: False)
        other.metadata, other.track_source = dict(self.metadata), self.track_source
        return other

    def release(self, larger_than: int = 0) -> None:
        """Let go of the constants of more than so many bytes; for graphs that are not compiled again."""
        for node in self.nodes:
            if node.op is CONSTANT and (array := node.outputs[0].array) is not None and array.nbytes > larger_than:
                node.outputs[0].release()

    def dismantle(self) -> None:
        """Take the graph apart, so that it is freed at once and does not wait for the collector: graphs are cyclic."""
        _nodes.dismantle(self.nodes)
        self.nodes, self.inputs, self.params, self.outputs = [], [], [], {}

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        ins = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        outs = ", ".join(f"{k}: {v.type}" for k, v in self.outputs.items())
        return f"Graph({self.name!r}, {len(self.nodes)} nodes, ({ins}) -> ({outs}))"

    def __str__(self) -> str:
        from rlx.ir.text import print_graph

        return print_graph(self)

    def structural_hash(self) -> str:
        """Hex digest of everything that decides the result: ops, types, attributes, constants."""
        from rlx.ir.text import structural_hash

        return structural_hash(self)


def clean_bools(array: Array) -> Array:
    """Booleans whose bytes are 0 or 1; NumPy lets a view of other bytes pass for bool."""
    raw = array.view(np.uint8)
    return array if raw.max(initial=0) <= 1 else np.asarray(raw != 0)


def _number(item: bool | int | float | complex, dtype: DType, what: str) -> Array:
    """A Python number in the element type of the other operand, if it fits."""
    if isinstance(item, complex) and not dtype.is_complex:
        raise TypeRuleError(f"{what}: operand types must match, got {item!r} and {dtype}")
    if isinstance(item, float) and not (dtype.is_float or dtype.is_complex):
        raise TypeRuleError(
            f"{what}: operand types must match, got float {item!r} and {dtype}"
            "\nhint: cast the tensor with ops.cast(x, dtype=...) first"
        )
    if isinstance(item, int) and dtype.is_int:
        info = np.iinfo(dtype.numpy)
        if not info.min <= item <= info.max:
            raise TypeRuleError(f"{what}: {item} must fit {dtype}, got a value out of range")
    return np.asarray(item).astype(dtype.numpy)


def _told(message: str, op: OpDef, types: Sequence[TensorType | None], name: str | None) -> str:
    """The message of a broken rule with the name of the node, and a hint for operands of float8."""
    first, _, rest = message.partition("\n")
    label = f" (node {name!r})" if name else ""
    if not rest and any(t is not None and t.dtype.is_float8 and t.dtype not in op.dtypes for t in types):
        rest = dtypes.FLOAT8_HINT
    return f"{first}{label}\n{rest}" if rest else f"{first}{label}"


def _caller() -> str:
    """File and line of the innermost frame outside rlx."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("rlx.") and module != "rlx":
            file = frame.f_code.co_filename.rsplit("/", 1)[-1]
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


class Rewriter:
    """Builds a new graph from an old one, node by node.

    A pass calls `copy` for nodes it keeps and maps old results to new values
    with `replace`. Names and locations go along.
    """

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.graph = Graph(source.name)
        self.graph._copies = False  # what passes compute is theirs
        self.graph.metadata = dict(source.metadata)
        self.graph.track_source = False
        self.map: dict[Value, Value] = {}

    def __getitem__(self, old: Value) -> Value:
        return self.map[old]

    def get(self, old: Value | None) -> Value | None:
        """The new value of an old one; None stays None."""
        return None if old is None else self.map[old]

    def replace(self, old: Value, new: Value) -> None:
        """From now on readers of `old` read `new`."""
        self.map[old] = new

    def leaf(self, node: Node, type_: TensorType | None = None) -> None:
        """Copy an input, parameter or constant, perhaps with another type."""
        old = node.outputs[0]
        kind = type_ or old.type
        if node.op is CONSTANT:
            new = self.graph.adopt(node, (), (old.type,))[0]
            new._array = old._array
        elif node.op is INPUT:
            new = (self.graph.input(node.name, kind.shape, kind.dtype) if node.name in self.graph._names
                   else self.graph.fresh_input(node.name, kind))
        else:
            new = self.graph.param(node.name, kind.shape, kind.dtype)
        new.node.loc = node.loc
        self.map[old] = new

    def emit(
        self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any], like: Node
    ) -> tuple[Value, ...]:
        """Append a node of the new graph under the name and place of an old one."""
        fresh = like.fresh if op is like.op else ()
        return self.graph.emit(op, inputs, attrs, name=like.name, loc=like.loc, fresh=fresh)

    def copy(self, node: Node) -> tuple[Value, ...]:
        """Copy a node as it is; returns the new results.

        The rules run again only if an operand has another type than before.
        """
        known = self.map
        new: tuple[Value, ...] | None = _nodes.copy(self.graph, known, node)
        if new is None:
            if not node.inputs:
                self.leaf(node)
                return (known[node.outputs[0]],)
            new = self.emit(node.op, [self.get(v) for v in node.inputs], node.attrs, node)
            known.update(zip(node.outputs, new, strict=True))
        return new

    def finish(self) -> Graph:
        """Name the outputs and return the new graph."""
        for name, value in self.source.outputs.items():
            self.graph.output(name, self.map[value])
        self.graph._copies = True
        return self.graph


def rewrite(source: Graph, visit: Callable[[Rewriter, Node], bool]) -> Graph:
    """New graph in which `visit` replaced the nodes for which it returned True."""
    rewriter = Rewriter(source)
    for node in source.nodes:
        if not visit(rewriter, node):
            rewriter.copy(node)
    return rewriter.finish()


__all__ = ["AnyDim", "Graph", "Node", "Rewriter", "Value", "rewrite"]
