"""Reductions over [outer, r1, mid, r2, inner]."""

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

NAMES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
         "bool": np.bool_}
OPS = ["sum", "sum_square", "l1", "prod", "max", "min", "mean"]
SHAPES = [
    (67, 1, 1, 2, 1), (20, 1, 3, 3, 1), (33, 1, 1, 7, 1), (30, 2, 1, 2, 1), (21, 1, 1, 1, 1), (19, 1, 1, 15, 1),
    (1, 1, 1, 0, 1), (3, 1, 1, 0, 5), (0, 1, 1, 4, 2), (1, 1, 1, 1, 1), (1, 1, 1, 7, 1),
    (2, 1, 1, 15, 1), (2, 1, 1, 16, 1), (2, 1, 1, 17, 1), (1, 1, 1, 257, 1), (3, 1, 1, 5000, 1),
    (2, 3, 2, 33, 1), (1, 1, 1, 3, 3), (1, 1, 1, 500, 3), (2, 1, 1, 129, 7), (1, 1, 1, 70, 63),
    (1, 1, 1, 70, 64), (1, 1, 1, 70, 65), (2, 1, 1, 300, 130), (2, 3, 4, 5, 6), (2, 9, 2, 41, 33),
    (1, 1, 1, 2, 1000), (1, 1, 1, 20, 530),
]
RNG = np.random.default_rng(1)


def draw(shape, dtype):
    if np.issubdtype(dtype, np.floating):
        return RNG.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def reduce(op, name, x, level, **kw):
    outer, r1, mid, r2, inner = x.shape
    out = np.zeros((outer, mid, inner), x.dtype)
    call_kernel(f"reduce_{op}.{name}", [x, out],
                dict(zip(("outer", "r1", "mid", "r2", "inner"), x.shape, strict=True)),
                extent=out.size, level=level, **kw)
    return out


