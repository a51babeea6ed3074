"""Gathers, scatters, one-hot, nonzero, compress, sorted search."""

import numpy as np
import pytest

from rlx.testing.kernels import KernelFailure, call_kernel

RNG = np.random.default_rng(2)
SIZES = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64, 16: np.complex128}
INDEX = {"i32": np.int32, "i64": np.int64}
REAL = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
        "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
both = pytest.mark.parametrize("index", INDEX)
sizes = pytest.mark.parametrize("size", SIZES)


def draw(shape, dtype):
    return RNG.integers(0, 120, shape).astype(dtype)


def indices(shape, dim, index):
    return RNG.integers(-dim, dim, shape).astype(INDEX[index])


@both
@sizes
@pytest.mark.parametrize("shape", [(1, 9, 40, 1), (3, 5, 7, 1), (2, 4, 6, 33), (1, 1, 3, 300),
                                   (2, 3, 0, 4), (0, 3, 2, 4)])
def test_gather(size, index, shape, level, guarded):
    outer, dim, n, inner = shape
    data = guarded(draw((outer, dim, inner), SIZES[size]))
    at = guarded(indices((n,), dim, index))
    out = guarded(np.zeros((outer, n, inner), data.dtype))
    for threads, grain in ((1, 1), (2, 3)):
        out[...] = 0
        call_kernel(f"gather.b{size}@{index}", [data, at, out],
                    {"outer": outer, "dim": dim, "n": n, "inner": inner}, extent=outer * n,
                    threads=threads, grain=grain, level=level)
        np.testing.assert_array_equal(out, data[:, at])


@both
@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1, -(2**31)])
def test_index_errors_come_before_any_write(index, bad, level):
    data, out = np.ones((5, 3), np.float32), np.full((40, 3), 7, np.float32)
    at = indices((40,), 5, index)
    at[37] = bad
    calls = [
        ("gather.b4", [data, at, out], {"outer": 1, "dim": 5, "n": 40, "inner": 3}, 40),
        ("gather_nd.b4", [data, at, out], {"batch": 1, "n": 40, "inner": 3, "dims": [5]}, 40),
        ("gather_elements.b4", [data, at, out], {"axis": 0, "dim": 5, "shape": [40], "stride": [3]}, 1),
        ("scatter_nd.b4", [at, np.ones((40, 3), np.float32), out],
         {"n": 40, "inner": 3, "dims": [5]}, 3),
        ("scatter_elements_add.f32", [at, np.ones(40, np.float32), out],
         {"axis": 0, "dim": 5, "shape": [40], "stride": [3]}, 1),
    ]
    for name, args, attrs, extent in calls:
        with pytest.raises(KernelFailure) as info:
            call_kernel(f"{name}@{index}", args, attrs, extent=extent, level=level)
        assert (info.value.status, info.value.value, info.value.bound, info.value.position) == (
            1, bad, 5, 37)
        assert (out == 7).all()


@both
@sizes
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements(size, index, axis, level):
    data = draw((4, 5, 6), SIZES[size])
    shape = [3, 4, 6]
    shape[axis] = 9
    at = indices(shape, data.shape[axis], index)
    out = np.zeros(shape, data.dtype)
    call_kernel(f"gather_elements.b{size}@{index}", [data, at, out],
                {"axis": axis, "dim": data.shape[axis], "shape": shape, "stride": [30, 6, 1]},
                extent=shape[0] * shape[1], threads=2, grain=5, level=level)
    part = data[tuple(slice(None) if d == axis else slice(s) for d, s in enumerate(shape))]
    np.testing.assert_array_equal(out, np.take_along_axis(part, at.astype(np.int64), axis))


@both
@sizes
def test_gather_nd(size, index, level):
    data = draw((2, 4, 5, 6), SIZES[size])
    at = np.stack([indices((2, 7), d, index) for d in (4, 5)], -1)
    out = np.zeros((2, 7, 6), data.dtype)
    call_kernel(f"gather_nd.b{size}@{index}", [data, at, out],
                {"batch": 2, "n": 7, "inner": 6, "dims": [4, 5]}, extent=14, threads=2, level=level)
    want = np.stack([data[b][at[b, :, 0], at[b, :, 1]] for b in range(2)])
    np.testing.assert_array_equal(out, want)


REDUCTIONS = {"": lambda a, b: b, "_add": lambda a, b: a + b, "_mul": lambda a, b: a * b,
              "_max": np.maximum, "_min": np.minimum}


