"""Elementwise ops of two and three operands, comparisons and logic."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import FLOATS, INTS, NUMBERS, REALS, DType, bool_
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, broadcast
from rlx.ops._rules import (
    REAL_AND_BOOL,
    Rng,
    binary_errors,
    binary_samples,
    data,
    infer_broadcast,
    same_dtype,
)
from rlx.ops.unary import ULPS

ROUNDED = Tolerance(rtol={"c64": 2e-6, "c128": 1e-14}, atol={"c64": 2e-6, "c128": 1e-14})


def binary(
    name: str,
    reference: Callable[..., Any],
    doc: str,
    allowed: tuple[DType, ...] = NUMBERS,
    *,
    tolerance: Tolerance = EXACT,
    commutative: bool = False,
    result: DType | None = None,
    samples: Any = None,
) -> OpDef:
    """Row of a broadcasting op of two operands."""
    traits = {"elementwise"} | ({"commutative"} if commutative else set())
    return OpDef(
        name, ("a", "b"), infer_broadcast(name, allowed, result), reference, doc, dtypes=allowed,
        traits=frozenset(traits), samples=samples or binary_samples(), errors=lambda: binary_errors(allowed[0]),
        tolerance=tolerance,
    )


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind in "fc":
        return np.asarray(a / b)
    # truncate towards zero, exactly: |a| // |b| with the sign put back; INT_MIN / -1 wraps
    quotient = np.floor_divide(a, b)
    remainder = a - quotient * b
    return np.asarray(quotient + ((remainder != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


def _mod(a: Array, b: Array) -> Array:
    return np.asarray(np.mod(a, b))


def _shl(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    unsigned = a.astype(a.dtype.str.replace("i", "u"))
    wide = b.astype(np.int64) if b.dtype.kind == "i" else b
    inside = (wide >= 0) & (wide < bits)
    return np.asarray(np.where(inside, unsigned << np.where(inside, wide, 0).astype(unsigned.dtype), 0).astype(a.dtype))


def _shr(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    wide = b.astype(np.int64) if b.dtype.kind == "i" else b
    inside = (wide >= 0) & (wide < bits)
    shifted = a >> np.where(inside, wide, 0).astype(a.dtype)
    return np.asarray(np.where(inside, shifted, np.where(a < 0, -1, 0) if a.dtype.kind == "i" else 0).astype(a.dtype))


def _pow(a: Array, b: Array) -> Array:
    return np.asarray(np.power(a, b))


_nonzero = binary_samples(low2=1.0, high2=5.0, special=False)


def _divisor_samples(dtype: DType, rng: Rng) -> list[Sample]:
    if not dtype.is_int:
        return binary_samples()(dtype, rng)
    found = _nonzero(dtype, rng)
    info = np.iinfo(dtype.numpy)
    a = np.array([info.min, info.max, 7, -7 if info.min else 7, 0], dtype.numpy)[:, None]
    b = np.array([3, -3 if info.min else 3, 1, -1 if info.min else 1, info.max], dtype.numpy)[None, :]
    found.append(Sample((a, b)))
    return found


def _pow_samples(dtype: DType, rng: Rng) -> list[Sample]:
    if dtype.is_float:
        return [
            *binary_samples(0.0, 4.0, -3.0, 3.0)(dtype, rng),
            Sample(
                (
                    np.array([-2.0, -3.0, -0.0, 2.0]).astype(dtype.numpy),
                    np.array([3.0, 2.0, 3.0, 0.5]).astype(dtype.numpy),
                )
            ),
        ]
    return binary_samples(1.0, 4.0, 0.0, 3.0, special=False)(dtype, rng)


def _shift_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = binary_samples(-4.0, 9.0, 0.0, 6.0, special=False)(dtype, rng)
    over = np.array([dtype.itemsize * 8, 100, dtype.itemsize * 8 - 1], dtype.numpy)
    return [*found, Sample((np.array([1, -1 if dtype.kind == "i" else 1, 3], dtype.numpy), over))]


add = binary("add", np.add, "a + b; integers wrap.", NUMBERS, commutative=True)
sub = binary("sub", np.subtract, "a - b; integers wrap.", NUMBERS)
mul = binary("mul", np.multiply, "a * b; integers wrap.", NUMBERS, commutative=True, tolerance=ROUNDED)
div = binary("div", _div, "a / b; integers truncate towards zero, a zero divisor raises at run time.",
             NUMBERS, tolerance=ROUNDED, samples=_divisor_samples)
floor_div = binary("floor_div", np.floor_divide, "floor(a / b).", REALS, samples=_divisor_samples,
                   tolerance=Tolerance(rtol={"f32": 0.0, "f64": 0.0}))
mod = binary("mod", _mod, "Remainder with the sign of the divisor (NumPy's mod).", REALS,
             samples=_divisor_samples, tolerance=Tolerance(atol={"f32": 1e-6, "f64": 1e-14}))
fmod = binary("fmod", np.fmod, "Remainder with the sign of the dividend (C's fmod).", REALS,
              samples=_divisor_samples)
pow = binary("pow", _pow, "a**b; integers exactly, wrapping; a negative integer exponent raises at run time.",
             NUMBERS, tolerance=Tolerance(rtol={**ULPS.rtol, "c64": 1e-5, "c128": 1e-12},
                                          atol={**ULPS.atol, "c64": 1e-4, "c128": 1e-11}), samples=_pow_samples)
max = binary("max", np.maximum, "Larger of a and b; NaN wins.", REAL_AND_BOOL, commutative=True)
min = binary("min", np.minimum, "Smaller of a and b; NaN wins.", REAL_AND_BOOL, commutative=True)
atan2 = binary("atan2", np.arctan2, "Angle of the point (b, a).", FLOATS, tolerance=ULPS)
bit_and = binary("bit_and", np.bitwise_and, "Bitwise and.", INTS, commutative=True)
bit_or = binary("bit_or", np.bitwise_or, "Bitwise or.", INTS, commutative=True)
bit_xor = binary("bit_xor", np.bitwise_xor, "Bitwise exclusive or.", INTS, commutative=True)
shl = binary("shl", _shl, "Bits of a moved up by b; 0 from the width on.", INTS, samples=_shift_samples)
shr = binary("shr", _shr, "Bits of a moved down by b; the sign fills.", INTS, samples=_shift_samples)

_ANY = (*NUMBERS, bool_)
eq = binary("eq", np.equal, "a == b.", _ANY, commutative=True, result=bool_)
ne = binary("ne", np.not_equal, "a != b; NaN differs from everything.", _ANY, commutative=True, result=bool_)
lt = binary("lt", np.less, "a < b.", REAL_AND_BOOL, result=bool_)
le = binary("le", np.less_equal, "a <= b.", REAL_AND_BOOL, result=bool_)
gt = binary("gt", np.greater, "a > b.", REAL_AND_BOOL, result=bool_)
ge = binary("ge", np.greater_equal, "a >= b.", REAL_AND_BOOL, result=bool_)
logical_and = binary("logical_and", np.logical_and, "a and b.", (bool_,), commutative=True)
logical_or = binary("logical_or", np.logical_or, "a or b.", (bool_,), commutative=True)
logical_xor = binary("logical_xor", np.logical_xor, "Exactly one of a and b.", (bool_,), commutative=True)


def _infer_where(c: TensorType, a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    if c.dtype != bool_:
        raise TypeRuleError(f"where: condition type must be bool, got {c.dtype}")
    dtype = same_dtype("where", [a, b])
    return (TensorType(dtype, broadcast([c.shape, a.shape, b.shape], "where")),)


def _where_samples(dtype: DType, rng: Rng) -> list[Sample]:
    shapes: list[tuple[tuple[int, ...], ...]] = [
        ((5,), (5,), (5,)), ((), (3,), (3,)), ((4, 1), (1, 5), ()), ((0,), (0,), (1,)),
        ((67,), (67,), ()), ((2, 1, 3), (4, 1), (3,)),
    ]
    return [Sample((data(rng, bool_, *c), data(rng, dtype, *a), data(rng, dtype, *b))) for c, a, b in shapes]


where = OpDef(
    "where", ("condition", "a", "b"), _infer_where, np.where, "a where the condition holds, else b.",
    dtypes=dtypes.ALL, traits=frozenset({"elementwise", "chooses"}), samples=_where_samples, tolerance=EXACT,
)


def _infer_make_complex(a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    wide = {dtypes.f32: dtypes.c64, dtypes.f64: dtypes.c128}
    dtype = same_dtype("make_complex", [a, b])
    if dtype not in wide:
        raise TypeRuleError(f"make_complex: operand type must be one of {list(wide)}, got {dtype}")
    return (TensorType(wide[dtype], broadcast([a.shape, b.shape], "make_complex")),)


def _make_complex(a: Array, b: Array) -> Array:
    result = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, np.complex64))
    result.real, result.imag = a, b
    return result


make_complex = OpDef(
    "make_complex", ("re", "im"), _infer_make_complex, _make_complex, "re + i im.",
    dtypes=(dtypes.f32, dtypes.f64), traits=frozenset({"elementwise"}), samples=binary_samples(),
    errors=lambda: binary_errors(dtypes.f32), tolerance=EXACT,
)


def _fma(a: Array, b: Array, c: Array) -> Array:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    return np.asarray((a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype))


def _fma_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [Sample(tuple(data(rng, dtype, n) for _ in range(3))) for n in (0, 1, 17, 67)]


fma = OpDef("fma", ("a", "b", "c"), infer_broadcast("fma", (dtypes.f64, dtypes.f32)), _fma,
            "a * b + c with a single rounding.", dtypes=(dtypes.f64, dtypes.f32),
            traits=frozenset({"elementwise"}), samples=_fma_samples,
            tolerance=Tolerance(rtol={"f32": 1.2e-7, "f64": 2.3e-16}))