def split(op, name, x, block, level, **kw):
    outer, r, inner = x.shape
    blocks = -(-r // block)
    if op in ("max", "min"):
        partial_type = x.dtype
    elif x.dtype.kind == "f":
        partial_type = np.float64
    else:
        partial_type = np.int64 if op == "mean" else x.dtype
    partial = np.zeros((outer, blocks, inner), partial_type)
    out = np.zeros((outer, inner), x.dtype)
    attrs = {"outer": outer, "r": r, "inner": inner, "block": block}
    call_kernel(f"reduce_{op}.{name}@split", [x, partial], attrs, extent=outer * blocks,
                level=level, **kw)
    call_kernel(f"reduce_{op}.{name}@join", [partial, out], attrs, extent=outer * inner,
                level=level, **kw)
    return out


def expected(op, x):
    axes, n = (1, 3), x.shape[1] * x.shape[3]
    if x.dtype.kind == "f":
        wide = x.astype(np.longdouble)
        with np.errstate(all="ignore"):
            table = {
                "sum": lambda: wide.sum(axes), "sum_square": lambda: (wide * wide).sum(axes),
                "l1": lambda: abs(wide).sum(axes), "prod": lambda: wide.prod(axes),
                "mean": lambda: wide.sum(axes) / n if n else wide.sum(axes) * np.nan,
                "l2": lambda: np.sqrt((wide * wide).sum(axes)),
                "log_sum": lambda: np.log(wide.sum(axes)),
                "max": lambda: wide.max(axes, initial=-np.inf),
                "min": lambda: wide.min(axes, initial=np.inf),
            }
            return table[op]()
    info = np.iinfo(x.dtype)
    exact = x.astype(object)
    if op == "max":
        return x.max(axes, initial=info.min)
    if op == "min":
        return x.min(axes, initial=info.max)
    if op == "mean":
        total = exact.sum(axes)
        quotient = np.vectorize(lambda v: abs(int(v)) // max(n, 1) * (1 if v >= 0 else -1),
                                otypes=[object])(total)
        return quotient.astype(x.dtype)
    values = {"sum": exact, "prod": exact, "sum_square": exact * exact, "l1": abs(exact)}[op]
    result = values.prod(axes) if op == "prod" else values.sum(axes)
    bits = info.bits
    wrapped = np.vectorize(lambda v: int(v) % 2**bits, otypes=[object])(result)
    return wrapped.astype(f"u{bits // 8}").view(x.dtype)


@pytest.mark.parametrize("op", [*OPS, "l2", "log_sum"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_float(op, name, level):
    for shape in SHAPES:
        x = draw(shape, NAMES[name])
        if op in ("log_sum",):
            x = abs(x)
        if op == "prod":
            x = np.exp(x / 4).astype(x.dtype)
        want = expected(op, x)
        got = reduce(op, name, x, level)
        scale = {"sum": abs(x.astype(np.float64)).sum((1, 3)), "mean": 1.0,
                 "log_sum": 1 + abs(want)}.get(op)
        eps = np.finfo(x.dtype).eps
        tolerance = eps * 64 * (scale if scale is not None else abs(want))
        with np.errstate(invalid="ignore"):
            ok = (abs(got - want) <= tolerance) | (got == want) | (np.isnan(got) & np.isnan(want))
        assert ok.all(), (op, name, shape)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integer(op, name, level):
    for shape in SHAPES[:-4]:
        x = draw(shape, NAMES[name])
        if op == "prod":
            x |= 1
        np.testing.assert_array_equal(reduce(op, name, x, level), expected(op, x), f"{shape}")


@pytest.mark.parametrize("name", ["f32", "f64", "i8", "i32"])
def test_cuts_do_not_change_bits(name, level):
    for shape in SHAPES:
        x = draw(shape, NAMES[name])
        for op in ("sum", "max"):
            whole = reduce(op, name, x, level)
            for grain in (1, 7, 64):
                cut = reduce(op, name, x, level, threads=2, grain=grain)
                assert cut.tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    "shape", [(67, 1, 1, 2, 1), (37, 1, 1, 3, 1), (1, 3, 1, 129, 1), (1, 1, 1, 50, 3), (2, 1, 1, 30, 70)]
)
def test_no_reads_beyond_the_end(shape, level, guarded):
    for name in ("f32", "f64", "u8"):
        x = guarded(draw(shape, NAMES[name]))
        for op in ("sum", "max"):
            reduce(op, name, x, level)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_nan_wins_wherever_it_stands(op, name, level):
    for shape in [(1, 1, 1, 37, 1), (1, 1, 1, 37, 3), (1, 1, 1, 9, 70)]:
        for at in range(shape[3]):
            x = draw(shape, NAMES[name])
            x[0, 0, 0, at, -1] = np.nan
            got = reduce(op, name, x, level).ravel()
            assert np.isnan(got[-1])
            assert not np.isnan(got[:-1]).any()


def test_extrema_of_negative_zero_and_infinity(level):
    for n in (1, 8191, 8192, 8193):
        x = np.full((1, 1, 1, n, 1), -0.0, np.float32)
        got = reduce("max", "f32", x, level)
        assert got == 0
        assert np.signbit(got).all()
    x = np.full((1, 1, 1, 40, 2), -np.inf, np.float32)
    assert (reduce("max", "f32", x, level) == -np.inf).all()


def test_mean_does_not_overflow(level):
    for inner in (1, 3, 100):
        x = np.full((1, 1, 1, 20, inner), 3e38, np.float32)
        assert (reduce("mean", "f32", x, level) == np.float32(3e38)).all()
        y = np.full((1, 1, 1, 20, inner), 1.7e308)
        np.testing.assert_allclose(reduce("mean", "f64", y, level), 1.7e308, rtol=1e-15)
        for v in (1e-200, 1e200):
            z = np.full((1, 1, 1, 16, inner), v)
            np.testing.assert_allclose(reduce("l2", "f64", z, level), 4 * v, rtol=1e-15)


@pytest.mark.parametrize("shape", [(1, 1, 1, 10**7, 1), (1, 1, 1, 10**7 // 4, 4),
                                   (1, 1, 1, 10**5, 100)])
def test_long_sums(shape, level):
    x = np.full(shape, 0.1, np.float32)
    want = np.float32(float(np.float32(0.1)) * shape[3])
    got = reduce("sum", "f32", x, level)
    assert (abs(got - want) <= 2 * np.spacing(want)).all()
    ones = np.ones(shape, np.float32)
    assert (reduce("mean", "f32", ones, level) == 1).all()


def test_long_sum_of_f64(level):
    for shape in [(1, 1, 1, 10**6, 1), (1, 1, 1, 10**6 // 4, 4), (1, 1, 1, 10**4, 100)]:
        x = np.full(shape, 0.1)
        got = reduce("sum", "f64", x, level)
        want = np.float64(np.longdouble(0.1) * shape[3])
        assert (abs(got - want) <= 64 * np.spacing(want)).all()


@pytest.mark.parametrize(("op", "name"), [
    *((op, name) for op in OPS for name in ("f32", "i8", "i32")),
    *((op, name) for op in OPS[:-1] for name in ("f64", "u64"))])
def test_split_and_join(op, name, level):
    for shape in [(1, 5000, 1), (2, 999, 3), (1, 40, 200), (3, 0, 2)]:
        x = draw(shape, NAMES[name])
        if op == "prod":
            x = np.exp(x / 8).astype(x.dtype) if x.dtype.kind == "f" else x | 1
        got = split(op, name, x, 128, level)
        want = expected(op, x.reshape(shape[0], 1, 1, shape[1], shape[2]))[:, 0]
        if x.dtype.kind == "f":
            np.testing.assert_allclose(got, want.astype(x.dtype), rtol=1e-5, atol=1e-4)
        else:
            np.testing.assert_array_equal(got, want)
        assert split(op, name, x, 128, level, threads=2).tobytes() == got.tobytes()


def test_any_all(level):
    for shape in SHAPES:
        x = RNG.random(shape) < (0.5 if shape[3] < 5 else 0.02)
        np.testing.assert_array_equal(reduce("any", "bool", x, level), x.any((1, 3)))
        np.testing.assert_array_equal(reduce("all", "bool", ~x, level), (~x).all((1, 3)))
