"""Softmax and log-sum-exp: one call over [outer, n, inner]."""

from rlx.ir.graph import Node
from rlx.ir.types import normal_axes
from rlx.lower.context import Context, lowering, shape_of, size_of, split_axis


@lowering("softmax", "log_softmax")
def lower_softmax(ctx: Context, node: Node) -> None:
    """One call, a row or a register of columns at a time."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    ctx.call(f"{node.op.name}.{x.dtype}", [ctx.read(x), ctx.write(out)], {"outer": outer, "n": n, "inner": inner},
             extent=outer * inner, grain=column_grain(n, inner), cost=20 + size_of(x) * _cost(x.dtype.itemsize),
             inplace=[(1, 0)])


@lowering("reduce_log_sum_exp")
def lower_log_sum_exp(ctx: Context, node: Node) -> None:
    """One call; axes that are not neighbours are brought together first."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    if size_of(out) == 0:
        ctx.result(out)
        return
    from rlx.lower.reduce import reduction_layout

    axes = normal_axes(node.attrs["axes"], x.rank, node.op.name)
    source, (outer, n, inner) = reduction_layout(ctx, x, axes, most=3)
    ctx.call(f"log_sum_exp.{x.dtype}", [ctx.read(source, size_of(x) * x.dtype.itemsize), ctx.write(out)],
             {"outer": outer, "n": n, "inner": inner}, extent=outer * inner, grain=column_grain(n, inner),
             cost=20 + size_of(x) * _cost(x.dtype.itemsize))


def _cost(itemsize: int) -> float:
    return 0.5 if itemsize == 4 else 2.0


def column_grain(n: int, inner: int) -> int:
    """About two thousand elements, whole registers of columns."""
    rows = max(1, 2048 // max(n, 1))
    return rows if inner == 1 else max(16, rows // 16 * 16)
