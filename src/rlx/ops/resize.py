"""Resizing along axes, by tables of places and weights computed ahead.

Coordinates are exact rational numbers, so that ties fall as they should: a scale
that is, as a float32, the ratio of the two sizes or another simple fraction is
taken as that fraction.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import SizeError, TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.traced import trace_of
from rlx.ir.types import TensorType, normal_axis, static_shape
from rlx.ops import binary, index, movement, unary
from rlx.ops._rules import Rng, data, require_dtype, require_rank

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
               "tf_half_pixel_for_nn", "tf_crop_and_resize")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_TOLERANCE = Tolerance(rtol={"f32": 1e-5, "f64": 1e-12},
                       atol={"f32": 1e-5, "f64": 1e-13, "f16": 2e-3, "bf16": 2e-2})


# -- one axis resampled --------------------------------------------------------


def _infer_resample(x: TensorType, places: TensorType, weights: TensorType, axis: int) -> tuple[TensorType, ...]:
    require_dtype("resample", x.dtype, (dtypes.f64, dtypes.f32))
    require_rank("resample", places, 2, 2, "places")
    axis = normal_axis(axis, x.rank, "resample")
    if places.dtype != dtypes.i32 or weights.dtype != x.dtype or places.shape != weights.shape:
        raise TypeRuleError(f"resample: places must be i32 and weights {x.dtype}, of one shape, "
                            f"got {places} and {weights}")
    return (x.with_shape((*x.shape[:axis], places.shape[1], *x.shape[axis + 1 :])),)


def _resample(x: Array, places: Array, weights: Array, axis: int) -> Array:
    taps = np.moveaxis(np.take(x, places, axis), axis, 0)  # [taps, outer..., m, inner...]
    shape = [1] * (x.ndim + 1)
    shape[0], shape[1 + axis % x.ndim] = weights.shape
    return np.asarray((taps * weights.reshape(shape)).sum(0))


def _resample_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for shape, axis, m, taps in (((3, 5), 1, 9, 2), ((3, 5), 0, 4, 4), ((2, 33, 18), 1, 20, 3), ((7,), 0, 40, 1),
                                 ((2, 3, 70), 1, 5, 2), ((1, 9), 1, 17, 7)):
        places = rng.integers(0, shape[axis], (taps, m)).astype(np.int32)
        found.append(Sample((data(rng, dtype, *shape), places, data(rng, dtype, taps, m)), {"axis": axis}))
    return found


resample = OpDef(
    "resample", ("x", "places", "weights"), _infer_resample, _resample,
    "Each result along an axis is a weighted sum of elements: places and weights are [taps, results].",
    dtypes=(dtypes.f64, dtypes.f32), attrs=(Attr("axis", "int"),), samples=_resample_samples, tolerance=_TOLERANCE,
    internal=True,
)


# -- tables --------------------------------------------------------------------


def exact_scale(n: int, out: int, scale: float | None) -> Fraction:
    """The scale of an axis as a rational number."""
    ratio = Fraction(out, n) if n else Fraction(1)
    if scale is None:
        return ratio
    given = Fraction(float(scale))
    for simple in (ratio, given.limit_denominator(1024)):
        if np.float32(float(simple)) == np.float32(scale):
            return simple
    return given


def coordinate(mode: str, o: int, n: int, out: int, scale: Fraction, roi: tuple[float, float]) -> Fraction:
    """Where result `o` of an axis lies in the source."""
    length = scale * n  # the size that was asked for, before it was cut to an integer
    if mode == "align_corners":
        return Fraction(0) if length == 1 else Fraction(o * (n - 1)) / (length - 1)
    if mode == "asymmetric":
        return o / scale
    if mode == "tf_half_pixel_for_nn":
        return (o + Fraction(1, 2)) / scale
    if mode == "tf_crop_and_resize":
        start, end = Fraction(roi[0]), Fraction(roi[1])
        if length == 1:
            return (start + end) * (n - 1) / 2
        return start * (n - 1) + o * (end - start) * (n - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return Fraction(0)
    x = (o + Fraction(1, 2)) / scale - Fraction(1, 2)
    if mode == "half_pixel_symmetric":
        x += Fraction(n, 2) * (1 - out / length)
    return x


def _nearest(x: Fraction, mode: str) -> int:
    half = Fraction(1, 2)
    if mode == "floor":
        return math.floor(x)
    if mode == "ceil":
        return math.ceil(x)
    return math.ceil(x - half) if mode == "round_prefer_floor" else math.floor(x + half)


def _cubic(d: float, a: float) -> float:
    d = abs(d)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def _taps(x: Fraction, attrs: dict[str, Any], scale: Fraction) -> list[tuple[int, float]]:
    """(place, weight) around x; places may lie outside the source."""
    if attrs["mode"] == "nearest":
        return [(_nearest(x, attrs["nearest_mode"]), 1.0)]
    linear = attrs["mode"] == "linear"
    shrink = min(float(scale), 1.0) if attrs["antialias"] else 1.0
    reach = math.ceil((1 if linear else 2) / shrink)
    base = math.floor(x)
    found = []
    for place in range(base - reach + 1, base + reach + 1):
        d = float(place - x) * shrink
        found.append((place, max(0.0, 1 - abs(d)) if linear else _cubic(d, attrs["cubic_coeff_a"])))
    if shrink != 1.0:
        total = sum(w for _, w in found)
        found = [(p, w / total) for p, w in found]
    return found


# Results of an axis; its tables are made one by one.
LONGEST = 2**22


def tables(n: int, out: int, scale: Fraction, roi: tuple[float, float], attrs: dict[str, Any]
           ) -> tuple[Array, Array, Array]:
    """(places, weights, outside) of an axis: [taps, out], [taps, out] and [out].

    `outside` marks results that tf_crop_and_resize replaces by the extrapolation value.

    Raises
    ------
    SizeError
        The tables would take too long to make.
    """
    if out > LONGEST:
        raise SizeError(f"resize: an axis must have at most {LONGEST} results, got {out}")
    rows = []
    outside = np.zeros(out, np.bool_)
    for o in range(out):
        x = coordinate(attrs["coordinate_transformation_mode"], o, n, out, scale, roi)
        if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
            outside[o] = not 0 <= x <= n - 1
        row = _taps(x, attrs, scale)
        if attrs["exclude_outside"]:
            row = [(p, w if 0 <= p < n else 0.0) for p, w in row]
            total = sum(w for _, w in row)
            row = [(p, w / total) for p, w in row] if total else row
        rows.append([(min(max(p, 0), n - 1), w) for p, w in row])
    width = max((len(r) for r in rows), default=1)
    places = np.zeros((width, out), np.int32)
    weights = np.zeros((width, out), np.float64)
    for o, row in enumerate(rows):
        for k, (p, w) in enumerate(row):
            places[k, o], weights[k, o] = p, w
    used = [k for k in range(width) if weights[k].any()] or [0]
    return places[used], weights[used], outside


# -- the op --------------------------------------------------------------------


def _sizes(x: TensorType, sizes: Sequence[AnyDim] | None, scales: Sequence[float] | None) -> tuple[AnyDim, ...]:
    for name, given in (("sizes", sizes), ("scales", scales)):
        if given is not None and len(given) != x.rank:
            raise TypeRuleError(f"resize: {name} must have {x.rank} entries, got {list(given)}")
    if scales is not None and not all(s > 0 and math.isfinite(s) for s in scales):
        raise TypeRuleError(f"resize: scales must be > 0, got {list(scales)}")
    if sizes is not None:
        if any(isinstance(d, int) and d < 0 for d in sizes):
            raise TypeRuleError(f"resize: sizes must be >= 0, got {list(sizes)}")
        return tuple(sizes)
    if scales is None:
        raise TypeRuleError("resize: sizes or scales must be given, got neither")
    result: list[AnyDim] = []
    for d, s in zip(x.shape, scales, strict=True):
        if isinstance(d, int):
            # the product as float32 has it: 0.3 * 10 is 3
            result.append(math.floor(float(np.float32(d) * np.float32(s))))
        elif float(s).is_integer():
            result.append(d * int(s))
        else:
            raise TypeRuleError(f"resize: the size of {d} times {s} is not known; give sizes")
    return tuple(result)


def _infer_resize(x: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
    shape = _sizes(x, attrs["sizes"], attrs["scales"])
    if attrs["mode"] != "nearest":
        require_dtype("resize", x.dtype, dtypes.FLOATS)
    if attrs["roi"] is not None and len(attrs["roi"]) != 2 * x.rank:
        raise TypeRuleError(f"resize: roi must have {2 * x.rank} entries, got {list(attrs['roi'])}")
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" and attrs["roi"] is None:
        raise TypeRuleError("resize: roi must be given for tf_crop_and_resize, got none")
    for d, n in zip(x.shape, shape, strict=True):
        if isinstance(d, int) and d == 0 and n != 0:
            raise TypeRuleError(f"resize: an empty axis must stay empty, got size {n}")
    return (x.with_shape(shape),)


def axis_plan(shape: Sequence[int], out: Sequence[int], attrs: dict[str, Any]) -> list[tuple[int, Array, Array, Array]]:
    """(axis, places, weights, outside) of the axes that change, those that grow least first."""
    found = []
    rank = len(shape)
    for axis, (n, m) in enumerate(zip(shape, out, strict=True)):
        roi = (0.0, 1.0)
        if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
            roi = (attrs["roi"][axis], attrs["roi"][rank + axis])
        scale = exact_scale(n, m, attrs["scales"][axis] if attrs["scales"] is not None else None)
        shifted = attrs["coordinate_transformation_mode"] == "tf_half_pixel_for_nn"
        if n == m and scale == 1 and roi == (0.0, 1.0) and not shifted:
            continue
        found.append((axis, *tables(n, m, scale, roi, attrs)))
    return sorted(found, key=lambda item: (out[item[0]] / max(shape[item[0]], 1), -item[0]))


def _outside(rank: int, plan: list[tuple[int, Array, Array, Array]]) -> Array | None:
    mask: Array | None = None
    for axis, _, _, outside in plan:
        if outside.any():
            part = outside.reshape([-1 if i == axis else 1 for i in range(rank)])
            mask = part if mask is None else mask | part
    return mask


def _whole_factor(places: Array, n: int) -> int | None:
    """How often each of n elements comes, if all do so equally often and in order."""
    factor = len(places) // max(n, 1)
    return factor if factor and np.array_equal(places, np.repeat(np.arange(n), factor)) else None


def _decompose_resize(x: Any, **attrs: Any) -> Any:
    graph, dtype = x.graph, x.dtype
    shape = _sizes(x.type, attrs["sizes"], attrs["scales"])
    if (trace := trace_of([s for s, t in zip(x.shape, shape, strict=True) if s != t])) is not None:
        trace.end("resize: tables of places are made from the extent")
    plan = axis_plan(static_shape(x.shape, "resize"), static_shape(shape, "resize"), attrs)
    y = x
    if attrs["mode"] == "nearest":
        whole = [_whole_factor(places[0], x.shape[axis]) for axis, places, _, _ in plan]
        factors = [1] * x.rank
        for (axis, *_), factor in zip(plan, whole, strict=True):
            factors[axis] = factor or 1
        if max(factors, default=1) > 1:
            y = movement.repeat(y, repeats=factors)
        for (axis, places, _, _), factor in zip(plan, whole, strict=True):
            if factor:
                continue
            y = index.gather(y, graph.constant(places[0]), axis=axis)
    else:
        wide = dtypes.f32 if dtype.is_half else dtype
        y = unary.cast(y, dtype=wide) if dtype.is_half else y
        for axis, places, weights, _ in plan:
            y = resample(y, graph.constant(places), graph.constant(weights.astype(wide.numpy)), axis=axis)
    mask = _outside(x.rank, plan)
    if mask is not None:
        fill = graph.constant(np.asarray(attrs["extrapolation_value"]).astype(y.dtype.numpy))
        y = binary.where(graph.constant(mask), fill, y)
    return unary.cast(y, dtype=dtype) if y.dtype != dtype else y


def _source(mode: str, o: int, n: int, out: int, scale: float, roi: Sequence[float]) -> float:
    """The coordinate in floating point, as the formulas are usually written."""
    length = scale * n
    if mode == "align_corners":
        return 0.0 if length == 1 else o * (n - 1) / (length - 1)
    if mode == "tf_crop_and_resize":
        if length == 1:
            return 0.5 * (roi[0] + roi[1]) * (n - 1)
        return roi[0] * (n - 1) + o * (roi[1] - roi[0]) * (n - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return 0.0
    plain = {"asymmetric": o / scale, "tf_half_pixel_for_nn": (o + 0.5) / scale}
    x = plain.get(mode, (o + 0.5) / scale - 0.5)
    return x + n / 2 * (1 - out / length) if mode == "half_pixel_symmetric" else x


def _line(row: Array, out: int, scale: float, roi: Sequence[float], at: dict[str, Any]) -> Array:
    """One line resized, result by result."""
    n = len(row)
    result = np.empty(out, row.dtype)
    kind = at["mode"]
    for o in range(out):
        x = _source(at["coordinate_transformation_mode"], o, n, out, scale, roi)
        if kind == "nearest":
            x = round(x, 9)  # ties
            place = {"floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_floor": math.ceil(x - 0.5),
                     "round_prefer_ceil": math.floor(x + 0.5)}[at["nearest_mode"]]
            result[o] = row[min(max(place, 0), n - 1)]
            continue
        shrink = min(scale, 1.0) if at["antialias"] else 1.0
        reach = math.ceil((2 if kind == "cubic" else 1) / shrink)
        near = np.arange(math.floor(x) - reach + 1, math.floor(x) + reach + 1)
        d = np.abs(near - x) * shrink
        a = at["cubic_coeff_a"]
        if kind == "linear":
            w = np.clip(1 - d, 0, None)
        else:
            inner, outer = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            w = np.where(d <= 1, inner, np.where(d < 2, outer, 0))
        w = w / w.sum()
        if at["exclude_outside"]:
            w = np.where((near >= 0) & (near < n), w, 0)
            w = w / w.sum()
        result[o] = np.sum(row[np.clip(near, 0, n - 1)] * w)
    return result


def _resize(x: Array, **attrs: Any) -> Array:
    t = TensorType(dtypes.of_array(x), x.shape)
    shape: Any = _sizes(t, attrs["sizes"], attrs["scales"])
    outside = np.zeros([1] * x.ndim, np.bool_)
    for axis, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        scale = m / n if n else 1.0
        if attrs["scales"] is not None and np.float32(scale) != np.float32(attrs["scales"][axis]):
            scale = attrs["scales"][axis]
        crop = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
        roi = (attrs["roi"][axis], attrs["roi"][x.ndim + axis]) if crop else (0.0, 1.0)
        x = np.apply_along_axis(_line, axis, x, m, scale, roi, attrs) if x.size else np.empty(
            (*x.shape[:axis], m, *x.shape[axis + 1 :]), x.dtype)
        if crop:
            at = np.array([_source("tf_crop_and_resize", o, n, m, scale, roi) for o in range(m)])
            mask = (at < 0) | (at > n - 1)
            outside = outside | mask.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    if outside.any():
        x = np.where(outside, np.asarray(attrs["extrapolation_value"]).astype(x.dtype), x)
    return x


def _resize_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 1, 2, 5, 6)
    crop = "tf_crop_and_resize"
    found = [
        Sample((x,), {"scales": (1.0, 1.0, 2.0, 3.0), "coordinate_transformation_mode": "asymmetric",
                      "nearest_mode": "floor"}),
        Sample((x,), {"sizes": (1, 2, 3, 9)}),
        Sample((data(rng, dtype, 20),), {"scales": (0.3,), "nearest_mode": "round_prefer_ceil"}),
        Sample((x,), {"scales": (1.0, 1.0, 0.6, 0.7), "nearest_mode": "ceil"}),
        Sample((x,), {"sizes": (1, 2, 3, 4), "coordinate_transformation_mode": crop, "extrapolation_value": 3.0,
                      "roi": (0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7)}),
        Sample((data(rng, dtype, 0, 3),), {"sizes": (0, 6)}),
    ]
    if dtype not in dtypes.FLOATS:
        return found
    for i, (mode, where) in enumerate(itertools.product(("linear", "cubic"), COORDINATES)):
        attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where}
        if where == crop:
            attrs |= {"roi": (0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 0.7), "extrapolation_value": 10.0}
        if i % 2:
            attrs["sizes"] = (1, 2, 8, 3 + i)
        else:
            attrs["scales"] = (1.0, 1.0, 0.6 + 0.2 * i, 1.7)
        found.append(Sample((x,), attrs))
    for attrs in ({"antialias": True}, {"exclude_outside": True}, {"antialias": True, "exclude_outside": True}):
        found += [Sample((data(rng, dtype, 2, 9, 11),), {"sizes": (2, 4, 5), "mode": m, "cubic_coeff_a": -0.5, **attrs})
                  for m in ("linear", "cubic")]
    found.append(Sample((data(rng, dtype, 1, 1, 4, 33),), {"sizes": (1, 1, 1, 70), "mode": "linear",
                                                          "coordinate_transformation_mode": "pytorch_half_pixel"}))
    return found


resize = OpDef(
    "resize", ("x",), _infer_resize, _resize,
    "x sampled on another grid, axis by axis: sizes, or scales, of every axis. Modes and coordinates are those of "
    "ONNX Resize; beyond its ends an axis repeats its edge.",
    dtypes=dtypes.ALL,
    attrs=(
        Attr("sizes", "dims", None), Attr("scales", "floats", None), Attr("roi", "floats", None),
        Attr("mode", "str", "nearest", ("nearest", "linear", "cubic")),
        Attr("coordinate_transformation_mode", "str", "half_pixel", COORDINATES),
        Attr("nearest_mode", "str", "round_prefer_floor", NEAREST), Attr("cubic_coeff_a", "float", -0.75),
        Attr("exclude_outside", "bool", False), Attr("extrapolation_value", "float", 0.0),
        Attr("antialias", "bool", False),
    ),
    decompose=_decompose_resize, samples=_resize_samples, tolerance=_TOLERANCE,
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32),), {}, "must be given"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"scales": (1.0,)}, "entries"),
        ErrorSample((np.zeros((2, 3), np.float32),), {"scales": (1.0, 0.0)}, "> 0"),
        ErrorSample((np.zeros((2, 3), np.int32),), {"scales": (1.0, 2.0), "mode": "linear"}, "type must be one of"),
        ErrorSample((np.zeros((2, 0), np.float32),), {"sizes": (2, 3)}, "stay empty"),
        ErrorSample((np.zeros(3, np.float32),),
                    {"sizes": (2,), "coordinate_transformation_mode": "tf_crop_and_resize"}, "roi must"),
    ],
)


