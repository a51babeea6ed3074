"""Matrix products: layouts to strides, operands packed ahead where they are weights, epilogues.

Every product becomes one kernel call over [batch..., M, K] x [batch..., K, N] described by
strides. Batch axes that share B are merged into M; axes that all operands walk as one are merged.
"""

import math
from collections.abc import Sequence
from typing import Any

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import LoweringError
from rlx.ir.graph import Node, Value
from rlx.lower import gemm, gemv
from rlx.lower.context import Context, lowering, nbytes_of, shape_of
from rlx.lower.movement import contiguous_strides, strided_copy
from rlx.lower.program import Arg, EwRef, Operand, Transform
from rlx.ops.matmul import Epilogue
from rlx.records import record

BLOCKED = (dtypes.f32, dtypes.f64)


@record(eq=False)
class Matrix:
    """An operand as the product sees it: logical shape, element strides, and where it lies."""

    value: Value | None
    place: Operand
    shape: list[int]
    strides: list[int]

    def batch(self, shape: Sequence[int]) -> list[int]:
        """Strides of the batch axes when broadcast to `shape`."""
        own = self.shape[:-2]
        missing = [0] * (len(shape) - len(own))
        return missing + [0 if d == 1 else s for d, s in zip(own, self.strides, strict=False)]


def _view(value: Value, place: Operand, perm: Sequence[int] | None) -> Matrix:
    shape = list(shape_of(value))
    strides = list(contiguous_strides(shape))
    if perm is not None:
        shape, strides = [shape[p] for p in perm], [strides[p] for p in perm]
    return Matrix(value, place, shape, strides)


def _rows(ctx: Context, x: Matrix, itemsize: int) -> tuple[bool, int]:
    """(transposed, leading stride) of the last two axes; copies what no kernel can walk."""
    rows, cols = x.shape[-2:]
    if x.strides[-1] == 1 or cols == 1:
        return False, x.strides[-2] if rows > 1 else cols
    if x.strides[-2] == 1 or rows == 1:
        return True, x.strides[-1]
    target = ctx.temp(math.prod(x.shape) * itemsize, "contiguous")
    strides = contiguous_strides(x.shape)
    strided_copy(ctx, itemsize, x.shape, x.place, x.strides, target, strides)
    x.value, x.place, x.strides = None, target, list(strides)
    return False, x.strides[-2]


def micro_name(op: str, attrs: dict[str, object], dtype: DType) -> str:
    """Micro-kernel of an epilogue step."""
    to = attrs.get("dtype")
    if op == "cast" and isinstance(to, DType):
        return f"cast_{to.name}.{dtype.name}"
    return f"{op}.{dtype.name}"


def epilogue_steps(
    ctx: Context, extras: Sequence[Value], epilogue: Epilogue, dtype: DType, out_shape: Sequence[int],
    first_arg: int, clamps: bool = True, permuted: bool = False,
) -> tuple[list[gemm.Step], list[Arg | None], tuple[float, float] | None, DType]:
    """Steps and operands of an epilogue; a leading relu or clip becomes a clamp in registers."""
    steps: list[gemm.Step] = []
    args: list[Arg | None] = []
    clamp: tuple[float, float] | None = None
    cols = out_shape[-1] if epilogue else 1
    for name, pairs, operand, swap in epilogue:
        attrs = dict(pairs)
        if clamps and not steps and clamp is None and name in ("relu", "clip") and dtype in BLOCKED:
            clamp = (0.0, math.inf) if name == "relu" else (attrs["lo"], attrs["hi"])
            continue
        params = [float(v) for v in attrs.values() if isinstance(v, (int, float))]
        fn = EwRef(micro_name(name, attrs, dtype))
        kind, arg, ld = gemm.EPI_UNARY, -1, 0
        if operand is not None:
            extra = extras[operand]
            row = math.prod(shape_of(extra)) == cols and shape_of(extra)[-1:] == (cols,)
            full = math.prod(shape_of(extra)) == math.prod(out_shape)
            kind = gemm.EPI_ROW if row or not full else gemm.EPI_SAME if permuted else gemm.EPI_FULL
            arg, ld = first_arg + len(args), cols
            args.append(ctx.read(extra))
            kind |= gemm.EPI_SWAP if swap else 0
        steps.append(gemm.Step(fn, kind, arg, ld, dtype.itemsize, params))
        if name == "cast":
            dtype = attrs["dtype"]
    return steps, args, clamp, dtype


@lowering("matmul")
def lower_matmul(ctx: Context, node: Node) -> None:
    """A product on its own."""
    a, b = node.inputs
    assert a is not None and b is not None
    _product(ctx, node, a, b, None, (), None, None, None, ())


