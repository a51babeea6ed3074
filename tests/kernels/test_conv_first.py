"""Depthwise convolution of channels-first images against a direct sum in double precision."""

import math

import numpy as np
import pytest
from conv_cases import check, launch, make

from rlx.lower import conv_first
from rlx.lower.context import workspaces
from rlx.ops.conv import transposed_reference
from rlx.testing.kernels import call_kernel

# input without batch, weights, strides, dilations, pads, groups
CASES = [
    ((1, 900), (3, 1, 400), (160,), (1,), (0, 0), 1),
    ((1, 160), (2, 1, 10), (5,), (1,), (0, 0), 1),
    ((6, 60), (12, 1, 3), (1,), (1,), (1, 1), 6),
    ((6, 4, 5, 17), (6, 1, 3, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 1, 1, 1, 1), 6),
    ((1, 3, 3), (1, 1, 3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((12, 20, 33), (24, 1, 5, 5), (1, 1), (1, 1), (2, 2, 2, 2), 12),
    ((12, 21, 35), (12, 1, 3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 12),
    ((7, 13, 16), (7, 1, 3, 3), (3, 3), (1, 2), (1, 4, 1, 4), 7),
    ((5, 9, 9), (5, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 5),
    ((4, 40, 130), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
]


MASKED = [
    ((6, 7, 7), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 6),
    ((3, 8, 8), (3, 1, 5, 5), (1, 1), (1, 1), (2, 2, 2, 2), 3),
    ((3, 14, 13), (6, 1, 5, 5), (1, 1), (1, 1), (2, 2, 2, 2), 3),
    ((4, 5, 40), (4, 1, 3, 3), (1, 1), (2, 3), (2, 3, 2, 3), 4),
    ((2, 3, 2), (2, 1, 5, 5), (1, 1), (2, 2), (4, 4, 4, 4), 2),
    ((5, 9, 1), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 5),
    ((4, 6, 11), (4, 1, 2, 4), (1, 1), (1, 1), (1, 2, 0, 1), 4),
    ((4, 6, 11), (4, 1, 2, 4), (1, 1), (1, 1), (0, 0, 1, 3), 4),
    ((3, 16, 8), (3, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 3),
    ((7, 100), (7, 1, 25), (1,), (1,), (12, 12), 7),
    ((7, 33), (14, 1, 4), (1,), (3,), (4, 5), 7),
]
EVERY = [(c, "plan_conv") for c in CASES + MASKED] + [(c, "plan_masked") for c in MASKED]


def convolve(s, x, w, level, bias=None, threads=1, grain=None, out=None, place=np.asarray,
             plan_of="plan_conv", **options):
    plan = getattr(conv_first, plan_of)(s, level=level, **options)
    return launch(plan, s, x, w, bias, level, threads, grain, out, place), plan


every = pytest.mark.parametrize(("case", "plan_of"), EVERY, ids=str)


@every
def test_against_the_definition(case: tuple, plan_of: str, level: str) -> None:
    s, x, w, bias, at = make(case, 2)
    out, _ = convolve(s, x, w, level, bias, plan_of=plan_of)
    check(out, s, x, w, bias, at)
    check(convolve(s, x, w, level, plan_of=plan_of)[0], s, x, w, None, at)


def test_which_keep_their_size() -> None:
    assert all(conv_first.keeps_size(make(case)[0], "avx2") for case in MASKED)
    assert not any(conv_first.keeps_size(make(case)[0], "avx2") for case in (CASES[0], CASES[3], CASES[6]))
    assert not conv_first.keeps_size(make(((3, 40, 40), (3, 1, 7, 7), (1, 1), (1, 1), (3,) * 4, 3))[0], "avx2")


@every
def test_bits_do_not_depend_on_the_cut(case: tuple, plan_of: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s, x, w, bias, _ = make(case, 2)
    whole, plan = convolve(s, x, w, level, bias, clamp=(0.0, math.inf), plan_of=plan_of)
    assert (whole >= 0).all()
    for threads, grain in ((2, 1), (1, 3), (2, plan.extent)):
        again, _ = convolve(s, x, w, level, bias, threads=threads, grain=grain, clamp=(0.0, math.inf), plan_of=plan_of)
        assert again.tobytes() == whole.tobytes()
    monkeypatch.setattr(conv_first, "_PATCH_BYTES", 1)
    again, _ = convolve(s, x, w, level, bias, clamp=(0.0, math.inf), plan_of=plan_of)
    assert again.tobytes() == whole.tobytes()


@every
def test_touches_nothing_outside(case: tuple, plan_of: str, level: str, guarded) -> None:
    s, x, w, bias, at = make(case)
    guards = [guarded(a) for a in (x, w, bias)]
    out, _ = convolve(s, guards[0], guards[1], level, guards[2], place=guarded, plan_of=plan_of,
                      out=guarded(np.zeros((1, s.groups * s.oc, *s.out), np.float32)))
    check(out, s, x, w, bias, at)


@every
def test_what_lies_around_an_image_is_not_read(case: tuple, plan_of: str, level: str) -> None:
    s, x, w, bias, at = make(case)
    around = np.full(x.size + 2000, np.nan, np.float32)
    around[1000:-1000] = x.ravel()
    out, _ = convolve(s, around[1000:-1000].reshape(x.shape), w, level, bias, plan_of=plan_of)
    check(out, s, x, w, bias, at)


SPREAD = [(2, 24, 1, 9, 21, 2, 2), (1, 7, 5, 5, 17, 3, 2), (1, 3, 20, 1, 40, 1, 3), (3, 4, 2, 6, 6, 2, 1)]


@pytest.mark.parametrize("shape", SPREAD, ids=str)
def test_transposed_without_overlap(shape: tuple, level: str, guarded) -> None:
    batch, c, oc, height, width, kh, kw = shape
    rng = np.random.default_rng(1)
    x, w, b = (guarded(rng.standard_normal(s).astype(np.float32))
               for s in ((batch, c, height, width), (c, oc, kh, kw), (oc,)))
    want = transposed_reference(x.astype(float), w.astype(float), b, (kh, kw), None, None, None, 1)
    plan = conv_first.plan_spread(batch, c, oc, (height, width), (kh, kw), level)
    results = []
    for threads in (1, 2):
        out = guarded(np.full(want.shape, np.nan, np.float32))
        work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)
        call_kernel(plan.kernel, [x, w, out, b, work], plan.attrs, extent=plan.extent, threads=threads, level=level)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
        results.append(out.tobytes())
    assert results[0] == results[1]
