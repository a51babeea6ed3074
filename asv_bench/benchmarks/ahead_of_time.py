"""Ahead-of-time files: from the file to the first result, with the import of rlx before."""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import ClassVar

import numpy as np

import rlx
from rlx import ops

# Bytes of the weights in all.
SIZES = {"small": 1 << 16, "8 MB": 1 << 23, "32 MB": 1 << 25}


def write(path: Path, nbytes: int) -> None:
    """A chain of products whose weights have so many bytes."""
    n = 1024 if nbytes > 1 << 20 else 64
    g = rlx.Graph("chain")
    h = g.input("x", (1, n), rlx.f32)
    for k in range(max(1, nbytes // (4 * n * n))):
        h = ops.tanh(h @ g.constant(np.full((n, n), (k + 1) / n, np.float32)))
    g.output("y", h)
    rlx.compile(g, rlx.CompileOptions(threads=1)).save(path)


def new_path(owner: object) -> Path:
    """A file in a folder that goes with its owner."""
    folder = tempfile.mkdtemp()
    weakref.finalize(owner, shutil.rmtree, folder, True)
    return Path(folder) / "m.rlx"


class Load:
    """Mapping, checking, linking; then one run."""

    params: ClassVar[list[str]] = list(SIZES)
    param_names: ClassVar[list[str]] = ["weights"]

    def setup(self, size: str) -> None:
        """Write the file once."""
        self.path = new_path(self)
        write(self.path, SIZES[size])
        self.x = {"x": np.ones((1, 1024 if SIZES[size] > 1 << 20 else 64), np.float32)}

    def time_load_and_run(self, size: str) -> None:
        """Every byte compared with its digest."""
        rlx.load(self.path).run(self.x)

    def time_load_unread(self, size: str) -> None:
        """Header and programs alone."""
        rlx.load(self.path, verify=False)

    def time_save(self, size: str) -> None:
        """Writing, with digests and fsync."""
        rlx.load(self.path).save(self.path.with_suffix(".copy"))


class Fresh:
    """All that a new process does, as asv's raw timing wants it."""

    def setup(self) -> None:
        """Write the file once."""
        self.path = new_path(self)
        write(self.path, SIZES["small"])

    def timeraw_load_and_run(self) -> str:
        """Import of rlx, load, one run."""
        return f"import numpy, rlx\nrlx.load({str(self.path)!r}).run({{'x': numpy.ones((1, 64), numpy.float32)}})"
