"""Pages of memory: which are there, and giving them back to the system."""

cimport numpy as cnp
from libc.stdint cimport int64_t

cnp.import_array()

cdef extern from *:
    """
    #if defined(__linux__)
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>

    /* The whole pages of a range: those at its ends may hold other data. */
    static int64_t rlx_whole(char *p, int64_t n, char **from) {
        intptr_t page = sysconf(_SC_PAGESIZE);
        intptr_t lo = ((intptr_t)p + page - 1) / page * page, hi = ((intptr_t)p + n) / page * page;
        *from = (char *)lo;
        return hi > lo ? hi - lo : 0;
    }
    static int64_t rlx_resident(char *p, int64_t n) {
        char *from;
        int64_t page = sysconf(_SC_PAGESIZE), size = rlx_whole(p, n, &from), found = 0;
        unsigned char *seen = size ? malloc(size / page) : NULL;
        if (seen && mincore(from, size, seen) == 0)
            for (int64_t i = 0; i < size / page; i++)
                found += seen[i] & 1;
        free(seen);
        return found * page;
    }
    static int64_t rlx_release(char *p, int64_t n) {
        char *from;
        int64_t size = rlx_whole(p, n, &from), before = rlx_resident(p, n);
        return size && madvise(from, size, MADV_DONTNEED) == 0 ? before : 0;
    }
    #else
    static int64_t rlx_resident(char *p, int64_t n) { return n; }
    static int64_t rlx_release(char *p, int64_t n) { return 0; }
    #endif
    """
    int64_t rlx_resident(char *p, int64_t n) nogil
    int64_t rlx_release(char *p, int64_t n) nogil


def resident(cnp.ndarray array):
    """Bytes of the whole pages inside an array that are in memory; all of them where the system cannot tell."""
    cdef char *data = <char *> cnp.PyArray_DATA(array)
    cdef int64_t n = cnp.PyArray_NBYTES(array)
    with nogil:
        n = rlx_resident(data, n)
    return n


def release(cnp.ndarray array):
    """Give the whole pages inside an array of private memory back; its content is lost. Returns their bytes."""
    cdef char *data = <char *> cnp.PyArray_DATA(array)
    cdef int64_t n = cnp.PyArray_NBYTES(array)
    with nogil:
        n = rlx_release(data, n)
    return n
