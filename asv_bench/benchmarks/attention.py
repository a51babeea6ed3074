"""Attention: one query against a long past, and whole sequences."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import data
from rlx import ops


def _twin(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.asarray(q.shape[-1], q.dtype))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def _attention(size: Any, dtype: str) -> Any:
    heads, queries, keys, depth = size
    return (ops.attention, [data((1, heads, queries, depth), dtype), data((1, heads, keys, depth), dtype, 1),
                            data((1, heads, keys, depth), dtype, 2)], [], _twin)


def _causal(size: Any, dtype: str) -> Any:
    _, inputs, constants, _ = _attention(size, dtype)
    return lambda q, k, v: ops.attention(q, k, v, causal=True), inputs, constants, None


class Attention(common.Family):
    """(heads, queries, keys, depth)."""

    families = ("attention",)
    cases = {"full": _attention, "causal": _causal}
    params = common.axes(cases, ("f32", "bf16"), [(12, 1, 1024, 64), (12, 128, 128, 64), (8, 512, 512, 64)])
