"""Shapes, data movement, indexing, making tensors."""

import itertools
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError, TypeRuleError
from rlx.ir.dims import product
from rlx.ir.graph import Value
from rlx.ir.traced import trace_of
from rlx.ir.types import broadcast
from rlx.onnx import hostcalls
from rlx.onnx.context import NodeContext, dim, dims
from rlx.onnx.registry import onnx_op
from rlx.onnx.tracing import element_count
from rlx.ops.view import bounds

# Elements of a Range.
MAX_RANGE = 1 << 34

# -- constants and shapes -----------------------------------------------------------


@onnx_op("Constant")
def _constant(n: NodeContext) -> Any:
    attrs = n.attributes()
    for name, value in attrs.items():
        if name in ("value", "sparse_value"):
            return value
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
        if name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if name == "value_string":
            return np.asarray(value.decode(), object)
        if name == "value_strings":
            return np.asarray([s.decode() for s in value], object)
    raise FormatError("a value must be given, got none")


@onnx_op("Shape")
def _shape(n: NodeContext) -> Any:
    return n.tracer.graph.sizes(n.shape(0)[n.int("start", 0) : n.int("end", None)])


@onnx_op("Size")
def _size(n: NodeContext) -> Any:
    return n.tracer.graph.sizes((product(n.shape(0)),), scalar=True)


@onnx_op("ConstantOfShape")
def _constant_of_shape(n: NodeContext) -> Any:
    shape = n.const_ints(0)
    if any(d < 0 for d in shape):
        raise FormatError(f"sizes must be >= 0, got {shape}")
    value = np.asarray(n.attr("value", np.zeros(1, np.float32))).reshape(())
    return ops.expand(n.constant(value), shape=shape)


def _sized_range(n: NodeContext) -> Any:
    """A range of integers that is as long as a size that is followed; None if it is none."""
    graph, items = n.tracer.graph, [n.item(i) for i in range(3)]
    if not any(map(graph.is_sized, items)):
        return None
    if not all(isinstance(i, np.ndarray) and i.dtype.kind in "iu" for i in items):
        return None
    start, limit, delta = (graph.numbers(i)[0] for i in items)
    if delta != 1 or start < 0 or limit < start:
        return None
    counting = graph.counting(limit)
    if counting is None:
        return None
    found = ops.slice(counting, starts=(start,), stops=(limit,))
    return found if items[0].dtype == np.int64 else ops.cast(found, dtype=dtypes.of_array(items[0]))


