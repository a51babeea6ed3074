/* copy: n bytes from one operand to another.
 *
 * Design: memcpy in ranges of bytes; used for outputs that alias an input, a
 * constant or one another, for concatenations of contiguous pieces, and before a
 * scatter into a copy (nothing to do where the planner gave both the same memory). */
#include "abi.h"

static int copy_bytes(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    if (hi <= lo)
        return RLX_OK;
    char *to = RLX_PTR(t, f, 1) + lo;
    const char *from = RLX_PTR(t, f, 0) + lo;
    if (to != from)
        memcpy(to, from, (size_t)(hi - lo));
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_copy[] = {
    {"copy.bytes", copy_bytes, "", RLX_INPLACE},
    {NULL, NULL, NULL, 0},
};
