"""Dead code, common subexpressions, constant folding, safe identities."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rlx._kernels import _nodes
from rlx.dtypes import f32, f64
from rlx.errors import ExecutionError
from rlx.ir.graph import CONSTANT, INPUT, PARAM, Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array, OpDef
from rlx.ir.traced import trace_of
from rlx.ir.types import static_shape

# A folded result larger than this is kept only if it is not much larger than its operands.
FOLD_LIMIT = 1 << 16
# Their operands after the first are packed ahead when they are constant: worth any size.
WEIGHTED = frozenset(
    {
        "conv",
        "conv_transpose",
        "conv_nhwc",
        "conv_alone",
        "conv_transpose_alone",
        "conv_transpose_nhwc",
        "matmul",
        "fused_matmul",
        "gemm",
        "int8_conv",
        "int8_matmul",
        "matmul_integer",
        "conv_integer",
        "qlinear_conv",
        "qlinear_matmul",
        "lstm",
        "gru",
        "rnn",
        "batch_norm",
        "dynamic_quantize_lstm",
    }
)


def _needed(graph: Graph) -> set[Node]:
    """Nodes that an output or a state needs."""
    found: set[Node] = _nodes.needed(graph.nodes, graph.outputs.values())
    return found


def eliminate_dead(graph: Graph) -> Graph:
    """Drop nodes that no output needs. Inputs and parameters stay."""
    needed = _needed(graph)
    if len(needed) == len(graph.nodes) or all(n in needed or n.op is INPUT or n.op is PARAM for n in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node in needed or node.op is INPUT or node.op is PARAM:
            rewriter.copy(node)
    return rewriter.finish()


def prune(graph: Graph) -> Graph:
    """`eliminate_dead` in place, for a graph that the caller has just built."""
    needed = _needed(graph)
    if len(needed) != len(graph.nodes):
        kept: list[Node] = []
        gone: list[Node] = []
        for node in graph.nodes:
            (kept if node in needed or node.op is INPUT or node.op is PARAM else gone).append(node)
        _nodes.dismantle(gone)
        graph.nodes = kept
    return graph


def _attr_key(value: Any) -> Any:
    if type(value) is int or type(value) is str:
        return value
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, Graph):
        return id(value)
    return (type(value), value) if isinstance(value, (bool, float)) else value


def draws(node: Node) -> bool:
    """Whether a node draws random numbers, itself or in a body."""
    if "control" not in node.op.traits:
        return "random" in node.op.traits
    bodies = [g for g in node.attrs.values() if isinstance(g, Graph)]
    return any(draws(n) for g in bodies for n in g.nodes)


def _attrs_key(node: Node) -> tuple[Any, ...]:
    return tuple([_attr_key(v) for v in node.attrs.values()])


# A node without any of these traits computes, and has no effect.
_EFFECTS = frozenset({"leaf", "stateful", "control", "random"})


def merge_common(graph: Graph) -> Graph:
    """One node for equal pure nodes on equal operands; small equal constants too."""
    seen: dict[Any, Node | dict[Any, Node]] = {}  # several on the same operands: by their attributes
    same: dict[Value, Value] = {}
    for node in graph.nodes:
        op = node.op
        if op is CONSTANT:
            array = node.outputs[0].array
            if array is None or array.nbytes > 256:
                continue
            key: Any = (array.dtype.num, array.shape, array.tobytes())
        elif not _EFFECTS.isdisjoint(op.traits) and ("leaf" in op.traits or "stateful" in op.traits or draws(node)):
            continue
        else:
            key = (op, *[-1 if v is None else id(same.get(v, v)) for v in node.inputs])
        alike = seen.setdefault(key, node)
        if alike is node:
            continue
        if isinstance(alike, Node):
            seen[key] = alike = {_attrs_key(alike): alike}
        first = alike.setdefault(_attrs_key(node), node)
        if first is not node:
            same.update(zip(node.outputs, first.outputs, strict=True))
    if not same:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.outputs and node.outputs[0] in same:
            for old in node.outputs:
                rewriter.replace(old, rewriter.map[same[old]])
        else:
            rewriter.copy(node)
    return rewriter.finish()


def fold_constants(graph: Graph, evaluate: Callable[[Graph], dict[str, Array]]) -> Graph:
    """Replace what depends on constants alone by its value.

    `evaluate` compiles and runs a graph without inputs, so that a folded value
    has the very bits of the run-time kernels. A part that cannot be evaluated
    (it would raise at run time) is left as it is.
    """
    constant: set[Value | None] = {None}
    weights: set[Value] | None = None
    packed: set[Node] = set()
    folded: set[Node] = set()
    for node in graph.nodes:
        if node.op is CONSTANT:
            constant.add(node.outputs[0])
        elif constant.issuperset(node.inputs) and "leaf" not in node.op.traits:
            if weights is None:
                weights = _weights(graph)
                packed = _packed_transposed(graph) | _kept_widenings(graph)
            if node not in packed and _foldable(node, any(v in weights for v in node.outputs)):
                constant.update(node.outputs)
                folded.add(node)
    if not folded:
        return graph
    for node in folded:
        if (trace := trace_of([*(d for v in node.outputs for d in v.shape), *node.attrs.values()])) is not None:
            trace.end(f"{node.place}: a constant is made from the extent")
    wanted: dict[str, Value] = {}
    for node in graph.nodes:
        if node in folded:
            continue
        for v in node.inputs:
            if v is not None and v.node in folded:
                wanted[v.name] = v
    for v in graph.outputs.values():
        if v.node in folded:
            wanted[v.name] = v
    values = _moved(graph, folded)
    if any(v not in values for v in wanted.values()):
        part = Graph(graph.name + "/constants")
        part.track_source = False
        rewriter = Rewriter(graph)
        rewriter.graph = part
        for node in graph.nodes:
            if node.op is CONSTANT:
                rewriter.copy(node)
            elif node in folded:
                if node.outputs[0] in values:
                    rewriter.replace(node.outputs[0], part.constant(values[node.outputs[0]]))
                else:
                    rewriter.copy(node)
        for name, v in wanted.items():
            if v not in values:
                part.output(name, rewriter.map[v])
        try:
            values.update({wanted[name]: array for name, array in evaluate(prune(part)).items()})
        except ExecutionError:
            return graph
        finally:
            part.dismantle()
    result = Rewriter(graph)
    for node in graph.nodes:
        if node in folded:
            for v in node.outputs:
                if v.name in wanted:
                    new = result.graph.constant(values[v], name=node.name)
                    new.node.loc = node.loc
                    result.replace(v, new)
        else:
            result.copy(node)
    return prune(result.finish())


# Copies by their definitions in NumPy: no arithmetic, so that no kernel could give other bits.
_COPIES = frozenset({"reshape", "transpose", "expand", "slice", "concat"})


def _moved(graph: Graph, folded: Collection[Node]) -> dict[Value, Array]:
    """Values of the folded nodes that copy constants, which need no compiled kernel."""
    known: dict[Value, Array] = {}
    for node in graph.nodes:
        if node.op.name not in _COPIES or node not in folded or node.outputs[0].dtype.is_stored:
            continue
        arrays = [None if v is None else known.get(v, v.array) for v in node.inputs]
        if any(a is None for a in arrays):
            continue
        out = node.outputs[0]
        if node.op.name == "expand":  # NumPy's own function for it is slow
            made = np.empty(static_shape(out.shape, out.name), out.dtype.numpy)
            made[...] = arrays[0]
        else:
            made = np.array(node.op.reference(*arrays, **node.attrs), order="C")
        made.flags.writeable = False
        known[out] = made
    return known


def _kept_widenings(graph: Graph) -> set[Node]:
    if not any(node.op.name == "cast" for node in graph.nodes):
        return set()
    from rlx.passes.stored import kept_widenings

    return kept_widenings(graph)


def _weights(graph: Graph) -> set[Value]:
    """Weights of products and what they are made of by moves and elementwise ops."""
    found: set[Value] = set()
    for node in reversed(graph.nodes):
        if node.op.name in WEIGHTED:
            found.update(v for v in node.inputs[1:] if v is not None)
        if (node.op.has("movement") or node.op.has("elementwise")) and any(v in found for v in node.outputs):
            found.update(v for v in node.inputs if v is not None)
    return found


def _packed_transposed(graph: Graph) -> set[Node]:
    """Transposes of large constants that products alone read: those pack their weights from either order."""
    found: set[Node] = set()
    for node in graph.nodes:
        x = node.inputs[0] if node.op.name == "transpose" else None
        if x is None or x.array is None or x.dtype != f32 or x.array.nbytes <= FOLD_LIMIT:
            continue
        if node.attrs["perm"] == (*range(x.rank - 2), x.rank - 1, x.rank - 2):
            found.add(node)
    if found:
        for node in graph.nodes:
            for i, v in enumerate(node.inputs):
                if v is not None and (node.op.name != "matmul" or i != 1):
                    found.discard(v.node)
        for v in graph.outputs.values():
            found.discard(v.node)
    return found


def _foldable(node: Node, any_size: bool = False) -> bool:
    op = node.op
    if op.traits & {"leaf", "random", "stateful", "dynamic", "control", "held"}:
        return False
    if any(not v.type.is_static for v in node.outputs):
        return False
    made = sum(_nbytes(v) for v in node.outputs)
    given = sum(_nbytes(v) for v in node.inputs if v is not None)
    return any_size or made <= max(FOLD_LIMIT, 4 * given)


def _nbytes(v: Value) -> int:
    n = v.dtype.itemsize
    for d in static_shape(v.shape, v.name):
        n *= d
    return n


def inline_branches(graph: Graph) -> Graph:
    """Replace a `cond` whose predicate is constant by the branch that is taken.

    One that draws random numbers stays: their streams depend on where the ops are.
    """
    decided = {id(n) for n in graph.nodes if n.op.name == "cond" and _predicate(n) is not None and not draws(n)}
    if not decided:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) not in decided:
            rewriter.copy(node)
            continue
        body: Graph = node.attrs["then" if _predicate(node) else "orelse"]
        captures = [rewriter.get(v) for v in node.inputs[1:]]
        for old, new in zip(node.outputs, inline(rewriter.graph, body, captures), strict=True):
            rewriter.replace(old, new)
    return inline_branches(rewriter.finish())


def _predicate(node: Node) -> bool | None:
    """The constant predicate of a `cond`."""
    pred = node.inputs[0]
    return None if pred is None or pred.array is None else bool(pred.array.reshape(-1)[0])


def inline(graph: Graph, body: Graph, values: Sequence[Value | None]) -> list[Value]:
    """Append the nodes of `body` to `graph`, its inputs bound to `values`; returns its outputs."""
    inner: dict[Value, Value] = {}
    for v, given in zip(body.inputs, values, strict=True):
        assert given is not None
        inner[v] = given
    for node in body.nodes:
        if node.op.name == "input":
            continue
        if node.op is CONSTANT:
            inner[node.outputs[0]] = graph.constant(node.outputs[0].array, name=node.name)
            continue
        made = graph.emit(node.op, [None if v is None else inner[v] for v in node.inputs], node.attrs,
                          name=node.name, loc=node.loc)
        inner.update(zip(node.outputs, made, strict=True))
    return [inner[v] for v in body.outputs.values()]


def _uniform(v: Value | None) -> float | int | bool | None:
    """The one number that a small constant holds everywhere, else None."""
    if v is None or v.array is None or v.array.size == 0 or v.array.dtype.kind not in "fiub":
        return None
    if v.array.size > 1 and not (v.array == v.array.reshape(-1)[0]).all():
        return None
    item: float | int | bool = v.array.reshape(-1)[0].item()
    return item


def simplify(graph: Graph) -> Graph:
    """IEEE-safe identities: x*1, x/1, x-0, casts and views that change nothing, double negation,
    transposes of transposes, reshapes of reshapes, limits that are clips. Never x*0 or x+0.0 of floats."""
    first = next((i for i, n in enumerate(graph.nodes) if n.op.name in _SIMPLER and _simplify(_DRY, n)), None)
    if first is None:
        return graph
    rewriter = Rewriter(graph)
    for i, node in enumerate(graph.nodes):
        if i < first or node.op.name not in _SIMPLER or not _simplify(rewriter, node):
            rewriter.copy(node)
    return prune(rewriter.finish())


# Ops of nodes that may be rewritten.
_SIMPLER = frozenset({"reshape", "expand", "transpose", "slice", "cast", "concat", "gather", "max", "min", "clip",
                      "neg", "mul", "div", "sub", "add", "pow"})


class _Dry(Rewriter):
    """Tells whether a node would be rewritten."""

    def get(self, old: Value | None) -> Value | None:
        return old

    def replace(self, old: Value, new: Value) -> None:
        return None

    def emit(
        self, op: OpDef, inputs: Sequence[Value | None], attrs: Mapping[str, Any], like: Node
    ) -> tuple[Value, ...]:
        return like.outputs


_DRY = _Dry(Graph())


def _gather_of_range(r: Rewriter, node: Node, x: Value) -> bool:
    """A gather of one index, or of indices at equal steps upwards, is a slice: often a view."""
    from rlx.ops import TABLE

    indices = r.get(node.inputs[1])
    axis = node.attrs["axis"] % x.rank
    n = x.shape[axis]
    if indices is None or indices.array is None or indices.array.size == 0 or not isinstance(n, int):
        return False
    places = indices.array.reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + n, places)
    step = int(places[1] - places[0]) if places.size > 1 else 1
    if places.min() < 0 or places.max() >= n or step < 1 or (np.diff(places) != step).any():
        return False
    attrs = {"starts": (int(places[0]),), "stops": (int(places[-1]) + 1,), "axes": (axis,), "steps": (step,)}
    out = node.outputs[0]
    part = r.emit(TABLE["slice"], [x], attrs, node)[0]
    if part.shape != out.shape:
        part = r.graph.emit(TABLE["reshape"], [part], {"shape": out.shape}, loc=node.loc)[0]
    r.replace(out, part)
    return True


def _limit(r: Rewriter, node: Node, x: Value) -> bool:
    """The larger or smaller of x and a number is a clip (not of 0, whose sign counts); a clip of a clip is one."""
    from rlx.ops import TABLE

    out, lo, hi = node.outputs[0], -math.inf, math.inf
    if out.dtype not in (f32, f64):
        return False
    if node.op.name == "clip":
        lo, hi = node.attrs["lo"], node.attrs["hi"]
        before = x.node
        if before.op.name != "clip" or not (before.attrs["lo"] <= before.attrs["hi"] and lo <= hi):
            return False
        assert before.inputs[0] is not None
        x = before.inputs[0]
        lo, hi = (min(max(before.attrs[side], lo), hi) for side in ("lo", "hi"))
    else:
        y = r.get(node.inputs[1])
        limit = _uniform(y)
        if limit is None:
            x, y = y, x  # type: ignore[assignment]
            limit = _uniform(y)
        if limit is None or x is None or x.type != out.type or math.isnan(limit) or limit == 0:
            return False
        lo, hi = (float(limit), hi) if node.op.name == "max" else (lo, float(limit))
    r.replace(out, r.emit(TABLE["clip"], [x], {"lo": lo, "hi": hi}, node)[0])
    return True


def _simplify(r: Rewriter, node: Node) -> bool:
    name, out = node.op.name, node.outputs[0]
    x = r.get(node.inputs[0]) if node.inputs else None
    if x is None:
        return False
    if name in ("reshape", "expand", "transpose", "slice", "cast", "concat"):
        plain = name != "transpose" or node.attrs["perm"] == tuple(range(x.rank))
        single = name != "concat" or len(node.inputs) == 1
        if name == "slice":
            plain = (node.attrs["steps"] or (1,))[0] == 1 and all(s > 0 for s in node.attrs["steps"] or ())
        bounds = name == "cast" and node.attrs["saturate"]
        if x.type == out.type and plain and single and not bounds:
            r.replace(out, x)
            return True
        if x.node.op.name == name and name == "reshape":
            inner = x.node.inputs[0]
            assert inner is not None
            r.replace(out, r.emit(node.op, [inner], {"shape": out.shape}, node)[0])
            return True
        if x.node.op.name == name and name == "transpose":
            inner = x.node.inputs[0]
            assert inner is not None
            first = x.node.attrs["perm"]
            perm = tuple(first[p] for p in node.attrs["perm"])
            new = inner if perm == tuple(range(inner.rank)) else r.emit(node.op, [inner], {"perm": perm}, node)[0]
            r.replace(out, new)
            return True
        return False
    if name == "gather":
        return _gather_of_range(r, node, x)
    if name in ("max", "min", "clip"):
        return _limit(r, node, x)
    if name == "neg" and x.node.op.name == "neg" and x.node.inputs[0] is not None:
        r.replace(out, x.node.inputs[0])
        return True
    if name in ("mul", "div", "sub", "add", "pow"):
        y = r.get(node.inputs[1])
        value = _uniform(y)
        if value is None and name in ("mul", "add"):
            x, y = y, x
            assert x is not None
            value = _uniform(y)
        if value is None or x is None or x.type != out.type:
            return False
        integer = out.dtype.is_int
        same = (
            (name in ("mul", "div", "pow") and value == 1)
            or (name == "sub" and value == 0 and not str(value).startswith("-"))
            or (name == "add" and integer and value == 0)
        )
        if same:
            r.replace(out, x)
            return True
    return False
