"""Random numbers: Philox streams, one per op. The references give the distributions, not the numbers.

A stream is (seed of the executable, key of the op, counter of the run). The key is the attribute `seed`,
or a hash of the node's name: two ops never share numbers unless both were given the same `seed`.
"""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import FLOATS, DType, bool_, f32, f64, i32, i64
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank

RANDOM = frozenset({"random"})
SEED = Attr("seed", "int", None)
_SHAPE = Attr("shape", "dims")


def _generator(seed: int | None) -> Rng:
    return np.random.default_rng(seed)


def _infer_float(op: str) -> Any:
    def rule(*, shape: tuple[Any, ...], dtype: DType, **at: Any) -> tuple[TensorType, ...]:
        require_dtype(op, dtype, FLOATS, "result")
        if at.get("std", 0.0) < 0:
            raise TypeRuleError(f"{op}: std must be >= 0, got {at['std']}")
        return (TensorType(dtype, shape),)

    return rule


def _shaped(**attrs: Any) -> Any:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        return [Sample((), {"shape": s, "dtype": dtype, **attrs}) for s in ((), (0, 3), (5,), (3, 67))]

    return make


random_uniform = OpDef(
    "random_uniform",
    (),
    _infer_float("random_uniform"),
    lambda shape, dtype, low, high, seed: np.asarray(_generator(seed).uniform(low, high, shape)).astype(dtype.numpy),
    "Uniform in [low, high).",
    attrs=(_SHAPE, Attr("dtype", "dtype", f32), Attr("low", "float", 0.0), Attr("high", "float", 1.0), SEED),
    dtypes=FLOATS,
    traits=RANDOM,
    samples=_shaped(low=-1.0, high=3.0),
    errors=lambda: [
        ErrorSample((), {"shape": (2,), "dtype": i32}, "result type"),
        ErrorSample((), {}, "must be given"),
    ],
)
random_normal = OpDef(
    "random_normal",
    (),
    _infer_float("random_normal"),
    lambda shape, dtype, mean, std, seed: np.asarray(_generator(seed).normal(mean, std, shape)).astype(dtype.numpy),
    "Normal with a mean and a standard deviation.",
    attrs=(_SHAPE, Attr("dtype", "dtype", f32), Attr("mean", "float", 0.0), Attr("std", "float", 1.0), SEED),
    dtypes=FLOATS,
    traits=RANDOM,
    samples=_shaped(mean=1.0, std=2.0),
    errors=lambda: [
        ErrorSample((), {"shape": (2,), "std": -1.0}, "std must"),
        ErrorSample((), {"shape": (2,), "dtype": i32}, "result type"),
    ],
)


def _infer_randint(
    *, shape: tuple[Any, ...], low: int, high: int, dtype: DType, seed: int | None
) -> tuple[TensorType, ...]:
    require_dtype("randint", dtype, (i32, i64), "result")
    if low >= high:
        raise TypeRuleError(f"randint: low must be below high, got {low} and {high}")
    info = np.iinfo(dtype.numpy)
    if low < info.min or high - 1 > info.max:
        raise TypeRuleError(f"randint: low and high must fit {dtype}, got {low} and {high}")
    return (TensorType(dtype, shape),)


randint = OpDef(
    "randint",
    (),
    _infer_randint,
    lambda shape, low, high, dtype, seed: _generator(seed).integers(low, high, shape, dtype.numpy),
    "Integers in [low, high).",
    attrs=(_SHAPE, Attr("low", "int"), Attr("high", "int"), Attr("dtype", "dtype", i64), SEED),
    dtypes=(i32, i64),
    traits=RANDOM,
    samples=_shaped(low=-3, high=1000),
    errors=lambda: [
        ErrorSample((), {"shape": (2,), "low": 3, "high": 3}, "below high"),
        ErrorSample((), {"shape": (2,), "low": 0, "high": 2**40, "dtype": i32}, "must fit"),
    ],
)


def _infer_bernoulli(p: TensorType, *, dtype: DType, seed: int | None) -> tuple[TensorType, ...]:
    require_dtype("bernoulli", p.dtype, FLOATS)
    return (p.with_dtype(dtype),)


def _bernoulli_in_ops(p: Any, *, dtype: DType, seed: int | None) -> Any:
    from rlx import ops

    wide = f64 if p.dtype == f64 else f32
    p = p if p.dtype == wide else ops.cast(p, dtype=wide)
    hit = ops.lt(random_uniform(shape=p.shape, dtype=wide, seed=seed, graph=p.graph), p)
    return hit if dtype == bool_ else ops.cast(hit, dtype=dtype)


bernoulli = OpDef(
    "bernoulli",
    ("p",),
    _infer_bernoulli,
    lambda p, dtype, seed: (_generator(seed).random(p.shape) < p).astype(dtype.numpy),
    "1 with probability p, else 0; NaN gives 0.",
    attrs=(Attr("dtype", "dtype", bool_), SEED),
    dtypes=FLOATS,
    traits=RANDOM,
    decompose=_bernoulli_in_ops,
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, *s, low=0, high=1),), {"dtype": to})
        for s in ((), (7, 5), (0,))
        for to in (bool_, f32, i64)
    ],
    errors=lambda: [ErrorSample((np.zeros(3, np.int32),), {}, "type must be one of")],
)


