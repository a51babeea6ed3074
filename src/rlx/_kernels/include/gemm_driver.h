/* Template: matmul over (batch x N-blocks x M-blocks) tasks. See gemm_f32.c.
 * To be included after gemm_kernel.h; gemm_plain.h or the includer says how B is read. */
#define MATMUL_LAYOUT                                                                     \
    "M N K lda ldb ldo trans_a trans_b mc nc kc out_size work_stride clamp lo:f hi:f "     \
    "batch:* steps:* addend ld_addend"

/* Terms from which on A and the result are fetched: the next rows arrive while these are multiplied. */
#ifndef FAR_TERMS
#define FAR_TERMS 192
#endif

typedef struct NAME(problem) {
    int64_t m, n, k, lda, ldb, ldo, trans_a, trans_b, mc, nc, kc, out_size, work_stride, clamp;
    T lo, hi;
    const int64_t *batch, *steps;
    int64_t n_batch, n_steps;
    int64_t addend, ld_addend; /* argument, or -1; elements of a row, or 0: as in the output */
    int follows; /* the next task of this call has the next columns */
    int first;   /* this task is the first of this call */
    int again;   /* its B has been multiplied by other rows before */
    const rlx_thunk *thunk;
    const rlx_frame *frame;
} NAME(problem);

static NAME(problem) NAME(problem_of)(const int64_t *at) {
    NAME(problem) p = {at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8], at[9], at[10],
                       at[11], at[12], at[13], (T)RLX_F(at, 14), (T)RLX_F(at, 15),
                       RLX_LIST(at, 16), RLX_LIST(at, 18), RLX_COUNT(at, 16), RLX_COUNT(at, 18), at[20], at[21],
                       0, 0, 0, NULL, NULL};
    return p;
}

/* Columns [at, at + n) of a task, and how the row block reads B there: from `b` on, with `first`
 * added to the places of the terms. */
typedef struct NAME(part) {
    int64_t at, n, bk, bp, first;
    const void *b;
    void (*rows)(const NAME(block) *);
    const void *next; /* of the block */
    int64_t tall; /* rows of the tallest tile; 0: RLX_GEMM_MR. Of the first part */
} NAME(part);

/* Says where the terms [k0, k0 + kc) of the columns [n0, n1) lie (one or two parts), having brought
 * them into `work` if need be; `rows`: of the task. */
typedef int NAME(read_b)(const NAME(problem) *p, const TB *b, T *work, int64_t rows, int64_t n0,
                         int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts);

