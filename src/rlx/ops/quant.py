"""Quantisation: linear maps between floats and small integers, and products of quantised operands.

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
from rlx.ops.conv import CONV_CASES, GEOMETRY, conv_reference, conv_type
from rlx.ops.int8 import int8_conv, int8_matmul
from rlx.ops.matmul import matmul_type
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


def _to(x: Any, dtype: DType) -> Any:
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
    y = _to(x, wide) / _to(_spread_value(scale, x, axis, block_size), wide)
    y = y if result.is_float8 else ops.round(y)
    if zero is not None:
        y = y + _to(_spread_value(zero, x, axis, block_size), wide)
    return ops.cast(y, dtype=result, saturate=saturate and result.is_float8)


def _dequantize_in_ops(x: Any, scale: Any, zero: Any = None, *, axis: int, block_size: int) -> Any:
    wide = _wide(scale.dtype)
    if x.dtype == i32 and zero is not None:
        y = _to(x - _spread_value(zero, x, axis, block_size), wide)
    else:
        y = _to(x, wide)
        if zero is not None:
            y = y - _to(_spread_value(zero, x, axis, block_size), wide)
    return _to(y * _to(_spread_value(scale, x, axis, block_size), wide), scale.dtype)


def _scales(rng: Rng, dtype: DType, *shape: int) -> Array:
    return np.asarray(rng.uniform(0.01, 0.2, shape).astype(dtype.numpy))


def _quantize_samples(dtype: DType, rng: Rng) -> list[Sample]:
    kind = dtype if dtype.is_float else f32
    x = data(rng, dtype, 2, 5, 4, low=-9, high=9)

    def zero(q: DType, *shape: int) -> Array:
        return data(rng, q, *shape, low=0 if q.kind == "u" else -5, high=9)

    found = [
        Sample((x, _scales(rng, kind))), Sample((x, _scales(rng, kind), zero(u8))),
        Sample((x, _scales(rng, kind), zero(i8))), Sample((x, _scales(rng, kind, 5), zero(u8, 5))),
        Sample((x, _scales(rng, kind, 4), zero(i16, 4)), {"axis": -1}),
        Sample((x, _scales(rng, kind), zero(u16))), Sample((x, _scales(rng, kind, 1), zero(i8, 1)), {"axis": 0}),
        Sample((x, _scales(rng, kind, 2, 3, 4), zero(u8, 2, 3, 4)), {"axis": 1, "block_size": 2}),
        Sample((x, _scales(rng, kind, 2, 5, 1), zero(i8, 2, 5, 1)), {"axis": 2, "block_size": 4}),
        Sample((x, _scales(rng, kind)), {"dtype": i8}), Sample((data(rng, dtype, 0, 3), _scales(rng, kind, 3))),
    ]
    found += [Sample((x, _scales(rng, kind), data(rng, q)), {"saturate": s}) for q in FLOAT8 for s in (True, False)]
    found += [Sample((x, _scales(rng, kind, 5)), {"dtype": dtypes.f8e4m3fn}),
              Sample((x, _scales(rng, kind, 2, 3, 4) * kind.numpy.type(0.01)),
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

    found = [Sample((x, _scales(rng, kind), zero())) for kind in dtypes.FLOATS]
    return [
        *found, Sample((x, _scales(rng, f32))), Sample((x, _scales(rng, f32, 5), zero(5))),
        Sample((x, _scales(rng, f32, 4), zero(4)), {"axis": -1}), Sample((x, _scales(rng, f32, 1))),
        Sample((x, _scales(rng, f32, 2, 3, 4), zero(2, 3, 4)), {"axis": 1, "block_size": 2}),
        Sample((x[:0], _scales(rng, f32))),
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


# -- products of integers -------------------------------------------------------------


def _check_zero(op: str, name: str, zero: TensorType | None, dtype: DType, shapes: list[tuple[Any, ...]]) -> None:
    if zero is None:
        return
    if zero.dtype != dtype:
        raise TypeRuleError(f"{op}: {name} type must be {dtype}, got {zero.dtype}")
    if zero.shape not in [(), (1,), *shapes]:
        raise TypeRuleError(
            f"{op}: {name} must be one number or have shape {' or '.join(str(list(s)) for s in shapes)}, got {zero}"
        )


def _integer_product(op: str, a: TensorType, b: TensorType) -> TensorType:
    require_dtype(op, a.dtype, SMALL, "a")
    require_dtype(op, b.dtype, SMALL, "b")
    return TensorType(i32, matmul_type(op, a, b))


def _row_shapes(a: TensorType) -> list[tuple[Any, ...]]:
    return [a.shape[-2:-1], (*a.shape[:-1], 1)] if a.rank > 1 else []


def _column_shapes(b: TensorType) -> list[tuple[Any, ...]]:
    return [b.shape[-1:], (*b.shape[:-2], 1, b.shape[-1])] if b.rank > 1 else []


def _infer_matmul_integer(a: TensorType, b: TensorType, a_zero: TensorType | None = None,
                          b_zero: TensorType | None = None) -> tuple[TensorType, ...]:
    result = _integer_product("matmul_integer", a, b)
    _check_zero("matmul_integer", "a_zero", a_zero, a.dtype, _row_shapes(a))
    _check_zero("matmul_integer", "b_zero", b_zero, b.dtype, _column_shapes(b))
    return (result,)


def _as_column(v: Any, rank: int) -> Any:
    """A row zero point or scale [M] as [M, 1]; others as they are (one number as rank 0)."""
    if v.shape == (1,) or len(v.shape) == 0:
        return v.reshape(()) if isinstance(v, np.ndarray) else _reshaped(v, ())
    if len(v.shape) == 1 and rank > 1:
        return v.reshape(-1, 1) if isinstance(v, np.ndarray) else _reshaped(v, (-1, 1))
    return v


def _reshaped(v: Any, shape: tuple[int, ...]) -> Any:
    from rlx import ops

    return v if v.shape == shape else ops.reshape(v, shape=shape)


def _matmul_integer(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - _as_column(a_zero, a.ndim).astype(np.int32)
    if b_zero is not None:
        right = right - (b_zero.reshape(()) if b_zero.size == 1 else b_zero).astype(np.int32)
    return np.asarray(np.matmul(left, right))


def _numbers(v: Any) -> Any:
    """One number as rank 0, other shapes as they are."""
    return v if v is None or v.shape != (1,) else _reshaped(v, ())


def _simple_row(v: Any, a: Any) -> bool:
    return v is None or v.rank == 0 or (v.rank == 1 and a.rank == 2)


def _simple_column(v: Any, b: Any) -> bool:
    return v is None or v.rank == 0 or (v.rank == 1 and b.rank > 1)


def _matmul_integer_in_ops(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    from rlx import ops

    a_zero, b_zero = _numbers(a_zero), _numbers(b_zero)
    if _simple_row(a_zero, a) and _simple_column(b_zero, b):
        return int8_matmul(a, b, None, a_zero, b_zero)
    left, right = _to(a, i32), _to(b, i32)
    if a_zero is not None:
        left = left - _to(_as_column(a_zero, a.rank), i32)
    if b_zero is not None:
        right = right - _to(b_zero, i32)
    return ops.matmul(left, right)


def full_range(rng: Rng, dtype: DType, *shape: int) -> Array:
    """Integers of the whole range of a type."""
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


def _matmul_integer_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for other in SMALL:
        a, b = full_range(rng, dtype, 5, 17), full_range(rng, other, 17, 19)
        one, two = full_range(rng, dtype), full_range(rng, other)
        found += [
            Sample((a, b)),
            Sample((a, b, one, two)),
            Sample((a, b, full_range(rng, dtype, 5), full_range(rng, other, 19))),
            Sample((full_range(rng, dtype, 2, 3, 1, 9), full_range(rng, other, 3, 9, 33), one)),
            Sample((a, b, full_range(rng, dtype, 5, 1), full_range(rng, other, 1, 19))),
            Sample((a[0], b, one)),
            Sample((a, b[:, 0], None, two)),
            Sample((a[:0], b)),
            Sample((a[:, :0], b[:0], one, two)),
            Sample((full_range(rng, dtype, 33, 130), full_range(rng, other, 130, 70), one, two)),
            Sample((full_range(rng, dtype, 2, 4, 7), full_range(rng, other, 7, 5), one)),
        ]
    return found


def _matmul_integer_errors() -> list[ErrorSample]:
    a, b = np.zeros((2, 3), np.uint8), np.zeros((3, 4), np.int8)
    return [
        ErrorSample((a, b[:2]), {}, "inner sizes"),
        ErrorSample((a, b.astype(np.int32)), {}, "type must be one of"),
        ErrorSample((a, b, np.zeros(3, np.uint8)), {}, "a_zero must"),
        ErrorSample((a, b, None, np.zeros((), np.uint8)), {}, "b_zero type"),
    ]


matmul_integer = OpDef(
    "matmul_integer",
    ("a", "b", "a_zero?", "b_zero?"),
    _infer_matmul_integer,
    _matmul_integer,
    "(a - a_zero) @ (b - b_zero) in i32; zero points are one number, or one per row of a and column of b.",
    dtypes=SMALL,
    decompose=_matmul_integer_in_ops,
    samples=_matmul_integer_samples,
    errors=_matmul_integer_errors,
    tolerance=EXACT,
)


def _check_conv(op: str, x: TensorType, w: TensorType, b: TensorType | None, at: dict[str, Any]) -> TensorType:
    require_dtype(op, x.dtype, SMALL, "x")
    require_dtype(op, w.dtype, SMALL, "w")
    return conv_type(op, x, w, b, at)


def _infer_conv_integer(
    x: TensorType, w: TensorType, x_zero: TensorType | None = None, w_zero: TensorType | None = None, **at: Any
) -> tuple[TensorType, ...]:
    result = _check_conv("conv_integer", x, w, None, at)
    _check_zero("conv_integer", "x_zero", x_zero, x.dtype, [])
    _check_zero("conv_integer", "w_zero", w_zero, w.dtype, [w.shape[:1]])
    return (result.with_dtype(i32),)


def _per_filter(v: Any, rank: int) -> Any:
    """One number per output channel, to broadcast against the weights; one number as rank 0."""
    shape = () if v.shape in ((), (1,)) else (v.shape[0], *(1,) * (rank - 1))
    return v.reshape(shape) if isinstance(v, np.ndarray) else _reshaped(v, shape)


def _conv_integer(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, **at: Any) -> Array:
    left, right = x.astype(np.float64), w.astype(np.float64)
    if x_zero is not None:
        left = left - x_zero.reshape(()).astype(np.float64)
    if w_zero is not None:
        right = right - _per_filter(w_zero, w.ndim).astype(np.float64)
    return conv_reference(left, right, None, **at).astype(np.int64).astype(np.int32)


def _conv_integer_in_ops(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **at: Any) -> Any:
    return int8_conv(x, w, None, _numbers(x_zero), _numbers(w_zero), **at)


def _conv_integer_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for i, (x, w, _, attrs) in enumerate(CONV_CASES):
        other = SMALL[i % 2]
        zeros = [
            (None, None),
            (full_range(rng, dtype), full_range(rng, other)),
            (full_range(rng, dtype), full_range(rng, other, w[0])),
        ]
        found.append(Sample((full_range(rng, dtype, *x), full_range(rng, other, *w), *zeros[i % 3]), attrs))
    return found


def _conv_integer_errors() -> list[ErrorSample]:
    x, w = np.zeros((1, 4, 5, 5), np.uint8), np.zeros((6, 4, 3, 3), np.int8)
    return [
        ErrorSample((x, w[:, :3]), {}, "channels of x"),
        ErrorSample((x, w, np.zeros(4, np.uint8)), {}, "x_zero must"),
        ErrorSample((x, w, None, np.zeros(5, np.int8)), {}, "w_zero must"),
    ]


conv_integer = OpDef(
    "conv_integer", ("x", "w", "x_zero?", "w_zero?"), _infer_conv_integer, _conv_integer,
    "Convolution of x - x_zero (padding is 0 after that) with w - w_zero in i32.", attrs=GEOMETRY, dtypes=SMALL,
    decompose=_conv_integer_in_ops, samples=_conv_integer_samples, errors=_conv_integer_errors, tolerance=EXACT,
)


# -- products whose result is quantised again -----------------------------------------


def _check_quantised(op: str, scales: list[tuple[str, TensorType]], y_zero: TensorType) -> None:
    for name, t in scales:
        require_dtype(op, t.dtype, (f32,), name)
    require_dtype(op, y_zero.dtype, SMALL, "y_zero")
    for name, t in (*scales[-1:], ("y_zero", y_zero)):
        if t.shape not in ((), (1,)):
            raise TypeRuleError(f"{op}: {name} must be one number, got {t}")


def _infer_qlinear_matmul(a: TensorType, a_scale: TensorType, a_zero: TensorType, b: TensorType, b_scale: TensorType,
                          b_zero: TensorType, y_scale: TensorType, y_zero: TensorType) -> tuple[TensorType, ...]:
    op = "qlinear_matmul"
    result = _integer_product(op, a, b)
    _check_zero(op, "a_zero", a_zero, a.dtype, _row_shapes(a))
    _check_zero(op, "b_zero", b_zero, b.dtype, _column_shapes(b))
    _check_quantised(op, [("a_scale", a_scale), ("b_scale", b_scale), ("y_scale", y_scale)], y_zero)
    if a_scale.shape not in [(), (1,), *_row_shapes(a)] or b_scale.shape not in [(), (1,), *_column_shapes(b)]:
        raise TypeRuleError(
            f"{op}: scales must be one number, or one per row of a and column of b, got {a_scale} and {b_scale}"
        )
    return (result.with_dtype(y_zero.dtype),)


def _requantize(acc: Array, multiplier: Array, y_zero: Array) -> Array:
    y = np.rint(acc.astype(np.float32) * multiplier) + y_zero.reshape(()).astype(np.float32)
    return cast_array(y, dtypes.of_array(y_zero))


def _qlinear_matmul(a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array,
                    y_zero: Array) -> Array:
    columns = b_scale.reshape(()) if b_scale.size == 1 else b_scale
    multiplier = _as_column(a_scale, a.ndim) * columns / y_scale.reshape(())
    return _requantize(_matmul_integer(a, b, a_zero, b_zero), multiplier, y_zero)


def _qlinear_matmul_in_ops(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    from rlx import ops

    a_scale, b_scale, a_zero, b_zero, y_zero = (_numbers(v) for v in (a_scale, b_scale, a_zero, b_zero, y_zero))
    scale = _as_column(a_scale, a.rank) * b_scale / _reshaped(y_scale, ())
    if _simple_row(a_zero, a) and _simple_column(b_zero, b) and a_scale.rank == 0 and _simple_column(b_scale, b):
        return int8_matmul(a, b, None, a_zero, b_zero, scale, y_zero, out=y_zero.dtype)
    y = ops.round(_to(matmul_integer(a, b, a_zero, b_zero), f32) * scale) + _to(y_zero, f32)
    return ops.cast(y, dtype=y_zero.dtype)


def _qlinear_matmul_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for other in SMALL:
        a, b = full_range(rng, dtype, 5, 17), full_range(rng, other, 17, 19)
        one, two, y = full_range(rng, dtype), full_range(rng, other), full_range(rng, other)
        s, t = _scales(rng, f32), _scales(rng, f32)
        big = np.float32(30.0).reshape(())
        found += [
            Sample((a, s, one, b, t, two, big, y)),
            Sample(
                (
                    a,
                    _scales(rng, f32, 5),
                    full_range(rng, dtype, 5),
                    b,
                    _scales(rng, f32, 19),
                    full_range(rng, other, 19),
                    big,
                    y,
                )
            ),
            Sample((full_range(rng, dtype, 2, 4, 9), s, one, full_range(rng, other, 2, 9, 6), t, two, big, y)),
            Sample((a, s.reshape(1), one.reshape(1), b, t.reshape(1), two.reshape(1), s.reshape(1), y.reshape(1))),
        ]
    return found


def _qlinear_errors() -> list[ErrorSample]:
    a, b, s, z = np.zeros((2, 3), np.uint8), np.zeros((3, 4), np.int8), np.ones((), np.float32), np.zeros((), np.uint8)
    return [ErrorSample((a, s, z, b, s, z.astype(np.int8), s, np.zeros(2, np.uint8)), {}, "y_zero must"),
            ErrorSample((a, np.ones(7, np.float32), z, b, s, z.astype(np.int8), s, z), {}, "scales must")]


qlinear_matmul = OpDef(
    "qlinear_matmul",
    ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"),
    _infer_qlinear_matmul,
    _qlinear_matmul,
    "matmul_integer, times a_scale b_scale / y_scale, rounded half to even, plus y_zero, saturated.",
    dtypes=SMALL,
    decompose=_qlinear_matmul_in_ops,
    samples=_qlinear_matmul_samples,
    errors=_qlinear_errors,
    tolerance=EXACT,
)


def _infer_qlinear_conv(x: TensorType, x_scale: TensorType, x_zero: TensorType, w: TensorType, w_scale: TensorType,
                        w_zero: TensorType, y_scale: TensorType, y_zero: TensorType, b: TensorType | None = None,
                        **at: Any) -> tuple[TensorType, ...]:
    op = "qlinear_conv"
    result = _check_conv(op, x, w, b, at)
    _check_zero(op, "x_zero", x_zero, x.dtype, [])
    _check_zero(op, "w_zero", w_zero, w.dtype, [w.shape[:1]])
    _check_quantised(op, [("x_scale", x_scale), ("w_scale", w_scale), ("y_scale", y_scale)], y_zero)
    if x_scale.shape not in ((), (1,)) or w_scale.shape not in ((), (1,), w.shape[:1]):
        raise TypeRuleError(
            f"{op}: x_scale must be one number and w_scale one or one per filter, got {x_scale} and {w_scale}"
        )
    if b is not None and b.dtype != i32:
        raise TypeRuleError(f"{op}: b type must be i32, got {b.dtype}")
    return (result.with_dtype(y_zero.dtype),)


def _qlinear_conv(x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array, y_scale: Array,
                  y_zero: Array, b: Array | None = None, **at: Any) -> Array:
    acc = _conv_integer(x, w, x_zero, w_zero, **at)
    if b is not None:
        acc = acc + b.reshape(-1, *(1,) * (x.ndim - 2))
    multiplier = x_scale.reshape(()) * _per_filter(w_scale, x.ndim - 1) / y_scale.reshape(())
    return _requantize(acc, multiplier, y_zero)


def _qlinear_conv_in_ops(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    b: Any = None,
    **at: Any,
) -> Any:
    scale = _reshaped(x_scale, ()) * _numbers(w_scale) / _reshaped(y_scale, ())
    return int8_conv(x, w, b, _numbers(x_zero), _numbers(w_zero), scale, _numbers(y_zero), out=y_zero.dtype, **at)


def _qlinear_conv_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for i, (x, w, bias, attrs) in enumerate(CONV_CASES):
        other = SMALL[i % 2]
        many = i % 3 == 2
        b = rng.integers(-9000, 9000, w[0], np.int32) if bias else None
        found.append(
            Sample(
                (
                    full_range(rng, dtype, *x),
                    _scales(rng, f32),
                    full_range(rng, dtype),
                    full_range(rng, other, *w),
                    _scales(rng, f32, w[0]) if many else _scales(rng, f32),
                    full_range(rng, other, w[0]) if many else full_range(rng, other),
                    np.float32(11.5).reshape(()),
                    full_range(rng, dtype),
                    b,
                ),
                attrs,
            )
        )
    return found


def _qlinear_conv_errors() -> list[ErrorSample]:
    x, w, s, z = (
        np.zeros((1, 4, 5, 5), np.uint8),
        np.zeros((6, 4, 3, 3), np.int8),
        np.ones((), np.float32),
        np.zeros((), np.uint8),
    )
    zero = np.zeros((), np.int8)
    return [ErrorSample((x, s, z, w, s, zero, s, z, np.zeros(6, np.float32)), {}, "b type"),
            ErrorSample((x, s, z, w, np.ones(5, np.float32), zero, s, z), {}, "w_scale"),
            ErrorSample((x, s, z, w, s, zero, s, np.zeros((), np.int32)), {}, "y_zero type")]


qlinear_conv = OpDef(
    "qlinear_conv",
    ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b?"),
    _infer_qlinear_conv,
    _qlinear_conv,
    "conv_integer plus b (i32), times x_scale w_scale / y_scale, rounded half to even, plus y_zero, saturated.",
    attrs=GEOMETRY,
    dtypes=SMALL,
    decompose=_qlinear_conv_in_ops,
    samples=_qlinear_conv_samples,
    errors=_qlinear_conv_errors,
    tolerance=EXACT,
)




# -- tables ---------------------------------------------------------------------------


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
