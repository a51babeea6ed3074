"""If, Loop, Scan: decided while importing, emitted as control ops, or run by the host.

A predicate or trip count that is known while importing (it depends on the file, on
shapes, or on a small input, whose value then belongs to the key of the plan) is
resolved. Bodies that keep their types become bodies of the IR's own control ops.
Everything else, such as state that grows or sequences, is a loop on the host that
calls the body as a model of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import ops
from rlx.errors import FormatError, GraphError, UnsupportedOpError
from rlx.ir.graph import Value
from rlx.ir.types import TensorType
from rlx.onnx.block import Block
from rlx.onnx.context import NodeContext, dim
from rlx.onnx.registry import onnx_op
from rlx.onnx.scope import NotStaticError, Scope
from rlx.onnx.steps import Slot, is_tensor
from rlx.onnx.tracing import TraceGraph
from rlx.records import replace

# A loop with a known trip count is unrolled up to this many nodes.
UNROLL_NODES = 256
UNROLL_TRIPS = 16

I64_SCALAR = TensorType(ops.TABLE["loop"].dtypes[0], ())


def _truth(value: Any) -> bool:
    array = np.asarray(value)
    if array.size != 1:
        raise FormatError(f"a condition must be one bool, got shape {array.shape}")
    return bool(array.reshape(-1)[0])


@onnx_op("If")
def _if(n: NodeContext) -> Any:
    then, orelse = n.block("then_branch"), n.block("else_branch")
    known = n.peek(0)
    if known is None:
        found = _cond(n, then, orelse)
        if found is not None:
            return found
        known = n.const(0)
    return tuple(n.tracer.inline(then if _truth(known) else orelse, n.scope))


def _cond(n: NodeContext, then: Block, orelse: Block) -> Any:
    """Both branches as bodies of `cond`, None when they do not fit."""
    captures: dict[Any, Any] = {}
    try:
        bodies = [n.tracer.subgraph(b, n.scope, {}, captures) for b in (then, orelse)]
        types = [[v.type for v in b.outputs.values()] for b in bodies]
        if types[0] != types[1] or not types[0]:
            return None
        pred = n.x(0)
        if pred.type.size != 1:
            return None
        operands = _complete(n, bodies, captures)
        results = ops.cond(ops.reshape(pred, shape=()), *operands, then=bodies[0], orelse=bodies[1])
    except (NotStaticError, GraphError):
        return None
    return results if isinstance(results, tuple) else (results,)


def _complete(n: NodeContext, bodies: Sequence[TraceGraph], captures: dict[Any, Any], skip: int = 0) -> list[Value]:
    """Give every body an input for every capture, in one order; the captured values."""
    for body in bodies:
        own = body.inputs[:skip]
        by_key = body.capture_inputs
        for key, item in captures.items():
            if key not in by_key:
                kind = item.type
                by_key[key] = body.input(body.unique_name("capture"), kind.shape, kind.dtype)
        body.inputs[:] = [*own, *(by_key[key] for key in captures)]
    return [n.tracer.value(item) for item in captures.values()]


def _unrolled(
    n: NodeContext, body: Block, scope: Scope, trips: int, state: list[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """Emit the body `trips` times. The state lives in a scope, so that cuts may happen."""
    rows: list[list[Any]] = []
    holder = Scope(None, {f"s{i}": v for i, v in enumerate(state)})
    n.tracer.scopes.append(holder)
    k = len(state)
    for t in range(trips):
        items = dict(zip(body.inputs[2 : 2 + k], (holder.items[f"s{i}"] for i in range(k)), strict=True))
        items[body.inputs[0]] = np.asarray(t, np.int64)
        items[body.inputs[1]] = np.asarray(True)
        outs = n.tracer.inline(body, scope, items)
        for i in range(k):
            holder.items[f"s{i}"] = outs[1 + i]
        for i, row in enumerate(outs[1 + k :]):
            holder.items[f"r{t}.{i}"] = row
    n.tracer.scopes.pop()
    count = len(body.outputs) - 1 - k
    rows = [[holder.items[f"r{t}.{i}"] for t in range(trips)] for i in range(count)]
    return [holder.items[f"s{i}"] for i in range(k)], rows


def _always_on(body: Block) -> bool:
    """Whether the body's condition is plainly its own condition input, or a constant true."""
    name = _source(body, body.outputs[0]) if body.outputs else ""
    by_output = {o: node for node in body.nodes for o in node.outputs}
    if len(body.inputs) > 1 and name == body.inputs[1]:
        return True
    if name in body.initialisers:
        return bool(np.all(body.initialisers[name]))
    node = by_output.get(name)
    value = node.attrs.get("value") if node is not None and node.op == "Constant" else None
    return isinstance(value, np.ndarray) and bool(np.all(value))


