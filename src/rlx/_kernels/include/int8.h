/* 8-bit products: micro-kernels and tiles shared by matmul and convolution.
 *
 * out = sum_k (a - za)(b - zb) in 32-bit integers, exact (wrapping). B is
 * packed as signed bytes bs = b or b - 128; RLX_KG consecutive k lie together.
 *   AVX-512  A as unsigned bytes au = a or a + 128, four products a lane by
 *            VPDPBUSD, which does not saturate:
 *            out = sum au bs - za' sum bs - zb' sum (a - za),
 *            za' = za or za + 128, zb' = zb or zb - 128
 *   else     A as 16-bit words a - za, two products a lane by PMADDWD (byte
 *            products, VPMADDUBSW, would saturate):
 *            out = sum (a - za) bs - zb' sum (a - za)
 * A tile of A is converted once for all columns, so neither signedness nor zero
 * points cost anything in the inner loop. */
#ifndef RLX_INT8_H
#define RLX_INT8_H

#include "epilogue.h"
#include "gemm.h"
#if defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#endif

#ifdef __AVX512VNNI__
enum { RLX_KG = 4, RLX_INT8_VNNI = 1 };
typedef uint8_t rlx_int8_term;
#else
enum { RLX_KG = 2, RLX_INT8_VNNI = 0 };
typedef int16_t rlx_int8_term;
#endif

typedef int32_t rlx_int_u __attribute__((aligned(1), may_alias));

/* RLX_INT8_DOT: acc += products of the RLX_KG terms at a with the RLX_KG x RLX_W32 bytes at b. */
#if defined(__AVX512VNNI__)
#define RLX_INT8_LOAD(p) ((rlx_vi32)_mm512_loadu_si512(p))
#define RLX_INT8_DOT(acc, a, b) ((rlx_vi32)_mm512_dpbusd_epi32((__m512i)(acc), (__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
#define RLX_INT8_LOAD(p) ((rlx_vi32)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p))))
#define RLX_INT8_DOT(acc, a, b) ((acc) + (rlx_vi32)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#elif defined(__SSE2__)
RLX_ALWAYS_INLINE rlx_vi32 rlx_int8_widen(const int8_t *p) {
    __m128i v = _mm_loadl_epi64((const __m128i *)p);
    return (rlx_vi32)_mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}
#define RLX_INT8_LOAD(p) rlx_int8_widen(p)
#define RLX_INT8_DOT(acc, a, b) ((acc) + (rlx_vi32)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#else
typedef int16_t rlx_int8_words __attribute__((vector_size(RLX_VBYTES)));
RLX_ALWAYS_INLINE rlx_vi32 rlx_int8_widen(const int8_t *p) {
    rlx_int8_words v;
    for (int i = 0; i < 2 * RLX_W32; i++)
        v[i] = p[i];
    return (rlx_vi32)v;
}
RLX_ALWAYS_INLINE rlx_vi32 rlx_int8_dot(rlx_vi32 acc, rlx_vi32 a, rlx_vi32 b) {
    for (int i = 0; i < RLX_W32; i++)
        acc[i] += ((rlx_int8_words)a)[2 * i] * ((rlx_int8_words)b)[2 * i] +
                  ((rlx_int8_words)a)[2 * i + 1] * ((rlx_int8_words)b)[2 * i + 1];
    return acc;
}
#define RLX_INT8_LOAD(p) rlx_int8_widen(p)
#define RLX_INT8_DOT(acc, a, b) rlx_int8_dot(acc, a, b)
#endif

/* RLX_KG terms of value 1, to sum bytes by products. */
#define RLX_INT8_ONES (RLX_INT8_VNNI ? 0x01010101 : 0x00010001)

/* RLX_KG rows of RLX_W32 bytes to [RLX_W32][RLX_KG]. */
RLX_ALWAYS_INLINE void rlx_int8_interleave(int8_t *dst, const uint8_t *src, int64_t ld,
                                           uint8_t flip) {
#if defined(__AVX512VNNI__)
    const __m128i f = _mm_set1_epi8((char)flip);
    __m128i r[4], a[2], b[2];
    for (int i = 0; i < 4; i++)
        r[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(src + i * ld)), f);
    a[0] = _mm_unpacklo_epi8(r[0], r[1]), a[1] = _mm_unpackhi_epi8(r[0], r[1]);
    b[0] = _mm_unpacklo_epi8(r[2], r[3]), b[1] = _mm_unpackhi_epi8(r[2], r[3]);
    for (int i = 0; i < 2; i++) {
        _mm_storeu_si128((__m128i *)(dst + 32 * i), _mm_unpacklo_epi16(a[i], b[i]));
        _mm_storeu_si128((__m128i *)(dst + 32 * i + 16), _mm_unpackhi_epi16(a[i], b[i]));
    }
