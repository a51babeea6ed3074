"""Convolutions: channels-last kernels; weights are reordered and packed ahead where they are constant."""

import math
from collections.abc import Sequence
from typing import Any

from rlx.dtypes import DType, f32
from rlx.ir.graph import Node, Value
from rlx.lower import gemm, gemm_conv, winograd
from rlx.lower.context import Context, lowering, nbytes_of, shape_of
from rlx.lower.matmul import epilogue_steps
from rlx.lower.movement import contiguous_strides, strided_copy
from rlx.lower.packing import packed
from rlx.lower.program import Arg, AttrValue, Operand, Transform
from rlx.ops.conv import geometry
from rlx.records import replace

_FEW_ROWS = 4  # output channels of a group that do not fill a tile of a product


def channels_last_weights(shape: Sequence[int], dtype: DType) -> Transform | None:
    """[OC, C, kernel...] to [OC, kernel..., C]; None when the bytes are the same."""
    oc, c, taps = shape[0], shape[1], math.prod(shape[2:])
    if c == 1 or taps == 1 or oc * c * taps == 0:
        return None
    attrs: dict[str, AttrValue] = {
        "shape": [oc, taps, c],
        "src": [c * taps, 1, taps],
        "dst": [taps * c, c, 1],
        "src_start": 0,
        "dst_start": 0,
    }
    return Transform(f"strided.b{dtype.itemsize}", attrs, oc * c * taps * dtype.itemsize, oc * taps,
                     ("ohwi", oc, c, taps, dtype.itemsize))


def depthwise_weights(shape: Sequence[int], dtype: DType) -> Transform:
    """[OC, 1, kernel...] to [kernel..., OC]."""
    oc, taps = shape[0], math.prod(shape[2:])
    attrs: dict[str, AttrValue] = {
        "shape": [taps, oc],
        "src": [1, taps],
        "dst": [oc, 1],
        "src_start": 0,
        "dst_start": 0,
    }
    return Transform(f"strided.b{dtype.itemsize}", attrs, oc * taps * dtype.itemsize, taps, ("depthwise", oc, taps))


def _transposed_weights(shape: Sequence[int], groups: int, dtype: DType) -> Transform:
    """[groups * C, OC, kernel...] to [groups * OC, kernel..., C]."""
    c, oc, taps = shape[0] // groups, shape[1], math.prod(shape[2:])
    attrs: dict[str, AttrValue] = {
        "shape": [groups, oc, taps, c],
        "src": [c * oc * taps, taps, 1, oc * taps],
        "dst": [oc * taps * c, taps * c, c, 1],
        "src_start": 0,
        "dst_start": 0,
    }
    return Transform(f"strided.b{dtype.itemsize}", attrs, groups * oc * taps * c * dtype.itemsize, groups * oc * taps,
                     ("transposed", groups, oc, c, taps))


def transposed(ctx: Context, place: Operand, shape: Sequence[int], perm: Sequence[int], dtype: DType,
                target: Operand | None = None) -> Operand:
    """The value with its axes permuted, in new memory unless that changes nothing."""
    kept = [p for p in perm if shape[p] != 1]
    if kept == sorted(kept) and target is None:
        return place
    final = [shape[p] for p in perm]
    if target is None:
        target = ctx.temp(math.prod(shape) * dtype.itemsize, "layout")
    strides = contiguous_strides(shape)
    strided_copy(ctx, dtype.itemsize, final, place, [strides[p] for p in perm], target, contiguous_strides(final))
    return target


def reach(shape: Sequence[int], row: int | None) -> int:
    """Elements from the first to the last one when rows are `row` apart."""
    pixels = math.prod(shape[:-1])
    return 0 if pixels * shape[-1] == 0 else (pixels - 1) * (row or shape[-1]) + shape[-1]


@lowering("conv", "conv_transpose")
def lower_conv(ctx: Context, node: Node) -> None:
    """Channels first: transpose, convolve, transpose."""
    x, w, b = (*node.inputs, None)[:3]
    out = node.outputs[0]
    assert x is not None and w is not None
    n, dtype = x.rank - 2, x.dtype
    shape, final = shape_of(x), shape_of(out)
    place = transposed(ctx, ctx.operand(x), shape, [0, *range(2, n + 2), 1], dtype)
    middle = [final[0], *final[2:], final[1]]
    trivial = final[1] == 1 or math.prod(final[2:]) == 1
    target = ctx.result(out) if trivial else ctx.temp(nbytes_of(out), "layout")
    _convolve(ctx, node, place, [shape[0], *shape[2:], shape[1]], w, b, target, middle, (), ())
    if not trivial:
        transposed(ctx, target, middle, [0, n + 1, *range(1, n + 1)], dtype, ctx.result(out))