@both
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", REAL)
def test_scatter(name, reduction, index, level):
    function, dtype = REDUCTIONS[reduction], REAL[name]
    suffix = name if reduction else f"b{np.dtype(dtype).itemsize}"
    data = draw((4, 5, 6), dtype)
    for axis in range(3):
        shape = [3, 4, 6]
        shape[axis] = 9
        at, updates = indices(shape, data.shape[axis], index), draw(shape, dtype)
        want = data.copy()
        for place in np.ndindex(*shape):
            to = list(place)
            to[axis] = at[place]
            with np.errstate(over="ignore"):
                want[tuple(to)] = function(want[tuple(to)], updates[place])
        for threads, grain in ((1, 1), (2, 4)):
            out = data.copy()
            call_kernel(f"scatter_elements{reduction}.{suffix}@{index}", [at, updates, out],
                        {"axis": axis, "dim": data.shape[axis], "shape": shape,
                         "stride": [30, 6, 1]},
                        extent=int(np.prod(shape)) // 9, threads=threads, grain=grain, level=level)
            np.testing.assert_array_equal(out, want)
    at = np.stack([indices((30,), d, index) for d in (4, 5)], -1)
    updates, want = draw((30, 6), dtype), data.copy()
    for i in range(30):
        with np.errstate(over="ignore"):
            want[at[i, 0], at[i, 1]] = function(want[at[i, 0], at[i, 1]], updates[i])
    out = data.copy()
    call_kernel(f"scatter_nd{reduction}.{suffix}@{index}", [at, updates, out],
                {"n": 30, "inner": 6, "dims": [4, 5]}, extent=6, threads=2, grain=1, level=level)
    np.testing.assert_array_equal(out, want)


def test_scatter_max_keeps_nan(level):
    out = np.array([np.nan, 1, 2], np.float32)
    at, updates = np.array([0, 1, 1, 2]), np.array([9, np.nan, 3, 5], np.float32)
    call_kernel("scatter_nd_max.f32@i64", [at, updates, out], {"n": 4, "inner": 1, "dims": [3]},
                extent=1, level=level)
    np.testing.assert_array_equal(out, np.array([np.nan, np.nan, 5], np.float32))


@both
@pytest.mark.parametrize(("outer", "depth", "inner"), [(5, 4, 1), (3, 4, 7), (1, 1, 1), (2, 3, 0)])
def test_one_hot(index, outer, depth, inner, level):
    at = RNG.integers(-depth - 2, depth + 2, (outer, inner)).astype(INDEX[index])
    values, out = np.array([3, 8], np.float32), np.zeros((outer, depth, inner), np.float32)
    call_kernel(f"one_hot.b4@{index}", [at, values, out],
                {"outer": outer, "depth": depth, "inner": inner}, extent=outer * depth,
                threads=2, grain=2, level=level)
    wrapped = np.where(at < 0, at + depth, at)
    hot = wrapped[:, None, :] == np.arange(depth)[None, :, None]
    np.testing.assert_array_equal(out, np.where(hot, 8, 3))


@pytest.mark.parametrize("name", [*REAL, "f16", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4, 5), (2, 0, 3)])
def test_nonzero(name, shape, level):
    dtype = {"f16": np.float16, "bool": np.bool_}.get(name, REAL.get(name))
    data = RNG.integers(0, 2, shape).astype(dtype) if shape else np.array(1, dtype)
    if np.issubdtype(dtype, np.floating) and data.size > 2:
        data.ravel()[0], data.ravel()[1] = -0.0, np.nan
    want = np.array(np.nonzero(data)) if shape else np.zeros((0, 1), np.int64)
    out, count = np.zeros(max(1, len(shape)) * data.size, np.int64), np.zeros(1, np.int64)
    call_kernel(f"nonzero.{name}", [data.reshape(shape), out, count], {"shape": shape}, extent=1,
                level=level)
    assert count[0] == want.shape[1]
    got = out[: len(shape) * data.size].reshape(len(shape), data.size)[:, : count[0]]
    np.testing.assert_array_equal(got, want)


@sizes
def test_compress(size, level):
    data = draw((3, 5, 4), SIZES[size])
    condition = np.array([1, 0, 1, 1], np.bool_)
    out, count = np.zeros((3, 4, 4), data.dtype), np.zeros(1, np.int64)
    call_kernel(f"compress.b{size}", [data, condition, out, count],
                {"outer": 3, "n": 5, "inner": 4, "m": 4}, extent=1, level=level)
    assert count[0] == 3
    np.testing.assert_array_equal(out[:, :3], data[:, [0, 2, 3]])


@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("right", [0, 1])
def test_search_sorted(name, right, level):
    values = RNG.integers(0, 20, (3, 40)).astype(REAL[name])
    rows = np.sort(RNG.integers(0, 20, (3, 17)).astype(REAL[name]), -1)
    if name[0] == "f":
        rows[:, -1], values[:, 3] = np.nan, np.nan
    side = "right" if right else "left"
    for shared in (0, 1):
        out = np.zeros((3, 40), np.int64)
        call_kernel(f"search_sorted.{name}", [rows, values, out],
                    {"n": 17, "m": 40, "shared": shared, "right": right}, extent=120, threads=2,
                    grain=7, level=level)
        want = [np.searchsorted(rows[0 if shared else r], values[r], side) for r in range(3)]
        np.testing.assert_array_equal(out, want)
