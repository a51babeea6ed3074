"""Determinant and inverse of small matrices, in batches."""

from typing import Any

import numpy as np

from rlx.dtypes import FLOATS, DType, f64
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype

TOLERANCE = Tolerance(
    rtol={"f32": 1e-4, "f64": 1e-9, "f16": 1e-2, "bf16": 8e-2},
    atol={"f32": 1e-5, "f64": 1e-11, "f16": 1e-2, "bf16": 8e-2},
)


def _square(op: str, x: TensorType) -> None:
    require_dtype(op, x.dtype, FLOATS)
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise TypeRuleError(f"{op}: matrices must be square, got {x}")


def _infer_det(x: TensorType) -> tuple[TensorType, ...]:
    _square("det", x)
    return (x.with_shape(x.shape[:-2]),)


def _infer_inverse(x: TensorType) -> tuple[TensorType, ...]:
    _square("inverse", x)
    return (x,)


def _samples(shift: float) -> Any:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = []
        for shape in ((1, 1), (2, 2), (3, 3), (4, 7, 7), (2, 3, 5, 5), (0, 3, 3), (20, 20), (0, 0)):
            x = data(rng, f64, *shape, low=-1, high=1) + shift * np.eye(shape[-1])
            found.append(Sample((x.astype(dtype.numpy),)))
        return found

    return make


def _errors() -> list[ErrorSample]:
    return [
        ErrorSample((np.zeros((2, 3), np.float32),), {}, "must be square"),
        ErrorSample((np.zeros(3, np.float32),), {}, "must be square"),
        ErrorSample((np.zeros((2, 2), np.int32),), {}, "type must be one of"),
    ]


def _inverse(x: Array) -> Array:
    return np.asarray(np.linalg.inv(x))


det = OpDef(
    "det",
    ("x",),
    _infer_det,
    lambda x: np.linalg.det(x),
    "Determinant of the last two axes; of a 0 x 0 matrix 1.",
    dtypes=FLOATS,
    samples=_samples(1.0),
    errors=_errors,
    tolerance=TOLERANCE,
)
inverse = OpDef(
    "inverse",
    ("x",),
    _infer_inverse,
    _inverse,
    "Inverse of the last two axes; a singular or non-finite matrix raises at run time.",
    dtypes=FLOATS,
    samples=_samples(3.0),
    errors=_errors,
    tolerance=TOLERANCE,
)
