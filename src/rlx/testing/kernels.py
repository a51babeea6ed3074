"""Call a single kernel on NumPy arrays, without a graph."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlx._kernels import _interp
from rlx.runtime import kernels
from rlx.runtime.link import AttrValue, pack_attrs


class KernelFailure(Exception):
    """A kernel returned a status other than 0."""

    def __init__(self, status: int, value: int, bound: int, position: int) -> None:
        super().__init__(f"status {status}, value {value}, bound {bound}, position {position}")
        self.status, self.value, self.bound, self.position = status, value, bound, position


class _Helper:
    def failed(self, status: int, node: int, value: int, bound: int, position: int) -> Exception:
        return KernelFailure(status, value, bound, position)


def call_kernel(
    name: str,
    args: Sequence[npt.NDArray[Any] | None],
    attrs: Mapping[str, AttrValue],
    *,
    extent: int,
    grain: int = 1,
    threads: int = 1,
    level: str | None = None,
    repeat: int = 1,
) -> float:
    """Run kernel `name` over `args`: C-contiguous arrays, written in place; None is absent.

    Returns
    -------
    float
        Seconds of the fastest of `repeat` runs.
    """
    import time

    row = kernels.table(level).kernel(name)
    words = pack_attrs(row, attrs)
    n = len(args)

    def ints(*values: int) -> npt.NDArray[np.int64]:
        return np.array(values, np.int64)

    program = _interp.Program(
        ints(row.address), ints(extent), ints(grain), ints(0), ints(10**9),
        ints(*words), ints(0),
        ints(*(-1 if a is None else i for i, a in enumerate(args))), ints(*(0 for _ in args)),
        ints(0, n), max(1, n), None,
    )
    executor = _interp.Executor(program, [], [], _Helper(), threads)
    for i, array in enumerate(args):
        if array is not None:
            if not array.flags.c_contiguous:
                raise ValueError(f"argument {i} of {name} must be C-contiguous")
            executor.bind(i, array)
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        executor.run_bound(threads)
        best = min(best, time.perf_counter() - start)
    return best


def ew_address(name: str, level: str | None = None) -> int:
    """Address of an elementwise micro-kernel, for attributes that take one."""
    return kernels.table(level).ew(name).address
