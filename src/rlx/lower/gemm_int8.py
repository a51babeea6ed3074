"""Numbers that lowering needs for the 8-bit matmul and convolution kernels."""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan, Step
from rlx.lower.gemm_conv import ConvShape
from rlx.lower.program import AttrValue
from rlx.records import record

OUT_I32, OUT_F32, OUT_U8, OUT_I8 = 0, 1, 2, 3
_GROUP = {"baseline": 2, "avx2": 2, "avx512": 4}
_MOST_LINES = 16  # CONV_INT8_LINES
_TERM_BYTES = {"baseline": 2, "avx2": 2, "avx512": 1}


@record(eq=False)
class Quant:
    """Zero points, scale and result of an 8-bit product.

    Attributes
    ----------
    a_signed, b_signed : bool
        i8 or u8.
    a_zero, b_zero, scale : int
        Elements of the operand: 0 absent, 1 scalar, M (a_zero), N (b_zero, scale).
    out : int
        OUT_I32: product + bias. OUT_F32: float(product + bias) * scale, then the steps.
        OUT_U8, OUT_I8: clamp(round_half_even(float(product + bias) * scale) + out_zero).
    q_lo, q_hi : int, optional
        Bounds of a quantised result (default: the type's; relu: q_lo = out_zero).
    """

    a_signed: bool = False
    b_signed: bool = True
    a_zero: int = 0
    b_zero: int = 0
    scale: int = 0
    out: int = OUT_I32
    q_lo: int | None = None
    q_hi: int | None = None

    def attrs(self) -> dict[str, AttrValue]:
        """The attributes that both kernels share."""
        lo, hi = (-128, 127) if self.out == OUT_I8 else (0, 255)
        return {
            "a_signed": int(self.a_signed),
            "b_signed": int(self.b_signed),
            "a_zero_n": self.a_zero,
            "b_zero_n": self.b_zero,
            "scale_n": self.scale,
            "out_kind": self.out,
            "q_lo": lo if self.q_lo is None else self.q_lo,
            "q_hi": hi if self.q_hi is None else self.q_hi,
        }


def panel(level: str | None = None) -> tuple[int, int, int]:
    """Rows of the tallest micro-kernel, columns of a panel, and k that lie together."""
    isa = gemm.level_of("matmul.int8", level)
    mr, nr = gemm.panel("f32", isa)
    return mr, nr, _GROUP[isa]


