/* float16 and bfloat16 <-> float32, one value at a time, without branches (so
 * that loops over them vectorise), and rounding to odd.
 *
 * The bits are those of the F16C / AVX-512 instructions: nearest even, NaN is
 * quieted and keeps the top of its payload.
 *
 * Rounding to odd (truncate, then set the last bit if anything was lost) makes
 * a later rounding to fewer bits come out as if done at once: it is how f64
 * and 64-bit integers reach f16 and bf16 through float with one rounding. */
#ifndef RLX_HALF_H
#define RLX_HALF_H

#include "ew.h"

RLX_INLINE uint16_t rlx_f32_to_f16(float x) {
    uint32_t u = rlx_bits_f32(x), sign = (u >> 16) & 0x8000u;
    u &= 0x7FFFFFFFu;
    uint32_t special = u > 0x7F800000u ? 0x7E00u | ((u >> 13) & 0x3FFu) : 0x7C00u;
    uint32_t tiny = rlx_bits_f32(rlx_from_bits_f32(u) + 0.5f) - 0x3F000000u;
    uint32_t normal = (u - 0x38000000u + 0xFFFu + ((u >> 13) & 1u)) >> 13;
    uint32_t r = u < 0x38800000u ? tiny : normal;
    r = u >= 0x47800000u ? special : r;
    return (uint16_t)(r | sign);
}

RLX_INLINE float rlx_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, u = (uint32_t)(h & 0x7FFFu) << 13;
    uint32_t quiet = u > 0x0F800000u ? 0x00400000u : 0;
    uint32_t special = u + 0x70000000u;
    uint32_t tiny = rlx_bits_f32(rlx_from_bits_f32(u + 0x38800000u) - 0x1p-14f);
    uint32_t r = u < 0x00800000u ? tiny : u + 0x38000000u;
    r = u >= 0x0F800000u ? special | quiet : r;
    return rlx_from_bits_f32(r | sign);
}

RLX_INLINE uint16_t rlx_f32_to_bf16(float x) {
    uint32_t u = rlx_bits_f32(x);
    uint32_t nan = (u >> 16) | 0x40u;
    uint32_t r = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : r);
}

RLX_INLINE float rlx_bf16_to_f32(uint16_t h) { return rlx_from_bits_f32((uint32_t)h << 16); }

RLX_INLINE float rlx_f64_to_f32_odd(double x) {
    float f = (float)x;
    double back = (double)f;
    uint32_t u = rlx_bits_f32(f);
    u -= __builtin_fabs(back) > __builtin_fabs(x);
    u |= (back < x) | (back > x);
    return rlx_from_bits_f32(u);
}

/* 64-bit magnitudes to double with a sticky last bit, so nothing that a
 * rounding to 24 bits or fewer could see is lost. */
RLX_INLINE double rlx_u64_to_f64_sticky(uint64_t u) {
    uint64_t low = u & 0x7FFu;
    u = u >> 53 ? (u & ~(uint64_t)0x7FFu) | (uint64_t)(low != 0) << 11 : u;
    return (double)u;
}
RLX_INLINE double rlx_i64_to_f64_sticky(int64_t i) {
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    double r = rlx_u64_to_f64_sticky(u);
    return i < 0 ? -r : r;
}

#endif
