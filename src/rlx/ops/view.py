"""Ops that only move or relabel values: reshape, transpose, expand, slice, concat ..."""

import builtins
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, Dim, product
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, broadcast, normal_axes, normal_axis
from rlx.ops._rules import Rng, data

MOVEMENT = frozenset({"movement"})
VIEW = frozenset({"movement", "view"})


def _infer_reshape(x: TensorType, shape: tuple[AnyDim, ...]) -> tuple[TensorType, ...]:
    unknown = [i for i, d in enumerate(shape) if isinstance(d, int) and d == -1]
    if len(unknown) > 1 or any(isinstance(d, int) and d < -1 for d in shape):
        raise TypeRuleError(f"reshape: at most one size may be -1, got {list(shape)}")
    total = x.size
    if unknown:
        rest = product(d for i, d in enumerate(shape) if i != unknown[0])
        if isinstance(rest, int) and rest == 0:
            raise TypeRuleError(f"reshape: -1 cannot be told beside a size of 0, got {list(shape)}")
        found = total // rest
        if isinstance(total, int) and isinstance(rest, int) and total % rest:
            raise TypeRuleError(f"reshape: {total} elements must fit {list(shape)}, got {x}")
        shape = (*shape[: unknown[0]], found, *shape[unknown[0] + 1 :])
    else:
        want = product(shape)
        known = isinstance(total, int) and isinstance(want, int)
        if known and total != want:
            raise TypeRuleError(f"reshape: element count must stay {total}, got {list(shape)} for {x}")
    return (x.with_shape(shape),)


def _reshape_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 2, 6),), {"shape": (3, 4)}),
        Sample((data(rng, dtype, 2, 6),), {"shape": (-1,)}),
        Sample((data(rng, dtype, 1),), {"shape": ()}),
        Sample((data(rng, dtype, 0, 3),), {"shape": (3, 0)}),
    ]


reshape = OpDef(
    "reshape", ("x",), _infer_reshape, lambda x, shape: x.reshape(shape),
    "The same elements in another shape; one size may be -1.", dtypes=dtypes.ALL,
    attrs=(Attr("shape", "dims"),), traits=VIEW, samples=_reshape_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"shape": (4, 2)}, "element count"),
                    ErrorSample((np.zeros((2, 3), np.float32),), {"shape": (-1, -1)}, "at most one")],
)


hold = OpDef(
    "hold", ("x",), lambda x: (x,), lambda x: x,
    "x itself, without a copy. What is computed from it is left to the run, also if x is constant: a constant made for "
    "one size would not serve another.",
    dtypes=dtypes.ALL, traits=frozenset({"held"}), samples=lambda dtype, rng: [Sample((data(rng, dtype, 3, 5),))],
    tolerance=EXACT, errors=list,
)


def _infer_transpose(x: TensorType, perm: tuple[int, ...]) -> tuple[TensorType, ...]:
    if sorted(perm) != list(range(x.rank)):
        raise TypeRuleError(f"transpose: perm must be a permutation of 0..{x.rank - 1}, got {perm}")
    return (x.with_shape([x.shape[p] for p in perm]),)


def _transpose_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 3, 5),), {"perm": (1, 0)}),
        Sample((data(rng, dtype, 2, 3, 4),), {"perm": (0, 2, 1)}),
        Sample((data(rng, dtype, 2, 3, 4),), {"perm": (2, 0, 1)}),
        Sample((data(rng, dtype, 33, 17),), {"perm": (1, 0)}),
        Sample((data(rng, dtype, 2, 3, 4, 5),), {"perm": (0, 3, 1, 2)}),
        Sample((data(rng, dtype, 0, 4),), {"perm": (1, 0)}),
        Sample((data(rng, dtype),), {"perm": ()}),
    ]


transpose = OpDef(
    "transpose", ("x",), _infer_transpose, lambda x, perm: np.transpose(x, perm),
    "Axes in another order: result axis i is axis perm[i] of x.", dtypes=dtypes.ALL,
    attrs=(Attr("perm", "ints"),), traits=MOVEMENT, samples=_transpose_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"perm": (0, 0)}, "permutation")],
)


