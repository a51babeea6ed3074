"""Normalisations: mean and variance, or a norm, taken off along axes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import Shape, TensorType, normal_axes, normal_axis
from rlx.ops import binary, unary
from rlx.ops._rules import LAYOUT, Rng, data, require_dtype, require_rank, same_dtype
from rlx.ops.reduce import Axes, reduced_shape

FLOATS = dtypes.FLOATS
_TOLERANCE = Tolerance(
    rtol={"f32": 4e-6, "f64": 1e-13}, atol={"f32": 2e-6, "f64": 1e-14, "f16": 1e-4, "bf16": 1e-4}
)
EPS = Attr("eps", "float", 1e-5)


def channel_axis(op: str, x: TensorType, layout: str) -> int:
    """The channel axis of x: 1, or the last one for `nhwc`.

    Raises
    ------
    TypeRuleError
        x has no such axis.
    """
    require_rank(op, x, 2)
    return 1 if layout == "nchw" else x.rank - 1


def _check_eps(op: str, eps: float) -> None:
    if not eps >= 0:
        raise TypeRuleError(f"{op}: eps must be >= 0, got {eps}")


def _vectors(op: str, x: TensorType, shape: Shape, **operands: TensorType | None) -> None:
    for name, t in operands.items():
        if t is not None:
            same_dtype(op, [x, t])
            if t.shape != shape:
                raise TypeRuleError(f"{op}: {name} must have the shape {list(shape)}, got {t}")


def _wide(x: Array) -> Array:
    """x in the next wider type: the definitions are exact up to a rounding."""
    return x.astype(np.longdouble if x.dtype.itemsize == 8 else np.float64)


def _centred(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """(x - mean) / sqrt(variance + eps), in a wide type."""
    wide = _wide(x)
    d = wide - wide.mean(axes, keepdims=True)
    return np.asarray(d / np.sqrt(np.mean(d * d, axes, keepdims=True) + wide.dtype.type(eps)))


def _scaled(y: Array, gamma: Array | None, beta: Array | None, dtype: Any) -> Array:
    if gamma is not None:
        y = y * gamma
    if beta is not None:
        y = y + beta
    return np.asarray(y.astype(dtype))


# -- layer and rms norm --------------------------------------------------------


def _tail(op: str, x: TensorType, axis: int) -> Shape:
    require_dtype(op, x.dtype, FLOATS)
    return x.shape[normal_axis(axis, x.rank, op) :]


def _infer_layer_norm(x: TensorType, gamma: TensorType | None, beta: TensorType | None, axis: int,
                      eps: float) -> tuple[TensorType, ...]:
    _vectors("layer_norm", x, _tail("layer_norm", x, axis), gamma=gamma, beta=beta)
    _check_eps("layer_norm", eps)
    return (x,)


def _layer_norm(x: Array, gamma: Array | None, beta: Array | None, axis: int, eps: float) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return _scaled(_centred(x, axes, eps), gamma, beta, x.dtype)


def _rows(dtype: DType) -> list[Array]:
    """Rows that are hard to normalise."""
    hard = [[40000.0, 40001.0, 40002.0, 40003.0], [1234.0] * 4, [np.nan, 1.0, 2.0, 3.0], [np.inf, 1.0, 2.0, 3.0],
            [1e-20, 2e-20, 0.0, -1e-20]]
    if dtype.name in ("f32", "f64"):
        hard += [[1e30, 2e30, -1e30, 0.0], [3e38, -3e38, 3e38, 3e38]]
    return [np.array(hard).astype(dtype.numpy)]


def _layer_samples(count: int) -> Callable[[DType, Rng], list[Sample]]:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((3, 5), -1), ((2, 3, 33), -1), ((2, 3, 4), 1), ((7,), 0), ((4, 1), -1), ((0, 3), -1), ((2, 3, 256), 2),
            ((2, 70), 0),
        ]
        found = []
        for i, (shape, axis) in enumerate(shapes):
            tail = shape[axis:]
            extra = [data(rng, dtype, *tail) if (i >> k) % 2 == 0 else None for k in range(count)]
            found.append(Sample((data(rng, dtype, *shape), *extra), {"axis": axis, "eps": 1e-3 if i % 2 else 1e-5}))
        return [*found, *(Sample((hard, *[None] * count)) for hard in _rows(dtype))]

    return make


def _layer_errors() -> list[ErrorSample]:
    x, g = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    return [ErrorSample((x, g), {}, "gamma must have the shape"), ErrorSample((x, g), {"axis": 2}, "axis must be in"),
            ErrorSample((x, np.zeros(3)), {}, "must match"), ErrorSample((x,), {"eps": -1.0}, "eps must be")]


layer_norm = OpDef(
    "layer_norm", ("x", "gamma?", "beta?"), _infer_layer_norm, _layer_norm,
    "(x - mean) / sqrt(variance + eps) * gamma + beta over the axes from `axis` on.", dtypes=FLOATS,
    attrs=(Attr("axis", "int", -1), EPS), samples=_layer_samples(2), errors=_layer_errors, tolerance=_TOLERANCE,
)


def _infer_rms_norm(x: TensorType, gamma: TensorType | None, axis: int, eps: float) -> tuple[TensorType, ...]:
    _vectors("rms_norm", x, _tail("rms_norm", x, axis), gamma=gamma)
    _check_eps("rms_norm", eps)
    return (x,)


def _rms_norm(x: Array, gamma: Array | None, axis: int, eps: float) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = _wide(x)
    y = wide / np.sqrt(np.mean(wide * wide, axes, keepdims=True) + wide.dtype.type(eps))
    return _scaled(y, gamma, None, x.dtype)


rms_norm = OpDef(
    "rms_norm", ("x", "gamma?"), _infer_rms_norm, _rms_norm,
    "x / sqrt(mean(x^2) + eps) * gamma over the axes from `axis` on.", dtypes=FLOATS,
    attrs=(Attr("axis", "int", -1), EPS), samples=_layer_samples(1), errors=_layer_errors, tolerance=_TOLERANCE,
)


def _infer_add_norm(x: TensorType, residual: TensorType, gamma: TensorType | None, beta: TensorType | None,
                    bias: TensorType | None, kind: str, eps: float) -> tuple[TensorType, ...]:
    require_dtype("add_norm", x.dtype, (dtypes.f64, dtypes.f32))
    require_rank("add_norm", x, 1)
    _vectors("add_norm", x, x.shape, residual=residual)
    _vectors("add_norm", x, x.shape[-1:], gamma=gamma, beta=beta, bias=bias)
    _check_eps("add_norm", eps)
    if kind == "rms" and (beta is not None or bias is not None):
        raise TypeRuleError("add_norm: beta and bias must be absent for kind 'rms', got one")
    return (x, x)


def _add_norm(x: Array, residual: Array, gamma: Array | None, beta: Array | None, bias: Array | None, kind: str,
              eps: float) -> tuple[Array, Array]:
    total = x + residual if bias is None else x + residual + bias
    if kind == "rms":
        return _rms_norm(total, gamma, -1, eps), total
    return _layer_norm(total, gamma, beta, -1, eps), total


def _add_norm_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for i, shape in enumerate([(3, 5), (2, 3, 33), (1, 300), (0, 4), (7,)]):
        x, r = data(rng, dtype, *shape), data(rng, dtype, *shape)
        g, b, c = (data(rng, dtype, shape[-1]) for _ in range(3))
        found += [Sample((x, r, g, b, c if i % 2 else None)), Sample((x, r, g), {"kind": "rms"}), Sample((x, r))]
    return found


add_norm = OpDef(
    "add_norm", ("x", "residual", "gamma?", "beta?", "bias?"), _infer_add_norm, _add_norm,
    "Layer or rms norm of x + residual + bias over the last axis, and that sum.", dtypes=(dtypes.f64, dtypes.f32),
    attrs=(Attr("kind", "str", "layer", ("layer", "rms")), EPS), samples=_add_norm_samples, tolerance=_TOLERANCE,
    internal=True,
)


# -- over channels -------------------------------------------------------------


def _infer_group_norm(x: TensorType, gamma: TensorType | None, beta: TensorType | None, num_groups: int, eps: float,
                      layout: str) -> tuple[TensorType, ...]:
    require_dtype("group_norm", x.dtype, FLOATS)
    c = x.shape[channel_axis("group_norm", x, layout)]
    _vectors("group_norm", x, (c,), gamma=gamma, beta=beta)
    _check_eps("group_norm", eps)
    if num_groups < 1 or (isinstance(c, int) and c % num_groups):
        raise TypeRuleError(f"group_norm: num_groups must divide {c} channels, got {num_groups}")
    return (x,)


def _channels_first(x: Array, layout: str) -> Array:
    return x if layout == "nchw" else np.moveaxis(x, -1, 1)


def _channels_back(x: Array, layout: str) -> Array:
    return x if layout == "nchw" else np.moveaxis(x, 1, -1)


def _group_norm(x: Array, gamma: Array | None, beta: Array | None, num_groups: int, eps: float, layout: str) -> Array:
    first = _channels_first(x, layout)
    groups = first.reshape(first.shape[0], num_groups, int(np.prod(first.shape[1:])) // num_groups)
    y = _centred(groups, (2,), eps).reshape(first.shape)
    column = (-1,) + (1,) * (x.ndim - 2)
    return _channels_back(_scaled(y, None if gamma is None else gamma.reshape(column),
                                  None if beta is None else beta.reshape(column), x.dtype), layout)


def _group_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for layout in LAYOUT.choices:
        for shape, groups in (((2, 6, 5, 3), 3), ((2, 6, 5, 3), 1), ((1, 4, 33), 4), ((3, 8), 2), ((1, 32, 20, 7), 8)):
            x = data(rng, dtype, *shape)
            x = x if layout == "nchw" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
            weights = (data(rng, dtype, shape[1]), data(rng, dtype, shape[1]))
            found.append(Sample((x, *weights) if groups != 1 else (x, None, None),
                                {"num_groups": groups, "layout": layout, "eps": 1e-3}))
    return [*found, Sample((data(rng, dtype, 0, 4, 3), None, None), {"num_groups": 2})]


group_norm = OpDef(
    "group_norm", ("x", "gamma?", "beta?"), _infer_group_norm, _group_norm,
    "Groups of channels normalised per item, then scaled and shifted per channel.", dtypes=FLOATS,
    attrs=(Attr("num_groups", "int"), EPS, LAYOUT), samples=_group_samples, tolerance=_TOLERANCE,
    errors=lambda: [ErrorSample((np.zeros((2, 6, 3), np.float32),), {"num_groups": 4}, "must divide"),
                    ErrorSample((np.zeros(6, np.float32),), {"num_groups": 2}, "rank")],
)


def _infer_instance_norm(x: TensorType, gamma: TensorType | None, beta: TensorType | None, eps: float,
                         layout: str) -> tuple[TensorType, ...]:
    return _infer_group_norm(x, gamma, beta, 1, eps, layout)


def _instance_norm(x: Array, gamma: Array | None, beta: Array | None, eps: float, layout: str) -> Array:
    return _group_norm(x, gamma, beta, x.shape[1 if layout == "nchw" else -1], eps, layout)


def _instance_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [Sample(s.args, {k: v for k, v in s.attrs.items() if k != "num_groups"}) for s in _group_samples(dtype, rng)]


instance_norm = OpDef(
    "instance_norm", ("x", "gamma?", "beta?"), _infer_instance_norm, _instance_norm,
    "Every channel of every item normalised by itself, then scaled and shifted.", dtypes=FLOATS, attrs=(EPS, LAYOUT),
    samples=_instance_samples, tolerance=_TOLERANCE,
    decompose=lambda x, gamma, beta, eps, layout: group_norm(
        x, gamma, beta, num_groups=x.shape[1 if layout == "nchw" else -1], eps=eps, layout=layout),
    errors=lambda: [ErrorSample((np.zeros((2, 6, 3), np.float32), np.zeros(3, np.float32)), {}, "gamma must")],
)


def _infer_batch_norm(x: TensorType, gamma: TensorType, beta: TensorType, mean: TensorType, var: TensorType,
                      eps: float, layout: str) -> tuple[TensorType, ...]:
    require_dtype("batch_norm", x.dtype, FLOATS)
    c = x.shape[channel_axis("batch_norm", x, layout)]
    _vectors("batch_norm", x, (c,), gamma=gamma, beta=beta, mean=mean, var=var)
    _check_eps("batch_norm", eps)
    return (x,)


def _batch_norm(x: Array, gamma: Array, beta: Array, mean: Array, var: Array, eps: float, layout: str) -> Array:
    column = (-1,) + (1,) * (x.ndim - 2) if layout == "nchw" else (-1,)
    scale = gamma / np.sqrt(var + x.dtype.type(eps))
    return np.asarray((x - mean.reshape(column)) * scale.reshape(column) + beta.reshape(column))


def _batch_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for layout in LAYOUT.choices:
        for shape in ((2, 5, 4, 3), (3, 33), (1, 4, 67), (0, 3, 2), (2, 70, 5)):
            c = shape[1] if layout == "nchw" else shape[-1]
            weights = [data(rng, dtype, c) for _ in range(3)]
            found.append(Sample((data(rng, dtype, *shape), *weights, data(rng, dtype, c, low=0.5, high=4)),
                                {"layout": layout}))
    return found


batch_norm = OpDef(
    "batch_norm", ("x", "gamma", "beta", "mean", "var"), _infer_batch_norm, _batch_norm,
    "(x - mean) * gamma / sqrt(var + eps) + beta with given statistics per channel.", dtypes=FLOATS,
    attrs=(EPS, LAYOUT), samples=_batch_samples, tolerance=_TOLERANCE,
    errors=lambda: [ErrorSample((np.zeros((2, 6), np.float32), *[np.zeros(5, np.float32)] * 4), {}, "gamma must"),
                    ErrorSample((np.zeros((2, 6), np.float32),), {}, "number of operands")],
)


def _infer_lrn(x: TensorType, size: int, alpha: float, beta: float, bias: float) -> tuple[TensorType, ...]:
    require_dtype("lrn", x.dtype, FLOATS)
    require_rank("lrn", x, 2)
    if size < 1:
        raise TypeRuleError(f"lrn: size must be >= 1, got {size}")
    return (x,)


def _lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    wide = _wide(x)
    total = np.zeros_like(wide)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
        total[:, c] = np.sum(np.square(wide[:, low:high]), axis=1)
    return np.asarray((wide / (bias + alpha / size * total) ** beta).astype(x.dtype))


lrn = OpDef(
    "lrn", ("x",), _infer_lrn, _lrn,
    "x / (bias + alpha / size * s)^beta, s the sum of squares over `size` neighbouring channels.", dtypes=FLOATS,
    attrs=(Attr("size", "int"), Attr("alpha", "float", 1e-4), Attr("beta", "float", 0.75), Attr("bias", "float", 1.0)),
    samples=lambda dtype, rng: [
        Sample((data(rng, dtype, *s),), {"size": n, "alpha": 0.1, "bias": 2.0})
        for s, n in (((2, 7, 3, 4), 3), ((1, 5, 33), 4), ((2, 3), 9), ((0, 3, 2), 1), ((1, 2, 5), 2))
    ],
    errors=lambda: [ErrorSample((np.zeros((2, 6), np.float32),), {"size": 0}, "size must be")], tolerance=_TOLERANCE,
)


# -- moments and norms ---------------------------------------------------------


def _infer_moments(x: TensorType, axes: Axes, keepdims: bool) -> tuple[TensorType, ...]:
    require_dtype("moments", x.dtype, FLOATS)
    t = x.with_shape(reduced_shape(x, axes, keepdims, "moments"))
    return (t, t)


def _moments(x: Array, axes: Axes, keepdims: bool) -> tuple[Array, Array]:
    wide = _wide(x)
    n = wide.dtype.type(wide.size // max(np.sum(x, axes).size, 1))
    mean = np.sum(wide, axes, keepdims=True) / n
    var = np.sum(np.square(wide - mean), axes, keepdims=True) / n
    shape = np.sum(x, axes, keepdims=keepdims).shape
    return mean.reshape(shape).astype(x.dtype), var.reshape(shape).astype(x.dtype)


def _moments_samples(dtype: DType, rng: Rng) -> list[Sample]:
    shapes: list[tuple[tuple[int, ...], Axes, bool]] = [
        ((7,), None, False), ((3, 33), (1,), True), ((3, 33), (0,), False), ((2, 3, 4, 5), (0, 2), True),
        ((3, 2, 3, 2, 3), (0, 2, 4), False), ((2, 0), (1,), False), ((2, 5, 70), (0, 1), False),
    ]
    found = [Sample((data(rng, dtype, *s),), {"axes": a, "keepdims": k}) for s, a, k in shapes]
    return [*found, *(Sample((hard,), {"axes": (1,)}) for hard in _rows(dtype) if dtype.name == "f64")]


moments = OpDef(
    "moments", ("x",), _infer_moments, _moments, "Mean and (biased) variance over axes.", dtypes=FLOATS,
    attrs=(Attr("axes", "ints", None), Attr("keepdims", "bool", False)), samples=_moments_samples,
    tolerance=_TOLERANCE,
    errors=lambda: [ErrorSample((np.zeros((2, 6), np.float32),), {"axes": (2,)}, "axis must be in")],
)


def _infer_mean_variance_norm(x: TensorType, axes: Axes, eps: float) -> tuple[TensorType, ...]:
    require_dtype("mean_variance_norm", x.dtype, FLOATS)
    normal_axes(axes, x.rank, "mean_variance_norm")
    _check_eps("mean_variance_norm", eps)
    return (x,)


def _mean_variance_norm(x: Array, axes: Axes, eps: float) -> Array:
    wide = _wide(x)
    d = wide - wide.mean(axes, keepdims=True)
    return np.asarray((d / (np.sqrt(np.mean(d * d, axes, keepdims=True)) + wide.dtype.type(eps))).astype(x.dtype))


def _decompose_mean_variance_norm(x: Any, axes: Axes, eps: float) -> Any:
    wide = unary.cast(x, dtype=dtypes.f32) if x.dtype.is_half else x
    mean, var = moments(wide, axes=axes, keepdims=True)
    y = binary.div(binary.sub(wide, mean), binary.add(unary.sqrt(var), eps))
    return unary.cast(y, dtype=x.dtype) if x.dtype.is_half else y


mean_variance_norm = OpDef(
    "mean_variance_norm", ("x",), _infer_mean_variance_norm, _mean_variance_norm,
    "(x - mean) / (sqrt(variance) + eps) over axes.", dtypes=FLOATS,
    attrs=(Attr("axes", "ints", None), Attr("eps", "float", 1e-9)), decompose=_decompose_mean_variance_norm,
    samples=lambda dtype, rng: [Sample((data(rng, dtype, 2, 3, 4, 5),), {"axes": (0, 2, 3)}),
                                Sample((data(rng, dtype, 3, 33),), {"axes": (1,)}),
                                Sample((data(rng, dtype, 3, 7),), {"axes": None, "eps": 0.5})],
    errors=lambda: [ErrorSample((np.zeros((2, 6), np.float32),), {"axes": (2,)}, "axis must be in")],
    tolerance=_TOLERANCE,
)


def _infer_lp_norm(x: TensorType, axis: int, p: int, eps: float) -> tuple[TensorType, ...]:
    require_dtype("lp_norm", x.dtype, FLOATS)
    normal_axis(axis, x.rank, "lp_norm")
    _check_eps("lp_norm", eps)
    if p not in (1, 2):
        raise TypeRuleError(f"lp_norm: p must be 1 or 2, got {p}")
    return (x,)


def _lp_norm(x: Array, axis: int, p: int, eps: float) -> Array:
    wide = _wide(x)
    norm = np.sum(np.abs(wide), axis, keepdims=True) if p == 1 else np.sqrt(np.sum(wide * wide, axis, keepdims=True))
    norm = np.maximum(norm, eps)
    return np.asarray(np.where(norm == 0, 0, wide / np.where(norm == 0, 1, norm)).astype(x.dtype))


def _lp_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for p in (1, 2):
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((3, 5), -1), ((3, 5), 0), ((2, 33, 18), 1), ((0, 3), 1), ((6,), 0)]
        found += [Sample((data(rng, dtype, *s),), {"axis": a, "p": p, "eps": e}) for (s, a), e in
                  zip(shapes, (0.0, 0.0, 1e-12, 0.0, 5.0), strict=True)]
        found.append(Sample((np.zeros((2, 3), dtype.numpy),), {"p": p}))
    return found


lp_norm = OpDef(
    "lp_norm", ("x",), _infer_lp_norm, _lp_norm, "x / max(|x|_p, eps) along an axis; 0 where the divisor is 0.",
    dtypes=FLOATS, attrs=(Attr("axis", "int", -1), Attr("p", "int", 2), Attr("eps", "float", 0.0)),
    samples=_lp_samples, tolerance=_TOLERANCE,
    errors=lambda: [ErrorSample((np.zeros((2, 6), np.float32),), {"p": 3}, "p must be"),
                    ErrorSample((np.zeros((2, 6), np.float32),), {"axis": 2}, "axis must be in")],
)
