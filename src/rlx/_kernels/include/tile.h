/* Register tiles: vector types of this ISA level, masked tails, transposition.
 *
 * A vector holds one panel row: NR = VBYTES / item size columns. The types are
 * GCC vector extensions, so the micro-kernels are plain C that the compiler
 * keeps in registers; what the extensions cannot say (masked access, max with
 * the operand order that lets NaN through) is here, once, behind #ifdef. */
#ifndef RLX_TILE_H
#define RLX_TILE_H

#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define RLX_VBYTES 64
#define RLX_VREGS 32
#elif defined(__AVX2__)
#define RLX_VBYTES 32
#define RLX_VREGS 16
#else
#define RLX_VBYTES 16
#define RLX_VREGS 16
#endif

#define RLX_ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float rlx_v32 __attribute__((vector_size(RLX_VBYTES)));
typedef double rlx_v64 __attribute__((vector_size(RLX_VBYTES)));
typedef int32_t rlx_vi32 __attribute__((vector_size(RLX_VBYTES)));
typedef int64_t rlx_vi64 __attribute__((vector_size(RLX_VBYTES)));
typedef float rlx_v32u __attribute__((vector_size(RLX_VBYTES), aligned(4), may_alias));
typedef double rlx_v64u __attribute__((vector_size(RLX_VBYTES), aligned(8), may_alias));
typedef int32_t rlx_vi32u __attribute__((vector_size(RLX_VBYTES), aligned(4), may_alias));
enum { RLX_W32 = RLX_VBYTES / 4, RLX_W64 = RLX_VBYTES / 8 };

/* The first n of a vector's elements; the others are 0 and not touched. */
RLX_ALWAYS_INLINE rlx_v32 rlx_load_part_f32(const float *p, int64_t n) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
    rlx_vi32 lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (rlx_v32)_mm256_maskload_ps(p, (__m256i)(lane < (int32_t)n));
#else
    rlx_v32 v = {0};
    memcpy(&v, p, (size_t)n * 4);
    return v;
#endif
}

RLX_ALWAYS_INLINE void rlx_store_part_f32(float *p, rlx_v32 v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
    rlx_vi32 lane = {0, 1, 2, 3, 4, 5, 6, 7};
    _mm256_maskstore_ps(p, (__m256i)(lane < (int32_t)n), (__m256)v);
#else
    memcpy(p, &v, (size_t)n * 4);
#endif
}

RLX_ALWAYS_INLINE rlx_v64 rlx_load_part_f64(const double *p, int64_t n) {
#if defined(__AVX512F__)
    return (rlx_v64)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif defined(__AVX2__)
    rlx_vi64 lane = {0, 1, 2, 3};
    return (rlx_v64)_mm256_maskload_pd(p, (__m256i)(lane < n));
#else
    rlx_v64 v = {0};
    memcpy(&v, p, (size_t)n * 8);
    return v;
#endif
}

RLX_ALWAYS_INLINE void rlx_store_part_f64(double *p, rlx_v64 v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif defined(__AVX2__)
    rlx_vi64 lane = {0, 1, 2, 3};
    _mm256_maskstore_pd(p, (__m256i)(lane < n), (__m256d)v);
#else
    memcpy(p, &v, (size_t)n * 8);
#endif
}

/* Clamp to [lo, hi]: v < lo ? lo : v, then v > hi ? hi : v. NaN stays NaN. */
RLX_ALWAYS_INLINE rlx_v32 rlx_clamp_f32(rlx_v32 v, rlx_v32 lo, rlx_v32 hi) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_min_ps((__m512)hi, _mm512_max_ps((__m512)lo, (__m512)v));
#elif defined(__AVX2__)
    return (rlx_v32)_mm256_min_ps((__m256)hi, _mm256_max_ps((__m256)lo, (__m256)v));
#else
    rlx_vi32 m = v < lo;
    v = (rlx_v32)(((rlx_vi32)lo & m) | ((rlx_vi32)v & ~m));
    m = v > hi;
    return (rlx_v32)(((rlx_vi32)hi & m) | ((rlx_vi32)v & ~m));
