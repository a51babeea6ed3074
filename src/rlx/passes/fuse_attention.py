"""softmax(q k^T scale + bias) v becomes one node over strided views of its operands.

Recognised by def-use edges: product, optional factor, optional additive bias or a `where` that puts
-inf, softmax along the last axis with one reader, product. Factors on q or k count too. Transposes,
reshapes and slices between the projections and the products become strides; a transpose of the result
to [B, Q, H, D] becomes its layout. An attention that is one node reads through them likewise. The scores are
never stored. A row whose scores are all -inf is NaN, as without the pass; sums are re-associated.
"""


import numpy as np

from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import broadcast
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Readers
from rlx.passes.views import View, reshaped, trace
from rlx.records import record

TOKENS = (0, 2, 1, 3)


@record(eq=False)
class _Found:
    """One attention in the graph."""

    q: View
    k: View
    v: View
    scale: float
    mask: Value | None
    result: Value
    tokens: bool
    inside: list[Node]
    empty: float = float("nan")


def fuse_attention(graph: Graph) -> Graph:
    """Replace every attention that is spelled out."""
    readers = Readers(graph)
    found: dict[int, _Found] = {}
    for node in graph.nodes:
        if node.op.name == "matmul":
            match = _match(node, readers)
            if match is not None:
                found[id(match.result.node)] = match
    wholes = {id(n): views for n in graph.nodes if n.op.name == "fused_attention" and (views := _through_moves(n))}
    if not found and not wholes:
        return graph
    inside = {id(n) for match in found.values() for n in match.inside}
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in found:
            _emit(rewriter, found[id(node)], node)
        elif id(node) in wholes:
            views = wholes[id(node)]
            at = {f"{name}_view": (v.offset, *v.strides[:3]) for name, v in zip("qkv", views, strict=True)}
            operands = [*(rewriter.map[v.base] for v in views), *(rewriter.get(v) for v in node.inputs[3:])]
            (new,) = rewriter.emit(node.op, operands, dict(node.attrs) | at, node)
            rewriter.replace(node.outputs[0], new)
        elif id(node) not in inside:
            rewriter.copy(node)
    return prune(rewriter.finish())


def _through_moves(node: Node) -> list[View] | None:
    """Views of what q, k and v of one node are cut from, if any of them is more than the value itself."""
    views = []
    at = node.attrs
    b, heads, kv, sq, sk, d, dv = at["sizes"]
    for value, name, shape in zip(node.inputs, "qkv", ((b, heads, sq, d), (b, kv, sk, d), (b, kv, sk, dv)),
                                  strict=False):
        assert value is not None
        given = View(value, at[f"{name}_view"][0], shape, (*at[f"{name}_view"][1:], 1))
        views.append(_composed(given, trace(value, lambda _: None)[0]) or given)
    return views if any(v.base is not x for v, x in zip(views, node.inputs, strict=False)) else None


def _composed(view: View, source: View) -> View | None:
    """A dense view of a value ([B, H, S, D] or [B, S, H, D] in its order) as a view of the value's source."""
    if source.base is view.base or 0 in view.shape or view.offset:
        return None
    b, n, s, w = view.shape
    if view.strides == (n * s * w, s * w, w, 1):
        found = reshaped(source, view.shape)
    elif view.strides == (s * n * w, w, n * w, 1):
        found = reshaped(source, (b, s, n, w))
        found = None if found is None else found.permuted(TOKENS)
    else:
        return None
    if found is None or (found.strides[3] != 1 and w != 1) or min(found.strides) < 0:
        return None
    return found


def _factor(node: Node) -> tuple[Value, float] | None:
    """(x, c) of x * c or x / c for one constant number."""
    if node.op.name not in ("mul", "div"):
        return None
    a, b = node.inputs
    assert a is not None and b is not None
    if b.array is None and node.op.name == "mul":
        a, b = b, a
    if b.array is None or b.array.size != 1 or a.shape != node.outputs[0].shape:
        return None
    number = float(b.array.reshape(-1)[0])
    if node.op.name == "div":
        return (a, 1 / number) if number else None
    return a, number


def _through(node: Node) -> Value | None:
    part = _factor(node)
    return None if part is None else part[0]


def _operand(value: Value, perm: tuple[int, ...] | None = None) -> tuple[View, float] | None:
    """[B, H, S, D] view whose last axis is dense, and the factor on it."""
    view, passed = trace(value, _through)
    if perm is not None:
        view = view.permuted(perm)
    if len(view.shape) == 3:
        view = View(
            view.base, view.offset, (view.shape[0], 1, *view.shape[1:]), (view.strides[0], 0, *view.strides[1:])
        )
    if (
        len(view.shape) != 4
        or (view.strides[3] != 1 and view.shape[3] != 1)
        or 0 in view.shape
        or min(view.strides) < 0
    ):
        return None
    scale = 1.0
    for node in passed:
        part = _factor(node)
        assert part is not None
        scale *= part[1]
    return view, scale


