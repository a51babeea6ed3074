"""Half types are storage: compute in f32 and round once per node (numerics contract, item 2)."""

from rlx import dtypes
from rlx._kernels import _nodes
from rlx.ir.graph import Graph, Node, Rewriter

# Casts and moves work on half types as they are.
_AS_IS = frozenset({"cast", "where"})
# Kernels that read and write halves, compute in f32 and round once: how many operands may be halves.
_STORED = {"fused_attention": 3}


def _has_half(node: Node) -> bool:
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return any(v.dtype.is_half for v in values)


def _moves_only(node: Node) -> bool:
    """Whether the node copies values and computes none (a scatter without a reduction does)."""
    return node.op.has("movement") and node.attrs.get("reduction", "none") == "none"


def widen_halves(graph: Graph) -> Graph:
    """Wrap every computing node on half types in casts to f32 and back."""
    from rlx.ops import TABLE

    if not any(kind.is_half for kind in _nodes.kinds(graph.nodes)):
        return graph
    cast = TABLE["cast"]
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if (
            node.op.has("leaf")
            or _moves_only(node)
            or node.op.has("control")
            or node.op.has("custom")
            or node.op.name in _AS_IS
            or not _has_half(node)
        ):
            rewriter.copy(node)
            continue
        operands = []
        stored = _STORED.get(node.op.name, 0)
        for index, v in enumerate(node.inputs):
            new = rewriter.get(v)
            if new is not None and new.dtype.is_half and index >= stored:
                new = rewriter.graph.emit(cast, [new], {"dtype": dtypes.f32}, name=f"{node.name}/widen", loc=node.loc)[
                    0
                ]
            operands.append(new)
        attrs = dict(node.attrs)
        for key, value in attrs.items():
            if isinstance(value, dtypes.DType) and value.is_half:
                attrs[key] = dtypes.f32
        results = rewriter.emit(node.op, operands, attrs, node)
        for old, new in zip(node.outputs, results, strict=True):
            if old.dtype.is_half and not stored:
                new = rewriter.graph.emit(cast, [new], {"dtype": old.dtype}, name=f"{node.name}/narrow", loc=node.loc)[
                    0
                ]
            rewriter.replace(old, new)
    return rewriter.finish()
