/* What convolutions of channels-first images take of a line. */
#ifndef RLX_LINES_H
#define RLX_LINES_H

#include "tile.h"

/* The elements first, first + 2, ... of two vectors; `first` is 0 or 1. */
RLX_ALWAYS_INLINE rlx_v32 rlx_every_second_f32(rlx_v32 a, rlx_v32 b, const int first) {
#if defined(__AVX512F__)
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (rlx_v32)_mm512_permutex2var_ps((__m512)a, _mm512_add_epi32(even, _mm512_set1_epi32(first)), (__m512)b);
#elif defined(__AVX2__)
    __m256 u = (__m256)a, w = (__m256)b, v = first ? _mm256_shuffle_ps(u, w, 0xdd) : _mm256_shuffle_ps(u, w, 0x88);
    return (rlx_v32)_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
#else
    return (rlx_v32){a[first], a[first + 2], b[first], b[first + 2]};
#endif
}

/* Places [*from, *to) of a line of `length` places that are inside an image: place j is its element j * step + x. */
RLX_ALWAYS_INLINE void rlx_inside(int64_t x, int64_t step, int64_t in, int64_t length, int64_t *from, int64_t *to) {
    int64_t first = x < 0 ? (-x + step - 1) / step : 0, end = x < in ? (in - x + step - 1) / step : 0;
    *from = first < length ? first : length;
    *to = end > length ? length : end > *from ? end : *from;
}

#endif
