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
 * Design. A vector of words is NR columns times 4 to 16 steps of k, so one load feeds as many FMAs per row. Two
 * ways to turn a code into a number: a permutation of a table, which looks at the low bits of an element alone (AVX-512,
 * 2 and 4 bits), and the code between the bits of a float whose last place it is: 2^(23 - p) + code, if it stands at bit p.
 * What is not at the right bit is brought there by a load at the next byte, for nothing, or by a shift of less than a byte.
 *     A weight is then formed in one step, number * scale - (2^(23 - p) + zero) * scale, where the latter product is
 * exact, as it is for scales with few digits (those that were f16 or bf16) and p from 8 or 12 on: 3 instructions for 16 weights
 * and a row, 1.5 to 1.7 cycles measured. Other scales take one more (with a permutation a shift for each second code), with the same bits.
 *     For few rows each weight is decoded in registers, used by all rows and forgotten: the product reads 4 bits a weight. For
 * many rows a block is decoded once into the second cache and multiplied by the kernels of gemm_f32.c. Both form the very
 * weights that dequantising forms and add in the same order: the same bits for any number of rows, equal to
 * dequantise + matmul cut at the same kc.
 *     Tried: 16 lanes along k within a block, where a permutation of the block's 16 weights is all, 2.6 to 3 instructions: as
 * fast with blocks of 32, 1.15 times with 128, one row; slower from 4 rows on, and another order of summation. Codes shifted
 * once and stored for loads at odd bytes: those cross a line each, no gain. Factoring the scale out of a block's sum
 * would change the bits. All passes of K panel by panel instead of all panels in each pass, fetching ahead: no gain.
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
    const uint32_t *first, *last; /* vectors of words, of all panels */
    const float *scales;
    int64_t words, blocks, zero_words; /* per panel */
    int64_t block, k0;
} nbits_source;

/* Words at any byte. */
typedef int32_t rlx_words __attribute__((vector_size(RLX_VBYTES), aligned(1), may_alias));
RLX_ALWAYS_INLINE rlx_vi32 words_at(const uint32_t *w, int byte) {
    return *(const rlx_words *)((const char *)w + byte);
}

RLX_ALWAYS_INLINE rlx_vi32 shifted(rlx_vi32 words, int n) { return (rlx_vi32)((rlx_vu32)words >> n); }

/* 2^(23 - p) + code, where the code of a word begins at bit p. */
RLX_ALWAYS_INLINE V placed(const int BITS, rlx_vi32 words, int p) {
    const int32_t mask = ((1 << BITS) - 1) << p, power = (150 - p) << 23;
#ifdef __AVX512F__
    return (V)_mm512_ternarylogic_epi32(_mm512_set1_epi32(power), (__m512i)words, _mm512_set1_epi32(mask), 0xf8);
#else
    return (V)((words & mask) | power);
#endif
}
RLX_ALWAYS_INLINE V power_of(int p) { return (float)(1 << (23 - p)) - (V){0}; }

/* With AVX-512 codes of 2 and 4 bits are looked up. */
#ifdef __AVX512F__
#define LOOKED_UP(BITS) ((BITS) < 8)
/* The code in the lowest bits of each word, less the middle of the range if that is the zero point. */
RLX_ALWAYS_INLINE V looked_up(const int BITS, const int CENTRED, rlx_vi32 words) {
    const float d = CENTRED ? (float)(1 << (BITS - 1)) : 0.0f;
    if (BITS == 2)
        return (V)_mm512_permutevar_ps(_mm512_setr4_ps(0 - d, 1 - d, 2 - d, 3 - d), (__m512i)words);
    const __m512 table = _mm512_setr_ps(0 - d, 1 - d, 2 - d, 3 - d, 4 - d, 5 - d, 6 - d, 7 - d, 8 - d, 9 - d, 10 - d,
                                        11 - d, 12 - d, 13 - d, 14 - d, 15 - d);
    return (V)_mm512_permutexvar_ps((__m512i)words, table);
}
#else
#define LOOKED_UP(BITS) 0
RLX_ALWAYS_INLINE V looked_up(const int BITS, const int CENTRED, rlx_vi32 words) { return (V)words; }
#endif

/* a * b - c with one rounding, and whether each of these is 0 (and no NaN). With 16 registers there is no room for what the
 * form that needs this keeps: it was as fast as the other. */
