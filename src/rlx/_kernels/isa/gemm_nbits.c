/* gemm_nbits: out = epilogue(clamp(A B + bias)), A in f32, B in codes of 2, 4 or 8 bits:
 * B[k, n] = (code[n, k] - zero[n, k / block]) * scale[n, k / block], formed in f32 with one rounding.
 *
 * matmul.f32@u2, @u4, @u8   args: a, codes, out, bias [N] | absent, workspace, scales,
 *                           zeros | absent (2^(bits - 1) everywhere), operands of the epilogue
 *   codes    words of 32 bits packed by pack_b.f32: a word holds 16, 8 or 4 codes that follow each
 *            other in k, the first one lowest; [ceil(N / NR)][words][NR]
 *   scales   [ceil(N / NR)][blocks][NR] f32, packed by pack_b.f32
 *   zeros    bytes, four blocks a word: [ceil(N / NR)][ceil(blocks / 4)][NR] words
 *   attrs    those of matmul.f32 and `block`; kc is a multiple of 16; `trans_b` says that each task
 *            decodes its block of B first (rlx/lower/gemm_nbits.py decides)
 *
 * Design. A vector of words is NR columns times 4 to 16 steps of k, so one load feeds as many
 * FMAs per row, and a code comes out by a shift and a mask (with AVX-512 and 2 or 4 bits: a shift and a
 * permutation of a table, which looks at the low bits alone; 8 bits: a shuffle). A zero point is taken off
 * by the multiplication with the scale where that gives the same bits. For few rows each weight is decoded
 * in registers, used by all rows and forgotten: the product reads 4 bits a weight. For many rows a
 * block is decoded once into the second cache and multiplied by the kernels of gemm_f32.c. Both
 * form the very weights that dequantising forms and add in the same order: the same bits for any
 * number of rows, equal to dequantise + matmul cut at the same kc.
 * With AVX-512 that is 4 instructions on two ports for 16 weights and a row: 2.05 cycles measured (2 and 8
 * bits with masks and subtractions took 3). Up to 8 rows in registers: 0.74 of the time of decoding first.
 * Factoring the scale out of a block's sum would save one instruction of four, and the bits.
 */
#include "epilogue.h"
#include "gemm.h"

#define T float
#define TB uint32_t
#define LOADB LOAD
#define TRANSPOSE_B NAME(rlx_transpose)
#include "template.h"
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#define S nbits
#define rlx_load_part_nbits rlx_load_part_f32
#define rlx_store_part_nbits rlx_store_part_f32
#define rlx_clamp_nbits rlx_clamp_f32
#define rlx_transpose_nbits rlx_transpose_f32
typedef rlx_gemm_block_f32 rlx_gemm_block_nbits;
#include "gemm_finish.h"
#include "gemm_driver.h"

enum { FEW_ROWS = RLX_VREGS == 32 ? 8 : 4 }; /* gemm_nbits.py has the same numbers */
typedef uint32_t rlx_vu32 __attribute__((vector_size(RLX_VBYTES)));

/* Where the columns of a task lie; the row block of few rows finds it behind `b`. */
typedef struct nbits_source {
    const uint32_t *codes, *zeros;
    const float *scales;
    int64_t words, blocks, zero_words; /* per panel */
    int64_t block, k0;
} nbits_source;

/* Code i of each word, as f32, less the middle of the range if that is the zero point (2 and 4 bits). */
RLX_ALWAYS_INLINE V code(const int BITS, const int CENTRED, rlx_vi32 words, int i) {
#ifdef __AVX512F__
    /* permutations that look at the low 2 or 4 bits of an element alone: a shift is all they need */
    const float d = CENTRED ? (float)(1 << (BITS - 1)) : 0.0f;
    const __m512i at = i ? _mm512_srli_epi32((__m512i)words, BITS * i) : (__m512i)words;
    if (BITS == 4) {
        const __m512 table = _mm512_setr_ps(0 - d, 1 - d, 2 - d, 3 - d, 4 - d, 5 - d, 6 - d, 7 - d, 8 - d,
                                            9 - d, 10 - d, 11 - d, 12 - d, 13 - d, 14 - d, 15 - d);
        return (V)_mm512_permutexvar_ps(at, table);
    }
    if (BITS == 2)
        return (V)_mm512_permutevar_ps(_mm512_setr4_ps(0 - d, 1 - d, 2 - d, 3 - d), at);
    /* one shuffle widens a byte */
    const __m512i bytes = _mm512_set4_epi32(0x80808000 + 0x0c + i, 0x80808000 + 0x08 + i, 0x80808000 + 0x04 + i,
                                            0x80808000 + i);
    return (V)_mm512_cvtepi32_ps(_mm512_shuffle_epi8((__m512i)words, bytes));
#else
    rlx_vu32 u = (rlx_vu32)words >> (BITS * i);
    rlx_vi32 q = (rlx_vi32)(u & ((1u << BITS) - 1));
    if (CENTRED && BITS < 8)
        q -= 1 << (BITS - 1);
    return __builtin_convertvector(q, V);
#endif
}

