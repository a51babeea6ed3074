"""What a newcomer tries first: keywords, methods of values, help, short representations, errors that say what to do."""

import inspect
import pydoc
import threading

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx import ops
from rlx.errors import BindingError, BindingTypeError, ConfigError, TypeRuleError
from rlx.ops import TABLE
from rlx.testing.onnx_models import model, proto

F = np.float32
X = np.arange(6, dtype=F).reshape(2, 3)


def product(size: int = 64) -> rlx.Graph:
    g = rlx.Graph("product")
    w = np.random.default_rng(0).standard_normal((size, size)).astype(F)
    g.output("y", g.input("x", (2, size)) @ g.constant(w))
    return g


def sized(nodes: list[object], shapes: dict[str, list[object]], output: str) -> rlx.onnx.Model:
    """A model whose file declares the sizes of its inputs."""
    inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(output, 1, None)])
    return rlx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())


def two_nodes() -> list[object]:
    return [helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("Tanh", ["square"], ["y"])]


def test_keywords_replace_options() -> None:
    full, half = rlx.compile(product()), rlx.compile(product(), precision="f16", threads=2)
    assert half.options.threads == 2 and half.options.precision.name == "f16"
    assert half.memory_report().weights * 2 == full.memory_report().weights
    exe = rlx.Session("cpu").compile(product(), rlx.CompileOptions(check=True, threads=1), threads=3)
    assert exe.options.check and exe.options.threads == 3
    w = np.ones((64, 64), F)
    data = proto([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": np.ones((2, 64), F)}, ["y"], {"w": w})
    loaded = rlx.load(data.SerializeToString(), precision="bf16", threads=1)
    np.testing.assert_array_equal(loaded.run({"x": np.ones((2, 64), F)})["y"], np.full((2, 64), 64, F))
    assert loaded.memory_report().weights <= w.nbytes // 2 + 64
    for call in (lambda: rlx.compile(product(), precision="f17"), lambda: rlx.compile(product(), threads=0),
                 lambda: rlx.load(data, options={}, precision="f16")):
        with pytest.raises(ConfigError):
            call()


def test_an_ahead_of_time_file_takes_no_precision(tmp_path) -> None:  # type: ignore[no-untyped-def]
    exe = rlx.compile(product())
    exe.save(tmp_path / "a.rlx")
    with pytest.raises(ConfigError, match="compiled with its options"):
        rlx.load(tmp_path / "a.rlx", precision="f16")


def test_values_have_methods_of_arrays() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(F)
    g = rlx.Graph("g")
    v = g.input("x", x.shape)
    cases = {
        "T": (v.T, x.T), "turned": (v.transpose(1, 0, 2), x.transpose(1, 0, 2)),
        "listed": (v.transpose((0, -1, 1)), x.transpose((0, -1, 1))), "plain": (v.transpose(), x.transpose()),
        "flat": (v.reshape(-1), x.reshape(-1)), "pairs": (v.reshape(6, 4), x.reshape(6, 4)),
        "tuple": (v.reshape((4, -1)), x.reshape(4, -1)), "cast": (v.astype(rlx.i32), x.astype(np.int32)),
        "name": (v.astype("f64"), x.astype(np.float64)), "sum": (v.sum(), x.sum()),
        "rows": (v.sum(axis=1), x.sum(1)), "kept": (v.sum(axis=(0, -1), keepdims=True), x.sum((0, -1), keepdims=True)),
        "mean": (v.mean(axis=-1), x.mean(-1)), "max": (v.max(axis=0), x.max(0)), "min": (v.min(), x.min()),
    }
    for name, (value, _) in cases.items():
        g.output(name, value)
    assert v.ndim == 3
    outs = rlx.compile(g).run({"x": x})
    for name, (_, want) in cases.items():
        assert outs[name].dtype == np.asarray(want).dtype
        np.testing.assert_allclose(outs[name], want, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeRuleError, match="element count"):
        v.reshape(5)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in TABLE.values() if not op.internal])
def test_help_and_signature(op: rlx.ir.opdef.OpDef) -> None:
    text = pydoc.render_doc(op, renderer=pydoc.plaintext)
    signature = str(inspect.signature(op))
    assert f"{op.name}{signature}" in text
    assert op.doc in text and "Element types: " in text
    for attr in op.attrs:
        assert f"{attr.name} : " in text


def test_representations_are_short() -> None:
    assert repr(rlx.Session("cpu")) == "Session('cpu')"
    assert repr(rlx.CompileOptions()) == "CompileOptions()"
    options = rlx.CompileOptions(threads=1, precision="bf16", dims={"b": 2}, rng=rlx.RngOptions(seed=3))
    assert repr(options) == ("CompileOptions(dims={'b': 2}, threads=1, rng=RngOptions(seed=3, backend='philox'), "
                             "precision='bf16')")
    assert eval(repr(options), {"CompileOptions": rlx.CompileOptions, "RngOptions": rlx.RngOptions}) == options


