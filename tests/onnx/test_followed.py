"""Idioms of exported files under a size that is followed: exact at every size, and few of them are compiled."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import rlx
from rlx.onnx import Model

F = np.float32
X, SHAPE = ("Shape", "x", "s", {}), ("Gather", "s one", "n", {"axis": 0})
N1 = ("Unsqueeze", "n i0", "n1", {})
FLOAT = {"to": TensorProto.FLOAT}
# Of x: f32[batch, seq, 4]. Each a list of nodes that make y.
IDIOMS: dict[str, list[tuple[str, str, str, dict[str, Any]]]] = {
    "reshape by sizes": [X, SHAPE, N1, ("Concat", "minus n1 i2 i2", "w", {"axis": 0}), ("Reshape", "x w", "y", {})],
    "reshape by 0 and -1": [("Reshape", "x zero_minus", "y", {})],
    "flatten": [("Flatten", "x", "f", {"axis": 2}), ("Relu", "f", "y", {})],
    "expand where -1": [
        X, ("ConstantOfShape", "rank", "ones", {}), ("Mul", "ones minus", "m", {}), ("Equal", "s m", "e", {}),
        ("Where", "e ones s", "w", {}), ("Expand", "row w", "r", {}), ("Add", "x r", "y", {})],
    "causal by trilu": [
        X, SHAPE, N1, ("Concat", "n1 n1", "nn", {"axis": 0}), ("ConstantOfShape", "nn", "full", {"value": -1e9}),
        ("Trilu", "full one", "u", {"upper": 1}), ("MatMul", "x col", "q", {}),
        ("Transpose", "q", "k", {"perm": [0, 2, 1]}), ("Mul", "q k", "sc", {}), ("Add", "sc u", "sm", {}),
        ("Softmax", "sm", "y", {"axis": -1})],
    "causal by ranges": [
        X, SHAPE, ("Range", "zero n one", "r", {}), ("Unsqueeze", "r i0", "a", {}), ("Unsqueeze", "r i1", "b", {}),
        ("Less", "b a", "l", {}), ("Cast", "l", "f", FLOAT), ("MatMul", "f x", "y", {})],
    "positions behind a start": [
        X, SHAPE, ("Add", "n two", "end", {}), ("Range", "two end one", "r", {}),
        ("Gather", "table r", "g", {"axis": 0}), ("Add", "x g", "y", {})],
    "positions far behind a start": [X, SHAPE, ("Add", "n far_off", "end", {}), ("Range", "far_off end one", "y", {})],
    "a range as long as a product": [X, SHAPE, ("Mul", "n n", "nn", {}), ("Range", "zero nn one", "y", {})],
    "table cut to size": [X, SHAPE, N1, ("Slice", "table i0 n1", "t", {}), ("Add", "x t", "y", {})],
    "last rows by a negative start": [("Slice", "x minus far i1", "y", {})],
    "halves": [X, SHAPE, ("Div", "n two", "h", {}), ("Unsqueeze", "h i0", "h1", {}), ("Slice", "x i0 h1 i1", "a", {}),
               ("Slice", "x h1 far i1", "b", {}), ("Concat", "b a", "y", {"axis": 1})],
    "split in two": [X, SHAPE, N1, ("Sub", "n1 i1", "rest", {}), ("Concat", "i1 rest", "parts", {"axis": 0}),
                     ("Split", "x parts", "a b", {"axis": 1}), ("Concat", "b a", "y", {"axis": 1})],
    "tile": [X, SHAPE, N1, ("Concat", "i1 n1 i1", "times", {"axis": 0}), ("ReduceSum", "x i1", "t", {}),
             ("Tile", "t times", "y", {})],
    "pad to an even size": [
        X, SHAPE, ("Mod", "n two", "odd", {}), ("Unsqueeze", "odd i0", "o1", {}),
        ("Concat", "i0 i0 i0 i0 o1 i0", "pads", {"axis": 0}), ("Pad", "x pads", "y", {})],
    "mean by its size": [X, SHAPE, ("Cast", "n", "nf", FLOAT), ("ReduceSum", "x i1", "t", {}),
                         ("Div", "t nf", "y", {})],
    "scale by a root of the size": [X, SHAPE, ("Cast", "n", "nf", FLOAT), ("Sqrt", "nf", "r", {}),
                                    ("Div", "x r", "y", {})],
    "size": [("Size", "x", "c", {}), ("Cast", "c", "cf", FLOAT), ("Add", "x cf", "y", {})],
    "shapes as outputs": [X, ("Identity", "s", "y", {})],
    "least of two sizes": [X, SHAPE, ("Min", "n eight", "m", {}), ("Unsqueeze", "m i0", "m1", {}),
                           ("Slice", "x i0 m1 i1", "y", {})],
    "product of sizes": [X, ("ReduceProd", "s", "p", {"keepdims": 1}), ("Reshape", "x p", "f", {}),
                         ("Relu", "f", "y", {})],
    "windows": [("Transpose", "x", "t", {"perm": [0, 2, 1]}), ("Conv", "t kernel", "c", {"pads": [1, 1]}),
                ("MaxPool", "c", "y", {"kernel_shape": [2], "strides": [2]})],
    "recurrence": [("Transpose", "x", "t", {"perm": [1, 0, 2]}), ("GRU", "t gw gr", "y last", {"hidden_size": 3})],
    "norms and sorting": [("LayerNormalization", "x gamma", "l", {}), ("TopK", "l i1", "v at", {"axis": 1}),
                          ("Add", "l v", "y", {})],
    "running sums": [("CumSum", "x one", "c", {}), ("ReduceMax", "c i1", "m", {}), ("Sub", "c m", "y", {})],
    "an identity matrix": [X, SHAPE, N1, ("Concat", "n1 n1", "nn", {"axis": 0}), ("ConstantOfShape", "nn", "full", {}),
                           ("EyeLike", "full", "eye", {"dtype": 1}), ("MatMul", "eye x", "y", {})],
    "one hot": [X, SHAPE, ("Range", "zero n one", "r", {}), ("OneHot", "r n onoff", "h", {}),
                ("MatMul", "h x", "y", {})],
}
CONSTANTS: dict[str, Any] = {
    "zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "eight": np.int64(8), "i0": [0], "i1": [1], "i2": [2],
    "minus": [-1], "far": [2**62], "far_off": np.int64(1000),
    "rank": [3], "zero_minus": [0, -1], "row": np.arange(4, dtype=F), "col": np.ones((4, 1), F) / 4,
    "table": np.arange(400, dtype=F).reshape(100, 4), "kernel": np.arange(24, dtype=F).reshape(2, 4, 3) / 10,
    "gw": np.arange(36, dtype=F).reshape(1, 9, 4) / 40, "gr": np.arange(27, dtype=F).reshape(1, 9, 3) / 30,
    "gamma": np.arange(4, dtype=F), "onoff": np.array([0, 1], F),
}


def file(idiom: str) -> bytes:
    nodes = []
    for op, inputs, outputs, attrs in IDIOMS[idiom]:
        if "value" in attrs:
            attrs = {"value": helper.make_tensor("v", TensorProto.FLOAT, [1], [attrs["value"]])}
        elif op == "ConstantOfShape":
            code = TensorProto.INT64 if outputs == "ones" else TensorProto.FLOAT
            attrs = {"value": helper.make_tensor("v", code, [1], [1])}
        nodes.append(helper.make_node(op, inputs.split(), outputs.split(), **attrs))
    used = {name for n in nodes for name in n.input}
    constants = [helper.make_tensor(k, TensorProto.FLOAT if a.dtype == F else TensorProto.INT64, a.shape, a.reshape(-1))
                 for k, a in ((k, np.asarray(v)) for k, v in CONSTANTS.items()) if k in used]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 4])
    graph = helper.make_graph(nodes, "idiom", [x], [helper.make_empty_tensor_value_info("y")], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize("idiom", IDIOMS)
def test_c5_an_idiom_is_followed_and_exact(idiom: str) -> None:
    data = file(idiom)
    m = rlx.load(data, options=rlx.CompileOptions(extents={"seq": 48}, threads=1, poison=True))
    exact = rlx.load(data, threads=1)
    assert isinstance(m, Model) and isinstance(exact, Model)
    sized = m._core.sized  # type: ignore[attr-defined]
    sizes = (20, 21, 22, 30, 48, 1, 2, 33, 34, 35, 36, 37)
    for n in sizes:
        if idiom == "windows" and n == 1:  # no window fits
            continue
        x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(F)
        got, want = m.run({"x": x})["y"], exact.run({"x": x})["y"]
        assert got.shape == want.shape and got.tobytes() == want.tobytes(), n
    assert not sized.reason
    assert not sized._families.hopeless
    assert sized.compiled <= 11


def test_a_range_that_no_sequence_holds_ends_the_following() -> None:
    data = file("a range as long as a product")
    m = rlx.load(data, options=rlx.CompileOptions(extents={"seq": 2000}))
    assert isinstance(m, Model)
    for n in (20, 21, 22, 30, 700, 1, 33):
        got = m.run({"x": np.zeros((2, n, 4), F)})["y"]
        assert np.array_equal(got, np.arange(n * n))


@pytest.mark.parametrize("op", ["NonZero", "Unique", "Compress"])
def test_a_step_on_the_host_ends_the_following(op: str) -> None:
    kind = TensorProto.BOOL if op == "Compress" else TensorProto.FLOAT
    inputs, outputs = (["x", "b"], ["y"]) if op == "Compress" else (["x"], ["y"])
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT),
             helper.make_node(op, ["c", "b"] if op == "Compress" else ["x"], outputs)]
    ports = [helper.make_tensor_value_info(n, t, ["seq"]) for n, t in (("x", TensorProto.FLOAT), ("b", kind))]
    graph = helper.make_graph(nodes, "host", ports[: len(inputs)], [helper.make_empty_tensor_value_info("y")])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    plain, m = rlx.load(data), rlx.load(data, options=rlx.CompileOptions(extents={"seq": 16}))
    for n in (3, 4, 5, 9, 16, 4):
        feeds = {"x": (np.arange(n, dtype=F) % 3), "b": np.arange(n) % 2 == 0}
        given = {k: feeds[k] for k in inputs}
        got, want = m.run(given)["y"], plain.run(given)["y"]
        assert got.shape == want.shape and got.tobytes() == want.tobytes()
