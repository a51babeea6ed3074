"""Pooling over one to three axes, both layouts."""

import itertools

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

RNG = np.random.default_rng(5)
TYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8}
# in, kernel, stride, dilation, begin, end, ceil
CASES = [
    ((9,), (3,), (1,), (1,), (0,), (0,), 0),
    ((40,), (5,), (2,), (1,), (2,), (2,), 0),
    ((2100,), (3,), (1,), (1,), (1,), (1,), 0),
    ((1500,), (1100,), (7,), (1,), (3,), (0,), 0),
    ((3000,), (3,), (1,), (600,), (5,), (9,), 0),
    ((7, 8), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
    ((4, 4), (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), 1),
    ((12, 11), (3, 2), (1, 3), (2, 3), (2, 1), (0, 2), 1),
    ((5, 6), (5, 6), (1, 1), (1, 1), (0, 0), (0, 0), 0),
    ((33, 35), (2, 2), (2, 2), (1, 1), (0, 0), (0, 0), 0),
    ((4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 1, 2), (1, 0, 1), (0, 1, 1), 1),
]


def out_shape(case):
    sizes, kernel, stride, dilation, begin, end, ceil = case
    out = []
    for n, k, s, d, b, e in zip(sizes, kernel, stride, dilation, begin, end, strict=True):
        room = n + b + e - (k - 1) * d - 1
        o = (-(-room // s) if ceil else room // s) + 1
        out.append(o - 1 if (o - 1) * s >= n + b else o)
    return out


def reference(x, case, kind, include_pad=0, p=2):
    """x: [batch, channels, in...]; returns values and indices (of the maximum)."""
    sizes, kernel, stride, dilation, begin, end, _ = case
    out = out_shape(case)
    result = np.zeros((*x.shape[:2], *out), x.dtype)
    index = np.zeros(result.shape, np.int64)
    for place in np.ndindex(*out):
        inside, padded = [], []
        for d, o in enumerate(place):
            at = [o * stride[d] - begin[d] + k * dilation[d] for k in range(kernel[d])]
            inside.append([a for a in at if 0 <= a < sizes[d]])
            padded.append(sum(-begin[d] <= a < sizes[d] + end[d] for a in at))
        window = x[(slice(None), slice(None), *np.ix_(*inside))].reshape(*x.shape[:2], -1)
        where = (slice(None), slice(None), *place)
        if kind == "max":
            result[where] = window.max(-1)
            flat = np.array([np.ravel_multi_index(c, sizes) for c in itertools.product(*inside)])
            index[where] = flat[window.argmax(-1)]
        elif kind == "avg":
            count = np.prod(padded) if include_pad else window.shape[-1]
            result[where] = window.astype(np.float64).sum(-1) / count
        else:
            result[where] = (abs(window.astype(np.float64)) ** p).sum(-1) ** (1 / p)
    index += np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(out)) * np.prod(sizes)
    return result, index


def geometry(case):
    names = ("in", "out", "kernel", "stride", "dilation", "begin")
    sizes, kernel, stride, dilation, begin, _, _ = case
    return dict(zip(names, (sizes, out_shape(case), kernel, stride, dilation, begin), strict=True))


def first(kind, name, x, case, level, more, guard=np.asarray, **kw):
    x = guard(x)
    out = np.zeros((*x.shape[:2], *out_shape(case)), x.dtype)
    call_kernel(f"pool_{kind}.{name}@first", [x, out], geometry(case) | more,
                extent=x.shape[0] * x.shape[1] * int(np.prod(out.shape[2:-1])), level=level, **kw)
    return out


def last(kind, name, x, case, level, more, guard=np.asarray, **kw):
    order = (0, *range(2, x.ndim), 1)
    data = guard(np.ascontiguousarray(x.transpose(order)))
    out = np.zeros((x.shape[0], *out_shape(case), x.shape[1]), x.dtype)
    attrs = geometry(case) | more | {"channels": x.shape[1]}
    call_kernel(f"pool_{kind}.{name}@last", [data, out], attrs,
                extent=x.shape[0] * int(np.prod(out.shape[1:-1])), level=level, **kw)
    return out.transpose(0, -1, *range(1, x.ndim - 1))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("kind", "name"), [*itertools.product(["max", "avg", "lp"], ["f32", "f64"]),
                                            ("max", "i8"), ("max", "u8")])
def test_pool(kind, name, case, level, guarded):
    channels = 3 if case[0][0] > 50 else 37
    x = (RNG.standard_normal((2, channels, *case[0])) * 50).astype(np.int8).astype(TYPES[name])
    variants = {"max": [{}], "avg": [{"end": case[5], "include_pad": i} for i in (0, 1)],
                "lp": [{"p": p} for p in (1.0, 2.0, 3.0)]}[kind]
    for more in variants:
        want, _ = reference(x, case, kind, more.get("include_pad", 0), more.get("p", 2))
        for run in (first, last):
            got = run(kind, name, x, case, level, more, guard=guarded)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=0 if kind == "max" else 1e-5)
            cut = run(kind, name, x, case, level, more, threads=2, grain=3)
            assert cut.tobytes() == got.tobytes()


