"""Attention as exporters spell it becomes one kernel without copies, with the same values."""

import numpy as np
import pytest

import rlx
from rlx import ops


def array(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def run(build, feeds, **options):
    graph = rlx.Graph("g")
    values = {name: graph.input(name, a.shape, a.dtype) for name, a in feeds.items()}
    graph.output("y", build(**values))
    exe = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
    return exe.run(feeds)["y"], exe.explain().kernels


def check(build, kernels, **feeds):
    got, calls = run(build, feeds)
    want, _ = run(build, feeds, optimize=False)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    assert calls == kernels


def heads(x, n):
    b, s, w = x.shape
    return ops.transpose(ops.reshape(x, shape=(b, s, n, w // n)), perm=(0, 2, 1, 3))


def merge(y):
    y = ops.transpose(y, perm=(0, 2, 1, 3))
    return ops.reshape(y, shape=(*y.shape[:2], y.shape[2] * y.shape[3]))


def test_encoder_with_projections_and_additive_mask():
    w = [array(12, 12, seed=i) / 4 for i in range(4)]

    def layer(x, mask):
        q, k, v = (heads(ops.matmul(x, x.graph.constant(m)) + x.graph.constant(m[0]), 3) for m in w[:3])
        s = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) / 2.0 + mask
        return ops.matmul(merge(ops.matmul(ops.softmax(s, axis=-1), v)), x.graph.constant(w[3]))

    mask = np.where(np.arange(7) < 5, 0, -1e4).astype(np.float32).reshape(1, 1, 1, 7)
    check(layer, {"matmul.f32": 4, "attention.f32": 1}, x=array(2, 7, 12), mask=mask)


def test_packed_projection_scale_on_query():
    def layer(x):
        y = ops.matmul(x, x.graph.constant(array(12, 36) / 4))
        y = ops.transpose(ops.reshape(y, shape=(2, 7, 3, 3, 4)), perm=(2, 0, 3, 1, 4))
        q, k, v = (
            ops.reshape(ops.slice(y, starts=(i,), stops=(i + 1,), axes=(0,)), shape=(2, 3, 7, 4)) for i in range(3)
        )
        s = ops.matmul(q * 0.5, ops.transpose(k, perm=(0, 1, 3, 2)))
        return merge(ops.matmul(ops.softmax(s, axis=3), v))

    check(layer, {"matmul.f32": 1, "attention.f32": 1}, x=array(2, 7, 12))


def test_rank_three_and_boolean_choice():
    def layer(q, k, v, keep):
        s = ops.matmul(q, ops.transpose(k, perm=(0, 2, 1))) * 0.3
        s = ops.where(keep, s, np.float32(-np.inf))
        return ops.matmul(ops.softmax(s, axis=-1), v)

    keep = np.random.default_rng(0).random((6, 5, 9)) < 0.6
    keep[0, 0] = False  # NaN, as softmax gives it
    check(layer, {"attention.f32": 1}, q=array(6, 5, 8), k=array(6, 9, 8), v=array(6, 9, 3), keep=keep)


def test_guard_against_empty_rows():
    def layer(q, k, v, keep):
        s = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) * 0.5 + ops.where(
            keep, np.float32(0), np.float32(-np.inf)
        )
        p = ops.softmax(s, axis=-1)
        return merge(ops.matmul(ops.where(ops.isnan(p), np.float32(0), p), v))

    keep = np.random.default_rng(0).random((1, 1, 5, 7)) < 0.6
    keep[0, 0, 0] = False
    check(
        layer,
        {"region.ew": 1, "attention.f32": 1},
        q=array(1, 2, 5, 8),
        k=array(1, 2, 7, 8),
        v=array(1, 2, 7, 4),
        keep=keep,
    )


@pytest.mark.parametrize("twist", ["two readers", "axis", "scaled after the mask", "scores are an output"])
def test_look_alikes_stay(twist):
    def layer(q, k, v, mask):
        s = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2)))
        s = (s + mask) * 0.5 if twist == "scaled after the mask" else s * 0.5 + mask
        p = ops.softmax(s, axis=2 if twist == "axis" else 3)
        y = ops.matmul(p, v)
        return (
            y + ops.reduce_sum(p)
            if twist == "two readers"
            else y + ops.reduce_max(s)
            if twist == "scores are an output"
            else y
        )

    feeds = {"q": array(1, 2, 5, 8), "k": array(1, 2, 5, 8), "v": array(1, 2, 5, 8), "mask": array(5, 5)}
    got, calls = run(layer, feeds)
    np.testing.assert_allclose(got, run(layer, feeds, optimize=False)[0], rtol=2e-5, atol=2e-5)
    assert "attention.f32" not in calls


def test_one_node_reads_slices_of_a_packed_projection_in_place():
    def tokens(x):
        q, k, v = (x[:, :, i * 12 : (i + 1) * 12] for i in range(3))
        return ops.attention(q, k, v, num_heads=3, causal=True)

    def split(x):
        q, k, v = (ops.reshape(x[:, i : i + 1], shape=(2, 3, 7, 4)) for i in range(3))
        return ops.attention(q, k, v)

    check(tokens, {"attention.f32": 1}, x=array(2, 7, 36))
    check(split, {"attention.f32": 1}, x=array(2, 3, 3, 7, 4))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_one_node_on_halves_reads_and_writes_halves(dtype):
    def layer(x, mask):
        x, mask = ops.cast(x, dtype=dtype), ops.cast(mask, dtype=dtype)
        q, k, v = (x[:, :, i * 12 : (i + 1) * 12] for i in range(3))
        return ops.cast(ops.attention(q, k, v, mask, num_heads=3), dtype="f32")

    feeds = {"x": array(2, 40, 36), "mask": array(3, 40, 40)}
    got, calls = run(layer, feeds)
    want, _ = run(layer, feeds, optimize=False)
    np.testing.assert_array_equal(got, want)
    assert calls[f"attention.f32@{dtype}"] == 1
    assert "strided.b4" not in calls
    wide, _ = run(lambda x, mask: ops.attention(*(x[:, :, i * 12 : (i + 1) * 12] for i in range(3)), mask,
                                                num_heads=3), feeds)
    np.testing.assert_allclose(got, wide, rtol=0.05, atol=0.05 if dtype == "bf16" else 0.005)
