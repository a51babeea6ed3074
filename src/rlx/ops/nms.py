"""Non-maximum suppression."""

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType, f32
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, Dim
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, require_dtype, require_rank, same_dtype

_INPUTS = ("boxes", "scores", "max_output?", "iou_threshold?", "score_threshold?")
_ATTRS = (Attr("center_point_box", "bool", False),)


def _check(
    boxes: TensorType,
    scores: TensorType,
    max_output: TensorType | None,
    iou: TensorType | None,
    score: TensorType | None,
) -> AnyDim:
    """Check the operands; returns the largest number of rows."""
    op = "non_max_suppression"
    require_dtype(op, same_dtype(op, [t for t in (boxes, scores, iou, score) if t is not None]), (f32,))
    require_rank(op, boxes, 3, 3, "boxes")
    require_rank(op, scores, 3, 3, "scores")
    if boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise TypeRuleError(
            f"{op}: boxes must be [batch, boxes, 4] and scores [batch, classes, boxes], got {boxes} and {scores}"
        )
    for name, t in (("max_output", max_output), ("iou_threshold", iou), ("score_threshold", score)):
        if t is not None and t.shape not in ((), (1,)):
            raise TypeRuleError(f"{op}: {name} must be one number, got {t}")
    if max_output is not None and max_output.dtype != dtypes.i64:
        raise TypeRuleError(f"{op}: max_output type must be i64, got {max_output.dtype}")
    return scores.size


def _infer(
    boxes: TensorType,
    scores: TensorType,
    max_output: TensorType | None = None,
    iou_threshold: TensorType | None = None,
    score_threshold: TensorType | None = None,
    *,
    center_point_box: bool,
) -> tuple[TensorType, ...]:
    _check(boxes, scores, max_output, iou_threshold, score_threshold)
    return (TensorType(dtypes.i64, (Dim.symbol("unbacked0"), 3)),)


def _infer_bounded(
    boxes: TensorType,
    scores: TensorType,
    max_output: TensorType | None = None,
    iou_threshold: TensorType | None = None,
    score_threshold: TensorType | None = None,
    *,
    center_point_box: bool,
) -> tuple[TensorType, ...]:
    most = _check(boxes, scores, max_output, iou_threshold, score_threshold)
    return (TensorType(dtypes.i64, (most, 3)), TensorType(dtypes.i64, (1,)))


def _corners(b: Array, center: bool) -> Array:
    if center:
        x, y, w, h = b.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
    return np.concatenate([np.minimum(b[:, :2], b[:, 2:]), np.maximum(b[:, :2], b[:, 2:])], -1)


def _overlap(a: Array, b: Array) -> float:
    high, low = np.minimum(a[2:], b[2:]), np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(high - low, 0)))
    areas = float(np.prod(a[2:] - a[:2])), float(np.prod(b[2:] - b[:2]))
    if common <= 0 or min(areas) <= 0:
        return 0.0
    return common / (areas[0] + areas[1] - common)


def _nms(boxes: Array, scores: Array, max_output: Array | None = None, iou_threshold: Array | None = None,
         score_threshold: Array | None = None, *, center_point_box: bool) -> Array:
    most = 0 if max_output is None else int(max_output.reshape(()))
    iou = 0.0 if iou_threshold is None else float(iou_threshold.reshape(()))
    found = []
    for item in range(scores.shape[0]):
        corners = _corners(boxes[item], center_point_box)
        for c in range(scores.shape[1]):
            row = scores[item, c]
            alive = ~np.isnan(row)
            if score_threshold is not None:
                alive &= row > float(score_threshold.reshape(()))
            kept: list[int] = []
            for i in np.argsort(-row, kind="stable"):
                if len(kept) >= most:
                    break
                if alive[i] and all(_overlap(corners[i], corners[j]) <= iou for j in kept):
                    kept.append(int(i))
            found += [(item, c, i) for i in kept]
    return np.asarray(found, np.int64).reshape(-1, 3)


def _bounded(boxes: Array, scores: Array, *rest: Array | None, center_point_box: bool) -> tuple[Array, Array]:
    found = _nms(boxes, scores, *rest, center_point_box=center_point_box)
    out = np.zeros((scores.size, 3), np.int64)
    out[: len(found)] = found
    return out, np.array([len(found)])


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    corner = rng.uniform(0, 6, (2, 30, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(-3, 3, (2, 30, 2))], -1).astype(np.float32)
    center = np.concatenate([corner, rng.uniform(0.5, 3, (2, 30, 2))], -1).astype(np.float32)
    scores = rng.uniform(0, 1, (2, 3, 30)).astype(np.float32)
    scores[0, 0, 5] = scores[0, 0, 9]
    scores[1, 2, 3] = np.nan
    most, iou, least = np.array(7), np.float32(0.3).reshape(()), np.float32(0.4).reshape(1)
    return [
        Sample((boxes, scores, most, iou, least)),
        Sample((boxes, scores, most.reshape(1), iou)),
        Sample((boxes, scores, most)),
        Sample((boxes, scores)),
        Sample((center, scores, np.array(100), iou), {"center_point_box": True}),
        Sample((boxes[:, :0], scores[:, :, :0], most, iou)),
        Sample((boxes[:1, :1], scores[:1, :1, :1], most, iou, least)),
    ]


def _errors() -> list[ErrorSample]:
    b, s = np.zeros((1, 5, 4), np.float32), np.zeros((1, 2, 5), np.float32)
    return [
        ErrorSample((b[..., :3], s), {}, "boxes must be"),
        ErrorSample((b, s, np.zeros(2, np.int64)), {}, "one number"),
        ErrorSample((b, s, np.zeros((), np.float32)), {}, "max_output type"),
        ErrorSample((b.astype(np.float64), s), {}, "types must match"),
    ]


non_max_suppression = OpDef(
    "non_max_suppression",
    _INPUTS,
    _infer,
    _nms,
    "Rows (batch, class, box) of boxes kept in falling order of score, none overlapping a kept one of its "
    "class by more than the "
    "threshold (0 if absent); at most max_output (0 if absent) per class.",
    attrs=_ATTRS,
    dtypes=(f32,),
    traits=frozenset({"dynamic", "exact"}),
    samples=_samples,
    errors=_errors,
    tolerance=EXACT,
)
non_max_suppression_bounded = OpDef(
    "non_max_suppression_bounded",
    _INPUTS,
    _infer_bounded,
    _bounded,
    "non_max_suppression at its largest size, and the number of rows.",
    attrs=_ATTRS,
    dtypes=(f32,),
    traits=frozenset({"exact"}),
    samples=_samples,
    tolerance=EXACT,
    internal=True,
)
