"""Gathers, scatters and one-hot: values at places that indices name.

Indices are i32 or i64; a negative one counts from the end, any other index out of
range raises when the graph runs, before a byte is written.
"""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype, require_rank, same_dtype

MOVEMENT = frozenset({"movement"})
INDEX = (dtypes.i32, dtypes.i64)


def index_type(op: str, indices: TensorType) -> None:
    """Raise TypeRuleError unless the indices are i32 or i64."""
    require_dtype(op, indices.dtype, INDEX, "index")


def _indices(rng: Rng, n: int, *shape: int, wide: bool = True) -> Array:
    return np.asarray(rng.integers(-n, n, shape) if n else np.zeros(shape), np.int64 if wide else np.int32)


# -- gather --------------------------------------------------------------------


def _infer_gather(x: TensorType, indices: TensorType, axis: int) -> tuple[TensorType, ...]:
    index_type("gather", indices)
    axis = normal_axis(axis, x.rank, "gather")
    return (x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)


def _gather_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 7, 5), _indices(rng, 7, 4))),
        Sample((data(rng, dtype, 7, 5), _indices(rng, 5, 2, 3, wide=False)), {"axis": 1}),
        Sample((data(rng, dtype, 2, 3, 4), _indices(rng, 3, 33)), {"axis": -2}),
        Sample((data(rng, dtype, 6), np.array(-1))),
        Sample((data(rng, dtype, 6), np.zeros((0,), np.int32))),
        Sample((data(rng, dtype, 3, 0), _indices(rng, 3, 2))),
        Sample((data(rng, dtype, 1, 67), np.array([0, -1, 0]))),
    ]


gather = OpDef(
    "gather", ("x", "indices"), _infer_gather, lambda x, indices, axis: np.take(x, indices, axis),
    "The slices of x that indices name along an axis (an embedding for axis 0).", dtypes=dtypes.ALL,
    attrs=(Attr("axis", "int", 0),), traits=MOVEMENT, samples=_gather_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros(2, np.int64)), {"axis": 2}, "axis must be in"),
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros(2, np.float32)), {}, "index type"),
        ErrorSample((np.array(1.0), np.zeros(2, np.int64)), {}, "axis must be in"),
    ],
)


def _same_rank(op: str, x: TensorType, indices: TensorType, axis: int) -> int:
    index_type(op, indices)
    require_rank(op, x, 1)
    axis = normal_axis(axis, x.rank, op)
    if indices.rank != x.rank:
        raise TypeRuleError(f"{op}: indices must have rank {x.rank}, got {indices}")
    for i, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if i != axis and isinstance(n, int) and isinstance(d, int) and n > d:
            raise TypeRuleError(f"{op}: indices must not be longer than {x} on axis {i}, got {indices}")
    return axis


def _infer_gather_elements(x: TensorType, indices: TensorType, axis: int) -> tuple[TensorType, ...]:
    _same_rank("gather_elements", x, indices, axis)
    return (x.with_shape(indices.shape),)


def _gather_elements(x: Array, indices: Array, axis: int) -> Array:
    axis %= x.ndim
    part = x[tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(indices.shape))]
    return np.take_along_axis(part, indices.astype(np.int64), axis)


def _gather_elements_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 4, 5), _indices(rng, 4, 3, 5)), {"axis": 0}),
        Sample((data(rng, dtype, 4, 5), _indices(rng, 5, 4, 9, wide=False)), {"axis": -1}),
        Sample((data(rng, dtype, 3, 4, 5), _indices(rng, 4, 2, 6, 3)), {"axis": 1}),
        Sample((data(rng, dtype, 9), _indices(rng, 9, 40)), {"axis": 0}),
        Sample((data(rng, dtype, 4, 5), np.zeros((0, 5), np.int64)), {"axis": 0}),
    ]


def _elements_errors() -> list[ErrorSample]:
    x, i = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    return [ErrorSample((x, i[0]), {"axis": 0}, "rank"), ErrorSample((x, i), {"axis": 2}, "axis must be in"),
            ErrorSample((x, np.zeros((3, 3), np.int64)), {"axis": 1}, "be longer"),
            ErrorSample((x, x), {"axis": 1}, "index type")]


gather_elements = OpDef(
    "gather_elements", ("x", "indices"), _infer_gather_elements, _gather_elements,
    "For each index the element of x at the same place but for `axis`, where the index says.",
    dtypes=dtypes.ALL, attrs=(Attr("axis", "int", 0),), traits=MOVEMENT, samples=_gather_elements_samples,
    errors=_elements_errors, tolerance=EXACT,
)


