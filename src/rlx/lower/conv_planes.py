"""Numbers that lowering needs for convolutions over padded planes (see isa/conv_planes.c)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rlx import costs
from rlx.ir.traced import each
from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue
from rlx.records import replace

_MOST_TERMS = 1024  # of a pass: PLANES_MAX_TERMS
_TERMS = 640  # of a pass: a tile of weights stays in the first cache
_PATCH_BYTES = 512 * 1024  # input lines under an item
_IN_PLACE_BYTES = 128 * 1024  # of those read in place: nothing has fetched them for the first item
_FEW_ROWS = 72  # output channels that do not repay copying pixels that lie as they are needed
_COPY = 16.0  # of an input vector, in multiplications of a vector


class _Axis(NamedTuple):
    """How the lines, or the pixels of a line, lie in the workspace."""

    phases: int
    reach: int  # places from an output to its last tap
    zeros: int  # that lie both in front of every line and behind it

    @classmethod
    def of(cls, s: ConvShape, axis: int, lanes: int) -> "_Axis":
        k, st, d, pad = s.kernel[axis], s.strides[axis], s.dilations[axis], s.pads[axis]
        phases = 1 if k == 1 or d % st == 0 else st
        reach = (k - 1) * d // st
        length, zeros = s.out[axis] + reach, reach
        for phase in range(phases):
            x = phase - pad  # of the first place
            left = max(0, -x + st - 1) // st
            right = length - (max(0, s.in_[axis] - x + st - 1) // st)
            zeros = min(zeros, lanes, left, max(0, right))
        return cls(phases, reach, zeros)


def flat(s: ConvShape) -> ConvShape:
    """The same problem with all pixels in one line, where each depends on its own place alone."""
    if not s.pointwise:
        return s
    line = (1, 1, math.prod(s.out))
    return replace(s, in_=line, out=line)


def tile_height(oc: int, level: str | None = None) -> int:
    """Rows of a tile of weights."""
    mr = gemm.panel("f32", level)[0]
    return -(-oc // max(1, -(-oc // mr))) or 1


def packed_bytes(s: ConvShape, level: str | None = None) -> int:
    """Bytes of the packed weights."""
    height = tile_height(s.oc, level)
    return 4 * s.groups * -(-s.oc // height) * height * s.depth


def plan_pack(s: ConvShape, level: str | None = None) -> Plan:
    """Plan the packing of weights [groups * OC, C, k_h, k_w]; args: weights, packed."""
    height = tile_height(s.oc, level)
    attrs: dict[str, AttrValue] = {"OC": s.oc, "K": s.depth, "height": height}
    return Plan("pack_conv_planes.f32", attrs, s.groups * -(-s.oc // height), 1, 0, packed_bytes(s, level) // 2)


def _strip(
    out: tuple[int, int, int], kernel: tuple[int, int, int], oc: int, y: _Axis, x: _Axis,
    channels: int, lanes: int, fewest: int, nbytes: int,
) -> tuple[int, int]:  # fmt: skip
    """Lines and columns of an item: of the strips that fit the ones that take least, at least `fewest` items."""
    pair = 2 * lanes
    most = nbytes // (4 * channels * kernel[0] * y.phases * x.phases)
    fitting = max(1, most // (1 + y.reach) // pair) * pair  # columns of one line
    height, width = max(1, out[1]), max(1, out[2])
    if height == 1:
        parts = max(fewest, -(-width // fitting))
        return 1, min(width, -(-width // (parts * pair)) * pair)
    pitch = width + x.reach - x.zeros

    def vectors(lines: int) -> float:
        panels = -(-((lines - 1) * pitch + width) // lanes)
        return panels + (panels % 2) * 0.2  # one without a partner takes more than its half

    def cost(lines: int) -> float:
        parts = -(-height // lines)
        copied = parts * (lines + y.reach) * pitch * y.phases * x.phases * kernel[0] / lanes
        products = (parts - 1) * vectors(lines) + vectors(height - (parts - 1) * lines)
        return products * oc * math.prod(kernel) + copied * _COPY

    choices = {-(-height // parts) for parts in range(min(fewest, height), height + 1)}
    choices = {lines for lines in choices if (lines + y.reach) * pitch <= most}
    return (min(sorted(choices), key=cost), width) if choices else (1, min(width, fitting))


def plan_conv(
    s: ConvShape, *, clamp: tuple[float, float] | None = None, steps: Sequence[Step] = (), level: str | None = None
) -> Plan:
    """Plan `conv_planes.f32@nchw`.

    Arguments of the thunk: input, packed weights, out, bias or absent, workspace, operands of the epilogue.
    """
    isa = gemm.level_of("conv_planes.f32@nchw", level)
    lanes = gemm.panel("f32", level)[1]
    s = flat(s)
    height, taps = tile_height(s.oc, level), math.prod(s.kernel)
    y, x = _Axis.of(s, 1, lanes), _Axis.of(s, 2, lanes)
    passes = -(-s.c // max(1, _TERMS // taps))
    channels = -(-s.c // max(1, passes))
    cost = s.batch * s.groups * 2.0 * max(s.oc, 4) * math.prod(s.out) * (s.depth + 8) / costs.of(isa).flops + 200
    tasks = math.trunc(min(16, max(1, cost / gemm.task_ns())))
    planes = s.batch * s.groups * s.out[0]
    in_place = s.oc <= _FEW_ROWS and s.pointwise and s.out[1] == 1 and s.out[2] % lanes == 0

    strip = (s.out, s.kernel, s.oc, y, x, channels, lanes, -(-tasks // max(1, planes * -(-s.oc // height))),
             _IN_PLACE_BYTES if in_place else _PATCH_BYTES)
    lines, columns = each(_strip, *strip)
    pitch = columns + x.reach - (x.zeros if columns == s.out[2] else 0)
    image = s.kernel[0] * y.phases * x.phases * ((lines + y.reach) * pitch + lanes)
    blocks = planes * -(-s.out[1] // lines) * -(-s.out[2] // columns)
    parts = 1 if blocks >= tasks else min(-(-s.oc // height), -(-tasks // max(1, blocks)))
    mc = height * -(-s.oc // (height * max(1, parts))) or height
    panels = -(-((lines - 1) * pitch + columns) // lanes)
    patch = 0 if in_place else channels * image + 2 * lanes
    work = -(-(panels * (16 + 4 * lanes) + 4 * patch) // 64) * 64
    attrs = gemm_conv.plane_geometry(s) | {
        "height": height,
        "lines": lines,
        "columns": columns,
        "mc": mc,
        "pass": max(1, channels),
        "pitch": pitch,
        "image": image,
        "in_place": int(in_place),
        **gemm.thread_attrs(work, clamp, steps),
    }
    extent = blocks * -(-s.oc // mc)
    grain = max(1, math.trunc(extent * gemm.task_ns() / cost))
    return Plan("conv_planes.f32@nchw", attrs, extent, grain if grain < extent else 0, work, math.trunc(cost))
