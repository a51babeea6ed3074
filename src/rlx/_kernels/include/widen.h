/* A vector of f32 from half types in memory. The bits are those of half.h. */
#ifndef RLX_WIDEN_H
#define RLX_WIDEN_H

#include "tile.h"

#ifndef __AVX2__
RLX_ALWAYS_INLINE rlx_vi32 rlx_halves(const uint16_t *p) {
    typedef uint16_t halves __attribute__((vector_size(RLX_W32 * 2)));
    halves v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, rlx_vi32);
}
#endif

RLX_ALWAYS_INLINE rlx_v32 rlx_widen_f16(const uint16_t *p) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
    return (rlx_v32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    /* As a number of f32 the half is 2^112 too small, denormals too. */
    rlx_vi32 h = rlx_halves(p), u = (h & 0x7FFF) << 13;
    rlx_vi32 finite = (rlx_vi32)((rlx_v32)u * 0x1p112f), special = u >= 0x0F800000;
    rlx_vi32 quiet = (u > 0x0F800000) & 0x00400000;
    return (rlx_v32)((finite & ~special) | ((u | 0x7F800000 | quiet) & special) | (h & 0x8000) << 16);
#endif
}

RLX_ALWAYS_INLINE rlx_v32 rlx_widen_bf16(const uint16_t *p) {
#if defined(__AVX512F__)
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return (rlx_v32)_mm512_slli_epi32(v, 16);
#elif defined(__AVX2__)
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (rlx_v32)_mm256_slli_epi32(v, 16);
#else
    return (rlx_v32)(rlx_halves(p) << 16);
#endif
}

/* The first n values; the others are 0 and not touched. */
RLX_ALWAYS_INLINE rlx_v32 rlx_widen_part_f16(const uint16_t *p, int64_t n) {
    uint16_t v[RLX_W32] = {0};
    memcpy(v, p, (size_t)n * 2);
    return rlx_widen_f16(v);
}

RLX_ALWAYS_INLINE rlx_v32 rlx_widen_part_bf16(const uint16_t *p, int64_t n) {
    uint16_t v[RLX_W32] = {0};
    memcpy(v, p, (size_t)n * 2);
    return rlx_widen_bf16(v);
}

#endif
