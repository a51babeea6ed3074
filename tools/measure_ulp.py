"""Measure the error of the elementwise transcendentals, in units in the last place.

Float32 functions run over every `--stride`-th of the 2^32 bit patterns, against float64
references. Float64 functions run over a million random numbers (half of them random bit
patterns, half uniform over the ranges where the functions bend) against long double; erf,
erfc and gelu over fewer, against mpmath. Errors are distances to the exact result, so a
correctly rounded function measures 0.5.

    python tools/measure_ulp.py                          # all, as a Markdown table
    python tools/measure_ulp.py --write docs/reference/accuracy.md
    python tools/measure_ulp.py --dtype f32 --op gelu --stride 1
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import mpmath
import numpy as np
import numpy.typing as npt
import scipy.special as sp

from rlx.runtime import kernels
from rlx.testing.kernels import call_ew

ALPHA, GAMMA = 0.75, 1.25
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Array = npt.NDArray[np.floating]
Function = Callable[[Array], Array]


def finite_limit(f: Function) -> Function:
    """Give x f(x) its limit -0 at -inf, where the formula is -inf * 0."""

    def with_limit(x: Array) -> Array:
        low = np.isneginf(x)
        return np.where(low, -x.dtype.type(0), f(np.where(low, x.dtype.type(-1e30), x)))

    return with_limit


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mish(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return x * np.where(x < 0, e * (e + 2) / (e * (e + 2) + 2), (1 + 2 * e) / (1 + 2 * e * (1 + e)))


def gelu_tanh(x: Array) -> Array:
    root = np.sqrt(2 / (4 * np.arctan(x.dtype.type(1))))
    return x * sigmoid(2 * root * (x + x.dtype.type("0.044715") * x * x * x))


# Formulas that hold in float64 and in long double alike.
FORMULAS: dict[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x), "softplus": softplus,
    "silu": finite_limit(lambda x: x * sigmoid(x)),
    "swish": finite_limit(lambda x: x * sigmoid(ALPHA * x)),
    "mish": finite_limit(mish), "gelu_tanh": finite_limit(gelu_tanh),
    "elu": lambda x: np.where(x < 0, ALPHA * np.expm1(x), x),
    "selu": lambda x: GAMMA * np.where(x < 0, ALPHA * np.expm1(x), x),
    "celu": lambda x: np.where(x < 0, ALPHA * np.expm1(x / ALPHA), x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip

# float64 for float32 kernels; mpmath, one number at a time, for float64 kernels.
SPECIAL: dict[str, tuple[Function, Callable[[mpmath.mpf], mpmath.mpf]]] = {
    "erf": (sp.erf, mpmath.erf),
    "erfc": (sp.erfc, mpmath.erfc),
    "gelu": (finite_limit(lambda x: x * sp.ndtr(x)), lambda x: x * mpmath.ncdf(x)),
}
OPS = sorted([*FORMULAS, *SPECIAL])


def by_mpmath(f: Callable[[mpmath.mpf], mpmath.mpf]) -> Function:
    """Vectorise an mpmath function; results in long double."""

    def exact(v: float) -> np.longdouble:
        if not abs(v) <= 200:
            limits = {mpmath.erf: np.sign(v), mpmath.erfc: 1 - np.sign(v)}
            return np.longdouble(np.nan if np.isnan(v) else limits.get(f, max(v, -0.0)))
        if v == 0:
            return np.longdouble(1 if f is mpmath.erfc else v)
        r = f(mpmath.mpf(v))
        return np.longdouble(mpmath.nstr(r, 25) if abs(r) > mpmath.mpf("1e-4900") else np.copysign(0.0, v))

    return lambda x: np.array([exact(v) for v in x.tolist()], np.longdouble)


def ulps(got: Array, want: Array) -> Array:
    """Distance of `got` to the wider `want` in ulps of the exact result."""
    info = np.finfo(got.dtype)
    exponent = np.clip(np.frexp(want)[1] - 1, info.minexp, info.maxexp - 1)
    unit = np.ldexp(want.dtype.type(1), exponent - info.nmant)
    error = np.abs(got.astype(want.dtype) - want) / unit
    rounded = want.astype(got.dtype)
    same = (rounded == got) | (np.isnan(want) & np.isnan(got))
    error = np.where(same & ~np.isfinite(rounded), 0, error)
    zero = (want == 0) & (got == 0) & (np.signbit(want) != np.signbit(got))
    return np.where(np.isnan(error) | zero, np.inf, error).astype(np.float64)


def samples_f64(op: str, count: int) -> Array:
    """Random float64 numbers: bit patterns, and ranges where functions bend."""
    rng = np.random.default_rng(1)
    if op in SPECIAL:
        count //= 25
    bits = rng.integers(0, 2**64, count // 2, np.uint64).view(np.float64)
    ranges = [rng.uniform(-s, s, count // 12) for s in (1e-3, 1, 4, 30, 110, 760)]
    edges = np.array([0, 1, 0.5, np.inf, np.nan, 5e-324, 2.2250738585072014e-308,
                      709.78271289338397, 709.782712893384, 745.13, 745.14, 1.7976931348623157e308, 38.4, 38.6, 26.5])
    return np.concatenate([bits, *ranges, edges, -edges])


def worst_f32(op: str, level: str, stride: int) -> float:
    reference = SPECIAL[op][0] if op in SPECIAL else FORMULAS[op]
    worst, step = 0.0, stride << 20
    for start in range(0, 1 << 32, step):
        bits = np.arange(start, min(start + step, 1 << 32), stride, dtype=np.uint64)
        x = bits.astype(np.uint32).view(np.float32)
        got = call_ew(f"{op}.f32", x, params=(ALPHA, GAMMA), level=level)
        worst = max(worst, float(ulps(got, reference(x.astype(np.float64))).max()))
    return worst


def worst_f64(op: str, levels: Sequence[str], count: int) -> list[float]:
    x = samples_f64(op, count)
    want = by_mpmath(SPECIAL[op][1])(x) if op in SPECIAL else FORMULAS[op](x.astype(np.longdouble))
    return [
        float(ulps(call_ew(f"{op}.f64", x, params=(ALPHA, GAMMA), level=level), want).max())
        for level in levels
    ]


def table(ops: Sequence[str], dtypes: Sequence[str], stride: int, count: int) -> str:
    levels = kernels.available_levels()
    columns = [f"{dtype} {level}" for dtype in dtypes for level in levels]
    lines = ["| function | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for op in ops:
        values: list[float] = []
        if "f32" in dtypes:
            values += [worst_f32(op, level, stride) for level in levels]
        if "f64" in dtypes:
            values += worst_f64(op, levels, count)
        lines.append(f"| {op} | " + " | ".join(f"{v:.2f}" for v in values) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", choices=OPS, help="default: all")
    parser.add_argument("--dtype", action="append", choices=["f32", "f64"], help="default: both")
    parser.add_argument("--stride", type=int, default=509, help="float32: every how many patterns")
    parser.add_argument("--count", type=int, default=1_000_000, help="float64: how many numbers")
    parser.add_argument("--write", type=Path, help="replace the measured part of this page")
    args = parser.parse_args()
    mpmath.mp.prec = 120
    with np.errstate(all="ignore"):
        text = table(args.op or OPS, args.dtype or ["f32", "f64"], args.stride, args.count)
    if args.write:
        page = args.write.read_text()
        head, tail = page[: page.index(BEGIN)], page[page.index(END) :]
        args.write.write_text(f"{head}{BEGIN}\n{text}\n{tail}")
    else:
        print(text)


if __name__ == "__main__":
    main()
