/* Template: micro-kernels, packing and the row block of one floating type.
 * Wants the names of template.h. */
#include "gemm_finish.h"
#ifndef COPY_PART
#define COPY_PART(dst, src, n) \
    (memset(dst, 0, W * sizeof(TB)), memcpy(dst, src, (size_t)(n) * sizeof(TB)))
#endif

/* Steps unrolled are mixed by the compiler until registers run out. */
#define STEPWISE _Pragma("GCC unroll 1")

/* MR rows x NP panels. Every accumulator is one chain of FMAs in k order, so an
 * element's bits depend on K alone, not on the tile it falls in. Rows are
 * addressed by a pointer per three rows (base, base + lda, base + 2 lda); the
 * empty asm keeps the compiler from making a pointer of each row. */
RLX_ALWAYS_INLINE void NAME(micro)(const int MR, const int NP, const NAME(piece) *q) {
    const NAME(block) *g = q->g;
    int64_t lda = g->lda, bk = g->bk, bp = g->bp;
    V acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};

#define STEP(u)                                                                         \
    do {                                                                                \
        V bv[8];                                                                        \
        UNROLL for (int j = 0; j < NP; j++) bv[j] = LOADB(b + (u) * bk + j * bp);        \
        UNROLL for (int i = 0; i < MR; i++) {                                           \
            const T *p = i < 3 ? a0 : i < 6 ? a3 : i < 9 ? a6 : i < 12 ? a9 : a12;      \
            V x = p[(i % 3) * lda + (u)] - (V){0};                                      \
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] += x * bv[j];                 \
        }                                                                               \
    } while (0)
#define ADVANCE(u)                                                                      \
    do {                                                                                \
        a0 += (u), a3 += (u), a6 += (u), a9 += (u), a12 += (u);                         \
        b += (u) * bk;                                                                  \
        __asm__("" : "+r"(a0), "+r"(a3), "+r"(a6), "+r"(a9), "+r"(a12));                \
    } while (0)

    if (q->addend) /* it was written long ago */
        for (int i = 0; i < MR; i++)
            UNROLL for (int j = 0; j < NP; j++) __builtin_prefetch(q->addend + i * g->ld_addend + j * W, 0, 3);

    const rlx_gemm_run *run = g->runs;
    const TB *fetch0 = q->fetch[0], *fetch1 = q->fetch[1];
    const int64_t fetch_step = q->fetch_step;
    /* A line of each panel: into the first cache shortly before it is needed. */
    const int lines = RLX_VREGS == 32 && W * sizeof(TB) == 64;
#define NEAR(at) UNROLL for (int j = 0; j < NP; j++) __builtin_prefetch((at) + j * bp, 0, 3)
    do {
        const TB *b = q->b + run->b;
        const T *a0 = g->a + run->a, *a3 = a0 + 3 * lda, *a6 = a3 + 3 * lda, *a9 = a6 + 3 * lda,
                *a12 = a9 + 3 * lda;
        int64_t k = run->k;
        if (MR >= 4 && MR <= RLX_FEW_ROWS && lines && bk == W && g->tiles == 1) {
            /* Bound by the read of B: 16 terms ahead, and at the end what comes next. 1 to 3 rows read 8 panels
             * at once, which the processor foresees. */
            for (; k > 16; k--) {
                NEAR(b + 16 * W);
                STEP(0);
                ADVANCE(1);
            }
            const TB *after = q->after ? q->after : q->b + run->b + NP * bp;
            for (; k > 0; k--, after += W) {
                NEAR(after);
                STEP(0);
                ADVANCE(1);
            }
        }
        if (MR >= 5 && lines && bk == W && q->below && !fetch0) {
            /* by and by four rows of A, and the lines that the result is written over, into the second cache */
            const T *below = q->below, *c = q->c;
            for (int64_t i = 0; k >= 4; k -= 4, i++) {
                __builtin_prefetch(below + (i & 3) * lda + i / 4 * W, 0, 2);
                if (NP == 2 ? i < 2 * MR : i < MR) {
                    for (int j = 0; j < (NP == 2 ? 1 : NP); j++) __builtin_prefetch(c + j * W, 0, 2);
                    c += NP != 2 ? g->ldc : i & 1 ? g->ldc - W : W;
                }
                STEPWISE for (int u = 0; u < 4; u++) {
                    NEAR(b + 8 * W);
                    STEP(0);
                    ADVANCE(1);
                }
            }
        }
        if (MR >= 4 && fetch0)
            for (; k > 0; k--) {
                __builtin_prefetch(fetch0, 0, 2);
                __builtin_prefetch(fetch1, 0, 2);
                fetch0 += fetch_step, fetch1 += fetch_step;
                if (MR >= 5 && lines)
                    NEAR(b + 8 * bk);
                STEP(0);
                ADVANCE(1);
            }
#if RLX_VREGS == 16 /* few FMAs per step: halve the loop overhead */
        for (; k >= 2; k -= 2) {
            STEP(0);
            STEP(1);
            ADVANCE(2);
        }
#endif
        for (; k > 0; k--) {
            if (MR >= 5 && lines)
                NEAR(b + 8 * bk);
            STEP(0);
            ADVANCE(1);
        }
    } while (++run < g->end);
