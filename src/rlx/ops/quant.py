"""Quantisation: linear maps between floats and small integers. Products are in `rlx.ops.quant_products`.

A quantised value q stands for (q - zero) * scale. Scales and zero points are one number, one per
index of an axis, or one per block of an axis. All arithmetic is f32 (f64 for f64), every step rounded.
"""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import FLOAT8, DType, f32, f64, i8, i16, i32, u8, u16
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype
from rlx.ops.unary import cast_array

SMALL = (i8, u8)
QUANTISED = (i8, u8, i16, u16)
CODES = (*QUANTISED, *FLOAT8)
_FEW = 4096


def _wide(dtype: DType) -> DType:
    """The type that quantisation computes in."""
    return f64 if dtype == f64 else f32


# -- quantize_linear and dequantize_linear --------------------------------------------


def _check_scale(
    op: str, x: TensorType, scale: TensorType, zero: TensorType | None, axis: int, block_size: int
) -> None:
    require_dtype(op, scale.dtype, dtypes.FLOATS, "scale")
    if zero is not None and zero.shape != scale.shape:
        raise TypeRuleError(f"{op}: zero point must have the shape of scale {list(scale.shape)}, got {zero}")
    if block_size < 0:
        raise TypeRuleError(f"{op}: block_size must be >= 0, got {block_size}")
    if scale.rank == 0 or (scale.shape == (1,) and not block_size):
        return
    axis = normal_axis(axis, x.rank, op)
    if block_size:
        want = list(x.shape)
        want[axis] = -((-x.shape[axis]) // block_size)
        if list(scale.shape) != want:
            raise TypeRuleError(f"{op}: scale must have shape {want} for blocks of {block_size}, got {scale}")
    elif scale.shape != (x.shape[axis],):
        raise TypeRuleError(f"{op}: scale must have shape [{x.shape[axis]}] (axis {axis}), got {scale}")


def _infer_quantize(x: TensorType, scale: TensorType, zero: TensorType | None = None, *, axis: int, block_size: int,
                    dtype: DType | None, saturate: bool) -> tuple[TensorType, ...]:
    require_dtype("quantize_linear", x.dtype, (*dtypes.FLOATS, i32))
    _check_scale("quantize_linear", x, scale, zero, axis, block_size)
    result = dtype or (zero.dtype if zero is not None else u8)
    require_dtype("quantize_linear", result, CODES, "result")
    if not (saturate or result.is_float8):
        raise TypeRuleError(f"quantize_linear: integers must be saturated, got saturate=False for {result}")
    if zero is not None and zero.dtype != result:
        raise TypeRuleError(f"quantize_linear: zero point type must be {result}, got {zero.dtype}")
    return (x.with_dtype(result),)


def _infer_dequantize(x: TensorType, scale: TensorType, zero: TensorType | None = None, *, axis: int,
                      block_size: int) -> tuple[TensorType, ...]:
    require_dtype("dequantize_linear", x.dtype, (*CODES, i32))
    _check_scale("dequantize_linear", x, scale, zero, axis, block_size)
    if zero is not None and zero.dtype != x.dtype:
        raise TypeRuleError(f"dequantize_linear: zero point type must be {x.dtype}, got {zero.dtype}")
    return (x.with_dtype(scale.dtype),)


def _spread(v: Array, x: Array, axis: int, block_size: int) -> Array:
    """Scale or zero point, ready to broadcast against x."""
    if v.ndim == 0 or (v.shape == (1,) and not block_size):
        return v.reshape(())
    axis = axis % x.ndim
    if block_size:
        return np.repeat(v, block_size, axis)[tuple(slice(0, d) for d in x.shape)]
    return v.reshape(-1, *(1,) * (x.ndim - axis - 1))


def _single(x: Array) -> Array:
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _quantize(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int, block_size: int, dtype: DType | None,
    saturate: bool,
) -> Array:
    result = dtype or (dtypes.of_array(zero) if zero is not None else u8)
    y = _single(x).astype(_single(scale).dtype) / _spread(_single(scale), x, axis, block_size)
    y = y if result.is_float8 else np.rint(y)
    if zero is not None:
        y = y + _spread(zero, x, axis, block_size).astype(y.dtype)
    return cast_array(y, result, saturate and result.is_float8)


def _dequantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int, block_size: int) -> Array:
    s = _single(scale)
    if zero is not None:
        wide = np.dtype(np.int32) if x.dtype.kind in "iu" else s.dtype
        x = x.astype(wide) - _spread(zero, x, axis, block_size).astype(wide)
    return np.asarray(x.astype(s.dtype) * _spread(s, x, axis, block_size))


