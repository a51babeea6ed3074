"""Elementwise ops of one operand."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import COMPLEX, FLOATS, INTS, REALS, DType, bool_
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, infer_unary, require_dtype, unary_errors, unary_samples

# 4 ulp in f32, 2 ulp in f64 (numerics contract, item 9); halves: one rounding of the f32 result.
ULPS = Tolerance(rtol={"f32": 4 * 2.0**-23, "f64": 2 * 2.0**-52, "c64": 1e-5, "c128": 1e-13},
                 atol={"f32": 4 * 2.0**-149, "f64": 2 * 2.0**-1074, "f16": 6e-8, "c64": 1e-6, "c128": 1e-14})


def unary(
    name: str,
    reference: Callable[..., Any],
    doc: str,
    allowed: tuple[DType, ...] = FLOATS,
    *,
    tolerance: Tolerance = ULPS,
    low: float = -4.0,
    high: float = 4.0,
    attrs: tuple[Attr, ...] = (),
    sample_attrs: dict[str, Any] | None = None,
    result: DType | None = None,
) -> OpDef:
    """Row of an elementwise op of one operand."""
    return OpDef(
        name, ("x",), infer_unary(name, allowed, result), reference, doc, attrs=attrs, dtypes=allowed,
        traits=frozenset({"elementwise"}), samples=unary_samples(low, high, **(sample_attrs or {})),
        errors=unary_errors, tolerance=tolerance,
    )


def _special(name: str) -> Callable[[Array], Array]:
    """A function of scipy.special, imported when first called."""

    def reference(x: Array) -> Array:
        import scipy.special

        function = getattr(scipy.special, name)
        if x.dtype == np.longdouble and "g->g" not in function.types:
            return np.asarray(function(x.astype(np.float64)).astype(x.dtype))
        return np.asarray(function(x))

    return reference


_sigmoid = _special("expit")


def _erfc(x: Array) -> Array:
    """erfc; in extended precision by its series near 0 and its continued fraction beyond (SciPy's errs by 16 ulp)."""
    if x.dtype != np.longdouble:
        return _special("erfc")(x)
    one = np.asarray(1, x.dtype)
    root_pi = np.sqrt(np.asarray(np.longdouble("3.14159265358979323846264338327950288"), x.dtype))
    a = np.abs(x)
    bell = np.exp(-a * a)
    small = np.where(a < 2, a, one)
    term = total = small
    for n in range(1, 80):
        term = term * 2 * small * small / (2 * n + 1)
        total = total + term
    near = one - 2 / root_pi * np.exp(-small * small) * total
    large = np.where(a < 2, 2 * one, a)
    tail = one
    for n in range(120, 0, -1):
        tail = one + n / (2 * large * large) / tail
    far = bell / (large * root_pi) / tail
    right = np.where(a < 2, near, far)
    return np.where(np.isnan(x), x, np.where(x < 0, 2 - right, right))


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, 0.0))


def _gelu(x: Array) -> Array:
    half = np.asarray(0.5, x.dtype)
    tail = x * half * _erfc(-x * np.sqrt(half))
    return np.where(np.isneginf(x), np.asarray(-0.0, x.dtype), tail)


def _gelu_tanh(x: Array) -> Array:
    # 0.5 (1 + tanh u) = sigmoid(2 u), which does not cancel for negative u
    c = np.asarray(np.longdouble("0.7978845608028653558798921198687638"), x.dtype)  # sqrt(2 / pi)
    u = c * (x + np.asarray(np.longdouble("0.044715"), x.dtype) * x * x * x)
    return np.where(np.isneginf(x), -0.0, x * _sigmoid(2 * u)).astype(x.dtype)


def _silu(x: Array) -> Array:
    return np.where(np.isneginf(x), -0.0, x * _sigmoid(x)).astype(x.dtype)


def _mish(x: Array) -> Array:
    # tanh(log1p(e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2)
    e = np.exp(np.minimum(x, 20.0))
    n = e * (e + 2)
    return np.where(np.isneginf(x), -0.0, np.where(x > 20.0, x, x * (n / (n + 2)))).astype(x.dtype)


def _round(x: Array) -> Array:
    return np.asarray(np.rint(x)) if x.dtype.kind == "f" else x