def test_explain_lists_passes_that_changed_something() -> None:
    g = rlx.Graph("g")
    g.output("y", ops.tanh(g.input("x", (2, 3))) + 1)
    text = str(rlx.compile(g).explain())
    assert "fuse-elementwise" in text and "-1 add -1 tanh +1 region" in text
    assert "winograd" not in text and "merge-common" not in text


def test_einsum_takes_the_equation_first() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (2, 3))
    g.output("first", ops.einsum("ij,kj->ik", x, x))
    g.output("keyword", ops.einsum(x, x, equation="ij,kj->ik"))
    outs = rlx.compile(g).run({"x": X})
    np.testing.assert_allclose(outs["first"], X @ X.T)
    np.testing.assert_array_equal(outs["first"], outs["keyword"])
    for bad in ((x, x), (), (3, x)):
        with pytest.raises(TypeRuleError, match=r"equation must be given.*\nhint: ops.einsum"):
            ops.einsum(*bad)


def test_a_graph_value_as_an_input_of_a_run_is_a_clear_error() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (2, 3))
    g.output("y", x + 1)
    for call in (lambda e: e.run({"x": x}), lambda e: e.run_slots([x]), lambda e: e.run_typed({"x": x})):
        with pytest.raises(BindingTypeError, match=r"input 'x'.*must be an array of f32, got Value"):
            call(rlx.compile(g))


# -- models -----------------------------------------------------------------------------


def test_a_model_dumps_its_nodes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    m = model(two_nodes(), {"x": X}, ["y"])
    want = m.run({"x": X})["y"]
    found = m.dump_nodes({"x": X})
    np.testing.assert_array_equal(found["square"], X * X)
    np.testing.assert_allclose(found["y"], want, rtol=1e-6)
    bad = np.array([[np.nan, 1, 2], [np.inf, 0, 1]], F)
    np.testing.assert_array_equal(m.dump_nodes({"x": bad})["square"], bad * bad)
    np.testing.assert_array_equal(m.run({"x": X})["y"], want)
    m.save(tmp_path / "m.rlx")
    with pytest.raises(BindingError, match="ahead-of-time file\nhint: load the ONNX file"):
        rlx.load(tmp_path / "m.rlx").dump_nodes({"x": X})


def test_a_model_runs_on_bytes() -> None:
    m = sized(two_nodes(), {"x": [2, 3]}, "y")
    want = m.run({"x": X})["y"]
    assert m.run_typed({"x": (X.tobytes(), rlx.f32)}) == [(want.tobytes(), rlx.f32)]
    assert m.run_typed({"x": X}) == [(want.tobytes(), rlx.f32)]
    for data, match in ((X.tobytes()[1:], "bytes for"), (b"", "bytes for"), ([1, 2], "contiguous bytes")):
        with pytest.raises(BindingError, match=match):
            m.run_typed({"x": (data, rlx.f32)})
    with pytest.raises(BindingTypeError, match="dtype must be"):
        m.run_typed({"x": (X.tobytes(), rlx.i32)})
    [raw] = m.run_raw({"x": X})
    np.testing.assert_array_equal(raw, want)
    with pytest.raises(ValueError, match="read-only"):
        raw[0] = 1


def test_bytes_tell_one_open_size() -> None:
    m = sized(two_nodes(), {"x": ["n", 3]}, "y")
    [(data, _)] = m.run_typed({"x": (X[:1].tobytes(), "f32")})
    assert len(data) == 3 * 4
    both = sized(two_nodes(), {"x": ["n", "m"]}, "y")
    with pytest.raises(BindingError, match="at most one size"):
        both.run_typed({"x": (X.tobytes(), "f32")})


def test_a_run_of_a_model_is_cancelled() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go_out"]), helper.make_node("Sin", ["v"], ["w"])], "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go_in", 9, []),
         helper.make_tensor_value_info("v", 1, [200_000])],
        [helper.make_tensor_value_info("go_out", 9, []), helper.make_tensor_value_info("w", 1, [200_000])])
    m = model([helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)], {"x": np.ones(200_000, F)}, ["y"],
              {"n": np.array(100_000), "go": np.array(True)})
    timer = threading.Timer(0.5, m.cancel)
    again = threading.Timer(1.5, m.cancel)  # if the first one met the compilation
    timer.start()
    again.start()
    try:
        with pytest.raises(rlx.CancelledError):
            m.run({"x": np.ones(200_000, F)})
    finally:
        timer.cancel()
        again.cancel()


# -- links ------------------------------------------------------------------------------


def test_a_linked_output_of_another_size_is_refused_in_its_own_run() -> None:
    nodes = [helper.make_node("Concat", ["state", "x"], ["next"], axis=0)]
    m = sized(nodes, {"state": [3], "x": [2]}, "next")
    m.bind_handle("state", np.zeros(3, F))
    m.link("next", "state")
    for _ in range(2):
        with pytest.raises(BindingError, match=r"link 'next' -> 'state' of model.*must fit the handle, f32\[3\], got"):
            m.run({"x": np.ones(2, F)})
        np.testing.assert_array_equal(m.read_handle("state"), np.zeros(3, F))
