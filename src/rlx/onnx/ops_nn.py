"""Convolutions, pooling, normalisation, recurrent layers, attention."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext, dim, dims
from rlx.onnx.registry import USE_DEFINITION, onnx_op
from rlx.records import record

# -- windows ----------------------------------------------------------------------------


@record(eq=False)
class Window:
    """Geometry of a convolution or pool, padding resolved."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def attrs(self) -> dict[str, Any]:
        """As attributes of a convolution."""
        return {"strides": self.strides, "pads": self.pads, "dilations": self.dilations}


def window(n: NodeContext, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """Strides, dilations and pads of a node, `auto_pad` resolved."""
    rank = len(spatial)
    kernel = tuple(kernel)
    strides = tuple(n.ints("strides", None) or (1,) * rank)
    dilations = tuple(n.ints("dilations", None) or (1,) * rank)
    pads = tuple(n.ints("pads", None) or (0,) * (2 * rank))
    mode = n.str("auto_pad", "NOTSET")
    if (
        not len(kernel) == len(strides) == len(dilations) == rank
        or len(pads) != 2 * rank
        or min((*strides, *dilations), default=1) < 1
    ):
        raise FormatError(
            f"kernel, strides, dilations and pads must fit {rank} spatial axes, "
            f"got {kernel}, {strides}, {dilations}, {pads}"
        )
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
            total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            less = total // 2
            before.append(less if mode == "SAME_UPPER" else total - less)
            after.append(total - before[-1])
        pads = (*before, *after)
    elif mode == "VALID":
        pads = (0,) * (2 * rank)
    elif mode not in ("NOTSET", ""):
        raise FormatError(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {mode!r}")
    return Window(kernel, strides, pads, dilations)


def spatial_of(v: Value) -> tuple[int, ...]:
    """Sizes of the spatial axes."""
    if v.rank < 3:
        raise FormatError(f"the operand must have at least one spatial axis, got shape {list(v.shape)}")
    return dims(v)[2:]


# -- convolutions ---------------------------------------------------------------------------


@onnx_op("Conv")
def _conv(n: NodeContext) -> Any:
    x, w, b = n.x(0), n.x(1), n.opt(2)
    spatial = spatial_of(x)
    kernel = n.ints("kernel_shape", None) or dims(w)[2:]
    return ops.conv(x, w, b, groups=n.int("group", 1), **window(n, spatial, kernel).attrs)


@onnx_op("ConvInteger")
def _conv_integer(n: NodeContext) -> Any:
    x, w, x_zero, w_zero = n.x(0), n.x(1), n.opt(2), n.opt(3)
    kernel = n.ints("kernel_shape", None) or dims(w)[2:]
    return ops.conv_integer(x, w, x_zero, w_zero, groups=n.int("group", 1), **window(n, spatial_of(x), kernel).attrs)


def transposed_pads(
    n: NodeContext, spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Attributes of a transposed convolution and its output padding."""
    rank = len(spatial)
    strides = tuple(n.ints("strides", None) or (1,) * rank)
    dilations = tuple(n.ints("dilations", None) or (1,) * rank)
    extra = tuple(n.ints("output_padding", None) or (0,) * rank)
    pads = list(n.ints("pads", None) or (0,) * (2 * rank))
    wanted = n.ints("output_shape", None)
    mode = n.str("auto_pad", "NOTSET")
    if wanted is not None:
        wanted = wanted[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * s for size, s in zip(spatial, strides, strict=True)]
    if wanted is not None:
        for i in range(rank):
            full = strides[i] * (spatial[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = max(0, full - wanted[i])
            less = total // 2
            pads[i] = total - less if mode != "SAME_UPPER" else less
            pads[i + rank] = total - pads[i]
            if full < wanted[i]:
                extra = tuple(e + (wanted[i] - full if k == i else 0) for k, e in enumerate(extra))
    elif mode == "VALID":
        pads = [0] * (2 * rank)
    return {"strides": strides, "pads": tuple(pads), "dilations": dilations}, extra


@onnx_op("ConvTranspose")
def _conv_transpose(n: NodeContext) -> Any:
    x, w, b = n.x(0), n.x(1), n.opt(2)
    kernel = n.ints("kernel_shape", None) or dims(w)[2:]
    attrs, extra = transposed_pads(n, spatial_of(x), kernel)
    return ops.conv_transpose(x, w, b, groups=n.int("group", 1), output_padding=extra, **attrs)


# -- pooling ------------------------------------------------------------------------------------


def _pool(n: NodeContext, x: Value) -> dict[str, Any]:
    """Attributes of a pool; without padding by `auto_pad` the size may be rounded up."""
    w = window(n, spatial_of(x), n.ints("kernel_shape"))
    return {"kernel": w.kernel, "ceil_mode": bool(n.int("ceil_mode", 0)), **w.attrs}


@onnx_op("MaxPool")
def _max_pool(n: NodeContext) -> Any:
    x = n.x(0)
    if n.wants(1):
        return ops.max_pool_indices(x, storage_order=n.int("storage_order", 0), **_pool(n, x))
    return ops.max_pool(x, **_pool(n, x))


@onnx_op("AveragePool")
def _average_pool(n: NodeContext) -> Any:
    return average_pool(n, n.x(0))


def average_pool(n: NodeContext, x: Value) -> Any:
    """Average pool with the node's attributes."""
    return ops.avg_pool(x, count_include_pad=bool(n.int("count_include_pad", 0)), **_pool(n, x))


@onnx_op("LpPool")
def _lp_pool(n: NodeContext) -> Any:
    x = n.x(0)
    return ops.lp_pool(x, p=float(n.int("p", 2)), **_pool(n, x))


def _global(name: str) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        x = n.x(0)
        return getattr(ops, name)(x, axes=tuple(range(2, x.rank)), keepdims=True)

    return emit


onnx_op("GlobalAveragePool")(_global("reduce_mean"))
onnx_op("GlobalMaxPool")(_global("reduce_max"))


@onnx_op("GlobalLpPool")
def _global_lp_pool(n: NodeContext) -> Any:
    x, p = n.x(0), n.int("p", 2)
    axes = tuple(range(2, x.rank))
    if p == 2:
        return ops.reduce_l2(x, axes=axes, keepdims=True)
    total = ops.reduce_sum(ops.pow(ops.abs(x), n.like(p, x)), axes=axes, keepdims=True)
    return ops.pow(total, n.like(1.0 / p, x))


@onnx_op("MaxUnpool")
def _max_unpool(n: NodeContext) -> Any:
    wanted = n.opt_ints(2)
    x, indices = n.x(0), n.x(1)
    kernel = n.ints("kernel_shape")
    strides = n.ints("strides", None) or [1] * len(kernel)
    pads = n.ints("pads", None) or [0] * 2 * len(kernel)
    natural = [
        (size - 1) * s + k - pads[i] - pads[i + len(kernel)]
        for i, (size, s, k) in enumerate(zip(spatial_of(x), strides, kernel, strict=True))
    ]
    batch, channels = dim(x, 0), dim(x, 1)
    shape = wanted if wanted is not None else [batch, channels, *natural]
    y = ops.max_unpool(x, indices, shape=(batch, channels, *natural))  # where the indices count
    if list(y.shape) == list(shape):
        return y
    from rlx.onnx.ops_tensor import pad

    return pad(y, [0] * x.rank, [w - d for w, d in zip(shape, dims(y), strict=True)], "constant", 0)


# -- normalisation ---------------------------------------------------------------------------------


def per_channel(v: Value, rank: int) -> Any:
    """A vector of channels, ready to broadcast against [N, C, ...]."""
    return ops.reshape(v, shape=(-1, *(1,) * (rank - 2)))


@onnx_op("BatchNormalization")
def _batch_norm(n: NodeContext) -> Any:
    x, gamma, beta, mean, var = (n.x(i) for i in range(5))
    eps = n.float("epsilon", 1e-5)
    training = bool(n.int("training_mode", 0)) if n.opset >= 14 else n.n_outputs > 1 and n.wants(1)
    if n.opset < 9 and not n.int("spatial", 1):
        return USE_DEFINITION
    if training:
        axes = tuple(i for i in range(x.rank) if i != 1)
        momentum = n.like(n.float("momentum", 0.9), mean)
        rest = n.like(1 - n.float("momentum", 0.9), mean)
        wide = ops.cast(x, dtype=mean.dtype) if x.dtype != mean.dtype else x
        now = ops.reduce_mean(wide, axes=axes, keepdims=True)
        centred = ops.sub(wide, now)
        spread = ops.reduce_mean(ops.square(centred), axes=axes, keepdims=False)
        now = ops.reshape(now, shape=(-1,))
        new_mean = ops.add(ops.mul(mean, momentum), ops.mul(now, rest))
        new_var = ops.add(ops.mul(var, momentum), ops.mul(spread, rest))
        return _normalised(x, gamma, beta, now, spread, eps), new_mean, new_var
    return _normalised(x, gamma, beta, mean, var, eps)


def _normalised(x: Value, gamma: Value, beta: Value, mean: Value, var: Value, eps: float) -> Any:
    if "batch_norm" in ops.TABLE and all(v.dtype == x.dtype for v in (gamma, beta, mean, var)):
        return ops.batch_norm(x, gamma, beta, mean, var, eps=eps)
    kind = x.dtype
    wide = dtypes.f64 if kind == dtypes.f64 else dtypes.f32
    x, gamma, beta, mean, var = (v if v.dtype == wide else ops.cast(v, dtype=wide) for v in (x, gamma, beta, mean, var))
    scale = ops.div(gamma, ops.sqrt(ops.add(var, x.graph.constant(np.asarray(eps, wide.numpy)))))
    shift = ops.sub(beta, ops.mul(mean, scale))
    y = ops.add(ops.mul(x, per_channel(scale, x.rank)), per_channel(shift, x.rank))
    return y if kind == wide else ops.cast(y, dtype=kind)


@onnx_op("LayerNormalization", since=17)
def _layer_norm(n: NodeContext) -> Any:
    x, gamma, beta = n.x(0), n.x(1), n.opt(2)
    axis = n.int("axis", -1)
    axis = axis + x.rank if axis < 0 else axis
    if n.int("stash_type", 1) != 1 or n.wants(1) or n.wants(2):
        return USE_DEFINITION
    return layer_norm(x, gamma, beta, axis, n.float("epsilon", 1e-5))


def layer_norm(x: Value, gamma: Value | None, beta: Value | None, axis: int, eps: float) -> Any:
    """Layer norm over the axes from `axis` on; parameters broadcast."""
    if "layer_norm" not in ops.TABLE:
        return USE_DEFINITION
    shape = dims(x)
    normal = shape[axis:]
    whole = all(v is None or tuple(v.shape) == normal for v in (gamma, beta))
    y = ops.layer_norm(x, gamma if whole else None, beta if whole else None, axis=axis, eps=eps)
    if whole:
        return y
    y = ops.mul(y, gamma) if gamma is not None else y
    return ops.add(y, beta) if beta is not None else y


@onnx_op("RMSNormalization", since=23)
def _rms_norm(n: NodeContext) -> Any:
    x, gamma = n.x(0), n.x(1)
    axis = n.int("axis", -1)
    axis = axis + x.rank if axis < 0 else axis
    if "rms_norm" not in ops.TABLE or n.int("stash_type", 1) != 1 or tuple(gamma.shape) != tuple(x.shape[axis:]):
        return USE_DEFINITION
    if gamma.dtype != x.dtype:
        return USE_DEFINITION
    return ops.rms_norm(x, gamma, axis=axis, eps=n.float("epsilon", 1e-5))


@onnx_op("GroupNormalization", since=21)
def _group_norm(n: NodeContext) -> Any:
    x, gamma, beta = n.x(0), n.x(1), n.x(2)
    if "group_norm" not in ops.TABLE or n.int("stash_type", 1) != 1:
        return USE_DEFINITION
    return ops.group_norm(x, gamma, beta, num_groups=n.int("num_groups"), eps=n.float("epsilon", 1e-5))


@onnx_op("InstanceNormalization")
def _instance_norm(n: NodeContext) -> Any:
    x, gamma, beta, eps = n.x(0), n.x(1), n.x(2), n.float("epsilon", 1e-5)
    if "instance_norm" in ops.TABLE:
        return ops.instance_norm(x, gamma, beta, eps=eps)
    axes = tuple(range(2, x.rank))
    centred = ops.sub(x, ops.reduce_mean(x, axes=axes, keepdims=True))
    var = ops.reduce_mean(ops.square(centred), axes=axes, keepdims=True)
    y = ops.div(centred, ops.sqrt(ops.add(var, n.like(eps, x))))
    return ops.add(ops.mul(y, per_channel(gamma, x.rank)), per_channel(beta, x.rank))


@onnx_op("LpNormalization")
def _lp_norm(n: NodeContext) -> Any:
    x, axis = n.x(0), n.int("axis", -1)
    name = "reduce_l1" if n.int("p", 2) == 1 else "reduce_l2"
    length = getattr(ops, name)(x, axes=(axis,), keepdims=True)
    zero = n.like(0, x)
    return ops.where(ops.eq(length, zero), zero, ops.div(x, length))


@onnx_op("LRN")
def _lrn(n: NodeContext) -> Any:
    x, size = n.x(0), n.int("size")
    alpha, beta, bias = n.float("alpha", 1e-4), n.float("beta", 0.75), n.float("bias", 1.0)
    if "lrn" in ops.TABLE:
        return ops.lrn(x, size=size, alpha=alpha, beta=beta, bias=bias)
    before = (size - 1) // 2
    channels = dim(x, 1)
    square = ops.square(x)
    padded = ops.pad(
        square, before=(0, before, *(0,) * (x.rank - 2)), after=(0, size - 1 - before, *(0,) * (x.rank - 2))
    )
    total: Any = None
    for i in range(size):
        part = ops.slice(padded, starts=(i,), stops=(i + channels,), axes=(1,))
        total = part if total is None else ops.add(total, part)
    base = ops.add(ops.mul(total, n.like(alpha / size, x)), n.like(bias, x))
    return ops.div(x, ops.pow(base, n.like(beta, x)))


# -- recurrent layers --------------------------------------------------------------------------------


def _recurrent(name: str, operands: int) -> Callable[[NodeContext], Any]:
    def emit(n: NodeContext) -> Any:
        values = [n.opt(i) for i in range(min(operands, max(3, n.n_inputs)))]
        if len(values) > 4 and values[4] is not None and values[4].dtype != dtypes.i32:
            values[4] = ops.cast(values[4], dtype=dtypes.i32)
        attrs: dict[str, Any] = {
            "direction": n.str("direction", "forward"),
            "layout": n.int("layout", 0),
            "clip": n.float("clip", 0.0),
        }
        names = n.strs("activations", None)
        if names:
            attrs["activations"] = names
            attrs["activation_alpha"] = n.floats("activation_alpha", None)
            attrs["activation_beta"] = n.floats("activation_beta", None)
        if name == "gru":
            attrs["linear_before_reset"] = bool(n.int("linear_before_reset", 0))
        if name == "lstm":
            attrs["input_forget"] = bool(n.int("input_forget", 0))
        return getattr(ops, name)(*values, **attrs)

    return emit


onnx_op("LSTM")(_recurrent("lstm", 8))
onnx_op("GRU")(_recurrent("gru", 6))
onnx_op("RNN")(_recurrent("rnn", 6))


# -- attention -------------------------------------------------------------------------------------------


@onnx_op("Attention", since=23)
def _attention(n: NodeContext) -> Any:
    """With a cache, masks and lengths; cut-off masks and the matrix of scores are left to the definition."""
    if n.wants(3) or n.node.attrs.keys() - _KNOWN or (n.has(3) and n.item(3) is None):
        return USE_DEFINITION
    q, k, v, mask, lens = n.x(0), n.x(1), n.x(2), n.opt(3), n.opt(6)
    causal = bool(n.int("is_causal", 0))
    if not q.dtype == k.dtype == v.dtype or (mask is not None and mask.dtype not in (q.dtype, dtypes.bool_)):
        return USE_DEFINITION
    if q.dtype not in ops.TABLE["attention"].dtypes or (lens is not None and causal):
        return USE_DEFINITION
    from rlx.onnx.ops_llm import heads_first, heads_last

    flat = q.rank == 3
    if flat:
        heads, groups = n.int("q_num_heads"), n.int("kv_num_heads")
        q, k, v = heads_first(q, heads), heads_first(k, groups), heads_first(v, groups)
    past_k, past_v = n.opt(4), n.opt(5)
    held = 0
    if past_k is not None and past_v is not None:
        held = dim(past_k, 2)
        k, v = ops.concat(past_k, k, axis=2), ops.concat(past_v, v, axis=2)
    if mask is not None:
        if mask.rank < 2 or dim(mask, -1) != dim(k, 2):
            return USE_DEFINITION
        mask = ops.reshape(mask, shape=(*(1,) * (4 - mask.rank), *mask.shape))
    y = ops.attention(
        q,
        k,
        v,
        mask,
        None if lens is None else ops.cast(lens, dtype=dtypes.i64),
        scale=n.float("scale", None),
        softcap=n.float("softcap", 0.0),
        causal=causal,
        past=held,
    )
    return heads_last(y) if flat else y, k, v


_KNOWN = {"q_num_heads", "kv_num_heads", "scale", "softcap", "is_causal", "qk_matmul_output_mode", "softmax_precision"}
