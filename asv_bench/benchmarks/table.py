"""Every op of the table on a sample of its own row: slow outliers show, at small sizes."""

from typing import ClassVar

from rlx import dtypes
from rlx.ops import TABLE
from rlx.options import CompileOptions
from rlx.runtime.executable import CompiledGraph
from rlx.testing.optest import build, samples_of

ROWS = {n: op for n, op in TABLE.items() if op.samples is not None and not op.internal and not op.has("dynamic")}


class EveryOp:
    """The largest sample of the row's first type, float32 if it has that."""

    # Families that have no benchmark of real sizes.
    families: ClassVar[tuple[str, ...]] = ("cache", "control", "dynamic", "loss", "random", "trees")
    params: ClassVar[list[str]] = sorted(ROWS)
    param_names: ClassVar[list[str]] = ["op"]

    def setup(self, name: str) -> None:
        """Compile the sample."""
        op = ROWS[name]
        dtype = dtypes.f32 if dtypes.f32 in op.dtypes else op.dtypes[0]
        sample = max(samples_of(op, dtype), key=lambda s: sum(0 if a is None else a.size for a in s.args))
        graph, self.feeds = build(op, sample)
        self.exe = CompiledGraph(graph, CompileOptions(threads=1))
        self.exe.run(self.feeds)

    def time_op(self, name: str) -> None:
        """One run."""
        self.exe.run(self.feeds)
