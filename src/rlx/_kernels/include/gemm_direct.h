/* Template: rows times a small B that is read where it lies, the last panel through a mask.
 *
 * 6 rows x 4 vectors, or 8 x 3. A B that fits the first cache need not be copied: its lines arrive while
 * others are multiplied, and the sums of a row are neighbours, so that few rows are read and written at a
 * time. 12 products of 128x64x128: 188 -> 165 us where the operands come from the third cache, 166 -> 154
 * where they are in the second. Only for 32 registers: 16 hold no tile that is four vectors wide.
 * To be included after gemm_kernel.h. */
#if RLX_VREGS == 32
enum { DIRECT_ROWS = 8, DIRECT_PANELS = 4, DIRECT_BYTES = 1 << 16 };

RLX_ALWAYS_INLINE void NAME(direct)(const int MR, const int NP, const NAME(piece) *q) {
    const NAME(block) *g = q->g;
    int64_t lda = g->lda, bk = g->bk, last = q->last;
    const T *b = q->b, *a0 = g->a + g->runs->a, *a3 = a0 + 3 * lda, *a6 = a3 + 3 * lda;
    V acc[DIRECT_ROWS][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};
    for (int64_t k = g->runs->k; k > 0; k--) {
        V bv[DIRECT_PANELS];
        UNROLL for (int j = 0; j < NP - 1; j++) bv[j] = LOAD(b + j * W);
        bv[NP - 1] = NAME(rlx_load_part)(b + (NP - 1) * W, last);
        UNROLL for (int i = 0; i < MR; i++) {
            V x = (i < 3 ? a0 : i < 6 ? a3 : a6)[(i % 3) * lda] - (V){0};
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] += x * bv[j];
        }
        a0++, a3++, a6++, b += bk;
        __asm__("" : "+r"(a0), "+r"(a3), "+r"(a6));
    }
    NAME(finish)(MR, NP, q, acc);
}

#define DIRECT_SHAPES(F)                                                                         \
    RLX_UPTO4(F, 1) RLX_UPTO4(F, 2) RLX_UPTO4(F, 3) RLX_UPTO4(F, 4) RLX_UPTO4(F, 5) RLX_UPTO4(F, 6) \
    RLX_UPTO3(F, 7) RLX_UPTO3(F, 8)
#define DIRECT(MR, NP) \
    static void NAME(direct_##MR##x##NP)(const NAME(piece) *q) { NAME(direct)(MR, NP, q); }
#define DIRECT_ENTRY(MR, NP) [MR][NP] = NAME(direct_##MR##x##NP),
DIRECT_SHAPES(DIRECT)
static void (*const NAME(directs)[DIRECT_ROWS + 1][DIRECT_PANELS + 1])(const NAME(piece) *) = {
    DIRECT_SHAPES(DIRECT_ENTRY)};

static void NAME(direct_rows)(const NAME(block) *g) {
    int64_t panels = (g->n + W - 1) / W, limit = g->rows > 6 ? 3 : 4;
    NAME(piece) q = {g, (const TB *)g->b + g->runs->b, g->c, g->bias, g->addend, W, {NULL, NULL}, 0};
    for (int64_t p = 0; p < panels;) {
        int64_t np = rlx_tile_rows(panels, limit, p);
        p += np;
        if (p == panels)
            q.last = g->n - (panels - 1) * W;
        NAME(directs)[g->rows][np](&q);
        q.b += np * W;
        q.c += np * W;
        q.bias += q.bias ? np * W : 0;
        q.addend += q.addend ? np * W : 0;
    }
}
#endif
