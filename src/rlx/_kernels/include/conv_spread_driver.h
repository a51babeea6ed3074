/* Template: transposed convolution whose taps never meet, channels first. See conv_first.c. */
#define CONV_SPREAD_LAYOUT "batch C OC in_h in_w k_h k_w nc work_stride"

/* dst[2 i] = a[i], dst[2 i + 1] = b[i] */
RLX_ALWAYS_INLINE void NAME(zip)(T *dst, const T *a, const T *b, int64_t n) {
    int64_t i = 0;
    for (; i + W <= n; i += W)
        NAME(rlx_zip)(dst + 2 * i, LOAD(a + i), LOAD(b + i));
    for (; i < n; i++)
        dst[2 * i] = a[i], dst[2 * i + 1] = b[i];
}

typedef CAT(rlx_gemm_block_, S) NAME(block);

/* n pixels of c planes, and a line of ones: dst[panel][c + 1][W]. */
static void NAME(pixels)(const T *in, int64_t plane, int64_t c, int64_t n, T *dst) {
    for (int64_t i = 0; i < c; i++)
        for (int64_t j = 0; j < n; j += W) {
            const T *src = in + i * plane + j;
            *(VU *)(dst + j * (c + 1) + i * W) = n - j < W ? NAME(rlx_load_part)(src, n - j) : LOAD(src);
        }
    for (int64_t j = 0; j < n; j += W)
        for (int64_t i = 0; i < W; i++)
            dst[j * (c + 1) + c * W + i] = 1;
}

/* An item: nc input pixels of an image. Rows of the product are (output channel, tap). */
static int NAME(conv_spread)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t c = at[1], oc = at[2], height = at[3], width = at[4], kh = at[5], kw = at[6], nc = at[7];
    int64_t plane = height * width, taps = kh * kw, rows = oc * taps, blocks = (plane + nc - 1) / nc;
    const T *w = (const T *)RLX_PTR(t, f, 1), *bias = (const T *)RLX_OPT(t, f, 3);
    T *panels = (T *)(RLX_PTR(t, f, 4) + f->tid * at[8]);
    T *product = panels + nc * (c + 1), *a = product + rows * nc;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < c; k++)
            a[r * (c + 1) + k] = w[k * rows + r];
        a[r * (c + 1) + c] = bias ? bias[r / taps] : 0;
    }
    rlx_gemm_run run = {0, 0, c + 1};
    for (int64_t item = lo; item < hi; item++) {
        int64_t image = item / blocks, first = item % blocks * nc;
        int64_t cols = first + nc < plane ? nc : plane - first;
        NAME(pixels)((const T *)RLX_PTR(t, f, 0) + image * c * plane + first, plane, c, cols, panels);
        NAME(block) g = {.runs = &run, .end = &run + 1, .lda = c + 1, .n = cols, .b = panels, .bk = W,
                         .bp = (c + 1) * W, .ldc = nc};
        for (int64_t r = 0; r < rows; r += g.rows) {
            g.rows = rlx_tile_rows(rows, RLX_GEMM_MR, r);
            g.a = a + r * (c + 1);
            g.c = product + r * nc;
            NAME(rlx_gemm_rows)(&g);
        }
        T *out = (T *)RLX_PTR(t, f, 2) + image * oc * plane * taps;
        for (int64_t line = 0; line < oc * kh; line++) {
            const T *from = product + line * kw * nc;
            T *to = out + (line / kh * height * kh + line % kh) * width * kw;
            for (int64_t i = 0, n; i < cols; i += n) {
                int64_t y = (first + i) / width, x = (first + i) % width;
                n = width - x < cols - i ? width - x : cols - i;
                T *dst = to + y * kh * width * kw + x * kw;
                if (kw == 1)
                    memcpy(dst, from + i, (size_t)n * sizeof(T));
                else if (kw == 2)
                    NAME(zip)(dst, from + i, from + nc + i, n);
                else
                    for (int64_t j = 0; j < n; j++)
                        for (int64_t k = 0; k < kw; k++)
                            dst[j * kw + k] = from[k * nc + i + j];
            }
        }
    }
    return RLX_OK;
}
