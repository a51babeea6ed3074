"""Compiling takes time in proportion to the nodes, and little."""

import time

import numpy as np

import rlx
from rlx import ops
from rlx.passes.cleanup import merge_common


def network(nodes: int) -> rlx.Graph:
    """Layers of five nodes: product, bias, activation, residual, norm."""
    g = rlx.Graph("network")
    x = g.input("x", (4, 8), rlx.f32)
    w, one = np.full((8, 8), 0.1, np.float32), np.ones(8, np.float32)
    for _ in range(nodes // 5):
        x = ops.layer_norm(x + ops.gelu(x @ w + one), one, None)
    g.output("y", x)
    return g


def test_ten_thousand_nodes_compile_in_two_seconds() -> None:
    """Of processor time, of which it takes half a second."""
    g = network(10_000)
    start = time.process_time()
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    assert time.process_time() - start < 2
    assert np.isfinite(exe.run({"x": np.ones((4, 8), np.float32)})["y"]).all()


def test_many_parts_of_one_value_are_merged_in_linear_time() -> None:
    """Nodes on the same operand differ in their attributes alone: they are not compared one with another."""
    g = rlx.Graph("parts")
    x = g.input("x", (4000,), rlx.f32)
    for i in range(4000):
        g.output(f"y{i}", ops.slice(x, starts=(i // 2,), stops=(i // 2 + 3,)))
    start = time.process_time()
    merged = merge_common(g)
    assert time.process_time() - start < 1  # 0.03 s; by pairs it would be 20
    assert len(merged) == 2001
    assert [v.node.attrs["starts"][0] for v in merged.outputs.values()] == [i // 2 for i in range(4000)]