def _infer_gather_nd(x: TensorType, indices: TensorType, batch_dims: int) -> tuple[TensorType, ...]:
    index_type("gather_nd", indices)
    require_rank("gather_nd", indices, 1, what="indices")
    k = indices.shape[-1]
    if not isinstance(k, int):
        raise TypeRuleError(f"gather_nd: the last size of the indices must be a number, got {indices}")
    if not 0 <= batch_dims < indices.rank or batch_dims + k > x.rank:
        raise TypeRuleError(f"gather_nd: {batch_dims} batch axes and {k} indexed ones must fit, got {x} and {indices}")
    if x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise TypeRuleError(f"gather_nd: the first {batch_dims} sizes must agree, got {x} and {indices}")
    return (x.with_shape((*indices.shape[:-1], *x.shape[batch_dims + k :])),)


def _gather_nd(x: Array, indices: Array, batch_dims: int) -> Array:
    k = indices.shape[-1]
    batch = indices.shape[:batch_dims]
    out = np.empty(indices.shape[:-1] + x.shape[batch_dims + k :], x.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        out[at] = x[at[: len(batch)] + tuple(int(i) for i in indices[at])]
    return out


def _gather_nd_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 3, 4, 5)
    return [
        Sample((x, _indices(rng, 3, 2, 3))),
        Sample((x, _indices(rng, 3, 7, 2, wide=False))),
        Sample((x, _indices(rng, 3, 2, 2, 1))),
        Sample((x, _indices(rng, 4, 3, 2)), {"batch_dims": 1}),
        Sample((x, _indices(rng, 4, 3, 6, 1, wide=False)), {"batch_dims": 1}),
        Sample((x, np.zeros((2, 0), np.int64))),
        Sample((x, np.zeros((0, 2), np.int64))),
        Sample((data(rng, dtype, 9), _indices(rng, 9, 1))),
    ]


gather_nd = OpDef(
    "gather_nd", ("x", "indices"), _infer_gather_nd, _gather_nd,
    "The slices of x at index tuples (the last axis of the indices), after batch axes that both share.",
    dtypes=dtypes.ALL, attrs=(Attr("batch_dims", "int", 0),), traits=MOVEMENT, samples=_gather_nd_samples,
    tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)), {}, "must fit"),
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros((3, 1), np.int64)), {"batch_dims": 1}, "must agree"),
    ],
)


# -- scatter -------------------------------------------------------------------

_REDUCTION = Attr("reduction", "str", "none", ("none", "add", "mul", "max", "min"))
_SCATTER = Tolerance(rtol={"f32": 1e-5, "f64": 1e-12}, atol={"f32": 1e-5, "f64": 1e-13, "f16": 1e-3, "bf16": 1e-2})


def _check_reduction(op: str, x: TensorType, updates: TensorType, reduction: str) -> None:
    same_dtype(op, [x, updates])
    if reduction != "none":
        require_dtype(op, x.dtype, dtypes.REALS)


def _combine(reduction: str, old: Any, new: Any) -> Any:
    functions: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    return new if reduction == "none" else functions[reduction](old, new)


def _infer_scatter_elements(x: TensorType, indices: TensorType, updates: TensorType, axis: int,
                            reduction: str) -> tuple[TensorType, ...]:
    _same_rank("scatter_elements", x, indices, axis)
    _check_reduction("scatter_elements", x, updates, reduction)
    if indices.shape != updates.shape:
        raise TypeRuleError("scatter_elements: updates must have the shape of the indices, "
                            f"got {updates} and {indices}")
    return (x,)


def _scatter_elements(x: Array, indices: Array, updates: Array, axis: int, reduction: str) -> Array:
    out = x.copy()
    for at in np.ndindex(*indices.shape):
        place = list(at)
        place[axis] = int(indices[at])
        out[tuple(place)] = _combine(reduction, out[tuple(place)], updates[at])
    return out


def _reductions(dtype: DType) -> tuple[str, ...]:
    return _REDUCTION.choices if dtype in dtypes.REALS else ("none",)


