"""matmul with bias, activations, residuals and transposes becomes one node with the same bits."""

import numpy as np
import pytest

import rlx
from rlx import ops


def compiled(build, disable=(), **kwargs):
    graph = rlx.Graph("g")
    graph.output("y", build(graph))
    return rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, disable=disable, **kwargs))


def array(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def same(build, feeds, kernels, atol=0.0, **kwargs):
    """With and without the pass: the same values; with it only these kernels run."""
    exe = compiled(build, **kwargs)
    got = exe.run(feeds)["y"]
    want = compiled(build, disable=("fuse-matmul",), **kwargs).run(feeds)["y"]
    np.testing.assert_allclose(got, want, rtol=atol, atol=atol)
    assert sorted(exe.explain().kernels) == sorted(kernels)


@pytest.mark.parametrize("m", [1, 5, 40])
def test_bias_activation_residual(m):
    def build(g):
        x, r = g.input("x", (m, 16)), g.input("r", (m, 33))
        y = ops.relu(x @ g.constant(array(16, 33)) + g.constant(array(33)))
        return ops.abs(y * 0.5 + r)

    same(build, {"x": array(m, 16), "r": array(m, 33)}, ["matmul.f32"])


def test_bias_of_rank_two_and_constant_first():
    def build(g):
        x = g.input("x", (2, 3, 16))
        return ops.sub(g.constant(array(1, 1, 33)), g.constant(array(1, 33)) + x @ g.constant(array(16, 33)))

    same(build, {"x": array(2, 3, 16)}, ["matmul.f32"])


def test_column_bias_is_not_a_bias():
    def build(g):
        return g.input("x", (4, 16)) @ g.constant(array(16, 4)) + g.constant(array(4, 1))

    same(build, {"x": array(4, 16)}, ["matmul.f32", "region.ew"])


def test_value_with_two_readers_stays():
    def build(g):
        y = g.input("x", (4, 16)) @ g.constant(array(16, 8))
        return ops.relu(y) + y

    same(build, {"x": array(4, 16)}, ["matmul.f32", "region.ew"])


def test_output_counts_as_reader():
    g = rlx.Graph("g")
    y = g.input("x", (4, 16)) @ g.constant(array(16, 8))
    g.output("y", y)
    g.output("z", ops.relu(y))
    out = rlx.compile(g).run({"x": array(4, 16)})
    np.testing.assert_array_equal(out["z"], np.maximum(out["y"], 0))


def test_transposed_operands_and_result_become_strides():
    def build(g):
        q, k = g.input("q", (2, 7, 3, 16)), g.input("k", (2, 9, 3, 16))
        scores = ops.transpose(q, perm=(0, 2, 1, 3)) @ ops.transpose(k, perm=(0, 2, 3, 1))
        v = ops.transpose(g.input("v", (2, 9, 3, 16)), perm=(0, 2, 1, 3))
        return ops.transpose(scores @ v, perm=(0, 2, 1, 3))

    feeds = {"q": array(2, 7, 3, 16), "k": array(2, 9, 3, 16), "v": array(2, 9, 3, 16)}
    same(build, feeds, ["matmul.f32@unpacked"], atol=1e-4)


def test_transpose_that_no_kernel_walks_is_copied():
    def build(g):
        return ops.transpose(g.input("a", (4, 5, 2)), perm=(0, 1, 2)) @ ops.transpose(
            g.input("b", (3, 2, 4)), perm=(2, 1, 0)
        )

    same(build, {"a": array(4, 5, 2), "b": array(3, 2, 4)}, ["matmul.f32@unpacked", "strided.b4"], atol=1e-5)


def test_transposed_parameter_is_packed_ahead():
    g = rlx.Graph("g")
    w = g.param("w", (8, 16))
    g.output("y", ops.gemm(g.input("x", (4, 16)), w, g.param("b", (8,)), trans_b=True))
    exe = rlx.compile(g)
    exe.set_params({"w": array(8, 16), "b": array(8)})
    got = exe.run({"x": array(4, 16)})["y"]
    np.testing.assert_allclose(got, array(4, 16) @ array(8, 16).T + array(8), rtol=1e-5, atol=1e-5)
    assert list(exe.explain().kernels) == ["matmul.f32"]


@pytest.mark.parametrize("dtype", [rlx.f16, rlx.bf16])
def test_half_keeps_its_roundings(dtype):
    def build(g):
        x = g.input("x", (4, 16), dtype)
        w = g.constant(array(16, 8).astype(dtype.numpy))
        return ops.relu(x @ w + g.constant(array(8).astype(dtype.numpy)))

    feeds = {"x": array(4, 16).astype(dtype.numpy)}
    got = compiled(build).run(feeds)["y"]
    want = compiled(build, optimize=False).run(feeds)["y"]
    np.testing.assert_array_equal(got, want)
