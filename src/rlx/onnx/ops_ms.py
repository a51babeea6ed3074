"""Ops of the domain com.microsoft that exporters and optimisers write into real files."""

import itertools
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext, dim, dims
from rlx.onnx.ops_nn import layer_norm
from rlx.onnx.ops_quant import single
from rlx.onnx.registry import USE_DEFINITION, onnx_op
from rlx.onnx.tensors import Array
from rlx.ops.nbits import pack, row_bytes, unpack

MS = "com.microsoft"

# -- fused float ops ----------------------------------------------------------------------


@onnx_op("FusedMatMul", domain=MS)
def _fused_matmul(n: NodeContext) -> Any:
    a, b = n.x(0), n.x(1)

    def turned(v: Value, last: int, batch: int) -> Any:
        perm = list(range(v.rank))
        if batch:
            perm = [*perm[1:-1], 0, perm[-1]]
        if last:
            perm[-1], perm[-2] = perm[-2], perm[-1]
        return ops.transpose(v, perm=perm) if perm != list(range(v.rank)) else v

    y = ops.matmul(
        turned(a, n.int("transA", 0), n.int("transBatchA", 0)), turned(b, n.int("transB", 0), n.int("transBatchB", 0))
    )
    alpha = n.float("alpha", 1.0)
    return y if alpha == 1.0 else ops.mul(y, n.like(alpha, y))


@onnx_op("FusedGemm", domain=MS)
def _fused_gemm(n: NodeContext) -> Any:
    y = ops.gemm(
        n.x(0),
        n.x(1),
        n.opt(2),
        alpha=n.float("alpha", 1.0),
        beta=n.float("beta", 1.0),
        trans_a=bool(n.int("transA", 0)),
        trans_b=bool(n.int("transB", 0)),
    )
    return _activated(n, y)


@onnx_op("FusedConv", domain=MS)
def _fused_conv(n: NodeContext) -> Any:
    from rlx.onnx.ops_nn import spatial_of, window

    x, w, b, z = n.x(0), n.x(1), n.opt(2), n.opt(3)
    kernel = n.ints("kernel_shape", None) or dims(w)[2:]
    y = ops.conv(x, w, b, groups=n.int("group", 1), **window(n, spatial_of(x), kernel).attrs)
    return _activated(n, y if z is None else ops.add(y, z))


def _activated(n: NodeContext, y: Value) -> Any:
    kind = n.str("activation", "")
    a, b = (*(n.floats("activation_params", None) or []), 0.0, 0.0)[:2]
    if kind in ("", "None"):
        return y
    plain = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "HardSwish": "hard_swish", "Softplus": "softplus"}
    if kind in plain:
        return getattr(ops, plain[kind])(y)
    if kind == "LeakyRelu":
        return ops.leaky_relu(y, alpha=a or n.float("leaky_relu_alpha", 0.01))
    if kind == "Clip":
        return ops.clip(y, lo=a, hi=b)
    if kind == "HardSigmoid":
        return ops.hard_sigmoid(y, alpha=a, beta=b)
    raise FormatError(f"activation must be one of {[*plain, 'LeakyRelu', 'Clip', 'HardSigmoid']}, got {kind!r}")


@onnx_op("BiasGelu", domain=MS)
def _bias_gelu(n: NodeContext) -> Any:
    return ops.gelu(ops.add(n.x(0), n.x(1)))


@onnx_op("Gelu", domain=MS)
def _gelu(n: NodeContext) -> Any:
    return ops.gelu(n.x(0))


@onnx_op("FastGelu", domain=MS)
def _fast_gelu(n: NodeContext) -> Any:
    x, bias = n.x(0), n.opt(1)
    return ops.gelu_tanh(x if bias is None else ops.add(x, bias))


@onnx_op("QuickGelu", domain=MS)
def _quick_gelu(n: NodeContext) -> Any:
    return ops.swish(n.x(0), alpha=n.float("alpha", 1.702))


