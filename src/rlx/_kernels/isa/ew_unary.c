/* Elementwise functions of one operand that need no transcendental: signs,
 * rounding, roots, and the piecewise linear or rational activations.
 *
 * NaN propagates through all of them. `round` is half to even. Parameters
 * arrive as doubles and are rounded to the operand's type. `hard_swish` and
 * `softsign` give their limits at infinity (0 and +-1), not inf * 0. */
#include "vew.h"
#include "vmathf.h"

#define INT_UNARY(name, T, C, U)                                                          \
    RLX_EW1(neg_##name, T, T, (C)0 - (C)x)                                                \
    RLX_EW1(bit_not_##name, T, T, ~x)                                                     \
    RLX_EW1(square_##name, T, T, (C)x *(C)x)
RLX_INTS(INT_UNARY)

#define SIGNED_UNARY(name, T, C, U)                                                       \
    RLX_EW1(abs_##name, T, T, x < 0 ? (C)0 - (C)x : (C)x)                                 \
    RLX_EW1(sign_##name, T, T, (x > 0) - (x < 0))                                         \
    RLX_EW1(relu_##name, T, T, x > 0 ? x : 0)
RLX_SIGNED_INTS(SIGNED_UNARY)

#define UNSIGNED_UNARY(name, T, C, U)                                                     \
    RLX_EW1(same_##name, T, T, x)                                                         \
    RLX_EW1(sign_##name, T, T, x != 0)
RLX_UNSIGNED_INTS(UNSIGNED_UNARY)

#define FLOAT_UNARY(name, T, U, f)                                                        \
    RLX_EW1(neg_##name, T, T, -x)                                                         \
    RLX_EW1(abs_##name, T, T, __builtin_fabs##f(x))                                       \
    RLX_EW1(sign_##name, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)          \
    RLX_EW1(floor_##name, T, T, __builtin_floor##f(x))                                    \
    RLX_EW1(ceil_##name, T, T, __builtin_ceil##f(x))                                      \
    RLX_EW1(round_##name, T, T, __builtin_rint##f(x))                                     \
    RLX_EW1(trunc_##name, T, T, __builtin_trunc##f(x))                                    \
    RLX_EW1(sqrt_##name, T, T, __builtin_sqrt##f(x))                                      \
    RLX_EW1(rsqrt_##name, T, T, 1 / __builtin_sqrt##f(x))                                 \
    RLX_EW1(recip_##name, T, T, 1 / x)                                                    \
    RLX_EW1(square_##name, T, T, x *x)                                                    \
    RLX_EW1(relu_##name, T, T, 0 > x ? 0 : x)                                             \
    RLX_EW1S(leaky_relu_##name, T, T, T slope = (T)p[0], x < 0 ? slope * x : x)           \
    RLX_EW1S(thresholded_relu_##name, T, T, T theta = (T)p[0], x <= theta ? 0 : x)        \
    RLX_EW1S(shrink_##name, T, T, T lambd = (T)p[0]; T bias = (T)p[1],                    \
             x < -lambd ? x + bias : x > lambd ? x - bias : x == x ? 0 : x)               \
    RLX_EW1(softsign_##name, T, T,                                                        \
            __builtin_fabs##f(x) == __builtin_inf##f() ? __builtin_copysign##f((T)1, x)   \
                                                       : x / (1 + __builtin_fabs##f(x)))
RLX_FLOATS(FLOAT_UNARY)

/* On whole vectors: the compiler makes twice the instructions of two clamps.
 * hard_swish multiplies max(x, -3), so that -inf gives -0. */
#define ALL32(c) ((rlx_v32){0} + (float)(c))
#define ALL64(c) ((rlx_v64){0} + (double)(c))
RLX_VEW1_F32(hard_sigmoid_f32, rlx_v32 alpha = ALL32(p[0]); rlx_v32 beta = ALL32(p[1]),
             rlx_clamp_f32(rlx_vfma(alpha, x, beta), ALL32(0), ALL32(1)))
RLX_VEW1_F32(hard_swish_f32, (void)0,
             rlx_clamp_f32(x, ALL32(-3), ALL32(__builtin_inff())) *
                 rlx_clamp_f32((x + 3.0f) * (1.0f / 6.0f), ALL32(0), ALL32(1)))
RLX_VEW1_F64(hard_swish_f64, (void)0,
             rlx_clamp_f64(x, ALL64(-3), ALL64(__builtin_inf())) *
                 rlx_clamp_f64((x + 3.0) / 6.0, ALL64(0), ALL64(1)))
RLX_INLINE double unit_f64(double t) { return t < 0 ? 0 : t > 1 ? 1 : t; }
RLX_EW1S(hard_sigmoid_f64, double, double, double alpha = p[0]; double beta = p[1],
         unit_f64(__builtin_fma(alpha, x, beta)))

#define ROW(op, name) {#op "." #name, op##_##name, 1}
#define INT_ROWS(name) ROW(neg, name), ROW(bit_not, name), ROW(square, name), ROW(sign, name),
#define SIGNED_ROWS(name, T, C, U) INT_ROWS(name) ROW(abs, name), ROW(relu, name),
#define UNSIGNED_ROWS(name, T, C, U)                                                      \
    INT_ROWS(name) {"abs." #name, same_##name, 1}, {"relu." #name, same_##name, 1},
#define FLOAT_ROWS(name, T, U, f)                                                         \
    ROW(neg, name), ROW(abs, name), ROW(sign, name), ROW(floor, name), ROW(ceil, name),   \
        ROW(round, name), ROW(trunc, name), ROW(sqrt, name), ROW(rsqrt, name),            \
        ROW(recip, name), ROW(square, name), ROW(relu, name), ROW(leaky_relu, name),      \
        ROW(thresholded_relu, name), ROW(shrink, name), ROW(hard_sigmoid, name),          \
        ROW(hard_swish, name), ROW(softsign, name),

const rlx_ew_row rlx_ews_ew_unary[] = {
    RLX_SIGNED_INTS(SIGNED_ROWS)
    RLX_UNSIGNED_INTS(UNSIGNED_ROWS)
    RLX_FLOATS(FLOAT_ROWS)
    {NULL, NULL, 0},
};
