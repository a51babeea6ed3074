"""A graph of an ONNX file, checked and prepared for walking."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx.errors import FormatError
from rlx.onnx.elements import numpy_type
from rlx.onnx.messages import (
    Attribute,
    Function,
    Graph,
    Node,
    SparseTensor,
    ValueInfo,
    read_attribute,
)
from rlx.onnx.tensors import Array, TensorReader
from rlx.records import field, record

Opsets = Mapping[str, int]
_STANDARD = ("", "ai.onnx")
_MAX_DEPTH = 60


def domain_of(name: str) -> str:
    """The domain with its alias resolved."""
    return "" if name in _STANDARD else name


# Larger nodes hold constants; no op with a definition has such attributes.
_RAW_BYTES = 1 << 16


# Lists from this length on (tree ensembles) are not kept.
_LONG = 16
# Code of an attribute's type -> the field that holds the value.
_ATTRIBUTE_KINDS = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    13: "tp",
}


class LongList:
    """A list of numbers or strings of an attribute, which is read from the file when it is asked for.

    Once it is at hand: it is kept until it has been asked for the first time.
    """

    __slots__ = ("field", "items", "message")

    def __init__(self, message: memoryview, field: str, items: Any) -> None:
        self.message = message
        self.field = field
        self.items = items

    def read(self) -> Any:
        """Strings as a list, numbers as an `array.array`."""
        items, self.items = self.items, None
        return getattr(read_attribute(self.message), self.field) if items is None else items


def plain(value: Any) -> Any:
    """An attribute's value, read if it is a long list."""
    return value.read() if type(value) is LongList else value


_NOTHING: frozenset[str] = frozenset()
_NO_FILE = memoryview(b"")


@record(eq=False, slots=True)
class NodeDef:
    """One node of the file.

    Attributes
    ----------
    drop : tuple of str
        Names that nobody reads after this node.
    refs : dict
        Attributes that take their value from the enclosing function's attribute.
    version : int
        Opset version of the node's domain.
    message : memoryview
        The file, or whatever the node is part of.
    span : tuple of int
        Where the node lies in it.
    """

    op: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    refs: dict[str, str]
    version: int
    index: int
    captures: frozenset[str] = _NOTHING
    drop: tuple[str, ...] = ()
    message: memoryview = _NO_FILE
    span: tuple[int, int] = (0, 0)

    def __init__(
        self, op: str, domain: str, overload: str, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...],
        attrs: dict[str, Any], refs: dict[str, str], version: int, index: int, captures: frozenset[str] = _NOTHING,
        drop: tuple[str, ...] = (), message: memoryview = _NO_FILE, span: tuple[int, int] = (0, 0),
    ) -> None:
        self.op = op
        self.domain = domain
        self.overload = overload
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.refs = refs
        self.version = version
        self.index = index
        self.captures = captures
        self.drop = drop
        self.message = message
        self.span = span

    @property
    def raw(self) -> bytes:
        """The node as serialised, for ops that the standard defines as functions; empty when too large to be one."""
        start, stop = self.span
        return bytes(self.message[start:stop]) if stop - start <= _RAW_BYTES else b""

    @property
    def place(self) -> str:
        """Where the node is, for errors."""
        label = self.name or f"#{self.index}"
        return f"node {label!r} ({self.domain + '.' if self.domain else ''}{self.op})"

    @property
    def blocks(self) -> list["Block"]:
        """Graphs among the attributes."""
        found: list[Block] = []
        for value in self.attrs.values():
            if isinstance(value, Block):
                found.append(value)
            elif isinstance(value, list) and value and isinstance(value[0], Block):
                found += value
        return found


