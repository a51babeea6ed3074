"""The arena against its bound, and what stays in memory."""

import resource
from typing import ClassVar

import numpy as np

import rlx
from benchmarks.compile_time import network
from rlx import ops


class Plan:
    """Bytes of the plan; the bound is what no plan can beat."""

    params: ClassVar[list[int]] = [50, 500]
    param_names: ClassVar[list[str]] = ["nodes"]

    def setup(self, nodes: int) -> None:
        """Compile."""
        self.report = rlx.compile(network(nodes), rlx.CompileOptions(threads=1)).memory_report()

    def track_arena_bytes(self, nodes: int) -> int:
        """What is reserved."""
        return self.report.arena

    def track_arena_over_bound(self, nodes: int) -> float:
        """1 is the best there can be."""
        return self.report.arena / max(1, self.report.bound)

    def track_unshared_over_arena(self, nodes: int) -> float:
        """What sharing saves."""
        return self.report.unshared / max(1, self.report.arena)


class Growth:
    """Many shapes of one open graph."""

    def track_rss_growth_50_shapes(self) -> int:
        """KiB that 50 shapes leave behind."""
        g = rlx.Graph("open")
        x = g.input("x", ("n", 64), rlx.f32)
        g.output("y", ops.gelu(x @ g.constant(np.ones((64, 64), np.float32))))
        exe = rlx.compile(g, rlx.CompileOptions(threads=1))
        exe.run({"x": np.ones((64, 64), np.float32)})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for n in range(1, 51):
            exe.run({"x": np.ones((n, 64), np.float32)})
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
