/* Template: see matvec.c. */
RLX_ALWAYS_INLINE void NAME(dot)(const int R, const T *a, int64_t lda, const T *x, int64_t k,
                                 T *sums) {
    V acc[ROWS][2];
    UNROLL for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = (V){0};
    int64_t i = 0;
    for (; i + 2 * W <= k; i += 2 * W) {
        V x0 = LOAD(x + i), x1 = LOAD(x + i + W);
        UNROLL for (int r = 0; r < R; r++) {
            acc[r][0] += x0 * LOAD(a + r * lda + i);
            acc[r][1] += x1 * LOAD(a + r * lda + i + W);
        }
    }
    if (i + W <= k) {
        V x0 = LOAD(x + i);
        UNROLL for (int r = 0; r < R; r++) acc[r][0] += x0 * LOAD(a + r * lda + i);
        i += W;
    }
    if (i < k) {
        V x0 = NAME(rlx_load_part)(x + i, k - i);
        UNROLL for (int r = 0; r < R; r++)
            acc[r][1] += x0 * NAME(rlx_load_part)(a + r * lda + i, k - i);
    }
    UNROLL for (int r = 0; r < R; r++) {
        V v = acc[r][0] + acc[r][1];
        T lanes[W];
        memcpy(lanes, &v, sizeof v);
        for (int w = W / 2; w; w /= 2)
            for (int j = 0; j < w; j++)
                lanes[j] += lanes[j + w];
        sums[r] = lanes[0];
    }
}

static int NAME(matvec)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t m = at[0], k = at[1], lda = at[2], bias_step = at[3], mc = at[4], clamp = at[5];
    T low = (T)RLX_F(at, 6), high = (T)RLX_F(at, 7);
    const int64_t *batch = RLX_LIST(at, 8), *steps = RLX_LIST(at, 10);
    int64_t n_batch = RLX_COUNT(at, 8), n_steps = RLX_COUNT(at, 10);
    int64_t blocks = (m + mc - 1) / mc;
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    for (int64_t task = lo; task < hi; task++) {
        int64_t m0 = task % blocks * mc, item = task / blocks, index = item;
        int64_t m1 = m0 + mc < m ? m0 + mc : m, at_a = 0, at_x = 0, at_out = 0;
        for (int64_t d = n_batch - 4; d >= 0; d -= 4) {
            int64_t i = index % batch[d];
            index /= batch[d];
            at_a += i * batch[d + 1];
            at_x += i * batch[d + 2];
            at_out += i * batch[d + 3];
        }
        const T *a = (const T *)RLX_PTR(t, f, 0) + at_a, *x = (const T *)RLX_PTR(t, f, 1) + at_x;
        T *out = (T *)RLX_PTR(t, f, 2) + at_out;
        for (int64_t i = m0; i < m1; i += ROWS) {
            T sums[ROWS];
            int64_t rows = m1 - i < ROWS ? m1 - i : ROWS;
            if (rows == ROWS)
                NAME(dot)(ROWS, a + i * lda, lda, x, k, sums);
            else
                for (int64_t r = 0; r < rows; r++)
                    NAME(dot)(1, a + (i + r) * lda, lda, x, k, sums + r);
            for (int64_t r = 0; r < rows; r++) {
                T v = sums[r];
                if (bias)
                    v += bias[(i + r) * bias_step];
                if (clamp) {
                    v = v < low ? low : v;
                    v = v > high ? high : v;
                }
                out[i + r] = v;
            }
        }
        if (n_steps) {
            rlx_epi_tile tile = {(char *)(out + m0), (char *)(out + m0), m, m, sizeof(T),
                                 sizeof(T), 1, m1 - m0, item, 1, m0, at_out + m0};
            int status = rlx_epilogue(t, f, steps, n_steps, &tile);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}
