"""Fourier transforms and small linear algebra."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import data, simple
from rlx import ops


class Fourier(common.Family):
    """Rows of powers of two, of mixed factors, and of a prime length."""

    families = ("fft",)
    cases = {
        "rfft": simple(lambda x: ops.rfft(x), np.fft.rfft),
        "stft": simple(lambda x: ops.stft(x, n=400, hop=160), None),
    }
    params = common.axes(cases, ("f32", "f64"), [(16, 512), (16, 480), (16, 997), (1, 16000)])


def _square(size: Any, dtype: str) -> np.ndarray:
    batch, n = size
    return data((batch, n, n), dtype) + 3 * np.eye(n, dtype=dtype.replace("f", "float"))


def _inverse(size: Any, dtype: str) -> Any:
    return ops.inverse, [_square(size, dtype)], [], np.linalg.inv


def _det(size: Any, dtype: str) -> Any:
    return ops.det, [_square(size, dtype)], [], np.linalg.det


class Linear(common.Family):
    """(batch, n)."""

    families = ("linalg",)
    cases = {"inverse": _inverse, "det": _det}
    params = common.axes(cases, ("f32", "f64"), [(1000, 3), (16, 32), (1, 256)])


def _grid(size: Any, dtype: str) -> Any:
    c, n = size
    grid = np.clip(data((1, n, n, 2), dtype, 1), -1, 1)
    return lambda x, g: ops.grid_sample(x, g), [data((1, c, n, n), dtype), grid], [], None


def _boxes(size: Any, dtype: str) -> Any:
    _, n = size
    rng = np.random.default_rng(0)
    low = rng.random((1, n, 2))
    boxes = np.concatenate([low, low + 0.1], -1).astype(np.float32)
    scores = rng.random((1, 1, n)).astype(np.float32)
    most, overlap = np.array(100), np.array(0.5, np.float32)
    return (lambda b, s: ops.non_max_suppression(b, s, b.graph.constant(most), b.graph.constant(overlap)),
            [boxes, scores], [], None)


class Boxes(common.Family):
    """(channels, points): what detectors do besides convolutions."""

    families = ("sample", "nms")
    cases = {"grid sample": _grid, "non max suppression": _boxes}
    params = common.axes(cases, ("f32",), [(16, 64), (64, 256)])
