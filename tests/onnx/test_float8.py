"""ONNX tensors of float8 are values of the graph, not of the host."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rlx

F = np.float32
CODES = {TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
         TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz}
EVERY = pytest.mark.parametrize("code", CODES, ids=[t.__name__ for t in CODES.values()])


def load(nodes, inputs, outputs, tensors=()):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs],
                              [numpy_helper.from_array(a, n) for n, a in tensors])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(model)
    return rlx.load(model.SerializeToString(), threads=1)


@EVERY
def test_weights_in_float8_stay_so(code: int) -> None:
    w = np.random.default_rng(0).standard_normal((64, 96)).astype(CODES[code])
    model = load([helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
                  helper.make_node("MatMul", ["x", "wide"], ["y"])],
                 [("x", TensorProto.FLOAT, [3, 64])], [("y", TensorProto.FLOAT, [3, 96])], [("w", w)])
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(F)
    np.testing.assert_allclose(model.run({"x": x})["y"], x @ w.astype(F), rtol=1e-4, atol=1e-5)
    assert model.memory_report().weights < w.size * 2 + 1024
    assert "between segments" not in str(model.explain())


@EVERY
@pytest.mark.parametrize("saturate", [0, 1])
def test_inputs_outputs_and_casts(code: int, saturate: int) -> None:
    model = load([helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
                  helper.make_node("Cast", ["t"], ["wide"], to=TensorProto.FLOAT),
                  helper.make_node("Mul", ["wide", "k"], ["scaled"]),
                  helper.make_node("Cast", ["scaled"], ["y"], to=code, saturate=saturate)],
                 [("x", code, [2, 3])], [("y", code, [3, 2])], [("k", np.array(300, F))])
    x = np.array([[1, -2, 0.5], [400, np.nan, 0]], F).astype(CODES[code])
    got = model.run({"x": x})["y"]
    assert got.dtype == CODES[code]
    want = x.T.astype(F) * F(300)
    if saturate:
        top = float(ml_dtypes.finfo(CODES[code]).max)
        want = np.clip(want, -top, top)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(got.astype(F), want.astype(CODES[code]).astype(F))
    assert model.signature.inputs["x"].dtype == rlx.dtypes.from_onnx(code).name


@EVERY
def test_quantise_and_dequantise(code: int) -> None:
    zero = np.zeros((), CODES[code])
    model = load([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                  helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
                 [("x", TensorProto.FLOAT, [6])], [("q", code, [6]), ("y", TensorProto.FLOAT, [6])],
                 [("s", np.array(0.5, F)), ("z", zero)])
    x = np.array([0.1, -3, 7.7, 1e6, -1e6, 0], F)
    outs = model.run({"x": x})
    top = float(ml_dtypes.finfo(CODES[code]).max)
    want = np.clip(x / F(0.5), -top, top).astype(CODES[code])
    assert outs["q"].tobytes() == want.tobytes()
    np.testing.assert_array_equal(outs["y"], want.astype(F) * F(0.5))
    assert "between segments" not in str(model.explain())
