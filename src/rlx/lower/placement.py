"""Pad, tile, flip, roll, triangles, sequences and identity."""

import itertools
import math
import struct

import numpy as np

from rlx import costs
from rlx.dtypes import DType
from rlx.ir.graph import Node
from rlx.ir.types import normal_axes, normal_axis
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, short, size_of
from rlx.lower.movement import contiguous_strides, strided_copy
from rlx.lower.program import Operand

PAD_MODES = {"constant": 0, "edge": 1, "reflect": 2, "wrap": 3}


def copy_cost(nbytes: int) -> float:
    """Nanoseconds of moving that many bytes once."""
    return nbytes * costs.of().copy + 20


@lowering("pad")
def lower_pad(ctx: Context, node: Node) -> None:
    """Cut by negative pads (a strided copy), then one padding call."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = list(shape_of(x))
    before, after = node.attrs["before"], node.attrs["after"]
    source = ctx.operand(x)
    itemsize = x.dtype.itemsize
    if out in ctx.places and source == ctx.places[out]:  # x was made in its place
        _fill(ctx, x.dtype, source.at(nbytes_of(x)), size_of(out) - size_of(x), node.attrs["value"])
        return
    if all(b <= 0 for b in before) and all(a <= 0 for a in after):
        cut = [d + b + a for d, b, a in zip(shape, before, after, strict=True)]
        if cut == shape:
            ctx.alias(out, source)
            return
        strides = contiguous_strides(shape)
        start = sum(-b * s for b, s in zip(before, strides, strict=True))
        strided_copy(
            ctx, itemsize, cut, source, strides, ctx.result(out), contiguous_strides(cut), start
        )
        return
    if any(p < 0 for p in (*before, *after)):
        strides = contiguous_strides(shape)
        start = sum(max(-b, 0) * s for b, s in zip(before, strides, strict=True))
        shape = [d + min(b, 0) + min(a, 0) for d, b, a in zip(shape, before, after, strict=True)]
        kept = ctx.temp(math.prod(shape) * itemsize, "cut")
        strided_copy(ctx, itemsize, shape, source, strides, kept, contiguous_strides(shape), start)
        source = kept
    # An axis without padding joins the one before it, so that rows become long and axes few.
    constant = node.attrs["mode"] == "constant"
    dims: list[int] = []
    left: list[int] = []
    right: list[int] = []
    for d, b, a in zip(shape, before, after, strict=True):
        b, a = max(b, 0), max(a, 0)
        if dims and not (a or b) and (d == 1 or constant or not (left[-1] or right[-1])):
            dims[-1], left[-1], right[-1] = dims[-1] * d, left[-1] * d, right[-1] * d
        else:
            dims.append(d)
            left.append(b)
            right.append(a)
    width = dims[-1] + left[-1] + right[-1]
    rows = math.prod(d + b + a for d, b, a in zip(dims[:-1], left[:-1], right[:-1], strict=True))
    value = None
    if constant and np.asarray(node.attrs["value"]).astype(x.dtype.numpy).tobytes().strip(b"\0"):
        place = ctx.temp(itemsize, "value")
        _fill(ctx, x.dtype, place, 1, node.attrs["value"])
        value = ctx.read(place)
    ctx.call(
        f"pad.{short(x.dtype)}",
        [ctx.read(source, math.prod(shape) * itemsize), ctx.write(out), value],
        {"mode": PAD_MODES[node.attrs["mode"]], "shape": dims, "before": left, "after": right},
        extent=rows,
        grain=max(1, 4096 // max(width, 1)),
        cost=copy_cost(nbytes_of(out)),
    )


@lowering("tile")
def lower_tile(ctx: Context, node: Node) -> None:
    """A strided copy that reads each axis several times."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape, reps = shape_of(x), node.attrs["reps"]
    if all(r == 1 for r in reps):
        ctx.alias(out, ctx.operand(x))
        return
    target = [n for d, r in zip(shape, reps, strict=True) for n in (r, d)]
    strides = [n for s in contiguous_strides(shape) for n in (0, s)]
    strided_copy(
        ctx,
        x.dtype.itemsize,
        target,
        ctx.operand(x),
        strides,
        ctx.result(out),
        contiguous_strides(target),
    )


