/* move: copies that change the place of elements and never their bits.
 *
 * Kernels are by item size, b1 b2 b4 b8 b16. Strides and starts count items.
 *
 * strided.b*   args: src, dst
 *              attrs: src_start dst_start shape:* src:* dst:*
 *              extent: product of shape[:-1] (1 if shape has at most one axis)
 *   dst[dst_start + i . dst] = src[src_start + i . src] for every index i.
 *   `src` and `dst` are the strides, one per axis, negative and 0 included.
 *   Transpose, expand, flip, sliced read, concat and split pieces, tile,
 *   strided write. The order of the axes is free; for speed the lowering
 *     - drops axes of length 1 and merges axes that are contiguous on both
 *       sides (a single run should then be cut in two axes, so that it can be
 *       split over threads),
 *     - puts last the axis along which dst is contiguous,
 *     - if src is contiguous along another axis, puts that one before last.
 *   The kernel looks at the last two axes (m, n):
 *     src and dst unit along n          one run per row
 *     src stride 0 along n, dst unit    one splat per row
 *     dst unit along n, src along m     blocked transpose
 *     otherwise                         a scalar loop
 *   A grain of at least 64 rows keeps the blocks of a transpose whole.
 *
 * fill.b*      args: dst; attrs: value value_high; extent: items of dst.
 *   The low bytes of `value` (b16: value, then value_high) in every item.
 *
 * pad.b*       args: data, out, value? (one item; absent: zero bytes)
 *              attrs: mode shape:* before:* after:*
 *              extent: product of shape[i] + before[i] + after[i] over all axes
 *                      but the last (1 at rank 1)
 *   mode 0 constant, 1 edge, 2 reflect (numpy's, repeated if need be), 3 wrap.
 *   before, after >= 0: negative pads are slices made by the lowering. Rank at
 *   least 1. An axis of length 0 may be padded in constant mode only.
 *
 * trilu.b*     args: data, out; attrs: upper k rows cols
 *              extent: batch * rows. Keeps the triangle on and above (upper) or
 *              on and below the k-th diagonal, zeroes the rest.
 *
 * eye.b*       args: out; attrs: one k rows cols; extent: rows.
 *              `one` is the bit pattern of 1 (b16: low word); zero elsewhere.
 *
 * range.T      args: start (one item), step (one item), out; attrs: none
 *              extent: items; out[i] = start + i * step, T in i8 i16 i32 i64
 *              f32 f64 (integers wrap; floats multiply, then add, each rounded).
 *
 * Transposes go through register blocks: 16x16 bytes, 8x8 halves, 8x8 words
 * (AVX) or 4x4 (baseline), 4x4 doubles (AVX) or 2x2. Along the source's
 * contiguous axis a whole cache line is consumed before the next panel of the
 * destination is started, so a power-of-two pitch of the source costs no extra misses. Rows of the destination that
 * are a multiple of 4 KB apart share one set of the first cache: with AVX-512 they are written in blocks of 16x16
 * words, whole lines (1024 x 196 116 to 82 us with the way back; 1 KB apart and elsewhere 10 to 20 % slower than 8x8).
 */
#include "abi.h"
#include "planes.h"
#include "run.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef struct {
    uint64_t low, high;
} item16;

/* Where padded index i of an axis of length n reads from; -1: nowhere. */
static inline int64_t pad_source(int64_t i, int64_t n, int64_t mode) {
    if (i >= 0 && i < n)
        return i;
    if (mode == 0 || n <= 0)
        return -1;
    if (mode == 1 || n == 1)
        return i < 0 ? 0 : n - 1;
    int64_t period = mode == 2 ? 2 * (n - 1) : n;
    i %= period;
    if (i < 0)
        i += period;
    return i < n ? i : period - i;
}

/* A transpose of 128-bit vectors by log2(W) rounds of interleaving. */
#define INTERLEAVE_ROUND(V, W, LOW, HIGH, from, to)                 \
    for (int i_ = 0; i_ < (W) / 2; i_++) {                          \
        to[2 * i_] = __builtin_shuffle(from[i_], from[i_ + (W) / 2], LOW);      \
        to[2 * i_ + 1] = __builtin_shuffle(from[i_], from[i_ + (W) / 2], HIGH); \
    }

#define T uint8_t
#define SUFFIX b1
#define W 16
typedef uint8_t v_b1 __attribute__((vector_size(16), aligned(1)));
#define V v_b1
static inline void tile_b1(const T *s, int64_t ss, T *d, int64_t ds) {
    const v_b1 low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const v_b1 high = low + 8;
    V a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = *(const V *)(s + i * ss);
    INTERLEAVE_ROUND(V, 16, low, high, a, b)
    INTERLEAVE_ROUND(V, 16, low, high, b, a)
    INTERLEAVE_ROUND(V, 16, low, high, a, b)
    INTERLEAVE_ROUND(V, 16, low, high, b, a)
    for (int i = 0; i < 16; i++)
        *(V *)(d + i * ds) = a[i];
}
#include "move_item.inc"

#define T uint16_t
#define SUFFIX b2
#define W 8
typedef uint16_t v_b2 __attribute__((vector_size(16), aligned(2)));
#define V v_b2
static inline void tile_b2(const T *s, int64_t ss, T *d, int64_t ds) {
    const v_b2 low = {0, 8, 1, 9, 2, 10, 3, 11}, high = low + 4;
    V a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = *(const V *)(s + i * ss);
    INTERLEAVE_ROUND(V, 8, low, high, a, b)
    INTERLEAVE_ROUND(V, 8, low, high, b, a)
    INTERLEAVE_ROUND(V, 8, low, high, a, b)
    for (int i = 0; i < 8; i++)
        *(V *)(d + i * ds) = b[i];
}
#include "move_item.inc"

