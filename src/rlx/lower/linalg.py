"""Determinants and inverses: a matrix is a work item."""

import math

from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, per_thread, shape_of


@lowering("det", "inverse")
def lower_small_matrices(ctx: Context, node: Node) -> None:
    """LU with partial pivoting in double."""
    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = shape_of(x)
    n, batch = shape[-1], math.prod(shape[:-2])
    work = per_thread(n * n * 8 * (1 if node.op.name == "det" else 2))
    ctx.call(
        f"{node.op.name}.{x.dtype}",
        [ctx.read(x), ctx.write(out), ctx.work(work)],
        {"n": n, "ws": work},
        extent=batch,
        grain=max(1, 500 // (n * n + 1)),
        cost=batch * (n**3 * 0.5 + 40),
    )
