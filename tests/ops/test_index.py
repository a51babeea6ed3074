"""Indices out of range raise when the graph runs, naming node, index and bound; nothing is written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops

X = np.arange(12, dtype=np.float32).reshape(3, 4)
U = np.ones((1, 4), np.float32)
CALLS: dict[str, tuple[Callable[[Any, Any], Any], Any, int]] = {
    "gather": (lambda x, i: ops.gather(x, i, axis=0, name="look"), [0, 2, -4], 3),
    "gather high": (lambda x, i: ops.gather(x, i, axis=1, name="look"), [4], 4),
    "gather_elements": (lambda x, i: ops.gather_elements(x, i, axis=0, name="look"), [[0, 1, 2, 3]], 3),
    "gather_nd": (lambda x, i: ops.gather_nd(x, i, name="look"), [[0, 4]], 4),
    "scatter_elements": (lambda x, i: ops.scatter_elements(x, i, U, axis=0, name="look"), [[0, 0, 0, 3]], 3),
    "scatter_add": (lambda x, i: ops.scatter_elements(x, i, U, axis=0, reduction="add", name="look"),
                    [[-4, 0, 0, 0]], 3),
    "scatter_nd": (lambda x, i: ops.scatter_nd(x, i, U, name="look"), [[3]], 3),
    "max_unpool": (lambda x, i: ops.max_unpool(ops.gather(x, np.array([0])), i, shape=(5,), name="look"),
                   [[0, 1, 2, 9]], 5),
}


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("name", CALLS)
def test_index_out_of_range(name: str, kind: type) -> None:
    build, bad, bound = CALLS[name]
    if name == "max_unpool" and kind is np.int32:
        pytest.skip("one type is enough")
    indices = np.array(bad, kind)
    graph = rlx.Graph("g")
    graph.output("y", build(graph.input("x", X.shape), graph.input("i", indices.shape, kind)))
    exe = rlx.compile(graph)
    with pytest.raises(IndexError, match=str(bound)) as caught:
        exe.run({"x": X, "i": indices})
    assert isinstance(caught.value, rlx.RlxError)
    assert "look" in str(caught.value) or name == "max_unpool"
    good = np.clip(indices, -1, 1)
    assert exe.run({"x": X, "i": good})["y"].dtype == np.float32  # the executable stays usable


def test_scatter_leaves_its_operand_alone() -> None:
    graph = rlx.Graph("g")
    x = graph.input("x", (3, 4))
    y = ops.scatter_nd(x, np.array([[1]]), np.full((1, 4), 9, np.float32))
    graph.output("y", y)
    graph.output("z", x * 2.0)
    given = X.copy()
    out = rlx.compile(graph).run({"x": given})
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(out["z"], X * 2)
    np.testing.assert_array_equal(out["y"][1], np.full(4, 9))


def test_scatter_works_in_place_of_a_value_that_dies() -> None:
    graph = rlx.Graph("g")
    x = graph.input("x", (300, 40))
    total = ops.softmax(x)
    graph.output("y", ops.scatter_nd(total, np.array([[7]]), np.zeros((1, 40), np.float32)) * 2.0)
    exe = rlx.compile(graph)
    got = exe.run({"x": np.ones((300, 40), np.float32)})["y"]
    assert (got[7] == 0).all() and np.allclose(got[8], 0.05)


def test_repeated_indices_apply_in_order_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    indices, updates = rng.integers(0, 50, (4000, 1)), rng.standard_normal((4000, 64)).astype(np.float32)
    results = []
    for threads in (1, 2):
        for reduction in ("none", "add"):
            graph = rlx.Graph("g")
            x = graph.input("x", (50, 64))
            graph.output("y", ops.scatter_nd(x, indices, updates, reduction=reduction))
            exe = rlx.compile(graph, rlx.CompileOptions(threads=threads))
            results.append(exe.run({"x": np.zeros((50, 64), np.float32)})["y"])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])
    last = {int(i): k for k, i in enumerate(indices[:, 0])}
    np.testing.assert_array_equal(results[0][list(last)], updates[list(last.values())])


def test_many_axes() -> None:
    rank = 40
    x = np.arange(12, dtype=np.float32).reshape(3, *(1,) * (rank - 2), 4)
    indices = np.array([2, 0]).reshape(2, *(1,) * (rank - 1))
    graph = rlx.Graph("g")
    v = graph.input("x", x.shape)
    graph.output("gathered", ops.gather_elements(v, indices, axis=0))
    graph.output("scattered", ops.scatter_elements(v, indices, np.zeros(indices.shape, np.float32), axis=0))
    graph.output("padded", ops.pad(v, before=(1, *(0,) * (rank - 2), 1), after=(0,) * rank, mode="edge"))
    graph.output("sum", ops.reduce_sum(v, axes=tuple(range(0, rank, 2))))
    out = rlx.compile(graph).run({"x": x})
    assert out["gathered"].reshape(-1).tolist() == [8, 0]
    assert out["scattered"].reshape(3, 4)[[0, 2], 0].tolist() == [0, 0]
    np.testing.assert_array_equal(out["padded"].reshape(4, 5), np.pad(x.reshape(3, 4), ((1, 0), (1, 0)), "edge"))
    np.testing.assert_array_equal(out["sum"].reshape(-1), x.reshape(3, 4).sum(0))
    graph = rlx.Graph("g")
    graph.output("y", ops.nonzero(graph.input("x", x.shape)))
    with pytest.raises(rlx.RlxError, match="rank must be at most 32"):
        rlx.compile(graph).run({"x": x})


@pytest.mark.parametrize(("rank", "fits"), [(33, True), (64, True), (65, False)])
def test_outputs_of_many_axes(rank: int, fits: bool) -> None:
    graph = rlx.Graph("g")
    if not fits:
        with pytest.raises(rlx.RlxError, match="at most 64"):
            ops.reshape(graph.input("x", (3,)) * 2.0, shape=(3, *(1,) * (rank - 1)))
        return
    graph.output("y", ops.reshape(graph.input("x", (3,)) * 2.0, shape=(3, *(1,) * (rank - 1))))
    out = rlx.compile(graph).run({"x": np.ones(3, np.float32)})["y"]
    assert out.shape == (3, *(1,) * (rank - 1)) and out.reshape(-1).tolist() == [2, 2, 2]
