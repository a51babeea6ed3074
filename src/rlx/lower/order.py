"""Places of extrema, running sums, sorting, the k best, distinct values."""

from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axis
from rlx.lower.context import (
    Context,
    lowering,
    nbytes_of,
    per_thread,
    shape_of,
    size_of,
    split_axis,
)
from rlx.lower.movement import contiguous_strides, strided_copy
from rlx.lower.program import Arg
from rlx.lower.softmax import column_grain


def _x(node: Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    return x


@lowering("argmax", "argmin")
def lower_arg(ctx: Context, node: Node) -> None:
    """Rows, or neighbouring columns at once."""
    x, out = _x(node), node.outputs[0]
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    ctx.call(f"{node.op.name}.{x.dtype}", [ctx.read(x), ctx.write(out)],
             {"outer": outer, "n": n, "inner": inner, "select_last": node.attrs["select_last"]},
             extent=outer * inner, grain=column_grain(n, inner), cost=20 + size_of(x) * 0.3)


@lowering("cumsum", "cumprod", "cummax", "cummin")
def lower_cumulative(ctx: Context, node: Node) -> None:
    """Rows, or neighbouring columns at once."""
    x, out = _x(node), node.outputs[0]
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    ctx.call(f"{node.op.name}.{x.dtype}", [ctx.read(x), ctx.write(out)],
             {"outer": outer, "n": n, "inner": inner, "exclusive": node.attrs["exclusive"],
              "reverse": node.attrs["reverse"]},
             extent=outer * inner, grain=column_grain(n, inner), cost=20 + size_of(x) * 1.0, inplace=[(1, 0)])


def _entry_bytes(x: Value) -> int:
    """A sort key with its index."""
    return 8 if x.dtype.itemsize <= 4 else 16


def _sorting(ctx: Context, x: Value, n: int) -> tuple[Arg, int]:
    """Workspace of a sort of n elements, and its stride."""
    nbytes = 2 * n * _entry_bytes(x)
    return ctx.work(nbytes), per_thread(nbytes)


def _cost(x: Value, n: int) -> float:
    return 20 + size_of(x) * (4 + 2 * max(n, 1).bit_length())


@lowering("sort", "argsort")
def lower_sort(ctx: Context, node: Node) -> None:
    """One lane along the axis at a time."""
    x, out = _x(node), node.outputs[0]
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    work, stride = _sorting(ctx, x, n)
    values = ctx.write(out) if node.op.name == "sort" else None
    indices = None if node.op.name == "sort" else ctx.write(out)
    ctx.call(f"sort.{x.dtype}", [ctx.read(x), values, indices, work],
             {"outer": outer, "n": n, "inner": inner, "descending": node.attrs["descending"], "stride": stride},
             extent=outer * inner if n else 0, grain=max(1, 2048 // max(n, 1)), cost=_cost(x, n))


@lowering("topk")
def lower_topk(ctx: Context, node: Node) -> None:
    """One lane along the axis at a time, best first."""
    x = _x(node)
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    work, stride = _sorting(ctx, x, n)
    k = node.attrs["k"]
    ctx.call(f"top_k.{x.dtype}", [ctx.read(x), *(ctx.write(v) for v in node.outputs), work],
             {"outer": outer, "n": n, "inner": inner, "k": k, "largest": node.attrs["largest"], "stride": stride},
             extent=outer * inner if n and k else 0, grain=max(1, 2048 // max(n, 1)),
             cost=20 + size_of(x) * (min(n, k).bit_length() * 0.1 + 0.7))


@lowering("unique_bounded")
def lower_unique(ctx: Context, node: Node) -> None:
    """One call on one thread; along an axis, between copies that bring the slices together."""
    x = _x(node)
    axis = node.attrs["axis"]
    if axis is not None and x.rank > 1:
        _unique_slices(ctx, node, x, normal_axis(axis, x.rank, "unique"))
        return
    n = size_of(x)
    nbytes = 2 * n * _entry_bytes(x) + 16 * n
    work = ctx.temp(nbytes, "work")
    ctx.call(f"unique.{x.dtype}", [ctx.read(x), *(ctx.write(v) for v in node.outputs), Arg("x", work, nbytes)],
             {"n": n, "sorted": node.attrs["sorted"]}, extent=1, cost=_cost(x, n))


def _unique_slices(ctx: Context, node: Node, x: Value, axis: int) -> None:
    shape = shape_of(x)
    n = shape[axis]
    order = [axis, *(i for i in range(len(shape)) if i != axis)]
    rows = [shape[i] for i in order]
    there = [contiguous_strides(shape)[i] for i in order]
    itemsize, nbytes = x.dtype.itemsize, nbytes_of(x)
    source, target = ctx.operand(x), ctx.result(node.outputs[0])
    given, found = source, target
    if axis:
        given, found = ctx.temp(nbytes, "rows"), ctx.temp(nbytes, "distinct rows")
        strided_copy(ctx, itemsize, rows, source, there, given, contiguous_strides(rows))
    work = ctx.temp(24 * n, "work")
    rest = [*(ctx.write(v) for v in node.outputs[1:]), Arg("x", work, 24 * n)]
    ctx.call(f"unique_rows.{x.dtype}", [ctx.read(given, nbytes), ctx.write(found), *rest],
             {"n": n, "m": size_of(x) // max(n, 1), "sorted": node.attrs["sorted"]}, extent=1, cost=2 * _cost(x, n))
    if axis:
        strided_copy(ctx, itemsize, rows, found, contiguous_strides(rows), target, there)
