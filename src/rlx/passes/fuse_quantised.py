"""Quantised patterns become products of 8-bit integers.

`fuse_quantised`, before ops are decomposed:
- dequantize -> conv, matmul or gemm (-> bias) (-> relu or clip) (-> quantize) with constant scales: the sum is formed
  exactly in i32 instead of in rounded floats, everything else keeps its roundings. A clip before the quantisation
  becomes limits of the result: quantisation is monotonic.
- matmul_integer or conv_integer -> cast -> times scale: the scale is applied as the accumulators leave.
"""

from typing import Any

import numpy as np

from rlx.dtypes import DType, f32, i8, i32, u8
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import Readers, is_row
from rlx.records import record

SMALL = (i8, u8)


@record(eq=False)
class _Linear:
    """What a dequantisation reads: codes, scale and zero point, the last two constant or absent."""

    codes: Value
    scale: Array
    zero: Value | None
    axis: int


@record(eq=False)
class _Product:
    """A product of dequantised operands and what follows it."""

    node: Node
    a: _Linear
    b: _Linear
    bias: Value | None  # i32
    last: Node
    quantize: Node | None
    lo: float
    hi: float
    transposed: bool = False


def fuse_quantised(graph: Graph) -> Graph:
    """Rewrite the patterns."""
    names = {n.op.name for n in graph.nodes}
    if not names & {"dequantize_linear", "matmul_integer", "conv_integer"}:
        return graph
    readers = Readers(graph)
    found: dict[int, tuple[_Product | tuple[Node, Value], list[Node]]] = {}
    for node in graph.nodes:
        if node.op.name in ("conv", "matmul", "gemm"):
            product, inside = _match(node, readers)
            if product is not None:
                found[id(product.last)] = (product, inside)
        elif node.op.name in ("matmul_integer", "conv_integer"):
            scaled = _scaled(node, readers)
            if scaled is not None:
                found[id(scaled[0])] = ((node, scaled[1]), scaled[2])
    if not found:
        return graph
    inside_ids = {id(n) for _, inside in found.values() for n in inside}
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        match = found.get(id(node))
        if match is None:
            if id(node) not in inside_ids:
                rewriter.copy(node)
        elif isinstance(match[0], _Product):
            _emit(rewriter, match[0])
        else:
            _emit_scaled(rewriter, *match[0], node)
    return prune(rewriter.finish())


def _dequantised(v: Value | None) -> _Linear | None:
    """The dequantisation that made a value, if its scale is constant f32."""
    if v is None or v.node.op.name != "dequantize_linear" or v.dtype != f32 or v.node.attrs["block_size"]:
        return None
    codes, scale, zero = (*v.node.inputs, None)[:3]
    if codes is None or scale is None or scale.array is None:
        return None
    return _Linear(codes, scale.array, zero, v.node.attrs["axis"] % max(1, codes.rank))


def _is_number(x: _Linear) -> bool:
    return x.scale.size == 1


def _operands(node: Node) -> tuple[_Linear, _Linear, Value | None, bool] | None:
    """(a, b, bias, b transposed) of a product whose operands are 8-bit codes."""
    name, at = node.op.name, node.attrs
    if name == "gemm" and (at["alpha"] != 1 or at["beta"] != 1 or at["trans_a"]):
        return None
    a, b = _dequantised(node.inputs[0]), _dequantised(node.inputs[1])
    if a is None or b is None or a.codes.dtype not in SMALL or b.codes.dtype not in SMALL or not _is_number(a):
        return None
    transposed = name == "gemm" and at["trans_b"]
    channel = 0 if name == "conv" or transposed else b.codes.rank - 1
    if not _is_number(b) and b.axis != channel:
        return None
    if name == "matmul" and (a.codes.rank < 2 or b.codes.rank < 2):
        return None
    if transposed and b.codes.array is None:
        return None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return a, b, bias, transposed


def _integer_bias(v: Value | None, a: _Linear, b: _Linear) -> Value | None:
    """The i32 codes of a bias whose scale is that of the product."""
    linear = _dequantised(v)
    if linear is None or linear.codes.dtype != i32 or linear.zero is not None and not _all_zero(linear.zero):
        return None
    want = a.scale.reshape(()) * b.scale.reshape(-1)
    if linear.scale.size not in (1, want.size) or not np.allclose(linear.scale.reshape(-1), want, rtol=1e-5, atol=0):
        return None
    return linear.codes


def _all_zero(v: Value) -> bool:
    return v.array is not None and not v.array.any()


def _match(node: Node, readers: Readers) -> tuple[_Product | None, list[Node]]:
    operands = _operands(node)
    if operands is None:
        return None, []
    a, b, bias, transposed = operands
    codes = None
    if bias is not None:
        codes = _integer_bias(bias, a, b)
        if codes is None or codes.shape != node.outputs[0].shape[1:2]:
            return None, []
    product = _Product(node, a, b, codes, node, None, -np.inf, np.inf, transposed)
    inside: list[Node] = []
    reader = readers.only(node.outputs[0])
    if (
        reader is not None
        and node.op.name == "matmul"
        and reader.op.name == "add"
        and reader.outputs[0].type == node.outputs[0].type
    ):
        other = reader.inputs[1] if reader.inputs[0] is node.outputs[0] else reader.inputs[0]
        found = _integer_bias(other, a, b)
        if found is not None and other is not None and is_row(other, node.outputs[0].shape[-1]):
            product.bias, product.last = found, reader
            inside.append(node)
            reader = readers.only(reader.outputs[0])
    before = product.last
    lo, hi = -np.inf, np.inf
    if reader is not None and reader.op.name in ("relu", "clip"):
        lo, hi = (0.0, np.inf) if reader.op.name == "relu" else (reader.attrs["lo"], reader.attrs["hi"])
        before = reader
        reader = readers.only(reader.outputs[0])
    if reader is not None and _quantises(reader, before):
        inside += [n for n in (product.last, before) if n not in inside]
        product.quantize, product.last, product.lo, product.hi = reader, reader, lo, hi
    return product, inside


