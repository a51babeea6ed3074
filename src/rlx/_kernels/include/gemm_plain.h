/* Template: matmul whose B is of the type that is computed in: packed ahead, or as it lies. */
#include "gemm_direct.h"

static int NAME(read_packed)(const NAME(problem) *p, const T *b, T *work, int64_t rows, int64_t n0,
                             int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    const T *panels = b + n0 * p->k, *next = p->follows && n1 < p->n ? b + n1 * p->k : NULL;
    int there = p->again && (n1 - n0) * p->k * (int64_t)sizeof(T) <= 1 << 20; /* in the second cache */
    if (k0 + kc < p->k)
        next = there ? NULL : panels + (k0 + kc) * W;
#if RLX_VREGS == 32
    /* A few terms of four panels: tiles as wide as the rows meet each row of A and of the result once. */
    if (p->k <= 128 && n1 - n0 > 3 * W && n1 - n0 <= 4 * W) {
        parts[0] = (NAME(part)){0, n1 - n0, W, p->k * W, 0, panels, NAME(direct_rows), NULL, NAME(direct_tall)(p)};
        return 1;
    }
#endif
    parts[0] = (NAME(part)){0, n1 - n0, W, p->k * W, 0, panels + k0 * W, NAME(rlx_gemm_rows), next, 0};
    return 1;
}

/* A small B is read where it lies. Few rows do not repay packing either: whole panels are then read so. */
static int NAME(read_unpacked)(const NAME(problem) *p, const T *b, T *work, int64_t rows, int64_t n0,
                               int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    int64_t cols = n1 - n0, n = 0;
#if RLX_VBYTES > 16
    if (!p->trans_b && rows >= 12 && cols > 2 * W && kc * p->ldb * (int64_t)sizeof(T) <= DIRECT_BYTES) {
        parts[0] = (NAME(part)){0, cols, p->ldb, W, 0, b + k0 * p->ldb + n0, NAME(direct_rows), NULL,
                                NAME(direct_tall)(p)};
        return 1;
    }
#endif
    int64_t whole = !p->trans_b && rows <= 2 * RLX_GEMM_MR ? cols / W * W : 0;
    if (whole)
        parts[n++] = (NAME(part)){0, whole, p->ldb, W, 0, b + k0 * p->ldb + n0, NAME(rlx_gemm_rows), NULL, 0};
    if (whole < cols) {
        const T *src = p->trans_b ? b + (n0 + whole) * p->ldb + k0 : b + k0 * p->ldb + n0 + whole;
        NAME(rlx_pack_panels)(work, src, p->ldb, (int)p->trans_b, kc, cols - whole, kc * W);
        parts[n++] = (NAME(part)){whole, cols - whole, W, kc * W, 0, work, NAME(rlx_gemm_rows), NULL, 0};
    }
    return (int)n;
}

static int NAME(matmul)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_packed));
}

static int NAME(matmul_unpacked)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_unpacked));
}
