"""Quantisation in one step: the codes of a division, also where two codes meet."""

import numpy as np
import pytest

from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_ew

LEVELS = available_levels()
CODES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}
SPECIAL = np.array([0, -0.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42, 127.5, -128.5, 254.5, 255.5], np.float32)


def definition(x, scale, zero, dtype):
    info = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        y = np.clip(np.rint(x / scale) + zero, info.min, info.max)
    return np.where(np.isnan(y), 0, y).astype(dtype)


def check(x, scale, zero, code, level):
    x, scale, zero = (np.ascontiguousarray(np.broadcast_to(np.float32(v), x.shape)) for v in (x, scale, zero))
    got = call_ew(f"quantize_{code}.f32", x, scale, zero, out_dtype=CODES[code], level=level)
    np.testing.assert_array_equal(got, definition(x, scale, zero, CODES[code]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("n", [0, 1, 7, 15, 16, 17, 63, 255, 256, 257, 1003])
def test_values_of_all_sizes(n, code, level):
    rng = np.random.default_rng(n)
    x = rng.normal(0, 40, n).astype(np.float32)
    x[: min(n, len(SPECIAL))] = SPECIAL[:n]
    for scale in (0.02, 1.3, 0.1, 300.0, 1e-3, 1e-35, 1e35, 3e38, 1e-42, 0.0, -0.7, np.inf, np.nan):
        check(x, scale, rng.integers(0, 100), code, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", ["i8", "u8"])
def test_where_two_codes_meet(code, level):
    rng = np.random.default_rng(1)
    for scale in rng.uniform(1e-3, 3, 40).astype(np.float32):
        ties = (np.arange(-260, 260, dtype=np.float32) + np.float32(0.5)) * scale
        beside = [ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))]
        check(np.concatenate(beside), scale, 3, code, level)


@pytest.mark.parametrize("level", LEVELS)
def test_scales_that_change_on_the_way(level):
    rng = np.random.default_rng(2)
    x = rng.normal(0, 3, 1000).astype(np.float32)
    check(x, rng.choice([0.01, 0.02, 0.5], 1000), rng.integers(0, 9, 1000), "u8", level)
    check(x, np.repeat(rng.uniform(0.01, 0.1, 10), 100), np.repeat(rng.integers(-9, 9, 10), 100), "i8", level)
