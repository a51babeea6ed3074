"""argmax, argmin, cumulative sums, products and extrema."""

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

RNG = np.random.default_rng(6)
TYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
SHAPES = [(1, 1, 1), (3, 7, 1), (2, 15, 1), (2, 16, 1), (2, 33, 1), (1, 1000, 1), (2, 129, 1),
          (2, 5, 3), (2, 9, 130), (0, 3, 2), (1, 300, 2)]


def draw(shape, name):
    return RNG.integers(0, 30, shape).astype(TYPES[name])


def arg(op, name, x, level, last=0, **kw):
    out = np.full((x.shape[0], x.shape[2]), -1, np.int64)
    call_kernel(f"{op}.{name}", [x, out],
                dict(zip(("outer", "n", "inner"), x.shape, strict=True)) | {"select_last": last},
                extent=out.size, level=level, **kw)
    return out


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("name", TYPES)
def test_arg(op, name, level, guarded):
    for shape in SHAPES:
        x = guarded(draw(shape, name))
        want = getattr(np, op)(x, 1)
        np.testing.assert_array_equal(arg(op, name, x, level), want)
        np.testing.assert_array_equal(arg(op, name, x, level, threads=2, grain=3), want)
        want = shape[1] - 1 - getattr(np, op)(x[:, ::-1], 1)
        np.testing.assert_array_equal(arg(op, name, x, level, last=1), want)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("shape", [(1, 40, 1), (1, 300, 1), (1, 9, 3), (1, 1, 1)])
def test_arg_nan_and_infinity(op, name, shape, level):
    for at in range(shape[1]):
        x = RNG.standard_normal(shape).astype(TYPES[name])
        x[0, at, -1] = np.nan
        x[0, RNG.integers(shape[1]), -1] = np.nan
        np.testing.assert_array_equal(arg(op, name, x, level), getattr(np, op)(x, 1))
    for value in (np.nan, np.inf, -np.inf, -0.0):
        x = np.full(shape, value, TYPES[name])
        x[0, 0] = 0 if value == 0 else value
        assert (arg(op, name, x, level) == 0).all()
        assert (arg(op, name, x, level, last=1) == shape[1] - 1).all()


CUM = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


@pytest.mark.parametrize("op", CUM)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_cumulative(op, name, exclusive, reverse, level):
    for shape in [*SHAPES, (2, 0, 3)]:
        x = draw(shape, name)
        if name[0] == "f" and op != "cumprod" and x.size > 40:
            x.ravel()[17] = np.nan
        if name[0] == "f" and op == "cumprod":
            x = (1 + x / 1000).astype(x.dtype)
        view = x[:, ::-1] if reverse else x
        wide = np.float64 if name == "f32" and op in ("cumsum", "cumprod") else x.dtype
        with np.errstate(over="ignore"):
            want = CUM[op].accumulate(view.astype(wide), 1, dtype=wide)
        if exclusive and shape[1]:
            if op == "cumsum":
                start = 0
            elif op == "cumprod":
                start = 1
            else:
                info = np.finfo(x.dtype) if name[0] == "f" else np.iinfo(x.dtype)
                low, high = (-np.inf, np.inf) if name[0] == "f" else (info.min, info.max)
                start = low if op == "cummax" else high
            want = np.concatenate([np.full_like(want[:, :1], start), want[:, :-1]], 1)
        want = (want[:, ::-1] if reverse else want).astype(x.dtype)
        attrs = dict(zip(("outer", "n", "inner"), shape, strict=True))
        attrs |= {"exclusive": exclusive, "reverse": reverse}
        for threads in (1, 2):
            out = np.zeros_like(x)
            call_kernel(f"{op}.{name}", [x, out], attrs, extent=shape[0] * shape[2], level=level,
                        threads=threads, grain=2)
            np.testing.assert_allclose(out, want, rtol=4 * np.finfo(x.dtype).eps
                                       if name[0] == "f" else 0)
        call_kernel(f"{op}.{name}", [x, x], attrs, extent=shape[0] * shape[2], level=level)
        assert x.tobytes() == out.tobytes()
