"""Large weights that a model gives transposed are packed as they lie, not transposed first."""

import numpy as np

import rlx
from rlx import ops


def test_transposed_weights_are_packed_as_they_lie() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((3, 160)).astype(np.float32), rng.standard_normal((144, 160)).astype(np.float32)
    results = []
    for constant in (w, np.ascontiguousarray(w.T)):
        graph = rlx.Graph("g")
        value = graph.constant(constant)
        b = ops.transpose(value, perm=(1, 0)) if constant is w else value
        graph.output("y", graph.input("x", x.shape) @ b)
        exe = rlx.compile(graph)
        results.append(exe.run({"x": x})["y"])
        assert "transpose" not in str(exe.explain().kernels)
    np.testing.assert_array_equal(*results)


def test_a_transpose_with_another_reader_is_folded() -> None:
    w = np.random.default_rng(4).standard_normal((144, 160)).astype(np.float32)
    x = np.ones((2, 160), np.float32)
    graph = rlx.Graph("g")
    b = ops.transpose(graph.constant(w), perm=(1, 0))
    graph.output("y", graph.input("x", x.shape) @ b)
    graph.output("b", b)
    got = rlx.compile(graph).run({"x": x})
    np.testing.assert_array_equal(got["b"], w.T)
    np.testing.assert_allclose(got["y"], x @ w.T, rtol=1e-4, atol=1e-4)
