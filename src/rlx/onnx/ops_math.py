"""Elementwise ops, comparisons, logic, reductions, matrix products."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.dtypes import DType
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx import hostcalls
from rlx.onnx.context import NodeContext, dim, dims
from rlx.onnx.registry import onnx_op

# -- elementwise, one operand ------------------------------------------------------

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hard_swish",
    "IsNaN": "isnan",
    "Log": "log",
    "Mish": "mish",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "recip",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "BitwiseNot": "bit_not",
}


def _unary(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        return getattr(ops, name)(n.x(0))

    return emit


for _name, _op in _UNARY.items():
    onnx_op(_name)(_unary(_op))


@onnx_op("LeakyRelu")
def _leaky_relu(n: NodeContext) -> Any:
    return ops.leaky_relu(n.x(0), alpha=n.float("alpha", 0.01))


@onnx_op("Elu")
def _elu(n: NodeContext) -> Any:
    return ops.elu(n.x(0), alpha=n.float("alpha", 1.0))


@onnx_op("Celu")
def _celu(n: NodeContext) -> Any:
    return ops.celu(n.x(0), alpha=n.float("alpha", 1.0))


@onnx_op("Selu")
def _selu(n: NodeContext) -> Any:
    return ops.selu(
        n.x(0), alpha=n.float("alpha", 1.67326319217681884765625), gamma=n.float("gamma", 1.05070102214813232421875)
    )


@onnx_op("ThresholdedRelu")
def _thresholded_relu(n: NodeContext) -> Any:
    return ops.thresholded_relu(n.x(0), alpha=n.float("alpha", 1.0))


@onnx_op("HardSigmoid")
def _hard_sigmoid(n: NodeContext) -> Any:
    return ops.hard_sigmoid(n.x(0), alpha=n.float("alpha", 0.2), beta=n.float("beta", 0.5))


@onnx_op("Swish")
def _swish(n: NodeContext) -> Any:
    return ops.swish(n.x(0), alpha=n.float("alpha", 1.0))


@onnx_op("Gelu")
def _gelu(n: NodeContext) -> Any:
    return (ops.gelu_tanh if n.str("approximate", "none") == "tanh" else ops.gelu)(n.x(0))


@onnx_op("Shrink")
def _shrink(n: NodeContext) -> Any:
    x = n.x(0)
    attrs = {"lambd": n.float("lambd", 0.5), "bias": n.float("bias", 0.0)}
    if x.dtype.is_float:
        return ops.shrink(x, **attrs)
    wide = ops.shrink(ops.cast(x, dtype=dtypes.f64), **attrs)
    return ops.cast(wide, dtype=x.dtype)


@onnx_op("IsInf")
def _isinf(n: NodeContext) -> Any:
    return ops.isinf(n.x(0), negative=bool(n.int("detect_negative", 1)), positive=bool(n.int("detect_positive", 1)))


@onnx_op("PRelu")
def _prelu(n: NodeContext) -> Any:
    x, slope = n.x(0), n.x(1)
    if n.opset < 7 and slope.rank == 1 and x.rank > 2:
        slope = ops.reshape(slope, shape=(-1, *(1,) * (x.rank - 2)))
    return ops.where(ops.lt(x, n.like(0, x)), ops.mul(x, slope), x)


@onnx_op("Clip")
def _clip(n: NodeContext) -> Any:
    if n.opset < 11:
        low, high = n.float("min", None), n.float("max", None)
        return _clip_to(n.x(0), low, high)
    low, high = (n.item(i) if n.has(i) else None for i in (1, 2))
    known = [None if v is None else v if isinstance(v, np.ndarray) else False for v in (low, high)]
    x = n.x(0)
    if x.dtype.is_float and not any(v is False for v in known):
        return _clip_to(x, *(None if v is None else float(np.asarray(v).reshape(-1)[0]) for v in known))
    if n.has(1) and low is not None:
        x = ops.max(x, _scalar(n.x(1)))
    return ops.min(x, _scalar(n.x(2))) if n.has(2) and high is not None else x


def _scalar(v: Value) -> Any:
    return v if v.rank == 0 else ops.reshape(v, shape=())


def _clip_to(x: Value, low: float | None, high: float | None) -> Any:
    if low is not None and high is not None and low > high:
        low = high
    return ops.clip(x, lo=-np.inf if low is None else low, hi=np.inf if high is None else high)


@onnx_op("Cast")
def _cast(n: NodeContext) -> Any:
    from rlx.onnx.hosttypes import cast

    return cast(n, n.int("to"))


@onnx_op("CastLike")
def _cast_like(n: NodeContext) -> Any:
    from rlx.onnx.hosttypes import cast, code_of

    return cast(n, code_of(n, 1))


@onnx_op("Identity")
def _identity(n: NodeContext) -> Any:
    return n.item(0)


@onnx_op("Dropout")
def _dropout(n: NodeContext) -> Any:
    training = n.opset >= 12 and bool(n.opt_scalar(2, False))
    ratio = n.opt_scalar(1, 0.5) if n.opset >= 12 and training else 0.5
    x = n.x(0)
    if training and ratio != 0:
        from rlx.onnx.ops_random import seed_of

        seed = seed_of(n)
        keep = ops.bernoulli(n.constant(np.full(x.shape, 1.0 - ratio, np.float32)), dtype=dtypes.bool_, seed=seed)
        scaled = ops.mul(x, n.like(1.0 / (1.0 - ratio), x))
        return ops.where(keep, scaled, n.like(0, x)), keep
    mask = None
    if n.wants(1):
        kind = dtypes.bool_ if n.opset >= 10 else x.dtype
        mask = ops.expand(n.constant(np.ones((), kind.numpy)), shape=x.shape)
    return (x, mask)


# -- elementwise, several operands ---------------------------------------------------

_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}


def legacy_broadcast(n: NodeContext, x: Value, y: Value) -> Value:
    """The second operand of opset 6 and before, aligned to an axis of the first."""
    axis = n.int("axis", None)
    if not n.int("broadcast", 0) or axis is None or y.rank == 0:
        return y
    axis = axis + x.rank if axis < 0 else axis
    result: Value = ops.reshape(y, shape=(*y.shape, *([1] * (x.rank - axis - y.rank))))
    return result


def _binary(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        x, y = n.x(0), n.x(1)
        if n.opset < 7:
            y = legacy_broadcast(n, x, y)
        return getattr(ops, name)(x, y)

    return emit


for _name, _op in _BINARY.items():
    onnx_op(_name)(_binary(_op))


@onnx_op("Equal")
def _equal(n: NodeContext) -> Any:
    if n.on_host(0):
        return n.host(hostcalls.equal())
    x = n.x(0)
    return ops.eq(x, legacy_broadcast(n, x, n.x(1)) if n.opset < 7 else n.x(1))


@onnx_op("Pow")
def _pow(n: NodeContext) -> Any:
    x, y = n.x(0), n.x(1)
    if n.opset < 7:
        y = legacy_broadcast(n, x, y)
    if x.dtype == y.dtype:
        return ops.pow(x, y)
    if x.dtype.is_float:
        if y.array is not None and y.dtype.is_int:
            return ops.pow(x, ops.cast(y, dtype=x.dtype))
        wide = _wider(x.dtype, y.dtype)
        return ops.cast(ops.pow(ops.cast(x, dtype=wide), ops.cast(y, dtype=wide)), dtype=x.dtype)
    if y.dtype.is_int:
        return ops.pow(x, ops.cast(y, dtype=x.dtype))
    power = ops.pow(ops.cast(x, dtype=dtypes.f64), ops.cast(y, dtype=dtypes.f64))
    return ops.cast(power, dtype=x.dtype)


def _wider(a: DType, b: DType) -> DType:
    return dtypes.as_dtype(np.promote_types(a.numpy, b.numpy)) if not (a.is_half or b.is_half) else dtypes.f32


@onnx_op("Mod")
def _mod(n: NodeContext) -> Any:
    return (ops.fmod if n.int("fmod", 0) else ops.mod)(n.x(0), n.x(1))


@onnx_op("BitShift")
def _bit_shift(n: NodeContext) -> Any:
    return (ops.shl if n.str("direction") == "LEFT" else ops.shr)(n.x(0), n.x(1))


@onnx_op("Where")
def _where(n: NodeContext) -> Any:
    if n.on_host(1):
        return n.host(hostcalls.choose())
    return ops.where(n.x(0), n.x(1), n.x(2))


def _fold(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        xs = n.xs()
        if not xs:
            raise FormatError("at least one operand must be given, got none")
        result = xs[0]
        for x in xs[1:]:
            result = getattr(ops, name)(result, x)
        return result

    return emit


for _name, _op in {"Max": "max", "Min": "min", "Sum": "add"}.items():
    onnx_op(_name)(_fold(_op))


@onnx_op("Mean")
def _mean(n: NodeContext) -> Any:
    total = _fold("add")(n)
    return ops.div(total, n.like(n.n_inputs, total))


# -- reductions ---------------------------------------------------------------------

_REDUCE = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceProd": "reduce_prod",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


def _reduce(name: str, axes_input_since: int) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        axes = n.ints("axes", None)
        if n.opset >= axes_input_since:
            axes = n.opt_ints(1)
        x = n.x(0)
        if not axes:
            axes = () if n.int("noop_with_empty_axes", 0) else None
        chosen = name
        if x.dtype == dtypes.bool_:
            chosen = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}.get(name, name)
        return getattr(ops, chosen)(x, axes=axes, keepdims=bool(n.int("keepdims", 1)))

    return emit


for _name, _op in _REDUCE.items():
    onnx_op(_name)(_reduce(_op, 13 if _name == "ReduceSum" else 18))


def _arg(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        return getattr(ops, name)(
            n.x(0),
            axis=n.int("axis", 0),
            keepdims=bool(n.int("keepdims", 1)),
            select_last=bool(n.int("select_last_index", 0)),
        )

    return emit


onnx_op("ArgMax")(_arg("argmax"))
onnx_op("ArgMin")(_arg("argmin"))


def _cumulative(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        axis = n.scalar(1)
        return getattr(ops, name)(
            n.x(0), axis=axis, exclusive=bool(n.int("exclusive", 0)), reverse=bool(n.int("reverse", 0))
        )

    return emit


onnx_op("CumSum")(_cumulative("cumsum"))
onnx_op("CumProd")(_cumulative("cumprod"))


# -- softmax and its like ---------------------------------------------------------------


def _softmax(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        x = n.x(0)
        op = getattr(ops, name) if name != "hardmax" else _hardmax
        if n.opset >= 13:
            return op(x, axis=n.int("axis", -1))
        axis = n.int("axis", 1)
        axis = axis + x.rank if axis < 0 else axis
        if axis == x.rank - 1:
            return op(x, axis=axis)
        shape = dims(x)
        flat = ops.reshape(x, shape=(int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))
        return ops.reshape(op(flat, axis=1), shape=shape)

    return emit


def _hardmax(x: Value, axis: int) -> Any:
    axis = axis + x.rank if axis < 0 else axis
    best = ops.argmax(x, axis=axis, keepdims=True)
    shape = [1] * x.rank
    size = dim(x, axis)
    shape[axis] = size
    places = x.graph.constant(np.arange(size, dtype=np.int64).reshape(shape))
    return ops.cast(ops.eq(best, places), dtype=x.dtype)


for _name, _op in {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}.items():
    onnx_op(_name)(_softmax(_op))


# -- matrix products -----------------------------------------------------------------------


@onnx_op("MatMul")
def _matmul(n: NodeContext) -> Any:
    return ops.matmul(n.x(0), n.x(1))


@onnx_op("Gemm")
def _gemm(n: NodeContext) -> Any:
    a, b, c = n.x(0), n.x(1), n.opt(2)
    return ops.gemm(
        a,
        b,
        c,
        alpha=n.float("alpha", 1.0),
        beta=n.float("beta", 1.0),
        trans_a=bool(n.int("transA", 0)),
        trans_b=bool(n.int("transB", 0)),
    )


@onnx_op("Einsum")
def _einsum(n: NodeContext) -> Any:
    return ops.einsum(*n.xs(), equation=n.str("equation").replace(" ", ""))


@onnx_op("Det")
def _det(n: NodeContext) -> Any:
    return ops.det(n.x(0))
