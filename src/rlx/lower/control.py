"""Control flow to control thunks: bodies become programs with a table of addresses of their own.

The table of a body is laid out like that of any program (scratch, inputs,
outputs, weights); the attributes say, slot by slot, where each comes from.
"""


from rlx.ir.graph import Graph, Node, Value
from rlx.lower import memory
from rlx.lower.context import Context, lowering, nbytes_of, shape_of
from rlx.lower.program import Arg, AttrItem, BodyRef, Program
from rlx.records import replace

FIXED, CARRIED_IN, CARRIED_OUT, X, Y, COUNTER, GO_ON = range(7)


def compile_body(ctx: Context, body: Graph, path: str) -> Program:
    """Optimise, lower and plan a body; its nodes are appended to the outer program's."""
    inner = Context(ctx.optimise(body), ctx.max_threads, ctx.has_kernel, ctx.isa, ctx.optimise, f"{ctx.path}/{path}")
    program = inner.lower()
    memory.plan(program)
    memory.check(program)
    start = len(ctx.nodes)
    ctx.nodes += program.nodes
    program.calls = [replace(c, node=c.node + start) for c in program.calls]
    return program


class _Args:
    """Arguments of a control call, each found again by its index."""

    def __init__(self) -> None:
        self.items: list[Arg | None] = []

    def add(self, arg: Arg | None) -> int:
        self.items.append(arg)
        return len(self.items) - 1


def _fixed_slots(ctx: Context, args: _Args, program: Program, scratch: int) -> tuple[int, list[int]]:
    """(argument of the scratch, arguments of the weights)."""
    weights = [args.add(Arg("r", ctx.adopt(w), w.nbytes)) for w in program.weights]
    return scratch, weights


@lowering("cond")
def lower_cond(ctx: Context, node: Node) -> None:
    """Both branches share one scratch and one table."""
    programs = [compile_body(ctx, node.attrs[k], f"{node.name}.{k}") for k in ("then", "orelse")]
    args = _Args()
    pred = node.inputs[0]
    assert pred is not None
    args.add(ctx.read(pred))
    size = 8 * max(p.n_slots for p in programs)
    args.add(Arg("x", ctx.temp(size, "table"), size))
    arena = max(64, *(p.arena_bytes for p in programs))
    scratch = args.add(Arg("x", ctx.temp(arena, "body"), arena))
    ins = [args.add(ctx.maybe(v)) for v in node.inputs[1:]]
    outs = [args.add(ctx.write(v)) for v in node.outputs]
    slots = []
    for program in programs:
        _, weights = _fixed_slots(ctx, args, program, scratch)
        slots.append([scratch, *ins, *outs, *weights])
    cost = max(sum(c.cost for c in p.calls) for p in programs)
    ctx.call("control.if", args.items,
             {"then_plan": BodyRef(programs[0]), "else_plan": BodyRef(programs[1]),
              "then_slots": slots[0], "else_slots": slots[1]}, extent=1, cost=cost)


def _loop_call(
    ctx: Context, node: Node, *, trips: Value | None, start: Value | None, bound: int, carried: list[Value],
    xs: list[Value], captures: list[Value], results: list[Value], rows: list[Value], count: Value | None,
    counts: bool, reverse: bool,
) -> None:
    program = compile_body(ctx, node.attrs["body"], node.name)
    args = _Args()
    args.add(ctx.maybe(trips))
    args.add(ctx.maybe(start))
    table = 8 * program.n_slots
    args.add(Arg("x", ctx.temp(table, "table"), table))
    args.add(Arg("x", ctx.temp(64 + 16 * max(1, len(carried)), "locals"), 64 + 16 * max(1, len(carried))))
    args.add(None if count is None else ctx.write(count))
    arena = max(64, program.arena_bytes)
    scratch = args.add(Arg("x", ctx.temp(arena, "body"), arena))
    slots: list[AttrItem] = [FIXED, scratch, 0]
    pairs: list[AttrItem] = []
    if counts:
        slots += [COUNTER, 0, 0]
    for i, (v, r) in enumerate(zip(carried, results, strict=True)):
        n = nbytes_of(v)
        pairs += [args.add(ctx.read(v)), args.add(ctx.write(r)), args.add(Arg("x", ctx.temp(n, "carried"), n)), n]
        slots += [CARRIED_IN, i, 0]
    for v in xs:
        shape = shape_of(v)
        step = nbytes_of(v) // shape[0] if shape[0] else 0
        slots += [X, args.add(ctx.read(v)), step]
    for v in captures:
        slots += [FIXED, args.add(ctx.read(v)), 0]
    if counts:
        slots += [GO_ON, 0, 0]
    for i in range(len(carried)):
        slots += [CARRIED_OUT, i, 0]
    for v in rows:
        arg = ctx.write(v)
        slots += [Y, args.add(arg), nbytes_of(v) // bound if bound else 0]
    _, weights = _fixed_slots(ctx, args, program, scratch)
    for w in weights:
        slots += [FIXED, w, 0]
    row_args = [slots[i + 1] for i in range(0, len(slots), 3) if slots[i] == Y]
    fills: list[AttrItem] = []
    for v, a in zip(rows, row_args, strict=True):
        fills += [a, nbytes_of(v)]
    cost = sum(c.cost for c in program.calls) * (bound if bound < 2**31 else 16) + 50
    ctx.call("control.loop", args.items,
             {"plan": BodyRef(program), "bound": bound, "counts": int(counts), "reverse": int(reverse), "slots": slots,
              "carried": pairs, "rows": fills}, extent=1, cost=cost)


@lowering("loop")
def lower_loop(ctx: Context, node: Node) -> None:
    """A loop with a condition, carried values and stacked rows."""
    n = node.attrs["n_carried"]
    values = [v for v in node.inputs[2:] if v is not None]
    bound = node.attrs["bound"]
    _loop_call(
        ctx, node, trips=node.inputs[0], start=node.inputs[1], bound=2**62 if bound is None else bound,
        carried=values[:n], xs=[], captures=values[n:], results=list(node.outputs[:n]),
        rows=list(node.outputs[n:-1]), count=node.outputs[-1], counts=True, reverse=False,
    )


@lowering("scan")
def lower_scan(ctx: Context, node: Node) -> None:
    """A loop over the first axis of the scanned values."""
    n, m = node.attrs["n_carried"], node.attrs["n_xs"]
    values = [v for v in node.inputs if v is not None]
    length = values[n].shape[0] if m else node.attrs["length"]
    _loop_call(
        ctx, node, trips=None, start=None, bound=int(length), carried=values[:n], xs=values[n : n + m],
        captures=values[n + m :], results=list(node.outputs[:n]), rows=list(node.outputs[n:]), count=None,
        counts=False, reverse=node.attrs["reverse"],
    )
