"""Products of 8-bit tensors in i32 with what follows them; made by passes and by the quantised ops."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.dtypes import DType, f32, i8, i32, u8
from rlx.errors import TypeRuleError
from rlx.ir.opdef import EXACT, Array, Attr, OpDef
from rlx.ir.types import TensorType
from rlx.ops.conv import GEOMETRY, conv_reference, conv_type, first, last
from rlx.ops.matmul import Epilogue, epilogue_types, matmul_type, run_epilogue
from rlx.ops.unary import cast_array

SMALL = (i8, u8)
# bias i32 [N]; zero points one number or one per row of a, column of b; scale f32, one number or [N]
_TAIL = ("bias?", "a_zero?", "b_zero?", "scale?", "out_zero?", "extras*")
_ATTRS = (Attr("out", "dtype", i32), Attr("lo", "int", None), Attr("hi", "int", None), Attr("epilogue", "any", ()))


def bounds(out: DType, lo: int | None, hi: int | None) -> tuple[int, int]:
    """Limits of a quantised result."""
    info = np.iinfo(out.numpy)
    return int(info.min) if lo is None else lo, int(info.max) if hi is None else hi


def _result(op: str, product: TensorType, scale: TensorType | None, out_zero: TensorType | None,
            extras: tuple[TensorType, ...], out: DType, epilogue: Epilogue) -> tuple[TensorType, ...]:
    if out not in (i32, f32, *SMALL):
        raise TypeRuleError(f"{op}: out must be i32, f32, u8 or i8, got {out}")
    if (scale is None) != (out == i32):
        raise TypeRuleError(f"{op}: scale must be given unless the result is i32, got {scale} and {out}")
    if out_zero is not None and out_zero.dtype != out:
        raise TypeRuleError(f"{op}: out_zero type must be {out}, got {out_zero.dtype}")
    result = epilogue_types(op, product.with_dtype(out), extras, epilogue)
    if result.dtype != out:
        raise TypeRuleError(f"{op}: steps must keep the type {out}, got {result.dtype}")
    return (result,)


def _finish(acc: Array, scale: Array | None, out_zero: Array | None, extras: tuple[Array, ...], out: DType,
            lo: int | None, hi: int | None, epilogue: Epilogue) -> Array:
    if scale is None:
        return acc
    y: Array = acc.astype(np.float32) * scale
    if out != f32:
        y = np.rint(y) + (0 if out_zero is None else out_zero.astype(np.float32))
        low, high = bounds(out, lo, hi)
        return cast_array(np.clip(y, low, high), out)
    return run_epilogue(y, extras, epilogue)


def _rule(op: str, product: Callable[..., TensorType]) -> Callable[..., tuple[TensorType, ...]]:
    """The rule of an op whose sums have the type `product(a, b, bias, at)`."""

    def infer(
        a: TensorType,
        b: TensorType,
        bias: TensorType | None = None,
        a_zero: TensorType | None = None,
        b_zero: TensorType | None = None,
        scale: TensorType | None = None,
        out_zero: TensorType | None = None,
        *extras: TensorType,
        out: DType,
        lo: int | None,
        hi: int | None,
        epilogue: Epilogue,
        **at: Any,
    ) -> tuple[TensorType, ...]:
        return _result(op, product(a, b, bias, at), scale, out_zero, extras, out, epilogue)

    return infer


def _reference(sums: Callable[..., Array], spread: Callable[[Array, int], Array]) -> Callable[..., Array]:
    """The definition of an op with the sums `sums(a, b, a_zero, b_zero, at)`.

    `spread(v, rank)` lays numbers per channel along the channels of a result of that rank.
    """

    def run(
        a: Array,
        b: Array,
        bias: Array | None = None,
        a_zero: Array | None = None,
        b_zero: Array | None = None,
        scale: Array | None = None,
        out_zero: Array | None = None,
        *extras: Array,
        out: DType,
        lo: int | None,
        hi: int | None,
        epilogue: Epilogue,
        **at: Any,
    ) -> Array:
        acc = sums(a, b, a_zero, b_zero, at)
        acc = acc if bias is None else acc + spread(bias, a.ndim)
        scale = None if scale is None else spread(scale, a.ndim)
        return _finish(acc, scale, out_zero, extras, out, lo, hi, epilogue)

    return run


def _matmul_type(a: TensorType, b: TensorType, bias: TensorType | None, at: dict[str, Any]) -> TensorType:
    return TensorType(i32, matmul_type("int8_matmul", a, b))


def _matmul_sums(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None, at: dict[str, Any]) -> Array:
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - (a_zero.reshape(-1, 1) if a_zero.ndim else a_zero).astype(np.int32)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    return np.asarray(np.matmul(left, right))


int8_matmul = OpDef(
    "int8_matmul",
    ("a", "b", *_TAIL),
    _rule("int8_matmul", _matmul_type),
    _reference(_matmul_sums, lambda v, rank: v),
    "(a - a_zero) @ (b - b_zero) + bias in i32; times scale in f32, then steps, or rounded, plus out_zero, "
    "limited to [lo, hi].",
    attrs=_ATTRS,
    dtypes=SMALL,
    tolerance=EXACT,
    internal=True,
)


def _channels(v: Array, rank: int) -> Array:
    """Numbers per channel for a result [N, C, spatial...]."""
    return v.reshape(-1, *(1,) * (rank - 2)) if v.ndim else v


def _conv_type(x: TensorType, w: TensorType, bias: TensorType | None, at: dict[str, Any]) -> TensorType:
    return conv_type("int8_conv", x, w, bias, at)


def _conv_sums(x: Array, w: Array, a_zero: Array | None, b_zero: Array | None, at: dict[str, Any]) -> Array:
    left, right = x.astype(np.float64), w.astype(np.float64)
    left = left if a_zero is None else left - a_zero.astype(np.float64)
    right = right if b_zero is None else right - _channels(b_zero, w.ndim + 1).astype(np.float64)
    return conv_reference(left, right, None, **at).astype(np.int64).astype(np.int32)


_infer_conv = _rule("int8_conv", _conv_type)
_conv = _reference(_conv_sums, _channels)

int8_conv = OpDef(
    "int8_conv", ("x", "w", *_TAIL), _infer_conv, _conv, "int8_matmul as a convolution; padding stands for 0.",
    attrs=(*GEOMETRY, *_ATTRS), dtypes=SMALL, tolerance=EXACT, internal=True,
)


def _infer_nhwc(x: TensorType, *rest: Any, **at: Any) -> tuple[TensorType, ...]:
    extras, epilogue = rest[6:], at.pop("epilogue")
    (y,) = _infer_conv(first(x), *rest[:6], **at, epilogue=())
    return (epilogue_types("int8_conv_nhwc", last(y), extras, epilogue),)


def _nhwc(x: Array, *rest: Any, **at: Any) -> Array:
    extras, epilogue = rest[6:], at.pop("epilogue")
    y = np.moveaxis(_conv(np.moveaxis(x, -1, 1), *rest[:6], **at, epilogue=()), 1, -1)
    return run_epilogue(y, extras, epilogue)


int8_conv_nhwc = OpDef(
    "int8_conv_nhwc", ("x", "w", *_TAIL), _infer_nhwc, _nhwc, "int8_conv of x [N, spatial..., C].",
    attrs=(*GEOMETRY, *_ATTRS), dtypes=SMALL, tolerance=EXACT, internal=True,
)
