"""Regions that depend on one tensor of bytes alone, all else being numbers, become a table of 256 results.

That is what quantised activations are: dequantise, a function, quantise.
"""

from collections.abc import Callable

import numpy as np

from rlx.dtypes import f32, i8, u8
from rlx.errors import ExecutionError
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.ir.types import TensorType
from rlx.ops.fused import REGION
from rlx.ops.quant import lookup

BYTES = (u8, i8)
# Fewer steps are quicker in vectors than one look-up, fewer elements than the table.
LEAST_STEPS = 7
LEAST_ELEMENTS = 512


def tabulate(graph: Graph, evaluate: Callable[[Graph], dict[str, Array]]) -> Graph:
    """Replace regions of one operand of bytes (quantised activations) by look-ups in a table of 256 results.

    `evaluate` compiles and runs a graph without inputs, so that a table holds the bits of the region's own kernels.
    """
    found = {id(n): x for n in graph.nodes if n.op is REGION and (x := _operand(n)) is not None}
    if not found:
        return graph
    part = Graph(graph.name + "/tables")
    part.track_source = False
    for at, node in enumerate(graph.nodes):
        if id(node) in found:
            part.output(f"t{at}", _table(part, node, found[id(node)]))
    try:
        tables = evaluate(part)
    except ExecutionError:
        return graph
    finally:
        part.release()
    rewriter = Rewriter(graph)
    for at, node in enumerate(graph.nodes):
        if id(node) not in found:
            rewriter.copy(node)
            continue
        table = rewriter.graph.constant(np.array(tables[f"t{at}"]))
        rewriter.replace(node.outputs[0], rewriter.emit(lookup, [rewriter[found[id(node)]], table], {}, node)[0])
    return rewriter.finish()


def _operand(node: Node) -> Value | None:
    """The tensor of bytes that decides a region of one result."""
    body: Graph = node.attrs["body"]
    given = [v for v in node.inputs if v is not None]
    tensors = [v for v in given if v.array is None or v.array.size != 1]
    y = node.outputs[0]
    if len(node.outputs) > 1 or len(tensors) != 1 or tensors[0].dtype not in BYTES or tensors[0].shape != y.shape:
        return None
    size = y.type.size
    few = isinstance(size, int) and size < LEAST_ELEMENTS
    steps = sum(not n.op.has("leaf") for n in body.nodes)
    return None if few or steps < LEAST_STEPS or y.dtype not in (*BYTES, f32) else tensors[0]


def _table(part: Graph, node: Node, x: Value) -> Value:
    """The region's result for each of the 256 bytes: the same region on a tensor of them."""
    body: Graph = node.attrs["body"]
    codes = np.arange(256, dtype=np.uint8).view(x.dtype.numpy)
    operands = []
    small = Graph(body.name)
    small.track_source = False
    inner: dict[Value, Value] = {}
    for v, given in zip(body.inputs, node.inputs, strict=True):
        array = codes if given is x or given is None or given.array is None else given.array.reshape(())
        operands.append(part.constant(array))
        inner[v] = small.input(v.node.name, array.shape, v.dtype)
    for n in body.nodes:
        if not n.op.has("leaf"):
            given_types = tuple([TensorType(v.dtype, codes.shape) for v in n.outputs])
            new = small.adopt(n, tuple([None if v is None else inner[v] for v in n.inputs]), given_types)
            inner.update(zip(n.outputs, new, strict=True))
    name, y = next(iter(body.outputs.items()))
    small.output(name, inner[y])
    return part.emit(REGION, operands, {"body": small})[0]
