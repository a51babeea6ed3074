"""Normalisations spelled out in several ops become the op itself; a sum before one is taken with it.

The named op makes two passes over a row that stays in cache instead of ten over memory, and keeps the
digits that the long form loses. Half types keep their roundings and are left alone.
"""


from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import normal_axes
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Readers
from rlx.records import record


@record(eq=False)
class Norm:
    """A value that is layer_norm or rms_norm of x."""

    kind: str
    x: Value
    axis: int
    eps: float
    gamma: Value | None = None
    beta: Value | None = None


def _number(v: Value | None) -> float | None:
    return float(v.array.reshape(-1)[0]) if v is not None and v.array is not None and v.array.size == 1 else None


def _made(v: Value | None, *names: str) -> Node | None:
    return v.node if v is not None and v.node.op.name in names else None


def _square_of(v: Value | None) -> Value | None:
    """x when v is x * x."""
    node = _made(v, "mul", "pow", "square")
    if node is None:
        return None
    x = node.inputs[0]
    if node.op.name == "mul":
        return x if node.inputs[1] is x else None
    return x if node.op.name == "square" or _number(node.inputs[1]) == 2 else None


def _mean_of(v: Value | None) -> tuple[Value, int] | None:
    """(x, first axis) when v is the mean of x over its last axes, which stay as ones."""
    node = _made(v, "reduce_mean")
    if node is None or node.inputs[0] is None or not node.attrs["keepdims"]:
        return None
    x = node.inputs[0]
    axes = normal_axes(node.attrs["axes"], x.rank, "fuse-norm")
    if not axes or axes != tuple(range(axes[0], x.rank)):
        return None
    return x, axes[0]


def _root_of(v: Value | None, inverse: bool) -> tuple[Value, float] | None:
    """(y, eps) when v is sqrt(y + eps), or one over it."""
    node = _made(v, "rsqrt") if inverse else _made(v, "sqrt")
    if node is None and inverse:
        outer = _made(v, "recip") or _made(v, "div", "pow")
        if outer is None:
            return None
        if outer.op.name == "recip":
            return _root_of(outer.inputs[0], False)
        if outer.op.name == "div":
            return _root_of(outer.inputs[1], False) if _number(outer.inputs[0]) == 1 else None
        return _shifted(outer.inputs[0]) if _number(outer.inputs[1]) == -0.5 else None
    return _shifted(node.inputs[0]) if node is not None else None


def _shifted(v: Value | None) -> tuple[Value, float] | None:
    node = _made(v, "add")
    if node is None:
        return None
    a, b = node.inputs
    for y, eps in ((a, _number(b)), (b, _number(a))):
        if y is not None and eps is not None and eps >= 0:
            return y, eps
    return None


def _normalised(node: Node) -> Norm | None:
    """d / sqrt(mean(d^2) + eps), d = x - mean(x) or x itself."""
    a, b = node.inputs
    pairs = [(a, b)] if node.op.name == "div" else [(a, b), (b, a)]
    for d, scale in pairs:
        root = _root_of(scale, node.op.name == "mul")
        if d is None or root is None or d.type != node.outputs[0].type:
            continue
        mean = _mean_of(root[0])
        if mean is None or _square_of(mean[0]) is not d:
            continue
        axis, eps = mean[1], root[1]
        centred = _made(d, "sub")
        if centred is not None and centred.inputs[0] is not None:
            about = _mean_of(centred.inputs[1])
            if about is not None and about[0] is centred.inputs[0] and about[1] == axis:
                return Norm("layer_norm", centred.inputs[0], axis, eps)
        return Norm("rms_norm", d, axis, eps)
    return None


def _is_tail(v: Value | None, x: Value, axis: int) -> bool:
    """Whether v has the shape of the last axes of x, perhaps after ones."""
    if v is None or v.dtype != x.dtype or v.rank > x.rank:
        return False
    tail = x.shape[axis:]
    lead = v.shape[: max(v.rank - len(tail), 0)]
    return v.shape[len(lead) :] == tail and all(d == 1 for d in lead)


