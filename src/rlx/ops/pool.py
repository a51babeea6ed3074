"""Pooling over windows of 1 to 3 spatial axes; channels first unless `layout` says `nhwc`.

In ceil mode a last window that would lie wholly in padding is dropped.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, ceil_div
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import LAYOUT, Rng, data, require_dtype, require_rank, same_dtype
from rlx.ops.conv import Geometry, geometry

Ints = Sequence[int] | None
_MAX_TYPES = (*dtypes.FLOATS, dtypes.i8, dtypes.u8)
_WINDOW = (Attr("kernel", "ints"), Attr("strides", "ints", None), Attr("pads", "ints", None),
           Attr("dilations", "ints", None), Attr("ceil_mode", "bool", False))


def pooled_size(op: str, size: AnyDim, kernel: int, stride: int, before: int, after: int, dilation: int,
                ceil: bool) -> AnyDim:
    """Number of windows on an axis.

    Raises
    ------
    TypeRuleError
        The window does not fit, or ceil mode is asked of a symbolic size.
    """
    room = size + (before + after - (kernel - 1) * dilation - 1)
    if not isinstance(room, int):
        if ceil and stride > 1:
            raise TypeRuleError(f"{op}: ceil_mode needs a known size, got {size}")
        return room // stride + 1
    assert isinstance(size, int)
    if size == 0:
        return 0
    if room < 0 and not (ceil and room > -stride):
        raise TypeRuleError(f"{op}: the window must fit the padded input, got kernel {kernel} (dilation {dilation})"
                            f" and size {size} with pads {before}, {after}")
    count = ceil_div(room, stride) + 1 if ceil else room // stride + 1
    assert isinstance(count, int)
    if ceil and (count - 1) * stride >= size + before:
        count -= 1
    return count


def pool_geometry(op: str, rank: int, kernel: Sequence[int], strides: Ints, pads: Ints, dilations: Ints) -> Geometry:
    """Check the window's attributes and fill in the defaults."""
    n = rank - 2
    if len(kernel) != n or any(k < 1 for k in kernel):
        raise TypeRuleError(f"{op}: kernel must be {n} numbers >= 1, got {list(kernel)}")
    return geometry(op, n, strides, pads, dilations, 1)


def _infer_pool(op: str, allowed: Sequence[DType]) -> Callable[..., tuple[TensorType, ...]]:
    def rule(x: TensorType, kernel: Sequence[int], strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool,
             layout: str = "nchw", **rest: Any) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, allowed)
        require_rank(op, x, 3, 5)
        g = pool_geometry(op, x.rank, kernel, strides, pads, dilations)
        n = x.rank - 2
        first = 2 if layout == "nchw" else 1
        sizes = tuple(
            pooled_size(op, d, kernel[i], g.strides[i], g.pads[i], g.pads[n + i], g.dilations[i], ceil_mode)
            for i, d in enumerate(x.shape[first : first + n])
        )
        return (x.with_shape((x.shape[0], x.shape[1], *sizes) if layout == "nchw" else
                             (x.shape[0], *sizes, x.shape[-1])),)

    return rule


def _windows(x: Array, kernel: Sequence[int], g: Geometry, out: Sequence[int]) -> Iterator[tuple[Any, list[list[int]]]]:
    """(place in the result, taps inside x per axis) of every window; x is channels first."""
    for at in itertools.product(*(range(n) for n in out)):
        taps = []
        for d, k in enumerate(at):
            start = k * g.strides[d] - g.pads[d]
            places = [start + j * g.dilations[d] for j in range(kernel[d])]
            taps.append([p for p in places if 0 <= p < x.shape[2 + d]])
        yield (slice(None), slice(None), *at), taps


