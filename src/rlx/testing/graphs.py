"""Random graphs from lists of small integers, so that hypothesis can draw and shrink them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.ir.types import static_shape

SIZES = (1, 3, 4, 7, 16, 17)


@dataclass
class Drawn:
    """A value of a random graph.

    exact: every kernel must give the very bits of the definition, so that a
    comparison or rounding of it cannot fall to the other side.
    """

    value: Value
    exact: bool


def fixed(drawn: Drawn) -> tuple[int, ...]:
    """Shape as ints."""
    return static_shape(drawn.value.shape, "drawn value")


Step = tuple[int, int, int, int]
Maker = Callable[[list[Drawn], Step, Graph], Drawn | None]


def _pick(pool: list[Drawn], index: int, keep: Callable[[Drawn], bool]) -> Drawn | None:
    found = [d for d in pool if keep(d)]
    return found[index % len(found)] if found else None


def _is_float(d: Drawn) -> bool:
    return d.value.dtype.is_float


def _unary_float(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    smooth = (ops.tanh, ops.sigmoid, ops.silu, ops.gelu, ops.softsign, ops.sin, ops.erf)
    x = _pick(pool, step[1], _is_float)
    return x and Drawn(smooth[step[2] % len(smooth)](x.value), False)


def _unary_exact(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.kind in "fi")
    makers = (ops.neg, ops.abs, ops.relu, ops.sign)
    return x and Drawn(makers[step[2] % len(makers)](x.value), x.exact)


def _round(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _is_float(d) and d.exact)
    makers = (ops.floor, ops.ceil, ops.round, ops.trunc)
    return x and Drawn(makers[step[2] % len(makers)](x.value), True)


def _partner(pool: list[Drawn], x: Drawn, index: int) -> Drawn | None:
    def fits(d: Drawn) -> bool:
        if d.value.dtype != x.value.dtype:
            return False
        try:
            np.broadcast_shapes(fixed(d), fixed(x))
        except ValueError:
            return False
        return True

    return _pick(pool, index, fits)


def _binary(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.kind in "fi")
    y = x and _partner(pool, x, step[2])
    if x is None or y is None:
        return None
    makers = (ops.add, ops.sub, ops.max, ops.min, ops.mul)
    which = step[3] % (5 if x.value.dtype.is_int else 4)
    exact = x.exact and y.exact and (which in (2, 3) or x.value.dtype.is_int)
    return Drawn(makers[which](x.value, y.value), exact)


def _bounded_product(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], _is_float)
    y = x and _partner(pool, x, step[2])
    return x and y and Drawn(ops.mul(ops.tanh(x.value), ops.sigmoid(y.value)), False)


def _compare(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.exact and d.value.dtype.kind in "fi")
    y = x and _partner([d for d in pool if d.exact], x, step[2])
    makers = (ops.lt, ops.ge, ops.eq, ops.ne)
    return x and y and Drawn(makers[step[3] % 4](x.value, y.value), True)


def _where(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    c = _pick(pool, step[1], lambda d: d.value.dtype.kind == "b")
    x = _pick(pool, step[2], lambda d: True)
    y = x and _partner(pool, x, step[3])
    if c is None or x is None or y is None:
        return None
    try:
        np.broadcast_shapes(fixed(c), fixed(x), fixed(y))
    except ValueError:
        return None
    return Drawn(ops.where(c.value, x.value, y.value), x.exact and y.exact)


def _cast(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.exact)
    kinds = (dtypes.f32, dtypes.i32, dtypes.bool_, dtypes.f64, dtypes.i64, dtypes.f16, dtypes.u8)
    return x and Drawn(ops.cast(x.value, dtype=kinds[step[2] % len(kinds)]), True)


def _transpose(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 2)
    if x is None:
        return None
    perm = np.random.default_rng(step[2]).permutation(x.value.rank)
    return Drawn(ops.transpose(x.value, perm=[int(p) for p in perm]), x.exact)


def _reshape(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: True)
    if x is None:
        return None
    size = int(x.value.type.size)
    shapes = [(size,), (1, size), (size, 1)] + [(k, size // k) for k in (2, 3, 4) if size % k == 0]
    return Drawn(ops.reshape(x.value, shape=shapes[step[2] % len(shapes)]), x.exact)


def _slice(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1)
    keys: Sequence[Any] = (slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(None, -1), 0)
    if x is None:
        return None
    key = keys[step[2] % len(keys)]
    if key == 0 and x.value.shape[0] == 0:
        return None
    return Drawn(x.value[key], x.exact)


def _concat(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1)
    y = x and _pick(pool, step[2], lambda d: d.value.type == x.value.type)
    return x and y and Drawn(ops.concat(x.value, y.value, axis=step[3] % x.value.rank), x.exact and y.exact)


def _matmul(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _is_float(d) and d.value.rank >= 2 and not d.value.dtype.is_half)
    if x is None:
        return None
    k = int(x.value.shape[-1])
    n = SIZES[step[2] % len(SIZES)]
    w = np.random.default_rng(step[3]).uniform(-1, 1, (k, n)) / max(k, 1)
    y = ops.tanh(x.value) @ graph.constant(w, dtype=x.value.dtype)
    return Drawn(y + np.arange(n, dtype=x.value.dtype.numpy) / 8 if step[3] % 2 else y, False)


def _reduce(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.dtype.kind in "fi" and d.value.rank >= 1 and 0 not in d.value.shape)
    if x is None:
        return None
    axis, keep = step[2] % x.value.rank, bool(step[3] % 2)
    if step[3] % 3 == 0:
        return Drawn(ops.reduce_max(x.value, axes=(axis,), keepdims=keep), x.exact)
    if x.value.dtype.is_int or step[3] % 3 == 1:
        y = x.value if x.value.dtype.is_int else ops.tanh(x.value)
        return Drawn(ops.reduce_sum(y, axes=(axis,), keepdims=keep), x.value.dtype.is_int and x.exact)
    return Drawn(ops.reduce_mean(x.value, axes=(axis,), keepdims=keep), False)


def _softmax(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _is_float(d) and d.value.rank >= 1)
    return x and Drawn(ops.softmax(x.value, axis=step[2] % x.value.rank), False)


def _layer_norm(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: _is_float(d) and d.value.rank >= 1 and int(d.value.shape[-1]) > 2)
    if x is None:
        return None
    n = int(x.value.shape[-1])
    gamma = np.linspace(0.5, 1.5, n).astype(x.value.dtype.numpy)
    return Drawn(ops.layer_norm(x.value, gamma, None, axis=-1, eps=1e-2), False)


def _gather(pool: list[Drawn], step: Step, graph: Graph) -> Drawn | None:
    x = _pick(pool, step[1], lambda d: d.value.rank >= 1 and d.value.shape[0] != 0)
    if x is None:
        return None
    n = int(x.value.shape[0])
    index = np.random.default_rng(step[2]).integers(-n, n, 5)
    return Drawn(ops.gather(x.value, graph.constant(index), axis=0), x.exact)


MAKERS: tuple[Maker, ...] = (
    _unary_float, _unary_exact, _round, _binary, _bounded_product, _compare, _where, _cast, _transpose, _reshape,
    _slice, _concat, _matmul, _reduce, _softmax, _layer_norm, _gather, _binary, _unary_float,
)


def build_graph(
    shape: Sequence[int], steps: Sequence[Step], makers: Sequence[Maker] = MAKERS
) -> tuple[Graph, dict[str, Array], dict[str, bool]]:
    """A graph from drawn integers.

    Returns
    -------
    graph, feeds : the graph and arrays for its inputs
    exact : output name -> whether its bits are determined
    """
    graph = Graph("random")
    rng = np.random.default_rng(len(steps) + 31 * sum(shape))
    dims = tuple(SIZES[s % len(SIZES)] for s in shape)
    feeds: dict[str, Array] = {}
    pool: list[Drawn] = []

    def leaf(name: str, array: Array) -> None:
        feeds[name] = array
        pool.append(Drawn(graph.input(name, array.shape, array.dtype), True))

    leaf("x", np.round(rng.uniform(-4, 4, dims), 1).astype(np.float32))
    leaf("row", np.round(rng.uniform(-2, 2, dims[-1:]), 1).astype(np.float32))
    leaf("i", rng.integers(-9, 9, dims).astype(np.int32))
    leaf("h", np.round(rng.uniform(-2, 2, dims), 1).astype(np.float16))
    pool.append(Drawn(graph.constant(np.float32(0.5)), True))
    for step in steps:
        made = makers[step[0] % len(makers)](pool, step, graph)
        if made is not None and int(made.value.type.size) <= 4096:
            pool.append(made)
    exact = {}
    for i, d in enumerate(pool[4:][::-1][:4]):
        graph.output(f"y{i}", d.value)
        exact[f"y{i}"] = d.exact
    return graph, feeds, exact
