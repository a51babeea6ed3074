"""ONNX models saved and loaded in another process: the same bits, without the importer."""

import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx.testing.onnx_models import info, model

RUN = """
import pickle, sys, time
import rlx
feeds = pickle.load(sys.stdin.buffer)
start = time.perf_counter()
model = rlx.load(sys.argv[1])
results = [list(model.run(f).values()) for f in feeds]
seconds = time.perf_counter() - start
heavy = ("rlx.passes", "rlx.ops", "rlx.compiler", "rlx.lower", "rlx.onnx.tracer", "onnx")
loaded = sorted(m for m in sys.modules if m.startswith(heavy))
pickle.dump((results, loaded, seconds), sys.stdout.buffer)
"""


def elsewhere(path: pathlib.Path, feeds: list[dict[str, Any]]) -> tuple[list[list[Any]], list[str]]:
    """What another process gets, and what it had to import."""
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], input=pickle.dumps(feeds), capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    results, loaded, _ = pickle.loads(done.stdout)
    return results, loaded


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and (bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes())
    return bool(a == b)


def conv(n: int = 1) -> tuple[Any, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "m": rng.standard_normal((8, 5)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("MatMul", ["f", "m"], ["y"])]
    x = {"x": rng.standard_normal((n, 3, 12, 12)).astype(np.float32)}
    return model(nodes, x, ["y"], w), x


def test_all_shapes_met_so_far_and_no_other(tmp_path: pathlib.Path) -> None:
    m, _ = conv()
    feeds = [conv(n)[1] for n in (1, 4)]
    want = [list(m.run(f).values()) for f in feeds]
    m.save(tmp_path / "m.rlx")
    results, loaded = elsewhere(tmp_path / "m.rlx", feeds)
    assert loaded == []
    assert all(equal(a, b) for r, w in zip(results, want, strict=True) for a, b in zip(r, w, strict=True))
    other = rlx.load(tmp_path / "m.rlx")
    with pytest.raises(rlx.BindingError, match=r"must have a plan for the inputs, got shapes \[\(2, 3, 12, 12\)\]"):
        other.run(conv(2)[1])
    assert equal(other.run(feeds[0])["y"], want[0][0])


def test_a_model_that_never_ran_is_refused_unless_inputs_are_given(tmp_path: pathlib.Path) -> None:
    m, x = conv()
    with pytest.raises(rlx.BindingError, match="compiled for some shapes"):
        m.save(tmp_path / "m.rlx")
    m.save(tmp_path / "m.rlx", inputs=x)
    assert equal(rlx.load(tmp_path / "m.rlx").run(x)["y"], m.run(x)["y"])


def test_reports_of_a_loaded_model(tmp_path: pathlib.Path) -> None:
    m, x = conv()
    m.run(x)
    m.save(tmp_path / "m.rlx")
    other = rlx.load(tmp_path / "m.rlx")
    assert str(other.signature) == str(m.signature)
    assert other.metadata == m.metadata
    assert str(other.explain()) == str(m.explain())
    assert other.memory_report() == m.memory_report()
    assert [r.kernel for r in other.profile(x).rows] == [r.kernel for r in m.profile(x).rows]
    assert other.run(x, threads=2, out={"y": np.empty((1, 5), np.float32)})["y"].tobytes() == m.run(x)["y"].tobytes()
    with pytest.raises(rlx.UnknownNameError, match=r"did you mean|known names"):
        other.run({"xx": x["x"]})
    other.save(tmp_path / "again.rlx")
    assert equal(rlx.load(tmp_path / "again.rlx").run(x)["y"], m.run(x)["y"])


def test_branches_and_shapes_that_follow_from_values(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
             helper.make_node("GatherND", ["x", "t"], ["v"]), helper.make_node("Add", ["v", "v"], ["y"])]
    x = np.float32([0, 1, 0, 2, 3])
    m = model(nodes, {"x": x}, ["y"])
    feeds = [{"x": x}, {"x": np.float32([1, 0, 0, 0, 0])}]
    want = [list(m.run(f).values()) for f in feeds]
    m.save(tmp_path / "m.rlx")
    results, loaded = elsewhere(tmp_path / "m.rlx", [*feeds, feeds[0]])
    assert loaded == []
    assert all(equal(a, b) for a, b in zip(results, [*want, want[0]], strict=True) for a, b in zip(a, b, strict=True))
    with pytest.raises(rlx.BindingError, match="no plan for what step"):
        rlx.load(tmp_path / "m.rlx").run({"x": np.float32([0, 0, 0, 0, 0])})


def test_strings_and_maps(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("StringNormalizer", ["x"], ["n"], case_change_action="LOWER", stopwords=["the"]),
             helper.make_node("CategoryMapper", ["n"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b"],
                              cats_int64s=[7, 9], default_int64=-1)]
    x = np.array(["A", "the", "B", "C"], object)
    m = model(nodes, {"x": x}, ["y"], domains=["ai.onnx.ml"])
    want = m.run({"x": x})["y"]
    m.save(tmp_path / "m.rlx")
    results, _ = elsewhere(tmp_path / "m.rlx", [{"x": x}])
    assert equal(results[0][0], want)
    assert want.tolist() == [7, 9, -1]


def test_maps(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])]
    kind = helper.make_map_type_proto(8, helper.make_tensor_type_proto(1, []))
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("x", kind)], [info("y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    m = rlx.load(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    want = m.run({"x": {"b": 1.5}})["y"]
    m.save(tmp_path / "m.rlx")
    assert equal(rlx.load(tmp_path / "m.rlx").run({"x": {"b": 1.5}})["y"], want)


def test_a_host_step_without_a_name_is_refused(tmp_path: pathlib.Path) -> None:
    x = np.arange(4, dtype=np.float32)
    m = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": x}, ["y"])
    m.run({"x": x})
    step = next(iter(m._core.plans.values())).children[None]
    step.function = lambda x: x
    with pytest.raises(rlx.FormatError, match=r"one that files can name, got .*<lambda>"):
        m.save(tmp_path / "m.rlx")


MODELS = pathlib.Path(os.environ.get("RLX_MODELS", "~/.cache/rlx-models")).expanduser()
SMALL = sorted(p for p in MODELS.glob("*.onnx") if p.stat().st_size < 4e6)[:6] if MODELS.is_dir() else []


@pytest.mark.models
@pytest.mark.skipif(not SMALL, reason="no model files: set RLX_MODELS")
@pytest.mark.parametrize("path", SMALL, ids=lambda p: p.stem)
def test_real_models(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    from rlx.cli.session import make_inputs

    m = rlx.load(path, threads=1)
    inputs, _ = make_inputs(m.signature.inputs, [], [])
    try:
        want = list(m.run(inputs).values())
    except rlx.RlxError as error:
        pytest.skip(f"made-up inputs do not fit: {error}")
    m.save(tmp_path / "m.rlx")
    results, loaded = elsewhere(tmp_path / "m.rlx", [inputs])
    assert loaded == []
    assert all(equal(a, b) for a, b in zip(results[0], want, strict=True))


def test_random_numbers_of_models_go_on_where_they_were(tmp_path: pathlib.Path) -> None:
    x = {"x": np.zeros((4, 3), np.float32)}
    m = model([helper.make_node("RandomUniformLike", ["x"], ["y"])], x, ["y"])
    m.set_rng(rlx.RngOptions(seed=5))
    m.run(x)
    m.save(tmp_path / "m.rlx")
    other = rlx.load(tmp_path / "m.rlx")
    assert other.rng == m.rng
    for _ in range(2):
        assert equal(other.run(x)["y"], m.run(x)["y"])
