/* The four float8 formats <-> float32, one value at a time, without branches.
 *
 * f8e4m3fn and f8e5m2 are those of the OCP 8-bit specification: E4M3 has no infinity, 0x7E is 448 and
 * only 0x7F and 0xFF are NaN. The `fnuz` formats have one zero and one NaN, the byte 0x80.
 *
 * To float8: nearest, ties to even. What rounds beyond the largest value becomes that value if
 * `saturate`, an infinity if the format has one, else NaN; so do infinities. From wider types round
 * to odd first (half.h): then the rounding is one. */
#ifndef RLX_FLOAT8_H
#define RLX_FLOAT8_H

#include "half.h"

/* M mantissa bits, exponent bias, code of the largest value, of NaN, and of what lies beyond; one zero */
RLX_INLINE uint8_t rlx_f32_to_f8(float x, uint32_t saturate, uint32_t M, uint32_t bias, uint32_t largest,
                                 uint32_t nan, uint32_t beyond, int one_zero) {
    const uint32_t drop = 23 - M, rebias = (127 - bias) << M;
    /* added to a subnormal it aligns its last bit with the last one of a float: 2^(24 - bias - M) */
    const uint32_t align = (127 + 24 - bias - M) << 23;
    uint32_t u = rlx_bits_f32(x), sign = u >> 31 << 7;
    u &= 0x7FFFFFFFu;
    uint32_t tiny = rlx_bits_f32(rlx_from_bits_f32(u) + rlx_from_bits_f32(align)) - align;
    uint32_t normal = ((u + ((1u << (drop - 1)) - 1) + ((u >> drop) & 1)) >> drop) - rebias;
    uint32_t is_tiny = u < (128 - bias) << 23;
    uint32_t r = is_tiny ? tiny : normal;
    r = !is_tiny & (r > largest) ? (saturate ? largest : beyond) : r;
    r = u > 0x7F800000u ? nan : r;
    sign = one_zero & ((r == 0) | (r == 0x80)) ? 0 : sign;
    return (uint8_t)(r | sign);
}

/* `infinity` is the code of it, 0 if there is none */
RLX_INLINE float rlx_f8_to_f32(uint8_t x, uint32_t M, uint32_t bias, uint32_t largest, uint32_t infinity,
                               int one_zero) {
    uint32_t u = x & 0x7Fu, sign = (uint32_t)(x & 0x80u) << 24;
    uint32_t normal = (u << (23 - M)) + ((127 - bias) << 23);
    uint32_t tiny = rlx_bits_f32((float)(int32_t)u * rlx_from_bits_f32((127 + 1 - bias - M) << 23));
    uint32_t r = u < (1u << M) ? tiny : normal;
    r = u > largest ? 0x7FC00000u : r;
    r = infinity != 0 && u == infinity ? 0x7F800000u : r;
    r |= sign;
    r = one_zero & (x == 0x80) ? 0x7FC00000u : r;
    return rlx_from_bits_f32(r);
}

#define RLX_TO_F8E4M3FN(x, saturate) rlx_f32_to_f8(x, saturate, 3, 7, 0x7E, 0x7F, 0x7F, 0)
#define RLX_TO_F8E5M2(x, saturate) rlx_f32_to_f8(x, saturate, 2, 15, 0x7B, 0x7E, 0x7C, 0)
#define RLX_TO_F8E4M3FNUZ(x, saturate) rlx_f32_to_f8(x, saturate, 3, 8, 0x7F, 0x80, 0x80, 1)
#define RLX_TO_F8E5M2FNUZ(x, saturate) rlx_f32_to_f8(x, saturate, 2, 16, 0x7F, 0x80, 0x80, 1)
#define RLX_FROM_F8E4M3FN(x) rlx_f8_to_f32(x, 3, 7, 0x7E, 0, 0)
#define RLX_FROM_F8E5M2(x) rlx_f8_to_f32(x, 2, 15, 0x7B, 0x7C, 0)
#define RLX_FROM_F8E4M3FNUZ(x) rlx_f8_to_f32(x, 3, 8, 0x7F, 0, 1)
#define RLX_FROM_F8E5M2FNUZ(x) rlx_f8_to_f32(x, 2, 16, 0x7F, 0, 1)

#endif