def _int_same(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array) -> Array:
        return np.asarray(function(x)) if x.dtype.kind == "f" else x

    return reference


neg = unary("neg", np.negative, "-x; integers wrap.", FLOATS + INTS + COMPLEX, tolerance=EXACT)
sign = unary("sign", np.sign, "-1, 0 or 1; NaN stays NaN.", REALS, tolerance=EXACT)
floor = unary("floor", _int_same(np.floor), "Largest integer not above x.", REALS, tolerance=EXACT)
ceil = unary("ceil", _int_same(np.ceil), "Smallest integer not below x.", REALS, tolerance=EXACT)
round = unary("round", _round, "Nearest integer, halves to even.", REALS, tolerance=EXACT)
trunc = unary("trunc", _int_same(np.trunc), "Integer part, towards zero.", REALS, tolerance=EXACT)
sqrt = unary("sqrt", np.sqrt, "Square root.", FLOATS + COMPLEX, low=0.0, high=9.0)
rsqrt = unary("rsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt(x).", low=0.0, high=9.0)
recip = unary("recip", lambda x: 1 / x, "1 / x.", FLOATS + COMPLEX)
square = unary("square", lambda x: x * x, "x * x; integers wrap.", FLOATS + INTS + COMPLEX)
exp = unary("exp", np.exp, "e**x.", FLOATS + COMPLEX, high=30.0)
exp2 = unary("exp2", np.exp2, "2**x.")
expm1 = unary("expm1", np.expm1, "e**x - 1, exact near 0.")
log = unary("log", np.log, "Natural logarithm.", FLOATS + COMPLEX, low=0.0, high=50.0)
log2 = unary("log2", np.log2, "Logarithm to base 2.", low=0.0, high=50.0)
log10 = unary("log10", np.log10, "Logarithm to base 10.", low=0.0, high=50.0)
log1p = unary("log1p", np.log1p, "log(1 + x), exact near 0.", low=-1.0)
sin = unary("sin", np.sin, "Sine of radians.", low=-20.0, high=20.0)
cos = unary("cos", np.cos, "Cosine of radians.", low=-20.0, high=20.0)
tan = unary("tan", np.tan, "Tangent of radians.")
asin = unary("asin", np.arcsin, "Inverse sine.", low=-1.0, high=1.0)
acos = unary("acos", np.arccos, "Inverse cosine.", low=-1.0, high=1.0)
atan = unary("atan", np.arctan, "Inverse tangent.")
sinh = unary("sinh", np.sinh, "Hyperbolic sine.")
cosh = unary("cosh", np.cosh, "Hyperbolic cosine.")
tanh = unary("tanh", np.tanh, "Hyperbolic tangent.")
asinh = unary("asinh", np.arcsinh, "Inverse hyperbolic sine.")
acosh = unary("acosh", np.arccosh, "Inverse hyperbolic cosine.", low=1.0, high=9.0)
atanh = unary("atanh", np.arctanh, "Inverse hyperbolic tangent.", low=-1.0, high=1.0)
erf = unary("erf", _special("erf"), "Error function.")
erfc = unary("erfc", _erfc, "1 - erf(x), without cancellation.")
sigmoid = unary("sigmoid", _sigmoid, "1 / (1 + exp(-x)).", low=-20.0, high=20.0)
log_sigmoid = unary("log_sigmoid", lambda x: -_softplus(-x), "log(sigmoid(x)), without cancellation.")
softplus = unary("softplus", _softplus, "log(1 + exp(x)).")
softsign = unary("softsign", lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))).astype(x.dtype),
                 "x / (1 + |x|).")
gelu = unary("gelu", _gelu, "x Phi(x), Phi the normal distribution (erf form).", low=-8.0, high=8.0)
gelu_tanh = unary("gelu_tanh", _gelu_tanh, "The tanh approximation of gelu.", low=-8.0, high=8.0)
silu = unary("silu", _silu, "x sigmoid(x).", low=-20.0, high=20.0)
mish = unary("mish", _mish, "x tanh(softplus(x)).", low=-20.0, high=20.0)
relu = unary("relu", lambda x: np.where(np.isnan(x) | (x > 0), x, np.zeros_like(x)), "max(x, 0); NaN stays NaN.", REALS,
             tolerance=EXACT)
