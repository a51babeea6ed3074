/* pooling: maxima, means and norms over windows, one to three spatial axes.
 *
 * T: max f32 f64 i8 u8; avg and lp f32 f64. Lists have one entry per spatial
 * axis (1 to 3 of them), outermost first. Window k of an axis starts at k *
 * stride - begin and has `kernel` taps `dilation` apart. Taps outside the input
 * are skipped. out (the sizes) is given, so ceil mode is decided by the caller,
 * who also drops windows that lie in padding altogether (here they give the
 * lowest value, or 0).
 *
 * pool_max.T@first    args: x, out
 *                     attrs: in:* out:* kernel:* stride:* dilation:* begin:*
 *                     extent: batch * channels * product of out[:-1]
 *   x [batch * channels, in...].
 * pool_max.T@last     args: x, out;  attrs: channels in:* out:* ...
 *                     extent: batch * product of out
 *   x [batch, in..., channels].
 * pool_avg.T@first, @last   as above and end:* include_pad
 *   The divisor is the number of taps inside the input, or, with include_pad,
 *   of those inside the input widened by begin and end (a window that ceil mode
 *   pushed beyond them counts less, as ONNX says).
 * pool_lp.T@first, @last    as pool_max and p:f
 *   (sum |x|^p)^(1/p).
 * pool_max_index.T@first    args: x, out, index (i64)
 *                     attrs: as pool_max.T@first, and column_major
 *   index: flat place of the maximum in x; column_major numbers the spatial
 *   axes with the first one fastest. The first of equal maxima, or the first
 *   NaN, wins. max_unpool is a fill and scatter_nd with these.
 *
 * Loops. Channels first: the rows of a window are folded into one row first
 * (contiguous vectors, framed by the neutral element), then its columns, so a k x k window costs 2k steps and
 * not k^2, and a mean adds up in two levels. Rows shorter than two or so vectors are folded side by side, and
 * their columns at once. f32 planes of rows up to PLANE_WIDTH lie in lanes, a register of them at a time: a band
 * of lines that the first cache holds is transposed, a line is folded from lines and a result from its columns, a
 * vector each, and 16 results are transposed back. Against rows: 3x3 at 7x7 103 to 22 us (ONNX Runtime, whose
 * lanes are channels too: 36), 2x2 with stride 2 at 14x14 56 to 22 (30), 5x5 at 20x20 228 to 69 (117), 3x3 means
 * at 8x8 187 to 38 (51), 2x2 means at 56x56 150 to 98 (198); wider planes are as fast row by row. Channels last:
 * registers of channels, windows unrolled around them.
 */
#include <float.h>
#include <math.h>

#include "abi.h"
#include "planes.h"
#include "rows.h"

#define SPAN 1024 /* longest folded row on the stack */
#define SLACK 64  /* readable elements behind it */
#define BLOCK 4   /* registers of channels */
#define NARROW 32 /* longest row that is folded beside others */
#define NARROW_ALL 2048 /* elements of such rows */
#define PLANE_WIDTH 64    /* longest row of planes in lanes */
#define PLANE_COLUMNS 128 /* its padded columns */
#define PLANE_PIXELS 512  /* of a band of lines */
#define UNROLL _Pragma("GCC unroll 16")

/* The geometry, padded to three axes. */
typedef struct {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
    int64_t include_pad;
    double p;
} window;

enum { MAX_POOL, AVG_POOL, LP_POOL };

static void read_list(const int64_t *a, int at, int64_t *to, int64_t filler) {
    const int64_t *list = RLX_LIST(a, at);
    const int n = (int)RLX_COUNT(a, at);
    for (int d = 0; d < 3; d++)
        to[d] = d < 3 - n ? filler : list[d - (3 - n)];
}

static window read_window(const int64_t *a, int at, int kind) {
    window w;
    memset(&w, 0, sizeof w);
    read_list(a, at, w.in, 1);
    read_list(a, at + 2, w.out, 1);
    read_list(a, at + 4, w.kernel, 1);
    read_list(a, at + 6, w.stride, 1);
    read_list(a, at + 8, w.dilation, 1);
    read_list(a, at + 10, w.begin, 0);
    if (kind == AVG_POOL) {
        read_list(a, at + 12, w.end, 0);
        w.include_pad = a[at + 14];
    } else if (kind == LP_POOL) {
        w.p = RLX_F(a, at + 12);
    }
    return w;
}

/* Taps [from, to) of window k of axis d that lie inside [-low, in + high). */
static inline void taps(const window *w, int d, int64_t k, int64_t low, int64_t high, int64_t *from,
                        int64_t *to) {
    const int64_t start = k * w->stride[d] - w->begin[d], step = w->dilation[d];
    int64_t first = start < -low ? -low - start : 0;
    int64_t last = w->in[d] + high - start;
    last = last < 0 ? 0 : last;
    if (step != 1) {
        first = (first + step - 1) / step;
        last = (last + step - 1) / step;
    }
    *to = rlx_min64(last, w->kernel[d]);
    *from = rlx_min64(first, *to);
}

/* What window k of axis d contributes to the divisor of a mean; `inside` taps of
 * it lie in the input. */
