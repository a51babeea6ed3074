"""Numbers that lowering needs for the GEMM and convolution kernels.

Each `plan_*` function turns a problem's shape into the attributes of its kernel, the extent, and
the bytes of workspace each thread needs. Everything depends on the shape and the ISA level alone,
never on the number of threads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.lower.program import AttrItem, AttrValue, EwRef
from rlx.runtime import kernels

EPI_UNARY, EPI_ROW, EPI_FULL, EPI_SAME, EPI_SWAP = 0, 1, 2, 3, 8

ITEM_SIZE = {"f32": 4, "f64": 8}
_VECTOR_BYTES = {"baseline": 16, "avx2": 32, "avx512": 64}
_FLOPS_PER_NS = {"baseline": 12.0, "avx2": 65.0, "avx512": 130.0}  # f32
_BYTES_PER_NS = 30.0
_MAX_KC = 384
# Bytes of B that are meant to stay in the second cache; processors without AVX-512 have less.
_L2_BLOCK = {14: 768 * 1024, 6: 384 * 1024}
_TASK_NS = 4000.0


@dataclass(frozen=True)
class Step:
    """One step of an epilogue: an elementwise micro-kernel applied to the output tile.

    Attributes
    ----------
    fn : int or EwRef
        The micro-kernel, by address or by name.
    kind : int
        EPI_UNARY; EPI_ROW: operand [N]; EPI_FULL: operand with a row of `ld` elements for each
        row of the logical output (batch and M flattened); EPI_SAME: operand with the output's own
        strides. Or'd with EPI_SWAP the operand is the first argument.
    arg : int
        Index of the operand among the thunk's arguments; -1 for a unary step.
    ld : int
        Row stride of an EPI_FULL operand, in elements.
    size : int
        Bytes of an element of the operand.
    params : sequence of float
        The micro-kernel's parameters.
    """

    fn: int | EwRef
    kind: int = EPI_UNARY
    arg: int = -1
    ld: int = 0
    size: int = 4
    params: Sequence[float] = ()


@dataclass(frozen=True)
class Plan:
    """What a thunk needs: kernel, attributes, extent, grain, workspace and cost.

    `workspace` is the bytes of one thread's block (0: leave the operand absent); allocate
    `threads` times that; the attribute `work_stride` is already set to it.
    `cost` is nanoseconds on one core.
    """

    kernel: str
    attrs: dict[str, AttrValue]
    extent: int
    grain: int
    workspace: int
    cost: int


def level_of(kernel: str, level: str | None = None) -> str:
    """ISA level of the kernel that won."""
    return kernels.table(level).kernel(kernel).level


def panel(dtype: str = "f32", level: str | None = None) -> tuple[int, int]:
    """Rows of the tallest micro-kernel and columns of a packed panel."""
    name = level_of(f"matmul.{dtype}", level)
    return (14 if name == "avx512" else 6), _VECTOR_BYTES[name] // ITEM_SIZE[dtype]


def packed_bytes(k: int, n: int, dtype: str = "f32", level: str | None = None) -> int:
    """Bytes of a K x N matrix packed by `pack_b`: ceil(N / NR) panels of K rows of NR."""
    nr = panel(dtype, level)[1]
    return -(-n // nr) * nr * k * ITEM_SIZE[dtype]


def plan_pack(
    k: int,
    n: int,
    *,
    ldb: int | None = None,
    trans: bool = False,
    groups: int = 1,
    group_stride: int | None = None,
    dtype: str = "f32",
    level: str | None = None,
) -> Plan:
    """Plan `pack_b`: `groups` matrices K x N, or N x K if `trans`; args: source, packed.

    A group is packed to `packed_bytes(k, n)`; groups follow one another.
    """
    nr = panel(dtype, level)[1]
    attrs: dict[str, AttrValue] = {
        "K": k,
        "N": n,
        "ldb": ldb if ldb is not None else (k if trans else n),
        "trans": int(trans),
        "group_stride": group_stride if group_stride is not None else k * n,
    }
    cost = groups * k * n * ITEM_SIZE[dtype] / 8
    return Plan(f"pack_b.{dtype}", attrs, groups * -(-n // nr), 1, 0, int(cost) + 50)


def encode_steps(steps: Sequence[Step]) -> AttrValue:
    """Flatten epilogue steps to the list attribute `steps`."""
    words: list[AttrItem] = []
    for step in steps:
        words += [step.fn, step.kind, step.arg, step.ld, step.size, len(step.params)]
        words += [float(p) for p in step.params]
    return words


def _gemm_cost(m: int, n: int, k: int, batch: int, dtype: str, level: str) -> float:
    """Nanoseconds on one core: arithmetic or the read of B, whichever takes longer."""
    size = ITEM_SIZE[dtype]
    flops = 2.0 * m * n * k * size / 4
    return batch * max(flops / _FLOPS_PER_NS[level], size * n * k / _BYTES_PER_NS) + 60


def k_block(k: int) -> int:
    """K of one pass: equal parts of at most 384. It fixes the order of summation."""
    return max(1, -(-k // max(1, -(-k // _MAX_KC))))


def _split(total: int, parts: int, unit: int) -> int:
    """Size of the blocks when `total` is cut into about `parts` blocks of whole units."""
    units = -(-total // unit)
    return max(1, -(-units // max(1, parts))) * unit


def gemm_blocks(
    m: int, n: int, k: int, batch: int, *, mr: int, nr: int, size: int, cost: float,
    unpacked: bool = False, kc: int | None = None,
) -> tuple[int, int, int]:  # fmt: skip
    """Rows, columns and depth (mc, nc, kc) of a task; only kc influences the bits."""
    kc = kc or k_block(k)
    want = int(min(16, max(1, cost / _TASK_NS)))
    tiles = max(1, -(-m // mr))
    rows = max(1, -(-m // tiles))
    unit = (8 if m <= 3 else 4 if m <= 6 and mr > 6 else 6) * nr
    # Columns of B that stay in the second cache: through all of K, where that is wide enough for
    # A to be read seldom, else for one pass.
    column = size * (k if 2 * unit * k * size <= _L2_BLOCK[mr] else kc)
    nc = min(_split(n, -(-n * column // _L2_BLOCK[mr]), unit), -(-n // nr) * nr) or nr
    n_blocks = max(1, -(-n // nc))
    resident = k * nc * size <= _L2_BLOCK[mr] * 5 // 4
    # B comes from afar, or is packed by every task: then many rows must share it.
    fewest = -(-224 // mr) if unpacked else 1 if resident else -(-112 // mr)
    most = -(-896 // mr) if k <= kc else -(-224 // mr)
    m_blocks = -(-tiles // most)
    if batch * n_blocks * m_blocks < want:
        m_blocks = max(m_blocks, min(-(-tiles // fewest), -(-want // (batch * n_blocks))))
    mc = _split(tiles, m_blocks, 1) * rows
    m_blocks = max(1, -(-m // mc))
    if 2 * batch * n_blocks * m_blocks <= want:
        nc = min(nc, _split(n, -(-want // (batch * m_blocks)), min(unit, 4 * nr)))
    return mc, nc, kc


def plan_matmul(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "f32",
    lda: int | None = None,
    ldb: int | None = None,
    ldo: int | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    packed: bool = True,
    batch: Sequence[tuple[int, int, int, int]] = (),
    clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (),
    out_size: int | None = None,
    level: str | None = None,
) -> Plan:
    """Plan `matmul.<dtype>` (B packed by `pack_b`) or `matmul.<dtype>@unpacked`.

    Arguments of the thunk: a, b, out, bias [N] or absent, workspace or absent, then the operands
    of the epilogue (index 5 and up).

    Parameters
    ----------
    lda, ldb, ldo : int, optional
        Elements between rows of A, B and the output as they are stored (default: contiguous).
    trans_a, trans_b : bool
        A is stored [K, M]; B (unpacked) is stored [N, K].
    batch : sequence of (size, stride_a, stride_b, stride_out)
        Outer dimensions, outermost first, strides in elements (0 broadcasts); the stride of a
        packed B is `packed_bytes / item size`.
    clamp : (lo, hi), optional
        Applied in registers after the bias: relu is (0, inf). NaN stays NaN.
    steps : sequence of Step
        The rest of the epilogue.
    out_size : int, optional
        Bytes of an output element when the last step narrows.
    """
    size = ITEM_SIZE[dtype]
    suffix = "" if packed else "@unpacked"
    name = f"matmul.{dtype}{suffix}"
    isa = level_of(name, level)
    mr, nr = panel(dtype, level)
    items = math.prod(dim[0] for dim in batch)
    cost = _gemm_cost(m, n, k, items, dtype, isa)
    mc, nc, kc = gemm_blocks(
        m, n, k, max(1, items), mr=mr, nr=nr, size=size, cost=cost, unpacked=not packed
    )
    narrow = out_size is not None and out_size != size
    work = 0
    if trans_a:
        work += mr * kc
    if not packed:
        work += -(-nc // nr) * nr * kc
    if narrow:
        work += mc * nc
    work = -(-work * size // 64) * 64
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    attrs: dict[str, AttrValue] = {
        "M": m,
        "N": n,
        "K": k,
        "lda": lda if lda is not None else (m if trans_a else k),
        "ldb": ldb if ldb is not None else (k if trans_b else n),
        "ldo": ldo if ldo is not None else n,
        "trans_a": int(trans_a),
        "trans_b": int(trans_b),
        "mc": mc,
        "nc": nc,
        "kc": kc,
        "out_size": out_size if out_size is not None else size,
        "work_stride": work,
        "clamp": int(clamp is not None),
        "lo": lo,
        "hi": hi,
        "batch": [word for dim in batch for word in dim],
        "steps": encode_steps(steps),
    }
    extent = items * -(-m // mc) * -(-n // nc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, int(cost))


@dataclass(frozen=True)
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


def conv_geometry(s: ConvShape, ldi: int | None, ldo: int | None) -> dict[str, AttrValue]:
    """Attributes that say where pixels lie, common to all convolutions."""
    attrs: dict[str, AttrValue] = {
        "batch": s.batch,
        "groups": s.groups,
        "C": s.c,
        "OC": s.oc,
        "ldi": ldi if ldi is not None else s.groups * s.c,
        "ldo": ldo if ldo is not None else s.groups * s.oc,
    }
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


def conv_k_block(s: ConvShape, ldi: int | None = None) -> int:
    """K of one pass: whole kernel rows (or a part that divides one), about 512 to 768 terms."""
    merged = s.dilations[2] == 1 or s.kernel[2] == 1
    run = s.c * s.kernel[2] if merged and (ldi or s.groups * s.c) == s.c else s.c
    if run == 0:
        return 1
    if run <= 768:
        lines = s.depth // run
        return -(-lines // -(-lines // (768 // run))) * run
    fewest = -(-run // _MAX_KC)
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
    name = f"conv.{dtype}@nhwc"
    isa = level_of(name, level)
    mr, nr = panel(dtype, level)
    cost = 1.1 * _gemm_cost(s.rows, max(s.oc, nr), s.depth, s.groups, dtype, isa)
    mc, nc, kc = gemm_blocks(
        s.rows, s.oc, s.depth, s.groups, mr=mr, nr=nr, size=size, cost=min(cost, 8 * _TASK_NS),
        kc=conv_k_block(s, ldi),
    )  # fmt: skip
    if s.out[2] < mc and 3 * s.out[2] >= 2 * mr * -(-s.out[2] // mr):
        mc = round(mc / s.out[2]) * s.out[2]  # tiles end where output rows end
    narrow = out_size is not None and out_size != size
    work = mr * ((kc + 2 * nr - 1) // nr * nr) + (mc * nc if narrow else 0)
    work = -(-work * size // 64) * 64
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    attrs = conv_geometry(s, ldi, ldo) | {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        "out_size": out_size if out_size is not None else size,
        "work_stride": work,
        "clamp": int(clamp is not None),
        "lo": lo,
        "hi": hi,
        "steps": encode_steps(steps),
    }
    extent = s.groups * -(-s.rows // mc) * -(-s.oc // nc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, int(cost))


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
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    narrow = out_size is not None and out_size != size
    work = -(-14 * s.groups * s.oc * size // 64) * 64 if narrow else 0
    attrs = conv_geometry(s, ldi, ldo) | {
        "out_size": out_size if out_size is not None else size,
        "work_stride": work,
        "clamp": int(clamp is not None),
        "lo": lo,
        "hi": hi,
        "steps": encode_steps(steps),
    }
    channels = s.groups * s.oc
    cost = s.rows * channels * size / 4 * (2.0 * s.depth / (0.4 * _FLOPS_PER_NS[isa]) + 0.1)
    extent = s.batch * s.out[0] * s.out[1]
    grain = max(1, int(extent * _TASK_NS / max(1.0, cost)))
    return Plan(name, attrs, extent, grain if grain < extent else 0, work, int(cost) + 60)


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
    drop = ("batch", "ldi", "ldo")
    geometry = conv_geometry(s, None, None)
    attrs = {
        name: value
        for name, value in geometry.items()
        if name not in drop and not name.startswith(("in_", "out_"))
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
    cost = phases * _gemm_cost(-(-rows // phases), max(oc, nr), depth, s.groups, dtype, isa)
    kc = k_block(s.depth // merge)
    nc = max(nr, oc if merge > 1 else _split(oc, -(-oc * kc * size // _L2_BLOCK[mr]), nr))
    tasks = int(min(16, max(1, cost / _TASK_NS)))
    mc = max(mr, -(-rows // tasks))
    narrow = out_size is not None and out_size != size
    work = mr * ((kc + 2 * nr - 1) // nr * nr) + (mc * nc if narrow else 0)
    work += oc if merge > 1 else 0
    work = -(-work * size // 64) * 64
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    attrs = conv_geometry(s, ldi, ldo) | {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        "out_size": out_size if out_size is not None else size,
        "work_stride": work,
        "clamp": int(clamp is not None),
        "lo": lo,
        "hi": hi,
        "steps": encode_steps(steps),
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
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, int(cost))


def plan_matvec(
    m: int,
    k: int,
    *,
    dtype: str = "f32",
    lda: int | None = None,
    bias_scalar: bool = False,
    batch: Sequence[tuple[int, int, int, int]] = (),
    clamp: tuple[float, float] | None = None,
    steps: Sequence[Step] = (),
    level: str | None = None,
) -> Plan:
    """Plan `matvec`: out[i] = sum over k of a[i, k] x[k], for a product with N = 1, or with M = 1
    and B stored [N, K] that cannot be packed ahead.

    Arguments of the thunk: a (rows `lda` apart), x, out (contiguous), bias [M] (or one element if
    `bias_scalar`) or absent, absent, then the operands of the epilogue, for which the output is a
    row of M columns. `batch` is (size, stride_a, stride_x, stride_out).
    """
    name = f"matvec.{dtype}"
    isa = level_of(name, level)
    items = math.prod(dim[0] for dim in batch)
    cost = items * m * k * ITEM_SIZE[dtype] / _BYTES_PER_NS + 60
    blocks = int(min(16, max(1, cost / _TASK_NS)))
    mc = _split(m, -(-blocks // max(1, items)), 8)
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    attrs: dict[str, AttrValue] = {
        "M": m,
        "K": k,
        "lda": lda if lda is not None else k,
        "bias_step": int(not bias_scalar),
        "mc": mc,
        "clamp": int(clamp is not None),
        "lo": lo,
        "hi": hi,
        "batch": [word for dim in batch for word in dim],
        "steps": encode_steps(steps),
    }
    cost *= 2.0 if isa == "baseline" else 1.0
    extent = items * -(-m // mc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, 0, int(cost))
