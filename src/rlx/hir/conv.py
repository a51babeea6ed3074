"""Convolution, batch norm and activation."""

import math
from collections.abc import Sequence

from rlx import ops
from rlx.hir.builder import Activation, Builder
from rlx.hir.dense import activate
from rlx.ir.graph import Value


def _batch_norm(b: Builder, x: Value, eps: float) -> Value:
    n = b.width("batch_norm", x, 1)
    weight = b.param("weight", (n,), x.dtype, init="ones")
    bias = b.param("bias", (n,), x.dtype, init="zeros")
    mean = b.param("running_mean", (n,), x.dtype, init="zeros")
    var = b.param("running_var", (n,), x.dtype, init="ones")
    if b.fused:
        return ops.batch_norm(x, weight, bias, mean, var, eps=eps)
    column = (n, *[1] * (x.rank - 2))
    scale = ops.reshape(weight / ops.sqrt(var + eps), shape=column)
    return (x - ops.reshape(mean, shape=column)) * scale + ops.reshape(bias, shape=column)


def conv_block(b: Builder, x: Value, channels: int, kernel: int | Sequence[int], *,
               strides: int | Sequence[int] | None = None, pads: int | Sequence[int] | None = None,
               dilations: int | Sequence[int] | None = None, groups: int = 1, bias: bool = False, norm: bool = True,
               activation: Activation = "relu", eps: float = 1e-5, name: str | None = None) -> Value:
    """Convolution, batch norm with given statistics, activation.

    Parameters: `conv.weight` [channels, in / groups, *kernel], `conv.bias`, and `weight`, `bias`, `running_mean`,
    `running_var` [channels] of `norm`.

    Parameters
    ----------
    b : Builder
    x : Value
        [B, in, *sizes]
    channels : int
        Of the result.
    kernel : int or sequence of int
        One number stands for all axes.
    strides, pads, dilations : int or sequence of int, optional
        As for ``ops.conv``; one number stands for all axes, and for both sides of each.
    groups : int
    bias, norm : bool
        Whether there is a bias, a batch norm.
    activation : str, callable or None
    eps : float
        Of the norm.
    name : str, optional

    Raises
    ------
    TypeRuleError
        Sizes do not fit, or the channels do not divide by `groups`.
    """
    with b.scope(name):
        n, out = b.width("conv_block", x, 1), b.count("conv_block", "channels", channels)
        parts = b.count("conv_block", "groups", groups)
        if n % parts or out % parts:
            raise b.fail("conv_block", f"channels must divide by groups, got {n} and {out} channels, {parts} groups")

        def every(given: int | Sequence[int] | None) -> Sequence[int] | None:
            return given if given is None or isinstance(given, Sequence) else (given,) * (x.rank - 2)

        window = tuple(b.count("conv_block", "kernel", k) for k in every(kernel) or ())
        edges = pads if pads is None or isinstance(pads, Sequence) else (pads,) * (2 * (x.rank - 2))
        if len(window) != x.rank - 2:
            raise b.fail("conv_block", f"kernel must have {x.rank - 2} sizes for {x.type}, got {list(window)}")
        with b.scope("conv"):
            fan = n // parts * math.prod(window)
            weight = b.param("weight", (out, n // parts, *window), x.dtype, fan_in=fan)
            shift = b.param("bias", (out,), x.dtype, fan_in=fan) if bias else None
            y = ops.conv(x, weight, shift, strides=every(strides), pads=edges, dilations=every(dilations),
                         groups=parts)
        if norm:
            with b.scope("norm"):
                y = _batch_norm(b, y, eps)
        return activate(b, y, activation)
