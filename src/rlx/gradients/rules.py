"""Derivatives of ops: for a node, the gradients of its operands from those of its results.

A rule is ``rule(operands, results, gradients, **attrs)`` on values of a graph, as `register_op(vjp=)` takes it: it
gives a gradient of the operand's type, or None, per operand. Where a function is not differentiable, the rules take
what other frameworks take: 0 for relu at 0, equal shares for elements that are equally large.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx import ops
from rlx.ir.custom import CustomOp
from rlx.ir.graph import Value
from rlx.ir.opdef import OpDef
from rlx.ir.types import static_shape

Rule = Callable[..., Sequence["Value | None"]]
RULES: dict[str, Rule] = {}


def rule_of(op: OpDef) -> Rule | None:
    """The derivative of an op: registered with it, or one of these."""
    return op.vjp if isinstance(op, CustomOp) else RULES.get(op.name)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


def _unary(**slopes: Callable[[Any, Any], Any]) -> None:
    """Rules of elementwise ops of one operand, from their slopes: functions of x and y."""
    for name, slope in slopes.items():
        def rule(xs: Any, ys: Any, ds: Any, _slope: Any = slope, **attrs: Any) -> Any:
            return (ds[0] * _slope(xs[0], ys[0]),)

        RULES[name] = rule


def full(like: Any, number: float) -> Any:
    """A number in the type and shape of a value."""
    return ops.expand(like.graph.constant(number, dtype=like.dtype), shape=like.shape)


def _normal(x: Any) -> Any:
    """Density of the normal distribution."""
    return ops.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _gelu(x: Any, y: Any) -> Any:
    return 0.5 * ops.erfc(x * -math.sqrt(0.5)) + x * _normal(x)


def _gelu_tanh(x: Any, y: Any) -> Any:
    c = math.sqrt(2 / math.pi)
    t = ops.tanh(c * (x + 0.044715 * x * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


def _silu(x: Any, y: Any) -> Any:
    s = ops.sigmoid(x)
    return s * (1 + x * (1 - s))


def _mish(x: Any, y: Any) -> Any:
    t = ops.tanh(ops.softplus(x))
    return t + x * (1 - t * t) * ops.sigmoid(x)


_unary(
    neg=lambda x, y: -1.0, abs=lambda x, y: ops.sign(x), square=lambda x, y: 2 * x, sqrt=lambda x, y: 0.5 / y,
    rsqrt=lambda x, y: -0.5 * y / x, recip=lambda x, y: -y * y, exp=lambda x, y: y,
    exp2=lambda x, y: y * math.log(2), expm1=lambda x, y: y + 1, log=lambda x, y: 1 / x,
    log2=lambda x, y: 1 / (x * math.log(2)), log10=lambda x, y: 1 / (x * math.log(10)), log1p=lambda x, y: 1 / (1 + x),
    sin=lambda x, y: ops.cos(x), cos=lambda x, y: -ops.sin(x), tan=lambda x, y: 1 + y * y,
    asin=lambda x, y: ops.rsqrt(1 - x * x), acos=lambda x, y: -ops.rsqrt(1 - x * x), atan=lambda x, y: 1 / (1 + x * x),
    sinh=lambda x, y: ops.cosh(x), cosh=lambda x, y: ops.sinh(x), tanh=lambda x, y: 1 - y * y,
    asinh=lambda x, y: ops.rsqrt(x * x + 1), acosh=lambda x, y: ops.rsqrt(x * x - 1),
    atanh=lambda x, y: 1 / (1 - x * x),
    erf=lambda x, y: ops.exp(-x * x) * (2 / math.sqrt(math.pi)),
    erfc=lambda x, y: ops.exp(-x * x) * (-2 / math.sqrt(math.pi)), sigmoid=lambda x, y: y * (1 - y),
    log_sigmoid=lambda x, y: ops.sigmoid(-x), softplus=lambda x, y: ops.sigmoid(x),
    softsign=lambda x, y: ops.square(1 - ops.abs(y)), gelu=_gelu, gelu_tanh=_gelu_tanh, silu=_silu, mish=_mish,
    relu=lambda x, y: ops.cast(x > 0, dtype=x.dtype),
)


@_rule("sign", "floor", "ceil", "round", "trunc")
def _steps(xs: Any, ys: Any, ds: Any, **attrs: Any) -> Any:
    return (full(ds[0], 0),)


@_rule("leaky_relu")
def _leaky_relu(xs: Any, ys: Any, ds: Any, alpha: float) -> Any:
    return (ops.where(xs[0] >= 0, ds[0], ds[0] * alpha),)


@_rule("elu")
def _elu(xs: Any, ys: Any, ds: Any, alpha: float) -> Any:
    return (ops.where(xs[0] > 0, ds[0], ds[0] * (ys[0] + alpha)),)


@_rule("swish")
def _swish(xs: Any, ys: Any, ds: Any, alpha: float) -> Any:
    s = ops.sigmoid(alpha * xs[0])
    return (ds[0] * s * (1 + alpha * xs[0] * (1 - s)),)


@_rule("clip")
def _clip(xs: Any, ys: Any, ds: Any, lo: float, hi: float) -> Any:
    x = xs[0]
    return (ops.where(ops.logical_and(x >= lo, x <= hi), ds[0], full(ds[0], 0)),)


@_rule("cast")
def _cast(xs: Any, ys: Any, ds: Any, dtype: Any, saturate: bool) -> Any:
    return (ops.cast(ds[0], dtype=xs[0].dtype),)


# -- two operands ---------------------------------------------------------------------


def _fit(gradient: Any, like: Any) -> Any:
    """Summed over the axes along which an operand was broadcast."""
    extra = gradient.rank - like.rank
    axes = [i for i, d in enumerate(gradient.shape) if i < extra or like.shape[i - extra] != d]
    if not axes:
        return gradient
    return ops.reshape(ops.reduce_sum(gradient, axes=tuple(axes)), shape=like.shape)


def _binary(**slopes: Callable[[Any, Any, Any, Any], tuple[Any, Any]]) -> None:
    """Rules of elementwise ops of two operands: functions of a, b, result and gradient."""
    for name, slope in slopes.items():
        def rule(xs: Any, ys: Any, ds: Any, _slope: Any = slope, **attrs: Any) -> Any:
            return [_fit(g, x) for g, x in zip(_slope(*xs, ys[0], ds[0]), xs, strict=True)]

        RULES[name] = rule


def _pow(a: Any, b: Any, y: Any, d: Any) -> tuple[Any, Any]:
    positive = a > 0
    logs = ops.log(ops.where(positive, a, full(a, 1)))
    return d * b * ops.pow(a, b - 1.0), ops.where(positive, d * y * logs, full(y, 0))


def _larger(a: Any, b: Any, y: Any, d: Any) -> tuple[Any, Any]:
    """Each operand's share: all, half where they are equal, or nothing."""
    share = ops.cast(a == y, dtype=y.dtype) - ops.cast(b == y, dtype=y.dtype)
    return d * (0.5 + 0.5 * share), d * (0.5 - 0.5 * share)