def _quantises(node: Node, before: Node) -> bool:
    """Whether the node quantises the value with constants of one number."""
    if node.op.name != "quantize_linear" or node.inputs[0] is not before.outputs[0]:
        return False
    constants = node.inputs[1:]
    return node.outputs[0].dtype in SMALL and all(
        v is None or (v.array is not None and v.array.size == 1) for v in constants
    )


def _number_or_row(rewriter: Rewriter, v: Value | None) -> Value | None:
    """A zero point or scale as one number or [N]."""
    from rlx.ops import TABLE

    if v is None:
        return None
    new = rewriter.map[v]
    if new.rank == 0 or (new.rank == 1 and new.shape != (1,)):
        return new
    size = [d for d in new.shape if d != 1]
    shape = tuple(size) if size else ()
    if new.array is not None:
        return rewriter.graph.constant(new.array.reshape(shape))
    return rewriter.graph.emit(TABLE["reshape"], [new], {"shape": shape}, name=f"{v.name}/flat", loc="")[0]


def _emit(rewriter: Rewriter, p: _Product) -> None:
    from rlx.ops import TABLE

    graph = rewriter.graph
    scale = p.a.scale.reshape(()) * (p.b.scale.reshape(()) if _is_number(p.b) else p.b.scale)
    out: DType = f32
    zero: Value | None = None
    lo = hi = None
    if p.quantize is not None:
        y_scale, y_zero = (*p.quantize.inputs, None)[1:3]
        assert y_scale is not None and y_scale.array is not None
        out = p.quantize.outputs[0].dtype
        divisor = y_scale.array.reshape(())
        offset = 0 if y_zero is None or y_zero.array is None else int(y_zero.array.reshape(()))
        scale = scale / divisor
        info = np.iinfo(out.numpy)
        lo, hi = (int(np.clip(np.rint(np.float32(v) / divisor) + offset, info.min, info.max)) for v in (p.lo, p.hi))
        zero = None if y_zero is None else graph.constant(np.asarray(offset, out.numpy))
    b = rewriter.map[p.b.codes]
    if p.transposed:
        assert b.array is not None
        b = graph.constant(np.ascontiguousarray(b.array.T))
    bias = None if p.bias is None else _number_or_row(rewriter, p.bias)
    if bias is not None and bias.rank == 0:
        bias = graph.emit(TABLE["reshape"], [bias], {"shape": (1,)}, name=f"{p.node.name}/bias", loc="")[0]
    name = "int8_conv" if p.node.op.name == "conv" else "int8_matmul"
    attrs: dict[str, Any] = dict(p.node.attrs) if name == "int8_conv" else {}
    operands = [
        rewriter.map[p.a.codes],
        b,
        bias,
        _number_or_row(rewriter, p.a.zero),
        _number_or_row(rewriter, p.b.zero),
        graph.constant(np.asarray(scale, np.float32)),
        zero,
    ]
    new = rewriter.emit(TABLE[name], operands, {**attrs, "out": out, "lo": lo, "hi": hi}, p.last)
    rewriter.replace(p.last.outputs[0], new[0])


def _scaled(node: Node, readers: Readers) -> tuple[Node, Value, list[Node]] | None:
    """(product with the scale, scale, nodes inside) of an integer product that is cast and scaled."""
    zeros = node.inputs[2:]
    rank = node.inputs[1].rank  # type: ignore[union-attr]
    if (
        any(v is not None and v.rank > (0 if i == 0 else 1) and v.shape != (1,) for i, v in enumerate(zeros))
        or rank < 2
    ):
        return None
    cast = readers.only(node.outputs[0])
    if cast is None or cast.op.name != "cast" or cast.outputs[0].dtype != f32:
        return None
    times = readers.only(cast.outputs[0])
    if times is None or times.op.name != "mul" or times.outputs[0].type != cast.outputs[0].type:
        return None
    scale = times.inputs[1] if times.inputs[0] is cast.outputs[0] else times.inputs[0]
    assert scale is not None
    out = node.outputs[0]
    axis = -1 if node.op.name == "matmul_integer" else 1 - out.rank
    single = all(d == 1 for d in scale.shape)
    padded = (*(1,) * (out.rank - scale.rank), *scale.shape)
    row = (
        len(padded) == out.rank
        and all(d == 1 for i, d in enumerate(padded) if i - out.rank != axis)
        and padded[axis] == out.shape[axis]
    )
    return (times, scale, [node, cast]) if single or row else None


def _emit_scaled(rewriter: Rewriter, node: Node, scale: Value, like: Node) -> None:
    from rlx.ops import TABLE

    a, b, a_zero, b_zero = (*node.inputs, None, None)[:4]
    name = "int8_conv" if node.op.name == "conv_integer" else "int8_matmul"
    operands = [
        rewriter.get(a),
        rewriter.get(b),
        None,
        _number_or_row(rewriter, a_zero),
        _number_or_row(rewriter, b_zero),
        _number_or_row(rewriter, scale),
        None,
    ]
    new = rewriter.emit(TABLE[name], operands, {**node.attrs, "out": f32}, like)
    rewriter.replace(like.outputs[0], new[0])
