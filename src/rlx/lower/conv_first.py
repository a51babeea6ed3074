"""Numbers that lowering needs for convolutions of channels-first images (see isa/conv_first.c)."""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue
from rlx.records import replace

_MOST_TERMS = 640  # of a direct convolution: FIRST_MAX_K
_FEW_TERMS = 128  # of one with many output channels for each input channel
_PATCH_BYTES = 24 * 1024  # input lines under an item of a direct convolution
_PANEL_BYTES = {"baseline": 192 * 1024, "avx2": 192 * 1024, "avx512": 512 * 1024}
_FEWEST_ROWS = 64  # output channels of an item: the gathered panels must be read often


def flat(s: ConvShape) -> ConvShape:
    """The same problem with all pixels in one line, where each depends on its own place alone."""
    if not s.pointwise:
        return s
    line = (1, 1, math.prod(s.out))
    return replace(s, in_=line, out=line)


def is_direct(s: ConvShape, lanes: int) -> bool:
    """Whether input lines are read where they lie: few terms, and lines that fill their vectors."""
    s = flat(s)
    filled = s.out[2] / (-(-s.out[2] // lanes) * lanes) if s.out[2] else 1.0
    few = s.depth <= (_MOST_TERMS if s.groups > 1 or s.c == 1 else _FEW_TERMS)
    return few and (s.c == 1 or (filled >= 0.8 and not s.pointwise))


def plan_spread(
    batch: int, c: int, oc: int, pixels: tuple[int, int], kernel: tuple[int, int], level: str | None = None
) -> Plan:
    """Plan `conv_spread.f32@nchw`; arguments of the thunk as in `plan_conv`, without an epilogue."""
    isa = gemm.level_of("conv_spread.f32@nchw", level)
    lanes = gemm.panel("f32", level)[1]
    plane, rows = math.prod(pixels), oc * math.prod(kernel)
    cost = batch * 2.0 * max(rows, 4) * plane * (c + 8) / costs.of(isa).flops + 200
    most = max(lanes, _PATCH_BYTES * 4 // (4 * (c + 1 + rows)))
    blocks = max(-(-plane // most), min(-(-plane // 256), int(min(16, cost / gemm.task_ns()))), 1)
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
    return Plan("conv_spread.f32@nchw", attrs, extent, 1 if extent > 1 else 0, work, int(cost))


def plan_conv(
    s: ConvShape, *, clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None
) -> Plan:
    """Plan `conv_direct.f32@nchw` or `conv_gathered.f32@nchw`.

    Arguments of the thunk: input, weights as they are, out, bias or absent, workspace, operands of the epilogue.
    """
    isa = gemm.level_of("conv_gathered.f32@nchw", level)
    mr, lanes = gemm.panel("f32", level)
    s = flat(s)
    direct = is_direct(s, lanes)
    pixels, items = math.prod(s.out), s.batch * s.groups
    cost = items * 2.0 * max(s.oc, 4) * pixels * (s.depth + 8) / costs.of(isa).flops + 200
    tasks = int(min(16, max(1, cost / gemm.task_ns())))
    mc = nc = kc = 1
    if direct:
        width = -(-s.out[2] // lanes) * lanes
        length = width + (s.kernel[2] - 1) * s.dilations[2] // s.strides[2] + 1
        line = s.c * s.kernel[0] * s.strides[2] * length * 4
        fixed = (s.kernel[1] - 1) * s.dilations[1] + 1 - s.strides[1]
        nc = max(1, min(s.out[1], (_PATCH_BYTES // line - fixed) // s.strides[1]))
        nc = max(1, min(nc, -(-s.out[1] // max(1, -(-tasks // max(1, items * s.out[0]))))))
        strips = -(-s.out[1] // nc)
        nc = max(1, -(-s.out[1] // max(1, strips)))
        lines = nc * s.strides[1] + fixed
        work = width + s.c * s.kernel[0] * lines * s.strides[2] * length + mr * (s.depth + 1)
        extent = items * s.out[0] * -(-s.out[1] // nc)
        grain = max(1, int(extent * gemm.task_ns() / cost))
    else:
        taps = math.prod(s.kernel)
        channels = max(1, gemm.MAX_KC // taps)
        kc = taps * -(-s.c // -(-s.c // channels)) if s.c else taps
        panels = -(-pixels // lanes)
        most = max(4, _PANEL_BYTES[isa] // (4 * lanes * (kc + 1)))
        blocks = -(-panels // most)
        if items * blocks < tasks:
            blocks = max(blocks, min(-(-panels // 8), -(-tasks // max(1, items))))
        nc = lanes * -(-panels // max(1, blocks)) or lanes
        blocks = -(-pixels // nc)
        mc = max(1, s.oc)
        if items * blocks < tasks:
            parts = min(max(1, s.oc // _FEWEST_ROWS), -(-tasks // max(1, items * blocks)))
            mc = max(1, gemm.split(s.oc, parts, mr))
        work = (nc + mr) * (kc + 1) + nc
        extent = items * blocks * -(-s.oc // mc)
        grain = 1
    work = -(-work * 4 // 64) * 64
    geometry = {k: v for k, v in gemm_conv.conv_geometry(s, None, None).items() if k not in ("ldi", "ldo")}
    attrs: dict[str, AttrValue] = geometry | {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        "work_stride": work,
        **gemm.limits(clamp),
        "steps": gemm.encode_steps(steps),
    }
    kernel = "conv_direct.f32@nchw" if direct else "conv_gathered.f32@nchw"
    return Plan(kernel, attrs, extent, grain if grain < extent else 0, work, int(cost))
