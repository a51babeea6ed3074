"""The table of products against the processor measures, judges, and says when there is nothing."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_products


def test_cells_have_names_of_their_own():
    names = [c.name for source in (bench_products.many_rows, bench_products.few_rows) for c in source()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["f32 64^3", "u8 x i8 64^3", "4 bits, blocks of 32, zero points: 2x768x3072"])
def test_a_cell_is_measured_and_judged(name, tmp_path):
    given = ["--only", name, "--seconds", "0.001", "--json", str(tmp_path / "out.json")]
    assert bench_products.main(given) == 0
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert row["name"] == name
    assert row["us"] > 0 and 0 < row["share"] < 3
    assert bench_products.main([*given, "--least-gemm", "9", "--least-gemv", "9"]) == 1


def test_nothing_measured_is_no_success():
    assert bench_products.main(["--only", "no such product"]) == 2
