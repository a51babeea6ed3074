"""Sequences and optionals: lists of items while importing; nothing runs for them."""

from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext, dim
from rlx.onnx.ops_tensor import split, split_sizes
from rlx.onnx.registry import onnx_op
from rlx.onnx.scope import Scope


@onnx_op("SequenceConstruct")
def _construct(n: NodeContext) -> Any:
    return n.items()


@onnx_op("SequenceEmpty")
def _empty(n: NodeContext) -> Any:
    return []


def _position(n: NodeContext, i: int, length: int, last: int) -> int:
    at = int(n.opt_scalar(i, last))
    if not -length <= at <= max(last, length - 1):
        raise FormatError(f"position must be in [{-length}, {max(last, length - 1)}], got {at}")
    return at + length if at < 0 else at


@onnx_op("SequenceInsert")
def _insert(n: NodeContext) -> Any:
    length = len(n.sequence(0))
    at = _position(n, 2, length, length)
    items = list(n.sequence(0))
    items.insert(at, n.item(1))
    return items


@onnx_op("SequenceErase")
def _erase(n: NodeContext) -> Any:
    length = len(n.sequence(0))
    at = _position(n, 1, length, length - 1)
    items = list(n.sequence(0))
    del items[at]
    return items


@onnx_op("SequenceAt")
def _at(n: NodeContext) -> Any:
    length = len(n.sequence(0))
    at = _position(n, 1, length, length - 1)
    return n.sequence(0)[at]


@onnx_op("SequenceLength")
def _length(n: NodeContext) -> Any:
    return np.asarray(len(n.sequence(0)), np.int64)


@onnx_op("SplitToSequence")
def _split_to_sequence(n: NodeContext) -> Any:
    sizes = n.const(1) if n.has(1) else None
    axis = n.int("axis", 0)
    shape = n.shape(0)
    axis = axis + len(shape) if axis < 0 else axis
    total = shape[axis]
    keep = bool(n.int("keepdims", 1)) or sizes is not None
    if sizes is None:
        chosen = [1] * total
    elif np.ndim(sizes) == 0:
        chosen = split_sizes(total, -(-total // int(sizes))) if total else []
        chosen = [min(int(sizes), total - i * int(sizes)) for i in range(len(chosen))]
    else:
        chosen = [int(s) for s in sizes]
        if sum(chosen) != total:
            raise FormatError(f"split sizes must add up to {total}, got {chosen}")
    parts = split(n, axis, chosen)
    return parts if keep else [ops.reshape(p, shape=(*shape[:axis], *shape[axis + 1 :])) for p in parts]


@onnx_op("ConcatFromSequence")
def _concat_from_sequence(n: NodeContext) -> Any:
    axis = n.int("axis")
    values = [n.tracer.value(i) for i in n.sequence(0)]
    if n.int("new_axis", 0):
        values = [ops.unsqueeze(v, axes=(axis,)) for v in values]
    return ops.concat(*values, axis=axis)


@onnx_op("SequenceMap")
def _map(n: NodeContext) -> Any:
    body = n.block("body")
    length = len(n.sequence(0))
    holder = Scope(None, {})
    n.tracer.scopes.append(holder)
    for i in range(length):
        items = {}
        for k, name in enumerate(body.inputs):
            item = n.item(k)
            items[name] = item[i] if isinstance(item, list) else item
        for k, result in enumerate(n.tracer.inline(body, n.scope, items)):
            holder.items[f"{k}.{i}"] = result
    n.tracer.scopes.pop()
    return tuple([holder.items[f"{k}.{i}"] for i in range(length)] for k in range(len(body.outputs)))


@onnx_op("Optional")
def _optional(n: NodeContext) -> Any:
    return n.item(0)


@onnx_op("OptionalHasElement")
def _has_element(n: NodeContext) -> Any:
    return np.asarray(n.has(0) and n.item(0) is not None)


@onnx_op("OptionalGetElement")
def _get_element(n: NodeContext) -> Any:
    if n.item(0) is None:
        raise FormatError("the optional must hold an element, got none")
    return n.item(0)


@onnx_op("ReverseSequence", since=10)
def _reverse_sequence(n: NodeContext) -> Any:
    batch_axis, time_axis = n.int("batch_axis", 1), n.int("time_axis", 0)
    x, lens = n.x(0), ops.cast(n.x(1), dtype=dtypes.i64)
    size = dim(x, time_axis)
    shape = [1] * x.rank
    shape[time_axis] = size
    places = n.constant(np.arange(size, dtype=np.int64).reshape(shape))
    shape = [1] * x.rank
    shape[batch_axis] = dim(x, batch_axis)
    ends = ops.reshape(lens, shape=tuple(shape))
    flipped = ops.sub(ops.sub(ends, n.constant(np.int64(1))), places)
    index = ops.where(ops.lt(places, ends), flipped, places)
    return ops.gather_elements(x, ops.expand(index, shape=x.shape), axis=time_axis)
