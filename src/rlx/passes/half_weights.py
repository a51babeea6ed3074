"""Products read weights stored in half precision or float8 as they are: the cast to f32 goes into the kernel.

So do few rows by a matrix of halves stored [N, K] that is no weight, such as a cache of keys.
"""

import math

import numpy as np

from rlx.dtypes import f16, f32
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import static_shape
from rlx.passes.cleanup import prune
from rlx.passes.stored import FEWEST, is_leaf, swaps_last

_PRODUCTS = ("matmul", "fused_matmul", "conv_nhwc")
FEW_ROWS = 4  # of the kernel matvec
# The formats of float8 that products read as they are.
KERNELS = ("f8e4m3fn", "f8e5m2")


def half_weights(graph: Graph) -> Graph:
    """Let products and channels-last convolutions take halves or float8 as their second operand.

    What other kernels read of constants is widened here, once.
    """
    from rlx.ops import TABLE

    found = {id(n): h for n in graph.nodes if n.op.name in _PRODUCTS and (h := _half(n)) is not None}
    wide = {id(v.node) for n in graph.nodes if id(n) not in found for v in n.inputs if v is not None and _constant(v)}
    if not found and not wide:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        half = found.get(id(node))
        source = node.inputs[0] if id(node) in wide else None
        if source is not None and source.array is not None:
            wider = rewriter.graph.constant(source.array.astype(np.float32), name=node.name)
            wider.node.loc = node.loc
            rewriter.replace(node.outputs[0], wider)
            continue
        if half is None:
            rewriter.copy(node)
            continue
        source, perm = half
        a, _, *rest = (rewriter.get(v) for v in node.inputs)
        attrs, op = dict(node.attrs), node.op
        if op.name == "matmul":
            op = TABLE["fused_matmul"]
            attrs = {"perm_a": None, "perm_b": None, "perm_out": None, "epilogue": ()}
        if perm is not None:
            attrs["perm_b"] = perm
        b = rewriter.map[source]
        if b.dtype.is_float8 and b.dtype.name not in KERNELS:  # all values are halves, and packed as such
            (b,) = rewriter.graph.emit(TABLE["cast"], [b], {"dtype": f16}, name=f"{node.name}/store", loc=node.loc)
        new = rewriter.emit(op, [a, b, *rest], attrs, node)
        rewriter.replace(node.outputs[0], new[0])
    return prune(rewriter.finish())


def _constant(value: Value) -> bool:
    """Whether the value is a large constant in a storage type, widened."""
    x = value.node.inputs[0] if value.node.op.name == "cast" and value.dtype == f32 else None
    return x is not None and x.dtype.is_stored and x.array is not None and x.array.size >= FEWEST


def _half(node: Node) -> tuple[Value, tuple[int, ...] | None] | None:
    """The stored weight behind the second operand, and the transpose on the way."""
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    conv = node.op.name == "conv_nhwc"
    if a.dtype != f32 or b.dtype != f32 or a.rank < 2 or b.rank < 2:
        return None
    if conv and (node.attrs["winograd"] or b.shape[1] == 1 and node.attrs["groups"] > 1):
        return None
    perm: tuple[int, ...] | None = None
    at = b.node
    cast = False
    while at.op.name in ("transpose", "cast"):
        if at.op.name == "transpose":
            if conv or perm is not None or node.attrs.get("perm_b") is not None or not swaps_last(at):
                return None
            perm = tuple(at.attrs["perm"])
        elif cast or at.inputs[0] is None or not at.inputs[0].dtype.is_stored:
            break
        else:
            cast = True
        assert at.inputs[0] is not None
        at = at.inputs[0].node
    value = at.outputs[0]
    stored = is_leaf(value) or (at.op.name == "cast" and at.inputs[0] is not None and is_leaf(at.inputs[0]))
    return (value, perm) if cast and (stored or _few_rows(node, value, perm)) else None


def _few_rows(node: Node, b: Value, perm: tuple[int, ...] | None) -> bool:
    """Whether few rows meet a matrix of halves stored [N, K], which is read once and nothing is packed."""
    a = node.inputs[0]
    assert a is not None
    if b.dtype.is_float8:
        return False
    order = node.attrs.get("perm_b") or perm
    turned = order is not None and tuple(order) == (*range(b.rank - 2), b.rank - 1, b.rank - 2)
    if not turned or node.attrs.get("perm_a") is not None or not a.type.is_static or not b.type.is_static:
        return False
    shape, matrix = static_shape(a.shape, a.name), static_shape(b.shape, b.name)
    if len(matrix) == 2:
        rows = math.prod(shape[:-1])
    elif shape[:-2] == matrix[:-2]:
        rows = shape[-2]
    else:
        return False
    return 1 <= rows <= FEW_ROWS and matrix[-2] > 1
