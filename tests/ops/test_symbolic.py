"""Rows take symbolic sizes: a graph with an open batch equals the one built for the number."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops

_GRID = np.zeros((1, 3, 2, 2), np.float32)
CALLS: dict[str, Callable[[Any], Any]] = {
    "reduce_sum": lambda x: ops.reduce_sum(x, axes=(1, 3)),
    "reduce_mean batch": lambda x: ops.reduce_mean(x, axes=(0,), keepdims=True),
    "reduce_max": lambda x: ops.reduce_max(x),
    "softmax": lambda x: ops.softmax(x, axis=0),
    "log_sum_exp": lambda x: ops.reduce_log_sum_exp(x, axes=(2,)),
    "layer_norm": lambda x: ops.layer_norm(x, axis=2),
    "rms_norm": lambda x: ops.rms_norm(x),
    "group_norm": lambda x: ops.group_norm(x, num_groups=2),
    "instance_norm": lambda x: ops.instance_norm(x),
    "batch_norm": lambda x: ops.batch_norm(x, *(np.ones(4, np.float32) for _ in range(4))),
    "mean_variance_norm": lambda x: ops.mean_variance_norm(x, axes=(0, 2)),
    "lrn": lambda x: ops.lrn(x, size=3),
    "lp_norm": lambda x: ops.lp_norm(x, axis=0),
    "moments": lambda x: ops.moments(x, axes=(0,))[1],
    "gather": lambda x: ops.gather(x, np.array([0, -1, 2]), axis=1),
    "gather batch": lambda x: ops.gather(x, np.array([0, -1]), axis=0),
    "gather_nd": lambda x: ops.gather_nd(x, np.array([[0, 1], [-1, 2]])),
    "scatter_nd": lambda x: ops.scatter_nd(x, np.array([[0]]), np.zeros((1, 4, 5, 6), np.float32)),
    "argmax": lambda x: ops.argmax(x, axis=0),
    "topk": lambda x: ops.topk(x, k=2, axis=1)[1],
    "sort": lambda x: ops.sort(x, axis=0),
    "cumsum": lambda x: ops.cumsum(x, axis=0),
    "pad": lambda x: ops.pad(x, before=(1, 0, 2, 0), after=(0, 0, 0, 1), value=2.5),
    "tile": lambda x: ops.tile(x, reps=(2, 1, 1, 2)),
    "repeat": lambda x: ops.repeat(x, repeats=(1, 1, 2, 2)),
    "flip": lambda x: ops.flip(x, axes=(0, 2)),
    "roll": lambda x: ops.roll(x, shifts=(1, 2), axes=(0, 3)),
    "trilu": lambda x: ops.trilu(x),
    "depth_to_space": lambda x: ops.depth_to_space(x, block=2),
    "space_to_depth": lambda x: ops.space_to_depth(ops.pad(x, before=(0, 0, 0, 0), after=(0, 0, 1, 0)), block=2),
    "split": lambda x: ops.split(x, [1, 3], axis=1)[1],
    "unstack": lambda x: ops.stack(ops.unstack(x, axis=1)[::-1], axis=0),
    "max_pool": lambda x: ops.max_pool(x, kernel=(2, 2)),
    "avg_pool": lambda x: ops.avg_pool(x, kernel=(2, 2), strides=(2, 2), ceil_mode=True),
    "resize": lambda x: ops.resize(x, scales=(1, 1, 2, 1.5), mode="linear"),
    "resize nearest": lambda x: ops.resize(x, sizes=(x.shape[0], 4, 10, 12)),
    "grid_sample": lambda x: ops.grid_sample(x, ops.expand(_GRID, shape=(x.shape[0], 3, 2, 2), graph=x.graph)),
    "nonzero": lambda x: ops.nonzero(ops.relu(x)),
    "unique": lambda x: ops.unique(ops.round(x))[0],
    "compress": lambda x: ops.compress(x, np.array([True, False, True, True]), axis=1),
    "arange": lambda x: ops.arange(0, x.shape[0], dtype=rlx.f32, graph=x.graph),
}


@pytest.mark.parametrize("name", CALLS)
def test_open_batch_equals_fixed_batch(name: str) -> None:
    data = np.random.default_rng(0).standard_normal((3, 4, 5, 6)).astype(np.float32)
    results = []
    for batch in ("batch", 3):
        graph = rlx.Graph("g")
        graph.output("y", CALLS[name](graph.input("x", (batch, 4, 5, 6))))
        results.append(rlx.compile(graph).run({"x": data})["y"])
    np.testing.assert_array_equal(*results)


def test_center_crop_pad() -> None:
    data = np.arange(1, 31, dtype=np.float32).reshape(5, 6)
    graph = rlx.Graph("g")
    graph.output("y", ops.center_crop_pad(graph.input("x", (5, 6)), (8, 3)))
    want = np.zeros((8, 3), np.float32)
    want[1:6] = data[:, 1:4]
    np.testing.assert_array_equal(rlx.compile(graph).run({"x": data})["y"], want)
