/* axis_table: weighted sums of elements along one axis, by a table.
 *
 * resample.T   args: x, places (i32), weights (T), out
 *              attrs: n m inner taps
 *              extent: outer * m
 *   x [outer, n, inner], places and weights [taps, m], out [outer, m, inner]:
 *   out[o, j, c] = sum over k of weights[k, j] * x[o, places[k, j], c], added up
 *   in the order of k. T in f32, f64. Places are trusted: a table comes from the
 *   compiler, which keeps it inside [0, n).
 *
 * Resizing in any mode is one such pass per axis. The table lies tap by tap, so
 * that along the last axis (inner == 1) the places of neighbouring results are
 * neighbours and the loop is a gather of a register at a time. For inner > 1 a
 * result is a sum of rows; up to four taps are taken in one sweep, so that each
 * row of the result is written once.
 */
#include "abi.h"
#include "vec.h"

#define RESAMPLE(T, TN)                                                                    \
    /* out = or += up to four rows times their weights */                                  \
    static inline void rows_##TN(T *restrict out, const T *const *row, const T *w, int k,  \
                                 int64_t n, int first) {                                   \
        const T *a = row[0], *b = row[k > 1], *c = row[k > 2 ? 2 : 0], *d = row[k > 3 ? 3 : 0]; \
        const T wa = w[0], wb = w[k > 1], wc = w[k > 2 ? 2 : 0], wd = w[k > 3 ? 3 : 0];    \
        if (k == 4 && first)                                                               \
            for (int64_t i = 0; i < n; i++)                                                \
                out[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;                    \
        else if (k == 4)                                                                   \
            for (int64_t i = 0; i < n; i++)                                                \
                out[i] = out[i] + a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;           \
        else if (k == 2 && first)                                                          \
            for (int64_t i = 0; i < n; i++)                                                \
                out[i] = a[i] * wa + b[i] * wb;                                            \
        else                                                                               \
            for (int j = 0; j < k; j++, first = 0)                                         \
                if (first)                                                                 \
                    for (int64_t i = 0; i < n; i++)                                        \
                        out[i] = row[j][i] * w[j];                                         \
                else                                                                       \
                    for (int64_t i = 0; i < n; i++)                                        \
                        out[i] += row[j][i] * w[j];                                        \
    }                                                                                      \
    static int resample_##TN(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t n = t->attrs[0], m = t->attrs[1], inner = t->attrs[2];               \
        const int64_t taps = t->attrs[3];                                                  \
        if (hi <= lo || inner == 0)                                                        \
            return RLX_OK;                                                                 \
        const T *x = (const T *)RLX_PTR(t, f, 0), *weights = (const T *)RLX_PTR(t, f, 2);  \
        const int32_t *places = (const int32_t *)RLX_PTR(t, f, 1);                         \
        T *out = (T *)RLX_PTR(t, f, 3);                                                    \
        for (int64_t at = lo; at < hi;) {                                                  \
            const int64_t o = at / m, j0 = at % m, j1 = rlx_min64(m, j0 + hi - at);        \
            const T *block = x + o * n * inner;                                            \
            if (inner == 1) {                                                              \
                T *restrict to = out + o * m;                                              \
                for (int64_t j = j0; j < j1; j++)                                          \
                    to[j] = block[places[j]] * weights[j];                                 \
                for (int64_t k = 1; k < taps; k++) {                                       \
                    const int32_t *p = places + k * m;                                     \
                    const T *w = weights + k * m;                                          \
                    for (int64_t j = j0; j < j1; j++)                                      \
                        to[j] += block[p[j]] * w[j];                                       \
                }                                                                          \
            } else {                                                                       \
                for (int64_t j = j0; j < j1; j++)                                          \
                    for (int64_t k = 0; k < taps; k += 4) {                                \
                        const int some = (int)rlx_min64(4, taps - k);                      \
                        const T *row[4];                                                   \
                        T w[4];                                                            \
                        for (int i = 0; i < some; i++) {                                   \
                            row[i] = block + places[(k + i) * m + j] * inner;              \
                            w[i] = weights[(k + i) * m + j];                               \
                        }                                                                  \
                        rows_##TN(out + (o * m + j) * inner, row, w, some, inner, k == 0); \
                    }                                                                      \
            }                                                                              \
            at += j1 - j0;                                                                 \
        }                                                                                  \
        return RLX_OK;                                                                     \
    }
RESAMPLE(float, f32)
RESAMPLE(double, f64)

const rlx_kernel_row rlx_rows_axis_table[] = {
    {"resample.f32", resample_f32, "n m inner taps", 0},
    {"resample.f64", resample_f64, "n m inner taps", 0},
    {NULL, NULL, NULL, 0},
};
