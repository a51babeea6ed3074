/* reduce: sums, products, extrema, norms over any axes.
 *
 * reduce_OP.T   args: data, out
 *               attrs: outer r1 mid r2 inner
 *               extent: outer * mid * inner
 *   data is [outer, r1, mid, r2, inner], out is [outer, mid, inner]; r1 and r2
 *   are reduced. Any set of axes that merges to keep-reduce-keep-reduce-keep
 *   fits (absent groups are 1; a single reduced group goes into r2 with
 *   r1 = mid = 1). Anything else takes two calls or a transpose first.
 *   OP x T   sum sum_square l1 prod max min mean : f32 f64 i8..i64 u8..u64
 *            l2 log_sum                          : f32 f64
 *            any all                             : bool (bytes of 0 and 1)
 *
 * reduce_OP.T@split   args: data, partial;  attrs: outer r inner block
 *               extent: outer * ceil(r / block)
 * reduce_OP.T@join    args: partial, out;   attrs: outer r inner block
 *               extent: outer * inner
 *   The same over [outer, r, inner] in two steps, for reductions that leave too
 *   few outputs to share out. partial is [outer, ceil(r / block), inner] of the
 *   accumulator: f64 for sums of floats (sum sum_square l1 prod mean l2
 *   log_sum), T for max and min, T for integers but i64 for the mean of i8..i32
 *   and u8..u32. `block` is chosen from the shape. All OP x T but any, all, the
 *   mean of i64, u64, f64 and l2 of f64.
 *
 * Meaning. Floats accumulate in f64: f32 sums neither overflow early nor lose
 * digits, at no loss of speed, as memory is slower than the conversion. Sums of
 * f64 are cascaded (64 terms per level), on every axis. A mean or l2 of f64
 * that leaves the range on the way is computed again, scaled. Integers wrap,
 * their mean does not and truncates. NaN wins in max and min. Nothing to reduce:
 * sum 0, prod 1, mean NaN (0 for integers), max lowest, min highest.
 *
 * Loops. inner == 1: four accumulators along the row, one cascade step per 64
 * of them; rows shorter than a register go a row a lane (real and imaginary parts: 8 times as fast). inner >= TILE (8 registers): up to 64 registers of columns, eight rows at
 * a time (a narrower tile makes the reads jump and loses half the bandwidth).
 * 1 < inner < TILE: as many rows as fit are taken as one wide row, so a
 * reduction over pixels of 3 channels runs at full width too. A column's bits
 * depend on nothing but the shape, so the range may be cut anywhere.
 */
#include <float.h>
#include <math.h>

#include "abi.h"
#include "rows.h"

#define CASCADE 64 /* terms added up before a sum moves one level up */
#define LEVELS 5
#define N_VEC 8    /* registers of the narrowest column tile */
#define WIDEST 64    /* registers of the widest */

#define LAYOUT "outer r1 mid r2 inner"
#define SPLIT_LAYOUT "outer r inner block"

/* Scaled second attempts for f64: x over r1 blocks of r2 rows at `pitch`. */
static double rescued_mean(const double *x, int64_t r1, int64_t step, int64_t r2, int64_t pitch) {
    const double n = (double)r1 * (double)r2;
    double sum = 0;
    for (int64_t i = 0; i < r1; i++)
        for (int64_t j = 0; j < r2; j++)
            sum += x[i * step + j * pitch] / n;
    return sum;
}

static double rescued_l2(const double *x, int64_t r1, int64_t step, int64_t r2, int64_t pitch) {
    double top = 0, sum = 0;
    for (int64_t i = 0; i < r1; i++)
        for (int64_t j = 0; j < r2; j++) {
            const double v = fabs(x[i * step + j * pitch]);
            if (v != v)
                return v;
            top = v > top ? v : top;
        }
    if (top == 0 || isinf(top))
        return top;
    for (int64_t i = 0; i < r1; i++)
        for (int64_t j = 0; j < r2; j++) {
            const double v = x[i * step + j * pitch] / top;
            sum += v * v;
        }
    return top * sqrt(sum);
}

#define SAME(x) (x)
#define SQUARE(x) ((x) * (x))
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define V_MAX(a, b) RLX_SELECT((b) > (a), b, a)
#define V_MIN(a, b) RLX_SELECT((b) < (a), b, a)
/* the accumulator is a: NaN in either wins */
#define MAX_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define MIN_NAN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define ABS(x) ((x) < 0 ? -(x) : (x))

#define AS_IS(acc, n) (acc)
#define OR_ZERO(acc, n) ((n) ? (acc) : 0)
#define FLOAT_MEAN(acc, n) ((acc) / (double)(n))
#define INT_MEAN(acc, n) ((n) ? (acc) / (n) : 0)
#define ROOT(acc, n) ((n) ? sqrt(acc) : 0)
#define LOG(acc, n) ((n) ? log(acc) : -INFINITY)
#define NO_FINISH(acc, x, r1, step, r2, pitch, n, value) (value)
#define REDO_MEAN(acc, x, r1, step, r2, pitch, n, value) \
    (isfinite(acc) || (n) == 0 ? (value) : rescued_mean(x, r1, step, r2, pitch))