def _normalised(x: Value, gamma: Value, beta: Value | None, eps: float, n: NodeContext) -> Any:
    found = layer_norm(x, gamma, beta, x.rank - 1, eps)
    if found is not USE_DEFINITION:
        return found
    centred = ops.sub(x, ops.reduce_mean(x, axes=(-1,), keepdims=True))
    var = ops.reduce_mean(ops.square(centred), axes=(-1,), keepdims=True)
    y = ops.mul(ops.div(centred, ops.sqrt(ops.add(var, n.like(eps, x)))), gamma)
    return y if beta is None else ops.add(y, beta)


@onnx_op("SkipLayerNormalization", domain=MS)
def _skip_layer_norm(n: NodeContext) -> Any:
    x, skip, gamma, beta, bias = n.x(0), n.x(1), n.x(2), n.opt(3), n.opt(4)
    total = ops.add(x, skip)
    total = total if bias is None else ops.add(total, bias)
    y = _normalised(total, gamma, beta, n.float("epsilon", 1e-12), n)
    return y, None, None, total


@onnx_op("LayerNormalization", domain=MS)
@onnx_op("LayerNormalization", since=1)
def _layer_norm(n: NodeContext) -> Any:
    x = n.x(0)
    axis = n.int("axis", -1)
    if axis not in (-1, x.rank - 1):
        raise FormatError(f"axis must be the last one, got {axis}")
    return _normalised(x, n.x(1), n.opt(2), n.float("epsilon", 1e-5), n)


def _rms(x: Value, gamma: Value, eps: float, n: NodeContext) -> Any:
    if "rms_norm" in ops.TABLE and gamma.dtype == x.dtype:
        return ops.rms_norm(x, gamma, axis=x.rank - 1, eps=eps)
    square = ops.reduce_mean(ops.square(x), axes=(-1,), keepdims=True)
    return ops.mul(ops.div(x, ops.sqrt(ops.add(square, n.like(eps, x)))), gamma)


@onnx_op("SimplifiedLayerNormalization", domain=MS)
@onnx_op("SimplifiedLayerNormalization")
def _rms_norm(n: NodeContext) -> Any:
    return _rms(n.x(0), n.x(1), n.float("epsilon", 1e-5), n)


@onnx_op("SkipSimplifiedLayerNormalization", domain=MS)
def _skip_rms_norm(n: NodeContext) -> Any:
    x, skip, gamma, bias = n.x(0), n.x(1), n.x(2), n.opt(3)
    total = ops.add(x, skip)
    total = total if bias is None else ops.add(total, bias)
    return _rms(total, gamma, n.float("epsilon", 1e-5), n), None, None, total


@onnx_op("EmbedLayerNormalization", domain=MS)
def _embed_layer_norm(n: NodeContext) -> Any:
    ids, segments, words, places = n.x(0), n.opt(1), n.x(2), n.x(3)
    kinds, gamma, beta, mask, given = n.opt(4), n.x(5), n.x(6), n.opt(7), n.opt(8)
    length = dim(ids, 1)
    total = ops.gather(words, ids, axis=0)
    position = n.constant(np.arange(length, dtype=np.int64)) if given is None else given
    total = ops.add(total, ops.gather(places, position, axis=0))
    if segments is not None and kinds is not None:
        total = ops.add(total, ops.gather(kinds, segments, axis=0))
    y = _normalised(total, gamma, beta, n.float("epsilon", 1e-12), n)
    index = None
    if n.wants(1):
        index = (
            ops.reduce_sum(mask, axes=(1,), keepdims=False)
            if mask is not None
            else n.constant(np.zeros(dim(ids, 0), np.int32))
        )
    return y, index, total


