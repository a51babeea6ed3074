"""Pooling: one call each, channels first or last."""

import math
from collections.abc import Sequence
from typing import Any

from rlx.dtypes import f32
from rlx.ir.graph import Node, Value
from rlx.lower.context import Context, lowering, shape_of, size_of
from rlx.ops.pool import pool_geometry


def _geometry(node: Node, layout: str) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    at = node.attrs
    g = pool_geometry(node.op.name, x.rank, at["kernel"], at["strides"], at["pads"], at["dilations"])
    n = x.rank - 2
    first = 2 if layout == "nchw" else 1
    places = shape_of(out)[first : first + n]
    attrs = {"in": shape_of(x)[first : first + n], "out": places, "kernel": at["kernel"], "stride": g.strides,
             "dilation": g.dilations, "begin": g.pads[:n]}
    return attrs, places, g.pads[n:]


_LANES = 16  # the most planes that are pooled at a time
_LONGEST_ROW = 64  # of such planes, PLANE_WIDTH


def _cost(node: Node, *, in_lanes: bool = False) -> float:
    taps = math.prod(node.attrs["kernel"])
    last = 0.45 if in_lanes or node.attrs.get("layout") == "nhwc" else 1.0  # whole registers of channels
    return float(20 + size_of(node.outputs[0]) * (taps * 0.15 + 0.5) * last)


@lowering("max_pool", "avg_pool", "lp_pool")
def lower_pool(ctx: Context, node: Node) -> None:
    """Rows of the result (channels first) or places with all their channels (channels last)."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    layout = node.attrs["layout"]
    attrs, places, after = _geometry(node, layout)
    shape = shape_of(x)
    kind = node.op.name.removesuffix("_pool")
    if kind == "avg":
        attrs |= {"end": after, "include_pad": node.attrs["count_include_pad"]}
    elif kind == "lp":
        attrs["p"] = node.attrs["p"]
    in_lanes, rows = False, math.prod(places[:-1])
    if layout == "nchw":
        extent, suffix, run = shape[0] * shape[1] * rows, "first", places[-1]
        in_lanes = x.dtype == f32 and kind != "lp" and shape[-1] <= _LONGEST_ROW and size_of(out) > 0
    else:
        extent, suffix, run = shape[0] * rows * places[-1], "last", shape[-1]
        attrs["channels"] = shape[-1]
    if size_of(out) == 0:
        extent = 0
    elif kind == "max" and layout == "nhwc" and _is_separable(node.attrs["kernel"]):
        _separated(ctx, x, out, attrs)
        return
    grain = max(1, 4096 // max(run, 1))
    if in_lanes:
        grain = -(-grain // (rows * _LANES)) * rows * _LANES
    ctx.call(f"pool_{kind}.{x.dtype}@{suffix}", [ctx.read(x), ctx.write(out)], attrs, extent=extent,
             grain=grain, cost=_cost(node, in_lanes=in_lanes) * (10 if kind == "lp" else 1))


def _is_separable(kernel: Sequence[int]) -> bool:
    """Whether an axis at a time reads much less than whole windows."""
    return len([k for k in kernel if k > 1]) > 1 and math.prod(kernel) >= 2 * sum(kernel)


def _separated(ctx: Context, x: Value, out: Value, attrs: dict[str, Any]) -> None:
    """Maxima along one axis after the other, the last one first; exact, as a maximum does not round."""
    sizes = list(attrs["in"])
    batch, channels = shape_of(x)[0], attrs["channels"]
    source = ctx.operand(x)
    steps = [d for d in reversed(range(len(sizes))) if (attrs["kernel"][d], attrs["stride"][d]) != (1, 1)]
    for d in steps:
        before = batch * math.prod(sizes) * channels * x.dtype.itemsize
        one = {k: tuple(v if i == d else filler for i, v in enumerate(attrs[k]))
               for k, filler in (("kernel", 1), ("stride", 1), ("dilation", 1), ("begin", 0))}
        given = tuple(sizes)
        sizes[d] = attrs["out"][d]
        places = batch * math.prod(sizes)
        target = ctx.result(out) if d == steps[-1] else ctx.temp(places * channels * x.dtype.itemsize, "maxima")
        ctx.call(f"pool_max.{x.dtype}@last", [ctx.read(source, before), ctx.write(target)],
                 {"channels": channels, "in": given, "out": tuple(sizes), **one}, extent=places,
                 grain=max(1, 4096 // max(channels, 1)),
                 cost=20 + places * channels * (attrs["kernel"][d] * 0.02 + 0.06))
        source = target


@lowering("max_pool_indices")
def lower_max_pool_indices(ctx: Context, node: Node) -> None:
    """The maximum and where it was, channels first."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    attrs, places, _ = _geometry(node, "nchw")
    shape = shape_of(x)
    ctx.call(f"pool_max_index.{x.dtype}@first", [ctx.read(x), *(ctx.write(v) for v in node.outputs)],
             {**attrs, "column_major": node.attrs["storage_order"]},
             extent=shape[0] * shape[1] * math.prod(places[:-1]) if size_of(out) else 0,
             grain=max(1, 2048 // max(places[-1], 1)), cost=4 * _cost(node))
