"""Declarations of include/abi.h and include/pool.h; see there for the contract."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef extern from "abi.h" nogil:
    ctypedef struct rlx_arg:
        int32_t slot
        int32_t reserved
        int64_t offset

    ctypedef struct rlx_error:
        int32_t node
        int32_t status
        int64_t value
        int64_t bound
        int64_t position

    ctypedef struct rlx_frame:
        char **base
        rlx_error *error
        const int32_t *cancel
        void *state
        int64_t *since
        int32_t tid
        int32_t n_threads

    ctypedef int (*rlx_kernel)(const rlx_thunk *, const rlx_frame *, int64_t, int64_t) noexcept nogil

    ctypedef struct rlx_thunk:
        rlx_kernel fn
        const int64_t *attrs
        const rlx_arg *args
        int64_t extent
        int64_t grain
        int32_t node
        int32_t n_args
        int64_t cost
        int64_t phases

    ctypedef int (*rlx_ew)(void *, const void *, const void *, const void *, int64_t,
                           const double *, rlx_error *) noexcept nogil

    ctypedef struct rlx_kernel_row:
        const char *name
        rlx_kernel fn
        const char *layout
        int32_t flags

    ctypedef struct rlx_ew_row:
        const char *name
        rlx_ew fn
        int32_t arity

    int RLX_OK
    int RLX_ERR_CANCELLED
    int RLX_ERR_VALUE
    int RLX_ERR_PYTHON
    int RLX_INPLACE


cdef extern from "bounds.h" nogil:
    int RLX_MOST_ARGS
    int64_t RLX_FREE

    ctypedef struct rlx_ew_shape:
        int32_t dst
        int32_t[3] src
        int32_t params
        int32_t traps

    ctypedef struct rlx_claim:
        const char *family
        const char *type
        const char *variant
        int64_t size
        int64_t size2
        const int64_t *attrs
        const int64_t *refs
        const rlx_ew_shape *ews
        int64_t extent
        int64_t phases
        int64_t grain
        int64_t workers
        int64_t n_args
        const int64_t *slots
        const int64_t *places
        const int64_t *bytes
        const uint8_t *writable
        const char *const *data
        int64_t *touched
        uint64_t written
        uint64_t *alias
        const char *why

    ctypedef void (*rlx_bounds)(rlx_claim *) noexcept nogil

    ctypedef struct rlx_bounds_row:
        const char *family
        const char *layout
        rlx_bounds rule


cdef extern from "families.h" nogil:
    ctypedef struct rlx_families:
        const rlx_kernel_row **kernels
        const rlx_ew_row **ews
        const rlx_bounds_row **bounds
        int64_t (*size_of)(const char *, int64_t) noexcept nogil
        int (*ew_shape_of)(const char *, int32_t, rlx_ew_shape *) noexcept nogil
        const char *level
        const char *sources
