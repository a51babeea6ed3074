/* unique_rows: distinct rows of a matrix.
 *
 * unique_rows.T  args: x, values, first (i64), inverse (i64), counts (i64),
 *                      count (one i64), workspace
 *                attrs: n m sorted;  extent: 1;  workspace >= 24 n bytes
 *   x [n, m]. `count` distinct rows, in lexicographic order if sorted, else by
 *   first occurrence; first: index of the first occurrence, inverse [n]: which
 *   row each one is, counts: how often. NaN is the largest value and equals
 *   itself, -0.0 equals +0.0. Outputs have room for n rows. T: f32 f64 and the
 *   integers.
 *
 * A stable merge sort of row numbers: comparisons mostly end at the first
 * element, and rows are moved once, at the end.
 */
#include "abi.h"
#include "vec.h"

#define UNIQUE(T, TN)                                                                       \
    /* < 0, 0, > 0: order of two rows */                                                    \
    static int order_##TN(const T *a, const T *b, int64_t m) {                              \
        for (int64_t j = 0; j < m; j++) {                                                   \
            const int a_nan = a[j] != a[j], b_nan = b[j] != b[j];                           \
            if (a_nan || b_nan) {                                                           \
                if (a_nan != b_nan)                                                         \
                    return a_nan - b_nan;                                                   \
            } else if (a[j] != b[j]) {                                                      \
                return a[j] < b[j] ? -1 : 1;                                                \
            }                                                                               \
        }                                                                                   \
        return 0;                                                                           \
    }                                                                                       \
    static int unique_rows_##TN(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t n = t->attrs[0], m = t->attrs[1], sorted = t->attrs[2];               \
        int64_t *count = (int64_t *)RLX_PTR(t, f, 5);                                       \
        *count = 0;                                                                         \
        if (n == 0)                                                                         \
            return RLX_OK;                                                                  \
        const T *x = m ? (const T *)RLX_PTR(t, f, 0) : NULL;                                \
        T *values = m ? (T *)RLX_PTR(t, f, 1) : NULL;                                       \
        int64_t *first = (int64_t *)RLX_PTR(t, f, 2), *inverse = (int64_t *)RLX_PTR(t, f, 3); \
        int64_t *counts = (int64_t *)RLX_PTR(t, f, 4), *from = (int64_t *)RLX_PTR(t, f, 6); \
        int64_t *to = from + n, *rank = to + n, groups = 0;                                 \
        for (int64_t i = 0; i < n; i++)                                                     \
            from[i] = i;                                                                    \
        for (int64_t width = 1; width < n; width *= 2) {                                    \
            for (int64_t at = 0; at < n; at += 2 * width) {                                 \
                const int64_t middle = rlx_min64(at + width, n);                            \
                const int64_t end = rlx_min64(at + 2 * width, n);                           \
                int64_t l = at, r = middle;                                                 \
                for (int64_t k = at; k < end; k++) {                                        \
                    const int left = r >= end ||                                            \
                        (l < middle && order_##TN(x + from[l] * m, x + from[r] * m, m) <= 0); \
                    to[k] = left ? from[l++] : from[r++];                                   \
                }                                                                           \
            }                                                                               \
            int64_t *swap = from;                                                           \
            from = to;                                                                      \
            to = swap;                                                                      \
        }                                                                                   \
        /* `to` now takes the first occurrences, in sorted order */                         \
        for (int64_t i = 0; i < n; i++) {                                                   \
            if (i == 0 || order_##TN(x + from[i - 1] * m, x + from[i] * m, m) != 0) {       \
                to[groups] = from[i];                                                       \
                rank[groups++] = -1;                                                        \
            }                                                                               \
            inverse[from[i]] = groups - 1;                                                  \
        }                                                                                   \
        int64_t next = 0;                                                                   \
        for (int64_t i = 0; i < n && !sorted; i++)                                          \
            if (rank[inverse[i]] < 0)                                                       \
                rank[inverse[i]] = next++;                                                  \
        for (int64_t g = 0; g < groups; g++) {                                              \
            const int64_t place = sorted ? g : rank[g];                                     \
            first[place] = to[g];                                                           \
            counts[place] = 0;                                                              \
            if (m)                                                                          \
                memcpy(values + place * m, x + to[g] * m, (size_t)m * sizeof(T));           \
        }                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                   \
            inverse[i] = sorted ? inverse[i] : rank[inverse[i]];                            \
            counts[inverse[i]]++;                                                           \
        }                                                                                   \
        *count = groups;                                                                    \
        return RLX_OK;                                                                      \
    }
UNIQUE(float, f32)
UNIQUE(double, f64)
UNIQUE(int8_t, i8)
UNIQUE(int16_t, i16)
UNIQUE(int32_t, i32)
UNIQUE(int64_t, i64)
UNIQUE(uint8_t, u8)
UNIQUE(uint16_t, u16)
UNIQUE(uint32_t, u32)
UNIQUE(uint64_t, u64)

#define ROW(TN) {"unique_rows." #TN, unique_rows_##TN, "n m sorted", 0}

const rlx_kernel_row rlx_rows_unique_rows[] = {
    ROW(f32), ROW(f64), ROW(i8), ROW(i16), ROW(i32), ROW(i64),
    ROW(u8), ROW(u16), ROW(u32), ROW(u64),
    {NULL, NULL, NULL, 0},
};
