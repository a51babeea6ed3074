"""Shape and dtype rules shared by rows, and helpers that make rows and samples short."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, Sample
from rlx.ir.types import TensorType, broadcast

if TYPE_CHECKING:
    Rng = np.random.Generator
else:
    Rng = Any  # numpy.random is costly to import and only samples need it

# Of ops on images: where the channels are.
LAYOUT = Attr("layout", "str", "nchw", ("nchw", "nhwc"))


def same_dtype(op: str, types: Sequence[TensorType]) -> DType:
    """The element type that all operands share.

    Raises
    ------
    TypeRuleError
        Two operands have different element types.
    """
    first = types[0].dtype
    for t in types:
        if t.dtype is not first:
            raise TypeRuleError(
                f"{op}: operand types must match, got {first} and {t.dtype}"
                "\nhint: convert one with ops.cast(x, dtype=...)"
            )
    return first


def require_dtype(op: str, dtype: DType, allowed: Sequence[DType], what: str = "operand") -> None:
    """Raise TypeRuleError unless `dtype` is one of `allowed`."""
    if dtype not in allowed:
        hint = f"\n{dtypes.FLOAT8_HINT}" if dtype.is_float8 else ""
        raise TypeRuleError(f"{op}: {what} type must be one of {list(allowed)}, got {dtype}{hint}")


def require_rank(op: str, t: TensorType, least: int, most: int | None = None, what: str = "operand") -> None:
    """Raise TypeRuleError unless the rank is in [least, most]."""
    if t.rank < least or (most is not None and t.rank > most):
        want = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
        raise TypeRuleError(f"{op}: rank of {what} must be {want}, got {t}")


def infer_unary(op: str, allowed: Sequence[DType], result: DType | None = None) -> Any:
    """Rule: same shape; same element type, or `result`."""

    def rule(x: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, allowed)
        return (x if result is None else x.with_dtype(result),)

    return rule


def infer_broadcast(op: str, allowed: Sequence[DType], result: DType | None = None) -> Any:
    """Rule: equal element types, NumPy broadcasting."""

    def rule(*types: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
        dtype = same_dtype(op, types)
        require_dtype(op, dtype, allowed)
        return (TensorType(result or dtype, broadcast([t.shape for t in types], op)),)

    return rule


def data(rng: Rng, dtype: DType, *shape: int, low: float = -4.0, high: float = 4.0) -> Array:
    """Random values with negatives, zeros and ties, in the given type."""
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.kind == "u":
        lo = max(0, int(low))
        return np.asarray(rng.integers(lo, max(int(high), lo) + 6, shape).astype(dtype.numpy))
    if dtype.kind == "i":
        return np.asarray(rng.integers(int(low), int(high) + 1, shape).astype(dtype.numpy))
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        return np.asarray((x + 1j * rng.uniform(low, high, shape)).astype(dtype.numpy))
    if x.size > 3 and low <= 0 <= high:
        x.reshape(-1)[:: max(3, x.size // 5)] = 0.0
    return np.asarray(x.astype(dtype.numpy))


# Lengths around the vector widths of all levels, and the empty and the single one.
LENGTHS = (0, 1, 3, 8, 17, 33, 67)


def unary_samples(low: float = -4.0, high: float = 4.0, **attrs: Any) -> Callable[[DType, Rng], list[Sample]]:
    """Samples of a one-operand elementwise op."""

    def make(dtype: DType, rng: Rng) -> list[Sample]:
        shapes: list[tuple[int, ...]] = [(n,) for n in LENGTHS]
        shapes += [(), (2, 3, 5)]
        found = [Sample((data(rng, dtype, *s, low=low, high=high),), attrs) for s in shapes]
        if dtype.is_float:
            special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, 0.5, 2.5])
            found.append(Sample((special.astype(dtype.numpy),), attrs))
        return found

    return make


def binary_samples(
    low: float = -4.0, high: float = 4.0, low2: float | None = None, high2: float | None = None,
    special: bool = True,
) -> Callable[[DType, Rng], list[Sample]]:
    """Samples of a two-operand broadcasting op."""

    def make(dtype: DType, rng: Rng) -> list[Sample]:
        a = low if low2 is None else low2
        b = high if high2 is None else high2
        pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((n,), (n,)) for n in LENGTHS]
        pairs += [((), ()), ((4, 5), (5,)), ((4, 1), (1, 5)), ((2, 3, 4), (3, 1)), ((7,), ()),
                  ((1, 6, 1, 2), (3, 1, 5, 1)), ((0, 3), (1, 3))]
        found = [
            Sample((data(rng, dtype, *s, low=low, high=high), data(rng, dtype, *t, low=a, high=b)))
            for s, t in pairs
        ]
        if dtype.is_float and special:
            v = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 1e-40]).astype(dtype.numpy)
            found.append(Sample((v[:, None], v[None, :])))
        if dtype.is_int and special:
            info = np.iinfo(dtype.numpy)
            v = np.array([info.min, info.max, 1, info.max // 2, 3], dtype.numpy)
            found.append(Sample((v[:, None], v[None, :])))
        return found

    return make


def binary_errors(dtype: DType) -> list[ErrorSample]:
    """Calls that every broadcasting two-operand op on `dtype` refuses."""
    other = dtypes.i16 if dtype == dtypes.i32 else dtypes.i32
    x = np.zeros((2, 3), dtype.numpy)
    return [
        ErrorSample((x, x.astype(other.numpy)), {}, "types must match"),
        ErrorSample((x, np.zeros((2, 4), dtype.numpy)), {}, "must broadcast"),
        ErrorSample((x,), {}, "number of operands"),
    ]


def unary_errors() -> list[ErrorSample]:
    """Calls that every one-operand op refuses."""
    f = np.zeros((2,), np.float32)
    return [ErrorSample((f, f), {}, "number of operands"), ErrorSample((f,), {"nope": 1}, "attributes")]


REAL_AND_BOOL = (*dtypes.REALS, dtypes.bool_)
