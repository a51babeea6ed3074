"""What the benchmarks share: data, compiling, and a class per family of ops."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

import rlx

ONE_THREAD = rlx.CompileOptions(threads=1)
FLOATS = ("f32", "f64", "bf16")

Build = Callable[..., Any]
Twin = Callable[..., Any]


def data(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Reproducible values, touched so that their pages exist; floats around 0, integers from 1 to 7."""
    rng = np.random.default_rng(seed)
    kind = rlx.dtypes.as_dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind.numpy)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(1, 8, shape).astype(kind.numpy)


def compiled(build: Build, arrays: Sequence[np.ndarray], constants: Sequence[np.ndarray] = (),
             options: rlx.CompileOptions = ONE_THREAD) -> Callable[[], Any]:
    """A call that runs `build(*inputs, *constants)` on the arrays."""
    g = rlx.Graph("benchmark")
    values = [g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    result = build(*values, *(g.constant(c) for c in constants))
    for i, v in enumerate(result if isinstance(result, tuple) else (result,)):
        g.output(f"y{i}", v)
    exe = rlx.compile(g, options)
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    exe.run(feeds)
    return lambda: exe.run(feeds)


def axes(cases: dict[str, Any], dtypes: Sequence[str], sizes: Sequence[Any]) -> tuple[Sequence[Any], ...]:
    """The parameters of a class."""
    return list(cases), list(dtypes), list(sizes), ["rlx", "numpy"]


class Family(abc.ABC):
    """Benchmarks of one or more families of ops.

    Attributes
    ----------
    cases : dict
        Name -> function(size, dtype) giving (build, inputs, constants, NumPy twin or None).
    """

    cases: ClassVar[dict[str, Callable[[Any, str], tuple[Build, list[np.ndarray], list[np.ndarray], Twin | None]]]] = {}
    param_names: ClassVar[list[str]] = ["case", "dtype", "size", "by"]

    @property
    @abc.abstractmethod
    def families(self) -> tuple[str, ...]:
        """Names as in `rlx.ops.FAMILY`. Abstract, so that asv leaves this class out."""

    def setup(self, case: str, dtype: str, size: Any, by: str) -> None:
        """Build, compile and run once; or the same in NumPy."""
        build, inputs, constants, twin = self.cases[case](size, dtype)
        if by == "rlx":
            self.call = compiled(build, inputs, constants)
        elif twin is None or dtype == "bf16":
            raise NotImplementedError("NumPy has no such op")
        else:
            self.call = lambda: twin(*inputs, *constants)

    def time_run(self, case: str, dtype: str, size: Any, by: str) -> None:
        """One run."""
        self.call()


def simple(build: Build, twin: Twin | None, *, inputs: int = 1) -> Callable[[Any, str], Any]:
    """A case on `inputs` arrays of one shape."""

    def make(size: Any, dtype: str) -> tuple[Build, list[np.ndarray], list[np.ndarray], Twin | None]:
        shape = size if isinstance(size, tuple) else (size,)
        return build, [data(shape, dtype, i) for i in range(inputs)], [], twin

    return make
