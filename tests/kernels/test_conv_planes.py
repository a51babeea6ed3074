"""Convolution over padded planes against a direct sum in double precision."""

import math

import numpy as np
import pytest
from conv_cases import check, launch, make

from rlx.lower import conv_planes
from rlx.ops.conv import conv_reference
from rlx.testing.kernels import call_kernel

# input without batch, weights, strides, dilations, pads, groups
CASES = [
    ((3, 9, 40), (16, 3, 3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    ((8, 12, 33), (33, 8, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((130, 5, 5), (17, 130, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((3, 20, 31), (20, 3, 7, 7), (2, 2), (1, 1), (3, 3, 2, 4), 1),
    ((3, 28, 28), (64, 3, 7, 7), (2, 2), (1, 1), (3, 3, 3, 3), 1),
    ((16, 8, 8), (24, 16, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((16, 7, 7), (24, 16, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((16, 8, 31), (24, 16, 1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    ((7, 11, 20), (29, 7, 3, 3), (1, 1), (2, 2), (2, 2, 2, 2), 1),
    ((7, 11, 20), (29, 7, 3, 3), (2, 2), (2, 2), (2, 2, 2, 2), 1),
    ((6, 11, 30), (5, 6, 3, 2), (1, 2), (2, 3), (2, 0, 1, 5), 1),
    ((6, 13, 30), (5, 6, 3, 4), (3, 3), (2, 1), (1, 4, 1, 4), 1),
    ((48, 10, 18), (32, 12, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
    ((4, 6, 6), (4, 4, 5, 5), (1, 1), (1, 1), (4, 4, 4, 4), 1),
    ((2, 3, 3), (4, 2, 2, 2), (1, 1), (1, 1), (9, 20, 9, 20), 1),
    ((5, 4, 3), (3, 5, 1, 1), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((1, 900), (12, 1, 400), (160,), (1,), (0, 0), 1),
    ((1, 160), (37, 1, 10), (5,), (1,), (0, 0), 1),
    ((40, 60), (24, 20, 3), (1,), (1,), (1, 1), 2),
    ((80, 300), (24, 80, 3), (2,), (1,), (1, 1), 1),
    ((300, 130), (19, 300, 3), (2,), (1,), (1, 1), 1),
    ((900, 40), (70, 900, 1), (1,), (1,), (0, 0), 1),
    ((900, 64), (70, 900, 1), (1,), (1,), (0, 0), 1),
    ((700, 80), (72, 700, 1), (1,), (1,), (0, 0), 1),
    ((100, 20, 16), (64, 100, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((3, 4, 5, 16), (7, 3, 2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 1, 1, 1, 1), 1),
    ((6, 4, 5, 17), (24, 3, 3, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 1, 1, 1, 1), 2),
    ((5, 7, 6, 9), (6, 5, 3, 1, 2), (3, 1, 1), (2, 1, 1), (4, 0, 1, 4, 0, 0), 1),
    ((4, 1, 1), (4, 4, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((1, 3, 3), (1, 1, 3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
]


def convolve(s, x, w, level, bias=None, threads=1, grain=None, out=None, place=np.asarray, **options):
    pack, plan = conv_planes.plan_pack(s, level), conv_planes.plan_conv(s, level=level, **options)
    packed = place(np.full(conv_planes.packed_bytes(s, level) // 4, np.nan, np.float32))
    call_kernel(pack.kernel, [w, packed], pack.attrs, extent=pack.extent, level=level)
    return launch(plan, s, x, packed, bias, level, threads, grain, out, place), plan


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_definition(case: tuple, level: str) -> None:
    s, x, w, bias, at = make(case, 2)
    out, _ = convolve(s, x, w, level, bias)
    check(out, s, x, w, bias, at)
    check(convolve(s, x, w, level)[0], s, x, w, None, at)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_do_not_depend_on_the_cut(case: tuple, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s, x, w, bias, _ = make(case, 2)
    whole, plan = convolve(s, x, w, level, bias, clamp=(0.0, math.inf))
    assert (whole >= 0).all()
    for threads, grain in ((2, 1), (1, 3), (2, plan.extent)):
        again, _ = convolve(s, x, w, level, bias, threads=threads, grain=grain, clamp=(0.0, math.inf))
        assert again.tobytes() == whole.tobytes()
    monkeypatch.setattr(conv_planes, "_PATCH_BYTES", 1)
    monkeypatch.setattr(conv_planes.gemm, "task_ns", lambda: 1.0)
    again, other = convolve(s, x, w, level, bias, threads=2, grain=1, clamp=(0.0, math.inf))
    assert other.extent > plan.extent or plan.extent > 4 or s.rows * s.oc < 1000
    assert again.tobytes() == whole.tobytes()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_touches_nothing_outside(case: tuple, level: str, guarded) -> None:
    s, x, w, bias, at = make(case)
    guards = [guarded(a) for a in (x, w, bias)]
    out, _ = convolve(s, guards[0], guards[1], level, guards[2], place=guarded,
                      out=guarded(np.zeros((1, s.groups * s.oc, *s.out), np.float32)))
    check(out, s, x, w, bias, at)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_where_it_is(value: float, level: str) -> None:
    """One pixel reaches the outputs that read it, no others; limits let NaN through."""
    s, x, w, bias, at = make(CASES[8])
    clean = convolve(s, x, w, level, bias)[0]
    x[0, 3, 5, 19] = value
    out = convolve(s, x, w, level, bias)[0].reshape(1, 29, 11, 20)
    want = conv_reference(x, w, bias, *at)
    reached = ~np.isfinite(want)
    assert 0 < reached.sum() < 29 * 9
    np.testing.assert_array_equal(out[reached], want[reached])
    np.testing.assert_array_equal(out[~reached], clean.reshape(out.shape)[~reached])
    limited = convolve(s, x, w, level, bias, clamp=(-1.0, 1.0))[0].reshape(out.shape)
    np.testing.assert_array_equal(limited, np.clip(out, -1, 1))