def _infer_dropout(x: TensorType, *, ratio: float, training: bool, seed: int | None) -> tuple[TensorType, ...]:
    require_dtype("dropout", x.dtype, FLOATS)
    if not 0 <= ratio < 1:
        raise TypeRuleError(f"dropout: ratio must be in [0, 1), got {ratio}")
    return (x, x.with_dtype(bool_))


def _dropout(x: Array, *, ratio: float, training: bool, seed: int | None) -> tuple[Array, Array]:
    keep = _generator(seed).random(x.shape) >= ratio if training else np.ones(x.shape, np.bool_)
    return np.where(keep, x / np.asarray(1 - ratio if training else 1, x.dtype), 0).astype(x.dtype), keep


def _dropout_in_ops(x: Any, *, ratio: float, training: bool, seed: int | None) -> tuple[Any, Any]:
    from rlx import ops

    if not training:
        return x, ops.expand(x.graph.constant(np.ones((), np.bool_)), shape=x.shape)
    wide = f64 if x.dtype == f64 else f32
    keep = ops.ge(random_uniform(shape=x.shape, dtype=wide, seed=seed, graph=x.graph), ratio)
    zero = x.graph.constant(np.zeros((), x.dtype.numpy))
    return ops.where(keep, ops.div(x, np.asarray(1 - ratio).astype(x.dtype.numpy)), zero), keep


dropout = OpDef(
    "dropout",
    ("x",),
    _infer_dropout,
    _dropout,
    "With training: zeros with probability ratio, the rest divided by 1 - ratio; else x. Results y and which "
    "elements are kept.",
    attrs=(Attr("ratio", "float", 0.5), Attr("training", "bool", False), SEED),
    dtypes=FLOATS,
    traits=RANDOM,
    decompose=_dropout_in_ops,
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, 3, 5),), {"training": t, "ratio": 0.25}) for t in (False, True)
    ],
    errors=lambda: [ErrorSample((np.zeros(3, np.float32),), {"ratio": 1.0}, "ratio must")],
)


def _infer_multinomial(logits: TensorType, *, samples: int, seed: int | None) -> tuple[TensorType, ...]:
    require_dtype("multinomial", logits.dtype, FLOATS)
    require_rank("multinomial", logits, 2, 2)
    if samples < 0:
        raise TypeRuleError(f"multinomial: samples must be >= 0, got {samples}")
    return (TensorType(i64, (logits.shape[0], samples)),)


def _multinomial(logits: Array, *, samples: int, seed: int | None) -> Array:
    rng = _generator(seed)
    p = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.stack([rng.choice(p.shape[1], samples, p=row) for row in p]).astype(np.int64)


multinomial = OpDef(
    "multinomial",
    ("logits",),
    _infer_multinomial,
    _multinomial,
    "Classes drawn with probability exp(logit) / sum, [rows, samples]; a class of probability 0 is never "
    "drawn, NaN raises.",
    attrs=(Attr("samples", "int", 1), SEED),
    dtypes=(f32, dtypes.f16, dtypes.bf16),
    traits=RANDOM,
    samples=lambda dtype, rng: [Sample((data(rng, dtype, 3, 17),), {"samples": n}) for n in (1, 9)],
    errors=lambda: [ErrorSample((np.zeros(3, np.float32),), {}, "rank")],
)


def _infer_sample(
    logits: TensorType, *, temperature: float, top_k: int, top_p: float, seed: int | None
) -> tuple[TensorType, ...]:
    require_dtype("sample", logits.dtype, FLOATS)
    require_rank("sample", logits, 2, 2)
    if not temperature >= 0 or top_k < 0 or not 0 < top_p <= 1:
        raise TypeRuleError("sample: temperature must be >= 0, top_k >= 0 and top_p in (0, 1], got "
                            f"{temperature}, {top_k} and {top_p}")
    return (TensorType(i64, (logits.shape[0],)),)


def _sample(logits: Array, *, temperature: float, top_k: int, top_p: float, seed: int | None) -> Array:
    if temperature == 0:
        return np.asarray(logits.argmax(-1), np.int64)
    rng, found = _generator(seed), []
    for row in logits.astype(np.float64) / temperature:
        order = np.argsort(-row, kind="stable")[: top_k or None]
        p = np.exp(row[order] - row[order[0]])
        p /= p.sum()
        n = int(np.searchsorted(np.cumsum(p), top_p)) + 1
        found.append(rng.choice(order[:n], p=p[:n] / p[:n].sum()))
    return np.asarray(found, np.int64).reshape(len(logits))


sample = OpDef(
    "sample",
    ("logits",),
    _infer_sample,
    _sample,
    "One token per row: temperature 0 is argmax; top_k keeps exactly k (0: all; ties by lower index), top_p "
    "the smallest prefix "
    "whose share reaches p; NaN raises.",
    attrs=(Attr("temperature", "float", 1.0), Attr("top_k", "int", 0), Attr("top_p", "float", 1.0), SEED),
    dtypes=(f32, dtypes.f16, dtypes.bf16),
    traits=RANDOM,
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, 3, 37),), a)
        for a in ({}, {"temperature": 0.0}, {"top_k": 3}, {"top_p": 0.5, "temperature": 2.0})
    ],
    errors=lambda: [
        ErrorSample((np.zeros((2, 3), np.float32),), {"top_p": 0.0}, "top_p"),
        ErrorSample((np.zeros(3, np.float32),), {}, "rank"),
    ],
)
