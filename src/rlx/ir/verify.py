"""Structural checks of a whole graph; the rules of single ops come from their rows."""

from rlx.errors import GraphError, TypeRuleError
from rlx.ir.graph import Graph, Value


def verify(graph: Graph) -> None:
    """Check order, ownership, names, types and outputs.

    Raises
    ------
    GraphError
        Naming the node that breaks a rule.
    """
    known: set[int] = set()
    names: set[str] = set()
    owner: Graph | None = None
    for node in graph.nodes:
        if node.name in names:
            raise GraphError(f"{node.place}: node names must differ, got {node.name!r} twice")
        names.add(node.name)
        for v in node.inputs:
            if v is not None and id(v) not in known:
                raise GraphError(f"{node.place}: operands must be made before, got {v.name!r}")
        if not node.op.has("leaf"):
            types = [None if v is None else v.type for v in node.inputs]
            try:
                expected = node.op.infer(*types, **node.attrs)
            except TypeRuleError as error:
                raise GraphError(f"{node.place}: {error}") from error
            for v, t in zip(node.outputs, expected, strict=True):
                if v.dtype != t.dtype or v.rank != t.rank:
                    raise GraphError(f"{node.place}: result must have type {t}, got {v.type}")
        for v in node.outputs:
            owner = owner or v.graph
            if v.graph is not owner:
                raise GraphError(f"{node.place}: results must belong to graph {graph.name!r}")
            known.add(id(v))
    for name, v in graph.outputs.items():
        if not isinstance(v, Value) or id(v) not in known:
            raise GraphError(f"output {name!r}: must be a value of graph {graph.name!r}, got {v!r}")
