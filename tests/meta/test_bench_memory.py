"""Peaks of memory are measured in processes of their own; what cannot be measured is named and is no pass."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_memory
import model_list

from rlx.testing.onnx_models import proto


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """A list of a model with weights of 64 MiB and one whose file is missing."""
    onnx = pytest.importorskip("onnx")
    (tmp_path / "models").mkdir()
    w = np.ones((4096, 4096), np.float32)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    x = np.ones((1, 4096), np.float32)
    onnx.save(proto(nodes, {"x": x}, ["y"], {"w": w}), str(tmp_path / "models" / "large.onnx"))
    np.savez(tmp_path / "models" / "large.npz", **{"in:x": x, "out:y": x})
    entries = [{"name": "large", "file": "large.onnx", "io": "large.npz"},
               {"name": "gone", "file": "gone.onnx", "io": "large.npz"},
               {"name": "unfetched", "fetch": "p==1:a.onnx", "io": "large.npz"}]  # fmt: skip
    path = tmp_path / "models" / "list.json"
    path.write_text(json.dumps(entries))
    return path


def test_a_large_weight_is_held_once(listing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loading peaks at the packed weight and what is read of the file at a time, not at two copies and the file."""
    pytest.importorskip("onnxruntime")
    out = tmp_path / "memory.json"
    assert bench_memory.main([str(listing), "--json", str(out)]) == 0
    large, gone, unfetched = json.loads(out.read_text())["rows"]
    assert large["ratio"] == large["onnxruntime"]["peak"] / large["rlx"]["peak"]
    above = (large["rlx"]["peak"] - large["rlx"]["base"]) / bench_memory.MIB
    assert 64 < above < 64 * 2.75
    assert large["rlx"]["resident"] - large["rlx"]["base"] < 64 * 1.75 * bench_memory.MIB
    assert "ratio" not in gone and "gone.onnx" in gone["missing"]
    assert "fetch_models.py" in unfetched["missing"]
    assert "at least 1 on" in capsys.readouterr().out


def test_nothing_measured_is_no_pass(listing: Path) -> None:
    assert bench_memory.main([str(listing), "--only", "gone"]) == 2
    assert bench_memory.main([str(listing), "--only", "nothing at all"]) == 2


def test_texts_are_given_as_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "io.npz", **{"in:t": np.array(["a", "b"]), "in:n": np.ones(2), "out:y": np.ones(1)})
    found = model_list.feeds(tmp_path / "io.npz")
    assert found["t"].dtype == object and found["n"].dtype == np.float64 and set(found) == {"t", "n"}
