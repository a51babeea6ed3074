"""Products with weights of a few bits: codes, a scale and perhaps a zero point per block of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.dtypes import DType, bf16, f16, f32, u8
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype
from rlx.ops.matmul import PRODUCT, Epilogue, epilogue_types, run_epilogue

BITS = (2, 4, 8)


def row_bytes(k: int, bits: int) -> int:
    """Bytes of the K codes of a column."""
    return -(-k * bits // 8)


def block_count(k: int, block_size: int) -> int:
    """Scales of a column."""
    return -(-k // block_size)


def _infer(a: TensorType, codes: TensorType, scale: TensorType, zero: TensorType | None = None,
           bias: TensorType | None = None, *, bits: int, block_size: int) -> tuple[TensorType, ...]:
    op = "matmul_nbits"
    require_dtype(op, a.dtype, (f32, f16, bf16))
    require_dtype(op, codes.dtype, (u8,))
    require_dtype(op, scale.dtype, (f32,))
    if bits not in BITS:
        raise TypeRuleError(f"{op}: bits must be 2, 4 or 8, got {bits}")
    if a.rank < 2 or codes.rank != 2:
        raise TypeRuleError(f"{op}: a must have rank >= 2 and codes rank 2, got {a} and {codes}")
    k, n = a.shape[-1], codes.shape[0]
    if not isinstance(k, int) or not isinstance(n, int):
        raise TypeRuleError(f"{op}: K and N must be numbers, got {a} and {codes}")
    if block_size < 1 or (block_size < k and block_size % (32 // bits)):
        raise TypeRuleError(f"{op}: block_size must be a multiple of {32 // bits} or at least K, got {block_size}")
    if codes.shape[1] != row_bytes(k, bits):
        raise TypeRuleError(f"{op}: codes must have {row_bytes(k, bits)} bytes a row for K={k}, got {codes}")
    blocks = block_count(k, block_size)
    if scale.shape != (n, blocks):
        raise TypeRuleError(f"{op}: scale must be [{n}, {blocks}], got {scale}")
    if zero is not None and zero != TensorType(u8, (n, blocks)):
        raise TypeRuleError(f"{op}: zero must be u8[{n}, {blocks}], got {zero}")
    if bias is not None and bias != TensorType(a.dtype, (n,)):
        raise TypeRuleError(f"{op}: bias must be {a.dtype}[{n}], got {bias}")
    return (a.with_shape((*a.shape[:-1], n)),)


def _infer_fused(a: TensorType, codes: TensorType, scale: TensorType, zero: TensorType | None = None,
                 bias: TensorType | None = None, *extras: TensorType, bits: int, block_size: int,
                 epilogue: Epilogue) -> tuple[TensorType, ...]:
    (result,) = _infer(a, codes, scale, zero, bias, bits=bits, block_size=block_size)
    return (epilogue_types("fused_matmul_nbits", result, extras, epilogue),)


def unpack(codes: Array, bits: int, count: int) -> Array:
    """`count` codes of the last axis of bytes, the lowest bits first."""
    parts = [(codes >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*codes.shape[:-1], -1)[..., :count]


def pack(codes: Array, bits: int) -> Array:
    """Inverse of `unpack`: u8 codes of the last axis to bytes."""
    per = 8 // bits
    padded = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // per) * per), np.uint8)
    padded[..., : codes.shape[-1]] = codes
    parts = padded.reshape(*codes.shape[:-1], -1, per)
    result = np.zeros(parts.shape[:-1], np.uint8)
    for i in range(per):
        result |= parts[..., i] << (bits * i)
    return result


def dequantised(codes: Array, scale: Array, zero: Array | None, k: int, bits: int, block_size: int) -> Array:
    """The weights [N, K] in f32: (code - zero) * scale, rounded once."""
    q = unpack(codes, bits, k).astype(np.float32)
    block_size = max(1, min(block_size, k))
    z: Any = np.float32(1 << (bits - 1)) if zero is None else np.repeat(zero.astype(np.float32), block_size, 1)[:, :k]
    return np.asarray((q - z) * np.repeat(scale, block_size, 1)[:, :k])


def _matmul_nbits(a: Array, codes: Array, scale: Array, zero: Array | None = None, bias: Array | None = None, *,
                  bits: int, block_size: int) -> Array:
    weights = dequantised(codes, scale.astype(np.float32), zero, a.shape[-1], bits, block_size)
    result = np.matmul(a, weights.T.astype(a.dtype))
    return np.asarray(result if bias is None else result + bias)


def _fused(a: Array, codes: Array, scale: Array, zero: Array | None = None, bias: Array | None = None,
           *extras: Array, bits: int, block_size: int, epilogue: Epilogue) -> Array:
    result = _matmul_nbits(a, codes, scale, zero, bias, bits=bits, block_size=block_size)
    return run_epilogue(result, extras, epilogue)


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    shapes: Sequence[tuple[tuple[int, ...], int, int, int, bool, bool]] = [
        ((1, 64), 16, 4, 32, False, False), ((3, 64), 40, 4, 16, True, True), ((2, 9, 100), 7, 8, 128, True, False),
        ((33, 40), 19, 2, 16, True, True), ((5, 1), 3, 8, 4, False, True), ((0, 32), 5, 4, 32, True, False),
    ]  # fmt: skip
    for shape, n, bits, block, zeros, bias in shapes:
        k = shape[-1]
        codes = rng.integers(0, 256, (n, row_bytes(k, bits)), np.uint8)
        scale = (rng.standard_normal((n, block_count(k, block))) / 2**bits).astype(np.float32)
        zero = rng.integers(0, 1 << bits, scale.shape).astype(np.uint8) if zeros else None
        found.append(Sample((data(rng, dtype, *shape), codes, scale, zero, data(rng, dtype, n) if bias else None),
                            {"bits": bits, "block_size": block}))  # fmt: skip
    return found


def _errors() -> list[ErrorSample]:
    a, codes, scale = np.zeros((2, 64), np.float32), np.zeros((3, 32), np.uint8), np.zeros((3, 2), np.float32)
    at = {"bits": 4, "block_size": 32}
    return [
        ErrorSample((a, codes, scale), {"bits": 3, "block_size": 32}, "bits must be"),
        ErrorSample((a, codes, scale), {"bits": 4, "block_size": 12}, "block_size must be"),
        ErrorSample((a, codes[:, :8], scale), at, "codes must have"),
        ErrorSample((a, codes, scale[:, :1]), at, "scale must be"),
        ErrorSample((a, codes, scale, codes), at, "zero must be"),
        ErrorSample((a, codes, scale, None, scale[0]), at, "bias must be"),
        ErrorSample((a[0], codes, scale), at, "rank >= 2"),
        ErrorSample((a.astype(np.float64), codes, scale), at, "matmul_nbits"),
    ]


matmul_nbits = OpDef(
    "matmul_nbits", ("a", "codes", "scale", "zero?", "bias?"), _infer, _matmul_nbits,
    "Product with B[k, n] = (code - zero[n, k // block_size]) * scale[n, k // block_size], formed in f32. codes: u8, "
    "a row of K codes of `bits` bits per column of B, the lowest bits first; zero: u8, absent for 2^(bits - 1) "
    "everywhere.",
    attrs=(Attr("bits", "int"), Attr("block_size", "int")),
    dtypes=(f32, f16, bf16), samples=_samples, errors=_errors, tolerance=PRODUCT,
)

fused_matmul_nbits = OpDef(
    "fused_matmul_nbits", ("a", "codes", "scale", "zero?", "bias?", "extras*"), _infer_fused, _fused,
    "matmul_nbits, then elementwise steps on the tile.",
    attrs=(*matmul_nbits.attrs, Attr("epilogue", "any", ())), dtypes=(f32,), tolerance=PRODUCT, internal=True,
)
