"""What calling a registered op costs beside the function itself."""

from typing import Any, ClassVar

import numpy as np

import rlx

CALLS = 100


def same(x: Any) -> Any:
    """The function that is called."""
    return x


class PythonKernel:
    """A chain of a hundred calls."""

    params: ClassVar[list[int]] = [4, 65536]
    param_names: ClassVar[list[str]] = ["elements"]

    def setup(self, elements: int) -> None:
        """Register, build, compile."""
        op = rlx.register_op("bench.same", inputs=("x",), reference=same, traits=("stateful",), replace=True)
        g = rlx.Graph("chain")
        x = g.input("x", (elements,), rlx.f32)
        for _ in range(CALLS):
            x = op(x)
        g.output("y", x)
        rlx.unregister_op("bench.same")  # the graph keeps it
        self.exe = rlx.compile(g, rlx.CompileOptions(threads=1))
        self.feeds = {"x": np.ones(elements, np.float32)}

    def time_run(self, elements: int) -> None:
        """A run: views, calls, checks, copies of the results."""
        self.exe.run(self.feeds)

    def time_functions_alone(self, elements: int) -> None:
        """The same number of calls from Python."""
        x = self.feeds["x"]
        for _ in range(CALLS):
            x = same(x)
