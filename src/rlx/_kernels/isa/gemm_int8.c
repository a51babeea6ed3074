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
 *   workspace per thread: 32-bit [MR + 3][nc rounded to panels], then MR rows of K terms and
 *   64 bytes.
 *   extent: batch * ceil(N / nc) * ceil(M / mc)
 *
 * Design: int8.h says how the products are formed at each level. K is not cut:
 * integer sums do not round, and a tile of A is a quarter of a float one. The
 * accumulators go to a block in the first cache, a few panels at a time; zero points,
 * bias and scale are first brought to one value a column, so that a row is finished by
 * one addition, one multiplication and the rounding, with AVX-512 two vectors of
 * columns for all rows of a tile, packed to bytes in registers.
 * Measured, AVX-512, time of ONNX Runtime / ours: matmul 128x384x1536 1.23 (to bytes),
 * 512^3 1.23, 1x384x1536 1.5; convolution 3x3 56x56x64 1.08, 14x14x256 1.02, 7x7 stride 2
 * 224x224x3 1.38, 1x1 56x56x64 -> 256 1.15. AVX2 reaches 70 products a ns, 1.4 times the float rate.
 */
#include "int8.h"

#define W RLX_W32
#include "template.h"

typedef rlx_vi32 V;

RLX_ALWAYS_INLINE void micro(const int MR, const int NP, const rlx_int8_tile *t, const int8_t *b,
                             int32_t *c) {
    int64_t lda = t->lda, bp = t->depth * W;
    V acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};
    for (int64_t r = 0; r < t->runs; r++) {
        const rlx_int8_term *a0 = t->a[r], *a3 = a0 + 3 * lda, *a6 = a3 + 3 * lda, *a9 = a6 + 3 * lda,
                            *a12 = a9 + 3 * lda;
        for (int64_t k = t->run; k > 0; k -= RLX_KG) {
            V bv[8];
            UNROLL for (int j = 0; j < NP; j++) bv[j] = RLX_INT8_LOAD(b + j * bp);
            UNROLL for (int i = 0; i < MR; i++) {
                const rlx_int8_term *p = i < 3 ? a0 : i < 6 ? a3 : i < 9 ? a6 : i < 12 ? a9 : a12;
                V x = *(const rlx_int_u *)(p + i % 3 * lda) - (V){0};
                UNROLL for (int j = 0; j < NP; j++) acc[i][j] = RLX_INT8_DOT(acc[i][j], x, bv[j]);
            }
            a0 += RLX_KG, a3 += RLX_KG, a6 += RLX_KG, a9 += RLX_KG, a12 += RLX_KG;
            b += RLX_KG * W;
            __asm__("" : "+r"(a0), "+r"(a3), "+r"(a6), "+r"(a9), "+r"(a12));
        }
    }
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++)
            *(rlx_vi32u *)(c + i * t->ldc + j * W) = acc[i][j];
}

#define MICRO(MR, NP)                                                              \
    static void micro_##MR##x##NP(const rlx_int8_tile *t, const int8_t *b, int32_t *c) { \
        micro(MR, NP, t, b, c);                                                    \
    }
#define ENTRY(MR, NP) [MR][NP] = micro_##MR##x##NP,
RLX_SHAPES(MICRO)
static void (*const micros[RLX_GEMM_MR + 1][9])(const rlx_int8_tile *, const int8_t *, int32_t *) = {
    RLX_SHAPES(ENTRY)};

int32_t rlx_int8_row(rlx_int8_term *dst, const uint8_t *src, int64_t k, int64_t is_signed,
                     int32_t zero, int want_sum) {
    int32_t sum = 0;
#ifdef __AVX512VNNI__ /* terms beyond k meet zeros of B */
    if ((const uint8_t *)dst == src && !is_signed && !want_sum)
        return 0;
    __m512i flip = _mm512_set1_epi8(is_signed ? (char)0x80 : 0), total = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 64) {
        __mmask64 m = k - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (k - i)) - 1;
        __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, src + i), flip);
        v = _mm512_maskz_mov_epi8(m, v);
        total = _mm512_dpbusd_epi32(total, v, _mm512_set1_epi8(1));
        _mm512_storeu_si512(dst + i, v);
    }
    sum = _mm512_reduce_add_epi32(total);
    sum -= (int32_t)k * (zero + (is_signed ? 128 : 0));
