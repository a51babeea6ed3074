"""sort, top_k, unique."""

import numpy as np
import pytest

from rlx.lower.context import workspaces
from rlx.testing.kernels import call_kernel

RNG = np.random.default_rng(7)
TYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
SHAPES = [(1, 1, 1), (2, 2, 1), (2, 12, 1), (3, 13, 1), (1, 100, 1), (1, 3000, 1), (2, 7, 3),
          (1, 600, 2), (0, 4, 1)]
types = pytest.mark.parametrize("name", TYPES)


def draw(shape, name, spread):
    dtype = TYPES[name]
    if name[0] == "f":
        x = (RNG.standard_normal(shape) * spread).round(1 if spread < 100 else 9).astype(dtype)
        if x.size > 6:
            flat = x.ravel()
            flat[RNG.integers(0, x.size, x.size // 5)] = np.nan
            flat[:3] = np.inf, -np.inf, -0.0
        return x
    info = np.iinfo(dtype)
    if spread < 100:
        return RNG.integers(max(info.min, -5), 5, shape).astype(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def order(x, descending):
    """Stable argsort along axis 1, NaN as the largest."""
    if x.size == 0:
        return np.zeros(x.shape, np.int64)
    rank = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    return np.argsort(-rank if descending else rank, 1, kind="stable")


@types
def test_sort(name, level):
    unit = 8 if TYPES[name]().itemsize <= 4 else 16
    for shape in SHAPES:
        for spread in (2, 10**4):
            x = draw(shape, name, spread)
            for descending in (0, 1):
                want = order(x, descending)
                stride = 2 * shape[1] * unit
                work = np.zeros(workspaces(2) * stride // 8, np.int64)
                values, indices = np.zeros_like(x), np.zeros(shape, np.int64)
                attrs = dict(zip(("outer", "n", "inner"), shape, strict=True))
                attrs |= {"descending": descending, "stride": stride}
                for outs in ((values, indices), (values, None), (None, indices)):
                    call_kernel(f"sort.{name}", [x, *outs, work], attrs,
                                extent=shape[0] * shape[2], level=level, threads=2)
                np.testing.assert_array_equal(indices, want)
                assert values.tobytes() == np.take_along_axis(x, want, 1).tobytes()


@types
def test_top_k(name, level):
    unit = 8 if TYPES[name]().itemsize <= 4 else 16
    for shape in SHAPES:
        for k in {0, 1, shape[1] // 2, min(5, shape[1]), min(40, shape[1]), shape[1]}:
            for largest in (0, 1):
                x = draw(shape, name, 3 if k % 2 else 10**5)
                want = order(x, largest)[:, :k]
                stride = 2 * shape[1] * unit
                work = np.zeros(workspaces(2) * stride // 8, np.int64)
                values = np.zeros((shape[0], k, shape[2]), x.dtype)
                indices = np.zeros(values.shape, np.int64)
                attrs = dict(zip(("outer", "n", "inner"), shape, strict=True))
                call_kernel(f"top_k.{name}", [x, values, indices, work],
                            attrs | {"k": k, "largest": largest, "stride": stride},
                            extent=shape[0] * shape[2], level=level, threads=2)
                np.testing.assert_array_equal(indices, want)
                np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


@types
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(name, is_sorted, level):
    unit = 8 if TYPES[name]().itemsize <= 4 else 16
    for n in (0, 1, 2, 13, 100, 2000):
        x = draw((n,), name, 2 if n % 2 else 10**4)
        values, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True)
        if not is_sorted:
            by = np.argsort(first)
            place = np.argsort(by)
            first, counts, inverse = first[by], counts[by], place[inverse]
        values = x[first]
        got = [np.zeros_like(x), *(np.zeros(n, np.int64) for _ in range(3)), np.zeros(1, np.int64)]
        work = np.zeros(max(1, (2 * n * unit + 16 * n) // 8), np.int64)
        call_kernel(f"unique.{name}", [x, *got, work], {"n": n, "sorted": is_sorted}, extent=1,
                    level=level)
        count = int(got[4][0])
        assert count == len(values)
        assert got[0][:count].tobytes() == values.tobytes()
        np.testing.assert_array_equal(got[1][:count], first)
        np.testing.assert_array_equal(got[2], inverse)
        np.testing.assert_array_equal(got[3][:count], counts)
        call_kernel(f"unique.{name}", [x, got[0], None, None, None, got[4], work],
                    {"n": n, "sorted": is_sorted}, extent=1, level=level)


@types
def test_values_alone_keep_the_bits_and_order_of_zeros_and_nan(name, level):
    unit = 8 if TYPES[name]().itemsize <= 4 else 16
    for n in (1, 2, 15, 16, 17, 31, 33, 64, 65, 127, 129, 1000, 2500):
        rows = [draw((1, n, 1), name, spread).reshape(n) for spread in (2, 10**4)]
        rows += [np.sort(rows[1]), np.sort(rows[1])[::-1], np.full(n, 3)]
        rows += [np.arange(n) % 2, np.minimum(np.arange(n), 60)]
        x = np.stack([row.astype(TYPES[name]) for row in rows])[:, :, None]
        if name[0] == "f":
            odd = x[0, ::3]
            odd[: len(odd) // 2], odd[len(odd) // 2 :] = -0.0, 0.0
            x[1, ::7] = -np.nan
        for descending in (0, 1):
            stride = 2 * n * unit
            values, work = np.empty_like(x), np.zeros(workspaces(1) * stride // 8, np.int64)
            attrs = {"outer": len(x), "n": n, "inner": 1, "descending": descending, "stride": stride}
            call_kernel(f"sort.{name}", [x, values, None, work], attrs, extent=len(x), level=level)
            want = np.take_along_axis(x, order(x, descending), 1)
            assert values.tobytes() == want.tobytes()