@pytest.mark.parametrize("case", CASES[5:])
@pytest.mark.parametrize("name", TYPES)
def test_indices(name, case, level):
    x = RNG.integers(0, 9, (2, 3, *case[0])).astype(TYPES[name])
    if name[0] == "f":
        x.ravel()[::11] = np.nan
    want, where = reference(x, case, "max")
    out, index = np.zeros_like(want), np.zeros_like(where)
    extent = 6 * int(np.prod(want.shape[2:-1]))
    call_kernel(f"pool_max_index.{name}@first", [x, out, index],
                geometry(case) | {"column_major": 0}, extent=extent, level=level, threads=2)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(index, where)
    call_kernel(f"pool_max_index.{name}@first", [x, out, index],
                geometry(case) | {"column_major": 1}, extent=extent, level=level)
    size = int(np.prod(case[0]))
    places = np.unravel_index(where % size, case[0])
    column = np.ravel_multi_index(places[::-1], case[0][::-1])
    np.testing.assert_array_equal(index, where // size * size + column)


def test_nan_and_negative_infinity(level):
    case = CASES[9]
    x = np.full((1, 20, *case[0]), -np.inf, np.float32)
    x[0, :, 4, 5] = np.nan
    for run in (first, last):
        got = run("max", "f32", x, case, level, {})
        assert np.isnan(got[0, :, 2, 2]).all()
        assert np.isnan(got).sum() == 20
        assert (got[~np.isnan(got)] == -np.inf).all()


def test_ceil_average(level):
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    for include in (0, 1):
        for run in (first, last):
            got = run("avg", "f32", x, CASES[6], level, {"end": (0, 0), "include_pad": include})
            np.testing.assert_array_equal(got[0, 0], [[6, 7.5], [12, 13.5]])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", TYPES)
def test_narrow_rows_of_many_planes(name, stride, level, guarded):
    """More rows than are folded side by side; the bits do not depend on the cut; NaN and limits get through."""
    x = (RNG.standard_normal((90, 7, 7)) * 40).astype(TYPES[name])
    if name in ("f32", "f64"):
        x[3, 2, 2], x[4, 0, 0], x[5, 6, 6], x[60] = np.nan, np.inf, -np.inf, -np.inf
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=low)
    want = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::stride, ::stride].max((-1, -2))
    side = want.shape[-1]
    attrs = {"in": (7, 7), "out": (side, side), "kernel": (3, 3), "stride": (stride, stride), "dilation": (1, 1),
             "begin": (1, 1)}
    for grain, threads in ((90 * side, 1), (13, 1), (1, 2)):
        out = guarded(np.zeros(want.shape, x.dtype))
        call_kernel(f"pool_max.{name}@first", [guarded(x), out], attrs, extent=90 * side, grain=grain,
                    threads=threads, level=level)
        np.testing.assert_array_equal(out, want)


BANDS = [((40, 60), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 0), ((33, 64), (5, 2), (1, 1), (1, 2), (2, 1), (2, 1), 0),
         ((64, 20), (3, 3), (3, 1), (4, 3), (4, 3), (4, 3), 0), ((7, 7), (7, 7), (1, 1), (1, 1), (0, 0), (0, 0), 0),
         ((20, 20), (5, 5), (1, 1), (1, 1), (2, 2), (2, 2), 0), ((1, 30), (1, 4), (1, 2), (1, 1), (0, 2), (0, 1), 1),
         ((600, 3), (2, 2), (2, 2), (1, 1), (0, 0), (0, 0), 1), ((3, 3), (2, 2), (1, 1), (1, 1), (6, 6), (6, 6), 0)]


@pytest.mark.parametrize("case", BANDS, ids=str)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_planes_in_lanes_have_the_bits_of_rows(kind, case, level, guarded):
    """Bands of lines, overlapping blocks and groups; zeros of both signs, NaN and infinities."""
    x = RNG.standard_normal((1, 37, *case[0])).astype(np.float32)
    x[0, :, ::3] *= np.float32(0)
    x.ravel()[::97], x.ravel()[5::89] = np.nan, -np.inf
    more = {} if kind == "max" else {"end": case[5], "include_pad": 1}
    with np.errstate(invalid="ignore"):
        whole = first(kind, "f32", x, case, level, more, guard=guarded)
        rows = first(kind, "f32", x, case, level, more, grain=1)
        assert whole.tobytes() == rows.tobytes()
        if case[4][0] < case[1][0]:  # windows in padding alone have no reference
            np.testing.assert_allclose(whole, reference(x, case, kind, 1)[0], rtol=1e-5, atol=1e-5)
