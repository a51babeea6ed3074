"""fft, rfft, irfft and stft against NumPy in double precision."""

import numpy as np
import pytest

from rlx.lower.context import workspaces
from rlx.ops._fft_plan import factors, fft_plan, roots
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_kernel

LEVELS = available_levels()
REAL = {np.complex64: np.float32, np.complex128: np.float64}


def transform(kind, x, n, *, inverse=0, scale=1.0, level=None, threads=1, repeat=1):
    """Last axis of a 2-D array to length n (bins for a real transform)."""
    part = REAL.get(x.dtype.type, x.dtype.type)
    complex_type = np.complex64 if part == np.float32 else np.complex128
    plan = fft_plan(n, part, kind != "fft")
    rows = len(x)
    shape = (rows, n // 2 + 1 if kind == "rfft" else n)
    y = np.full(shape, np.nan, part if kind == "irfft" else complex_type)
    bits = 32 if part == np.float32 else 64
    name = f"fft.c{2 * bits}" if kind == "fft" else f"{kind}.f{bits}"
    transform.seconds = call_kernel(
        name, [x, plan.table, y, np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)],
        dict(rows=rows, have=x.shape[1], x_s=x.shape[1], y_s=shape[1], inverse=inverse,
             group=plan.group, ws=plan.workspace, scale=scale, plan=plan.words),
        extent=plan.extent(rows), level=level, threads=threads, repeat=repeat)
    return y


def check(got, want):
    eps = np.finfo(got.dtype).eps
    norm = np.sqrt((np.abs(want) ** 2).mean(-1, keepdims=True)) + 1e-300
    assert got.shape == want.shape
    error = np.abs(got - want).max() / norm.max() if got.size else 0
    assert error < 12 * eps, (error / eps, got.shape)
    rms = np.sqrt((np.abs(got - want) ** 2).mean()) / norm.max() if got.size else 0
    assert rms < 4 * eps


def data(rng, rows, n, dtype):
    x = rng.normal(0, 1, (rows, n))
    if dtype in REAL:
        x = x + 1j * rng.normal(0, 1, (rows, n))
    return x.astype(dtype)


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17, 25, 31, 32, 37, 49, 60, 64, 74, 77, 97, 100,
         120, 128, 169, 200, 256, 400, 512, 521, 600, 1000, 1024]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_fft(dtype, level):
    rng = np.random.default_rng(0)
    for n in SIZES:
        for rows in (1, 5, 19):
            x = data(rng, rows, n, dtype)
            check(transform("fft", x, n, level=level), np.fft.fft(wide(x)))
        check(transform("fft", x, n, inverse=1, scale=1 / n, level=level), np.fft.ifft(wide(x)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_real(dtype, level):
    rng = np.random.default_rng(1)
    for n in SIZES:
        for rows in (1, 5, 19):
            x = data(rng, rows, n, dtype)
            check(transform("rfft", x, n, level=level), np.fft.rfft(wide(x)))
            c = data(rng, rows, n // 2 + 1, np.complex64 if dtype == np.float32 else np.complex128)
            got = transform("irfft", c, n, scale=1 / n, level=level)
            check(got, np.fft.irfft(wide(c), n))


@pytest.mark.parametrize("n", [1 << 17, 1 << 13, 3 * 5 * 7 * 64, 8191, 10007])
def test_long(n):
    rng = np.random.default_rng(2)
    x = data(rng, 2, n, np.complex64)
    check(transform("fft", x, n), np.fft.fft(wide(x)))
    x = data(rng, 2, n, np.float64)
    check(transform("rfft", x, n), np.fft.rfft(x))


@pytest.mark.parametrize("level", LEVELS)
def test_length_differs_from_the_rows(level):
    rng = np.random.default_rng(3)
    for rows in (2, 17):
        for have, n in ((5, 12), (12, 5), (0, 8), (40, 33)):
            x = data(rng, rows, have, np.complex64)
            check(transform("fft", x, n, level=level), np.fft.fft(wide(x), n) if have else
                  np.zeros((rows, n)))
            x = data(rng, rows, have, np.float32)
            check(transform("rfft", x, n, level=level), np.fft.rfft(wide(x), n) if have else
                  np.zeros((rows, n // 2 + 1)))
    c = data(rng, 20, 4, np.complex64)
    check(transform("irfft", c, 12, scale=1 / 12, level=level), np.fft.irfft(wide(c), 12))


@pytest.mark.parametrize("level", LEVELS)
def test_cut_does_not_change_bits(level):
    x = data(np.random.default_rng(4), 50, 60, np.complex64)
    one = transform("fft", x, 60, level=level)
    two = transform("fft", x, 60, level=level, threads=2)
    assert one.tobytes() == two.tobytes()
    assert transform("fft", x[16:32], 60, level=level).tobytes() == one[16:32].tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_inf_and_nan_stay_in_their_row(level):
    x = data(np.random.default_rng(5), 16, 32, np.complex64)
    x[3, 1], x[7, 2] = np.nan, np.inf
    y = transform("fft", x, 32, level=level)
    bad = ~np.isfinite(y).all(1)
    assert bad.tolist() == [i in (3, 7) for i in range(16)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("n", "hop", "frames"), [(16, 4, 1), (25, 10, 21), (400, 160, 37)])
def test_stft(n, hop, frames, onesided, dtype, level):
    rng = np.random.default_rng(6)
    length = (frames - 1) * hop + n
    x = data(rng, 2, length, dtype)
    window = np.hanning(n).astype(dtype)
    plan = fft_plan(n, dtype, True)
    bins = n // 2 + 1 if onesided else n
    part = "f32" if dtype == np.float32 else "f64"
    for win in (window, None):
        y = np.full((2, frames, bins), np.nan, np.result_type(dtype, np.complex64))
        call_kernel(
            f"stft.{part}", [x, win, plan.table, y, np.zeros(plan.workspace * workspaces(2), np.uint8)],
            dict(batch=2, frames=frames, hop=hop, x_b=length, onesided=onesided, group=plan.group,
                 ws=plan.workspace, scale=1.0, plan=plan.words),
            extent=plan.extent(2 * frames), level=level, threads=2)
        index = np.arange(frames)[:, None] * hop + np.arange(n)
        want = np.fft.fft(wide(x)[:, index] * (1 if win is None else wide(window)))[..., :bins]
        check(y.reshape(-1, bins), want.reshape(-1, bins))


def test_plan():
    assert factors(1) == [] and factors(360) == [4, 2, 3, 3, 5] and factors(97 * 4) == [4, 97]
    re, im = roots(np.arange(24), 24)
    np.testing.assert_allclose(re + 1j * im, np.exp(-2j * np.pi * np.arange(24) / 24), atol=1e-15)
    assert re[6] == 0 and im[12] == 0 and re[3] == -im[3]


def test_no_byte_beyond_the_operands(guard_arguments, level):
    rng = np.random.default_rng(7)
    for n in (1, 2, 5, 15, 30, 37, 74, 100, 400):
        for rows in (1, 9, 17):
            x = data(rng, rows, n, np.complex64)
            check(transform("fft", x, n, level=level), np.fft.fft(wide(x)))
            x = data(rng, rows, n, np.float32)
            check(transform("rfft", x, n, level=level), np.fft.rfft(wide(x)))
            c = data(rng, rows, n // 2 + 1, np.complex64)
            check(transform("irfft", c, n, scale=1 / n, level=level), np.fft.irfft(wide(c), n))
