"""How long compiling takes, by number of nodes: 10,000 stay below two seconds."""

from typing import ClassVar

import numpy as np

import rlx
from rlx import ops


def network(nodes: int) -> rlx.Graph:
    """Layers of five nodes: product, bias, activation, residual, norm."""
    g = rlx.Graph("network")
    x = g.input("x", (4, 32), rlx.f32)
    rng = np.random.default_rng(0)
    one = np.ones(32, np.float32)
    for _ in range(max(1, nodes // 5)):
        w = g.constant(rng.standard_normal((32, 32)).astype(np.float32) * 0.1)
        x = ops.layer_norm(x + ops.gelu(x @ w + one), one, None)
    g.output("y", x)
    return g


class Compile:
    """Passes, lowering, plan and link."""

    params: ClassVar[list[int]] = [10, 100, 1000, 10_000]
    param_names: ClassVar[list[str]] = ["nodes"]
    timeout = 120

    def setup(self, nodes: int) -> None:
        """The graph as written."""
        self.graph = network(nodes)

    def time_build(self, nodes: int) -> None:
        """Making the graph: rules run on every node."""
        network(nodes)

    def time_compile(self, nodes: int) -> None:
        """With all passes."""
        rlx.compile(self.graph, rlx.CompileOptions(threads=1))

    def time_compile_without_passes(self, nodes: int) -> None:
        """Lowering, plan and link."""
        rlx.compile(self.graph, rlx.CompileOptions(threads=1, optimize=False))

    def track_nodes_after_passes(self, nodes: int) -> int:
        """What fusion leaves."""
        return rlx.compile(self.graph, rlx.CompileOptions(threads=1)).explain().passes[-1][2]
