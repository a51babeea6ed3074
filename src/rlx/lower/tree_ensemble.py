"""Tree ensembles: check the constant operands once, then one kernel call."""

import numpy as np

from rlx.errors import LoweringError
from rlx.ir.graph import Node
from rlx.ir.opdef import Array
from rlx.lower.context import Context, lowering, per_thread, shape_of
from rlx.ops.trees import AGGREGATE, POST, record

_CHUNK = 64


def _check(node: Node, arrays: list[Array | None], width: int) -> None:
    """Every index that the kernel follows must be in range, and every walk must end."""
    at, x = node.attrs, node.inputs[0]
    nodes, roots, offsets, targets, weights, members = arrays[:6]
    assert x is not None and nodes is not None and roots is not None and weights is not None
    assert offsets is not None and targets is not None
    table = nodes.view(record(x.dtype.numpy))
    index = np.arange(len(table))
    inner = table["next"] != index
    kind, payload = table["aux"] & 3, table["aux"] >> 3
    leaves = len(weights) if at["single"] else len(offsets) - 1
    member = inner & (kind == 3)
    problems = {
        "roots": not ((roots >= 0) & (roots < len(table))).all(),
        "children": bool(inner.any()) and not ((table["next"] > index) & (table["next"] + 1 < len(table)))[inner].all(),
        "features": bool(inner.any()) and not ((table["feature"] >= 0) & (table["feature"] < width))[inner].all(),
        "leaf features": not ((table["feature"] >= 0) & (table["feature"] < max(width, 1))).all(),
        "leaf numbers": not ((payload >= 0) & (payload < leaves))[~inner].all(),
        "leaf thresholds": not np.isnan(table["threshold"][~inner]).all(),
        "features attribute": at["features"] != width,
        "tests": not at["general"] and bool((table["aux"] & 7)[inner].any()),
        "members": bool(member.any()) and (members is None or not len(members) or not np.isnan(members[-1])
                                           or not ((payload >= 0) & (payload < len(members)))[member].all()),
    }
    if not at["single"]:
        problems["leaf_offsets"] = (
            not len(offsets)
            or bool((np.diff(offsets) < 0).any())
            or offsets[0] < 0
            or offsets[-1] > min(len(targets), len(weights))
        )
        problems["leaf_targets"] = not ((targets >= 0) & (targets < at["targets"])).all()
    elif at["targets"] != 1 or at["aggregate"] in ("min", "max"):
        problems["single"] = True
    bad = [name for name, wrong in problems.items() if wrong]
    if bad:
        raise LoweringError(f"tree_ensemble: operands must be well formed, got wrong {bad}")


@lowering("tree_ensemble")
def lower_tree_ensemble(ctx: Context, node: Node) -> None:
    """Rows are the work items."""
    x, *constants = (*node.inputs, *[None] * 8)[:8]
    assert x is not None
    if any(v is not None and v.array is None for v in constants):
        raise LoweringError("tree_ensemble: all operands but x must be constants, got a computed one")
    at = node.attrs
    rows, width = shape_of(x)
    _check(node, [None if v is None else v.array for v in constants], width)
    scores, label = node.outputs
    extremum = at["aggregate"] in ("min", "max")
    chunk = _CHUNK
    work = per_thread(max(8, chunk * at["targets"] * 8 * (2 if extremum else 1)))
    ctx.call(
        f"tree_ensemble.{x.dtype}",
        [
            ctx.read(x),
            *(ctx.maybe(v) for v in constants),
            ctx.write(scores),
            ctx.write(label) if ctx.uses.get(label) else None,
            ctx.work(work),
        ],
        {
            "rows": rows,
            "features": width,
            "trees": at["trees"],
            "targets": at["targets"],
            "x_s": width,
            "general": int(at["general"]),
            "single": int(at["single"]),
            "aggregate": AGGREGATE.index(at["aggregate"]),
            "post": POST.index(at["post"]),
            "binary": at["binary"],
            "chunk": chunk,
            "ws": work,
        },
        extent=rows,
        grain=8,
        cost=rows * at["trees"] * 10 + 200,
    )