#ifdef __AVX512F__
#define ONE_STEP 1
RLX_ALWAYS_INLINE V one_step(V a, V b, V c) { return (V)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)c); }
RLX_ALWAYS_INLINE int all_zero(rlx_vi32 bits) {
    return _mm512_test_epi32_mask((__m512i)bits, (__m512i)bits) == 0;
}
#else
#define ONE_STEP 0
RLX_ALWAYS_INLINE V one_step(V a, V b, V c) { return a * b - c; }
RLX_ALWAYS_INLINE int all_zero(rlx_vi32 bits) { return 0; }
#endif

/* How the weights of a block are formed. */
enum {
    SHORT,   /* number * scale - (power + zero) * scale with one rounding */
    GENERAL, /* (number - (power + zero)) * scale, or by table */
};

/* Where codes may stand for weights that are formed in one step: powers that have few digits with the zero point. */
enum { HIGH = 12, HIGH_BYTE = 8, PLACES = 4 };
#define LEAST(BITS) ((BITS) == 8 ? HIGH_BYTE : HIGH)

/* What is the same for all weights of a panel's block. */
typedef struct nbits_block {
    V scale;
    V low[PLACES];  /* power + zero, code at bit 0, BITS, ... */
    V zero;
    V high[PLACES]; /* (power + zero) * scale, code at bit LEAST, LEAST + BITS, ... */
} nbits_block;

/* The form that a block can take, and what it needs. */
RLX_ALWAYS_INLINE int form_of(const int BITS, const int NP, const V *scale, const V *zero, nbits_block *c) {
    rlx_vi32 lost = {0};
    UNROLL for (int j = 0; j < NP; j++) {
        c[j].scale = scale[j];
        UNROLL for (int i = 0; i < 8 / BITS; i++) {
            c[j].low[i] = power_of(BITS * i) + zero[j];
            const V number = power_of(LEAST(BITS) + BITS * i) + zero[j];
            c[j].high[i] = number * scale[j];
            /* the largest number has the most digits and the largest product: this lost some, or is infinite, or a NaN */
            if (i == 0)
                lost |= (rlx_vi32)one_step(number, scale[j], c[j].high[0]);
        }
        c[j].zero = zero[j];
    }
    return ONE_STEP && all_zero(lost) ? SHORT : GENERAL;
}

#ifdef __x86_64__
#define OPAQUE(kind, x) __asm__("" : "+" kind(x)) /* to the compiler, which else loads what is kept again, or keeps the rest */
#else
#define OPAQUE(kind, x)
#endif

/* Weight u of each word, in FORM, from words that begin so many bytes further, or before. */
RLX_ALWAYS_INLINE int byte_of(const int BITS, const int FORM, int u) {
    const int bit = BITS * u;
    if (FORM == SHORT)
        return (bit + 16 - LEAST(BITS)) / 8 - 2;
    /* a table needs a shift for all but the lowest code of a byte, which then may as well be of the whole word; so do codes of
     * 2 bits, which else are converted: numbers for each of four places would fill the registers */
    return BITS == 2 && !LOOKED_UP(BITS) ? 0 : LOOKED_UP(BITS) && bit % 8 ? 0 : bit / 8;
}
RLX_ALWAYS_INLINE V weight(const int BITS, const int ZEROS, const int FORM, rlx_vi32 words, int u,
                           const nbits_block *c) {
    const int p = BITS * u - 8 * byte_of(BITS, FORM, u);
    if (FORM == SHORT)
        return one_step(placed(BITS, words, p), c->scale, c->high[(p - LEAST(BITS)) / BITS]);
    if (!LOOKED_UP(BITS)) {
        if (BITS == 2) {
            const rlx_vi32 q = shifted(words, p) & 3;
            if (!ZEROS)
                return __builtin_convertvector(q - 2, V) * c->scale;
            OPAQUE("r", c); /* read anew: kept in registers, sums would not be */
            return (__builtin_convertvector(q, V) - c->zero) * c->scale;
        }
        return (placed(BITS, words, p) - c->low[p / BITS]) * c->scale;
    }
    const V q = looked_up(BITS, !ZEROS, shifted(words, p));
    return ZEROS ? (q - c->zero) * c->scale : q * c->scale;
}
/* All weights of the words at w: does THEN for each u with the words for it in words[j], of NP panels. Reads up to
 * 3 bytes beyond, and if SHORT 2 before. Where there are registers for it each vector is loaded once, as most lie across two lines. */
