"""Fixtures for kernel tests: every ISA level, and arrays that end at a guard page."""

import ctypes
import mmap

import numpy as np
import pytest

from rlx.runtime import kernels

_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(params=kernels.available_levels())
def level(request):
    """An ISA level that this machine runs."""
    return request.param


@pytest.fixture
def guarded():
    """Return f(array): a copy that ends at an inaccessible page, or begins at one if `start`."""
    keep = []

    def copy(array, start=False):
        array = np.ascontiguousarray(array)
        page = mmap.PAGESIZE
        size = -(-max(1, array.nbytes) // page) * page
        area = mmap.mmap(-1, size + page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        closed = address if start else address + size
        if _libc.mprotect(ctypes.c_void_p(closed), page, _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
        keep.append((area, closed, page))
        raw = np.frombuffer(area, np.uint8, array.nbytes, page if start else size - array.nbytes)
        out = raw.view(array.dtype).reshape(array.shape)
        out[...] = array
        return out

    yield copy
    for area, start, page in keep:
        _libc.mprotect(ctypes.c_void_p(start), page, mmap.PROT_READ | mmap.PROT_WRITE)
        del area


@pytest.fixture
def guard_arguments(guarded, monkeypatch, request):
    """Every array that the module's `call_kernel` gets ends at a guard page."""
    original = request.module.call_kernel

    def call(name, args, attrs, **how):
        copies: dict[int, np.ndarray] = {}
        for a in args:
            if a is not None and id(a) not in copies:
                copies[id(a)] = guarded(a)
        seconds = original(name, [None if a is None else copies[id(a)] for a in args], attrs, **how)
        for a in args:
            if a is not None and a.flags.writeable:
                a[...] = copies[id(a)]
        return seconds

    monkeypatch.setattr(request.module, "call_kernel", call)
