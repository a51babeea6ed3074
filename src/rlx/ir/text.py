"""Text form of graphs: printer, parser and structural hash."""

import hashlib
from typing import Any

import numpy as np

from rlx.dtypes import DType
from rlx.ir.graph import CONSTANT, Graph, Value


def _attr_text(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Graph):
        return f"<graph {value.name}: {len(value.nodes)} nodes>"
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    return repr(value)


def print_graph(graph: Graph) -> str:
    """One line per node: ``%name: type = op(operands) {attributes}``."""
    lines = [f"graph {graph.name} {{"]
    for node in graph.nodes:
        results = ", ".join(f"%{v.name}: {v.type}" for v in node.outputs)
        operands = ", ".join("-" if v is None else f"%{v.name}" for v in node.inputs)
        attrs = ", ".join(f"{k}={_attr_text(v)}" for k, v in node.attrs.items() if v is not None)
        tail = f" {{{attrs}}}" if attrs else ""
        lines.append(f"  {results} = {node.op.name}({operands}){tail}")
    outs = ", ".join(f"{name}=%{v.name}" for name, v in graph.outputs.items())
    return "\n".join([*lines, f"  return {outs}", "}"])


def structural_hash(graph: Graph) -> str:
    """Digest of ops, types, attributes, constants and names of leaves and outputs."""
    digest = hashlib.sha256()
    number: dict[Value, int] = {}

    def put(*parts: object) -> None:
        digest.update(repr(parts).encode())

    for node in graph.nodes:
        operands = [-1 if v is None else number[v] for v in node.inputs]
        attrs = []
        for k, v in node.attrs.items():
            if isinstance(v, Graph):
                attrs.append((k, structural_hash(v)))
            elif isinstance(v, np.ndarray):
                attrs.append((k, hashlib.sha256(v.tobytes()).hexdigest()))
            else:
                attrs.append((k, repr(v)))
        leaf = node.name if node.op.has("leaf") and node.op is not CONSTANT else ""
        put(node.op.name, leaf, operands, attrs, [str(v.type) for v in node.outputs])
        if node.op is CONSTANT:
            array = node.outputs[0].array
            assert array is not None
            digest.update(hashlib.sha256(array.tobytes()).digest())
        for v in node.outputs:
            number[v] = len(number)
    put([(name, number[v]) for name, v in graph.outputs.items()])
    return digest.hexdigest()
