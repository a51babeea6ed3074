"""Weights in half precision stay so in memory: products, convolutions and lookups read them as they are."""

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops

HALF = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
WAYS = {
    "on": rlx.CompileOptions(check=True),
    "off": rlx.CompileOptions(disable=("half-weights",)),
    "as written": rlx.CompileOptions(optimize=False),
}


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run_all(build, feeds, params=None):
    """Results and executables of every way."""
    found = {}
    for way, options in WAYS.items():
        exe = rlx.compile(build(), options)
        exe.set_params(params or {})
        found[way] = exe.run(feeds, threads=1)["y"], exe
        np.testing.assert_array_equal(exe.run(feeds, threads=2)["y"], found[way][0])
    return found


@pytest.mark.parametrize("rows", [1, 5, 50])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("param", [False, True])
@pytest.mark.parametrize("name", HALF)
def test_product_of_halves(name, param, transposed, rows):
    kind = HALF[name]
    x, w, b = random(rows, 160).astype(kind), random(160, 96, seed=1).astype(kind), random(96).astype(kind)
    given = np.ascontiguousarray(w.T) if transposed else w

    def build():
        g = rlx.Graph("g")
        weight = g.param("w", given.shape, rlx.dtypes.BY_NAME[name]) if param else g.constant(given)
        weight = ops.transpose(weight, perm=(1, 0)) if transposed else weight
        product = ops.matmul(g.input("x", x.shape, rlx.dtypes.BY_NAME[name]), weight)
        g.output("y", ops.relu(product + g.constant(b)))
        return g

    found = run_all(build, {"x": x}, {"w": given} if param else {})
    want = (x.astype(np.float32) @ w.astype(np.float32)).astype(HALF[name])  # one rounding per node as written
    want = np.maximum((want.astype(np.float32) + b.astype(np.float32)).astype(HALF[name]), 0)
    got, exe = found["on"]
    assert got.dtype == HALF[name]
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=1e-2, atol=1e-2)
    for way in ("off", "as written"):
        np.testing.assert_array_equal(found[way][0], got)
    assert exe.memory_report().weights < w.nbytes + 1024
    assert f"matmul.f32@{name}" in str(exe.explain())


