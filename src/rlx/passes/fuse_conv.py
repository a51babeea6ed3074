"""Convolutions absorb what surrounds them.

`fold_batch_norm`: a batch norm, or a product or sum with one constant per channel, that alone reads a
convolution with constant weights goes into these weights (a re-association: scale and shift are formed
in f64, the weights are scaled in their own type). `fuse_conv`: bias, activations and residual sums run
on the tile of a convolution, each with its own rounding.
"""


import numpy as np

from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Chain, Readers, grow, operands
from rlx.passes.fuse_matmul import emit_int8
from rlx.records import record

FOLDED = ("conv", "conv_transpose")
FUSED = ("conv_nhwc", "conv_transpose_nhwc", "int8_conv_nhwc", "conv_alone")


@record(eq=False)
class _Affine:
    """y * scale + shift per output channel."""

    scale: Array
    shift: Array

    def then(self, scale: Array, shift: Array) -> None:
        self.scale, self.shift = self.scale * scale, self.shift * scale + shift


def _per_channel(value: Value | None, rank: int, channels: int) -> Array | None:
    """A constant that differs between channels only, as f64[C]."""
    if value is None or value.array is None or value.array.dtype.kind != "f":
        return None
    shape = (*(1,) * (rank - value.rank), *value.array.shape)
    if len(shape) != rank or any(d != 1 for i, d in enumerate(shape) if i != 1) or shape[1] not in (1, channels):
        return None
    return np.broadcast_to(value.array.reshape(-1).astype(np.float64), (channels,))


def _absorb(node: Node, value: Value, affine: _Affine) -> bool:
    """Add what a node does to `affine` if it is a map per channel."""
    name, out = node.op.name, node.outputs[0]
    channels, rank = len(affine.scale), value.rank
    if name == "batch_norm" and node.inputs[0] is value and node.attrs["layout"] == "nchw":
        arrays = [v.array for v in node.inputs[1:] if v is not None]
        if len(arrays) != 4 or any(a is None or a.shape != (channels,) for a in arrays):
            return False
        gamma, beta, mean, var = (np.asarray(a, np.float64) for a in arrays)
        scale = gamma / np.sqrt(var + node.attrs["eps"])
        affine.then(scale, beta - mean * scale)
        return True
    if name not in ("add", "sub", "mul", "div") or out.type != value.type:
        return False
    first, second = node.inputs
    other = _per_channel(second if first is value else first, rank, channels)
    if other is None or (first is not value and name in ("sub", "div")):
        return False
    one, zero = np.ones(channels), np.zeros(channels)
    if name == "mul":
        affine.then(other, zero)
    elif name == "div":
        affine.then(1 / other, zero)
    else:
        affine.then(one, other if name == "add" else -other)
    return True


def fold_batch_norm(graph: Graph) -> Graph:
    """Fold maps per channel into the constant weights of the convolution before them."""
    readers = Readers(graph)
    last: dict[int, tuple[Node, _Affine]] = {}
    inside: set[int] = set()
    for node in graph.nodes:
        if node.op.name not in FOLDED or not _constant_weights(node):
            continue
        value = node.outputs[0]
        channels = value.shape[1]
        assert isinstance(channels, int)
        affine = _Affine(np.ones(channels), np.zeros(channels))
        chain = [node]
        while True:
            reader = readers.only(value)
            if reader is None or not _absorb(reader, value, affine):
                break
            chain.append(reader)
            value = reader.outputs[0]
        if len(chain) > 1 and np.isfinite(affine.scale).all() and np.isfinite(affine.shift).all():
            inside.update(id(n) for n in chain)
            last[id(chain[-1])] = (node, affine)
    if not last:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in last:
            _emit_folded(rewriter, *last[id(node)], node)
        elif id(node) not in inside:
            rewriter.copy(node)
    return prune(rewriter.finish())


def _constant_weights(node: Node) -> bool:
    return node.outputs[0].dtype in FLOATS and all(v is None or v.array is not None for v in node.inputs[1:3])


def _emit_folded(rewriter: Rewriter, conv: Node, affine: _Affine, like: Node) -> None:
    x, w, b = (*conv.inputs, None)[:3]
    assert x is not None and w is not None and w.array is not None
    kind = w.array.dtype
    scale = affine.scale.astype(kind)
    if conv.op.name == "conv":
        weights = w.array * scale.reshape(-1, *(1,) * (w.rank - 1))
    else:  # [C, OC / groups, kernel...]: the output channels of group g are rows of its input channels
        groups = conv.attrs["groups"]
        per = scale.reshape(groups, 1, -1, *(1,) * (w.rank - 2))
        weights = (w.array.reshape(groups, -1, *w.array.shape[1:]) * per).reshape(w.array.shape)
    shift = affine.shift
    if b is not None and b.array is not None:
        shift = shift + b.array.astype(np.float64) * affine.scale
    new_w = rewriter.graph.constant(weights, name=f"{conv.name}/weights")
    new_b = rewriter.graph.constant(shift.astype(kind), name=f"{conv.name}/bias")
    new = rewriter.emit(conv.op, [rewriter.map[x], new_w, new_b], conv.attrs, like)
    rewriter.replace(like.outputs[0], new[0])


def fuse_conv(graph: Graph) -> Graph:
    """Give convolutions their epilogues."""
    readers = Readers(graph)
    last: dict[int, tuple[Node, Chain]] = {}
    inside: set[int] = set()
    for node in graph.nodes:
        if node.op.name not in FUSED or node.outputs[0].dtype not in FLOATS or node.attrs["epilogue"]:
            continue
        integer = node.op.name == "int8_conv_nhwc"
        alone = node.op.name == "conv_alone"
        biased = integer or (len(node.inputs) > 2 and node.inputs[2] is not None)
        chain = grow(node.outputs[0], readers, biased=biased, narrows=not (integer or alone), rows=not alone,
                     skip=inside)
        if chain.grew:
            inside.update(id(n) for n in (node, *chain.nodes))
            last[id(chain.nodes[-1])] = (node, chain)
    if not last:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in last:
            conv, chain = last[id(node)]
            if conv.op.name == "int8_conv_nhwc":
                emit_int8(rewriter, conv, chain, node)
                continue
            bias, extras = operands(rewriter, chain)
            x, w, b = (*conv.inputs, None)[:3]
            bias = bias if bias is not None else rewriter.get(b)
            new = rewriter.emit(conv.op, [rewriter.get(x), rewriter.get(w), bias, *extras],
                                {**conv.attrs, "epilogue": tuple(chain.steps)}, node)
            rewriter.replace(node.outputs[0], new[0])
        elif id(node) not in inside:
            rewriter.copy(node)
    return prune(rewriter.finish())