def _atan2(a: Any, b: Any, y: Any, d: Any) -> tuple[Any, Any]:
    scaled = d / (a * a + b * b)
    return scaled * b, -scaled * a


_binary(
    add=lambda a, b, y, d: (d, d), sub=lambda a, b, y, d: (d, -d), mul=lambda a, b, y, d: (d * b, d * a),
    div=lambda a, b, y, d: (d / b, -d * y / b), pow=_pow, max=_larger, min=_larger, atan2=_atan2,
)


@_rule("where")
def _where(xs: Any, ys: Any, ds: Any) -> Any:
    c, a, b = xs
    zero = full(ds[0], 0)
    return None, _fit(ops.where(c, ds[0], zero), a), _fit(ops.where(c, zero, ds[0]), b)


def _swapped(x: Any) -> Any:
    return ops.transpose(x, perm=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


@_rule("matmul")
def _matmul(xs: Any, ys: Any, ds: Any) -> Any:
    a, b = xs
    d = ds[0]
    row = ops.reshape(a, shape=(1, *a.shape)) if a.rank == 1 else a
    column = ops.reshape(b, shape=(*b.shape, 1)) if b.rank == 1 else b
    if b.rank == 1:
        d = ops.reshape(d, shape=(*d.shape, 1))
    if a.rank == 1:
        d = ops.reshape(d, shape=(*d.shape[:-1], 1, d.shape[-1]))
    to_a, to_b = _fit(d @ _swapped(column), row), _fit(_swapped(row) @ d, column)
    return ops.reshape(to_a, shape=a.shape), ops.reshape(to_b, shape=b.shape)


# -- reductions -----------------------------------------------------------------------


def _kept(v: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """A result of a reduction with its axes kept, in size 1."""
    chosen = range(x.rank) if axes is None else [a % x.rank for a in axes]
    return v if keepdims else ops.reshape(v, shape=[1 if i in chosen else d for i, d in enumerate(x.shape)])


@_rule("reduce_sum")
def _sum(xs: Any, ys: Any, ds: Any, axes: Any, keepdims: bool) -> Any:
    return (ops.expand(_kept(ds[0], xs[0], axes, keepdims), shape=xs[0].shape),)


@_rule("reduce_mean")
def _mean(xs: Any, ys: Any, ds: Any, axes: Any, keepdims: bool) -> Any:
    count = ops.reduce_sum(full(xs[0], 1), axes=axes, keepdims=True)
    return (ops.expand(_kept(ds[0], xs[0], axes, keepdims) / count, shape=xs[0].shape),)


@_rule("reduce_max", "reduce_min")
def _extremum(xs: Any, ys: Any, ds: Any, axes: Any, keepdims: bool) -> Any:
    x = xs[0]
    hit = ops.cast(x == _kept(ys[0], x, axes, keepdims), dtype=x.dtype)
    return (_kept(ds[0], x, axes, keepdims) * hit / ops.reduce_sum(hit, axes=axes, keepdims=True),)


@_rule("reduce_sum_square")
def _sum_square(xs: Any, ys: Any, ds: Any, axes: Any, keepdims: bool) -> Any:
    return (2.0 * xs[0] * _kept(ds[0], xs[0], axes, keepdims),)


@_rule("reduce_log_sum_exp")
def _log_sum_exp(xs: Any, ys: Any, ds: Any, axes: Any, keepdims: bool) -> Any:
    share = ops.exp(xs[0] - _kept(ys[0], xs[0], axes, keepdims))
    return (share * _kept(ds[0], xs[0], axes, keepdims),)


@_rule("softmax")
def _softmax(xs: Any, ys: Any, ds: Any, axis: int) -> Any:
    y, d = ys[0], ds[0]
    return (y * (d - ops.reduce_sum(d * y, axes=(axis,), keepdims=True)),)


@_rule("log_softmax")
def _log_softmax(xs: Any, ys: Any, ds: Any, axis: int) -> Any:
    return (ds[0] - ops.exp(ys[0]) * ops.reduce_sum(ds[0], axes=(axis,), keepdims=True),)


@_rule("cumsum")
def _cumsum(xs: Any, ys: Any, ds: Any, **attrs: Any) -> Any:
    return (ops.cumsum(ds[0], **{**attrs, "reverse": not attrs["reverse"]}),)


# -- moves ----------------------------------------------------------------------------


@_rule("reshape")
def _reshape(xs: Any, ys: Any, ds: Any, shape: Any) -> Any:
    return (ops.reshape(ds[0], shape=xs[0].shape),)


@_rule("transpose")
def _transpose(xs: Any, ys: Any, ds: Any, perm: Any) -> Any:
    return (ops.transpose(ds[0], perm=tuple(sorted(range(len(perm)), key=lambda i: perm[i]))),)


@_rule("expand")
def _expand(xs: Any, ys: Any, ds: Any, shape: Any) -> Any:
    return (_fit(ds[0], xs[0]),)


@_rule("flip")
def _flip(xs: Any, ys: Any, ds: Any, axes: Any) -> Any:
    return (ops.flip(ds[0], axes=axes),)


@_rule("concat")
def _concat(xs: Any, ys: Any, ds: Any, axis: int) -> Any:
    found, start = [], 0
    for x in xs:
        (size,) = static_shape(x.shape[axis : axis + 1 or None], "concat")
        found.append(ops.slice(ds[0], starts=(start,), stops=(start + size,), axes=(axis,)))
        start += size
    return found


@_rule("slice")
def _slice(xs: Any, ys: Any, ds: Any, starts: Any, stops: Any, axes: Any, steps: Any) -> Any:
    x, d = xs[0], ds[0]
    axes = range(len(starts)) if axes is None else axes
    for axis, start, stop, step in zip(axes, starts, stops, steps or (1,) * len(starts), strict=True):
        (size,) = static_shape(x.shape[axis : axis + 1 or None], "slice")
        picked = np.arange(size)[slice(start, _end(stop, step), step)]
        zero = x.graph.constant(np.zeros([size if i == axis % x.rank else n for i, n in
                                          enumerate(static_shape(d.shape, "slice"))], x.dtype.numpy))
        index = [picked.size if i == axis % x.rank else 1 for i in range(x.rank)]
        place = np.broadcast_to(picked.reshape(index), static_shape(d.shape, "slice"))
        d = ops.scatter_elements(zero, np.ascontiguousarray(place), d, axis=axis)
    return (d,)


def _end(stop: int, step: int) -> int | None:
    from rlx.ops.view import normal_stop

    return normal_stop(stop, step)


@_rule("pad")
def _pad(xs: Any, ys: Any, ds: Any, before: Any, after: Any, mode: str, value: Any) -> Any:
    if mode != "constant":
        raise NotImplementedError(f"mode 'constant' has a derivative, got {mode!r}")
    return (ops.pad(ds[0], before=[-b for b in before], after=[-a for a in after]),)


@_rule("gather")
def _gather(xs: Any, ys: Any, ds: Any, axis: int) -> Any:
    x, indices = xs
    axis %= x.rank
    shape, count = static_shape(x.shape, "gather"), int(np.prod(static_shape(indices.shape, "gather")))
    flat = ops.reshape(ds[0], shape=(*shape[:axis], count, *shape[axis + 1 :]))
    place = ops.reshape(indices, shape=[count if i == axis else 1 for i in range(x.rank)])
    zero = x.graph.constant(np.zeros(shape, x.dtype.numpy))
    return ops.scatter_elements(zero, ops.expand(place, shape=flat.shape), flat, axis=axis, reduction="add"), None


@_rule("gather_elements")
def _gather_elements(xs: Any, ys: Any, ds: Any, axis: int) -> Any:
    return ops.scatter_elements(full(xs[0], 0), xs[1], ds[0], axis=axis, reduction="add"), None


# -- ops that are differentiated as they are written out ---------------------------------


def _scaled(y: Any, gamma: Any, beta: Any) -> Any:
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def _layer_norm(x: Any, gamma: Any = None, beta: Any = None, *, axis: int, eps: float) -> Any:
    axes = tuple(range(axis % x.rank, x.rank))
    centred = x - ops.reduce_mean(x, axes=axes, keepdims=True)
    variance = ops.reduce_mean(ops.square(centred), axes=axes, keepdims=True)
    return _scaled(centred * ops.rsqrt(variance + eps), gamma, beta)


def _rms_norm(x: Any, gamma: Any = None, *, axis: int, eps: float) -> Any:
    axes = tuple(range(axis % x.rank, x.rank))
    return _scaled(x * ops.rsqrt(ops.reduce_mean(ops.square(x), axes=axes, keepdims=True) + eps), gamma, None)


_WRITTEN: dict[str, Callable[..., Any]] = {"layer_norm": _layer_norm, "rms_norm": _rms_norm}


def written(op: OpDef) -> Callable[..., Any] | None:
    """An op without a rule in terms of others: as the table has it, or one of these."""
    return op.decompose or _WRITTEN.get(op.name)
