"""The performance report: what was measured is kept, a page shows all of it, plots are well formed."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_call
import bench_models
import perf_page
import perf_report

from rlx.testing.onnx_models import proto

Row = dict[str, Any]


def results() -> dict[str, list[Row]]:
    """Made-up figures; the second model is slower than its peer and slower with two threads."""
    def model(name: str, ratio: float, rlx: float) -> Row:
        return {"name": name, "ratio": ratio, "run": {"rlx": rlx, "onnxruntime": rlx * ratio},
                "first": {"rlx": 0.01, "onnxruntime": 0.02}, "first_ratio": 2.0}  # fmt: skip

    def memory(name: str, ratio: float) -> Row:
        return {"name": name, "ratio": ratio, "onnxruntime": {"peak": ratio * 2**20, "base": 1},
                "rlx": {"peak": 2**20, "base": 1, "arena": 104, "bound": 100}}  # fmt: skip

    return {
        "call": [{"name": "call", "seconds": {"run": 1e-6, "onnxruntime": 8e-6}, "ratio": 8.0}],
        "models-1": [model("a/<b>&", 2.0, 1.0), model("slow", 0.5, 1.0), {"name": "lost", "missing": "no file"}],
        "models-2": [model("a/<b>&", 3.0, 0.6), model("slow", 0.4, 1.2)],
        "memory": [memory("a/<b>&", 1.5), memory("slow", 0.9)],
        "grid": [{"name": "gemm/1", "family": "gemm", "ratio": 1.5, "best": "torch", "us": {"rlx": 1, "torch": 2}},
                 {"name": "conv/1", "family": "conv", "ratio": 0.7, "best": "onnxruntime",
                  "us": {"rlx": 2, "onnxruntime": 1}}],
    }  # fmt: skip


def test_a_page_shows_all_figures(tmp_path: Path) -> None:
    written = perf_page.write(tmp_path / "performance.md", results(), {"rlx": "1"})
    text = written[0].read_text()
    for expected in ("| `run` | 1.00 | 8.0 |", "geometric mean **1.00**, worst 0.50", "with one: `slow`.",
                     "| gemm | 1 | 1.50 | 1.50 | 1 |", "4.0 % above the lower bound", "- models-1, lost: no file",
                     "fastest of onnxruntime, torch"):  # fmt: skip
        assert expected in text
    assert {p.name for p in written[1:]} == {"models.svg", "first.svg", "grid.svg", "memory.svg"}
    for path in written[1:]:
        root = ElementTree.fromstring(path.read_text())
        assert root.tag.endswith("svg") and f"performance/{path.name}" in text
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        for box in root.iter("{http://www.w3.org/2000/svg}circle"):
            assert 0 <= float(box.attrib["cx"]) <= width and 0 <= float(box.attrib["cy"]) <= height
        assert perf_page.BAD in path.read_text() or path.name == "first.svg"


def test_a_page_of_nothing_but_one_stage(tmp_path: Path) -> None:
    some = {stage: rows if stage == "call" else [] for stage, rows in results().items()}
    (page,) = perf_page.write(tmp_path / "p.md", some, {})
    assert "## A call" in page.read_text() and "## Models" not in page.read_text()


def test_rows_outlive_an_interrupted_run(tmp_path: Path) -> None:
    store = perf_report.Store(tmp_path, "v1")
    store.add("memory", {"name": "a", "ratio": 1.0})
    store.add("memory", {"name": "a", "ratio": 2.0})
    with store.file("memory").open("a") as file:
        file.write('{"name": "b", "rat')
    assert [(r["name"], r["ratio"]) for r in store.rows("memory")] == [("a", 2.0)]
    assert perf_report.Store(tmp_path, "v2").rows("memory") == []
    store.clear()
    assert store.rows("memory") == []


def test_stages_measure_what_is_missing_within_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def job(name: str) -> Row:
        done.append(name)
        if name == "bad":
            raise ValueError("broken")
        return {"ratio": 1.0}

    names = ["a", "bad", "c"]
    monkeypatch.setattr(perf_report, "jobs", lambda stage, args: [(n, lambda n=n: job(n)) for n in names])
    store = perf_report.Store(tmp_path, "k")
    store.add("grid", {"name": "a", "ratio": 3.0})
    args = perf_report.arguments([])
    lines = list(perf_report.run_stage("grid", store, args, 60.0))
    assert done == ["bad", "c"] and len(lines) == 2 and "3/3" in lines[1]
    assert {r["name"]: r.get("missing") for r in store.rows("grid")} == {
        "a": None, "bad": "ValueError: broken", "c": None}  # fmt: skip
    assert list(perf_report.run_stage("grid", store, args, 60.0)) == []
    names.append("d")
    (line,) = perf_report.run_stage("grid", store, args, -1.0)
    assert "1 of 4 not measured" in line and done == ["bad", "c"]


def test_the_command_measures_a_call_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    given = ["--quick", "--only", "call", "--results", str(tmp_path / "r"), "--page", str(tmp_path / "p.md")]
    assert perf_report.main([*given, "--page-only"]) == 2
    assert perf_report.main(given) == 0
    assert "call        1/1" in capsys.readouterr().out
    assert "`run_slots`" in (tmp_path / "p.md").read_text()
    assert perf_report.main(given) == 0
    assert "1/1" not in capsys.readouterr().out  # it was there


def test_a_call_is_compared_on_equal_answers() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    found = bench_call.measure(0.01)
    assert {*perf_page.CALLS, "onnxruntime, empty graph", "nothing"} < set(found["seconds"])
    empty = found["seconds"]["onnxruntime, empty graph"] - found["seconds"]["nothing"]
    for name, over in found["over"].items():
        assert found["over_empty"][name] == over / empty
        layers = found["seconds"][name] - found["seconds"]["nothing"] - over
        assert layers == pytest.approx((found["seconds"][f"{name}, 64 layers"] - found["seconds"][name]) / 7)
    page = "\n".join(perf_page._call([{"name": "call", **found}]))
    assert f"({found['over_empty']['run']:.3f} of it) by `run`" in page and "64 layers" not in page
    assert found["ratio"] == found["seconds"]["onnxruntime"] / found["seconds"]["run"]


def test_models_are_compared_in_processes_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    x = np.ones((4, 4), np.float32)
    onnx.save(proto([onnx.helper.make_node("Tanh", ["x"], ["y"])], {"x": x}, ["y"]), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "m.npz", **{"in:x": x})
    entries = [{"name": "m", "file": "m.onnx", "io": "m.npz"}, {"name": "gone", "file": "no.onnx", "io": "m.npz"}]
    (tmp_path / "list.json").write_text(json.dumps(entries))
    out = tmp_path / "out.json"
    assert bench_models.main([str(tmp_path / "list.json"), "--seconds", "0.02", "--json", str(out)]) == 0
    good, gone = json.loads(out.read_text())["rows"]
    assert good["ratio"] > 0 and good["first"]["rlx"] > 0 and good["runs"] >= 6 and "missing" in gone
    assert bench_models.main([str(tmp_path / "list.json"), "--only", "gone"]) == 2
    assert "nothing was measured" in capsys.readouterr().err
