"""Normalisation."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import FLOATS, data
from rlx import ops


def _layer_norm(size: Any, dtype: str) -> Any:
    def twin(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + bias

    width = size[-1:]
    return ops.layer_norm, [data(size, dtype)], [data(width, dtype, 1), data(width, dtype, 2)], twin


def _rms_norm(size: Any, dtype: str) -> Any:
    def twin(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

    return ops.rms_norm, [data(size, dtype)], [data(size[-1:], dtype, 1)], twin


def _residual(size: Any, dtype: str) -> Any:
    width = size[-1:]
    return (lambda x, r, s, b: ops.layer_norm(x + r, s, b), [data(size, dtype), data(size, dtype, 3)],
            [data(width, dtype, 1), data(width, dtype, 2)], None)


class Norm(common.Family):
    """Rows of a transformer."""

    families = ("norm",)
    cases = {"layer_norm": _layer_norm, "rms_norm": _rms_norm, "residual": _residual}
    params = common.axes(cases, FLOATS, [(1, 768), (128, 768), (512, 64)])
