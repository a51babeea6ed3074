"""Elementwise nodes, alone or fused, to region programs (see _kernels/isa/region.c)."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rlx import dtypes
from rlx.errors import LoweringError
from rlx.ir.graph import Graph, Node, Value
from rlx.lower.context import Context, lowering, nbytes_of, shape_of, size_of
from rlx.lower.program import Arg, AttrItem, EwRef
from rlx.records import record

FULL, SCALAR, PERIODIC, STRIDED, TEMP, OUT = range(6)
L1_BUDGET = 24 * 1024
MAX_REGS = 64
# Nanoseconds an element: a function, beside which what the processor fetches by itself is enough.
FUNCTION = 0.5

# Ops whose micro-kernel has another name or operand than <op>.<dtype of a>.
_LOGICAL = {"logical_and": "and.bool", "logical_or": "or.bool", "logical_xor": "xor.bool",
            "logical_not": "not.bool"}
# Two of these in a row are one step: _kernels/isa/ew_pairs.c.
_PAIRED = ("add", "sub", "mul")
# So are these f32 functions with the sum or product before and after them: _kernels/isa/ew_around.c.
_FUNCTIONS = ("exp", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh")
_AROUND = ("add", "mul")
_STEPS = frozenset({*_PAIRED, *_FUNCTIONS})
# Types of codes that a quantisation in one step gives: _kernels/isa/ew_quantise.c.
_CODES = ("i8", "u8", "i16", "u16")
# On integers these change nothing.
INTEGER_IDENTITY = {"floor", "ceil", "round", "trunc"}


def micro_kernel(node: Node) -> str:
    """Name of the micro-kernel of an elementwise node."""
    first = node.inputs[0]
    assert first is not None
    name = node.op.name
    if name == "where":
        return f"where.b{node.outputs[0].dtype.itemsize}"
    if name == "cast":
        return f"cast_{node.attrs['dtype'].name}.{first.dtype.name}"
    return _LOGICAL.get(name) or f"{name}.{first.dtype.name}"


def parameters(node: Node) -> list[float]:
    """The `p` doubles of an elementwise node: its attributes in order."""
    return [float(v) for v in node.attrs.values() if isinstance(v, (int, float))]


def weight_of_op(name: str) -> float:
    """Rough nanoseconds per element of a micro-kernel, for the cost estimate."""
    cheap = ("add", "sub", "mul", "max", "min", "neg", "abs", "relu", "leaky", "where", "cast", "clip", "logical",
             "bit", "square", "sqrt", "recip", "div", "floor", "round")
    return 0.06 if name.startswith(cheap) or name in ("eq", "ne", "lt", "le", "gt", "ge") else FUNCTION


@record(eq=False)
class _Reg:
    kind: int
    itemsize: int
    arg: int = 0
    block: int = 0
    extra: int = 0

    def __init__(self, kind: int, itemsize: int, arg: int = 0, block: int = 0, extra: int = 0) -> None:
        self.kind = kind
        self.itemsize = itemsize
        self.arg = arg
        self.block = block
        self.extra = extra


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Element strides with which a contiguous array of `shape` is read in `target` order."""
    strides = [0] * len(target)
    step = 1
    offset = len(target) - len(shape)
    for i in range(len(shape) - 1, -1, -1):
        if shape[i] != 1:
            strides[i + offset] = step
            step *= shape[i]
    return tuple(strides)


