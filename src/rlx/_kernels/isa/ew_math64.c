/* Elementwise transcendentals and smooth activations, f64.
 *
 * Design: at most 2 ulp everywhere. Where the level has fused multiply-add, the
 * functions run on whole vectors (vmathd.h), the tail on a masked one. The rest
 * (all of them at the baseline level; tan, the hyperbolic and the inverse
 * functions at every level) is taken from libm where it rounds to within an
 * ulp, and otherwise runs in long double and rounds once: slow, but right. The
 * measured errors stand in docs/reference/accuracy.md. */
#include "vew.h"
#include "vmathd.h"

#include <math.h>

typedef long double wide;

#define LIBM(op) RLX_EW1(op##_f64, double, double, op(x))
#define WIDE(op) RLX_EW1(op##_f64, double, double, op##l((wide)x))
LIBM(exp2)
LIBM(expm1)
LIBM(log2)
LIBM(log1p)
LIBM(tan)
LIBM(asin)
LIBM(acos)
LIBM(atan)
WIDE(log10)
WIDE(sinh)
WIDE(cosh)
WIDE(asinh)
WIDE(acosh)
WIDE(atanh)
RLX_EW2(atan2_f64, double, double, atan2(x, y))

#if defined(__AVX2__) && defined(__FMA__)
#define VECTOR(op) RLX_VEW1_F64(op##_f64, (void)0, rlx_w##op##_f64(x))
VECTOR(exp)
VECTOR(log)
VECTOR(tanh)
VECTOR(sigmoid)
VECTOR(silu)
VECTOR(softplus)
VECTOR(log_sigmoid)
VECTOR(mish)
VECTOR(erf)
VECTOR(erfc)
VECTOR(gelu)
VECTOR(gelu_tanh)
RLX_VEW1_F64(swish_f64, rlx_v64 slope = rlx_wall(p[0]), rlx_wswish_f64(x, slope))

RLX_VEW2(pow_any_f64, double, rlx_v64, RLX_W64, f64, rlx_wpow_f64(x, y))
RLX_POWERS(double, f64, pow_any_f64)

#define BELOW_ZERO(low, high) rlx_wselect(RLX_WLESS(x, rlx_wall(0)), low, high)
RLX_VEW1_F64(elu_f64, rlx_v64 alpha = rlx_wall(p[0]),
             BELOW_ZERO(alpha *rlx_wexpm1_negative_f64(x), x))
RLX_VEW1_F64(selu_f64, rlx_v64 scale = rlx_wall(p[0] * p[1]); double gamma = p[1],
             BELOW_ZERO(scale *rlx_wexpm1_negative_f64(x), gamma *x))
RLX_VEW1_F64(celu_f64, rlx_v64 alpha = rlx_wall(p[0]),
             BELOW_ZERO(alpha *rlx_wexpm1_negative_f64(x / alpha), x))

/* Blocks with an argument beyond the limit of the fast reduction are kept,
 * computed, and those elements done again by libm. */
