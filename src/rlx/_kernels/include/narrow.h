/* Vectors of f32 to narrow integers: truncated, saturated, NaN gives 0.
 *
 * By hand: what the compiler makes of the selects is four times slower. `max` and `min` give the second operand
 * for NaN, conversions give INT32_MIN for what does not fit.
 *
 * rlx_narrow_<to>(d, x): RLX_W32 codes; rlx_narrow_part_<to>(d, x, n): the first n < RLX_W32. */
#ifndef RLX_NARROW_H
#define RLX_NARROW_H

#include "ew.h"
#include "tile.h"

#if defined(__AVX512BW__)
#define RLX_NARROW(to, TO, bounded, pack, WHOLE, PART)                                    \
    RLX_INLINE void rlx_narrow_##to(TO *d, rlx_v32 v) {                                   \
        const __m512 x = (__m512)v;                                                       \
        WHOLE(d, pack(_mm512_cvttps_epi32(bounded)));                                     \
    }                                                                                     \
    RLX_INLINE void rlx_narrow_part_##to(TO *d, rlx_v32 v, int64_t n) {                   \
        const __m512 x = (__m512)v;                                                       \
        PART(d, (__mmask16)((1u << n) - 1), pack(_mm512_cvttps_epi32(bounded)));          \
    }
#define RLX_BYTES(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define RLX_WORDS(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define RLX_SIGNED(high)                                                                  \
    _mm512_maskz_min_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, _mm512_set1_ps(high))
#define RLX_UNSIGNED _mm512_max_ps(x, _mm512_setzero_ps())
RLX_NARROW(i8, int8_t, RLX_SIGNED(127), _mm512_cvtsepi32_epi8, RLX_BYTES, _mm_mask_storeu_epi8)
RLX_NARROW(i16, int16_t, RLX_SIGNED(32767), _mm512_cvtsepi32_epi16, RLX_WORDS, _mm256_mask_storeu_epi16)
RLX_NARROW(u8, uint8_t, RLX_UNSIGNED, _mm512_cvtusepi32_epi8, RLX_BYTES, _mm_mask_storeu_epi8)
RLX_NARROW(u16, uint16_t, RLX_UNSIGNED, _mm512_cvtusepi32_epi16, RLX_WORDS, _mm256_mask_storeu_epi16)
#undef RLX_BYTES
#undef RLX_WORDS
#undef RLX_SIGNED
#undef RLX_UNSIGNED
#else
#if defined(__AVX2__)
#define RLX_CLAMPED(x, low, high) \
    _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(low)), _mm256_set1_ps(high))
#define RLX_SIGNED(x, low, high) \
    RLX_CLAMPED(_mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q)), low, high)
#define RLX_NARROW_WHOLE(to, TO, LOW, HIGH, bounded, pack)                                \
    RLX_INLINE void rlx_narrow_##to(TO *d, rlx_v32 v) {                                   \
        const __m256i r = _mm256_cvttps_epi32(bounded((__m256)v, LOW, HIGH));             \
        const __m128i low = _mm256_castsi256_si128(r), high = _mm256_extracti128_si256(r, 1); \
        pack;                                                                             \
    }
#define RLX_BYTES(v) _mm_storel_epi64((__m128i *)d, v)
#define RLX_WORDS(v) _mm_storeu_si128((__m128i *)d, v)
#define RLX_PACK_i8 const __m128i w = _mm_packs_epi32(low, high); RLX_BYTES(_mm_packs_epi16(w, w))
#define RLX_PACK_u8 const __m128i w = _mm_packus_epi32(low, high); RLX_BYTES(_mm_packus_epi16(w, w))
#define RLX_PACK_i16 RLX_WORDS(_mm_packs_epi32(low, high))
#define RLX_PACK_u16 RLX_WORDS(_mm_packus_epi32(low, high))
#else
#define RLX_SIGNED
#define RLX_CLAMPED
#define RLX_NARROW_WHOLE(to, TO, LOW, HIGH, bounded, pack)                                \
    RLX_INLINE void rlx_narrow_##to(TO *d, rlx_v32 v) {                                   \
        for (int k = 0; k < RLX_W32; k++) {                                               \
            float x = v[k] == v[k] ? v[k] : 0;                                            \
            x = x < LOW ? LOW : x;                                                        \
            d[k] = (TO)(int32_t)(x > HIGH ? HIGH : x);                                    \
        }                                                                                 \
    }
#endif
#define RLX_NARROW(to, TO, LOW, HIGH, bounded)                                            \
    RLX_NARROW_WHOLE(to, TO, LOW, HIGH, bounded, RLX_PACK_##to)                           \
    RLX_INLINE void rlx_narrow_part_##to(TO *d, rlx_v32 v, int64_t n) {                   \
        TO all[RLX_W32];                                                                  \
        rlx_narrow_##to(all, v);                                                          \
        for (int64_t k = 0; k < n; k++) d[k] = all[k];                                    \
    }
RLX_NARROW(i8, int8_t, -128, 127, RLX_SIGNED)
RLX_NARROW(i16, int16_t, -32768, 32767, RLX_SIGNED)
RLX_NARROW(u8, uint8_t, 0, 255, RLX_CLAMPED)
RLX_NARROW(u16, uint16_t, 0, 65535, RLX_CLAMPED)
#undef RLX_SIGNED
#undef RLX_CLAMPED
#undef RLX_NARROW_WHOLE
#endif
#undef RLX_NARROW

#endif
