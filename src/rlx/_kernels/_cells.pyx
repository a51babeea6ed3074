"""Memory of handles: buffers that are shared until one side writes, cells that swap two of them.

Who else holds or sees a buffer is told by reference counts: of the `Buffer` (cells of
forks), and of its array (views, which NumPy, DLPack and the buffer protocol let refer to it).
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject

import numpy as np

from rlx._kernels._interp import Targets

cnp.import_array()

cdef extern from "Python.h":
    Py_ssize_t references "Py_REFCNT"(PyObject *)


@cython.final
cdef class Buffer:
    """An array that one or more cells hold."""

    cdef readonly object array
    cdef tuple shape
    cdef object dtype

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype


@cython.final
cdef class Cell:
    """The memory of one handle.

    Attributes
    ----------
    axis : int, optional
        Of a cache: the axis along which only a part is valid.
    length : Cell, optional
        Of a cache: holds how much is valid.
    pinned : bool
        A view of rows that may be written is held: the next write moves to a new buffer.
    """

    cdef Buffer buffer
    cdef Buffer spare
    cdef readonly object axis
    cdef public Cell length
    cdef public bint pinned

    def __init__(self, array, axis=None, Cell length=None):
        self.buffer = Buffer(array)
        self.spare = None
        self.axis = axis
        self.length = length
        self.pinned = False

    @property
    def array(self):
        """The whole memory of the current value."""
        return self.buffer.array

    @property
    def is_viewed(self):
        """Whether somebody holds a view of the current value."""
        return references(<PyObject *> self.buffer.array) > 1

    def valid(self):
        """How much of a cache is valid, the most of all batch items; None for others."""
        return None if self.length is None else int(self.length.buffer.array.max(initial=0))

    def part(self):
        """The valid part: a read-only view."""
        n = self.valid()
        if n is None:
            view = self.buffer.array.view()
        else:
            view = self.buffer.array[(slice(None),) * self.axis + (slice(0, n),)]
        view.flags.writeable = False
        return view

    cpdef object target(self, tuple shape, dtype):
        """The other buffer, for the next value; it becomes current with `swap`."""
        if (self.spare is None or references(<PyObject *> self.spare) > 1
                or references(<PyObject *> self.spare.array) > 1
                or self.spare.shape != shape or (self.spare.dtype is not dtype and self.spare.dtype != dtype)):
            self.spare = Buffer(np.empty(shape, dtype))
        return self.spare.array

    cpdef swap(self):
        """Make the other buffer current."""
        cdef Buffer old = self.buffer
        self.buffer = self.spare
        self.spare = old
        self.pinned = False

    cpdef object own(self):
        """The current buffer, to be written behind the valid part; moved when somebody else would notice."""
        if self.pinned or references(<PyObject *> self.buffer) > 1:
            old = self.buffer.array
            moved = np.zeros(old.shape, old.dtype)
            at = (slice(None),) * self.axis + (slice(0, self.valid()),)
            moved[at] = old[at]
            self.buffer = Buffer(moved)
            self.pinned = False
        return self.buffer.array

    def put(self, array):
        """Make a copy of an array the next value."""
        self.target(array.shape, array.dtype)[...] = array
        self.swap()

    def adopt(self, array):
        """Take over an array that a run has made; nobody may write it from now on."""
        if array.base is not None or not array.flags.c_contiguous:
            array = array.copy()
        self.buffer = Buffer(array)
        self.spare = None
        self.pinned = False

    def fork(self):
        """A cell with the same value; `length` is left for the caller to fill."""
        cdef Cell other = Cell.__new__(Cell)
        other.buffer = self.buffer
        other.axis = self.axis
        other.pinned = self.pinned
        return other


def feed(list cells, dict given):
    """Inputs of a run: what was given, and of the pairs (name, cell) those that were not."""
    cdef dict full = dict(given)
    cdef Cell cell
    for name, cell in cells:
        if name not in full:
            full[name] = cell.buffer.array
    return full


@cython.final
cdef class Wiring:
    """What links mean for one program.

    Parameters
    ----------
    links : object
        The links that this was made from, by identity.
    outputs : list of (int, str, Cell, shape, dtype, str or None)
        Place and name of each linked output, its handle, type; the input over which it may be written.
    rows : list of (int, Cell)
        Outputs that are appended to a cache.
    count : int
        Outputs of the program.
    """

    cdef readonly object links
    cdef readonly list outputs
    cdef readonly list rows
    cdef int count

    def __init__(self, links, list outputs, list rows, int count):
        self.links = links
        self.outputs = outputs
        self.rows = rows
        self.count = count

    def targets(self, dict given, out, elsewhere, list kept):
        """Where outputs are to be written; puts the memory of caches that are written over into `given`.

        Outputs whose place or name is in `elsewhere` go where the caller wants them, those that are not
        linked into the arrays of `kept`, if it is not None.
        """
        cdef Cell cell
        cdef int i
        if not self.outputs and kept is None:
            return out
        cdef list arrays = [None] * self.count if kept is None else list(kept)
        for i, name, cell, shape, dtype, over in self.outputs:
            if elsewhere and (i in elsewhere or name in elsewhere):
                continue
            if over is not None and given.get(over) is cell.buffer.array and cell.buffer.shape == shape:
                arrays[i] = cell.own()
                given[over] = arrays[i]
            else:
                arrays[i] = cell.target(shape, dtype)
        return Targets(arrays, out)

    def absorb(self, tuple results):
        """Take linked outputs as the new values, after a run that wrote to the targets."""
        cdef Cell cell
        cdef int i
        for i, _, cell, _, _, _ in self.outputs:
            base = cnp.get_array_base(<cnp.ndarray> results[i])
            if cell.spare is not None and base is cell.spare.array:
                cell.swap()
            elif base is not cell.buffer.array:  # the caller's own array
                cell.put(results[i])
