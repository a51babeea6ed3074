"""Products whose weights are stored in half precision: plans for the kernels of gemm_half.c."""

from dataclasses import replace
from typing import Any

from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan
from rlx.lower.gemm_conv import ConvShape

STORED = ("f16", "bf16")
# Products of more rows widen each block of B once, in the second cache; see gemm_half.c.
DIRECT_ROWS = 40


def packed_bytes(k: int, n: int, level: str | None = None) -> int:
    """Bytes of a K x N matrix of halves packed by `pack_b`."""
    return gemm.packed_bytes(k, n, "f32", level) // 2


def plan_pack(k: int, n: int, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan `pack_b` of halves; the arguments and options are those of `gemm.plan_pack`."""
    return replace(gemm.plan_pack(k, n, level=level, **options), kernel=f"pack_b.{stored}")


def plan_matmul(m: int, n: int, k: int, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan a product of A in f32 with B packed by `plan_pack`.

    Arguments of the thunk and options as in `gemm.plan_matmul`. The bits are those of the f32 product of
    the widened weights, however they are widened.
    """
    widen = m > DIRECT_ROWS
    plan = gemm.plan_matmul(m, n, k, packed=not widen, trans_b=widen, level=level, **options)
    return replace(plan, kernel=f"matmul.f32@{stored}")


def plan_conv(s: ConvShape, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan a convolution over weights packed from halves; options as in `gemm_conv.plan_conv`."""
    if s.pointwise and s.groups == 1:
        ldi, ldo = options.pop("ldi", None), options.pop("ldo", None)
        options.pop("dtype", None)
        return plan_matmul(s.rows, s.oc, s.c, stored=stored, lda=ldi or s.c, ldo=ldo or s.oc, level=level, **options)
    return replace(gemm_conv.plan_conv(s, level=level, **options), kernel=f"conv.f32@{stored}")
