/* Template: what the micro-kernels of a floating type end with. Wants the names of template.h. */
typedef CAT(rlx_gemm_block_, S) NAME(block);

typedef struct NAME(piece) {
    const NAME(block) *g;
    const TB *b;
    T *c;
    const T *bias, *addend;
    int64_t last; /* valid columns of the last panel */
    const TB *fetch[2]; /* where to fetch from meanwhile; NULL: nothing */
    int64_t fetch_step; /* elements of that for each term */
    const TB *after;    /* the panels that a single row tile multiplies next; NULL: those right of these */
    const T *below;     /* four rows of A to fetch, or NULL */
} NAME(piece);

/* Write a tile. The empty asm keeps the compiler from making a pointer of each row before it is needed. */
RLX_ALWAYS_INLINE void NAME(put)(const int MR, const int NP, const int whole, T *c, int64_t ldc, int64_t last,
                                 V (*acc)[8]) {
    UNROLL for (int i = 0; i < MR; i++) {
        T *row = c + i % 3 * ldc;
        UNROLL for (int j = 0; j < NP - 1; j++) *(VU *)(row + j * W) = acc[i][j];
        if (whole)
            *(VU *)(row + (NP - 1) * W) = acc[i][NP - 1];
        else
            NAME(rlx_store_part)(row + (NP - 1) * W, acc[i][NP - 1], last);
        if (i % 3 == 2) {
            c += 3 * ldc;
            __asm__("" : "+r"(c));
        }
    }
}

/* MR rows x NP panels of sums: what C holds, bias and clamp, and out. */
RLX_ALWAYS_INLINE void NAME(finish)(const int MR, const int NP, const NAME(piece) *q,
                                    V (*acc)[8]) {
    const NAME(block) *g = q->g;
    T *c = q->c;
    int64_t ldc = g->ldc, last = q->last;
    __asm__("" : "+r"(c), "+r"(ldc));
    if (!(g->accumulate | g->clamp) && !q->bias && !q->addend && last == W) { /* the short way */
        NAME(put)(MR, NP, 1, c, ldc, last, acc);
        return;
    }
    __asm__("" : "+r"(c), "+r"(ldc));
    if (g->accumulate) {
        UNROLL for (int i = 0; i < MR; i++) {
            UNROLL for (int j = 0; j < NP - 1; j++) acc[i][j] += LOAD(c + i * ldc + j * W);
            acc[i][NP - 1] += NAME(rlx_load_part)(c + i * ldc + (NP - 1) * W, last);
        }
    }
    if (q->bias) {
        V v[8];
        UNROLL for (int j = 0; j < NP - 1; j++) v[j] = LOAD(q->bias + j * W);
        v[NP - 1] = NAME(rlx_load_part)(q->bias + (NP - 1) * W, last);
        UNROLL for (int i = 0; i < MR; i++)
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] += v[j];
    }
    if (q->addend) {
        UNROLL for (int i = 0; i < MR; i++) {
            const T *a = q->addend + i * g->ld_addend;
            UNROLL for (int j = 0; j < NP - 1; j++) acc[i][j] += LOAD(a + j * W);
            acc[i][NP - 1] += NAME(rlx_load_part)(a + (NP - 1) * W, last);
        }
    }
    if (g->clamp) {
        V lo = g->lo - (V){0}, hi = g->hi - (V){0};
        UNROLL for (int i = 0; i < MR; i++)
            UNROLL for (int j = 0; j < NP; j++) acc[i][j] = NAME(rlx_clamp)(acc[i][j], lo, hi);
    }
    if (last == W)
        NAME(put)(MR, NP, 1, c, ldc, last, acc);
    else
        NAME(put)(MR, NP, 0, c, ldc, last, acc);
}
