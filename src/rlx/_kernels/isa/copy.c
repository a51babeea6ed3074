/* copy: n bytes from one operand to another.
 *
 * Design: memcpy in ranges of bytes; used for outputs that alias an input, a
 * constant or one another, and for concatenations of contiguous pieces. */
#include "abi.h"

static int copy_bytes(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    if (hi > lo)
        memcpy(RLX_PTR(t, f, 1) + lo, RLX_PTR(t, f, 0) + lo, (size_t)(hi - lo));
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_copy[] = {
    {"copy.bytes", copy_bytes, "", 0},
    {NULL, NULL, NULL, 0},
};
