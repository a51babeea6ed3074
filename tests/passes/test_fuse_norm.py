"""Long forms of norms are recognised, look-alikes are not; a sum is taken along."""

import numpy as np
import pytest

import rlx
from rlx import ops


def mean(x, axes=(-1,)):
    return ops.reduce_mean(x, axes=axes, keepdims=True)


def long_layer(x, eps=1e-5, axes=(-1,)):
    d = x - mean(x, axes)
    return d / ops.sqrt(mean(d**2.0, axes) + eps)


def rsqrt_layer(x):
    d = x - mean(x)
    return d * ops.rsqrt(mean(d * d) + 1e-5)


LAYER = {
    "plain": lambda x, g, b: long_layer(x),
    "gamma": lambda x, g, b: long_layer(x) * g,
    "gamma beta": lambda x, g, b: long_layer(x) * g + b,
    "beta gamma": lambda x, g, b: b + g * long_layer(x),
    "beta": lambda x, g, b: long_layer(x) + b,
    "rsqrt": lambda x, g, b: rsqrt_layer(x) * g + b,
    "lead": lambda x, g, b: long_layer(x) * ops.reshape(g, shape=(1, 1, 24)) + b,
    "axes": lambda x, g, b: long_layer(x, axes=(1, 2)),
}
RMS = {
    "rsqrt": lambda x, g, b: g * (x * ops.rsqrt(mean(x**2.0) + 1e-6)),
    "div": lambda x, g, b: x / ops.sqrt(mean(x * x) + 1e-6),
    "recip": lambda x, g, b: x * ops.recip(ops.sqrt(mean(ops.square(x)) + 1e-6)) * g,
    "one over": lambda x, g, b: x * (1.0 / ops.sqrt(1e-6 + mean(x * x))) * g,
    "power": lambda x, g, b: x * (mean(x * x) + 1e-6) ** -0.5 * g,
}
OTHER = {
    "other mean": lambda x, g, b: (x - mean(x, (1,))) / ops.sqrt(mean((x - mean(x)) ** 2.0) + 1e-5),
    "middle": lambda x, g, b: long_layer(x, axes=(1,)),
    "cube": lambda x, g, b: x / ops.sqrt(mean(x**3.0) + 1e-6),
    "max": lambda x, g, b: x / ops.sqrt(ops.reduce_max(x * x, axes=(-1,), keepdims=True) + 1e-6),
}


def run(build, dtype=rlx.f32, **options):
    rng = np.random.default_rng(0)
    graph = rlx.Graph("g")
    graph.track_source = False
    x = graph.input("x", (2, 5, 24), dtype)
    g, b = (graph.constant(rng.standard_normal(24).astype(dtype.numpy)) for _ in range(2))
    made = build(x, g, b)
    for i, y in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"y{i}", y)
    feeds = {"x": (rng.standard_normal((2, 5, 24)) + 3).astype(dtype.numpy)}
    exe = rlx.compile(graph, rlx.CompileOptions(**options))
    return exe, tuple(exe.run(feeds)), tuple(rlx.compile(graph, rlx.CompileOptions(optimize=False)).run(feeds))


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64])
def test_long_forms(kind, dtype):
    for name, build in (LAYER if kind == "layer" else RMS).items():
        exe, got, want = run(build, dtype)
        assert f"{kind}_norm." in str(exe.explain()), name
        np.testing.assert_allclose(got[0], want[0], rtol=2e-5, atol=2e-5, err_msg=name)


def test_look_alikes_stay():
    for name, build in OTHER.items():
        exe, got, want = run(build)
        assert "_norm." not in str(exe.explain().kernels), name
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", [rlx.f16, rlx.bf16])
def test_half_types_keep_their_roundings(dtype):
    _, got, want = run(LAYER["gamma beta"], dtype)
    np.testing.assert_array_equal(got[0], want[0])


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_sum_is_taken_along(kind, kept):
    def build(x, g, b):
        total = x + ops.softmax(x)
        y = ops.layer_norm(total, g, b) if kind == "layer" else ops.rms_norm(total, g)
        return (y, total) if kept else y

    exe, got, want = run(build)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    _, plain, _ = run(build, disable=("fuse-add-norm",))
    for a, b in zip(got, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert "region" not in str(exe.explain().kernels)


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("kept", [False, True])
def test_operands_that_die_give_their_memory(kind, kept):
    def build(x, g, b):
        total = ops.softmax(x) + ops.softmax(x, axis=1)
        y = ops.layer_norm(total, g, b) if kind == "layer" else ops.rms_norm(total, g)
        return (ops.softmax(y), ops.softmax(total)) if kept else ops.softmax(y)

    exe, got, want = run(build, check=True, poison=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
