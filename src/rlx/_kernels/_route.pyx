"""A plan of several steps, followed for inputs whose shapes are known.

What the importer compiled is a tree of steps (`rlx.onnx.steps`); a run binds its
inputs and walks from the root to the step that hands out results. The walk is a
few look-ups per step; it lies here so that a call of a small model is mostly its
kernels.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from rlx._kernels._interp import Outputs

cnp.import_array()

cdef object _check = None  # of texts, once one has been met


cdef bint _is_text(object array) except -1:
    global _check
    if _check is None:
        from rlx._kernels._text import check

        _check = check
    return _check(array)


@cython.final
cdef class Route:
    """How a model runs for inputs of certain shapes.

    Parameters
    ----------
    root : Step
        Where the plan starts.
    ports : list of (name, dtype or None)
        Inputs in the order of a run's values; those without an element type stay absent.
    absent : object
        Stands for an absent input.
    index : dict
        Position of every output by name.
    resume : callable
        ``resume(root, values, step, outcome, done, threads)`` goes on where the tree has no
        branch yet, and returns the last step.
    """

    cdef object root
    cdef tuple names
    cdef list kinds
    cdef object absent
    cdef dict index
    cdef object resume
    cdef Py_ssize_t given

    def __init__(self, root, list ports, absent, dict index, resume):
        self.root = root
        self.names = tuple([name for name, _ in ports])
        self.kinds = [None if kind is None else kind.num for _, kind in ports]
        self.given = sum(kind is not None for _, kind in ports)
        self.absent = absent
        self.index = index
        self.resume = resume

    def run(self, inputs, int threads=0):
        """Results of a run; None when an input is not an array of the declared type."""
        cdef list values, found, copies
        cdef object step, child, outcome = None, slots, kind, value
        cdef PyObject *item
        cdef Py_ssize_t i, at, done = 0
        if type(inputs) is not dict or len(<dict> inputs) != self.given:
            return None
        values = []
        for i in range(len(self.names)):
            kind = self.kinds[i]
            if kind is None:
                values.append(self.absent)
                continue
            item = PyDict_GetItem(<dict> inputs, self.names[i])
            if item == NULL:
                return None
            value = <object> item
            if not cnp.PyArray_CheckExact(value) or cnp.PyArray_TYPE(<cnp.ndarray> value) != <int> kind:
                return None
            if not cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray> value):
                return None
            if cnp.PyArray_TYPE(<cnp.ndarray> value) == cnp.NPY_OBJECT and not _is_text(value):
                return None
            values.append(value)
        step = self.root
        while True:
            item = PyDict_GetItem(<dict> step.children, outcome)
            if item == NULL:
                step = self.resume(self.root, values, step, outcome, done, threads)
                break
            child = <object> item
            if outcome is not None and len(<dict> step.children) > 1:  # used last
                step.children[outcome] = step.children.pop(outcome, child)
            step = child
            if step.last:
                break
            outcome = step.run(values, threads)
            done += 1
        slots = step.slots
        if slots is None:
            found = step.results(values)
        else:
            found = []
            copies = step.copies
            for i in range(len(<list> slots)):
                at = (<list> slots)[i]
                if at < 0 or at >= len(values) or i >= len(copies):  # a plan that does not fit: results() says so
                    found = step.results(values)
                    break
                value = values[at]
                if copies[i]:
                    if cnp.PyArray_CheckExact(value):
                        value = cnp.PyArray_NewCopy(<cnp.ndarray> value, cnp.NPY_CORDER)
                    else:
                        found = step.results(values)
                        break
                found.append(value)
        return Outputs(tuple(found), self.index)