@onnx_op("Attention", domain=MS)
def _attention(n: NodeContext) -> Any:
    """Self-attention over one projection of the input to queries, keys and values."""
    x, w, b, mask = n.x(0), n.x(1), n.opt(2), n.opt(3)
    if n.has(4) or n.has(5) or n.wants(1):
        raise FormatError("past, present and relative position bias are not supported")
    heads = n.int("num_heads")
    both = ops.matmul(x, w)
    both = both if b is None else ops.add(both, b)
    sizes = n.ints("qkv_hidden_sizes", None) or [dim(w, 1) // 3] * 3
    edges = np.cumsum([0, *sizes]).tolist()
    q, k, v = (ops.slice(both, starts=(a,), stops=(z,), axes=(2,)) for a, z in itertools.pairwise(edges))
    attrs: dict[str, Any] = {
        "num_heads": heads,
        "scale": n.float("scale", None) or None,
        "causal": bool(n.int("unidirectional", 0)),
    }
    lens = None
    if mask is not None and mask.rank == 2:
        mask = ops.ne(mask, n.like(0, mask))
    elif mask is not None:
        raise FormatError(f"the mask must have rank 2, got shape {list(mask.shape)}")
    return ops.attention(q, k, v, mask, lens, **attrs)


# -- quantised ops ----------------------------------------------------------------------------


def _real(n: NodeContext, i: int) -> Any:
    """Operands i, i + 1, i + 2 (values, scale, zero point) as f32."""
    x, scale, zero = n.x(i), n.x(i + 1), n.opt(i + 2)
    return ops.dequantize_linear(x, single(scale), None if zero is None else single(zero))


def _quantised(n: NodeContext, y: Value, i: int, kind: Any) -> Any:
    """f32 values quantised with operands i (scale) and i + 1 (zero point)."""
    scale, zero = n.x(i), n.opt(i + 1)
    return ops.quantize_linear(y, single(scale), None if zero is None else single(zero), dtype=kind)


@onnx_op("QLinearAdd", domain=MS)
def _qlinear_add(n: NodeContext) -> Any:
    return _quantised(n, ops.add(_real(n, 0), _real(n, 3)), 6, n.dtype(0))


@onnx_op("QLinearMul", domain=MS)
def _qlinear_mul(n: NodeContext) -> Any:
    return _quantised(n, ops.mul(_real(n, 0), _real(n, 3)), 6, n.dtype(0))


@onnx_op("QLinearSigmoid", domain=MS)
def _qlinear_sigmoid(n: NodeContext) -> Any:
    return _quantised(n, ops.sigmoid(_real(n, 0)), 3, n.dtype(0))


@onnx_op("QLinearLeakyRelu", domain=MS)
def _qlinear_leaky_relu(n: NodeContext) -> Any:
    return _quantised(n, ops.leaky_relu(_real(n, 0), alpha=n.float("alpha", 0.01)), 3, n.dtype(0))


@onnx_op("QLinearSoftmax", domain=MS)
def _qlinear_softmax(n: NodeContext) -> Any:
    x = _real(n, 0)
    axis = n.int("axis", -1)
    if n.int("opset", 13) < 13:
        axis = axis + x.rank if axis < 0 else axis
        if axis != x.rank - 1:
            shape = dims(x)
            flat = ops.reshape(x, shape=(*shape[:axis], -1))
            return _quantised(n, ops.reshape(ops.softmax(flat, axis=-1), shape=shape), 3, n.dtype(0))
    return _quantised(n, ops.softmax(x, axis=axis), 3, n.dtype(0))


@onnx_op("QLinearGlobalAveragePool", domain=MS)
def _qlinear_global_average_pool(n: NodeContext) -> Any:
    x = _real(n, 0)
    axes = tuple(range(1, x.rank - 1)) if n.int("channels_last", 0) else tuple(range(2, x.rank))
    return _quantised(n, ops.reduce_mean(x, axes=axes, keepdims=True), 3, n.dtype(0))


@onnx_op("QLinearAveragePool", domain=MS)
def _qlinear_average_pool(n: NodeContext) -> Any:
    from rlx.onnx.ops_nn import average_pool

    return _quantised(n, average_pool(n, _real(n, 0)), 3, n.dtype(0))


@onnx_op("QLinearConcat", domain=MS)
def _qlinear_concat(n: NodeContext) -> Any:
    parts = [_real(n, i) for i in range(2, n.n_inputs, 3)]
    return _quantised(n, ops.concat(*parts, axis=n.int("axis")), 0, n.dtype(2))


@onnx_op("QGemm", domain=MS)
def _qgemm(n: NodeContext) -> Any:
    a, a_scale, a_zero = n.x(0), single(n.x(1)), single(n.x(2))
    b, b_scale, b_zero, c = n.x(3), single(n.x(4)), single(n.x(5)), n.opt(6)
    if n.int("transA", 0):
        a = ops.transpose(a, perm=(1, 0))
    if n.int("transB", 0):
        b = ops.transpose(b, perm=(1, 0))
    alpha = n.float("alpha", 1.0)
    if n.has(7) and alpha == 1.0 and c is None:
        y_zero = single(n.x(8)) if n.has(8) else n.constant(np.zeros((), a.dtype.numpy))
        return ops.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, single(n.x(7)), y_zero)
    total = ops.matmul_integer(a, b, a_zero, b_zero)
    if c is not None:
        total = ops.add(total, c)
    scale = ops.mul(a_scale, b_scale)
    y = ops.mul(ops.cast(total, dtype=dtypes.f32), scale if alpha == 1.0 else ops.mul(scale, n.like(alpha, scale)))
    return _quantised(n, y, 7, n.dtype(0)) if n.has(7) else y


