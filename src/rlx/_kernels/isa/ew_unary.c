/* Elementwise functions of one operand that need no transcendental: signs,
 * rounding, roots, and the piecewise linear or rational activations.
 *
 * NaN propagates through all of them. `round` is half to even. Parameters
 * arrive as doubles and are rounded to the operand's type. `hard_swish` and
 * `softsign` give their limits at infinity (0 and +-1), not inf * 0. */
#include "ew.h"

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
    RLX_INLINE T unit_##name(T t) {                                                       \
        t = 0 > t ? 0 : t;                                                                \
        return 1 < t ? 1 : t;                                                             \
    }                                                                                     \
    RLX_EW1S(hard_sigmoid_##name, T, T, T alpha = (T)p[0]; T beta = (T)p[1],              \
             unit_##name(__builtin_fma##f(alpha, x, beta)))                               \
    RLX_EW1(hard_swish_##name, T, T, x <= -3 ? -(T)0 : x * unit_##name((x + 3) / 6))      \
    RLX_EW1(softsign_##name, T, T,                                                        \
            __builtin_fabs##f(x) == __builtin_inf##f() ? __builtin_copysign##f((T)1, x)   \
                                                       : x / (1 + __builtin_fabs##f(x)))
RLX_FLOATS(FLOAT_UNARY)

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