def stack_rows(n: NodeContext, rows: list[Any]) -> Any:
    """Rows of a scan output along a new first axis."""
    if all(isinstance(r, np.ndarray) for r in rows):
        return np.stack(rows)
    values = [n.tracer.value(r) for r in rows]
    return ops.concat(*(ops.unsqueeze(v, axes=(0,)) for v in values), axis=0)


def _source(body: Block, name: str) -> str:
    """Where a value of the body comes from, through Identity."""
    by_output = {o: node for node in body.nodes for o in node.outputs if o}
    while name in by_output and by_output[name].op == "Identity":
        name = by_output[name].inputs[0]
    return name


def _without_invariants(n: NodeContext, body: Block, items: list[Any]) -> tuple[Block, Scope, list[int]]:
    """The body with state that it hands on unchanged as captured values, a scope for these, and what is left."""
    k = len(items)
    fixed = [i for i in range(k) if _source(body, body.outputs[1 + i]) == body.inputs[2 + i]]
    scope = Scope(n.scope, {body.inputs[2 + i]: items[i] for i in fixed})
    left = [i for i in range(k) if i not in fixed]
    smaller = replace(
        body,
        inputs=(*body.inputs[:2], *(body.inputs[2 + i] for i in left)),
        outputs=(body.outputs[0], *(body.outputs[1 + i] for i in left), *body.outputs[1 + k :]),
        captures=body.captures | {body.inputs[2 + i] for i in fixed},
        declared=(*body.declared[:1], *(body.declared[1 + i] for i in left), *body.declared[1 + k :]),
    )
    return smaller, scope, left


@onnx_op("Loop")
def _loop(n: NodeContext) -> Any:
    body = n.block("body")
    k = n.n_inputs - 2
    if len(body.inputs) != k + 2 or len(body.outputs) < k + 1:
        raise FormatError(
            f"the body must have {k + 2} inputs and at least {k + 1} outputs, "
            f"got {len(body.inputs)} and {len(body.outputs)}"
        )
    items = [n.item(2 + i) for i in range(k)]
    body, scope, left = _without_invariants(n, body, items)
    n.tracer.scopes.append(scope)
    results = _run_loop(n, body, scope, [items[i] for i in left])
    n.tracer.scopes.pop()
    state: list[Any] = list(items)
    for i, result in zip(left, results, strict=False):
        state[i] = result
    fixed = [i for i in range(k) if i not in left]
    for i in fixed:  # a cut may have moved them
        state[i] = scope.items[n.block("body").inputs[2 + i]]
    return (*state, *results[len(left) :])


def _run_loop(n: NodeContext, body: Block, scope: Scope, state: list[Any]) -> list[Any]:
    stacked = len(body.outputs) - 1 - len(state)
    trips = n.item(0) if n.has(0) else None
    go = n.item(1) if n.has(1) else np.asarray(True)
    known = trips is not None and (n.tracer.is_constant(trips) or stacked > 0)
    count = n.tracer.peek(trips) if known else None
    on = _truth(n.tracer.peek(go)) if n.tracer.is_constant(go) else None
    number = 0 if on is False else int(np.asarray(count).reshape(-1)[0]) if count is not None else None
    if (
        on
        and number is not None
        and 0 < number <= UNROLL_TRIPS
        and number * _size(body) <= UNROLL_NODES
        and _always_on(body)
    ):
        state, rows = _unrolled(n, body, scope, number, state)
        return [*state, *(stack_rows(n, r) for r in rows)]
    found = _ir_loop(n, body, scope, state, number, on is True)
    return _host_loop(n, body, scope, state) if found is None else found