@lowering("conv_nhwc", "conv_transpose_nhwc")
def lower_conv_nhwc(ctx: Context, node: Node) -> None:
    """Channels last, with an epilogue."""
    x, w, b, *extras = (*node.inputs, None)[: max(3, len(node.inputs))]
    assert x is not None and w is not None
    out = node.outputs[0]
    place, row = ctx.rows_of(out)
    _convolve(ctx, node, ctx.operand(x), shape_of(x), w, b, place, shape_of(out), [e for e in extras if e is not None],
              node.attrs["epilogue"], row)


@lowering("conv_alone")
def lower_conv_alone(ctx: Context, node: Node) -> None:
    """Channels first throughout, with an epilogue of unary steps and operands of the result's shape."""
    from rlx.lower import conv_first, conv_planes

    x, w, b, *extras = (*node.inputs, None)[: max(3, len(node.inputs))]
    assert x is not None and w is not None
    out, weight, x_shape = node.outputs[0], shape_of(w), shape_of(x)
    at = geometry("conv", w.rank - 2, *(node.attrs[k] for k in ("strides", "pads", "dilations", "groups")))
    channels, *pixels = shape_of(out)[1:]
    matrix = [shape_of(out)[0] * channels, math.prod(pixels)]
    steps, operands, clamp, _ = epilogue_steps(ctx, [e for e in extras if e is not None], node.attrs["epilogue"],
                                               w.dtype, matrix, 5)
    shape = gemm_conv.conv_shape([x_shape[0], *x_shape[2:], x_shape[1]], channels, weight[2:], strides=at.strides,
                                 dilations=at.dilations, pads=at.pads, groups=at.groups)
    if shape.c > 1 or shape.oc >= _FEW_ROWS:
        plan = conv_planes.plan_conv(shape, clamp=clamp, steps=steps, level=ctx.isa)
        pack = conv_planes.plan_pack(shape, ctx.isa)
        kernel = packed(ctx, w, Transform(pack.kernel, pack.attrs, conv_planes.packed_bytes(shape, ctx.isa),
                                          pack.extent, (pack.kernel, ctx.isa, weight, at.groups)))
    elif conv_first.in_lanes(shape, ctx.isa):
        plan = conv_first.plan_planes(shape, clamp=clamp, steps=steps, level=ctx.isa)
        kernel = packed(ctx, w, depthwise_weights(weight, w.dtype))
    else:
        few = conv_first.plan_masked if conv_first.keeps_size(shape, ctx.isa) else conv_first.plan_conv
        plan, kernel = few(shape, clamp=clamp, steps=steps, level=ctx.isa), ctx.operand(w)
    ctx.call(plan.kernel,
             [ctx.read(x), ctx.read(kernel), ctx.write(out), ctx.maybe(b), ctx.work(plan.workspace), *operands],
             plan.attrs, extent=plan.extent, grain=plan.grain, cost=plan.cost)


@lowering("conv_transpose_alone")
def lower_conv_transpose_alone(ctx: Context, node: Node) -> None:
    """Channels first throughout; the taps never meet."""
    from rlx.lower import conv_first

    x, w, b = (*node.inputs, None)[:3]
    assert x is not None and w is not None
    batch, c, *pixels = shape_of(x)
    kernel = node.attrs["kernel"]
    two, of = ((1, *v)[-2:] for v in (pixels, kernel))
    plan = conv_first.plan_spread(batch, c, shape_of(w)[1], (two[0], two[1]), (of[0], of[1]), ctx.isa)
    ctx.call(plan.kernel, [ctx.read(x), ctx.read(w), ctx.write(node.outputs[0]), ctx.maybe(b),
                           ctx.work(plan.workspace)],
             plan.attrs, extent=plan.extent, grain=plan.grain, cost=plan.cost)


