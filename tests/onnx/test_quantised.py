"""Quantised layers of com.microsoft against ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rlx


def lstm(direction: str, columns: bool, hidden: int = 24, inputs: int = 10) -> onnx.ModelProto:
    """DynamicQuantizeLSTM with int8 weights, small enough for instructions that saturate."""
    rng = np.random.default_rng(3)
    d = 2 if direction == "bidirectional" else 1
    shape = (d, 4 * hidden) if columns else (d,)
    weights = {
        "w": rng.integers(-60, 60, (d, inputs, 4 * hidden)).astype(np.int8),
        "r": rng.integers(-60, 60, (d, hidden, 4 * hidden)).astype(np.int8),
        "b": rng.uniform(-0.5, 0.5, (d, 8 * hidden)).astype(np.float32),
        "ws": rng.uniform(0.002, 0.01, shape).astype(np.float32),
        "wz": np.zeros(shape, np.int8),
        "rs": rng.uniform(0.002, 0.01, shape).astype(np.float32),
        "rz": np.zeros(shape, np.int8),
    }
    names = ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "yh", "yc"], domain="com.microsoft", hidden_size=hidden, direction=direction
    )
    given = {"x": (None, None, inputs), "h": (d, None, hidden), "c": (d, None, hidden)}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_dynamic_quantize_lstm(direction, columns):
    proto = lstm(direction, columns)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    model = rlx.load(proto.SerializeToString(), threads=1)
    rng, d = np.random.default_rng(4), 2 if direction == "bidirectional" else 1
    for seq, batch in ((1, 1), (7, 1), (5, 3)):
        feeds = {"x": rng.normal(0, 1, (seq, batch, 10)).astype(np.float32)}
        feeds |= {k: rng.uniform(-1, 1, (d, batch, 24)).astype(np.float32) for k in "hc"}
        for want, got in zip(peer.run(None, feeds), model.run(feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_weights_stay_bytes():
    model = rlx.load(lstm("forward", False, hidden=256, inputs=256).SerializeToString(), threads=1)
    model.run({"x": np.zeros((1, 1, 256), np.float32), **{k: np.zeros((1, 1, 256), np.float32) for k in "hc"}})
    assert model.memory_report().weights < 1.1 * 2 * 256 * 1024