#else
    int64_t i = 0;
#ifdef __AVX2__
    __m256i z = _mm256_set1_epi16((int16_t)zero), total = _mm256_setzero_si256();
    for (; i + 16 <= k; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(src + i));
        __m256i v = is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
        v = _mm256_sub_epi16(v, z);
        total = _mm256_add_epi32(total, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
        _mm256_storeu_si256((__m256i *)(dst + i), v);
    }
    for (int j = 0; j < 8; j++)
        sum += ((rlx_vi32)total)[j];
#endif
    for (; i < k; i++) {
        dst[i] = (rlx_int8_term)((is_signed ? (int8_t)src[i] : src[i]) - zero);
        sum += dst[i];
    }
    for (; i % RLX_KG; i++)
        dst[i] = 0;
#endif
    return sum;
}

static int32_t wrap_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

void rlx_int8_prepare(const rlx_thunk *t, const rlx_frame *f, const rlx_int8_post *p,
                      rlx_int8_columns *to, int64_t col, int64_t n, const int32_t *col_sums) {
    const char *b_zero = RLX_OPT(t, f, 6);
    const int32_t *bias = (const int32_t *)RLX_OPT(t, f, 3);
    const float *scale = (const float *)RLX_OPT(t, f, 7);
    int32_t half = p->b_signed ? 0 : 128, shift = 0;
    if (RLX_INT8_VNNI && p->a_zero_n < 2)
        shift = rlx_int8_zero(RLX_OPT(t, f, 5), p->a_zero_n, 0, p->a_signed) +
                (p->a_signed ? 128 : 0);
    to->sums = col_sums;
    for (int64_t j = 0; j < n; j++) {
        to->base[j] = (int32_t)((bias ? (uint32_t)bias[col + j] : 0) -
                                (uint32_t)wrap_mul(shift, col_sums[j]));
        to->zero[j] = rlx_int8_zero(b_zero, p->b_zero_n, col + j, p->b_signed) - half;
        to->scale[j] = scale ? scale[p->scale_n > 1 ? col + j : 0] : 1.0f;
    }
    for (int64_t j = n; j % W; j++)
        to->base[j] = 0, to->zero[j] = 0, to->scale[j] = 0;
}

typedef rlx_v32 VF;
typedef uint32_t VUI __attribute__((vector_size(RLX_VBYTES)));
#ifndef __AVX2__
typedef uint8_t bytes __attribute__((vector_size(W)));
#endif

/* One vector of a row: the sum with bias and zero points. It wraps: vectors of unsigned. */
RLX_ALWAYS_INLINE VUI whole_sum(const int offsets, const int32_t *c, int64_t j, const rlx_int8_columns *at,
                                int32_t row_sum, int32_t shift) {
    VUI u = (VUI)*(const rlx_vi32u *)(c + j) + (VUI)*(const rlx_vi32u *)(at->base + j);
    if (offsets) {
        u -= (VUI)*(const rlx_vi32u *)(at->zero + j) * (uint32_t)row_sum;
        if (shift)
            u -= (VUI)*(const rlx_vi32u *)(at->sums + j) * (uint32_t)shift;
    }
    return u;
}