@onnx_op("MatMulIntegerToFloat", domain=MS)
def _matmul_integer_to_float(n: NodeContext) -> Any:
    a_zero, b_zero, bias = n.opt(4), n.opt(5), n.opt(6)
    total = ops.matmul_integer(
        n.x(0), n.x(1), None if a_zero is None else single(a_zero), None if b_zero is None else single(b_zero)
    )
    y = ops.mul(ops.cast(total, dtype=dtypes.f32), ops.mul(n.x(2), n.x(3)))
    return y if bias is None else ops.add(y, bias)


@onnx_op("DynamicQuantizeMatMul", domain=MS)
def _dynamic_quantize_matmul(n: NodeContext) -> Any:
    x, scale, zero = ops.dynamic_quantize_linear(n.x(0))
    b_zero, bias = n.opt(3), n.opt(4)
    total = ops.matmul_integer(x, n.x(1), zero, None if b_zero is None else single(b_zero))
    y = ops.mul(ops.cast(total, dtype=dtypes.f32), ops.mul(scale, n.x(2)))
    return y if bias is None else ops.add(y, bias)


@onnx_op("QuantizeLinear", domain=MS)
def _quantize(n: NodeContext) -> Any:
    from rlx.onnx.registry import find

    emit = find("", "QuantizeLinear", 13)
    assert emit is not None
    return emit(n)


@onnx_op("DequantizeLinear", domain=MS)
def _dequantize(n: NodeContext) -> Any:
    from rlx.onnx.registry import find

    emit = find("", "DequantizeLinear", 13)
    assert emit is not None
    return emit(n)


@onnx_op("DynamicQuantizeLSTM", domain=MS)
def _dynamic_quantize_lstm(n: NodeContext) -> Any:
    attrs: dict[str, Any] = {
        "direction": n.str("direction", "forward"),
        "clip": n.float("clip", 0.0),
        "input_forget": bool(n.int("input_forget", 0)),
    }
    names = n.strs("activations", None)
    if names:
        attrs.update(
            activations=names,
            activation_alpha=n.floats("activation_alpha", None),
            activation_beta=n.floats("activation_beta", None),
        )
    quantised = [n.x(i) for i in (0, 1, 2, 8, 10, 9, 11)]
    return ops.dynamic_quantize_lstm(*quantised, *(n.opt(i) for i in range(3, 8)), **attrs)


