"""Attention: one kernel over strided views of its operands."""

from collections.abc import Sequence

from rlx import dtypes
from rlx.ir.graph import Node, Value
from rlx.lower.context import Context, lowering, per_thread, shape_of, size_of
from rlx.lower.region import broadcast_strides

_TILE = 32  # queries that every ISA level can take together
_MOST_TILES = 4  # of a work item: they share a block of keys that is brought near
_FEW = 4  # so many queries take the road of decoding, where query heads share what they read
_ENOUGH_ITEMS = 8  # work items that suffice for the threads; see attention.c for the other figures


def block_of(sq: int, heads: int) -> int:
    """Queries of a work item; `heads`: of all items of the batch."""
    tiles = max(1, -(-sq // _TILE))
    each = max(1, min(_MOST_TILES, tiles, tiles * heads // _ENOUGH_ITEMS))
    return _TILE * each


def work_bytes(block: int, d: int, dv: int, itemsize: int) -> int:
    """Workspace of a thread."""
    return per_thread(((96 + max(block, _TILE)) * (d + dv + 4) + 4096) * itemsize)


def items_of(batch: int, heads: int, kv_heads: int, sq: int, block: int) -> int:
    """Work items of a call."""
    if sq > _FEW:
        return batch * heads * -(-sq // block)
    each = heads // kv_heads if kv_heads else 1
    return batch * kv_heads * -(-each // max(1, min(each, 4)))


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one of a view."""
    if 0 in sizes:
        return 0
    return 1 + sum((d - 1) * s for d, s in zip(sizes, strides, strict=True))


@lowering("fused_attention")
def lower_attention(ctx: Context, node: Node) -> None:
    """Queries in blocks, keys streamed."""
    q, k, v, mask, lens = (*node.inputs, None, None)[:5]
    assert q is not None and k is not None and v is not None
    out, at, dtype = node.outputs[0], node.attrs, q.dtype
    b, heads, kv, sq, sk, d, dv = at["sizes"]
    size = dtype.itemsize
    attrs = {"batch": b, "heads": heads, "kv_heads": kv, "sq": sq, "sk": sk, "d": d, "dv": dv}
    reads = []
    for name, value, count, length, width in (("q", q, heads, sq, d), ("k", k, kv, sk, d), ("v", v, kv, sk, dv)):
        offset, *strides = at[f"{name}_view"]
        attrs |= dict(zip((f"{name}_b", f"{name}_h", f"{name}_s"), strides, strict=True))
        place = ctx.operand(value).at(offset * size if size_of(value) else 0)
        reads.append(ctx.read(place, _reach((b, count, length, width), (*strides, 1)) * size))
    o = (sq * heads * dv, dv, heads * dv) if at["tokens"] else (heads * sq * dv, sq * dv, dv)
    attrs |= dict(zip(("o_b", "o_h", "o_s"), o, strict=True))
    plain = mask is not None and mask.dtype == dtypes.bool_
    for name, given in (("m", mask if plain else None), ("b", None if plain else mask)):
        by_axis = _mask_strides(given, (b, heads, sq, sk))
        attrs |= dict(zip((f"{name}_b", f"{name}_h", f"{name}_q", f"{name}_k"), by_axis, strict=True))
    block = block_of(sq, b * heads)
    work = work_bytes(block, d, dv, max(size, 4))
    window = at["window"]
    attrs |= {
        "causal": int(at["causal"]),
        "past": at["past"],
        "window": -1 if window is None else window,
        "lens_past": int(at["lens_past"]),
        "block": block,
        "ws": work,
        "scale": at["scale"],
        "softcap": at["softcap"],
        "empty": at["empty"],
    }
    ctx.call(
        f"attention.f32@{dtype}" if dtype.is_half else f"attention.{dtype}",
        [
            *reads,
            ctx.maybe(mask) if plain else None,
            None if plain else ctx.maybe(mask),
            ctx.maybe(lens),
            ctx.write(out),
            ctx.work(work),
        ],
        attrs,
        extent=items_of(b, heads, kv, sq, block),
        grain=1,
        cost=b * heads * sq * sk * (d + dv + 20) * 0.02 + 100,
    )


def _mask_strides(mask: Value | None, target: Sequence[int]) -> Sequence[int]:
    return (0, 0, 0, 0) if mask is None else broadcast_strides(shape_of(mask), target)


@lowering("rope")
def lower_rope(ctx: Context, node: Node) -> None:
    """Rotary embedding: a head of a token is a work item."""
    x, cos, sin, positions = (*node.inputs, None)[:4]
    assert x is not None and cos is not None and sin is not None
    out, at = node.outputs[0], node.attrs
    shape, table = shape_of(x), shape_of(cos)
    if len(shape) == 4:
        b, heads, s, d = shape
        strides = {"b": heads * s * d, "s": d, "h": s * d}
    else:
        b, s, width = shape
        heads = at["num_heads"]
        d = width // heads
        strides = {"b": s * width, "s": width, "h": d}
    half = table[-1]
    if positions is None:  # a row of angles per token
        rows, t_b, past, p = s, (table[1] * half if table[0] > 1 else 0), 0, (0, 0)
    else:
        rows, t_b, past = table[0], 0, 0
        p = tuple(broadcast_strides(shape_of(positions), (b, s)))  # type: ignore[assignment]
    attrs = {
        "batch": b,
        "seq": s,
        "heads": heads,
        "dim": d,
        "n_rot": 2 * half,
        "style": int(at["interleaved"]),
        "inverse": 0,
        "rows": rows,
        "t_b": t_b,
        "t_s": half if positions is not None or table[1] > 1 else 0,
        "p_b": p[0],
        "p_s": p[1],
        "past": past,
    }
    attrs |= {f"{v}_{k}": n for v in "xy" for k, n in strides.items()}
    ctx.call(
        f"rope.{x.dtype}",
        [ctx.read(x), ctx.read(cos), ctx.read(sin), ctx.maybe(positions), ctx.write(out)],
        attrs,
        extent=b * s * heads,
        grain=16,
        cost=size_of(x) * 0.5 + 50,
    )
