"""Losses of classification, in terms of other ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.dtypes import FLOATS, DType, i32, i64
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank

TOLERANCE = Tolerance(
    rtol={"f32": 5e-6, "f64": 1e-12, "f16": 1e-2, "bf16": 6e-2},
    atol={"f32": 5e-6, "f64": 1e-12, "f16": 1e-2, "bf16": 6e-2},
)
_ATTRS = (Attr("reduction", "str", "mean", ("mean", "sum", "none")), Attr("ignore_index", "int", None))


def _loss_type(op: str, x: TensorType, target: TensorType, weight: TensorType | None, reduction: str) -> TensorType:
    require_dtype(op, x.dtype, FLOATS)
    require_dtype(op, target.dtype, (i32, i64), "target")
    require_rank(op, x, 2, None, "x")
    if target.shape != (x.shape[0], *x.shape[2:]):
        raise TypeRuleError(f"{op}: target must have shape {[x.shape[0], *x.shape[2:]]}, got {target}")
    if weight is not None and weight != TensorType(x.dtype, (x.shape[1],)):
        raise TypeRuleError(f"{op}: weight must be {x.dtype}[{x.shape[1]}], got {weight}")
    return TensorType(x.dtype, target.shape if reduction == "none" else ())


def _infer_nll(x: TensorType, target: TensorType, weight: TensorType | None = None, *, reduction: str,
               ignore_index: int | None) -> tuple[TensorType, ...]:
    return (_loss_type("nll_loss", x, target, weight, reduction),)


def _nll(x: Array, target: Array, weight: Array | None = None, *, reduction: str, ignore_index: int | None) -> Array:
    ignored = np.zeros(target.shape, np.bool_) if ignore_index is None else target == ignore_index
    at = np.where(ignored, 0, target)
    picked = np.take_along_axis(x, at[:, None].astype(np.int64), 1)[:, 0]
    w = np.ones(target.shape, x.dtype) if weight is None else weight[at]
    w = np.where(ignored, np.zeros((), x.dtype), w)
    loss = -picked * w
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / w.sum())


def _nll_in_ops(x: Any, target: Any, weight: Any = None, *, reduction: str, ignore_index: int | None) -> Any:
    from rlx import ops

    zero = x.graph.constant(np.zeros((), x.dtype.numpy))
    one = x.graph.constant(np.ones((), x.dtype.numpy))
    ignored = None if ignore_index is None else ops.eq(target, ignore_index)
    at = target if ignored is None else ops.where(ignored, x.graph.constant(np.zeros((), target.dtype.numpy)), target)
    picked = ops.squeeze(ops.gather_elements(x, ops.unsqueeze(at, 1), axis=1), (1,))
    w = ops.expand(one, shape=target.shape) if weight is None else ops.gather(weight, at, axis=0)
    if ignored is not None:
        w = ops.where(ignored, zero, w)
    loss = ops.neg(picked) * w
    if reduction == "none":
        return loss
    total = ops.reduce_sum(loss)
    return total if reduction == "sum" else total / ops.reduce_sum(w)


def _samples(log_probs: bool) -> Any:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = []
        for i, shape in enumerate([(5, 7), (3, 4, 6), (2, 3, 2, 5)]):
            x = data(rng, dtype, *shape, low=-5, high=-0.1 if log_probs else 5)
            target = rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(np.int32 if i % 2 else np.int64)
            weight = data(rng, dtype, shape[1], low=0.5, high=2)
            found += [
                Sample((x, target)),
                Sample((x, target, weight), {"reduction": "sum"}),
                Sample((x, target, weight), {"ignore_index": 1}),
                Sample((x, target), {"reduction": "none", "ignore_index": 0}),
            ]
        return found

    return make


def _errors() -> Sequence[ErrorSample]:
    x, t = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    return [
        ErrorSample((x, t[:1]), {}, "target must have"),
        ErrorSample((x, t.astype(np.float32)), {}, "target type"),
        ErrorSample((x, t, np.zeros(2, np.float32)), {}, "weight must"),
        ErrorSample((x, t), {"reduction": "all"}, "one of"),
    ]


nll_loss = OpDef(
    "nll_loss",
    ("x", "target", "weight?"),
    _infer_nll,
    _nll,
    "-x[target] times the weight of the class, over axis 1; mean divides by the sum of weights; ignore_index "
    "counts as weight 0.",
    attrs=_ATTRS,
    dtypes=FLOATS,
    decompose=_nll_in_ops,
    samples=_samples(True),
    errors=lambda: list(_errors()),
    tolerance=TOLERANCE,
)


def _infer_cross_entropy(x: TensorType, target: TensorType, weight: TensorType | None = None, *, reduction: str,
                         ignore_index: int | None) -> tuple[TensorType, ...]:
    return (_loss_type("softmax_cross_entropy", x, target, weight, reduction), x)


def _cross_entropy(x: Array, target: Array, weight: Array | None = None, **at: Any) -> tuple[Array, Array]:
    log_probs = x - x.max(1, keepdims=True)
    log_probs = log_probs - np.log(np.exp(log_probs).sum(1, keepdims=True))
    return _nll(log_probs, target, weight, **at), log_probs


def _cross_entropy_in_ops(x: Any, target: Any, weight: Any = None, **at: Any) -> tuple[Any, Any]:
    from rlx import ops

    log_probs = ops.log_softmax(x, axis=1)
    return nll_loss(log_probs, target, weight, **at), log_probs


softmax_cross_entropy = OpDef(
    "softmax_cross_entropy", ("x", "target", "weight?"), _infer_cross_entropy, _cross_entropy,
    "nll_loss of log_softmax over axis 1; results loss and log-probabilities.", attrs=_ATTRS, dtypes=FLOATS,
    decompose=_cross_entropy_in_ops, samples=_samples(False), errors=lambda: list(_errors()), tolerance=TOLERANCE,
)
