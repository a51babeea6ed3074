"""Text form of graphs: the printer and the structural hash. `rlx.ir.parse` reads it back.

    graph mlp {
      %x: f32[batch, 16] = input()
      %b: f32[2] = constant() {value=[0.5, 1.0]}
      %y: f32[batch, 16] = tanh(%x)
      return y=%y
    }

Constants of more than `INLINE` elements are written as ``value=@name`` and given
to the parser beside the text; those of a body as ``@node/attribute/name``. Names
that are not plain are quoted.
"""

import re
from typing import Any

import numpy as np

from rlx.dtypes import DType
from rlx.ir.dims import Dim
from rlx.ir.graph import CONSTANT, Graph, Node, Value
from rlx.ir.opdef import Array

INLINE = 32
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*\Z")


def name_text(name: str) -> str:
    """A name, quoted if it has other than plain characters."""
    return name if _PLAIN.match(name) else quote(name)


def quote(text: str) -> str:
    """A string literal."""
    body = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{body}"'


def _array_text(array: Array, name: str) -> str:
    if array.size > INLINE:
        return f"@{name_text(name)}"
    items = array.reshape(-1)
    if array.dtype.kind == "c":
        parts = [f"({float(v.real)!r}, {float(v.imag)!r})" for v in items]
    elif array.dtype.kind == "b":
        parts = ["true" if v else "false" for v in items]
    elif array.dtype.kind in "iu":
        parts = [str(int(v)) for v in items]
    else:
        parts = [repr(float(v)) for v in items]
    return f"[{', '.join(parts)}]"


def _attr_text(value: Any, indent: str, path: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Dim):
        return f"<{value}>"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Graph):
        return _graph_text(value, indent + "  ", path)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_attr_text(v, indent, path) for v in value)})"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)


def _node_text(node: Node, indent: str, path: str) -> str:
    results = ", ".join(f"%{name_text(v.name)}: {v.type}" for v in node.outputs)
    operands = ", ".join("-" if v is None else f"%{name_text(v.name)}" for v in node.inputs)
    parts = [f"{k}={_attr_text(v, indent, f'{path}{node.name}/{k}/')}" for k, v in node.attrs.items()]
    array = node.outputs[0].array if node.op is CONSTANT else None
    if array is not None:
        parts.append(f"value={_array_text(array, path + node.name)}")
    tail = f" {{{', '.join(parts)}}}" if parts else ""
    return f"{indent}{results} = {node.op.name}({operands}){tail}"


def _graph_text(graph: Graph, indent: str, path: str = "") -> str:
    outs = ", ".join(f"{name_text(name)}=%{name_text(v.name)}" for name, v in graph.outputs.items())
    lines = [f"graph {name_text(graph.name)} {{"]
    lines += [_node_text(node, indent + "  ", path) for node in graph.nodes]
    return "\n".join([*lines, f"{indent}  return {outs}", f"{indent}}}"])


def print_graph(graph: Graph) -> str:
    """The text form of a graph, one line per node."""
    return _graph_text(graph, "")


def large_constants(graph: Graph, path: str = "") -> dict[str, Array]:
    """The constants that the text form only names, those of bodies by their path."""
    found = {}
    for node in graph.nodes:
        array = node.outputs[0].array if node.op is CONSTANT else None
        if array is not None and array.size > INLINE:
            found[path + node.name] = array
        for key, value in node.attrs.items():
            if isinstance(value, Graph):
                found.update(large_constants(value, f"{path}{node.name}/{key}/"))
    return found


def structural_hash(graph: Graph) -> str:
    """Digest of ops, types, attributes, constants and names of leaves and outputs."""
    import hashlib

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
        version = getattr(node.op, "version", 0)  # of a registered op, whose code cannot be hashed
        put(node.op.name, *([version] if version else ()), leaf, operands, attrs, [str(v.type) for v in node.outputs])
        if node.op is CONSTANT:
            array = node.outputs[0].array
            assert array is not None
            digest.update(hashlib.sha256(array.tobytes()).digest())
        for v in node.outputs:
            number[v] = len(number)
    put([(name, number[v]) for name, v in graph.outputs.items()])
    return digest.hexdigest()
