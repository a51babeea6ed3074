"""Activations spelled out in several ops become the op itself: silu, hard_swish, gelu, mish, leaky_relu.

The named op computes the same function without the cancellation and the passes over memory of the long
form; results agree within its tolerance. Half types keep their roundings and are left alone. Ahead of a
quantisation gelu takes the erf form: there its far tail, below any quantisation step, is 0 instead of
denormal numbers, on which processors are slow.
"""

import math

from rlx.dtypes import f32
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Readers

Match = tuple[str, Value, dict[str, float]]


def fuse_activations(graph: Graph) -> Graph:
    """Replace the last node of each pattern."""
    from rlx.ops import TABLE

    found: dict[int, Match] = {}
    readers = Readers(graph)
    spelled = {id(n) for n in graph.nodes if n.op.name == "gelu" and _is_quantised(n, readers)}
    for node in graph.nodes:
        if node.op.name in ("mul", "div", "max") and node.outputs[0].dtype in FLOATS:
            match = _leaky(node) if node.op.name == "max" else _product(node)
            if match is not None and match[0] == "gelu" and _is_quantised(node, readers):
                continue
            if match is not None and match[1].type == node.outputs[0].type:
                found[id(node)] = match
    if not found and not spelled:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        match = found.get(id(node))
        if id(node) in spelled:
            _spell(rewriter, node)
            continue
        if match is None:
            rewriter.copy(node)
            continue
        name, x, attrs = match
        rewriter.replace(node.outputs[0], rewriter.emit(TABLE[name], [rewriter.map[x]], attrs, node)[0])
    return prune(rewriter.finish())


def _is_quantised(node: Node, readers: Readers) -> bool:
    """Whether a quantisation alone reads an f32 value."""
    reader = readers.only(node.outputs[0])
    return reader is not None and reader.op.name == "quantize_linear" and node.outputs[0].dtype == f32


def _spell(rewriter: Rewriter, node: Node) -> None:
    """x / 2 (1 + erf(x / sqrt 2))."""
    from rlx import ops

    x = rewriter.get(node.inputs[0])
    start = len(rewriter.graph.nodes)
    rewriter.replace(node.outputs[0], (x * 0.5) * (ops.erf(x * math.sqrt(0.5)) + 1.0))  # type: ignore[operator]
    for made in rewriter.graph.nodes[start:]:
        made.loc = node.loc


def _number(v: Value | None) -> float | None:
    """The one number of a constant."""
    return float(v.array.reshape(-1)[0]) if v is not None and v.array is not None and v.array.size == 1 else None


def _is(v: Value | None, number: float) -> bool:
    found = _number(v)
    return found is not None and math.isclose(found, number, rel_tol=1e-5)


def _made(v: Value | None, name: str) -> Node | None:
    return v.node if v is not None and v.node.op.name == name else None


def _with_constant(node: Node | None) -> tuple[Value, float] | None:
    """(other operand, number) of a sum or product with one number; x / c and x - c count too."""
    if node is None:
        return None
    a, b = node.inputs
    assert a is not None and b is not None
    x, number = (a, _number(b)) if _number(b) is not None else (b, _number(a))
    if number is None or (node.op.name in ("div", "sub") and x is b):
        return None
    if node.op.name == "div":
        return (x, 1 / number) if number else None
    return x, -number if node.op.name == "sub" else number


def _scaled(v: Value) -> tuple[Value, float]:
    """v as (x, factor)."""
    factor = 1.0
    while True:
        part = _with_constant(_made(v, "mul") or _made(v, "div"))
        if part is None:
            return v, factor
        v, factor = part[0], factor * part[1]


def _shifted(v: Value) -> tuple[Value, float] | None:
    return _with_constant(_made(v, "add") or _made(v, "sub"))