#ifdef __FMA__
/* (code - zero) * scale with one rounding is code * scale - zero * scale with one rounding if the latter
 * product is exact: always for the power of two that is the middle, else where scales have few digits. */
#define ONE_STEP 1
RLX_ALWAYS_INLINE V one_step(V q, V scale, V offset) {
#ifdef __AVX512F__
    return (V)_mm512_fmsub_ps((__m512)q, (__m512)scale, (__m512)offset);
#else
    return (V)_mm256_fmsub_ps((__m256)q, (__m256)scale, (__m256)offset);
#endif
}
/* What a product of two numbers lost by rounding: 0, or something else (a NaN). */
RLX_ALWAYS_INLINE int all_exact(V a, V b, V product) {
#ifdef __AVX512F__
    __m512 lost = _mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)product);
    return _mm512_cmp_ps_mask(lost, _mm512_setzero_ps(), _CMP_NEQ_UQ) == 0;
#else
    __m256 lost = _mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)product);
    return _mm256_testz_ps(_mm256_cmp_ps(lost, _mm256_setzero_ps(), _CMP_NEQ_UQ),
                           (__m256)_mm256_set1_epi32(-1));
#endif
}
#else
#define ONE_STEP 0
RLX_ALWAYS_INLINE V one_step(V q, V scale, V offset) { return q * scale - offset; }
RLX_ALWAYS_INLINE int all_exact(V a, V b, V product) { return 0; }
#endif

/* How the weights of a block are formed. */
enum {
    SCALED,   /* code(centred) * scale */
    SHIFTED,  /* one_step(code, scale, zero * scale) */
    GENERAL,  /* (code - zero) * scale */
};
RLX_ALWAYS_INLINE V weight(const int BITS, const int FORM, rlx_vi32 words, int i, V scale, V zero) {
    const V q = code(BITS, FORM == SCALED, words, i);
    return FORM == SCALED ? q * scale : FORM == SHIFTED ? one_step(q, scale, zero) : (q - zero) * scale;
}

/* Zero points of a block. */
RLX_ALWAYS_INLINE V zeros_of(const nbits_source *s, int64_t panel, int64_t block) {
    const uint32_t *p = s->zeros + (panel * s->zero_words + block / 4) * W;
    rlx_vi32 z = (rlx_vi32)(((*(const rlx_vi32u *)p) >> (int)(8 * (block % 4))) & 0xFF);
    return __builtin_convertvector(z, V);
}

/* Terms [k, stop) of a block, in FORM: into acc. */
RLX_ALWAYS_INLINE void terms(const int BITS, const int FORM, const int MR, const int NP, V (*acc)[8],
                             const float *a, int64_t lda, const uint32_t *w, int64_t stride, int64_t n,
                             const V *scale, const V *zero) {
    const int PER = 32 / BITS;
#define STEP(u)                                                                           \
    do {                                                                                  \
        V x[FEW_ROWS];                                                                    \
        UNROLL for (int i = 0; i < MR; i++) x[i] = a[i * lda + (u)] - (V){0};             \
        UNROLL for (int j = 0; j < NP; j++) {                                             \
            const V v = weight(BITS, FORM, words[j], u, scale[j], zero[j]);               \
            UNROLL for (int i = 0; i < MR; i++) acc[i][j] += x[i] * v;                    \
        }                                                                                 \
    } while (0)
    for (; n >= PER; n -= PER, a += PER, w += W) {
        rlx_vi32 words[4];
        UNROLL for (int j = 0; j < NP; j++) words[j] = *(const rlx_vi32u *)(w + j * stride);
        UNROLL for (int u = 0; u < PER; u++) STEP(u);
    }
    if (n > 0) {
        rlx_vi32 words[4];
        UNROLL for (int j = 0; j < NP; j++) words[j] = *(const rlx_vi32u *)(w + j * stride);
        for (int u = 0; u < PER - 1; u++) {
            if (u < n)
                STEP(0);
            a++;
            UNROLL for (int j = 0; j < NP; j++) words[j] = (rlx_vi32)((rlx_vu32)words[j] >> BITS);
        }
    }
#undef STEP
}