def _moving_range(n: NodeContext) -> Any:
    """A range of integers whose start differs from run to run; None if it is none."""
    constant = [n.tracer.is_constant(n.item(i)) for i in range(3)]
    if all(constant) or not constant[2] or n.dtype(0) not in (dtypes.i32, dtypes.i64):
        return None
    delta = int(np.asarray(n.const(2)).reshape(-1)[0])
    if delta == 0:
        return None

    def count(start: Any, limit: Any) -> tuple[int]:
        return (max(0, -((int(start.reshape(-1)[0]) - int(limit.reshape(-1)[0])) // delta)),)

    found = n.tracer.decide([n.item(0), n.item(1)], count)
    if found is None or found[0] > MAX_RANGE:
        return None
    start = n.x(0)
    places = np.arange(found[0], dtype=start.dtype.numpy) * delta
    return ops.add(ops.reshape(start, shape=(1,)), n.constant(places.astype(start.dtype.numpy)))


@onnx_op("Range")
def _range(n: NodeContext) -> Any:
    moved = _sized_range(n)
    if moved is None:
        moved = _moving_range(n)
    if moved is not None:
        return moved
    start, limit, delta = (np.asarray(n.const(i)).reshape(()) for i in range(3))
    if delta == 0:
        raise FormatError("the step must not be 0, got 0")
    count = max(
        0,
        int(np.ceil((float(limit) - float(start)) / float(delta)))
        if start.dtype.kind not in "iu"
        else -((int(start) - int(limit)) // int(delta)),
    )
    if count > MAX_RANGE:
        raise FormatError(f"the range must be moderate, got {count} elements")
    places = np.arange(count, dtype=start.dtype if start.dtype.kind in "fiu" else np.float32)
    return (start + places * delta).astype(start.dtype)


@onnx_op("EyeLike")
def _eye_like(n: NodeContext) -> Any:
    shape = n.shape(0)
    if len(shape) != 2:
        raise FormatError(f"the operand must have rank 2, got shape {list(shape)}")
    kind = n.type_attr("dtype") if n.attr("dtype", None) is not None else n.dtype(0)
    assert kind is not None
    k = n.int("k", 0)
    if trace_of(shape) is None:
        return np.eye(*shape, k=k, dtype=kind.numpy)
    height, width = map(n.tracer.graph.counting, shape)
    if height is None or width is None:
        return np.eye(int(shape[0]), int(shape[1]), k=k, dtype=kind.numpy)
    rows, columns = (ops.reshape(ops.slice(c, starts=(0,), stops=(d,)), shape=s)
                     for c, d, s in ((height, shape[0], (shape[0], 1)), (width, shape[1], (1, shape[1]))))
    return ops.cast(ops.eq(ops.add(rows, n.constant(np.int64(k))), columns), dtype=kind)


# -- views ------------------------------------------------------------------------------


@onnx_op("Reshape")
def _reshape(n: NodeContext) -> Any:
    if n.opset < 5:
        wanted = n.ints("shape")
        if n.attr("consumed_inputs", None) is not None:
            n.ints("consumed_inputs")
    else:
        wanted = n.const_ints(1)
    have = n.shape(0)
    if not n.int("allowzero", 0):
        if any(d == 0 and i >= len(have) for i, d in enumerate(wanted)):
            raise FormatError(f"a size of 0 must stand for an axis of the operand, got {wanted} for {list(have)}")
        wanted = [have[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest: Any = product([d for d in wanted if d != -1])
        total: Any = product(have)
        if rest == 0 or total % rest:
            raise FormatError(f"{total} elements must fit {wanted}, got shape {list(have)}")
        wanted[wanted.index(-1)] = total // rest
    return n.move(ops.reshape, shape=tuple(wanted))


@onnx_op("Flatten")
def _flatten(n: NodeContext) -> Any:
    shape = n.shape(0)
    axis = n.int("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis <= len(shape):
        raise FormatError(f"axis must be in [0, {len(shape)}], got {axis}")
    return n.move(ops.reshape, shape=(product(shape[:axis]), product(shape[axis:])))


def _axes(axes: Any, rank: int) -> list[int]:
    found = []
    for a in axes:
        if not -rank <= a < rank:
            raise FormatError(f"axes must be in [{-rank}, {rank}), got {list(axes)}")
        found.append(a + rank if a < 0 else a)
    if len(set(found)) != len(found):
        raise FormatError(f"axes must differ, got {list(axes)}")
    return found


@onnx_op("Squeeze")
def _squeeze(n: NodeContext) -> Any:
    axes = n.ints("axes", None) if n.opset < 13 else n.opt_ints(1)
    shape = n.shape(0)
    chosen = [i for i, d in enumerate(shape) if d == 1] if axes is None else _axes(axes, len(shape))
    if any(shape[i] != 1 for i in chosen):
        raise FormatError(f"squeezed axes must have size 1, got axes {axes} of shape {list(shape)}")
    return n.move(ops.reshape, shape=tuple(d for i, d in enumerate(shape) if i not in chosen))


@onnx_op("Unsqueeze")
def _unsqueeze(n: NodeContext) -> Any:
    axes = n.ints("axes") if n.opset < 13 else n.const_ints(1)
    shape = n.shape(0)
    chosen = _axes(axes, len(shape) + len(axes))
    rest = iter(shape)
    return n.move(ops.reshape, shape=tuple(1 if i in chosen else next(rest) for i in range(len(shape) + len(axes))))


@onnx_op("Transpose")
def _transpose(n: NodeContext) -> Any:
    perm = n.ints("perm", None)
    return n.move(ops.transpose, perm=tuple(perm) if perm is not None else tuple(reversed(range(n.rank(0)))))


@onnx_op("Expand")
def _expand(n: NodeContext) -> Any:
    wanted = n.const_ints(1)
    try:
        if any(d < 0 for d in wanted):
            raise TypeRuleError("negative")
        shape = broadcast([n.shape(0), tuple(wanted)], "Expand")
    except TypeRuleError:
        raise FormatError(f"shape {list(n.shape(0))} must broadcast to {wanted}") from None
    return n.move(ops.expand, shape=shape)


@onnx_op("Concat")
def _concat(n: NodeContext) -> Any:
    axis = n.int("axis", 1)
    if any(n.on_host(i) for i in range(n.n_inputs)):
        return n.host(hostcalls.join(axis=axis), fixed=True, floats=False)
    xs = n.xs()
    return ops.concat(*xs, axis=axis) if len(xs) != 1 else xs[0]


def split_sizes(total: int, parts: int) -> list[int]:
    """Sizes of `parts` pieces, equal but for a smaller last one."""
    chunk = -(-total // parts)
    return [max(0, min(chunk, total - i * chunk)) for i in range(parts)]


@onnx_op("Split")
def _split(n: NodeContext) -> Any:
    sizes = n.ints("split", None) if n.opset < 13 else n.opt_ints(1)
    axis = _axes([n.int("axis", 0)], n.rank(0))[0]
    total = n.shape(0)[axis]
    parts = n.int("num_outputs", None) or n.n_outputs
    if sizes is None:
        sizes = split_sizes(total, parts)
    if sum(sizes) != total or any(s < 0 for s in sizes):
        raise FormatError(f"split sizes must add up to {total}, got {sizes}")
    return tuple(split(n, axis, sizes))


def split(n: NodeContext, axis: int, sizes: list[int]) -> list[Any]:
    """Pieces of operand 0 along an axis."""
    starts = list(itertools.accumulate(sizes, initial=0))
    return [n.move(ops.slice, starts=(a,), stops=(a + s,), axes=(axis,)) for a, s in zip(starts, sizes, strict=False)]


def _moving_slice(n: NodeContext) -> Any:
    """A slice whose place differs from run to run: the plan knows its sizes alone. None if it is none."""
    constant = n.tracer.is_constant
    fixed = [n.has(i) and n.item(i) is not None and not constant(n.item(i)) for i in (3, 4)]
    if (constant(n.item(1)) and constant(n.item(2))) or any(fixed) or n.on_host(0) or any(map(n.on_host, (1, 2))):
        return None
    shape = n.shape(0)
    count = int(np.prod(n.shape(1)))
    axes, steps = n.opt_ints(3), n.opt_ints(4)
    axes = _axes(list(range(count)) if axes is None else axes, len(shape))
    if n.shape(1) != n.shape(2) or len(axes) != count or len(set(axes)) != count or set(steps or [1]) != {1}:
        return None

    def sizes(starts: Any, ends: Any) -> tuple[Any, ...]:
        places = [slice(int(a), int(b)).indices(shape[axis])[:2]
                  for axis, a, b in zip(axes, starts.reshape(-1), ends.reshape(-1), strict=True)]
        return tuple([(max(0, b - a), int(s) < 0) for (a, b), s in zip(places, starts.reshape(-1), strict=True)])

    found = n.tracer.decide([n.item(1), n.item(2)], sizes)
    if found is None:
        return None
    x, starts = n.x(0), _indices(n.x(1))
    wide = starts if starts.dtype == dtypes.i64 else ops.cast(starts, dtype=dtypes.i64)
    wide = ops.reshape(wide, shape=(count,))
    for i, (axis, (size, from_end)) in enumerate(zip(axes, found, strict=True)):
        if size in (0, shape[axis]):
            x = ops.slice(x, starts=(0,), stops=(size,), axes=(axis,))
            continue
        start = wide[i : i + 1]
        if from_end:
            start = ops.max(ops.add(start, n.constant(np.int64(shape[axis]))), n.constant(np.int64(0)))
        x = ops.gather(x, ops.add(start, n.constant(np.arange(size, dtype=np.int64))), axis=axis)
    return x


@onnx_op("Slice")
def _slice(n: NodeContext) -> Any:
    moved = _moving_slice(n) if n.opset >= 10 else None
    if moved is not None:
        return moved
    if n.opset < 10:
        starts, ends = n.ints("starts"), n.ints("ends")
        axes, steps = n.ints("axes", None), None
    else:
        starts, ends = n.const_ints(1), n.const_ints(2)
        axes, steps = n.opt_ints(3), n.opt_ints(4)
    rank = n.rank(0)
    axes = _axes(list(range(len(starts))) if axes is None else axes, rank)
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise FormatError(
            f"starts, ends, axes and steps must have one length and steps not be 0, "
            f"got {starts}, {ends}, {axes}, {steps}"
        )
    shape = n.shape(0)
    first, last = [], []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 1:
            a, size = bounds(shape[axis], start, end, 1)
            b = a + size
        else:
            a, b, _ = slice(start, end, step).indices(shape[axis])
            b = -(1 << 62) if step < 0 and b < 0 else b
        first.append(a if a >= 0 else 0)
        last.append(b if a >= 0 else 0)
    return n.move(ops.slice, starts=first, stops=last, axes=axes, steps=steps)


# -- indexing --------------------------------------------------------------------------


def _indices(v: Value) -> Any:
    return v if v.dtype in (dtypes.i32, dtypes.i64) else ops.cast(v, dtype=dtypes.i64)


@onnx_op("Gather")
def _gather(n: NodeContext) -> Any:
    axis = n.int("axis", 0)
    if n.on_host(0):
        index = n.item(1)
        whole = isinstance(index, np.ndarray) and index.shape == n.shape(0)[axis : axis + 1 or None]
        if whole and (index == np.arange(len(index))).all():
            return n.item(0)
        return n.host(hostcalls.take(axis=axis), fixed=True, floats=False)
    x = n.x(0)
    if x.rank == 0:
        raise FormatError("the operand must have rank >= 1, got a scalar")
    indices = _indices(n.x(1))
    return gather_rows(x, indices) if axis % x.rank == 0 and n.tracer.pure(x) else ops.gather(x, indices, axis=axis)


# Tables from this size on are looked up before they are widened.
_LARGE_TABLE = 1 << 16
_WIDENING = ("cast", "mul", "div", "add", "sub", "dequantize_linear")


def gather_rows(x: Value, indices: Value) -> Any:
    """Rows of a constant table; one that is widened from a smaller type is looked up in that type."""
    node = x.node
    first = node.inputs[0] if node.inputs else None
    rest = [v for v in node.inputs[1:] if v is not None]
    plain = first is not None and node.op.name in _WIDENING and first.shape == x.shape and x.rank > 1
    if not plain or first is None or element_count(x) * x.dtype.itemsize < _LARGE_TABLE:
        return ops.gather(x, indices, axis=0)
    by_row = node.op.name == "dequantize_linear" and node.attrs["axis"] % x.rank == 0
    if node.op.name == "dequantize_linear" and any(v.type.size != 1 for v in rest):
        if not by_row or node.attrs["block_size"] or rest[0].dtype != dtypes.f32:
            return ops.gather(x, indices, axis=0)
        return _dequantized_rows(first, rest, indices)
    small = gather_rows(first, indices)
    others = []
    for v in node.inputs[1:]:
        if v is None or v.type.size == 1:
            others.append(v if v is None else ops.reshape(v, shape=()))
        elif v.rank < x.rank:
            others.append(v)
        else:  # of the table's rank: one row for all, or a row each
            one = v.shape[0] == 1
            others.append(ops.reshape(v, shape=v.shape[1:]) if one else ops.gather(v, indices, axis=0))
    attrs = dict(node.attrs)
    if "axis" in attrs:
        attrs["axis"] = 0 if small.rank else -1
    return node.op(small, *others, **attrs)


def _dequantized_rows(table: Value, rest: list[Value], indices: Value) -> Any:
    """Rows of a table with a scale, and perhaps a zero point, per row."""
    shape = (*indices.shape, *(1,) * (table.rank - 1))
    scale, *zero = (ops.reshape(ops.gather(v, indices, axis=0), shape=shape) for v in rest)
    q = ops.cast(ops.gather(table, indices, axis=0), dtype=dtypes.i32)
    if zero:
        q = ops.sub(q, ops.cast(zero[0], dtype=dtypes.i32))
    return ops.mul(ops.cast(q, dtype=dtypes.f32), scale)


@onnx_op("GatherElements")
def _gather_elements(n: NodeContext) -> Any:
    return ops.gather_elements(n.x(0), _indices(n.x(1)), axis=n.int("axis", 0))


@onnx_op("GatherND")
def _gather_nd(n: NodeContext) -> Any:
    return ops.gather_nd(n.x(0), _indices(n.x(1)), batch_dims=n.int("batch_dims", 0))


@onnx_op("ScatterElements", "Scatter")
def _scatter_elements(n: NodeContext) -> Any:
    return ops.scatter_elements(
        n.x(0), _indices(n.x(1)), n.x(2), axis=n.int("axis", 0), reduction=n.str("reduction", "none")
    )


@onnx_op("ScatterND")
def _scatter_nd(n: NodeContext) -> Any:
    return ops.scatter_nd(n.x(0), _indices(n.x(1)), n.x(2), reduction=n.str("reduction", "none"))


@onnx_op("OneHot")
def _one_hot(n: NodeContext) -> Any:
    depth = n.scalar(1)
    if not isinstance(depth, int):
        depth = int(depth)
    axis = n.int("axis", -1)
    indices, values = n.x(0), n.x(2)
    if not indices.dtype.is_int:
        indices = ops.cast(indices, dtype=dtypes.i64)
    indices = ops.cast(indices, dtype=dtypes.i64)
    below = ops.where(
        ops.lt(indices, n.like(-depth, indices)), n.like(depth, indices), ops.add(indices, n.like(depth, indices))
    )
    indices = ops.where(ops.lt(indices, n.like(0, indices)), below, indices)
    return ops.one_hot(indices, values, depth=depth, axis=axis)


@onnx_op("TopK")
def _topk(n: NodeContext) -> Any:
    k = n.int("k") if n.opset < 10 else int(n.scalar(1))
    return ops.topk(
        n.x(0), k=k, axis=n.int("axis", -1), largest=bool(n.int("largest", 1)), sorted=bool(n.int("sorted", 1))
    )


@onnx_op("NonZero")
def _nonzero(n: NodeContext) -> Any:
    return n.host(hostcalls.nonzero())


@onnx_op("Compress")
def _compress(n: NodeContext) -> Any:
    axis = n.int("axis", None)

    return n.host(hostcalls.compress(axis=axis))


@onnx_op("Unique")
def _unique(n: NodeContext) -> Any:
    axis, ordered = n.int("axis", None), bool(n.int("sorted", 1))

    return n.host(hostcalls.unique(axis=axis, ordered=ordered))


# -- other movement ---------------------------------------------------------------------


@onnx_op("Tile")
def _tile(n: NodeContext) -> Any:
    if n.opset < 6:
        times, axis = int(n.scalar(1)), int(n.scalar(2))
        reps = [times if i == axis else 1 for i in range(n.rank(0))]
    else:
        reps = n.const_ints(1)
    if len(reps) != n.rank(0) or any(r < 0 for r in reps):
        raise FormatError(f"repeats must be one per axis and >= 0, got {reps}")
    if n.on_host(0):
        return n.host(hostcalls.tile(reps=reps), [n.item(0)])
    return ops.tile(n.x(0), reps=reps)


@onnx_op("Pad")
def _pad(n: NodeContext) -> Any:
    rank = n.rank(0)
    mode = n.str("mode", "constant")
    if n.opset < 11:
        pads = n.ints("pads") if n.opset > 1 else n.ints("paddings")
        value: Any = n.float("value", 0.0)
        axes = None
    else:
        pads = n.const_ints(1)
        value = n.opt_scalar(2, 0)
        axes = n.opt_ints(3)
    axes = _axes(range(rank) if axes is None else axes, rank)
    if len(pads) != 2 * len(axes):
        raise FormatError(f"pads must be two per axis, got {pads} for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    return pad(n.x(0), before, after, mode, value)


def pad(x: Value, before: Any, after: Any, mode: Any, value: Any) -> Any:
    """Pad, where negative amounts cut."""
    if any(p < 0 for p in (*before, *after)):
        starts = [max(0, -p) for p in before]
        stops = [d + min(0, p) for d, p in zip(dims(x), after, strict=True)]
        x = ops.slice(x, starts=starts, stops=[max(a, b) for a, b in zip(starts, stops, strict=True)])
        before, after = [max(0, p) for p in before], [max(0, p) for p in after]
    if not any((*before, *after)):
        return x
    return ops.pad(x, before=tuple(before), after=tuple(after), mode=mode, value=value if mode == "constant" else 0)


@onnx_op("Trilu")
def _trilu(n: NodeContext) -> Any:
    k = int(n.opt_scalar(1, 0))
    return ops.trilu(n.x(0), k=k, upper=bool(n.int("upper", 1)))


@onnx_op("DepthToSpace")
def _depth_to_space(n: NodeContext) -> Any:
    return ops.depth_to_space(n.x(0), block=n.int("blocksize"), mode=n.str("mode", "DCR"))


@onnx_op("SpaceToDepth")
def _space_to_depth(n: NodeContext) -> Any:
    x, b = n.x(0), n.int("blocksize")
    if n.str("mode", "DCR") == "DCR":
        return ops.space_to_depth(x, block=b)
    batch, c, h, w = x.shape
    if b < 1 or h % b or w % b:
        raise FormatError(f"height and width must be divisible by the block size {b}, got {h} and {w}")
    y = ops.transpose(ops.reshape(x, shape=(batch, c, h // b, b, w // b, b)), perm=(0, 1, 3, 5, 2, 4))
    return ops.reshape(y, shape=(batch, c * b * b, h // b, w // b))


@onnx_op("CenterCropPad")
def _center_crop_pad(n: NodeContext) -> Any:
    wanted = n.const_ints(1)
    x = n.x(0)
    axes = n.ints("axes", None)
    axes = _axes(range(x.rank) if axes is None else axes, x.rank)
    before, after = [0] * x.rank, [0] * x.rank
    for axis, size in zip(axes, wanted, strict=True):
        extra = size - dim(x, axis)
        first = extra // 2 if extra >= 0 else -(-extra // 2)
        before[axis], after[axis] = first, extra - first
    return pad(x, before, after, "constant", 0)


@onnx_op("TensorScatter")
def _tensor_scatter(n: NodeContext) -> Any:
    axis = n.int("axis", -2)
    circular = n.str("mode", "linear") == "circular"
    past, update = n.x(0), n.x(1)
    axis = axis + past.rank if axis < 0 else axis
    length, size = dim(update, axis), dim(past, axis)
    batch = dim(past, 0)
    start = n.opt(2)
    first = n.constant(np.zeros(batch, np.int64)) if start is None else ops.cast(start, dtype=dtypes.i64)
    if not circular and axis:
        return ops.cache_append(past, update, first, axis=axis)[0]
    places = ops.add(ops.reshape(first, shape=(batch, 1)), n.constant(np.arange(length, dtype=np.int64)[None, :]))
    if circular:
        places = ops.mod(places, n.constant(np.int64(size)))
    shape = [1] * past.rank
    shape[0], shape[axis] = batch, length
    index = ops.expand(ops.reshape(places, shape=tuple(shape)), shape=update.shape)
    return ops.scatter_elements(past, index, update, axis=axis, reduction="none")


@onnx_op("BitCast")
def _bit_cast(n: NodeContext) -> Any:
    from rlx.onnx.elements import numpy_type

    target = numpy_type(n.int("to"), "attribute 'to'")
    return n.host(lambda x: np.ascontiguousarray(x).view(target) if x.ndim else x.reshape(1).view(target).reshape(()))
