/* order: sorting, the k best, distinct values.
 *
 * T: f32 f64 i8 i16 i32 i64 u8 u16 u32 u64. NaN counts as larger than every
 * number, -0.0 and +0.0 tie, ties go to the lower index (in both directions), so
 * every result is unique. `workspace` is a block per thread at tid * stride
 * bytes, aligned to 8; the unit E below is 8 bytes for types of up to 4 bytes
 * and 16 bytes for f64, i64, u64.
 *
 * sort.T     args: x, values?, indices? (i64), workspace
 *            attrs: outer n inner descending stride
 *            extent: outer * inner;  stride >= 2 n E
 *   x [outer, n, inner]; values and indices likewise.
 * top_k.T    args: x, values?, indices? (i64), workspace
 *            attrs: outer n inner k largest stride
 *            extent: outer * inner;  stride >= 2 n E;  k <= n
 *   values and indices [outer, k, inner], best first.
 * unique.T   args: x, values, first? (i64), inverse? (i64), counts? (i64),
 *                  count (one i64), workspace
 *            attrs: n sorted;  extent: 1;  workspace >= 2 n E + 16 n
 *   x [n]. count distinct values, ascending if sorted, else by first occurrence;
 *   first: index of the first occurrence, inverse [n]: which value each element
 *   is, counts: how often. NaNs are one value. Outputs have room for n.
 *
 * Elements become unsigned keys whose order is the wanted one, joined with their
 * index; so any sort is stable. Up to MERGE elements are merge-sorted (runs of
 * 12 by insertion), more are radix-sorted by bytes, skipping bytes that are the
 * same everywhere. The k best of many come from a heap of k; blocks of
 * elements that all lose against its root are skipped with vectors.
 */
#include "abi.h"
#include "vec.h"

#define RUN 12
#define MERGE 512
#define BLOCK 64 /* elements compared with the k-th best at once */

/* key << 32 | index */
typedef uint64_t entry4;
typedef struct {
    uint64_t key, index;
} entry8;

#define E entry4
#define EN 4
#define KEY_BYTES 4
#define KEY(e) ((e) >> 32)
#define INDEX_OF(e) ((int64_t)((e) & 0xffffffffu))
#define MAKE(key, index) ((uint64_t)(key) << 32 | (uint64_t)(index))
#define BEFORE(a, b) ((a) < (b))
#include "order_sort.inc"
#define E entry8
#define EN 8
#define KEY_BYTES 8
#define KEY(e) ((e).key)
#define INDEX_OF(e) ((int64_t)(e).index)
#define MAKE(key, index) ((entry8){key, (uint64_t)(index)})
#define BEFORE(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index < (b).index))
#include "order_sort.inc"

/* Keys that sort as unsigned numbers. */
static inline uint32_t key_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x)
        return UINT32_MAX;
    if (x == 0)
        u = 0;
    return u >> 31 ? ~u : u | (uint32_t)1 << 31;
}
static inline uint64_t key_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x)
        return UINT64_MAX;
    if (x == 0)
        u = 0;
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}
#define KEY_SIGNED(T, U, TN) \
    static inline U key_##TN(T x) { return (U)((U)x ^ (U)1 << (8 * sizeof(U) - 1)); }
#define KEY_UNSIGNED(T, TN) \
    static inline T key_##TN(T x) { return x; }
KEY_SIGNED(int8_t, uint8_t, i8)
KEY_SIGNED(int16_t, uint16_t, i16)
KEY_SIGNED(int32_t, uint32_t, i32)
KEY_SIGNED(int64_t, uint64_t, i64)
KEY_UNSIGNED(uint8_t, u8)
KEY_UNSIGNED(uint16_t, u16)
KEY_UNSIGNED(uint32_t, u32)
KEY_UNSIGNED(uint64_t, u64)

#define T float
#define TN f32
#define EN 4
#include "order.inc"
#define T double
#define TN f64
#define EN 8
#include "order.inc"
#define T int8_t
#define TN i8
#define EN 4
#include "order.inc"
#define T int16_t
#define TN i16
#define EN 4
#include "order.inc"
#define T int32_t
#define TN i32
#define EN 4
#include "order.inc"
#define T int64_t
#define TN i64
#define EN 8
#include "order.inc"
#define T uint8_t
#define TN u8
#define EN 4
#include "order.inc"
#define T uint16_t
#define TN u16
#define EN 4
#include "order.inc"
#define T uint32_t
#define TN u32
#define EN 4
#include "order.inc"
#define T uint64_t
#define TN u64
#define EN 8
#include "order.inc"

#define ROWS(TN)                                                      \
    {"sort." #TN, sort_##TN, "outer n inner descending stride", 0},   \
    {"top_k." #TN, top_k_##TN, "outer n inner k largest stride", 0},  \
    {"unique." #TN, unique_##TN, "n sorted", 0}

const rlx_kernel_row rlx_rows_order[] = {
    ROWS(f32), ROWS(f64), ROWS(i8), ROWS(i16), ROWS(i32), ROWS(i64),
    ROWS(u8), ROWS(u16), ROWS(u32), ROWS(u64),
    {NULL, NULL, NULL, 0},
};
