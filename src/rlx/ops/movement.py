"""Pad, tile, flip, roll, triangles, blocks to space; sequences, identity; split and stack."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, Dim, ceil_div
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.operators import Operators
from rlx.ir.types import TensorType, normal_axes, normal_axis
from rlx.ops import view
from rlx.ops._rules import Rng, data, require_rank

MOVEMENT = frozenset({"movement"})


# -- pad -----------------------------------------------------------------------


def _infer_pad(
    x: TensorType, before: tuple[int, ...], after: tuple[int, ...], mode: str, value: Any
) -> tuple[TensorType, ...]:
    if len(before) != x.rank or len(after) != x.rank:
        raise TypeRuleError(f"pad: before and after must have {x.rank} entries, got {len(before)} and {len(after)}")
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise TypeRuleError(f"pad: value must be a number, got {value!r}")
    shape = []
    for d, b, a in zip(x.shape, before, after, strict=True):
        size = d + b + a
        kept = d + min(b, 0) + min(a, 0)
        if isinstance(kept, int) and kept < 0:
            raise TypeRuleError(f"pad: negative pads must not remove more than {d} elements, got ({b}, {a})")
        if mode != "constant" and isinstance(kept, int) and kept == 0 and size != 0:
            raise TypeRuleError(f"pad: an empty axis must be padded in mode 'constant', got {mode!r}")
        shape.append(size)
    return (x.with_shape(shape),)


def _pad(x: Array, before: tuple[int, ...], after: tuple[int, ...], mode: str, value: Any) -> Array:
    cut = tuple(slice(max(-b, 0), d - max(-a, 0)) for d, b, a in zip(x.shape, before, after, strict=True))
    width = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if not width:
        return x
    if mode == "constant":
        fill = np.asarray(value).astype(x.dtype)
        result = np.full([n + sum(w) for n, w in zip(x[cut].shape, width, strict=True)], fill, x.dtype)
        result[tuple(slice(b, n - a) for n, (b, a) in zip(result.shape, width, strict=True))] = x[cut]
        return result
    return np.asarray(np.pad(x[cut], width, mode=mode))  # type: ignore[call-overload]


def _pad_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 3, 4)
    one = data(rng, dtype, 1, low=1)[0]
    found = [Sample((x,), {"before": (1, 2), "after": (0, 3), "value": v}) for v in (0, one)]
    found += [Sample((x,), {"before": (2, 1), "after": (1, 3), "mode": m}) for m in ("edge", "reflect", "wrap")]
    if dtype.is_float:
        found.append(Sample((x,), {"before": (1, 0), "after": (0, 1), "value": -np.inf}))
    if dtype == dtypes.i64:
        found.append(Sample((x,), {"before": (1, 0), "after": (0, 1), "value": 2**53 + 1}))
    return [
        *found,
        Sample((x,), {"before": (-1, 2), "after": (1, -3), "value": one}),
        Sample((x,), {"before": (-1, 5), "after": (0, 9), "mode": "reflect"}),
        Sample((x,), {"before": (-1, -1), "after": (0, -1)}),
        Sample((data(rng, dtype, 2, 1, 33),), {"before": (0, 1, 0), "after": (0, 1, 7), "mode": "wrap"}),
        Sample((data(rng, dtype, 0, 2),), {"before": (1, 0), "after": (1, 0), "value": one}),
        Sample((data(rng, dtype),), {"before": (), "after": ()}),
    ]


pad = OpDef(
    "pad", ("x",), _infer_pad, _pad,
    "x with elements added (or, where negative, removed) at both ends of each axis. Modes: `constant` "
    "(the value), `edge`, `reflect` (without repeating the edge) and `wrap`; "
    "negative pads cut before the others are filled.",
    dtypes=dtypes.ALL, traits=MOVEMENT, samples=_pad_samples, tolerance=EXACT,
    attrs=(Attr("before", "ints"), Attr("after", "ints"),
           Attr("mode", "str", "constant", ("constant", "edge", "reflect", "wrap")), Attr("value", "any", 0)),
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32),), {"before": (1,), "after": (1,)}, "entries"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"before": (-3, 0), "after": (4, 0)}, "must not remove"),
        ErrorSample((np.zeros((2, 0), np.float32),), {"before": (0, 1), "after": (0, 0), "mode": "edge"}, "empty axis"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"before": (0, 1), "after": (0, 0), "value": "1"}, "a number"),
    ],
)


# -- tile, flip, roll ----------------------------------------------------------


def _infer_tile(x: TensorType, reps: tuple[AnyDim, ...]) -> tuple[TensorType, ...]:
    if len(reps) != x.rank:
        raise TypeRuleError(f"tile: reps must have {x.rank} entries, got {list(reps)}")
    if any(isinstance(r, int) and r < 0 for r in reps):
        raise TypeRuleError(f"tile: reps must be >= 0, got {list(reps)}")
    return (x.with_shape([d * r for d, r in zip(x.shape, reps, strict=True)]),)


def _tile_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 3),), {"reps": (4,)}),
        Sample((data(rng, dtype, 2, 3),), {"reps": (2, 3)}),
        Sample((data(rng, dtype, 2, 3, 5),), {"reps": (1, 3, 1)}),
        Sample((data(rng, dtype, 2, 1),), {"reps": (1, 7)}),
        Sample((data(rng, dtype, 2, 3),), {"reps": (0, 2)}),
        Sample((data(rng, dtype),), {"reps": ()}),
    ]


tile = OpDef(
    "tile",
    ("x",),
    _infer_tile,
    lambda x, reps: np.tile(x, reps),
    "x repeated along each axis.",
    dtypes=dtypes.ALL,
    attrs=(Attr("reps", "dims"),),
    traits=MOVEMENT,
    samples=_tile_samples,
    tolerance=EXACT,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32),), {"reps": (2,)}, "entries"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"reps": (2, -1)}, ">= 0"),
    ],
)


def _infer_repeat(x: TensorType, repeats: tuple[int, ...]) -> tuple[TensorType, ...]:
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise TypeRuleError(f"repeat: repeats must be {x.rank} numbers >= 0, got {list(repeats)}")
    return (x.with_shape([d * r for d, r in zip(x.shape, repeats, strict=True)]),)


def _repeat(x: Array, repeats: tuple[int, ...]) -> Array:
    for axis, r in enumerate(repeats):
        x = np.repeat(x, r, axis)
    return x


def _repeat_samples(dtype: DType, rng: Rng) -> list[Sample]:
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((7,), (2,)), ((3, 17), (3, 4)), ((3, 17), (1, 3)), ((2, 3, 4), (1, 2, 1)), ((2, 3, 4, 5), (1, 2, 2, 1)),
        ((2, 3, 2, 3), (2, 3, 2, 5)), ((3, 4), (0, 2)), ((0, 2), (2, 2)), ((), ()), ((2, 1, 33), (1, 2, 2)),
    ]  # fmt: skip
    return [Sample((data(rng, dtype, *s),), {"repeats": r}) for s, r in cases]


repeat = OpDef(
    "repeat", ("x",), _infer_repeat, _repeat, "Every element several times in a row, along each axis.",
    dtypes=dtypes.ALL, attrs=(Attr("repeats", "ints"),), traits=MOVEMENT, samples=_repeat_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"repeats": (2,)}, "repeats must"),
                    ErrorSample((np.zeros((2, 3), np.float32),), {"repeats": (2, -1)}, "repeats must")],
)  # fmt: skip


def _infer_flip(x: TensorType, axes: tuple[int, ...] | None) -> tuple[TensorType, ...]:
    normal_axes(axes, x.rank, "flip")
    return (x,)


def _flip_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 3, 4, 5)
    return [Sample((x,), {"axes": axes}) for axes in (None, (0,), (-1,), (2, 0), (1,), ())] + [
        Sample((data(rng, dtype, 0, 2),)),
        Sample((data(rng, dtype),)),
        Sample((data(rng, dtype, 1, 33),), {"axes": (0, 1)}),
    ]


flip = OpDef(
    "flip",
    ("x",),
    _infer_flip,
    lambda x, axes: np.flip(x, axes),
    "x with the order along axes reversed (None: all).",
    dtypes=dtypes.ALL,
    attrs=(Attr("axes", "ints", None),),
    traits=MOVEMENT,
    samples=_flip_samples,
    tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {"axes": (0, -2)}, "differ")],
)


def _infer_roll(
    x: TensorType, shifts: tuple[int, ...], axes: tuple[int, ...] | None
) -> tuple[TensorType, ...]:
    if axes is None:
        if len(shifts) != 1:
            raise TypeRuleError(
                f"roll: shifts must be one number when axes are not given, got {shifts}"
            )
        return (x,)
    if len(shifts) != len(axes):
        raise TypeRuleError(
            f"roll: shifts and axes must have one length, got {len(shifts)} and {len(axes)}"
        )
    for axis in axes:
        normal_axis(axis, x.rank, "roll")
    return (x,)


def _roll(x: Array, shifts: tuple[int, ...], axes: tuple[int, ...] | None) -> Array:
    return np.roll(x, shifts[0], None) if axes is None else np.roll(x, shifts, axes)


def _roll_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 3, 4, 5)
    return [
        Sample((x,), {"shifts": (1,), "axes": (0,)}),
        Sample((x,), {"shifts": (-2, 7), "axes": (1, -1)}),
        Sample((x,), {"shifts": (1, 2, 1), "axes": (2, 0, 2)}),
        Sample((x,), {"shifts": (11,)}),
        Sample((x,), {"shifts": (3,), "axes": (0,)}),
        Sample((data(rng, dtype, 0, 2),), {"shifts": (1,), "axes": (0,)}),
        Sample((data(rng, dtype),), {"shifts": (1,)}),
    ]


roll = OpDef(
    "roll",
    ("x",),
    _infer_roll,
    _roll,
    "x moved along axes by shifts, around the end; without axes, in flat order.",
    dtypes=dtypes.ALL,
    attrs=(Attr("shifts", "ints"), Attr("axes", "ints", None)),
    traits=MOVEMENT,
    samples=_roll_samples,
    tolerance=EXACT,
    errors=lambda: [
        ErrorSample(
            (np.zeros((2, 3), np.float32),), {"shifts": (1, 2), "axes": (0,)}, "one length"
        ),
        ErrorSample((np.zeros((2, 3), np.float32),), {"shifts": (1, 2)}, "one number"),
    ],
)


# -- triangles -----------------------------------------------------------------


def _infer_trilu(x: TensorType, upper: bool, k: int) -> tuple[TensorType, ...]:
    require_rank("trilu", x, 2)
    return (x,)


def _trilu(x: Array, upper: bool, k: int) -> Array:
    i, j = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    # In Python integers: k may be near the ends of int64.
    k = max(-x.shape[-2] - 1, min(k, x.shape[-1] + 1))
    return np.where((j - i >= k) if upper else (j - i <= k), x, np.zeros((), x.dtype))


def _trilu_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 2, 4, 5)
    found = [Sample((x,), {"upper": u, "k": k}) for u in (True, False) for k in (0, 1, -2, 7, -9)]
    return [
        *found,
        Sample((data(rng, dtype, 0, 3),)),
        Sample((data(rng, dtype, 17, 33),), {"k": -(2**62)}),
    ]


trilu = OpDef(
    "trilu",
    ("x",),
    _infer_trilu,
    _trilu,
    "The triangle on and above (upper) or on and below the k-th diagonal of each matrix; zero elsewhere.",
    dtypes=dtypes.ALL,
    attrs=(Attr("upper", "bool", True), Attr("k", "int", 0)),
    traits=MOVEMENT,
    samples=_trilu_samples,
    tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros(3, np.float32),), {}, "rank")],
)


# -- made from nothing ---------------------------------------------------------


def _infer_eye(shape: tuple[AnyDim, ...], k: int, dtype: DType) -> tuple[TensorType, ...]:
    if len(shape) != 2 or any(isinstance(d, int) and d < 0 for d in shape):
        raise TypeRuleError(f"eye: shape must be two sizes, got {list(shape)}")
    return (TensorType(dtype, shape),)


def _eye_samples(dtype: DType, rng: Rng) -> list[Sample]:
    cases: list[tuple[tuple[int, int], int]] = [
        ((3, 3), 0),
        ((2, 5), 1),
        ((5, 2), -1),
        ((4, 4), 9),
        ((0, 2), 0),
        ((3, 0), 0),
    ]
    return [Sample((), {"shape": s, "k": k, "dtype": dtype}) for s, k in cases]


eye = OpDef(
    "eye",
    (),
    _infer_eye,
    lambda shape, k, dtype: np.eye(shape[0], shape[1], k=k, dtype=dtype.numpy),
    "Ones on the k-th diagonal of a matrix, zeros elsewhere.",
    dtypes=dtypes.ALL,
    attrs=(Attr("shape", "dims"), Attr("k", "int", 0), Attr("dtype", "dtype", dtypes.f32)),
    traits=MOVEMENT,
    samples=_eye_samples,
    tolerance=EXACT,
    errors=lambda: [ErrorSample((), {"shape": (3,)}, "two sizes")],
)


def _infer_iota(
    shape: tuple[AnyDim, ...], start: Any, step: Any, dtype: DType
) -> tuple[TensorType, ...]:
    if len(shape) != 1 or any(isinstance(d, int) and d < 0 for d in shape):
        raise TypeRuleError(f"iota: shape must be one size, got {list(shape)}")
    if dtype not in dtypes.REALS:
        raise TypeRuleError(f"iota: dtype must be one of {list(dtypes.REALS)}, got {dtype}")
    for name, v in (("start", start), ("step", step)):
        kinds = (int, np.integer) if dtype.is_int else (int, float, np.integer, np.floating)
        if isinstance(v, (bool, np.bool_)) or not isinstance(v, kinds):
            raise TypeRuleError(f"iota: {name} must be a number of type {dtype}, got {v!r}")
    return (TensorType(dtype, shape),)


def _iota(shape: tuple[int, ...], start: Any, step: Any, dtype: DType) -> Array:
    if dtype.is_int:
        bits = 8 * dtype.itemsize
        first, gap = (np.uint64(int(v) % 2**64) for v in (start, step))
        wide = first + np.arange(shape[0], dtype=np.uint64) * gap
        return (wide & np.uint64(2**bits - 1)).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    kind: Any = np.float32 if dtype.itemsize < 8 else np.float64
    return np.asarray(kind(start) + np.arange(shape[0]).astype(kind) * kind(step)).astype(dtype.numpy)


def _iota_samples(dtype: DType, rng: Rng) -> list[Sample]:
    cases = [(n, 0, 1) for n in (0, 1, 9, 67)] + [(5, 100, -7), (3, 7, 0)]
    found = [
        Sample((), {"shape": (n,), "start": a, "step": b, "dtype": dtype}) for n, a, b in cases
    ]
    if dtype.is_int:
        found.append(
            Sample(
                (),
                {"shape": (3,), "start": np.iinfo(dtype.numpy).max - 1, "step": 1, "dtype": dtype},
            )
        )
    else:
        found.append(Sample((), {"shape": (19,), "start": 0.1, "step": 0.3, "dtype": dtype}))
    return found


iota = OpDef(
    "iota",
    (),
    _infer_iota,
    _iota,
    "start + i * step for i = 0, 1, ...; integers wrap, floats multiply and then add. `ops.arange` counts for you.",
    dtypes=dtypes.REALS,
    attrs=(
        Attr("shape", "dims"),
        Attr("start", "any", 0),
        Attr("step", "any", 1),
        Attr("dtype", "dtype", dtypes.i64),
    ),
    samples=_iota_samples,
    tolerance=EXACT,
    errors=lambda: [
        ErrorSample((), {"shape": (3, 2)}, "one size"),
        ErrorSample((), {"shape": (3,), "start": 0.5}, "start must be"),
    ],
)


def arange(
    start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = dtypes.i64, graph: Any
) -> Any:
    """Numbers from start up to, but not including, stop, as NumPy's arange.

    Parameters
    ----------
    start, stop, step : int, float or Dim
        `start` and `step` are numbers; `stop` may be a symbolic size when they are ints.
    dtype : DType, name or NumPy type
    graph : Graph

    Raises
    ------
    TypeRuleError
        step is 0, or a size is symbolic where it may not be.
    """
    if stop is None:
        start, stop = 0, start
    if isinstance(start, Dim) or isinstance(step, Dim):
        raise TypeRuleError(f"arange: start and step must be numbers, got {start!r} and {step!r}")
    if step == 0:
        raise TypeRuleError("arange: step must not be 0, got 0")
    if isinstance(stop, Dim):
        if not isinstance(start, int) or not isinstance(step, int):
            raise TypeRuleError(
                f"arange: start and step must be ints when stop is a size, got {start!r} and {step!r}"
            )
        n = ceil_div(stop - start, step)
    elif isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        n = len(range(start, stop, step))
    else:
        n = max(0, math.ceil((stop - start) / step))
    return iota(shape=(n,), start=start, step=step, dtype=dtype, graph=graph)


# -- blocks and space ----------------------------------------------------------


def _block(op: str, x: TensorType, block: int) -> None:
    require_rank(op, x, 4, 4)
    if block < 1:
        raise TypeRuleError(f"{op}: block must be >= 1, got {block}")


def _infer_depth_to_space(x: TensorType, block: int, mode: str) -> tuple[TensorType, ...]:
    _block("depth_to_space", x, block)
    n, c, h, w = x.shape
    if isinstance(c, int) and c % (block * block):
        raise TypeRuleError(
            f"depth_to_space: channels must be a multiple of {block * block}, got {c}"
        )
    return (x.with_shape((n, c // (block * block), h * block, w * block)),)


def _depth_to_space(x: Array, block: int, mode: str) -> Array:
    n, c, h, w = x.shape
    c //= block * block
    if mode == "DCR":
        y = x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c, h * block, w * block)


def _decompose_depth_to_space(x: Any, block: int, mode: str) -> Any:
    n, c, h, w = x.shape
    c = c // (block * block)
    if mode == "DCR":
        y = view.transpose(
            view.reshape(x, shape=(n, block, block, c, h, w)), perm=(0, 3, 4, 1, 5, 2)
        )
    else:
        y = view.transpose(
            view.reshape(x, shape=(n, c, block, block, h, w)), perm=(0, 1, 4, 2, 5, 3)
        )
    return view.reshape(y, shape=(n, c, h * block, w * block))


def _depth_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [
        Sample((data(rng, dtype, 2, 12, 3, 2),), {"block": 2, "mode": m}) for m in ("DCR", "CRD")
    ] + [
        Sample((data(rng, dtype, 1, 9, 2, 5),), {"block": 3}),
        Sample((data(rng, dtype, 0, 4, 2, 2),), {"block": 2}),
    ]


depth_to_space = OpDef(
    "depth_to_space",
    ("x",),
    _infer_depth_to_space,
    _depth_to_space,
    "Blocks of channels to blocks of pixels, NCHW; `DCR`: depth varies fastest in the channel number, `CRD`: slowest.",
    dtypes=dtypes.ALL,
    attrs=(Attr("block", "int"), Attr("mode", "str", "DCR", ("DCR", "CRD"))),
    traits=MOVEMENT,
    samples=_depth_samples,
    tolerance=EXACT,
    decompose=_decompose_depth_to_space,
    errors=lambda: [
        ErrorSample((np.zeros((1, 6, 2, 2), np.float32),), {"block": 2}, "multiple"),
        ErrorSample((np.zeros((1, 6, 2, 2), np.float32),), {"block": 0}, ">= 1"),
    ],
)


def _infer_space_to_depth(x: TensorType, block: int) -> tuple[TensorType, ...]:
    _block("space_to_depth", x, block)
    n, c, h, w = x.shape
    if any(isinstance(d, int) and d % block for d in (h, w)):
        raise TypeRuleError(
            f"space_to_depth: height and width must be multiples of {block}, got {h} and {w}"
        )
    return (x.with_shape((n, c * block * block, h // block, w // block)),)


def _space_to_depth(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * block * block, h // block, w // block)


def _decompose_space_to_depth(x: Any, block: int) -> Any:
    n, c, h, w = x.shape
    y = view.reshape(x, shape=(n, c, h // block, block, w // block, block))
    return view.reshape(
        view.transpose(y, perm=(0, 3, 5, 1, 2, 4)),
        shape=(n, c * block * block, h // block, w // block),
    )


space_to_depth = OpDef(
    "space_to_depth",
    ("x",),
    _infer_space_to_depth,
    _space_to_depth,
    "Blocks of pixels to channels, NCHW; the inverse of depth_to_space in mode DCR.",
    dtypes=dtypes.ALL,
    attrs=(Attr("block", "int"),),
    traits=MOVEMENT,
    tolerance=EXACT,
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, 2, 3, 4, 6),), {"block": 2}),
        Sample((data(rng, dtype, 1, 2, 3, 3),), {"block": 3}),
    ],
    decompose=_decompose_space_to_depth,
    errors=lambda: [ErrorSample((np.zeros((1, 6, 3, 2), np.float32),), {"block": 2}, "multiples")],
)


# -- sequences of values -------------------------------------------------------


def split(x: Any, sizes: int | Sequence[AnyDim], axis: int = 0) -> tuple[Any, ...]:
    """Pieces of x along an axis.

    Parameters
    ----------
    x : Value
    sizes : int or sequence of sizes
        The sizes of the pieces; an int is the size of every piece, the last one may be smaller.
    axis : int

    Raises
    ------
    TypeRuleError
        The sizes do not add up to the axis.
    """
    axis = normal_axis(axis, x.rank, "split")
    total = x.shape[axis]
    if isinstance(sizes, int):
        if not isinstance(total, int) or sizes < 1:
            raise TypeRuleError(
                f"split: a size >= 1 of pieces of a known axis must be given, got {sizes} of {total}"
            )
        sizes = [min(sizes, total - i) for i in range(0, total, sizes)] or [0]
    if any(isinstance(s, int) and s < 0 for s in sizes):
        raise TypeRuleError(f"split: sizes must be >= 0, got {list(sizes)}")
    made: AnyDim = 0
    for s in sizes:
        made = made + s
    if made != total:
        raise TypeRuleError(f"split: sizes must add up to {total}, got {list(sizes)}")
    result = []
    start: AnyDim = 0
    for i, s in enumerate(sizes):
        stop = start + s
        if not isinstance(start, int):
            raise TypeRuleError(f"split: only the last size may be symbolic, got {list(sizes)}")
        far = 2**63 - 1 if i == len(sizes) - 1 else stop
        if not isinstance(far, int):
            raise TypeRuleError(f"split: only the last size may be symbolic, got {list(sizes)}")
        result.append(view.slice(x, starts=(start,), stops=(far,), axes=(axis,)))
        start = stop
    return tuple(result)


def stack(values: Sequence[Any], axis: int = 0) -> Any:
    """Values of one shape side by side along a new axis.

    Raises
    ------
    TypeRuleError
        It is not given a list of values of a graph, or the list is empty.
    """
    if not isinstance(values, Sequence):
        raise TypeRuleError(f"stack: must be given a list of values, then the axis, got {type(values).__name__}"
                            "\nhint: ops.stack([a, b], axis)")
    if not values:
        raise TypeRuleError("stack: at least one value must be given, got none")
    if bad := [type(v).__name__ for v in values if not isinstance(v, Operators)]:
        raise TypeRuleError(f"stack: must be given values of a graph, got {bad[0]}\nhint: graph.constant makes one")
    axis = normal_axis(axis, values[0].rank + 1, "stack")
    return view.concat(*(view.unsqueeze(v, axis) for v in values), axis=axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of x along an axis of known size, without that axis."""
    axis = normal_axis(axis, x.rank, "unstack")
    n = x.shape[axis]
    if not isinstance(n, int):
        raise TypeRuleError(f"unstack: the axis must have a known size, got {n}")
    return tuple(view.squeeze(v, (axis,)) for v in split(x, [1] * n, axis)) if n else ()


def center_crop_pad(x: Any, shape: Sequence[int], axes: Sequence[int] | None = None) -> Any:
    """The middle of x in a given size: cut, or padded with zeros, equally at both ends.

    Parameters
    ----------
    x : Value
    shape : sequence of int
        Sizes of `axes`; of all axes for None.
    axes : sequence of int, optional

    Raises
    ------
    TypeRuleError
        A size is missing or symbolic.
    """
    chosen = range(x.rank) if axes is None else [normal_axis(a, x.rank, "center_crop_pad") for a in axes]
    if len(chosen) != len(shape):
        raise TypeRuleError(f"center_crop_pad: shape must have {len(chosen)} entries, got {list(shape)}")
    before, after = [0] * x.rank, [0] * x.rank
    for axis, want in zip(chosen, shape, strict=True):
        have = x.shape[axis]
        if not isinstance(have, int):
            raise TypeRuleError(f"center_crop_pad: axis {axis} must have a known size, got {have}")
        before[axis] = (want - have) // 2 if want > have else -((have - want) // 2)
        after[axis] = want - have - before[axis]
    return pad(x, before=before, after=after)
