/* index: gathers, scatters and what else turns indices into places.
 *
 * Kernels are `name.b<item size>@<index type>` where bytes only move, and
 * `name.<dtype>@<index type>` where values are combined; index type i32 or i64.
 * Indices are checked, all of them, by every call and before it writes: -dim <=
 * i < dim, negative ones count from the end. Otherwise RLX_ERR_INDEX with value
 * = the index, bound = dim, position = its place in the indices. The check runs
 * at several indices per cycle, so that even a range of one piece repeats it.
 *
 * gather.b*@i           args: data, indices, out;  attrs: outer dim n inner
 *                       extent: outer * n
 *   data [outer, dim, inner], indices [n], out [outer, n, inner]. Rows of an
 *   embedding are outer = 1.
 * gather_elements.b*@i  args: data, indices, out
 *                       attrs: axis dim shape:* stride:*
 *                       extent: product of shape[:-1]
 *   `shape` is that of indices and out (rank >= 1), `stride` the strides of data
 *   in items; dim is the length of data along axis. Axes may be merged as long
 *   as `axis` stays one of its own.
 * gather_nd.b*@i        args: data, indices, out;  attrs: batch n inner dims:*
 *                       extent: batch * n
 *   data [batch, dims..., inner], indices [batch, n, len(dims)], out [batch, n,
 *   inner].
 *
 * scatter_elements.b*@i, scatter_elements_R.T@i
 *                       args: indices, updates, out
 *                       attrs: axis dim shape:* stride:*
 *                       extent: product of shape without axis
 * scatter_nd.b*@i, scatter_nd_R.T@i
 *                       args: indices, updates, out;  attrs: n inner dims:*
 *                       extent: inner
 *   out already holds the data (copied, or in place) when the kernel starts.
 *   shape is that of indices and updates, stride that of out. scatter_nd: indices
 *   [n, len(dims)], updates [n, inner], out [dims..., inner]. R in add mul max
 *   min, T in f32 f64 i8..i64 u8..u64. The range is cut across places that never
 *   meet; updates of one place apply in index order. NaN wins in max and min.
 *
 * one_hot.b*@i          args: indices, values, out;  attrs: outer depth inner
 *                       extent: outer * depth
 *   out[o, d, j] = values[indices[o, j] == d]; an index outside [-depth, depth)
 *   gives a row of values[0].
 * nonzero.T             args: data, out, count;  attrs: shape:*;  extent: 1
 *   out: i64 [rank, size], of which the first count columns are written;
 *   count: one i64. T: every real dtype, f16 and bf16 too; -0.0 is zero.
 * compress.b*           args: data, condition, out, count
 *                       attrs: outer n inner m;  extent: 1
 *   Keeps the indices i < m of the middle axis for which condition[i] is true;
 *   out is [outer, m, inner], of which the first count are written; m <= n.
 * search_sorted.T       args: sorted, values, out;  attrs: n m shared right
 *                       extent: rows * m
 *   sorted [rows, n] (one row for all if shared), values [rows, m]; out i64: how
 *   many elements are < value, or <= value if right. NaN counts as largest.
 */
#include "abi.h"
#include "run.h"

/* Vectorised check of n indices against one dim. */
#define CHECK(I, U, SUFFIX)                                                              \
    static int check_##SUFFIX(const rlx_frame *f, const I *index, int64_t n, int64_t dim) { \
        U bad = 0;                                                                       \
        const U low = (U)dim, span = (U)2 * (U)dim;                                      \
        if ((uint64_t)dim < (uint64_t)1 << (8 * sizeof(I) - 1)) {                        \
            for (int64_t i = 0; i < n; i++)                                              \
                bad |= (U)((U)index[i] + low >= span);                                   \
            if (!bad)                                                                    \
                return RLX_OK;                                                           \
        }                                                                                \
        for (int64_t i = 0; i < n; i++)                                                  \
            if (index[i] < -dim || index[i] >= dim)                                      \
                return rlx_fail(f, RLX_ERR_INDEX, index[i], dim, i);                     \
        return RLX_OK;                                                                   \
    }                                                                                    \
    /* n tuples of k indices */                                                          \
    static int check_tuples_##SUFFIX(const rlx_frame *f, const I *index, int64_t n,      \
                                     const int64_t *dims, int64_t k) {                   \
        if (k == 1)                                                                      \
            return check_##SUFFIX(f, index, n, dims[0]);                                 \
        for (int64_t i = 0; i < n; i++)                                                  \
            for (int64_t d = 0; d < k; d++) {                                            \
                const int64_t v = index[i * k + d];                                      \
                if (v < -dims[d] || v >= dims[d])                                        \
                    return rlx_fail(f, RLX_ERR_INDEX, v, dims[d], i * k + d);            \
            }                                                                            \
        return RLX_OK;                                                                   \
    }
CHECK(int32_t, uint32_t, i32)
CHECK(int64_t, uint64_t, i64)

