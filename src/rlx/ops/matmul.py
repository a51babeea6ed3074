"""Matrix products."""

from typing import Any

import numpy as np

from rlx.dtypes import NUMBERS, DType
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType, broadcast
from rlx.ops._rules import Rng, data, require_dtype, same_dtype

# Relative to the sum of magnitudes of the products, hence an absolute part.
PRODUCT = Tolerance(rtol={"f32": 1e-5, "f64": 1e-13, "f16": 4e-3, "bf16": 2e-2, "c64": 1e-5, "c128": 1e-13},
                    atol={"f32": 1e-4, "f64": 1e-12, "f16": 1e-2, "bf16": 1e-1, "c64": 1e-3, "c128": 1e-11})


def _infer_matmul(a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    dtype = same_dtype("matmul", [a, b])
    require_dtype("matmul", dtype, NUMBERS)
    if a.rank == 0 or b.rank == 0:
        raise TypeRuleError(f"matmul: operands must have rank >= 1, got {a} and {b}")
    left = a.shape if a.rank > 1 else (1, *a.shape)
    right = b.shape if b.rank > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        raise TypeRuleError(f"matmul: inner sizes must agree, got {a} and {b}")
    shape = broadcast([left[:-2], right[:-2]], "matmul")
    if a.rank > 1:
        shape = (*shape, left[-2])
    if b.rank > 1:
        shape = (*shape, right[-1])
    return (TensorType(dtype, shape),)


def _matmul_samples(dtype: DType, rng: Rng) -> list[Sample]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((4, 5), (5, 3)), ((1, 16), (16, 16)), ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)),
        ((2, 4, 5), (5, 3)), ((2, 1, 4, 5), (3, 5, 2)), ((0, 5), (5, 3)), ((2, 0), (0, 3)),
        ((17, 33), (33, 65)), ((3, 7, 9), (3, 9, 8)), ((130, 70), (70, 40)),
    ]
    return [Sample((data(rng, dtype, *s), data(rng, dtype, *t))) for s, t in pairs]


def _matmul_errors() -> list[ErrorSample]:
    a = np.zeros((2, 3), np.float32)
    return [ErrorSample((a, a), {}, "inner sizes"), ErrorSample((a, np.float32(1)), {}, "rank"),
            ErrorSample((a, np.zeros((3, 2))), {}, "types must match")]


def _matmul(a: Array, b: Array) -> Any:
    return np.matmul(a, b)


matmul = OpDef("matmul", ("a", "b"), _infer_matmul, _matmul,
               "Matrix product with NumPy's rules: leading axes broadcast, vectors are rows or columns.",
               dtypes=NUMBERS, samples=_matmul_samples, errors=_matmul_errors, tolerance=PRODUCT)