/* One task: rows [m0, m1) x columns [n0, n1) of one matrix. */
RLX_ALWAYS_INLINE int NAME(task)(const rlx_thunk *t, const rlx_frame *f, const NAME(problem) *p,
                                 NAME(read_b) read_b, const T *a, const TB *b, int64_t offset,
                                 int64_t row, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    int64_t cols = n1 - n0;
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    T *work = RLX_PRESENT(t, 4) ? (T *)(RLX_PTR(t, f, 4) + f->tid * p->work_stride) : NULL;
    int narrow = p->out_size != (int64_t)sizeof(T);
    T *work_a = work, *work_c = work_a + (p->trans_a ? RLX_GEMM_MR * p->kc : 0);
    T *work_b = work_c + (narrow ? p->mc * p->nc : 0);
    char *out = RLX_PTR(t, f, 2) + (offset + m0 * p->ldo + n0) * p->out_size;
    T *c = narrow ? work_c : (T *)out;
    int64_t ldc = narrow ? cols : p->ldo;

    const T *addend = p->addend >= 0 ? (const T *)RLX_PTR(t, f, p->addend) : NULL;
    const int64_t ld_addend = p->ld_addend ? p->ld_addend : p->ldo;
    if (addend)
        addend += (p->ld_addend ? (row + m0) * ld_addend : offset + m0 * p->ldo) + n0;

    for (int64_t k0 = 0; k0 == 0 || k0 < p->k; k0 += p->kc) {
        int64_t kc = p->k - k0 < p->kc ? p->k - k0 : p->kc;
        int last = k0 + kc >= p->k;
        rlx_gemm_run run = {0, 0, kc};
        NAME(block) g = {.runs = &run, .end = &run + 1, .lda = p->lda, .ldc = ldc, .accumulate = k0 > 0,
                         .clamp = last && p->clamp, .lo = p->lo, .hi = p->hi,
                         .ld_addend = ld_addend, .tiles = (m1 - m0 + RLX_GEMM_MR - 1) / RLX_GEMM_MR};
        NAME(part) parts[2];
        parts[0].tall = 0; /* no columns, no parts */
        int n_parts = read_b(p, b, work_b, m1 - m0, n0, n1, k0, kc, parts);
        int64_t tall = parts[0].tall ? parts[0].tall : RLX_GEMM_MR;
        for (int64_t i = m0; i < m1;) {
            g.rows = rlx_tile_rows(m1 - m0, tall, i - m0);
            g.a = a + i * p->lda + k0;
            g.first = p->first && k0 == 0 && i == m0;
            g.below = kc < FAR_TERMS || p->trans_a ? NULL : i + g.rows < p->m ? g.a + g.rows * p->lda : g.a;
            if (p->trans_a) {
                NAME(rlx_transpose)(work_a, kc, a + k0 * p->lda + i, p->lda, kc, g.rows);
                g.a = work_a;
                g.lda = kc;
            }
            for (int j = 0; j < n_parts; j++) {
                const NAME(part) *part = parts + j;
                run.b = part->first;
                g.b = part->b, g.bk = part->bk, g.bp = part->bp, g.n = part->n;
                g.c = c + (i - m0) * ldc + part->at;
                g.bias = last && bias ? bias + n0 + part->at : NULL;
                g.addend = last && addend ? addend + (i - m0) * ld_addend + part->at : NULL;
                g.next = part->next;
                part->rows(&g);
            }
            if (last && p->n_steps) {
                rlx_epi_tile tile = {
                    (char *)(c + (i - m0) * ldc), out + (i - m0) * p->ldo * p->out_size,
                    ldc, p->ldo, sizeof(T), p->out_size, g.rows, cols,
                    row + i, 1, n0, offset + i * p->ldo + n0};
                int status = rlx_epilogue(t, f, p->steps, p->n_steps, &tile);
                if (status)
                    return status;
            }
            i += g.rows;
            g.tile++;
        }
    }
    return RLX_OK;
}

RLX_ALWAYS_INLINE int NAME(run)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi,
                                NAME(read_b) read_b) {
    NAME(problem) p = NAME(problem_of)(t->attrs);
    p.thunk = t, p.frame = f;
    int64_t m_blocks = (p.m + p.mc - 1) / p.mc, n_blocks = (p.n + p.nc - 1) / p.nc;
    const T *a = (const T *)RLX_PTR(t, f, 0);
    const TB *b = (const TB *)RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++) {
        int64_t m0 = i % m_blocks * p.mc, rest = i / m_blocks;
        int64_t n0 = rest % n_blocks * p.nc, item = rest / n_blocks;
        int64_t index = item, at_a = 0, at_b = 0, at_out = 0;
        for (int64_t d = p.n_batch - 4; d >= 0; d -= 4) {
            int64_t x = index % p.batch[d];
            index /= p.batch[d];
            at_a += x * p.batch[d + 1];
            at_b += x * p.batch[d + 2];
            at_out += x * p.batch[d + 3];
        }
        int64_t m1 = m0 + p.mc < p.m ? m0 + p.mc : p.m, n1 = n0 + p.nc < p.n ? n0 + p.nc : p.n;
        p.first = i == lo, p.again = m0 > 0;
        p.follows = i + 1 < hi && m1 == p.m;
        int status = NAME(task)(t, f, &p, read_b, a + at_a, b + at_b, at_out, item * p.m, m0, m1,
                                n0, n1);
        if (status)
            return status;
    }
    return RLX_OK;
}
