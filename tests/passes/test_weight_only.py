"""Weights quantised on their own stay in their codes, and the product is the same."""

import numpy as np
import pytest

import rlx
from rlx import ops

RNG = np.random.default_rng(12)
K, N = 96, 80
SCALE = (RNG.random(N) / 100 + 0.001).astype(np.float32)
BLOCKED = (RNG.random((K // 32, N)) / 100).astype(np.float32)
I8 = RNG.integers(-128, 128, (K, N)).astype(np.int8)
U8 = RNG.integers(0, 256, (K, N)).astype(np.uint8)
I4 = RNG.integers(-8, 8, (K, N)).astype(np.int8)
ZERO = RNG.integers(0, 256, N).astype(np.uint8)
ZEROS = RNG.integers(-100, 100, (K // 32, N)).astype(np.int8)
AT = {"axis": 1, "block_size": 0}


def times(g, q, scale, zero=None):
    x = ops.cast(g.constant(q), dtype=rlx.f32)
    x = x if zero is None else x - g.constant(zero.astype(np.float32))
    return x * g.constant(scale)


def linear(g, q, scale, zero=None, **at):
    args = [g.constant(v) for v in (q, scale, zero) if v is not None]
    return ops.dequantize_linear(*args, **at)


def turned(v):
    return ops.transpose(v, perm=(1, 0))


WEIGHTS = {
    "per tensor": (lambda g: times(g, I8, np.float32(0.02)), 1),
    "per column": (lambda g: times(g, I8, SCALE.reshape(1, N)), 1),
    "per column, a zero point": (lambda g: times(g, U8, SCALE, ZERO), 1),
    "u8 without a zero point": (lambda g: times(g, U8, SCALE), 1),
    "transposed": (lambda g: turned(times(g, np.ascontiguousarray(I8.T), SCALE.reshape(N, 1))), 1),
    "four bits": (lambda g: times(g, I4, SCALE), 0.5),
    "linear": (lambda g: linear(g, U8, SCALE, ZERO, **AT), 1),
    "linear, one number": (lambda g: linear(g, I8, np.float32(0.1)), 1),
    "linear in blocks": (lambda g: linear(g, I8, BLOCKED, ZEROS, axis=0, block_size=32), 1),
    "linear in blocks, transposed": (
        lambda g: turned(linear(g, I8.T.copy(), BLOCKED.T.copy(), ZEROS.T.copy(), axis=1, block_size=32)), 1),
}  # fmt: skip
NOT = {
    "per row": lambda g: times(g, I8, RNG.random((K, 1)).astype(np.float32)),
    "a fraction as zero point": lambda g: times(g, I8, SCALE, np.float32(0.5)),
    "out of range": lambda g: times(g, I8, SCALE, np.float32(300)),
    "float": lambda g: g.constant(I8.astype(np.float32)) * g.constant(SCALE),
}


def build(weight, rows, gemm=False):
    g = rlx.Graph("g")
    x = g.input("x", (rows, K))
    bias = g.constant(np.linspace(0, 1, N, dtype=np.float32))
    y = ops.gemm(x, weight(g), bias) if gemm else ops.relu(x @ weight(g) + bias)
    g.output("y", y)
    return g


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("name", WEIGHTS)
def test_codes_stay_and_the_product_is_the_same(name, rows):
    weight, bytes_per = WEIGHTS[name]
    x = RNG.standard_normal((rows, K)).astype(np.float32)
    for gemm in (False, True):
        exe = rlx.compile(build(weight, rows, gemm), rlx.CompileOptions(check=True, poison=True))
        assert "matmul.f32@u" in str(exe.explain())
        got = exe.run({"x": x}, threads=1)["y"]
        np.testing.assert_array_equal(exe.run({"x": x}, threads=2)["y"], got)
        for options in (rlx.CompileOptions(disable=("weight-only",)), rlx.CompileOptions(optimize=False)):
            want = rlx.compile(build(weight, rows, gemm), options).run({"x": x})["y"]
            np.testing.assert_array_equal(got, want)  # K is one pass: the very sums
        assert exe.memory_report().weights < K * N * bytes_per + 3 * 4 * 4 * N + 256


@pytest.mark.parametrize("name", NOT)
def test_other_weights_are_left_alone(name):
    x = RNG.standard_normal((2, K)).astype(np.float32)
    state = RNG.bit_generator.state
    exe = rlx.compile(build(NOT[name], 2))
    RNG.bit_generator.state = state
    want = rlx.compile(build(NOT[name], 2), rlx.CompileOptions(optimize=False)).run({"x": x})["y"]
    assert "matmul.f32@u" not in str(exe.explain())
    np.testing.assert_allclose(exe.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)


def test_one_weight_of_two_products_is_held_once():
    g = rlx.Graph("g")
    w = times(g, I8, SCALE)
    x = g.input("x", (2, K))
    g.output("y", x @ w)
    g.output("z", ops.relu(x) @ w)
    exe = rlx.compile(g)
    exe.run({"x": np.ones((2, K), np.float32)})
    assert exe.memory_report().weights < 1.2 * I8.nbytes


def test_R85_zero_points_of_four_bit_codes_count():
    codes, scale = np.array([[0x0F, 0x73]], np.uint8), np.full((1, 1), 0.5, np.float32)
    for zero, want in ((None, [3.5, -4.0, -2.5, -0.5]), (np.array([[15]], np.uint8), [0.0, -7.5, -6.0, -4.0])):
        g = rlx.Graph("g")
        x = g.input("x", (4, 4))
        g.output("y", ops.matmul_nbits(x, codes, scale, zero, bits=4, block_size=8))
        assert rlx.compile(g).run({"x": np.eye(4, dtype=np.float32)})["y"].ravel().tolist() == want


def test_half_activations():
    g = rlx.Graph("g")
    codes, scale = np.ascontiguousarray(U8.T), np.repeat(SCALE.reshape(N, 1), 3, 1)
    x = RNG.standard_normal((3, K)).astype(np.float16)
    g.output("y", ops.matmul_nbits(g.input("x", x.shape, rlx.f16), codes, scale, bits=8, block_size=32))
    got = rlx.compile(g).run({"x": x})["y"]
    want = x.astype(np.float64) @ ((U8.astype(np.float64) - 128) * SCALE)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-3, atol=1e-2)
