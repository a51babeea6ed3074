/* gemm_int8: products of 8-bit matrices with zero points, in 32-bit integers.
 *
 * gemm_info.int8   args: out int64[3]: rows of the tallest tile, columns NR of a panel, group KG
 * pack_b.int8      args: src, packed. attrs: K N ldb trans group_stride b_signed
 *     packed, per group: [ceil(N / NR)][ceil(K / KG)][NR][KG] signed bytes (b, or b - 128 if
 *     unsigned), zero-padded; then int32 [ceil(N / NR)][NR]: sums over k of each column.
 *     extent: groups (each is packed whole)
 * matmul.int8      args: a, packed, out, bias i32 [N] | absent, workspace, a_zero, b_zero,
 *     scale f32, out_zero (each | absent), operands of the epilogue (index 9 and up)
 *   attrs: M N K lda ldo mc nc work_stride; a_signed b_signed: i8 or u8;
 *     a_zero_n b_zero_n scale_n: 0 absent, 1 scalar, else M, N, N;
 *     out_kind  0: i32 = product + bias
 *               1: f32 = float(product + bias) * scale, then the steps
 *               2, 3: u8, i8 = clamp(round_half_even(float(product + bias) * scale) + out_zero)
 *                     to [q_lo, q_hi] (relu: q_lo = out_zero)
 *     batch: (size, stride a, b in bytes of packed groups, out) per outer dimension; steps.
 *   workspace per thread: int32 [MR][nc rounded to panels], then MR rows of K terms.
 *   extent: batch * ceil(N / nc) * ceil(M / mc)
 *
 * Design: int8.h says how the products are formed at each level. K is not cut:
 * integer sums do not round, and a tile of A is a quarter of a float one. The
 * accumulators go to a block in the first cache, where zero points, bias and
 * scale are applied in loops that the compiler vectorises.
 */
#include "int8.h"

#define W RLX_W32
#include "template.h"

/* acc += products of the KG terms at a with the KG x W bytes at b. */
#if defined(__AVX512VNNI__)
typedef __m512i vec;
#define LOAD_B(p) _mm512_loadu_si512(p)
#define LOAD_A(p) _mm512_set1_epi32(*(const int_u *)(p))
#define DOT(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#elif defined(__AVX2__)
typedef __m256i vec;
#define LOAD_B(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define LOAD_A(p) _mm256_set1_epi32(*(const int_u *)(p))
#define DOT(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
#elif defined(__SSE2__)
typedef __m128i vec;
static inline __m128i widen(const int8_t *p) {
    __m128i v = _mm_loadl_epi64((const __m128i *)p);
    return _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}
#define LOAD_B(p) widen(p)
#define LOAD_A(p) _mm_set1_epi32(*(const int_u *)(p))
#define DOT(acc, a, b) _mm_add_epi32(acc, _mm_madd_epi16(a, b))
#else
typedef rlx_vi32 vec;
typedef struct pair { int16_t x[2]; } pair;
typedef struct pairs { int8_t x[RLX_W32][2]; } pairs;
static inline vec dot(vec acc, pair a, pairs b) {
    for (int i = 0; i < W; i++)
        acc[i] += a.x[0] * b.x[i][0] + a.x[1] * b.x[i][1];
    return acc;
}
#define LOAD_B(p) (*(const pairs *)(p))
#define LOAD_A(p) (*(const pair *)(p))
#define DOT(acc, a, b) dot(acc, a, b)
#endif
typedef int32_t int_u __attribute__((aligned(1), may_alias));

