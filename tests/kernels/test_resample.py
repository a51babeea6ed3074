"""Resampling by tables, grid sampling, region alignment, distinct rows: any cut of the range."""

import numpy as np
import pytest

from rlx.ops import TABLE
from rlx.testing.kernels import KernelFailure, call_kernel

RNG = np.random.default_rng(7)
FLOATS = {"f32": np.float32, "f64": np.float64}
floats = pytest.mark.parametrize("name", FLOATS)


@floats
@pytest.mark.parametrize("inner", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 6, 9])
def test_resample(name: str, inner: int, taps: int, level: str) -> None:
    outer, n, m = 3, 11, 19
    x = RNG.standard_normal((outer, n, inner)).astype(FLOATS[name])
    places = RNG.integers(0, n, (taps, m)).astype(np.int32)
    weights = RNG.standard_normal((taps, m)).astype(FLOATS[name])
    want = np.einsum("okjc,kj->ojc", x[:, places], weights)
    results = []
    for threads, grain in ((1, outer * m), (2, 5), (2, 1)):
        out = np.full((outer, m, inner), np.nan, FLOATS[name])
        call_kernel(f"resample.{name}", [x, places, weights, out], {"n": n, "m": m, "inner": inner, "taps": taps},
                    extent=outer * m, grain=grain, threads=threads, level=level)
        results.append(out)
        np.testing.assert_array_equal(out, results[0])
    np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=1e-5)


@floats
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sample(name: str, mode: int, padding: int, level: str) -> None:
    x = RNG.standard_normal((2, 3, 5, 6)).astype(FLOATS[name])
    grid = RNG.uniform(-1.5, 1.5, (2, 7, 9, 2)).astype(FLOATS[name])
    grid[0, 0, :5, 0] = [np.nan, np.inf, -np.inf, 1e30, -1e30]
    grid[0, 0, :5, 1] = 0.1
    results = []
    for threads, grain in ((1, 126), (2, 5), (2, 33)):
        out = np.zeros((2, 3, 7, 9), FLOATS[name])
        call_kernel(f"grid_sample.{name}", [x, grid, out],
                    {"channels": 3, "points": 63, "mode": mode, "padding": padding, "align": 0, "in": (5, 6)},
                    extent=126, grain=grain, threads=threads, level=level)
        results.append(out)
        np.testing.assert_array_equal(out, results[0])
    assert np.isnan(results[0][0, :, 0, 0]).all()
    assert np.isfinite(results[0].reshape(2, 3, -1)[:, :, 1:]).all()


@floats
def test_roi_align_refuses_what_lies_outside(name: str, level: str) -> None:
    x = RNG.standard_normal((2, 3, 8, 8)).astype(FLOATS[name])
    attrs = {"batch": 2, "channels": 3, "height": 8, "width": 8, "bins_y": 2, "bins_x": 2, "sampling": 0, "maximum": 0,
             "scale": 1.0, "shift": 0.5}
    out = np.zeros((2, 3, 2, 2), FLOATS[name])
    rois = np.array([[0, 0, 4, 4], [1, 1, 5, 5]], FLOATS[name])
    for items in ([0, 2], [-3, 0]):
        with pytest.raises(KernelFailure, match="status 1"):
            call_kernel(f"roi_align.{name}", [x, rois, np.array(items), out], attrs, extent=4, level=level)
    huge = np.array([[0, 0, 4, 4], [0, 0, 1e12, 4]], FLOATS[name])
    with pytest.raises(KernelFailure, match="status 7"):
        call_kernel(f"roi_align.{name}", [x, huge, np.array([0, 1]), out], attrs, extent=4, level=level)
    nan = np.full((2, 4), np.nan, FLOATS[name])
    call_kernel(f"roi_align.{name}", [x, nan, np.array([0, 1]), out], attrs, extent=4, level=level)


@pytest.mark.parametrize("name", ["f32", "f64", "i8", "u8", "i64", "u64"])
@pytest.mark.parametrize("ascending", [0, 1])
def test_unique_rows(name: str, ascending: int, level: str) -> None:
    kind = FLOATS.get(name) or {"i8": np.int8, "u8": np.uint8, "i64": np.int64, "u64": np.uint64}[name]
    for n, m in ((1, 1), (2, 3), (37, 2), (64, 1), (5, 0), (0, 4)):
        x = RNG.integers(0, 3, (n, m)).astype(kind)
        if name[0] == "f" and x.size > 20:
            x[x == 2] = np.nan
            x[3] = -0.0
        values, first, inverse, counts = np.zeros_like(x), *(np.zeros(n, np.int64) for _ in range(3))
        count, work = np.zeros(1, np.int64), np.zeros(3 * n, np.int64)
        call_kernel(f"unique_rows.{name}", [x, values, first, inverse, counts, count, work],
                    {"n": n, "m": m, "sorted": ascending}, extent=1, level=level)
        want = TABLE["unique"].reference(x, axis=0, sorted=bool(ascending))
        k = int(count[0])
        for got, right in zip((values[:k], first[:k], inverse, counts[:k]), want, strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("inner", [1, 3, 16])
@pytest.mark.parametrize(("rh", "rw"), [(1, 1), (2, 2), (1, 3), (3, 4), (2, 5), (4, 1)])
def test_repeat(size: int, inner: int, rh: int, rw: int, level: str, guarded) -> None:
    kind = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64, 16: np.complex128}[size]
    for w in (1, 5, 17, 33):
        x = guarded(RNG.integers(0, 200, (7, w, inner)).astype(kind))
        want = np.repeat(np.repeat(x[:, None], rh, 1), rw, 2)
        for threads, grain in ((1, 7), (2, 1), (2, 3)):
            out = guarded(np.zeros((7, rh, w * rw, inner), kind))
            call_kernel(f"repeat.b{size}", [x, out], {"w": w, "inner": inner, "rh": rh, "rw": rw}, extent=7,
                        grain=grain, threads=threads, level=level)
            np.testing.assert_array_equal(out, want)
