"""Models saved with their ONNX file: new shapes, branches and checks as on the original."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rlx
from rlx.testing.onnx_models import info, model


def _conv(n: int = 1) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])]
    return nodes, {"x": rng.standard_normal((n, 3, 12, 12)).astype(np.float32)}, w


def test_new_shapes_are_compiled(tmp_path: pathlib.Path) -> None:
    nodes, x, w = _conv()
    m = model(nodes, x, ["y"], w)
    m.run(x)
    m.save(tmp_path / "m.rlx", portable=True)
    loaded = rlx.load(tmp_path / "m.rlx")
    for n in (1, 2, 5, 2):
        x = _conv(n)[1]
        assert loaded.run(x)["y"].tobytes() == m.run(x)["y"].tobytes()
    twin = loaded.clone()
    assert twin.run(_conv(3)[1])["y"].tobytes() == m.run(_conv(3)[1])["y"].tobytes()
    loaded.save(tmp_path / "again.rlx")  # what was compiled here is in it, the ONNX file is not
    again = rlx.load(tmp_path / "again.rlx")
    assert again.run(_conv(5)[1])["y"].tobytes() == m.run(_conv(5)[1])["y"].tobytes()
    with pytest.raises(rlx.BindingError, match=r"save\(portable=True\)"):
        again.run(_conv(7)[1])
    with pytest.raises(rlx.BindingError, match=r"cannot be saved with one"):
        again.save(tmp_path / "no.rlx", portable=True)
    loaded.save(tmp_path / "more.rlx", portable=True)
    assert rlx.load(tmp_path / "more.rlx").run(_conv(7)[1])["y"].tobytes() == m.run(_conv(7)[1])["y"].tobytes()


def test_a_model_that_never_ran_and_one_that_is_not_trusted(tmp_path: pathlib.Path) -> None:
    nodes, x, w = _conv()
    m = model(nodes, x, ["y"], w)
    m.save(tmp_path / "m.rlx", portable=True)
    want = m.run(x)["y"].tobytes()
    assert rlx.load(tmp_path / "m.rlx").run(x)["y"].tobytes() == want
    m.save(tmp_path / "m.rlx", portable=True)
    assert rlx.load(tmp_path / "m.rlx", trusted=False).run(x)["y"].tobytes() == want
    m.save(tmp_path / "plain.rlx")
    with pytest.raises(rlx.FormatError, match=r"must be compiled from its ONNX file.*\nhint: save\(path, por"):
        rlx.load(tmp_path / "plain.rlx", trusted=False)


def test_outcomes_that_are_new(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
             helper.make_node("GatherND", ["x", "t"], ["v"]), helper.make_node("Add", ["v", "v"], ["y"])]
    x = np.float32([0, 1, 0, 2, 3])
    m = model(nodes, {"x": x}, ["y"])
    m.run({"x": x})
    m.save(tmp_path / "m.rlx", portable=True)
    loaded = rlx.load(tmp_path / "m.rlx")
    for values in ([0, 1, 0, 2, 3], [0, 0, 0, 0, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1], [5, 6]):
        feeds = {"x": np.float32(values)}
        assert loaded.run(feeds)["y"].tolist() == m.run(feeds)["y"].tolist()


def test_steps_that_have_no_name_are_compiled_again(tmp_path: pathlib.Path) -> None:
    x = np.array(["1.5", "2"], object)
    m = model([helper.make_node("Cast", ["x"], ["y"], to=1)], {"x": x}, ["y"])
    want = m.run({"x": x})["y"].tolist()
    with pytest.raises(rlx.FormatError, match=r"one that files can name"):
        m.save(tmp_path / "m.rlx")
    m.save(tmp_path / "m.rlx", portable=True)
    assert rlx.load(tmp_path / "m.rlx").run({"x": x})["y"].tolist() == want == [1.5, 2.0]


def test_the_check_for_nan_needs_the_onnx_file(tmp_path: pathlib.Path) -> None:
    w = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Div", ["x", "w"], ["y"], name="ratio")], "g",
                              [info("x", np.ones(3, np.float32))], [info("y")], [w])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    m = rlx.load(proto.SerializeToString(), options=rlx.CompileOptions(nan_check=True))
    with pytest.raises(rlx.ExecutionError, match="ratio"):
        m.run({"x": np.ones(3, np.float32)})
    with pytest.raises(rlx.FormatError, match=r"nan_check.*\nhint: save\(path, portable=True\)"):
        m.save(tmp_path / "m.rlx")
    m.save(tmp_path / "m.rlx", portable=True)
    with pytest.raises(rlx.ExecutionError, match="ratio"):
        rlx.load(tmp_path / "m.rlx").run({"x": np.ones(3, np.float32)})


def test_external_data_is_in_the_file(tmp_path: pathlib.Path) -> None:
    w = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, ["n", 4])], [info("y")], [w])
    path = tmp_path / "m.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path),
                    save_as_external_data=True, location="weights.bin", size_threshold=0)
    m = rlx.load(path)
    m.save(tmp_path / "m.rlx", inputs={"x": np.ones((1, 4), np.float32)}, portable=True)
    want = m.run({"x": np.ones((3, 4), np.float32)})["y"].tobytes()
    del m
    (tmp_path / "weights.bin").unlink()
    assert rlx.load(tmp_path / "m.rlx").run({"x": np.ones((3, 4), np.float32)})["y"].tobytes() == want
