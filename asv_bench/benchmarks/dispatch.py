"""What a run costs besides the work: binding, thunks, hand-over to threads."""

import numpy as np

import rlx
from benchmarks.common import ONE_THREAD, compiled
from rlx import ops

UNFUSED = rlx.CompileOptions(threads=1, optimize=False)
NODES = 1000


def _chain(x: rlx.Value) -> rlx.Value:
    for _ in range(NODES):
        x = ops.neg(x)
    return x


def _layers(x: rlx.Value) -> rlx.Value:
    for i in range(8):
        w = x.graph.constant(np.full((16, 16), 0.01 * i, np.float32))
        x = ops.tanh(x @ w)
    return x


class Dispatch:
    """Graphs that do next to nothing."""

    def setup(self) -> None:
        """Compile."""
        one = np.ones(1, np.float32)
        self.one = one
        self.empty = compiled(lambda x: ops.reshape(x, shape=(1, 1)), [one])
        self.tiny = compiled(_layers, [np.ones((1, 16), np.float32)])
        self.chain = compiled(_chain, [one], options=UNFUSED)
        self.fused = compiled(_chain, [one])
        self.ten = compiled(lambda *xs: ops.concat(*xs, axis=0), [one] * 10)
        big = np.ones(1 << 16, np.float32)
        self.two = compiled(ops.exp, [big], options=rlx.CompileOptions(threads=2))

    def time_empty(self) -> None:
        """A graph that only renames: binding, checking, one copy."""
        self.empty()

    def time_ten_inputs(self) -> None:
        """Binding ten inputs."""
        self.ten()

    def time_tiny_8_layers(self) -> None:
        """Eight products of 16 by 16 with tanh."""
        self.tiny()

    def time_1k_nodes_of_size_1(self) -> None:
        """Divide by 1000 for the cost of a thunk."""
        self.chain()

    def time_1k_nodes_fused(self) -> None:
        """The same after passes."""
        self.fused()

    def time_two_threads(self) -> None:
        """A call that is split."""
        self.two()

    def time_numpy_one_call(self) -> None:
        """What one NumPy call on one number costs."""
        np.negative(self.one)


class Clone:
    """Executables that share weights."""

    def setup(self) -> None:
        """Compile."""
        g = rlx.Graph("g")
        x = g.input("x", (1, 256), rlx.f32)
        g.output("y", x @ g.constant(np.ones((256, 256), np.float32)))
        self.exe = rlx.compile(g, ONE_THREAD)

    def time_clone(self) -> None:
        """Must not depend on the weights' size."""
        self.exe.clone()
