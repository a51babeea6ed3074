"""Accuracy and edges of the elementwise transcendentals."""

import numpy as np
import pytest
import scipy.special as sp

from rlx.testing.kernels import call_ew

ALPHA, GAMMA = 0.75, 1.25


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def limit_at_minus_inf(f):
    """x f(x) tends to -0 where the formula gives -inf * 0."""
    return lambda x: np.where(np.isneginf(x), -0.0, f(np.where(np.isneginf(x), -1e30, x)))


def gelu_tanh(x):
    return x * sp.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


# References in float64, good to a few ulp of float64.
UNARY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": sp.expit,
    "log_sigmoid": sp.log_expit, "softplus": lambda x: np.logaddexp(0, x),
    "silu": limit_at_minus_inf(lambda x: x * sp.expit(x)),
    "swish": limit_at_minus_inf(lambda x: x * sp.expit(ALPHA * x)),
    "mish": limit_at_minus_inf(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "erf": sp.erf, "erfc": sp.erfc, "gelu": limit_at_minus_inf(lambda x: x * sp.ndtr(x)),
    "gelu_tanh": limit_at_minus_inf(gelu_tanh),
    "elu": lambda x: np.where(x < 0, ALPHA * np.expm1(x), x),
    "selu": lambda x: GAMMA * np.where(x < 0, ALPHA * np.expm1(x), x),
    "celu": lambda x: np.where(x < 0, ALPHA * np.expm1(x / ALPHA), x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip


def ulps(got, want):
    """Error of float32 `got` in units in the last place of the float64 `want`."""
    rounded = want.astype(np.float32)
    exponent = np.clip(np.frexp(want)[1] - 1, -126, 127)
    error = np.abs(got.astype(np.float64) - want) / np.exp2(exponent - 23.0)
    error = np.where(rounded == got, np.minimum(error, 0.5), error)
    same = (np.isnan(want) & np.isnan(got)) | (np.isinf(want) & (want == got))
    zero = (want == 0) & (got == 0)
    error[zero] = np.where(np.signbit(got) == np.signbit(want), 0, np.inf)[zero]
    error[same | (np.isinf(rounded) & (rounded == got))] = 0
    return np.where(np.isnan(error), np.inf, error)


def sweep(stride=65521):
    """Float32 numbers spread over all bit patterns, and the edges."""
    bits = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)
    rng = np.random.default_rng(0)
    near = np.concatenate([rng.uniform(-s, s, 4000) for s in (1, 10, 110)])
    edges = np.array([0, 1, 2, 0.5, np.inf, np.nan, 88.72283, 88.7229, 88.73, 103.9, 104.1, 87.3365,
                      1e-45, 1.1754944e-38, 1.1754942e-38, 3.4028235e38, 0.34657359, 14.2, 14.5,
                      9.99, 10.05, 10.06, 0.92, 128, 127.99999, 149, 150, 5e5, 6e5,
                      1e30])  # fmt: skip
    edges = np.concatenate([edges, -edges]).astype(np.float32)
    around = np.concatenate([np.nextafter(edges, np.float32(np.inf)), edges,
                             np.nextafter(edges, np.float32(-np.inf))])
    return np.concatenate([bits, near.astype(np.float32), around])


@pytest.mark.parametrize("op", UNARY)
def test_f32(op, level):
    x = sweep()
    got = call_ew(f"{op}.f32", x, params=(ALPHA, GAMMA), level=level)
    error = ulps(got, UNARY[op](x.astype(np.float64)))
    worst = error.argmax()
    assert error[worst] <= 4, (x[worst], got[worst])


POW_VALUES = np.array([0, 1, 2, 3, 0.5, 1.5, np.inf, np.nan, 1e-45, 1e-38, 3e38, 16777216, 16777217,
                       5, 0.99999994, 1.0000001, 33, 149])  # fmt: skip


def test_pow_f32(level):
    v = np.concatenate([POW_VALUES, -POW_VALUES]).astype(np.float32)
    x, y = (a.ravel() for a in np.meshgrid(v, v))
    rng = np.random.default_rng(0)
    x = np.concatenate([x, np.exp2(rng.uniform(-149, 128, 200_000)).astype(np.float32)])
    y = np.concatenate([y, rng.standard_normal(200_000).astype(np.float32) * 3])
    # results close to one, from large exponents
    x = np.concatenate([x, (1 + rng.uniform(-1e-3, 1e-3, 50_000)).astype(np.float32)])
    y = np.concatenate([y, (rng.standard_normal(50_000) * 2e4).astype(np.float32)])
    error = ulps(call_ew("pow.f32", x, y, level=level), np.power(x.astype("f8"), y.astype("f8")))
    worst = error.argmax()
    assert error[worst] <= 1, (x[worst], y[worst])


def test_atan2_f32(level):
    v = np.array([0, 1, 2.5, np.inf, np.nan, 1e-45, 1e38])
    v = np.concatenate([v, -v]).astype(np.float32)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(v, v))
    want = np.arctan2(x.astype("f8"), y.astype("f8"))
    error = ulps(call_ew("atan2.f32", x, y, level=level), want)
    assert error.max() <= 1
