/* Elementwise transcendentals and smooth activations, f32.
 *
 * Design: the functions run on whole vectors (vmathf.h; exp2, log2, pow, ...
 * through double, vmathw.h), the tail on a masked one. sin and cos are those of
 * mathf.h in the loops of ew.h: a reduction in three floats was tried, and is a
 * tenth faster but wrong near large multiples of pi/2. For large arguments sin
 * and cos, and always the rare functions (tan, the inverse trigonometric and
 * hyperbolic ones), go through the double functions of libm and round once.
 * The measured errors stand in docs/reference/accuracy.md. */
#if !defined(__clang__)
#pragma GCC optimize("schedule-insns,sched-pressure") /* see vew.h */
#endif
#include "gelu.h"
#include "mathf.h"
#include "vew.h"
#include "vmathw.h"

#include <math.h>

#define VECTOR(op) RLX_VEW1_F32(op##_f32, (void)0, rlx_v##op##_f32(x))
VECTOR(exp)
VECTOR(expm1)
VECTOR(log)
VECTOR(tanh)
VECTOR(sigmoid)
VECTOR(log_sigmoid)
VECTOR(silu)
VECTOR(softplus)
VECTOR(mish)
VECTOR(erf)
VECTOR(erfc)
RLX_VEWF(gelu_f32, rlx_vgelu_some_f32, x, x)
VECTOR(gelu_tanh)
#define BELOW_ZERO(low, high) rlx_vselect(RLX_VLESS(x, rlx_vall(0)), low, high)
RLX_VEW1_F32(elu_f32, rlx_v32 alpha = rlx_vall((float)p[0]),
             BELOW_ZERO(alpha *rlx_vexpm1_negative_f32(x), x))
RLX_VEW1_F32(selu_f32, rlx_v32 scale = rlx_vall((float)(p[0] * p[1])); float gamma = (float)p[1],
             BELOW_ZERO(scale *rlx_vexpm1_negative_f32(x), gamma *x))
RLX_VEW1_F32(celu_f32, rlx_v32 alpha = rlx_vall((float)p[0]),
             BELOW_ZERO(alpha *rlx_vexpm1_negative_f32(x / alpha), x))

RLX_VEW1_F32(swish_f32,
             rlx_v32 slope = rlx_vall((float)p[0]);
             rlx_v32 low = rlx_vall((float)(p[0] - (float)p[0])),
             rlx_vswish_f32(x, slope, low))
VECTOR(exp2)
VECTOR(log2)
VECTOR(log10)
VECTOR(log1p)

RLX_VEW2(pow_any_f32, float, rlx_v32, RLX_W32, f32, rlx_vpow_f32(x, y))
RLX_POWERS(float, f32, pow_any_f32)

/* Blocks with an argument beyond the limit of the fast reduction are kept,
 * computed, and those elements done again by libm. */
enum { BLOCK = 256 };
#define TRIGONOMETRIC(op)                                                                 \
    RLX_EW1(op##_f32, float, float, rlx_##op##_f32(x))                                    \
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