def _size(body: Block) -> int:
    return sum(1 + sum(map(_size, node.blocks)) for node in body.nodes)


def _tensor_type(n: NodeContext, item: Any) -> TensorType | None:
    if isinstance(item, Value):
        return item.type
    if isinstance(item, Slot):
        return item.type
    if isinstance(item, np.ndarray) and is_tensor(item):
        return n.tracer.value(item).type
    return None


def _ir_loop(n: NodeContext, body: Block, scope: Scope, state: list[Any], count: int | None, on: bool) -> Any:
    """The loop as an op of the IR, None when the body does not fit."""
    types = [_tensor_type(n, item) for item in state]
    k = len(state)
    if any(t is None for t in types) or count == 0:
        return None
    stacked = len(body.outputs) - 1 - k
    formal = {body.inputs[0]: I64_SCALAR, **dict(zip(body.inputs[2:], types, strict=True))}
    captures: dict[Any, Any] = {}
    try:
        inner = n.tracer.subgraph(body, scope, formal, captures, {body.inputs[1]: np.asarray(True)})
        outs = list(inner.outputs.values())
        certain = outs[0].array is not None and bool(outs[0].array.all()) and on
        if stacked and not (certain and count is not None and count < 1 << 24):
            return None
        operands = _complete(n, [inner], captures, skip=1 + k)
        trips = n.constant(np.int64(count)) if count is not None else None
        if count is None and n.has(0):
            trips = ops.reshape(n.x(0), shape=())
        start = ops.reshape(n.x(1), shape=()) if n.has(1) and not on else None
        if trips is None and start is None:
            start = n.constant(np.asarray(True))
        results = ops.loop(
            trips,
            start,
            *(n.tracer.value(item) for item in state),
            *operands,
            body=inner,
            n_carried=k,
            bound=count if stacked else None,
            graph=n.tracer.graph,
        )
    except (NotStaticError, GraphError):
        return None
    return list(results[:-1]) if isinstance(results, tuple) else []


def _body_core(n: NodeContext, body: Block, scope: Scope) -> tuple[Any, list[Any]]:
    """The body as a model of its own, and the captured run-time items that it takes after its inputs."""
    from rlx.onnx.core import Core

    constants: dict[str, Any] = {}
    names: list[str] = []
    items: list[Any] = []
    for name in sorted(body.captures):
        found = scope.find(name)
        if found is None:
            raise FormatError(f"the body reads {name!r}, which is not defined")
        item = found[name]
        if n.tracer.is_constant(item) and not isinstance(item, list):
            constants[name] = n.tracer.peek(item)
        else:
            names.append(name)
            items.append(item)
    core = Core(n.tracer.model, body, [*body.inputs, *names], Scope(None, constants), n.tracer.frames,
                rng=n.tracer.core.rng)
    return core, items


def _host_loop(n: NodeContext, body: Block, scope: Scope, state: list[Any]) -> list[Any]:
    core, captured = _body_core(n, body, scope)
    k = len(state)

    def run(trips: Any, go: Any, *rest: Any) -> Any:
        held, outer = list(rest[:k]), rest[k:]
        limit = 1 << 62 if trips is None else int(np.asarray(trips).reshape(-1)[0])
        on = True if go is None else _truth(go)
        rows: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - k)]
        i = 0
        while on and i < limit:
            outs = core.run([np.asarray(i, np.int64), np.asarray(True), *held, *outer])
            on = _truth(outs[0])
            held = outs[1 : 1 + k]
            for row, value in zip(rows, outs[1 + k :], strict=True):
                row.append(value)
            i += 1
        stacks = [np.stack(r) if r else body.empty_stack(1 + k + j) for j, r in enumerate(rows)]
        return (*held, *stacks)

    results = n.host(run, [n.item(0), n.item(1), *state, *captured])
    return list(results) if isinstance(results, tuple) else [results]


# -- Scan --------------------------------------------------------------------------------


