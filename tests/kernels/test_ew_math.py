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


def wide_sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def wide_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# Where the long double formula differs from the float64 one, or NumPy has no long double.
WIDE = {
    **UNARY, "sigmoid": wide_sigmoid, "softplus": wide_softplus,
    "log_sigmoid": lambda x: -wide_softplus(-x),
    "silu": limit_at_minus_inf(lambda x: x * wide_sigmoid(x)),
    "swish": limit_at_minus_inf(lambda x: x * wide_sigmoid(ALPHA * x)),
    "mish": limit_at_minus_inf(lambda x: x * np.tanh(wide_softplus(x))),
}  # fmt: skip
del WIDE["erf"], WIDE["erfc"], WIDE["gelu"], WIDE["gelu_tanh"]


def ulps_f64(got, want):
    rounded = want.astype(np.float64)
    exponent = np.clip(np.frexp(want)[1] - 1, -1022, 1023)
    error = np.abs(got.astype(np.longdouble) - want) / np.ldexp(np.longdouble(1), exponent - 52)
    same = (np.isnan(want) & np.isnan(got)) | (~np.isfinite(rounded) & (rounded == got))
    zero = (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
    error[same] = 0
    return np.where(np.isnan(error) | zero, np.inf, error)


def sweep_f64():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 20_000, np.uint64).view(np.float64)
    near = [rng.uniform(-s, s, 4000) for s in (1e-3, 1, 4, 30, 110, 760)]
    edges = np.array([0, 1, 2, 0.5, np.inf, np.nan, 709.782712893384, 709.79, 745.13, 745.14, 746,
                      5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 6e5, 1e9, 1e22])
    edges = np.concatenate([edges, -edges])
    around = [np.nextafter(edges, np.inf), edges, np.nextafter(edges, -np.inf)]
    return np.concatenate([bits, *near, *around])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision")
@pytest.mark.parametrize("op", WIDE)
def test_f64(op, level):
    x = sweep_f64()
    got = call_ew(f"{op}.f64", x, params=(ALPHA, GAMMA), level=level)
    error = ulps_f64(got, WIDE[op](x.astype(np.longdouble)))
    worst = error.argmax()
    assert error[worst] <= 2, (x[worst], got[worst])


# x, erf(x), erfc(x), gelu(x), gelu_tanh(x), to 17 digits
EXACT = np.array([
    [1e-300, 1.1283791670955126e-300, 1.0, 5.0000000000000001e-301, 5.0000000000000001e-301],
    [-1e-09, -1.1283791670955126e-9, 1.0000000011283792,
     -4.9999999960105775e-10, -4.9999999960105775e-10],
    [-0.001, -0.0011283787909692364, 1.0011283787909692,
     -0.00049960105778608895, -0.00049960105778641804],
    [0.1, 0.1124629160182849, 0.8875370839817151, 0.053982783727702901, 0.053982751045435168],
    [-0.3, -0.32862675945912742, 1.3286267594591274,
     -0.11462657334331421, -0.11462907645724075],
    [0.5, 0.52049987781304654, 0.47950012218695346, 0.34573123063700655, 0.34571400982514392],
    [0.75, 0.71115563365351513, 0.28884436634648487, 0.58002948571734885, 0.5799605551656203],
    [-0.84375, -0.76722566123234163, 1.7672256612323416,
     -0.16824759789772077, -0.16834575969258613],
    [0.9, 0.79690821242283214, 0.20309178757716786, 0.73434588718791648, 0.73422848870972059],
    [-1.0, -0.84270079294971487, 1.8427007929497149, -0.15865525393145705, -0.1588080093917233],
    [1.25, 0.92290012825645823, 0.07709987174354177, 1.1179377829164309, 1.1177142029697146],
    [1.3, 0.93400794494065245, 0.065992055059347554, 1.1741593700387066, 1.1739290123173094],
    [-1.7, -0.98379045859077456, 1.9837904585907746,
     -0.075761286689523172, -0.07589410444884384],
    [2.0, 0.99532226501895273, 0.0046777349810472658, 1.9544997361036416, 1.954597694087775],
    [2.857, 0.99994664173991315, 5.3358260086846371e-5, 2.8508907935023134, 2.8513456154093291],
    [-3.3, -0.99999694229020356, 1.9999969422902036,
     -0.0015952996698664657, -0.0013112281183358045],
    [4.0, 0.9999999845827421, 1.5417257900280019e-8, 3.9998733150326675, 3.9999297540518076],
    [-5.0, -0.99999999999846254, 1.9999999999984625,
     -1.4332578593959696e-6, -2.291796196629506e-7],
    [5.9, 0.99999999999999993, 7.1904097835504777e-17, 5.899999989276704, 5.8999999997922879],
    [6.5, 1.0, 3.8421483271206475e-20, 6.49999999973896, 6.4999999999993722],
    [-7.25, -1.0, 2.0, -1.5107971650372503e-12, -1.0631936227657138e-16],
    [8.5, 1.0, 2.7623240713337714e-33, 8.4999999999999999, 8.5],
    [-10.0, -1.0, 2.0, -7.6198530241605261e-23, -1.204092348209806e-37],
    [12.0, 1.0, 1.3562611692059042e-64, 12.0, 12.0],
    [20.0, 1.0, 5.3958656116079009e-176, 20.0, 20.0],
    [-26.0, -1.0, 2.0, -6.4377646203088121e-148, -5.4122820883445798e-562],
    [-30.0, -1.0, 2.0, -1.4720141781444561e-196, -9.6167759596914546e-857],
    [37.0, 1.0, 4.304464606604182e-597, 37.0, 37.0],
    [-37.5, -1.0, 2.0, -1.7270073785932331e-306, -2.5093625945000248e-1659],
])  # fmt: skip


@pytest.mark.parametrize(("op", "column"), [("erf", 1), ("erfc", 2), ("gelu", 3), ("gelu_tanh", 4)])
def test_f64_special(op, column, level):
    got = call_ew(f"{op}.f64", EXACT[:, 0].copy(), level=level)
    want = EXACT[:, column]
    assert (np.abs(got - want) <= 2 * np.spacing(np.abs(want))).all()


def test_pow_f64(level):
    v = np.concatenate([POW_VALUES, -POW_VALUES, [1e-308, 1e308, 2**53 - 1.0, -(2**53 - 1.0)]])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(v, v))
    rng = np.random.default_rng(0)
    near = 1 + rng.uniform(-1, 1, 50_000)
    x = np.concatenate([x, np.exp2(rng.uniform(-1074, 1023, 50_000)), near])
    y = np.concatenate([y, rng.standard_normal(50_000) * 2, rng.standard_normal(50_000) * 100])
    got = call_ew("pow.f64", x, y, level=level)
    error = ulps_f64(got, np.power(x.astype(np.longdouble), y.astype(np.longdouble)))
    worst = error.argmax()
    assert error[worst] <= 2, (x[worst], y[worst], got[worst])
