"""Products whose weights are stored in fewer bits than they are computed in."""

from typing import Any, ClassVar

import numpy as np

import rlx
from benchmarks import common
from benchmarks.common import data
from rlx import ops

SIZES = [(1, 1024, 1024), (1, 4096, 4096), (4, 1024, 1024), (16, 768, 768), (128, 384, 1536)]


def _graph(m: int, k: int, n: int) -> tuple[rlx.Graph, Any, np.ndarray]:
    g = rlx.Graph("benchmark")
    return g, g.input("x", (m, k)), data((k, n), "f32", 1)


class HalfWeights:
    """(m, k, n), weights given in f32 and stored as the option says; f32 is the one to beat."""

    params: ClassVar[list[list[Any]]] = [["f32", "f16", "bf16"], SIZES]
    param_names: ClassVar[list[str]] = ["precision", "size"]

    def setup(self, precision: str, size: tuple[int, int, int]) -> None:
        """Compile and run once."""
        g, x, w = _graph(*size)
        g.output("y", ops.relu(x @ g.constant(w)))
        self.exe = rlx.compile(g, rlx.CompileOptions(threads=1, precision=precision))
        self.feeds = {"x": data(size[:2], "f32")}
        self.exe.run(self.feeds)

    def time_run(self, precision: str, size: tuple[int, int, int]) -> None:
        """One run."""
        self.exe.run(self.feeds)

    def track_weight_bytes(self, precision: str, size: tuple[int, int, int]) -> int:
        """What the weights take."""
        return self.exe.memory_report().weights


def _codes(bits: int, block: int | None) -> Any:
    def make(size: Any, dtype: str) -> Any:
        m, k, n = size
        rng = np.random.default_rng(1)
        each = min(block or k, k)
        codes = rng.integers(0, 256, (n, k * bits // 8), np.uint8)
        scale = rng.random((n, -(-k // each))).astype(np.float32)
        return (lambda x, c, s: ops.matmul_nbits(x, c, s, bits=bits, block_size=each), [data((m, k), dtype)],
                [codes, scale], None)

    return make


class NBits(common.Family):
    """(m, k, n): codes of a few bits with a scale per block of 32, or per column."""

    families = ("nbits",)
    cases: ClassVar[dict[str, Any]] = {"4 bits, blocks of 32": _codes(4, 32), "8 bits, per column": _codes(8, None),
                                       "2 bits, blocks of 32": _codes(2, 32)}  # fmt: skip
    params = common.axes(cases, ("f32",), SIZES)
