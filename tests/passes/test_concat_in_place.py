"""Results go straight into the concatenation that reads them."""

import numpy as np
import pytest

import rlx
from rlx import ops


def array(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def check(build, kernels, tolerance=1e-5, **feeds):
    def run(**options):
        graph = rlx.Graph("g")
        results = build(**{k: graph.input(k, a.shape, a.dtype) for k, a in feeds.items()})
        for i, v in enumerate(results if isinstance(results, tuple) else (results,)):
            graph.output(f"y{i}", v)
        exe = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
        return exe, exe.run(feeds)

    exe, got = run()
    for a, b in zip(got, run(optimize=False)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert exe.explain().kernels == kernels


def test_channels_of_convolutions():
    def net(x, r):
        g = x.graph
        y = ops.relu(ops.conv(x, g.constant(array(6, 3, 3, 3)), pads=(1,) * 4))
        parts = [
            ops.relu(ops.conv(y, g.constant(array(5, 6, 1, 1)), g.constant(array(5)))),
            ops.conv(y, g.constant(array(6, 1, 3, 3)), groups=6, pads=(1,) * 4),
            ops.conv(y, g.constant(array(4, 6, 3, 3)), pads=(1,) * 4) + r,
        ]
        return ops.conv(ops.concat(*parts, axis=1), g.constant(array(3, 15, 1, 1)))

    check(
        net,
        {"strided.b4": 3, "conv.f32@nhwc": 2, "matmul.f32": 2, "conv_depthwise.f32@nhwc": 1},
        1e-4,
        x=array(2, 3, 5, 7),
        r=array(2, 4, 5, 7),
    )


def test_rows_and_columns_of_products():
    def net(x):
        g = x.graph
        a, b = ops.relu(x @ g.constant(array(8, 6))), ops.reshape(x @ g.constant(array(8, 5)), shape=(1, 4, 5))
        rows = ops.concat(ops.abs(x), x @ g.constant(array(8, 8)), ops.neg(x), axis=0)
        return ops.concat(ops.reshape(a, shape=(1, 4, 6)), b, axis=2), rows

    check(net, {"matmul.f32": 3, "region.direct": 2}, x=array(4, 8))


def test_operands_that_others_read_are_copied():
    def net(x):
        a = ops.abs(x)
        return ops.concat(a, ops.neg(a), a, axis=0), ops.concat(x, ops.exp(x), axis=0)

    graph = rlx.Graph("g")
    for i, v in enumerate(net(graph.input("x", (4, 8)))):
        graph.output(f"y{i}", v)
    x = array(4, 8)
    got = rlx.compile(graph, rlx.CompileOptions(check=True, poison=True)).run({"x": x})
    np.testing.assert_array_equal(got["y0"], np.concatenate([abs(x), -abs(x), abs(x)]))
    np.testing.assert_allclose(got["y1"], np.concatenate([x, np.exp(x)]), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_nested(axis):
    def net(x):
        inner = ops.concat(ops.abs(x), ops.sqrt(ops.abs(x)), axis=axis)
        return ops.concat(inner, ops.neg(x), axis=axis)

    graph = rlx.Graph("g")
    graph.output("y", net(graph.input("x", (4, 8))))
    x = array(4, 8)
    got = rlx.compile(graph, rlx.CompileOptions(check=True, poison=True)).run({"x": x})["y"]
    np.testing.assert_allclose(got, np.concatenate([abs(x), np.sqrt(abs(x)), -x], axis), rtol=1e-6)
