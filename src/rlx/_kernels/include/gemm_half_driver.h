/* Template: matmul with B stored in half precision. See gemm_half.c. */

/* The terms [0, kc) of `cols` columns of panels that are `stride` elements apart, in f32. */
static void NAME(widen_block)(T *dst, const TB *src, int64_t stride, int64_t kc, int64_t cols) {
    for (int64_t n = 0; n < cols; n += W, src += stride)
        for (int64_t k = 0; k < kc; k++, dst += W)
            *(VU *)dst = LOADB(src + k * W);
}

/* Many rows share a block of B: it is widened once, into the workspace. */
static int NAME(read_half)(const NAME(problem) *p, const TB *b, T *work, int64_t rows, int64_t n0,
                           int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    const TB *src = b + n0 * p->k + k0 * W;
    int64_t stride = p->k * W;
    if (!p->trans_b) {
        parts[0] = (NAME(part)){0, n1 - n0, W, stride, 0, src, NAME(rlx_gemm_rows), NULL};
        return 1;
    }
    NAME(widen_block)(work, src, stride, kc, n1 - n0);
    parts[0] = (NAME(part)){0, n1 - n0, W, kc * W, 0, work, rlx_gemm_rows_f32, NULL};
    return 1;
}

static int NAME(matmul_half)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_half));
}