#elif defined(__AVX2__)
    __m128i a = _mm_loadl_epi64((const __m128i *)src);
    __m128i b = _mm_loadl_epi64((const __m128i *)(src + ld));
    a = _mm_xor_si128(_mm_unpacklo_epi8(a, b), _mm_set1_epi8((char)flip));
    _mm_storeu_si128((__m128i *)dst, a);
#else
    for (int j = 0; j < RLX_W32; j++)
        for (int i = 0; i < RLX_KG; i++)
            dst[j * RLX_KG + i] = (int8_t)(src[i * ld + j] ^ flip);
#endif
}

/* What follows the product, in this order; see gemm_int8.c. */
typedef struct rlx_int8_post {
    int64_t a_signed, b_signed;
    int64_t a_zero_n, b_zero_n, scale_n;  /* 0 absent, 1 scalar, else one per row / column */
    int64_t out_kind;                     /* 0 i32, 1 f32, 2 u8, 3 i8 */
    int64_t q_lo, q_hi;
} rlx_int8_post;

#define RLX_INT8_POST_LAYOUT "a_signed b_signed a_zero_n b_zero_n scale_n out_kind q_lo q_hi "

static inline int64_t rlx_int8_depth(int64_t k) { return (k + RLX_KG - 1) / RLX_KG * RLX_KG; }
static inline int64_t rlx_int8_group_bytes(int64_t k, int64_t n) {
    return (n + RLX_W32 - 1) / RLX_W32 * RLX_W32 * (rlx_int8_depth(k) + 4);
}

/* Rows of A: `runs` stretches of `run` terms (whole groups), row i of stretch r at a[r] + i * lda. Together they
 * are `depth`, the padded K of a panel. */
typedef struct rlx_int8_tile {
    int64_t rows, depth, runs, run;
    const rlx_int8_term *const *a;
    int64_t lda;
    const int8_t *b;           /* first panel of the columns */
    int64_t panels;
    int32_t *c;                /* rows of ldc, whole panels */
    int64_t ldc;
} rlx_int8_tile;

/* A row of A to terms, padded to the group: returns sum (a - za) if wanted. src may
 * be dst when terms are bytes; 64 bytes behind the row are overwritten. */
int32_t rlx_int8_row(rlx_int8_term *dst, const uint8_t *src, int64_t k, int64_t is_signed,
                     int32_t zero, int want_sum);

/* Zero point i of an 8-bit operand; 0 if there is none. */
static inline int32_t rlx_int8_zero(const char *p, int64_t n, int64_t i, int64_t is_signed) {
    if (n == 0)
        return 0;
    uint8_t v = ((const uint8_t *)p)[n == 1 ? 0 : i];
    return is_signed ? (int8_t)v : v;
}

/* What a task adds and multiplies per column: whole panels in workspace. */
typedef struct rlx_int8_columns {
    int32_t *base;  /* bias - za' sum bs */
    int32_t *zero;  /* zb' */
    float *scale;
    const int32_t *sums;
} rlx_int8_columns;

static inline rlx_int8_columns rlx_int8_columns_at(int32_t *work, int64_t ldc) {
    rlx_int8_columns c = {work, work + ldc, (float *)(work + 2 * ldc), NULL};
    return c;
}

void rlx_int8_prepare(const rlx_thunk *t, const rlx_frame *f, const rlx_int8_post *p,
                      rlx_int8_columns *to, int64_t col, int64_t n, const int32_t *col_sums);

/* Where the rows of a tile go. row: of the tile over (batch, M); a_row: index into A's zero points; row_sums:
 * sum (a - za) of each row; col, offset: of the first column. */
typedef struct rlx_int8_target {
    const rlx_int8_post *post;
    const rlx_int8_columns *columns;
    int64_t cols;
    const int32_t *row_sums;
    int64_t row, a_row, col, offset, ldo;
    const int64_t *steps;
    int64_t n_steps;
} rlx_int8_target;

/* Products of a tile, then its zero points, bias, scale, rounding and epilogue, a few panels at a time, so that the
 * accumulators stay in the first cache: t->c holds RLX_GEMM_MR rows of RLX_INT8_PANELS panels (or t->panels). */
enum { RLX_INT8_PANELS = 8 };
int rlx_int8_products(const rlx_thunk *t, const rlx_frame *f, rlx_int8_tile *tile, const rlx_int8_target *to);

/* Accumulators of a tile to the result. */
int rlx_int8_finish(const rlx_thunk *t, const rlx_frame *f, const rlx_int8_target *to, const int32_t *c, int64_t ldc,
                    int64_t rows);

#endif