hard_swish = unary("hard_swish", lambda x: np.where(np.isneginf(x), -0.0, x * np.clip(x + 3, 0, 6) / 6).astype(x.dtype),
                   "x clip(x + 3, 0, 6) / 6.")
bit_not = unary("bit_not", np.invert, "All bits inverted.", INTS, tolerance=EXACT)
logical_not = unary("logical_not", np.logical_not, "not x.", (bool_,), tolerance=EXACT)


def _alpha(default: float, name: str = "alpha") -> Attr:
    return Attr(name, "float", default)


def _leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x >= 0, x, x * np.asarray(alpha, x.dtype))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, np.asarray(alpha, x.dtype) * np.expm1(np.minimum(x, 0)))


def _celu(x: Array, alpha: float) -> Array:
    below = alpha * np.expm1(np.minimum(x, 0) / alpha) if alpha else 0 * x
    return np.where(x > 0, x, below).astype(x.dtype)


def _selu(x: Array, alpha: float, gamma: float) -> Array:
    return (gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))).astype(x.dtype)


def _shrink(x: Array, lambd: float, bias: float) -> Array:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0 * x)).astype(x.dtype)


leaky_relu = unary("leaky_relu", _leaky_relu, "x, or alpha x below 0.", attrs=(_alpha(0.01),))
elu = unary("elu", _elu, "x, or alpha (exp(x) - 1) below 0.", attrs=(_alpha(1.0),))
celu = unary("celu", _celu, "x, or alpha (exp(x / alpha) - 1) below 0.", attrs=(_alpha(1.0),),
             sample_attrs={"alpha": 1.5})
selu = unary("selu", _selu, "gamma elu(x, alpha).",
             attrs=(_alpha(1.6732632423543772), _alpha(1.0507009873554805, "gamma")))
thresholded_relu = unary(
    "thresholded_relu",
    lambda x, alpha: np.where(x > alpha, x, np.where(np.isnan(x), x, 0)).astype(x.dtype),
    "x above alpha, else 0.",
    attrs=(_alpha(1.0),),
    tolerance=EXACT,
)
hard_sigmoid = unary("hard_sigmoid", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1).astype(x.dtype),
                     "clip(alpha x + beta, 0, 1).", attrs=(_alpha(0.2), _alpha(0.5, "beta")),
                     tolerance=Tolerance(atol={"f32": 1e-6, "f64": 1e-15}))
swish = unary("swish", lambda x, alpha: np.where(np.isneginf(x * alpha), -0.0, x * _sigmoid(alpha * x)).astype(x.dtype),
              "x sigmoid(alpha x).", attrs=(_alpha(1.0),), sample_attrs={"alpha": 1.5})
shrink = unary("shrink", _shrink, "x + bias below -lambd, x - bias above lambd, else 0.",
               attrs=(_alpha(0.5, "lambd"), _alpha(0.0, "bias")), sample_attrs={"lambd": 1.0, "bias": 0.25})
clip = unary("clip", lambda x, lo, hi: np.clip(x, lo, hi).astype(x.dtype),
             "x limited to [lo, hi]; NaN stays NaN.", attrs=(Attr("lo", "float", -np.inf), Attr("hi", "float", np.inf)),
             sample_attrs={"lo": -1.0, "hi": 2.0}, tolerance=EXACT)

isnan = unary("isnan", np.isnan, "Whether x is NaN.", result=bool_, tolerance=EXACT)
isfinite = unary("isfinite", np.isfinite, "Whether x is neither NaN nor infinite.", result=bool_,
                 tolerance=EXACT)


def _isinf(x: Array, negative: bool, positive: bool) -> Array:
    return (np.isneginf(x) & negative) | (np.isposinf(x) & positive)


isinf = unary("isinf", _isinf, "Whether x is infinite, by sign.", result=bool_, tolerance=EXACT,
              attrs=(Attr("negative", "bool", True), Attr("positive", "bool", True)))


