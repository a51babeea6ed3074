/* Elementwise transcendentals and smooth activations, f64.
 *
 * Design: at most 2 ulp everywhere. Functions that libm rounds to within an
 * ulp are taken from it; those it does not (hyperbolic ones, erfc, log10), and
 * compositions such as gelu or softplus, run in long double and round once. */
#include "ew.h"

#include <math.h>

typedef long double wide;

#define LIBM(op) RLX_EW1(op##_f64, double, double, op(x))
#define WIDE(op) RLX_EW1(op##_f64, double, double, op##l((wide)x))
LIBM(exp)
LIBM(exp2)
LIBM(expm1)
LIBM(log)
LIBM(log2)
LIBM(log1p)
LIBM(sin)
LIBM(cos)
LIBM(tan)
LIBM(asin)
LIBM(acos)
LIBM(atan)
LIBM(erf)
WIDE(log10)
WIDE(erfc)
WIDE(sinh)
WIDE(cosh)
WIDE(tanh)
WIDE(asinh)
WIDE(acosh)
WIDE(atanh)
RLX_EW2(pow_f64, double, double, pow(x, y))
RLX_EW2(atan2_f64, double, double, atan2(x, y))

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
RLX_INLINE wide elu_wide(wide x, wide alpha) { return x < 0 ? alpha * expm1l(x) : x; }

RLX_EW1(sigmoid_f64, double, double, sigmoid_wide(x))
RLX_EW1(softplus_f64, double, double, x == x ? softplus_wide(x) : x)
RLX_EW1(log_sigmoid_f64, double, double, x == x ? -softplus_wide(-(wide)x) : x)
RLX_EW1(silu_f64, double, double, swish_wide(x, 1))
RLX_EW1S(swish_f64, double, double, double slope = p[0], swish_wide(x, slope))
RLX_EW1(mish_f64, double, double, mish_wide(x))
RLX_EW1(gelu_f64, double, double, gelu_wide(x))
RLX_EW1(gelu_tanh_f64, double, double, gelu_tanh_wide(x))
RLX_EW1S(elu_f64, double, double, double alpha = p[0], elu_wide(x, alpha))
RLX_EW1S(selu_f64, double, double, double alpha = p[0]; double gamma = p[1],
         (wide)gamma *elu_wide(x, alpha))
RLX_EW1S(celu_f64, double, double, double alpha = p[0],
         x < 0 ? alpha * expm1l((wide)x / alpha) : x)

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
