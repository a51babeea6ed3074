"""Weights stored in half precision or float8: which operands can be, and how a graph asks for it.

A weight that is stored so reads ``cast(stored, f32)``: the cast is exact and never done in memory, because a
kernel widens in registers (pass `half-weights`). Weights that a graph has in a storage type come in this form by
themselves; `store_weights` brings those of f32 into it, each rounded once.
"""

import math
from collections.abc import Iterable

import numpy as np

from rlx.dtypes import DType, f32
from rlx.ir.graph import CONSTANT, PARAM, Graph, Node, Rewriter, Value
from rlx.ir.types import static_shape

# A smaller weight is not worth another kernel.
FEWEST = 1024


def is_leaf(value: Value) -> bool:
    """Whether the value is a constant or a parameter."""
    return value.node.op is CONSTANT or value.node.op is PARAM


def swaps_last(node: Node) -> bool:
    """Whether a transpose swaps the last two axes and nothing else."""
    perm = node.attrs["perm"]
    rank = len(perm)
    return rank >= 2 and tuple(perm) == (*range(rank - 2), rank - 1, rank - 2)


def readers_of(graph: Graph) -> dict[Value, list[tuple[Node, int]]]:
    """(node, index of the operand) for every reader of a value; an output of the graph counts as (node, -1)."""
    found: dict[Value, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for i, v in enumerate(node.inputs):
            if v is not None:
                found.setdefault(v, []).append((node, i))
    for v in graph.outputs.values():
        found.setdefault(v, []).append((v.node, -1))
    return found


def takes_halves(node: Node, index: int) -> bool:
    """Whether a kernel reads this f32 operand as well from halves."""
    out = node.outputs[0]
    if index != 1 or out.dtype != f32 or node.inputs[1] is None or node.inputs[1].rank < 2:
        return False
    if node.op.name in ("matmul", "fused_matmul"):
        return node.inputs[0] is not None and node.inputs[0].rank >= 2
    if node.op.name not in ("conv", "conv_nhwc") or not out.type.is_static:
        return False
    weights = static_shape(node.inputs[1].shape, node.name)
    if weights[1] == 1 and node.attrs["groups"] > 1:
        return False  # depthwise: few weights, another kernel
    shape = static_shape(out.shape, node.name)
    pixels = (shape[0], *shape[2:]) if node.op.name == "conv" else shape[:3]
    from rlx.passes.winograd import takes

    return not (len(shape) == 4 and takes(weights, node.attrs, pixels))


def _all_take(value: Value, readers: dict[Value, list[tuple[Node, int]]], *, gathers: bool = False) -> bool:
    """Whether all readers, through transposes, take halves."""

    def one(node: Node, index: int) -> bool:
        if index < 0:
            return False
        if node.op.name == "transpose":
            return swaps_last(node) and all(n.op.name == "matmul" and one(n, i) for n, i in after(node.outputs[0]))
        return takes_halves(node, index) or (gathers and node.op.name == "gather" and index == 0)

    def after(v: Value) -> Iterable[tuple[Node, int]]:
        return readers.get(v, ())

    return bool(readers.get(value)) and all(one(n, i) for n, i in after(value))


def kept_widenings(graph: Graph) -> set[Node]:
    """Casts of stored constants to f32, and transposes of those, that products alone read: not to be folded."""
    casts = [n for n in graph.nodes if n.op.name == "cast" and _widens(n)]
    if not casts:
        return set()
    readers = readers_of(graph)
    found: set[Node] = set()
    for node in casts:
        if _all_take(node.outputs[0], readers):
            found.add(node)
            found.update(n for n, _ in readers[node.outputs[0]] if n.op.name == "transpose")
    return found


def _widens(node: Node) -> bool:
    x, out = node.inputs[0], node.outputs[0]
    return x is not None and x.dtype.is_stored and out.dtype == f32 and out.type.is_static and _size(x) >= FEWEST


def store_weights(graph: Graph, dtype: DType) -> Graph:
    """Give the weights of products, convolutions and lookups a half type, rounded to nearest even, once.

    Those that something else reads too, small ones, and constants with a finite value that the type cannot hold
    stay as they are.
    """
    from rlx.ops import TABLE

    readers = readers_of(graph)
    chosen = {
        n.outputs[0]
        for n in graph.nodes
        if n.op is CONSTANT or n.op is PARAM
        if _storable(n.outputs[0], dtype) and _all_take(n.outputs[0], readers, gathers=True)
    }
    if not chosen:
        return graph
    rewriter = Rewriter(graph)
    halves: dict[Value, Value] = {}
    cast = TABLE["cast"]
    for node in graph.nodes:
        x = node.inputs[0] if node.op.name == "gather" else None
        if x in chosen and x is not None:
            rows = rewriter.emit(node.op, [halves[x], rewriter.get(node.inputs[1])], node.attrs, node)
            (wide,) = rewriter.graph.emit(cast, rows, {"dtype": f32}, name=f"{node.name}/widen", loc=node.loc)
            rewriter.replace(node.outputs[0], wide)
            continue
        rewriter.copy(node)
        if node.outputs and node.outputs[0] in chosen:
            old = node.outputs[0]
            new = rewriter.map[old]
            (half,) = rewriter.graph.emit(cast, [new], {"dtype": dtype}, name=f"{node.name}/store", loc=node.loc)
            (wide,) = rewriter.graph.emit(cast, [half], {"dtype": f32}, name=f"{node.name}/widen", loc=node.loc)
            halves[old] = half
            rewriter.replace(old, wide)
    return rewriter.finish()


def _size(value: Value) -> int:
    return math.prod(static_shape(value.shape, value.name))


def _storable(value: Value, dtype: DType) -> bool:
    if value.dtype != f32 or not value.type.is_static or value.rank < 2:
        return False
    if _size(value) < FEWEST:
        return False
    array = value.array
    if array is None or dtype.name == "bf16":
        return True
    finite = array[np.isfinite(array)]
    return bool(finite.size == 0 or np.abs(finite).max() < 65520)  # which rounds to infinity


def kept_wide(graph: Graph) -> dict[str, tuple[int, int]]:
    """Matrices and larger weights that a graph has in f32: by what reads them, their number and bytes."""
    found: dict[str, dict[Value, int]] = {}
    for node in graph.nodes:
        for v in node.inputs:
            if v is None or not is_leaf(v) or v.dtype != f32 or not v.type.is_static or v.rank < 2:
                continue
            if _size(v) >= FEWEST:
                found.setdefault(_reader(node, v), {})[v] = 4 * _size(v)
    return {what: (len(sizes), sum(sizes.values())) for what, sizes in found.items()}


def _reader(node: Node, weight: Value) -> str:
    name = node.op.name
    if name in ("conv", "conv_nhwc") and weight is node.inputs[1]:
        if node.attrs.get("winograd"):
            return f"{name} by Winograd's method"
        if static_shape(weight.shape, name)[1] == 1 and node.attrs["groups"] > 1:
            return f"depthwise {name}"
    return name
