"""softmax, log_softmax, log_sum_exp over the middle axis."""

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

RNG = np.random.default_rng(3)
TYPES = {"f32": np.float32, "f64": np.float64}
SHAPES = [(3, 1, 1), (2, 7, 1), (2, 15, 1), (2, 16, 1), (2, 17, 1), (2, 33, 1), (1, 1000, 1),
          (2, 5, 3), (1, 40, 17), (2, 9, 64), (0, 3, 2), (2, 0, 3), (1, 6, 1)]


def run(op, name, x, level, **kw):
    outer, n, inner = x.shape
    out = np.zeros((outer, inner) if op == "log_sum_exp" else x.shape, x.dtype)
    call_kernel(f"{op}.{name}", [x, out], {"outer": outer, "n": n, "inner": inner},
                extent=outer * inner, level=level, **kw)
    return out


def reference(op, x):
    x = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        if op == "log_sum_exp":
            top = x.max(1, initial=-np.inf)
            safe = np.where(np.isinf(top), 0, top)
            return np.log(np.exp(x - safe[:, None]).sum(1)) + safe
        d = x - x.max(1, keepdims=True) if x.size else x
        e = np.exp(d)
        return e / e.sum(1, keepdims=True) if op == "softmax" else d - np.log(e.sum(1, keepdims=True))


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "log_sum_exp"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(op, name, shape, level, guarded):
    for scale in (1, 30, 1e4):
        x = guarded((RNG.standard_normal(shape) * scale).astype(TYPES[name]))
        got, want = run(op, name, x, level), reference(op, x)
        eps = np.finfo(x.dtype).eps
        atol = np.finfo(x.dtype).tiny * eps * 2 if op == "softmax" else 8 * eps
        # x - max is rounded, and exp turns that absolute error into a relative one
        spread = np.ptp(np.clip(x, x.max() - 800, None)) if x.size else 0
        rtol = (8 + (min(spread, 110 if name == "f32" else 800) if op == "softmax" else 0)) * eps
        np.testing.assert_allclose(got, want.astype(x.dtype), rtol=rtol, atol=atol)
        for grain in (1, 5):
            assert run(op, name, x, level, threads=2, grain=grain).tobytes() == got.tobytes()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("inner", [1, 3])
def test_special_rows(name, inner, level):
    for n in (1, 5, 16, 40):
        for at in range(n):
            for value in (np.nan, np.inf):
                x = RNG.standard_normal((2, n, inner)).astype(TYPES[name])
                x[0, at, 0] = value
                for op in ("softmax", "log_softmax"):
                    got = run(op, name, x, level)
                    if op == "softmax" or np.isnan(value):
                        assert np.isnan(got[0, :, 0]).all()
                    assert not np.isnan(got[1]).any()
                lse = run("log_sum_exp", name, x, level)[0, 0]
                assert np.isnan(lse) if np.isnan(value) else lse == np.inf
        x = np.full((1, n, inner), -np.inf, TYPES[name])
        assert np.isnan(run("softmax", name, x, level)).all()
        assert (run("log_sum_exp", name, x, level) == -np.inf).all()
        x[0, 0] = 3
        assert (run("softmax", name, x, level)[0, 0] == 1).all()
        assert (run("softmax", name, x, level)[0, 1:] == 0).all()


def test_long_row_sums_to_one(level):
    x = np.zeros((1, 100_003, 1), np.float32)
    got = run("softmax", "f32", x, level)
    assert (got == np.float32(1 / 100_003)).all()


def test_in_place(level):
    x = RNG.standard_normal((3, 50, 1)).astype(np.float32)
    want = run("softmax", "f32", x, level)
    call_kernel("softmax.f32", [x, x], {"outer": 3, "n": 50, "inner": 1}, extent=3, level=level)
    assert x.tobytes() == want.tobytes()


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "log_sum_exp"])
@pytest.mark.parametrize("name", TYPES)
def test_every_width(op, name, level, guarded):
    """Rows of any number of vectors, alone and beside others, give the same bits."""
    for n in [*range(1, 40), 48, 49, 63, 64, 65, 80, 96, 100, 112, 113, 127, 128, 129, 144, 145, 160, 177, 200, 257]:
        x = guarded((RNG.standard_normal((4, n, 1)) * 3).astype(TYPES[name]))
        got, want = run(op, name, x, level), reference(op, x)
        eps = np.finfo(x.dtype).eps
        np.testing.assert_allclose(got, want.astype(x.dtype), rtol=28 * eps, atol=8 * eps if op != "softmax" else 0)
        for row in range(4):
            assert run(op, name, x[row:row + 1].copy(), level).tobytes() == got[row:row + 1].tobytes()


def test_denormal_results_are_rounded_once(level):
    """Terms of a row go down to the smallest denormal, then to 0."""
    for n in (3, 20, 200):
        x = np.zeros((1, n, 1), np.float32)
        x[0, 1:, 0] = np.linspace(-86, -106, n - 1)
        got = run("softmax", "f32", x, level)[0, :, 0]
        want = reference("softmax", x)[0, :, 0]
        spacing = np.maximum(np.spacing(want.astype(np.float32)), np.float32(2.0**-149))
        assert (np.abs(got - want) <= np.where(want < 2.0**-130, 0.55, 2.0) * spacing).all()
