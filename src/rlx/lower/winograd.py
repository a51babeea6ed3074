"""Numbers that lowering needs for the Winograd kernel (see isa/winograd.c)."""

import math
from collections.abc import Sequence

from rlx.lower import gemm
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue

_MOST_BYTES = 400 * 1024  # transformed inputs and products of a task


def all_tiles(s: ConvShape) -> int:
    """Tiles of 2x2 outputs."""
    return s.batch * -(-s.out[1] // 2) * -(-s.out[2] // 2)


def weight_bytes(s: ConvShape, level: str | None = None) -> int:
    """Bytes of the packed weights."""
    return 16 * gemm.packed_bytes(s.c, s.oc, "f32", level)


def plan_pack(s: ConvShape, level: str | None = None) -> Plan:
    """Plan the packing of the transformed weights [16, C, OC]."""
    return gemm.plan_pack(s.c, s.oc, groups=16, level=level)


def plan_conv(
    s: ConvShape, *, ldi: int | None = None, ldo: int | None = None, clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (), level: str | None = None,
) -> Plan:
    """Plan `conv_winograd.f32@nhwc`; arguments as in `gemm_conv.plan_conv`."""
    total = all_tiles(s)
    mr, nr = gemm.panel("f32", level)
    per_tile = 64 * (s.c + s.oc)
    tiles = min(total, max(2 * mr, _MOST_BYTES // per_tile // mr * mr))
    tiles = -(-total // -(-total // tiles))
    work = -(-tiles * per_tile // 64) * 64
    macs = total * 16.0 * s.c * max(s.oc, nr)
    isa = gemm.level_of("matmul.f32", level)
    cost = 2 * macs / {"baseline": 10.0, "avx2": 65.0, "avx512": 140.0}[isa] + total * (s.c + s.oc) * 1.0
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
        "tiles": tiles,
        "work_stride": work,
        **gemm.limits(clamp),
        "steps": gemm.encode_steps(steps),
    }
    extent = -(-total // tiles)
    return Plan("conv_winograd.f32@nhwc", attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost) + 100)