def _extended(node: Node, found: dict[Value, Norm], readers: Readers) -> Norm | None:
    """A norm times gamma, or plus beta."""
    a, b = node.inputs
    for inner, weight in ((a, b), (b, a)):
        norm = found.get(inner) if inner is not None else None
        if norm is None or inner is None or readers.only(inner) is not node or not _is_tail(weight, norm.x, norm.axis):
            continue
        if node.op.name == "mul" and norm.gamma is None and norm.beta is None:
            return Norm(norm.kind, norm.x, norm.axis, norm.eps, weight)
        if node.op.name == "add" and norm.beta is None and norm.kind == "layer_norm":
            return Norm(norm.kind, norm.x, norm.axis, norm.eps, norm.gamma, weight)
    return None


def fuse_norm(graph: Graph) -> Graph:
    """Replace the last node of each pattern by layer_norm or rms_norm."""
    from rlx.ops import TABLE

    if not any(n.op.name == "reduce_mean" for n in graph.nodes):
        return graph
    readers = Readers(graph)
    found: dict[Value, Norm] = {}
    for node in graph.nodes:
        if node.op.name not in ("div", "mul", "add") or node.outputs[0].dtype not in FLOATS:
            continue
        norm = _extended(node, found, readers) if node.op.name != "div" else None
        if norm is None and node.op.name != "add":
            norm = _normalised(node)
        if norm is not None:
            found[node.outputs[0]] = norm
    if not found:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        norm = found.get(node.outputs[0]) if node.outputs else None
        if norm is None:
            rewriter.copy(node)
            continue
        weights = [norm.gamma, norm.beta] if norm.kind == "layer_norm" else [norm.gamma]
        operands: list[Value | None] = [rewriter.map[norm.x]]
        for w in weights:
            new = rewriter.get(w)
            tail = norm.x.shape[norm.axis :]
            if new is not None and new.shape != tail:
                new = rewriter.graph.emit(TABLE["reshape"], [new], {"shape": tail}, loc=node.loc)[0]
            operands.append(new)
        made = rewriter.emit(TABLE[norm.kind], operands, {"axis": norm.axis, "eps": norm.eps}, node)
        rewriter.replace(node.outputs[0], made[0])
    return prune(rewriter.finish())


def fuse_add_norm(graph: Graph) -> Graph:
    """A sum that a norm over the last axis reads is computed by the norm's kernel.

    Left alone is a sum that ends a chain of elementwise ops, which runs as one region anyway.
    """
    from rlx.ops import TABLE

    readers = Readers(graph)
    chosen: dict[int, Node] = {}  # the sum's node -> the norm
    for node in graph.nodes:
        if node.op.name not in ("layer_norm", "rms_norm") or node.outputs[0].dtype not in FLOATS:
            continue
        x = node.inputs[0]
        total = _made(x, "add")
        if x is None or total is None or id(total) in chosen or node.attrs["axis"] not in (-1, x.rank - 1):
            continue
        if any(v is None or v.type != x.type for v in total.inputs):
            continue
        chained = any(v is not None and v.node.op.has("elementwise") and readers.only(v) is total for v in total.inputs)
        if not chained and _late_enough(graph, total, node):
            chosen[id(total)] = node
    if not chosen:
        return graph
    rewriter = Rewriter(graph)
    done: set[int] = set()
    for node in graph.nodes:
        norm = chosen.get(id(node))
        if norm is not None:
            a, b = (rewriter.get(v) for v in node.inputs)
            weights = [rewriter.get(v) for v in norm.inputs[1:]]
            kind = norm.op.name.removesuffix("_norm")
            made = rewriter.emit(TABLE["add_norm"], [a, b, *weights], {"kind": kind, "eps": norm.attrs["eps"]}, norm)
            rewriter.replace(norm.outputs[0], made[0])
            rewriter.replace(node.outputs[0], made[1])
            done.add(id(norm))
        elif id(node) not in done:
            rewriter.copy(node)
    return rewriter.finish()


def _late_enough(graph: Graph, total: Node, norm: Node) -> bool:
    """Whether the norm's weights exist before the sum."""
    weights = {id(v.node) for v in norm.inputs[1:] if v is not None}
    for node in graph.nodes:
        if node is total:
            return not weights
        weights.discard(id(node))
    return False
