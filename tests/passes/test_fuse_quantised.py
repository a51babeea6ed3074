"""Quantised patterns run on the 8-bit kernels with results within a rounding of the pattern."""

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.testing.passes import feeds_of, quantised

RNG = np.random.default_rng(5)


def codes(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def run(build, feeds, **options):
    graph = rlx.Graph("g")
    values = {name: graph.input(name, a.shape, a.dtype) for name, a in feeds.items()}
    graph.output("y", build(graph.constant, **values))
    exe = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
    return exe.run(feeds)["y"], exe.explain().kernels


def check(build, kernels, **feeds):
    got, calls = run(build, feeds)
    want, _ = run(build, feeds, optimize=False)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    else:
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
        assert len(set(want.reshape(-1).tolist())) > 4
    assert calls == kernels


S, Z = np.float32(0.02), np.uint8(120)


@pytest.mark.parametrize("act", [lambda y: y, ops.relu, lambda y: ops.clip(y, lo=-1.0, hi=6.0)])
def test_convolution(act):
    w, b = codes(np.int8, 6, 5, 3, 3), RNG.integers(-9000, 9000, 6, np.int32)
    ws = RNG.uniform(0.001, 0.01, 6).astype(np.float32)

    def net(c, x):
        y = ops.conv(
            ops.dequantize_linear(x, c(S), c(Z)),
            ops.dequantize_linear(c(w), c(ws), c(np.zeros(6, np.int8)), axis=0),
            ops.dequantize_linear(c(b), c(S * ws), c(np.zeros(6, np.int32)), axis=0),
            pads=(1,) * 4,
        )
        return ops.quantize_linear(act(y), c(np.float32(0.3)), c(Z))

    check(net, {"strided.b1": 2, "conv.int8@nhwc": 1}, x=codes(np.uint8, 2, 5, 7, 8))


def test_depthwise_convolution_stays_in_bytes():
    w = codes(np.int8, 6, 1, 3, 3)

    def net(c, x):
        y = ops.conv(
            ops.dequantize_linear(x, c(S), c(Z)),
            ops.dequantize_linear(c(w), c(np.float32(0.01)), c(np.int8(3))),
            groups=6,
        )
        return ops.quantize_linear(ops.relu(y), c(np.float32(0.1)), c(np.uint8(7)))

    got = run(net, {"x": codes(np.uint8, 1, 6, 9, 8)})
    assert "conv_depthwise.int8@nhwc" in got[1]
    check(net, got[1], x=codes(np.uint8, 1, 6, 9, 8))


def test_matmul_with_bias_to_codes_and_to_floats():
    w, b = codes(np.int8, 17, 9), RNG.integers(-9000, 9000, 9, np.int32)
    ws = RNG.uniform(0.001, 0.01, 9).astype(np.float32)

    def net(c, x, r, quantize):
        y = ops.matmul(
            ops.dequantize_linear(x, c(S), c(Z)), ops.dequantize_linear(c(w), c(ws), c(np.zeros(9, np.int8)), axis=1)
        )
        y = y + ops.dequantize_linear(c(b), c(S * ws), axis=0)
        return ops.quantize_linear(y, c(np.float32(0.2)), c(np.int8(3))) if quantize else ops.tanh(y) + r

    feeds = {"x": codes(np.uint8, 2, 5, 17), "r": RNG.standard_normal((2, 5, 9)).astype(np.float32)}
    check(lambda c, x, r: net(c, x, r, True), {"matmul.int8": 1}, **feeds)
    check(lambda c, x, r: net(c, x, r, False), {"matmul.int8": 1}, **feeds)


def test_gemm():
    w = codes(np.uint8, 9, 17)

    def net(c, x):
        y = ops.gemm(
            ops.dequantize_linear(x, c(S), c(Z)),
            ops.dequantize_linear(c(w), c(np.float32(0.01)), c(np.uint8(99))),
            trans_b=True,
        )
        return ops.quantize_linear(y, c(np.float32(0.2)), c(np.int8(3)))

    check(net, {"matmul.int8": 1}, x=codes(np.uint8, 5, 17))


def test_products_of_two_computed_operands():
    def net(c, x, y):
        z = ops.matmul(ops.dequantize_linear(x, c(S), c(Z)), ops.dequantize_linear(y, c(S), c(np.int8(-4))))
        return ops.quantize_linear(z, c(np.float32(0.3)), c(np.uint8(128)))

    check(net, {"pack_b.int8": 1, "matmul.int8": 1}, x=codes(np.uint8, 2, 3, 5, 8), y=codes(np.int8, 2, 3, 8, 6))


def test_dynamically_quantised_matmul():
    w, ws = codes(np.int8, 16, 9), RNG.uniform(0.001, 0.01, 9).astype(np.float32)

    def net(c, x):
        q, scale, zero = ops.dynamic_quantize_linear(x)
        y = ops.cast(ops.matmul_integer(q, c(w), zero, c(np.zeros(9, np.int8))), dtype=rlx.f32)
        return ops.relu(y * (scale * c(ws)) + c(np.linspace(-1, 1, 9, dtype=np.float32)))

    x = RNG.standard_normal((2, 5, 16)).astype(np.float32)
    got, calls = run(net, {"x": x})
    np.testing.assert_allclose(got, run(net, {"x": x}, optimize=False)[0], rtol=1e-6, atol=1e-6)
    assert calls["matmul.int8"] == 1


def test_bias_of_another_scale_is_left_alone():
    w, b = codes(np.int8, 6, 5, 1, 1), RNG.integers(-900, 900, 6, np.int32)

    def net(c, x):
        y = ops.conv(ops.dequantize_linear(x, c(S), c(Z)), ops.dequantize_linear(c(w), c(np.float32(0.01))),
                     ops.dequantize_linear(c(b), c(np.float32(0.01))))
        return ops.quantize_linear(y, c(np.float32(0.3)), c(Z))

    assert "conv.int8@nhwc" not in run(net, {"x": codes(np.uint8, 1, 5, 4, 4)})[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_cast_behind_an_8_bit_product_stays_out_of_its_epilogue(seed):
    """The kernel writes the four bytes that it computes; a cast among its steps wrote beyond a result of bytes."""
    graph = quantised(np.random.default_rng(seed))
    feeds = feeds_of(graph, np.random.default_rng(seed))
    want = rlx.compile(graph, rlx.CompileOptions(threads=1, optimize=False)).run(feeds)
    got = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True)).run(feeds)
    for name in graph.outputs:
        assert np.abs(got[name].astype(int) - want[name].astype(int)).max() <= 1
    a, b = rlx.Graph("g").input("a", (2, 3), rlx.u8), np.ones((3, 2), np.int8)
    with pytest.raises(rlx.TypeRuleError, match="steps must keep the type f32, got u8"):
        ops.TABLE["int8_matmul"](a, b, None, None, None, np.float32(1), None, out=rlx.f32,
                                 epilogue=(("cast", (("dtype", rlx.u8),), None, False),))
