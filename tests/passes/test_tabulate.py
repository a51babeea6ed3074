"""Functions of one byte become tables, with the very bits of the nodes they stand for."""

import numpy as np
import pytest

import rlx
from rlx import ops

RNG = np.random.default_rng(8)
S, T, ZERO = np.float32(0.04), np.float32(0.03), np.uint8(121)


def both(build, **feeds):
    graph = rlx.Graph("g")
    values = {name: graph.input(name, a.shape, a.dtype) for name, a in feeds.items()}
    graph.output("y", build(graph.constant, **values))
    made = [rlx.compile(graph, rlx.CompileOptions(threads=1, poison=True, **options))
            for options in ({"check": True}, {"disable": ("tabulate",)})]
    got, want = (exe.run(feeds)["y"] for exe in made)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    return made[0].explain().kernels


def gelu(c, x, zero=ZERO):
    y = ops.gelu(ops.dequantize_linear(x, c(S), c(zero)))
    return ops.quantize_linear(y, c(T), c(zero))


@pytest.mark.parametrize("shape", [(700,), (3, 17, 40)])
def test_quantised_activation(shape):
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    assert both(gelu, x=x) == {"lookup.b1": 1}


def test_signed_bytes():
    x = np.arange(-128, 128).astype(np.int8).repeat(4)
    assert both(lambda c, x: gelu(c, x, np.int8(-5)), x=x) == {"lookup.b1": 1}


def test_floats_as_results():
    x = RNG.integers(0, 256, (40, 40)).astype(np.uint8)

    def build(c, x):
        return ops.dequantize_linear(gelu(c, x), c(T), c(ZERO))

    assert both(build, x=x) == {"lookup.b4": 1}


def test_what_stays_a_region():
    x = RNG.integers(0, 256, (40, 40)).astype(np.uint8)
    row = RNG.normal(0, 1, 40).astype(np.float32)

    def by_row(c, x):
        y = ops.gelu(ops.dequantize_linear(x, c(S), c(ZERO)) + c(row))
        return ops.quantize_linear(y, c(T), c(ZERO))

    def short(c, x):
        return ops.dequantize_linear(x, c(S), c(ZERO))

    assert not any("lookup" in k for k in both(by_row, x=x))
    assert not any("lookup" in k for k in both(short, x=x))
    assert not any("lookup" in k for k in both(gelu, x=x[:3]))
