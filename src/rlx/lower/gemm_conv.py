"""Numbers that lowering needs for the convolution kernels; see `rlx.lower.gemm`."""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.lower.gemm import (
    ITEM_SIZE,
    MAX_KC,
    Plan,
    Step,
    balanced,
    gemm_blocks,
    gemm_cost,
    k_block,
    l2_block,
    level_of,
    packed_bytes,
    panel,
    plan_matmul,
    plan_pack,
    split,
    tail_attrs,
    task_ns,
)
from rlx.lower.program import AttrValue
from rlx.records import record, replace

_FEW_TAPS = 25  # of a depthwise convolution, at most two of whose pixels at either end of a line miss taps
_FRAMED_BYTES = 64 * 1024  # lines of a vector of channels between zeros
_FEW_ROWS = 4  # for which as many lines are no longer worth a copy


@record(eq=False)
class ConvShape:
    """Geometry of a convolution, channels last, always three spatial dimensions (depth, h, w).

    `c` and `oc` are per group. `pads` is what lies in front; what lies behind follows from `out`.
    """

    batch: int
    groups: int
    c: int
    oc: int
    in_: tuple[int, int, int]
    out: tuple[int, int, int]
    kernel: tuple[int, int, int]
    strides: tuple[int, int, int]
    dilations: tuple[int, int, int]
    pads: tuple[int, int, int]

    @property
    def rows(self) -> int:
        """Output pixels."""
        return self.batch * math.prod(self.out)

    @property
    def pointwise(self) -> bool:
        """Whether each output pixel depends on the input pixel at its place alone."""
        ones = (1, 1, 1)
        plain = self.kernel == ones and self.strides == ones and self.pads == (0, 0, 0)
        return plain and self.in_ == self.out

    @property
    def depth(self) -> int:
        """Terms of one output element: taps times channels of a group."""
        return math.prod(self.kernel) * self.c


