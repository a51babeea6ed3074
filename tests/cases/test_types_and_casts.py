"""Values computed in another type than declared: folds, integers, halves, division, casts (A01 to A34)."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops


def test_a01_large_integers_divide_exactly(every_way):
    got = every_way(lambda a, b: a // b, np.array([2**53 + 1], np.int64), np.array([1], np.int64))
    assert got[0] == 9007199254740993


def test_a02_sums_beyond_32_bits(every_way):
    got = every_way(lambda a, b: a + b, np.array([5e9, 7e9]).astype(np.int64), np.array([3e9, 2e9]).astype(np.int64))
    assert got.tolist() == [8_000_000_000, 9_000_000_000]


def test_a04_quotients_beyond_32_bits(every_way):
    got = every_way(lambda a, b: a // b, np.array([2**31 - 1, 2**40], np.int64), np.array([11, 11], np.int64))
    assert got.tolist() == [195225786, 99955602525]


def test_a05_integer_powers_are_exact(every_way):
    got = every_way(ops.pow, np.array([13, 17, -3], np.int64), np.array([8, 7, 3], np.int64))
    assert got.tolist() == [815730721, 410338673, -27]


@pytest.mark.parametrize("op", [ops.abs, ops.neg, ops.sqrt, lambda x: ops.reduce_max(x, axes=0), lambda x: x + x])
def test_a07_doubles_are_not_floats(every_way, op):
    x = np.array([np.inf, 1e300, 4.0])
    got = every_way(op, x)
    assert np.isinf(got).any() and not (np.abs(got[np.isfinite(got)]) == np.finfo(np.float32).max).any()
    assert every_way(ops.abs, np.array([-np.inf]))[0] == np.inf


def test_a08_equality_of_integer_scalars(every_way):
    for one, other in ((11, 22), (22, 22)):
        a, b = np.int32(one), np.int32(other)
        assert bool(every_way(ops.eq, a, b)) is (one == other)
        assert bool(every_way(lambda a, b: ops.eq(a - b, 0), a, b)) is (one == other)


def test_a11_folded_values_do_not_change_from_run_to_run():
    g = rlx.Graph("g")
    x = g.input("x", (64,), rlx.f32)
    c = g.constant(np.linspace(-3, 3, 64, dtype=np.float32))
    g.output("y", x * ops.exp(ops.tanh(c) + ops.cumsum(c)))
    exe = rlx.compile(g, rlx.CompileOptions(poison=True))
    data = np.random.default_rng(0).standard_normal(64, np.float32)
    first = exe.run({"x": data})["y"].tobytes()
    exe.run({"x": np.full(64, np.nan, np.float32)})
    assert all(exe.run({"x": data})["y"].tobytes() == first for _ in range(50))


def test_a13_the_result_type_survives_the_passes(every_way):
    a = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float16)
    b = np.random.default_rng(1).standard_normal((256, 8)).astype(np.float16)
    got = every_way(lambda a, b: ops.cast(a, dtype=rlx.f32) @ ops.cast(b, dtype=rlx.f32), a, b)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_a14_a_half_equals_its_stored_self_under_fusion(every_way):
    def build(x):
        y = x * x
        inf = ops.isinf(y)
        return y, y / x, inf, ops.where(inf, ops.cast(x - x, dtype=rlx.f16), y)

    y, quotient, inf, cleared = every_way(build, np.array([300], np.float16))
    assert (y[0], quotient[0], bool(inf[0]), cleared[0]) == (np.inf, np.inf, True, 0)


def test_a16_ties_with_the_stored_maximum_are_found(every_way):
    x = (np.random.default_rng(0).standard_normal(999) * 7).astype(ml_dtypes.bfloat16)

    def build(x):
        scaled = x / 3
        peak = ops.reduce_max(scaled, axes=0, keepdims=True)
        return ops.reduce_sum(ops.cast(ops.eq(scaled, peak), dtype=rlx.i32), axes=0)

    assert every_way(build, x) >= 1


def test_a19_a20_signs_of_modulo(every_way):
    a, b = np.array([-7, 7, -7, 7]), np.array([3, -3, -3, 3])
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
        assert every_way(ops.mod, a.astype(dtype), b.astype(dtype)).tolist() == [2, -2, -1, 1]
        assert every_way(ops.fmod, a.astype(dtype), b.astype(dtype)).tolist() == [-1, 1, -1, 1]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_a22_the_least_integer_by_minus_one(every_way, dtype):
    least, minus = np.array([np.iinfo(dtype).min], dtype), np.array([-1], dtype)
    assert every_way(ops.fmod, least, minus)[0] == 0
    assert every_way(ops.mod, least, minus)[0] == 0
    assert every_way(lambda a, b: a // b, least, minus)[0] == np.iinfo(dtype).min


def test_a25_floats_to_wide_integers(every_way):
    got = every_way(lambda x: ops.cast(x, dtype=rlx.i64), np.array([5e18], np.float32))
    assert got[0] == 4999999990253223936


def test_a26_casts_out_of_range_saturate(every_way):
    got = every_way(lambda x: ops.cast(x, dtype=rlx.i8), np.array([300, np.nan, np.inf, -np.inf], np.float32))
    assert got.tolist() == [127, 0, 127, -128]


@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 31, 33, 64, 65])
def test_a28_negative_floats_to_bytes_in_head_body_and_tail(every_way, n):
    assert set(every_way(lambda x: ops.cast(x, dtype=rlx.u8), np.full(n, -2.18, np.float32)).tolist()) == {0}


def test_a29_folding_rounds_like_running(every_way):
    got = every_way(lambda x: ops.cast(x, dtype=rlx.i32), np.array([2147483646.0], np.float32))
    assert got[0] == 2147483647


def test_a31_float8_has_no_infinity_in_e4m3():
    """Two oracles: the table of the OCP standard and ml_dtypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(np.array([np.inf], np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))[0]
    codes = np.array([0x78, 0x7E, 0x7F], np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert codes[:2].tolist() == [256, 448] and np.isnan(codes[2])


def test_a32_r47_round_half_to_even(every_way):
    got = every_way(ops.round, np.array([0.5, 1.5, 2.5, -0.5], np.float32))
    assert got.tolist() == [0, 2, 2, 0] and np.signbit(got[3])


@pytest.mark.parametrize("n", range(1, 36))
def test_a34_body_and_tail_round_alike(every_way, n):
    assert not every_way(ops.round, np.full(n, 0.5, np.float32)).any()


def test_r37_mixed_types_are_refused_with_both_names():
    g = rlx.Graph("g")
    with pytest.raises(rlx.RlxError, match=r"(?s)f32.*i64|i64.*f32"):
        g.input("a", (3,), rlx.f32) + g.input("b", (3,), rlx.i64)


def test_r83_bfloat16_plus_zero_is_itself(every_way):
    x = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    assert every_way(lambda a, b: a + b, x, np.zeros(4, ml_dtypes.bfloat16)).tolist() == [1, 2, 3, 4]


def test_r70_float_modulo_and_broadcasting(every_way):
    got = every_way(ops.mod, np.array([[-7.5], [7.5]], np.float32), np.array([2.0, -2.0], np.float32))
    assert got.tolist() == [[0.5, -1.5], [1.5, -0.5]]