def packed_bytes(k: int, n: int, level: str | None = None) -> int:
    """Bytes of one packed K x N matrix: the panels, then a 32-bit sum per column."""
    _, nr, kg = panel(level)
    return -(-n // nr) * nr * (-(-k // kg) * kg + 4)


def code_bytes(k: int, level: str | None = None) -> int:
    """Bytes of a row of k codes with its sum, as the recurrent kernels keep it."""
    isa = gemm.level_of("matmul.int8", level)
    terms = -(-k // _GROUP[isa]) * _GROUP[isa] * _TERM_BYTES[isa]
    return -(-terms // 4) * 4 + 4


def plan_pack(
    k: int,
    n: int,
    *,
    signed: bool,
    ldb: int | None = None,
    trans: bool = False,
    groups: int = 1,
) -> Plan:
    """Plan `pack_b.int8`; args: source, packed (4-byte aligned)."""
    attrs: dict[str, AttrValue] = {
        "K": k,
        "N": n,
        "ldb": ldb if ldb is not None else (k if trans else n),
        "trans": int(trans),
        "group_stride": k * n,
        "b_signed": int(signed),
    }
    return Plan("pack_b.int8", attrs, groups, 1 if groups > 1 else 0, 0, groups * k * n + 50)


def _blocks(m: int, n: int, k: int, items: int, isa: str, mr: int, nr: int) -> tuple[int, int, int]:
    """Rows and columns of a task, and the cost of everything in ns."""
    macs = items * m * max(n, nr) * k
    cost = math.trunc(max(macs / costs.of(isa).macs_i8, items * n * k / costs.of(isa).read)) + 80
    want = math.trunc(min(16, max(1, cost / gemm.task_ns())))
    tiles = max(1, -(-m // mr))
    rows = max(1, -(-m // tiles))
    nc = max(nr, min(-(-n // nr) * nr, 64 * nr))
    n_blocks = max(1, -(-n // nc))
    m_blocks = max(1, min(tiles, -(-want // max(1, items * n_blocks))))
    mc = -(-tiles // m_blocks) * rows
    if 0 < 2 * items * n_blocks * m_blocks <= want:
        blocks, panels = -(-want // (items * m_blocks)), -(-n // nr)
        nc = min(nc, max(1, -(-panels // blocks)) * nr)
    return mc, nc, cost


def plan_matmul(
    m: int,
    n: int,
    k: int,
    quant: Quant,
    *,
    lda: int | None = None,
    ldo: int | None = None,
    batch: Sequence[tuple[int, int, int, int]] = (),
    steps: Sequence[Step] = (),
    level: str | None = None,
) -> Plan:
    """Plan `matmul.int8`.

    Arguments of the thunk: a, packed, out, bias i32 [N], workspace, a_zero, b_zero, scale,
    out_zero, then operands of the epilogue (index 9 and up); the workspace is always needed.
    Strides of `batch` are in elements, that of a packed B in bytes.
    """
    isa = gemm.level_of("matmul.int8", level)
    mr, nr, kg = panel(level)
    items = math.prod(dim[0] for dim in batch)
    mc, nc, cost = _blocks(m, n, k, items, isa, mr, nr)
    depth = -(-k // kg) * kg
    work = (mr + 3) * (-(-nc // nr) * nr) * 4 + mr * depth * _TERM_BYTES[isa] + 64
    work = -(-work // 64) * 64
    attrs: dict[str, AttrValue] = {
        "M": m,
        "N": n,
        "K": k,
        "lda": lda if lda is not None else k,
        "ldo": ldo if ldo is not None else n,
        "mc": mc,
        "nc": nc,
        "work_stride": work,
        **quant.attrs(),
        "batch": [word for dim in batch for word in dim],
        "steps": gemm.encode_steps(steps),
    }
    extent = items * -(-m // mc) * -(-n // nc)
    return Plan("matmul.int8", attrs, extent, 1 if extent > 1 else 0, work, cost)


def plan_pack_conv(s: ConvShape, *, signed: bool) -> Plan:
    """Plan the packing of weights [groups * OC, k_d, k_h, k_w, C]; args: weights, packed."""
    return plan_pack(s.depth, s.oc, signed=signed, trans=True, groups=s.groups)


def _by_lines(s: ConvShape, quant: Quant, group: int) -> bool:
    """Whether `conv.int8@nhwc` keeps lines of input as terms: `rlx_conv_int8_line` of its header."""
    plane = s.in_[0] == s.out[0] == s.kernel[0] == 1 and s.pads[0] == 0
    plain = quant.b_zero == 0 and quant.b_signed and s.dilations[1] == s.dilations[2] == 1
    taps = 1 <= s.kernel[1] <= _MOST_LINES and s.kernel[1] * s.kernel[2] > 1
    return plane and plain and taps and s.c > 0 and s.kernel[2] * s.c % group == 0 and s.out[2] > 0


def plan_conv(
    s: ConvShape,
    quant: Quant,
    *,
    ldi: int | None = None,
    ldo: int | None = None,
    steps: Sequence[Step] = (),
    level: str | None = None,
) -> Plan:
    """Plan `conv.int8@nhwc`; arguments as in `plan_matmul`, a_zero a scalar.

    A 1x1 convolution without stride and padding comes back as a matmul.
    """
    if s.pointwise and s.groups == 1:
        return plan_matmul(
            s.rows, s.oc, s.c, quant, lda=ldi or s.c, ldo=ldo or s.oc, steps=steps, level=level
        )
    isa = gemm.level_of("conv.int8@nhwc", level)
    mr, nr, kg = panel(level)
    mc, nc, cost = _blocks(s.rows, s.oc, s.depth, s.groups, isa, mr, nr)
    depth = -(-s.depth // kg) * kg
    lines = s.depth
    if _by_lines(s, quant, kg):
        mc = -(-mc // s.out[2]) * s.out[2] if s.out[1] > 1 else mc
        lines = s.kernel[1] * ((s.out[2] - 1) * s.strides[2] + s.kernel[2]) * s.c * _TERM_BYTES[isa]
    work = (mr + 3) * (-(-nc // nr) * nr) * 4 + mr * depth * _TERM_BYTES[isa] + lines + 64
    work = -(-work // 64) * 64
    attrs = gemm_conv.conv_geometry(s, ldi, ldo) | {
        "mc": mc,
        "nc": nc,
        "work_stride": work,
        **quant.attrs(),
        "steps": gemm.encode_steps(steps),
    }
    extent = s.groups * -(-s.rows // mc) * -(-s.oc // nc)
    return Plan("conv.int8@nhwc", attrs, extent, 1 if extent > 1 else 0, work, cost)


def depthwise_fits(s: ConvShape) -> bool:
    """Whether `conv_depthwise.int8@nhwc` takes this convolution."""
    flat = s.in_[0] == s.out[0] == s.kernel[0] == 1 and s.pads[0] == 0
    return s.c == s.oc == 1 and flat and math.prod(s.kernel) <= 256


def plan_depthwise(
    s: ConvShape,
    quant: Quant,
    *,
    ldi: int | None = None,
    ldo: int | None = None,
    steps: Sequence[Step] = (),
    level: str | None = None,
) -> Plan:
    """Plan `conv_depthwise.int8@nhwc` for shapes that `depthwise_fits`.

    Arguments as in `plan_conv`, but the weights lie as [k_h, k_w, channels], not packed.
    """
    isa = gemm.level_of("conv_depthwise.int8@nhwc", level)
    chunk, px = 128, 14
    geometry = gemm_conv.conv_geometry(s, ldi, ldo)
    attrs = {
        name: value
        for name, value in geometry.items()
        if not name.endswith("_d") and name not in ("groups", "OC", "C")
    }
    width = (px - 1) * s.strides[2] + (s.kernel[2] - 1) * s.dilations[2] + 1
    work = (s.depth + s.kernel[1] * width + px + 3) * chunk * 4
    attrs |= {
        "C": s.groups,
        "work_stride": work,
        **quant.attrs(),
        "steps": gemm.encode_steps(steps),
    }
    cost = math.trunc(s.rows * s.groups * s.depth / (4.0 if isa == "baseline" else 16.0)) + 60
    extent = s.batch * s.out[1]
    grain = max(1, math.trunc(extent * gemm.task_ns() / cost))
    return Plan(
        "conv_depthwise.int8@nhwc", attrs, extent, grain if grain < extent else 0, work, cost
    )
