"""Random graphs: compiled equals the reference evaluator, passes on and off, one thread and two, run after run."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx import dtypes
from rlx.ir.text import large_constants, print_graph
from rlx.ops.parse import parse_graph
from rlx.options import CompileOptions
from rlx.reference import evaluate
from rlx.runtime.executable import CompiledGraph
from rlx.testing.graphs import build_graph

STEP = st.tuples(*[st.integers(0, 63)] * 4)
TOLERANCE = {"f64": 1e-9, "f32": 2e-4, "f16": 2e-2, "bf16": 1e-1}


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.lists(STEP, min_size=1, max_size=14))
def test_random_graph_equals_its_definition(shape: list[int], steps: list[tuple[int, int, int, int]]) -> None:
    graph, feeds, exact = build_graph(shape, steps)
    want = evaluate(graph, feeds)
    for options in (
        CompileOptions(threads=1, check=True, poison=True),
        CompileOptions(threads=2, optimize=False, check=True),
    ):
        exe = CompiledGraph(graph, options)
        got = dict(exe.run(feeds).items())
        again = dict(exe.run(feeds).items())
        for name, w in want.items():
            g = got[name]
            assert g.dtype == w.dtype
            assert g.shape == w.shape
            np.testing.assert_array_equal(g, again[name], err_msg="two runs differ")
            if exact[name] or w.dtype.kind not in "fV":
                np.testing.assert_array_equal(g, w, err_msg=f"{name}\n{graph}")
            else:
                tolerance = TOLERANCE[dtypes.of_array(w).name]
                np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance,
                                           err_msg=f"{name}\n{graph}")


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.lists(STEP, min_size=1, max_size=14))
def test_random_graph_prints_and_parses_back(shape: list[int], steps: list[tuple[int, int, int, int]]) -> None:
    graph, _, _ = build_graph(shape, steps)
    again = parse_graph(print_graph(graph), large_constants(graph))
    assert again.structural_hash() == graph.structural_hash()


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_graphs_of_all_kinds_equal_their_definitions(first: int) -> None:
    tool = pathlib.Path(__file__).parents[2] / "tools" / "hunt_graphs.py"
    done = subprocess.run([sys.executable, str(tool), str(first), str(first + 50)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
