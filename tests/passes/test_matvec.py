"""Products with one column or few rows: read along K, whatever stands around them."""

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops

RNG = np.random.default_rng(8)


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def check(build, feeds, kernel="matvec", rtol=1e-5):
    """The kernel runs; the result is that of the graph as written and of NumPy, on one and two threads."""
    graph, want = build()
    exe = rlx.compile(graph, rlx.CompileOptions(check=True, poison=True))
    assert (kernel in str(exe.explain())) == (kernel == "matvec"), exe.explain()
    got = exe.run(feeds, threads=1)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * 10)
    np.testing.assert_array_equal(exe.run(feeds, threads=2)["y"], got)
    plain = rlx.compile(graph, rlx.CompileOptions(optimize=False)).run(feeds)["y"]
    np.testing.assert_allclose(plain, want, rtol=rtol, atol=rtol * 10)
    return got


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_few_rows_by_a_matrix_stored_n_k(lead, rows, dtype):
    a, b = random(*lead, rows, 70, dtype=dtype), random(*lead, 53, 70, dtype=dtype)
    bias, full = random(53, dtype=dtype), random(*lead, rows, 53, dtype=dtype)
    perm = (*range(len(lead)), len(lead) + 1, len(lead))
    want = np.maximum(a.astype(np.float64) @ np.swapaxes(b, -1, -2) + bias, 0) * full

    def build():
        g = rlx.Graph("g")
        x, y, z = g.input("a", a.shape, a.dtype), g.input("b", b.shape, b.dtype), g.input("c", full.shape, full.dtype)
        g.output("y", ops.relu(x @ ops.transpose(y, perm=perm) + g.constant(bias)) * z)
        return g, want.astype(dtype)

    check(build, {"a": a, "b": b, "c": full})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_few_rows_by_halves(lead, rows, dtype):
    a, b = random(*lead, rows, 70).astype(dtype), random(*lead, 53, 70).astype(dtype)
    perm = (*range(len(lead)), len(lead) + 1, len(lead))
    exact = (a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2)).astype(np.float32)
    outs = []
    for options in (rlx.CompileOptions(check=True, poison=True), rlx.CompileOptions(optimize=False)):
        g = rlx.Graph("g")
        x, y = g.input("a", a.shape, a.dtype), g.input("b", b.shape, b.dtype)
        g.output("y", x @ ops.transpose(y, perm=perm))
        g.output("wide", ops.cast(x, dtype=rlx.f32) @ ops.cast(ops.transpose(y, perm=perm), dtype=rlx.f32))
        exe = rlx.compile(g, options)
        if options.optimize:
            kernels = str(exe.explain())
            assert f"matvec.f32@{rlx.dtypes.as_dtype(dtype)}" in kernels and "@unpacked" not in kernels
        outs.append(exe.run({"a": a, "b": b}))
    for got in outs:
        assert got["y"].dtype == dtype
        np.testing.assert_allclose(got["wide"], exact, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(got["y"].astype(np.float32), exact, rtol=1e-2, atol=1e-2)


def test_the_rows_do_not_depend_on_their_number():
    a, b = random(4, 300), random(90, 300)
    rows = []
    for m in (1, 2, 3, 4):
        g = rlx.Graph("g")
        g.output("y", g.input("a", (m, 300)) @ ops.transpose(g.input("b", b.shape), perm=(1, 0)))
        rows.append(rlx.compile(g).run({"a": a[:m], "b": b})["y"])
    for m, y in enumerate(rows, 1):
        np.testing.assert_array_equal(y, rows[-1][:m])


@pytest.mark.parametrize("param", [False, True])
@pytest.mark.parametrize("m", [1, 5, 200])
def test_one_column(m, param):
    a, w, full = random(m, 130), random(130, 1), random(m, 1)
    want = 1 / (1 + np.exp(-(a.astype(np.float64) @ w + 0.5 + full)))

    def build():
        g = rlx.Graph("g")
        x = g.input("a", a.shape)
        weight = g.input("w", w.shape) if param else g.constant(w)
        g.output("y", ops.sigmoid(x @ weight + g.constant(np.full(1, 0.5, np.float32)) + g.input("c", full.shape)))
        return g, want.astype(np.float32)

    check(build, {"a": a, "c": full} | ({"w": w} if param else {}))


def test_vectors():
    a, b, v = random(40, 60), random(60), random(40)
    for build, feeds in (
        (lambda g: g.input("a", a.shape) @ g.input("b", b.shape), {"a": a, "b": b}),
        (lambda g: ops.transpose(g.input("a", a.shape), perm=(1, 0)) @ g.input("v", v.shape), {"a": a, "v": v}),
        (lambda g: g.input("v", v.shape) @ g.input("a", a.shape), {"a": a, "v": v}),
        (lambda g: g.input("b", b.shape) @ g.input("b2", b.shape), {"b": b, "b2": b}),
    ):
        g = rlx.Graph("g")
        g.output("y", build(g))
        names = list(feeds)
        if names == ["a", "b"]:
            want = a @ b
        elif names == ["a", "v"]:
            want = a.T @ v
        else:
            want = np.asarray(b @ b)
        got = rlx.compile(g, rlx.CompileOptions(check=True)).run(feeds)["y"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [((0, 5), (7, 5)), ((2, 0), (7, 0)), ((2, 5), (0, 5)), ((3, 1), (4, 1))])
def test_empty_and_tiny(shape):
    (m, k), (n, _) = shape
    a, b = random(m, k), random(n, k)
    g = rlx.Graph("g")
    g.output("y", g.input("a", a.shape) @ ops.transpose(g.input("b", b.shape), perm=(1, 0)))
    np.testing.assert_allclose(rlx.compile(g).run({"a": a, "b": b})["y"], a @ b.T, rtol=1e-5, atol=1e-5)


def test_rows_of_a_wider_array():
    a, b = random(2, 3, 64), random(2, 9, 64)
    g = rlx.Graph("g")
    x, y = g.input("a", a.shape), g.input("b", b.shape)
    g.output("y", ops.concat(x @ ops.transpose(y, perm=(0, 2, 1)), x, axis=2))
    want = np.concatenate([a @ b.transpose(0, 2, 1), a], 2)
    np.testing.assert_allclose(rlx.compile(g, rlx.CompileOptions(check=True)).run({"a": a, "b": b})["y"], want,
                               rtol=1e-5, atol=1e-5)  # fmt: skip
