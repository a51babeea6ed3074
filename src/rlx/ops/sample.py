"""Images read at points that data name, and the grids and patches that go with it."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, static_shape
from rlx.ops import index, unary, view
from rlx.ops._rules import Rng, data, require_dtype, require_rank, same_dtype
from rlx.ops.conv import geometry
from rlx.ops.matmul import matmul

FLOATS = dtypes.FLOATS
_TOLERANCE = Tolerance(rtol={"f32": 1e-4, "f64": 1e-11}, atol={"f32": 2e-5, "f64": 1e-12, "f16": 4e-3, "bf16": 4e-2})


def widened(x: Any) -> Any:
    """x in the type that an op computes in: f32 for half types."""
    return unary.cast(x, dtype=dtypes.f32) if x.dtype.is_half else x


def narrowed(y: Any, dtype: DType) -> Any:
    """y rounded to `dtype`, once."""
    return unary.cast(y, dtype=dtype) if y.dtype != dtype else y


# -- grid_sample ---------------------------------------------------------------


def _infer_grid_sample(x: TensorType, grid: TensorType, mode: str, padding_mode: str,
                       align_corners: bool) -> tuple[TensorType, ...]:
    require_dtype("grid_sample", same_dtype("grid_sample", [x, grid]), FLOATS)
    require_rank("grid_sample", x, 3, 5)
    rank = x.rank - 2
    if grid.rank != x.rank or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise TypeRuleError(f"grid_sample: grid must be [batch, points..., {rank}] of rank {x.rank}, "
                            f"got {grid} for {x}")
    return (x.with_shape((*x.shape[:2], *grid.shape[1:-1])),)


def _reflect(x: float, low: float, high: float) -> float:
    span = high - low
    if span <= 0:
        return low
    while x < low or x > high:
        x = 2 * low - x if x < low else 2 * high - x
    return x


def _grid_taps(at: float, n: int, mode: str, padding: str, align: bool) -> list[tuple[int | None, float]]:
    x = (at + 1) / 2 * (n - 1) if align else ((at + 1) * n - 1) / 2
    x = float(np.rint(x)) if mode == "nearest" else float(x)
    half = 0.0 if align else 0.5
    low, high = -half, n - 1 + half
    if not low <= x <= high:
        if padding == "border":
            x = min(max(x, 0.0), n - 1.0)
        elif padding == "reflection":
            x = _reflect(x, low, high)
    base = math.floor(x)
    r = x - base

    def place(i: int) -> int | None:
        if 0 <= i < n:
            return i
        if padding == "zeros":
            return None
        if padding == "reflection":
            i = int(_reflect(i, low, high))
        return min(max(i, 0), n - 1)

    if mode == "nearest":
        return [(place(base), 1.0)]
    if mode == "linear":
        return [(place(base), 1 - r), (place(base + 1), r)]
    a = -0.75
    d = (1 + r, r, 1 - r, 2 - r)
    w = [a * d[0] ** 3 - 5 * a * d[0] ** 2 + 8 * a * d[0] - 4 * a, (a + 2) * d[1] ** 3 - (a + 3) * d[1] ** 2 + 1,
         (a + 2) * d[2] ** 3 - (a + 3) * d[2] ** 2 + 1, a * d[3] ** 3 - 5 * a * d[3] ** 2 + 8 * a * d[3] - 4 * a]
    return [(place(base - 1 + k), w[k]) for k in range(4)]


def _grid_sample(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    space = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for at in np.ndindex(*grid.shape[:-1]):
        taps = [_grid_taps(float(c), n, mode, padding_mode, align_corners)
                for c, n in zip(grid[at][::-1], space, strict=True)]
        total = np.zeros(x.shape[1], x.dtype)
        for combination in itertools.product(*taps):
            if all(p is not None for p, _ in combination):
                w = math.prod(w for _, w in combination)
                total += x[(at[0], slice(None), *(p for p, _ in combination))] * x.dtype.type(w)
        out[(at[0], slice(None), *at[1:])] = total
    return out


def _grid_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    kinds = itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"))
    for i, (mode, padding) in enumerate(kinds):
        grid = rng.uniform(-1.6, 1.6, (2, 3, 5, 2)) + 0.003
        grid = np.where(rng.random(grid.shape) < 0.1, np.sign(grid) * 4.1, grid).astype(dtype.numpy)
        x = data(rng, dtype, 2, 3, 4, 6)
        if mode == "nearest" and dtype.is_half:  # ties would be decided by rounding of the coordinate
            x = np.ones_like(x)
        found.append(Sample((x, grid), {"mode": mode, "padding_mode": padding, "align_corners": i % 2 == 0}))
    deep = rng.uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(dtype.numpy)
    found.append(Sample((data(rng, dtype, 1, 2, 3, 4, 5), deep), {"mode": "linear"}))
    flat = rng.uniform(-1, 1, (1, 40, 1)).astype(dtype.numpy)
    found.append(Sample((data(rng, dtype, 1, 2, 9), flat), {"mode": "cubic", "align_corners": True}))
    return [*found, Sample((data(rng, dtype, 1, 0, 3, 3), data(rng, dtype, 1, 2, 2, 2)))]


grid_sample = OpDef(
    "grid_sample", ("x", "grid"), _infer_grid_sample, _grid_sample,
    "x [batch, channels, space...] read at points in [-1, 1] (last axis first); outside, a coordinate is clamped or "
    "reflected before its neighbours are.", dtypes=FLOATS, samples=_grid_samples, tolerance=_TOLERANCE,
    attrs=(Attr("mode", "str", "linear", ("nearest", "linear", "cubic")),
           Attr("padding_mode", "str", "zeros", ("zeros", "border", "reflection")),
           Attr("align_corners", "bool", False)),
    errors=lambda: [ErrorSample((np.zeros((1, 1, 3, 3)), np.zeros((1, 2, 2, 3))), {}, "grid must"),
                    ErrorSample((np.zeros((1, 1, 3, 3), np.float32), np.zeros((1, 2, 2, 2))), {}, "must match")],
)


# -- roi_align -----------------------------------------------------------------


def _infer_roi_align(x: TensorType, rois: TensorType, items: TensorType, output_size: tuple[int, ...], mode: str,
                     sampling_ratio: int, spatial_scale: float, half_pixel: bool) -> tuple[TensorType, ...]:
    require_dtype("roi_align", same_dtype("roi_align", [x, rois]), FLOATS)
    require_rank("roi_align", x, 4, 4)
    if items.dtype != dtypes.i64 or items.rank != 1 or rois.shape != (items.shape[0], 4):
        raise TypeRuleError(f"roi_align: rois must be [n, 4] and items i64 [n], got {rois} and {items}")
    if len(output_size) != 2 or any(n < 1 for n in output_size):
        raise TypeRuleError(f"roi_align: output_size must be two numbers >= 1, got {output_size}")
    if sampling_ratio < 0:
        raise TypeRuleError(f"roi_align: sampling_ratio must be >= 0, got {sampling_ratio}")
    return (x.with_shape((items.shape[0], x.shape[1], *output_size)),)


def _corner_values(plane: Array, y: float, x: float) -> list[Any]:
    h, w = plane.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return [np.zeros(len(plane))] * 4
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    y, x = (y0 if y0 >= h - 1 else y), (x0 if x0 >= w - 1 else x)
    ly, lx = y - y0, x - x0
    return [plane[:, y0, x0] * ((1 - ly) * (1 - lx)), plane[:, y0, x1] * ((1 - ly) * lx),
            plane[:, y1, x0] * (ly * (1 - lx)), plane[:, y1, x1] * (ly * lx)]


def _roi_align(x: Array, rois: Array, items: Array, output_size: tuple[int, ...], mode: str, sampling_ratio: int,
               spatial_scale: float, half_pixel: bool) -> Array:
    ph, pw = output_size
    out = np.zeros((len(rois), x.shape[1], ph, pw), x.dtype)
    shift = 0.5 if half_pixel else 0.0
    for r, by, bx in np.ndindex(len(rois), ph, pw):
        left, top, right, bottom = (float(v) * spatial_scale - shift for v in rois[r])
        wide, tall = right - left, bottom - top
        if not half_pixel:
            wide, tall = max(wide, 1.0), max(tall, 1.0)
        ny, nx = (sampling_ratio or max(math.ceil(tall / ph), 0)), (sampling_ratio or max(math.ceil(wide / pw), 0))
        values = []
        for iy, ix in np.ndindex(ny, nx):
            y = top + (by + (iy + 0.5) / ny) * tall / ph
            values.append(_corner_values(x[items[r]], y, left + (bx + (ix + 0.5) / nx) * wide / pw))
        if values:
            all_values = np.array(values)
            out[r, :, by, bx] = all_values.max((0, 1)) if mode == "max" else all_values.sum((0, 1)) / len(values)
    return out


def _roi_samples(dtype: DType, rng: Rng) -> list[Sample]:
    x = data(rng, dtype, 2, 3, 7, 9)
    rois = np.array([[0.3, 0.4, 6.1, 5.2], [1.1, 2.3, 2.2, 3.1], [-3.2, -2.1, 12.7, 11.1], [4.1, 4.2, 3.9, 3.3]])
    items = np.array([0, 1, -1, 0])
    found = []
    for i, mode in enumerate(("avg", "max", "avg", "max")):
        found.append(Sample((x, rois.astype(dtype.numpy), items), {
            "output_size": (2, 3), "mode": mode, "sampling_ratio": (2, 3, 1, 2)[i], "half_pixel": i > 1,
            "spatial_scale": 0.8}))
    found.append(Sample((x, rois[:2].astype(dtype.numpy), items[:2]), {"output_size": (2, 2)}))
    return [*found, Sample((x, np.zeros((0, 4), dtype.numpy), np.zeros(0, np.int64)), {"output_size": (1, 1)})]


roi_align = OpDef(
    "roi_align", ("x", "rois", "items"), _infer_roi_align, _roi_align,
    "Mean (or maximum of the weighted neighbours) over sample points in each bin of each region x1 y1 x2 y2 of batch "
    "entry items[i].", dtypes=FLOATS,
    attrs=(Attr("output_size", "ints"), Attr("mode", "str", "avg", ("avg", "max")), Attr("sampling_ratio", "int", 0),
           Attr("spatial_scale", "float", 1.0), Attr("half_pixel", "bool", True)),
    samples=_roi_samples, tolerance=Tolerance(rtol={"f32": 1e-4, "f64": 1e-11},
                                              atol={"f32": 5e-5, "f64": 1e-12, "f16": 2e-2, "bf16": 1e-1}),
    errors=lambda: [
        ErrorSample((np.zeros((1, 1, 3, 3)), np.zeros((2, 4)), np.zeros(3, np.int64)), {"output_size": (1, 1)},
                    "rois must"),
        ErrorSample((np.zeros((1, 1, 3, 3)), np.zeros((2, 4)), np.zeros(2, np.int64)), {"output_size": (1,)},
                    "output_size"),
    ],
)


# -- affine_grid ---------------------------------------------------------------


def _infer_affine_grid(theta: TensorType, size: tuple[AnyDim, ...], align_corners: bool) -> tuple[TensorType, ...]:
    require_dtype("affine_grid", theta.dtype, FLOATS)
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1) or theta.rank != 3 or theta.shape[0] != size[0]:
        raise TypeRuleError(f"affine_grid: theta must be [n, 2, 3] or [n, 3, 4] for a size [n, c, space...], "
                            f"got {theta} and {list(size)}")
    return (theta.with_shape((size[0], *size[2:], rank)),)


def _base_grid(space: Sequence[int], align: bool) -> Array:
    """Homogeneous coordinates of every place, last axis first: [places, rank + 1]."""
    lines = []
    for n in space:
        i = np.arange(n, dtype=np.float64)
        lines.append((2 * i / (n - 1) - 1 if n > 1 else i * 0) if align else (2 * i + 1) / max(n, 1) - 1)
    mesh = np.meshgrid(*lines, indexing="ij")
    return np.stack([*(m.reshape(-1) for m in reversed(mesh)), np.ones(math.prod(space))], 1)


def _affine_grid(theta: Array, size: tuple[int, ...], align_corners: bool) -> Array:
    base = _base_grid(size[2:], align_corners).astype(theta.dtype)
    return np.asarray((base @ theta.transpose(0, 2, 1)).reshape(size[0], *size[2:], len(size) - 2))


def _decompose_affine_grid(theta: Any, size: tuple[AnyDim, ...], align_corners: bool) -> Any:
    wide = widened(theta)
    base = _base_grid(static_shape(size[2:], "affine_grid"), align_corners).astype(wide.dtype.numpy)
    y = matmul(theta.graph.constant(base), view.transpose(wide, perm=(0, 2, 1)))
    return narrowed(view.reshape(y, shape=(size[0], *size[2:], len(size) - 2)), theta.dtype)


affine_grid = OpDef(
    "affine_grid", ("theta",), _infer_affine_grid, _affine_grid,
    "Points of a grid over [-1, 1] under affine maps, for grid_sample: [n, space..., rank].", dtypes=FLOATS,
    attrs=(Attr("size", "dims"), Attr("align_corners", "bool", False)), decompose=_decompose_affine_grid,
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, 2, 2, 3),), {"size": (2, 3, 4, 5), "align_corners": True}),
        Sample((data(rng, dtype, 1, 2, 3),), {"size": (1, 3, 1, 6), "align_corners": True}),
        Sample((data(rng, dtype, 2, 3, 4),), {"size": (2, 1, 2, 3, 4)}),
    ],
    errors=lambda: [ErrorSample((np.zeros((1, 2, 2), np.float32),), {"size": (1, 1, 2, 2)}, "theta must")],
    tolerance=Tolerance(rtol={"f32": 1e-5, "f64": 1e-12}, atol={"f32": 1e-5, "f64": 1e-13, "f16": 1e-2, "bf16": 6e-2}),
)


# -- col2im --------------------------------------------------------------------


def _blocks(image: Sequence[int], block: Sequence[int], strides: Any, pads: Any,
            dilations: Any) -> tuple[Any, list[int]]:
    g = geometry("col2im", len(image), strides, pads, dilations, 1)
    n = len(image)
    counts = [(image[d] + g.pads[d] + g.pads[n + d] - g.dilations[d] * (block[d] - 1) - 1) // g.strides[d] + 1
              for d in range(n)]
    return g, counts


def _infer_col2im(x: TensorType, image_shape: tuple[int, ...], block_shape: tuple[int, ...], strides: Any, pads: Any,
                  dilations: Any) -> tuple[TensorType, ...]:
    require_dtype("col2im", x.dtype, dtypes.REALS)
    require_rank("col2im", x, 3, 3)
    if not image_shape or len(image_shape) != len(block_shape) or any(n < 1 for n in (*image_shape, *block_shape)):
        raise TypeRuleError(f"col2im: image_shape and block_shape must be sizes >= 1 of one rank, "
                            f"got {image_shape} and {block_shape}")
    _, counts = _blocks(image_shape, block_shape, strides, pads, dilations)
    places, k = math.prod(max(c, 0) for c in counts), math.prod(block_shape)
    rows = x.shape[1]
    if (isinstance(rows, int) and rows % k) or x.shape[2] != places:
        raise TypeRuleError(f"col2im: x must be [n, c * {k}, {places}], got {x}")
    return (x.with_shape((x.shape[0], rows // k, *image_shape)),)


def _col2im_places(image: Sequence[int], block: Sequence[int], strides: Any, pads: Any, dilations: Any) -> Array:
    """Flat place in the image of every element of a column block, [k, blocks]; the image's size where outside."""
    g, counts = _blocks(image, block, strides, pads, dilations)
    places = np.zeros((math.prod(block), math.prod(counts)), np.int64)
    inside = np.ones_like(places, np.bool_)
    k = np.indices(block).reshape(len(block), -1)
    at = np.indices(counts).reshape(len(block), -1)
    for d, n in enumerate(image):
        i = at[d][None, :] * g.strides[d] + k[d][:, None] * g.dilations[d] - g.pads[d]
        inside &= (i >= 0) & (i < n)
        places = places * n + i
    return np.where(inside, places, math.prod(image))


