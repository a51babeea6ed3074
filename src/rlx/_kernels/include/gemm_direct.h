/* Template: rows times a B of few terms, packed or where it lies, the last panel through a mask.
 *
 * 6 rows x 4 vectors, or 8 x 3. A B that fits the first cache need not be copied: its lines arrive while
 * others are multiplied, and the sums of a row are neighbours, so that few rows are read and written at a
 * time. 12 products of 128x64x128: 188 -> 165 us where the operands come from the third cache, 166 -> 154
 * where they are in the second. With 16 registers tiles are 6 x 2: 64 products of 49x32x49 176 -> 158 us, before
 * B was packed in every run. Not for vectors of 16 bytes, which have no masks.
 * Up to DIRECT_SWEEP rows pass over the same panels in one loop: between two tiles of 64 terms, a call for
 * each took 55 cycles of 820, this takes half of that. The rows of A and of the result of what comes next
 * are brought into the first cache a few lines at a time; all at once they would hold up the loads.
 * 2048x64x64: 106 -> 101 us in the second cache, 131 -> 107 out of the third.
 * To be included after gemm_driver.h. */
#if RLX_VBYTES > 16
enum {
    DIRECT_ROWS = RLX_VREGS == 32 ? 8 : 6,
    DIRECT_PANELS = RLX_VREGS == 32 ? 4 : 2,
    DIRECT_BYTES = 1 << 16,
    DIRECT_SWEEP = 48
};

/* Rows to be given at once: a transposed A is brought a tile at a time. */
static inline int64_t NAME(direct_tall)(const NAME(problem) *p) { return p->trans_a ? 6 : DIRECT_SWEEP; }

/* `tiles` tiles of MR rows from `a` on. */
RLX_ALWAYS_INLINE void NAME(direct)(const int MR, const int NP, const NAME(piece) *first, const T *a, int64_t tiles) {
    NAME(piece) q = *first;
    const NAME(block) *g = q.g;
    const int64_t lda = g->lda, bk = g->bk, bp = g->bp, last = q.last, terms = g->runs->k, ldc = g->ldc;
    const int64_t go = lda == terms ? 128 / sizeof(T) : 0;
    for (; tiles > 0; tiles--) {
        V acc[DIRECT_ROWS][8];
        UNROLL for (int i = 0; i < MR; i++)
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] = (V){0};
        const T *b = q.b, *a0 = a, *a3 = a0 + 3 * lda, *a6 = a3 + 3 * lda, *ahead = a + MR * lda, *c = q.c;
        int64_t k = terms;
#define STEP(u)                                                                         \
    do {                                                                                \
        V bv[DIRECT_PANELS];                                                            \
        UNROLL for (int j = 0; j < NP - 1; j++) bv[j] = LOAD(b + j * bp);                \
        bv[NP - 1] = NAME(rlx_load_part)(b + (NP - 1) * bp, last);                      \
        b += bk;                                                                        \
        UNROLL for (int i = 0; i < MR; i++) {                                           \
            V x = (i < 3 ? a0 : i < 6 ? a3 : a6)[(i % 3) * lda + (u)] - (V){0};         \
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] += x * bv[j];                 \
        }                                                                               \
    } while (0)
#define ADVANCE(u)                                                                      \
    do {                                                                                \
        a0 += (u), a3 += (u), a6 += (u);                                                \
        __asm__("" : "+r"(a0), "+r"(a3), "+r"(a6), "+r"(b));                            \
    } while (0)
        for (int row = 0; k >= 4; k -= 4, row++) {
            __builtin_prefetch(ahead, 0, 3);
            __builtin_prefetch(ahead + 64 / sizeof(T), 0, 3);
            ahead += go;
            if (row < MR) {
                UNROLL for (int j = 0; j < NP; j++) __builtin_prefetch(c + j * W, 1, 3);
                c += ldc;
            }
            UNROLL for (int u = 0; u < 4; u++) STEP(u);
            ADVANCE(4);
        }
        for (; k > 0; k--) {
            STEP(0);
            ADVANCE(1);
        }
#undef STEP
#undef ADVANCE
        NAME(finish)(MR, NP, &q, acc);
        a += MR * lda;
        q.c += MR * ldc;
        q.addend += q.addend ? MR * g->ld_addend : 0;
    }
}

#if RLX_VREGS == 32
#define DIRECT_SHAPES(F)                                                                         \
    RLX_UPTO4(F, 1) RLX_UPTO4(F, 2) RLX_UPTO4(F, 3) RLX_UPTO4(F, 4) RLX_UPTO4(F, 5) RLX_UPTO4(F, 6) \
    RLX_UPTO3(F, 7) RLX_UPTO3(F, 8)
#else
#define DIRECT_SHAPES(F) \
    RLX_UPTO2(F, 1) RLX_UPTO2(F, 2) RLX_UPTO2(F, 3) RLX_UPTO2(F, 4) RLX_UPTO2(F, 5) RLX_UPTO2(F, 6)
#endif
#define DIRECT(MR, NP)                                                                    \
    static void NAME(direct_##MR##x##NP)(const NAME(piece) *q, const T *a, int64_t tiles) { \
        NAME(direct)(MR, NP, q, a, tiles);                                                \
    }
#define DIRECT_ENTRY(MR, NP) [MR][NP] = NAME(direct_##MR##x##NP),
DIRECT_SHAPES(DIRECT)
static void (*const NAME(directs)[DIRECT_ROWS + 1][DIRECT_PANELS + 1])(const NAME(piece) *, const T *, int64_t) = {
    DIRECT_SHAPES(DIRECT_ENTRY)};

static void NAME(direct_rows)(const NAME(block) *g) {
    int64_t panels = (g->n + W - 1) / W;
    NAME(piece) q = {g, (const TB *)g->b + g->runs->b, g->c, g->bias, g->addend, W, {NULL, NULL}, 0, NULL, NULL};
    for (int64_t p = 0; p < panels;) {
        int64_t np = rlx_tile_rows(panels, DIRECT_PANELS, p), limit = np == DIRECT_PANELS ? 6 : DIRECT_ROWS;
        int64_t tiles = (g->rows + limit - 1) / limit, low = g->rows / tiles, taller = g->rows % tiles;
        int64_t split = taller * (low + 1);
        const T *a = g->a + g->runs->a;
        p += np;
        if (p == panels)
            q.last = g->n - (panels - 1) * W;
        NAME(piece) rest = q;
        rest.c += split * g->ldc;
        rest.addend += rest.addend ? split * g->ld_addend : 0;
        if (taller)
            NAME(directs)[low + 1][np](&q, a, taller);
        NAME(directs)[low][np](&rest, a + split * g->lda, tiles - taller);
        q.b += np * g->bp;
        q.c += np * W;
        q.bias += q.bias ? np * W : 0;
        q.addend += q.addend ? np * W : 0;
    }
}
#endif