@lowering("repeat")
def lower_repeat(ctx: Context, node: Node) -> None:
    """One call per pair of neighbouring axes that grow, the last ones first."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape, repeats = list(shape_of(x)), node.attrs["repeats"]
    source = ctx.operand(x)
    if size_of(out) == 0:
        ctx.result(out)
        return
    todo = [axis for axis, r in enumerate(repeats) if r != 1]
    if not todo:
        ctx.alias(out, source)
        return
    itemsize = x.dtype.itemsize
    while todo:
        axis = todo.pop()
        above = axis - 1 if todo and todo[-1] == axis - 1 else None
        if above is not None:
            todo.pop()
        inner, w = math.prod(shape[axis + 1 :]), shape[axis]
        before = math.prod(shape)
        rows = before // (w * inner)
        rh = repeats[above] if above is not None else 1
        for a in (axis, above):
            if a is not None:
                shape[a] *= repeats[a]
        nbytes = math.prod(shape) * itemsize
        target = ctx.temp(nbytes, "repeated") if todo else ctx.result(out)
        ctx.call(f"repeat.b{itemsize}", [ctx.read(source, before * itemsize), ctx.write(target)],
                 {"w": w, "inner": inner, "rh": rh, "rw": repeats[axis]}, extent=rows,
                 grain=max(1, 16384 // (w * inner * rh * repeats[axis])), cost=copy_cost(nbytes))  # fmt: skip
        source = target


@lowering("flip")
def lower_flip(ctx: Context, node: Node) -> None:
    """A strided copy that reads backwards."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = shape_of(x)
    strides = list(contiguous_strides(shape))
    start = 0
    for axis in normal_axes(node.attrs["axes"], len(shape), "flip"):
        start += max(shape[axis] - 1, 0) * strides[axis]
        strides[axis] = -strides[axis]
    strided_copy(
        ctx,
        x.dtype.itemsize,
        shape,
        ctx.operand(x),
        strides,
        ctx.result(out),
        contiguous_strides(shape),
        start,
    )


@lowering("roll")
def lower_roll(ctx: Context, node: Node) -> None:
    """Two pieces per axis, each a strided copy."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape: tuple[int, ...] = shape_of(x)
    axes = node.attrs["axes"]
    if axes is None:
        shape, axes = (size_of(x),), (0,)
    moved = [0] * len(shape)
    for axis, shift in zip(axes, node.attrs["shifts"], strict=True):
        i = normal_axis(axis, len(shape), "roll")
        moved[i] = (moved[i] + shift) % max(shape[i], 1)
    strides = contiguous_strides(shape)
    source, target = ctx.operand(x), ctx.result(out)
    # (start in x, start in the result, length) of the pieces of each axis
    pieces = [
        [(0, m, d - m), (d - m, 0, m)] if m else [(0, 0, d)]
        for d, m in zip(shape, moved, strict=True)
    ]
    for parts in itertools.product(*pieces):
        strided_copy(
            ctx,
            x.dtype.itemsize,
            [n for _, _, n in parts],
            source,
            strides,
            target,
            strides,
            sum(p[0] * s for p, s in zip(parts, strides, strict=True)),
            sum(p[1] * s for p, s in zip(parts, strides, strict=True)),
        )


@lowering("trilu")
def lower_trilu(ctx: Context, node: Node) -> None:
    """One call over all rows."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    rows, cols = shape_of(x)[-2:]
    k = max(-rows - 1, min(node.attrs["k"], cols + 1))
    ctx.call(
        f"trilu.{short(x.dtype)}",
        [ctx.read(x), ctx.write(out)],
        {"upper": node.attrs["upper"], "k": k, "rows": max(rows, 1), "cols": cols},
        extent=size_of(x) // max(cols, 1),
        grain=max(1, 4096 // max(cols, 1)),
        cost=copy_cost(nbytes_of(x)),
        inplace=[(1, 0)],
    )


def bits_of(dtype: DType, value: object) -> tuple[int, int]:
    """The bytes of a number in an element type, as two signed words; integers wrap."""
    if dtype.is_int and not isinstance(value, (float, np.floating)):
        value = int(value) % 2 ** (8 * dtype.itemsize)  # type: ignore[call-overload]
        array = np.asarray(value, f"u{dtype.itemsize}")
    else:
        array = np.asarray(value).astype(dtype.numpy)
    low, high = struct.unpack("<qq", array.tobytes().ljust(16, b"\0"))
    return low, high


@lowering("eye")
def lower_eye(ctx: Context, node: Node) -> None:
    """One call over all rows."""
    out = node.outputs[0]
    rows, cols = shape_of(out)
    k = max(-rows - 1, min(node.attrs["k"], cols + 1))
    ctx.call(
        f"eye.{short(out.dtype)}",
        [ctx.write(out)],
        {"one": bits_of(out.dtype, 1)[0], "k": k, "rows": rows, "cols": cols},
        extent=rows,
        grain=max(1, 4096 // max(cols, 1)),
        cost=copy_cost(nbytes_of(out)),
    )


@lowering("iota")
def lower_iota(ctx: Context, node: Node) -> None:
    """One call; unsigned types use the signed kernel, as both wrap."""
    out = node.outputs[0]
    itemsize = out.dtype.itemsize
    name = out.dtype.name if out.dtype.is_float else f"i{8 * itemsize}"
    ends = []
    for key in ("start", "step"):
        place = ctx.temp(itemsize, key)
        _fill(ctx, out.dtype, place, 1, node.attrs[key])
        ends.append(ctx.read(place))
    ctx.call(
        f"range.{name}",
        [*ends, ctx.write(out)],
        extent=size_of(out),
        grain=8192,
        cost=size_of(out) * 0.5 + 10,
    )


def _fill(ctx: Context, dtype: DType, place: Operand, n: int, value: object) -> None:
    """Fill n items with a number."""
    low, high = bits_of(dtype, value)
    ctx.call(
        f"fill.{short(dtype)}",
        [ctx.write(place, n * dtype.itemsize)],
        {"value": low, "value_high": high},
        extent=n,
        grain=8192,
        cost=copy_cost(n * dtype.itemsize),
    )
