"""Attention of language models as ONNX Runtime's optimisers and builders write it: domain com.microsoft."""

from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext, dim
from rlx.onnx.registry import onnx_op

MS = "com.microsoft"


def heads_first(v: Value, heads: int) -> Any:
    """[B, S, H*D] as [B, H, S, D]."""
    if v.rank == 4:
        return v
    if v.rank != 3 or dim(v, 2) % heads:
        raise FormatError(f"the operand must be [batch, length, {heads} heads * size], got shape {list(v.shape)}")
    split = ops.reshape(v, shape=(dim(v, 0), dim(v, 1), heads, dim(v, 2) // heads))
    return ops.transpose(split, perm=(0, 2, 1, 3))


def heads_last(v: Value) -> Any:
    """[B, H, S, D] as [B, S, H*D]."""
    moved = ops.transpose(v, perm=(0, 2, 1, 3))
    return ops.reshape(moved, shape=(dim(v, 0), dim(v, 2), dim(v, 1) * dim(v, 3)))


def rotate(v: Value, cos: Value, sin: Value, interleaved: bool) -> Any:
    """Rotary embedding of [B, H, S, D] by tables [B, S, R / 2]; what is beyond R stays."""
    half = dim(cos, cos.rank - 1)
    cos, sin = (ops.unsqueeze(t, axes=(1,)) for t in (cos, sin))
    turned = ops.slice(v, starts=(0,), stops=(2 * half,), axes=(3,))
    if interleaved:
        a = ops.slice(turned, starts=(0,), stops=(2 * half,), axes=(3,), steps=(2,))
        b = ops.slice(turned, starts=(1,), stops=(2 * half,), axes=(3,), steps=(2,))
    else:
        a, b = turned[:, :, :, :half], turned[:, :, :, half:]
    first = ops.sub(ops.mul(a, cos), ops.mul(b, sin))
    second = ops.add(ops.mul(a, sin), ops.mul(b, cos))
    if interleaved:
        pairs = ops.concat(ops.unsqueeze(first, axes=(4,)), ops.unsqueeze(second, axes=(4,)), axis=4)
        result = ops.reshape(pairs, shape=(*first.shape[:3], 2 * half))
    else:
        result = ops.concat(first, second, axis=3)
    if 2 * half == dim(v, 3):
        return result
    return ops.concat(result, ops.slice(v, starts=(2 * half,), stops=(dim(v, 3),), axes=(3,)), axis=3)


@onnx_op("RotaryEmbedding", domain=MS)
def _rotary(n: NodeContext) -> Any:
    x, places, cos, sin = n.x(0), n.x(1), n.x(2), n.x(3)
    flat = x.rank == 3
    size = n.int("rotary_embedding_dim", 0)
    heads = n.int("num_heads", 0)
    if flat and not heads:
        heads = dim(x, 2) // (size or 2 * dim(cos, 1))
    v = heads_first(x, heads) if flat else x
    batch, length = dim(v, 0), dim(v, 2)
    if places.type.size == 1 and length * batch != 1:
        steps = n.constant(np.arange(length, dtype=np.int64)[None, :])
        places = ops.add(ops.reshape(places, shape=(1, 1)), steps)
    places = ops.expand(ops.reshape(places, shape=(-1, length)), shape=(batch, length))
    y = rotate(v, ops.gather(cos, places, axis=0), ops.gather(sin, places, axis=0), bool(n.int("interleaved", 0)))
    return heads_last(y) if flat else y


@onnx_op("MultiHeadAttention", domain=MS)
def _multi_head(n: NodeContext) -> Any:
    heads = n.int("num_heads")
    q, k, v, bias = n.x(0), n.opt(1), n.opt(2), n.opt(3)
    mask, extra, past_k, past_v = n.opt(4), n.opt(5), n.opt(6), n.opt(7)
    if k is None and q.rank == 5:  # [B, S, H, 3, D]
        q, k, v = (ops.transpose(q[:, :, :, i], perm=(0, 2, 1, 3)) for i in range(3))
    elif k is not None and v is None and k.rank == 5:  # [B, S, H, 2, D]
        k, v = (ops.transpose(k[:, :, :, i], perm=(0, 2, 1, 3)) for i in range(2))
    if k is None or v is None:
        raise FormatError("keys and values must be given")
    if bias is not None:
        wide = dim(q, 2)
        sizes = [wide, wide, dim(bias, 0) - 2 * wide]
        at = 0
        parts = []
        for x, size in zip((q, k, v), sizes, strict=True):
            parts.append(ops.add(x, bias[at : at + size]) if x.rank == 3 else x)
            at += size
        q, k, v = parts
    q, k, v = (heads_first(x, heads) for x in (q, k, v))
    if past_k is not None and past_v is not None:
        k, v = ops.concat(past_k, k, axis=2), ops.concat(past_v, v, axis=2)
    lens = None
    if mask is not None:
        if mask.rank == 1:
            if dim(mask, 0) != dim(q, 0):
                raise FormatError(f"the key mask must be [batch] or [batch, keys], got shape {list(mask.shape)}")
            lens, mask = ops.cast(mask, dtype=dtypes.i64), None
        else:
            mask = ops.ne(mask, n.like(0, mask))
            mask = (
                ops.reshape(mask, shape=(dim(mask, 0), 1, 1, -1)) if mask.rank == 2 else ops.unsqueeze(mask, axes=(1,))
            )
    if extra is not None:
        hidden = n.like(n.float("mask_filter_value", -10000.0), extra)
        mask = extra if mask is None else ops.where(mask, extra, ops.add(extra, hidden))
    scale = n.float("scale", 0.0) or None
    y = ops.attention(q, k, v, mask, lens, scale=scale, causal=bool(n.int("unidirectional", 0)))
    return heads_last(y), k, v


@onnx_op("GroupQueryAttention", domain=MS)
def _group_query(n: NodeContext) -> Any:
    """Causal attention with a cache: of the past alone, or a buffer of fixed size that is written in place."""
    heads, groups = n.int("num_heads"), n.int("kv_num_heads")
    if any(n.has(i) and n.item(i) is not None for i in (11, 12, 13)):
        raise FormatError("head sinks and quantised caches are not supported")
    q, k, v, past_k, past_v = n.x(0), n.opt(1), n.opt(2), n.opt(3), n.opt(4)
    ends = ops.cast(ops.reshape(n.x(5), shape=(-1,)), dtype=dtypes.i64)
    cos, sin, given, extra = n.opt(7), n.opt(8), n.opt(9), n.opt(10)
    if k is None or v is None:  # packed along the last axis
        size = dim(q, 2) // (heads + 2 * groups)
        edges = [0, heads * size, (heads + groups) * size, (heads + 2 * groups) * size]
        q, k, v = (ops.slice(q, starts=(a,), stops=(b,), axes=(2,)) for a, b in zip(edges, edges[1:], strict=False))
    q, k, v = heads_first(q, heads), heads_first(k, groups), heads_first(v, groups)
    batch, length = dim(q, 0), dim(q, 2)
    held = dim(past_k, 2) if past_k is not None else 0
    # The total length differs from run to run; the plan only depends on these two questions.
    known = n.tracer.decide([n.item(6)], lambda t: (int(t.reshape(-1)[0]) == length, int(t.reshape(-1)[0]) <= held))
    first_prompt, fits = known or (int(n.scalar(6)) == length, int(n.scalar(6)) <= held)
    ends = ops.expand(ends, shape=(batch,))
    steps = n.constant(np.arange(length, dtype=np.int64)[None, :])
    start = ops.sub(ends, n.constant(np.int64(length - 1)))
    places = (
        ops.expand(steps, shape=(batch, length)) if first_prompt else ops.add(ops.unsqueeze(start, axes=(1,)), steps)
    )
    if n.int("do_rotary", 0):
        if cos is None or sin is None:
            raise FormatError("tables of cosines and sines must be given")
        at = places if given is None else given
        tables = [ops.gather(t, at, axis=0) for t in (cos, sin)]
        interleaved = bool(n.int("rotary_interleaved", 0))
        q, k = (rotate(x, tables[0], tables[1], interleaved) for x in (q, k))
    if past_k is not None and past_v is not None and fits:  # a buffer
        first = n.constant(np.zeros(batch, np.int64)) if first_prompt else start
        k, _ = ops.cache_append(past_k, k, first, axis=2)
        v, _ = ops.cache_append(past_v, v, first, axis=2)
    elif past_k is not None and past_v is not None and held:
        k, v = ops.concat(past_k, k, axis=2), ops.concat(past_v, v, axis=2)
    scale, softcap = n.float("scale", 0.0) or None, n.float("softcap", 0.0)
    window = n.int("local_window_size", -1)
    if extra is None:  # the cost follows the length, not the size of the buffer
        lens = None if first_prompt else ops.add(ends, n.constant(np.int64(1)))
        y = ops.attention(q, k, v, None, lens, scale=scale, softcap=softcap, causal=True, lens_past=not first_prompt,
                          past=0 if first_prompt else None, window=window - 1 if window > 0 else None)
        return heads_last(y), k, v
    keys = n.constant(np.arange(dim(k, 2), dtype=np.int64)[None, None, None, :])
    rows = ops.reshape(places, shape=(batch, 1, length, 1))
    seen = ops.le(keys, rows)
    if window > 0:
        seen = ops.logical_and(seen, ops.gt(keys, ops.sub(rows, n.constant(np.int64(window)))))
    y = ops.attention(q, k, v, ops.where(seen, extra, n.like(-np.inf, extra)), scale=scale, softcap=softcap)
    return heads_last(y), k, v


@onnx_op("CDist", domain=MS)
def _cdist(n: NodeContext) -> Any:
    """Distances between the rows of two matrices, from differences: exact where rows are equal."""
    a, b = n.x(0), n.x(1)
    gap = ops.sub(ops.unsqueeze(a, axes=(1,)), ops.unsqueeze(b, axes=(0,)))
    total = ops.reduce_sum_square(gap, axes=(2,), keepdims=False)
    return total if n.str("metric", "sqeuclidean") == "sqeuclidean" else ops.sqrt(total)


@onnx_op("Inverse", domain=MS)
def _inverse(n: NodeContext) -> Any:
    return ops.inverse(n.x(0))
