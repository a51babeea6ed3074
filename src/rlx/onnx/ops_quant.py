"""Quantised ops of the standard domain."""

from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext, dims, is_host
from rlx.onnx.elements import HOST_TYPES
from rlx.onnx.hosttypes import code_of, convert, small_int_range
from rlx.onnx.ops_nn import spatial_of, window
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array


def single(v: Value) -> Any:
    """A vector of one element as a scalar."""
    return ops.reshape(v, shape=()) if v.rank and v.type.size == 1 else v


def _spread(v: Array, x: Array, axis: int, block: int) -> Array:
    if v.size == 1 and not block:
        return v.reshape(())
    if block:
        return np.repeat(v, block, axis)[tuple(slice(0, d) for d in x.shape)]
    return v.reshape(-1, *(1,) * (x.ndim - axis % x.ndim - 1))


@onnx_op("QuantizeLinear")
def _quantize(n: NodeContext) -> Any:
    axis, block = n.int("axis", 1), n.int("block_size", 0)
    code = n.int("output_dtype", 0) or (code_of(n, 2) if n.has(2) else dtypes.u8.onnx)
    saturate = bool(n.int("saturate", 1))
    target = dtypes.from_onnx(code)
    if target is None or any(is_host(i) for i in n.items()):

        def run(x: Array, scale: Array, zero: Array | None = None) -> Array:
            wide = x.astype(np.float32) / _spread(scale.astype(np.float32), x, axis, block)
            if (target and target.is_float8) or (code in HOST_TYPES and "int" not in np.dtype(HOST_TYPES[code]).name):
                return convert(
                    wide if zero is None else wide + _spread(zero.astype(np.float32), x, axis, block), code, saturate
                )
            y = np.rint(wide)
            y = y if zero is None else y + _spread(zero.astype(np.float32), x, axis, block)
            if code in HOST_TYPES:
                y = np.clip(y, *small_int_range(np.dtype(HOST_TYPES[code])))
            return convert(y, code)

        return n.host(run, [n.item(i) for i in range(n.n_inputs)])
    x, scale, zero = n.x(0), n.x(1), n.opt(2)
    if x.rank == 0 or not -x.rank <= axis < x.rank:
        axis = 0 if x.rank else -1
    if not block:
        scale, zero = single(scale), None if zero is None else single(zero)
    precision = dtypes.from_onnx(n.int("precision", 0)) if n.int("precision", 0) else None
    wide = precision or (dtypes.f64 if dtypes.f64 in (x.dtype, scale.dtype) else dtypes.f32)
    scale = scale if scale.dtype == wide else ops.cast(scale, dtype=wide)
    if x.dtype.is_float and x.dtype != wide:
        x = ops.cast(x, dtype=wide)
    result = target if zero is None else zero.dtype
    return ops.quantize_linear(x, scale, zero, axis=axis, block_size=block, dtype=result,
                               saturate=saturate or not result.is_float8)


def _small_ints(item: Any) -> Array | None:
    """A constant of 2 or 4 bits in bytes, of the same sign; None for anything else."""
    name = item.dtype.name if isinstance(item, np.ndarray) else ""
    if name not in ("int4", "uint4", "int2", "uint2"):
        return None
    result: Array = item.astype(np.uint8 if name.startswith("u") else np.int8)
    return result


@onnx_op("DequantizeLinear")
def _dequantize(n: NodeContext) -> Any:
    axis, block = n.int("axis", 1), n.int("block_size", 0)
    code = n.int("output_dtype", 0)
    items = n.items()
    small = [_small_ints(items[i]) if i < len(items) else None for i in (0, 2)]
    in_bytes = small[0] is not None and (small[1] is not None or not n.has(2)) and not is_host(n.item(1))
    if not in_bytes and any(is_host(i) for i in items):
        target = code or code_of(n, 1)

        def run(x: Array, scale: Array, zero: Array | None = None) -> Array:
            wide = x.astype(np.float32)
            if zero is not None:
                wide = wide - _spread(zero.astype(np.float32), x, axis, block)
            return convert(wide * _spread(scale.astype(np.float32), x, axis, block), target)

        return n.host(run, [n.item(i) for i in range(n.n_inputs)])
    scale = n.x(1)
    if in_bytes and small[0] is not None:  # constants of 2 or 4 bits: a product reads them packed
        x, zero = n.constant(small[0]), None if small[1] is None else n.constant(small[1])
    else:
        x, zero = n.x(0), n.opt(2)
    if x.rank == 0 or not -x.rank <= axis < x.rank:
        axis = 0 if x.rank else -1
    if not block:
        scale, zero = single(scale), None if zero is None else single(zero)
    y = ops.dequantize_linear(x, scale, zero, axis=axis, block_size=block)
    target_type = dtypes.from_onnx(code) if code else None
    return y if target_type in (None, y.dtype) else ops.cast(y, dtype=target_type)


@onnx_op("DynamicQuantizeLinear")
def _dynamic(n: NodeContext) -> Any:
    return ops.dynamic_quantize_linear(n.x(0))


@onnx_op("MatMulInteger")
def _matmul_integer(n: NodeContext) -> Any:
    return ops.matmul_integer(n.x(0), n.x(1), n.opt(2), n.opt(3))


@onnx_op("QLinearMatMul")
def _qlinear_matmul(n: NodeContext) -> Any:
    values = [n.x(i) for i in range(8)]
    for i in (1, 4, 6):
        values[i] = (
            single(values[i]) if values[i].dtype == dtypes.f32 else ops.cast(single(values[i]), dtype=dtypes.f32)
        )
    for i in (2, 5, 7):
        values[i] = single(values[i])
    return ops.qlinear_matmul(*values)


@onnx_op("QLinearConv")
def _qlinear_conv(n: NodeContext) -> Any:
    values = [n.x(i) for i in range(8)]
    bias = n.opt(8)
    values = [single(v) if i in (1, 2, 6, 7) or (i in (4, 5) and v.type.size == 1) else v for i, v in enumerate(values)]
    w = values[3]
    kernel = n.ints("kernel_shape", None) or dims(w)[2:]
    x, x_scale, x_zero, _, w_scale, w_zero, y_scale, y_zero = values
    return ops.qlinear_conv(
        x,
        x_scale,
        x_zero,
        w,
        w_scale,
        w_zero,
        y_scale,
        y_zero,
        bias,
        groups=n.int("group", 1),
        **window(n, spatial_of(values[0]), kernel).attrs,
    )
