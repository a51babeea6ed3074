/* Elementwise transcendentals and smooth activations, f32.
 *
 * Design: the branch-free functions of mathf.h in the loops of ew.h, so body
 * and tail are one code and every level vectorises. sin and cos of large
 * arguments, and the rare functions (tan, the inverse trigonometric and
 * hyperbolic ones), go through the double functions of libm and round once.
 * The measured errors stand in docs/reference/accuracy.md. */
#include "mathf.h"

#include <math.h>

#define UNARY(op) RLX_EW1(op##_f32, float, float, rlx_##op##_f32(x))
UNARY(exp)
UNARY(exp2)
UNARY(expm1)
UNARY(log)
UNARY(log2)
UNARY(log10)
UNARY(log1p)
UNARY(tanh)
UNARY(sigmoid)
UNARY(log_sigmoid)
UNARY(silu)
UNARY(softplus)
UNARY(mish)
UNARY(erf)
UNARY(erfc)
UNARY(gelu)
UNARY(gelu_tanh)
RLX_EW1S(swish_f32, float, float, double slope = p[0], rlx_swish_f32(x, slope))
RLX_EW1S(elu_f32, float, float, float alpha = (float)p[0],
         x < 0 ? alpha * rlx_expm1_negative_f32(x) : x)
RLX_EW1S(selu_f32, float, float, float low = (float)(p[0] * p[1]); float high = (float)p[1],
         x < 0 ? low * rlx_expm1_negative_f32(x) : high * x)
RLX_EW1S(celu_f32, float, float, float alpha = (float)p[0],
         x < 0 ? alpha * rlx_expm1_negative_f32(x / alpha) : x)
RLX_EW2(pow_f32, float, float, rlx_pow_f32(x, y))

/* Blocks with an argument beyond the limit of the fast reduction are kept,
 * computed, and those elements done again by libm. */
enum { BLOCK = 256 };
#define TRIGONOMETRIC(op)                                                                 \
    UNARY(op)                                                                             \
    static int op##_any_f32(RLX_EW_ARGS) {                                                \
        const float *a = a_;                                                              \
        float *d = dst, keep[BLOCK];                                                      \
        for (int64_t i = 0; i < n; i += BLOCK) {                                          \
            int64_t m = n - i < BLOCK ? n - i : BLOCK;                                    \
            int large = 0;                                                                \
            for (int64_t j = 0; j < m; j++)                                               \
                large |= !(__builtin_fabsf(a[i + j]) <= RLX_TRIG_LIMIT_F32);              \
            if (__builtin_expect(large, 0))                                               \
                memcpy(keep, a + i, (size_t)m * sizeof *keep);                            \
            op##_f32(d + i, a + i, NULL, NULL, m, p, err);                                \
            for (int64_t j = 0; large && j < m; j++)                                      \
                if (!(__builtin_fabsf(keep[j]) <= RLX_TRIG_LIMIT_F32))                    \
                    d[i + j] = (float)op((double)keep[j]);                                \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)

#define LIBM(op) RLX_EW1(op##_f32, float, float, op((double)x))
LIBM(tan)
LIBM(asin)
LIBM(acos)
LIBM(atan)
LIBM(sinh)
LIBM(cosh)
LIBM(asinh)
LIBM(acosh)
LIBM(atanh)
RLX_EW2(atan2_f32, float, float, atan2((double)x, (double)y))

#define ROW(op) {#op ".f32", op##_f32, 1}
const rlx_ew_row rlx_ews_ew_math[] = {
    ROW(exp), ROW(exp2), ROW(expm1), ROW(log), ROW(log2), ROW(log10), ROW(log1p),
    ROW(tanh), ROW(sigmoid), ROW(log_sigmoid), ROW(silu), ROW(softplus), ROW(mish),
    ROW(erf), ROW(erfc), ROW(gelu), ROW(gelu_tanh), ROW(swish), ROW(elu), ROW(selu),
    ROW(celu),
    {"sin.f32", sin_any_f32, 1},
    {"cos.f32", cos_any_f32, 1},
    ROW(tan), ROW(asin), ROW(acos), ROW(atan), ROW(sinh), ROW(cosh), ROW(asinh),
    ROW(acosh), ROW(atanh),
    {"pow.f32", pow_f32, 2},
    {"atan2.f32", atan2_f32, 2},
    {NULL, NULL, 0},
};
