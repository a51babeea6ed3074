"""Numbers that lowering needs for convolutions of channels-first images (see isa/conv_first.c)."""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue

_MOST_TAPS = 25  # of a masked convolution, MASKED_MAX_TAPS: more are faster along lines
_MASK_BYTES = 48 * 1024  # which lanes lie inside, for all taps
_PATCH_BYTES = 24 * 1024  # input lines under an item of a direct convolution


def plan_spread(
    batch: int, c: int, oc: int, pixels: tuple[int, int], kernel: tuple[int, int], level: str | None = None
) -> Plan:
    """Plan `conv_spread.f32@nchw`; arguments of the thunk as in `plan_conv`, without an epilogue."""
    isa = gemm.level_of("conv_spread.f32@nchw", level)
    lanes = gemm.panel("f32", level)[1]
    plane, rows = math.prod(pixels), oc * math.prod(kernel)
    cost = batch * 2.0 * max(rows, 4) * plane * (c + 8) / costs.of(isa).flops + 200
    most = max(lanes, _PATCH_BYTES * 4 // (4 * (c + 1 + rows)))
    blocks = max(-(-plane // most), min(-(-plane // 256), math.trunc(min(16, cost / gemm.task_ns()))), 1)
    nc = -(-plane // (blocks * lanes)) * lanes
    work = -(-4 * (nc * (c + 1 + rows) + rows * (c + 1)) // 64) * 64
    attrs: dict[str, AttrValue] = {
        "batch": batch,
        "C": c,
        "OC": oc,
        "in_h": pixels[0],
        "in_w": pixels[1],
        "k_h": kernel[0],
        "k_w": kernel[1],
        "nc": nc,
        "work_stride": work,
    }
    extent = batch * -(-plane // nc)
    return Plan("conv_spread.f32@nchw", attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost))


def plan_conv(
    s: ConvShape, *, clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None
) -> Plan:
    """Plan `conv_direct.f32@nchw`, for `s.c == 1` and few output channels per group.

    Arguments of the thunk: input, weights as they are, out, bias or absent, workspace, operands of the epilogue.
    """
    isa = gemm.level_of("conv_direct.f32@nchw", level)
    lanes = gemm.panel("f32", level)[1]
    pixels, items = math.prod(s.out), s.batch * s.groups
    cost = items * 2.0 * max(s.oc, 4) * pixels * (s.depth + 8) / costs.of(isa).flops + 200
    tasks = math.trunc(min(16, max(1, cost / gemm.task_ns())))
    width = -(-s.out[2] // lanes) * lanes
    length = width + (s.kernel[2] - 1) * s.dilations[2] // s.strides[2] + 1
    line = s.kernel[0] * s.strides[2] * length
    fixed = (s.kernel[1] - 1) * s.dilations[1] + 1 - s.strides[1]
    nc = max(1, min(s.out[1], (_PATCH_BYTES // (4 * line) - fixed) // s.strides[1]))
    nc = max(1, min(nc, -(-s.out[1] // max(1, -(-tasks // max(1, items * s.out[0]))))))
    nc = max(1, -(-s.out[1] // max(1, -(-s.out[1] // nc))))
    work = -(-4 * (line * (nc * s.strides[1] + fixed) + lanes) // 64) * 64
    extent = items * s.out[0] * -(-s.out[1] // nc)
    grain = max(1, math.trunc(extent * gemm.task_ns() / cost))
    attrs = gemm_conv.plane_geometry(s) | {
        "nc": nc,
        **gemm.thread_attrs(work, clamp, steps),
    }
    return Plan("conv_direct.f32@nchw", attrs, extent, grain if grain < extent else 0, work, math.trunc(cost))


def _mask_bytes(s: ConvShape, level: str | None) -> int:
    lanes = gemm.panel("f32", level)[1]
    return math.prod(s.kernel) * -(-math.prod(s.out) // lanes) * (2 if lanes == 16 else 4 * lanes)


def keeps_size(s: ConvShape, level: str | None = None) -> bool:
    """Whether `conv_masked.f32@nchw` is for it: one plane in, one of its size out, of one channel each."""
    plane = s.c == 1 and s.strides == (1, 1, 1) and s.in_ == s.out and s.in_[0] == s.kernel[0] == 1 and s.pads[0] == 0
    fits = math.prod(s.kernel) <= _MOST_TAPS and 0 < _mask_bytes(s, level) <= _MASK_BYTES
    return plane and fits and gemm.level_of("conv_masked.f32@nchw", level) != "baseline"


def plan_masked(
    s: ConvShape, *, clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None
) -> Plan:
    """Plan `conv_masked.f32@nchw`; arguments of the thunk as in `plan_conv`."""
    isa = gemm.level_of("conv_masked.f32@nchw", level)
    extent = s.batch * s.groups * s.oc
    cost = extent * (math.prod(s.out) + 16) * 4.0 * s.depth / costs.of(isa).flops + 200
    work = -(-_mask_bytes(s, level) // 64) * 64
    attrs: dict[str, AttrValue] = {
        "channels": s.groups * s.oc,
        "groups": s.groups,
        "OC": s.oc,
        "height": s.in_[1],
        "width": s.in_[2],
        "k_h": s.kernel[1],
        "k_w": s.kernel[2],
        "dilation_h": s.dilations[1],
        "dilation_w": s.dilations[2],
        "pad_h": s.pads[1],
        "pad_w": s.pads[2],
        **gemm.thread_attrs(work, clamp, steps),
    }
    grain = max(1, math.trunc(extent * gemm.task_ns() / cost))
    return Plan("conv_masked.f32@nchw", attrs, extent, grain if grain < extent else 0, work, math.trunc(cost))


def in_lanes(s: ConvShape, level: str | None = None) -> bool:
    """Whether `conv_depthwise.f32@nchw` is for it: depthwise, with more taps than masks are for."""
    few = math.prod(s.kernel) <= _MOST_TAPS or s.groups < gemm.panel("f32", level)[1] or s.kernel[1] == 1
    return not few and gemm_conv.framed(s, level)[0] > 0


def plan_planes(
    s: ConvShape, *, clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None
) -> Plan:
    """Plan `conv_depthwise.f32@nchw`; arguments of the thunk as in `plan_conv`, the weights as [k_h, k_w, groups]."""
    isa = gemm.level_of("conv_depthwise.f32@nchw", level)
    rows, work = gemm_conv.framed(s, level)
    extent = s.batch * -(-s.groups // gemm.panel("f32", level)[1])
    cost = s.rows * s.groups * (s.depth * 2.0 / (costs.of(isa).flops * 0.4) + 0.3)
    attrs = gemm_conv.plane_geometry(s) | {"rows": rows, **gemm.thread_attrs(work, clamp, steps)}
    grain = max(1, math.trunc(extent * gemm.task_ns() / max(1.0, cost)))
    return Plan("conv_depthwise.f32@nchw", attrs, extent, grain if grain < extent else 0, work, math.trunc(cost) + 60)
