"""Elementwise work ahead of moves; stacks reduced element by element."""

import numpy as np

import rlx
from rlx import ops


def array(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def check(build, kernels, tolerance=0.0, **feeds):
    def run(**options):
        graph = rlx.Graph("g")
        results = build(**{k: graph.input(k, a.shape, a.dtype) for k, a in feeds.items()})
        for i, v in enumerate(results if isinstance(results, tuple) else (results,)):
            graph.output(f"y{i}", v)
        exe = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
        return exe, exe.run(feeds)

    exe, got = run()
    for a, b in zip(got, run(optimize=False)[1], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert exe.explain().kernels == kernels


def test_work_after_a_reshape_joins_the_product():
    def net(x):
        y = ops.reshape(x @ x.graph.constant(array(8, 6)), shape=(2, 5, 6))
        return ops.relu(y + x.graph.constant(array(1, 1, 6))) * 0.5

    check(net, {"matmul.f32": 1}, x=array(10, 8))


def test_conversion_ahead_of_a_transpose():
    def net(x):
        y = ops.transpose(ops.relu(x), perm=(1, 0, 2))
        return ops.cast(ops.round(y * 3.0 + x.graph.constant(array(6))), dtype=rlx.i8)

    check(net, {"region.ew": 1, "strided.b1": 1}, x=array(4, 5, 6))


def test_moved_value_with_two_readers_and_full_operands_stay():
    def net(x, r):
        y = ops.transpose(ops.relu(x), perm=(1, 0))
        return ops.neg(y), y + r, ops.transpose(ops.relu(r), perm=(1, 0)) * x

    graph = rlx.Graph("g")
    x, r = graph.input("x", (4, 5)), graph.input("r", (5, 4))
    for i, v in enumerate(net(x, r)):
        graph.output(f"y{i}", v)
    a, b = array(4, 5), array(5, 4)
    got = rlx.compile(graph).run({"x": a, "r": b})
    relu = np.maximum(a, 0).T
    np.testing.assert_array_equal(got["y0"], -relu)
    np.testing.assert_array_equal(got["y1"], relu + b)
    np.testing.assert_array_equal(got["y2"], np.maximum(b, 0).T * a)


def test_stacks():
    def net(a, b, c):
        s = ops.concat(*(ops.unsqueeze(v, -1) for v in (a, b, c)), axis=2)
        return ops.reduce_max(s, axes=(2,)), ops.reduce_sum(s, axes=(-1,), keepdims=True)

    feeds = {k: array(4, 5, seed=i) for i, k in enumerate("abc")}
    feeds["b"][0, 0] = np.nan
    check(net, {"region.ew": 2}, 1e-6, **feeds)


def test_sum_of_squares():
    check(lambda x: ops.reduce_sum(x * x, axes=(1,)), {"reduce_sum_square.f32": 1}, 1e-5, x=array(3, 70))


def test_one_hot_times_matrix_is_a_gather():
    def net(x):
        g = x.graph
        hot = ops.eq(ops.reshape(x, shape=(2, 6, 1)), g.constant(np.arange(9).reshape(1, 1, 9)))
        return ops.cast(hot, dtype=rlx.f32) @ g.constant(array(9, 5))

    x = np.random.default_rng(0).integers(0, 9, (2, 6))
    x[0, :2] = -1, 9  # no column is hot
    graph = rlx.Graph("g")
    graph.output("y", net(graph.input("x", x.shape, rlx.i64)))
    exe = rlx.compile(graph)
    got = exe.run({"x": x})["y"]
    np.testing.assert_array_equal(got, rlx.compile(graph, rlx.CompileOptions(optimize=False)).run({"x": x})["y"])
    assert not any(k.startswith("matmul") for k in exe.explain().kernels)