@onnx_op("MatMulNBits", domain=MS)
def _matmul_nbits(n: NodeContext) -> Any:
    """Product with weights of a few bits, in blocks of columns of B^T with one scale each."""
    k, columns, bits, block = n.int("K"), n.int("N"), n.int("bits", 4), n.int("block_size")
    packed, scales = n.const(1), n.const(2)
    zeros = n.const(3) if n.has(3) else None
    groups = _groups(n, k, block)
    bias_at = 5
    x = n.x(0)
    bias = n.opt(bias_at)
    order = None if groups is None else np.argsort(groups, kind="stable")
    # Sorted by group the rows of B are in blocks, if all groups are full; the columns of A follow.
    blocked = order is None or groups is None or bool((groups[order] == np.arange(k) // block).all())
    coded = bits in (2, 4, 8) and (zeros is None or zeros.dtype == np.uint8)
    if blocked and coded and x.dtype != dtypes.f64 and x.rank > 1:
        y = _in_codes(n, x, packed, scales, zeros, k, columns, bits, block, order)
        return y if bias is None else ops.add(y, bias)
    real = _unpacked(packed, scales, zeros, k, columns, bits, block, groups).astype(x.dtype.numpy)
    y = ops.matmul(x, n.constant(np.ascontiguousarray(real.T)))
    return y if bias is None else ops.add(y, bias)


def _groups(n: NodeContext, k: int, block: int) -> Array | None:
    """The group of each row of B (g_idx), or None where groups are blocks of rows in order."""
    if not n.has(4):
        return None
    given = np.asarray(n.const(4)).reshape(-1)
    blocks = -(-k // max(block, 1))
    if given.size < k or given.dtype.kind not in "iu" or (k and not 0 <= given[:k].min() <= given[:k].max() < blocks):
        raise FormatError(f"g_idx must hold {k} groups in [0, {blocks}), got {given.size} of type {given.dtype}")
    groups = given[:k].astype(np.int64)
    return None if (groups == np.arange(k) // block).all() else groups


def _in_codes(n: NodeContext, x: Value, packed: Array, scales: Array, zeros: Array | None, k: int, columns: int,
              bits: int, block: int, order: Array | None) -> Value:
    """The product with its weights as they are: a scale and a zero point per block, codes in rows.

    `order`: where the rows of B, and so the columns of A, come from.
    """
    if k < 1 or block < 16 or packed.size != columns * -(-k // block) * (block * bits // 8):
        raise FormatError(f"B must have {columns} x {-(-k // max(block, 1))} blocks of {block} {bits}-bit weights, "
                          f"got {packed.size} bytes")
    blocks = -(-k // block)
    codes = np.ascontiguousarray(packed.reshape(columns, -1)[:, : row_bytes(k, bits)])
    if order is not None:
        codes = pack(unpack(codes, bits, k)[:, order], bits)
        x = ops.gather(x, n.constant(order), axis=-1)
    scale = scales.reshape(columns, blocks).astype(np.float32)
    points = None
    if zeros is not None:
        points = n.constant(np.ascontiguousarray(_bits(zeros.reshape(columns, -1), bits, blocks)))
    y: Value = ops.matmul_nbits(x, n.constant(codes), n.constant(scale), points, bits=bits, block_size=block)
    return y


def _bits(raw: Array, bits: int, count: int) -> Array:
    """`count` numbers of some bits from the last axis of bytes, low ones first."""
    if bits == 8:
        return raw[..., :count]
    if 8 % bits:
        raise FormatError(f"bits must be 2, 4 or 8, got {bits}")
    parts = [(raw >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*raw.shape[:-1], -1)[..., :count]


def _unpacked(packed: Array, scales: Array, zeros: Array | None, k: int, columns: int, bits: int, block: int,
              groups: Array | None) -> Array:
    """B^T in full; `groups`: of each of its columns if not blocks in order."""
    blocks = -(-k // block)
    at = np.arange(k) // block if groups is None else groups
    q = _bits(packed.reshape(columns, blocks, -1), bits, block).reshape(columns, -1)[:, :k].astype(np.float32)
    s = scales.reshape(columns, blocks).astype(np.float32)[:, at]
    if zeros is None:
        z: Any = float(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        z = _bits(zeros.reshape(columns, -1), bits, blocks).astype(np.float32)[:, at]
    else:
        z = zeros.reshape(columns, blocks).astype(np.float32)[:, at]
    return np.asarray((q - z) * s)
