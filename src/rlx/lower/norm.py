"""Normalisations: one call each."""

import math

from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axes, normal_axis
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, size_of, split_axis
from rlx.lower.reduce import reduction_layout
from rlx.lower.softmax import column_grain

LINE_CHANNELS = 64  # neighbouring channels that one thread takes at least


def _x(node: Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    return x


def _cost(x: Value) -> float:
    return 20 + size_of(x) * (0.4 if x.dtype.itemsize == 4 else 0.9)


def _rows(x: Value, axis: int) -> tuple[int, int]:
    shape = shape_of(x)
    axis = normal_axis(axis, len(shape), "norm")
    return math.prod(shape[:axis]), math.prod(shape[axis:])


@lowering("layer_norm")
def lower_layer_norm(ctx: Context, node: Node) -> None:
    """Rows of the axes from `axis` on."""
    x, gamma, beta = _x(node), node.inputs[1], node.inputs[2]
    rows, n = _rows(x, node.attrs["axis"])
    args = [ctx.read(x), ctx.maybe(gamma), ctx.maybe(beta), None, None, ctx.write(node.outputs[0])]
    ctx.call(f"layer_norm.{x.dtype}", args, {"n": n, "eps": node.attrs["eps"]}, extent=rows,
             grain=max(1, 2048 // max(n, 1)), cost=_cost(x), inplace=[(5, 0)])


@lowering("rms_norm")
def lower_rms_norm(ctx: Context, node: Node) -> None:
    """Rows of the axes from `axis` on."""
    x = _x(node)
    rows, n = _rows(x, node.attrs["axis"])
    args = [ctx.read(x), ctx.maybe(node.inputs[1]), None, ctx.write(node.outputs[0])]
    ctx.call(f"rms_norm.{x.dtype}", args, {"n": n, "eps": node.attrs["eps"]}, extent=rows,
             grain=max(1, 2048 // max(n, 1)), cost=_cost(x), inplace=[(3, 0)])


@lowering("add_norm")
def lower_add_norm(ctx: Context, node: Node) -> None:
    """Sum and norm in one pass; the sum is written only if somebody reads it."""
    x, residual, gamma, beta, bias = node.inputs
    assert x is not None and residual is not None
    out, total = node.outputs
    rows, n = _rows(x, -1)
    wanted = bool(ctx.uses.get(total)) or any(v is total for v in ctx.graph.outputs.values())
    kept = ctx.write(total) if wanted else None
    common = {"n": n, "eps": node.attrs["eps"]}
    grain = max(1, 2048 // max(n, 1))
    if node.attrs["kind"] == "rms":
        extra = [ctx.maybe(gamma), ctx.read(residual)]
    else:
        extra = [ctx.maybe(v) for v in (gamma, beta, residual, bias)]
    args = [ctx.read(x), *extra, ctx.write(out), kept]
    at_out, at_residual = len(extra) + 1, 2 if node.attrs["kind"] == "rms" else 3
    shared = [(at_out, at_residual), (at_out, 0)] if kept is None else [(at_out + 1, 0), (at_out, at_residual)]
    ctx.call(f"{node.attrs['kind']}_norm.{x.dtype}", args, common, extent=rows, grain=grain, cost=_cost(x) * 1.5,
             inplace=shared)


def _channels(x: Value, layout: str) -> tuple[int, int, int]:
    """(batch, channels, inner)."""
    shape = shape_of(x)
    if layout == "nchw":
        return shape[0], shape[1], math.prod(shape[2:])
    return shape[0], shape[-1], math.prod(shape[1:-1])


@lowering("group_norm")
def lower_group_norm(ctx: Context, node: Node) -> None:
    """One item per batch entry and group."""
    x = _x(node)
    batch, channels, inner = _channels(x, node.attrs["layout"])
    groups = node.attrs["num_groups"]
    suffix = "" if node.attrs["layout"] == "nchw" else "@channels_last"
    args = [ctx.read(x), ctx.maybe(node.inputs[1]), ctx.maybe(node.inputs[2]), ctx.write(node.outputs[0])]
    ctx.call(f"group_norm.{x.dtype}{suffix}", args,
             {"groups": groups, "channels": channels, "inner": inner, "eps": node.attrs["eps"]},
             extent=batch * groups if size_of(x) else 0,
             # channels last, threads must not write to the same cache lines
             grain=max(1, LINE_CHANNELS * groups // max(channels, 1)) if suffix else 1, cost=_cost(x))


@lowering("batch_norm")
def lower_batch_norm(ctx: Context, node: Node) -> None:
    """A scale and a shift per channel."""
    x = _x(node)
    batch, channels, inner = _channels(x, node.attrs["layout"])
    if node.attrs["layout"] == "nhwc":
        batch, inner = batch * inner, 1
    extent = batch if inner == 1 else batch * channels
    per_item = channels if inner == 1 else inner
    args = [*(ctx.maybe(v) for v in node.inputs), ctx.write(node.outputs[0])]
    ctx.call(f"batch_norm.{x.dtype}", args,
             {"outer": batch, "channels": channels, "inner": inner, "eps": node.attrs["eps"]},
             extent=extent if size_of(x) else 0, grain=max(1, 2048 // max(per_item, 1)), cost=_cost(x))


@lowering("lrn")
def lower_lrn(ctx: Context, node: Node) -> None:
    """One item per channel."""
    x = _x(node)
    batch, channels, inner = _channels(x, "nchw")
    attrs = {k: node.attrs[k] for k in ("size", "alpha", "beta", "bias")}
    ctx.call(f"lrn.{x.dtype}", [ctx.read(x), ctx.write(node.outputs[0])],
             {"outer": batch, "channels": channels, "inner": inner, **attrs},
             extent=batch * channels if inner else 0, grain=max(1, 4096 // max(inner, 1)), cost=20 + size_of(x) * 5)


@lowering("moments")
def lower_moments(ctx: Context, node: Node) -> None:
    """Mean and variance in one call."""
    x = _x(node)
    mean, var = node.outputs
    if size_of(mean) == 0:
        ctx.result(mean)
        ctx.result(var)
        return
    source, sizes = reduction_layout(ctx, x, normal_axes(node.attrs["axes"], x.rank, "moments"))
    outer, r1, mid, r2, inner = sizes if len(sizes) == 5 else (sizes[0], 1, 1, sizes[1], sizes[2])
    ctx.call(f"moments.{x.dtype}", [ctx.read(source, nbytes_of(x)), ctx.write(mean), ctx.write(var)],
             {"outer": outer, "r1": r1, "mid": mid, "r2": r2, "inner": inner}, extent=outer * mid * inner,
             grain=column_grain(r1 * r2, inner), cost=_cost(x))


@lowering("lp_norm")
def lower_lp_norm(ctx: Context, node: Node) -> None:
    """Rows, or registers of columns."""
    x = _x(node)
    outer, n, inner = split_axis(shape_of(x), node.attrs["axis"])
    ctx.call(f"lp_norm.{x.dtype}", [ctx.read(x), ctx.write(node.outputs[0])],
             {"outer": outer, "n": n, "inner": inner, "p": node.attrs["p"], "eps": node.attrs["eps"]},
             extent=outer * inner, grain=column_grain(n, inner), cost=_cost(x))
