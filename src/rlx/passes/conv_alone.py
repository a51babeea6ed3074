"""Convolutions that stand alone keep their image channels first.

A chain of convolutions is fastest channels last, transposed once at either end. One that has only
elementwise ops around it would pay for both transposes by itself.
"""

import math

from rlx.dtypes import f32
from rlx.ir.graph import CONSTANT, INPUT, PARAM, Graph, Node, Rewriter, Value
from rlx.ir.types import static_shape
from rlx.ops.conv import Geometry, geometry
from rlx.passes import winograd
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import Readers

# Measured with images that come from the second cache or farther; see isa/conv_first.c, isa/conv_planes.c.
_LONG_LINE = 24
_LONGEST_LINE = {1: 256, 2: 96, 3: 96}  # by dimensions
_MANY_PIXELS = 256
_FEW_TERMS = 160
_MOST_TERMS = 640
_MOST_TAPS = 1024
_FEW_TAPS = 25  # of planes that keep their size
_PIXELS_PER_TAP = 5
_FEW_CHANNELS = 8
_MANY_GROUPS = 16  # that fill a vector
_FEW_WEIGHTS = 1 << 14


def keep_channels_first(graph: Graph) -> Graph:
    """Give the convolutions that stand alone their own form."""
    profits = {"conv": _profits, "conv_transpose": _spreads}
    if not any(n.op.name in profits for n in graph.nodes):
        return graph
    readers = Readers(graph)
    chosen = {id(n) for n in graph.nodes if n.op.name in profits and profits[n.op.name](n) and _alone(n, readers)}
    if not chosen:
        return graph
    from rlx.ops import TABLE

    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in chosen:
            attrs = node.attrs
            if node.op.name == "conv_transpose":
                attrs = {"kernel": tuple(node.inputs[1].shape[2:])}  # type: ignore[union-attr]
            new = rewriter.emit(TABLE[f"{node.op.name}_alone"], [rewriter.get(v) for v in node.inputs], attrs, node)
            rewriter.replace(node.outputs[0], new[0])
        else:
            rewriter.copy(node)
    return prune(rewriter.finish())


def _alone(conv: Node, readers: Readers) -> bool:
    """Whether images reach the convolution from leaves and leave it to outputs through elementwise ops only."""
    x = conv.inputs[0]
    assert x is not None
    rank, seen, open_ = x.rank, set[Value](), [x, conv.outputs[0]]
    while open_:
        value = open_.pop()
        if value in seen:
            continue
        seen.add(value)
        for node in (value.node, *readers.of.get(value, ())):
            if node is conv or node.op in (CONSTANT, INPUT, PARAM):
                continue
            if not node.op.has("elementwise") or node.outputs[0].rank != rank:
                return False
            open_ += [v for v in (*node.inputs, *node.outputs) if v is not None and v.rank == rank]
    return True


def _profits(node: Node) -> bool:
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    if node.outputs[0].dtype != f32 or not 3 <= x.rank <= 5 or not x.type.is_static:
        return False
    if w.node.op not in (CONSTANT, PARAM):
        return False
    at, (oc, c, *kernel) = node.attrs, static_shape(w.shape, w.name)
    g = geometry("conv", x.rank - 2, *(at[k] for k in ("strides", "pads", "dilations", "groups")))
    batch, _, *pixels = static_shape(node.outputs[0].shape, node.name)
    if c == 0 or (len(pixels) == 2 and winograd.takes((oc, c, *kernel), at, (batch, *pixels))):
        return False
    same = pixels == [*static_shape(x.shape, x.name)[2:]] and len(kernel) < 3 and set(g.strides) == {1}
    return _shape_profits(c, oc // g.groups, kernel, g, pixels, same)


def _spreads(node: Node) -> bool:
    """Whether the taps of a transposed convolution never meet, and its weights are few."""
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    if node.outputs[0].dtype != f32 or x.rank not in (3, 4) or not x.type.is_static:
        return False
    if w.node.op not in (CONSTANT, PARAM):
        return False
    at, (c, oc, *kernel) = node.attrs, static_shape(w.shape, w.name)
    g = geometry("conv_transpose", x.rank - 2, *(at[k] for k in ("strides", "pads", "dilations", "groups")))
    if list(g.strides) != kernel or any(g.pads) or g.groups != 1 or any(at["output_padding"] or ()):
        return False
    many = math.prod(static_shape(x.shape, x.name)[2:]) >= _MANY_PIXELS
    return many and 0 < c * oc * math.prod(kernel) <= _FEW_WEIGHTS


def _shape_profits(c: int, oc: int, kernel: list[int], g: Geometry, pixels: list[int], same: bool) -> bool:
    taps, line = math.prod(kernel), pixels[-1]
    if taps == 1 and g.groups == 1:
        return math.prod(pixels) >= _MANY_PIXELS
    if c == oc == 1 and same and taps <= _FEW_TAPS and math.prod(pixels) >= _PIXELS_PER_TAP * taps:
        return True
    wide = len(kernel) == 2 and c == oc == 1 and _FEW_TAPS < taps <= _MOST_TERMS
    if wide and kernel[0] > 1 and line < _LONGEST_LINE[2] and g.groups >= _MANY_GROUPS:
        return True
    if line < _LONG_LINE or taps > _MOST_TAPS:
        return False
    if c == 1 or g.groups > 1:
        return c * taps <= _MOST_TERMS
    return line >= _LONGEST_LINE[len(kernel)] or c * taps <= _FEW_TERMS or oc < _FEW_CHANNELS