/* One row of accumulators to the output. */
RLX_ALWAYS_INLINE void finish_row(const int kind, const int offsets, char *out, const int32_t *c,
                                  int64_t n, const rlx_int8_columns *at, int32_t row_sum,
                                  int32_t shift, VF lo, VF hi, V zero) {
    for (int64_t j = 0; j < n; j += W) {
        int64_t part = n - j < W ? n - j : W;
        VUI u = whole_sum(offsets, c, j, at, row_sum, shift);
        if (kind == 0) {
            rlx_store_part_f32((float *)out + j, (VF)u, part);
            continue;
        }
        VF v = __builtin_convertvector((V)u, VF) * *(const rlx_v32u *)(at->scale + j);
        if (kind == 1) {
            rlx_store_part_f32((float *)out + j, v, part);
            continue;
        }
        /* Half to even by adding 1.5 * 2^23: clamped, it is at most 511 in magnitude. */
        v = rlx_clamp_f32(v, lo, hi) + 12582912.0f;
        u = (VUI)__builtin_convertvector(v - 12582912.0f, V) + (VUI)zero;
#ifdef __AVX512F__
        _mm512_mask_cvtepi32_storeu_epi8(out + j, (__mmask16)((1u << part) - 1), (__m512i)u);
#else
#ifdef __AVX2__
        __m256i words = _mm256_and_si256((__m256i)u, _mm256_set1_epi32(255));
        words = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
        __m128i low = _mm256_castsi256_si128(words);
        int64_t q = _mm_cvtsi128_si64(_mm_packus_epi16(low, low));
#else
        bytes q = __builtin_convertvector(u, bytes);
#endif
        if (part == W)
            memcpy(out + j, &q, W);
        else
            memcpy(out + j, &q, (size_t)part);
#endif
    }
}

#ifdef __AVX512F__
/* Two vectors of columns of all rows to bytes: what is of the columns stays in registers. */
RLX_ALWAYS_INLINE void finish_pair(const int offsets, const int shifts, char *out, int64_t ldo, const int32_t *c,
                                   int64_t ldc, int64_t rows, const rlx_int8_columns *at, const int32_t *row_sums,
                                   const int32_t *shift, VF lo, VF hi, V zero) {
    const VF s0 = *(const rlx_v32u *)at->scale, s1 = *(const rlx_v32u *)(at->scale + W);
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
    const __m512i low = _mm512_set1_epi32(255);
    for (int64_t i = 0; i < rows; i++, c += ldc, out += ldo) {
        const int32_t sum = offsets ? row_sums[i] : 0, by = shifts ? shift[i] : 0;
        VF v0 = __builtin_convertvector((V)whole_sum(offsets, c, 0, at, sum, by), VF) * s0;
        VF v1 = __builtin_convertvector((V)whole_sum(offsets, c, W, at, sum, by), VF) * s1;
        __m512i u0 = _mm512_cvtps_epi32((__m512)rlx_clamp_f32(v0, lo, hi));
        __m512i u1 = _mm512_cvtps_epi32((__m512)rlx_clamp_f32(v1, lo, hi));
        u0 = _mm512_and_si512(_mm512_add_epi32(u0, (__m512i)zero), low);
        u1 = _mm512_and_si512(_mm512_add_epi32(u1, (__m512i)zero), low);
        /* words, then bytes, within lanes of 128 bits; then the lanes' parts in order */
        __m512i q = _mm512_packus_epi32(u0, u1);
        q = _mm512_permutexvar_epi32(turn, _mm512_packus_epi16(q, q));
        _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(q));
    }
}
#endif