@lowering("fused_matmul")
def lower_fused_matmul(ctx: Context, node: Node) -> None:
    """A product with what a pass put around it."""
    a, b, bias, *extras = (*node.inputs, None)[: max(3, len(node.inputs))]
    assert a is not None and b is not None
    at = node.attrs
    _product(ctx, node, a, b, bias, [e for e in extras if e is not None], at["perm_a"], at["perm_b"],
             at["perm_out"], at["epilogue"])


def _product(
    ctx: Context, node: Node, a_value: Value, b_value: Value, bias: Value | None, extras: Sequence[Value],
    perm_a: Sequence[int] | None, perm_b: Sequence[int] | None, perm_out: Sequence[int] | None, epilogue: Epilogue,
) -> None:
    out, dtype = node.outputs[0], a_value.dtype
    weight = ctx.is_weight(b_value) and _packable(perm_b) and dtype in BLOCKED and not _column(b_value, perm_b, dtype)
    a = _view(a_value, ctx.operand(a_value), perm_a)
    # a weight that is packed needs no plain copy: its place is never looked at
    b = _view(b_value, a.place if weight else ctx.operand(b_value), perm_b)
    # where each logical axis of the result lies
    out_shape = list(shape_of(out))
    if perm_out is None and len(out_shape) > 1 and dtype in BLOCKED:
        target, row = ctx.rows_of(out)
        out_strides = list(contiguous_strides([*out_shape[:-1], row]))
    else:
        target = ctx.result(out)
        out_strides = list(contiguous_strides(out_shape))
    if perm_out is not None:
        placed = list(out_strides)
        for i, p in enumerate(perm_out):
            placed[p] = out_strides[i]
        out_strides = placed
    if a_value.rank == 1:
        a.shape, a.strides = [1, *a.shape], [a.shape[0], *a.strides]
        out_strides.insert(len(out_strides) - (b_value.rank > 1), 0)
    if b_value.rank == 1:
        b.shape, b.strides = [*b.shape, 1], [*b.strides, 1]
        out_strides.append(1)
    m, k = a.shape[-2:]
    n = b.shape[-1]
    size = dtype.itemsize
    trans_a, lda = _rows(ctx, a, size)
    trans_b, ldb = _rows(ctx, b, b_value.dtype.itemsize) if not weight else (False, 0)
    rank = max(len(a.shape), len(b.shape)) - 2
    sizes = [max(x, y) if min(x, y) else 0 for x, y in zip(
        [1] * (rank + 2 - len(a.shape)) + a.shape[:-2], [1] * (rank + 2 - len(b.shape)) + b.shape[:-2], strict=True)]
    stored = b_value.dtype.name if b_value.dtype != dtype else None  # a storage type, widened in the kernel
    if weight:
        packed, stride = _pack(ctx, b, b_value.dtype, perm_b)
        b.place = packed
        b.strides = [s * stride for s in contiguous_strides(b.shape[:-2])] + [0, 0]
    ldo = out_strides[-2] if m > 1 else n
    dims = list(zip(sizes, a.batch(sizes), b.batch(sizes), out_strides[: rank], strict=True))
    dims = [d for d in dims if d[0] != 1]
    while dims and not trans_a and dims[-1][2] == 0 and (
            m == 1 or (dims[-1][1] == m * lda and dims[-1][3] == m * ldo)):
        d, stride_a, _, stride_out = dims.pop()
        if m == 1:
            lda, ldo = stride_a, stride_out
        m *= d
    merged: list[tuple[int, int, int, int]] = []
    for dim in dims:
        if merged and all(x == y * dim[0] for x, y in zip(merged[-1][1:], dim[1:], strict=True)):
            merged[-1] = (merged[-1][0] * dim[0], *dim[1:])
        else:
            merged.append(dim)
    if dtype not in BLOCKED:
        _plain(ctx, a, b, out, m, n, k, (lda, trans_a), (ldb, trans_b), ldo, merged, dtype)
        return
    steps, operands, clamp, last = epilogue_steps(
        ctx, extras, epilogue, dtype, out_shape, 5, permuted=perm_out is not None
    )
    if not weight:
        layout = gemv.Layout(m, n, k, lda, ldb, out_strides[-2] if m > 1 else n, trans_a, trans_b, merged)
        found = gemv.plan(layout, dtype.name, steps, clamp, last.itemsize, stored, ctx.isa)
        if found is not None:
            pair = [ctx.read(a.place, _extent(a, size)), ctx.read(b.place, _extent(b, b_value.dtype.itemsize))]
            vec, turned = found
            space = ctx.work(vec.workspace) if vec.workspace else None
            ctx.call(vec.kernel, [*(pair[::-1] if turned else pair),
                                  ctx.write(target, rows_bytes(out, target, ctx)), ctx.maybe(bias), space, *operands],
                     vec.attrs, extent=vec.extent, grain=vec.grain, cost=vec.cost)
            return
    options: dict[str, Any] = {
        "lda": lda, "ldo": ldo, "trans_a": trans_a, "batch": merged, "clamp": clamp, "steps": steps,
        "out_size": last.itemsize, "level": ctx.isa,
    }  # fmt: skip
    if stored is not None:
        if not weight:
            raise LoweringError(f"{node.place}: b in {stored} must be a weight, or stored [N, K] for few rows of a")
        from rlx.lower import gemm_half

        plan = gemm_half.plan_matmul(m, n, k, stored=stored, **options)
    else:
        plan = gemm.plan_matmul(m, n, k, dtype=dtype.name, ldb=None if weight else ldb, trans_b=trans_b,
                                packed=weight, **options)
    work = ctx.work(plan.workspace) if plan.workspace else None
    read_b = ctx.read(b.place) if weight else ctx.read(b.place, _extent(b, size))
    ctx.call(
        plan.kernel,
        [
            ctx.read(a.place, _extent(a, size)),
            read_b,
            ctx.write(target, rows_bytes(out, target, ctx)),
            ctx.maybe(bias),
            work,
            *operands,
        ],
        plan.attrs,
        extent=plan.extent,
        grain=plan.grain,
        cost=plan.cost,
        inplace=gemm.over_addend(plan),
    )


