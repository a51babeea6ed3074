"""3x3 convolutions with stride 1 by Winograd's minimal filtering, where that is faster.

Fewer multiplications, formed from sums of inputs and of weights: a result differs from the direct sum by a
few ulp of the largest terms of its tile of 4x4 or 6x6 inputs. Infinities and NaN stay where the direct sum has them.
A dilated one is a plain one for each of its phases.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rlx import costs
from rlx.dtypes import f32
from rlx.ir.graph import CONSTANT, PARAM, Graph, Node, Rewriter
from rlx.ir.types import static_shape
from rlx.ops.conv import geometry

_GAIN = 0.8  # of the estimate for direct sums; a tie is not worth more weights


def use_winograd(graph: Graph) -> Graph:
    """Mark the convolutions that profit."""
    chosen = {id(n) for n in graph.nodes if n.op.name == "conv_nhwc" and not n.attrs["winograd"] and _profits(n)}
    if not chosen:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in chosen:
            new = rewriter.emit(node.op, [rewriter.get(v) for v in node.inputs], {**node.attrs, "winograd": True}, node)
            rewriter.replace(node.outputs[0], new[0])
        else:
            rewriter.copy(node)
    return rewriter.finish()


def _profits(node: Node) -> bool:
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    if x.rank != 4 or node.outputs[0].dtype != f32 or w.dtype != f32 or not x.type.is_static:
        return False
    if w.node.op is not CONSTANT and w.node.op is not PARAM:
        return False
    return takes(static_shape(w.shape, w.name), node.attrs, static_shape(node.outputs[0].shape, node.name)[:3])


def takes(weights: Sequence[int], at: Mapping[str, Any], pixels: Sequence[int]) -> bool:
    """Whether transforms win for weights [OC, C, kernel...] and pixels (N, height, width) of the result."""
    oc, c, *kernel = weights
    if kernel != [3, 3]:
        return False
    g = geometry("conv", 2, at["strides"], at["pads"], at["dilations"], at["groups"])
    if g.strides != (1, 1) or g.groups != 1:
        return False
    least = costs.of()  # below these the transforms cost what they save
    if min(c, oc) < least.winograd_channels or c * oc < least.winograd_products:
        return False
    batch, height, width = pixels
    direct = costs.conv3x3_ns(batch, height, width, c, oc)
    phases = costs.winograd_phases(pixels, g.dilations)
    return any(costs.winograd_ns(m, *phases, c, oc) < _GAIN * direct for m in costs.WINOGRAD_SIDES)