#undef NEAR
#undef STEP
#undef ADVANCE

    NAME(finish)(MR, NP, q, acc);
}

#define MICRO(MR, NP) \
    static void NAME(micro_##MR##x##NP)(const NAME(piece) *q) { NAME(micro)(MR, NP, q); }
#define ENTRY(MR, NP) [MR][NP] = NAME(micro_##MR##x##NP),
RLX_SHAPES(MICRO)
static void (*const NAME(micros)[RLX_GEMM_MR + 1][9])(const NAME(piece) *) = {RLX_SHAPES(ENTRY)};

/* What to fetch while the panels [p, p + np) are multiplied: those of the next block at their place. The
 * row tiles share them: a tile takes one or two panels, or a part of one. */
static inline void NAME(plan_fetch)(const NAME(block) *g, int64_t p, int64_t np, NAME(piece) *q) {
    if (g->first && (p + np) * W < g->n) {
        q->fetch_step = W;
        q->fetch[0] = q->b + np * g->bp;
        q->fetch[1] = q->fetch[0] + (np > 1 ? g->bp : 0);
        return;
    }
    q->fetch[0] = q->fetch[1] = NULL;
    if (!g->next)
        return;
    int64_t share = g->tiles / np, panel, part, terms = 0;
    share = share < 1 ? 1 : share > 8 ? 8 : share;
    panel = g->tile / share, part = g->tile % share;
    if (panel >= np)
        return;
    for (const rlx_gemm_run *run = g->runs; run < g->end; run++)
        terms += run->k;
    q->fetch_step = W / share;
    q->fetch[0] = (const TB *)g->next + (p + panel) * g->bp + part * terms * q->fetch_step;
    q->fetch[1] = panel + g->tiles < np ? q->fetch[0] + g->tiles * g->bp : q->fetch[0];
}

void NAME(rlx_gemm_rows)(const NAME(block) *g) {
    int64_t panels = (g->n + W - 1) / W, limit = rlx_widest[g->rows];
    void (*const *micro)(const NAME(piece) *) = NAME(micros)[g->rows];
    NAME(piece) q = {g, (const TB *)g->b, g->c, g->bias, g->addend, W, {NULL, NULL}, 0, NULL, g->below};
    for (int64_t p = 0, row = 4; p < panels; row += 4) {
        int64_t np = rlx_tile_rows(panels, limit, p);
        if (g->next || g->first)
            NAME(plan_fetch)(g, p, np, &q);
        p += np;
        if (p == panels) {
            q.last = g->n - (panels - 1) * W;
            q.after = (const TB *)g->next;
        }
        micro[np](&q);
        q.b += np * g->bp;
        q.c += np * W;
        q.bias += q.bias ? np * W : 0;
        q.addend += q.addend ? np * W : 0;
        q.below += q.below && row < g->rows ? 4 * g->lda : 0;
    }
}

/* n columns of B, from src[k * ldb + n] (or src[n * ldb + k] if trans) into
 * panels [k][W], the last one zero-padded. */
void NAME(rlx_pack_panels)(TB *dst, const TB *src, int64_t ldb, int trans, int64_t k, int64_t n,
                           int64_t panel_stride) {
    for (int64_t j = 0; j < n; j += W, dst += panel_stride) {
        int64_t cols = n - j < W ? n - j : W;
        if (trans) {
            if (cols < W)
                memset(dst, 0, (size_t)(k * W) * sizeof(TB));
            TRANSPOSE_B(dst, W, src + j * ldb, ldb, cols, k);
        } else if (cols == W) {
            for (int64_t i = 0; i < k; i++)
                memcpy(dst + i * W, src + i * ldb + j, W * sizeof(TB));
        } else {
            for (int64_t i = 0; i < k; i++)
                COPY_PART(dst + i * W, src + i * ldb + j, cols);
        }
    }
}

/* args: src, dst. A matrix per group, packed one after another. An item is a panel. */
static int NAME(pack_b)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t k = at[0], n = at[1], ldb = at[2], trans = at[3], group_stride = at[4];
    int64_t panels = (n + W - 1) / W;
    const TB *src = (const TB *)RLX_PTR(t, f, 0);
    TB *dst = (TB *)RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++) {
        int64_t j = i % panels * W;
        const TB *s = src + i / panels * group_stride + (trans ? j * ldb : j);
        NAME(rlx_pack_panels)(dst + i * k * W, s, ldb, (int)trans, k, n - j < W ? n - j : W, k * W);
    }
    return RLX_OK;
}
#define PACK_LAYOUT "K N ldb trans group_stride"

/* args: out int64[2] = {rows of the tallest tile, columns of a panel}. */
static int NAME(gemm_info)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    int64_t *out = (int64_t *)RLX_PTR(t, f, 0);
    out[0] = RLX_GEMM_MR;
    out[1] = W;
    return RLX_OK;
}
