"""Numbers that lowering needs for the Winograd kernel (see isa/winograd.c)."""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.lower import gemm
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue


def phases(s: ConvShape) -> tuple[int, int, int]:
    """Images, height and width: those of the plain convolutions that a dilated one is made of."""
    return costs.winograd_phases((s.batch, *s.out[1:]), s.dilations[1:])


def all_tiles(s: ConvShape, side: int) -> int:
    """Tiles of side x side outputs."""
    images, height, width = phases(s)
    return images * -(-height // side) * -(-width // side)


def weight_bytes(s: ConvShape, side: int, level: str | None = None) -> int:
    """Bytes of the packed weights."""
    return (side + 2) ** 2 * gemm.packed_bytes(s.c, s.oc, "f32", level)


def plan_pack(s: ConvShape, side: int, level: str | None = None) -> Plan:
    """Plan the packing of the transformed weights [(side + 2)^2, C, OC]."""
    return gemm.plan_pack(s.c, s.oc, groups=(side + 2) ** 2, level=level)


def cost(s: ConvShape, side: int, level: str | None = None) -> float:
    """Nanoseconds on one core."""
    return costs.winograd_ns(side, *phases(s), s.c, s.oc, gemm.level_of("matmul.f32", level))


def best_side(s: ConvShape, level: str | None = None) -> int:
    """Outputs along the side of a tile, such that the convolution costs least."""
    return min(costs.WINOGRAD_SIDES, key=lambda side: cost(s, side, level))


def _blocks(s: ConvShape, side: int, ns: float, mr: int, nr: int) -> tuple[int, int]:
    """Tiles and output channels of a task."""
    total, components = all_tiles(s, side), (side + 2) ** 2
    cache = gemm.l2_block(mr)
    want = math.trunc(min(16, max(1, ns / gemm.task_ns())))
    per_tile = 4 * components * (s.c + min(s.oc, 4 * nr))  # bytes of transformed inputs and products
    fit = max(mr, cache // per_tile)
    if 4 * components * s.c * s.oc <= cache:  # a row tile is enough to share a read of weights from the second cache
        tiles = min(fit, math.ceil(total / want / mr) * mr)
    else:  # from farther: as many as fit, and rather inputs from farther than more weights
        tiles = max(fit, min(s.oc // 4, 2 * cache // per_tile))
        want = min(want, 6)
    parts = -(-total // min(total, tiles))
    tiles = -(-total // parts)
    parts = -(-total // tiles)
    channels = min(s.oc, gemm.split(s.oc, want // parts, 2 * nr)) if want >= 2 * parts else s.oc
    return tiles, channels


def plan_conv(
    s: ConvShape, side: int, *, ldi: int | None = None, ldo: int | None = None,
    clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None,
) -> Plan:
    """Plan `conv_winograd.f32@nhwc`; arguments as in `gemm_conv.plan_conv`."""
    mr, nr = gemm.panel("f32", level)
    ns = cost(s, side, level)
    tiles, channels = _blocks(s, side, ns, mr, nr)
    inputs = -(-tiles * s.c // 16) * 16 + 16
    products = tiles * (-(-channels // 16) * 16) + 16
    work = (side + 2) ** 2 * (inputs + products) * 4
    attrs: dict[str, AttrValue] = {
        "batch": s.batch,
        "C": s.c,
        "OC": s.oc,
        "ldi": ldi if ldi is not None else s.c,
        "ldo": ldo if ldo is not None else s.oc,
        "in_h": s.in_[1],
        "in_w": s.in_[2],
        "out_h": s.out[1],
        "out_w": s.out[2],
        "pad_h": s.pads[1],
        "pad_w": s.pads[2],
        "dilation_h": s.dilations[1],
        "dilation_w": s.dilations[2],
        "side": side,
        "tiles": tiles,
        "channels": channels,
        **gemm.thread_attrs(work, clamp, steps),
    }
    extent = -(-all_tiles(s, side) // tiles) * -(-s.oc // channels)
    return Plan("conv_winograd.f32@nhwc", attrs, extent, 1 if extent > 1 else 0, work, math.trunc(ns) + 100)
