"""Boxes, regions of interest, resampling, deformable convolution."""

import itertools
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError, TypeRuleError
from rlx.ir.opdef import Attr, OpDef
from rlx.onnx.context import NodeContext
from rlx.onnx.ops_nn import window
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array


@onnx_op("NonMaxSuppression")
def _nms(n: NodeContext) -> Any:
    boxes, scores = n.x(0), n.x(1)
    limits = [n.opt(i) for i in (2, 3, 4)]
    limits = [None if v is None else ops.reshape(v, shape=()) for v in limits]
    rows, count = ops.TABLE["non_max_suppression_bounded"](
        boxes, scores, *limits, center_point_box=bool(n.int("center_point_box", 0))
    )
    return n.trimmed(rows, count)


# -- resampling -------------------------------------------------------------------------------


@onnx_op("Resize", "Upsample")
def _resize(n: NodeContext) -> Any:
    mode = n.str("mode", "nearest").replace("bilinear", "linear")
    attrs: dict[str, Any] = {"mode": mode}
    rank = n.rank(0)
    roi = sizes = None
    if n.node.op == "Upsample" or n.opset < 11:
        scales = n.floats("scales") if n.opset < 9 else _numbers(n, 1)
        attrs.update(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        axes = list(range(rank))
    else:
        given = [_numbers(n, i) for i in (1, 2, 3)]
        roi, scales, sizes = (v if v else None for v in given)
        attrs["coordinate_transformation_mode"] = n.str("coordinate_transformation_mode", "half_pixel")
        attrs["nearest_mode"] = n.str("nearest_mode", "round_prefer_floor")
        attrs["cubic_coeff_a"] = n.float("cubic_coeff_a", -0.75)
        attrs["exclude_outside"] = bool(n.int("exclude_outside", 0))
        attrs["extrapolation_value"] = n.float("extrapolation_value", 0.0)
        attrs["antialias"] = bool(n.int("antialias", 0))
        axes = [a + rank if a < 0 else a for a in n.ints("axes", None) or range(rank)]
    have = n.shape(0)
    if any(v is not None and len(v) != len(axes) * k for v, k in ((sizes, 1), (scales, 1), (roi, 2))):
        raise FormatError(f"sizes, scales and roi must fit {len(axes)} axes, got {sizes}, {scales}, {roi}")
    if sizes is not None:
        wanted = [int(s) for s in sizes]
        policy = n.str("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [w / have[a] for w, a in zip(wanted, axes, strict=True)]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            wanted = [int(np.floor(ratio * have[a] + 0.5)) for a in axes]
            attrs["scales"] = _on_axes([1.0] * rank, axes, [ratio] * len(axes))
        attrs["sizes"] = _on_axes(list(have), axes, wanted)
    elif scales is not None:
        attrs["scales"] = _on_axes([1.0] * rank, axes, scales)
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        ends = roi or [0.0] * len(axes) + [1.0] * len(axes)
        attrs["roi"] = _on_axes([0.0] * rank, axes, ends[: len(axes)]) + _on_axes([1.0] * rank, axes, ends[len(axes) :])
    x = n.x(0)
    if n.opset < 11 and mode == "nearest" and min(attrs["scales"], default=1) < 1:
        # rounds down where an axis grows and up where it shrinks
        grown = [max(1.0, s) for s in attrs["scales"]]
        x = ops.resize(x, **{**attrs, "scales": grown})
        shrunk = [min(1.0, s) for s in attrs["scales"]]
        return ops.resize(x, **{**attrs, "scales": shrunk, "nearest_mode": "ceil"})
    if mode == "nearest" or x.dtype.is_float:
        return ops.resize(x, **attrs)
    return ops.cast(ops.resize(ops.cast(x, dtype=dtypes.f32), **attrs), dtype=x.dtype)


def _numbers(n: NodeContext, i: int) -> list[Any] | None:
    if not n.has(i) or n.item(i) is None:
        return None
    found: list[Any] = np.asarray(n.const(i)).reshape(-1).tolist()
    return found


def _on_axes(base: list[Any], axes: list[int], values: Any) -> list[Any]:
    result = list(base)
    for axis, value in zip(axes, values, strict=True):
        result[axis] = value
    return result


@onnx_op("GridSample")
def _grid_sample(n: NodeContext) -> Any:
    x, grid = n.x(0), n.x(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(n.str("mode", "linear"), n.str("mode", "linear"))
    grid = grid if grid.dtype == x.dtype else ops.cast(grid, dtype=x.dtype)
    return ops.grid_sample(
        x, grid, mode=mode, padding_mode=n.str("padding_mode", "zeros"), align_corners=bool(n.int("align_corners", 0))
    )


@onnx_op("AffineGrid")
def _affine_grid(n: NodeContext) -> Any:
    size = n.const_ints(1)
    return ops.affine_grid(n.x(0), size=size, align_corners=bool(n.int("align_corners", 0)))


@onnx_op("RoiAlign")
def _roi_align(n: NodeContext) -> Any:
    half = n.opset >= 16 and n.str("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    return ops.roi_align(
        n.x(0),
        n.x(1),
        n.x(2),
        output_size=(n.int("output_height", 1), n.int("output_width", 1)),
        mode=n.str("mode", "avg"),
        sampling_ratio=n.int("sampling_ratio", 0),
        spatial_scale=n.float("spatial_scale", 1.0),
        half_pixel=half,
    )


@onnx_op("Col2Im")
def _col2im(n: NodeContext) -> Any:
    image, block = n.const_ints(1), n.const_ints(2)
    return ops.col2im(
        n.x(0),
        image_shape=image,
        block_shape=block,
        strides=n.ints("strides", None),
        pads=n.ints("pads", None),
        dilations=n.ints("dilations", None),
    )


# -- deformable convolution -------------------------------------------------------------------


def _bilinear(x: Array, y: Array, c: Array) -> Array:
    """x [..., H, W] at real places (y, c), zero outside."""
    height, width = x.shape[-2:]
    y0, c0 = np.floor(y), np.floor(c)
    result = np.zeros((*x.shape[:-2], *y.shape), x.dtype)
    for dy, dc in ((0, 0), (0, 1), (1, 0), (1, 1)):
        yy, cc = y0 + dy, c0 + dc
        weight = (1 - np.abs(y - yy)) * (1 - np.abs(c - cc))
        inside = (yy >= 0) & (yy < height) & (cc >= 0) & (cc < width)
        values = x[..., np.clip(yy, 0, height - 1).astype(int), np.clip(cc, 0, width - 1).astype(int)]
        result += (values * np.where(inside, weight, 0)).astype(x.dtype)
    return result


@onnx_op("DeformConv")
def _deform_conv(n: NodeContext) -> Any:
    """The sampled columns are gathered on the host, the product runs as a matrix product."""
    if n.rank(0) != 4:
        raise FormatError(f"the operand must have rank 4, got shape {list(n.shape(0))}")
    batch, channels, height, width = n.shape(0)
    out_channels, per_group, kh, kw = n.shape(1)
    groups, offset_groups = n.int("group", 1), n.int("offset_group", 1)
    w = window(n, (height, width), n.ints("kernel_shape", None) or (kh, kw))
    oh, ow = n.shape(2)[2:]

    def columns(x: Array, offset: Array, mask: Array | None = None) -> Array:
        moved = offset.reshape(batch, offset_groups, kh * kw, 2, oh, ow)
        rows = np.arange(oh)[:, None] * w.strides[0] - w.pads[0]
        cols = np.arange(ow)[None, :] * w.strides[1] - w.pads[1]
        found = np.zeros((batch, channels, kh * kw, oh, ow), x.dtype)
        each = channels // offset_groups
        for b, g, tap in itertools.product(range(batch), range(offset_groups), range(kh * kw)):
            y = rows + (tap // kw) * w.dilations[0] + moved[b, g, tap, 0]
            c = cols + (tap % kw) * w.dilations[1] + moved[b, g, tap, 1]
            values = _bilinear(x[b, g * each : (g + 1) * each], y, c)
            if mask is not None:
                values = values * mask.reshape(batch, offset_groups, kh * kw, oh, ow)[b, g, tap]
            found[b, g * each : (g + 1) * each, tap] = values
        return found.reshape(batch, groups, per_group * kh * kw, oh * ow)

    items = [n.item(0), n.item(2)] + ([n.item(4)] if n.has(4) else [])
    sampled = n.host(columns, items)
    bias = n.item(3) if n.has(3) else None
    weights = ops.reshape(n.x(1), shape=(1, groups, out_channels // groups, -1))
    y = ops.reshape(ops.matmul(weights, n.tracer.value(sampled)), shape=(batch, out_channels, oh, ow))
    return y if bias is None else ops.add(y, ops.reshape(n.tracer.value(bias), shape=(-1, 1, 1)))


def _max_roi_pool(x: Array, rois: Array, *, size: tuple[int, ...], scale: float) -> Array:
    """Largest element of each cell of a grid over each region; cells without elements are 0."""
    result = np.zeros((len(rois), x.shape[1], *size), x.dtype)
    height, width = x.shape[2:]
    for r, roi in enumerate(rois):
        image = int(roi[0])
        if not 0 <= image < len(x):
            raise IndexError(f"the image of region {r} must be in [0, {len(x)}), got {image}")
        corners = [int(np.copysign(np.floor(abs(v) * scale + 0.5), v)) for v in roi[1:5].tolist()]  # halves outwards
        left, top, right, bottom = corners
        step_h = max(bottom - top + 1, 1) / size[0]
        step_w = max(right - left + 1, 1) / size[1]
        for i, j in np.ndindex(*size):
            y0, y1 = (min(max(int(f(k * step_h)) + top, 0), height) for f, k in ((np.floor, i), (np.ceil, i + 1)))
            x0, x1 = (min(max(int(f(k * step_w)) + left, 0), width) for f, k in ((np.floor, j), (np.ceil, j + 1)))
            if y1 > y0 and x1 > x0:
                result[r, :, i, j] = x[image, :, y0:y1, x0:x1].max(axis=(1, 2))
    return result


def _max_roi_pool_op() -> OpDef:
    if "onnx.MaxRoiPool" in ops.TABLE:
        return ops.TABLE["onnx.MaxRoiPool"]
    from rlx.custom import CustomOp
    from rlx.ir.custom import type_rule

    def shape(x: Any, rois: Any, *, size: tuple[int, ...], scale: float) -> Any:
        if len(x) != 4 or len(rois) != 2 or rois[1] != 5 or len(size) != 2 or min(size) < 1:
            raise TypeRuleError("onnx.MaxRoiPool: operands must be [N, C, H, W] and [regions, 5], size two numbers, "
                                f"got {list(x)}, {list(rois)} and {size}")
        return (rois[0], x[1], *size)

    op = CustomOp("onnx.MaxRoiPool", ("x", "rois"), type_rule("onnx.MaxRoiPool", 1, None, shape, None, dtypes.FLOATS),
                  _max_roi_pool, "Largest elements in a grid of cells over regions of images.",
                  attrs=(Attr("size", "ints"), Attr("scale", "float", 1.0)), dtypes=dtypes.FLOATS,
                  traits=frozenset({"custom"}))
    ops.TABLE[op.name] = op
    return op


@onnx_op("MaxRoiPool")
def _max_roi(n: NodeContext) -> Any:
    return _max_roi_pool_op()(n.x(0), n.x(1), size=tuple(n.ints("pooled_shape")), scale=n.float("spatial_scale", 1.0))
