"""Products whose weights are stored in half precision or float8: plans for gemm_half.c and gemm_float8.c."""

from typing import Any

from rlx.dtypes import BY_NAME
from rlx.lower import gemm, gemm_conv
from rlx.lower.gemm import Plan
from rlx.lower.gemm_conv import ConvShape
from rlx.records import replace

STORED = ("f16", "bf16", "f8e4m3fn", "f8e5m2")
# Products of more rows widen each block of B once; see gemm_half.c and gemm_float8.c.
DIRECT_ROWS = {"f16": 40, "bf16": 40, "f8e4m3fn": 10, "f8e5m2": 16}
WIDE_ROWS = 40  # likewise of a convolution's task; gemm_half_driver.h has the same number
# Up to so many rows the block is one that stays in the first cache: then widening it counts.
NARROW_ROWS = 96
NARROW_COLUMNS = 32


def packed_bytes(k: int, n: int, stored: str, level: str | None = None) -> int:
    """Bytes of a K x N matrix of a storage type packed by `pack_b`."""
    return gemm.packed_bytes(k, n, "f32", level) // (4 // BY_NAME[stored].itemsize)


def plan_pack(k: int, n: int, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan `pack_b` of a storage type; the arguments and options are those of `gemm.plan_pack`."""
    return replace(gemm.plan_pack(k, n, level=level, **options), kernel=f"pack_b.{stored}")


def plan_matmul(m: int, n: int, k: int, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan a product of A in f32 with B packed by `plan_pack`.

    Arguments of the thunk and options as in `gemm.plan_matmul`. The bits are those of the f32 product of
    the widened weights, however they are widened.
    """
    widen = m > DIRECT_ROWS[stored]
    plan = gemm.plan_matmul(m, n, k, packed=not widen, trans_b=widen, level=level, **options)
    if widen and m <= NARROW_ROWS:
        plan = _in_columns(plan, m, n, NARROW_COLUMNS, gemm.panel("f32", level)[0])
    return replace(plan, kernel=f"matmul.f32@{stored}")


def _in_columns(plan: Plan, m: int, n: int, columns: int, mr: int) -> Plan:
    """The plan cut into narrower blocks of columns."""
    at: dict[str, Any] = dict(plan.attrs)
    if at["nc"] <= columns:
        return plan
    mc, kc = at["mc"], at["kc"]
    work = kc * (columns + (mr if at["trans_a"] else 0)) + (mc * columns if at["out_size"] != 4 else 0)
    work = -(-work * 4 // 64) * 64
    items = plan.extent // (-(-m // mc) * -(-n // at["nc"])) if n else 0
    extent = items * -(-m // mc) * -(-n // columns)
    at |= {"nc": columns, "work_stride": work}
    return replace(plan, attrs=at, extent=extent, grain=1 if extent > 1 else 0, workspace=work)


def plan_conv(s: ConvShape, *, stored: str, level: str | None = None, **options: Any) -> Plan:
    """Plan a convolution over weights packed from a storage type; options as in `gemm_conv.plan_conv`."""
    if s.pointwise and s.groups == 1:
        ldi, ldo = options.pop("ldi", None), options.pop("ldo", None)
        options.pop("dtype", None)
        return plan_matmul(s.rows, s.oc, s.c, stored=stored, lda=ldi or s.c, ldo=ldo or s.oc, level=level, **options)
    plan = gemm_conv.plan_conv(s, level=level, **options)
    at: dict[str, Any] = dict(plan.attrs)
    work = plan.workspace
    if at["mc"] > WIDE_ROWS:  # a task widens its block of weights behind its other workspace
        nr = gemm.panel("f32", level)[1]
        work += -(-at["nc"] // nr) * nr * at["kc"] * 4
        at["work_stride"] = work
    return replace(plan, kernel=f"conv.f32@{stored}", attrs=at, workspace=work)