#endif
}

RLX_ALWAYS_INLINE rlx_v64 rlx_clamp_f64(rlx_v64 v, rlx_v64 lo, rlx_v64 hi) {
#if defined(__AVX512F__)
    return (rlx_v64)_mm512_min_pd((__m512d)hi, _mm512_max_pd((__m512d)lo, (__m512d)v));
#elif defined(__AVX2__)
    return (rlx_v64)_mm256_min_pd((__m256d)hi, _mm256_max_pd((__m256d)lo, (__m256d)v));
#else
    rlx_vi64 m = v < lo;
    v = (rlx_v64)(((rlx_vi64)lo & m) | ((rlx_vi64)v & ~m));
    m = v > hi;
    return (rlx_v64)(((rlx_vi64)hi & m) | ((rlx_vi64)v & ~m));
#endif
}

/* Sum of the lanes: halves are added until one lane is left. */
RLX_ALWAYS_INLINE float rlx_sum_f32(rlx_v32 v) {
#if defined(__AVX512F__)
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
    __m256 h = (__m256)v;
#endif
#ifdef __AVX2__
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

RLX_ALWAYS_INLINE double rlx_sum_f64(rlx_v64 v) {
#if defined(__AVX512F__)
    __m256d h = _mm256_add_pd(_mm512_castpd512_pd256((__m512d)v), _mm512_extractf64x4_pd((__m512d)v, 1));
#elif defined(__AVX2__)
    __m256d h = (__m256d)v;
#endif
#ifdef __AVX2__
    __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
#else
    return v[0] + v[1];
#endif
}

/* dst[c * ldd + r] = src[r * lds + c] for r < rows, c < cols. */
static inline void rlx_transpose_f32(float *dst, int64_t ldd, const float *src, int64_t lds,
                                     int64_t rows, int64_t cols) {
    int64_t r = 0;
#ifdef __AVX2__
    for (; r + 8 <= rows; r += 8) {
        const float *s = src + r * lds;
        float *d = dst + r;
        int64_t c = 0;
        for (; c + 8 <= cols; c += 8) {
            __m256 v[8], u[8];
            for (int i = 0; i < 4; i++) {
                v[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(s + i * lds + c)),
                                            _mm_loadu_ps(s + (i + 4) * lds + c), 1);
                v[i + 4] = _mm256_insertf128_ps(
                    _mm256_castps128_ps256(_mm_loadu_ps(s + i * lds + c + 4)),
                    _mm_loadu_ps(s + (i + 4) * lds + c + 4), 1);
            }
            for (int h = 0; h < 8; h += 4) {
                u[h] = _mm256_unpacklo_ps(v[h], v[h + 1]);
                u[h + 1] = _mm256_unpackhi_ps(v[h], v[h + 1]);
                u[h + 2] = _mm256_unpacklo_ps(v[h + 2], v[h + 3]);
                u[h + 3] = _mm256_unpackhi_ps(v[h + 2], v[h + 3]);
                _mm256_storeu_ps(d + (c + h) * ldd, _mm256_shuffle_ps(u[h], u[h + 2], 0x44));
                _mm256_storeu_ps(d + (c + h + 1) * ldd, _mm256_shuffle_ps(u[h], u[h + 2], 0xee));
                _mm256_storeu_ps(d + (c + h + 2) * ldd,
                                 _mm256_shuffle_ps(u[h + 1], u[h + 3], 0x44));
                _mm256_storeu_ps(d + (c + h + 3) * ldd,
                                 _mm256_shuffle_ps(u[h + 1], u[h + 3], 0xee));
            }
        }
        for (; c < cols; c++)
            for (int i = 0; i < 8; i++)
                d[c * ldd + i] = s[i * lds + c];
    }
#endif
    for (; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            dst[c * ldd + r] = src[r * lds + c];
}

static inline void rlx_transpose_f64(double *dst, int64_t ldd, const double *src, int64_t lds,
                                     int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            dst[c * ldd + r] = src[r * lds + c];
}

#endif