def _infer_expand(x: TensorType, shape: tuple[AnyDim, ...]) -> tuple[TensorType, ...]:
    result = broadcast([x.shape, shape], "expand")
    if result != tuple(shape):
        raise TypeRuleError(f"expand: {x} must broadcast to {list(shape)}, got {list(result)}")
    return (x.with_shape(shape),)


def _expand_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 3, 1),), {"shape": (3, 4)}),
        Sample((data(rng, dtype),), {"shape": (5,)}),
        Sample((data(rng, dtype, 2, 1, 3),), {"shape": (4, 2, 5, 3)}),
        Sample((data(rng, dtype, 1),), {"shape": (0,)}),
    ]


expand = OpDef(
    "expand", ("x",), _infer_expand, lambda x, shape: np.broadcast_to(x, shape),
    "x broadcast to a shape, by NumPy's rules.", dtypes=dtypes.ALL, attrs=(Attr("shape", "dims"),),
    traits=MOVEMENT, samples=_expand_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"shape": (2, 4)}, "broadcast")],
)


def bounds(d: int, start: int, stop: int | None, step: int) -> tuple[int, int]:
    """First index and number of items of d[start:stop:step], as `slice.indices` gives them, also for traced sizes."""
    low, high = (0, d) if step > 0 else (-1, d - 1)

    def clamp(i: int) -> int:
        i = i + d if i < 0 else i
        return low if i < low else high if i > high else i

    first = clamp(start)
    last = (high if step > 0 else low) if stop is None else clamp(stop)
    span = last - first if step > 0 else first - last
    return first, max(0, -(-span // abs(step)))


def _slice_size(d: AnyDim, start: int, stop: int | None, step: int) -> tuple[AnyDim, int]:
    """(size, first index) of d[start:stop:step]."""
    if isinstance(d, int):
        first, count = bounds(d, start, stop, step)
        return count, first
    if step == 1 and start >= 0 and stop is None:
        return d - start, start
    if step == 1 and start >= 0 and stop is not None and stop < 0:
        return d + stop - start, start
    if step == -1 and start == -1 and stop is None:
        return d, -1
    if step == 1 and start < 0 and stop is None:
        return -start, start
    if step == 1 and 0 <= start <= (stop or 0):
        return (stop or 0) - start, start
    raise TypeRuleError(f"slice: cannot tell the size of [{start}:{stop}:{step}] of a size {d}")


def normal_stop(stop: int, step: int) -> int | None:
    """Python's stop for an ONNX-like one: far values mean 'to the end'."""
    if step > 0:
        return None if stop >= 2**31 - 1 else stop
    return None if stop <= -(2**31) + 1 else stop


def _infer_slice(x: TensorType, starts: tuple[int, ...], stops: tuple[int, ...], axes: tuple[int, ...] | None,
                 steps: tuple[int, ...] | None) -> tuple[TensorType, ...]:
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(stops) == len(axes) == len(steps):
        raise TypeRuleError(f"slice: starts, stops, axes and steps must have one length, got "
                            f"{len(starts)}, {len(stops)}, {len(axes)}, {len(steps)}")
    if 0 in steps:
        raise TypeRuleError("slice: steps must not be 0, got 0")
    normal = [normal_axis(a, x.rank, "slice") for a in axes]
    if len(set(normal)) != len(normal):
        raise TypeRuleError(f"slice: axes must differ, got {axes}")
    shape = list(x.shape)
    for axis, start, stop, step in zip(normal, starts, stops, steps, strict=True):
        shape[axis] = _slice_size(shape[axis], start, normal_stop(stop, step), step)[0]
    return (x.with_shape(shape),)


def _slice(x: Array, starts: tuple[int, ...], stops: tuple[int, ...], axes: tuple[int, ...] | None,
           steps: tuple[int, ...] | None) -> Array:
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    index: list[builtins.slice] = [builtins.slice(None)] * x.ndim
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        index[axis] = builtins.slice(start, normal_stop(stop, step), step)
    return x[tuple(index)]


def _slice_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 5, 7)
    return [
        Sample((x,), {"starts": (1,), "stops": (4,)}),
        Sample((x,), {"starts": (1, 6), "stops": (5, 0), "steps": (2, -2)}),
        Sample((x,), {"starts": (-1,), "stops": (-(2**31),), "axes": (1,), "steps": (-1,)}),
        Sample((x,), {"starts": (3,), "stops": (3,), "axes": (-1,)}),
        Sample((x,), {"starts": (-100,), "stops": (100,), "axes": (0,)}),
        Sample((data(rng, dtype, 2, 3, 4),), {"starts": (0, 1), "stops": (2, 3), "axes": (0, 2)}),
    ]


slice = OpDef(
    "slice", ("x",), _infer_slice, _slice,
    "x[start:stop:step] on some axes, with Python's rules for negative and far indices.",
    dtypes=dtypes.ALL,
    attrs=(Attr("starts", "ints"), Attr("stops", "ints"), Attr("axes", "ints", None), Attr("steps", "ints", None)),
    traits=MOVEMENT, samples=_slice_samples, tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32),), {"starts": (0,), "stops": (1,), "steps": (0,)}, "steps"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"starts": (0,), "stops": (1,), "axes": (2,)}, "axis"),
    ],
)


