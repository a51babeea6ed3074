"""Elementwise work moves ahead of reshapes and transposes, and small stacks are reduced without being built.

`hoist_elementwise`: f(reshape(x)) with numbers or rows of the last axis as other operands becomes reshape(f(x)),
likewise
for transposes, where only that node reads the moved value. So the work joins the node that made x (a product's
epilogue,
a region), and a conversion to a smaller type makes the move cheaper. Values and roundings stay.
`reduce_stacks`: the extremum or sum over a freshly stacked axis is a chain of elementwise ops; a sum of squares is
one op.
"""

from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import normal_axis
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import Readers, is_row

_CHAINS = {"reduce_max": "max", "reduce_min": "min", "reduce_sum": "add", "reduce_prod": "mul"}
_MOST = 8


def _is_number(v: Value) -> bool:
    return all(d == 1 for d in v.shape)


def hoist_elementwise(graph: Graph) -> Graph:
    """Swap elementwise nodes with the reshape or transpose before them."""
    moves = {v for n in graph.nodes if n.op.name in ("reshape", "transpose") for v in n.outputs}
    if not any(n.op.has("elementwise") and any(v in moves for v in n.inputs) for n in graph.nodes):
        return graph
    readers = Readers(graph)
    rewriter = Rewriter(graph)
    changed = False
    for node in graph.nodes:
        if node.op.has("elementwise") and _hoist(rewriter, node, readers):
            changed = True
        else:
            rewriter.copy(node)
    return prune(rewriter.finish()) if changed else graph


def _hoist(rewriter: Rewriter, node: Node, readers: Readers) -> bool:
    from rlx.ops import TABLE

    out = node.outputs[0]
    if out.rank == 0 or not out.type.is_static or _is_number(out):
        return False
    main = [i for i, v in enumerate(node.inputs) if v is not None and v.shape == out.shape]
    if len(main) != 1:
        return False
    old = node.inputs[main[0]]
    assert old is not None
    move = rewriter.map[old].node
    if move.op.name not in ("reshape", "transpose") or readers.only(old) is not node:
        return False
    x = move.inputs[0]
    assert x is not None
    if x.array is not None or x.rank == 0 or x.node.op.has("leaf"):
        return False
    last = out.shape[-1]
    keeps = x.shape[-1] == last if move.op.name == "reshape" else move.attrs["perm"][-1] == x.rank - 1
    operands: list[Value | None] = []
    for i, v in enumerate(node.inputs):
        new = rewriter.get(v)
        if i == main[0]:
            operands.append(x)
        elif new is None or _is_number(new):
            operands.append(new if new is None or new.rank <= x.rank else _flat(rewriter, new, ()))
        elif keeps and is_row(new, last):
            operands.append(new if new.rank == 1 else _flat(rewriter, new, (last,)))
        else:
            return False
    made = rewriter.emit(node.op, operands, node.attrs, node)[0]
    if made.shape != x.shape:
        return False
    attrs = {"shape": out.shape} if move.op.name == "reshape" else move.attrs
    moved = rewriter.graph.emit(TABLE[move.op.name], [made], attrs, name=f"{node.name}/moved", loc=node.loc)[0]
    rewriter.replace(out, moved)
    return True


def _flat(rewriter: Rewriter, v: Value, shape: tuple[object, ...]) -> Value:
    from rlx.ops import TABLE

    if v.array is not None:
        return rewriter.graph.constant(v.array.reshape(shape))
    return rewriter.graph.emit(TABLE["reshape"], [v], {"shape": shape}, name=f"{v.name}/row", loc="")[0]


def reduce_stacks(graph: Graph) -> Graph:
    """Reduce stacked values element by element, and sums of squares at once."""
    if not any(n.op.name.startswith("reduce_") for n in graph.nodes):
        return graph
    readers = Readers(graph)
    rewriter = Rewriter(graph)
    changed = False
    for node in graph.nodes:
        if node.op.name.startswith("reduce_") and (_stack(rewriter, node) or _squares(rewriter, node, readers)):
            changed = True
        else:
            rewriter.copy(node)
    return prune(rewriter.finish()) if changed else graph


def _stack(rewriter: Rewriter, node: Node) -> bool:
    from rlx import ops

    x, out = node.inputs[0], node.outputs[0]
    assert x is not None
    axes = node.attrs["axes"]
    if (
        node.op.name not in _CHAINS
        or x.node.op.name != "concat"
        or axes is None
        or len(axes) != 1
        or not x.type.is_static
    ):
        return False
    axis = normal_axis(axes[0], x.rank, "reduce")
    parts = [v for v in x.node.inputs if v is not None]
    if normal_axis(x.node.attrs["axis"], x.rank, "concat") != axis or not 2 <= len(parts) <= _MOST:
        return False
    if any(v.shape[axis] != 1 for v in parts) or x.dtype != out.dtype:
        return False
    step = getattr(ops, _CHAINS[node.op.name])
    start = len(rewriter.graph.nodes)
    values = [ops.reshape(rewriter.map[v], shape=out.shape) for v in parts]
    total = values[0]
    for value in values[1:]:
        total = step(total, value)
    for made in rewriter.graph.nodes[start:]:
        made.loc = node.loc
    rewriter.replace(out, total)
    return True


def _squares(rewriter: Rewriter, node: Node, readers: Readers) -> bool:
    from rlx.ops import TABLE

    x = node.inputs[0]
    assert x is not None
    if node.op.name != "reduce_sum" or not x.dtype.is_float or x.dtype.is_half or readers.only(x) is not node:
        return False
    made = x.node
    if made.op.name != "square" and not (made.op.name == "mul" and made.inputs[0] is made.inputs[1]):
        return False
    inner = rewriter.get(made.inputs[0])
    rewriter.replace(node.outputs[0], rewriter.emit(TABLE["reduce_sum_square"], [inner], node.attrs, node)[0])
    return True
