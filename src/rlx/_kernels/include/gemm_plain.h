/* Template: matmul whose B is of the type that is computed in: packed ahead, or as it lies. */
static int NAME(read_packed)(const NAME(problem) *p, const T *b, T *work, int64_t rows, int64_t n0,
                             int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    const T *panels = b + n0 * p->k, *next = p->follows && n1 < p->n ? b + n1 * p->k : NULL;
    if (k0 + kc < p->k)
        next = panels + (k0 + kc) * W;
    parts[0] = (NAME(part)){0, n1 - n0, W, p->k * W, 0, panels + k0 * W, NAME(rlx_gemm_rows), next};
    return 1;
}

/* Few rows do not repay packing: whole panels are then read where they lie. */
static int NAME(read_unpacked)(const NAME(problem) *p, const T *b, T *work, int64_t rows, int64_t n0,
                               int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    int64_t cols = n1 - n0, n = 0;
    int64_t whole = !p->trans_b && rows <= 2 * RLX_GEMM_MR ? cols / W * W : 0;
    if (whole)
        parts[n++] = (NAME(part)){0, whole, p->ldb, W, 0, b + k0 * p->ldb + n0, NAME(rlx_gemm_rows), NULL};
    if (whole < cols) {
        const T *src = p->trans_b ? b + (n0 + whole) * p->ldb + k0 : b + k0 * p->ldb + n0 + whole;
        NAME(rlx_pack_panels)(work, src, p->ldb, (int)p->trans_b, kc, cols - whole, kc * W);
        parts[n++] = (NAME(part)){whole, cols - whole, W, kc * W, 0, work, NAME(rlx_gemm_rows), NULL};
    }
    return (int)n;
}

static int NAME(matmul)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_packed));
}

static int NAME(matmul_unpacked)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_unpacked));
}