def _convolve(
    ctx: Context,
    node: Node,
    x: Operand,
    x_shape: Sequence[int],
    w: Value,
    b: Value | None,
    out: Operand,
    out_shape: Sequence[int],
    extras: Sequence[Value],
    epilogue: Sequence[object],
    row: int | None = None,
) -> None:
    stored = w.dtype if w.dtype.is_stored else None  # widened in the kernel
    dtype = f32 if stored else w.dtype
    n = w.rank - 2
    weight = shape_of(w)
    at = geometry("conv", n, *(node.attrs[k] for k in ("strides", "pads", "dilations", "groups")))
    steps, operands, clamp, last = epilogue_steps(ctx, extras, epilogue, dtype, out_shape, 5)  # type: ignore[arg-type]
    options: dict[str, Any] = {
        "dtype": dtype.name,
        "clamp": clamp,
        "steps": steps,
        "out_size": last.itemsize,
        "level": ctx.isa,
        "ldo": row,
    }
    where: dict[str, Any] = {"strides": at.strides, "dilations": at.dilations, "pads": at.pads, "groups": at.groups}
    if node.op.name.startswith("conv_transpose"):
        shape = gemm_conv.conv_transpose_shape(
            x_shape, weight[1] * at.groups, weight[2:], output_padding=node.attrs["output_padding"], **where
        )
        pack = gemm_conv.plan_pack_conv_transpose(shape, dtype=dtype.name, level=ctx.isa)
        order: Transform | None = _transposed_weights(weight, at.groups, dtype)
        plan = gemm_conv.plan_conv_transpose(shape, **options)
    else:
        shape = gemm_conv.conv_shape(x_shape, weight[0], weight[2:], **where)
        pack = gemm_conv.plan_pack_conv(shape, dtype=dtype.name, level=ctx.isa)
        order = channels_last_weights(weight, w.dtype)
        if node.attrs.get("winograd"):
            _winograd(ctx, x, shape, w, b, out, clamp, steps, operands, row, reach(out_shape, row) * dtype.itemsize)
            return
        depthwise = shape.c == 1 and shape.groups > 1
        if stored is not None:
            pack = replace(pack, kernel=f"pack_b.{stored}")
            from rlx.lower import gemm_half

            plan = gemm_half.plan_conv(shape, stored=stored.name, **options)
        else:
            plan = (gemm_conv.plan_depthwise if depthwise else gemm_conv.plan_conv)(shape, **options)
        if depthwise:
            pack, order = None, depthwise_weights(weight, dtype)
    if pack is None:
        assert order is not None
        kernel = packed(ctx, w, order)
    else:
        size = at.groups * gemm.packed_bytes(shape.depth, shape.oc, dtype.name, ctx.isa)
        size //= dtype.itemsize // w.dtype.itemsize
        kernel = packed(
            ctx,
            w,
            Transform(
                pack.kernel,
                pack.attrs,
                size,
                pack.extent,
                (pack.kernel, ctx.isa, weight, at.groups, at.strides, at.dilations, at.pads, pack.attrs.get("merge")),
                first=order,
            ),
        )
    nbytes = math.prod(x_shape) * dtype.itemsize
    work = ctx.work(plan.workspace) if plan.workspace else None
    ctx.call(plan.kernel, [ctx.read(x, nbytes), ctx.read(kernel), ctx.write(out, reach(out_shape, row) * last.itemsize),
                           ctx.maybe(b), work, *operands],
             plan.attrs, extent=plan.extent, grain=plan.grain, cost=plan.cost, inplace=gemm.over_addend(plan))


def _winograd(
    ctx: Context,
    x: Operand,
    shape: gemm_conv.ConvShape,
    w: Value,
    b: Value | None,
    out: Operand,
    clamp: tuple[float, float] | None,
    steps: Sequence[gemm.Step],
    operands: Sequence[Arg | None],
    row: int | None,
    nbytes: int,
) -> None:
    """3x3 with stride 1 by transforms; the weights are transformed and packed ahead."""
    c, oc, side = shape.c, shape.oc, winograd.best_side(shape, ctx.isa)
    transformed = Transform("winograd_weights.f32", {"C": c, "OC": oc, "side": side}, 4 * (side + 2) ** 2 * c * oc, oc,
                            ("winograd_weights", side, c, oc))
    pack = winograd.plan_pack(shape, side, ctx.isa)
    kernel = packed(ctx, w, Transform(pack.kernel, pack.attrs, winograd.weight_bytes(shape, side, ctx.isa),
                                      pack.extent, ("winograd", side, ctx.isa, c, oc), first=transformed))
    plan = winograd.plan_conv(shape, side, ldo=row, clamp=clamp, steps=steps, level=ctx.isa)
    size = shape.batch * math.prod(shape.in_) * c * 4
    ctx.call(
        plan.kernel,
        [
            ctx.read(x, size),
            ctx.read(kernel),
            ctx.write(out, nbytes),
            ctx.maybe(b),
            ctx.work(plan.workspace),
            *operands,
        ],
        plan.attrs,
        extent=plan.extent,
        grain=plan.grain,
        cost=plan.cost,
    )
