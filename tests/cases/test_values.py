"""NaN, infinity, signed zero, stable sums, masks (A35 to A65, R-46 to R-61)."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops

NAN = np.nan


def f32(*x):
    return np.array(x, np.float32)


def test_a35_relu_and_clip_keep_nan(every_way):
    assert np.isnan(every_way(ops.relu, f32(NAN, -1, 0, 1))[0])
    assert every_way(ops.relu, f32(NAN, -1, 0, 1))[1:].tolist() == [0, 0, 1]
    assert np.isnan(every_way(lambda x: ops.clip(x, lo=0.0, hi=6.0), f32(NAN, 7))[0])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a37_a38_greatest_and_least_propagate_nan_wherever_it_is(every_way, dtype):
    for row in ([NAN, 1], [2, NAN]):
        x = np.array(row).astype(dtype)
        assert np.isnan(np.float64(every_way(lambda x: ops.reduce_max(x, axes=0), x)))
        assert np.isnan(np.float64(every_way(lambda x: ops.reduce_min(x, axes=0), x)))
        assert np.isnan(every_way(ops.max, x, x[::-1].copy()).astype(np.float64)).all()
    for n in (7, 8, 16, 17, 33, 1000):
        for at in (0, n // 2, n - 1):
            x = np.zeros(n).astype(dtype)
            x[at] = NAN
            assert np.isnan(np.float64(every_way(lambda x: ops.reduce_max(x, axes=0), x)))


def test_a40_index_of_the_greatest_stops_at_nan(every_way):
    assert every_way(lambda x: ops.argmax(x, axis=0), f32(2, NAN, 7, 4, 1)) == 1
    assert every_way(lambda x: ops.argmin(x, axis=0), f32(4, 2, NAN, 6, 1, 3)) == 2


def test_a41_index_of_all_nan_is_in_range(every_way):
    for n in (1, 5, 16, 33):
        assert every_way(lambda x: ops.argmax(x, axis=0), np.full(n, NAN, np.float32)) == 0


def test_a43_r49_algebra_keeps_ieee(every_way):
    x = f32(1, np.inf, NAN, -0.0)
    assert every_way(ops.isnan, x).tolist() == [False, False, True, False]
    assert every_way(ops.isinf, x).tolist() == [False, True, False, False]
    got = every_way(lambda x: x * 0.0, x)
    assert got[0] == 0 and np.isnan(got[1:3]).all() and np.signbit(got[3])
    assert np.isnan(every_way(lambda x: x + x * 0.0, x)[1:3]).all()
    assert every_way(lambda a, b: a + b, f32(1), np.zeros(4, np.float32)).shape == (4,)
    assert not np.signbit(every_way(lambda x: x + 0.0, f32(-0.0))[0])


@pytest.mark.parametrize("n", [1, 15, 16, 17, 8191, 8192, 8193])
def test_a44_greatest_of_negative_zeros(every_way, n):
    got = every_way(lambda x: ops.reduce_max(x, axes=0), np.full(n, -0.0, np.float32))
    assert got == 0 and np.signbit(got)


def test_a46_functions_over_their_whole_range(every_way):
    for op, x, want in ((ops.sinh, 89, 2.2448061909), (ops.atan, 3e22, math.pi / 2), (ops.erf, 3e-12, 3.385137501e-12),
                        (ops.asin, 0.47, math.asin(0.47))):
        got = float(every_way(op, f32(x))[0])
        assert got / (1e38 if op is ops.sinh else 1) == pytest.approx(want, rel=3e-5 if op is ops.sinh else 3e-7)


@pytest.mark.parametrize("k", [0, 1, 5, 64])
def test_a47_products_never_read_what_they_overwrite(every_way, k):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((19, k)), rng.standard_normal((k, 37))
    for dtype in (np.float32, np.float64):
        got = every_way(lambda a, b: a @ b, a.astype(dtype), b.astype(dtype))
        np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)
        got = every_way(lambda a, b: ops.gemm(a, b, beta=0.0), a.astype(dtype), b.astype(dtype))
        np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)


def test_a49_layer_norm_of_equal_values(every_way):
    assert not every_way(ops.layer_norm, np.full((2, 256), 1234.0, np.float32)).any()


def test_a50_layer_norm_keeps_a_small_variance(every_way):
    x = (100 + np.arange(16) * 1e-3).astype(np.float32)[None]
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    got = every_way(ops.layer_norm, x)
    np.testing.assert_allclose(got, want, rtol=1e-3)
    assert got[0, 0] == pytest.approx(-1.3415, abs=2e-3)


def test_a52_variance_of_halves_is_not_a_half(every_way):
    x = (np.random.default_rng(0).standard_normal((4, 512)) * 200).astype(np.float16)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(every_way(ops.layer_norm, x).astype(np.float64), want, rtol=2e-3, atol=2e-3)


def test_a53_a_nan_score_is_not_laundered(every_way):
    for n in (2, 8, 17):
        x = np.zeros((1, n), np.float32)
        x[0, -1] = NAN
        assert np.isnan(every_way(ops.softmax, x)).all()


def attention_inputs(q_len, k_len, heads=1, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((1, heads, n, dim)).astype(np.float32) for n in (q_len, k_len, k_len)]


def test_a55_a56_causal_is_bottom_right_with_a_past(every_way):
    q, k = f32(1, 0).reshape(1, 1, 1, 2), f32(1, 0, 0, 1, 1, 1).reshape(1, 1, 3, 2)
    v = f32(1, 2, 3).reshape(1, 1, 3, 1)
    got = every_way(lambda q, k, v: ops.attention(q, k, v, causal=True), q, k, v)
    assert got.item() == pytest.approx(2.0, abs=1e-6)
    q, k, v = attention_inputs(1, 4)
    free = every_way(lambda q, k, v: ops.attention(q, k, v), q, k, v)
    np.testing.assert_array_equal(
        every_way(lambda q, k, v: ops.attention(q, k, v, causal=True, past=3), q, k, v), free)
    first = every_way(lambda q, k, v: ops.attention(q, k, v, causal=True, past=0), q, k, v)
    np.testing.assert_allclose(first, v[:, :, :1], rtol=1e-6)


def test_r55_scale_and_softcap_are_honoured(every_way):
    q, k, v = attention_inputs(3, 5, heads=2, dim=4)
    s = 0.3 * q @ k.swapaxes(-1, -2)
    p = np.exp(2.0 * np.tanh(s / 2.0))
    want = p / p.sum(-1, keepdims=True) @ v
    got = every_way(lambda q, k, v: ops.attention(q, k, v, scale=0.3, softcap=2.0), q, k, v)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert 30 * np.tanh(50 / 30) == pytest.approx(27.933288, abs=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 1, 5), (3, 1, 1, 5), (3, 1, 4, 5), (3, 2, 4, 5), (1, 1, 4, 5)])
def test_r56_masks_broadcast_by_their_shape(every_way, shape):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, 2, n, 4)).astype(np.float32) for n in (4, 5, 5))
    mask = rng.random(shape) < 0.7
    mask[..., 0] = True
    s = np.where(mask, q @ k.swapaxes(-1, -2) / 2, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = p / p.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(every_way(ops.attention, q, k, v, mask), want, rtol=1e-5, atol=1e-5)


def test_r57_a_fully_masked_row_is_zero(every_way):
    q, k, v = attention_inputs(2, 3)
    mask = np.array([[False] * 3, [True] * 3]).reshape(1, 1, 2, 3)
    got = every_way(ops.attention, q, k, v, mask)
    assert not got[0, 0, 0].any() and got[0, 0, 1].any()


def test_a61_sums_of_ones_in_bfloat16(every_way):
    ones = np.ones(70000, ml_dtypes.bfloat16)
    assert float(every_way(lambda x: ops.reduce_sum(x, axes=0), ones)) == 70144
    assert float(every_way(lambda x: ops.reduce_mean(x, axes=0), ones)) == 1


def test_a62_means_of_tall_arrays_along_any_axis(every_way):
    x = np.ones((1 << 25, 2), np.float32)
    g = rlx.Graph("g")
    g.output("y", ops.reduce_mean(g.input("x", x.shape, rlx.f32), axes=0))
    assert rlx.compile(g).run({"x": x})["y"].tolist() == [1, 1]
    x = (np.random.default_rng(0).random((100_000, 3)) + 1000).astype(np.float32)
    want = x.mean(0, dtype=np.float64)
    np.testing.assert_allclose(every_way(lambda x: ops.reduce_mean(x, axes=0), x), want, rtol=2e-7)


def test_a64_reductions_of_nothing(every_way):
    def total(x):
        return ops.reduce_sum(x, axes=0, keepdims=True)

    assert every_way(total, np.zeros(0, np.float32)).tolist() == [0]
    assert every_way(lambda x: ops.reduce_sum(x, axes=0), np.zeros((0, 4), np.float32)).tolist() == [0] * 4
    # numerics.md 12 decides: the neutral element, not an error
    assert every_way(lambda x: ops.reduce_max(x, axes=0), np.zeros(0, np.float32)) == -np.inf
    assert every_way(lambda x: ops.reduce_min(x, axes=0), np.zeros(0, np.int32)) == np.iinfo(np.int32).max
    assert np.isnan(every_way(lambda x: ops.reduce_mean(x, axes=0), np.zeros(0, np.float32)))


def test_a65_reductions_of_a_scalar(every_way):
    for op in (ops.reduce_sum, ops.reduce_max, ops.reduce_mean, ops.reduce_prod):
        assert every_way(op, np.float32(3)).item() == 3


def test_r46_r65_sampling_and_top_k_are_defined():
    g = rlx.Graph("g")
    with pytest.raises(rlx.RlxError, match="k"):
        ops.topk(g.input("x", (3,), rlx.f32), k=4)
    g = rlx.Graph("h")
    logits = np.array([[0.0, 9.0, 9.0, -np.inf]], np.float32)
    g.output("y", ops.sample(g.input("l", (1, 4), rlx.f32), temperature=0.0, seed=0))
    assert rlx.compile(g).run({"l": logits})["y"].item() == 1


def test_r46_the_rules_of_sampling():
    """Ties at the cut do not widen it, what has no probability is never drawn, NaN is an error, 0 is greedy."""
    rows = 2000
    g = rlx.Graph("rules")
    x = g.input("x", (rows, 5), rlx.f32)
    rules = {"two": {"top_k": 2}, "any": {}, "cold": {"temperature": 1e-6}, "zero": {"temperature": 0.0}}
    for name, more in rules.items():
        g.output(name, ops.sample(x, **more))
    exe = rlx.compile(g)
    logits = np.tile(f32(-np.inf, 3, 3, 3, -np.inf), (rows, 1))
    out = {k: set(v.tolist()) for k, v in exe.run({"x": logits}).items()}
    assert out["two"] == {1, 2} and out["any"] == {1, 2, 3} == out["cold"] and out["zero"] == {1}
    logits[rows // 2, 4] = NAN
    with pytest.raises(rlx.ExecutionError, match="sample"):
        exe.run({"x": logits})


def test_r48_gelu_folds_to_what_it_runs(every_way):
    assert every_way(ops.gelu, f32(1))[0] == pytest.approx(0.8413447, abs=1e-7)
    assert every_way(ops.gelu_tanh, f32(1))[0] == pytest.approx(0.8411920, abs=1e-7)


def test_r58_comparisons_are_boolean_and_broadcast(every_way):
    got = every_way(ops.lt, np.arange(6, dtype=np.float32).reshape(2, 3), f32(1, 3, 5))
    assert got.dtype == np.bool_ and got.tolist() == [[True, True, True], [False, False, False]]
    got = every_way(ops.where, np.array([[True], [False]]), f32(1, 2), f32(NAN, 4))
    assert got[0].tolist() == [1, 2] and np.isnan(got[1, 0]) and got[1, 1] == 4


def test_r59_softmax_over_any_axis(every_way):
    assert every_way(lambda x: ops.softmax(x, axis=0), np.zeros((2, 2), np.float32)).tolist() == [[0.5, 0.5]] * 2
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    for axis in (0, 1, 2, -1):
        e = np.exp(x - x.max(axis, keepdims=True))
        np.testing.assert_allclose(every_way(lambda x, axis=axis: ops.softmax(x, axis=axis), x),
                                   e / e.sum(axis, keepdims=True), rtol=1e-5)


def test_r60_cumulative_sums_over_any_axis(every_way):
    assert every_way(ops.cumsum, np.array([[1, 2], [3, 4]], np.float32)).tolist() == [[1, 2], [4, 6]]
    x = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    for axis in range(3):
        np.testing.assert_array_equal(every_way(lambda x, axis=axis: ops.cumsum(x, axis=axis), x), x.cumsum(axis))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum_exp"])
def test_r34_r61_every_reduction_in_doubles_over_axes_apart(every_way, op):
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = {"sum": x.sum((0, 2)), "mean": x.mean((0, 2)), "max": x.max((0, 2)), "min": x.min((0, 2)),
                "prod": x.prod((0, 2)), "l1": np.abs(x).sum((0, 2)), "l2": np.sqrt((x * x).sum((0, 2))),
                "log_sum_exp": np.log(np.exp(x).sum((0, 2)))}[op]
    np.testing.assert_allclose(every_way(lambda x: getattr(ops, f"reduce_{op}")(x, axes=(0, 2)), x), want, rtol=1e-12)
    assert every_way(lambda x: ops.reduce_sum(x, axes=(0, 2)), np.ones((2, 3, 4), np.float32)).tolist() == [8, 8, 8]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_r62_every_sample_of_a_batch(every_way, batch):
    x = np.repeat(np.random.default_rng(0).standard_normal((1, 4, 3, 3)).astype(np.float32), batch, 0)
    for build in (lambda x: ops.group_norm(x, num_groups=2), lambda x: ops.resize(x, scales=[1.0, 1.0, 2.0, 2.0]),
                  lambda x: ops.max_pool(x, kernel=(2, 2)), lambda x: ops.instance_norm(x)):
        got = every_way(build, x)
        for row in got:
            np.testing.assert_array_equal(row, got[0])
    rng = np.random.default_rng(1)
    angle = rng.standard_normal((1, 3, 1)).astype(np.float32)
    w, mask = rng.standard_normal((2, 4, 3, 3)).astype(np.float32), rng.random((1, 1, 3, 3)) < 0.7
    for build, others in (
        (lambda x, c, s: ops.rotary_embedding(x, c, s, rotary_dim=2), (np.cos(angle), np.sin(angle))),
        (lambda x, m: ops.attention(x, x, x, m), (mask,)), (ops.conv, (w,)), (lambda x: ops.cumsum(x, axis=2), ()),
        (lambda x: ops.topk(x, k=2, axis=1)[0], ()), (ops.layer_norm, ()), (lambda x: ops.lrn(x, size=3), ()),
        (lambda x: ops.reduce_log_sum_exp(x, axes=(1, 3)), ()), (lambda x: ops.softmax(x, axis=1), ()),
        (lambda x, m: x @ m[0], (w,)),
    ):
        rows = every_way(build, x, *others, rtol=1e-6)
        for row in rows:
            np.testing.assert_array_equal(row, rows[0])


def test_r63_partial_rotation_at_several_positions(every_way):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 5, 8)).astype(np.float32)
    angle = np.arange(5)[:, None] * np.array([1.0, 0.1])
    cos, sin = np.cos(angle).astype(np.float32)[None], np.sin(angle).astype(np.float32)[None]
    got = every_way(lambda x, c, s: ops.rotary_embedding(x, c, s, rotary_dim=4), x, cos, sin)
    a, b = x[..., :2], x[..., 2:4]
    want = np.concatenate([a * cos[0] - b * sin[0], b * cos[0] + a * sin[0], x[..., 4:]], -1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_r73_chains_of_any_length(every_way):
    def build(x):
        for _ in range(70):
            x = ops.tanh(x + 0.01)
        return x

    assert every_way(build, np.zeros(33, np.float32)).shape == (33,)


def test_r74_r75_real_transforms_of_batches(every_way):
    x = np.random.default_rng(0).standard_normal((3, 8))
    np.testing.assert_array_equal(every_way(lambda x: ops.expand(x, shape=(2, 3, 8)), x),  # no plain copy
                                  np.broadcast_to(x, (2, 3, 8)))
    nyquist = every_way(lambda x: ops.rfft(x), np.tile([1.0, -1.0], (2, 4)))  # has its sign
    np.testing.assert_allclose(nyquist, [[0, 0, 0, 0, 8]] * 2, atol=1e-12)
    np.testing.assert_allclose(every_way(lambda x: ops.rfft(x), x), np.fft.rfft(x), atol=1e-12)
    np.testing.assert_allclose(every_way(lambda x: ops.irfft(ops.rfft(x)), x), x, atol=1e-12)


def test_r91_every_rounding_to_halves_is_real(every_way):
    x = f32(2049, 1 / 3, 65504, 1e-9)
    got = every_way(lambda x: ops.cast(ops.cast(x, dtype=rlx.f16), dtype=rlx.f32), x)
    assert got.tolist() == [2048, 0.333251953125, 65504, 0]
    chain = every_way(lambda x: (ops.cast(x, dtype=rlx.f16) + 1.0) - 1.0, x)  # rounded behind each node
    want = (x.astype(np.float16) + np.float16(1)) - np.float16(1)
    assert chain.dtype == np.float16
    np.testing.assert_array_equal(chain, want)


def test_r91_a_sum_of_halves_is_rounded_once(every_way):
    got = every_way(lambda x: ops.reduce_sum(x, axes=0), np.ones(2049, np.float16))
    assert got == 2048  # 2049 is a tie to even: of the exact sum, not of partial ones