def _match(node: Node, readers: Readers) -> _Found | None:
    weights, v = node.inputs
    assert weights is not None and v is not None
    out = node.outputs[0]
    weights, guarded = _unguarded(weights, readers, node)
    soft = weights.node
    if out.dtype not in FLOATS or out.rank not in (3, 4) or not out.type.is_static or soft.op.name != "softmax":
        return None
    if soft.attrs["axis"] not in (-1, weights.rank - 1) or weights is v:
        return None
    if not guarded and readers.only(weights) is not node:
        return None
    inside = [*guarded, soft]
    below = soft
    scores = soft.inputs[0]
    assert scores is not None
    masked = _mask(scores, readers, soft)
    mask = None
    if masked is not None:
        below = scores.node
        inside.append(below)
        scores, mask = masked
    scale = 1.0
    while (part := _factor(scores.node)) is not None and readers.only(scores) is below:
        below = scores.node
        inside.append(below)
        scores, scale = part[0], scale * part[1]
    product = scores.node
    if product.op.name != "matmul" or readers.only(scores) is not below:
        return None
    inside.append(product)
    a, b = product.inputs
    assert a is not None and b is not None
    if not a.rank == b.rank == v.rank == out.rank:
        return None
    last = out.rank - 1
    q = _operand(a)
    k = _operand(b, (*range(last - 1), last, last - 1))
    values = _operand(v)
    if q is None or k is None or values is None or values[1] != 1.0:
        return None
    if not q[0].shape[:2] == k[0].shape[:2] == values[0].shape[:2]:
        return None
    result, tokens = out, False
    reader = readers.only(out)
    if out.rank == 4 and reader is not None and reader.op.name == "transpose" and reader.attrs["perm"] == TOKENS:
        result, tokens = reader.outputs[0], True
        inside.append(node)
    return _Found(q[0], k[0], values[0], scale * q[1] * k[1], mask, result, tokens, inside,
                  0.0 if guarded else float("nan"))


def _unguarded(weights: Value, readers: Readers, reader: Node) -> tuple[Value, list[Node]]:
    """The softmax behind where(isnan(p), 0, p), which makes rows without a visible key zero."""
    node = weights.node
    if node.op.name != "where" or readers.only(weights) is not reader:
        return weights, []
    condition, zero, p = node.inputs
    assert condition is not None and zero is not None and p is not None
    test = condition.node
    if test.op.name != "isnan" or test.inputs[0] is not p or zero.array is None or zero.array.any():
        return weights, []
    if (
        readers.only(condition) is not node
        or p in readers.outputs
        or {id(n) for n in readers.of[p]} != {id(test), id(node)}
    ):
        return weights, []
    return p, [node, test]


def _mask(scores: Value, readers: Readers, reader: Node) -> tuple[Value, Value] | None:
    """(scores, bias or boolean mask) of a sum or a choice that hides scores."""
    node = scores.node
    if readers.only(scores) is not reader:
        return None
    if node.op.name == "add":
        a, b = node.inputs
        assert a is not None and b is not None
        for left, mask in ((a, b), (b, a)):
            if left.shape == scores.shape and _is_scores(left) and readers.only(left) is node and _fits(mask, scores):
                return left, mask
    if node.op.name == "where":
        condition, x, other = node.inputs
        assert condition is not None and x is not None and other is not None
        hidden = other.array is not None and bool(np.isneginf(other.array).all())
        if hidden and x.shape == scores.shape and readers.only(x) is node and _fits(condition, scores):
            return x, condition
    return None


def _is_scores(value: Value) -> bool:
    """Whether the value is a product, perhaps times a number."""
    while (part := _factor(value.node)) is not None:
        value = part[0]
    return value.node.op.name == "matmul"


def _fits(mask: Value, scores: Value) -> bool:
    return mask.rank <= scores.rank and broadcast([mask.shape, scores.shape], "mask") == scores.shape


def _emit(rewriter: Rewriter, match: _Found, like: Node) -> None:
    from rlx.ops import TABLE

    (b, heads, sq, d), (_, kv, sk, _), dv = match.q.shape, match.k.shape, match.v.shape[3]
    mask = rewriter.get(match.mask)
    if mask is not None and match.result.rank == 3 and mask.rank == 3:
        mask = rewriter.graph.emit(TABLE["reshape"], [mask], {"shape": (mask.shape[0], 1, *mask.shape[1:])},
                                   name=f"{like.name}/mask", loc=like.loc)[0]

    def view(v: View) -> tuple[int, ...]:
        return (v.offset, *v.strides[:3])

    new = rewriter.emit(
        TABLE["fused_attention"],
        [*(rewriter.map[v.base] for v in (match.q, match.k, match.v)), mask],
        {
            "sizes": (b, heads, kv, sq, sk, d, dv),
            "q_view": view(match.q),
            "k_view": view(match.k),
            "v_view": view(match.v),
            "tokens": match.tokens,
            "scale": match.scale,
            "empty": match.empty,
        },
        like,
    )[0]
    if new.shape != match.result.shape:
        new = rewriter.graph.emit(
            TABLE["reshape"], [new], {"shape": match.result.shape}, name=f"{like.name}/heads", loc=like.loc
        )[0]
    rewriter.replace(match.result, new)