#define T uint32_t
#define SUFFIX b4
#if defined(__AVX512F__)
#define LINE_TILE line_tile_b4
static inline void line_tile_b4(const T *s, int64_t ss, T *d, int64_t ds) {
    vf r[16];
    vf_tile_from((const float *)s, ss, r);
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) *(vf_u *)(d + i * ds) = r[i];
}
#endif
#if defined(__AVX2__)
#define W 8
static inline void tile_b4(const T *s, int64_t ss, T *d, int64_t ds) {
    __m256 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        /* rows i and i + 4 share a register, so two rounds stay inside lanes */
        __m256 lo = _mm256_loadu_ps((const float *)(s + i * ss));
        __m256 hi = _mm256_loadu_ps((const float *)(s + (i + 4) * ss));
        a[i] = _mm256_permute2f128_ps(lo, hi, 0x20);
        a[i + 4] = _mm256_permute2f128_ps(lo, hi, 0x31);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
        b[i + 2] = _mm256_unpacklo_ps(a[i + 2], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    }
    for (int i = 0; i < 8; i += 4) {
        float *row = (float *)(d + i * ds);
        _mm256_storeu_ps(row, _mm256_shuffle_ps(b[i], b[i + 2], 0x44));
        _mm256_storeu_ps(row + ds, _mm256_shuffle_ps(b[i], b[i + 2], 0xee));
        _mm256_storeu_ps(row + 2 * ds, _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44));
        _mm256_storeu_ps(row + 3 * ds, _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee));
    }
}
#else
#define W 4
typedef uint32_t v_b4 __attribute__((vector_size(16), aligned(4)));
static inline void tile_b4(const T *s, int64_t ss, T *d, int64_t ds) {
    const v_b4 low = {0, 4, 1, 5}, high = low + 2;
    v_b4 a[4], b[4];
    for (int i = 0; i < 4; i++)
        a[i] = *(const v_b4 *)(s + i * ss);
    INTERLEAVE_ROUND(v_b4, 4, low, high, a, b)
    INTERLEAVE_ROUND(v_b4, 4, low, high, b, a)
    for (int i = 0; i < 4; i++)
        *(v_b4 *)(d + i * ds) = a[i];
}
#endif
#include "move_item.inc"

#define T uint64_t
#define SUFFIX b8
#if defined(__AVX2__)
#define W 4
static inline void tile_b8(const T *s, int64_t ss, T *d, int64_t ds) {
    __m256d a[4];
    for (int i = 0; i < 2; i++) {
        __m256d lo = _mm256_loadu_pd((const double *)(s + i * ss));
        __m256d hi = _mm256_loadu_pd((const double *)(s + (i + 2) * ss));
        a[i] = _mm256_permute2f128_pd(lo, hi, 0x20);
        a[i + 2] = _mm256_permute2f128_pd(lo, hi, 0x31);
    }
    for (int i = 0; i < 4; i += 2) {
        _mm256_storeu_pd((double *)(d + i * ds), _mm256_unpacklo_pd(a[i], a[i + 1]));
        _mm256_storeu_pd((double *)(d + (i + 1) * ds), _mm256_unpackhi_pd(a[i], a[i + 1]));
    }
}
#else
#define W 2
static inline void tile_b8(const T *s, int64_t ss, T *d, int64_t ds) {
    T a = s[0], b = s[1], c = s[ss], e = s[ss + 1];
    d[0] = a;
    d[1] = c;
    d[ds] = b;
    d[ds + 1] = e;
}
#endif
#include "move_item.inc"

#define T item16
#define SUFFIX b16
#define W 1
static inline void tile_b16(const T *s, int64_t ss, T *d, int64_t ds) { *d = *s; }
#include "move_item.inc"

#define RANGE(NAME, T, ACC)                                                              \
    static int range_##NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const T start = *(const T *)RLX_PTR(t, f, 0), step = *(const T *)RLX_PTR(t, f, 1); \
        T *out = (T *)RLX_PTR(t, f, 2);                                                  \
        for (int64_t i = lo; i < hi; i++) {                                              \
            ACC term = (ACC)i * (ACC)step;                                               \
            out[i] = (T)((ACC)start + term);                                             \
        }                                                                                \
        return RLX_OK;                                                                   \
    }
/* Without contraction: the same bits with and without fused multiply-add. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
RANGE(i8, int8_t, uint64_t)
RANGE(i16, int16_t, uint64_t)
RANGE(i32, int32_t, uint64_t)
RANGE(i64, int64_t, uint64_t)
RANGE(f32, float, float)
RANGE(f64, double, double)
#pragma GCC pop_options

#define STRIDED "src_start dst_start shape:* src:* dst:*"
#define ROWS(B)                                              \
    {"strided." #B, strided_##B, STRIDED, 0},                \
    {"fill." #B, fill_##B, "value value_high", 0},           \
    {"pad." #B, pad_##B, "mode shape:* before:* after:*", 0}, \
    {"trilu." #B, trilu_##B, "upper k rows cols", RLX_INPLACE}, \
    {"eye." #B, eye_##B, "one k rows cols", 0}

const rlx_kernel_row rlx_rows_move[] = {
    ROWS(b1),
    ROWS(b2),
    ROWS(b4),
    ROWS(b8),
    ROWS(b16),
    {"range.i8", range_i8, "", 0},
    {"range.i16", range_i16, "", 0},
    {"range.i32", range_i32, "", 0},
    {"range.i64", range_i64, "", 0},
    {"range.f32", range_f32, "", 0},
    {"range.f64", range_f64, "", 0},
    {NULL, NULL, NULL, 0},
};
