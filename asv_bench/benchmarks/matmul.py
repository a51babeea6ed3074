"""Matrix products: squares, tall and flat, batches, products by a constant with an epilogue."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import data
from rlx import ops

SIZES = [(1, 512, 512), (8, 1024, 1024), (64, 64, 64), (256, 256, 256), (197, 768, 768), (512, 512, 512)]


def _two(size: Any, dtype: str) -> Any:
    m, k, n = size
    return ops.matmul, [data((m, k), dtype), data((k, n), dtype, 1)], [], np.matmul


def _weight(size: Any, dtype: str) -> Any:
    m, k, n = size
    return ops.matmul, [data((m, k), dtype)], [data((k, n), dtype, 1)], np.matmul


def _dense(size: Any, dtype: str) -> Any:
    m, k, n = size
    return (lambda x, w, b: ops.relu(x @ w + b), [data((m, k), dtype)], [data((k, n), dtype, 1), data((n,), dtype, 2)],
            lambda x, w, b: np.maximum(x @ w + b, 0))


class Matmul(common.Family):
    """(m, k, n)."""

    families = ("matmul",)
    cases = {"two inputs": _two, "weight": _weight, "dense": _dense}
    params = common.axes(cases, ("f32", "f64", "bf16"), SIZES)


def _batched(size: Any, dtype: str) -> Any:
    b, s, d = size
    return (lambda q, k: q @ ops.transpose(k, perm=(0, 2, 1)), [data((b, s, d), dtype), data((b, s, d), dtype, 1)], [],
            lambda q, k: q @ k.transpose(0, 2, 1))


class Batched(common.Family):
    """(batch, rows, depth): scores of attention."""

    families = ("matmul",)
    cases = {"scores": _batched}
    params = common.axes(cases, ("f32",), [(12, 128, 64), (96, 16, 32)])