#define KEEP(BITS) (RLX_VREGS == 32 || (BITS) == 2)
#define EACH_CODE(BITS, FORM, NP, w, stride, THEN)                                        \
    do {                                                                                  \
        rlx_vi32 kept[6][4];                                                              \
        int have[6] = {0};                                                                \
        UNROLL for (int u = 0; u < 32 / BITS; u++) {                                      \
            const int byte = byte_of(BITS, FORM, u);                                      \
            rlx_vi32 *words = kept[byte + 2];                                             \
            if (!have[byte + 2]) {                                                        \
                UNROLL for (int j = 0; j < NP; j++) {                                     \
                    words[j] = words_at((w) + j * (stride), byte);                        \
                    if (KEEP(BITS))                                                       \
                        OPAQUE("v", words[j]);                                            \
                    else                                                                  \
                        OPAQUE("r", w);                                                   \
                }                                                                         \
                have[byte + 2] = KEEP(BITS);                                              \
            }                                                                             \
            THEN                                                                          \
        }                                                                                 \
    } while (0)

/* The weight of the lowest code; the same bits. */
RLX_ALWAYS_INLINE V lowest(const int BITS, rlx_vi32 words, const nbits_block *c) {
    return (placed(BITS, words, 0) - c->low[0]) * c->scale;
}

/* Zero points of a block. */
RLX_ALWAYS_INLINE V zeros_of(const nbits_source *s, int64_t panel, int64_t block) {
    const uint32_t *p = s->zeros + (panel * s->zero_words + block / 4) * W;
    rlx_vi32 z = (rlx_vi32)(((*(const rlx_vi32u *)p) >> (int)(8 * (block % 4))) & 0xFF);
    return __builtin_convertvector(z, V);
}
RLX_ALWAYS_INLINE int block_of(const int BITS, const int ZEROS, const int NP, const nbits_source *s, int64_t panel,
                               int64_t block, nbits_block *c) {
    V scale[4], zero[4];
    UNROLL for (int j = 0; j < NP; j++) {
        scale[j] = LOAD(s->scales + ((panel + j) * s->blocks + block) * W);
        zero[j] = ZEROS ? zeros_of(s, panel + j, block) : (float)(1 << (BITS - 1)) - (V){0};
    }
    return form_of(BITS, NP, scale, zero, c);
}

/* n terms of a block, in FORM: into acc. `last`: where the last words are. */
RLX_ALWAYS_INLINE void terms(const int BITS, const int ZEROS, const int FORM, const int MR, const int NP, V (*acc)[8],
                             const float *a, int64_t lda, const uint32_t *w, int64_t stride, int64_t n,
                             const uint32_t *last, const nbits_block *c) {
    const int PER = 32 / BITS;
#define ADD(u, weight_)                                                                   \
    do {                                                                                  \
        V x[FEW_ROWS];                                                                    \
        UNROLL for (int i = 0; i < MR; i++) x[i] = a[i * lda + (u)] - (V){0};             \
        UNROLL for (int j = 0; j < NP; j++) {                                             \
            const V v = weight_;                                                          \
            UNROLL for (int i = 0; i < MR; i++) acc[i][j] += x[i] * v;                    \
        }                                                                                 \
    } while (0)
    for (; n >= PER && w < last; n -= PER, a += PER, w += W)
        EACH_CODE(BITS, FORM, NP, w, stride, ADD(u, weight(BITS, ZEROS, FORM, words[j], u, c + j)););
    for (; n > 0; n -= PER, a += PER, w += W) {
        rlx_vi32 words[4];
        UNROLL for (int j = 0; j < NP; j++) words[j] = words_at(w + j * stride, 0);
        for (int u = 0; u < PER && u < n; u++) {
            ADD(u, lowest(BITS, words[j], c + j));
            UNROLL for (int j = 0; j < NP; j++) words[j] = shifted(words[j], BITS);
        }
    }
#undef ADD
}