def _spread_value(v: Any, x: Any, axis: int, block_size: int) -> Any:
    from rlx import ops

    if v.rank == 0:
        return v
    if v.shape == (1,) and not block_size:
        return ops.reshape(v, shape=())
    axis = axis % x.rank
    if not block_size:
        return ops.reshape(v, shape=(-1, *(1,) * (x.rank - axis - 1)))
    inner = ops.reshape(v, shape=(*v.shape[: axis + 1], 1, *v.shape[axis + 1 :]))
    full = (*v.shape[: axis + 1], block_size, *v.shape[axis + 1 :])
    whole = ops.reshape(
        ops.expand(inner, shape=full), shape=(*v.shape[:axis], v.shape[axis] * block_size, *v.shape[axis + 1 :])
    )
    if whole.shape == x.shape:
        return whole
    return ops.slice(whole, starts=(0,), stops=(x.shape[axis],), axes=(axis,))


def converted(x: Any, dtype: DType) -> Any:
    """A value as another type."""
    from rlx import ops

    if x.dtype == dtype:
        return x
    if x.array is not None and x.array.size <= _FEW and x.dtype in QUANTISED:  # exact, and one node less
        return x.graph.constant(cast_array(x.array, dtype))
    return ops.cast(x, dtype=dtype)


def _quantize_in_ops(x: Any, scale: Any, zero: Any = None, *, axis: int, block_size: int, dtype: DType | None,
                     saturate: bool) -> Any:
    from rlx import ops

    wide = _wide(scale.dtype)
    result = dtype or (zero.dtype if zero is not None else u8)
    y = converted(x, wide) / converted(_spread_value(scale, x, axis, block_size), wide)
    y = y if result.is_float8 else ops.round(y)
    if zero is not None:
        y = y + converted(_spread_value(zero, x, axis, block_size), wide)
    return ops.cast(y, dtype=result, saturate=saturate and result.is_float8)


def _dequantize_in_ops(x: Any, scale: Any, zero: Any = None, *, axis: int, block_size: int) -> Any:
    wide = _wide(scale.dtype)
    if x.dtype == i32 and zero is not None:
        y = converted(x - _spread_value(zero, x, axis, block_size), wide)
    else:
        y = converted(x, wide)
        if zero is not None:
            y = y - converted(_spread_value(zero, x, axis, block_size), wide)
    return converted(y * converted(_spread_value(scale, x, axis, block_size), wide), scale.dtype)


def some_scales(rng: Rng, dtype: DType, *shape: int) -> Array:
    """Scales such that usual values take up much of the range of i8."""
    return np.asarray(rng.uniform(0.01, 0.2, shape).astype(dtype.numpy))


