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
 * FMAs per row, and a code comes out by a shift and a mask (with AVX-512 and 4 bits: a shift and a
 * permutation of a table, which looks at the low bits alone). For few rows each weight is decoded
 * in registers, used by all rows and forgotten: the product reads 4 bits a weight. For many rows a
 * block is decoded once into the second cache and multiplied by the kernels of gemm_f32.c. Both
 * form the very weights that dequantising forms and add in the same order: the same bits for any
 * number of rows, equal to dequantise + matmul cut at the same kc.
 * Factoring the scale out of a block's sum would save one multiplication of five, and the bits.
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

enum { FEW_ROWS = 4 };

/* Where the columns of a task lie; the row block of few rows finds it behind `b`. */
typedef struct nbits_source {
    const uint32_t *codes, *zeros;
    const float *scales;
    int64_t words, blocks, zero_words; /* per panel */
    int64_t block, k0;
} nbits_source;

/* Code i of each word, as f32; 4 bits come with 8 subtracted if they are centred. */
RLX_ALWAYS_INLINE V code(const int BITS, const int CENTRED, rlx_vi32 words, int i) {
#ifdef __AVX512F__
    if (BITS == 4) {
        float d = CENTRED ? 8.0f : 0.0f;
        __m512 table = _mm512_setr_ps(0 - d, 1 - d, 2 - d, 3 - d, 4 - d, 5 - d, 6 - d, 7 - d, 8 - d,
                                      9 - d, 10 - d, 11 - d, 12 - d, 13 - d, 14 - d, 15 - d);
        return (V)_mm512_permutexvar_ps(_mm512_srli_epi32((__m512i)words, 4 * i), table);
    }
#endif
    typedef uint32_t unsigned_words __attribute__((vector_size(RLX_VBYTES)));
    unsigned_words u = (unsigned_words)words >> (BITS * i);
    rlx_vi32 q = (rlx_vi32)(u & ((1u << BITS) - 1));
    if (CENTRED)
        q -= 1 << (BITS - 1);
    return __builtin_convertvector(q, V);
}

/* Zero points of a block. */
RLX_ALWAYS_INLINE V zeros_of(const nbits_source *s, int64_t panel, int64_t block) {
    const uint32_t *p = s->zeros + (panel * s->zero_words + block / 4) * W;
    rlx_vi32 z = (rlx_vi32)(((*(const rlx_vi32u *)p) >> (int)(8 * (block % 4))) & 0xFF);
    return __builtin_convertvector(z, V);
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
        V scale[8], zero[8];
        UNROLL for (int j = 0; j < NP; j++) {
            scale[j] = LOAD(s->scales + ((panel + j) * s->blocks + at) * W);
            zero[j] = ZEROS ? zeros_of(s, panel + j, at) : (V){0};
        }
        for (; k < stop; k += PER, a += PER) {
            const uint32_t *w = codes + k / PER * W;
            rlx_vi32 words[8];
            UNROLL for (int j = 0; j < NP; j++) words[j] = *(const rlx_vi32u *)(w + j * stride);
#define STEP(u)                                                                           \
    do {                                                                                  \
        V x[FEW_ROWS];                                                                    \
        UNROLL for (int i = 0; i < MR; i++) x[i] = a[i * lda + (u)] - (V){0};             \
        UNROLL for (int j = 0; j < NP; j++) {                                             \
            V v = code(BITS, !ZEROS, words[j], u);                                        \
            v = (ZEROS ? v - zero[j] : v) * scale[j];                                     \
            UNROLL for (int i = 0; i < MR; i++) acc[i][j] += x[i] * v;                    \
        }                                                                                 \
    } while (0)
            if (stop - k >= PER) {
                UNROLL for (int u = 0; u < PER; u++) STEP(u);
            } else {
                for (int u = 0; u < stop - k; u++) STEP(u);
            }
#undef STEP
        }
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

/* Terms [k0, k0 + kc) of `panels` panels into dst[panel][kc][W]. */
RLX_ALWAYS_INLINE void decode(const int BITS, const int ZEROS, const nbits_source *s, int64_t panels,
                              int64_t kc, float *dst) {
    const int PER = 32 / BITS;
    for (int64_t p = 0; p < panels; p++) {
        for (int64_t k = s->k0, end = s->k0 + kc; k < end;) {
            int64_t at = k / s->block, stop = (at + 1) * s->block < end ? (at + 1) * s->block : end;
            V scale = LOAD(s->scales + (p * s->blocks + at) * W);
            V zero = ZEROS ? zeros_of(s, p, at) : (V){0};
            for (; k < stop; k += PER) {
                rlx_vi32 words = *(const rlx_vi32u *)(s->codes + (p * s->words + k / PER) * W);
                int n = stop - k < PER ? (int)(stop - k) : PER;
                if (n == PER) {
                    UNROLL for (int u = 0; u < PER; u++) {
                        V v = code(BITS, !ZEROS, words, u);
                        *(VU *)(dst + u * W) = (ZEROS ? v - zero : v) * scale;
                    }
                } else {
                    for (int u = 0; u < n; u++) {
                        V v = code(BITS, !ZEROS, words, u);
                        *(VU *)(dst + u * W) = (ZEROS ? v - zero : v) * scale;
                    }
                }
                dst += n * W;
            }
            k = stop;
        }
    }
}

#define FOR_ROWS(BITS, ZEROS, NAME_)                                                      \
    static void NAME_(const block_nbits *g) {                                             \
        switch (g->rows) {                                                                \
        case 1: few_rows(BITS, ZEROS, 1, g); break;                                       \
        case 2: few_rows(BITS, ZEROS, 2, g); break;                                       \
        case 3: few_rows(BITS, ZEROS, 3, g); break;                                       \
        default: few_rows(BITS, ZEROS, 4, g); break;                                      \
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
