"""Active extent: cost in proportion, change of extents, caches."""

import numpy as np

import rlx
from rlx import ops


def chain(layers: int = 8, width: int = 256) -> rlx.Graph:
    """Products and activations."""
    graph = rlx.Graph("chain")
    x = graph.input("x", ("batch", width))
    for i in range(layers):
        x = ops.relu(x @ graph.param(f"w{i}", (width, width)))
    graph.output("y", x)
    return graph


def weights(layers: int = 8, width: int = 256) -> dict[str, np.ndarray]:
    """Parameters of `chain`."""
    rng = np.random.default_rng(0)
    return {f"w{i}": rng.standard_normal((width, width)).astype(np.float32) / 16 for i in range(layers)}


class ActiveExtent:
    """A chain of products in a bucket of 128 rows."""

    params = (128, 64, 32, 8)
    param_names = ("rows",)

    def setup(self, rows: int) -> None:
        """Compile, and set the extent."""
        self.exe = rlx.compile(chain(), rlx.CompileOptions(extents={"batch": 128}, threads=1))
        self.exe.set_params(weights())
        self.feeds = {"x": np.ones((128, 256), np.float32)}
        self.exe.set_active_extent("batch", rows)
        self.exe.run(self.feeds)

    def time_run(self, rows: int) -> None:
        """One run."""
        self.exe.run(self.feeds)


class ChangeOfExtent:
    """From one extent to another that was met before, and to a new one."""

    def setup(self) -> None:
        """Compile."""
        self.exe = rlx.compile(chain(), rlx.CompileOptions(extents={"batch": 4096}, threads=1))
        self.exe.set_params(weights())
        self.rows = 1
        for n in (3, 5):
            self.exe.set_active_extent("batch", n)

    def time_known(self) -> None:
        """Two changes."""
        self.exe.set_active_extent("batch", 3)
        self.exe.set_active_extent("batch", 5)

    def time_new(self) -> None:
        """A program more, until those kept are all there."""
        self.rows += 1
        self.exe.set_active_extent("batch", 6 + self.rows % 4000)


class Caches:
    """What a look-up costs."""

    def setup(self) -> None:
        """Compile."""
        self.graph = chain()
        self.cache = rlx.CompileCache()
        self.options = rlx.CompileOptions(dims={"batch": 8})
        self.cache.compile(self.graph, self.options)
        self.buckets = rlx.BucketedCompileCache(self.graph, {"batch": (8, 16, 32)}, rlx.CompileOptions(threads=1))
        self.buckets.set_params(weights())
        self.feeds = [{"x": np.ones((n, 256), np.float32)} for n in (5, 12, 32)]
        self.time_bucketed_runs()

    def time_hit(self) -> None:
        """Digest of graph and options, one look-up."""
        self.cache.compile(self.graph, self.options)

    def time_bucketed_runs(self) -> None:
        """Three runs in three buckets."""
        for feeds in self.feeds:
            self.buckets.run(feeds)
