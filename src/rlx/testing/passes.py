"""Graphs on which passes are tested: small networks of every kind that a pass looks for, and random graphs."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.passes import Pass, Pipeline
from rlx.testing.graphs import build_graph
from rlx.testing.graphs_more import MORE

TOLERANCE = {"f64": 1e-8, "f32": 1e-3, "f16": 4e-2, "bf16": 2e-1}
Near = Callable[[Any, Any], None]
Rng = np.random.Generator


def _f(rng: Rng, *shape: int) -> Array:
    return (rng.standard_normal(shape) * 0.3).astype(np.float32)


def convolutions(rng: Rng) -> Graph:
    """A residual block with batch norm, activations and pooling."""
    g = Graph("convolutions")
    x = g.input("x", (1, 16, 14, 14))
    y = ops.conv(x, _f(rng, 16, 16, 3, 3), None, pads=(1, 1, 1, 1))
    y = ops.batch_norm(y, _f(rng, 16), _f(rng, 16), _f(rng, 16), np.abs(_f(rng, 16)) + 1)
    z = ops.conv(ops.relu(y), _f(rng, 16, 16, 3, 3), _f(rng, 16), pads=(1, 1, 1, 1))
    y = ops.relu(z + x)
    g.output("y", ops.reduce_mean(y * ops.sigmoid(y), axes=(2, 3)))
    return g


def attention(rng: Rng) -> Graph:
    """Attention, norms and activations spelled out."""
    g = Graph("attention")
    x = g.input("x", (2, 6, 8))
    q, k, v = (x @ g.constant(_f(rng, 8, 8)) + _f(rng, 8) for _ in range(3))
    weights = ops.softmax(q @ ops.transpose(k, perm=(0, 2, 1)) * 0.35, axis=-1)
    h = ops.layer_norm(x + weights @ v, _f(rng, 8), _f(rng, 8), axis=-1, eps=1e-3)
    h = h - ops.reduce_mean(h, axes=(-1,), keepdims=True)
    h = h / ops.sqrt(ops.reduce_mean(h * h, axes=(-1,), keepdims=True) + 1e-3) * _f(rng, 8)
    g.output("y", 0.5 * h * (1.0 + ops.erf(h / np.sqrt(2.0).item())))
    return g


def halves(rng: Rng) -> Graph:
    """A product, an activation and a norm on f16."""
    g = Graph("halves")
    x = g.input("x", (4, 8), dtypes.f16)
    y = ops.gelu(x @ g.constant(_f(rng, 8, 8).astype(np.float16)) + _f(rng, 8).astype(np.float16))
    g.output("y", ops.layer_norm(y + x, np.ones(8, np.float16), None, axis=-1, eps=1e-2))
    return g


def quantised(rng: Rng) -> Graph:
    """A quantised convolution and product with activations in floats between."""
    g = Graph("quantised")
    x = g.input("x", (1, 8, 8, 8), dtypes.u8)
    zero = g.constant(np.uint8(3))
    w = ops.dequantize_linear(g.constant(rng.integers(-9, 9, (8, 8, 3, 3)).astype(np.int8)), np.float32(0.05),
                              np.int8(0))
    y = ops.relu(ops.conv(ops.dequantize_linear(x, np.float32(0.1), zero), w, None, pads=(1, 1, 1, 1)))
    y = ops.quantize_linear(ops.sigmoid(y), np.float32(0.02), zero)
    v = ops.dequantize_linear(g.constant(rng.integers(-9, 9, (8, 8)).astype(np.int8)), np.float32(0.05), np.int8(0))
    z = ops.dequantize_linear(y, np.float32(0.02), zero) @ v
    g.output("y", y)
    g.output("z", ops.quantize_linear(ops.tanh(z), np.float32(0.02), zero))
    return g


def branches(rng: Rng) -> Graph:
    """A branch on a constant and one on a value, stacks, one-hot rows and repeated work."""
    g = Graph("branches")
    x = g.input("x", (3, 4))

    def body(name: str, factor: float) -> Graph:
        inner = Graph(name)
        inner.output("y", ops.exp(inner.input("x", (3, 4)) * factor) * 1.0)
        return inner

    def branch(pred: Value) -> Value:
        return ops.cond(pred, x, then=body("then", 0.5), orelse=body("orelse", -1.0))  # type: ignore[return-value]

    y = branch(g.constant(np.asarray(True))) + branch(ops.reduce_max(x, axes=(0, 1)) > 0.3)
    stack = ops.concat(ops.unsqueeze(x, (0,)), ops.unsqueeze(x, (0,)), ops.unsqueeze(y, (0,)), axis=0)
    ids = ops.argmax(x, axis=1)
    rows = ops.cast(ops.eq(ops.unsqueeze(ids, (1,)), np.arange(4)), dtype=dtypes.f32) @ g.constant(_f(rng, 4, 4))
    g.output("s", ops.reduce_sum(stack, axes=(0,)))
    scale = g.constant(_f(rng, 4))
    g.output("n", ops.layer_norm(x + ops.gather(x, np.asarray([2, 0, 1]), axis=0), scale, None, axis=-1, eps=1e-2))
    g.output("y", ops.neg(ops.neg(y)) + rows + ops.transpose(ops.transpose(x, perm=(1, 0)), perm=(1, 0)))
    return g


def loops(rng: Rng) -> Graph:
    """Bodies that read constants of the graph around them, and loops that make no trip."""
    body = Graph("body")
    s, x, w = body.input("s", (2, 4)), body.input("x", (2, 4)), body.input("w", (4, 4))
    t = ops.tanh(s @ w + x)
    body.output("s", t)
    body.output("row", t * 0.5)
    g = Graph("loops")
    a, xs, w = g.input("a", (2, 4)), g.input("xs", (3, 2, 4)), g.constant(_f(rng, 4, 4))
    last, rows = ops.scan(a, xs, w, body=body, n_carried=1, n_xs=1)
    nothing, no_rows = ops.scan(a, xs[:0], w, body=body, n_carried=1, n_xs=1)
    g.output("last", last)
    g.output("rows", rows)
    g.output("nothing", nothing * 2.0)
    g.output("no_rows", no_rows)
    return g


NETS = (convolutions, attention, halves, quantised, branches, loops)


def feeds_of(graph: Graph, rng: Rng) -> dict[str, Array]:
    """Arrays for the inputs of a graph."""
    found = {}
    for v in graph.inputs:
        shape = tuple(int(d) for d in v.shape if isinstance(d, int))
        integers = v.dtype.is_int
        found[v.name] = (rng.integers(0, 100, shape) if integers else _f(rng, *shape)).astype(v.dtype.numpy)
    return found


def graphs(seed: int) -> tuple[Graph, dict[str, Array], Near]:
    """Graph number `seed`, arrays for its inputs, and how near results must be: networks, then random ones."""
    rng = np.random.default_rng(seed)
    if seed < len(NETS):
        graph = NETS[seed](rng)
        feeds, exact = feeds_of(graph, rng), dict.fromkeys(graph.outputs, False)
    else:
        shape = rng.integers(0, 6, int(rng.integers(1, 4))).tolist()
        steps = [(int(a), int(b), int(c), int(d)) for a, b, c, d in rng.integers(0, 64, (int(rng.integers(4, 20)), 4))]
        graph, feeds, exact = build_graph(shape, steps, MORE)

    def near(got: Any, want: Any) -> None:
        for name in exact:
            a, b = got[name], want[name]
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            if exact[name] or (b.dtype.kind not in "fV" and seed >= len(NETS)):
                np.testing.assert_array_equal(a, b, err_msg=f"{name}\n{graph}")
            else:  # a quantised result may round to the neighbour
                t = TOLERANCE.get(dtypes.of_array(b).name, 1.0)
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=t, atol=t,
                                           err_msg=f"{name}\n{graph}")

    return graph, feeds, near


def order(passes: Iterable[Pass], rng: random.Random) -> Pipeline:
    """The passes in a random order among those that can work."""
    left = list(passes)
    placed: list[Pass] = []
    while left:
        waiting = {p.name for p in left}
        chosen = rng.choice([p for p in left if not waiting & set(p.after)])
        left.remove(chosen)
        placed.append(chosen)
    return Pipeline(placed)