def _scatter_elements_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for i, reduction in enumerate(_reductions(dtype)):
        wide = i % 2 == 0
        found += [
            Sample((data(rng, dtype, 4, 5), _indices(rng, 4, 3, 5, wide=wide), data(rng, dtype, 3, 5)),
                   {"axis": 0, "reduction": reduction}),
            Sample((data(rng, dtype, 3, 4), _indices(rng, 4, 2, 9, wide=not wide), data(rng, dtype, 2, 9)),
                   {"axis": -1, "reduction": reduction}),
        ]
    return [
        *found,
        Sample((data(rng, dtype, 2, 3, 5), _indices(rng, 3, 2, 4, 5), data(rng, dtype, 2, 4, 5)), {"axis": 1}),
        Sample((data(rng, dtype, 5), np.array([1, 1, -4]), data(rng, dtype, 3)), {"axis": 0}),
        Sample((data(rng, dtype, 5), np.zeros(0, np.int64), data(rng, dtype, 0)), {"axis": 0}),
    ]


def _scatter_elements_errors() -> list[ErrorSample]:
    x, i = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    b = np.zeros((2, 3), np.bool_)
    return [ErrorSample((x, i, x[:1]), {"axis": 0}, "shape of the indices"),
            ErrorSample((x, i, x.astype(np.float64)), {"axis": 0}, "must match"),
            ErrorSample((x, i, x), {"axis": 0, "reduction": "sum"}, "one of"),
            ErrorSample((b, i, b), {"axis": 0, "reduction": "add"}, "type must be one of")]


scatter_elements = OpDef(
    "scatter_elements", ("x", "indices", "updates"), _infer_scatter_elements, _scatter_elements,
    "x with elements replaced by, or combined with, the updates, in index order: the inverse of gather_elements.",
    dtypes=dtypes.ALL, attrs=(Attr("axis", "int", 0), _REDUCTION), traits=MOVEMENT,
    samples=_scatter_elements_samples, errors=_scatter_elements_errors, tolerance=_SCATTER,
)


def _infer_scatter_nd(x: TensorType, indices: TensorType, updates: TensorType,
                      reduction: str) -> tuple[TensorType, ...]:
    index_type("scatter_nd", indices)
    require_rank("scatter_nd", indices, 1, what="indices")
    _check_reduction("scatter_nd", x, updates, reduction)
    k = indices.shape[-1]
    if not isinstance(k, int) or k > x.rank:
        raise TypeRuleError(f"scatter_nd: the last size of the indices must be at most {x.rank}, got {indices}")
    want = (*indices.shape[:-1], *x.shape[k:])
    if updates.shape != want:
        raise TypeRuleError(f"scatter_nd: updates must have the shape {list(want)}, got {updates}")
    return (x,)


def _scatter_nd(x: Array, indices: Array, updates: Array, reduction: str) -> Array:
    out = x.copy()
    for at in np.ndindex(*indices.shape[:-1]):
        place = tuple(int(i) for i in indices[at])
        out[place] = _combine(reduction, out[place], updates[at])
    return out


def _scatter_nd_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for i, reduction in enumerate(_reductions(dtype)):
        wide = i % 2 == 0
        attrs = {"reduction": reduction}
        found += [
            Sample((data(rng, dtype, 4, 5), _indices(rng, 4, 7, 2, wide=wide), data(rng, dtype, 7)), attrs),
            Sample((data(rng, dtype, 3, 4, 9), _indices(rng, 3, 2, 3, 1, wide=not wide),
                    data(rng, dtype, 2, 3, 4, 9)), attrs),
        ]
    return [
        *found,
        Sample((data(rng, dtype, 5), np.array([[1], [1], [-4]]), data(rng, dtype, 3))),
        Sample((data(rng, dtype, 5), np.zeros((0, 1), np.int64), data(rng, dtype, 0))),
        Sample((data(rng, dtype, 2, 3), np.zeros((2, 0), np.int64), data(rng, dtype, 2, 2, 3))),
    ]


scatter_nd = OpDef(
    "scatter_nd", ("x", "indices", "updates"), _infer_scatter_nd, _scatter_nd,
    "x with slices at index tuples replaced by, or combined with, the updates, in index order.",
    dtypes=dtypes.ALL, attrs=(_REDUCTION,), traits=MOVEMENT, samples=_scatter_nd_samples, tolerance=_SCATTER,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3)), np.zeros((2, 1), np.int64), np.zeros((2, 2))), {}, "the shape"),
        ErrorSample((np.zeros((2, 3)), np.zeros((2, 3), np.int64), np.zeros((2,))), {}, "at most 2"),
    ],
)


