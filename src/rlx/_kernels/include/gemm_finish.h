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
} NAME(piece);

/* MR rows x NP panels of sums: what C holds, bias and clamp, and out. */
RLX_ALWAYS_INLINE void NAME(finish)(const int MR, const int NP, const NAME(piece) *q,
                                    V (*acc)[8]) {
    const NAME(block) *g = q->g;
    T *c = q->c;
    int64_t ldc = g->ldc, last = q->last;
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
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP - 1; j++) *(VU *)(c + i * ldc + j * W) = acc[i][j];
    if (last == W) {
        UNROLL for (int i = 0; i < MR; i++)
            *(VU *)(c + i * ldc + (NP - 1) * W) = acc[i][NP - 1];
    } else {
        UNROLL for (int i = 0; i < MR; i++)
            NAME(rlx_store_part)(c + i * ldc + (NP - 1) * W, acc[i][NP - 1], last);
    }
}
