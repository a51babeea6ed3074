"""Places of extrema, running sums, sorting, the k best, distinct values."""

from rlx.ir.graph import Node, Value
from rlx.lower.context import Context, lowering, per_thread, shape_of, size_of
from rlx.lower.index import split_axis
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
             extent=outer * inner if n and k else 0, grain=max(1, 2048 // max(n, 1)), cost=_cost(x, n))


@lowering("unique_bounded")
def lower_unique(ctx: Context, node: Node) -> None:
    """One call on one thread."""
    x = _x(node)
    n = size_of(x)
    values, first, inverse, counts, count = (ctx.write(v) for v in node.outputs)
    nbytes = 2 * n * _entry_bytes(x) + 16 * n
    work = ctx.temp(nbytes, "work")
    ctx.call(f"unique.{x.dtype}", [ctx.read(x), values, first, inverse, counts, count, Arg("x", work, nbytes)],
             {"n": n, "sorted": node.attrs["sorted"]}, extent=1, cost=_cost(x, n))