# -- one-hot -------------------------------------------------------------------


def _infer_one_hot(indices: TensorType, values: TensorType, depth: AnyDim, axis: int) -> tuple[TensorType, ...]:
    index_type("one_hot", indices)
    if values.shape != (2,):
        raise TypeRuleError(f"one_hot: values must be two elements, off and on, got {values}")
    if isinstance(depth, int) and depth < 0:
        raise TypeRuleError(f"one_hot: depth must be >= 0, got {depth}")
    axis = normal_axis(axis, indices.rank + 1, "one_hot")
    return (values.with_shape((*indices.shape[:axis], depth, *indices.shape[axis:])),)


def _one_hot(indices: Array, values: Array, depth: int, axis: int) -> Array:
    axis %= indices.ndim + 1
    wrapped = np.where(indices < 0, indices.astype(np.int64) + depth, indices)
    steps = np.arange(depth).reshape([depth if i == axis else 1 for i in range(indices.ndim + 1)])
    return np.asarray(np.where(np.expand_dims(wrapped, axis) == steps, values[1], values[0]))


def _one_hot_samples(dtype: DType, rng: Rng) -> list[Sample]:
    values = data(rng, dtype, 2)
    return [
        Sample((_indices(rng, 9, 5), values), {"depth": 6}),
        Sample((_indices(rng, 4, 2, 3, wide=False), values), {"depth": 4, "axis": 0}),
        Sample((_indices(rng, 4, 2, 3), values), {"depth": 33, "axis": 1}),
        Sample((np.array([2**40, -(2**62), 1]), values), {"depth": 3}),
        Sample((np.array(1), values), {"depth": 3}),
        Sample((np.zeros(0, np.int64), values), {"depth": 3}),
        Sample((_indices(rng, 3, 2), values), {"depth": 0}),
    ]


one_hot = OpDef(
    "one_hot", ("indices", "values"), _infer_one_hot, _one_hot,
    "values[1] where the new axis meets the index, values[0] elsewhere; an index out of range is met nowhere.",
    dtypes=dtypes.ALL, attrs=(Attr("depth", "int"), Attr("axis", "int", -1)), traits=MOVEMENT,
    samples=_one_hot_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros(3, np.int64), np.zeros(3, np.float32)), {"depth": 3}, "two elements"),
        ErrorSample((np.zeros(3, np.int64), np.zeros(2, np.float32)), {"depth": -1}, ">= 0"),
    ],
)


# -- search --------------------------------------------------------------------

_SEARCH = (dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i64, dtypes.i32)


def _infer_search_sorted(sorted: TensorType, values: TensorType, right: bool) -> tuple[TensorType, ...]:
    require_dtype("search_sorted", same_dtype("search_sorted", [sorted, values]), _SEARCH)
    require_rank("search_sorted", sorted, 1, what="sorted")
    if sorted.rank > 1 and sorted.shape[:-1] != values.shape[:-1]:
        raise TypeRuleError(f"search_sorted: leading sizes must agree, got {sorted} and {values}")
    return (TensorType(dtypes.i64, values.shape),)


def _search_sorted(sorted: Array, values: Array, right: bool) -> Array:
    side: Any = "right" if right else "left"
    if sorted.ndim == 1:
        return np.asarray(np.searchsorted(sorted, values, side))
    rows = zip(sorted.reshape(-1, sorted.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    return np.array([np.searchsorted(a, v, side) for a, v in rows], np.int64).reshape(values.shape)


def _search_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for right in (False, True):
        found += [
            Sample((np.sort(data(rng, dtype, 17)), data(rng, dtype, 2, 9)), {"right": right}),
            Sample((np.sort(data(rng, dtype, 3, 8), -1), data(rng, dtype, 3, 4)), {"right": right}),
            Sample((data(rng, dtype, 0), data(rng, dtype, 3)), {"right": right}),
            Sample((np.sort(data(rng, dtype, 5)), data(rng, dtype)), {"right": right}),
        ]
    return found


search_sorted = OpDef(
    "search_sorted", ("sorted", "values"), _infer_search_sorted, _search_sorted,
    "How many elements of a sorted row are less than each value (or not greater, for `right`).",
    dtypes=_SEARCH, attrs=(Attr("right", "bool", False),), samples=_search_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)), {}, "leading sizes"),
        ErrorSample((np.zeros(3, np.float32), np.zeros(3)), {}, "must match"),
    ],
)
