"""Running sums, products and extrema along an axis."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype

_SUMS = Tolerance(rtol={"f32": 1e-5, "f64": 1e-13}, atol={"f32": 1e-5, "f64": 1e-13, "f16": 1e-3, "bf16": 1e-2})


def _infer(op: str) -> Any:
    def rule(x: TensorType, axis: int, exclusive: bool, reverse: bool) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, dtypes.REALS)
        normal_axis(axis, x.rank, op)
        return (x,)

    return rule


def _start(name: str, dtype: Any) -> Any:
    """What an exclusive run begins with: the result of nothing."""
    if name in ("cumsum", "cumprod"):
        return 0 if name == "cumsum" else 1
    low = name == "cummax"
    if dtype.kind == "f":
        return -np.inf if low else np.inf
    return np.iinfo(dtype).min if low else np.iinfo(dtype).max


def _running(name: str, function: Any) -> Callable[..., Array]:
    def reference(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
        x = np.flip(x, axis) if reverse else x
        if exclusive:
            kept = np.take(x, np.arange(max(x.shape[axis] - 1, 0)), axis)
            edge = list(x.shape)
            edge[axis] = min(1, x.shape[axis])
            x = np.concatenate([np.full(edge, _start(name, x.dtype), x.dtype), kept], axis)
        y = function.accumulate(x, axis, dtype=x.dtype)
        return np.flip(y, axis) if reverse else y

    return reference


def _samples(low: float, high: float) -> Callable[[DType, Rng], list[Sample]]:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((7,), 0), ((3, 33), -1), ((3, 33), 0), ((2, 5, 7), 1), ((4, 1), 1), ((2, 0), 1), ((0, 3), 1),
            ((2, 6, 18), -2),
        ]
        found = []
        for i, (shape, axis) in enumerate(shapes):
            attrs = {"axis": axis, "exclusive": i % 2 == 1, "reverse": i % 4 > 1}
            found.append(Sample((data(rng, dtype, *shape, low=low, high=high),), attrs))
        if dtype.is_float:
            special = np.array([[1.0, np.nan, 2.0, np.inf, -np.inf], [np.inf, 1.0, -1.0, 0.0, 2.0]]).astype(dtype.numpy)
            found += [Sample((special,), {"axis": 1, "reverse": r}) for r in (False, True)]
        return found

    return make


def _row(name: str, function: Any, doc: str, tolerance: Tolerance, low: float = -4.0, high: float = 4.0) -> OpDef:
    return OpDef(
        name, ("x",), _infer(name), _running(name, function), doc, dtypes=dtypes.REALS,
        attrs=(Attr("axis", "int", 0), Attr("exclusive", "bool", False), Attr("reverse", "bool", False)),
        samples=_samples(low, high), tolerance=tolerance,
        errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"axis": 2}, "axis must be in"),
                        ErrorSample((np.zeros((2, 3), np.bool_),), {}, "type must be one of")],
    )


cumsum = _row("cumsum", np.add, "Running sum along an axis; `exclusive` leaves out the element itself.", _SUMS)
cumprod = _row("cumprod", np.multiply, "Running product along an axis.", _SUMS, -1.5, 1.5)
cummax = _row("cummax", np.maximum, "Running maximum along an axis; NaN wins.", EXACT)
cummin = _row("cummin", np.minimum, "Running minimum along an axis; NaN wins.", EXACT)
