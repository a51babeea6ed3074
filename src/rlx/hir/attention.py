"""Multi-head attention with its projections; rotary positions."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.hir.builder import Builder
from rlx.hir.dense import linear
from rlx.ir.graph import Value
from rlx.ir.opdef import Array
from rlx.records import record


@record(frozen=True)
class Rope:
    """Rotary position embedding of queries and keys (Su et al. 2021), pairs being the halves of a head.

    Attributes
    ----------
    theta : float
        Pair i of a head of width D turns by ``position * theta**(-2 i / D)`` radians.
    max_positions : int
        Rows of the table; a longer sequence is an error of the run.
    interleaved : bool
        Pairs are neighbours instead.
    """

    theta: float = 10000.0
    max_positions: int = 2048
    interleaved: bool = False


def _turn(b: Builder, x: Value, rope: Rope, positions: Value, heads: int, width: int) -> Value:
    """x [B, S, H*D] turned by its positions [B or 1, S]; the angles are made in float64."""
    rows = b.count("rope", "max_positions", rope.max_positions)
    if not 0 < rope.theta < math.inf:
        raise b.fail("rope", f"theta must be > 0 and finite, got {rope.theta}")

    def table(function: Callable[[Array], Array]) -> Value:
        angle = np.arange(rows)[:, None] * float(rope.theta) ** (-np.arange(0, width, 2) / width)
        return b.graph.constant(function(angle).astype(x.dtype.numpy))

    cos, sin = (b.once(("rope", f.__name__, rope, width, x.dtype), partial(table, f)) for f in (np.cos, np.sin))
    if b.fused:
        return ops.rotary_embedding(x, cos, sin, positions, num_heads=heads, interleaved=rope.interleaved)
    batch, seq = x.shape[:2]
    half = width // 2
    split = (half, 2) if rope.interleaved else (2, half)
    axis = 4 if rope.interleaved else 3
    pairs = ops.reshape(x, shape=(batch, seq, heads, *split))
    c, s = (ops.reshape(ops.gather(t, positions, axis=0), shape=(*positions.shape, 1, half)) for t in (cos, sin))
    c, s = (ops.unsqueeze(t, axes=(axis,)) for t in (c, s))
    one, two = (ops.slice(pairs, starts=i, stops=i + 1, axes=axis) for i in (0, 1))
    turned = [c * one - s * two, s * one + c * two]
    return ops.reshape(ops.concat(turned, axis=axis), shape=x.shape)


def _heads(x: Value, count: int, perm: tuple[int, ...], repeat: int) -> Value:
    """[B, S, N*D] as [B, N*repeat, ., .], the last two in the order of `perm`."""
    batch, seq, n = x.shape
    y = ops.transpose(ops.reshape(x, shape=(batch, seq, count, n // count)), perm=perm)
    if repeat == 1:
        return y
    rest = y.shape[2:]
    wide = ops.expand(ops.reshape(y, shape=(batch, count, 1, *rest)), shape=(batch, count, repeat, *rest))
    return ops.reshape(wide, shape=(batch, count * repeat, *rest))


def _attend(b: Builder, q: Value, k: Value, v: Value, mask: Value | None, heads: int, kv: int, causal: bool) -> Value:
    """softmax(q k^T / sqrt(D), masked) v of [B, S, H*D] operands."""
    if mask is not None and mask.dtype == dtypes.bool_ and mask.rank == 2:
        mask = ops.reshape(mask, shape=(mask.shape[0], 1, 1, mask.shape[1]))
    if b.fused:
        return ops.attention(q, k, v, mask, num_heads=heads, num_kv_heads=kv, causal=causal)
    width = b.width("attention", q) // heads
    scores = _heads(q, heads, (0, 2, 1, 3), 1) @ _heads(k, kv, (0, 2, 3, 1), heads // kv) * width**-0.5
    seen, order = None, None
    if causal:
        # counted from the end, so that the last query sees every key
        i, j = (ops.flip(ops.iota(shape=(n,), dtype=dtypes.i64, graph=b.graph), axes=0)
                for n in (q.shape[1], k.shape[1]))
        seen = order = ops.reshape(i, shape=(q.shape[1], 1)) <= j
    hidden = b.graph.constant(-np.inf, dtype=q.dtype)
    if mask is not None and mask.dtype == dtypes.bool_:
        seen = mask if order is None else mask & order
    elif mask is not None:  # one bias, as the passes look for
        seen, scores = None, scores + (mask if order is None else ops.where(order, mask, hidden))
    if seen is not None:
        scores = ops.where(seen, scores, hidden)
    weights = ops.softmax(scores, axis=-1)
    if mask is not None or causal:
        weights = ops.where(ops.isnan(weights), b.graph.constant(0.0, dtype=q.dtype), weights)
    y = ops.transpose(weights @ _heads(v, kv, (0, 2, 1, 3), heads // kv), perm=(0, 2, 1, 3))
    return ops.reshape(y, shape=q.shape)


def _project(b: Builder, x: Value, source: Value, q: int, kv: int, bias: bool) -> tuple[Value, Value, Value]:
    """Queries of x, keys and values of source through one matrix, as torch.nn.MultiheadAttention has it."""
    n = b.width("attention", x)
    total = q + 2 * kv
    weight = b.param("in_proj_weight", (n, total), x.dtype, fan_in=n, is_linear=True)
    shift = b.param("in_proj_bias", (total,), x.dtype, init="zeros") if bias else None

    def part(y: Value, lo: int, hi: int) -> Value:
        return ops.slice(y, starts=lo, stops=hi, axes=-1)

    if source is x:
        y = x @ weight
        y = y if shift is None else y + shift
        return part(y, 0, q), part(y, q, q + kv), part(y, q + kv, total)
    found = []
    for value, lo, hi in ((x, 0, q), (source, q, q + kv), (source, q + kv, total)):
        y = value @ part(weight, lo, hi)
        found.append(y if shift is None else y + part(shift, lo, hi))
    return found[0], found[1], found[2]


def attention(b: Builder, x: Value, num_heads: int, *, context: Value | None = None, num_kv_heads: int | None = None,
              head_dim: int | None = None, causal: bool = False, mask: Any = None, rope: Rope | None = None,
              positions: Any = None, packed: bool = False, bias: bool = True, name: str | None = None) -> Value:
    """Multi-head attention (Vaswani et al. 2017) of x, or of x to a context.

    Parameters: `q_proj`, `k_proj`, `v_proj` and `o_proj` or, packed, `in_proj_weight`, `in_proj_bias` and `out_proj`.

    Parameters
    ----------
    b : Builder
    x : Value
        [B, S, in]; the result has the same type.
    num_heads : int
    context : Value, optional
        [B, K, width]: keys and values are made from it (cross attention).
    num_kv_heads : int, optional
        Fewer heads of keys and values, each used by ``num_heads / num_kv_heads`` queries.
    head_dim : int, optional
        ``in / num_heads`` if not given.
    causal : bool
        Key j is visible to query i iff j <= i + K - S.
    mask : Value or array, optional
        bool (true: visible; of rank 2: [B, K]) or a bias in the type of x; broadcast to [B, H, S, K].
        A query without a visible key gives zeros.
    rope : Rope, optional
    positions : Value or array, optional
        i64 [B, S] or [1, S], for `rope`; 0, 1, ... if not given.
    packed : bool
        Whether one matrix makes queries, keys and values. With a context it is taken apart in every run: slower.
    bias : bool
    name : str, optional

    Raises
    ------
    TypeRuleError
        Ranks, sizes or heads do not fit; `rope` with `context`; `positions` without `rope`.
    """
    with b.scope(name):
        n = b.width("attention", x)
        source = x if context is None else context
        width = b.width("attention", source)
        heads = b.count("attention", "num_heads", num_heads)
        kv = heads if num_kv_heads is None else b.count("attention", "num_kv_heads", num_kv_heads)
        if x.rank != 3 or source.rank != 3 or x.dtype != source.dtype or x.shape[0] != source.shape[0]:
            raise b.fail("attention", f"x and context must be [batch, length, width] of one type and batch, "
                                      f"got {x.type} and {source.type}")
        if heads % kv:
            raise b.fail("attention", f"num_heads must be a multiple of num_kv_heads, got {heads} and {kv}")
        if head_dim is None and n % heads:
            raise b.fail("attention", f"the width of x must divide by num_heads, got {n} and {heads}")
        d = n // heads if head_dim is None else b.count("attention", "head_dim", head_dim)
        if rope is not None and (context is not None or d % 2):
            raise b.fail("attention", f"rope must come without context and with an even head width, got width {d}")
        if positions is not None and rope is None:
            raise b.fail("attention", "positions must come with rope, got them alone")
        if packed:
            if width != n:
                raise b.fail("attention", f"packed: x and context must have one width, got {n} and {width}")
            q, k, v = _project(b, x, source, heads * d, kv * d, bias)
        else:
            q, k, v = (linear(b, value, size * d, bias=bias, name=f"{what}_proj")
                       for what, value, size in (("q", x, heads), ("k", source, kv), ("v", source, kv)))
        if rope is not None:
            if positions is None:
                at = ops.reshape(ops.iota(shape=(x.shape[1],), dtype=dtypes.i64, graph=b.graph),
                                 shape=(1, x.shape[1]))
            else:
                at = b.graph.as_value(positions, None, "positions")
            if at.rank != 2 or at.dtype not in (dtypes.i32, dtypes.i64) or at.shape[1] != x.shape[1]:
                raise b.fail("attention", f"positions must be i64 [batch, {x.shape[1]}], got {at.type}")
            q, k = _turn(b, q, rope, at, heads, d), _turn(b, k, rope, at, kv, d)
        seen = None if mask is None else b.graph.as_value(mask, None, "mask")
        y = _attend(b, q, k, v, seen, heads, kv, causal)
        return linear(b, y, n, bias=bias, name="out_proj" if packed else "o_proj")
