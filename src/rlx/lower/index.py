"""Gathers, scatters, one-hot, sorted search; nonzero and compress at their largest size."""

import math

from rlx import costs
from rlx.dtypes import DType
from rlx.errors import LoweringError
from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axis
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, short, size_of, split_axis
from rlx.lower.movement import contiguous_strides

MAX_RANK = 32  # of the kernels


def _operands(node: Node) -> tuple[Value, ...]:
    return tuple(v for v in node.inputs if v is not None)


@lowering("gather")
def lower_gather(ctx: Context, node: Node) -> None:
    """One call over outer * indices rows."""
    x, indices = _operands(node)
    out = node.outputs[0]
    outer, dim, inner = split_axis(shape_of(x), node.attrs["axis"])
    n = size_of(indices)
    ctx.call(f"gather.{short(x.dtype)}@{indices.dtype}", [ctx.read(x), ctx.read(indices), ctx.write(out)],
             {"outer": outer, "dim": dim, "n": n, "inner": inner}, extent=outer * n,
             grain=max(1, 2048 // max(inner, 1)), cost=20 + outer * n * 0.5 + nbytes_of(out) * costs.of().copy)


def _lanes(x: Value, indices: Value, axis: int) -> tuple[int, list[int], list[int]]:
    """(axis, sizes of the indices, strides of x) without axes of one index, which have no say."""
    axis = normal_axis(axis, x.rank, "elements")
    strides = contiguous_strides(shape_of(x))
    kept = [i for i, n in enumerate(shape_of(indices)) if n != 1 or i == axis]
    return kept.index(axis), [shape_of(indices)[i] for i in kept], [strides[i] for i in kept]


@lowering("gather_elements")
def lower_gather_elements(ctx: Context, node: Node) -> None:
    """One call over rows of the indices."""
    x, indices = _operands(node)
    out = node.outputs[0]
    axis, shape, strides = _lanes(x, indices, node.attrs["axis"])
    rows = math.prod(shape[:-1])
    ctx.call(f"gather_elements.{short(x.dtype)}@{indices.dtype}", [ctx.read(x), ctx.read(indices), ctx.write(out)],
             {"axis": axis, "dim": split_axis(shape_of(x), node.attrs["axis"])[1], "shape": shape, "stride": strides},
             extent=rows, grain=max(1, 2048 // max(shape[-1], 1)), cost=20 + size_of(out) * 1.5)


@lowering("gather_nd")
def lower_gather_nd(ctx: Context, node: Node) -> None:
    """One call over the index tuples."""
    x, indices = _operands(node)
    out = node.outputs[0]
    b, k = node.attrs["batch_dims"], shape_of(indices)[-1]
    shape = shape_of(x)
    batch, n, inner = math.prod(shape[:b]), math.prod(shape_of(indices)[b:-1]), math.prod(shape[b + k :])
    ctx.call(f"gather_nd.{short(x.dtype)}@{indices.dtype}", [ctx.read(x), ctx.read(indices), ctx.write(out)],
             {"batch": batch, "n": n, "inner": inner, "dims": shape[b : b + k]}, extent=batch * n,
             grain=max(1, 2048 // max(inner, 1)), cost=20 + batch * n * (2 + k) + nbytes_of(out) * 0.15)


def _scatter_kernel(node: Node, dtype: DType, index: DType) -> str:
    reduction = node.attrs["reduction"]
    if reduction == "none":
        return f"{node.op.name}.{short(dtype)}@{index}"
    return f"{node.op.name}_{reduction}.{dtype}@{index}"


def copy_into_result(ctx: Context, x: Value, out: Value) -> None:
    """The result starts as a copy of x, or in x's own memory when x dies here."""
    nbytes = nbytes_of(x)
    ctx.call("copy.bytes", [ctx.read(x), ctx.write(out)], extent=nbytes, grain=65536, cost=nbytes * costs.of().copy / 2,
             inplace=[(1, 0)])


@lowering("scatter_elements")
def lower_scatter_elements(ctx: Context, node: Node) -> None:
    """A copy, then the updates into it."""
    x, indices, updates = _operands(node)
    out = node.outputs[0]
    copy_into_result(ctx, x, out)
    axis, shape, strides = _lanes(x, indices, node.attrs["axis"])
    lanes = math.prod(shape) // shape[axis] if shape[axis] else 0
    ctx.call(_scatter_kernel(node, x.dtype, indices.dtype), [ctx.read(indices), ctx.read(updates), ctx.write(out)],
             {"axis": axis, "dim": split_axis(shape_of(x), node.attrs["axis"])[1], "shape": shape, "stride": strides},
             extent=lanes, grain=max(1, 2048 // max(shape[axis], 1)), cost=20 + size_of(indices) * 2)


@lowering("scatter_nd")
def lower_scatter_nd(ctx: Context, node: Node) -> None:
    """A copy, then the updates into it; the range is cut across the slices."""
    x, indices, updates = _operands(node)
    out = node.outputs[0]
    copy_into_result(ctx, x, out)
    k = shape_of(indices)[-1]
    n, inner = math.prod(shape_of(indices)[:-1]), math.prod(shape_of(x)[k:])
    ctx.call(_scatter_kernel(node, x.dtype, indices.dtype), [ctx.read(indices), ctx.read(updates), ctx.write(out)],
             {"n": n, "inner": inner, "dims": shape_of(x)[:k]}, extent=inner, grain=1024,
             cost=20 + n * (2 + k) + nbytes_of(updates) * 0.2)


@lowering("one_hot")
def lower_one_hot(ctx: Context, node: Node) -> None:
    """One call over outer * depth rows."""
    indices, values = _operands(node)
    out = node.outputs[0]
    outer, depth, inner = split_axis(shape_of(out), normal_axis(node.attrs["axis"], out.rank, "one_hot"))
    ctx.call(f"one_hot.{short(out.dtype)}@{indices.dtype}", [ctx.read(indices), ctx.read(values), ctx.write(out)],
             {"outer": outer, "depth": depth, "inner": inner}, extent=outer * depth,
             grain=max(1, 2048 // max(inner, 1)), cost=20 + size_of(out) * (0.3 if inner == 1 else 1))


@lowering("search_sorted")
def lower_search_sorted(ctx: Context, node: Node) -> None:
    """One call over all values."""
    rows, values = _operands(node)
    out = node.outputs[0]
    n = shape_of(rows)[-1]
    shared = rows.rank == 1
    m = size_of(values) if shared else shape_of(values)[-1]
    ctx.call(f"search_sorted.{rows.dtype}", [ctx.read(rows), ctx.read(values), ctx.write(out)],
             {"n": n, "m": m, "shared": shared, "right": node.attrs["right"]}, extent=size_of(values), grain=512,
             cost=20 + size_of(values) * 4 * max(n, 2).bit_length())


@lowering("nonzero_bounded")
def lower_nonzero(ctx: Context, node: Node) -> None:
    """One call on one thread."""
    (x,) = _operands(node)
    out, counts = node.outputs
    if x.rank > MAX_RANK:
        raise LoweringError(f"nonzero: the rank must be at most {MAX_RANK}, got {x.rank}")
    ctx.call(f"nonzero.{x.dtype}", [ctx.read(x), ctx.write(out), ctx.write(counts)], {"shape": shape_of(x)},
             extent=1, cost=20 + size_of(x) * 3)


@lowering("compress_bounded")
def lower_compress(ctx: Context, node: Node) -> None:
    """One call on one thread."""
    x, condition = _operands(node)
    out, counts = node.outputs
    axis = node.attrs["axis"]
    shape = (size_of(x),) if axis is None else shape_of(x)
    outer, n, inner = split_axis(shape, axis or 0)
    ctx.call(f"compress.{short(x.dtype)}", [ctx.read(x), ctx.read(condition), ctx.write(out), ctx.write(counts)],
             {"outer": outer, "n": n, "inner": inner, "m": size_of(condition)}, extent=1,
             cost=20 + nbytes_of(x) * 0.3)


@lowering("lookup")
def lower_lookup(ctx: Context, node: Node) -> None:
    """A byte at a time."""
    x, table = _operands(node)
    out = node.outputs[0]
    ctx.call(f"lookup.b{out.dtype.itemsize}", [ctx.read(x), ctx.read(table), ctx.write(out)], {}, extent=size_of(x),
             grain=16384, cost=20 + size_of(x) * 0.27)
