"""Elementwise ops, alone and in chains that become one region."""

import numpy as np

from benchmarks import common
from benchmarks.common import FLOATS, simple
from rlx import ops


class Elementwise(common.Family):
    """One op over memory in the first cache, the last cache and none."""

    families = ("unary", "binary", "fused")
    cases = {
        "add": simple(ops.add, np.add, inputs=2),
        "div": simple(ops.div, np.divide, inputs=2),
        "exp": simple(ops.exp, np.exp),
        "tanh": simple(ops.tanh, np.tanh),
        "gelu": simple(ops.gelu, None),
        "sigmoid": simple(ops.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        "where": simple(lambda a, b: ops.where(a < b, a, b), lambda a, b: np.where(a < b, a, b), inputs=2),
        "chain": simple(lambda a, b: ops.tanh(a * b + a) - ops.sqrt(ops.abs(b)),
                        lambda a, b: np.tanh(a * b + a) - np.sqrt(np.abs(b)), inputs=2),
        "arithmetic": simple(lambda a, b: ops.abs(ops.clip((a * b + a) * 0.5 - b, lo=-4.0, hi=4.0)) * a + b,
                             lambda a, b: np.abs(np.clip((a * b + a) * 0.5 - b, -4.0, 4.0)) * a + b, inputs=2),
        "bias": simple(lambda x: ops.relu(x + x.graph.constant(np.ones(x.shape[-1], x.dtype.numpy))),
                       lambda x: np.maximum(x + np.ones(x.shape[-1], x.dtype), 0)),
    }
    params = common.axes(cases, FLOATS, [1000, 1 << 17, 1 << 21])


class Integers(common.Family):
    """Wrapping arithmetic and casts."""

    families = ("unary", "binary")
    cases = {
        "add": simple(ops.add, np.add, inputs=2),
        "mul": simple(ops.mul, np.multiply, inputs=2),
        "floor_div": simple(ops.floor_div, np.floor_divide, inputs=2),
        "to_f32": simple(lambda x: ops.cast(x, dtype="f32"), lambda x: x.astype(np.float32)),
    }
    params = common.axes(cases, ("i8", "i32", "i64"), [1 << 17])
