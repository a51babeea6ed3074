"""Non-maximum suppression: each class of each item by itself, then the rows side by side."""

from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, per_thread, shape_of


@lowering("non_max_suppression_bounded")
def lower_nms(ctx: Context, node: Node) -> None:
    """Select, then compact."""
    boxes, scores, most, iou, score = (*node.inputs, None, None, None)[:5]
    rows, count = node.outputs
    assert boxes is not None and scores is not None
    batch, classes, n = shape_of(scores)
    work = per_thread(n * 28)
    selected, counts = ctx.temp(batch * classes * n * 8), ctx.temp(batch * classes * 8)
    ctx.call(
        "nms.f32",
        [
            ctx.read(boxes),
            ctx.read(scores),
            ctx.maybe(most),
            ctx.maybe(iou),
            ctx.maybe(score),
            ctx.write(selected),
            ctx.write(counts),
            ctx.work(work),
        ],
        {
            "batch": batch,
            "classes": classes,
            "boxes": n,
            "capacity": n,
            "center": int(node.attrs["center_point_box"]),
            "ws": work,
        },
        extent=batch * classes,
        grain=1,
        cost=batch * classes * n * 30 + 100,
    )
    ctx.call("nms_compact.i64", [ctx.read(selected), ctx.read(counts), ctx.write(rows), ctx.write(count)],
             {"batch": batch, "classes": classes, "capacity": n}, extent=1, cost=batch * classes * n + 50)