def coalesce(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring axes that every operand walks as one."""
    dims: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, d in enumerate(shape):
        if d == 1:
            continue
        if dims and all(m[-1] == s[axis] * d for m, s in zip(merged, strides, strict=True)):
            dims[-1] *= d
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[axis]
        else:
            dims.append(d)
            for m, s in zip(merged, strides, strict=True):
                m.append(s[axis])
    if not dims:
        return [1], [[0] for _ in strides]
    return dims, merged


def classify(shape: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
    """(kind, period) of an input of `shape` in a region of `target` shape."""
    total = math.prod(target)
    size = math.prod(shape)
    trimmed = list(shape)
    while trimmed and trimmed[0] == 1:
        trimmed.pop(0)
    if size == total and total > 0:
        return FULL, 0
    if size == 1:
        return SCALAR, 0
    if not trimmed or tuple(trimmed) == tuple(target[len(target) - len(trimmed) :]):
        return PERIODIC, size
    return STRIDED, 0


def lower_region(
    ctx: Context, nodes: Sequence[Node], inputs: Sequence[Value], outer: Sequence[Value],
    results: Sequence[Value], outer_results: Sequence[Value],
) -> None:
    """Emit one call for elementwise `nodes`.

    Parameters
    ----------
    nodes : in topological order; operands are `inputs`, results of other nodes,
        or constants.
    inputs, outer : values as the nodes see them, and as the context knows them.
    results, outer_results : likewise for what leaves the region; all of one shape.
    """
    target = shape_of(outer_results[0])
    total = math.prod(target)
    if total == 0:
        for seen in outer_results:
            ctx.result(seen)
        return
    if len(nodes) == 1 and len(results) == 1 and _lower_direct(ctx, nodes[0], inputs, outer, outer_results[0], total):
        return
    regs: list[_Reg] = []
    at: dict[Value, int] = {}
    args: list[Arg | None] = []
    period = 1
    strided: list[int] = []
    for value, seen in zip(inputs, outer, strict=True):
        kind, size = classify(shape_of(seen), target)
        if kind == PERIODIC and (size > 2048 or period * size // math.gcd(period, size) > 2048):
            kind = STRIDED
        if kind == PERIODIC:
            period = period * size // math.gcd(period, size)
        reg = _Reg(kind, value.dtype.itemsize, len(args), extra=size)
        if kind == STRIDED:
            strided.append(len(regs))
        at[value] = len(regs)
        regs.append(reg)
        args.append(ctx.read(seen))
    n_inputs = len(args)
    for value, seen in zip(results, outer_results, strict=True):
        at[value] = len(regs)
        regs.append(_Reg(OUT, value.dtype.itemsize, len(args)))
        args.append(ctx.write(seen))
    steps, params = _steps(nodes, at, regs, results)
    if len(regs) > MAX_REGS:
        raise LoweringError(f"region: registers must be at most {MAX_REGS}, got {len(regs)}")
    # Block size: what is laid out or kept per block shall stay in L1, and what is fetched ahead for the next
    # one while this one is worked on shall find room on its way (2048: up to 25 % slower, 256: 20 %).
    per_item = sum(r.itemsize for r in regs)
    block = max(128, min(768, L1_BUDGET // max(1, per_item) // 64 * 64))
    if period > 1:
        block = max(period, block // period * period)
    lanes = min(block, max(total, 1))
    work = 0
    for reg in regs:
        if reg.kind in (SCALAR, PERIODIC, STRIDED, TEMP):
            reg.block = work
            if reg.kind == TEMP:
                reg.arg = work
            work += -(-lanes * reg.itemsize // 64) * 64
    dims: list[int] = list(target) or [1]
    strides: list[int] = []
    if strided:
        each = [broadcast_strides(shape_of(outer[i]), target) for i in strided]
        dims, merged = coalesce(target, each)
        for i, m in zip(strided, merged, strict=True):
            regs[i].extra = len(strides)
            strides += m
    if len(dims) > 32 and strided:
        raise LoweringError(f"region: at most 32 axes of more than one index can be walked, got {len(dims)}")
    words: list[AttrItem] = []
    weights = [weight_of_op(n.op.name) for n in nodes]
    weight, waits = sum(weights), max(weights) < FUNCTION
    for reg in regs:
        words += [reg.kind, reg.itemsize, reg.arg, reg.block, reg.extra, int(waits and reg.kind in (FULL, OUT))]
    if work:
        args.append(ctx.work(work))
        work = -(-work // 64) * 64
    blocks = -(-total // block) if total else 0
    cost = total * weight + 15 * len(nodes)
    ctx.call(
        "region.ew", args,
        {"total": total, "block": block, "work": work, "n_regs": len(regs), "regs": words, "steps": steps,
         "dims": dims, "strides": strides, "params": params},
        extent=blocks, grain=max(1, 1024 // block), cost=cost,
        inplace=_inplace(regs, steps, n_inputs, len(results)),
    )


def _steps(
    nodes: Sequence[Node], at: dict[Value, int], regs: list[_Reg], results: Sequence[Value]
) -> tuple[list[AttrItem], list[AttrItem]]:
    """Steps of the nodes; temporaries are reused after their last reader."""
    last: dict[Value, int] = {}
    leaving = {id(v) for v in results}
    firsts = _joined(nodes, leaving)
    free: dict[int, list[int]] = {}
    steps: list[AttrItem] = []
    params: list[AttrItem] = []
    made = [(node, *_step(node, firsts)) for node in nodes if node.outputs[0] not in firsts]
    for i, (_, _, read) in enumerate(made):
        last |= dict.fromkeys(read, i)
    for i, (node, kernel, read) in enumerate(made):
        out = node.outputs[0]
        operands = [at[v] for v in read]
        for v in {id(v): v for v in read}.values():
            reg = regs[at[v]]
            if last[v] == i and reg.kind == TEMP and id(v) not in leaving:
                free.setdefault(reg.itemsize, []).append(at[v])
        if out not in at:
            pool = free.get(out.dtype.itemsize)
            if pool:
                at[out] = pool.pop()
            else:
                at[out] = len(regs)
                regs.append(_Reg(TEMP, out.dtype.itemsize))
        operands += [-1] * (3 - len(operands))
        steps += [EwRef(kernel), at[out], *operands, len(params)]
        params += parameters(node)
    return steps, params


def _step(node: Node, firsts: Mapping[Value, Node]) -> tuple[str, list[Value]]:
    """Micro-kernel and operands of a node and what runs in one step with it."""
    read = [v for v in node.inputs if v is not None]
    first = next((v for v in read if v in firsts), None)
    if first is None:
        return micro_kernel(node), read
    name, operands = _step(firsts[first], firsts)
    if node.op.name == "cast":
        return f"quantize_{node.outputs[0].dtype.name}.f32", operands
    second = f"r{node.op.name}" if read[0] is not first and node.op.name == "sub" else node.op.name
    return (f"{name.partition('.')[0]}_{second}.{node.outputs[0].dtype.name}",
            [*operands, *(v for v in read if v is not first)])


def _joined(nodes: Sequence[Node], leaving: set[int]) -> dict[Value, Node]:
    """Results that one node alone reads, in one step: two arithmetic nodes, a function and those beside it, and the
    four nodes of a quantisation."""
    reads = Counter(id(v) for n in nodes for v in n.inputs if v is not None)
    inside = set(nodes)
    found: dict[Value, Node] = {}

    def alone(v: Value | None) -> bool:
        return v is not None and reads[id(v)] == 1 and id(v) not in leaving and v.node in inside

    for node in nodes:
        found |= {v: v.node for v in _within_quantisation(node, alone)}
    for node in nodes:
        dtype, name = node.outputs[0].dtype, node.op.name
        if name not in _STEPS or dtype not in (dtypes.f32, dtypes.f64) or node.outputs[0] in found:
            continue
        before = [v for v in node.inputs if v is not None and alone(v)]
        functions = [v for v in before if dtype is dtypes.f32 and v.node.op.name in _FUNCTIONS and name in _AROUND]
        first = _AROUND if name in _FUNCTIONS else _PAIRED
        arithmetic = [v for v in before if v.node.op.name in first and not any(o in found for o in v.node.inputs)
                      and (dtype is dtypes.f32 or name in _PAIRED)]
        for v in [*functions, *arithmetic][:1]:
            found[v] = v.node
    return found


def _within_quantisation(node: Node, alone: Callable[[Value | None], bool]) -> list[Value]:
    """What cast(round(x / scale) + zero) computes on the way: the sum, the rounded quotient and the quotient."""
    if node.op.name != "cast" or node.outputs[0].dtype.name not in _CODES:
        return []
    moved = node.inputs[0]
    if moved is None or not alone(moved) or moved.node.op.name != "add" or moved.dtype != dtypes.f32:
        return []
    for v in moved.node.inputs:
        if v is not None and alone(v) and v.node.op.name == "round":
            quotient = v.node.inputs[0]
            if quotient is not None and alone(quotient) and quotient.node.op.name == "div":
                return [moved, v, quotient]
    return []


def _inplace(regs: list[_Reg], steps: list[AttrItem], n_inputs: int, n_results: int) -> list[tuple[int, int]]:
    """Pairs (result, input) that may share memory: the input's last reader is not after the result's writer."""
    written: dict[AttrItem, int] = {}
    read: dict[AttrItem, int] = {}  # place of the last step that reads a register
    for s in range(0, len(steps), 6):
        written.setdefault(steps[s + 1], s)
        read |= dict.fromkeys(steps[s + 2 : s + 5], s)
    return [(out, i) for out in range(n_inputs, n_inputs + n_results) for i in range(n_inputs)
            if regs[i].kind == FULL and regs[i].itemsize == regs[out].itemsize and read.get(i, -1) <= written[out]]


def _lower_direct(
    ctx: Context, node: Node, inputs: Sequence[Value], outer: Sequence[Value], result: Value, total: int
) -> bool:
    """A single step over operands that all lie in flat order needs no blocks."""
    if any(classify(shape_of(v), shape_of(result))[0] != FULL for v in outer):
        return False
    by_value = dict(zip(inputs, outer, strict=True))
    reads = [by_value[v] for v in node.inputs if v is not None]
    args = [ctx.read(v) for v in reads]
    sizes = [v.dtype.itemsize for v in reads] + [0] * (3 - len(reads)) + [result.dtype.itemsize]
    pairs = [(3, i) for i, v in enumerate(reads) if v.dtype.itemsize == result.dtype.itemsize]
    ctx.call(
        "region.direct", [*args, *([None] * (3 - len(args))), ctx.write(result)],
        {"fn": EwRef(micro_kernel(node)), "sizes": sizes, "params": parameters(node)},
        extent=total, grain=4096, cost=total * weight_of_op(node.op.name) + 10, inplace=pairs,
    )
    return True


@lowering("elementwise")
def lower_elementwise(ctx: Context, node: Node) -> None:
    """One elementwise node."""
    out = node.outputs[0]
    first = node.inputs[0]
    assert first is not None
    same = node.op.name == "cast" and first.dtype == out.dtype and not node.attrs["saturate"]
    if ctx.is_weight(out):
        return  # done when the weight is set
    if same or (node.op.name in INTEGER_IDENTITY and first.dtype.is_int):
        ctx.alias(out, ctx.operand(first))
        return
    values = list({id(v): v for v in node.inputs if v is not None}.values())
    lower_region(ctx, [node], values, values, [out], [out])


@lowering("region")
def lower_region_node(ctx: Context, node: Node) -> None:
    """A fused region: its body's inputs are the node's operands in order."""
    body: Graph = node.attrs["body"]
    outer = [v for v in node.inputs if v is not None]
    nodes = [n for n in body.nodes if not n.op.has("leaf")]
    lower_region(ctx, nodes, body.inputs, outer, list(body.outputs.values()), list(node.outputs))


__all__ = ["broadcast_strides", "classify", "coalesce", "lower_region", "nbytes_of", "size_of"]
