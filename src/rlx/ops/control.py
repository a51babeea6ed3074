"""Control flow: branches and loops whose bodies are graphs.

A body reads nothing but its own inputs: values of the outer graph are passed as
captures. Results have the types of the body's outputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.dims import Dim
from rlx.ir.graph import Graph
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType, static_shape
from rlx.ops._rules import Rng, data

CONTROL = frozenset({"control"})


def _check_body(op: str, label: str, body: Any, types: Sequence[TensorType | None]) -> None:
    if not isinstance(body, Graph):
        raise TypeRuleError(f"{op}: {label} must be a Graph, got {type(body).__name__}")
    if body.params:
        raise TypeRuleError(f"{op}: {label} must have no parameters, got {[v.name for v in body.params]}")
    if len(body.inputs) != len(types):
        raise TypeRuleError(f"{op}: {label} must have {len(types)} inputs, got {len(body.inputs)}")
    for v, t in zip(body.inputs, types, strict=True):
        if t is None or v.type != t:
            raise TypeRuleError(f"{op}: input {v.node.name!r} of {label} must have type {t}, got {v.type}")


def _scalar(op: str, what: str, t: TensorType, dtype: DType) -> None:
    if t.dtype != dtype or t.size != 1:
        raise TypeRuleError(f"{op}: {what} must be one {dtype}, got {t}")


def _run(body: Graph, arrays: Sequence[Any]) -> list[Array]:
    from rlx.reference import evaluate

    feeds: Mapping[str, Any] = {v.node.name: a for v, a in zip(body.inputs, arrays, strict=True)}
    return list(evaluate(body, feeds).values())


# ------------------------------------------------------------------------- cond


def _infer_cond(pred: TensorType, *captures: TensorType, then: Any, orelse: Any) -> tuple[TensorType, ...]:
    _scalar("cond", "the predicate", pred, dtypes.bool_)
    _check_body("cond", "then", then, captures)
    _check_body("cond", "orelse", orelse, captures)
    left = tuple(v.type for v in then.outputs.values())
    right = tuple(v.type for v in orelse.outputs.values())
    if left != right:
        raise TypeRuleError(f"cond: both branches must give the same types, got {left} and {right}")
    return left


def _cond(pred: Array, *captures: Array, then: Graph, orelse: Graph) -> tuple[Array, ...]:
    return tuple(_run(then if pred.reshape(-1)[0] else orelse, captures))


def _branch(name: str, dtype: DType, factor: int) -> Graph:
    from rlx.ops import binary

    g = Graph(name)
    x = g.input("x", (3,), dtype)
    y = g.input("y", (3,), dtype)
    g.output("a", binary.add(x, g.constant(np.asarray(factor, dtype.numpy))))
    g.output("b", y if factor == 1 else x)
    return g


def _cond_samples(dtype: DType, rng: Rng) -> list[Sample]:
    attrs = {"then": _branch("then", dtypes.f32, 1), "orelse": _branch("orelse", dtypes.f32, 2)}
    x, y = data(rng, dtypes.f32, 3), data(rng, dtypes.f32, 3)
    return [Sample((np.asarray(p), x, y), attrs) for p in (True, False)]


cond = OpDef(
    "cond", ("pred", "captures*"), _infer_cond, _cond,
    "Runs one of two graphs: `then` if the predicate holds, else `orelse`.", dtypes=(dtypes.bool_,),
    attrs=(Attr("then", "any"), Attr("orelse", "any")), traits=CONTROL, samples=_cond_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.asarray(1.0, np.float32),), {"then": Graph(), "orelse": Graph()}, "predicate"),
                    ErrorSample((np.asarray(True),), {"then": 3, "orelse": Graph()}, "must be a Graph")],
)


# ------------------------------------------------------------------------- loop


def _check_counts(op: str, values: Sequence[TensorType], **counts: int) -> None:
    if min(counts.values()) < 0 or sum(counts.values()) > len(values):
        wanted = ", ".join(f"{name}={n}" for name, n in counts.items())
        raise TypeRuleError(f"{op}: as many values must be given as are counted, got {wanted}, {len(values)} given")


def _loop_parts(body: Graph, n_carried: int) -> tuple[list[TensorType], list[TensorType]]:
    """Types of the carried results and of the stacked ones."""
    outs = [v.type for v in body.outputs.values()]
    return outs[1 : 1 + n_carried], outs[1 + n_carried :]


def _infer_loop(
    trips: TensorType | None,
    start: TensorType | None,
    *values: TensorType,
    body: Any,
    n_carried: int,
    bound: int | None,
) -> tuple[TensorType, ...]:
    if trips is not None:
        _scalar("loop", "the trip count", trips, dtypes.i64)
    if start is not None:
        _scalar("loop", "the condition", start, dtypes.bool_)
    if trips is None and bound is None and start is None:
        raise TypeRuleError("loop: a trip count, a bound or a condition must be given, got none")
    _check_counts("loop", values, n_carried=n_carried)
    _check_body("loop", "body", body, (TensorType(dtypes.i64, ()), *values))
    if not body.outputs or next(iter(body.outputs.values())).type != TensorType(dtypes.bool_, ()):
        raise TypeRuleError("loop: the first output of the body must be one bool (go on?), got something else")
    carried, stacked = _loop_parts(body, n_carried)
    if len(carried) != n_carried or carried != list(values[:n_carried]):
        raise TypeRuleError(f"loop: carried values must keep their types {list(values[:n_carried])}, got {carried}")
    if stacked and bound is None:
        raise TypeRuleError("loop: stacked outputs need a bound on the trip count, got none")
    return (*carried, *(t.with_shape([bound, *t.shape]) for t in stacked if bound is not None),
            TensorType(dtypes.i64, ()))


def _loop(
    trips: Array | None, start: Array | None, *values: Array, body: Graph, n_carried: int, bound: int | None
) -> tuple[Array, ...]:
    limit = 2**62 if trips is None else int(trips.reshape(-1)[0])
    if bound is not None:
        limit = min(limit, bound)
    go_on = start is None or bool(start.reshape(-1)[0])
    carried, captures = list(values[:n_carried]), values[n_carried:]
    _, stacked_types = _loop_parts(body, n_carried)
    stacked = [np.zeros((bound or 0, *static_shape(t.shape, "loop")), t.dtype.numpy) for t in stacked_types]
    i = 0
    while i < limit and go_on:
        outs = _run(body, [np.asarray(i, np.int64), *carried, *captures])
        go_on = bool(outs[0])
        carried = outs[1 : 1 + n_carried]
        for array, row in zip(stacked, outs[1 + n_carried :], strict=True):
            array[i] = row
        i += 1
    return (*carried, *stacked, np.asarray(i, np.int64))


def _loop_samples(dtype: DType, rng: Rng) -> list[Sample]:
    from rlx.ops import binary

    g = Graph("body")
    i = g.input("i", (), dtypes.i64)
    s = g.input("s", (2,), dtypes.f32)
    step = g.input("step", (2,), dtypes.f32)
    total = binary.add(s, step)
    g.output("go", binary.lt(i, g.constant(np.asarray(3, np.int64))))
    g.output("s", total)
    g.output("row", binary.mul(total, g.constant(np.float32(2))))
    x, y = data(rng, dtypes.f32, 2), data(rng, dtypes.f32, 2)
    attrs = {"body": g, "n_carried": 1, "bound": 8}
    return [
        Sample((np.asarray(2), None, x, y), attrs),
        Sample((np.asarray(100), np.asarray(True), x, y), attrs),
        Sample((np.asarray(0), None, x, y), attrs),
        Sample((np.asarray(5), np.asarray(False), x, y), attrs),
        Sample((None, np.asarray(True), x, y), attrs),
    ]


loop = OpDef(
    "loop", ("trips?", "start?", "values*"), _infer_loop, _loop,
    "Runs `body(i, carried..., captures...) -> (go_on, carried..., rows...)` until the trip count is reached or "
    "`go_on` is false; gives the carried values, the stacked rows (zero beyond the last trip) and the number of trips.",
    dtypes=(dtypes.i64,), attrs=(Attr("body", "any"), Attr("n_carried", "int"), Attr("bound", "int", None)),
    traits=CONTROL, samples=_loop_samples, tolerance=EXACT,
    errors=lambda: [ErrorSample((np.asarray(1.0),), {"body": Graph(), "n_carried": 0}, "trip count"),
                    ErrorSample((None, None), {"body": Graph(), "n_carried": 0}, "must be given")],
)


# ------------------------------------------------------------------------- scan


def _infer_scan(
    *values: TensorType, body: Any, n_carried: int, n_xs: int, length: int | None, reverse: bool
) -> tuple[TensorType, ...]:
    _check_counts("scan", values, n_carried=n_carried, n_xs=n_xs)
    xs = values[n_carried : n_carried + n_xs]
    if any(t.rank == 0 for t in xs):
        raise TypeRuleError(f"scan: {n_xs} scanned values of rank >= 1 must be given, got {list(xs)}")
    lengths = {t.shape[0] for t in xs} | ({length} if length is not None else set())
    if len(lengths) != 1:
        raise TypeRuleError(f"scan: scanned values must have one length, got {sorted(map(str, lengths))}")
    n = lengths.pop()
    inner = (*values[:n_carried], *(t.with_shape(t.shape[1:]) for t in xs), *values[n_carried + n_xs :])
    _check_body("scan", "body", body, inner)
    outs = [v.type for v in body.outputs.values()]
    if outs[:n_carried] != list(values[:n_carried]):
        raise TypeRuleError(
            f"scan: carried values must keep their types {list(values[:n_carried])}, got {outs[:n_carried]}"
        )
    return (*outs[:n_carried], *(t.with_shape([n, *t.shape]) for t in outs[n_carried:]))


def _scan(
    *values: Array, body: Graph, n_carried: int, n_xs: int, length: int | None, reverse: bool
) -> tuple[Array, ...]:
    carried = list(values[:n_carried])
    xs, captures = values[n_carried : n_carried + n_xs], values[n_carried + n_xs :]
    n = xs[0].shape[0] if xs else int(length or 0)
    types = [v.type for v in body.outputs.values()][n_carried:]
    stacked = [np.zeros((n, *(d for d in t.shape if not isinstance(d, Dim))), t.dtype.numpy) for t in types]
    for step in range(n):
        t = n - 1 - step if reverse else step
        outs = _run(body, [*carried, *(x[t] for x in xs), *captures])
        carried = outs[:n_carried]
        for array, row in zip(stacked, outs[n_carried:], strict=True):
            array[t] = row
    return (*carried, *stacked)


def checkpoint_steps(length: int, count: int) -> tuple[int, ...]:
    """Steps whose rows are kept when a scan of `length` steps keeps `count` of them: the last of each segment.

    Row k is that of step ``ceil((k + 1) * length / count) - 1``; 10 steps and 4 rows give 2, 4, 7, 9. Take these rows
    of a scan's stacked result with `gather`.

    Raises
    ------
    TypeRuleError
        There are not that many steps.
    """
    if not 0 <= count <= length:
        raise TypeRuleError(f"checkpoint_steps: between 0 and {length} steps must be kept, got {count}")
    return tuple(-(-(k + 1) * length // count) - 1 for k in range(count))


def _scan_samples(dtype: DType, rng: Rng) -> list[Sample]:
    from rlx.ops import binary

    g = Graph("body")
    s = g.input("s", (2,), dtype)
    x = g.input("x", (2,), dtype)
    w = g.input("w", (2,), dtype)
    total = binary.add(binary.mul(s, w), x)
    g.output("s", total)
    g.output("y", binary.sub(total, x))
    found = []
    for n in (0, 1, 5):
        for reverse in (False, True):
            args = (data(rng, dtype, 2), data(rng, dtype, n, 2), data(rng, dtype, 2))
            found.append(Sample(args, {"body": g, "n_carried": 1, "n_xs": 1, "reverse": reverse}))
    return found


scan = OpDef(
    "scan", ("values*",), _infer_scan, _scan,
    "Runs `body(carried..., x_t..., captures...) -> (carried..., rows...)` over the first axis of the scanned values; "
    "gives the carried values and the stacked rows. `reverse` walks from the end, rows keep their place.",
    dtypes=(dtypes.f32, dtypes.f64, dtypes.i64),
    attrs=(Attr("body", "any"), Attr("n_carried", "int"), Attr("n_xs", "int"), Attr("length", "int", None),
           Attr("reverse", "bool", False)),
    traits=CONTROL, samples=_scan_samples,
    errors=lambda: [ErrorSample((np.zeros((), np.float32),), {"body": Graph(), "n_carried": 0, "n_xs": 1}, "rank")],
)
