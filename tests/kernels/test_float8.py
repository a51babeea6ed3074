"""Casts to and from the float8 formats, against ml_dtypes and exact arithmetic."""

import ml_dtypes
import numpy as np
import pytest

from rlx import dtypes
from rlx.dtypes import FLOAT8, DType
from rlx.ops.unary import cast_array
from rlx.runtime import kernels
from rlx.testing.kernels import call_ew

LEVELS = kernels.available_levels()
OTHERS = [d for d in dtypes.ALL if d not in FLOAT8]


def values_of(dtype: DType) -> np.ndarray:
    """All 256 values, in f32."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)


def call(to: DType, source: DType, x: np.ndarray, level: str, saturate: int = 0) -> np.ndarray:
    return np.asarray(call_ew(f"cast_{to}.{source}", x, params=[float(saturate)], out_dtype=to.numpy, level=level))


def hard(dtype: DType) -> np.ndarray:
    """Values, middles of neighbours and their neighbours, and what lies beyond, in f64."""
    want = values_of(dtype).astype(np.float64)
    finite = np.sort(want[np.isfinite(want)])
    mid = (finite[1:] + finite[:-1]) / 2
    top = finite[-1:] * [1.03, 1.0624, 1.0625, 1.07, 1.2, 1e3, 1e30, 1e39]
    rng = np.random.default_rng(0)
    wide = rng.normal(0, 1, 300) * 10.0 ** rng.integers(-7, 5, 300)
    edges = [np.inf, np.nan, 0.0, 1e-9, 1e-30, 1e-310]
    x = np.concatenate([want, mid, mid * (1 + 2.0**-40), mid * (1 - 2.0**-40), top, wide, edges])
    return np.concatenate([x, -x])


def nearest(x: np.ndarray, dtype: DType, saturate: bool) -> np.ndarray:
    """Nearest value by comparison with all of them, ties to the even code, in f64."""
    codes = np.arange(128, dtype=np.uint8)
    table = codes.view(dtype.numpy).astype(np.float64)
    good = np.isfinite(table)
    table = table[good]
    step = table[-1] - table[-2]
    a = np.abs(x)
    lines = np.append(table, table[-1] + step)  # what lies beyond counts as one step more
    i = np.clip(np.searchsorted(lines, a), 1, len(lines) - 1)
    low, high = a - lines[i - 1], lines[i] - a
    i = np.where((low < high) | ((low == high) & (i % 2 == 1)), i - 1, i)
    top = table[-1] if saturate else (np.inf if dtype.name == "f8e5m2" else np.nan)
    result = np.where((a > lines[-1]) | (i == len(table)), top, lines[np.minimum(i, len(table))])
    return np.copysign(np.where(np.isnan(x), np.nan, result), x)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
class TestFormats:
    def test_all_codes_widen_exactly(self, dtype: DType, level: str) -> None:
        codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
        for to in (dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16):
            got = call(to, dtype, codes, level).astype(np.float32)
            np.testing.assert_array_equal(got, values_of(dtype))
            known = ~np.isnan(got)
            assert (np.signbit(got) == np.signbit(values_of(dtype)))[known].all()

    @pytest.mark.parametrize("saturate", [0, 1])
    @pytest.mark.parametrize("source", [dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16], ids=str)
    def test_one_rounding_to_nearest_even(self, dtype: DType, level: str, source: DType, saturate: int) -> None:
        with np.errstate(all="ignore"):
            x = hard(dtype).astype(source.numpy)
        got = call(dtype, source, x, level, saturate).astype(np.float64)
        want = nearest(x.astype(np.float64), dtype, bool(saturate))
        np.testing.assert_array_equal(got, want)
        if not dtype.name.endswith("fnuz"):
            assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()

    @pytest.mark.parametrize("source", dtypes.INTS, ids=str)
    def test_integers_round_once(self, dtype: DType, level: str, source: DType) -> None:
        info = np.iinfo(source.numpy)
        near = [int(v) + d for v in hard(dtype)[np.isfinite(hard(dtype))] for d in (-1, 0, 1)]
        x = np.array([v for v in (*near, info.min, info.max) if info.min <= v <= info.max], source.numpy)
        for saturate in (0, 1):
            want = nearest(x.astype(np.float64), dtype, bool(saturate))
            np.testing.assert_array_equal(call(dtype, source, x, level, saturate).astype(np.float64), want)

    @pytest.mark.parametrize("other", OTHERS, ids=str)
    def test_definition(self, dtype: DType, level: str, other: DType) -> None:
        """The rule of the table says the same, both ways."""
        codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
        got, want = call(other, dtype, codes, level), cast_array(codes, other)
        wide = np.complex128 if other.is_complex else np.float64 if other.is_float else other.numpy
        np.testing.assert_array_equal(got.astype(wide), want.astype(wide))
        for saturate in (False, True):
            x = cast_array(codes, other)
            back = call(dtype, other, x, level, saturate)
            want = cast_array(x, dtype, saturate)
            np.testing.assert_array_equal(back.astype(np.float32), want.astype(np.float32))

    def test_between_formats(self, dtype: DType, level: str) -> None:
        codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
        for to in FLOAT8:
            for saturate in (False, True):
                got = call(to, dtype, codes, level, saturate).astype(np.float32)
                want = cast_array(codes, to, saturate)
                np.testing.assert_array_equal(got, want.astype(np.float32))


def test_values_of_the_specification() -> None:
    e4m3, e5m2 = dtypes.f8e4m3fn.numpy, dtypes.f8e5m2.numpy
    assert e4m3 == ml_dtypes.float8_e4m3fn and e5m2 == ml_dtypes.float8_e5m2
    x = np.array([448, 464, 465, np.inf, -np.inf, 2.0**-9, 2.0**-10, -(2.0**-10), np.nan], np.float32)
    codes = call(dtypes.f8e4m3fn, dtypes.f32, x, LEVELS[-1]).view(np.uint8)
    assert codes.tolist() == [0x7E, 0x7E, 0x7F, 0x7F, 0xFF, 0x01, 0x00, 0x80, 0x7F]
    codes = call(dtypes.f8e4m3fn, dtypes.f32, x, LEVELS[-1], 1).view(np.uint8)
    assert codes.tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x01, 0x00, 0x80, 0x7F]
    x = np.array([57344, 61439, 61440, np.inf, -np.inf], np.float32)
    assert call(dtypes.f8e5m2, dtypes.f32, x, LEVELS[-1]).view(np.uint8).tolist() == [0x7B, 0x7B, 0x7C, 0x7C, 0xFC]
    assert call(dtypes.f8e5m2, dtypes.f32, x, LEVELS[-1], 1).view(np.uint8).tolist() == [0x7B] * 4 + [0xFB]
