"""What `rlx.load` reads: paths, bytes and open files, of every kind that it knows."""

import io
import os
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rlx
from rlx.testing.files import feed, mlp
from rlx.testing.onnx_models import info


def _proto() -> Any:
    w = numpy_helper.from_array(np.eye(4, dtype=np.float32) * 2, "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [info("x", np.ones((2, 4), np.float32))], [info("y")], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_onnx_files_that_are_open(tmp_path: pathlib.Path) -> None:
    data, x = _proto().SerializeToString(), {"x": np.ones((2, 4), np.float32)}
    (tmp_path / "m.onnx").write_bytes(data)
    with open(tmp_path / "m.onnx", "rb") as file:
        opened = rlx.load(file)
    for model in (opened, rlx.load(io.BytesIO(data))):
        assert model.run(x)["y"].tolist() == [[2.0] * 4] * 2


def test_ahead_of_time_files_that_are_open(tmp_path: pathlib.Path) -> None:
    exe = mlp()
    want = exe.run(feed())["y"].tobytes()
    exe.save(tmp_path / "m.rlx")
    data = (tmp_path / "m.rlx").read_bytes()
    with open(tmp_path / "m.rlx", "rb") as file:
        opened = rlx.load(file, threads=1)
    behind = io.BytesIO(b"abc" + data)
    behind.seek(3)
    for loaded in (opened, rlx.load(io.BytesIO(data)), rlx.load(behind), rlx.load(memoryview(b"x" + data)[1:])):
        assert loaded.run(feed())["y"].tobytes() == want


def test_files_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(rlx.FormatError, match=r"opened for binary reading, got one that reads str"):
        rlx.load(io.StringIO("text"))
    closed = io.BytesIO(b"")
    closed.close()
    with pytest.raises(rlx.FormatError, match=r"must be a readable file"):
        rlx.load(closed)
    with open(tmp_path / "out", "wb") as file, pytest.raises(rlx.FormatError, match=r"must be a readable file, got"):
        rlx.load(file)


def test_external_data_that_cannot_be_read_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(_proto(), str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert rlx.load(path).run({"x": np.ones((2, 4), np.float32)})["y"][0, 0] == 2
    real = open

    def refused(name: Any, *args: Any, **kwargs: Any) -> Any:
        if os.fspath(name).endswith("weights.bin"):
            raise PermissionError(13, "Permission denied", os.fspath(name))
        return real(name, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(rlx.FileError, match=r"tensor 'w': external data must be a readable file, got 'weights.bin' "
                                            r"\(Permission denied\)"):
        rlx.load(path).run({"x": np.ones((2, 4), np.float32)})
