"""Appending to a cache: one call, which copies only what it is not given in place."""

import math

from rlx.ir.graph import Node
from rlx.ir.types import normal_axis
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, size_of


@lowering("cache_append")
def lower_cache_append(ctx: Context, node: Node) -> None:
    """A work item is one run of rows; the result may take over the cache's memory."""
    cache, rows, length = node.inputs
    assert cache is not None and rows is not None and length is not None
    shape, (out, end) = shape_of(cache), node.outputs
    axis = normal_axis(node.attrs["axis"], len(shape), "cache_append")
    items = size_of(length)
    extent = math.prod(shape[:axis])
    row = math.prod(shape[axis + 1 :]) * cache.dtype.itemsize
    ctx.call(
        "cache.append",
        [ctx.read(cache), ctx.read(rows), ctx.read(length), ctx.write(out), ctx.write(end)],
        {"items": items, "per": max(1, extent // max(items, 1)), "capacity": shape[axis],
         "rows": shape_of(rows)[axis], "row": row},
        extent=extent,
        grain=max(1, 65536 // max(shape[axis] * row, 1)),
        cost=50 + nbytes_of(rows) / 8,  # in place, as it is meant to be
        inplace=[(3, 0)],
    )
