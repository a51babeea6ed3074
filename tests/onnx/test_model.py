"""Loading, running, signatures, reports, and the errors a user meets."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rlx
from rlx.testing.onnx_models import info, model, proto


def affine() -> rlx.onnx.Model:
    x = np.zeros((2, 3), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    return model(nodes, {"x": x}, ["y"], {"w": np.eye(3, dtype=np.float32) * 2, "b": np.float32([1, 2, 3])})


def test_run_gives_outputs_by_name_and_by_position() -> None:
    m = affine()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outs = m.run({"x": x})
    want = x * 2 + np.float32([1, 2, 3])
    np.testing.assert_allclose(outs["y"], want)
    np.testing.assert_array_equal(outs[0], outs["y"])
    assert list(outs.keys()) == ["y"]
    assert len(outs) == 1


def test_every_shape_is_imported_once_and_weights_are_shared() -> None:
    m = affine()
    for rows in (1, 4, 1, 7, 4):
        x = np.ones((rows, 3), np.float32)
        assert m.run({"x": x})["y"].shape == (rows, 3)
    report = m.memory_report()
    assert report.variants == 3
    one = affine()
    one.run({"x": np.ones((1, 3), np.float32)})
    assert report.weights <= 2 * one.memory_report().weights


def negated(shape: list[int | str | None]) -> rlx.onnx.Model:
    node = helper.make_node("Neg", ["x"], ["y"])
    x = np.zeros(1, np.float32)
    graph = helper.make_graph([node], "g", [info("x", x, shape)], [info("y", x)])
    return rlx.load(helper.make_model(graph).SerializeToString())


def test_declared_sizes_of_0_and_below_are_open_and_the_rank_is_checked() -> None:
    for size in (-7, -1, 0, "n", None):
        m = negated([size])
        np.testing.assert_array_equal(m.run({"x": np.float32([1, 2])})["y"], [-1, -2])
        with pytest.raises(rlx.BindingError, match="rank must be 1"):
            m.run({"x": np.zeros((2, 2), np.float32)})


def test_inputs_have_the_sizes_that_the_file_declares(tmp_path: pathlib.Path) -> None:
    m = negated(["n", 4])
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(m.run({"x": x})["y"], -x)
    m.save(tmp_path / "m.rlx")
    for one in (m, m.clone(), rlx.load(tmp_path / "m.rlx")):
        for shape in ((2, 5), (4, 2), (2, 0), (2, 1)):
            with pytest.raises(rlx.BindingError) as e:
                one.run({"x": np.zeros(shape, np.float32)})
            assert str(e.value).startswith("input 'x' of model ")
            assert str(e.value).endswith(f": shape must be as declared, f32[n, 4], got {shape}")
        np.testing.assert_array_equal(one.run({"x": x})["y"], -x)


def test_elements_of_a_sequence_may_differ_in_size() -> None:
    kind = helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, [2])
    node = helper.make_node("SequenceLength", ["s"], ["n"])
    graph = helper.make_graph([node], "g", [kind], [info("n", np.int64(0))])
    m = rlx.load(helper.make_model(graph).SerializeToString())
    assert m.run({"s": [np.zeros(2, np.float32), np.zeros(3, np.float32)]})["n"] == 2


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        ({}, rlx.BindingError, "'x'.* missing"),
        ({"X": np.zeros((1, 3), np.float32)}, rlx.UnknownNameError, "no input 'X'"),
        ({"x": np.zeros((1, 3))}, rlx.BindingTypeError, "dtype must be f32, got float64"),
        ({"x": np.zeros(3, np.float32)}, rlx.BindingError, "rank must be 2"),
        ({"x": np.zeros((1, 4), np.float32)}, rlx.GraphError, "inner sizes"),
        ({"x": None}, rlx.BindingTypeError, "must be an array"),
        ({"x": "text"}, rlx.BindingTypeError, "must be an array"),
    ],
)
def test_errors_name_what_is_wrong(feeds: dict, error: type, text: str) -> None:
    m = affine()
    with pytest.raises(error, match=text):
        m.run(feeds)
    m.run({"x": np.zeros((1, 3), np.float32)})
    with pytest.raises(error, match=text):
        m.run(feeds)


def test_python_lists_are_taken() -> None:
    np.testing.assert_allclose(affine().run({"x": [[1, 2, 3]]})["y"], [[3, 6, 9]])


def test_out_writes_into_given_arrays() -> None:
    m = affine()
    x, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    for _ in range(2):
        assert m.run({"x": x}, out={"y": out})["y"] is out
    np.testing.assert_allclose(out, [[3, 4, 5]] * 2)
    with pytest.raises(rlx.BindingError, match="shape must be"):
        m.run({"x": x}, out={"y": np.empty((3, 3), np.float32)})


def test_initialisers_that_are_inputs_are_defaults() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"])
    b = np.float32([10, 20])
    graph = helper.make_graph(
        [node], "g", [info("x", b), info("b", b)], [info("y", b)], [numpy_helper.from_array(b, "b")]
    )
    m = rlx.load(helper.make_model(graph).SerializeToString())
    x = np.float32([1, 2])
    for _ in range(2):
        np.testing.assert_array_equal(m.run({"x": x})["y"], [11, 22])
        np.testing.assert_array_equal(m.run({"x": x, "b": x})["y"], [2, 4])
    assert m.signature.inputs["b"].default


def test_an_output_may_be_an_input_or_a_constant() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    m = model(nodes, {"x": np.zeros(2, np.float32)}, ["y", "c"], {"c": np.int64([4, 5])})
    x = np.float32([1, 2])
    outs = m.run({"x": x})
    outs["y"][0] = 9
    outs["c"][0] = 9
    assert x[0] == 1
    np.testing.assert_array_equal(m.run({"x": x})["c"], [4, 5])


def test_signature_metadata_and_reports() -> None:
    m = affine()
    assert str(m.signature.inputs["x"]) == "f32[?, ?]"
    assert m.metadata["opsets"] == {"ai.onnx": 18}
    assert "x" in repr(m)
    assert "table" in m._repr_html_()
    with pytest.raises(rlx.BindingError, match="run it once"):
        m.explain()
    feeds = {"x": np.ones((2, 3), np.float32)}
    assert m.profile(feeds, repeat=2).total > 0
    assert "matmul" in str(m.graph_for(feeds))
    assert "kernel" in str(m.explain())
    assert "weights" in str(m.memory_report())


def test_load_from_a_path_and_from_bytes(tmp_path: pathlib.Path) -> None:
    p = proto([helper.make_node("Neg", ["x"], ["y"])], {"x": np.zeros(2, np.float32)}, ["y"])
    path = tmp_path / "m.onnx"
    path.write_bytes(p.SerializeToString())
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), p):
        np.testing.assert_array_equal(rlx.load(source).run({"x": np.float32([1, 2])})["y"], [-1, -2])


@pytest.mark.parametrize("content", [b"", b"\x00", b"not a model at all", b"\x08\x0a" * 40, b"GGUF" + bytes(40)])
def test_what_is_no_model_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    for source in (path, content):
        with pytest.raises(rlx.FormatError):
            rlx.load(source)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(rlx.FormatError, match=r"nowhere\.onnx"):
        rlx.load("nowhere.onnx")


def test_unsupported_ops_are_listed_all_at_once() -> None:
    inner = helper.make_graph([helper.make_node("Third", [], ["t"], domain="a.b")], "inner", [], [info("t")])
    nodes = [
        helper.make_node("First", ["x"], ["a"], domain="a.b"),
        helper.make_node("NoSuchOp", ["a"], ["b"]),
        helper.make_node("If", ["p"], ["c"], then_branch=inner, else_branch=inner),
        helper.make_node("Sum", ["b", "c"], ["y"]),
    ]
    p = proto(nodes, {"x": np.zeros(1, np.float32), "p": np.asarray(True)}, ["y"], domains=["a.b"])
    with pytest.raises(rlx.UnsupportedOpError, match="4 node") as caught:
        rlx.load(p)
    for part in ("First", "NoSuchOp", "Third", "'a.b'", "opset 18"):
        assert part in str(caught.value)


def test_nodes_may_stand_in_any_order_but_not_in_a_circle() -> None:
    a, b = helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])
    x = np.float32([1])
    assert model([b, a], {"x": x}, ["y"]).run({"x": x})["y"] == 1
    loop = [helper.make_node("Add", ["x", "y"], ["h"]), b]
    with pytest.raises(rlx.FormatError, match="its own result"):
        model(loop, {"x": x}, ["y"])


def test_dead_nodes_cost_nothing() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Reshape", ["x", "s"], ["dead"])]
    x = np.float32([1])
    assert model(nodes, {"x": x}, ["y"], {"s": np.int64([5, 5])}).run({"x": x})["y"] == -1


def test_model_local_functions_are_inlined_with_attributes_and_defaults() -> None:
    f = helper.make_function(
        "my",
        "Scale",
        ["a"],
        ["b"],
        [helper.make_node("Constant", [], ["k"]), helper.make_node("Mul", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 18)],
        attributes=["by"],
    )
    f.node[0].attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    )
    g = helper.make_function(
        "my",
        "Twice",
        ["a"],
        ["c"],
        [
            helper.make_node("Scale", ["a"], ["b"], domain="my", by=3.0),
            helper.make_node("Scale", ["b"], ["c"], domain="my", by=2.0),
        ],
        [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)],
    )
    x = np.float32([1, 2])
    m = model([helper.make_node("Twice", ["x"], ["y"], domain="my")], {"x": x}, ["y"], functions=[f, g], domains=["my"])
    np.testing.assert_array_equal(m.run({"x": x})["y"], [6, 12])


def test_a_function_that_calls_itself_is_refused() -> None:
    f = helper.make_function(
        "my",
        "Again",
        ["a"],
        ["b"],
        [helper.make_node("Again", ["a"], ["b"], domain="my")],
        [helper.make_opsetid("my", 1)],
    )
    x = np.float32([1])
    m = model([helper.make_node("Again", ["x"], ["y"], domain="my")], {"x": x}, ["y"], functions=[f], domains=["my"])
    with pytest.raises(rlx.FormatError, match="deep"):
        m.run({"x": x})


@pytest.mark.parametrize("options", [{"poison": True}, {"busy": "wait"}, {"optimize": False}, {"check": True}])
def test_compile_options_hold_for_models(options: dict) -> None:
    x = np.float32([[1, -2], [3, 0]])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["i"]),
        helper.make_node("Mul", ["r", "r"], ["y"]),
    ]
    m = rlx.load(proto(nodes, {"x": x}, ["y", "i"]), options=rlx.CompileOptions(**options))
    for _ in range(3):
        outs = m.run({"x": x})
        np.testing.assert_array_equal(outs["y"], [[1, 0], [9, 0]])
        np.testing.assert_array_equal(outs["i"], [[0, 1], [0, 0]])
        outs["y"][...] = 7


def test_many_threads_with_busy_wait() -> None:
    from concurrent.futures import ThreadPoolExecutor

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    data = proto(nodes, {"x": w}, ["y"], {"w": w})
    m = rlx.load(data, options=rlx.CompileOptions(busy="wait"))
    with ThreadPoolExecutor(4) as pool:
        for rows, got in pool.map(lambda n: (n, m.run({"x": w[:n]})["y"]), [1 + i % 7 for i in range(60)]):
            np.testing.assert_allclose(got, np.tanh(w[:rows] @ w), rtol=1e-4, atol=1e-5)


def test_functions_that_expand_without_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import rlx.onnx.tracer

    monkeypatch.setattr(rlx.onnx.tracer, "MAX_NODES", 5000)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    functions = [helper.make_function("my", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)]
    for i in range(1, 40):
        twice = [helper.make_node(f"F{i - 1}", [x], [y], domain="my") for x, y in (("a", "c"), ("c", "b"))]
        functions.append(helper.make_function("my", f"F{i}", ["a"], ["b"], twice, opsets))
    x = np.float32([1])
    m = model(
        [helper.make_node("F39", ["x"], ["y"], domain="my")], {"x": x}, ["y"], functions=functions, domains=["my"]
    )
    with pytest.raises(rlx.FormatError, match="expand to at most"):
        m.run({"x": x})


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def _field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@pytest.mark.parametrize("levels", [5, 28, 40, 300])
def test_deep_nesting_is_refused_or_run(levels: int) -> None:
    leaf = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "leaf", [], [info("z")])
    orelse = helper.make_attribute("else_branch", leaf).SerializeToString()
    inner = leaf.SerializeToString()
    for _ in range(levels):
        then = _field(1, b"then_branch") + _field(6, inner) + bytes([20 << 3 & 127 | 128, 1, 5])
        node = _field(1, b"p") + _field(2, b"z") + _field(4, b"If") + _field(5, then) + _field(5, orelse)
        inner = _field(1, node) + _field(2, b"level") + _field(12, info("z").SerializeToString())
    x = np.float32([1])
    outer = proto([], {"x": x, "p": np.asarray(True)}, [])
    outer.graph.ClearField("output")
    data = outer.SerializeToString() + _field(7, inner)
    if levels > 30:  # protobuf has a bound of its own
        with pytest.raises(rlx.FormatError):
            rlx.load(data)
    else:
        assert rlx.load(data).run({"x": x, "p": np.asarray(True)})["z"] == -1


def test_a_misspelt_input_is_named_with_the_nearest_names() -> None:
    x = np.float32([1, 2])
    m = model([helper.make_node("Add", ["signal", "gain"], ["y"])], {"signal": x, "gain": x}, ["y"])
    for _ in range(2):  # before and after its shapes are known
        with pytest.raises(rlx.UnknownNameError, match="no input 'singal'\nhint: did you mean 'signal'"):
            m.run({"singal": x, "gain": x})
        with pytest.raises(rlx.BindingError, match=r"\['gain'\] missing"):
            m.run({"signal": x})
        np.testing.assert_array_equal(m.run({"signal": x, "gain": x})["y"], x + x)


def test_an_input_that_nothing_reads_may_be_left_out() -> None:
    x = np.float32([1, 2])
    m = model([helper.make_node("Neg", ["x"], ["y"])], {"x": x, "unused": x}, ["y"])
    for _ in range(2):
        np.testing.assert_array_equal(m.run({"x": x})["y"], -x)
        np.testing.assert_array_equal(m.run({"x": x, "unused": np.zeros(3, np.float32)})["y"], -x)
    assert m.signature.inputs["unused"].default
