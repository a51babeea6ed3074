"""Linear layers, activations, embeddings, norms over the last axis, gated feed-forward blocks."""

import math
from collections.abc import Callable

from rlx import dtypes, ops
from rlx.hir.builder import Activation, Builder
from rlx.ir.graph import Value


def activate(b: Builder, x: Value, activation: Activation) -> Value:
    """Apply an activation.

    Parameters
    ----------
    b : Builder
    x : Value
    activation : str, callable or None
        The name of an op of one operand, registered ones included; a function of a Value; None for none.
        Primitives: silu is ``x * sigmoid(x)``, gelu ``0.5 x (1 + erf(x / sqrt(2)))``.

    Raises
    ------
    TypeRuleError
        The name is unknown, the op has more operands, or the function gives no Value of this graph.
    """
    if activation is None:
        return x
    if isinstance(activation, str):
        op = ops.TABLE.get(activation)
        if op is None or op.internal or len([n for n in op.inputs if not n.endswith("?")]) != 1:
            raise b.fail("activation", f"a name must be an op of one operand, got {activation!r}")
        if not b.fused and activation == "silu":
            return x * ops.sigmoid(x)
        if not b.fused and activation == "gelu":
            return x * 0.5 * (ops.erf(x / math.sqrt(2)) + 1.0)
        y = op(x)
    elif callable(activation):
        y = activation(x)
    else:
        raise b.fail("activation", f"must be a name, a function or None, got {type(activation).__name__}")
    if not isinstance(y, Value) or y.graph is not b.graph:
        raise b.fail("activation", f"must give one Value of graph {b.graph.name!r}, got {type(y).__name__}")
    return y


def linear(b: Builder, x: Value, features: int, *, bias: bool = True, activation: Activation = None,
           name: str | None = None) -> Value:
    """``activation(x @ weight + bias)`` over the last axis.

    Parameters
    ----------
    b : Builder
    x : Value
        [..., in]; `in` must be a number.
    features : int
        Size of the last axis of the result.
    bias : bool
    activation : str, callable or None
    name : str, optional
        A scope for the parameters `weight` [in, features] and `bias` [features].

    Raises
    ------
    TypeRuleError
        x is no float tensor, its last size is symbolic, or `features` is no size.
    """
    with b.scope(name):
        n = b.width("linear", x)
        out = b.count("linear", "features", features)
        y = x @ b.param("weight", (n, out), x.dtype, fan_in=n, is_linear=True)
        if bias:
            y = y + b.param("bias", (out,), x.dtype, fan_in=n)
        return activate(b, y, activation)


def mlp(b: Builder, x: Value, features: tuple[int, ...] | list[int], *, bias: bool = True,
        activation: Activation = "relu", last_activation: Activation = None, name: str | None = None) -> Value:
    """Linear layers one after another, named "0", "1", ...; `activation` between them.

    Parameters
    ----------
    b : Builder
    x : Value
        [..., in]
    features : sequence of int
        One per layer.
    bias : bool
    activation, last_activation : str, callable or None
        After all layers but the last, after the last.
    name : str, optional

    Raises
    ------
    TypeRuleError
        As for `linear`; or there is no layer.
    """
    with b.scope(name):
        if not isinstance(features, (tuple, list)) or not features:
            raise b.fail("mlp", f"features must be a non-empty sequence of sizes, got {features!r}")
        for i, n in enumerate(features):
            last = i == len(features) - 1
            x = linear(b, x, n, bias=bias, activation=last_activation if last else activation, name=str(i))
        return x


