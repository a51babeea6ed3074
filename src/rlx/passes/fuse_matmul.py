"""matmul + bias + activation, residual: one node that finishes each tile while it is in cache.

Follows def-use edges of values with a single reader (an output counts as one). Every step keeps
its own rounding, so the results are the same bits as without the pass. Transposes of operands
become strides, a transpose of the result that keeps the last axis becomes the layout of the output.
"""

from rlx.dtypes import f32
from rlx.ir.graph import CONSTANT, PARAM, Graph, Node, Rewriter, Value
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import FLOATS, Chain, Readers, grow, operands


def fuse_matmul(graph: Graph) -> Graph:
    """Rewrite products that have something to fuse."""
    from rlx.ops import TABLE

    starts = [n.outputs[0] for n in graph.nodes if _fits(n)]
    if not starts:
        return graph
    readers = Readers(graph)
    last: dict[int, tuple[Node, Chain]] = {}
    inside: set[int] = set()
    for start in starts:
        whole = start.node.op.name == "matmul"
        int8 = start.node.op.name == "int8_matmul"
        biased = int8 or (not whole and len(start.node.inputs) > 4 and start.node.inputs[4] is not None)
        chain = grow(start, readers, transposes=whole, biased=biased, narrows=not int8, skip=inside)
        if not chain.grew and not (whole and any(_operand(v, i == 1)[1] for i, v in enumerate(start.node.inputs))):
            continue
        nodes = [start.node, *chain.nodes]
        inside.update(id(n) for n in nodes)
        last[id(nodes[-1])] = (start.node, chain)
    if not last:
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if id(node) in last:
            product, chain = last[id(node)]
            if product.op.name == "matmul":
                _emit(rewriter, TABLE["fused_matmul"], product, chain, node)
            elif product.op.name == "matmul_nbits":
                _emit_nbits(rewriter, product, chain, node)
            else:
                emit_int8(rewriter, product, chain, node)
        elif id(node) not in inside:
            rewriter.copy(node)
    return prune(rewriter.finish())


def _fits(node: Node) -> bool:
    if node.op.name == "int8_matmul":
        return node.attrs["out"] == f32 and not node.attrs["epilogue"] and node.outputs[0].rank >= 2
    if node.op.name == "matmul_nbits":
        return node.outputs[0].dtype == f32 and node.outputs[0].type.is_static
    if node.op.name != "matmul":
        return False
    a, b = node.inputs
    assert a is not None and b is not None
    return a.dtype in FLOATS and a.rank >= 2 and b.rank >= 2 and node.outputs[0].type.is_static


def _operand(value: Value | None, right: bool) -> tuple[Value, tuple[int, ...] | None]:
    """(source, perm) of an operand that is a transpose the kernel can walk."""
    assert value is not None
    node = value.node
    if node.op.name != "transpose":
        return value, None
    source, perm = node.inputs[0], node.attrs["perm"]
    assert source is not None
    rank = len(perm)
    if rank - 1 not in perm[-2:]:
        return value, None
    weight = source.node.op is CONSTANT or source.node.op is PARAM
    if weight and (not right or perm[:-2] != tuple(range(rank - 2))):
        return value, None
    return source, perm


def emit_int8(rewriter: Rewriter, product: Node, chain: Chain, like: Node) -> None:
    """An 8-bit product with steps: its operands stay, bias and scale included."""
    _, extras = operands(rewriter, chain)
    fixed = [rewriter.get(v) for v in [*product.inputs, *[None] * 7][:7]]
    new = rewriter.emit(product.op, [*fixed, *extras], {**product.attrs, "epilogue": tuple(chain.steps)}, like)
    rewriter.replace(like.outputs[0], new[0])


def _emit_nbits(rewriter: Rewriter, product: Node, chain: Chain, like: Node) -> None:
    """A product with codes: bias and steps join it."""
    from rlx.ops import TABLE

    bias, extras = operands(rewriter, chain)
    a, codes, scale, zero, given = (rewriter.get(v) for v in [*product.inputs, None, None][:5])
    new = rewriter.emit(TABLE["fused_matmul_nbits"], [a, codes, scale, zero, given if bias is None else bias, *extras],
                        {**product.attrs, "epilogue": tuple(chain.steps)}, like)
    rewriter.replace(like.outputs[0], new[0])


def _emit(rewriter: Rewriter, op: object, product: Node, chain: Chain, like: Node) -> None:
    (a, perm_a), (b, perm_b) = (_operand(v, i == 1) for i, v in enumerate(product.inputs))
    bias, extras = operands(rewriter, chain)
    new = rewriter.emit(
        op,  # type: ignore[arg-type]
        [rewriter.map[a], rewriter.map[b], bias, *extras],
        {"perm_a": perm_a, "perm_b": perm_b, "perm_out": chain.perm, "epilogue": tuple(chain.steps)}, like)
    rewriter.replace(like.outputs[0], new[0])
