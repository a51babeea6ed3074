"""Weights that have decayed to denormal numbers are made normal, without another result.

A multiplication with a denormal operand takes 150 cycles, and networks trained with weight decay hold input channels
that are nothing else. Their weights are multiplied by 2^24 and the channels of x by 2^-24, powers of two: every product
is the same real number, so every sum rounds alike. Only |x| below 2^-102 loses bits, and its products with weights
below 2^-100 are far below the smallest number as they are.
"""

import numpy as np

from rlx.dtypes import f32
from rlx.ir.graph import Graph, Node, Rewriter
from rlx.ir.opdef import Array
from rlx.passes.cleanup import prune

_SCALE = np.float32(2.0**24)  # the smallest denormal, 2^-149, becomes 2^-125
_LARGEST = np.float32(2.0**-100)
_NORMAL = np.finfo(np.float32).tiny
_OUTPUTS_LOOKED_AT = 4  # a channel that has decayed has done so for all of them
_CHANNELS = {"conv": (1, 0), "conv_transpose": (0, 1), "matmul": (0, 1)}  # axes of weights: inputs, outputs
_FEWEST = 0.01  # of these weights: below, another pass over x costs more


def move_denormals(graph: Graph) -> Graph:
    """Give convolutions and products with denormal weights normal ones, and their operands the inverse scale."""
    found = {id(n): c for n in graph.nodes if (c := _decayed(n)) is not None}
    if not found:
        return graph
    from rlx.ops import TABLE

    rewriter = Rewriter(graph)
    for node in graph.nodes:
        channels = found.get(id(node))
        if channels is None:
            rewriter.copy(node)
            continue
        x, w = node.inputs[:2]
        assert x is not None and w is not None and w.array is not None
        scale = np.where(channels, _SCALE, np.float32(1))
        in_x = (1, -1, *(1,) * (w.rank - 2)) if node.op.name != "matmul" else (-1,)
        inverse = rewriter.graph.constant((1 / scale).reshape(in_x), name=f"{node.name}/scale")
        in_w = [-1 if i == _CHANNELS[node.op.name][0] else 1 for i in range(w.rank)]
        weights = rewriter.graph.constant(w.array * scale.reshape(in_w), name=f"{node.name}/weights")
        scaled = rewriter.emit(TABLE["mul"], [rewriter.get(x), inverse], {}, node)[0]
        rest = [rewriter.get(v) for v in node.inputs[2:]]
        rewriter.replace(node.outputs[0], rewriter.emit(node.op, [scaled, weights, *rest], node.attrs, node)[0])
    return prune(rewriter.finish())


def _decayed(node: Node) -> Array | None:
    """Which input channels of a convolution or product have small weights, if some of these are denormal."""
    w = node.inputs[1] if node.op.name in _CHANNELS else None
    if w is None or w.array is None or w.array.dtype != np.float32 or node.outputs[0].dtype != f32 or not w.array.size:
        return None
    if node.attrs.get("groups", 1) != 1 or (node.op.name == "matmul" and w.rank != 2):
        return None
    inputs, outputs = _CHANNELS[node.op.name]
    step = max(1, w.array.shape[outputs] // _OUTPUTS_LOOKED_AT)
    some = np.abs(w.array[(slice(None),) * outputs + (slice(None, None, step),)])
    if ((some > 0) & (some < _NORMAL)).mean() < _FEWEST:
        return None
    most = np.abs(w.array).max(axis=tuple(i for i in range(w.rank) if i != inputs))
    channels: Array = (most > 0) & (most < _LARGEST)
    return channels if channels.any() else None
