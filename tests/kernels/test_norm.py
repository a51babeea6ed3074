"""Layer, RMS, group, batch, Lp and response normalisation, moments."""

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

RNG = np.random.default_rng(4)
TYPES = {"f32": np.float32, "f64": np.float64}
types = pytest.mark.parametrize("name", TYPES)
LENGTHS = [1, 2, 7, 15, 16, 17, 33, 64, 100, 768, 3000]


def layer(x, eps, axis=-1):
    x = x.astype(np.longdouble)
    d = x - x.mean(axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis, keepdims=True) + eps)


def layer_norm(name, x, level, eps=1e-5, gamma=None, beta=None, residual=None, bias=None, **kw):
    rows, n = x.shape
    outs = [np.zeros_like(x), np.zeros_like(x), np.zeros(rows, x.dtype), np.zeros(rows, x.dtype)]
    call_kernel(f"layer_norm.{name}", [x, gamma, beta, residual, bias, *outs],
                {"n": n, "eps": eps}, extent=rows, level=level, **kw)
    return outs


@types
@pytest.mark.parametrize("n", LENGTHS)
def test_layer_norm(name, n, level, guarded):
    make = lambda *shape: guarded(RNG.standard_normal(shape).astype(TYPES[name]))  # noqa: E731
    x, residual, gamma, beta, bias = make(5, n), make(5, n), make(n), make(n), make(n)
    eps = 64 * np.finfo(x.dtype).eps
    for g, b, r, s in [(None, None, None, None), (gamma, beta, residual, bias),
                       (gamma, None, residual, None), (None, beta, None, bias)]:
        h = x + (0 if r is None else r)
        h = h + (0 if s is None else s)
        want = layer(h, 1e-5) * (1 if g is None else g) + (0 if b is None else b)
        out, total, mean, inv = layer_norm(name, x, level, gamma=g, beta=b, residual=r, bias=s)
        np.testing.assert_array_equal(total, h)
        np.testing.assert_allclose(out, want.astype(x.dtype), rtol=eps, atol=eps)
        wide = h.astype(np.longdouble)
        np.testing.assert_allclose(mean, wide.mean(-1).astype(x.dtype), rtol=eps, atol=eps)
        np.testing.assert_allclose(inv, (1 / np.sqrt(wide.var(-1) + 1e-5)).astype(x.dtype), rtol=eps)
        again = layer_norm(name, x, level, gamma=g, beta=b, residual=r, bias=s, threads=2)
        assert again[0].tobytes() == out.tobytes()


@types
def test_hard_rows(name, level):
    dtype = TYPES[name]
    x = np.arange(40000, 40004, dtype=dtype)[None]
    np.testing.assert_allclose(
        layer_norm(name, x, level)[0],
        np.array([[-1.3416354, -0.4472118, 0.4472118, 1.3416354]]), rtol=1e-6)
    assert not layer_norm(name, np.full((1, 256), 1234, dtype), level)[0].any()
    if name == "f32":
        assert not layer_norm(name, np.full((1, 255), 0.1, dtype), level, eps=1e-30)[0].any()
    x = (100 + np.arange(16) * 1e-3).astype(dtype)[None]
    want = layer(x, 1e-5).astype(dtype)
    np.testing.assert_allclose(layer_norm(name, x, level)[0], want, rtol=1e-5)
    huge = np.finfo(dtype).max
    for scale in (huge, huge * 1e-20, 1e-30, np.finfo(dtype).tiny):
        x = (np.array([[1, -1, 1, -1]]) * scale).astype(dtype)
        got = layer_norm(name, x, level, eps=0.0)[0]
        np.testing.assert_allclose(got, [[1, -1, 1, -1]], rtol=1e-5)
        out = np.zeros_like(x)
        call_kernel(f"rms_norm.{name}", [x, None, None, out], {"n": 4, "eps": 0.0}, extent=1,
                    level=level)
        np.testing.assert_allclose(out, [[1, -1, 1, -1]], rtol=1e-5)
    x = np.ones((2, 33), dtype)
    x[0, 20] = np.nan
    got = layer_norm(name, x, level)[0]
    assert np.isnan(got[0]).all()
    assert not got[1].any()


@types
@pytest.mark.parametrize("n", LENGTHS)
def test_rms_norm(name, n, level, guarded):
    x, residual = (guarded(RNG.standard_normal((3, n)).astype(TYPES[name])) for _ in range(2))
    gamma = guarded(RNG.standard_normal(n).astype(TYPES[name]))
    out, total, inv = np.zeros_like(x), np.zeros_like(x), np.zeros(3, x.dtype)
    call_kernel(f"rms_norm.{name}", [x, gamma, residual, out, total, inv], {"n": n, "eps": 1e-6},
                extent=3, level=level, threads=2)
    h = (x + residual).astype(np.longdouble)
    scale = 1 / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(out, (h * scale * gamma).astype(x.dtype),
                               rtol=16 * np.finfo(x.dtype).eps)
    np.testing.assert_allclose(inv, scale[:, 0].astype(x.dtype), rtol=16 * np.finfo(x.dtype).eps)


@types
@pytest.mark.parametrize(("groups", "channels", "inner"),
                         [(1, 6, 10), (3, 6, 49), (6, 6, 33), (2, 600, 9), (64, 64, 50),
                          (300, 300, 4), (4, 4, 1)])
