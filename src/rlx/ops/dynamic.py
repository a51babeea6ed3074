"""Ops whose result sizes depend on data, and the static ops that run them.

A dynamic row names its unknown sizes `unbacked...`; its twin `<name>_bounded` gives
the same results at their largest size and, last, `counts`: how much of them is real.
"""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, Dim
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import REAL_AND_BOOL, Rng, data, require_dtype

DYNAMIC = frozenset({"dynamic", "movement"})
MOVEMENT = frozenset({"movement"})
_COUNTS = TensorType(dtypes.i64, (1,))


def _unbacked() -> Dim:
    return Dim.symbol("unbacked0")


def _padded(x: Array, shape: tuple[int, ...]) -> Array:
    """x in the corner of a zero array."""
    out = np.zeros(shape, x.dtype)
    out[tuple(slice(0, n) for n in x.shape)] = x
    return out


# -- nonzero -------------------------------------------------------------------


def _nonzero_type(x: TensorType, n: AnyDim) -> TensorType:
    require_dtype("nonzero", x.dtype, REAL_AND_BOOL)
    return TensorType(dtypes.i64, (x.rank, n))


def _nonzero(x: Array) -> Array:
    return np.stack(np.nonzero(x)) if x.ndim else np.zeros((0, int(x != 0)), np.int64)


def _nonzero_bounded(x: Array) -> tuple[Array, Array]:
    found = _nonzero(x)
    return _padded(found, (x.ndim, x.size)), np.array([found.shape[1]])


def _nonzero_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = [Sample((data(rng, dtype, *s),)) for s in ((9,), (3, 4), (2, 3, 5), (0, 3), ())]
    if dtype.is_float:
        found.append(Sample((np.array([np.nan, -0.0, np.inf, 0.0]).astype(dtype.numpy),)))
    return found


nonzero = OpDef(
    "nonzero", ("x",), lambda x: (_nonzero_type(x, _unbacked()),), _nonzero,
    "Places of the elements that are not zero, one column each, in row-major order.", dtypes=REAL_AND_BOOL,
    traits=DYNAMIC, samples=_nonzero_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros(2, np.complex64),), {}, "type must be one of")],
)
nonzero_bounded = OpDef(
    "nonzero_bounded", ("x",), lambda x: (_nonzero_type(x, x.size), _COUNTS), _nonzero_bounded,
    "nonzero at its largest size, and the number of columns.", dtypes=REAL_AND_BOOL, traits=MOVEMENT,
    samples=_nonzero_samples, tolerance=EXACT, internal=True,
)


# -- compress ------------------------------------------------------------------


def _compress_type(x: TensorType, condition: TensorType, axis: int | None, n: AnyDim) -> TensorType:
    if condition.dtype != dtypes.bool_ or condition.rank != 1:
        raise TypeRuleError(f"compress: condition must be bool of rank 1, got {condition}")
    shape: tuple[AnyDim, ...]
    if axis is None:
        size, shape = x.size, (n,)
    else:
        axis = normal_axis(axis, x.rank, "compress")
        size, shape = x.shape[axis], (*x.shape[:axis], n, *x.shape[axis + 1 :])
    m = condition.shape[0]
    if isinstance(size, int) and isinstance(m, int) and m > size:
        raise TypeRuleError(f"compress: condition must have at most {size} elements, got {condition}")
    return x.with_shape(shape)


def _compress(x: Array, condition: Array, axis: int | None) -> Array:
    if axis is None:
        x, axis = x.reshape(-1), 0
    kept = np.flatnonzero(condition)
    return np.take(x, kept, axis)


def _compress_bounded(x: Array, condition: Array, axis: int | None) -> tuple[Array, Array]:
    found = _compress(x, condition, axis)
    axis = 0 if axis is None else axis % x.ndim
    shape = tuple(condition.size if i == axis else n for i, n in enumerate(found.shape))
    return _padded(found, shape), np.array([found.shape[axis]])


def _compress_samples(dtype: DType, rng: Rng) -> list[Sample]:
    on = np.array([True, False, True, True])
    return [
        Sample((data(rng, dtype, 4), on), {"axis": 0}),
        Sample((data(rng, dtype, 3, 5), on), {"axis": 1}),
        Sample((data(rng, dtype, 4, 3), on), {"axis": -2}),
        Sample((data(rng, dtype, 2, 3), on)),
        Sample((data(rng, dtype, 2, 3), np.zeros(2, np.bool_)), {"axis": 0}),
        Sample((data(rng, dtype, 0, 3), np.zeros(0, np.bool_)), {"axis": 0}),
    ]


