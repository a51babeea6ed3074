"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype
from rlx.ops.reduce import Axes, reduced_shape

_TOLERANCE = Tolerance(atol={"f32": 1e-6, "f64": 1e-14, "f16": 1e-6, "bf16": 1e-6})


def _special(dtype: DType) -> Array:
    inf, nan = np.inf, np.nan
    rows = [[-inf, -inf, -inf], [0.0, -inf, 1.0], [nan, 1.0, 2.0], [inf, 1.0, 2.0], [88.0, -104.0, -90.0],
            [6e4, 6e4, -6e4], [-0.0, 0.0, 0.0]]
    return np.array(rows).astype(dtype.numpy)


def _infer(op: str) -> Any:
    def rule(x: TensorType, axis: int) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, dtypes.FLOATS)
        normal_axis(axis, x.rank, op)
        return (x,)

    return rule


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((5,), 0), ((3, 33), -1), ((3, 33), 0), ((2, 5, 7), 1), ((4, 1), 1), ((2, 0), 1), ((0, 3), 1),
        ((2, 3, 67), 1), ((3, 300), 1), ((70, 2, 18), 0),
    ]
    found = [Sample((data(rng, dtype, *s, low=-20, high=20),), {"axis": a}) for s, a in shapes]
    return [*found, Sample((_special(dtype),)), Sample((_special(dtype).T.copy(),), {"axis": 0})]


def _shifted(x: Array, axis: int) -> Array:
    return np.asarray(x - np.max(x, axis, keepdims=True, initial=-np.inf))


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(_shifted(x, axis))
    return np.asarray(e / np.sum(e, axis, keepdims=True))


def _log_softmax(x: Array, axis: int) -> Array:
    s = _shifted(x, axis)
    return np.asarray(s - np.log(np.sum(np.exp(s), axis, keepdims=True)))


def _row(name: str, reference: Callable[..., Any], doc: str) -> OpDef:
    return OpDef(
        name, ("x",), _infer(name), reference, doc, dtypes=dtypes.FLOATS, attrs=(Attr("axis", "int", -1),),
        samples=_samples, tolerance=_TOLERANCE,
        errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"axis": 2}, "axis must be in"),
                        ErrorSample((np.zeros((2, 3), np.int32),), {}, "type must be one of")],
    )


softmax = _row("softmax", _softmax, "exp(x) over its sum along an axis; a row of -inf, or with NaN or +inf, is NaN.")
log_softmax = _row("log_softmax", _log_softmax, "Logarithm of softmax along an axis.")


def _infer_log_sum_exp(x: TensorType, axes: Axes, keepdims: bool) -> tuple[TensorType, ...]:
    require_dtype("reduce_log_sum_exp", x.dtype, dtypes.FLOATS)
    return (x.with_shape(reduced_shape(x, axes, keepdims, "reduce_log_sum_exp")),)


def _log_sum_exp(x: Array, axes: Axes, keepdims: bool) -> Array:
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    return np.asarray(total.reshape(np.sum(x, axis=axes, keepdims=keepdims).shape))


def _log_sum_exp_samples(dtype: DType, rng: Rng) -> list[Sample]:
    shapes: list[tuple[tuple[int, ...], Axes, bool]] = [
        ((5,), None, False), ((3, 33), (1,), True), ((3, 33), (0,), False), ((2, 3, 4), (0, 2), False),
        ((2, 3, 4), (), False), ((2, 0), (1,), False), ((), None, False), ((2, 3, 4, 5), (1, 2), True),
    ]
    found = [Sample((data(rng, dtype, *s, low=-20, high=20),), {"axes": a, "keepdims": k}) for s, a, k in shapes]
    return [*found, Sample((_special(dtype),), {"axes": (1,)}), Sample((_special(dtype).T.copy(),), {"axes": (0,)})]


reduce_log_sum_exp = OpDef(
    "reduce_log_sum_exp", ("x",), _infer_log_sum_exp, _log_sum_exp,
    "Logarithm of the sum of exponentials over axes, without overflow on the way.", dtypes=dtypes.FLOATS,
    attrs=(Attr("axes", "ints", None), Attr("keepdims", "bool", False)), samples=_log_sum_exp_samples,
    tolerance=_TOLERANCE,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"axes": (2,)}, "axis must be in")],
)