@onnx_op("Scan", since=9)
def _scan(n: NodeContext) -> Any:
    body = n.block("body")
    n_xs = n.int("num_scan_inputs")
    k = n.n_inputs - n_xs
    axes = n.ints("scan_input_axes", None) or [0] * n_xs
    directions = n.ints("scan_input_directions", None) or [0] * n_xs
    n_out = len(body.outputs) - k
    out_axes = n.ints("scan_output_axes", None) or [0] * n_out
    out_directions = n.ints("scan_output_directions", None) or [0] * n_out
    if k < 0 or len(body.inputs) != n.n_inputs or n_xs < 1 or n_out < 0:
        raise FormatError(f"the body must have {n.n_inputs} inputs, got {len(body.inputs)}")
    xs = []
    for i in range(n_xs):
        x = _first_axis(n.x(k + i), axes[i])
        xs.append(ops.flip(x, axes=(0,)) if directions[i] else x)
    results = _run_scan(n, body, [n.x(i) for i in range(k)], xs)
    final = list(results[:k])
    for i, y in enumerate(results[k:]):
        y = ops.flip(y, axes=(0,)) if out_directions[i] else y
        axis = out_axes[i] + y.rank if out_axes[i] < 0 else out_axes[i]
        final.append(ops.transpose(y, perm=(*range(1, axis + 1), 0, *range(axis + 1, y.rank))) if axis else y)
    return tuple(final)


def _first_axis(x: Value, axis: int) -> Any:
    axis = axis + x.rank if axis < 0 else axis
    return ops.transpose(x, perm=(axis, *(i for i in range(x.rank) if i != axis))) if axis else x


def _run_scan(n: NodeContext, body: Block, state: list[Value], xs: list[Value]) -> list[Any]:
    """Scan over the first axis of xs; results of the state, then stacked rows."""
    k = len(state)
    types = [v.type for v in state] + [v.type.with_shape(v.shape[1:]) for v in xs]
    captures: dict[Any, Any] = {}
    try:
        inner = n.tracer.subgraph(body, n.scope, dict(zip(body.inputs, types, strict=True)), captures)
        operands = _complete(n, [inner], captures, skip=len(types))
        results = ops.scan(*state, *xs, *operands, body=inner, n_carried=k, n_xs=len(xs))
        return list(results) if isinstance(results, tuple) else [results]
    except (NotStaticError, GraphError):
        pass
    core, captured = _body_core(n, body, n.scope)

    def run(*values: Any) -> Any:
        held, rows_in, outer = list(values[:k]), values[k : k + len(xs)], values[k + len(xs) :]
        rows: list[list[Any]] = [[] for _ in range(len(body.outputs) - k)]
        for t in range(rows_in[0].shape[0]):
            outs = core.run([*held, *(np.ascontiguousarray(x[t]) for x in rows_in), *outer])
            held = outs[:k]
            for row, value in zip(rows, outs[k:], strict=True):
                row.append(value)
        return (*held, *(np.stack(r) if r else body.empty_stack(k + j) for j, r in enumerate(rows)))

    results = n.host(run, [*state, *xs, *captured])
    made = results if isinstance(results, tuple) else (results,)
    return [n.tracer.value(r) for r in made]


@onnx_op("Scan", since=1)
def _scan_8(n: NodeContext) -> Any:
    body = n.block("body")
    n_xs = n.int("num_scan_inputs")
    k = n.n_inputs - 1 - n_xs
    directions = n.ints("directions", None) or [0] * n_xs
    if n.has(0):
        raise UnsupportedOpError(f"{n.node.place}: Scan of opset 8 with sequence lengths cannot be imported")
    state = [n.x(1 + i) for i in range(k)]
    xs = [n.x(1 + k + i) for i in range(n_xs)]
    batch = dim(xs[0], 0)
    parts: list[list[Any]] = []
    for b in range(batch):

        def pick(v: Value, at: int = b) -> Any:
            return ops.reshape(ops.slice(v, starts=(at,), stops=(at + 1,), axes=(0,)), shape=v.shape[1:])

        rows = [pick(x) for x in xs]
        rows = [ops.flip(x, axes=(0,)) if d else x for x, d in zip(rows, directions, strict=True)]
        parts.append(_run_scan(n, body, [pick(s) for s in state], rows))
    return tuple(stack_rows(n, [p[i] for p in parts]) for i in range(len(parts[0])))
