"""Products of 8-bit tensors: packed operands, zero points, scales and results."""

import math
from collections.abc import Sequence

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.graph import Node, Value
from rlx.ir.opdef import Array
from rlx.lower import gemm, gemm_conv, gemm_int8
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, size_of
from rlx.lower.conv import channels_last_weights, depthwise_weights, reach, transposed
from rlx.lower.matmul import epilogue_steps
from rlx.lower.packing import packed
from rlx.lower.program import Arg, Operand, Transform
from rlx.ops.conv import geometry
from rlx.ops.int8 import bounds

_OUT = {
    dtypes.i32: gemm_int8.OUT_I32,
    dtypes.f32: gemm_int8.OUT_F32,
    dtypes.u8: gemm_int8.OUT_U8,
    dtypes.i8: gemm_int8.OUT_I8,
}
_FIRST_EXTRA = 9


def _split(node: Node) -> tuple[list[Value | None], list[Value]]:
    """(a, b, bias, a_zero, b_zero, scale, out_zero) and the extra operands."""
    values = [*node.inputs, *[None] * 7]
    return values[:7], [v for v in node.inputs[7:] if v is not None]


def _count(v: Value | None) -> int:
    return 0 if v is None else size_of(v) if v.rank else 1


def _taken_off(zero: Array, signed: bool) -> bool:
    """Whether packed weights have no zero point left: packing takes 128 off unsigned ones."""
    return bool((zero == (0 if signed else 128)).all())


def _quant(node: Node, values: Sequence[Value | None], packed_weights: bool = True) -> gemm_int8.Quant:
    """Of the operands; packed weights whose constant zero point is taken off by packing have none."""
    a, b, _, a_zero, b_zero, scale, _ = values
    assert a is not None and b is not None
    out: DType = node.attrs["out"]
    lo, hi = bounds(out, node.attrs["lo"], node.attrs["hi"]) if out.itemsize == 1 else (None, None)
    signed = b.dtype.kind == "i"
    if packed_weights and b_zero is not None and b_zero.array is not None and _taken_off(b_zero.array, signed):
        b_zero, signed = None, True
    return gemm_int8.Quant(
        a.dtype.kind == "i", signed, _count(a_zero), _count(b_zero), _count(scale), _OUT[out], lo, hi
    )


def _emit(ctx: Context, plan: gemm.Plan, a: Arg, b: Operand, out: Arg, values: Sequence[Value | None],
          operands: Sequence[Arg | None]) -> None:
    _, _, bias, a_zero, b_zero, scale, out_zero = values
    ctx.call(
        plan.kernel,
        [
            a,
            ctx.read(b),
            out,
            ctx.maybe(bias),
            ctx.work(plan.workspace),
            ctx.maybe(a_zero),
            ctx.maybe(b_zero),
            ctx.maybe(scale),
            ctx.maybe(out_zero),
            *operands,
        ],
        plan.attrs,
        extent=plan.extent,
        grain=plan.grain,
        cost=plan.cost,
    )


@lowering("int8_matmul")
def lower_int8_matmul(ctx: Context, node: Node) -> None:
    """Batches that share b become rows; b is packed ahead where it is a weight."""
    values, extras = _split(node)
    a, b = values[:2]
    assert a is not None and b is not None
    out = node.outputs[0]
    left, right = list(shape_of(a)), list(shape_of(b))
    left = left if len(left) > 1 else [1, *left]
    right = right if len(right) > 1 else [*right, 1]
    m, k = left[-2:]
    n = right[-1]
    signed = b.dtype.kind == "i"
    groups = math.prod(right[:-2])
    pack = gemm_int8.plan_pack(k, n, signed=signed, groups=groups)
    stride = gemm_int8.packed_bytes(k, n, ctx.isa)
    place = packed(ctx, b, Transform(pack.kernel, pack.attrs, stride * groups, pack.extent,
                                     ("pack_int8", ctx.isa, k, n, signed, groups)))
    batch: list[tuple[int, int, int, int]] = []
    if groups == 1 and len(right) <= len(left):
        m *= math.prod(left[:-2])
    else:
        batch = _batch(left, right, stride, n)
    steps, operands, _, _ = epilogue_steps(
        ctx, extras, node.attrs["epilogue"], node.attrs["out"], shape_of(out), _FIRST_EXTRA, clamps=False
    )
    plan = gemm_int8.plan_matmul(m, n, k, _quant(node, values), batch=batch, steps=steps, level=ctx.isa)
    _emit(ctx, plan, ctx.read(a), place, ctx.write(out), values, operands)


