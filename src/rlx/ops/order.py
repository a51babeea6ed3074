"""Places of extrema, sorting and the k largest. NaN is larger than every number; ties go to the lower index."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype

REALS = dtypes.REALS


def _special(dtype: DType) -> Array:
    nan, inf = np.nan, np.inf
    rows = [[1.0, nan, nan, -inf, inf], [0.0, -0.0, 0.0, -0.0, -1.0], [inf, -inf, inf, -inf, 2.0], [nan] * 5]
    return np.array(rows).astype(dtype.numpy)


def _bounds(dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    return np.array([[info.max, info.min, info.max, 0, info.min]], dtype.numpy)


def _shaped(attrs: Callable[[int], list[dict[str, Any]]]) -> Callable[[DType, Rng], list[Sample]]:
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((7,), 0), ((3, 33), -1), ((3, 33), 0), ((2, 5, 7), 1), ((4, 1), 1), ((1, 300), 1), ((2, 6, 18), -2),
        ((70, 3), 0),
    ]

    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = []
        for i, (shape, axis) in enumerate(shapes):
            choices = attrs(shape[axis])
            found.append(Sample((data(rng, dtype, *shape),), {**choices[i % len(choices)], "axis": axis}))
        hard = _special(dtype) if dtype.is_float else _bounds(dtype)
        return [*found, *(Sample((hard,), {**c, "axis": 1}) for c in attrs(5))]

    return make


# -- argmax --------------------------------------------------------------------


def _infer_arg(op: str) -> Any:
    def rule(x: TensorType, axis: int, keepdims: bool, select_last: bool) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, REALS)
        axis = normal_axis(axis, x.rank, op)
        if x.shape[axis] == 0:
            raise TypeRuleError(f"{op}: the axis must not be empty, got {x}")
        middle: tuple[AnyDim, ...] = (1,) if keepdims else ()
        return (TensorType(dtypes.i64, (*x.shape[:axis], *middle, *x.shape[axis + 1 :])),)

    return rule


def _arg(function: Any) -> Callable[..., Array]:
    def reference(x: Array, axis: int, keepdims: bool, select_last: bool) -> Array:
        if not select_last:
            return np.asarray(function(x, axis, keepdims=keepdims))
        return np.asarray(x.shape[axis] - 1 - function(np.flip(x, axis), axis, keepdims=keepdims))

    return reference


def _arg_row(name: str, function: Any, what: str) -> OpDef:
    return OpDef(
        name, ("x",), _infer_arg(name), _arg(function),
        f"Place of the {what} element along an axis: the first of equal ones, or the last; NaN wins.",
        dtypes=REALS,
        attrs=(Attr("axis", "int", 0), Attr("keepdims", "bool", False), Attr("select_last", "bool", False)),
        samples=_shaped(lambda n: [{}, {"keepdims": True}, {"select_last": True}]), tolerance=EXACT,
        errors=lambda: [ErrorSample((np.zeros((2, 0), np.float32),), {"axis": 1}, "must not be empty"),
                        ErrorSample((np.zeros((2, 3), np.float32),), {"axis": 2}, "axis must be in")],
    )


argmax = _arg_row("argmax", np.argmax, "largest")
argmin = _arg_row("argmin", np.argmin, "smallest")


# -- sort and top k ------------------------------------------------------------


def _sort_indices(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.asarray(np.argsort(x, axis, kind="stable"))
    n = x.shape[axis]
    return np.asarray(n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis))


def _infer_sort(op: str) -> Any:
    def rule(x: TensorType, axis: int, descending: bool) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, REALS)
        normal_axis(axis, x.rank, op)
        return (x if op == "sort" else x.with_dtype(dtypes.i64),)

    return rule


def _argsort(x: Array, axis: int, descending: bool) -> Array:
    return _sort_indices(x, axis, descending)


def _sort(x: Array, axis: int, descending: bool) -> Array:
    return np.take_along_axis(x, _sort_indices(x, axis, descending), axis)


def _axis_errors() -> list[ErrorSample]:
    return [ErrorSample((np.zeros((2, 3), np.float32),), {"axis": 2}, "axis must be in"),
            ErrorSample((np.zeros((2, 3), np.complex64),), {"axis": 0}, "type must be one of")]


def _sort_row(name: str, reference: Callable[..., Array], doc: str) -> OpDef:
    return OpDef(name, ("x",), _infer_sort(name), reference, doc, dtypes=REALS,
                 attrs=(Attr("axis", "int", -1), Attr("descending", "bool", False)), errors=_axis_errors,
                 samples=_shaped(lambda n: [{}, {"descending": True}]), tolerance=EXACT)


sort = _sort_row("sort", _sort, "Elements in order along an axis; stable; NaN counts as the largest.")
argsort = _sort_row("argsort", _argsort, "Places of the elements in order along an axis; stable; NaN is the largest.")


def _infer_topk(x: TensorType, k: int, axis: int, largest: bool, sorted: bool) -> tuple[TensorType, ...]:
    require_dtype("topk", x.dtype, REALS)
    axis = normal_axis(axis, x.rank, "topk")
    n = x.shape[axis]
    if k < 0 or (isinstance(n, int) and k > n):
        raise TypeRuleError(f"topk: k must be in [0, {n}], got {k}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return (x.with_shape(shape), TensorType(dtypes.i64, shape))


def _topk(x: Array, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    places = np.take(_sort_indices(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


def _topk_attrs(n: int) -> list[dict[str, Any]]:
    return [{"k": n, "largest": True}, {"k": min(n, 3), "largest": False}, {"k": 1}, {"k": 0},
            {"k": min(n, 2), "sorted": False}, {"k": min(n, 4), "largest": False}]


topk = OpDef(
    "topk", ("x",), _infer_topk, _topk,
    "The k largest (or smallest) elements along an axis and their places, in order; NaN counts as the largest, "
    "ties go to the lower index. `sorted=False` permits any order; they come sorted all the same.",
    dtypes=REALS, samples=_shaped(_topk_attrs), tolerance=EXACT,
    attrs=(Attr("k", "int"), Attr("axis", "int", -1), Attr("largest", "bool", True), Attr("sorted", "bool", True)),
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"k": 4}, "k must be in"),
                    ErrorSample((np.zeros((2, 3), np.float32),), {"k": -1}, "k must be in")],
)
