"""Reductions, contiguous and strided, and what is built on them."""

import numpy as np

from benchmarks import common
from benchmarks.common import FLOATS, simple
from rlx import ops

SHAPES = [(1000,), (512, 1024), (64, 64, 256)]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Reduce(common.Family):
    """Over the last axis, the first, and all."""

    families = ("reduce",)
    cases = {
        "sum last": simple(lambda x: ops.reduce_sum(x, axes=-1), lambda x: x.sum(-1)),
        "sum first": simple(lambda x: ops.reduce_sum(x, axes=0), lambda x: x.sum(0)),
        "sum all": simple(lambda x: ops.reduce_sum(x, axes=None), lambda x: x.sum()),
        "max last": simple(lambda x: ops.reduce_max(x, axes=-1), lambda x: x.max(-1)),
        "mean first": simple(lambda x: ops.reduce_mean(x, axes=0), lambda x: x.mean(0)),
    }
    params = common.axes(cases, FLOATS, SHAPES)


class Softmax(common.Family):
    """Rows of scores and of classes."""

    families = ("softmax",)
    cases = {
        "softmax": simple(lambda x: ops.softmax(x, axis=-1), _softmax),
        "log_softmax": simple(lambda x: ops.log_softmax(x, axis=-1), None),
    }
    params = common.axes(cases, FLOATS, [(128, 128), (8, 32000), (1, 1000)])
