"""Elementwise work moves ahead of reshapes and transposes, and small stacks are reduced without being built.

`hoist_elementwise`: f(reshape(x)) with numbers or rows of the last axis as other operands becomes reshape(f(x)),
likewise
for transposes, where only that node reads the moved value. So the work joins the node that made x (a product's
epilogue,
a region), and a conversion to a smaller type makes the move cheaper. Values and roundings stay.
`look_up_one_hot`: a one-hot matrix spelled as indices == 0..K-1, times a constant matrix, picks rows of that matrix.
`reduce_stacks`: the extremum or sum over a freshly stacked axis is a chain of elementwise ops; a sum of squares is
one op.
"""

import numpy as np

from rlx.dtypes import i32, i64
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import normal_axis, static_shape
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Readers, is_row

_CHAINS = {"reduce_max": "max", "reduce_min": "min", "reduce_sum": "add", "reduce_prod": "mul"}
_MOVES = frozenset({"reshape", "transpose"})
_MOST = 8


def _is_number(v: Value) -> bool:
    return all(d == 1 for d in v.shape)


def hoist_elementwise(graph: Graph) -> Graph:
    """Swap elementwise nodes with the reshape or transpose before them."""
    moves = {v for n in graph.nodes if n.op.name in _MOVES for v in n.outputs}
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
    if not changed:
        rewriter.graph.dismantle()
        return graph
    return prune(rewriter.finish())


def _hoist(rewriter: Rewriter, node: Node, readers: Readers) -> bool:
    from rlx.ops import TABLE

    known = rewriter.map
    if not any(v is not None and known[v].node.op.name in _MOVES for v in node.inputs):
        return False
    out = node.outputs[0]
    if out.rank == 0 or not out.type.is_static or _is_number(out):
        return False
    main = [i for i, v in enumerate(node.inputs) if v is not None and v.shape == out.shape]
    if len(main) != 1:
        return False
    old = node.inputs[main[0]]
    assert old is not None
    move = rewriter.map[old].node
    if move.op.name not in _MOVES or readers.only(old) is not node:
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
    if not changed:
        rewriter.graph.dismantle()
        return graph
    return prune(rewriter.finish())


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


def look_up_one_hot(graph: Graph) -> Graph:
    """Products of one-hot rows with constant matrices as gathers; the sums had one term each, so no bit changes."""
    found = {id(n): hit for n in graph.nodes if n.op.name == "matmul" and (hit := _one_hot(n)) is not None}
    if not found:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in found:
            _emit_gather(rewriter, node, found[id(node)])
        else:
            rewriter.copy(node)
    return prune(rewriter.finish())


def _one_hot(node: Node) -> Value | None:
    """The indices [..., 1] behind the left operand of a product with a finite constant matrix."""
    a, b = node.inputs
    assert a is not None and b is not None
    if a.node.op.name != "cast" or a.rank < 2 or not a.type.is_static:
        return None
    table = _table(b)
    if table.array is None or b.rank != 2 or b.dtype not in FLOATS:
        return None
    if not np.isfinite(table.array).all():
        return None
    test = a.node.inputs[0]
    if test is None or test.node.op.name != "eq" or a.dtype != b.dtype:
        return None
    for indices, numbers in (test.node.inputs, test.node.inputs[::-1]):
        if indices is None or numbers is None or numbers.array is None or indices.dtype not in (i32, i64):
            continue
        if indices.shape != (*a.shape[:-1], 1) or not is_row(numbers, a.shape[-1]):
            continue
        if (numbers.array.reshape(-1) == np.arange(numbers.array.size)).all():
            return indices
    return None


def _table(b: Value) -> Value:
    """A matrix, or the halves that it is widened from."""
    source = b.node.inputs[0] if b.node.op.name == "cast" else None
    return b if source is None or not source.dtype.is_half else source


def _emit_gather(rewriter: Rewriter, node: Node, indices: Value) -> None:
    from rlx import ops

    out, b = node.outputs[0], node.inputs[1]
    assert b is not None
    table = rewriter.map[_table(b)]
    rows = static_shape(table.shape, table.name)[0]
    start = len(rewriter.graph.nodes)
    flat = ops.reshape(rewriter.map[indices], shape=out.shape[:-1])
    inside = ops.min(ops.max(flat, 0), rows - 1)
    picked = ops.gather(table, inside, axis=0)
    picked = picked if picked.dtype == out.dtype else ops.cast(picked, dtype=out.dtype)
    hit = ops.reshape(ops.eq(flat, inside), shape=(*out.shape[:-1], 1))
    zero = rewriter.graph.constant(np.zeros((), out.dtype.numpy))
    rewriter.replace(out, ops.where(hit, picked, zero))
    for made in rewriter.graph.nodes[start:]:
        made.loc = node.loc