def _batch(left: list[int], right: list[int], stride: int, n: int) -> list[tuple[int, int, int, int]]:
    rank = max(len(left), len(right)) - 2
    a = [1] * (rank + 2 - len(left)) + left
    b = [1] * (rank + 2 - len(right)) + right
    sizes = [max(x, y) if min(x, y) else 0 for x, y in zip(a[:-2], b[:-2], strict=True)]
    found = []
    at_a, at_b, at_out = a[-2] * a[-1], stride, a[-2] * n
    for i in range(rank - 1, -1, -1):
        found.append((sizes[i], at_a if a[i] > 1 else 0, at_b if b[i] > 1 else 0, at_out))
        at_a, at_b, at_out = at_a * a[i], at_b * b[i], at_out * sizes[i]
    return found[::-1]


@lowering("int8_conv")
def lower_int8_conv(ctx: Context, node: Node) -> None:
    """Channels first: transpose, convolve, transpose."""
    values, _ = _split(node)
    x, out = values[0], node.outputs[0]
    assert x is not None
    n = x.rank - 2
    shape, final = shape_of(x), shape_of(out)
    place = transposed(ctx, ctx.operand(x), shape, [0, *range(2, n + 2), 1], x.dtype)
    middle = [final[0], *final[2:], final[1]]
    trivial = final[1] == 1 or math.prod(final[2:]) == 1
    target = ctx.result(out) if trivial else ctx.temp(nbytes_of(out), "layout")
    _convolve(ctx, node, values, place, [shape[0], *shape[2:], shape[1]], target, middle, [])
    if not trivial:
        transposed(ctx, target, middle, [0, n + 1, *range(1, n + 1)], out.dtype, ctx.result(out))


@lowering("int8_conv_nhwc")
def lower_int8_conv_nhwc(ctx: Context, node: Node) -> None:
    """Channels last."""
    values, extras = _split(node)
    x, out = values[0], node.outputs[0]
    assert x is not None
    place, row = ctx.rows_of(out)
    _convolve(ctx, node, values, ctx.operand(x), shape_of(x), place, shape_of(out), extras, row)


def _convolve(
    ctx: Context,
    node: Node,
    values: Sequence[Value | None],
    x: Operand,
    x_shape: Sequence[int],
    out: Operand,
    out_shape: Sequence[int],
    extras: Sequence[Value],
    row: int | None = None,
) -> None:
    w = values[1]
    assert w is not None
    weight, signed = shape_of(w), w.dtype.kind == "i"
    at = geometry("conv", w.rank - 2, *(node.attrs[k] for k in ("strides", "pads", "dilations", "groups")))
    shape = gemm_conv.conv_shape(
        x_shape, weight[0], weight[2:], strides=at.strides, dilations=at.dilations, pads=at.pads, groups=at.groups
    )
    depthwise = gemm_int8.depthwise_fits(shape)
    if depthwise:
        kernel, plan_for = packed(ctx, w, depthwise_weights(weight, w.dtype)), gemm_int8.plan_depthwise
    else:
        pack = gemm_int8.plan_pack_conv(shape, signed=signed)
        size = at.groups * gemm_int8.packed_bytes(shape.depth, shape.oc, ctx.isa)
        kernel = packed(
            ctx,
            w,
            Transform(
                pack.kernel,
                pack.attrs,
                size,
                pack.extent,
                ("pack_int8_conv", ctx.isa, weight, at.groups, signed),
                first=channels_last_weights(weight, w.dtype),
            ),
        )
        plan_for = gemm_int8.plan_conv
    steps, operands, _, _ = epilogue_steps(
        ctx, extras, node.attrs["epilogue"], node.attrs["out"], out_shape, _FIRST_EXTRA, clamps=False
    )
    plan = plan_for(shape, _quant(node, values, not depthwise), ldo=row, steps=steps, level=ctx.isa)
    nbytes = reach(out_shape, row) * node.outputs[0].dtype.itemsize
    _emit(ctx, plan, ctx.read(x, math.prod(x_shape)), kernel, ctx.write(out, nbytes), values, operands)