def _pool(op: str, reduce: Callable[..., Any]) -> Callable[..., Array]:
    infer = _infer_pool(op, dtypes.ALL)

    def reference(x: Array, kernel: Sequence[int], strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool,
                  layout: str, **rest: Any) -> Array:
        first = x if layout == "nchw" else np.moveaxis(x, -1, 1)
        g = pool_geometry(op, x.ndim, kernel, strides, pads, dilations)
        t = TensorType(dtypes.of_array(x), first.shape)
        shape: Any = infer(t, kernel, strides, pads, dilations, ceil_mode)[0].shape
        out = np.empty(shape, x.dtype)
        n = x.ndim - 2
        for place, taps in _windows(first, kernel, g, shape[2:]):
            at: Any = (slice(None), slice(None), *np.ix_(*taps)) if all(taps) else None
            window = None if at is None else first[at]
            # places of the window inside the padded input
            padded = [
                sum(k * g.strides[d] + j * g.dilations[d] < first.shape[2 + d] + g.pads[d] + g.pads[n + d]
                    for j in range(kernel[d]))
                for d, k in enumerate(place[2:])
            ]
            out[place] = reduce(window, int(np.prod(padded)), x.dtype, **rest)
        return out if layout == "nchw" else np.ascontiguousarray(np.moveaxis(out, 1, -1))

    return reference


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _max(window: Array | None, padded: int, dtype: Any) -> Any:
    if window is None:
        return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return window.max(_spatial(window))


def _avg(window: Array | None, padded: int, dtype: Any, count_include_pad: bool) -> Any:
    if window is None:
        return 0
    n = padded if count_include_pad else int(np.prod(window.shape[2:]))
    return np.sum(window, _spatial(window)) / dtype.type(n)


def _lp(window: Array | None, padded: int, dtype: Any, p: float) -> Any:
    if window is None:
        return 0
    return np.sum(np.abs(window) ** dtype.type(p), _spatial(window)) ** dtype.type(1 / p)


def _cases() -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    return [
        ((2, 3, 9), {"kernel": (3,)}),
        ((1, 2, 10), {"kernel": (3,), "strides": (2,), "pads": (1, 1), "ceil_mode": True}),
        ((2, 5, 7, 8), {"kernel": (3, 2), "strides": (2, 1)}),
        ((1, 3, 9, 20), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 0, 1, 2)}),
        ((1, 19, 6, 5), {"kernel": (2, 2), "strides": (2, 2), "ceil_mode": True}),
        ((1, 1, 4, 4), {"kernel": (3, 3), "strides": (2, 2), "ceil_mode": True}),
        ((2, 2, 9, 9), {"kernel": (3, 3), "dilations": (2, 3), "pads": (2, 1, 2, 1)}),
        ((1, 2, 4, 5, 6), {"kernel": (2, 3, 2), "strides": (1, 2, 3), "pads": (1, 1, 0, 0, 1, 1)}),
        ((1, 33, 5, 5), {"kernel": (5, 5)}),
        ((1, 2, 5, 70), {"kernel": (1, 3), "pads": (0, 1, 0, 1)}),
        # the last window would start in padding
        ((1, 1, 5), {"kernel": (2,), "strides": (3,), "pads": (1, 1), "ceil_mode": True}),
        ((0, 2, 4, 4), {"kernel": (2, 2)}),
        ((1, 3, 17, 23), {"kernel": (5, 6), "strides": (2, 3), "pads": (2, 1, 1, 3), "dilations": (1, 2),
                          "ceil_mode": True}),
    ]