#define REDO_L2(acc, x, r1, step, r2, pitch, n, value)     \
    (((acc) < 1e-280 || !((acc) <= DBL_MAX)) && (n) != 0 ? \
         rescued_l2(x, r1, step, r2, pitch) : (value))

/* floats */
#define V_ABS_F64(x) V_MAX(x, -(x))
#define T float
#define TN f32
#define WIDEN rlx_load_vd_f32
#define V_MAX_NAN vf_max_nan
#define V_MIN_NAN vf_min_nan
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#include "reduce_float.inc"
#define T double
#define TN f64
#define V_MAX_NAN vd_max_nan
#define V_MIN_NAN vd_min_nan
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define REDO
#include "reduce_float.inc"

/* integers: T, its name, unsigned twin, accumulator of the mean, bounds */
#define T int8_t
#define SIGNED
#define U uint8_t
#define TN i8
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "reduce_int.inc"
#define T int16_t
#define SIGNED
#define U uint16_t
#define TN i16
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#include "reduce_int.inc"
#define T int32_t
#define SIGNED
#define U uint32_t
#define TN i32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "reduce_int.inc"
#define T int64_t
#define SIGNED
#define U uint64_t
#define TN i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define WIDE
#include "reduce_int.inc"
#define T uint8_t
#define U uint8_t
#define TN u8
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "reduce_int.inc"
#define T uint16_t
#define U uint16_t
#define TN u16
#define LOWEST 0
#define HIGHEST UINT16_MAX
#include "reduce_int.inc"
#define T uint32_t
#define U uint32_t
#define TN u32
#define LOWEST 0
#define HIGHEST UINT32_MAX
#include "reduce_int.inc"
#define T uint64_t
#define U uint64_t
#define TN u64
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define WIDE
#include "reduce_int.inc"

/* bool */
#define T uint8_t
#define A uint8_t
#define ONE(x) (x)
#define NAME any_bool
#define MAP ONE
#define V_MAP ONE
#define OP(a, b) ((a) | (b))
#define V_OP(a, b) ((a) | (b))
#define IDENTITY 0
#define FINISH AS_IS
#include "reduce_op.inc"
#define NAME all_bool
#define OP(a, b) ((a) & (b))
#define V_OP(a, b) ((a) & (b))
#define IDENTITY 1
#define MAP ONE
#define V_MAP ONE
#define FINISH AS_IS
#include "reduce_op.inc"
#undef T
#undef A

/* The mean of 64-bit integers needs 128 bits on the way. */
#define WIDE_MEAN(T, TN)                                                                   \
    static int mean_##TN(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t *a = t->attrs, r1 = a[1], mid = a[2], r2 = a[3], inner = a[4];       \
        const int64_t n = r1 * r2;                                                         \
        if (hi <= lo)                                                                      \
            return RLX_OK;                                                                 \
        T *out = (T *)RLX_PTR(t, f, 1);                                                    \
        const T *data = n ? (const T *)RLX_PTR(t, f, 0) : NULL;                            \
        for (int64_t item = lo; item < hi; item++) {                                       \
            const int64_t om = item / inner, o = om / mid, m = om % mid;                   \
            __int128 sum = 0;                                                              \
            for (int64_t i = 0; i < r1; i++)                                               \
                for (int64_t j = 0; j < r2; j++)                                           \
                    sum += data[(((o * r1 + i) * mid + m) * r2 + j) * inner + item % inner]; \
            out[item] = n ? (T)(sum / n) : 0;                                              \
        }                                                                                  \
        return RLX_OK;                                                                     \
    }
WIDE_MEAN(int64_t, i64)
WIDE_MEAN(uint64_t, u64)

#define ROW(OP, TN) {"reduce_" #OP "." #TN, OP##_##TN, LAYOUT, 0}
#define ROW3(OP, TN)                                                     \
    ROW(OP, TN),                                                         \
    {"reduce_" #OP "." #TN "@split", OP##_##TN##_split, SPLIT_LAYOUT, 0}, \
    {"reduce_" #OP "." #TN "@join", OP##_##TN##_join, SPLIT_LAYOUT, 0}
#define COMMON(TN)                                                      \
    ROW3(sum, TN), ROW3(sum_square, TN), ROW3(l1, TN), ROW3(prod, TN), \
    ROW3(max, TN), ROW3(min, TN)

const rlx_kernel_row rlx_rows_reduce[] = {
    COMMON(f32), COMMON(f64), COMMON(i8), COMMON(i16), COMMON(i32), COMMON(i64),
    COMMON(u8), COMMON(u16), COMMON(u32), COMMON(u64),
    ROW3(mean, f32), ROW(mean, f64), ROW3(mean, i8), ROW3(mean, i16), ROW3(mean, i32),
    ROW3(mean, u8), ROW3(mean, u16), ROW3(mean, u32), ROW(mean, i64), ROW(mean, u64),
    ROW3(l2, f32), ROW(l2, f64), ROW3(log_sum, f32), ROW3(log_sum, f64),
    ROW(any, bool), ROW(all, bool),
    {NULL, NULL, NULL, 0},
};