RLX_ALWAYS_INLINE void micro(const int MR, const int NP, const rlx_int8_tile *t, const int8_t *b,
                             int32_t *c) {
    int64_t lda = t->lda, bp = t->depth * W;
    const rlx_int8_term *a0 = t->a, *a3 = a0 + 3 * lda, *a6 = a3 + 3 * lda, *a9 = a6 + 3 * lda,
                        *a12 = a9 + 3 * lda;
    vec acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (vec){0};
    for (int64_t k = t->depth; k > 0; k -= RLX_KG) {
        __typeof__(LOAD_B(b)) bv[8];
        UNROLL for (int j = 0; j < NP; j++) bv[j] = LOAD_B(b + j * bp);
        UNROLL for (int i = 0; i < MR; i++) {
            const rlx_int8_term *p = i < 3 ? a0 : i < 6 ? a3 : i < 9 ? a6 : i < 12 ? a9 : a12;
            __typeof__(LOAD_A(p)) x = LOAD_A(p + i % 3 * lda);
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] = DOT(acc[i][j], x, bv[j]);
        }
        a0 += RLX_KG, a3 += RLX_KG, a6 += RLX_KG, a9 += RLX_KG, a12 += RLX_KG;
        b += RLX_KG * W;
        __asm__("" : "+r"(a0), "+r"(a3), "+r"(a6), "+r"(a9), "+r"(a12));
    }
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++)
            *(rlx_vi32u *)(c + i * t->ldc + j * W) = (rlx_vi32)acc[i][j];
}

#define MICRO(MR, NP)                                                              \
    static void micro_##MR##x##NP(const rlx_int8_tile *t, const int8_t *b, int32_t *c) { \
        micro(MR, NP, t, b, c);                                                    \
    }
#define ENTRY(MR, NP) [MR][NP] = micro_##MR##x##NP,
RLX_SHAPES(MICRO)
static void (*const micros[RLX_GEMM_MR + 1][9])(const rlx_int8_tile *, const int8_t *, int32_t *) = {
    RLX_SHAPES(ENTRY)};

void rlx_int8_rows(const rlx_int8_tile *t) {
    const int8_t *b = t->b;
    int32_t *c = t->c;
    for (int64_t p = 0; p < t->panels;) {
        int64_t np = rlx_tile_rows(t->panels, rlx_widest[t->rows], p);
        micros[t->rows][np](t, b, c);
        b += np * t->depth * W;
        c += np * W;
        p += np;
    }
}

int32_t rlx_int8_row(rlx_int8_term *dst, const uint8_t *src, int64_t k, int64_t is_signed,
                     int32_t zero, int want_sum) {
    int32_t sum = 0;
    if (RLX_INT8_VNNI) {
        uint8_t flip = is_signed ? 0x80 : 0;
        for (int64_t i = 0; i < k; i++)
            dst[i] = (rlx_int8_term)(src[i] ^ flip);
        if (want_sum) {
            for (int64_t i = 0; i < k; i++)
                sum += dst[i];
            sum -= (int32_t)k * (zero + (is_signed ? 128 : 0));
        }
    } else {
        if (is_signed)
            for (int64_t i = 0; i < k; i++)
                dst[i] = (rlx_int8_term)((int8_t)src[i] - zero);
        else
            for (int64_t i = 0; i < k; i++)
                dst[i] = (rlx_int8_term)(src[i] - zero);
        for (int64_t i = 0; want_sum && i < k; i++)
            sum += dst[i];
    }
    for (int64_t i = k; i % RLX_KG; i++)
        dst[i] = 0;
    return sum;
}

static int32_t wrap_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static int32_t wrap_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

/* Zero points and bias of one row, in place. */
static void correct(const rlx_int8_post *p, int32_t *c, int64_t n, const int32_t *col_sums,
                    int32_t row_sum, int32_t za, const char *b_zero, int64_t col,
                    const int32_t *bias) {
    int32_t shift = RLX_INT8_VNNI ? za + (p->a_signed ? 128 : 0) : 0;
    if (shift)
        for (int64_t j = 0; j < n; j++)
            c[j] = wrap_add(c[j], wrap_mul(-shift, col_sums[j]));
    int32_t half = p->b_signed ? 0 : 128;
    if (p->b_zero_n > 1) {
        for (int64_t j = 0; j < n; j++)
            c[j] = wrap_add(c[j], wrap_mul(half - rlx_int8_zero(b_zero, 2, col + j, p->b_signed),
                                           row_sum));
    } else {
        int32_t zb = rlx_int8_zero(b_zero, p->b_zero_n, 0, p->b_signed) - half;
        if (zb)
            for (int64_t j = 0; j < n; j++)
                c[j] = wrap_add(c[j], wrap_mul(-zb, row_sum));
    }
    if (bias)
        for (int64_t j = 0; j < n; j++)
            c[j] = wrap_add(c[j], bias[j]);
}