def _plain(
    ctx: Context, a: Matrix, b: Matrix, out: Value, m: int, n: int, k: int, at_a: tuple[int, bool],
    at_b: tuple[int, bool], ldo: int, batch: Sequence[tuple[int, int, int, int]], dtype: DType,
) -> None:
    """Integers and complex numbers: a kernel that walks any strides."""
    (a_m, a_k), (b_k, b_n) = ((1, ld) if trans else (ld, 1) for ld, trans in (at_a, at_b))
    name = f"matmul_plain.{dtype.name if dtype.is_complex else f'b{dtype.itemsize}'}"
    rows = m * math.prod(d[0] for d in batch)
    ctx.call(
        name,
        [ctx.read(a.place, _extent(a, dtype.itemsize)), ctx.read(b.place, _extent(b, dtype.itemsize)), ctx.write(out)],
        {
            "M": m,
            "N": n,
            "K": k,
            "a_m": a_m,
            "a_k": a_k,
            "b_k": b_k,
            "b_n": b_n,
            "o_m": ldo,
            "batch": [word for d in batch for word in d],
        },
        extent=rows,
        grain=max(1, 16384 // max(1, n * k)),
        cost=rows * n * k * 0.15 + 50,
    )


def rows_bytes(value: Value, place: Operand, ctx: Context) -> int:
    """Bytes that a result touches, gaps between its rows included."""
    if value in ctx.strided:
        return place.buffer.nbytes - place.offset if nbytes_of(value) else 0
    return nbytes_of(value)


def _extent(x: Matrix, size: int) -> int:
    """Bytes from the first to the last element."""
    if math.prod(x.shape) == 0:
        return 0
    return (1 + sum((d - 1) * s for d, s in zip(x.shape, x.strides, strict=True))) * size


def _column(b: Value, perm: Sequence[int] | None, dtype: DType) -> bool:
    """Whether b is a single column, which a panel would pad to a vector's width."""
    columns = shape_of(b)[-1 if perm is None else perm[-1]] if b.rank > 1 else 1
    return columns == 1 and b.dtype == dtype


def _packable(perm: Sequence[int] | None) -> bool:
    return perm is None or list(perm[:-2]) == list(range(len(perm) - 2))


def _pack(ctx: Context, b: Matrix, dtype: DType, perm: Sequence[int] | None) -> tuple[Operand, int]:
    """The weight packed ahead, and the elements of one packed matrix."""
    assert b.value is not None
    k, n = b.shape[-2:]
    groups = math.prod(b.shape[:-2])
    trans = perm is not None and list(perm) != list(range(len(perm)))
    if dtype.is_stored:
        from rlx.lower import gemm_half

        plan = gemm_half.plan_pack(k, n, trans=trans, groups=groups, stored=dtype.name, level=ctx.isa)
        nbytes = gemm_half.packed_bytes(k, n, dtype.name, ctx.isa)
    else:
        plan = gemm.plan_pack(k, n, trans=trans, groups=groups, dtype=dtype.name, level=ctx.isa)
        nbytes = gemm.packed_bytes(k, n, dtype.name, ctx.isa)
    key = (plan.kernel, ctx.isa, k, n, trans, groups)
    transform = Transform(plan.kernel, plan.attrs, nbytes * groups, plan.extent, key)
    return ctx.weight(b.value, transform), nbytes // dtype.itemsize
