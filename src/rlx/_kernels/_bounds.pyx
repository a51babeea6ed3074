"""Proves calls by the rules of bounds.h: that a kernel stays inside its operands, whatever they hold."""

cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset, strcmp

from rlx._kernels.abi cimport (
    RLX_FREE,
    RLX_MOST_ARGS,
    rlx_bounds,
    rlx_bounds_row,
    rlx_claim,
    rlx_ew_shape,
    rlx_families,
)

cnp.import_array()


cdef struct Kernel:
    rlx_bounds rule
    const char *family
    const char *type
    const char *variant
    int64_t size
    int64_t size2


cdef rlx_bounds find(const rlx_families *fam, const char *family, const char *layout) noexcept:
    cdef const rlx_bounds_row *row
    cdef int i = 0
    while fam.bounds[i] != NULL:
        row = fam.bounds[i]
        while row.family != NULL:
            if strcmp(row.family, family) == 0 and strcmp(row.layout, layout) == 0:
                return row.rule
            row += 1
        i += 1
    return NULL


cdef class Rules:
    """The rules of one ISA level for some kernels.

    Parameters
    ----------
    families : capsule
        Of the level's module.
    kernels : list of (name, layout)
    ews : list of (name, arity)
    """

    cdef Kernel *kernels
    cdef rlx_ew_shape *ews
    cdef list texts
    cdef tuple missing
    cdef Py_ssize_t n_kernels, n_ews

    def __cinit__(self, object families, list kernels, list ews):
        cdef const rlx_families *fam = <const rlx_families *> PyCapsule_GetPointer(families, b"rlx.families")
        cdef Kernel *k
        cdef bytes layout, family, kind, variant
        cdef Py_ssize_t i
        cdef list missing = []
        self.n_kernels, self.n_ews = len(kernels), len(ews)
        self.kernels = <Kernel *> PyMem_Malloc(max(1, self.n_kernels) * sizeof(Kernel))
        self.ews = <rlx_ew_shape *> PyMem_Malloc(max(1, self.n_ews) * sizeof(rlx_ew_shape))
        if self.kernels == NULL or self.ews == NULL:
            raise MemoryError()
        self.texts = []
        for i, (name, fields) in enumerate(kernels):
            head, _, rest = name.partition(".")
            first, _, second = rest.partition("@")
            layout, family, kind, variant = fields.encode(), head.encode(), first.encode(), second.encode()
            self.texts += [family, kind, variant]
            k = self.kernels + i
            k.family, k.type, k.variant = family, kind, variant
            k.size, k.size2 = fam.size_of(kind, len(kind)), fam.size_of(variant, len(variant))
            k.rule = find(fam, family, layout)
            if k.rule == NULL:
                missing.append(name)
        for i, (name, arity) in enumerate(ews):
            layout = name.encode()
            if not fam.ew_shape_of(layout, arity, self.ews + i):
                missing.append(name)
        self.missing = tuple(missing)

    def __dealloc__(self):
        PyMem_Free(self.kernels)
        PyMem_Free(self.ews)

    @property
    def unknown(self):
        """Kernels and micro-kernels that have no rule, by name."""
        return self.missing

    def prove(self, const int64_t[::1] kernel, const int64_t[::1] extent, const int64_t[::1] grain,
              const int64_t[::1] phases, const int64_t[::1] words, const int64_t[::1] refs,
              const int64_t[::1] attr_start, const int64_t[::1] arg_start, const int64_t[::1] slot,
              const int64_t[::1] place, const int64_t[::1] nbytes, const uint8_t[::1] writable,
              const int64_t[::1] data, const uint8_t[::1] skip, int64_t workers, const int64_t[:, ::1] shared):
        """Prove calls whose places and lists have been found to be in range.

        Parameters
        ----------
        kernel, extent, grain, phases : int64 arrays
            Per call.
        words, refs : int64 arrays
            Attributes, and per word the number of the micro-kernel or -1.
        attr_start, arg_start : int64 arrays
            Where the words and operands of each call begin, and their end.
        slot, place, nbytes, data : int64 arrays
            Per operand; slot -1: absent; data: address of a constant's bytes or 0.
        writable : uint8 array
            Per operand: whether it is memory of the run.
        skip : uint8 array
            Per kernel: its calls are proved elsewhere.
        workers : int
            Workspaces in use at once.
        shared : int64 array [n, 3]
            Call, written operand, read operand that may be the same memory.

        Returns
        -------
        (int, str) or None
            The first call that is not proved, and why.
        """
        cdef rlx_claim c
        cdef Kernel *k
        cdef Py_ssize_t i, w, r, first, n, at = 0
        cdef const char *why
        cdef int64_t[1] nothing
        cdef int64_t free
        cdef int64_t[64] bytes_
        for i in range(kernel.shape[0]):
            k = self.kernels + kernel[i]
            if skip[kernel[i]]:
                if grain[i] != 0 or phases[i] != 1:
                    return i, "a call with bodies must run on one thread"
                continue
            if k.rule == NULL:
                return i, "no rule says what it may touch"
            first, n = arg_start[i], arg_start[i + 1] - arg_start[i]
            if n > RLX_MOST_ARGS:
                return i, "there must be at most 64 operands"
            memset(&c, 0, sizeof(c))
            for r in range(n):
                bytes_[r] = nbytes[first + r] if slot[first + r] >= 0 else -1
            c.family, c.type, c.variant, c.size, c.size2 = k.family, k.type, k.variant, k.size, k.size2
            c.attrs = &words[attr_start[i]] if attr_start[i] < words.shape[0] else nothing
            c.refs = &refs[attr_start[i]] if attr_start[i] < words.shape[0] else nothing
            c.ews = self.ews
            c.extent, c.phases, c.grain, c.workers, c.n_args = extent[i], phases[i], grain[i], workers, n
            c.bytes = bytes_
            if n:
                c.slots, c.places = &slot[first], &place[first]
                c.writable, c.data = &writable[first], <const char *const *> &data[first]
            k.rule(&c)
            why = c.why
            free = RLX_FREE
            for r in range(n):
                free += c.touched[r]
            if why == NULL and c.extent > free:
                why = "items must have places of their own"
            for w in range(n):
                if why != NULL:
                    break
                if not (c.written >> w) & 1 or c.touched[w] <= 0:
                    continue
                for r in range(n):
                    if (r == w or c.touched[r] <= 0 or slot[first + r] != slot[first + w]
                            or place[first + r] >= place[first + w] + c.touched[w]
                            or place[first + w] >= place[first + r] + c.touched[r]):
                        continue
                    if place[first + r] == place[first + w] and (c.alias[w] >> r) & 1:
                        continue
                    why = "what is written must not lie where another operand does"
            while at < shared.shape[0] and shared[at, 0] == i and why == NULL:
                w, r = shared[at, 1], shared[at, 2]
                if w < 0 or r < 0 or w >= n or r >= n or not (c.alias[w] >> r) & 1:
                    why = "what is written must not lie where another operand does"
                at += 1
            if why != NULL:
                return i, (<bytes> why).decode()
        if at < shared.shape[0]:
            return int(shared[at, 0]), "operands that share memory must be listed in order of their calls"
        return None