/* Half to even by adding 1.5 * 2^23: the clamped value is at most 511 in magnitude. */
static void requantise(uint8_t *out, const int32_t *c, int64_t n, const float *scale,
                       int64_t per_column, int32_t zero, int64_t q_lo, int64_t q_hi) {
    float lo = (float)(q_lo - zero), hi = (float)(q_hi - zero);
    const float magic = 12582912.0f;
    for (int64_t j = 0; j < n; j++) {
        float v = (float)c[j] * scale[per_column ? j : 0];
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        out[j] = (uint8_t)((int32_t)((v + magic) - magic) + zero);
    }
}

int rlx_int8_finish(const rlx_thunk *t, const rlx_frame *f, const rlx_int8_post *p, int32_t *c,
                    int64_t ldc, int64_t rows, int64_t n, const int32_t *col_sums,
                    const int32_t *row_sums, int64_t row, int64_t a_row, int64_t col,
                    int64_t offset, int64_t ldo, const int64_t *steps, int64_t n_steps) {
    const char *a_zero = RLX_OPT(t, f, 5), *b_zero = RLX_OPT(t, f, 6);
    const int32_t *bias = (const int32_t *)RLX_OPT(t, f, 3);
    const float *scale = (const float *)RLX_OPT(t, f, 7);
    int64_t per_column = p->scale_n > 1;
    scale = scale && per_column ? scale + col : scale;
    int64_t size = p->out_kind < 2 ? 4 : 1;
    char *out = RLX_PTR(t, f, 2) + offset * size;
    int32_t zero = RLX_PRESENT(t, 8) ? rlx_int8_zero(RLX_PTR(t, f, 8), 1, 0, p->out_kind == 3) : 0;
    for (int64_t i = 0; i < rows; i++, c += ldc) {
        int32_t za = rlx_int8_zero(a_zero, p->a_zero_n, a_row + i, p->a_signed);
        correct(p, c, n, col_sums, row_sums[i], za, b_zero, col, bias ? bias + col : NULL);
        char *to = out + i * ldo * size;
        if (p->out_kind == 0) {
            memcpy(to, c, (size_t)n * 4);
        } else if (p->out_kind == 1) {
            float *y = (float *)to;
            if (per_column)
                for (int64_t j = 0; j < n; j++)
                    y[j] = (float)c[j] * scale[j];
            else
                for (int64_t j = 0; j < n; j++)
                    y[j] = (float)c[j] * scale[0];
        } else if (per_column) {
            requantise((uint8_t *)to, c, n, scale, 1, zero, p->q_lo, p->q_hi);
        } else {
            requantise((uint8_t *)to, c, n, scale, 0, zero, p->q_lo, p->q_hi);
        }
    }
    if (n_steps) {
        rlx_epi_tile tile = {out, out, ldo, ldo, size, size, rows, n, row, col, offset};
        return rlx_epilogue(t, f, steps, n_steps, &tile);
    }
    return RLX_OK;
}

/* ------------------------------------------------------------------- kernels */

static int gemm_info(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    int64_t *out = (int64_t *)RLX_PTR(t, f, 0);
    out[0] = RLX_GEMM_MR, out[1] = W, out[2] = RLX_KG;
    return RLX_OK;
}

