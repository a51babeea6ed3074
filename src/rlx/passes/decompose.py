"""Ops without a kernel, in terms of others."""

from rlx.ir.graph import Graph, Rewriter, Value


def decompose(graph: Graph) -> Graph:
    """Expand ops that have a decomposition, until none is left."""
    given = graph
    while any(n.op.decompose is not None for n in graph.nodes):
        rewriter = Rewriter(graph)
        for node in graph.nodes:
            if node.op.decompose is None:
                rewriter.copy(node)
                continue
            start = len(rewriter.graph.nodes)
            values = [rewriter.get(v) for v in node.inputs]
            result = node.op.decompose(*values, **node.attrs)
            results: tuple[Value, ...] = result if isinstance(result, tuple) else (result,)
            for made in rewriter.graph.nodes[start:]:
                made.loc = node.loc
            for old, new in zip(node.outputs, results, strict=True):
                rewriter.replace(old, new)
        made_of, graph = graph, rewriter.finish()
        if made_of is not given:
            made_of.dismantle()
    return graph
