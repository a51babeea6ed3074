"""Arrays from and to DLPack capsules, bfloat16 and the other types of ml_dtypes included.

NumPy's own `from_dlpack` and `ndarray.__dlpack__` know neither bfloat16 nor float8. A
producer's memory lives as long as an array that was made from it; an exported array
lives until the consumer calls the deleter.
"""

cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport (
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetName,
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import ml_dtypes
import numpy as np

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(PyTypeObject *, void *, int, cnp.npy_intp *, cnp.npy_intp *,
                                void *, int, PyObject *)

cdef extern from "dlpack_abi.h":
    ctypedef struct rlx_dl_tensor:
        void *data
        int32_t device_type
        int32_t device_id
        int32_t ndim
        uint8_t code
        uint8_t bits
        uint16_t lanes
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct rlx_dl_managed:
        rlx_dl_tensor tensor
        void *context
        void (*deleter)(rlx_dl_managed *) noexcept
    ctypedef struct rlx_dl_versioned:
        uint32_t major
        uint32_t minor
        void *context
        void (*deleter)(rlx_dl_versioned *) noexcept
        uint64_t flags
        rlx_dl_tensor tensor
    enum:
        RLX_DL_READ_ONLY

# (code, bits) -> NumPy type. Codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 10 to 13 float8.
_TYPES = {(0, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)}
_TYPES |= {(1, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
_TYPES |= {(2, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)}
_TYPES |= {(5, 8 * n): np.dtype(f"c{n}") for n in (8, 16)}
_TYPES |= {(4, 16): np.dtype(ml_dtypes.bfloat16), (6, 8): np.dtype(np.bool_),
           (10, 8): np.dtype(ml_dtypes.float8_e4m3fn), (11, 8): np.dtype(ml_dtypes.float8_e4m3fnuz),
           (12, 8): np.dtype(ml_dtypes.float8_e5m2), (13, 8): np.dtype(ml_dtypes.float8_e5m2fnuz)}
_CODES = {dtype: code for code, dtype in _TYPES.items()}
# Host memory: CPU, and pinned by CUDA or ROCm.
_HOST = (1, 3, 11)


cdef class Owner:
    """What keeps a producer's memory: calls its deleter at the end."""

    cdef rlx_dl_managed *plain
    cdef rlx_dl_versioned *versioned

    def __dealloc__(self):
        if self.plain != NULL and self.plain.deleter != NULL:
            self.plain.deleter(self.plain)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)


def from_dlpack(producer):
    """An array over the memory of anything with `__dlpack__`; read-only if the producer says so.

    Raises
    ------
    BufferError
        It is not host memory, of a type that NumPy and ml_dtypes do not have, or not exportable.
    """
    cdef Owner owner = Owner()
    cdef rlx_dl_tensor *t
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp strides[64]
    cdef int i
    cdef int64_t step
    cdef bint read_only = False
    cdef bint empty = False
    cdef object dtype, array
    device = producer.__dlpack_device__()
    if int(device[0]) not in _HOST:
        raise BufferError(f"memory must be on the host, got DLPack device {tuple(map(int, device))}")
    try:
        capsule = producer.__dlpack__(max_version=(1, 0))
    except TypeError:  # of the time before versions
        capsule = producer.__dlpack__()
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        owner.versioned = <rlx_dl_versioned *> PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        PyCapsule_SetName(capsule, b"used_dltensor_versioned")
        if owner.versioned.major != 1:
            raise BufferError(f"DLPack must be of version 1, got {owner.versioned.major}")
        read_only = owner.versioned.flags & RLX_DL_READ_ONLY != 0
        t = &owner.versioned.tensor
    elif PyCapsule_IsValid(capsule, b"dltensor"):
        owner.plain = <rlx_dl_managed *> PyCapsule_GetPointer(capsule, b"dltensor")
        PyCapsule_SetName(capsule, b"used_dltensor")
        t = &owner.plain.tensor
    else:
        raise BufferError(f"__dlpack__ must return a capsule that was not used, got {type(capsule).__name__}")
    dtype = _TYPES.get((t.code, t.bits)) if t.lanes == 1 else None
    if dtype is None:
        raise BufferError(f"element type must be one of NumPy's or ml_dtypes', got DLPack code {t.code} of {t.bits} "
                          f"bits, {t.lanes} lanes")
    if t.ndim < 0 or t.ndim > 64:
        raise BufferError(f"rank must be at most 64, got {t.ndim}")
    if t.ndim > 0 and t.shape == NULL:
        raise BufferError(f"{t.ndim} sizes must be given, got a null pointer")
    step = dtype.itemsize
    for i in range(t.ndim):
        if t.shape[i] < 0:
            raise BufferError(f"sizes must not be negative, got {t.shape[i]}")
        empty = empty or t.shape[i] == 0
    if empty:
        return np.empty([t.shape[i] for i in range(t.ndim)], dtype)
    if t.data == NULL:
        raise BufferError("memory must be given, got a null pointer")
    for i in range(t.ndim - 1, -1, -1):
        dims[i] = t.shape[i]
        strides[i] = step if t.strides == NULL else t.strides[i] * dtype.itemsize
        step *= max(dims[i], 1)
    Py_INCREF(dtype)
    array = PyArray_NewFromDescr(<PyTypeObject *> cnp.ndarray, <void *> dtype, t.ndim, dims, strides,
                                 <char *> t.data + t.byte_offset,
                                 0 if read_only else cnp.NPY_ARRAY_WRITEABLE, NULL)
    cnp.set_array_base(array, owner)
    return array


# One allocation per export: the structure, then shape and strides.
cdef struct Block:
    rlx_dl_versioned versioned
    rlx_dl_managed plain
    int64_t sizes[128]

cdef Py_ssize_t PLAIN_AT = sizeof(rlx_dl_versioned)


cdef void drop_plain(rlx_dl_managed *managed) noexcept with gil:
    Py_DECREF(<object> managed.context)
    PyMem_Free(<void *> (<char *> managed - PLAIN_AT))


cdef void drop_versioned(rlx_dl_versioned *managed) noexcept with gil:
    Py_DECREF(<object> managed.context)
    PyMem_Free(<void *> managed)


cdef void forget(object capsule) noexcept:
    """Destructor of a capsule; gives back what nobody has consumed."""
    cdef rlx_dl_managed *plain
    cdef rlx_dl_versioned *versioned
    if PyCapsule_IsValid(capsule, b"dltensor"):
        plain = <rlx_dl_managed *> PyCapsule_GetPointer(capsule, b"dltensor")
        plain.deleter(plain)
    elif PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        versioned = <rlx_dl_versioned *> PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        versioned.deleter(versioned)


cdef void fill(rlx_dl_tensor *t, cnp.ndarray array, int64_t *sizes, tuple code):
    cdef int i
    cdef int64_t itemsize = cnp.PyArray_ITEMSIZE(array)
    t.data = cnp.PyArray_DATA(array)
    t.device_type = 1
    t.device_id = 0
    t.ndim = cnp.PyArray_NDIM(array)
    t.code = code[0]
    t.bits = code[1]
    t.lanes = 1
    t.shape = sizes
    t.strides = sizes + 64
    t.byte_offset = 0
    for i in range(t.ndim):
        t.shape[i] = cnp.PyArray_DIM(array, i)
        t.strides[i] = cnp.PyArray_STRIDE(array, i) // itemsize


@cython.final
cdef class Exported:
    """An array that others read through DLPack, whatever its element type. Made by `rlx.to_dlpack`."""

    cdef readonly cnp.ndarray array
    cdef tuple code

    def __init__(self, cnp.ndarray array):
        code = _CODES.get(array.dtype)
        if code is None:
            raise BufferError(f"element type must have a DLPack code, got {array.dtype}")
        for size, stride in zip((<object> array).shape, (<object> array).strides):
            if size > 1 and stride % array.itemsize:
                raise BufferError("strides must be whole elements")
        self.array = array
        self.code = code

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        cdef Block *block
        cdef cnp.ndarray array = self.array
        if stream is not None:
            raise BufferError("stream must be None for host memory")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"device must be the host, got {dl_device}")
        if copy:
            array = array.copy()
        cdef bint wants = max_version is not None and max_version[0] >= 1
        cdef bint frozen = not cnp.PyArray_ISWRITEABLE(array)
        if frozen and not wants:
            raise BufferError("a read-only array can be exported to consumers of DLPack 1.0 only")
        block = <Block *> PyMem_Malloc(sizeof(Block))
        if block == NULL:
            raise MemoryError()
        if wants:
            block.versioned.major = 1
            block.versioned.minor = 0
            block.versioned.flags = RLX_DL_READ_ONLY if frozen else 0
            block.versioned.context = <void *> array
            block.versioned.deleter = drop_versioned
            fill(&block.versioned.tensor, array, block.sizes, self.code)
            Py_INCREF(array)
            return PyCapsule_New(&block.versioned, b"dltensor_versioned", forget)
        block.plain.context = <void *> array
        block.plain.deleter = drop_plain
        fill(&block.plain.tensor, array, block.sizes, self.code)
        Py_INCREF(array)
        return PyCapsule_New(&block.plain, b"dltensor", forget)