/* MR rows x NP panels; ZEROS: they are given. */
RLX_ALWAYS_INLINE void few(const int BITS, const int ZEROS, const int MR, const int NP,
                           const piece_nbits *q, const nbits_source *s, int64_t panel) {
    const block_nbits *g = q->g;
    const int PER = 32 / BITS;
    const uint32_t *codes = s->codes + panel * s->words * W;
    const float *a = g->a;
    int64_t lda = g->lda, k = s->k0, end = k + g->runs->k, stride = s->words * W;
    V acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};
    while (k < end) {
        int64_t at = k / s->block, stop = (at + 1) * s->block < end ? (at + 1) * s->block : end;
        const uint32_t *w = codes + k / PER * W;
        V scale[8], zero[8], offset[8];
        int exact = ONE_STEP;
        UNROLL for (int j = 0; j < NP; j++) {
            scale[j] = LOAD(s->scales + ((panel + j) * s->blocks + at) * W);
            zero[j] = ZEROS ? zeros_of(s, panel + j, at) : (float)(1 << (BITS - 1)) - (V){0};
            offset[j] = zero[j] * scale[j];
            if (ZEROS || BITS == 8)
                exact &= all_exact(zero[j], scale[j], offset[j]);
        }
        if (!ZEROS && BITS < 8)
            terms(BITS, SCALED, MR, NP, acc, a, lda, w, stride, stop - k, scale, zero);
        else if (exact)
            terms(BITS, SHIFTED, MR, NP, acc, a, lda, w, stride, stop - k, scale, offset);
        else
            terms(BITS, GENERAL, MR, NP, acc, a, lda, w, stride, stop - k, scale, zero);
        a += stop - k;
        k = stop;
    }
    finish_nbits(MR, NP, q, acc);
}

/* All panels, four at a time for one or two rows, two for more. */
RLX_ALWAYS_INLINE void few_rows(const int BITS, const int ZEROS, const int MR, const block_nbits *g) {
    const nbits_source *s = (const nbits_source *)g->b;
    int64_t panels = (g->n + W - 1) / W;
    piece_nbits q = {g, NULL, g->c, g->bias, g->addend, W, {NULL, NULL}, 0};
    for (int64_t p = 0, np; p < panels; p += np) {
        int64_t left = panels - p;
        np = left >= 4 && MR <= 2 ? 4 : left >= 2 ? 2 : 1;
        q.last = p + np == panels ? g->n - (panels - 1) * W : W;
        if (MR <= 2 && np == 4)
            few(BITS, ZEROS, MR, 4, &q, s, p);
        else if (np == 2)
            few(BITS, ZEROS, MR, 2, &q, s, p);
        else
            few(BITS, ZEROS, MR, 1, &q, s, p);
        q.c += np * W;
        q.bias += q.bias ? np * W : 0;
        q.addend += q.addend ? np * W : 0;
    }
}

/* n terms of a panel, in FORM. */
RLX_ALWAYS_INLINE void decode_terms(const int BITS, const int FORM, float *dst, const uint32_t *w, int64_t n,
                                    V scale, V zero) {
    const int PER = 32 / BITS;
    for (; n >= PER; n -= PER, w += W, dst += PER * W) {
        const rlx_vi32 words = *(const rlx_vi32u *)w;
        UNROLL for (int u = 0; u < PER; u++)
            *(VU *)(dst + u * W) = weight(BITS, FORM, words, u, scale, zero);
    }
    if (n > 0) {
        rlx_vi32 words = *(const rlx_vi32u *)w;
        for (; n > 0; n--, dst += W) {
            *(VU *)dst = weight(BITS, FORM, words, 0, scale, zero);
            words = (rlx_vi32)((rlx_vu32)words >> BITS);
        }
    }
}

/* Terms [k0, k0 + kc) of `panels` panels into dst[panel][kc][W]. */
RLX_ALWAYS_INLINE void decode(const int BITS, const int ZEROS, const nbits_source *s, int64_t panels,
                              int64_t kc, float *dst) {
    const int PER = 32 / BITS;
    for (int64_t p = 0; p < panels; p++) {
        for (int64_t k = s->k0, end = s->k0 + kc; k < end;) {
            int64_t at = k / s->block, stop = (at + 1) * s->block < end ? (at + 1) * s->block : end;
            const uint32_t *w = s->codes + (p * s->words + k / PER) * W;
            V scale = LOAD(s->scales + (p * s->blocks + at) * W);
            V zero = ZEROS ? zeros_of(s, p, at) : (float)(1 << (BITS - 1)) - (V){0};
            if (!ZEROS && BITS < 8)
                decode_terms(BITS, SCALED, dst, w, stop - k, scale, zero);
            else
                decode_terms(BITS, GENERAL, dst, w, stop - k, scale, zero);
            dst += (stop - k) * W;
            k = stop;
        }
    }
}