int rlx_int8_finish(const rlx_thunk *t, const rlx_frame *f, const rlx_int8_target *to, const int32_t *c,
                    int64_t ldc, int64_t rows) {
    const rlx_int8_post *p = to->post;
    int64_t size = p->out_kind < 2 ? 4 : 1, done = 0, n = to->cols;
    char *out = RLX_PTR(t, f, 2) + to->offset * size;
    int32_t zero = RLX_PRESENT(t, 8) ? rlx_int8_zero(RLX_PTR(t, f, 8), 1, 0, p->out_kind == 3) : 0;
    VF lo = (float)(p->q_lo - zero) - (VF){0}, hi = (float)(p->q_hi - zero) - (VF){0};
    V zeros = zero - (V){0};
    int per_row = RLX_INT8_VNNI && p->a_zero_n > 1;
    int offsets = per_row || p->b_zero_n > 0 || !p->b_signed;
    int32_t shift[RLX_GEMM_MR] = {0};
    for (int64_t i = 0; i < rows && per_row; i++)
        shift[i] = rlx_int8_zero(RLX_PTR(t, f, 5), 2, to->a_row + i, p->a_signed) + (p->a_signed ? 128 : 0);
    rlx_int8_columns at = *to->columns;
#ifdef __AVX512F__
    for (; p->out_kind > 1 && done + 2 * W <= n; done += 2 * W) {
        if (!offsets)
            finish_pair(0, 0, out + done, to->ldo, c + done, ldc, rows, &at, to->row_sums, shift, lo, hi, zeros);
        else
            finish_pair(1, 1, out + done, to->ldo, c + done, ldc, rows, &at, to->row_sums, shift, lo, hi, zeros);
        at.base += 2 * W, at.zero += 2 * W, at.scale += 2 * W, at.sums += 2 * W;
    }
#endif
    for (int64_t i = 0; i < rows && done < n; i++) {
        char *row = out + (i * to->ldo + done) * size;
        const int32_t *sums = c + i * ldc + done;
        if (p->out_kind == 0)
            finish_row(0, offsets, row, sums, n - done, &at, to->row_sums[i], shift[i], lo, hi, zeros);
        else if (p->out_kind == 1)
            finish_row(1, offsets, row, sums, n - done, &at, to->row_sums[i], shift[i], lo, hi, zeros);
        else if (offsets)
            finish_row(2, 1, row, sums, n - done, &at, to->row_sums[i], shift[i], lo, hi, zeros);
        else
            finish_row(2, 0, row, sums, n - done, &at, to->row_sums[i], shift[i], lo, hi, zeros);
    }
    if (to->n_steps) {
        rlx_epi_tile tile = {out, out, to->ldo, to->ldo, size, size, rows, n, to->row, 1, to->col, to->offset};
        return rlx_epilogue(t, f, to->steps, to->n_steps, &tile);
    }
    return RLX_OK;
}

int rlx_int8_products(const rlx_thunk *t, const rlx_frame *f, rlx_int8_tile *tile, const rlx_int8_target *to) {
    rlx_int8_columns at = *to->columns;
    rlx_int8_target part = *to;
    const int64_t widest = rlx_widest[tile->rows];
    /* whole micro-tiles */
    const int64_t group = widest < RLX_INT8_PANELS / 2 ? RLX_INT8_PANELS / widest * widest : RLX_INT8_PANELS;
    part.columns = &at;
    tile->ldc = W * (tile->panels < group ? tile->panels : group);
    for (int64_t p = 0; p < tile->panels; p += group) {
        const int64_t panels = tile->panels - p < group ? tile->panels - p : group;
        const int8_t *b = tile->b + p * tile->depth * W;
        for (int64_t i = 0, np; i < panels; i += np) {
            np = rlx_tile_rows(panels, widest, i);
            micros[tile->rows][np](tile, b + i * tile->depth * W, tile->c + i * W);
        }
        part.cols = to->cols - p * W < panels * W ? to->cols - p * W : panels * W;
        part.col = to->col + p * W, part.offset = to->offset + p * W;
        int status = rlx_int8_finish(t, f, &part, tile->c, tile->ldc, tile->rows);
        if (status)
            return status;
        at.base += panels * W, at.zero += panels * W, at.scale += panels * W, at.sums += panels * W;
    }
    return RLX_OK;
}

/* ------------------------------------------------------------------- kernels */

static int gemm_info(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    int64_t *out = (int64_t *)RLX_PTR(t, f, 0);
    out[0] = RLX_GEMM_MR, out[1] = W, out[2] = RLX_KG;
    return RLX_OK;
}

RLX_ALWAYS_INLINE void copy_group(int8_t *dst, const uint8_t *src, uint8_t flip) {
    uint32_t v = 0;
    memcpy(&v, src, RLX_KG);
    v ^= flip * 0x01010101u;
    memcpy(dst, &v, RLX_KG);
}