@record(eq=False)
class Block:
    """Nodes in topological order, with initialisers and formal inputs.

    Attributes
    ----------
    captures : frozenset of str
        Names that the block reads from outside.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initialisers: dict[str, Array]
    nodes: list[NodeDef]
    opsets: Opsets
    captures: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    declared: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def empty_stack(self, i: int) -> Array:
        """An empty stack of output i, by its declared type."""
        code, shape = self.declared[i] if i < len(self.declared) else (1, ())
        return np.zeros((0, *shape), numpy_type(code or 1, "output"))


class Reader:
    """Turns messages into blocks."""

    def __init__(self, tensors: TensorReader) -> None:
        self.tensors = tensors

    def graph(self, proto: Graph, opsets: Opsets, depth: int = 0) -> Block:
        """The block of a graph.

        Raises
        ------
        FormatError
            A value is read before it is made, or made twice.
        """
        if depth > _MAX_DEPTH:
            raise FormatError(f"graph {proto.name!r}: graphs must be nested at most {_MAX_DEPTH} deep, got more")
        initialisers = {t.name: self.tensors.array(t) for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            initialisers[sparse.values.name] = self._dense(sparse)
        nodes = [self.node(n, i, opsets, depth) for i, n in enumerate(proto.node)]
        block = Block(
            proto.name,
            tuple(v.name for v in proto.input),
            tuple(v.name for v in proto.output),
            initialisers,
            nodes,
            opsets,
            declared=tuple(map(_declared, proto.output)),
        )
        _prepare(block)
        return block

    def function(self, proto: Function) -> Block:
        """The block of a model-local function."""
        opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
        nodes = [self.node(n, i, opsets, 0) for i, n in enumerate(proto.node)]
        defaults = {a.name: self.attribute(a, opsets, 0) for a in proto.attribute_proto}
        block = Block(
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            {},
            nodes,
            opsets,
            attributes=tuple(proto.attribute),
            defaults=defaults,
        )
        _prepare(block)
        return block

    def node(self, proto: Node, index: int, opsets: Opsets, depth: int) -> NodeDef:
        domain = domain_of(proto.domain)
        label = proto.name or next((o for o in proto.output if o), "")
        attrs: dict[str, Any] = {}
        refs: dict[str, str] = {}
        for a in proto.attribute:
            if a.ref_attr_name:
                refs[a.name] = a.ref_attr_name
            else:
                attrs[a.name] = self.attribute(a, opsets, depth)
        node = NodeDef(
            proto.op_type,
            domain,
            proto.overload,
            label,
            tuple(proto.input),
            tuple(proto.output),
            attrs,
            refs,
            opsets.get(domain, 1),
            index,
        )
        node.message, node.span = self.tensors.buffer, (proto.start, proto.stop)
        if (domain, proto.op_type) == ("ai.onnx.preview.training", "Gradient") and isinstance(attrs.get("y"), bytes):
            node.captures |= {attrs["y"].decode(errors="replace")}  # read by name
        for block in node.blocks:
            node.captures |= block.captures
        return node

    def attribute(self, a: Attribute, opsets: Opsets, depth: int) -> Any:
        kind = _ATTRIBUTE_KINDS.get(a.type)
        if kind in ("i", "f", "s", "tp"):
            return getattr(a, kind)
        if kind == "t":
            return self.tensors.array(a.t)
        if kind == "g":
            return self.graph(a.g, opsets, depth + 1)
        if kind in ("ints", "floats", "strings"):
            items = getattr(a, kind)
            return list(items) if len(items) < _LONG else LongList(self.tensors.buffer[a.start : a.stop], kind, items)
        if kind == "tensors":
            return [self.tensors.array(t) for t in a.tensors]
        if kind == "graphs":
            return [self.graph(g, opsets, depth + 1) for g in a.graphs]
        if kind == "sparse_tensor":
            return self._dense(a.sparse_tensor)
        raise FormatError(f"attribute {a.name!r}: kind must be one that ONNX defines, got {a.type}")

    def _dense(self, sparse: SparseTensor) -> Array:
        what = f"sparse tensor {sparse.values.name!r}"
        values, indices = self.tensors.array(sparse.values), self.tensors.array(sparse.indices)
        shape = tuple(sparse.dims)
        count = 1
        for d in shape:
            count *= d
        if any(d < 0 for d in shape) or count > 1 << 31:
            raise FormatError(f"{what}: sizes must be >= 0 and moderate, got {list(shape)}")
        if indices.ndim == 2 and indices.shape[1] == len(shape):
            try:
                indices = np.ravel_multi_index(tuple(indices.T), shape)
            except ValueError as error:
                raise FormatError(f"{what}: indices must lie inside {list(shape)}, got {error}") from None
        inside = not indices.size or (indices.min() >= 0 and indices.max() < count)
        if indices.shape != values.shape or not inside:
            raise FormatError(f"{what}: indices must lie inside {list(shape)}, one per value")
        result = np.zeros(count, values.dtype)
        result[indices] = values
        return result.reshape(shape)


def _declared(v: ValueInfo) -> tuple[int, tuple[int, ...]]:
    tensor = v.type.tensor_type
    if tensor is None:
        return 0, ()
    return tensor.elem_type, tuple(max(0, d.dim_value or 0) for d in tensor.shape.dim) if tensor.shape else ()


def _as_listed(block: Block, made: Mapping[str, NodeDef]) -> list[NodeDef] | None:
    """The nodes that an output needs, as the file lists them; None if it has one before what it reads."""
    known: set[str] = set()
    for node in block.nodes:
        for name in (*node.inputs, *node.captures) if node.captures else node.inputs:
            if name in made and name not in known:
                return None
        known.update(node.outputs)
    wanted = set(block.outputs)
    wanted.discard("")
    order = []
    for node in reversed(block.nodes):
        if not wanted.isdisjoint(node.outputs):
            order.append(node)
            wanted.update(node.inputs, node.captures)
            wanted.discard("")
    order.reverse()
    return order


def _sorted(block: Block, made: Mapping[str, NodeDef]) -> list[NodeDef]:
    """The nodes that an output needs, each behind what it reads."""
    order: list[NodeDef] = []
    state: dict[int, int] = {}

    def needs(node: NodeDef) -> list[NodeDef]:
        return [made[n] for n in (*node.inputs, *sorted(node.captures)) if n in made]

    wanted = [made[n] for n in block.outputs if n in made]
    kept: set[int] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node.index not in kept:
            kept.add(node.index)
            stack += needs(node)
    for root in block.nodes:
        if root.index not in kept or state.get(root.index) == 2:
            continue
        path: list[tuple[NodeDef, Any]] = [(root, iter(needs(root)))]
        state[root.index] = 1
        while path:
            node, rest = path[-1]
            child = next(rest, None)
            if child is None:
                state[node.index] = 2
                order.append(node)
                path.pop()
            elif state.get(child.index) == 1:
                raise FormatError(f"{child.place}: a node must not depend on its own result")
            elif child.index not in state:
                state[child.index] = 1
                path.append((child, iter(needs(child))))
    return order


def _prepare(block: Block) -> None:
    """Order the nodes, drop those that nothing needs, find captures and last uses."""
    made: dict[str, NodeDef] = {}
    for node in block.nodes:
        for name in node.outputs:
            if name and name in made:
                raise FormatError(f"{node.place}: results must have different names, got {name!r} twice")
            if name:
                made[name] = node
    order = _as_listed(block, made)
    if order is None:
        order = _sorted(block, made)
    last: dict[str, NodeDef] = {}
    own = {*made, *block.inputs, *block.initialisers}
    outside: set[str] = set()
    for node in order:
        for name in (*node.inputs, *node.captures):
            if name:
                last[name] = node
                if name not in own:
                    outside.add(name)
    outside.update(n for n in block.outputs if n not in own)
    drops: dict[int, list[str]] = {}
    results = set(block.outputs)
    for name, node in last.items():
        if name in own and name not in results:
            drops.setdefault(node.index, []).append(name)
    for node in order:
        node.drop = tuple(drops.get(node.index, ()))
        node.outputs = tuple([o if o in last or o in results else "" for o in node.outputs])
    block.nodes = order
    block.captures = frozenset(outside)
