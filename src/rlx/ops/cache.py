"""Caches: memory of fixed size, of which a part along one axis is valid and grows."""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_rank, same_dtype


def _infer(cache: TensorType, rows: TensorType, length: TensorType, *, axis: int) -> tuple[TensorType, ...]:
    op = "cache_append"
    require_rank(op, cache, 1)
    same_dtype(op, [cache, rows])
    axis = normal_axis(axis, cache.rank, op)
    if rows.rank != cache.rank or any(
        a != b for i, (a, b) in enumerate(zip(cache.shape, rows.shape, strict=True)) if i != axis
    ):
        raise TypeRuleError(f"{op}: rows must have the shape of the cache but for axis {axis}, got {rows} and {cache}")
    room, more = cache.shape[axis], rows.shape[axis]
    if isinstance(room, int) and isinstance(more, int) and more > room:
        raise TypeRuleError(f"{op}: at most {room} rows must be appended, got {more}")
    one = length.shape in ((), (1,))
    if length.dtype != dtypes.i64 or not (one or (axis > 0 and length.shape == cache.shape[:1])):
        raise TypeRuleError(f"{op}: length must be one i64 or one per item of axis 0, got {length}")
    return (cache, length)


def _append(cache: Array, rows: Array, length: Array, *, axis: int) -> tuple[Array, Array]:
    axis %= cache.ndim
    more, room = rows.shape[axis], cache.shape[axis]
    starts = length.reshape(-1)
    if (starts < 0).any() or (starts + more > room).any():
        raise IndexError(f"cache_append: length and new rows must fit the capacity {room}, got {starts} and {more}")
    y: Any = cache.copy()
    if starts.size == 1:
        y[(slice(None),) * axis + (slice(starts[0], starts[0] + more),)] = rows
    else:
        for item, start in enumerate(starts):
            y[(item, *(slice(None),) * (axis - 1), slice(start, start + more))] = rows[item]
    return y, np.asarray(length + more)


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    cache = data(rng, dtype, 2, 3, 7, 5)
    return [
        Sample((cache, data(rng, dtype, 2, 3, 2, 5), np.array(4)), {"axis": 2}),
        Sample((cache, data(rng, dtype, 2, 3, 1, 5), np.array([6, 0])), {"axis": -2}),
        Sample((cache, data(rng, dtype, 2, 3, 7, 3), np.array([2, 1])), {"axis": 3}),
        Sample((data(rng, dtype, 9), data(rng, dtype, 9), np.array([0])), {"axis": 0}),
        Sample((data(rng, dtype, 4, 1), data(rng, dtype, 0, 1), np.array(4)), {"axis": 0}),
        Sample((data(rng, dtype, 0, 3), data(rng, dtype, 0, 1), np.array([], np.int64)), {"axis": 1}),
    ]


cache_append = OpDef(
    "cache_append", ("cache", "rows", "length"), _infer, _append,
    "The cache with rows from `length` on along an axis replaced, the rest as it was, and the new length. length: one "
    "i64, or one per item of axis 0. Rows that do not fit raise. Linked to the handle of the cache, the cache is "
    "written in place.",
    dtypes=dtypes.ALL, attrs=(Attr("axis", "int"),), samples=_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 4)), np.zeros((2, 5)), np.array(0)), {"axis": 1}, "at most 4 rows"),
        ErrorSample((np.zeros((2, 4)), np.zeros((3, 1)), np.array(0)), {"axis": 1}, "shape of the cache"),
        ErrorSample((np.zeros((2, 4)), np.zeros((1, 4)), np.array([0, 0])), {"axis": 0}, "length must"),
        ErrorSample((np.zeros((2, 4)), np.zeros((2, 1)), np.array(0, np.int32)), {"axis": 1}, "length must"),
        ErrorSample((np.zeros((2, 4)), np.zeros((2, 1), np.float32), np.array(0)), {"axis": 1}, "types must match"),
    ],
)