def _quantize_samples(dtype: DType, rng: Rng) -> list[Sample]:
    kind = dtype if dtype.is_float else f32
    x = data(rng, dtype, 2, 5, 4, low=-9, high=9)

    def zero(q: DType, *shape: int) -> Array:
        return data(rng, q, *shape, low=0 if q.kind == "u" else -5, high=9)

    found = [
        Sample((x, some_scales(rng, kind))), Sample((x, some_scales(rng, kind), zero(u8))),
        Sample((x, some_scales(rng, kind), zero(i8))), Sample((x, some_scales(rng, kind, 5), zero(u8, 5))),
        Sample((x, some_scales(rng, kind, 4), zero(i16, 4)), {"axis": -1}),
        Sample((x, some_scales(rng, kind), zero(u16))),
        Sample((x, some_scales(rng, kind, 1), zero(i8, 1)), {"axis": 0}),
        Sample((x, some_scales(rng, kind, 2, 3, 4), zero(u8, 2, 3, 4)), {"axis": 1, "block_size": 2}),
        Sample((x, some_scales(rng, kind, 2, 5, 1), zero(i8, 2, 5, 1)), {"axis": 2, "block_size": 4}),
        Sample((x, some_scales(rng, kind)), {"dtype": i8}), Sample((data(rng, dtype, 0, 3), some_scales(rng, kind, 3))),
    ]
    found += [Sample((x, some_scales(rng, kind), data(rng, q)), {"saturate": s}) for q in FLOAT8 for s in (True, False)]
    found += [Sample((x, some_scales(rng, kind, 5)), {"dtype": dtypes.f8e4m3fn}),
              Sample((x, some_scales(rng, kind, 2, 3, 4) * kind.numpy.type(0.01)),
                     {"dtype": dtypes.f8e5m2, "axis": 1, "block_size": 2, "saturate": False})]
    if dtype.is_float:
        ties = np.array([0.5, 1.5, 2.5, -0.5, 300.0, -300.0, np.inf, -np.inf, np.nan, 0.0, -0.0]).astype(dtype.numpy)
        found.append(Sample((ties, np.ones((), kind.numpy), np.zeros((), np.int8))))
    return found


def _dequantize_samples(dtype: DType, rng: Rng) -> list[Sample]:
    if dtype.is_float8:
        x = data(rng, dtype, 2, 5, 4)
        x.reshape(-1)[:4] = np.array([np.nan, np.inf, -0.0, 240]).astype(dtype.numpy)
    else:
        info = np.iinfo(dtype.numpy)
        x = rng.integers(info.min, info.max, (2, 5, 4), dtype.numpy, endpoint=True)

    def zero(*shape: int) -> Array:
        return data(rng, dtype, *shape)

    found = [Sample((x, some_scales(rng, kind), zero())) for kind in dtypes.FLOATS]
    return [
        *found, Sample((x, some_scales(rng, f32))), Sample((x, some_scales(rng, f32, 5), zero(5))),
        Sample((x, some_scales(rng, f32, 4), zero(4)), {"axis": -1}), Sample((x, some_scales(rng, f32, 1))),
        Sample((x, some_scales(rng, f32, 2, 3, 4), zero(2, 3, 4)), {"axis": 1, "block_size": 2}),
        Sample((x[:0], some_scales(rng, f32))),
    ]


def _scale_errors() -> list[ErrorSample]:
    x, s = np.zeros((2, 3), np.float32), np.ones(3, np.float32)
    return [
        ErrorSample((x, s[:2]), {}, "scale must have shape"),
        ErrorSample((x, s, np.zeros(2, np.uint8)), {}, "zero point"),
        ErrorSample((x, s), {"axis": 2}, "axis must be"),
        ErrorSample((x, s), {"dtype": f32}, "result type"),
        ErrorSample((x, s), {"block_size": 2}, "for blocks"),
        ErrorSample((x, np.ones(3, np.int32)), {}, "scale type"),
        ErrorSample((x, s, np.zeros(3, np.uint8)), {"dtype": i8}, "zero point type"),
        ErrorSample((x, s), {"saturate": False}, "must be saturated"),
    ]


def _dequantize_errors() -> list[ErrorSample]:
    x, s = np.zeros((2, 3), np.uint8), np.ones(3, np.float32)
    return [
        ErrorSample((x, s, np.zeros(3, np.int8)), {}, "zero point type"),
        ErrorSample((x, s[:2]), {}, "scale must have shape"),
        ErrorSample((s, s), {}, "type must be one of"),
    ]


_AXES = (Attr("axis", "int", 1), Attr("block_size", "int", 0))
quantize_linear = OpDef(
    "quantize_linear", ("x", "scale", "zero?"), _infer_quantize, _quantize,
    "round(x / scale) + zero, saturated; half to even. The result type is dtype, that of zero, or u8. To float8, "
    "x / scale + zero is rounded to the type at once, and saturated unless told otherwise.",
    attrs=(*_AXES, Attr("dtype", "dtype", None), Attr("saturate", "bool", True)),
    dtypes=(*dtypes.FLOATS, i32), decompose=_quantize_in_ops,
    samples=_quantize_samples, errors=_scale_errors, tolerance=EXACT,
)
dequantize_linear = OpDef(
    "dequantize_linear", ("x", "scale", "zero?"), _infer_dequantize, _dequantize,
    "(x - zero) * scale in the type of scale.", attrs=_AXES, dtypes=(*CODES, i32), decompose=_dequantize_in_ops,
    samples=_dequantize_samples, errors=_dequantize_errors, tolerance=EXACT,
)


