"""Convolutions of channels-first images: made from a case, checked against a direct sum in double precision.

A case is (input without batch, weights, strides, dilations, pads, groups).
"""

import numpy as np

from rlx.lower import gemm_conv
from rlx.lower.context import workspaces
from rlx.ops.conv import conv_reference
from rlx.testing.kernels import call_kernel


def make(case: tuple, batch: int = 1) -> tuple:
    """Geometry, input, weights, bias and the further arguments of `conv_reference`."""
    spatial, weights, strides, dilations, pads, groups = case
    x = np.random.default_rng(sum(spatial)).standard_normal((batch, *spatial)).astype(np.float32)
    w = np.random.default_rng(sum(weights)).standard_normal(weights).astype(np.float32)
    bias = np.random.default_rng(5).standard_normal(weights[0]).astype(np.float32)
    s = gemm_conv.conv_shape((batch, *spatial[1:], spatial[0]), weights[0], weights[2:], strides=strides,
                        dilations=dilations, pads=pads, groups=groups)
    return s, x, w, bias, (strides, pads, dilations, groups)


def launch(plan, s, x, w, bias, level, threads=1, grain=None, out=None, place=np.asarray):
    """The result of a plan for weights as it takes them; `place` moves the workspace."""
    if out is None:
        out = np.full((s.batch, s.groups * s.oc, *s.out), np.nan, np.float32)
    work = place(np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8))
    call_kernel(plan.kernel, [x, w, out, bias, work], plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)
    return out


def check(out, s, x, w, bias, at) -> None:
    """A result is right to the rounding of its terms; `bias` None if it was computed without."""
    wide = [a.astype(np.float64) for a in (x, w)]
    want = conv_reference(*wide, None if bias is None else bias.astype(np.float64), *at)
    size = conv_reference(*(np.abs(a) for a in wide), None if bias is None else np.abs(bias), *at) + 1e-30
    out = out.reshape(want.shape)
    assert not np.isnan(out).any()
    assert (np.abs(out - want) <= 3e-6 * size).all()
