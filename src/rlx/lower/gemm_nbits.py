"""Products with weights of a few bits, decoded in the kernel; see gemm_nbits.c."""

import math
from typing import Any

from rlx.ir.graph import Node
from rlx.lower import gemm
from rlx.lower.context import Context, lowering, shape_of
from rlx.lower.gemm import Plan
from rlx.lower.matmul import epilogue_steps, rows_bytes
from rlx.lower.packing import packed
from rlx.lower.program import Arg, Transform
from rlx.records import replace

# Products of more rows decode each block of weights once, into the second cache.
FEW_ROWS, MORE_ROWS = 4, 8  # the second number with the registers of AVX-512
_HEAD = 128  # bytes of a workspace that say where the weights lie
_DEPTH = 384  # K of one pass: a multiple of what a word holds


def depth(k: int) -> int:
    """K of one pass; it fixes the order of summation."""
    return min(_DEPTH, -(-max(k, 1) // 16) * 16)


def words_of(k: int, bits: int) -> int:
    """32-bit words of the K codes of a column."""
    return -(-k * bits // 32)


def plan_matmul(m: int, n: int, k: int, *, bits: int, block: int, level: str | None = None, **options: Any) -> Plan:
    """Plan a product of A in f32 with codes.

    Arguments of the thunk: a, codes, out, bias [N] or absent, workspace, scales, zeros or absent, then the operands
    of the epilogue (index 7 and up). Options as in `gemm.plan_matmul`.

    Parameters
    ----------
    block : int
        Rows of B that share a scale: a multiple of the codes in a word, or at least K.
    """
    wide = m > (MORE_ROWS if gemm.level_of(f"matmul.f32@u{bits}", level) == "avx512" else FEW_ROWS)
    plan = gemm.plan_matmul(m, n, k, packed=not wide, trans_b=wide, kc=depth(k), level=level, **options)
    work = plan.workspace + _HEAD
    attrs = {**plan.attrs, "work_stride": work, "block": block}
    return replace(plan, kernel=f"matmul.f32@u{bits}", attrs=attrs, workspace=work)


def pack_words(words: int, n: int, level: str | None = None, row_bytes: int | None = None) -> Transform:
    """Rows [N, 4 * words bytes] to panels [ceil(N / NR)][words][NR] of words.

    `row_bytes`: bytes of a row where it is not whole words; what pads it is never used.
    """
    first = None
    if row_bytes is not None and row_bytes != 4 * words:
        first = Transform("strided.b1", {"shape": [n, row_bytes], "src": [row_bytes, 1], "dst": [4 * words, 1],
                                         "src_start": 0, "dst_start": 0},
                          4 * words * n, n, ("whole words", n, row_bytes))  # fmt: skip
    plan = gemm.plan_pack(words, n, trans=True, level=level)
    return Transform(plan.kernel, plan.attrs, gemm.packed_bytes(words, n, "f32", level), plan.extent,
                     ("words", level, words, n), first=first)  # fmt: skip


@lowering("matmul_nbits", "fused_matmul_nbits")
def lower_matmul_nbits(ctx: Context, node: Node) -> None:
    """One call; leading axes of a are rows."""
    a, codes, scale, zero, bias, *extras = [*node.inputs, None, None][: max(5, len(node.inputs))]
    assert a is not None and codes is not None and scale is not None
    out, at = node.outputs[0], node.attrs
    *leading, k = shape_of(a)
    m, n, bits = math.prod(leading), shape_of(codes)[0], at["bits"]
    blocks = shape_of(scale)[1]
    given = [e for e in extras if e is not None]
    steps, operands, clamp, last = epilogue_steps(ctx, given, at.get("epilogue", ()), a.dtype, shape_of(out), 7)
    plan = plan_matmul(m, n, k, bits=bits, block=min(at["block_size"], max(k, 1)), clamp=clamp, steps=steps,
                       out_size=last.itemsize, level=ctx.isa, ldo=None)  # fmt: skip
    zeros: Arg | None = None
    if zero is not None:
        zeros = ctx.read(packed(ctx, zero, pack_words(-(-blocks // 4), n, ctx.isa, blocks)))
    weights = packed(ctx, codes, pack_words(words_of(k, bits), n, ctx.isa, shape_of(codes)[1]))
    scales = packed(ctx, scale, pack_words(blocks, n, ctx.isa))
    target = ctx.result(out)
    ctx.call(
        plan.kernel,
        [ctx.read(a), ctx.read(weights), ctx.write(target, rows_bytes(out, target, ctx)), ctx.maybe(bias),
         ctx.work(plan.workspace), ctx.read(scales), zeros, *operands],
        plan.attrs, extent=plan.extent, grain=plan.grain, cost=plan.cost,
    )  # fmt: skip