static int pack_b(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t k = at[0], n = at[1], ldb = at[2], trans = at[3], group_stride = at[4];
    uint8_t flip = at[5] ? 0 : 0x80;
    int64_t depth = rlx_int8_depth(k), columns = (n + W - 1) / W * W;
    int64_t row = trans ? 1 : ldb, column = trans ? ldb : 1;
    const V ones = RLX_INT8_ONES - (V){0};
    for (int64_t g = lo; g < hi; g++) {
        const uint8_t *src = (const uint8_t *)RLX_PTR(t, f, 0) + g * group_stride;
        int8_t *dst = (int8_t *)RLX_PTR(t, f, 1) + g * rlx_int8_group_bytes(k, n);
        int32_t *sums = (int32_t *)(dst + columns * depth);
        for (int64_t j0 = 0; j0 < n; j0 += W) {
            int64_t cols = n - j0 < W ? n - j0 : W, i = 0;
            int8_t *panel = dst + j0 * depth;
            if (cols < W || k < depth)
                memset(panel, 0, (size_t)(W * depth));
            if (cols == W && !trans)
                for (; i + RLX_KG <= k; i += RLX_KG)
                    rlx_int8_interleave(panel + i * W, src + i * ldb + j0, ldb, flip);
            else if (trans)
                for (; i + RLX_KG <= k; i += RLX_KG)
                    for (int64_t j = 0; j < cols; j++)
                        copy_group(panel + i * W + j * RLX_KG, src + (j0 + j) * ldb + i, flip);
            for (int64_t j = 0; j < cols; j++)
                for (int64_t r = i; r < k; r++)
                    panel[r / RLX_KG * RLX_KG * W + j * RLX_KG + r % RLX_KG] =
                        (int8_t)(src[r * row + (j0 + j) * column] ^ flip);
            V sum = (V){0};
            for (i = 0; i < depth; i += RLX_KG)
                sum = RLX_INT8_DOT(sum, ones, RLX_INT8_LOAD(panel + i * W));
            *(rlx_vi32u *)(sums + j0) = sum;
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
    rlx_int8_columns columns = rlx_int8_columns_at(c + RLX_GEMM_MR * ldc, ldc);
    rlx_int8_term *a_tile = (rlx_int8_term *)(columns.scale + ldc);
    const char *a_zero = RLX_OPT(t, f, 5);
    int want_sum = post.b_zero_n > 0 || !post.b_signed;
    /* Whole groups of unsigned bytes are terms as they lie. */
    int in_place = RLX_INT8_VNNI && !post.a_signed && !want_sum && k % RLX_KG == 0;
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
        const rlx_int8_term *rows_at = a_tile;
        rlx_int8_tile tile = {0, depth, 1, depth, &rows_at, depth, b + n0 * depth, (cols + W - 1) / W, c, ldc};
        rlx_int8_prepare(t, f, &post, &columns, n0, cols, sums);
        for (int64_t i = m0; i < m1; i += tile.rows) {
            tile.rows = rlx_tile_rows(m1 - m0, RLX_GEMM_MR, i - m0);
            int32_t row_sums[RLX_GEMM_MR] = {0};
            const uint8_t *a = (const uint8_t *)RLX_PTR(t, f, 0) + at_a + i * lda;
            if (in_place) {
                rows_at = (const rlx_int8_term *)a;
                tile.lda = lda;
            }
            for (int64_t r = 0; r < tile.rows && !in_place; r++) {
                const uint8_t *src = a + r * lda;
                int32_t za = rlx_int8_zero(a_zero, post.a_zero_n, i + r, post.a_signed);
                row_sums[r] = rlx_int8_row(a_tile + r * depth, src, k, post.a_signed, za, want_sum);
            }
            const rlx_int8_target to = {&post, &columns, cols, row_sums, item * m + i, i, n0,
                                        at_out + i * ldo + n0, ldo, steps, n_steps};
            int status = rlx_int8_products(t, f, &tile, &to);
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