/* MR rows x NP panels; ZEROS: they are given. */
RLX_ALWAYS_INLINE void few(const int BITS, const int ZEROS, const int MR, const int NP,
                           const piece_nbits *q, const nbits_source *s, int64_t panel) {
    const block_nbits *g = q->g;
    const int PER = 32 / BITS;
    const uint32_t *codes = s->codes + panel * s->words * W;
    const float *a = g->a;
    int64_t lda = g->lda, k = s->k0, end = k + g->runs->k, stride = s->words * W;
    const uint32_t *last = s->last - (NP - 1) * stride;
    V acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};
    for (int64_t at = k / s->block; k < end; at++) {
        int64_t stop = (at + 1) * s->block < end ? (at + 1) * s->block : end;
        const uint32_t *w = codes + k / PER * W;
        nbits_block c[4];
        if (block_of(BITS, ZEROS, NP, s, panel, at, c) == SHORT && w > s->first)
            terms(BITS, ZEROS, SHORT, MR, NP, acc, a, lda, w, stride, stop - k, last, c);
        else
            terms(BITS, ZEROS, GENERAL, MR, NP, acc, a, lda, w, stride, stop - k, last, c);
        a += stop - k;
        k = stop;
    }
    finish_nbits(MR, NP, q, acc);
}

/* All panels, four at a time for one or two rows, two for more. */
RLX_ALWAYS_INLINE void few_rows(const int BITS, const int ZEROS, const int MR, const block_nbits *g) {
    const nbits_source *s = (const nbits_source *)g->b;
    int64_t panels = (g->n + W - 1) / W;
    piece_nbits q = {g, NULL, g->c, g->bias, g->addend, W, {NULL, NULL}, 0, NULL, NULL};
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
RLX_ALWAYS_INLINE void decode_terms(const int BITS, const int ZEROS, const int FORM, float *dst, const uint32_t *w,
                                    int64_t n, const uint32_t *last, const nbits_block *c) {
    const int PER = 32 / BITS;
    for (; n >= PER && w < last; n -= PER, w += W, dst += PER * W)
        EACH_CODE(BITS, FORM, 1, w, 0, *(VU *)(dst + u * W) = weight(BITS, ZEROS, FORM, words[0], u, c););
    for (; n > 0; n -= PER, w += W, dst += PER * W) {
        rlx_vi32 words = words_at(w, 0);
        for (int u = 0; u < PER && u < n; u++) {
            *(VU *)(dst + u * W) = lowest(BITS, words, c);
            words = shifted(words, BITS);
        }
    }
}

/* Terms [k0, k0 + kc) of `panels` panels into dst[panel][kc][W]. */
RLX_ALWAYS_INLINE void decode(const int BITS, const int ZEROS, const nbits_source *s, int64_t panels,
                              int64_t kc, float *dst) {
    const int PER = 32 / BITS;
    for (int64_t p = 0; p < panels; p++) {
        for (int64_t k = s->k0, end = s->k0 + kc, at = k / s->block; k < end; at++) {
            int64_t stop = (at + 1) * s->block < end ? (at + 1) * s->block : end;
            const uint32_t *w = s->codes + (p * s->words + k / PER) * W;
            nbits_block c;
            if (block_of(BITS, ZEROS, 1, s, p, at, &c) == SHORT && w > s->first)
                decode_terms(BITS, ZEROS, SHORT, dst, w, stop - k, s->last, &c);
            else
                decode_terms(BITS, ZEROS, GENERAL, dst, w, stop - k, s->last, &c);
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
        s->first = b;                                                                     \
        s->last = b + ((p->n + W - 1) / W * s->words - 1) * W;                            \
        s->scales = (const float *)RLX_PTR(t, p->frame, 5) + panel * s->blocks * W;       \
        s->zeros = zeros ? zeros + panel * s->zero_words * W : NULL;                      \
        if (!p->trans_b) {                                                                \
            parts[0] = (part_nbits){0, n1 - n0, W, 0, 0, s,                               \
                                    zeros ? few_zeros_##BITS : few_centred_##BITS, NULL, 0}; \
            return 1;                                                                     \
        }                                                                                 \
        float *dst = work + NBITS_HEAD;                                                   \
        int64_t panels = (n1 - n0 + W - 1) / W;                                           \
        if (zeros)                                                                        \
            decode(BITS, 1, s, panels, kc, dst);                                          \
        else                                                                              \
            decode(BITS, 0, s, panels, kc, dst);                                          \
        parts[0] = (part_nbits){0, n1 - n0, W, kc * W, 0, dst, rlx_gemm_rows_f32, NULL, 0}; \
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