@pytest.mark.parametrize("name", HALF)
def test_weights_that_the_graph_widens_itself(name):
    x, w = random(3, 64), random(64, 48, seed=1).astype(HALF[name])

    def build():
        g = rlx.Graph("g")
        g.output("y", ops.gelu(g.input("x", x.shape) @ ops.cast(g.constant(w), dtype=rlx.f32)))
        return g

    found = run_all(build, {"x": x})
    assert found["on"][1].memory_report().weights < w.nbytes + 256
    for way in ("off", "as written"):
        np.testing.assert_allclose(found[way][0], found["on"][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape", "attrs"), [
    ((96, 16, 1, 1), {}), ((24, 16, 3, 3), {"strides": (2, 2)}), ((24, 8, 3, 3), {"groups": 2, "pads": (1, 1, 1, 1)}),
    ((24, 16, 5, 5), {"dilations": (2, 2)}),
])  # fmt: skip
@pytest.mark.parametrize("name", HALF)
def test_convolution(name, shape, attrs):
    x, w = random(1, 16, 14, 15), random(*shape, seed=1).astype(HALF[name])

    def build():
        g = rlx.Graph("g")
        g.output("y", ops.relu(ops.conv(g.input("x", x.shape), ops.cast(g.constant(w), dtype=rlx.f32), **attrs)))
        return g

    found = run_all(build, {"x": x})
    np.testing.assert_allclose(found["off"][0], found["on"][0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["as written"][0], found["on"][0], rtol=1e-4, atol=1e-4)
    report = found["on"][1].memory_report()
    assert report.weights < 1.4 * w.nbytes + 256  # a panel may be padded


def test_a_weight_with_another_reader_is_widened_once():
    w = random(64, 32).astype(np.float16)
    g = rlx.Graph("g")
    wide = ops.cast(g.constant(w), dtype=rlx.f32)
    g.output("y", g.input("x", (2, 64)) @ wide)
    g.output("w", wide)
    got = rlx.compile(g).run({"x": np.ones((2, 64), np.float32)})
    np.testing.assert_array_equal(got["w"], w.astype(np.float32))
    np.testing.assert_allclose(got["y"], np.ones((2, 64), np.float32) @ w.astype(np.float32), rtol=1e-4, atol=1e-4)


def test_a_convolution_that_keeps_its_channels_first_has_its_weights_widened_once():
    x, w = random(1, 3, 40, 40), random(64, 3, 3, 3, seed=1).astype(np.float16)
    g = rlx.Graph("g")
    g.output("y", ops.conv(g.input("x", x.shape), ops.cast(g.constant(w), dtype=rlx.f32), strides=(2, 2)))
    exe = rlx.compile(g)
    want = rlx.compile(g, rlx.CompileOptions(optimize=False)).run({"x": x})["y"]
    np.testing.assert_allclose(exe.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)
    assert "region.direct" not in str(exe.explain())  # no cast in the run


@pytest.mark.parametrize("size", [9, 60])
@pytest.mark.parametrize("name", HALF)
def test_a_graph_of_halves_convolves_and_narrows(name, size):
    x, w = random(2, 16, size, size).astype(HALF[name]), random(48, 16, 3, 3, seed=1).astype(HALF[name])

    def build():
        g = rlx.Graph("g")
        v = g.input("x", x.shape, x.dtype)
        y = ops.conv(ops.relu(v), g.constant(w), strides=(2, 2))
        g.output("y", ops.conv(ops.relu(y), g.constant(w[:, :].repeat(3, 1)), pads=(2, 2, 2, 2), dilations=(2, 2)))
        return g

    found = run_all(build, {"x": x})
    got, exe = found["on"]
    assert got.dtype == x.dtype and f"conv.f32@{name}" in str(exe.explain())
    scale = np.abs(got.astype(np.float32)).max()
    for way in ("off", "as written"):
        other = found[way][0].astype(np.float32)
        np.testing.assert_allclose(other, got.astype(np.float32), rtol=2e-2, atol=2e-2 * scale)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_a_one_hot_product_looks_its_halves_up(precision):
    table, ids = random(64, 32), np.array([[3], [63], [0], [-1]])

    def build():
        g = rlx.Graph("g")
        hot = ops.eq(g.input("ids", (4, 1), rlx.i64), g.constant(np.arange(64).reshape(1, 64)))
        g.output("y", ops.cast(hot, dtype=rlx.f32) @ g.constant(table))
        return g

    exe = rlx.compile(build(), rlx.CompileOptions(precision=precision, check=True))
    got = exe.run({"ids": ids})["y"]
    plain = rlx.compile(build(), rlx.CompileOptions(precision=precision, optimize=False)).run({"ids": ids})["y"]
    np.testing.assert_array_equal(got, plain)
    assert "gather" in str(exe.explain()) and exe.memory_report().weights < 0.6 * table.nbytes


def test_explain_lists_what_stays_in_f32():
    g = rlx.Graph("g")
    x = g.input("x", (1, 16, 12, 12))
    y = ops.conv(x, g.constant(random(16, 16, 3, 3)), pads=(1, 1, 1, 1))
    y = ops.conv(y, g.constant(random(16, 1, 9, 9, seed=1)), groups=16)
    y = ops.conv(y, g.constant(random(32, 16, 1, 1, seed=2)))
    g.output("y", ops.matmul(ops.reshape(y, shape=(-1, 64)), g.constant(random(64, 64, seed=3))))
    plain, half = str(rlx.compile(g).explain()), rlx.compile(g, precision="f16").explain()
    assert "stored in f32" not in plain
    assert "1 weight of depthwise conv" in str(half)
    assert not any(what in ("matmul", "fused_matmul", "conv_nhwc") for what in half.wide)
    g = rlx.Graph("r")
    w, r = random(1, 64, 16), random(1, 64, 16, seed=1)
    g.output("y", ops.lstm(g.input("x", (5, 2, 16)), g.constant(w), g.constant(r))[0])
    assert rlx.compile(g, precision="bf16").explain().wide == {"lstm": (2, 2 * w.nbytes)}
