"""Long forms of activations are recognised, look-alikes are not."""

import numpy as np
import pytest

import rlx
from rlx import ops

ROOT = float(np.sqrt(2.0))
C = float(np.sqrt(2 / np.pi))

LONG = {
    "silu": lambda x: x * ops.sigmoid(x),
    "swish": lambda x: ops.sigmoid(1.7 * x) * x,
    "hard_swish": lambda x: x * ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    "hard_swish.": lambda x: x * (ops.clip(x + 3.0, lo=0.0, hi=6.0) / 6.0),
    "hard_swish..": lambda x: x * ops.clip(3.0 + x, lo=0.0, hi=6.0) * (1 / 6),
    "mish": lambda x: x * ops.tanh(ops.softplus(x)),
    "leaky_relu": lambda x: ops.max(x, 0.125 * x),
    "gelu": lambda x: x * 0.5 * (1.0 + ops.erf(x / ROOT)),
    "gelu.": lambda x: 0.5 * (x * (ops.erf(x * (1 / ROOT)) + 1.0)),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + ops.tanh(C * (x + 0.044715 * x**3.0))),
    "gelu_tanh.": lambda x: x * (0.5 * (1.0 + ops.tanh((x + x * x * x * 0.044715) * C))),
}
OTHER = [
    lambda x: x * ops.sigmoid(x + 1.0), lambda x: ops.max(x, 1.5 * x), lambda x: x * 0.5 * (1.0 + ops.erf(x / 2.0)),
    lambda x: x * ops.clip(x + 3.0, lo=0.0, hi=6.0), lambda x: ops.relu(x) * ops.sigmoid(x),
]


def run(build, dtype=rlx.f32, **options):
    graph = rlx.Graph("g")
    graph.output("y", build(graph.input("x", (257,), dtype)))
    exe = rlx.compile(graph, rlx.CompileOptions(disable=("fuse-elementwise",), **options))
    return exe, exe.run({"x": np.linspace(-6, 6, 257).astype(dtype.numpy)})["y"]


@pytest.mark.parametrize("name", LONG)
def test_long_forms(name):
    exe, got = run(LONG[name])
    want = run(LONG[name], optimize=False)[1]
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    assert sum(exe.explain().kernels.values()) == 1


@pytest.mark.parametrize("build", OTHER)
def test_look_alikes(build):
    exe, got = run(build)
    np.testing.assert_array_equal(got, run(build, optimize=False)[1])


def test_half_types_are_left_alone():
    np.testing.assert_array_equal(run(LONG["gelu"], rlx.f16)[1], run(LONG["gelu"], rlx.f16, optimize=False)[1])


@pytest.mark.parametrize("gelu", [ops.gelu, LONG["gelu"]])
def test_gelu_ahead_of_a_quantisation_has_no_denormal_tail(gelu):
    graph = rlx.Graph("g")
    y = ops.quantize_linear(gelu(graph.input("x", (64,))), np.float32(0.05), np.uint8(7))
    graph.output("y", y)
    x = np.linspace(-20, 12, 64, dtype=np.float32)
    got = rlx.compile(graph).run({"x": x})["y"].astype(int)
    want = rlx.compile(graph, rlx.CompileOptions(optimize=False)).run({"x": x})["y"].astype(int)
    assert np.abs(got - want).max() <= 1 and (got[:20] == 7).all()