def conv_shape(
    input_shape: Sequence[int],
    oc: int,
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    groups: int = 1,
) -> ConvShape:
    """Geometry of a convolution over [batch, spatial..., channels] with 1 to 3 spatial dimensions.

    `pads` is (begin..., end...) as in ONNX; `oc` counts the output channels of all groups.
    """
    d = len(kernel)
    strides, dilations = strides or [1] * d, dilations or [1] * d
    pads = pads or [0] * (2 * d)
    out = [
        max(0, (x + pads[i] + pads[i + d] - (k - 1) * dilations[i] - 1) // strides[i] + 1)
        for i, (x, k) in enumerate(zip(input_shape[1:-1], kernel, strict=True))
    ]

    def three(values: Sequence[int], fill: int) -> tuple[int, int, int]:
        full = (*([fill] * (3 - d)), *values)
        return full[0], full[1], full[2]

    return ConvShape(
        input_shape[0], groups, input_shape[-1] // groups, oc // groups,
        three(input_shape[1:-1], 1), three(out, 1), three(kernel, 1), three(strides, 1),
        three(dilations, 1), three(pads[:d], 0),
    )  # fmt: skip


def _last_axes(s: ConvShape) -> ConvShape:
    """The same convolution with axes of one pixel in front: pixels of a line are read where they lie."""

    def front(v: tuple[int, int, int], fill: int) -> tuple[int, int, int]:
        return fill, v[0], v[1]

    for _ in range(2):
        if (s.in_[2], s.out[2], s.kernel[2], s.pads[2]) == (1, 1, 1, 0) and s.rows > s.batch:
            s = replace(s, in_=front(s.in_, 1), out=front(s.out, 1), kernel=front(s.kernel, 1),
                        strides=front(s.strides, 1), dilations=front(s.dilations, 1), pads=front(s.pads, 0))
    return s


def plane_geometry(s: ConvShape) -> dict[str, AttrValue]:
    """Attributes that tell a convolution of channels-first images."""
    attrs: dict[str, AttrValue] = {"batch": s.batch, "groups": s.groups, "C": s.c, "OC": s.oc}
    for name, values in (
        ("in", s.in_),
        ("out", s.out),
        ("k", s.kernel),
        ("stride", s.strides),
        ("dilation", s.dilations),
        ("pad", s.pads),
    ):
        attrs |= {f"{name}_{axis}": v for axis, v in zip("dhw", values, strict=True)}
    return attrs


def conv_geometry(s: ConvShape, ldi: int | None, ldo: int | None) -> dict[str, AttrValue]:
    """Attributes that tell a convolution of channels-last images, and how far apart their pixels lie."""
    return plane_geometry(s) | {
        "ldi": ldi if ldi is not None else s.groups * s.c,
        "ldo": ldo if ldo is not None else s.groups * s.oc,
    }


def conv_k_block(s: ConvShape, ldi: int | None = None) -> int:
    """K of one pass: whole kernel rows (or a part that divides one), about 512 to 768 terms."""
    merged = s.dilations[2] == 1 or s.kernel[2] == 1
    run = s.c * s.kernel[2] if merged and (ldi or s.groups * s.c) == s.c else s.c
    if run == 0:
        return 1
    if run <= 768:
        lines = s.depth // run
        return -(-lines // -(-lines // (768 // run))) * run
    fewest = -(-run // MAX_KC)
    parts = next((p for p in range(fewest, fewest + 4) if run % p == 0), fewest)
    return -(-run // parts)


def plan_pack_conv(s: ConvShape, *, dtype: str = "f32", level: str | None = None) -> Plan:
    """Plan the packing of weights [groups * OC, k_d, k_h, k_w, C]; args: weights, packed.

    The packed weights take `groups * packed_bytes(depth, oc)` bytes.
    """
    k = s.depth
    return plan_pack(k, s.oc, trans=True, groups=s.groups, dtype=dtype, level=level)


def plan_conv(
    s: ConvShape,
    *,
    dtype: str = "f32",
    ldi: int | None = None,
    ldo: int | None = None,
    clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (),
    out_size: int | None = None,
    level: str | None = None,
) -> Plan:
    """Plan a dense or grouped convolution over weights packed by `plan_pack_conv`.

    Arguments of the thunk: input, packed, out, bias [groups * OC] or absent, workspace or absent,
    then the operands of the epilogue. A 1x1 convolution without stride and padding comes back as
    a matmul, which takes the same arguments.

    Parameters
    ----------
    ldi, ldo : int, optional
        Elements between pixels of the input and the output (default: all channels of all groups).
    clamp, steps, out_size
        As in `plan_matmul`.
    """
    size = ITEM_SIZE[dtype]
    if s.pointwise and s.groups == 1:
        return plan_matmul(
            s.rows, s.oc, s.c, dtype=dtype, lda=ldi or s.c, ldo=ldo or s.oc, clamp=clamp,
            steps=steps, out_size=out_size, level=level,
        )  # fmt: skip
    if s.pointwise:  # all pixels are one line
        s = replace(s, batch=1, in_=(1, 1, s.rows), out=(1, 1, s.rows))
    s = _last_axes(s)
    name = f"conv.{dtype}@nhwc"
    isa = level_of(name, level)
    mr, nr = panel(dtype, level)
    cost = gemm_cost(s.rows, max(s.oc, nr), s.depth, s.groups, dtype, isa) * 1.1
    mc, nc, kc = gemm_blocks(
        s.rows, s.oc, s.depth, s.groups, mr=mr, nr=nr, size=size, cost=min(cost, 8 * task_ns()),
        kc=conv_k_block(s, ldi),
    )  # fmt: skip
    if s.out[2] < mc and 3 * s.out[2] >= 2 * mr * -(-s.out[2] // mr):
        lines = round(mc / s.out[2])  # tiles end where output rows end
        mc = balanced(s.rows // s.out[2], lines, s.groups * -(-s.oc // nc)) * s.out[2]
    narrow = out_size is not None and out_size != size
    work = mr * ((kc + 2 * nr - 1) // nr * nr) + (mc * nc if narrow else 0)
    work = -(-work * size // 64) * 64
    attrs = conv_geometry(s, ldi, ldo) | {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        **tail_attrs(size, work, clamp, steps, out_size),
    }
    extent = s.groups * -(-s.rows // mc) * -(-s.oc // nc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost))


def plan_depthwise(
    s: ConvShape,
    *,
    dtype: str = "f32",
    ldi: int | None = None,
    ldo: int | None = None,
    clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (),
    out_size: int | None = None,
    level: str | None = None,
) -> Plan:
    """Plan a convolution with one input channel per group (`s.c == 1`), any multiplier `s.oc`.

    Arguments of the thunk: input, weights [k_d, k_h, k_w, groups * OC] (not packed), out, bias or
    absent, workspace or absent, then the operands of the epilogue.
    """
    size = ITEM_SIZE[dtype]
    name = f"conv_depthwise.{dtype}@nhwc"
    isa = level_of(name, level)
    narrow = out_size is not None and out_size != size
    work = -(-14 * s.groups * s.oc * size // 64) * 64 if narrow else 0
    rows = 0
    if dtype == "f32" and not narrow and math.prod(s.kernel) > _FEW_TAPS:
        rows, work = framed(s, level)
    attrs = conv_geometry(s, ldi, ldo) | {"rows": rows} | tail_attrs(size, work, clamp, steps, out_size)
    channels = s.groups * s.oc
    cost = s.rows * channels * size / 4 * (s.depth * 2.0 / (costs.of(isa).flops * 0.4) + 0.1)
    extent = s.batch * s.out[0] * s.out[1]
    grain = max(1, rows, math.trunc(extent * task_ns() / max(1.0, cost)))
    return Plan(name, attrs, extent, grain if grain < extent else 0, work, math.trunc(cost) + 60)


def framed(s: ConvShape, level: str | None = None) -> tuple[int, int]:
    """Output rows of a depthwise convolution from lines that are copied between zeros, and the bytes of those and of
    the weights for one vector of channels; 0 and 0 where that is not to be done."""
    lane_bytes = 4 * panel("f32", level)[1]
    plane = s.in_[0] == s.out[0] == s.kernel[0] == 1 and s.pads[0] == 0 and min(s.out) > 0
    if not plane or s.oc != 1 or s.c != 1:
        return 0, 0
    reach, span = ((s.kernel[i] - 1) * s.dilations[i] + 1 for i in (1, 2))
    span += (s.out[2] - 1) * s.strides[2]
    lines = _FRAMED_BYTES // (span * lane_bytes)
    if s.in_[1] <= lines:
        rows = s.out[1]
    elif lines < reach + s.strides[1] * min(s.out[1] - 1, _FEW_ROWS - 1):
        return 0, 0
    else:
        rows = -(-s.out[1] // -(-s.out[1] // ((lines - reach) // s.strides[1] + 1)))
    held = min(s.in_[1], (rows - 1) * s.strides[1] + reach)
    return rows, -(-(held * span + math.prod(s.kernel)) * lane_bytes // 64) * 64


def conv_transpose_shape(
    input_shape: Sequence[int],
    oc: int,
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    groups: int = 1,
) -> ConvShape:
    """Geometry of a transposed convolution; `pads` crops the full result (begin..., end...)."""
    d = len(kernel)
    strides, dilations = strides or [1] * d, dilations or [1] * d
    pads, extra = pads or [0] * (2 * d), output_padding or [0] * d
    out = [
        max(0, (x - 1) * strides[i] + (k - 1) * dilations[i] + 1 - pads[i] - pads[i + d] + extra[i])
        for i, (x, k) in enumerate(zip(input_shape[1:-1], kernel, strict=True))
    ]
    shape = conv_shape(
        input_shape, oc, kernel, strides=strides, dilations=dilations, pads=pads, groups=groups
    )
    full = (*([1] * (3 - d)), *out)
    return replace(shape, out=(full[0], full[1], full[2]))


def _merged_taps(s: ConvShape, dtype: str, level: str | None) -> int:
    """Taps of a kernel line that are taken as output channels: k_w, or 1 for none."""
    k = s.kernel[2]
    disjoint = k == s.strides[2] and s.dilations[2] == 1 and s.pads[2] == 0
    narrow = s.groups == 1 and s.oc < panel(dtype, level)[1]
    return k if disjoint and narrow and s.out[2] == s.in_[2] * k else 1


def conv_transpose_packed_bytes(
    s: ConvShape, *, dtype: str = "f32", level: str | None = None
) -> int:
    """Bytes of the packed weights of a transposed convolution."""
    merge = _merged_taps(s, dtype, level)
    return s.groups * packed_bytes(s.depth // merge, s.oc * merge, dtype, level)


def plan_pack_conv_transpose(s: ConvShape, *, dtype: str = "f32", level: str | None = None) -> Plan:
    """Plan the packing of weights [groups * OC, k_d, k_h, k_w, C]; args: weights, packed.

    The packed weights take `conv_transpose_packed_bytes` bytes, which is at most
    `groups * packed_bytes(depth, oc)`.
    """
    attrs = {
        name: value
        for name, value in plane_geometry(s).items()
        if name != "batch" and not name.startswith(("in_", "out_"))
    } | {"merge": _merged_taps(s, dtype, level)}
    size = conv_transpose_packed_bytes(s, dtype=dtype, level=level)
    phases = math.prod(s.strides) // (s.strides[2] if attrs["merge"] != 1 else 1)
    return Plan(f"pack_conv_transpose.{dtype}", attrs, phases, 1, 0, size + 100)


def plan_conv_transpose(
    s: ConvShape,
    *,
    dtype: str = "f32",
    ldi: int | None = None,
    ldo: int | None = None,
    clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (),
    out_size: int | None = None,
    level: str | None = None,
) -> Plan:
    """Plan a transposed convolution over weights packed by `plan_pack_conv_transpose`.

    Arguments of the thunk as in `plan_conv`; the workspace is always needed.
    """
    size = ITEM_SIZE[dtype]
    name = f"conv_transpose.{dtype}@nhwc"
    isa = level_of(name, level)
    mr, nr = panel(dtype, level)
    merge = _merged_taps(s, dtype, level)
    if merge > 1 and ldo not in (None, s.oc):
        raise ValueError(f"plan_conv_transpose: ldo must be {s.oc} here, got {ldo}")
    strides = (*s.strides[:2], 1 if merge > 1 else s.strides[2])
    width = s.in_[2] if merge > 1 else s.out[2]
    phases, oc = math.prod(strides), s.oc * merge
    counts = [
        [-(-max(0, o - r) // st) for r in range(st)]
        for o, st in zip((*s.out[:2], width), strides, strict=True)
    ]
    taps = [-(-k // st) for k, st in zip(s.kernel, s.strides, strict=True)]
    depth = math.prod(taps) * s.c
    rows = s.batch * s.out[0] * s.out[1] * width
    cost = phases * gemm_cost(-(-rows // phases), max(oc, nr), depth, s.groups, dtype, isa)
    kc = k_block(s.depth // merge)
    nc = max(nr, oc if merge > 1 else split(oc, -(-oc * kc * size // l2_block(mr)), nr))
    tasks = math.trunc(min(16, max(1, cost / task_ns())))
    mc = max(mr, -(-rows // tasks))
    narrow = out_size is not None and out_size != size
    work = mr * ((kc + 2 * nr - 1) // nr * nr) + (mc * nc if narrow else 0)
    work += oc if merge > 1 else 0
    work = -(-work * size // 64) * 64
    attrs = conv_geometry(s, ldi, ldo) | {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        **tail_attrs(size, work, clamp, steps, out_size),
        "merge": merge,
    }
    blocks = sum(
        -(-s.batch * d * h * w // (max(1, mc // w) * w if w < mc else mc))
        for d in counts[0]
        for h in counts[1]
        for w in counts[2]
        if w
    )
    extent = s.groups * -(-oc // nc) * blocks
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost))
