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
 * index; so any sort is stable. With AVX-512, entries of 8 bytes and rows of
 * values alone are sorted in vectors (order_vector.h), of which the k best need
 * a part only. Else up to MERGE elements are merge-sorted (runs of
 * 12 by insertion), more are radix-sorted by bytes, skipping bytes that are the
 * same everywhere. The k best of many come from a heap of k; blocks of
 * elements that all lose against its root are skipped with vectors.
 */
#include "abi.h"
#include "order_vector.h"
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

/* Keys that sort as unsigned numbers; without branches, so that loops of them are vectors. */
#define KEY_FLOAT(T, U, S, TN, INFINITE)                                                       \
    static inline U key_##TN(T x) {                                                            \
        const U sign = (U)1 << (8 * sizeof(U) - 1);                                            \
        U u, size;                                                                             \
        memcpy(&u, &x, sizeof u);                                                              \
        size = u << 1;                                                                         \
        u ^= (U)((S)u >> (8 * sizeof(U) - 1)) | sign;                                          \
        u = size == 0 ? sign : u;                                                              \
        return size > INFINITE ? (U)-1 : u;                                                    \
    }                                                                                          \
    /* NaN or -0 */                                                                            \
    static inline U odd_##TN(T x) {                                                            \
        U u;                                                                                   \
        memcpy(&u, &x, sizeof u);                                                              \
        return (u << 1 > INFINITE) | (u == (U)1 << (8 * sizeof(U) - 1));                       \
    }
KEY_FLOAT(float, uint32_t, int32_t, f32, 0xff000000u)
KEY_FLOAT(double, uint64_t, int64_t, f64, 0xffe0000000000000u)
/* The number of a key, one of those that have the same. */
#define VALUE_FLOAT(T, U, S, TN)                                       \
    static inline T value_##TN(U u) {                                  \
        T x;                                                           \
        u ^= (U)~((S)u >> (8 * sizeof(U) - 1)) | (U)1 << (8 * sizeof(U) - 1); \
        memcpy(&x, &u, sizeof x);                                      \
        return x;                                                      \
    }
VALUE_FLOAT(float, uint32_t, int32_t, f32)
VALUE_FLOAT(double, uint64_t, int64_t, f64)
#define KEY_SIGNED(T, U, TN) \
    static inline U key_##TN(T x) { return (U)((U)x ^ (U)1 << (8 * sizeof(U) - 1)); } \
    static inline T value_##TN(U u) { return (T)(u ^ (U)1 << (8 * sizeof(U) - 1)); } \
    static inline U odd_##TN(T x) { return 0; }
#define KEY_UNSIGNED(T, TN) \
    static inline T key_##TN(T x) { return x; } \
    static inline T value_##TN(T u) { return u; } \
    static inline T odd_##TN(T x) { return 0; }
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