def _col2im(x: Array, image_shape: tuple[int, ...], block_shape: tuple[int, ...], strides: Any, pads: Any,
            dilations: Any) -> Array:
    places = _col2im_places(image_shape, block_shape, strides, pads, dilations)
    n, c = x.shape[0], x.shape[1] // len(places)
    out = np.zeros((n, c, math.prod(image_shape) + 1), x.dtype)
    columns = x.reshape(n, c, *places.shape)
    for k, j in np.ndindex(*places.shape):
        out[:, :, places[k, j]] += columns[:, :, k, j]
    return out[:, :, :-1].reshape(n, c, *image_shape)


def _decompose_col2im(x: Any, image_shape: tuple[int, ...], block_shape: tuple[int, ...], strides: Any, pads: Any,
                      dilations: Any) -> Any:
    graph, wide = x.graph, widened(x)
    places = _col2im_places(image_shape, block_shape, strides, pads, dilations)
    n, c = x.shape[0], x.shape[1] // len(places)
    total = math.prod(image_shape)
    # elements first, so that whole rows of channels are added at once
    rows = view.transpose(view.reshape(wide, shape=(n * c, *places.shape)), perm=(1, 2, 0))
    rows = view.reshape(rows, shape=(places.size, n * c))
    zeros = view.expand(graph.constant(np.zeros((1, 1), wide.dtype.numpy)), shape=(total + 1, n * c))
    y = index.scatter_nd(zeros, graph.constant(places.reshape(-1, 1)), rows, reduction="add")
    y = view.transpose(view.slice(y, starts=(0,), stops=(total,), axes=(0,)), perm=(1, 0))
    return narrowed(view.reshape(y, shape=(n, c, *image_shape)), x.dtype)


