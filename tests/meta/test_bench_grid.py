"""The grid of comparisons: cells compute the same in rlx and in ONNX, missing peers are no passes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_grid
import grid_peers
from grid_cells import CELLS
from grid_data import DATA_CELLS

from rlx.reference import evaluate

ALL = (*CELLS, *DATA_CELLS)
SMALL = [c for c in ALL if sum(np.prod(a.shape) for a in (*c.inputs.values(), *c.weights.values())) < 150_000
         and "resize" not in c.name]


def test_titles_are_unique_and_every_family_of_the_goal_is_there() -> None:
    titles = [c.title for c in ALL]
    assert len(set(titles)) == len(titles)
    assert {c.family for c in CELLS} == {"gemm", "gemv", "conv", "pool", "attention", "softmax", "norm", "elementwise"}
    assert {c.family for c in DATA_CELLS} == {"reduce", "move", "order", "index", "fft", "convert", "recurrent"}


@pytest.mark.parametrize("cell", SMALL, ids=lambda c: c.title)
def test_rlx_computes_what_the_graph_means(cell: bench_grid.Cell) -> None:
    call, result = grid_peers.run_rlx(cell, 1)[0]
    want = evaluate(grid_peers.graph(cell), cell.feeds())["y"]
    np.testing.assert_allclose(result(call()), want, rtol=1e-3, atol=1e-3)


def test_every_family_is_measured_against_onnxruntime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    names = {c.family: c.title for c in reversed(SMALL)}
    file = tmp_path / "grid.json"
    given = ["--only", *names.values(), "--peers", "onnxruntime", "--seconds", "0.001", "--json", str(file)]
    status = bench_grid.main(given)
    assert status == 0
    found = json.loads(file.read_text())
    assert set(found["summary"]["families"]) == set(names)
    assert found["summary"]["all"]["measured"] == found["summary"]["all"]["cells"] >= len(names)
    assert all(r["ratio"] > 0 and r["best"] == "onnxruntime" for r in found["rows"])
    assert "missing" not in capsys.readouterr().out


def test_a_missing_peer_is_reported_and_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(cell: bench_grid.Cell, threads: int) -> list[grid_peers.Made]:
        raise ImportError("no such module")

    def wrong(cell: bench_grid.Cell, threads: int) -> list[grid_peers.Made]:
        return [(lambda: None, lambda _: np.zeros(3, np.float32))]

    monkeypatch.setitem(bench_grid.PEERS, "torch", absent)
    monkeypatch.setitem(bench_grid.PEERS, "openvino", wrong)
    assert bench_grid.main(["--only", SMALL[0].title, "--peers", "torch", "openvino", "--seconds", "0.001"]) == 2
    out = capsys.readouterr()
    assert "no such module" in out.out
    assert "another answer" in out.out
    assert "nothing was measured" in out.err


def test_a_cell_below_the_bound_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def instant(cell: bench_grid.Cell, threads: int) -> list[grid_peers.Made]:
        answer = grid_peers.run_rlx(cell, threads)[0]
        result = answer[1](answer[0]())
        return [(lambda: None, lambda _: result)]

    monkeypatch.setitem(bench_grid.PEERS, "torch", instant)
    given = ["--only", SMALL[0].title, "--peers", "torch", "--seconds", "0.001"]
    assert bench_grid.main([*given, "--least", "0.9"]) == 1
    assert bench_grid.main(given) == 0