def _infer_real_part(name: str) -> Any:
    part = {dtypes.c64: dtypes.f32, dtypes.c128: dtypes.f64}

    def rule(x: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
        allowed = COMPLEX if name != "abs" else REALS + COMPLEX
        require_dtype(name, x.dtype, allowed)
        return (x.with_dtype(part.get(x.dtype, x.dtype)),)

    return rule


def _complex_row(name: str, reference: Callable[..., Any], doc: str, allowed: tuple[DType, ...],
                 infer: Any, tolerance: Tolerance) -> OpDef:
    return OpDef(name, ("x",), infer, reference, doc, dtypes=allowed, traits=frozenset({"elementwise"}),
                 samples=unary_samples(), errors=unary_errors, tolerance=tolerance)


abs = _complex_row("abs", np.abs, "Absolute value; integers wrap (|INT_MIN| = INT_MIN); of complex: the modulus.",
                   REALS + COMPLEX, _infer_real_part("abs"), Tolerance(rtol={"f32": 5e-7, "f64": 5e-16}))
real = _complex_row("real", np.real, "Real part.", COMPLEX, _infer_real_part("real"), EXACT)
imag = _complex_row("imag", np.imag, "Imaginary part.", COMPLEX, _infer_real_part("imag"), EXACT)
conj = _complex_row("conj", np.conj, "Complex conjugate.", COMPLEX, infer_unary("conj", COMPLEX), EXACT)


def _infer_cast(x: TensorType, dtype: DType, saturate: bool = False) -> tuple[TensorType, ...]:
    if saturate and not dtype.is_float8:
        raise TypeRuleError(f"cast: only float8 is saturated, got saturate=True for {dtype}"
                            "\nhint: casts to integers always saturate; limit others with ops.clip")
    return (x.with_dtype(dtype),)


def _to_float8(x: Array, dtype: DType, saturate: bool) -> Array:
    """Rounded once, from any real type: integers beyond 2**53 are beyond the range too."""
    wide = x.astype(np.float64)
    if saturate:
        import ml_dtypes

        limit = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
        wide = np.clip(wide, -limit, limit)
    return np.asarray(wide.astype(dtype.numpy))


def cast_array(x: Array, dtype: DType, saturate: bool = False) -> Array:
    """Convert by the numerics contract: truncate and saturate floats to ints, NaN to 0, wrap ints.

    With `saturate`, what is beyond the range of a float8 type becomes its largest value, else an infinity
    or NaN.
    """
    if dtype.kind == "b":
        return np.asarray(x != 0)
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = np.real(x)
    if dtype.is_int and x.dtype.kind not in "iub":
        info = np.iinfo(dtype.numpy)
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = wide <= float(info.min), wide >= float(info.max)
        with np.errstate(invalid="ignore"):
            middle = np.where(low | high, 0, wide).astype(dtype.numpy)
        return np.asarray(np.where(low, info.min, np.where(high, info.max, middle)).astype(dtype.numpy))
    with np.errstate(over="ignore", invalid="ignore"):
        return _to_float8(x, dtype, saturate) if dtype.is_float8 else np.asarray(x.astype(dtype.numpy))


def _cast_samples(dtype: DType, rng: Rng) -> Any:
    kept = (slice(4, None), slice(6, None, 3))
    found = [s for to in dtypes.ALL for s in unary_samples(-300.0, 300.0, dtype=to)(dtype, rng)[kept[to.is_float8]]]
    far = unary_samples(-6e4, 6e4)(dtype, rng)
    return found + [Sample(s.args, {"dtype": to, "saturate": True}) for to in dtypes.FLOAT8 for s in far[-3:]]


def _cast_errors() -> list[ErrorSample]:
    return [*unary_errors(), ErrorSample((np.zeros(2, np.float32),), {"dtype": dtypes.f16, "saturate": True}, "float8")]


cast = OpDef("cast", ("x",), _infer_cast, cast_array,
             "x in another element type. To float8, `saturate` turns what is beyond the range into the largest value, "
             "as ONNX does; without it, as NumPy does, into an infinity (f8e5m2) or NaN.",
             dtypes=dtypes.ALL, attrs=(Attr("dtype", "dtype"), Attr("saturate", "bool", False)),
             traits=frozenset({"elementwise"}), samples=_cast_samples, errors=_cast_errors, tolerance=EXACT)
