"""Matrix products."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from rlx.dtypes import NUMBERS, REALS, DType, f32
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import Shape, TensorType, broadcast
from rlx.ops._rules import Rng, data, require_dtype, require_rank, same_dtype

# Steps (op name, attributes as pairs, index among the extra operands or None, operand first?).
Epilogue: TypeAlias = tuple[tuple[str, tuple[tuple[str, Any], ...], int | None, bool], ...]

# Relative to the sum of magnitudes of the products, hence an absolute part.
PRODUCT = Tolerance(rtol={"f32": 1e-5, "f64": 1e-13, "f16": 4e-3, "bf16": 2e-2, "c64": 1e-5, "c128": 1e-13},
                    atol={"f32": 1e-4, "f64": 1e-12, "f16": 1e-2, "bf16": 1e-1, "c64": 1e-3, "c128": 1e-11})


def matmul_type(op: str, a: TensorType, b: TensorType) -> Shape:
    """Shape of a product: NumPy's rules for leading axes and vectors."""
    if a.rank == 0 or b.rank == 0:
        raise TypeRuleError(f"{op}: operands must have rank >= 1, got {a} and {b}")
    left = a.shape if a.rank > 1 else (1, *a.shape)
    right = b.shape if b.rank > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        raise TypeRuleError(f"{op}: inner sizes must agree, got {a} and {b}")
    shape = broadcast([left[:-2], right[:-2]], op)
    shape += (left[-2],) if a.rank > 1 else ()
    return shape + ((right[-1],) if b.rank > 1 else ())


def _infer_matmul(a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    dtype = same_dtype("matmul", [a, b])
    require_dtype("matmul", dtype, NUMBERS)
    return (TensorType(dtype, matmul_type("matmul", a, b)),)


def _matmul_samples(dtype: DType, rng: Rng) -> list[Sample]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((4, 5), (5, 3)), ((1, 16), (16, 16)), ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)),
        ((2, 4, 5), (5, 3)), ((2, 1, 4, 5), (3, 5, 2)), ((0, 5), (5, 3)), ((2, 0), (0, 3)),
        ((17, 33), (33, 65)), ((3, 7, 9), (3, 9, 8)), ((130, 70), (70, 40)),
    ]
    return [Sample((data(rng, dtype, *s), data(rng, dtype, *t))) for s, t in pairs]


def _matmul_errors() -> list[ErrorSample]:
    a = np.zeros((2, 3), np.float32)
    return [ErrorSample((a, a), {}, "inner sizes"), ErrorSample((a, np.asarray(1, np.float32)), {}, "rank"),
            ErrorSample((a, np.zeros((3, 2))), {}, "types must match")]


def _matmul(a: Array, b: Array) -> Any:
    return np.matmul(a, b)


matmul = OpDef("matmul", ("a", "b"), _infer_matmul, _matmul,
               "Matrix product with NumPy's rules: leading axes broadcast, vectors are rows or columns.",
               dtypes=NUMBERS, samples=_matmul_samples, errors=_matmul_errors, tolerance=PRODUCT)


def epilogue_types(op: str, result: TensorType, extras: Sequence[TensorType], epilogue: Epilogue) -> TensorType:
    """Type after the steps of an epilogue."""
    from rlx.ops import TABLE

    for name, attrs, operand, swap in epilogue:
        types = [result]
        if operand is not None:
            types = [extras[operand], result] if swap else [result, extras[operand]]
        (after,) = TABLE[name].infer(*types, **dict(attrs))
        if after.shape != result.shape:
            raise TypeRuleError(f"{op}: a step must keep the shape {list(result.shape)}, got {list(after.shape)}")
        result = after
    return result


def run_epilogue(result: Array, extras: Sequence[Array], epilogue: Epilogue) -> Array:
    """NumPy definition of an epilogue."""
    from rlx.ops import TABLE

    for name, attrs, operand, swap in epilogue:
        values = [result]
        if operand is not None:
            values = [extras[operand], result] if swap else [result, extras[operand]]
        result = np.asarray(TABLE[name].reference(*values, **dict(attrs)))
    return result


def stored_as(a: TensorType, b: TensorType) -> TensorType:
    """The type that weights b compute in: halves are widened to the f32 of a."""
    return TensorType(f32, b.shape) if b.dtype.is_stored and a.dtype == f32 else b


def _permuted(t: TensorType, perm: tuple[int, ...] | None) -> TensorType:
    return t if perm is None else t.with_shape([t.shape[p] for p in perm])


def _infer_fused(a: TensorType, b: TensorType, bias: TensorType | None = None, *extras: TensorType,
                 perm_a: tuple[int, ...] | None, perm_b: tuple[int, ...] | None,
                 perm_out: tuple[int, ...] | None, epilogue: Epilogue) -> tuple[TensorType, ...]:
    b = stored_as(a, b)
    (result,) = _infer_matmul(_permuted(a, perm_a), _permuted(b, perm_b))
    if bias is not None and bias != TensorType(result.dtype, result.shape[-1:]):
        raise TypeRuleError(f"fused_matmul: bias must be {result.dtype}[{result.shape[-1]}], got {bias}")
    return (epilogue_types("fused_matmul", _permuted(result, perm_out), extras, epilogue),)


