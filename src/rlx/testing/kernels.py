"""Call a single kernel on NumPy arrays, without a graph."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlx._kernels import _interp
from rlx.lower.program import AttrValue
from rlx.runtime import kernels
from rlx.runtime.link import one_call


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
    phases: int = 1,
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
    places = [None if a is None else (i, 0) for i, a in enumerate(args)]
    program = one_call(row, attrs, places, max(1, len(args)), extent=extent, grain=grain, phases=phases,
                       cost=10**9 * phases)  # fmt: skip
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


class _EwError(ctypes.Structure):
    _fields_ = (
        ("node", ctypes.c_int32), ("status", ctypes.c_int32), ("value", ctypes.c_int64),
        ("bound", ctypes.c_int64), ("position", ctypes.c_int64),
    )


_EW = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64, *[ctypes.c_void_p] * 2)


def call_ew(
    name: str,
    *arrays: npt.NDArray[Any],
    out_dtype: npt.DTypeLike | None = None,
    params: Sequence[float] = (),
    level: str | None = None,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Run the elementwise micro-kernel `name` over C-contiguous `arrays` of one size.

    Parameters
    ----------
    name : str
        Name of the row, e.g. ``"add.f32"``.
    *arrays : ndarray
        The operands.
    out_dtype : dtype, optional
        Type of the result; default: that of the last operand.
    params : sequence of float
        The parameters of the op.
    level : str, optional
        ISA level; default: the strongest.
    out : ndarray, optional
        Where to write (may be an operand); default: a new array.

    Returns
    -------
    ndarray
        The result, of the shape of the first operand.

    Raises
    ------
    KernelFailure
        If the kernel returned a status.
    """
    row = kernels.table(level).ew(name)
    if len(arrays) != row.arity:
        raise ValueError(f"{name}: takes {row.arity} operands, got {len(arrays)}")
    if any(not a.flags.c_contiguous or a.size != arrays[0].size for a in arrays):
        raise ValueError(f"{name}: operands must be C-contiguous and of one size")
    if out is None:
        out = np.empty(arrays[0].shape, out_dtype or arrays[-1].dtype)
    words = np.array([*params, 0.0], np.float64)
    error = _EwError()
    pointers = [a.ctypes.data for a in arrays] + [None] * (3 - len(arrays))
    status = _EW(row.address)(
        out.ctypes.data, *pointers, arrays[0].size, words.ctypes.data, ctypes.addressof(error)
    )
    if status:
        raise KernelFailure(status, error.value, error.bound, error.position)
    return out