def _samples(variants: Sequence[dict[str, Any]], layouts: Sequence[str] = LAYOUT.choices, special: bool = True
             ) -> Callable[[DType, Rng], list[Sample]]:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = []
        for i, (shape, attrs) in enumerate(_cases()):
            x = data(rng, dtype, *shape)
            if special and dtype.is_float and i % 3 == 0 and x.size:
                x.reshape(-1)[x.size // 2] = np.nan
                x.reshape(-1)[x.size // 3] = -np.inf
            extra = variants[i % len(variants)]
            if len(layouts) > 1:
                last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
                found.append(Sample((last,), {**attrs, **extra, "layout": "nhwc"}))
            found.append(Sample((x,), {**attrs, **extra}))
        return found

    return make


def _errors() -> list[ErrorSample]:
    x = np.zeros((1, 2, 4, 4), np.float32)
    return [
        ErrorSample((x,), {"kernel": (2,)}, "kernel must be"),
        ErrorSample((x,), {"kernel": (2, 0)}, "kernel must be"),
        ErrorSample((x,), {"kernel": (5, 2)}, "must fit"),
        ErrorSample((x,), {"kernel": (2, 2), "strides": (0, 1)}, "strides must be"),
        ErrorSample((x,), {"kernel": (2, 2), "pads": (1, 1)}, "pads must have"),
        ErrorSample((x[0, 0],), {"kernel": ()}, "rank"),
        ErrorSample((x.astype(np.int64),), {"kernel": (2, 2)}, "type must be one of"),
    ]


max_pool = OpDef(
    "max_pool", ("x",), _infer_pool("max_pool", _MAX_TYPES), _pool("max_pool", _max),
    "Largest element of each window; NaN wins, padding never does.", dtypes=_MAX_TYPES, attrs=(*_WINDOW, LAYOUT),
    samples=_samples([{}]), errors=_errors, tolerance=EXACT,
)
avg_pool = OpDef(
    "avg_pool", ("x",), _infer_pool("avg_pool", dtypes.FLOATS), _pool("avg_pool", _avg),
    "Mean of each window, over its elements inside the input or, with count_include_pad, inside the padded input.",
    dtypes=dtypes.FLOATS, attrs=(*_WINDOW, Attr("count_include_pad", "bool", False), LAYOUT),
    samples=_samples([{}, {"count_include_pad": True}]), errors=_errors,
    tolerance=Tolerance(atol={"f32": 1e-6, "f64": 1e-14, "f16": 1e-4, "bf16": 1e-3}),
)


def _infer_lp_pool(x: TensorType, *args: Any, **attrs: Any) -> tuple[TensorType, ...]:
    if not attrs["p"] >= 1:
        raise TypeRuleError(f"lp_pool: p must be >= 1, got {attrs['p']}")
    return _infer_pool("lp_pool", dtypes.FLOATS)(x, *args, **attrs)


lp_pool = OpDef(
    "lp_pool", ("x",), _infer_lp_pool, _pool("lp_pool", _lp), "(sum of |x|^p)^(1/p) over each window.",
    dtypes=dtypes.FLOATS, attrs=(*_WINDOW, Attr("p", "float", 2.0), LAYOUT),
    samples=_samples([{}, {"p": 1.0}, {"p": 3.0}]),
    errors=lambda: [*_errors(),
                    ErrorSample((np.zeros((1, 1, 3), np.float32),), {"kernel": (1,), "p": 0.5}, "p must be")],
)


# -- indices -------------------------------------------------------------------


def _infer_max_pool_indices(x: TensorType, *args: Any, **attrs: Any) -> tuple[TensorType, ...]:
    if attrs["storage_order"] not in (0, 1):
        raise TypeRuleError(f"max_pool_indices: storage_order must be 0 or 1, got {attrs['storage_order']}")
    (y,) = _infer_pool("max_pool_indices", _MAX_TYPES)(x, *args, **attrs)
    g = pool_geometry("max_pool_indices", x.rank, *(attrs[k] for k in ("kernel", "strides", "pads", "dilations")))
    for i, (size, out) in enumerate(zip(x.shape[2:], y.shape[2:], strict=True)):
        if not (isinstance(size, int) and isinstance(out, int)) or out == 0:
            continue
        taps = [t * g.dilations[i] for t in range(attrs["kernel"][i])]
        starts = {-g.pads[i], (out - 1) * g.strides[i] - g.pads[i]}
        if any(all(not 0 <= start + t < size for t in taps) for start in starts):
            raise TypeRuleError(f"max_pool_indices: every window must hold an element, got {x} with {attrs}")
    return (y, y.with_dtype(dtypes.i64))


def _max_pool_indices(x: Array, kernel: Sequence[int], strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool,
                      storage_order: int) -> tuple[Array, Array]:
    y = _pool("max_pool_indices", _max)(x, kernel, strides, pads, dilations, ceil_mode, "nchw")
    places = np.empty(y.shape, np.int64)
    g = pool_geometry("max_pool_indices", x.ndim, kernel, strides, pads, dilations)
    space = x.shape[2:]
    volume = int(np.prod(space))
    for at in np.ndindex(*y.shape):
        (_, taps) = next(w for w in _windows(x, kernel, g, y.shape[2:]) if w[0][2:] == at[2:])
        best = None
        for p in itertools.product(*taps):
            v = x[(*at[:2], *p)]
            if best is None or (v > x[(*at[:2], *best)]) or (np.isnan(v) and not np.isnan(x[(*at[:2], *best)])):
                best = p
        assert best is not None
        order = range(len(space)) if storage_order else range(len(space) - 1, -1, -1)
        flat, scale = 0, 1
        for d in order:
            flat += best[d] * scale
            scale *= space[d]
        places[at] = (at[0] * x.shape[1] + at[1]) * volume + flat
    return y, places


def _indices_samples(dtype: DType, rng: Rng) -> list[Sample]:
    cases = _samples([{"storage_order": 0}, {"storage_order": 1}], ("nchw",), special=False)(dtype, rng)
    return [s for s in cases if s.args[0] is not None and s.args[0].size < 400]


max_pool_indices = OpDef(
    "max_pool_indices", ("x",), _infer_max_pool_indices, _max_pool_indices,
    "max_pool, and the flat place in x of each maximum (the first of equal ones); storage_order 1 numbers "
    "the spatial axes with the first one fastest.", dtypes=_MAX_TYPES,
    attrs=(*_WINDOW, Attr("storage_order", "int", 0)),
    samples=_indices_samples, errors=_errors, tolerance=EXACT,
)


def _infer_max_unpool(x: TensorType, indices: TensorType, shape: tuple[AnyDim, ...]) -> tuple[TensorType, ...]:
    from rlx.ops import index

    index.index_type("max_unpool", indices)
    same_dtype("max_unpool", [x, x])
    if indices.shape != x.shape:
        raise TypeRuleError(f"max_unpool: indices must have the shape of x, got {indices} and {x}")
    return (x.with_shape(shape),)


def _max_unpool(x: Array, indices: Array, shape: tuple[int, ...]) -> Array:
    out = np.zeros(int(np.prod(shape)), x.dtype)
    out[indices.reshape(-1)] = x.reshape(-1)
    return out.reshape(shape)


def _decompose_max_unpool(x: Any, indices: Any, shape: tuple[AnyDim, ...]) -> Any:
    from rlx.ops import index, view

    total: AnyDim = 1
    for d in shape:
        total = total * d
    zeros = view.expand(x.graph.constant(np.zeros(1, x.dtype.numpy)), shape=(total,))
    flat = [view.reshape(v, shape=(v.type.size,)) for v in (indices, x)]
    return view.reshape(index.scatter_elements(zeros, *flat, axis=0), shape=shape)


def _unpool_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 1, 2, 3)
    return [Sample((x, np.array([[[0, 3, 5], [6, 9, 10]]])), {"shape": (1, 2, 6)}),
            Sample((x, np.array([[[-1, 3, 3], [6, 9, 10]]], np.int32)), {"shape": (1, 2, 6)})]


max_unpool = OpDef(
    "max_unpool", ("x", "indices"), _infer_max_unpool, _max_unpool,
    "Zeros of a shape with x at flat places: undoes max_pool_indices.", dtypes=dtypes.ALL,
    attrs=(Attr("shape", "dims"),),
    traits=frozenset({"movement"}), samples=_unpool_samples, tolerance=EXACT, decompose=_decompose_max_unpool,
    errors=lambda: [ErrorSample((np.zeros(3, np.float32), np.zeros(2, np.int64)), {"shape": (4,)}, "shape of x")],
)
