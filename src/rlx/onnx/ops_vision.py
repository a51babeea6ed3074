"""Boxes, regions of interest, resampling, deformable convolution."""

import itertools
from typing import Any

import numpy as np

from rlx import ops
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.ops_nn import window
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array


def _corners(boxes: Array, centre: bool) -> Array:
    """[y1, x1, y2, x2] with y1 <= y2 and x1 <= x2."""
    if centre:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def _suppress(boxes: Array, scores: Array, most: int, overlap: float, least: float) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least] if np.isfinite(least) else order
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        low, high = np.maximum(boxes[best, :2], boxes[rest, :2]), np.minimum(boxes[best, 2:], boxes[rest, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[rest] - shared
        ratio = np.where(union > 0, shared / np.where(union > 0, union, 1), 0)
        order = rest[ratio <= overlap]
    return kept


@onnx_op("NonMaxSuppression")
def _nms(n: NodeContext) -> Any:
    centre = bool(n.int("center_point_box", 0))

    def run(boxes: Array, scores: Array, most: Any = None, overlap: Any = None, least: Any = None) -> Array:
        count = 0 if most is None else int(np.asarray(most).reshape(-1)[0])
        limit = 0.0 if overlap is None else float(np.asarray(overlap).reshape(-1)[0])
        floor = -np.inf if least is None else float(np.asarray(least).reshape(-1)[0])
        found = []
        for b, c in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
            kept = _suppress(_corners(boxes[b], centre), scores[b, c], count, limit, floor)
            found += [(b, c, i) for i in kept]
        return np.asarray(found, np.int64).reshape(-1, 3)

    return n.host(run, [n.item(i) for i in range(n.n_inputs)])


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
