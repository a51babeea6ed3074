"""Reductions: axes are merged so that one call sees [outer, r1, mid, r2, inner]."""

import math
from collections.abc import Sequence

from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axes
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, size_of
from rlx.lower.movement import contiguous_strides, strided_copy
from rlx.lower.program import Operand

# A reduction of more bytes than this into fewer than FEW pieces is done in two steps.
SPLIT_BYTES = 1 << 18
FEW = 16
TILE = 64
BLOCK = 1 << 15

_F64_SUMS = frozenset(
    {"reduce_sum", "reduce_sum_square", "reduce_l1", "reduce_prod", "reduce_mean", "reduce_l2", "reduce_log_sum"}
)


def merged(shape: Sequence[int], axes: Sequence[int]) -> list[tuple[bool, int]]:
    """(reduced?, size) of the groups of neighbouring axes of one kind; axes of size 1 vanish."""
    groups: list[tuple[bool, int]] = []
    for i, d in enumerate(shape):
        if d == 1:
            continue
        kind = i in axes
        if groups and groups[-1][0] == kind:
            groups[-1] = (kind, groups[-1][1] * d)
        else:
            groups.append((kind, d))
    return groups


def alternating(groups: Sequence[tuple[bool, int]]) -> list[int]:
    """Sizes of kept, reduced, kept, ... groups, from a kept to a kept one (1 where there is none)."""
    sizes = [d for _, d in groups]
    if not groups or groups[0][0]:
        sizes.insert(0, 1)
    if len(sizes) % 2 == 0:
        sizes.append(1)
    if len(sizes) == 1:
        sizes += [1, 1]
    return sizes


def reduction_layout(ctx: Context, x: Value, axes: Sequence[int], most: int = 5) -> tuple[Operand, list[int]]:
    """Where the data lies and its alternating sizes, `most` of them at most; transposes what does not fit."""
    shape = shape_of(x)
    source = ctx.operand(x)
    sizes = alternating(merged(shape, axes))
    if len(sizes) <= most:
        return source, sizes
    itemsize = x.dtype.itemsize
    perm = [i for i in range(len(shape)) if i not in axes] + list(axes)
    strides = contiguous_strides(shape)
    target = [shape[p] for p in perm]
    place = ctx.temp(math.prod(shape) * itemsize, "reordered")
    strided_copy(ctx, itemsize, target, source, [strides[p] for p in perm], place, contiguous_strides(target))
    n = math.prod(shape[a] for a in axes)
    return place, [math.prod(d for i, d in enumerate(shape) if i not in axes), n, 1]


def _accumulator_bytes(op: str, dtype: str, itemsize: int) -> int:
    if dtype in ("f32", "f64"):
        return 8 if op in _F64_SUMS else itemsize
    return 8 if op == "reduce_mean" else itemsize


@lowering(
    "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_l1", "reduce_l2",
    "reduce_sum_square", "reduce_log_sum", "reduce_any", "reduce_all",
)  # fmt: skip
def lower_reduce(ctx: Context, node: Node) -> None:
    """One call, or two when few results gather much data."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    op = node.op.name
    axes = normal_axes(node.attrs["axes"], x.rank, op)
    if size_of(out) == 0:
        ctx.result(out)
        return
    dtype, itemsize = x.dtype.name, x.dtype.itemsize
    source, sizes = reduction_layout(ctx, x, axes)
    outer, r1, mid, r2, inner = sizes if len(sizes) == 5 else (sizes[0], 1, 1, sizes[1], sizes[2])
    if x.dtype.is_complex:  # real and imaginary parts are neighbours: one more kept axis
        dtype, itemsize, inner = ("f32" if itemsize == 8 else "f64"), itemsize // 2, inner * 2
    if op in ("reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min") and size_of(x) == size_of(out):
        ctx.alias(out, source)
        return
    kernel = f"{op}.{dtype}"
    nbytes = nbytes_of(x)
    cost = 20 + nbytes * 0.028 + size_of(out) * 0.5
    pieces = outer * -(-inner // TILE) if inner > 1 else outer
    if r1 == 1 and mid == 1 and nbytes > SPLIT_BYTES and pieces < FEW and ctx.has_kernel(f"{kernel}@split"):
        block = max(1, BLOCK // inner)
        blocks = -(-r2 // block)
        if blocks > 1:
            attrs = {"outer": outer, "r": r2, "inner": inner, "block": block}
            partial = ctx.temp(outer * blocks * inner * _accumulator_bytes(op, dtype, itemsize), "partial")
            ctx.call(f"{kernel}@split", [ctx.read(source, nbytes), ctx.write(partial)], attrs,
                     extent=outer * blocks, grain=1, cost=cost)  # fmt: skip
            ctx.call(f"{kernel}@join", [ctx.read(partial), ctx.write(out)], attrs, extent=outer * inner,
                     cost=20 + outer * blocks * inner * 2)  # fmt: skip
            return
    extent = outer * mid * inner
    grain = max(1, 4096 // max(1, r1 * r2))
    if inner > 1:
        grain = max(grain, min(TILE, inner))
    ctx.call(kernel, [ctx.read(source, nbytes), ctx.write(out)],
             {"outer": outer, "r1": r1, "mid": mid, "r2": r2, "inner": inner},
             extent=extent, grain=grain, cost=cost)  # fmt: skip
