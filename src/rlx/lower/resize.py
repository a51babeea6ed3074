"""Resampling of one axis by a table."""

from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, shape_of, size_of, split_axis


@lowering("resample")
def lower_resample(ctx: Context, node: Node) -> None:
    """One call over the results along the axis."""
    x, places, weights = node.inputs
    assert x is not None and places is not None and weights is not None
    out = node.outputs[0]
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    taps, m = shape_of(places)
    each = 0.4 if inner == 1 else 0.15
    ctx.call(f"resample.{x.dtype}", [ctx.read(x), ctx.read(places), ctx.read(weights), ctx.write(out)],
             {"n": n, "m": m, "inner": inner, "taps": taps}, extent=outer * m, grain=max(1, 2048 // max(inner, 1)),
             cost=20 + size_of(out) * (taps * each + 0.3))
