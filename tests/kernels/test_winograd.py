"""Winograd convolution against a direct sum in double, odd sizes, padding, infinities, cuts of the range."""

import numpy as np
import pytest

from rlx import costs
from rlx.lower import gemm, gemm_conv, winograd
from rlx.lower.context import workspaces
from rlx.ops.conv import conv_reference
from rlx.testing.kernels import call_kernel, ew_address


@pytest.fixture(params=costs.WINOGRAD_SIDES)
def side(request):
    return request.param


def convolve(x, w, pads, side, level, bias=None, clamp=None, threads=1, grain=None, steps=(),
             operands=(), dilations=(1, 1)):
    s = gemm_conv.conv_shape(x.shape, w.shape[0], (3, 3), pads=pads, dilations=dilations)
    plain = np.full(((side + 2) ** 2, s.c, s.oc), np.nan, np.float32)
    call_kernel("winograd_weights.f32", [w, plain], {"C": s.c, "OC": s.oc, "side": side}, extent=s.oc, level=level)
    pack = winograd.plan_pack(s, side, level)
    packed = np.full(winograd.weight_bytes(s, side, level) // 4, np.nan, np.float32)
    call_kernel(pack.kernel, [plain, packed], pack.attrs, extent=pack.extent, level=level)
    plan = winograd.plan_conv(s, side, clamp=clamp, steps=steps, level=level)
    out = np.full((s.batch, *s.out[1:], s.oc), np.nan, np.float32)
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)
    call_kernel(plan.kernel, [x, packed, out, bias, work, *operands], plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)
    return out


def reference(x, w, pads, dilations=None):
    first = np.moveaxis(x.astype(np.float64), -1, 1)
    return np.moveaxis(conv_reference(first, w.astype(np.float64), None, None, pads, dilations, 1), 1, -1)


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


EDGES = [((1, h, w, 33), 34, pads) for h, w, pads in [
    (1, 1, (1, 1, 1, 1)), (1, 9, (1, 1, 1, 1)), (9, 1, (1, 1, 1, 1)), (3, 3, (0, 0, 0, 0)), (2, 3, (2, 2, 2, 2)),
    (4, 4, (1, 1, 1, 1)), (5, 6, (0, 2, 2, 0)), (7, 7, (2, 1, 0, 3)), (8, 13, (1, 0, 0, 1)), (4, 4, (5, 6, 5, 6))]]