enum { BLOCK = 256 };
#define TRIGONOMETRIC(op)                                                                 \
    RLX_VEW1_F64(op##_small_f64, (void)0, rlx_w##op##_f64(x))                             \
    static int op##_f64(RLX_EW_ARGS) {                                                    \
        const double *a = a_;                                                             \
        double *d = dst, keep[BLOCK];                                                     \
        for (int64_t i = 0; i < n; i += BLOCK) {                                          \
            int64_t m = n - i < BLOCK ? n - i : BLOCK;                                    \
            int large = 0;                                                                \
            for (int64_t j = 0; j < m; j++)                                               \
                large |= !(__builtin_fabs(a[i + j]) <= RLX_TRIG_LIMIT_F64);               \
            if (__builtin_expect(large, 0))                                               \
                memcpy(keep, a + i, (size_t)m * sizeof *keep);                            \
            op##_small_f64(d + i, a + i, NULL, NULL, m, p, err);                          \
            for (int64_t j = 0; large && j < m; j++)                                      \
                if (!(__builtin_fabs(keep[j]) <= RLX_TRIG_LIMIT_F64))                     \
                    d[i + j] = op(keep[j]);                                               \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)
#else
LIBM(exp)
LIBM(log)
LIBM(sin)
LIBM(cos)
LIBM(erf)
WIDE(erfc)
WIDE(tanh)
RLX_EW2(pow_f64, double, double, y == 2 ? x * x : pow(x, y))

/* The limits at -inf are -0. */
RLX_INLINE wide sigmoid_wide(wide x) {
    wide e = expl(-fabsl(x));
    return (x < 0 ? e : 1) / (1 + e);
}
RLX_INLINE wide softplus_wide(wide x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
RLX_INLINE wide swish_wide(wide x, wide slope) {
    wide t = slope * x;
    return t == -__builtin_infl() ? -0.0L : x * sigmoid_wide(t);
}
RLX_INLINE wide mish_wide(wide x) {
    wide e = expl(-fabsl(x));
    if (x < 0)
        return x < -20000 ? -0.0L : x * (e * (e + 2)) / (e * (e + 2) + 2);
    return x * ((1 + 2 * e) / (1 + 2 * e * (1 + e)));
}
RLX_INLINE wide gelu_wide(wide x) {
    return x < -100 ? -0.0L : x * erfcl(x * -0.707106781186547524400844362104849039L) / 2;
}
RLX_INLINE wide gelu_tanh_wide(wide x) {
    wide t = x * (1.59576912160573071175978423974L + 0.0713548162726002487763387522799L * x * x);
    return x < -1000 ? -0.0L : x * sigmoid_wide(t);
}
RLX_EW1(softplus_f64, double, double, x == x ? softplus_wide(x) : x)
RLX_EW1(log_sigmoid_f64, double, double, x == x ? -softplus_wide(-(wide)x) : x)
RLX_EW1S(swish_f64, double, double, double slope = p[0], swish_wide(x, slope))
RLX_EW1(mish_f64, double, double, mish_wide(x))
RLX_EW1(gelu_f64, double, double, gelu_wide(x))
RLX_EW1(gelu_tanh_f64, double, double, gelu_tanh_wide(x))
RLX_EW1(sigmoid_f64, double, double, sigmoid_wide(x))
RLX_EW1(silu_f64, double, double, swish_wide(x, 1))
RLX_INLINE wide elu_wide(wide x, wide alpha) { return x < 0 ? alpha * expm1l(x) : x; }

RLX_EW1S(elu_f64, double, double, double alpha = p[0], elu_wide(x, alpha))
RLX_EW1S(selu_f64, double, double, double alpha = p[0]; double gamma = p[1],
         (wide)gamma *elu_wide(x, alpha))
RLX_EW1S(celu_f64, double, double, double alpha = p[0],
         x < 0 ? alpha * expm1l((wide)x / alpha) : x)
#endif

#define ROW(op) {#op ".f64", op##_f64, 1}
const rlx_ew_row rlx_ews_ew_math64[] = {
    ROW(exp), ROW(exp2), ROW(expm1), ROW(log), ROW(log2), ROW(log10), ROW(log1p),
    ROW(tanh), ROW(sigmoid), ROW(log_sigmoid), ROW(silu), ROW(softplus), ROW(mish),
    ROW(erf), ROW(erfc), ROW(gelu), ROW(gelu_tanh), ROW(swish), ROW(elu), ROW(selu),
    ROW(celu), ROW(sin), ROW(cos), ROW(tan), ROW(asin), ROW(acos), ROW(atan),
    ROW(sinh), ROW(cosh), ROW(asinh), ROW(acosh), ROW(atanh),
    {"pow.f64", pow_f64, 2},
    {"atan2.f64", atan2_f64, 2},
    {NULL, NULL, 0},
};
