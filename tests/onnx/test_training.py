"""Gradient of ai.onnx.preview.training."""

import numpy as np
import pytest
from onnx import helper

from rlx.errors import FormatError
from rlx.testing.onnx_models import model

F = np.float32
DOMAIN = "ai.onnx.preview.training"


def gradient(inputs, outputs, y, xs, zs=()):
    more = {"zs": list(zs)} if zs else {}
    return helper.make_node("Gradient", inputs, outputs, name="back", domain=DOMAIN, xs=list(xs), y=y, **more)


def test_gradients_by_some_and_others_held() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("Add", ["t", "c"], ["y"]),
             gradient(["x", "w", "c"], ["dx", "dw"], "y", ["x", "w"], ["c"])]
    x, w, c = np.ones((2, 3), F), np.full((3, 4), 0.1, F), np.zeros(4, F)
    outs = model(nodes, {"x": x, "w": w, "c": c}, ["y", "dx", "dw"], domains=[DOMAIN]).run({"x": x, "w": w, "c": c})
    slope = 1 - np.tanh(x @ w) ** 2
    np.testing.assert_allclose(outs["dx"], slope @ w.T, rtol=1e-5)
    np.testing.assert_allclose(outs["dw"], x.T @ slope, rtol=1e-5)


@pytest.mark.parametrize(("node", "match"), [
    (gradient(["x"], ["d"], "nowhere", ["x"]), "'y' must name a tensor"),
    (gradient(["x"], ["d"], "y", ["z"]), "must be the tensors that xs and zs name"),
])
def test_what_cannot_be_told_is_refused(node, match: str) -> None:
    nodes = [helper.make_node("Mul", ["x", "x"], ["y"]), node]
    with pytest.raises(FormatError, match=f"'back'.*{match}"):
        model(nodes, {"x": np.ones(2, F)}, ["d"], domains=[DOMAIN]).run({"x": np.ones(2, F)})


def test_a_node_without_derivative_is_named() -> None:
    nodes = [helper.make_node("CumProd", ["x", "axis"], ["y"], name="chain"), gradient(["x"], ["d"], "y", ["x"])]
    m = model(nodes, {"x": np.ones(2, F)}, ["d"], {"axis": np.array(0)}, opset=26, domains=[DOMAIN])
    with pytest.raises(FormatError, match=r"(?s)have no derivative.*chain"):
        m.run({"x": np.ones(2, F)})