static inline int64_t count_taps(const window *w, int d, int64_t k, int64_t inside) {
    if (!w->include_pad)
        return inside;
    int64_t from, to;
    taps(w, d, k, w->begin[d], w->end[d], &from, &to);
    return to - from;
}

typedef int8_t bytes __attribute__((vector_size(RLX_VB)));
static inline bytes part_bytes(const void *p, int64_t n, int8_t fill) {
    bytes v = fill - (bytes){0};
    memcpy(&v, p, (size_t)n);
    return v;
}

#define SAME(x, p) (x)
#define MAX_INT(a, b) ((b) > (a) ? (b) : (a))
#define V_MAX_INT(a, b) RLX_SELECT((b) > (a), b, a)
#define MAX_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define ADD(a, b) ((a) + (b))
#define PART_F32(p, n) vf_load_fill(p, n, vf_set(LOWEST))
#define PART_F64(p, n) vd_load_fill(p, n, vd_set(LOWEST))
#define PART_INT(p, n) part_bytes(p, n, (int8_t)LOWEST)
#define POWER(x, p) ((p) == 1 ? fabs((double)(x)) : (p) == 2 ? (double)(x) * (double)(x) \
                                                             : pow(fabs((double)(x)), p))
#define AS_IS(acc, count, p) ((void)(count), (acc))
#define MEAN(acc, count, p) ((count) ? (acc) / (count) : 0)
#define V_AS_IS(acc, count) (acc)
#define V_MEAN(acc, count) ((acc) / ((count) ? (count) : 1))
#define ROOT(acc, count, p) ((void)(count), (p) == 1 ? (acc) : (p) == 2 ? sqrt(acc) : pow(acc, 1 / (p)))

#define T float
#define NAME max_f32
#define IN_PLANES
#define LOWEST (-INFINITY)
#define OP MAX_NAN
#define V_OP vf_max_nan
#define PARTIAL PART_F32
#define FINISH AS_IS
#define V_FINISH V_AS_IS
#define WITH_INDEX
#define KIND MAX_POOL
#include "pooling.inc"
#define T double
#define NAME max_f64
#define LOWEST (-INFINITY)
#define OP MAX_NAN
#define V_OP vd_max_nan
#define PARTIAL PART_F64
#define FINISH AS_IS
#define V_FINISH V_AS_IS
#define WITH_INDEX
#define KIND MAX_POOL
#include "pooling.inc"
#define T int8_t
#define NAME max_i8
#define LOWEST INT8_MIN
#define OP MAX_INT
#define V_OP V_MAX_INT
#define PARTIAL PART_INT
#define FINISH AS_IS
#define V_FINISH V_AS_IS
#define WITH_INDEX
#define KIND MAX_POOL
#include "pooling.inc"
#define T uint8_t
#define NAME max_u8
#define LOWEST 0
#define OP MAX_INT
#define V_OP V_MAX_INT
#define PARTIAL PART_INT
#define FINISH AS_IS
#define V_FINISH V_AS_IS
#define WITH_INDEX
#define KIND MAX_POOL
#include "pooling.inc"
#define T float
#define NAME avg_f32
#define IN_PLANES
#define LOWEST 0
#define OP ADD
#define V_OP ADD
#define PARTIAL PART_F32
#define FINISH MEAN
#define V_FINISH V_MEAN
#define KIND AVG_POOL
#include "pooling.inc"
#define T double
#define NAME avg_f64
#define LOWEST 0
#define OP ADD
#define V_OP ADD
#define PARTIAL PART_F64
#define FINISH MEAN
#define V_FINISH V_MEAN
#define KIND AVG_POOL
#include "pooling.inc"
#define T float
#define A double
#define NAME lp_f32
#define LOWEST 0
#define OP ADD
#define MAP POWER
#define FINISH ROOT
#define KIND LP_POOL
#include "pooling.inc"
#define T double
#define A double
#define NAME lp_f64
#define LOWEST 0
#define OP ADD
#define MAP POWER
#define FINISH ROOT
#define KIND LP_POOL
#include "pooling.inc"

#define GEOMETRY "in:* out:* kernel:* stride:* dilation:* begin:*"
#define ROWS(OP, TN, MORE)                                                        \
    {"pool_" #OP "." #TN "@first", OP##_##TN##_first, GEOMETRY MORE, 0},          \
    {"pool_" #OP "." #TN "@last", OP##_##TN##_last, "channels " GEOMETRY MORE, 0}
#define INDEX_ROW(TN) \
    {"pool_max_index." #TN "@first", max_##TN##_index, GEOMETRY " column_major", 0}

const rlx_kernel_row rlx_rows_pooling[] = {
    ROWS(max, f32, ""), ROWS(max, f64, ""), ROWS(max, i8, ""), ROWS(max, u8, ""),
    ROWS(avg, f32, " end:* include_pad"), ROWS(avg, f64, " end:* include_pad"),
    ROWS(lp, f32, " p:f"), ROWS(lp, f64, " p:f"),
    INDEX_ROW(f32), INDEX_ROW(f64), INDEX_ROW(i8), INDEX_ROW(u8),
    {NULL, NULL, NULL, 0},
};
