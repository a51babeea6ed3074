"""Grid sampling and region alignment: one call each."""

import math

from rlx.errors import LoweringError
from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, shape_of, size_of

MODES = {"nearest": 0, "linear": 1, "cubic": 2}
PADDING = {"zeros": 0, "border": 1, "reflection": 2}


@lowering("grid_sample")
def lower_grid_sample(ctx: Context, node: Node) -> None:
    """One item per point; its channels are done together."""
    x, grid = node.inputs
    assert x is not None and grid is not None
    out = node.outputs[0]
    shape = shape_of(x)
    if math.prod(shape[2:]) >= 2**31:
        raise LoweringError(f"grid_sample: a plane must have less than 2^31 elements, got {shape[2:]}")
    points = math.prod(shape_of(grid)[1:-1])
    mode = MODES[node.attrs["mode"]]
    taps = (1, 2, 4)[mode] ** (x.rank - 2)
    ctx.call(f"grid_sample.{x.dtype}", [ctx.read(x), ctx.read(grid), ctx.write(out)],
             {"channels": shape[1], "points": points, "mode": mode, "padding": PADDING[node.attrs["padding_mode"]],
              "align": node.attrs["align_corners"], "in": shape[2:]},
             extent=shape[0] * points if size_of(out) else 0, grain=256,
             cost=20 + shape[0] * points * 20 + size_of(out) * taps)


@lowering("roi_align")
def lower_roi_align(ctx: Context, node: Node) -> None:
    """One item per row of bins."""
    x, rois, items = node.inputs
    assert x is not None and rois is not None and items is not None
    out = node.outputs[0]
    batch, channels, height, width = shape_of(x)
    bins_y, bins_x = node.attrs["output_size"]
    sampling = node.attrs["sampling_ratio"]
    ctx.call(f"roi_align.{x.dtype}", [ctx.read(x), ctx.read(rois), ctx.read(items), ctx.write(out)],
             {"batch": batch, "channels": channels, "height": height, "width": width, "bins_y": bins_y,
              "bins_x": bins_x, "sampling": sampling, "maximum": node.attrs["mode"] == "max",
              "scale": node.attrs["spatial_scale"], "shift": 0.5 if node.attrs["half_pixel"] else 0.0},
             extent=shape_of(rois)[0] * bins_y, grain=1, cost=20 + size_of(out) * 4 * max(sampling, 2) ** 2)
