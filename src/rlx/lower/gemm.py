"""Numbers that lowering needs for the GEMM kernels, and what it shares with the convolutions.

Each `plan_*` function turns a problem's shape into the attributes of its kernel, the extent, and
the bytes of workspace each thread needs. Everything depends on the shape and the ISA level alone,
never on the number of threads.
"""

import math
from collections.abc import Sequence
from typing import Any

from rlx import costs
from rlx.ir.traced import each
from rlx.lower.program import AttrItem, AttrValue, EwRef
from rlx.records import record
from rlx.runtime import kernels

EPI_UNARY, EPI_ROW, EPI_FULL, EPI_SAME, EPI_SWAP = 0, 1, 2, 3, 8

ITEM_SIZE = {"f32": 4, "f64": 8}
_VECTOR_BYTES = {"baseline": 16, "avx2": 32, "avx512": 64}
MAX_KC = 384


@record(eq=False)
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


@record(eq=False)
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
        "group_stride": k * n,
    }
    cost = groups * k * n * ITEM_SIZE[dtype] / 8
    return Plan(f"pack_b.{dtype}", attrs, groups * -(-n // nr), 1, 0, math.trunc(cost) + 50)


def encode_steps(steps: Sequence[Step]) -> AttrValue:
    """Flatten epilogue steps to the list attribute `steps`."""
    words: list[AttrItem] = []
    for step in steps:
        words += [step.fn, step.kind, step.arg, step.ld, step.size, len(step.params)]
        words += [float(p) for p in step.params]
    return words


def limits(clamp: tuple[float, float] | None) -> dict[str, AttrValue]:
    """Attributes of limits that are applied in registers."""
    lo, hi = clamp if clamp is not None else (0.0, 0.0)
    return {"clamp": int(clamp is not None), "lo": lo, "hi": hi}


def thread_attrs(
    work: int, clamp: tuple[float, float] | None, steps: Sequence[Step]
) -> dict[str, AttrValue]:
    """Attributes of one thread's workspace, in bytes, and of what follows the sums: limits in registers, steps."""
    return {"work_stride": work, **limits(clamp), "steps": encode_steps(steps)}


def in_registers(
    steps: Sequence[Step], clamp: tuple[float, float] | None, dtype: str
) -> tuple[dict[str, AttrValue], Sequence[Step], tuple[float, float] | None]:
    """Take what a product does to its sums in registers from the head of an epilogue: the addition of an operand of
    the result's shape, and limits that follow it.

    Returns
    -------
    attrs : dict
        `addend`, the operand's argument or -1, and `ld_addend`.
    steps : sequence of Step
        The rest.
    clamp : (lo, hi) or None
    """
    first = steps[0] if steps else None
    kind = first.kind & ~EPI_SWAP if first else EPI_UNARY
    if first is None or clamp is not None or _micro(first) != f"add.{dtype}" or kind not in (EPI_FULL, EPI_SAME):
        return {"addend": -1, "ld_addend": 0}, steps, clamp
    steps = steps[1:]
    if steps and _micro(steps[0]) in (f"relu.{dtype}", f"clip.{dtype}"):
        lo, hi = steps[0].params or (0.0, math.inf)
        clamp, steps = (lo, hi), steps[1:]
    return {"addend": first.arg, "ld_addend": first.ld if kind == EPI_FULL else 0}, steps, clamp


def over_addend(plan: Plan) -> list[tuple[int, int]]:
    """The pair (result, added operand) of a product's arguments if they may be the same memory: each element is read
    by who writes it, right before, in the only pass over K."""
    at: dict[str, Any] = dict(plan.attrs)
    addend = at.get("addend", -1)
    if addend < 0 or at["kc"] < at["K"] or at["ldo"] != at["N"]:
        return []
    plain = at["ld_addend"] == 0 or (at["ld_addend"] == at["N"] and not at["batch"])
    return [(2, addend)] if plain else []


def _micro(step: Step) -> str:
    return step.fn.name if isinstance(step.fn, EwRef) else ""


def tail_attrs(
    size: int,
    work: int,
    clamp: tuple[float, float] | None,
    steps: Sequence[Step],
    out_size: int | None,
) -> dict[str, AttrValue]:
    """Attributes of what follows the sums: limits in registers, steps, a narrower result, workspace.

    Parameters
    ----------
    size : int
        Bytes of an element of the sums.
    work : int
        Bytes of one thread's workspace.
    """
    return {
        "out_size": out_size if out_size is not None else size,
        **thread_attrs(work, clamp, steps),
    }


def l2_block(mr: int) -> int:
    """Bytes of B that are meant to stay in the second cache, by the rows of the tallest micro-kernel."""
    return int(costs.of("avx512" if mr == 14 else "avx2").l2_block)


def task_ns() -> float:
    """Nanoseconds of the pieces that a thread takes at a time."""
    return costs.of().task_ns


def gemm_cost(m: int, n: int, k: int, batch: int, dtype: str, level: str) -> float:
    """Nanoseconds on one core: arithmetic or the read of B, whichever takes longer."""
    return batch * costs.product_ns(m, n, k, level, size=ITEM_SIZE[dtype]) + 60


def k_block(k: int) -> int:
    """K of one pass: equal parts of at most 384. It fixes the order of summation."""
    return max(1, -(-k // max(1, -(-k // MAX_KC))))


def split(total: int, parts: int, unit: int) -> int:
    """Size of the blocks when `total` is cut into about `parts` blocks of whole units."""
    units = -(-total // unit)
    return max(1, -(-units // max(1, parts))) * unit


def balanced(total: int, size: int, others: int = 1) -> int:
    """Size of the blocks of `total` units, half of `size` to `size`, with which two threads end together best.

    Parameters
    ----------
    others : int
        Tasks of each block.
    """
    return each(_balanced, total, size, others)[0]


def _balanced(total: int, size: int, others: int) -> tuple[int]:
    def longest(block: int) -> int:
        return -(-others * -(-total // block) // 2) * block

    tasks = others * -(-total // max(1, size))
    return (min(range(size, (size + 1) // 2 - 1, -1), key=longest) if 1 < tasks < 32 else size,)


def gemm_blocks(
    m: int, n: int, k: int, batch: int, *, mr: int, nr: int, size: int, cost: float,
    unpacked: bool = False, kc: int | None = None,
) -> tuple[int, int, int]:  # fmt: skip
    """Rows, columns and depth (mc, nc, kc) of a task; only kc influences the bits."""
    kc = kc or k_block(k)
    l2 = l2_block(mr)
    want = math.trunc(min(16, max(1, cost / task_ns())))
    tiles = max(1, -(-m // mr))
    rows = max(1, -(-m // tiles))
    unit = (8 if m <= 3 else 4 if m <= 6 and mr > 6 else 6) * nr
    # Columns of B that stay in the second cache: through all of K, where that is wide enough for
    # A to be read seldom, else for one pass.
    column = size * (k if 2 * unit * k * size <= l2 else kc)
    nc = min(split(n, -(-n * column // l2), unit), -(-n // nr) * nr) or nr
    n_blocks = max(1, -(-n // nc))
    resident = k * (nc if unpacked else n) * size <= l2 * 5 // 4
    # B comes from afar, or is packed by every task: then many rows must share it, and tasks differ in columns.
    fewest = -(-224 // mr) if unpacked else 1 if resident else -(-98 // mr)
    most = -(-896 // mr) if k <= kc else -(-224 // mr)
    m_blocks = -(-tiles // most)
    if 4 * batch * n_blocks * m_blocks <= 3 * want:
        m_blocks = max(m_blocks, min(-(-tiles // fewest), -(-want // (batch * n_blocks))))
    mc = split(tiles, m_blocks, 1) * rows
    m_blocks = max(1, -(-m // mc))
    tasks = batch * n_blocks * m_blocks
    # Columns that are cut read A once more: for nothing where the rows make 10 tasks, or, as a small B is read in place
    # with AVX-512, the matrices 12.
    enough = m_blocks >= 10 or (unpacked and mr > 6 and tasks >= 12)
    if 4 * tasks <= 3 * want and not enough:
        # tiles of 7 and 8 rows are 3 panels wide, others 2 or 4
        step = 3 * nr if mr > 6 and 7 <= rows <= 8 else min(unit, 4 * nr)
        nc = min(nc, split(n, -(-want // (batch * m_blocks)), step))
    n_blocks = max(1, -(-n // nc))
    if batch * m_blocks * n_blocks == 1 and want >= 8 and tiles >= 4 and not unpacked:
        mc, m_blocks = split(tiles, 2, 1) * rows, 2  # one task would leave the second thread idle
    if m_blocks > 1:
        mc = balanced(tiles, mc // rows, batch * n_blocks) * rows
    elif n_blocks > 1 and nc >= 8 * nr:
        nc = balanced(-(-n // nr), nc // nr, batch) * nr
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
    kc: int | None = None,
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
    kc : int, optional
        Depth of one pass, which fixes the order of summation (default: `k_block(k)`).
    """
    size = ITEM_SIZE[dtype]
    suffix = "" if packed else "@unpacked"
    name = f"matmul.{dtype}{suffix}"
    isa = level_of(name, level)
    mr, nr = panel(dtype, level)
    items = math.prod(dim[0] for dim in batch)
    cost = gemm_cost(m, n, k, items, dtype, isa)
    mc, nc, kc = gemm_blocks(
        m, n, k, max(1, items), mr=mr, nr=nr, size=size, cost=cost, unpacked=not packed, kc=kc
    )
    # With AVX-512, few terms of four panels are multiplied by 48 rows in one loop, 6 at a time.
    if mr > 6 and packed and k <= 128 and 3 * nr < nc <= 4 * nr and mc < m:
        mc = -(-mc // 48) * 48
    narrow = out_size is not None and out_size != size
    added, steps, clamp = in_registers(steps, clamp, dtype)
    work = 0
    if trans_a:
        work += mr * kc
    if not packed:
        work += -(-nc // nr) * nr * kc
    if narrow:
        work += mc * nc
    work = -(-work * size // 64) * 64
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
        "batch": [word for dim in batch for word in dim],
        **tail_attrs(size, work, clamp, steps, out_size),
        **added,
    }
    extent = items * -(-m // mc) * -(-n // nc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost))


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
    vectors: int = 1,
    ldx: int | None = None,
    ldo: int | None = None,
    stored: str | None = None,
    out_size: int | None = None,
    level: str | None = None,
) -> Plan:
    """Plan `matvec`: out[j, i] = sum over k of a[i, k] x[j, k], for a product with N = 1, or with few rows
    and B stored [N, K] that cannot be packed ahead.

    Arguments of the thunk: a (rows `lda` apart), x, out (contiguous), bias [M] (or one element if
    `bias_scalar`) or absent, workspace or absent, then the operands of the epilogue, for which the output is
    `vectors` rows of M columns. `batch` is (size, stride_a, stride_x, stride_out).

    Parameters
    ----------
    vectors : int
        How many x there are, 1 to 4, `ldx` elements apart; their results are `ldo` apart.
    stored : str, optional
        `f16` or `bf16` if a is stored so.
    """
    name = f"matvec.{dtype}" + (f"@{stored}" if stored else "")
    isa = level_of(name, level)
    items = math.prod(dim[0] for dim in batch)
    cost = items * m * k * (2 if stored else ITEM_SIZE[dtype]) / costs.of(level).read + 60
    blocks = math.trunc(min(16, max(1, cost / task_ns())))
    mc = split(m, -(-blocks // max(1, items)), 8)
    attrs: dict[str, AttrValue] = {
        "M": m,
        "K": k,
        "lda": lda if lda is not None else k,
        "bias_step": int(not bias_scalar),
        "mc": mc,
        **limits(clamp),
        "batch": [word for dim in batch for word in dim],
        "steps": encode_steps(steps),
        "X": vectors,
        "ldx": ldx if ldx is not None else k,
        "ldo": ldo if ldo is not None else m,
        "out_size": out_size if out_size is not None else ITEM_SIZE[dtype],
    }
    narrow = out_size is not None and out_size != ITEM_SIZE[dtype]
    work = -(-vectors * mc * ITEM_SIZE[dtype] // 64) * 64 if narrow else 0
    attrs["work_stride"] = work
    cost *= 2.0 if isa == "baseline" else 1.0
    extent = items * -(-m // mc)
    return Plan(name, attrs, extent, 1 if extent > 1 else 0, work, math.trunc(cost))