def embedding(b: Builder, ids: Value, num_embeddings: int, features: int, *, name: str | None = None) -> Value:
    """Rows of a table `weight` [num_embeddings, features] of the builder's type.

    Parameters
    ----------
    b : Builder
    ids : Value
        i32 or i64, any shape. An index beyond the table is an error of the run; -1 is the last row.
    num_embeddings, features : int
    name : str, optional

    Raises
    ------
    TypeRuleError
        `ids` are no integers, or a size is none.
    """
    with b.scope(name):
        if not isinstance(ids, Value) or ids.dtype not in (dtypes.i32, dtypes.i64):
            kind = ids.type if isinstance(ids, Value) else type(ids).__name__
            raise b.fail("embedding", f"ids must be a Value of i32 or i64, got {kind}")
        rows, n = b.count("embedding", "num_embeddings", num_embeddings), b.count("embedding", "features", features)
        return ops.gather(b.param("weight", (rows, n), init="normal"), ids, axis=0)


def layer_norm(b: Builder, x: Value, *, eps: float = 1e-5, bias: bool = True, name: str | None = None) -> Value:
    """Layer norm over the last axis with `weight` and `bias` [in] (Ba, Kiros, Hinton 2016).

    Parameters
    ----------
    b : Builder
    x : Value
        [..., in]
    eps : float
        Added to the variance.
    bias : bool
    name : str, optional
    """
    with b.scope(name):
        n = b.width("layer_norm", x)
        weight = b.param("weight", (n,), x.dtype, init="ones")
        shift = b.param("bias", (n,), x.dtype, init="zeros") if bias else None
        if b.fused:
            return ops.layer_norm(x, weight, shift, eps=eps)
        d = x - ops.reduce_mean(x, axes=-1, keepdims=True)
        y = d / ops.sqrt(ops.reduce_mean(d * d, axes=-1, keepdims=True) + eps) * weight
        return y if shift is None else y + shift


def rms_norm(b: Builder, x: Value, *, eps: float = 1e-6, name: str | None = None) -> Value:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last axis (Zhang, Sennrich 2019).

    Parameters
    ----------
    b : Builder
    x : Value
        [..., in]
    eps : float
    name : str, optional
    """
    with b.scope(name):
        weight = b.param("weight", (b.width("rms_norm", x),), x.dtype, init="ones")
        if b.fused:
            return ops.rms_norm(x, weight, eps=eps)
        return x / ops.sqrt(ops.reduce_mean(x * x, axes=-1, keepdims=True) + eps) * weight


def gated_mlp(b: Builder, x: Value, hidden: int, *, activation: Activation, bias: bool = False,
              name: str | None = None) -> Value:
    """``down_proj(activation(gate_proj(x)) * up_proj(x))`` (Shazeer 2020).

    Parameters
    ----------
    b : Builder
    x : Value
        [..., in]; the result has the same type.
    hidden : int
        Width inside.
    activation : str, callable or None
    bias : bool
    name : str, optional
    """
    with b.scope(name):
        n = b.width("gated_mlp", x)
        gate = linear(b, x, hidden, bias=bias, activation=activation, name="gate_proj")
        return linear(b, gate * linear(b, x, hidden, bias=bias, name="up_proj"), n, bias=bias, name="down_proj")


def swiglu(b: Builder, x: Value, hidden: int, *, bias: bool = False, name: str | None = None) -> Value:
    """`gated_mlp` with silu."""
    return gated_mlp(b, x, hidden, activation="silu", bias=bias, name=name)


def geglu(b: Builder, x: Value, hidden: int, *, bias: bool = False, name: str | None = None) -> Value:
    """`gated_mlp` with gelu."""
    return gated_mlp(b, x, hidden, activation="gelu", bias=bias, name=name)


def residual(b: Builder, x: Value, block: Callable[[Value], Value], *, name: str | None = None) -> Value:
    """``x + block(x)``.

    Parameters
    ----------
    b : Builder
    x : Value
    block : callable
        A function of a Value: an op, or a block with its builder and sizes bound.
    name : str, optional

    Raises
    ------
    TypeRuleError
        The block gives no Value of the type of x.
    """
    with b.scope(name):
        y = block(x)
        if not isinstance(y, Value) or y.type != x.type:
            kind = y.type if isinstance(y, Value) else type(y).__name__
            raise b.fail("residual", f"the block must give {x.type}, got {kind}")
        return x + y