#if RLX_VREGS == 32
#define MORE_ROWS(BITS, ZEROS)                                                            \
    case 5: few_rows(BITS, ZEROS, 5, g); break;                                           \
    case 6: few_rows(BITS, ZEROS, 6, g); break;                                           \
    case 7: few_rows(BITS, ZEROS, 7, g); break;                                           \
    case 8: few_rows(BITS, ZEROS, 8, g); break;
#else
#define MORE_ROWS(BITS, ZEROS)
#endif

#define FOR_ROWS(BITS, ZEROS, NAME_)                                                      \
    static void NAME_(const block_nbits *g) {                                             \
        switch (g->rows) {                                                                \
        case 1: few_rows(BITS, ZEROS, 1, g); break;                                       \
        case 2: few_rows(BITS, ZEROS, 2, g); break;                                       \
        case 3: few_rows(BITS, ZEROS, 3, g); break;                                       \
        case 4: few_rows(BITS, ZEROS, 4, g); break;                                       \
        MORE_ROWS(BITS, ZEROS)                                                            \
        }                                                                                 \
    }

#define FOR_BITS(BITS)                                                                    \
    FOR_ROWS(BITS, 0, few_centred_##BITS)                                                 \
    FOR_ROWS(BITS, 1, few_zeros_##BITS)                                                   \
    static int read_##BITS(const problem_nbits *p, const uint32_t *b, float *work,        \
                           int64_t rows, int64_t n0, int64_t n1, int64_t k0, int64_t kc,  \
                           part_nbits *parts) {                                           \
        const rlx_thunk *t = p->thunk;                                                    \
        const uint32_t *zeros = (const uint32_t *)RLX_OPT(t, p->frame, 6);                \
        nbits_source *s = (nbits_source *)work;                                           \
        int64_t block = t->attrs[22], panel = n0 / W;                                     \
        s->words = (p->k + 32 / BITS - 1) / (32 / BITS);                                  \
        s->blocks = (p->k + block - 1) / block;                                           \
        s->zero_words = (s->blocks + 3) / 4;                                              \
        s->block = block;                                                                 \
        s->k0 = k0;                                                                       \
        s->codes = b + panel * s->words * W;                                              \
        s->scales = (const float *)RLX_PTR(t, p->frame, 5) + panel * s->blocks * W;       \
        s->zeros = zeros ? zeros + panel * s->zero_words * W : NULL;                      \
        if (!p->trans_b) {                                                                \
            parts[0] = (part_nbits){0, n1 - n0, W, 0, 0, s,                               \
                                    zeros ? few_zeros_##BITS : few_centred_##BITS, NULL}; \
            return 1;                                                                     \
        }                                                                                 \
        float *dst = work + NBITS_HEAD;                                                   \
        int64_t panels = (n1 - n0 + W - 1) / W;                                           \
        if (zeros)                                                                        \
            decode(BITS, 1, s, panels, kc, dst);                                          \
        else                                                                              \
            decode(BITS, 0, s, panels, kc, dst);                                          \
        parts[0] = (part_nbits){0, n1 - n0, W, kc * W, 0, dst, rlx_gemm_rows_f32, NULL};  \
        return 1;                                                                         \
    }                                                                                     \
    static int matmul_##BITS(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        return run_nbits(t, f, lo, hi, read_##BITS);                                      \
    }

/* Floats at the start of a thread's workspace that hold an nbits_source. */
enum { NBITS_HEAD = 32 };
_Static_assert(sizeof(nbits_source) <= NBITS_HEAD * sizeof(float), "nbits_source");

FOR_BITS(2)
FOR_BITS(4)
FOR_BITS(8)

#define NBITS_LAYOUT MATMUL_LAYOUT " block"

const rlx_kernel_row rlx_rows_gemm_nbits[] = {
    {"matmul.f32@u2", matmul_2, NBITS_LAYOUT, 0},
    {"matmul.f32@u4", matmul_4, NBITS_LAYOUT, 0},
    {"matmul.f32@u8", matmul_8, NBITS_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