def _leaky(node: Node) -> Match | None:
    """max(x, a x), 0 < a < 1."""
    a, b = node.inputs
    assert a is not None and b is not None
    for x, y in ((a, b), (b, a)):
        part = _with_constant(_made(y, "mul"))
        if part is not None and part[0] is x and 0 < part[1] < 1:
            return "leaky_relu", x, {"alpha": part[1]}
    return None


def _factors(node: Node) -> tuple[list[Value], float]:
    """Factors of a product of products and its constant part."""
    values: list[Value] = []
    constant = 1.0
    todo: list[Value] = [node.outputs[0]]
    while todo:
        v = todo.pop()
        part = v.node
        number = _number(v)
        if number is not None:
            constant *= number
        elif part.op.name == "mul" and len(values) + len(todo) < 4:
            todo += [x for x in part.inputs if x is not None]
        elif part.op.name == "div" and _number(part.inputs[1]) and part.inputs[0] is not None:
            constant /= _number(part.inputs[1]) or 1.0
            todo.append(part.inputs[0])
        else:
            values.append(v)
    return values, constant


def _product(node: Node) -> Match | None:
    """Products of x with a function of x."""
    values, constant = _factors(node)
    if len(values) != 2:
        return None
    for x, gate in (values, values[::-1]):
        match = _gate(x, gate, constant)
        if match is not None:
            return match
    return None


def _gate(x: Value, gate: Value, constant: float) -> Match | None:
    inner = gate.node.inputs[0] if gate.node.inputs else None
    if inner is None:
        return None
    name = gate.node.op.name
    one = math.isclose(constant, 1.0, rel_tol=1e-6)
    if name == "sigmoid" and one:
        base, factor = _scaled(inner)
        if inner is x:
            return "silu", x, {}
        return ("swish", x, {"alpha": factor}) if base is x else None
    if name == "hard_sigmoid" and inner is x and one:
        alpha, beta = gate.node.attrs["alpha"], gate.node.attrs["beta"]
        return ("hard_swish", x, {}) if math.isclose(alpha, 1 / 6, rel_tol=1e-5) and beta == 0.5 else None
    if name == "clip" and math.isclose(constant, 1 / 6, rel_tol=1e-5):
        part = _shifted(inner)
        limits = (gate.node.attrs["lo"], gate.node.attrs["hi"])
        return ("hard_swish", x, {}) if part is not None and part == (x, 3.0) and limits == (0.0, 6.0) else None
    if name == "tanh" and one and (soft := _made(inner, "softplus")) is not None and soft.inputs[0] is x:
        return "mish", x, {}
    if name == "add" and math.isclose(constant, 0.5, rel_tol=1e-6):
        return _gelu(x, gate)
    return None


def _gelu(x: Value, gate: Value) -> Match | None:
    """0.5 x (1 + erf(x / sqrt 2)), or (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    part = _shifted(gate)
    if part is None or part[1] != 1.0:
        return None
    inner = part[0].node.inputs[0] if part[0].node.inputs else None
    if inner is None:
        return None
    base, factor = _scaled(inner)
    if part[0].node.op.name == "erf":
        return ("gelu", x, {}) if base is x and math.isclose(factor, math.sqrt(0.5), rel_tol=1e-5) else None
    if part[0].node.op.name != "tanh":
        return None
    root = math.sqrt(2 / math.pi)
    total = _made(base, "add")
    if total is not None and math.isclose(factor, root, rel_tol=1e-5):
        for a, b in (total.inputs, total.inputs[::-1]):
            if a is x and b is not None and _cubed(b, x, 0.044715):
                return "gelu_tanh", x, {}
    return None


def _cubed(v: Value, x: Value, number: float) -> bool:
    """Whether v is number * x**3."""
    values, constant = _factors(v.node)
    if not math.isclose(constant, number, rel_tol=1e-4):
        return False
    if len(values) == 1 and (power := _made(values[0], "pow")) is not None:
        return power.inputs[0] is x and _is(power.inputs[1], 3.0)
    return len(values) == 3 and all(f is x for f in values)