static inline int64_t wrap(int64_t i, int64_t dim) { return i < 0 ? i + dim : i; }

/* Flat place of one tuple of indices. */
#define PLACE(I, SUFFIX)                                                                \
    static inline int64_t place_##SUFFIX(const I *index, const int64_t *dims, int64_t k) { \
        int64_t at = 0;                                                                 \
        for (int64_t d = 0; d < k; d++)                                                 \
            at = at * dims[d] + wrap(index[d], dims[d]);                                \
        return at;                                                                      \
    }
PLACE(int32_t, i32)
PLACE(int64_t, i64)

typedef struct {
    uint64_t low, high;
} item16;

#define T uint8_t
#define SUFFIX b1
#include "index_item.inc"
#define T uint16_t
#define SUFFIX b2
#include "index_item.inc"
#define T uint32_t
#define SUFFIX b4
#include "index_item.inc"
#define T uint64_t
#define SUFFIX b8
#include "index_item.inc"
#define T item16
#define SUFFIX b16
#include "index_item.inc"

/* scatters with a reduction */
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define WRAP_ADD(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define WRAP_MUL(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define SCATTERS(TYPE, TN, PLUS, TIMES)      \
    SCATTER(TYPE, add_##TN, PLUS, int32_t, i32) \
    SCATTER(TYPE, add_##TN, PLUS, int64_t, i64) \
    SCATTER(TYPE, mul_##TN, TIMES, int32_t, i32) \
    SCATTER(TYPE, mul_##TN, TIMES, int64_t, i64) \
    SCATTER(TYPE, max_##TN, MAX, int32_t, i32) \
    SCATTER(TYPE, max_##TN, MAX, int64_t, i64) \
    SCATTER(TYPE, min_##TN, MIN, int32_t, i32) \
    SCATTER(TYPE, min_##TN, MIN, int64_t, i64)
SCATTERS(float, f32, ADD, MUL)
SCATTERS(double, f64, ADD, MUL)
SCATTERS(int8_t, i8, WRAP_ADD, WRAP_MUL)
SCATTERS(int16_t, i16, WRAP_ADD, WRAP_MUL)
SCATTERS(int32_t, i32, WRAP_ADD, WRAP_MUL)
SCATTERS(int64_t, i64, WRAP_ADD, WRAP_MUL)
SCATTERS(uint8_t, u8, WRAP_ADD, WRAP_MUL)
SCATTERS(uint16_t, u16, WRAP_ADD, WRAP_MUL)
SCATTERS(uint32_t, u32, WRAP_ADD, WRAP_MUL)
SCATTERS(uint64_t, u64, WRAP_ADD, WRAP_MUL)

/* nonzero: MASK clears the sign bit of floats. A row at a time, as the other
 * indices stay the same; eight zeros are skipped at once. */
#define NONZERO(TYPE, TN, MASK)                                                           \
    static inline int any8_##TN(const TYPE *x) {                                          \
        TYPE any = 0;                                                                     \
        for (int i = 0; i < 8; i++)                                                       \
            any |= x[i];                                                                  \
        return (any & (TYPE)(MASK)) != 0;                                                 \
    }                                                                                     \
    static int nonzero_##TN(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {\
        const int64_t *shape = RLX_LIST(t->attrs, 0);                                     \
        const int rank = (int)RLX_COUNT(t->attrs, 0), last = rank - 1;                    \
        int64_t size = 1, at = 0, index[MAX_RANK] = {0};                                  \
        for (int d = 0; d < rank; d++)                                                    \
            size *= shape[d];                                                             \
        const TYPE *data = size ? (const TYPE *)RLX_PTR(t, f, 0) : NULL;                  \
        if (rank == 0)                                                                    \
            at = (data[0] & (TYPE)(MASK)) != 0;                                           \
        int64_t *out = size && rank ? (int64_t *)RLX_PTR(t, f, 1) : NULL;                 \
        for (int64_t row = 0; rank && row < size; row += shape[last]) {                   \
            const TYPE *x = data + row;                                                   \
            const int64_t first = at, width = shape[last];                                \
            int64_t *to = out + last * size;                                              \
            for (int64_t j = 0; j < width; j += 8) {                                      \
                if (j + 8 <= width && !any8_##TN(x + j))                                  \
                    continue;                                                             \
                for (int64_t i = j; i < least(j + 8, width); i++) {                       \
                    to[at] = i; /* at < size: a place not taken is written again */       \
                    at += (x[i] & (TYPE)(MASK)) != 0;                                     \
                }                                                                         \
            }                                                                             \
            for (int d = 0; d < last; d++)                                                \
                for (int64_t j = first; j < at; j++)                                      \
                    out[d * size + j] = index[d];                                         \
            advance(shape, last, index);                                                  \
        }                                                                                 \
        *(int64_t *)RLX_PTR(t, f, 2) = at;                                                \
        return RLX_OK;                                                                    \
    }
NONZERO(uint8_t, b1, ~0)
NONZERO(uint16_t, b2, ~0)
NONZERO(uint32_t, b4, ~0)
NONZERO(uint64_t, b8, ~0)
NONZERO(uint16_t, half, 0x7fff)
NONZERO(uint32_t, f32, 0x7fffffff)
NONZERO(uint64_t, f64, 0x7fffffffffffffff)

#define BEFORE(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define SEARCH(TYPE, TN)                                                                     \
    static int search_##TN(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t n = t->attrs[0], m = t->attrs[1], shared = t->attrs[2];                \
        const int64_t right = t->attrs[3];                                                   \
        if (hi <= lo)                                                                        \
            return RLX_OK;                                                                   \
        const TYPE *sorted = n ? (const TYPE *)RLX_PTR(t, f, 0) : NULL;                      \
        const TYPE *values = (const TYPE *)RLX_PTR(t, f, 1);                                 \
        int64_t *out = (int64_t *)RLX_PTR(t, f, 2);                                          \
        for (int64_t i = lo; i < hi; i++) {                                                  \
            const TYPE *row = shared ? sorted : sorted + i / m * n, v = values[i];           \
            int64_t from = 0, to = n;                                                        \
            while (from < to) {                                                              \
                const int64_t half = from + (to - from) / 2;                                 \
                if (right ? !BEFORE(v, row[half]) : BEFORE(row[half], v))                    \
                    from = half + 1;                                                         \
                else                                                                         \
                    to = half;                                                               \
            }                                                                                \
            out[i] = from;                                                                   \
        }                                                                                    \
        return RLX_OK;                                                                       \
    }
SEARCH(float, f32)
SEARCH(double, f64)
SEARCH(int32_t, i32)
SEARCH(int64_t, i64)

#define ELEMENTS "axis dim shape:* stride:*"
#define ITEM_ROWS(B, I)                                                                \
    {"gather." #B "@" #I, gather_##B##_##I, "outer dim n inner", 0},                   \
    {"gather_elements." #B "@" #I, gather_elements_##B##_##I, ELEMENTS, 0},            \
    {"gather_nd." #B "@" #I, gather_nd_##B##_##I, "batch n inner dims:*", 0},          \
    {"scatter_elements." #B "@" #I, scatter_elements_##B##_##I, ELEMENTS, 0},          \
    {"scatter_nd." #B "@" #I, scatter_nd_##B##_##I, "n inner dims:*", 0},              \
    {"one_hot." #B "@" #I, one_hot_##B##_##I, "outer depth inner", 0}
#define ROWS(B)                                              \
    ITEM_ROWS(B, i32), ITEM_ROWS(B, i64),                    \
    {"compress." #B, compress_##B, "outer n inner m", 0}
#define SCATTER_ROW(R, TN, I)                                                            \
    {"scatter_elements_" #R "." #TN "@" #I, scatter_elements_##R##_##TN##_##I, ELEMENTS, 0}, \
    {"scatter_nd_" #R "." #TN "@" #I, scatter_nd_##R##_##TN##_##I, "n inner dims:*", 0}
#define SCATTER_ROWS(TN)                                          \
    SCATTER_ROW(add, TN, i32), SCATTER_ROW(add, TN, i64),         \
    SCATTER_ROW(mul, TN, i32), SCATTER_ROW(mul, TN, i64),         \
    SCATTER_ROW(max, TN, i32), SCATTER_ROW(max, TN, i64),         \
    SCATTER_ROW(min, TN, i32), SCATTER_ROW(min, TN, i64)
#define NONZERO_ROW(TN, FN) {"nonzero." #TN, nonzero_##FN, "shape:*", 0}
#define SEARCH_ROW(TN) {"search_sorted." #TN, search_##TN, "n m shared right", 0}

const rlx_kernel_row rlx_rows_index[] = {
    ROWS(b1), ROWS(b2), ROWS(b4), ROWS(b8), ROWS(b16),
    SCATTER_ROWS(f32), SCATTER_ROWS(f64), SCATTER_ROWS(i8), SCATTER_ROWS(i16),
    SCATTER_ROWS(i32), SCATTER_ROWS(i64), SCATTER_ROWS(u8), SCATTER_ROWS(u16),
    SCATTER_ROWS(u32), SCATTER_ROWS(u64),
    NONZERO_ROW(bool, b1), NONZERO_ROW(i8, b1), NONZERO_ROW(u8, b1), NONZERO_ROW(i16, b2),
    NONZERO_ROW(u16, b2), NONZERO_ROW(i32, b4), NONZERO_ROW(u32, b4), NONZERO_ROW(i64, b8),
    NONZERO_ROW(u64, b8), NONZERO_ROW(f16, half), NONZERO_ROW(bf16, half),
    NONZERO_ROW(f32, f32), NONZERO_ROW(f64, f64),
    SEARCH_ROW(f32), SEARCH_ROW(f64), SEARCH_ROW(i32), SEARCH_ROW(i64),
    {NULL, NULL, NULL, 0},
};
