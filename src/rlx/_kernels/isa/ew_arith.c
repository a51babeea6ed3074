/* Elementwise arithmetic: add, sub, mul, max, min, div and fma of floats, the
 * bit operations and shifts of integers, the logical forms on bool.
 *
 * Design: one scalar expression per row in the loops of ew.h. Integers compute
 * in an unsigned type, so they wrap. max and min are exact about NaN (either
 * operand) and order -0 below +0: maxps(x,y) and maxps(y,x) differ only for
 * zeros and NaN; the AND of their bits is the wanted zero, and a NaN lane takes
 * x + y. That costs three more instructions than a bare maxps and keeps the
 * result independent of operand order.
 *
 * Shift counts outside [0, width) shift everything out: 0, or the sign for
 * right shifts of negative numbers. */
#include "ew.h"

#define FLOAT_ROWS(name, T, U, f)                                                         \
    RLX_EW2(add_##name, T, T, x + y)                                                      \
    RLX_EW2(sub_##name, T, T, x - y)                                                      \
    RLX_EW2(mul_##name, T, T, x *y)                                                       \
    RLX_EW2(div_##name, T, T, x / y)                                                      \
    RLX_INLINE T larger_##name(T x, T y) {                                                \
        T r = x > y ? x : y, s = y > x ? y : x;                                           \
        r = rlx_from_bits_##name(rlx_bits_##name(r) & rlx_bits_##name(s));                \
        return __builtin_isunordered(x, y) ? x + y : r;                                   \
    }                                                                                     \
    RLX_INLINE T smaller_##name(T x, T y) {                                               \
        T r = x < y ? x : y, s = y < x ? y : x;                                           \
        r = rlx_from_bits_##name(rlx_bits_##name(r) | rlx_bits_##name(s));                \
        return __builtin_isunordered(x, y) ? x + y : r;                                   \
    }                                                                                     \
    RLX_EW2(max_##name, T, T, larger_##name(x, y))                                        \
    RLX_EW2(min_##name, T, T, smaller_##name(x, y))                                       \
    RLX_EW3(fma_##name, T, T, __builtin_fma##f(x, y, z))
RLX_FLOATS(FLOAT_ROWS)

#define INT_ROWS(name, T, C, U)                                                           \
    RLX_EW2(add_##name, T, T, (C)x + (C)y)                                                \
    RLX_EW2(sub_##name, T, T, (C)x - (C)y)                                                \
    RLX_EW2(mul_##name, T, T, (C)x *(C)y)                                                 \
    RLX_EW2(max_##name, T, T, x > y ? x : y)                                              \
    RLX_EW2(min_##name, T, T, x < y ? x : y)                                              \
    RLX_EW2(bit_and_##name, T, T, x &y)                                                   \
    RLX_EW2(bit_or_##name, T, T, x | y)                                                   \
    RLX_EW2(bit_xor_##name, T, T, x ^ y)                                                  \
    RLX_EW2(shl_##name, T, T,                                                             \
            (U)y < 8 * sizeof(T) ? (C)x << ((U)y & (8 * sizeof(T) - 1)) : 0)
RLX_INTS(INT_ROWS)

#define SHR_SIGNED(name, T, C, U) \
    RLX_EW2(shr_##name, T, T, x >> ((U)y < 8 * sizeof(T) ? (U)y : 8 * sizeof(T) - 1))
#define SHR_UNSIGNED(name, T, C, U) \
    RLX_EW2(shr_##name, T, T, y < 8 * sizeof(T) ? x >> (y & (8 * sizeof(T) - 1)) : 0)
RLX_SIGNED_INTS(SHR_SIGNED)
RLX_UNSIGNED_INTS(SHR_UNSIGNED)

/* bool operands are bytes that hold 0 or 1 */
RLX_EW2(or_bool, uint8_t, uint8_t, x | y)
RLX_EW2(and_bool, uint8_t, uint8_t, x &y)
RLX_EW2(xor_bool, uint8_t, uint8_t, x ^ y)

#define FLOAT_NAMES(name, T, U, f)                                                        \
    {"add." #name, add_##name, 2}, {"sub." #name, sub_##name, 2},                         \
        {"mul." #name, mul_##name, 2}, {"div." #name, div_##name, 2},                     \
        {"max." #name, max_##name, 2}, {"min." #name, min_##name, 2},                     \
        {"fma." #name, fma_##name, 3},
#define INT_NAMES(name, T, C, U)                                                          \
    {"add." #name, add_##name, 2}, {"sub." #name, sub_##name, 2},                         \
        {"mul." #name, mul_##name, 2}, {"max." #name, max_##name, 2},                     \
        {"min." #name, min_##name, 2}, {"bit_and." #name, bit_and_##name, 2},             \
        {"bit_or." #name, bit_or_##name, 2}, {"bit_xor." #name, bit_xor_##name, 2},       \
        {"shl." #name, shl_##name, 2}, {"shr." #name, shr_##name, 2},

const rlx_ew_row rlx_ews_ew_arith[] = {
    RLX_FLOATS(FLOAT_NAMES)
    RLX_INTS(INT_NAMES)
    {"or.bool", or_bool, 2},
    {"and.bool", and_bool, 2},
    {"xor.bool", xor_bool, 2},
    {"add.bool", or_bool, 2},
    {"mul.bool", and_bool, 2},
    {"max.bool", or_bool, 2},
    {"min.bool", and_bool, 2},
    {"bit_or.bool", or_bool, 2},
    {"bit_and.bool", and_bool, 2},
    {"bit_xor.bool", xor_bool, 2},
    {NULL, NULL, 0},
};