def _col2im_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for image, block, more in (((5, 5), (2, 3), {}), ((5, 6), (2, 2), {"strides": (2, 2), "pads": (1, 0, 1, 0)}),
                               ((7,), (3,), {"dilations": (2,)}), ((3, 4, 5), (1, 2, 2), {"strides": (1, 2, 1)})):
        attrs: dict[str, Any] = {"strides": None, "pads": None, "dilations": None, **more}
        _, counts = _blocks(image, block, *attrs.values())
        x = data(rng, dtype, 2, 3 * math.prod(block), math.prod(counts))
        found.append(Sample((x,), {"image_shape": image, "block_shape": block, **more}))
    return found


col2im = OpDef(
    "col2im", ("x",), _infer_col2im, _col2im,
    "Columns of blocks [n, c * block, blocks] added up into an image [n, c, image...]: the transpose of taking blocks.",
    dtypes=dtypes.REALS, decompose=_decompose_col2im, samples=_col2im_samples,
    attrs=(Attr("image_shape", "ints"), Attr("block_shape", "ints"), Attr("strides", "ints", None),
           Attr("pads", "ints", None), Attr("dilations", "ints", None)),
    errors=lambda: [
        ErrorSample((np.zeros((1, 5, 4)),), {"image_shape": (3, 3), "block_shape": (2, 2)}, "x must be"),
        ErrorSample((np.zeros((1, 4, 4)),), {"image_shape": (3,), "block_shape": (2, 2)}, "one rank"),
    ],
    tolerance=Tolerance(atol={"f32": 1e-5, "f64": 1e-13, "f16": 1e-2, "bf16": 6e-2}),
)

