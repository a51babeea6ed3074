"""Views, transposes, slices, expansions and concatenations, by strided copies.

A copy is described by a shape and, for each side, element strides and a start;
axes are merged and ordered here so that the kernel sees as few as possible.
"""

import math
from collections.abc import Sequence

from rlx import costs
from rlx.errors import LoweringError
from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axis
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, short
from rlx.lower.program import Operand
from rlx.lower.region import broadcast_strides
from rlx.ops.view import bounds, normal_stop


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a C-contiguous array."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def strided_copy(
    ctx: Context, itemsize: int, shape: Sequence[int], source: Operand, source_strides: Sequence[int],
    target: Operand, target_strides: Sequence[int], source_start: int = 0, target_start: int = 0,
) -> None:
    """Emit a copy of `shape` elements between two strided layouts."""
    dims: list[int] = []
    src: list[int] = []
    dst: list[int] = []
    for d, s, t in zip(shape, source_strides, target_strides, strict=True):
        if d == 1:
            continue
        if dims and src[-1] == s * d and dst[-1] == t * d:
            dims[-1], src[-1], dst[-1] = dims[-1] * d, s, t
        else:
            dims.append(d)
            src.append(s)
            dst.append(t)
    total = math.prod(shape)
    if total == 0:
        return
    if len(dims) > 32:
        raise LoweringError(f"copy: at most 32 axes of more than one index can be walked, got {len(dims)}")
    a = source.at(source_start * itemsize)
    b = target.at(target_start * itemsize)
    if not dims or (len(dims) == 1 and src[0] == 1 and dst[0] == 1):
        ctx.copy(a, b, total * itemsize)
        return
    # The kernel wants the axis along which the target is dense last, and the one
    # along which the source is dense before it.
    order = sorted(range(len(dims)), key=lambda i: (-abs(dst[i]), i))
    dense = [i for i in order[:-1] if abs(src[i]) == 1]
    if dense and abs(src[order[-1]]) != 1:
        order.remove(dense[-1])
        order.insert(len(order) - 1, dense[-1])
    dims, src, dst = ([v[i] for i in order] for v in (dims, src, dst))
    rows = math.prod(dims[:-1])
    ctx.call(
        f"strided.b{itemsize}", [ctx.read(source), ctx.write(target)],
        {"shape": dims, "src": src, "dst": dst, "src_start": source_start, "dst_start": target_start},
        extent=rows, grain=max(64, 4096 // dims[-1]), cost=2 * total * itemsize * costs.of().copy + 20,
    )


@lowering("reshape", "hold")
def lower_reshape(ctx: Context, node: Node) -> None:
    """The same bytes."""
    x = node.inputs[0]
    assert x is not None
    ctx.alias(node.outputs[0], ctx.operand(x))


@lowering("transpose")
def lower_transpose(ctx: Context, node: Node) -> None:
    """A strided copy, or a view when only axes of size 1 move."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    perm = node.attrs["perm"]
    shape = shape_of(x)
    kept = [p for p in perm if shape[p] != 1]
    if kept == sorted(kept):
        ctx.alias(out, ctx.operand(x))
        return
    strides = contiguous_strides(shape)
    target = shape_of(out)
    strided_copy(ctx, x.dtype.itemsize, target, ctx.operand(x), [strides[p] for p in perm],
                 ctx.result(out), contiguous_strides(target))


@lowering("expand")
def lower_expand(ctx: Context, node: Node) -> None:
    """A strided copy with strides of 0."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    target = shape_of(out)
    if math.prod(target) == math.prod(shape_of(x)):
        ctx.alias(out, ctx.operand(x))
        return
    strided_copy(ctx, x.dtype.itemsize, target, ctx.operand(x), broadcast_strides(shape_of(x), target),
                 ctx.result(out), contiguous_strides(target))


@lowering("slice")
def lower_slice(ctx: Context, node: Node) -> None:
    """A view when the slice is one contiguous piece, else a strided copy."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = shape_of(x)
    target = shape_of(out)
    strides = list(contiguous_strides(shape))
    start = 0
    axes = node.attrs["axes"] or tuple(range(len(node.attrs["starts"])))
    steps = node.attrs["steps"] or (1,) * len(axes)
    for axis, first, stop, step in zip(axes, node.attrs["starts"], node.attrs["stops"], steps, strict=True):
        axis = normal_axis(axis, len(shape), "slice")
        begin, _ = bounds(shape[axis], first, normal_stop(stop, step), step)
        start += begin * strides[axis] if target[axis] else 0
        strides[axis] *= step
    place = ctx.operand(x)
    if all(
        d == 1 or s == c for d, s, c in zip(target, strides, contiguous_strides(target), strict=True)
    ) or not nbytes_of(out):
        ctx.alias(out, place.at(start * x.dtype.itemsize))
        return
    strided_copy(ctx, x.dtype.itemsize, target, place, strides, ctx.result(out),
                 contiguous_strides(target), start)


@lowering("concat")
def lower_concat(ctx: Context, node: Node) -> None:
    """One strided copy per operand that does not lie there already (see `Context.result` and `rows_of`)."""
    out = node.outputs[0]
    place = ctx.places.get(out) or ctx.result(out)
    target = shape_of(out)
    axis = normal_axis(node.attrs["axis"], len(target), "concat")
    strides = contiguous_strides(target)
    start = 0
    for x in node.inputs:
        assert x is not None
        shape = shape_of(x)
        lies = ctx.operand(x)
        there = place.at(start * x.dtype.itemsize)
        dense = math.prod(target[:axis]) == 1 or _source(x) in ctx.strided
        if not (dense and lies.buffer is there.buffer and lies.offset == there.offset):
            strided_copy(ctx, x.dtype.itemsize, shape, lies, contiguous_strides(shape), place, strides, 0, start)
        start += shape[axis] * strides[axis]


def _source(value: Value) -> Value:
    """The value behind reshapes."""
    while value.node.op.name == "reshape" and value.node.inputs[0] is not None:
        value = value.node.inputs[0]
    return value


__all__ = ["contiguous_strides", "short", "strided_copy"]
