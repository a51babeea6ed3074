/* matmul_plain: matrix products of integers and complex numbers.
 *
 * matmul_plain.b1 .b2 .b4 .b8  integers by item size, wrapping (signed and unsigned give the same bits)
 * matmul_plain.c64 .c128       complex
 *   args a, b, out; attrs M N K a_m a_k b_k b_n o_m batch:*
 *   a(i, k) = a[i*a_m + k*a_k], b(k, j) = b[k*b_k + j*b_n], out(i, j) = out[i*o_m + j];
 *   batch: (size, stride_a, stride_b, stride_out) per axis, outermost first; strides in elements.
 *   extent batch * M: a row of the output is an item.
 *
 * Row by row, out[i, :] += a[i, k] * b[k, :]: the compiler vectorises the inner loop, B is read
 * once a row. These types are rare; the order of summation is that of k. */
#include "abi.h"

#define LAYOUT "M N K a_m a_k b_k b_n o_m batch:*"

typedef struct problem {
    int64_t m, n, k, a_m, a_k, b_k, b_n, o_m;
    const int64_t *batch;
    int64_t n_batch;
} problem;

static problem problem_of(const int64_t *at) {
    problem p;
    memcpy(&p, at, 8 * sizeof(int64_t));
    p.batch = RLX_LIST(at, 8);
    p.n_batch = RLX_COUNT(at, 8);
    return p;
}

/* Offsets (a, b, out) in elements of output row `item`. */
static void row_of(const problem *p, int64_t item, int64_t at[3]) {
    int64_t i = item % p->m, index = item / p->m;
    at[0] = i * p->a_m, at[1] = 0, at[2] = i * p->o_m;
    for (int64_t d = p->n_batch - 4; d >= 0; d -= 4) {
        int64_t x = index % p->batch[d];
        index /= p->batch[d];
        for (int j = 0; j < 3; j++)
            at[j] += x * p->batch[d + 1 + j];
    }
}

#define INTEGER(NAME, T, WIDE)                                                                   \
    static int NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {            \
        const problem p = problem_of(t->attrs);                                                  \
        for (int64_t item = lo; item < hi; item++) {                                             \
            int64_t at[3];                                                                       \
            row_of(&p, item, at);                                                                \
            const T *a = (const T *)RLX_PTR(t, f, 0) + at[0];                                    \
            const T *b = (const T *)RLX_PTR(t, f, 1) + at[1];                                    \
            T *restrict out = (T *)RLX_PTR(t, f, 2) + at[2];                                     \
            for (int64_t j = 0; j < p.n; j++)                                                    \
                out[j] = 0;                                                                      \
            for (int64_t k = 0; k < p.k; k++) {                                                  \
                const WIDE x = a[k * p.a_k];                                                     \
                const T *row = b + k * p.b_k;                                                    \
                if (p.b_n == 1)                                                                  \
                    for (int64_t j = 0; j < p.n; j++)                                            \
                        out[j] = (T)(out[j] + x * row[j]);                                       \
                else                                                                             \
                    for (int64_t j = 0; j < p.n; j++)                                            \
                        out[j] = (T)(out[j] + x * row[j * p.b_n]);                               \
            }                                                                                    \
        }                                                                                        \
        return RLX_OK;                                                                           \
    }

#define COMPLEX(NAME, T)                                                                         \
    static int NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {            \
        const problem p = problem_of(t->attrs);                                                  \
        for (int64_t item = lo; item < hi; item++) {                                             \
            int64_t at[3];                                                                       \
            row_of(&p, item, at);                                                                \
            const T *a = (const T *)RLX_PTR(t, f, 0) + 2 * at[0];                                \
            const T *b = (const T *)RLX_PTR(t, f, 1) + 2 * at[1];                                \
            T *restrict out = (T *)RLX_PTR(t, f, 2) + 2 * at[2];                                 \
            for (int64_t j = 0; j < 2 * p.n; j++)                                                \
                out[j] = 0;                                                                      \
            for (int64_t k = 0; k < p.k; k++) {                                                  \
                const T re = a[2 * k * p.a_k], im = a[2 * k * p.a_k + 1];                        \
                const T *row = b + 2 * k * p.b_k;                                                \
                for (int64_t j = 0; j < p.n; j++) {                                              \
                    const T x = row[2 * j * p.b_n], y = row[2 * j * p.b_n + 1];                  \
                    out[2 * j] += re * x - im * y;                                               \
                    out[2 * j + 1] += re * y + im * x;                                           \
                }                                                                                \
            }                                                                                    \
        }                                                                                        \
        return RLX_OK;                                                                           \
    }

INTEGER(matmul_b1, uint8_t, uint32_t)
INTEGER(matmul_b2, uint16_t, uint32_t)
INTEGER(matmul_b4, uint32_t, uint32_t)
INTEGER(matmul_b8, uint64_t, uint64_t)
COMPLEX(matmul_c64, float)
COMPLEX(matmul_c128, double)

const rlx_kernel_row rlx_rows_matmul_plain[] = {
    {"matmul_plain.b1", matmul_b1, LAYOUT, 0},
    {"matmul_plain.b2", matmul_b2, LAYOUT, 0},
    {"matmul_plain.b4", matmul_b4, LAYOUT, 0},
    {"matmul_plain.b8", matmul_b8, LAYOUT, 0},
    {"matmul_plain.c64", matmul_c64, LAYOUT, 0},
    {"matmul_plain.c128", matmul_c128, LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
