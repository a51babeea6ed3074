/* Template: matmul with B stored in half precision. See gemm_half.c. */

/* Many rows share a block of B: it is widened once, into the workspace. */
static int NAME(read_half)(const NAME(problem) *p, const TB *b, T *work, int64_t rows, int64_t n0,
                           int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    const TB *src = b + n0 * p->k + k0 * W;
    int64_t stride = p->k * W;
    if (!p->trans_b) {
        parts[0] = (NAME(part)){0, n1 - n0, W, stride, 0, src, NAME(rlx_gemm_rows)};
        return 1;
    }
    T *dst = work;
    for (int64_t n = n0; n < n1; n += W, src += stride)
        for (int64_t k = 0; k < kc; k++, dst += W)
            *(VU *)dst = LOADB(src + k * W);
    parts[0] = (NAME(part)){0, n1 - n0, W, kc * W, 0, work, rlx_gemm_rows_f32};
    return 1;
}

static int NAME(matmul_half)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_half));
}
