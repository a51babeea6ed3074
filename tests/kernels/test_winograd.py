"""Winograd convolution against a direct sum in double, odd sizes, padding, infinities, cuts of the range."""

import numpy as np
import pytest

from rlx.lower import gemm_conv, winograd
from rlx.lower.context import workspaces
from rlx.ops.conv import conv_reference
from rlx.testing.kernels import call_kernel


def convolve(x, w, pads, level, bias=None, clamp=None, threads=1, grain=None, steps=()):
    s = gemm_conv.conv_shape(x.shape, w.shape[0], (3, 3), pads=pads)
    plain = np.full((16, s.c, s.oc), np.nan, np.float32)
    call_kernel("winograd_weights.f32", [w, plain], {"C": s.c, "OC": s.oc}, extent=s.oc, level=level)
    pack = winograd.plan_pack(s, level)
    packed = np.full(winograd.weight_bytes(s, level) // 4, np.nan, np.float32)
    call_kernel(pack.kernel, [plain, packed], pack.attrs, extent=pack.extent, level=level)
    plan = winograd.plan_conv(s, clamp=clamp, level=level)
    out = np.full((s.batch, *s.out[1:], s.oc), np.nan, np.float32)
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)
    call_kernel(plan.kernel, [x, packed, out, bias, work], plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)
    return out


def reference(x, w, pads):
    first = np.moveaxis(x.astype(np.float64), -1, 1)
    return np.moveaxis(conv_reference(first, w.astype(np.float64), None, None, pads, None, 1), 1, -1)


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CASES = [((1, 9, 12, 32), 32, (1, 1, 1, 1)), ((2, 8, 7, 33), 40, (1, 1, 1, 1)), ((1, 11, 30, 64), 35, (0, 0, 0, 0)),
         ((1, 5, 5, 130), 48, (2, 0, 1, 2)), ((3, 3, 3, 5), 3, (1, 1, 1, 1)), ((1, 40, 41, 48), 32, (1, 1, 1, 1))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_direct_sums(case, level):
    shape, oc, pads = case
    x, w, bias = random(*shape), random(oc, shape[3], 3, 3), random(oc)
    want = reference(x, w, pads) + bias
    size = reference(np.abs(x), np.abs(w), pads) + np.abs(bias)
    out = convolve(x, w, pads, level, bias)
    assert (np.abs(out - want) <= 3e-6 * size.max()).all()
    assert np.abs(out - want).mean() <= 2e-7 * size.mean()
    for threads, grain in ((2, 1), (1, 3)):
        np.testing.assert_array_equal(convolve(x, w, pads, level, bias, threads=threads, grain=grain), out)


def test_infinities_and_nan_stay_where_they_are(level):
    x, w = random(1, 12, 12, 32), random(32, 32, 3, 3)
    x[0, 5, 6, 3], x[0, 0, 0, 1], x[0, 9, 9, 31] = np.inf, np.nan, 3e38
    w[0, 3] = np.abs(w[0, 3]) + 1
    with np.errstate(invalid="ignore", over="ignore"):
        want = reference(x, w, (1,) * 4)
        out = convolve(x, w, (1,) * 4, level)
        np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
        np.testing.assert_array_equal(np.isposinf(out[0, 4:7, 5:8, 0]), True)
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        assert np.abs(out[finite] - want[finite]).max() < 1e-3


def test_clamp(level):
    x, w = random(1, 8, 8, 32), random(32, 32, 3, 3)
    plain = convolve(x, w, (1,) * 4, level)
    np.testing.assert_array_equal(convolve(x, w, (1,) * 4, level, clamp=(0.0, 6.0)), np.clip(plain, 0, 6))


def test_reads_nothing_beyond_the_input(level, guarded):
    x, w = random(1, 9, 9, 35), random(33, 35, 3, 3)
    np.testing.assert_array_equal(convolve(guarded(x), guarded(w), (1,) * 4, level), convolve(x, w, (1,) * 4, level))
