"""Casts to and from element types that only the host knows: strings, 4 and 2 bit types, powers of two."""

import functools
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.elements import HOST_TYPES, STRING, numpy_type
from rlx.onnx.steps import Slot
from rlx.onnx.tensors import Array, type_name


@functools.cache
def _codes() -> dict[np.dtype[Any], int]:
    return {np.dtype(t): code for code, t in HOST_TYPES.items()}


@functools.cache
def float8_types() -> dict[np.dtype[Any], int]:
    """ONNX codes of the NumPy types of float8."""
    return {d.numpy: d.onnx for d in dtypes.FLOAT8}


def code_of(n: NodeContext, i: int) -> int:
    """ONNX code of an operand's element type."""
    found = n.dtype(i)
    if found is not None:
        return found.onnx
    item = n.item(i)
    value = item if isinstance(item, np.ndarray) else n.tracer.current(item) if isinstance(item, Slot) else None
    if not isinstance(value, np.ndarray):
        raise FormatError(f"operand {i} must be a tensor, got {type(item).__name__}")
    return STRING if value.dtype.kind == "O" else _codes()[value.dtype]


def cast(n: NodeContext, code: int) -> Any:
    """Operand 0 in another element type, by the rules of ONNX's Cast."""
    target = dtypes.from_onnx(code)
    saturate = bool(n.int("saturate", 1))
    if target is not None and not n.on_host(0):
        return ops.cast(n.x(0), dtype=target, saturate=saturate and target.is_float8)
    mode = n.str("round_mode", "up")
    numpy_type(code, "attribute 'to'")
    return n.host(lambda x: convert(x, code, saturate, mode), [n.item(0)])


def convert(x: Array, code: int, saturate: bool = True, mode: str = "up") -> Array:
    """An array in another element type, any to any."""
    what = f"cast to {type_name(code)}"
    target = numpy_type(code, what)
    if target.kind == "O":
        return np.asarray([_text(v) for v in x.reshape(-1)] or np.empty(0), object).reshape(x.shape)
    if x.dtype.kind == "O":
        return _from_text(x, target, what, saturate)
    if code not in HOST_TYPES:
        if x.dtype.name in ("int4", "uint4", "int2", "uint2"):
            x = x.astype(np.int8)
        wide = x if x.dtype.kind in "fiub" else x.astype(np.float32)
        dtype = dtypes.as_dtype(target)
        if target.kind in "iub" or dtype.is_float8:
            from rlx.ops.unary import cast_array

            return cast_array(wide, dtype, saturate and dtype.is_float8)
        return wide.astype(target)
    if target.name in ("int4", "uint4", "int2", "uint2"):
        return _to_small_int(x, target)
    wide = x.astype(np.float32)
    if target.name == "float8_e8m0fnu":
        return _to_e8m0(wide, saturate, mode)
    import ml_dtypes

    limit = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
    return np.asarray(np.clip(wide, -limit, limit).astype(target))  # float4_e2m1fn


def _to_small_int(x: Array, target: np.dtype[Any]) -> Array:
    """Truncated and wrapped."""
    bits = int(target.name[-1])
    wide = x if x.dtype.kind in "iu" else np.clip(np.trunc(np.nan_to_num(x.astype(np.float64))), -(2.0**62), 2.0**62)
    wrapped = np.bitwise_and(wide.astype(np.int64), (1 << bits) - 1)
    if not target.name.startswith("u"):
        wrapped = np.where(wrapped >= 1 << bits - 1, wrapped - (1 << bits), wrapped)
    return wrapped.astype(np.int8).astype(target)


def small_int_range(target: np.dtype[Any]) -> tuple[int, int]:
    """Lowest and highest value of a type of 2 or 4 bits."""
    bits = int(target.name[-1])
    return (0, (1 << bits) - 1) if target.name.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _to_e8m0(x: Array, saturate: bool, mode: str) -> Array:
    from onnx import numpy_helper

    return np.asarray(numpy_helper.to_float8e8m0(x, saturate=saturate, round_mode=mode))


def _text(v: Any) -> str:
    if isinstance(v, (float, np.floating)) or getattr(getattr(v, "dtype", None), "kind", "") == "V":
        number = float(v)
        if np.isnan(number):
            return "NaN"
        if np.isinf(number):
            return "INF" if number > 0 else "-INF"
        if isinstance(v, np.floating):
            return (
                np.format_float_positional(v, trim="-") if 1e-5 <= abs(number) < 1e16 or number == 0 else repr(v.item())
            )
        return repr(number)
    return str(v)


def _from_text(x: Array, target: np.dtype[Any], what: str, saturate: bool) -> Array:
    def one(s: Any) -> Any:
        text = s.decode() if isinstance(s, bytes) else str(s)
        try:
            if target.kind == "b":
                return text.strip().lower() in ("true", "1") or (
                    text.strip().lower() not in ("false", "0", "") and float(text) != 0
                )
            return (
                float(text)
                if target.kind not in "iu"
                else int(float(text))
                if not text.strip().lstrip("+-").isdigit()
                else int(text)
            )
        except (ValueError, OverflowError):
            raise FormatError(f"{what}: a string must be a number, got {text!r}") from None

    wide = np.asarray([one(s) for s in x.reshape(-1)])
    if (code := float8_types().get(target)) is not None:
        return convert(wide.astype(np.float64), code, saturate).reshape(x.shape)
    return wide.astype(target).reshape(x.shape)
