"""Elementwise micro-kernels that need no transcendental, against NumPy."""

import warnings

import ml_dtypes
import numpy as np
import pytest

from rlx.runtime import kernels
from rlx.testing.kernels import KernelFailure, call_ew

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {
    "f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": BF16,
    "i8": np.dtype("i1"), "i16": np.dtype("i2"), "i32": np.dtype("i4"), "i64": np.dtype("i8"),
    "u8": np.dtype("u1"), "u16": np.dtype("u2"), "u32": np.dtype("u4"), "u64": np.dtype("u8"),
    "bool": np.dtype("?"), "c64": np.dtype("c8"), "c128": np.dtype("c16"),
    "b1": np.dtype("u1"), "b2": np.dtype("u2"), "b4": np.dtype("u4"), "b8": np.dtype("u8"),
    "b16": np.dtype("c16"),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn), "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2), "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
}  # fmt: skip
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f32", "f64")
TO_BOOL = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}
TO_REAL = {"c64": "f32", "c128": "f64"}
SIZES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 300]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sample(dtype, n, seed=0):
    """Random values of `dtype` with its edges among them."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, n).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, n, dtype, endpoint=True)
        small = rng.integers(max(info.min, -9), 9, n).astype(dtype)
        x = np.where(rng.random(n) < 0.5, small, x)
        edges = np.array([info.min, info.min + 1, info.max, 0, 1, info.max // 2], dtype)
    elif dtype.kind == "c":
        part = "f4" if dtype.itemsize == 8 else "f8"
        return sample(part, 2 * n, seed).view(dtype)
    else:
        wide = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 7, n)
        x = wide.astype(dtype)
        tiny = {1: 2e-5, 2: 6e-8, 4: 1e-45, 8: 5e-324}[dtype.itemsize]
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5,
                          tiny, -tiny, 3e38, -3e38, 65519.0, 65520.0], "f8").astype(dtype)
    k = min(n // 3, 4 * len(edges))
    x[rng.permutation(n)[:k]] = np.resize(rng.permutation(edges), k)
    return x.astype(dtype)


def same_bits(got, want):
    """Bit for bit, except that any NaN equals any NaN."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "fV" or got.dtype == BF16:
        nan = np.isnan(want.astype("f8"))
        np.testing.assert_array_equal(np.isnan(got.astype("f8")), nan)
        got, want = got[~nan], want[~nan]
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def operands(name, n, seed=0):
    """Operands, result type and parameters that the row `name` accepts."""
    op, _, tag = name.rpartition(".")
    dtype = DTYPES[tag]
    arity = kernels.table().ew(name).arity
    arrays = [sample(dtype, n, seed + i) for i in range(arity)]
    out = dtype
    if op == "where":
        arrays[0] = sample(bool, n, seed)
    elif op.startswith("cast_"):
        out = DTYPES[op[5:]]
    elif op.startswith("quantize_"):
        out = DTYPES[op[9:]]
    elif op in TO_BOOL:
        out = np.dtype(bool)
    elif op in {"abs", "real", "imag"} and tag in TO_REAL:
        out = DTYPES[TO_REAL[tag]]
    elif op == "make_complex":
        out = DTYPES[{"f32": "c64", "f64": "c128"}[tag]]
    elif tag in INTS and op in {"div", "floor_div", "mod", "fmod"}:
        arrays[1][arrays[1] == 0] = 3
    elif tag in INTS and op == "pow":
        arrays[1] = np.abs(arrays[1] // 2)
    return arrays, out, (0.75, 1.25)


ROWS = {}
for _name in sorted(kernels.table().ews):
    ROWS.setdefault(_name.rpartition(".")[2], []).append(_name)


@pytest.mark.parametrize("tag", ROWS)
def test_body_tail_and_bounds(tag, level, guarded):
    """The bits of an element depend neither on n nor on its place; nothing is read outside."""
    for name in ROWS[tag]:
        arrays, out, params = operands(name, 300)
        whole = call_ew(name, *arrays, out_dtype=out, params=params, level=level)
        arrays, ends = [guarded(a) for a in arrays], guarded(np.zeros(300, out))
        for n in SIZES:
            parts, result = [a[300 - n :] for a in arrays], ends[300 - n :]
            call_ew(name, *parts, out_dtype=out, params=params, level=level, out=result)
            same = whole[300 - n :].view(np.uint8), result.view(np.uint8)
            np.testing.assert_array_equal(*same, err_msg=f"{name} n={n}")


@pytest.mark.parametrize("tag", ROWS)
def test_in_place(tag, level):
    for name in ROWS[tag]:
        arrays, out, params = operands(name, 101)
        want = call_ew(name, *arrays, out_dtype=out, params=params, level=level)
        for i, a in enumerate(arrays):
            if a.dtype.itemsize != want.dtype.itemsize:
                continue
            copies = [x.copy() for x in arrays]
            got = copies[i].view(want.dtype)
            call_ew(name, *copies, params=params, level=level, out=got)
            np.testing.assert_array_equal(want.view(np.uint8), got.view(np.uint8), err_msg=name)


def truncated(x, y):
    q = np.floor_divide(x, y)
    return q + ((np.fmod(x, y) != 0) & ((x < 0) != (y < 0))).astype(x.dtype)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_div": np.floor_divide,
    "mod": np.mod, "fmod": np.fmod, "max": np.maximum, "min": np.minimum,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift, "pow": np.power, "div": truncated,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("tag", INTS)
def test_integer_binary(tag, level):
    for op, reference in BINARY.items():
        (x, y), out, _ = operands(f"{op}.{tag}", 1000)
        if op in {"shl", "shr"}:
            y = np.random.default_rng(1).integers(0, 80, 1000).astype(y.dtype)
        same_bits(call_ew(f"{op}.{tag}", x, y, out_dtype=out, level=level), reference(x, y))


@pytest.mark.parametrize("tag", ["i8", "i16", "i32", "i64"])
def test_integer_edges(tag, level):
    dtype = DTYPES[tag]
    low = np.iinfo(dtype).min
    x, y = np.full(70, low, dtype), np.full(70, -1, dtype)
    assert (call_ew(f"div.{tag}", x, y, level=level) == low).all()
    assert (call_ew(f"floor_div.{tag}", x, y, level=level) == low).all()
    assert (call_ew(f"mod.{tag}", x, y, level=level) == 0).all()
    assert (call_ew(f"fmod.{tag}", x, y, level=level) == 0).all()
    assert (call_ew(f"shr.{tag}", x, y, level=level) == -1).all()
    assert (call_ew(f"shl.{tag}", x, y, level=level) == 0).all()
    y[:] = 1
    y[41] = 0
    for op in ("div", "floor_div", "mod", "fmod"):
        with pytest.raises(KernelFailure) as failure:
            call_ew(f"{op}.{tag}", x, y, level=level)
        assert (failure.value.status, failure.value.position) == (2, 41)
    y[3] = -2
    with pytest.raises(KernelFailure) as failure:
        call_ew(f"pow.{tag}", x, y, level=level)
    assert (failure.value.status, failure.value.position, failure.value.value) == (3, 3, -2)
    x = np.arange(70).astype(dtype)
    for e in (0, 1, 2, 3, 5):
        same_bits(call_ew(f"pow.{tag}", x, np.full(70, e, dtype), level=level),
                  np.power(x, np.array(e, dtype)))


@pytest.mark.parametrize("tag", FLOATS)
def test_float_binary(tag, level):
    x, y = sample(DTYPES[tag], 3000), sample(DTYPES[tag], 3000, 5)
    for op in ("add", "sub", "mul", "mod", "fmod", "eq", "ne", "lt", "le", "gt", "ge"):
        out = bool if op in TO_BOOL else None
        same_bits(call_ew(f"{op}.{tag}", x, y, out_dtype=out, level=level), BINARY[op](x, y))
    same_bits(call_ew(f"div.{tag}", x, y, level=level), x / y)
    for op in ("max", "min"):
        got = call_ew(f"{op}.{tag}", x, y, level=level)
        np.testing.assert_array_equal(got, BINARY[op](x, y))
        same_bits(got, call_ew(f"{op}.{tag}", y, x, level=level))
        zeros = np.array([0.0, -0.0, 0.0, -0.0], x.dtype), np.array([0.0, 0.0, -0.0, -0.0], x.dtype)
        signs = np.signbit(call_ew(f"{op}.{tag}", *zeros, level=level)).tolist()
        assert signs == ([False] * 3 + [True] if op == "max" else [False] + [True] * 3)


@pytest.mark.parametrize("tag", FLOATS)
def test_float_floor_div(tag, level):
    x, y = sample(DTYPES[tag], 3000), sample(DTYPES[tag], 3000, 5)
    got, want = call_ew(f"floor_div.{tag}", x, y, level=level), np.floor_divide(x, y)
    same_bits(got, want)


def test_fma_rounds_once(level):
    x = np.full(20, 1 + 2.0**-12, np.float32)
    z = np.full(20, -(1 + 2.0**-11), np.float32)
    assert (call_ew("fma.f32", x, x, z, level=level) == np.float32(2.0**-24)).all()
    x = np.full(20, 1 + 2.0**-27)
    z = np.full(20, -(1 + 2.0**-26))
    assert (call_ew("fma.f64", x, x, z, level=level) == 2.0**-54).all()


def test_bool(level):
    x, y = sample(bool, 200), sample(bool, 200, 1)
    pairs = {"or": x | y, "add": x | y, "max": x | y, "bit_or": x | y, "and": x & y, "mul": x & y,
             "min": x & y, "bit_and": x & y, "xor": x ^ y, "bit_xor": x ^ y, "eq": x == y,
             "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}  # fmt: skip
    for op, want in pairs.items():
        same_bits(call_ew(f"{op}.bool", x, y, level=level), want)
    same_bits(call_ew("not.bool", x, level=level), ~x)


@pytest.mark.parametrize("tag", FLOATS)
def test_classify_and_clip(tag, level):
    x = sample(DTYPES[tag], 1000)

    def run(op, *params):
        return call_ew(f"{op}.{tag}", x, out_dtype=bool, params=params, level=level)

    same_bits(run("isnan"), np.isnan(x))
    same_bits(run("isfinite"), np.isfinite(x))
    same_bits(run("isinf", 1, 1), np.isinf(x))
    same_bits(run("isinf", 1, 0), np.isneginf(x))
    same_bits(run("isinf", 0, 1), np.isposinf(x))
    same_bits(run("isinf", 0, 0), np.zeros(1000, bool))
    for low, high in [(-1, 2), (-np.inf, np.inf), (3, 1), (np.nan, 1), (0, np.nan)]:
        got = call_ew(f"clip.{tag}", x, params=(low, high), level=level)
        want = np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_where(size, level):
    dtype = DTYPES[f"b{size}"]
    mask, x, y = sample(bool, 300), sample(dtype, 300), sample(dtype, 300, 1)
    got = call_ew(f"where.b{size}", mask, x, y, level=level)
    np.testing.assert_array_equal(got.view("u1"), np.where(mask, x, y).view("u1"))


def hard_sigmoid(x):
    return np.clip(np.float64(0.75) * x + np.float64(1.25), 0, 1)


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "sqrt": np.sqrt, "square": np.square,
    "recip": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("tag", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_float_unary(op, tag, level):
    x = sample(DTYPES[tag], 3000)
    same_bits(call_ew(f"{op}.{tag}", x, level=level), UNARY[op](x).astype(x.dtype))


@pytest.mark.parametrize("tag", FLOATS)
def test_activations(tag, level):
    x = sample(DTYPES[tag], 3000)
    one = x.dtype.type(1)
    wide = x.astype(np.longdouble)
    limit = {"rtol": 2 * np.finfo(x.dtype).eps, "atol": np.finfo(x.dtype).smallest_subnormal}

    def run(op, *params):
        return call_ew(f"{op}.{tag}", x, params=params, level=level)

    np.testing.assert_array_equal(run("relu"), np.maximum(x, 0))
    np.testing.assert_array_equal(run("leaky_relu", 0.25), np.where(x < 0, x / 4, x))
    theta = np.where(x > 0.5, x, np.where(np.isnan(x), x, 0))
    np.testing.assert_array_equal(run("thresholded_relu", 0.5), theta)
    shrunk = np.where(x < -0.5, x + one, np.where(x > 0.5, x - one, np.where(np.isnan(x), x, 0)))
    np.testing.assert_array_equal(run("shrink", 0.5, 1.0), shrunk)
    np.testing.assert_allclose(run("hard_sigmoid", 0.75, 1.25), hard_sigmoid(wide), **limit)
    want = np.where(np.isneginf(x), 0, wide * np.clip((wide + 3) / 6, 0, 1))
    np.testing.assert_allclose(run("hard_swish"), want, **limit)
    want = np.where(np.isinf(x), np.sign(x), wide / (1 + np.abs(wide)))
    np.testing.assert_allclose(run("softsign"), want, **limit)
    np.testing.assert_allclose(run("rsqrt"), 1 / np.sqrt(wide), **limit)


@pytest.mark.parametrize("tag", INTS)
def test_integer_unary(tag, level):
    x = sample(DTYPES[tag], 500)
    for op, f in {"neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square,
                  "bit_not": np.invert, "relu": lambda v: np.maximum(v, 0)}.items():  # fmt: skip
        same_bits(call_ew(f"{op}.{tag}", x, level=level), f(x))


# casts of float8 have their own tests, test_float8.py
CAST_TYPES = [t for t in DTYPES if not t.startswith(("b", "f8")) or t in {"bool", "bf16"}]


def cast_reference(x, to):
    """Reference of item 6 of the numerics contract."""
    dtype = DTYPES[to]
    if dtype == bool:
        return x.astype("f4") != 0 if x.dtype == BF16 else x != 0
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real.copy()
    if x.dtype == BF16:
        x = x.astype("f4")
    if dtype.kind in "iu" and x.dtype.kind == "f":
        info = np.iinfo(dtype)
        whole = [0 if v != v else int(max(min(v, 2.0**70), -(2.0**70))) for v in x.tolist()]
        return np.array([min(max(v, info.min), info.max) for v in whole], dtype)
    if dtype == BF16 and x.dtype != np.float32:
        # one rounding: to odd in float first
        return np.array([to_bf16(v) for v in x.tolist()], BF16)
    if to == "f16" and x.dtype.kind in "iu":
        return x.astype("f8").astype("f2")
    return x.astype(dtype)


def to_bf16(v):
    """Round a Python number to bfloat16 by exact arithmetic."""
    from fractions import Fraction

    if v != v or v in (np.inf, -np.inf) or v == 0:
        return BF16.type(v)
    magnitude = abs(Fraction(v))
    exponent = max(len(bin(int(magnitude))) - 3 if magnitude >= 1
                   else -len(bin(int(1 / magnitude))) + 2, -126)
    if magnitude < Fraction(2) ** exponent and exponent > -126:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 7)
    rounded = round(magnitude / unit) * unit
    value = float(rounded) if rounded < Fraction(2) ** 128 else np.inf
    return BF16.type(np.float32(value if v > 0 else -value))


@pytest.mark.parametrize("source", CAST_TYPES)
def test_cast(source, level):
    x = sample(DTYPES[source], 700, 3)
    for to in CAST_TYPES:
        got = call_ew(f"cast_{to}.{source}", x, out_dtype=DTYPES[to], level=level)
        want = cast_reference(x, to)
        if want.dtype.kind == "c":
            got, want = (v.view("f4" if to == "c64" else "f8") for v in (got, want))
        same_bits(got, want)


@pytest.mark.parametrize("wide", ["f64", "f32", "i64", "u64"])
@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_cast_rounds_once(half, wide, level):
    """Around the midpoints of the narrow type, where a detour through float32 rounds twice."""
    if wide[0] == "f":
        bits = np.random.default_rng(0).integers(0, 1 << 16, 500).astype("u2")
        mid = bits.view(DTYPES[half]).astype("f8")
        up = (bits + 1).astype("u2").view(DTYPES[half]).astype("f8")
        mid = (mid + up) / 2
        mid = mid[np.isfinite(mid)]
        x = np.concatenate([mid, np.nextafter(mid, np.inf), np.nextafter(mid, -np.inf)])
        x = x.astype(DTYPES[wide])
    else:
        base = np.array([(257 + 2 * k) << s for k in range(5) for s in range(54)], "u8")
        x = np.concatenate([base, base + 1, base - 1]).astype(DTYPES[wide])
    got = call_ew(f"cast_{half}.{wide}", x, out_dtype=DTYPES[half], level=level)
    if half == "bf16":
        want = np.array([to_bf16(v) for v in x.tolist()], BF16)
    else:
        exact = x if wide[0] == "f" else np.minimum(x, 1 << 20).astype("f8")
        want = exact.astype("f2")
    same_bits(got, want)


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_every_half(half, level):
    x = np.arange(1 << 16, dtype="u2").view(DTYPES[half])
    wide = call_ew(f"cast_f32.{half}", x, out_dtype="f4", level=level)
    same_bits(wide, x.astype("f4"))
    base = call_ew(f"cast_f32.{half}", x, out_dtype="f4", level="baseline")
    np.testing.assert_array_equal(wide.view("u4"), base.view("u4"))
    back = call_ew(f"cast_{half}.f32", wide, out_dtype=x.dtype, level=level)
    same_bits(back, x)
    sweep = np.arange(0, 1 << 32, 4099, dtype="u8").astype("u4").view("f4")
    narrow = call_ew(f"cast_{half}.f32", sweep, out_dtype=x.dtype, level=level)
    base = call_ew(f"cast_{half}.f32", sweep, out_dtype=x.dtype, level="baseline")
    np.testing.assert_array_equal(narrow.view("u2"), base.view("u2"))
    same_bits(narrow, sweep.astype(x.dtype))
    rounded = call_ew(f"round_{half}.f32", sweep, level=level)
    same_bits(rounded, narrow.astype("f4"))


COMPLEX = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "neg": np.negative, "conj": np.conj, "square": np.square, "recip": np.reciprocal,
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "abs": np.abs, "real": np.real, "imag": np.imag,
}  # fmt: skip


@pytest.mark.parametrize("tag", ["c64", "c128"])
@pytest.mark.parametrize("op", COMPLEX)
def test_complex(op, tag, level):
    rng = np.random.default_rng(0)
    part = np.dtype("f4" if tag == "c64" else "f8")
    arity = kernels.table().ew(f"{op}.{tag}").arity
    arrays = [(rng.standard_normal(1002) * 3).astype(part).view(DTYPES[tag]) for _ in range(arity)]
    arrays[0][:4] = [0, 1, 1j, -1]
    out = part if op in {"abs", "real", "imag"} else None
    got = call_ew(f"{op}.{tag}", *arrays, out_dtype=out, level=level)
    want = COMPLEX[op](*[a.astype("c16") for a in arrays])
    finite = np.isfinite(want)
    scale = np.abs(want[finite]) * 8 * np.finfo(part).eps
    assert (np.abs(got[finite] - want[finite]) <= scale).all()
    np.testing.assert_array_equal(np.isfinite(got), finite)


@pytest.mark.parametrize("tag", ["c64", "c128"])
def test_complex_edges(tag, level):
    dtype = DTYPES[tag]
    z = np.array([3 + 4j, 1e30 - 1e30j, -2.5 + 1e-3j], dtype)
    assert (call_ew(f"mul.{tag}", z, z.conj(), level=level).imag == 0).all()
    assert call_ew(f"abs.{tag}", np.array([complex(np.nan, np.inf)], dtype),
                   out_dtype=z.real.dtype, level=level)[0] == np.inf
    base = np.array([0, 0, 0, 2, 1j, 1 + 1j, 2], dtype)
    power = np.array([0, 2, -1, 10, 2, -1, 0.5], dtype)
    want = np.array([1, 0, np.nan, 1024, -1, 0.5 - 0.5j, 2**0.5])
    got = call_ew(f"pow.{tag}", base, power, level=level)
    np.testing.assert_allclose(got[[0, 1, 3, 4, 5, 6]], want[[0, 1, 3, 4, 5, 6]], rtol=1e-6)
    assert np.isnan(got[2])
    re, im = sample(z.real.dtype, 100), sample(z.real.dtype, 100, 1)
    part = {"c64": "f32", "c128": "f64"}[tag]
    made = call_ew(f"make_complex.{part}", re, im, out_dtype=dtype, level=level)
    same_bits(made.real.copy(), re)
    same_bits(made.imag.copy(), im)


@pytest.mark.parametrize("op", ["mul", "div", "recip"])
@pytest.mark.parametrize("tag", ["c64", "c128"])
def test_complex_is_not_fused(op, tag, level):
    """Bits are those of the formulas with every product rounded, wherever the number stands."""
    rng = np.random.default_rng(1)
    a, b = ((rng.standard_normal(2 * 517) * 3).astype(DTYPES[tag].type(0).real.dtype).view(DTYPES[tag]) for _ in "ab")
    if op == "recip":
        got = call_ew(f"recip.{tag}", b, level=level)
        a = np.ones_like(b)
    else:
        got = call_ew(f"{op}.{tag}", a, b, level=level)
    ar, ai, br, bi = (v.astype(np.float64) for v in (a.real, a.imag, b.real, b.imag))
    if op == "mul":
        re, im = ar * br - ai * bi, ar * bi + ai * br
    else:
        wide = abs(br) >= abs(bi)
        ratio = np.where(wide, bi / br, br / bi)
        scale = 1 / np.where(wide, br + bi * ratio, bi + br * ratio)
        re = np.where(wide, ar + ai * ratio, ar * ratio + ai) * scale
        im = np.where(wide, ai - ar * ratio, ai * ratio - ar) * scale
    np.testing.assert_array_equal(got.real, re.astype(got.real.dtype))
    np.testing.assert_array_equal(got.imag, im.astype(got.real.dtype))
