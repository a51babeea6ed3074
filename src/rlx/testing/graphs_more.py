"""More steps of random graphs: convolutions, pools, order, scattering, recurrence, attention, control flow."""

from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.ir.graph import Graph, Value
from rlx.testing.graphs import MAKERS, Drawn, Maker, Step, _pick, fixed


def _full(d: Drawn) -> bool:
    return d.value.rank >= 1 and 0 not in d.value.shape


def _wide_float(d: Drawn) -> bool:
    return d.value.dtype in (dtypes.f32, dtypes.f64)



def _conv(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _wide_float(d) and d.value.rank == 3 and 0 not in d.value.shape)
    if x is None:
        return None
    rng = np.random.default_rng(step[2])
    _, c, n = fixed(x)
    taps = int(rng.integers(1, min(n, 3) + 1))
    groups = c if step[3] % 3 == 0 else 1
    filters = groups * int(rng.integers(1, 5))
    w = graph.constant(rng.uniform(-1, 1, (filters, c // groups, taps)), dtype=x.value.dtype)
    b = graph.constant(rng.uniform(-1, 1, filters), dtype=x.value.dtype) if step[3] % 2 else None
    pads = (int(rng.integers(0, taps)), int(rng.integers(0, taps)))
    stride = int(rng.integers(1, 3))
    y = ops.conv(ops.tanh(x.value), w, b, strides=(stride,), pads=pads, groups=groups)
    return Drawn(ops.relu(y) if step[3] % 5 == 0 else y, False)


def _pool(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _wide_float(d) and d.value.rank == 3 and 0 not in d.value.shape)
    if x is None:
        return None
    k = 1 + step[2] % min(3, fixed(x)[2])
    stride = 1 + step[3] % 2
    if step[3] % 3:
        return Drawn(ops.max_pool(x.value, kernel=(k,), strides=(stride,)), x.exact)
    return Drawn(ops.avg_pool(x.value, kernel=(k,), strides=(stride,), pads=(k // 2, 0)), False)


def _pad(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1 and 0 not in d.value.shape and d.value.dtype.kind in "fi")
    if x is None:
        return None
    mode: Any = ("constant", "edge", "constant")[step[3] % 3]
    rng = np.random.default_rng(step[2])
    before, after = rng.integers(0, 3, (2, x.value.rank)).tolist()
    return Drawn(ops.pad(x.value, before=before, after=after, mode=mode), x.exact)


def _scatter(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1 and 0 not in d.value.shape)
    if x is None:
        return None
    n = fixed(x)[0]
    at = np.random.default_rng(step[2]).integers(-n, n, (min(n, 3), 1))
    updates = ops.gather(x.value, graph.constant(at[:, 0]), axis=0)
    if step[3] % 2 and x.value.dtype.is_int:
        return Drawn(ops.scatter_nd(x.value, graph.constant(at % n), updates, reduction="add"), x.exact)
    return Drawn(ops.scatter_nd(x.value, graph.constant(at % n), updates), x.exact)


def _ordered(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.exact and _full(d) and d.value.dtype.kind in "fi")
    if x is None:
        return None
    axis = step[2] % x.value.rank
    k = 1 + step[3] % fixed(x)[axis]
    makers = (
        lambda v: ops.sort(v, axis=axis, descending=bool(step[3] % 2)),
        lambda v: ops.argsort(v, axis=axis),
        lambda v: ops.topk(v, k=k, axis=axis)[0],
        lambda v: ops.topk(v, k=k, axis=axis, largest=False)[1],
        lambda v: ops.argmax(v, axis=axis),
        lambda v: ops.cummax(v, axis=axis),
    )
    return Drawn(makers[(step[2] + step[3]) % len(makers)](x.value), True)


def _cumulative(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1 and d.value.dtype.kind in "fi")
    if x is None:
        return None
    v = ops.tanh(x.value) if x.value.dtype.is_float else x.value
    how: dict[str, Any] = {"exclusive": bool(step[3] & 1), "reverse": bool(step[3] & 2)}
    return Drawn(ops.cumsum(v, axis=step[2] % x.value.rank, **how), x.exact and x.value.dtype.is_int)


def _moved(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1 and 0 not in d.value.shape)
    if x is None:
        return None
    axis = step[2] % x.value.rank
    n = fixed(x)[axis]
    cut = step[3] % n
    low = tuple([slice(None)] * axis + [slice(0, cut)])
    high = tuple([slice(None)] * axis + [slice(cut, None)])
    makers = (
        lambda v: ops.concat(v[high], v[low], axis=axis),
        lambda v: ops.flip(v, axes=(axis,)),
        lambda v: ops.roll(v, shifts=(step[3],), axes=(axis,)),
        lambda v: ops.tile(v, reps=[2 if i == axis else 1 for i in range(v.rank)]),
        lambda v: ops.expand(ops.reshape(v, shape=(1, *v.shape)), shape=(3, *v.shape)),
        lambda v: ops.concat(v, v[low], v, axis=axis),
    )
    return Drawn(makers[(step[2] + step[3]) % len(makers)](x.value), x.exact)


def _norm(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _wide_float(d) and d.value.rank == 3 and 0 not in d.value.shape)
    if x is None:
        return None
    c = fixed(x)[1]
    gamma = graph.constant(np.linspace(0.5, 1.5, c), dtype=x.value.dtype)
    makers = (
        lambda v: ops.instance_norm(v, gamma, None, eps=0.1),
        lambda v: ops.group_norm(v, gamma, gamma, num_groups=c, eps=0.1),
        lambda v: ops.rms_norm(v, None, eps=0.1),
        lambda v: ops.batch_norm(v, gamma, gamma, gamma, gamma, eps=0.1),
    )
    return Drawn(makers[step[2] % 4](x.value), False)


def _attention(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _wide_float(d) and d.value.rank == 3 and 0 not in d.value.shape)
    if x is None:
        return None
    n = fixed(x)[2]
    heads = next(h for h in (4, 3, 2, 1) if n % h == 0)
    q, k = ops.tanh(x.value), ops.sigmoid(x.value)
    how: dict[str, Any] = {"causal": bool(step[2] % 2), "softcap": 2.0 if step[3] % 3 == 0 else 0.0}
    return Drawn(ops.attention(q, k, k, num_heads=heads, num_kv_heads=heads, **how), False)


def _recurrent(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _wide_float(d) and d.value.rank == 3 and 0 not in d.value.shape)
    if x is None:
        return None
    rng, n, h = np.random.default_rng(step[2]), fixed(x)[2], 1 + step[3] % 5
    gates, op = ((4, ops.lstm), (3, ops.gru))[step[2] % 2]
    w, r = (graph.constant(rng.uniform(-1, 1, (1, gates * h, m)), dtype=x.value.dtype) for m in (n, h))
    y = op(ops.tanh(x.value), w, r, direction=("forward", "reverse")[step[3] % 2])[0]
    return Drawn(ops.reshape(y, shape=(y.shape[0], y.shape[2], y.shape[3])), False)


def _cond(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.kind in "fi" and 0 not in d.value.shape)
    c = _pick(pool, step[2], lambda d: d.value.dtype.kind == "b" and 0 not in d.value.shape)
    if x is None or c is None:
        return None
    bodies = []
    for name, op in (("then", ops.neg), ("orelse", ops.abs)):
        body = Graph(name)
        body.output("y", op(body.input("x", x.value.shape, x.value.dtype)))
        bodies.append(body)
    pred = ops.reduce_any(c.value, axes=None)
    result: Any = ops.cond(pred, x.value, then=bodies[0], orelse=bodies[1])
    return Drawn(result, x.exact)


def _loop(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.is_int and 0 not in d.value.shape)
    if x is None:
        return None
    body = Graph("body")
    i = body.input("i", (), dtypes.i64)
    s = body.input("s", x.value.shape, x.value.dtype)
    w = body.input("w", x.value.shape, x.value.dtype)
    body.output("go", ops.lt(i, graph_number(body, 7)))
    body.output("s", ops.add(ops.max(s, w), ops.neg(w)))
    trips = graph.constant(np.int64(step[2] % 6))
    return Drawn(ops.loop(trips, None, x.value, x.value, body=body, n_carried=1)[0], x.exact)


def graph_number(graph: Graph, number: int) -> Value:
    """An int64 constant."""
    return graph.constant(np.int64(number))


def _scan(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.kind in "fi" and d.value.rank >= 1 and 0 not in d.value.shape)
    if x is None:
        return None
    body = Graph("body")
    s = body.input("s", x.value.shape[1:], x.value.dtype)
    r = body.input("r", x.value.shape[1:], x.value.dtype)
    body.output("s", ops.max(s, r))
    body.output("y", ops.neg(ops.min(s, r)))
    results = ops.scan(x.value[0], x.value, body=body, n_carried=1, n_xs=1, reverse=bool(step[2] % 2))
    return Drawn(results[1], x.exact)


MORE: tuple[Maker, ...] = (
    *MAKERS, _conv, _pool, _pad, _scatter, _ordered, _cumulative, _moved, _norm, _attention, _recurrent, _cond, _loop,
    _scan, _conv, _moved, _pad,
)
