/* Template: see matvec.c. */

/* R rows of the matrix times X vectors: sums[r][x]. */
RLX_ALWAYS_INLINE void NAME(dot)(const int R, const int X, const TB *a, int64_t lda, const T *x,
                                 int64_t ldx, int64_t k, T (*sums)[MAX_X]) {
    V acc[ROWS][MAX_X][2];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < X; j++) acc[r][j][0] = acc[r][j][1] = (V){0};
    int64_t i = 0;
    for (; i + 2 * W <= k; i += 2 * W) {
        V a0[ROWS], a1[ROWS];
        UNROLL for (int r = 0; r < R; r++) {
            a0[r] = LOADB(a + r * lda + i);
            a1[r] = LOADB(a + r * lda + i + W);
        }
        UNROLL for (int j = 0; j < X; j++) {
            V x0 = LOAD(x + j * ldx + i), x1 = LOAD(x + j * ldx + i + W);
            UNROLL for (int r = 0; r < R; r++) {
                acc[r][j][0] += x0 * a0[r];
                acc[r][j][1] += x1 * a1[r];
            }
        }
    }
    if (i + W <= k) {
        UNROLL for (int j = 0; j < X; j++) {
            V x0 = LOAD(x + j * ldx + i);
            UNROLL for (int r = 0; r < R; r++) acc[r][j][0] += x0 * LOADB(a + r * lda + i);
        }
        i += W;
    }
    if (i < k) {
        UNROLL for (int j = 0; j < X; j++) {
            V x0 = PART(x + j * ldx + i, k - i);
            UNROLL for (int r = 0; r < R; r++)
                acc[r][j][1] += x0 * PARTB(a + r * lda + i, k - i);
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < X; j++) {
            sums[r][j] = SUM(acc[r][j][0] + acc[r][j][1]);
        }
}

/* Rows of the matrix that X vectors leave registers for. */
#define AT_ONCE(X) ((X) == 1 ? ROWS : RLX_VREGS == 32 ? ((X) == 2 ? ROWS : 2) : ((X) == 2 ? 2 : 1))

/* Rows [m0, m1) times X vectors, into out[x * ldo] on. */
RLX_ALWAYS_INLINE void NAME(rows)(const int X, const TB *a, int64_t lda, const T *x, int64_t ldx, int64_t k,
                                  T *out, int64_t ldo, int64_t m0, int64_t m1, const T *bias,
                                  int64_t bias_step, int clamp, T low, T high) {
    const int R = AT_ONCE(X);
    for (int64_t i = m0; i < m1; i += R) {
        T sums[ROWS][MAX_X];
        int64_t rows = m1 - i < R ? m1 - i : R;
        if (rows == R)
            NAME(dot)(R, X, a + i * lda, lda, x, ldx, k, sums);
        else
            for (int64_t r = 0; r < rows; r++)
                NAME(dot)(1, X, a + (i + r) * lda, lda, x, ldx, k, sums + r);
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < X; j++) {
                T v = sums[r][j];
                if (bias)
                    v += bias[(i + r) * bias_step];
                if (clamp) {
                    v = v < low ? low : v;
                    v = v > high ? high : v;
                }
                out[j * ldo + i - m0 + r] = v;
            }
    }
}

static int NAME(matvec)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    int64_t m = at[0], k = at[1], lda = at[2], bias_step = at[3], mc = at[4], clamp = at[5];
    T low = (T)RLX_F(at, 6), high = (T)RLX_F(at, 7);
    const int64_t *batch = RLX_LIST(at, 8), *steps = RLX_LIST(at, 10);
    int64_t n_batch = RLX_COUNT(at, 8), n_steps = RLX_COUNT(at, 10);
    int64_t n_x = at[12], ldx = at[13], ldo = at[14], out_size = at[15], work_stride = at[16];
    int narrow = out_size != (int64_t)sizeof(T);
    T *work = narrow ? (T *)(RLX_PTR(t, f, 4) + f->tid * work_stride) : NULL;
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
        const TB *a = (const TB *)RLX_PTR(t, f, 0) + at_a;
        const T *x = (const T *)RLX_PTR(t, f, 1) + at_x;
        char *out = RLX_PTR(t, f, 2) + (at_out + m0) * out_size;
        T *acc = narrow ? work : (T *)out;
        int64_t ld = narrow ? mc : ldo;
#define ROWS_OF(X)                                                                        \
    case X:                                                                               \
        NAME(rows)(X, a, lda, x, ldx, k, acc, ld, m0, m1, bias, bias_step, (int)clamp, low, high); \
        break;
        switch (n_x) {
            ROWS_OF(1)
            ROWS_OF(2)
            ROWS_OF(3)
        default:
            NAME(rows)(4, a, lda, x, ldx, k, acc, ld, m0, m1, bias, bias_step, (int)clamp, low, high);
        }
#undef ROWS_OF
        if (n_steps) {
            rlx_epi_tile tile = {(char *)acc, out, ld, ldo, sizeof(T), out_size, n_x, m1 - m0,
                                 item * n_x, 1, m0, at_out + m0};
            int status = rlx_epilogue(t, f, steps, n_steps, &tile);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}
