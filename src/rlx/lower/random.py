"""Random ops: the key of a stream, then one kernel call."""

import zlib

from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, per_thread, shape_of, size_of


def key_of(ctx: Context, node: Node) -> int:
    """The op's key: its `seed`, or a hash of where it is."""
    seed = node.attrs["seed"]
    text = f"{ctx.path}/{node.name}" if seed is None else f"seed {seed}"
    return zlib.crc32(text.encode())


def _fill(ctx: Context, node: Node, kernel: str, *names: str) -> None:
    out = node.outputs[0]
    n = size_of(out)
    ctx.call(f"{kernel}.{out.dtype}", [ctx.write(out)], {"key": key_of(ctx, node), **{k: node.attrs[k] for k in names}},
             extent=n, grain=4096, cost=n * 1.5 + 40)


@lowering("random_uniform")
def lower_uniform(ctx: Context, node: Node) -> None:
    """Uniform numbers."""
    _fill(ctx, node, "uniform", "low", "high")


@lowering("random_normal")
def lower_normal(ctx: Context, node: Node) -> None:
    """Normal numbers."""
    _fill(ctx, node, "normal", "mean", "std")


@lowering("randint")
def lower_randint(ctx: Context, node: Node) -> None:
    """Integers."""
    _fill(ctx, node, "randint", "low", "high")


@lowering("multinomial", "sample")
def lower_draw(ctx: Context, node: Node) -> None:
    """Draws from rows of logits."""
    logits, out = node.inputs[0], node.outputs[0]
    assert logits is not None
    rows, width = shape_of(logits)
    at = node.attrs
    many = node.op.name == "multinomial"
    work = per_thread(max(1, width) * (8 if many else 16))
    attrs = {"key": key_of(ctx, node), "x_s": width, "ws": work}
    if many:
        attrs |= {"classes": width, "samples": at["samples"]}
    else:
        attrs |= {"vocab": width, "top_k": at["top_k"], "temperature": at["temperature"], "top_p": at["top_p"]}
    ctx.call(
        f"{node.op.name}.{logits.dtype}",
        [ctx.read(logits), ctx.write(out), ctx.work(work)],
        attrs,
        extent=rows,
        grain=1,
        cost=rows * width * 4 + 100,
    )