def _infer_dynamic(x: TensorType) -> tuple[TensorType, ...]:
    require_dtype("dynamic_quantize_linear", x.dtype, (f32,))
    return (x.with_dtype(u8), TensorType(f32, ()), TensorType(u8, ()))


def dynamic_range(x: Array) -> tuple[np.float32, np.float32]:
    """Scale and zero point of dynamic_quantize_linear."""
    low, high = np.minimum(np.float32(0), x.min(initial=0)), np.maximum(np.float32(0), x.max(initial=0))
    scale = np.float32((high - low) / np.float32(255))
    scale = np.float32(1) if scale == 0 else scale
    return scale, np.float32(np.clip(np.rint(-low / scale), 0, 255))


def _dynamic(x: Array) -> tuple[Array, Array, Array]:
    scale, zero = dynamic_range(x)
    return cast_array(np.rint(x / scale) + zero, u8), np.asarray(scale), cast_array(np.asarray(zero), u8)


def _dynamic_in_ops(x: Any) -> tuple[Any, Any, Any]:
    from rlx import ops

    flat = ops.concat(ops.reshape(x, shape=(-1,)), np.zeros(1, np.float32), axis=0) if 0 in x.shape else x
    low = ops.min(ops.reduce_min(flat), 0.0)
    high = ops.max(ops.reduce_max(flat), 0.0)
    scale = (high - low) / 255.0
    scale = ops.where(ops.eq(scale, 0.0), np.float32(1), scale)
    zero = ops.clip(ops.round(ops.neg(low) / scale), lo=0.0, hi=255.0)
    return ops.cast(ops.round(x / scale) + zero, dtype=u8), scale, ops.cast(zero, dtype=u8)


def _dynamic_samples(dtype: DType, rng: Rng) -> list[Sample]:
    arrays = [
        data(rng, dtype, 3, 17),
        data(rng, dtype, 5, low=1, high=3),
        data(rng, dtype, 70, low=-3, high=-1),
        np.zeros((2, 2), np.float32),
        np.zeros((0, 3), np.float32),
        data(rng, dtype),
        data(rng, dtype, 2, 40, 33, low=-1e3, high=2e3),
    ]
    return [Sample((a,)) for a in arrays]


dynamic_quantize_linear = OpDef(
    "dynamic_quantize_linear", ("x",), _infer_dynamic, _dynamic,
    "x as u8 over its own range widened to contain 0: results y, scale, zero. All zeros give scale 1.", dtypes=(f32,),
    traits=frozenset({"exact"}), decompose=_dynamic_in_ops, samples=_dynamic_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros(3),), {}, "type must be one of")],
)


# -- tables ---------------------------------------------------------------------------


def full_range(rng: Rng, dtype: DType, *shape: int) -> Array:
    """Integers of the whole range of a type."""
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


def _infer_lookup(x: TensorType, table: TensorType) -> tuple[TensorType, ...]:
    require_dtype("lookup", x.dtype, SMALL, "x")
    if table.shape != (256,):
        raise TypeRuleError(f"lookup: table must have shape [256], got {table}")
    return (TensorType(table.dtype, x.shape),)


def _lookup_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [Sample((full_range(rng, kind, *shape), data(rng, dtype, 256)))
            for kind in SMALL for shape in ((), (0, 3), (7,), (3, 1000))]


lookup = OpDef(
    "lookup", ("x", "table"), _infer_lookup, lambda x, table: table[x.view(np.uint8)],
    "table[x], the 256 values in the order of the bytes 0 .. 255.", dtypes=(f32, u8, i8), internal=True,
    samples=_lookup_samples, tolerance=EXACT,
)
