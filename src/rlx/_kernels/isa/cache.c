/* cache: rows put behind the valid part of a cache.
 *
 * cache.append  args cache, rows, length i64, out, end i64
 *               attrs items per capacity rows row;  extent items' runs
 *   cache, out [extent, capacity] of rows of `row` bytes, rows [extent, rows]. Run e belongs to
 *   item e / per of `items` lengths (one length: all runs). out is the cache with the
 *   rows from length on replaced, end = length + rows (by the call that has run 0). A length below 0 or beyond capacity - rows is
 *   RLX_ERR_FULL (value = rows at the end, bound = capacity, position = item); every call
 *   looks at all lengths before it writes.
 *
 * Design: where out is the cache itself, which is the point of it, only the new rows move; else
 * what is before and behind them is copied too. Bytes, so that one kernel serves all types. */
#include "abi.h"

/* A status of this family alone: rows do not fit. */
enum { RLX_ERR_FULL = 9 };

static int cache_append(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const int64_t items = a[0], per = a[1], capacity = a[2], rows = a[3];
    const size_t row = (size_t)a[4];
    const int64_t *length = (const int64_t *)RLX_PTR(t, f, 2);
    for (int64_t i = 0; i < items; i++)
        if (length[i] < 0 || length[i] > capacity - rows)
            return rlx_fail(f, RLX_ERR_FULL, length[i] < 0 ? length[i] : length[i] + rows, capacity, i);
    const char *from = RLX_PTR(t, f, 0), *more = RLX_PTR(t, f, 1);
    char *to = RLX_PTR(t, f, 3);
    int64_t *end_of = (int64_t *)RLX_PTR(t, f, 4);
    for (int64_t i = 0; i < items && lo == 0; i++)
        end_of[i] = length[i] + rows;
    const size_t whole = (size_t)capacity * row, part = (size_t)rows * row;
    for (int64_t e = lo; e < hi && items; e++) {
        const size_t start = (size_t)length[items == 1 ? 0 : e / per] * row;
        const size_t end = start + part, at = (size_t)e * whole;
        if (part)
            memcpy(to + at + start, more + (size_t)e * part, part);
        if (to == from)
            continue;
        if (start)
            memcpy(to + at, from + at, start);
        if (end < whole)
            memcpy(to + at + end, from + at + end, whole - end);
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_cache[] = {
    {"cache.append", cache_append, "items per capacity rows row", RLX_INPLACE},
    {NULL, NULL, NULL, 0},
};