def test_group_norm(name, groups, channels, inner, level, guarded):
    x = guarded((RNG.standard_normal((2, channels, inner)) + 3).astype(TYPES[name]))
    gamma, beta = (RNG.standard_normal(channels).astype(x.dtype) for _ in range(2))
    want = layer(x.reshape(2, groups, -1), 1e-5).reshape(x.shape)
    want = want * gamma[:, None] + beta[:, None]
    attrs = {"groups": groups, "channels": channels, "inner": inner, "eps": 1e-5}
    eps = 64 * np.finfo(x.dtype).eps
    for threads, grain in ((1, 1), (2, 1)):
        out = np.zeros_like(x)
        call_kernel(f"group_norm.{name}", [x, gamma, beta, out], attrs, extent=2 * groups,
                    level=level, threads=threads, grain=grain)
        np.testing.assert_allclose(out, want.astype(x.dtype), rtol=eps, atol=eps)
        last = guarded(np.ascontiguousarray(x.transpose(0, 2, 1)))
        out = np.zeros_like(last)
        call_kernel(f"group_norm.{name}@channels_last", [last, gamma, beta, out], attrs,
                    extent=2 * groups, level=level, threads=threads, grain=grain)
        np.testing.assert_allclose(out.transpose(0, 2, 1), want.astype(x.dtype), rtol=eps, atol=eps)


@types
@pytest.mark.parametrize("shape", [(2, 3, 17), (5, 300, 1), (4, 3, 0)])
def test_batch_norm(name, shape, level, guarded):
    x = guarded(RNG.standard_normal(shape).astype(TYPES[name]))
    gamma, beta, mean = (RNG.standard_normal(shape[1]).astype(x.dtype) for _ in range(3))
    var, out = RNG.random(shape[1]).astype(x.dtype), np.zeros_like(x)
    attrs = {"outer": shape[0], "channels": shape[1], "inner": shape[2], "eps": 1e-3}
    call_kernel(f"batch_norm.{name}", [x, gamma, beta, mean, var, out], attrs,
                extent=shape[0] * (shape[1] if shape[2] != 1 else 1), level=level, threads=2)
    g, b, m, v = (a[:, None].astype(np.longdouble) for a in (gamma, beta, mean, var))
    eps = 16 * np.finfo(x.dtype).eps
    np.testing.assert_allclose(out, ((x - m) * g / np.sqrt(v + 1e-3) + b).astype(x.dtype),
                               rtol=eps, atol=eps)


@types
@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 6), (1, 1, 1, 500, 1), (1, 1, 2, 70, 300),
                                   (3, 2, 4, 17, 1)])
def test_moments(name, shape, level, guarded):
    x = guarded((RNG.standard_normal(shape) + 100).astype(TYPES[name]))
    outs = [np.zeros((shape[0], shape[2], shape[4]), x.dtype) for _ in range(2)]
    call_kernel(f"moments.{name}", [x, *outs],
                dict(zip(("outer", "r1", "mid", "r2", "inner"), shape, strict=True)),
                extent=outs[0].size, level=level, threads=2, grain=3)
    wide = x.astype(np.longdouble)
    eps = 64 * np.finfo(x.dtype).eps
    np.testing.assert_allclose(outs[0], wide.mean((1, 3)).astype(x.dtype), rtol=eps)
    np.testing.assert_allclose(outs[1], wide.var((1, 3)).astype(x.dtype), rtol=eps)


@types
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("shape", [(3, 8, 1), (2, 5, 300), (1, 1, 1)])
def test_lp_norm(name, p, shape, level):
    for scale in (1, 1e30, 1e-30):
        x = (RNG.standard_normal(shape) * scale).astype(TYPES[name])
        x[0, :, 0] = 0
        out = np.ones_like(x)
        call_kernel(f"lp_norm.{name}", [x, out],
                    {"outer": shape[0], "n": shape[1], "inner": shape[2], "p": p, "eps": 0.0},
                    extent=shape[0] * shape[2], level=level, threads=2, grain=7)
        wide = x.astype(np.longdouble)
        norm = (abs(wide) ** p).sum(1, keepdims=True) ** (1 / np.longdouble(p))
        want = np.where(norm == 0, 0, wide / np.where(norm == 0, 1, norm))
        np.testing.assert_allclose(out, want.astype(x.dtype), rtol=8 * np.finfo(x.dtype).eps)


@types
@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_lrn(name, size, level):
    x = RNG.standard_normal((2, 7, 30)).astype(TYPES[name])
    out, wide = np.zeros_like(x), x.astype(np.longdouble)
    for beta in (0.75, 0.6):
        call_kernel(f"lrn.{name}", [x, out],
                    {"outer": 2, "channels": 7, "inner": 30, "size": size, "alpha": 0.3,
                     "beta": beta, "bias": 1.5}, extent=14, level=level, threads=2)
        total = np.stack([(wide[:, max(0, c - (size - 1) // 2): c + size // 2 + 1] ** 2).sum(1)
                          for c in range(7)], 1)
        want = wide / (1.5 + 0.3 / size * total) ** beta
        np.testing.assert_allclose(out, want.astype(x.dtype), rtol=8 * np.finfo(x.dtype).eps)