CASES = [*EDGES, ((1, 9, 12, 32), 32, (1, 1, 1, 1)),
         ((2, 8, 7, 33), 40, (1, 1, 1, 1)), ((1, 11, 30, 64), 35, (0, 0, 0, 0)),
         ((1, 5, 5, 130), 48, (2, 0, 1, 2)), ((3, 3, 3, 5), 3, (1, 1, 1, 1)), ((1, 40, 41, 48), 32, (1, 1, 1, 1))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_direct_sums(case, side, level):
    shape, oc, pads = case
    x, w, bias = random(*shape), random(oc, shape[3], 3, 3), random(oc)
    want = reference(x, w, pads) + bias
    size = reference(np.abs(x), np.abs(w), pads) + np.abs(bias)
    out = convolve(x, w, pads, side, level, bias)
    assert (np.abs(out - want) <= 3e-6 * size.max()).all()
    assert np.abs(out - want).mean() <= 2e-7 * size.mean()
    for threads, grain in ((2, 1), (1, 3)):
        np.testing.assert_array_equal(convolve(x, w, pads, side, level, bias, threads=threads, grain=grain), out)


DILATED = [((1, 9, 9, 33), 34, (2, 2, 2, 2), (2, 2)), ((2, 8, 13, 32), 40, (2, 0, 1, 3), (2, 2)),
           ((1, 11, 10, 16), 33, (3, 2, 3, 2), (3, 2)), ((1, 7, 6, 35), 16, (1, 5, 1, 5), (1, 5)),
           ((1, 3, 4, 8), 9, (7, 7, 7, 7), (7, 7)), ((1, 28, 28, 32), 32, (2, 2, 2, 2), (2, 2))]


@pytest.mark.parametrize("case", DILATED, ids=str)
def test_dilated(case, side, level, monkeypatch):
    """Every phase by itself; its tiles at the end may be empty. Cuts, threads and the epilogue as for plain ones."""
    shape, oc, pads, dilations = case
    x, w, bias, row = random(*shape), random(oc, shape[3], 3, 3), random(oc), random(oc)
    want = reference(x, w, pads, dilations) + bias
    size = reference(np.abs(x), np.abs(w), pads, dilations) + np.abs(bias)
    out = convolve(x, w, pads, side, level, bias, dilations=dilations)
    assert (np.abs(out - want) <= 3e-6 * size.max()).all()
    assert np.abs(out - want).mean() <= 2e-7 * size.mean()
    monkeypatch.setattr(winograd, "_blocks", lambda *_: (5, 16))
    full, add = random(*out.shape), ew_address("add.f32", level)
    steps = [gemm.Step(add, gemm.EPI_ROW, 5, 0, 4), gemm.Step(add, gemm.EPI_FULL, 6, oc, 4)]
    for threads in (1, 2):
        got = convolve(x, w, pads, side, level, bias, threads=threads, grain=1, dilations=dilations)
        np.testing.assert_array_equal(got, out)
        got = convolve(x, w, pads, side, level, bias, threads=threads, dilations=dilations, steps=steps,
                       operands=(row, full))
        np.testing.assert_array_equal(got, out + row + full)


def test_dilated_infinities_and_nan_stay_where_they_are(side, level):
    x, w = random(1, 13, 12, 32), random(32, 32, 3, 3)
    x[0, 5, 6, 3], x[0, 0, 0, 1], x[0, 9, 9, 31] = np.inf, np.nan, 3e38
    with np.errstate(invalid="ignore", over="ignore"):
        want = reference(x, w, (2,) * 4, (2, 2))
        out = convolve(x, w, (2,) * 4, side, level, dilations=(2, 2))
        np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        assert np.abs(out[finite] - want[finite]).max() < 1e-3


def test_points_of_the_larger_tile_err_as_direct_sums(level):
    """Offsets, channels of many sizes, and zeros from relu: at most twice a sum in f32."""
    rng = np.random.default_rng(7)
    w = random(32, 128, 3, 3)
    for kind in ("offset", "range", "relu"):
        x = rng.standard_normal((1, 16, 16, 128)).astype(np.float32)
        if kind == "offset":
            x += np.float32(100)
        elif kind == "range":
            x *= (10.0 ** rng.uniform(-3, 3, 128)).astype(np.float32)
        else:
            x = np.maximum(x, 0)
        want, size = reference(x, w, (1,) * 4), reference(np.abs(x), np.abs(w), (1,) * 4)
        error = np.abs(convolve(x, w, (1,) * 4, 4, level) - want)
        assert error.max() <= 1e-6 * size.max() and error.mean() <= 1.5e-7 * size.mean(), kind


@pytest.mark.parametrize(("tiles", "channels"), [(1, 16), (3, 48), (7, 32), (25, 16)])
def test_any_cut_has_the_same_bits(tiles, channels, side, level, monkeypatch):
    x, w, bias = random(1, 17, 19, 40), random(72, 40, 3, 3), random(72)
    want = convolve(x, w, (1,) * 4, side, level, bias)
    monkeypatch.setattr(winograd, "_blocks", lambda *_: (tiles, channels))
    for threads, grain in ((1, 1), (2, 1), (1, 3)):
        np.testing.assert_array_equal(convolve(x, w, (1,) * 4, side, level, bias, threads=threads, grain=grain), want)


def test_epilogue_of_each_part_of_the_channels(side, level, monkeypatch):
    x, w, bias = random(2, 9, 10, 32), random(40, 32, 3, 3), random(40)
    plain = convolve(x, w, (1,) * 4, side, level, bias)
    row, full = random(40), random(2, 9, 10, 40)
    monkeypatch.setattr(winograd, "_blocks", lambda *_: (5, 16))
    add = ew_address("add.f32", level)
    steps = [gemm.Step(add, gemm.EPI_ROW, 5, 0, 4), gemm.Step(add, gemm.EPI_FULL, 6, 40, 4),
             gemm.Step(ew_address("relu.f32", level), gemm.EPI_UNARY, -1, 0, 4)]
    got = convolve(x, w, (1,) * 4, side, level, bias, steps=steps, operands=(row, full))
    np.testing.assert_array_equal(got, np.maximum(plain + row + full, 0))


def test_a_channel_of_nan_stays_in_its_results(side, level):
    """Every tile is computed output by output, and only where its own weights say so."""
    x, w = random(1, 7, 9, 32), random(33, 32, 3, 3)
    want = convolve(x, w, (1,) * 4, side, level)
    w[5] = np.nan
    out = convolve(x, w, (1,) * 4, side, level)
    assert np.isnan(out[..., 5]).all()
    others = np.arange(33) != 5
    np.testing.assert_allclose(out[..., others], want[..., others], rtol=0, atol=1e-4)


def test_infinities_and_nan_stay_where_they_are(side, level):
    x, w = random(1, 12, 12, 32), random(32, 32, 3, 3)
    x[0, 5, 6, 3], x[0, 0, 0, 1], x[0, 9, 9, 31] = np.inf, np.nan, 3e38
    w[0, 3] = np.abs(w[0, 3]) + 1
    with np.errstate(invalid="ignore", over="ignore"):
        want = reference(x, w, (1,) * 4)
        out = convolve(x, w, (1,) * 4, side, level)
        np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
        np.testing.assert_array_equal(np.isposinf(out[0, 4:7, 5:8, 0]), True)
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        assert np.abs(out[finite] - want[finite]).max() < 1e-3


def test_clamp(side, level):
    x, w = random(1, 8, 8, 32), random(32, 32, 3, 3)
    plain = convolve(x, w, (1,) * 4, side, level)
    np.testing.assert_array_equal(convolve(x, w, (1,) * 4, side, level, clamp=(0.0, 6.0)), np.clip(plain, 0, 6))


def test_reads_nothing_beyond_the_input(side, level, guarded):
    x, w = random(1, 9, 9, 35), random(33, 35, 3, 3)
    for d in (1, 2):
        want = convolve(x, w, (d,) * 4, side, level, dilations=(d, d))
        np.testing.assert_array_equal(convolve(guarded(x), guarded(w), (d,) * 4, side, level, dilations=(d, d)), want)
