"""Products of quantised operands (see `rlx.ops.quant`): sums in i32, or quantised again."""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType, f32, i32
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, require_dtype
from rlx.ops.conv import CONV_CASES, GEOMETRY, conv_reference, conv_type
from rlx.ops.int8 import int8_conv, int8_matmul
from rlx.ops.matmul import matmul_type
from rlx.ops.quant import SMALL, converted, full_range, some_scales
from rlx.ops.unary import cast_array

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
    left, right = converted(a, i32), converted(b, i32)
    if a_zero is not None:
        left = left - converted(_as_column(a_zero, a.rank), i32)
    if b_zero is not None:
        right = right - converted(b_zero, i32)
    return ops.matmul(left, right)


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
    y = ops.round(converted(matmul_integer(a, b, a_zero, b_zero), f32) * scale) + converted(y_zero, f32)
    return ops.cast(y, dtype=y_zero.dtype)


def _qlinear_matmul_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for other in SMALL:
        a, b = full_range(rng, dtype, 5, 17), full_range(rng, other, 17, 19)
        one, two, y = full_range(rng, dtype), full_range(rng, other), full_range(rng, other)
        s, t = some_scales(rng, f32), some_scales(rng, f32)
        big = np.float32(30.0).reshape(())
        found += [
            Sample((a, s, one, b, t, two, big, y)),
            Sample(
                (
                    a,
                    some_scales(rng, f32, 5),
                    full_range(rng, dtype, 5),
                    b,
                    some_scales(rng, f32, 19),
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
                    some_scales(rng, f32),
                    full_range(rng, dtype),
                    full_range(rng, other, *w),
                    some_scales(rng, f32, w[0]) if many else some_scales(rng, f32),
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
