"""Sorting, the k largest, running sums."""

import numpy as np

from benchmarks import common
from benchmarks.common import simple
from rlx import ops


class Order(common.Family):
    """Along the last axis."""

    families = ("order", "cumulative")
    cases = {
        "sort": simple(lambda x: ops.sort(x, axis=-1), lambda x: np.sort(x, -1, kind="stable")),
        "argsort": simple(lambda x: ops.argsort(x, axis=-1), lambda x: np.argsort(x, -1, kind="stable")),
        "top 10": simple(lambda x: ops.topk(x, k=10, axis=-1), lambda x: np.argpartition(x, -10, -1)[..., -10:]),
        "argmax": simple(lambda x: ops.argmax(x, axis=-1), lambda x: x.argmax(-1)),
        "cumsum": simple(lambda x: ops.cumsum(x, axis=-1), lambda x: x.cumsum(-1)),
    }
    params = common.axes(cases, ("f32", "i64"), [(1, 1000), (64, 1000), (1, 100000)])
