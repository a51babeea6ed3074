/* A vector of f32 from storage types in memory. The bits are those of half.h and float8.h. */
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

RLX_ALWAYS_INLINE rlx_vi32 rlx_bytes(const uint8_t *p) {
#if defined(__AVX512F__)
    return (rlx_vi32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
    return (rlx_vi32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#else
    typedef uint8_t bytes __attribute__((vector_size(RLX_W32)));
    bytes v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, rlx_vi32);
#endif
}

/* As a half the byte has the exponents of e5m2, and the mantissa of e4m3 reaches one bit into them. */
RLX_ALWAYS_INLINE rlx_v32 rlx_widen_f8e5m2(const uint8_t *p) {
#if defined(__AVX512F__)
    __m256i h = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    return (rlx_v32)_mm512_cvtph_ps(_mm256_slli_epi16(h, 8));
#elif defined(__AVX2__)
    __m128i h = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p));
    return (rlx_v32)_mm256_cvtph_ps(_mm_slli_epi16(h, 8));
#else
    rlx_vi32 x = rlx_bytes(p), u = x & 0x7F, tiny = u < 4, special = u >= 0x7C;
    rlx_vi32 small = (rlx_vi32)(__builtin_convertvector(u, rlx_v32) * 0x1p-16f), normal = (u << 21) + (112 << 23);
    rlx_vi32 beyond = 0x7F800000 | ((u > 0x7C) & 0x00400000);
    return (rlx_v32)((small & tiny) | (normal & ~tiny & ~special) | (beyond & special) | (x & 0x80) << 24);
#endif
}

RLX_ALWAYS_INLINE rlx_v32 rlx_widen_f8e4m3fn(const uint8_t *p) {
#if defined(__AVX512F__)
    __m128i x = _mm_loadu_si128((const __m128i *)p), seven = _mm_set1_epi8(0x7F);
    __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 7);
    __m512 v = _mm512_cvtph_ps(_mm256_and_si256(h, _mm256_set1_epi16((short)0xBFFF)));
    __mmask16 number = _mm_cmpneq_epi8_mask(_mm_and_si128(x, seven), seven);
    __m512 nan = _mm512_set1_ps(__builtin_nanf(""));
    return (rlx_v32)_mm512_mask_mul_ps(nan, number, v, _mm512_set1_ps(256.0f));
#elif defined(__AVX2__)
    __m128i x = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p));
    __m256 v = _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(x, 7), _mm_set1_epi16((short)0xBFFF)));
    v = _mm256_mul_ps(v, _mm256_set1_ps(256.0f));
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
    return (rlx_v32)_mm256_or_ps(v, _mm256_cmp_ps(size, _mm256_set1_ps(480.0f), _CMP_EQ_OQ));
#else
    rlx_vi32 x = rlx_bytes(p), u = x & 0x7F, tiny = u < 8, nan = (u == 0x7F) & 0x7FC00000;
    rlx_vi32 small = (rlx_vi32)(__builtin_convertvector(u, rlx_v32) * 0x1p-9f), normal = (u << 20) + (120 << 23);
    return (rlx_v32)((small & tiny) | (normal & ~tiny) | nan | (x & 0x80) << 24);
#endif
}

/* The first n values; the others are 0 and not touched. */
#define RLX_WIDEN_PART(S)                                                          \
    RLX_ALWAYS_INLINE rlx_v32 rlx_widen_part_##S(const uint16_t *p, int64_t n) {   \
        uint16_t v[RLX_W32] = {0};                                                 \
        memcpy(v, p, (size_t)n * 2);                                               \
        return rlx_widen_##S(v);                                                   \
    }
RLX_WIDEN_PART(f16)
RLX_WIDEN_PART(bf16)
#undef RLX_WIDEN_PART

#endif