compress = OpDef(
    "compress", ("x", "condition"), lambda x, condition, axis: (_compress_type(x, condition, axis, _unbacked()),),
    _compress, "The slices of x along an axis (None: the elements in flat order) for which the condition holds.",
    dtypes=dtypes.ALL, attrs=(Attr("axis", "int", None),), traits=DYNAMIC, samples=_compress_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros(2, np.float32), np.zeros(3, np.bool_)), {"axis": 0}, "at most 2"),
        ErrorSample((np.zeros(2, np.float32), np.zeros(2, np.float32)), {"axis": 0}, "must be bool"),
    ],
)
compress_bounded = OpDef(
    "compress_bounded", ("x", "condition"),
    lambda x, condition, axis: (_compress_type(x, condition, axis, condition.shape[0]), _COUNTS),
    _compress_bounded, "compress at its largest size, and the number of slices.", dtypes=dtypes.ALL,
    attrs=(Attr("axis", "int", None),), traits=MOVEMENT, samples=_compress_samples, tolerance=EXACT, internal=True,
)


# -- unique --------------------------------------------------------------------


def _unique_types(x: TensorType, axis: int | None, n: AnyDim) -> tuple[TensorType, ...]:
    require_dtype("unique", x.dtype, dtypes.REALS)
    places = TensorType(dtypes.i64, (n,))
    if axis is None:
        return (x.with_shape((n,)), places, TensorType(dtypes.i64, (x.size,)), places)
    axis = normal_axis(axis, x.rank, "unique")
    values = x.with_shape((*x.shape[:axis], n, *x.shape[axis + 1 :]))
    return (values, places, TensorType(dtypes.i64, (x.shape[axis],)), places)


def _slices(x: TensorType, axis: int | None) -> AnyDim:
    """How many slices unique has at most."""
    return x.size if axis is None else x.shape[normal_axis(axis, x.rank, "unique")]


def _unique(x: Array, axis: int | None, sorted: bool) -> tuple[Array, Array, Array, Array]:
    n = x.size if axis is None else x.shape[axis]
    rows = (x if axis is None else np.moveaxis(x, axis, 0)).reshape(n, x.size // max(n, 1))
    keys = [tuple((bool(v != v), 0 if v != v else v) for v in row.tolist()) for row in rows]
    found: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    groups = list(found)
    if sorted:
        groups.sort()
    first = np.array([found[g][0] for g in groups], np.int64)
    counts = np.array([len(found[g]) for g in groups], np.int64)
    place = {g: i for i, g in enumerate(groups)}
    inverse = np.array([place[k] for k in keys], np.int64)
    return np.take(x.reshape(-1) if axis is None else x, first, axis or 0), first, inverse, counts


def _unique_bounded(x: Array, axis: int | None, sorted: bool) -> tuple[Array, ...]:
    values, first, inverse, counts = _unique(x, axis, sorted)
    shape = list(values.shape)
    shape[axis or 0] = inverse.size
    n = (inverse.size,)
    return _padded(values, tuple(shape)), _padded(first, n), inverse, _padded(counts, n), np.array([first.size])


def _unique_samples(dtype: DType, rng: Rng) -> list[Sample]:
    shapes: list[tuple[int, ...]] = [(9,), (3, 14), (0,), (1,), (70,)]
    found = [Sample((data(rng, dtype, *s),), {"sorted": o}) for s in shapes for o in (True, False)]
    found.append(Sample((data(rng, dtype, 700, low=-100, high=100),), {}))
    for axis, shape in ((0, (9, 2)), (1, (2, 17, 1)), (-1, (1, 2, 30)), (0, (1, 3)), (1, (3, 0))):
        x = data(rng, dtype, *shape, low=0, high=1)
        found += [Sample((np.rint(x).astype(dtype.numpy),), {"axis": axis, "sorted": o}) for o in (True, False)]
    if dtype.is_float:
        special = np.array([np.nan, 1.0, np.inf, np.nan, 0.0, -np.inf, 1.0]).astype(dtype.numpy)
        found += [Sample((special,), {"sorted": o}) for o in (True, False)]
        rows = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, 1.0], [2.0, -np.inf]]).astype(dtype.numpy)
        found += [Sample((rows,), {"axis": 0, "sorted": o}) for o in (True, False)]
    return found


_UNIQUE_ATTRS = (Attr("axis", "int", None), Attr("sorted", "bool", True))

unique = OpDef(
    "unique", ("x",), lambda x, axis, sorted: _unique_types(x, axis, _unbacked()), _unique,
    "Distinct slices of x along an axis (None: its elements in flat order), ascending or (sorted=False) as they come: "
    "the values, where each stands first, which value every slice is, and how often each occurs. NaNs are one value.",
    dtypes=dtypes.REALS, attrs=_UNIQUE_ATTRS, traits=frozenset({"dynamic"}), samples=_unique_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros(2, np.complex64),), {}, "type must be one of"),
                    ErrorSample((np.zeros(2, np.float32),), {"axis": 1}, "axis must be in")],
)
unique_bounded = OpDef(
    "unique_bounded", ("x",), lambda x, axis, sorted: (*_unique_types(x, axis, _slices(x, axis)), _COUNTS),
    _unique_bounded, "unique at its largest size, and the number of values.", dtypes=dtypes.REALS,
    attrs=_UNIQUE_ATTRS, samples=_unique_samples, tolerance=EXACT, internal=True,
)
