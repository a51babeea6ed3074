/* rope: rotary position embedding.
 *
 * rope.f32, rope.f64   args x, cos, sin, positions i64?, y
 *   attrs batch seq heads dim n_rot style inverse x_b x_s x_h y_b y_s y_h
 *         rows t_b t_s p_b p_s past
 *   x(b, s, h, c) = x[b*x_b + s*x_s + h*x_h + c], y alike: 3-D and 4-D inputs in any
 *   order of axes. The angle's row is positions[b*p_b + s*p_s], or s + past
 *   without positions; cos and sin at [b*t_b + row*t_s + i], i < n_rot/2, where a
 *   row outside [0, rows) is RLX_ERR_INDEX (position b*seq + s).
 *   style 0 (NeoX, halves): the pair i is (i, i + n_rot/2); style 1 (GPT-J,
 *   interleaved): (2i, 2i + 1). (a, b) -> (a cos - b sin, b cos + a sin); inverse
 *   turns back. Elements from n_rot on are copied. y may be x.
 *   extent batch*seq*heads, heads innermost. */
#include "abi.h"
#include "lanes.h"

enum { CHUNK = 64 };

#define ROPE(T, V, VN, NAME, P)                                                               \
    static int NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {         \
        const int64_t *a = t->attrs;                                                          \
        const int64_t seq = a[1], heads = a[2], dim = a[3], half = a[4] / 2;                  \
        const T *x0 = (const T *)RLX_PTR(t, f, 0), *c0 = (const T *)RLX_PTR(t, f, 1);         \
        const T *s0 = (const T *)RLX_PTR(t, f, 2);                                            \
        const int64_t *positions = (const int64_t *)RLX_OPT(t, f, 3);                         \
        T *y0 = (T *)RLX_PTR(t, f, 4);                                                        \
        const T sign = a[6] ? -1 : 1;                                                         \
        for (int64_t item = lo; item < hi; item++) {                                          \
            const int64_t h = item % heads, s = item / heads % seq, b = item / heads / seq;   \
            const int64_t row = positions ? positions[b * a[16] + s * a[17]] : s + a[18];     \
            if (row < 0 || row >= a[13])                                                      \
                return rlx_fail(f, RLX_ERR_INDEX, row, a[13], b * seq + s);                   \
            const T *x = x0 + b * a[7] + s * a[8] + h * a[9];                                 \
            T *y = y0 + b * a[10] + s * a[11] + h * a[12];                                    \
            const T *c = c0 + b * a[14] + row * a[15], *w = s0 + b * a[14] + row * a[15];     \
            int64_t i = 0;                                                                    \
            if (a[5] == 0) {                                                                  \
                for (; i < half; i += VN) {                                                   \
                    const int64_t n = half - i < VN ? half - i : VN;                          \
                    const V p = n == VN ? P##_load(x + i) : P##_load_n(x + i, n);             \
                    const V q = n == VN ? P##_load(x + half + i) : P##_load_n(x + half + i, n); \
                    const V co = n == VN ? P##_load(c + i) : P##_load_n(c + i, n);            \
                    const V si = P##_set(sign) *                                              \
                                 (n == VN ? P##_load(w + i) : P##_load_n(w + i, n));          \
                    const V u = p * co - q * si, v = q * co + p * si;                         \
                    if (n == VN) {                                                            \
                        P##_store(y + i, u);                                                  \
                        P##_store(y + half + i, v);                                           \
                    } else {                                                                  \
                        P##_store_n(y + i, u, n);                                             \
                        P##_store_n(y + half + i, v, n);                                      \
                    }                                                                         \
                }                                                                             \
            } else {                                                                          \
                for (int64_t n; i < half; i += n) {                                           \
                    T in[2 * CHUNK], out[2 * CHUNK];                                          \
                    n = half - i < CHUNK ? half - i : CHUNK;                                  \
                    memcpy(in, x + 2 * i, (size_t)(2 * n) * sizeof(T));                       \
                    for (int64_t k = 0; k < n; k++) {                                         \
                        const T p = in[2 * k], q = in[2 * k + 1], si = sign * w[i + k];       \
                        out[2 * k] = p * c[i + k] - q * si;                                   \
                        out[2 * k + 1] = q * c[i + k] + p * si;                               \
                    }                                                                         \
                    memcpy(y + 2 * i, out, (size_t)(2 * n) * sizeof(T));                      \
                }                                                                             \
            }                                                                                 \
            if (y != x && dim > 2 * half)                                                     \
                memcpy(y + 2 * half, x + 2 * half, (size_t)(dim - 2 * half) * sizeof(T));     \
        }                                                                                     \
        return RLX_OK;                                                                        \
    }
ROPE(float, vf, VF, rope_f32, vf)
ROPE(double, vd, VD, rope_f64, vd)

#define LAYOUT \
    "batch seq heads dim n_rot style inverse x_b x_s x_h y_b y_s y_h rows t_b t_s p_b p_s past"

const rlx_kernel_row rlx_rows_rope[] = {
    {"rope.f32", rope_f32, LAYOUT, RLX_INPLACE},
    {"rope.f64", rope_f64, LAYOUT, RLX_INPLACE},
    {NULL, NULL, NULL, 0},
};
