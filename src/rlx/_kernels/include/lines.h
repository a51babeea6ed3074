/* Every second element of an image line. */
#ifndef RLX_LINES_H
#define RLX_LINES_H

#include "tile.h"

/* The even elements of two vectors. */
RLX_ALWAYS_INLINE rlx_v32 rlx_even_f32(rlx_v32 a, rlx_v32 b) {
#if defined(__AVX512F__)
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (rlx_v32)_mm512_permutex2var_ps((__m512)a, even, (__m512)b);
#elif defined(__AVX2__)
    __m256 v = _mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
    return (rlx_v32)_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
#else
    return (rlx_v32){a[0], a[2], b[0], b[2]};
#endif
}

/* The odd elements of two vectors. */
RLX_ALWAYS_INLINE rlx_v32 rlx_odd_f32(rlx_v32 a, rlx_v32 b) {
#if defined(__AVX512F__)
    __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return (rlx_v32)_mm512_permutex2var_ps((__m512)a, odd, (__m512)b);
#elif defined(__AVX2__)
    __m256 v = _mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd);
    return (rlx_v32)_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
#else
    return (rlx_v32){a[1], a[3], b[1], b[3]};
#endif
}

#endif