static int pack_b(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t k = at[0], n = at[1], ldb = at[2], trans = at[3], group_stride = at[4];
    uint8_t flip = at[5] ? 0 : 0x80;
    int64_t depth = rlx_int8_depth(k), columns = (n + W - 1) / W * W;
    for (int64_t g = lo; g < hi; g++) {
        const uint8_t *src = (const uint8_t *)RLX_PTR(t, f, 0) + g * group_stride;
        int8_t *dst = (int8_t *)RLX_PTR(t, f, 1) + g * rlx_int8_group_bytes(k, n);
        int32_t *sums = (int32_t *)(dst + columns * depth);
        memset(dst, 0, (size_t)rlx_int8_group_bytes(k, n));
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < k; i++) {
                int8_t v = (int8_t)((trans ? src[j * ldb + i] : src[i * ldb + j]) ^ flip);
                dst[j / W * W * depth + i / RLX_KG * RLX_KG * W + j % W * RLX_KG + i % RLX_KG] = v;
                sums[j] += v;
            }
    }
    return RLX_OK;
}

static int matmul(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t m = at[0], n = at[1], k = at[2], lda = at[3], ldo = at[4], mc = at[5], nc = at[6];
    int64_t work_stride = at[7], depth = rlx_int8_depth(k);
    rlx_int8_post post;
    memcpy(&post, at + 8, sizeof post);
    const int64_t *batch = RLX_LIST(at, 16), *steps = RLX_LIST(at, 18);
    int64_t n_batch = RLX_COUNT(at, 16), n_steps = RLX_COUNT(at, 18);
    int64_t m_blocks = (m + mc - 1) / mc, n_blocks = (n + nc - 1) / nc;
    int64_t ldc = (nc + W - 1) / W * W;
    int32_t *c = (int32_t *)(RLX_PTR(t, f, 4) + f->tid * work_stride);
    rlx_int8_term *a_tile = (rlx_int8_term *)(c + RLX_GEMM_MR * ldc);
    const char *a_zero = RLX_OPT(t, f, 5);
    int want_sum = post.b_zero_n > 0 || !post.b_signed;
    for (int64_t task = lo; task < hi; task++) {
        int64_t m0 = task % m_blocks * mc, rest = task / m_blocks;
        int64_t n0 = rest % n_blocks * nc, item = rest / n_blocks;
        int64_t index = item, at_a = 0, at_b = 0, at_out = 0;
        for (int64_t d = n_batch - 4; d >= 0; d -= 4) {
            int64_t x = index % batch[d];
            index /= batch[d];
            at_a += x * batch[d + 1];
            at_b += x * batch[d + 2];
            at_out += x * batch[d + 3];
        }
        int64_t m1 = m0 + mc < m ? m0 + mc : m, cols = n0 + nc < n ? nc : n - n0;
        const int8_t *b = (const int8_t *)RLX_PTR(t, f, 1) + at_b;
        const int32_t *sums = (const int32_t *)(b + (n + W - 1) / W * W * depth) + n0;
        rlx_int8_tile tile = {0, depth, a_tile, depth, b + n0 * depth, (cols + W - 1) / W, c, ldc};
        for (int64_t i = m0; i < m1; i += tile.rows) {
            tile.rows = rlx_tile_rows(m1 - m0, RLX_GEMM_MR, i - m0);
            int32_t row_sums[RLX_GEMM_MR];
            for (int64_t r = 0; r < tile.rows; r++) {
                const uint8_t *src = (const uint8_t *)RLX_PTR(t, f, 0) + at_a + (i + r) * lda;
                int32_t za = rlx_int8_zero(a_zero, post.a_zero_n, i + r, post.a_signed);
                row_sums[r] = rlx_int8_row(a_tile + r * depth, src, k, post.a_signed, za, want_sum);
            }
            rlx_int8_rows(&tile);
            int status = rlx_int8_finish(t, f, &post, c, ldc, tile.rows, cols, sums, row_sums,
                                         item * m + i, i, n0, at_out + i * ldo + n0, ldo, steps,
                                         n_steps);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_gemm_int8[] = {
    {"gemm_info.int8", gemm_info, "", 0},
    {"pack_b.int8", pack_b, "K N ldb trans group_stride b_signed", 0},
    {"matmul.int8", matmul,
     "M N K lda ldo mc nc work_stride " RLX_INT8_POST_LAYOUT "batch:* steps:*", 0},
    {NULL, NULL, NULL, 0},
};