def _infer_concat(*types: TensorType, axis: int) -> tuple[TensorType, ...]:
    if not types:
        raise TypeRuleError("concat: number of operands must be at least 1, got 0")
    first = types[0]
    axis = normal_axis(axis, first.rank, "concat")
    total: AnyDim = 0
    for t in types:
        if t.dtype != first.dtype:
            raise TypeRuleError(f"concat: operand types must match, got {first.dtype} and {t.dtype}")
        same = t.rank == first.rank and all(
            i == axis or a == b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=True))
        )
        if not same:
            raise TypeRuleError(f"concat: sizes must agree except on axis {axis}, got {first} and {t}")
        total = total + t.shape[axis]
    return (first.with_shape([*first.shape[:axis], total, *first.shape[axis + 1 :]]),)


def _concat_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 2, 3), data(rng, dtype, 4, 3)), {"axis": 0}),
        Sample((data(rng, dtype, 2, 3), data(rng, dtype, 2, 1), data(rng, dtype, 2, 0)), {"axis": -1}),
        Sample((data(rng, dtype, 2, 3, 2), data(rng, dtype, 2, 5, 2)), {"axis": 1}),
        Sample((data(rng, dtype, 3),), {"axis": 0}),
    ]


concat = OpDef(
    "concat",
    ("xs*",),
    _infer_concat,
    lambda *xs, axis: np.concatenate(xs, axis),
    "Operands one after another along an axis.",
    dtypes=dtypes.ALL,
    attrs=(Attr("axis", "int"),),
    traits=MOVEMENT,
    samples=_concat_samples,
    tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)), {"axis": 1}, "sizes must agree")
    ],
)


def squeeze(x: Any, axes: Any = None) -> Any:
    """x without the given axes of size 1 (all of them for None)."""
    chosen = normal_axes(axes, x.rank, "squeeze") if axes is not None else tuple(
        i for i, d in enumerate(x.shape) if not isinstance(d, Dim) and d == 1
    )
    for axis in chosen:
        if x.shape[axis] != 1:
            raise TypeRuleError(f"squeeze: axis {axis} must have size 1, got {x.type}")
    return reshape(x, shape=tuple(d for i, d in enumerate(x.shape) if i not in chosen))


def unsqueeze(x: Any, axes: Any) -> Any:
    """x with new axes of size 1 where the result has them."""
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    chosen = normal_axes(axes, x.rank + len(axes), "unsqueeze")
    rest = iter(x.shape)
    return reshape(x, shape=tuple(1 if i in chosen else next(rest) for i in range(x.rank + len(axes))))