def _fused(a: Array, b: Array, bias: Array | None = None, *extras: Array, perm_a: tuple[int, ...] | None,
           perm_b: tuple[int, ...] | None, perm_out: tuple[int, ...] | None, epilogue: Epilogue) -> Array:
    a = a if perm_a is None else np.transpose(a, perm_a)
    b = b if perm_b is None else np.transpose(b, perm_b)
    result = np.matmul(a, b.astype(a.dtype, copy=False))
    result = result if bias is None else result + bias
    result = result if perm_out is None else np.transpose(result, perm_out)
    return run_epilogue(result, extras, epilogue)


fused_matmul = OpDef(
    "fused_matmul", ("a", "b", "bias?", "extras*"), _infer_fused, _fused,
    "Matrix product of transposed operands plus bias, its axes transposed, then elementwise steps on the tile; "
    "b may be stored in a half type when a is f32.",
    attrs=(Attr("perm_a", "ints", None), Attr("perm_b", "ints", None), Attr("perm_out", "ints", None),
           Attr("epilogue", "any", ())),
    dtypes=NUMBERS, tolerance=PRODUCT, internal=True,
)


def _infer_gemm(a: TensorType, b: TensorType, c: TensorType | None = None, *, alpha: float, beta: float,
                trans_a: bool, trans_b: bool) -> tuple[TensorType, ...]:
    types = [t for t in (a, b, c) if t is not None]
    dtype = same_dtype("gemm", types)
    require_dtype("gemm", dtype, REALS)
    if dtype.is_int and not (float(alpha).is_integer() and float(beta).is_integer()):
        raise TypeRuleError(f"gemm: alpha and beta of an integer product must be whole, got {alpha} and {beta}")
    require_rank("gemm", a, 2, 2, "a")
    require_rank("gemm", b, 2, 2, "b")
    (m, k) = a.shape[::-1] if trans_a else a.shape
    (k2, n) = b.shape[::-1] if trans_b else b.shape
    if k != k2:
        raise TypeRuleError(f"gemm: inner sizes must agree, got {a} and {b} (trans_a={trans_a}, trans_b={trans_b})")
    if c is not None and broadcast([c.shape, (m, n)], "gemm") != (m, n):
        raise TypeRuleError(f"gemm: c must broadcast to {[m, n]}, got {c}")
    return (TensorType(dtype, (m, n)),)


def _gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float, beta: float, trans_a: bool, trans_b: bool
) -> Array:
    result = (a.T if trans_a else a) @ (b.T if trans_b else b)
    result = result * np.asarray(alpha).astype(a.dtype)
    return np.asarray(result if c is None else result + c * np.asarray(beta).astype(a.dtype))


def _gemm_in_ops(a: Any, b: Any, c: Any = None, *, alpha: float, beta: float, trans_a: bool,
                 trans_b: bool) -> Any:
    from rlx import ops

    def number(x: float) -> Array:
        return np.asarray(x).astype(a.dtype.numpy)

    left = ops.transpose(a, perm=(1, 0)) if trans_a else a
    right = ops.transpose(b, perm=(1, 0)) if trans_b else b
    result = matmul(left, right)
    if alpha != 1.0:
        result = ops.mul(result, number(alpha))
    if c is not None and beta != 0.0:
        result = ops.add(result, c if beta == 1.0 else ops.mul(c, number(beta)))
    return result


def _gemm_samples(dtype: DType, rng: Rng) -> list[Sample]:
    a, b = data(rng, dtype, 5, 7), data(rng, dtype, 7, 9)
    plain = [
        Sample((a, b)), Sample((a, b, data(rng, dtype, 9)), {}), Sample((a, b, data(rng, dtype, 5, 1)), {}),
        Sample((a.T.copy(), b, data(rng, dtype)), {"trans_a": True}),
        Sample((a, b.T.copy(), data(rng, dtype, 5, 9)), {"trans_b": True}),
        Sample((a, b, data(rng, dtype, 1, 9)), {"alpha": 2.0, "beta": 3.0}),
        Sample((data(rng, dtype, 0, 7), b, data(rng, dtype, 9)), {}),
    ]
    if dtype.is_float:
        plain.append(Sample((a, b, data(rng, dtype, 9)), {"alpha": 0.5, "beta": 0.25}))
    return plain


def _gemm_errors() -> list[ErrorSample]:
    a = np.zeros((2, 3), np.float32)
    return [
        ErrorSample((a, a), {}, "inner sizes"),
        ErrorSample((a, a, np.zeros((3, 3), np.float32)), {"trans_b": True}, "broadcast"),
        ErrorSample((a, np.zeros(3, np.float32)), {}, "rank"),
        ErrorSample((a, a.astype(np.int32)), {"trans_b": True}, "types must match"),
    ]


gemm = OpDef(
    "gemm", ("a", "b", "c?"), _infer_gemm, _gemm, "alpha op(a) op(b) + beta c, where op may transpose.",
    attrs=(Attr("alpha", "float", 1.0), Attr("beta", "float", 1.0), Attr("trans_a", "bool", False),
           Attr("trans_b", "bool", False)),
    dtypes=REALS, decompose=_gemm_in_ops, samples=_gemm_samples, errors=_gemm_errors, tolerance=PRODUCT,
)
