"""Random numbers, and the optimiser steps of the training preview."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.dtypes import DType
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import onnx_op

TRAINING = "ai.onnx.preview.training"


def seed_of(n: NodeContext) -> int | None:
    """The node's seed; ONNX has a float, its bits are ours."""
    seed = n.attr("seed", None)
    if seed is None:
        return None
    return int(seed) if float(seed).is_integer() and seed >= 0 else int(np.float32(seed).view(np.uint32))


def _draw(n: NodeContext, name: str, shape: Any, dtype: DType) -> Any:
    if name == "random_uniform":
        bounds = {"low": n.float("low", 0.0), "high": n.float("high", 1.0)}
    else:
        bounds = {"mean": n.float("mean", 0.0), "std": n.float("scale", 1.0)}
    return getattr(ops, name)(graph=n.tracer.graph, shape=shape, dtype=dtype, seed=seed_of(n), **bounds)


def _random(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        return _draw(n, name, n.ints("shape"), n.type_attr("dtype", dtypes.f32.onnx))

    return emit


def _random_like(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        kind = n.type_attr("dtype") if n.attr("dtype", None) is not None else n.dtype(0)
        assert kind is not None
        return _draw(n, name, n.shape(0), kind)

    return emit


for _name, _op in {"RandomUniform": "random_uniform", "RandomNormal": "random_normal"}.items():
    onnx_op(_name)(_random(_op))
    onnx_op(_name + "Like")(_random_like(_op))


@onnx_op("Bernoulli")
def _bernoulli(n: NodeContext) -> Any:
    p = n.x(0)
    kind = n.type_attr("dtype") if n.attr("dtype", None) is not None else p.dtype
    y = ops.bernoulli(p, dtype=dtypes.bool_, seed=seed_of(n))
    return y if kind == dtypes.bool_ else ops.cast(y, dtype=kind)


@onnx_op("Multinomial")
def _multinomial(n: NodeContext) -> Any:
    y = ops.multinomial(n.x(0), samples=n.int("sample_size", 1), seed=seed_of(n))
    kind = n.type_attr("dtype", dtypes.i32.onnx)
    return y if y.dtype == kind else ops.cast(y, dtype=kind)


# -- optimiser steps -------------------------------------------------------------------------


def _groups(n: NodeContext, states: int) -> list[list[Value]]:
    """(parameter, gradient, states...) per tensor."""
    count = (n.n_inputs - 2) // (2 + states)
    return [[n.x(2 + k * count + i) for k in range(2 + states)] for i in range(count)]


def _flat(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(p[k] for k in range(len(parts[0])) for p in parts)


@onnx_op("Momentum", domain=TRAINING)
def _momentum(n: NodeContext) -> Any:
    alpha, norm = n.float("alpha"), n.float("norm_coefficient", 0.0)
    first = int(n.scalar(1)) == 0
    rate = n.x(0)
    beta = 1.0 if first else n.float("beta")
    parts = []
    for x, g, v in _groups(n, 1):
        g = ops.add(ops.mul(x, n.like(norm, x)), g)
        new = ops.add(ops.mul(v, n.like(alpha, v)), ops.mul(g, n.like(beta, g)))
        step = new if n.str("mode") == "standard" else ops.add(g, ops.mul(new, n.like(alpha, new)))
        parts.append((ops.sub(x, ops.mul(rate, step)), new))
    return _flat(parts)


@onnx_op("Adagrad", domain=TRAINING)
def _adagrad(n: NodeContext) -> Any:
    decay, eps, norm = n.float("decay_factor", 0.0), n.float("epsilon", 1e-6), n.float("norm_coefficient", 0.0)
    t = float(n.scalar(1))
    rate = n.x(0)
    rate = ops.div(rate, n.like(1 + t * decay, rate))
    parts = []
    for x, g, h in _groups(n, 1):
        g = ops.add(ops.mul(x, n.like(norm, x)), g)
        new = ops.add(h, ops.square(g))
        parts.append((ops.sub(x, ops.div(ops.mul(rate, g), ops.add(ops.sqrt(new), n.like(eps, x)))), new))
    return _flat(parts)


@onnx_op("Adam", domain=TRAINING)
def _adam(n: NodeContext) -> Any:
    alpha, beta, eps = n.float("alpha", 0.9), n.float("beta", 0.999), n.float("epsilon", 1e-6)
    norm, after = n.float("norm_coefficient", 0.0), n.float("norm_coefficient_post", 0.0)
    t = float(n.scalar(1))
    rate = n.x(0)
    if t > 0:
        rate = ops.mul(rate, n.like(np.sqrt(1 - beta**t) / (1 - alpha**t), rate))
    parts = []
    for x, g, v, h in _groups(n, 2):
        g = ops.add(ops.mul(x, n.like(norm, x)), g)
        v = ops.add(ops.mul(v, n.like(alpha, v)), ops.mul(g, n.like(1 - alpha, g)))
        h = ops.add(ops.mul(h, n.like(beta, h)), ops.mul(ops.square(g), n.like(1 - beta, g)))
        y = ops.sub(x, ops.div(ops.mul(rate, v), ops.add(ops.sqrt(h), n.like(eps, h))))
        parts.append((ops.mul(y, n.like(1 - after, y)), v, h))
    return _flat(parts)
