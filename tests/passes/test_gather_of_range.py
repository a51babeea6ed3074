"""Gathers of constant indices at equal steps are slices; others stay."""

import numpy as np
import pytest

import rlx
from rlx import ops

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
SLICES = [
    (np.array(1), 0), (np.array(-1), 1), (np.array([1, 2]), 1), (np.array([[0], [2], [4]]), 2),
    (np.array([-3, -2, -1]), 0), (np.array([2], np.int32), -1),
]
OTHERS = [(np.array([2, 1]), 1), (np.array([0, 0]), 0), (np.array([0, 1, 3]), 2), (np.zeros(0, np.int64), 1)]


def build(indices: np.ndarray, axis: int) -> rlx.Graph:
    graph = rlx.Graph("g")
    graph.output("y", ops.gather(graph.input("x", X.shape), indices, axis=axis))
    return graph


@pytest.mark.parametrize(("indices", "axis"), SLICES + OTHERS)
def test_same_values(indices: np.ndarray, axis: int) -> None:
    graph = build(indices, axis)
    exe = rlx.compile(graph)
    got = exe.run({"x": X})["y"]
    np.testing.assert_array_equal(got, np.take(X, indices, axis))
    is_slice = any(indices is i for i, _ in SLICES)
    assert ("gather" in str(exe.explain().kernels)) != is_slice


def test_an_index_out_of_range_still_raises_when_it_runs() -> None:
    exe = rlx.compile(build(np.array([1, 4]), 1))
    with pytest.raises(IndexError, match="4"):
        exe.run({"x": X})


def test_open_sizes() -> None:
    graph = rlx.Graph("g")
    x = graph.input("x", ("n", 4, 5))
    graph.output("y", ops.gather(x, np.array(2), axis=1))
    np.testing.assert_array_equal(rlx.compile(graph).run({"x": X})["y"], X[:, 2])
