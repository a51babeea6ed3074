"""Bind symbolic sizes: the same graph with numbers."""

from collections.abc import Mapping
from typing import Any

from rlx.ir.dims import bind
from rlx.ir.graph import Graph, Node, Rewriter


def bound_attrs(node: Node, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Attributes with their sizes bound."""
    dims = {a.name for a in node.op.attrs if a.kind == "dims"}
    result: dict[str, Any] = {}
    for k, v in node.attrs.items():
        if k in dims and v is not None:
            result[k] = tuple(bind(d, sizes) for d in v)
        elif isinstance(v, Graph) and sizes:
            result[k] = specialise(v, sizes)
        else:
            result[k] = v
    return result


def specialise(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph with named sizes replaced; every rule runs again on the new types."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.op.has("leaf"):
            rewriter.leaf(node, node.outputs[0].type.bind(sizes))
            continue
        new = rewriter.emit(node.op, [rewriter.get(v) for v in node.inputs], bound_attrs(node, sizes), node)
        for old, value in zip(node.outputs, new, strict=True):
            rewriter.replace(old, value)
    return rewriter.finish()
