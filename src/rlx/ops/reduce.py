"""Reductions over axes: sums, products, extrema, norms, any, all."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, normal_axes
from rlx.ops._rules import Rng, data, require_dtype

Axes = tuple[int, ...] | None

# Sums are judged against the sum of magnitudes, hence an absolute part.
SUMS = Tolerance(
    rtol={"f32": 1e-6, "f64": 1e-14},
    atol={"f32": 1e-6, "f64": 1e-14, "c64": 1e-6, "c128": 1e-14, "f16": 1e-6, "bf16": 1e-5},
)


def reduced_shape(t: TensorType, axes: Axes, keepdims: bool, op: str) -> tuple[Any, ...]:
    """Shape after a reduction over `axes` (None: all, (): none)."""
    chosen = normal_axes(axes, t.rank, op)
    if keepdims:
        return tuple(1 if i in chosen else d for i, d in enumerate(t.shape))
    return tuple(d for i, d in enumerate(t.shape) if i not in chosen)


def _infer(op: str, allowed: tuple[DType, ...]) -> Any:
    def rule(x: TensorType, axes: Axes, keepdims: bool) -> tuple[TensorType, ...]:
        shape = reduced_shape(x, axes, keepdims, op)
        require_dtype(op, x.dtype, allowed)
        return (x.with_shape(shape),)

    return rule


def _samples(low: float, high: float) -> Callable[[DType, Rng], list[Sample]]:
    shapes: list[tuple[tuple[int, ...], Axes, bool]] = [
        ((7,), None, False), ((2, 3, 5), None, True), ((2, 3, 5), (), False), ((4, 33), (1,), False),
        ((4, 33), (0,), True), ((2, 3, 4, 5), (0, 2), False), ((3, 4, 3, 2, 3), (0, 2, 4), True),
        ((2, 5, 1, 3), (-1, 1), False), ((), None, False), ((3, 0), (1,), False), ((0, 3), (1,), False),
        ((0,), None, True), ((67, 3), (0,), False), ((2, 300), (-1,), False), ((3, 17, 70), (1,), False),
        ((1, 5), (0,), False),
    ]  # fmt: skip

    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = [
            Sample((data(rng, dtype, *s, low=low, high=high),), {"axes": a, "keepdims": k})
            for s, a, k in shapes
        ]
        if dtype.is_float:
            for value in (np.nan, np.inf, -np.inf):
                x = data(rng, dtype, 3, 37, low=low, high=high)
                x[1, 20] = value
                found.append(Sample((x,), {"axes": (1,)}))
                found.append(Sample((x,), {"axes": (0,)}))
        if dtype.is_int:
            info = np.iinfo(dtype.numpy)
            edge = np.array([[info.max, info.max, 2], [info.min, info.min, 1]], dtype.numpy)
            found += [Sample((edge,), {"axes": (1,)}), Sample((edge,), {"axes": (0,)})]
        return found

    return make


def _errors() -> list[ErrorSample]:
    x = np.zeros((2, 3), np.float32)
    return [
        ErrorSample((x,), {"axes": (2,)}, "axis must be in"),
        ErrorSample((x,), {"axes": (0, -2)}, "axes must differ"),
        ErrorSample((x,), {"axes": (0.5,)}, "kind ints"),
    ]


def _row(
    name: str,
    reference: Callable[..., Any],
    doc: str,
    allowed: tuple[DType, ...],
    low: float = -4.0,
    high: float = 4.0,
    tolerance: Tolerance = SUMS,
) -> OpDef:
    return OpDef(
        name, ("x",), _infer(name, allowed), reference, doc, dtypes=allowed,
        attrs=(Attr("axes", "ints", None), Attr("keepdims", "bool", False)),
        samples=_samples(low, high), errors=_errors, tolerance=tolerance,
    )  # fmt: skip


def _count(x: Array, axes: Axes) -> int:
    n = 1
    for i in range(x.ndim) if axes is None else axes:
        n *= x.shape[i]
    return n


def _sum(x: Array, axes: Axes, keepdims: bool) -> Any:
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Any:
    n = _count(x, axes)
    if x.dtype.kind in "iu":
        total = np.sum(x.astype(object), axis=axes, keepdims=keepdims)
        cut = np.vectorize(lambda s: (abs(s) // n if s >= 0 else -(abs(s) // n)) if n else 0, otypes=[object])
        return np.asarray(cut(total) if np.size(total) else total).astype(x.dtype)
    mean = _sum(x, axes, keepdims) / x.dtype.type(n)
    if np.isfinite(x).all() and n:  # a sum that leaves the range on the way
        return np.where(np.isfinite(mean), mean, _sum(x / n, axes, keepdims))
    return mean


def _prod(x: Array, axes: Axes, keepdims: bool) -> Any:
    return np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _extremum(function: Any, largest: bool) -> Callable[..., Any]:
    def reference(x: Array, axes: Axes, keepdims: bool) -> Any:
        if x.dtype.kind == "f":
            start: Any = -np.inf if largest else np.inf
        else:
            start = np.iinfo(x.dtype).min if largest else np.iinfo(x.dtype).max
        return function(x, axis=axes, keepdims=keepdims, initial=start)

    return reference


def _l2(x: Array, axes: Axes, keepdims: bool) -> Any:
    top = np.max(np.abs(x), axis=axes, keepdims=True, initial=0)
    scale = np.where(np.isfinite(top) & (top > 0), top, 1)
    root = np.sqrt(np.sum(np.square(x / scale), axis=axes, keepdims=True)) * scale
    return root.reshape(_sum(x, axes, keepdims).shape)


_SUMMABLE = dtypes.NUMBERS

reduce_sum = _row("reduce_sum", _sum, "Sum over axes; integers wrap.", _SUMMABLE)
reduce_mean = _row(
    "reduce_mean", _mean, "Mean over axes; of integers truncated; of nothing NaN (0 for integers).", _SUMMABLE
)
reduce_prod = _row("reduce_prod", _prod, "Product over axes; integers wrap.", dtypes.REALS, -1.5, 1.5)
reduce_max = _row(
    "reduce_max", _extremum(np.max, True), "Largest element over axes; NaN wins.", dtypes.REALS, tolerance=EXACT
)
reduce_min = _row(
    "reduce_min", _extremum(np.min, False), "Smallest element over axes; NaN wins.", dtypes.REALS, tolerance=EXACT
)
reduce_l1 = _row("reduce_l1", lambda x, axes, keepdims: _sum(np.abs(x), axes, keepdims),
                 "Sum of magnitudes over axes.", dtypes.REALS)  # fmt: skip
reduce_l2 = _row("reduce_l2", _l2, "Root of the sum of squares over axes.", dtypes.FLOATS)
reduce_sum_square = _row("reduce_sum_square", lambda x, axes, keepdims: _sum(x * x, axes, keepdims),
                         "Sum of squares over axes.", dtypes.REALS)  # fmt: skip
reduce_log_sum = _row("reduce_log_sum", lambda x, axes, keepdims: np.log(_sum(x, axes, keepdims)),
                      "Logarithm of the sum over axes.", dtypes.FLOATS, 0.1, 4.0)  # fmt: skip
reduce_any = _row("reduce_any", lambda x, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims),
                  "Whether one element holds, over axes.", (dtypes.bool_,), tolerance=EXACT)  # fmt: skip
reduce_all = _row("reduce_all", lambda x, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims),
                  "Whether all elements hold, over axes.", (dtypes.bool_,), tolerance=EXACT)  # fmt: skip
