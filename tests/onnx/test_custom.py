"""Registered ops in ONNX files, and ops that run through the reference implementation of the onnx package."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

import rlx
from rlx.onnx import registry
from rlx.ops.parse import parse_graph
from rlx.testing.onnx_models import proto

F = np.float32


@pytest.fixture(autouse=True)
def clean_table():
    yield
    for name in list(rlx.registered_ops()):
        if name.startswith("t."):
            rlx.unregister_op(name)


def nodes(*made, feeds, outputs=("y",), opsets=(("", 21), ("my.domain", 3))):
    data = proto(list(made), feeds, list(outputs))
    model = onnx.ModelProto.FromString(data) if isinstance(data, bytes) else data
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in opsets)
    return model.SerializeToString()


def test_a_registered_op_is_imported_by_domain_name_and_opset():
    x = np.arange(6, dtype=F).reshape(2, 3)
    node = helper.make_node("Scale", ["h"], ["y"], domain="my.domain", name="mine", alpha=2.0, how="up", axes=[1, 2])
    data = nodes(helper.make_node("Relu", ["x"], ["h"]), node, feeds={"x": x})
    with pytest.raises(rlx.UnsupportedOpError, match=r"domain 'my\.domain', opset 3"):
        rlx.load(data)
    attrs = {"alpha": 1.0, "how": "down", "axes": (0,)}
    for since, factor in ((1, 1), (3, 3), (4, 4)):
        rlx.register_op(f"t.scale{since}", inputs=("x", "bias?"), attributes=attrs,
                        onnx=[("my.domain", "Scale", since)],
                        reference=lambda x, bias=None, *, alpha, how, axes, factor=factor:
                        (x * F(alpha * factor) + (how == "up") + len(axes)).astype(x.dtype))
    model = rlx.load(data)
    np.testing.assert_array_equal(model.run({"x": x})["y"], x * 6 + 3)
    text = str(model.explain())
    assert "(t.scale3) at" in text or "'mine' (t.scale3) runs in Python, with the GIL" in text
    rlx.unregister_op("t.scale3")
    np.testing.assert_array_equal(rlx.load(data).run({"x": x})["y"], x * 2 + 3)
    bad = nodes(helper.make_node("Scale", ["x"], ["y"], domain="my.domain", beta=1), feeds={"x": x})
    with pytest.raises(rlx.GraphError, match="got 'beta'"):
        rlx.load(bad).run({"x": x})


def test_a_file_that_needs_an_op_names_itself_and_says_how_to_register_it(tmp_path):
    x = np.arange(3, dtype=F)
    data = nodes(helper.make_node("Twice", ["x"], ["y"], domain="my.domain"), feeds={"x": x})
    rlx.register_op("t.twice", inputs=("x",), reference=lambda x: x + x, onnx=[("my.domain", "Twice", 1)])
    rlx.load(data).save(tmp_path / "m.rlx", portable=True)
    assert rlx.load(tmp_path / "m.rlx").run({"x": x})["y"].tolist() == [0, 2, 4]
    rlx.unregister_op("t.twice")
    message = r"(?s)m\.rlx.*\(my\.domain\.Twice\).*\nhint: rlx\.register_op\(\.\.\., onnx="
    with pytest.raises(rlx.UnsupportedOpError, match=message):
        rlx.load(tmp_path / "m.rlx").run({"x": x})


def test_a_registered_op_goes_before_the_importers_own():
    x = np.arange(3, dtype=F)
    rlx.register_op("t.relu", inputs=("x",), reference=lambda x: x + 7, onnx=[("ai.onnx", "Relu", 1)])
    data = nodes(helper.make_node("Relu", ["x"], ["y"]), feeds={"x": x})
    np.testing.assert_array_equal(rlx.load(data).run({"x": x})["y"], x + 7)
    rlx.unregister_op("t.relu")
    np.testing.assert_array_equal(rlx.load(data).run({"x": x})["y"], x)


CASES = [
    ("Det", {}, [np.random.default_rng(0).random((3, 4, 4)).astype(F)]),
    ("Hardmax", {"axis": 1}, [np.random.default_rng(1).random((3, 4)).astype(F)]),
    ("CumSum", {"reverse": 1}, [np.arange(6, dtype=F).reshape(2, 3), np.asarray(1, np.int64)]),
    ("NonZero", {}, [np.asarray([[0, 1, 2], [0, 0, 3]], F)]),
    ("LpPool", {"kernel_shape": [2, 2]}, [np.random.default_rng(2).random((1, 1, 4, 4)).astype(F)]),
]


@pytest.mark.parametrize(("name", "attrs", "arrays"), CASES, ids=[c[0] for c in CASES])
def test_ops_without_a_function_run_through_the_reference_implementation(name, attrs, arrays, monkeypatch):
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    data = nodes(helper.make_node(name, list(feeds), ["h"], name="mine", **attrs),
                 helper.make_node("Identity", ["h"], ["y"]), feeds=feeds)
    want = rlx.load(data).run(feeds)["y"]
    table = {k: v for k, v in registry.table().items() if k != ("", name)}
    monkeypatch.setattr(registry, "_TABLE", table)
    model = rlx.load(data)
    for _ in range(2):
        got = model.run(feeds)["y"]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if name == "NonZero":  # its size depends on data
        assert "node 'mine' (NonZero) runs in Python, between segments" in model._core.foreign()
    else:
        assert f"'mine' (onnx.{name}) runs in Python, with the GIL" in str(model.explain())
        graph = next(v.compiled.graph for v in model._variants())
        assert parse_graph(str(graph)).structural_hash() == graph.structural_hash()


def test_max_roi_pool_equals_onnx_runtime():
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 9, 11)).astype(F)
    rois = np.asarray([[0, 0, 0, 8, 6], [1, 2.5, 1.5, 30, 31], [1, 4, 4, 4, 4], [0, 9, 8, 2, 1], [0, -3, -2, 5, 20]], F)
    feeds = {"x": x, "rois": rois}
    for shape, scale in (((2, 3), 1.0), ((4, 4), 0.5), ((1, 1), 0.25)):
        node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=shape, spatial_scale=scale)
        data = nodes(node, feeds=feeds, opsets=(("", 13),))
        want = runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        model = rlx.load(data)
        np.testing.assert_array_equal(model.run(feeds)["y"], want)
        assert "onnx.MaxRoiPool" in str(model.explain())
    with pytest.raises(rlx.ExecutionError, match=r"the image of region 0 must be in \[0, 2\), got 7"):
        rlx.load(data).run({"x": x, "rois": rois + F(7)})


def test_what_the_reference_implementation_needs_other_packages_for_is_refused():
    data = nodes(helper.make_node("ImageDecoder", ["x"], ["y"]), feeds={"x": np.zeros(4, np.uint8)})
    with pytest.raises(rlx.UnsupportedOpError, match="ImageDecoder"):
        rlx.load(data)


def test_ordinary_models_load_no_reference_implementation():
    code = """if True:
        import sys, numpy as np
        from onnx import helper
        import rlx
        from rlx.testing.onnx_models import proto
        x = np.ones(3, np.float32)
        rlx.load(proto([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, ["y"])).run({"x": x})
        assert not [m for m in sys.modules if m.startswith(("onnx.reference", "rlx.onnx.reference", "rlx.custom"))]
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
