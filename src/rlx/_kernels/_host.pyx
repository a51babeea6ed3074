"""Kernels of custom ops: C functions, and Python, the one place where a run takes the GIL.

Operands are handed out as read-only views on the memory where they lie, which
the view keeps alive; where its owner is not known (inside the bodies of control
flow), and on request, they are copies. What the function returns is checked and
copied. A view that outlives the call would later show other values: it is an
error.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t
from libc.string cimport memcpy

from rlx._kernels.abi cimport RLX_ERR_PYTHON, RLX_OK, rlx_frame, rlx_kernel, rlx_thunk

import gc

import numpy as np

cnp.import_array()

cdef extern from "run_frame.h" nogil:
    ctypedef struct rlx_run_frame:
        rlx_frame frame
        void **keepers
        void **raised
    int RLX_ERR_CUSTOM

cdef extern from "numpy/arrayobject.h":
    # Steals a reference to the descriptor.
    object PyArray_NewFromDescr(PyTypeObject *, void *, int, cnp.npy_intp *, cnp.npy_intp *,
                                void *, int, PyObject *)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *)


class ResultError(ValueError):
    """A kernel did not do what its op promises."""


cdef struct Spec:
    int ndim
    bint is_bool
    int64_t nbytes
    cnp.npy_intp dims[64]


@cython.final
@cython.freelist(16)
cdef class Lease:
    """Base of a view: keeps its memory, and lets slices of the view refer to the view (NumPy skips arrays)."""

    cdef object owner


@cython.final
cdef class HostCall:
    """A Python function bound to operand types and attributes; called by a thunk.

    Parameters
    ----------
    function : callable
        ``function(*arrays, **kwargs)``; absent operands are None.
    kwargs : dict
    operands, results : list of (dtype, shape) or None
    writes : bool
        The function gets ``out=``, an array or a tuple of arrays, and returns nothing.
    copies : bool
        Operands are copies that the function may keep and change.
    """

    cdef object function
    cdef dict kwargs
    cdef list dtypes
    cdef cnp.ndarray specs_memory
    cdef Spec *specs
    cdef int n_in, n_out
    cdef bint writes, copies

    def __cinit__(self, object function, dict kwargs, list operands, list results, bint writes, bint copies):
        cdef int i, j
        self.function = function
        self.kwargs = kwargs
        self.n_in, self.n_out = len(operands), len(results)
        self.writes, self.copies = writes, copies
        self.dtypes = []
        self.specs_memory = np.zeros((self.n_in + self.n_out + 1) * sizeof(Spec), np.uint8)
        self.specs = <Spec *> cnp.PyArray_DATA(self.specs_memory)
        for i, item in enumerate(operands + results):
            if item is None:
                self.dtypes.append(None)
                continue
            dtype, shape = np.dtype(item[0]), item[1]
            self.dtypes.append(dtype)
            self.specs[i].ndim = len(shape)
            self.specs[i].is_bool = dtype == np.bool_
            self.specs[i].nbytes = dtype.itemsize
            for j in range(len(shape)):
                self.specs[i].dims[j] = shape[j]
                self.specs[i].nbytes *= shape[j]

    @property
    def address(self):
        """Where the object lies, for the attributes of a thunk."""
        return <intptr_t> <PyObject *> self

    cdef object view(self, const rlx_thunk *t, const rlx_frame *f, int i, bint writable):
        """Argument i of the thunk as an array."""
        cdef object dtype = self.dtypes[i]
        cdef cnp.ndarray array
        cdef int slot = t.args[i].slot
        cdef char *data
        cdef void *keeper
        cdef Lease lease
        cdef void **keepers = (<const rlx_run_frame *> f).keepers
        if slot < 0 or dtype is None:
            return None
        data = f.base[slot] + t.args[i].offset
        keeper = NULL if keepers == NULL else keepers[slot]
        Py_INCREF(dtype)
        if not writable and (self.copies or keeper == NULL):
            array = PyArray_NewFromDescr(<PyTypeObject *> cnp.ndarray, <void *> dtype, self.specs[i].ndim,
                                         self.specs[i].dims, NULL, NULL, 0, NULL)
            memcpy(cnp.PyArray_DATA(array), data, <size_t> self.specs[i].nbytes)
            return array
        array = PyArray_NewFromDescr(<PyTypeObject *> cnp.ndarray, <void *> dtype, self.specs[i].ndim,
                                     self.specs[i].dims, NULL, data,
                                     cnp.NPY_ARRAY_CARRAY if writable else cnp.NPY_ARRAY_CARRAY_RO, NULL)
        if keeper != NULL:
            lease = Lease.__new__(Lease)
            lease.owner = <object> keeper
            cnp.set_array_base(array, lease)
        return array

    cdef object accept(self, const rlx_thunk *t, const rlx_frame *f, int i, object given):
        """Copy a result to where it belongs."""
        cdef Spec *spec = self.specs + i
        cdef object dtype = self.dtypes[i]
        cdef cnp.ndarray array
        cdef char *target = f.base[t.args[i].slot] + t.args[i].offset
        cdef bint fits
        cdef int j
        if isinstance(given, np.ndarray):
            array = given
        elif isinstance(given, (np.generic, bool, int, float, complex)):
            array = np.asarray(given)
        else:
            raise ResultError(f"its kernel must return {self.promise(i)}, got {type(given).__name__}")
        fits = cnp.PyArray_NDIM(array) == spec.ndim and array.dtype == dtype
        for j in range(spec.ndim if fits else 0):
            fits = fits and cnp.PyArray_DIMS(array)[j] == spec.dims[j]
        if not fits:
            shape = [array.shape[k] for k in range(array.ndim)]
            raise ResultError(f"its kernel must return {self.promise(i)}, got {array.dtype}{shape}")
        if not (cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_ISNOTSWAPPED(array)):
            array = np.ascontiguousarray(array, dtype)
        memcpy(target, cnp.PyArray_DATA(array), <size_t> spec.nbytes)

    cdef object promise(self, int i):
        cdef list shape = [self.specs[i].dims[j] for j in range(self.specs[i].ndim)]
        which = f" as result {i - self.n_in} of {self.n_out}" if self.n_out > 1 else ""
        return f"{self.dtypes[i]}{shape}{which}"

    cdef object run(self, const rlx_thunk *t, const rlx_frame *f):
        cdef int i
        cdef int64_t k
        cdef uint8_t *flags
        cdef tuple args = tuple([self.view(t, f, i, False) for i in range(self.n_in)])
        cdef tuple out = None
        cdef object result
        cdef dict kwargs = self.kwargs
        if self.writes:
            out = tuple([self.view(t, f, self.n_in + i, True) for i in range(self.n_out)])
            kwargs = {**kwargs, "out": out[0] if self.n_out == 1 else out}
        result = self.function(*args, **kwargs) if kwargs else self.function(*args)
        if self.writes:
            if result is not None and result is not kwargs["out"]:
                raise ResultError(f"its kernel must write to out and return None, got {type(result).__name__}")
            kwargs = None
        elif self.n_out == 1:
            if isinstance(result, tuple) and len(result) == 1:
                result = result[0]
            self.accept(t, f, self.n_in, result)
        else:
            if not isinstance(result, (tuple, list)) or len(result) != self.n_out:
                got = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
                raise ResultError(f"its kernel must return {self.n_out} results, got {got}")
            for i in range(self.n_out):
                self.accept(t, f, self.n_in + i, result[i])
        for i in range(self.n_out):  # other kernels rely on bools being 0 or 1
            if self.specs[self.n_in + i].is_bool:
                flags = <uint8_t *> (f.base[t.args[self.n_in + i].slot] + t.args[self.n_in + i].offset)
                for k in range(self.specs[self.n_in + i].nbytes):
                    flags[k] = flags[k] != 0
        result = None
        if not self.copies and (<const rlx_run_frame *> f).keepers != NULL:
            self.check_released(args)
        if out is not None:
            self.check_released(out)

    cdef object check_released(self, tuple views):
        """Refuse a kernel that keeps a view: its memory will hold other values later."""
        cdef bint collected = False
        cdef PyObject *view
        cdef int i
        for i in range(len(views)):
            view = <PyObject *> views[i]
            if views[i] is None or Py_REFCNT(view) <= 1:
                continue
            if not collected:  # what only a cycle holds is not kept
                collected = True
                gc.collect()
            if Py_REFCNT(view) > 1:
                raise ResultError(f"its kernel must not keep its arrays, got argument {i} still in use"
                                  "\nhint: keep a copy, or register the op with copies=True")


cdef int custom_host(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) noexcept nogil:
    """attrs: call
    A kernel in Python: the address of a `HostCall`."""
    cdef void **raised = (<const rlx_run_frame *> f).raised
    with gil:
        try:
            (<HostCall> <PyObject *> <intptr_t> t.attrs[0]).run(t, f)
        except BaseException as exc:
            if raised[0] == NULL:
                Py_INCREF(exc)
                raised[0] = <void *> exc
            f.error.value = 1 if isinstance(exc, Exception) else 0
            return RLX_ERR_PYTHON
    return RLX_OK


ctypedef int32_t (*custom_fn)(void *const *, const int64_t *const *, const int64_t *, const int64_t *,
                              int64_t, int64_t) noexcept nogil

cdef enum:
    MAX_OPERANDS = 64


cdef int custom_native(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) noexcept nogil:
    """attrs: fn ranks:* sizes:* words:*
    A C kernel; see rlx/include/rlx_custom.h."""
    cdef const int64_t *a = t.attrs
    cdef const int64_t *ranks = a + a[1]
    cdef const int64_t *sizes = a + a[3]
    cdef void *data[MAX_OPERANDS]
    cdef const int64_t *shapes[MAX_OPERANDS]
    cdef int64_t i
    cdef int32_t status
    for i in range(t.n_args):
        data[i] = NULL if t.args[i].slot < 0 else <void *> (f.base[t.args[i].slot] + t.args[i].offset)
        shapes[i] = sizes
        sizes += ranks[i]
    status = (<custom_fn> <intptr_t> a[0])(data, shapes, ranks, a + a[5], lo, hi)
    if status != 0:
        f.error.value = status
        return RLX_ERR_CUSTOM
    return RLX_OK


# They call what an attribute says: never to be found by a name that comes from a file.
KERNELS = {
    "custom.host": (<intptr_t> <rlx_kernel> custom_host, "call", 0),
    "custom.native": (<intptr_t> <rlx_kernel> custom_native, "fn ranks:* sizes:* words:*", 0),
}
