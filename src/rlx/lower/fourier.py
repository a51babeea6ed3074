"""Fourier transforms: the plan is a constant, everything else follows from the shape."""

import math

import numpy as np

from rlx import dtypes
from rlx.ir.graph import Node, Value
from rlx.lower.context import Context, lowering, per_thread, shape_of
from rlx.ops._fft_plan import FftPlan, fft_plan


def _plan(value: Value, n: int, real: bool) -> FftPlan:
    double = value.dtype in (dtypes.f64, dtypes.c128)
    return fft_plan(n, np.float64 if double else np.float32, real)


def _cost(rows: int, n: int) -> float:
    return rows * n * (1 + math.log2(max(2, n))) * 0.25 + 60


@lowering("fourier")
def lower_fourier(ctx: Context, node: Node) -> None:
    """Rows of the last axis."""
    x, table = node.inputs
    out, at = node.outputs[0], node.attrs
    assert x is not None and table is not None
    kind, n = at["kind"], at["n"]
    plan = _plan(x, n, kind != "fft")
    rows = math.prod(shape_of(x)[:-1])
    work = per_thread(plan.workspace)
    have = shape_of(x)[-1]
    ctx.call(
        f"{kind}.{out.dtype if kind != 'rfft' else x.dtype}",
        [ctx.read(x), ctx.read(table), ctx.write(out), ctx.work(work)],
        {
            "rows": rows,
            "have": have,
            "x_s": have,
            "y_s": shape_of(out)[-1],
            "inverse": int(at["inverse"]),
            "group": plan.group,
            "ws": work,
            "scale": at["scale"],
            "plan": list(plan.words),
        },
        extent=plan.extent(rows),
        grain=1,
        cost=_cost(rows, n),
    )


@lowering("stft_planned")
def lower_stft(ctx: Context, node: Node) -> None:
    """Frames are read where they lie in the signal."""
    x, window, table = node.inputs
    out, at = node.outputs[0], node.attrs
    assert x is not None and table is not None
    batch, frames, _ = shape_of(out)
    plan = _plan(x, at["n"], True)
    work = per_thread(plan.workspace)
    ctx.call(
        f"stft.{x.dtype}",
        [ctx.read(x), ctx.maybe(window), ctx.read(table), ctx.write(out), ctx.work(work)],
        {
            "batch": batch,
            "frames": frames,
            "hop": at["hop"],
            "x_b": shape_of(x)[1],
            "onesided": int(at["onesided"]),
            "group": plan.group,
            "ws": work,
            "scale": 1.0,
            "plan": list(plan.words),
        },
        extent=plan.extent(batch * frames),
        grain=1,
        cost=_cost(batch * frames, at["n"]),
    )


@lowering("view_as_real", "view_as_complex")
def lower_view(ctx: Context, node: Node) -> None:
    """The same bytes."""
    x = node.inputs[0]
    assert x is not None
    ctx.alias(node.outputs[0], ctx.operand(x))
