"""Non-maximum suppression against ONNX Runtime."""

import numpy as np
import onnx
import onnx_node
import pytest

from rlx.lower.context import workspaces
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_kernel

LEVELS = available_levels()


def nms(boxes, scores, max_output=None, iou=None, score=None, center=0, level=None, threads=1):
    batch, classes, n = scores.shape
    capacity = min(n, max_output[0]) if max_output is not None else 0
    selected = np.full((batch * classes, capacity), -1, np.int64)
    counts = np.full(batch * classes, -1, np.int64)
    size = n * 8 + capacity * 20
    call_kernel("nms.f32", [boxes, scores, max_output, iou, score, selected, counts,
                            np.zeros(max(8, size * workspaces(threads)), np.uint8)],
                dict(batch=batch, classes=classes, boxes=n, capacity=capacity, center=center,
                     ws=size), extent=batch * classes, level=level, threads=threads)
    out = np.full((counts.sum(), 3), -1, np.int64)
    call_kernel("nms_compact.i64", [selected, counts, out],
                dict(batch=batch, classes=classes, capacity=capacity), extent=1, level=level)
    return out


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("n", [1, 40, 300])
def test_onnxruntime(n, center, level):
    rng = np.random.default_rng(n)
    boxes = rng.uniform(0, 1, (2, n, 4)).astype(np.float32)
    scores = np.round(rng.uniform(0, 1, (2, 3, n)), 2).astype(np.float32)  # with ties
    for limit, iou, score in ((10, 0.3, 0.2), (n, 0.5, None), (5, None, 0.9), (n, 1.0, 0.0)):
        ins = [boxes, scores, np.array([limit]), *(
            None if v is None else np.array([v], np.float32) for v in (iou, score))]
        used = ins if score is not None else ins[:4]
        want = onnx_node.session("NonMaxSuppression", used, 1, opset=11, center_point_box=center,
                                 out_types=[onnx.TensorProto.INT64])()[0]
        np.testing.assert_array_equal(nms(*ins, center=center, level=level, threads=2), want)


def test_nan_scores_empty_and_absent_limit():
    boxes = np.array([[[0, 0, 1, 1], [2, 2, 3, 3], [0, 0, 0, 0]]], np.float32)
    scores = np.array([[[np.nan, 0.5, 0.4]]], np.float32)
    limit = np.array([3])
    np.testing.assert_array_equal(nms(boxes, scores, limit), [[0, 0, 1], [0, 0, 2]])
    assert nms(boxes, scores).shape == (0, 3)
    assert nms(boxes[:, :0], scores[..., :0], limit).shape == (0, 3)
