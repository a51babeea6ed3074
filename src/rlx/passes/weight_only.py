"""Weights quantised on their own stay in their codes: the product decodes them (matmul_nbits).

matmul or gemm with a constant that is dequantised, as ``(cast(q) - zero) * scale`` or by dequantize_linear, with a
scale per tensor, per column or per block of rows. The weights that the kernel forms are those of the graph, bit for
bit. Runs before constants are folded, which would widen them.
"""


import numpy as np

from rlx.dtypes import f32, i8, u8
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.passes.cleanup import prune
from rlx.passes.stored import swaps_last
from rlx.records import record

# Smaller weights gain nothing.
FEWEST = 4096


@record(eq=False)
class _Codes:
    """Weights [N, K]: u8 codes, scales [N, blocks], zero points alike or None for the middle of the range."""

    codes: Array
    scale: Array
    zero: Array | None
    bits: int
    block: int


def keep_codes(graph: Graph) -> Graph:
    """Rewrite products whose weights are dequantised constants."""
    from rlx.ops import TABLE

    known: dict[tuple[Value, bool], _Codes | None] = {}
    products = [n for n in graph.nodes if n.op.name in ("matmul", "gemm")]
    found = {id(n): w for n in products if (w := _of(n, known)) is not None}
    if not found:
        return graph
    from rlx.ops.nbits import pack

    rewriter = Rewriter(graph)
    constants: dict[int, list[Value | None]] = {}
    for node in graph.nodes:
        w = found.get(id(node))
        if w is None:
            rewriter.copy(node)
            continue
        if id(w) not in constants:
            arrays = (pack(w.codes, w.bits), w.scale, w.zero)
            constants[id(w)] = [None if x is None else rewriter.graph.constant(x) for x in arrays]
        a, c = rewriter.get(node.inputs[0]), rewriter.get((*node.inputs, None)[2])
        at = {"bits": w.bits, "block_size": w.block}
        new = rewriter.emit(TABLE["matmul_nbits"], [a, *constants[id(w)]], at, node)
        if c is not None:
            new = rewriter.graph.emit(TABLE["add"], [new[0], c], {}, name=f"{node.name}/bias", loc=node.loc)
        rewriter.replace(node.outputs[0], new[0])
    return prune(rewriter.finish())


def _of(node: Node, known: dict[tuple[Value, bool], _Codes | None]) -> _Codes | None:
    """The codes of a product's weights."""
    a, b, *rest = node.inputs
    assert a is not None and b is not None
    at = node.attrs
    if a.rank < 2 or b.rank != 2 or a.dtype != f32 or not b.type.is_static or not isinstance(a.shape[-1], int):
        return None
    transposed = False
    if node.op.name == "gemm":
        if at["alpha"] != 1 or at["trans_a"] or (rest and rest[0] is not None and at["beta"] != 1):
            return None
        transposed = at["trans_b"]
    if b.node.op.name == "transpose" and swaps_last(b.node):
        b, transposed = b.node.inputs[0], not transposed
        assert b is not None
    if (b, transposed) not in known:
        known[(b, transposed)] = _decode(b, transposed)
    return known[(b, transposed)]


def _decode(value: Value, transposed: bool) -> _Codes | None:
    parts = _scaled(value)
    if parts is None:
        return None
    q, scale, zero, axis, block = parts
    if q.size < FEWEST or q.ndim != 2:
        return None
    if not transposed:
        q = q.T
    n, k = q.shape
    # axis of the scale in [N, K], and what it looks like there
    along = 1 - axis if not transposed else axis
    blocked = block if block and along == 1 else k
    rows = _rows(scale, n, -(-k // blocked), along, transposed)
    points = None if zero is None else _rows(zero, n, -(-k // blocked), along, transposed)
    if rows is None or (zero is not None and points is None) or (block and along != 1):
        return None
    signed = q.dtype == np.int8
    offset = np.zeros(rows.shape, np.int64) if points is None else points.astype(np.int64)
    if points is not None and (points != offset).any():
        return None
    low, high = (int(q.min()), int(q.max())) if q.size else (0, 0)
    bits = 4 if (low >= -8 and high <= 7 if signed else high <= 15) else 8
    middle = 1 << (bits - 1)
    offset = offset + middle if signed else offset
    if offset.min(initial=0) < 0 or offset.max(initial=0) >= 1 << bits or (blocked < k and blocked % (32 // bits)):
        return None
    codes = np.ascontiguousarray((q.astype(np.int16) + middle if signed else q).astype(np.uint8))
    given = None if (offset == middle).all() else offset.astype(np.uint8)
    return _Codes(codes, np.ascontiguousarray(rows, np.float32), given, bits, blocked)


def _rows(x: Array, n: int, blocks: int, along: int, transposed: bool) -> Array | None:
    """A scale or zero point as [N, blocks]; None if it is of another kind."""
    if x.size == 1:
        return np.broadcast_to(x.reshape(1, 1), (n, blocks))
    if x.ndim == 2:
        x = x if transposed else x.T
        return x if x.shape == (n, blocks) else None
    if x.ndim == 1 and along == 0 and x.shape == (n,) and blocks == 1:
        return x.reshape(n, 1)
    return None


def _scaled(value: Value) -> tuple[Array, Array, Array | None, int, int] | None:
    """(codes, scale, zero, axis, block size) of a dequantised constant."""
    node = value.node
    if value.dtype != f32:
        return None
    if node.op.name == "dequantize_linear":
        q, scale, zero = (*node.inputs, None)[:3]
        assert q is not None and scale is not None
        if q.dtype not in (i8, u8) or q.array is None or scale.array is None or scale.dtype != f32:
            return None
        if zero is not None and zero.array is None:
            return None
        axis = node.attrs["axis"] % max(1, q.rank)
        return q.array, scale.array, None if zero is None else zero.array, axis, node.attrs["block_size"]
    if node.op.name != "mul":
        return None
    first, second = node.inputs
    assert first is not None and second is not None
    inner, times = (first, second) if second.array is not None else (second, first)
    if times.array is None or times.rank > 2 or inner.shape != value.shape:
        return None
    offset: Array | None = None
    if inner.node.op.name == "sub":
        x, y = inner.node.inputs
        assert x is not None and y is not None
        if y.array is None or y.rank > 2 or x.shape != value.shape:
            return None
        inner, offset = x, y.array
    q = inner.node.inputs[0] if inner.node.op.name == "cast" else None
    if q is None or q.dtype not in (i8, u8) or q.array is None:
        return None
    return q.array, times.array, offset, q.rank - 1, 0


__all__ = ["keep_codes"]
