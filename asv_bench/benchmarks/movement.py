"""Moving data: transposes, slices, concatenation, padding, gathering."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import data, simple
from rlx import ops


class Movement(common.Family):
    """Layouts of images and of sequences."""

    families = ("view", "movement")
    cases = {
        "transpose last": simple(lambda x: ops.transpose(x, perm=(0, 2, 1)),
                                 lambda x: np.ascontiguousarray(x.transpose(0, 2, 1))),
        "transpose heads": simple(lambda x: ops.transpose(x, perm=(1, 0, 2)),
                                  lambda x: np.ascontiguousarray(x.transpose(1, 0, 2))),
        "concat": simple(lambda a, b: ops.concat(a, b, axis=1), lambda a, b: np.concatenate([a, b], 1), inputs=2),
        "slice": simple(lambda x: ops.slice(x, starts=(1,), stops=(1 << 30,), axes=(1,), steps=(2,)),
                        lambda x: x[:, 1::2].copy()),
        "pad": simple(lambda x: ops.pad(x, before=(0, 1, 1), after=(0, 1, 1)),
                      lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1)))),
        "expand": simple(lambda x: ops.expand(x, shape=(4, *x.shape)),
                         lambda x: np.broadcast_to(x, (4, *x.shape)).copy()),
    }
    params = common.axes(cases, ("f32", "i8"), [(12, 64, 64), (64, 56, 56)])


def _gather(size: Any, dtype: str) -> Any:
    rows, width, n = size
    where = np.random.default_rng(1).integers(0, rows, n)
    return (lambda t, i: ops.gather(t, i, axis=0), [data((rows, width), dtype), where], [],
            lambda t, i: np.take(t, i, axis=0))


def _scatter(size: Any, dtype: str) -> Any:
    rows, width, n = size
    where = np.repeat(np.random.default_rng(1).integers(0, rows, n)[:, None], width, 1)
    return (lambda t, i, u: ops.scatter_elements(t, i, u, axis=0, reduction="add"),
            [data((rows, width), dtype), where, data((n, width), dtype, 2)], [], None)


class Index(common.Family):
    """(rows, width, indices): embeddings and their updates."""

    families = ("index",)
    cases = {"gather": _gather, "scatter add": _scatter}
    params = common.axes(cases, ("f32", "i64"), [(1000, 64, 128), (30000, 384, 128)])
