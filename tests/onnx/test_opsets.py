"""Ops whose meaning or form changed between opsets, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx.testing.onnx_models import proto

ort = pytest.importorskip("onnxruntime")

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
I64 = np.int64
Case = tuple[str, int, list[Any], dict[str, Any], int]

CASES: list[Case] = [
    ("Squeeze", 7, [X[:1]], {"axes": [0]}, 1),
    ("Squeeze", 11, [X[:1]], {"axes": [-4]}, 1),
    ("Squeeze", 13, [X[:1], I64([0])], {}, 1),
    ("Squeeze", 13, [X[:1, :1]], {}, 1),
    ("Unsqueeze", 7, [X], {"axes": [0, 5]}, 1),
    ("Unsqueeze", 13, [X, I64([-1, 0])], {}, 1),
    ("ReduceSum", 7, [X], {"axes": [1, 3], "keepdims": 0}, 1),
    ("ReduceSum", 13, [X, I64([1, 3])], {"keepdims": 0}, 1),
    ("ReduceSum", 13, [X], {}, 1),
    ("ReduceSum", 13, [X], {"noop_with_empty_axes": 1}, 1),
    ("ReduceMean", 7, [X], {"axes": [-1]}, 1),
    ("ReduceMean", 18, [X, I64([-1])], {}, 1),
    ("ReduceMax", 11, [X], {"axes": [2]}, 1),
    ("ReduceMax", 18, [X, I64([2])], {"keepdims": 0}, 1),
    ("ReduceL2", 13, [X], {"axes": [0]}, 1),
    ("ReduceLogSumExp", 13, [X], {"axes": [0, 1]}, 1),
    ("Slice", 7, [X], {"starts": [0, 1], "ends": [2, 100], "axes": [0, 2]}, 1),
    ("Slice", 10, [X, I64([-1]), I64([-100]), I64([3]), I64([-2])], {}, 1),
    ("Slice", 13, [X, I64([1]), I64([3]), I64([-2])], {}, 1),
    ("Slice", 13, [X, I64([3, 10]), I64([-9, -9]), I64([2, 3]), I64([-1, -3])], {}, 1),
    ("Slice", 13, [X, I64([5]), I64([2])], {}, 1),
    ("Clip", 7, [X], {"min": -0.5, "max": 0.25}, 1),
    ("Clip", 7, [X], {}, 1),
    ("Clip", 11, [X, np.float32(-0.5)], {}, 1),
    ("Clip", 13, [X, None, np.float32(0.1)], {}, 1),
    ("Clip", 13, [X, np.float32(1), np.float32(-1)], {}, 1),
    ("Clip", 13, [(X * 9).astype(np.int32), np.int32(-3), np.int32(4)], {}, 1),
    ("Split", 7, [X], {"axis": 3, "split": [2, 3]}, 2),
    ("Split", 13, [X, I64([1, 4])], {"axis": -1}, 2),
    ("Split", 13, [X], {"axis": 2}, 2),
    ("Split", 18, [X], {"axis": 3, "num_outputs": 2}, 2),
    ("Pad", 7, [X], {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 3.0}, 1),
    ("Pad", 11, [X, I64([0, 1, 0, 0, 0, 0, 2, 1]), np.float32(7)], {}, 1),
    ("Pad", 11, [X, I64([0, 0, 1, 2, 0, 0, 2, 1])], {"mode": "reflect"}, 1),
    ("Pad", 13, [X, I64([0, 0, 1, 2, 0, 0, 2, 1])], {"mode": "edge"}, 1),
    ("Pad", 13, [X, I64([0, 0, -1, -2, 0, 0, 2, 1])], {}, 1),
    ("Pad", 18, [X, I64([1, 2]), np.float32(1), I64([3])], {}, 1),
    ("Pad", 19, [X, I64([0, 0, 1, 2, 0, 0, 2, 1])], {"mode": "wrap"}, 1),
    ("Softmax", 7, [X], {}, 1),
    ("Softmax", 11, [X], {"axis": 2}, 1),
    ("Softmax", 11, [X], {"axis": -1}, 1),
    ("Softmax", 13, [X], {}, 1),
    ("Softmax", 13, [X], {"axis": 1}, 1),
    ("LogSoftmax", 11, [X], {"axis": 1}, 1),
    ("LogSoftmax", 13, [X], {"axis": 0}, 1),
    ("Hardmax", 11, [X], {"axis": 1}, 1),
    ("Hardmax", 13, [X], {"axis": 1}, 1),
    ("TopK", 7, [X], {"k": 2, "axis": 2}, 2),
    ("TopK", 10, [X, I64([3])], {}, 2),
    ("TopK", 11, [X, I64([2])], {"largest": 0, "axis": 1}, 2),
    ("Dropout", 7, [X], {"ratio": 0.3}, 1),
    ("Dropout", 10, [X], {}, 1),
    ("Dropout", 13, [X], {}, 1),
    ("BatchNormalization", 7, [X, *(abs(X[0, :, 0, i]) + 1 for i in range(4))], {"epsilon": 1e-2}, 1),
    ("BatchNormalization", 9, [X, *(abs(X[0, :, 0, i]) + 1 for i in range(4))], {}, 1),
    ("BatchNormalization", 15, [X, *(abs(X[0, :, 0, i]) + 1 for i in range(4))], {}, 1),
    ("Upsample", 7, [X], {"scales": [1.0, 1.0, 2.0, 3.0]}, 1),
    ("Upsample", 9, [X, np.float32([1, 1, 2, 2])], {"mode": "linear"}, 1),
    ("Resize", 10, [X, np.float32([1, 1, 2, 0.6])], {}, 1),
    ("Resize", 10, [X, np.float32([1, 1, 2, 1.5])], {"mode": "linear"}, 1),
    ("Resize", 11, [X, np.zeros(0, np.float32), np.zeros(0, np.float32), I64([2, 3, 7, 9])], {"mode": "linear"}, 1),
    (
        "Resize",
        13,
        [X, None, np.float32([1, 1, 2, 3])],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        1,
    ),
    ("Resize", 13, [X, None, None, I64([2, 3, 3, 9])], {"mode": "cubic"}, 1),
    (
        "Resize",
        18,
        [X, None, None, I64([8, 2])],
        {"axes": [3, 2], "mode": "linear", "coordinate_transformation_mode": "align_corners"},
        1,
    ),
    ("Reshape", 7, [X, I64([0, -1])], {}, 1),
    ("Reshape", 14, [X, I64([2, 0, -1])], {}, 1),
    ("Reshape", 13, [X[:0], I64([0, -1, 5])], {}, 1),
    ("Flatten", 7, [X], {"axis": 2}, 1),
    ("Flatten", 11, [X], {"axis": -1}, 1),
    ("Flatten", 11, [X], {"axis": 0}, 1),
    ("Expand", 8, [X[:1, :, :1], I64([2, 1, 4, 1])], {}, 1),
    ("Tile", 7, [X, I64([1, 2, 1, 3])], {}, 1),
    ("Gather", 7, [X, I64([[0, 1], [1, 0]])], {"axis": 1}, 1),
    ("Gather", 11, [X, I64([-1, 0])], {"axis": -1}, 1),
    ("Gather", 13, [X, np.int32(1)], {"axis": 2}, 1),
    ("OneHot", 9, [I64([[0, -1], [2, 5]]), I64(3), np.float32([0.5, 2])], {}, 1),
    ("OneHot", 11, [I64([0, 1]), I64([3]), np.float32([0, 1])], {"axis": 0}, 1),
    ("CumSum", 11, [X, np.int32(1)], {"exclusive": 1, "reverse": 1}, 1),
    ("ArgMax", 7, [X], {"axis": 2, "keepdims": 0}, 1),
    (
        "ArgMax",
        12,
        [
            np.round(X),
        ],
        {"axis": 1, "select_last_index": 1},
        1,
    ),
    ("ArgMin", 11, [X], {"axis": -1}, 1),
    ("Gemm", 7, [X[0, 0], X[0, 1].T, X[0, 0, :, 0]], {"alpha": 0.5, "beta": 2.0}, 1),
    ("Gemm", 11, [X[0, 0], X[0, 1]], {"transA": 1}, 1),
    ("Gemm", 13, [X[0, 0], X[0, 1], X[0, 0, :, :1].copy()[:, 0]], {"transB": 1}, 1),
    ("MatMul", 9, [X, X.swapaxes(2, 3).copy()], {}, 1),
    ("Max", 8, [X, X[:1], X[:, :1]], {}, 1),
    ("Min", 13, [X, X[0]], {}, 1),
    ("Sum", 8, [X, X[0], X[0, 0]], {}, 1),
    ("Mean", 8, [X, X[:1]], {}, 1),
    ("Mod", 10, [np.int32([-7, 7, -7]), np.int32([3, -3, -3])], {}, 1),
    ("Mod", 10, [np.float32([-7.5, 7]), np.float32([2, -3])], {"fmod": 1}, 1),
    ("Pow", 7, [abs(X), X], {}, 1),
    ("Pow", 12, [X, I64(2)], {}, 1),
    ("Pow", 13, [np.int32([2, 3]), np.float32([3, 2])], {}, 1),
    ("Pow", 13, [X, np.float32(2)], {}, 1),
    ("PRelu", 9, [X, X[0, :, :1, :1].copy()], {}, 1),
    ("Where", 9, [X > 0, X, X[0]], {}, 1),
    ("IsInf", 10, [np.float32([np.inf, -np.inf, 1])], {"detect_negative": 0}, 1),
    ("DepthToSpace", 7, [np.arange(72, dtype=np.float32).reshape(1, 8, 3, 3)], {"blocksize": 2}, 1),
    ("DepthToSpace", 11, [np.arange(72, dtype=np.float32).reshape(1, 8, 3, 3)], {"blocksize": 2, "mode": "CRD"}, 1),
    ("SpaceToDepth", 13, [X[:, :, :, :4].copy()], {"blocksize": 2}, 1),
    ("LRN", 7, [X], {"size": 3}, 1),
    ("LRN", 13, [X], {"size": 2, "alpha": 0.01}, 1),
    ("InstanceNormalization", 7, [X, X[0, :, 0, 0].copy(), X[0, :, 0, 1].copy()], {}, 1),
    ("LayerNormalization", 17, [X, X[0, 0, 0], X[0, 0, 1]], {}, 1),
    ("LayerNormalization", 17, [X, X[0, 0], X[0, 1]], {"axis": 2}, 1),
    ("LpNormalization", 7, [X], {"axis": 1, "p": 1}, 1),
    ("Conv", 7, [X, X[:, :, :2, :3].copy()], {"pads": [1, 0, 0, 2], "strides": [2, 1]}, 1),
    ("Conv", 11, [X, X[:, :, :2, :2].copy()], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 1),
    ("Conv", 11, [X, X[:, :, :2, :2].copy()], {"auto_pad": "SAME_LOWER"}, 1),
    ("Conv", 11, [X, X[:, :, :2, :2].copy()], {"auto_pad": "VALID", "dilations": [2, 1]}, 1),
    ("Conv", 11, [X[:, :, :, 0].copy(), X[:, :, :2, 0].copy(), np.float32([1, 2])], {}, 1),
    ("ConvTranspose", 11, [X, X[0, :, None, :2, :3].copy()], {"strides": [2, 2], "output_padding": [1, 1]}, 1),
    ("ConvTranspose", 11, [X, X[0, :, None, :2, :3].copy()], {"strides": [2, 2], "output_shape": [9, 10]}, 1),
    ("ConvTranspose", 11, [X, X[0, :, None, :3, :3].copy()], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, 1),
    ("MaxPool", 8, [X], {"kernel_shape": [2, 2], "strides": [1, 2]}, 2),
    ("MaxPool", 10, [X], {"kernel_shape": [3, 2], "ceil_mode": 1, "strides": [2, 2]}, 1),
    ("MaxPool", 11, [X], {"kernel_shape": [2, 2], "dilations": [2, 2]}, 1),
    ("MaxPool", 7, [X], {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, 1),
    ("AveragePool", 7, [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 1),
    ("AveragePool", 10, [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 1),
    ("AveragePool", 11, [X], {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}, 1),
    ("GlobalAveragePool", 7, [X], {}, 1),
    ("GlobalMaxPool", 7, [X], {}, 1),
    ("Cast", 9, [X * 10], {"to": 6}, 1),
    ("Cast", 13, [X], {"to": 9}, 1),
    ("Cast", 13, [X], {"to": 10}, 1),
    ("QuantizeLinear", 10, [X, np.float32(0.02), np.uint8(128)], {}, 1),
    ("QuantizeLinear", 13, [X, np.float32([0.02, 0.01, 0.03]), np.int8([0, 1, 2])], {"axis": 1}, 1),
    ("DequantizeLinear", 13, [np.int8([[1, -2], [3, 4]]), np.float32([0.5, 2]), np.int8([0, 1])], {"axis": 0}, 1),
    ("DynamicQuantizeLinear", 11, [X], {}, 3),
    ("GatherElements", 11, [X, I64(np.argsort(X, 2))], {"axis": 2}, 1),
    ("GatherND", 12, [X, I64([[[0], [1]], [[2], [0]]])], {"batch_dims": 1}, 1),
    ("ScatterElements", 16, [X[0, 0], I64([[0, 1, 0, 2, 3]]), X[0, 1, :1].copy()], {"reduction": "add"}, 1),
    ("ScatterND", 11, [X, I64([[0, 1], [1, 2]]), X[0, :2].copy()], {}, 1),
    ("NonZero", 9, [np.round(X)], {}, 1),
    ("Unique", 11, [np.round(X[0, 0])], {"axis": 0}, 4),
    ("Unique", 11, [np.round(X)], {"sorted": 0}, 4),
    ("Compress", 11, [X, np.array([False, True, True])], {"axis": 1}, 1),
    ("Trilu", 14, [X, I64(1)], {"upper": 0}, 1),
    ("Range", 11, [np.float32(1), np.float32(4), np.float32(0.7)], {}, 1),
    ("ConstantOfShape", 9, [I64([2, 3])], {}, 1),
    ("EyeLike", 9, [X[0, 0]], {"k": 1}, 1),
    ("Shape", 15, [X], {"start": 1, "end": -1}, 1),
    ("Size", 13, [X], {}, 1),
    ("Einsum", 12, [X, X], {"equation": "bchw,bcHw->bhH"}, 1),
    ("ReverseSequence", 10, [X, I64([2, 1, 3])[:2]], {"time_axis": 1, "batch_axis": 0}, 1),
    ("BitShift", 11, [np.uint8([1, 2, 128]), np.uint8([1, 9, 1])], {"direction": "LEFT"}, 1),
    ("GridSample", 16, [X, np.clip(X[:, :2, :, :2], -1.2, 1.2).copy()], {}, 1),
    ("Gelu", 20, [X], {"approximate": "tanh"}, 1),
    ("Mish", 18, [X], {}, 1),
    ("HardSwish", 14, [X], {}, 1),
    (
        "LSTM",
        7,
        [X[0], X[:1, 0, :, :].repeat(2, 1)[:, :8].copy(), X[:1, 1, :, :2].repeat(2, 1)[:, :8].copy()],
        {"hidden_size": 2},
        3,
    ),
    (
        "GRU",
        7,
        [X[0], X[:1, 0].repeat(2, 1)[:, :6].copy(), X[:1, 1, :, :2].repeat(2, 1)[:, :6].copy()],
        {"hidden_size": 2, "linear_before_reset": 1},
        2,
    ),
]


@pytest.mark.parametrize("known", [True, False], ids=["constants", "inputs"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_same_answers_as_onnx_runtime(case: Case, known: bool) -> None:
    op, opset, operands, attrs, n_out = case
    names = ["" if v is None else f"x{i}" for i, v in enumerate(operands)]
    arrays = {f"x{i}": np.asarray(v) for i, v in enumerate(operands) if v is not None}
    given = {k: v for k, v in arrays.items() if not known or k == "x0"}
    held = {k: v for k, v in arrays.items() if k not in given}
    node = helper.make_node(op, names, [f"y{i}" for i in range(n_out)], **attrs)
    data = proto([node], given, [f"y{i}" for i in range(n_out)], held, opset)
    data.ir_version = 8
    try:
        want = ort.InferenceSession(data.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    except Exception as error:  # its exceptions have no common base
        pytest.skip(f"ONNX Runtime refuses it: {str(error)[:80]}")
    m = rlx.load(data, threads=1)
    for _ in range(2):
        got = m.run(given)
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
