"""Bodies of control flow: constants go into them, loops that make no trip go away."""

import math

import numpy as np

from rlx import dtypes
from rlx.ir.graph import CONSTANT, Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.ir.types import static_shape
from rlx.passes.cleanup import FOLD_LIMIT, draws


def sink_constants(graph: Graph) -> Graph:
    """Constants that a body captures become constants of the body, where they fold and are packed as weights are."""
    given = {id(n): _constant_captures(n) for n in graph.nodes if n.op.has("control") and not draws(n)}
    if not any(given.values()):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        sunk = given.get(id(node))
        if not sunk:
            rewriter.copy(node)
            continue
        first = _first_capture(node)
        attrs = {k: _with_constants(v, sunk, first[k]) if isinstance(v, Graph) else v for k, v in node.attrs.items()}
        inputs = [rewriter.get(v) for i, v in enumerate(node.inputs) if i not in sunk]
        for old, new in zip(node.outputs, rewriter.emit(node.op, inputs, attrs, node), strict=True):
            rewriter.replace(old, new)
    return rewriter.finish()


def _first_capture(node: Node) -> dict[str, int]:
    """Per body: how much larger the position of a capture is among the node's operands than among the body's inputs."""
    if node.op.name == "cond":
        return {"then": 1, "orelse": 1}
    return {"body": 1 if node.op.name == "loop" else 0}  # a loop has trip count and condition, its body the counter


def _constant_captures(node: Node) -> dict[int, Array]:
    """Arrays of the captures that are constants, by position among the operands."""
    start = {"cond": 1, "loop": 2 + node.attrs.get("n_carried", 0),
             "scan": node.attrs.get("n_carried", 0) + node.attrs.get("n_xs", 0)}.get(node.op.name)
    if start is None:
        return {}
    return {i: v.array for i, v in enumerate(node.inputs)
            if i >= start and v is not None and v.node.op is CONSTANT and v.array is not None}


def _with_constants(body: Graph, sunk: dict[int, Array], shift: int) -> Graph:
    """A body in which some inputs are constants."""
    rewriter = Rewriter(body)
    arrays = {id(body.inputs[i - shift].node): (body.inputs[i - shift], array) for i, array in sunk.items()}
    for node in body.nodes:
        if id(node) in arrays:
            old, array = arrays[id(node)]
            rewriter.replace(old, rewriter.graph.constant(array, name=node.name))
        else:
            rewriter.copy(node)
    return rewriter.finish()


def skip_loops(graph: Graph) -> Graph:
    """A loop that makes no trip gives its first values, no rows and a count of 0."""
    decided = {id(n) for n in graph.nodes if _never(n)}
    if not decided:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) not in decided:
            rewriter.copy(node)
            continue
        first = 2 if node.op.name == "loop" else 0
        carried = node.inputs[first : first + node.attrs["n_carried"]]
        for i, old in enumerate(node.outputs):
            if i < len(carried):
                new = rewriter.get(carried[i])
                assert new is not None
            else:
                shape = static_shape(old.shape, old.name)
                new = rewriter.graph.constant(np.zeros(shape, old.dtype.numpy), name=f"{node.name}.{i}")
            rewriter.replace(old, new)
    return rewriter.finish()


def _never(node: Node) -> bool:
    if node.op.name == "loop":
        trips, start = node.inputs[:2]
        none = (node.attrs["bound"] == 0 or (_known(trips) and trips.array.reshape(-1)[0] <= 0)  # type: ignore[union-attr]
                or (_known(start) and not start.array.reshape(-1)[0]))  # type: ignore[union-attr]
    else:
        none = node.op.name == "scan" and _length(node) == 0
    rows = node.outputs[node.attrs["n_carried"] :] if none else ()
    return none and all(v.type.is_static and _nbytes(v) <= FOLD_LIMIT for v in rows)


def _known(v: Value | None) -> bool:
    return v is not None and v.array is not None and v.array.size == 1 and v.dtype in (dtypes.i64, dtypes.bool_)


def _length(node: Node) -> object:
    if not node.attrs["n_xs"]:
        return node.attrs["length"]
    first = node.inputs[node.attrs["n_carried"]]
    return None if first is None else first.shape[0]


def _nbytes(v: Value) -> int:
    return v.dtype.itemsize * math.prod(static_shape(v.shape, v.name))
