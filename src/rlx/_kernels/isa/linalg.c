/* Determinant and inverse of batches of small square matrices: LU with partial
 * pivoting in double, row by row, so that every inner loop runs along a row.
 *
 * det.f32, det.f64          args x [batch][n][n], y [batch], ws
 * inverse.f32, inverse.f64  args x, y [batch][n][n], ws
 *   attrs n ws;  extent batch; ws: per thread, stride attribute in bytes
 *   >= n*n*8 (det), 2*n*n*8 (inverse). n = 0: determinant 1.
 * A matrix with NaN or infinity has the determinant NaN and no inverse
 * (RLX_ERR_NONFINITE, bound = batch item). A singular one: determinant 0,
 * inverse RLX_ERR_LAPACK with value = the column of the zero pivot, from 1, and
 * bound = batch item. */
#include "abi.h"
#include <math.h>

/* Gauss elimination on m, the same row operations on `right` (n x n, may be
 * NULL); returns the determinant, *zero = column of a zero pivot, from 1, or 0. */
static double eliminate(double *m, double *right, int64_t n, int64_t *zero) {
    double det = 1;
    *zero = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(m[i * n + k]) > fabs(m[p * n + k])) p = i;
        if (m[p * n + k] == 0) {
            *zero = k + 1;
            return 0;
        }
        if (p != k) {
            det = -det;
            for (int64_t j = 0; j < n; j++) {
                const double x = m[k * n + j];
                m[k * n + j] = m[p * n + j], m[p * n + j] = x;
            }
            for (int64_t j = 0; right && j < n; j++) {
                const double x = right[k * n + j];
                right[k * n + j] = right[p * n + j], right[p * n + j] = x;
            }
        }
        const double pivot = m[k * n + k];
        det *= pivot;
        for (int64_t i = k + 1; i < n; i++) {
            const double c = m[i * n + k] / pivot;
            if (c == 0) continue;
            double *restrict a = m + i * n;
            const double *restrict b = m + k * n;
            for (int64_t j = k; j < n; j++) a[j] -= c * b[j];
            if (!right) continue;
            double *restrict u = right + i * n;
            const double *restrict v = right + k * n;
            for (int64_t j = 0; j < n; j++) u[j] -= c * v[j];
        }
    }
    return det;
}

/* Solve the upper triangular system that eliminate left, in place of right. */
static void back_substitute(const double *m, double *right, int64_t n) {
    for (int64_t k = n; k-- > 0;) {
        double *restrict u = right + k * n;
        for (int64_t i = k + 1; i < n; i++) {
            const double c = m[k * n + i];
            const double *restrict v = right + i * n;
            for (int64_t j = 0; j < n; j++) u[j] -= c * v[j];
        }
        for (int64_t j = 0; j < n; j++) u[j] /= m[k * n + k];
    }
}

#define LINALG(T, NAME)                                                                     \
    static int load_##NAME(const T *x, double *m, int64_t n) {                              \
        double sum = 0;                                                                     \
        for (int64_t i = 0; i < n * n; i++) {                                               \
            m[i] = (double)x[i];                                                            \
            sum += m[i] * 0;                                                                \
        }                                                                                   \
        return sum == 0;                                                                    \
    }                                                                                       \
    static int det_##NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t n = t->attrs[0];                                                      \
        double *m = (double *)(RLX_PTR(t, f, 2) + f->tid * t->attrs[1]);                    \
        for (int64_t b = lo; b < hi; b++) {                                                 \
            const int finite = load_##NAME((const T *)RLX_PTR(t, f, 0) + b * n * n, m, n);  \
            int64_t zero;                                                                   \
            ((T *)RLX_PTR(t, f, 1))[b] = finite ? (T)eliminate(m, NULL, n, &zero) : (T)NAN; \
        }                                                                                   \
        return RLX_OK;                                                                      \
    }                                                                                       \
    static int inverse_##NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo,           \
                              int64_t hi) {                                                 \
        const int64_t n = t->attrs[0];                                                      \
        double *m = (double *)(RLX_PTR(t, f, 2) + f->tid * t->attrs[1]), *r = m + n * n;    \
        for (int64_t b = lo; b < hi; b++) {                                                 \
            if (!load_##NAME((const T *)RLX_PTR(t, f, 0) + b * n * n, m, n))                \
                return rlx_fail(f, RLX_ERR_NONFINITE, 0, b, b * n * n);                     \
            for (int64_t i = 0; i < n * n; i++) r[i] = i % (n + 1) == 0;                    \
            int64_t zero;                                                                   \
            eliminate(m, r, n, &zero);                                                      \
            if (zero) return rlx_fail(f, RLX_ERR_LAPACK, zero, b, b * n * n);               \
            back_substitute(m, r, n);                                                       \
            T *y = (T *)RLX_PTR(t, f, 1) + b * n * n;                                       \
            for (int64_t i = 0; i < n * n; i++) y[i] = (T)r[i];                             \
        }                                                                                   \
        return RLX_OK;                                                                      \
    }
LINALG(float, f32)
LINALG(double, f64)

const rlx_kernel_row rlx_rows_linalg[] = {
    {"det.f32", det_f32, "n ws", 0},         {"det.f64", det_f64, "n ws", 0},
    {"inverse.f32", inverse_f32, "n ws", 0}, {"inverse.f64", inverse_f64, "n ws", 0},
    {NULL, NULL, NULL, 0},
};
