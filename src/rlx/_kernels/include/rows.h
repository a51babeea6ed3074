/* Partial loads and horizontal folds for kernels that work row by row. */
#ifndef RLX_ROWS_H
#define RLX_ROWS_H

#include "lanes.h"
#include "vec.h"

/* Maximum that skips a NaN in p: p > a ? p : a. */
#if defined(__AVX512F__)
RLX_INLINE vf vf_max(vf p, vf a) { return (vf)_mm512_max_ps((__m512)p, (__m512)a); }
RLX_INLINE vd vd_max(vd p, vd a) { return (vd)_mm512_max_pd((__m512d)p, (__m512d)a); }
#elif defined(__AVX2__)
RLX_INLINE vf vf_max(vf p, vf a) { return (vf)_mm256_max_ps((__m256)p, (__m256)a); }
RLX_INLINE vd vd_max(vd p, vd a) { return (vd)_mm256_max_pd((__m256d)p, (__m256d)a); }
#else
RLX_INLINE vf vf_max(vf p, vf a) { return vf_pick(vf_gt(p, a), p, a); }
RLX_INLINE vd vd_max(vd p, vd a) { return vd_pick(vd_gt(p, a), p, a); }
#endif

/* Extrema in which a NaN of either operand wins: a NaN comes out of one of the
 * two orders, and the bits of anything or-ed with a NaN are a NaN. */
#define RLX_EXTREMUM(V, name, INTRINSIC, REG)                           \
    RLX_INLINE V V##_##name##_nan(V a, V b) {                                    \
        return (V)((V##_bits)(V)INTRINSIC((REG)a, (REG)b) |                      \
                   (V##_bits)(V)INTRINSIC((REG)b, (REG)a));                      \
    }
typedef vi vf_bits;
typedef vl vd_bits;
#if defined(__AVX512F__)
RLX_EXTREMUM(vf, max, _mm512_max_ps, __m512)
RLX_EXTREMUM(vf, min, _mm512_min_ps, __m512)
RLX_EXTREMUM(vd, max, _mm512_max_pd, __m512d)
RLX_EXTREMUM(vd, min, _mm512_min_pd, __m512d)
#elif defined(__AVX2__)
RLX_EXTREMUM(vf, max, _mm256_max_ps, __m256)
RLX_EXTREMUM(vf, min, _mm256_min_ps, __m256)
RLX_EXTREMUM(vd, max, _mm256_max_pd, __m256d)
RLX_EXTREMUM(vd, min, _mm256_min_pd, __m256d)
#else
RLX_INLINE vf vf_max_nan(vf a, vf b) { return vf_pick(vf_gt(b, a) | vf_ne(b, b), b, a); }
RLX_INLINE vf vf_min_nan(vf a, vf b) { return vf_pick(vf_lt(b, a) | vf_ne(b, b), b, a); }
RLX_INLINE vd vd_max_nan(vd a, vd b) { return vd_pick(vd_gt(b, a) | vd_ne(b, b), b, a); }
RLX_INLINE vd vd_min_nan(vd a, vd b) { return vd_pick(vd_lt(b, a) | vd_ne(b, b), b, a); }
#endif
#undef RLX_EXTREMUM

/* The first n < lanes elements; the other lanes hold `fill`. Stores of n. */
#if defined(__AVX512F__)
RLX_INLINE vf vf_load_fill(const float *p, int64_t n, vf fill) {
    return (vf)_mm512_mask_loadu_ps((__m512)fill, (__mmask16)((1u << n) - 1), p);
}
RLX_INLINE vd vd_load_fill(const double *p, int64_t n, vd fill) {
    return (vd)_mm512_mask_loadu_pd((__m512d)fill, (__mmask8)((1u << n) - 1), p);
}
RLX_INLINE void vf_store_part(float *p, vf v, int64_t n) { vf_store_n(p, v, n); }
RLX_INLINE void vd_store_part(double *p, vd v, int64_t n) { vd_store_n(p, v, n); }
#elif defined(__AVX2__)
static const int64_t rlx_row_masks[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
static const int32_t rlx_row_masks32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
RLX_INLINE __m256i vf_row_mask(int64_t n) {
    return _mm256_loadu_si256((const __m256i *)(rlx_row_masks32 + 8 - n));
}
RLX_INLINE __m256i vd_row_mask(int64_t n) {
    return _mm256_loadu_si256((const __m256i *)(rlx_row_masks + 4 - n));
}
RLX_INLINE vf vf_load_fill(const float *p, int64_t n, vf fill) {
    const __m256i m = vf_row_mask(n);
    return (vf)_mm256_blendv_ps((__m256)fill, _mm256_maskload_ps(p, m), (__m256)m);
}
RLX_INLINE vd vd_load_fill(const double *p, int64_t n, vd fill) {
    const __m256i m = vd_row_mask(n);
    return (vd)_mm256_blendv_pd((__m256d)fill, _mm256_maskload_pd(p, m), (__m256d)m);
}
RLX_INLINE void vf_store_part(float *p, vf v, int64_t n) {
    _mm256_maskstore_ps(p, vf_row_mask(n), (__m256)v);
}
RLX_INLINE void vd_store_part(double *p, vd v, int64_t n) {
    _mm256_maskstore_pd(p, vd_row_mask(n), (__m256d)v);
}
#else
RLX_INLINE vf vf_load_fill(const float *p, int64_t n, vf fill) {
    for (int64_t i = 0; i < n; i++)
        fill[i] = p[i];
    return fill;
}
RLX_INLINE vd vd_load_fill(const double *p, int64_t n, vd fill) {
    for (int64_t i = 0; i < n; i++)
        fill[i] = p[i];
    return fill;
}
RLX_INLINE void vf_store_part(float *p, vf v, int64_t n) { vf_store_n(p, v, n); }
RLX_INLINE void vd_store_part(double *p, vd v, int64_t n) { vd_store_n(p, v, n); }
#endif

/* Horizontal sum and maximum (of numbers), in a fixed order. */
RLX_INLINE double vd_sum(vd v) {
#if defined(__AVX512F__)
    const __m256d q = _mm256_add_pd(_mm512_castpd512_pd256((__m512d)v),
                                    _mm512_extractf64x4_pd((__m512d)v, 1));
#elif defined(__AVX2__)
    const __m256d q = (__m256d)v;
#endif
#if defined(__AVX2__)
    const __m128d h = _mm_add_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
#else
    return v[0] + v[1];
#endif
}
RLX_INLINE double vd_peak(vd v) {
#if defined(__AVX512F__)
    const __m256d q = _mm256_max_pd(_mm512_castpd512_pd256((__m512d)v),
                                    _mm512_extractf64x4_pd((__m512d)v, 1));
#elif defined(__AVX2__)
    const __m256d q = (__m256d)v;
#endif
#if defined(__AVX2__)
    const __m128d h = _mm_max_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
    return _mm_cvtsd_f64(_mm_max_sd(h, _mm_unpackhi_pd(h, h)));
#else
    return v[0] > v[1] ? v[0] : v[1];
#endif
}
RLX_INLINE float vf_peak(vf v) {
#if defined(__AVX512F__)
    const __m256 q = _mm256_max_ps(_mm512_castps512_ps256((__m512)v),
                                   _mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
    const __m256 q = (__m256)v;
#endif
#if defined(__AVX2__)
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(q), _mm256_extractf128_ps(q, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
#else
    float top = v[0];
    for (int l = 1; l < VF; l++)
        top = v[l] > top ? v[l] : top;
    return top;
#endif
}

/* Running sums of whole registers, kept in double. A register of floats is
 * widened into two halves: lane l of `low` or `high` is lane l or VD + l. */
typedef struct {
    vd low, high;
} vf_total;
typedef struct {
    vd sum, lost; /* Kahan */
} vd_total;

RLX_INLINE vd vf_low(vf v) {
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#else
    return (vd){v[0], v[1]};
#endif
}
RLX_INLINE vd vf_high(vf v) {
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#else
    return (vd){v[2], v[3]};
#endif
}
RLX_INLINE void vf_take(vf_total *s, vf v) {
    s->low += vf_low(v);
    s->high += vf_high(v);
}
RLX_INLINE void vd_take(vd_total *s, vd v) {
    const vd y = v - s->lost, t = s->sum + y;
    const vd lost = (t - s->sum) - y;
    s->lost = (vd)((vl)lost & (vl)(lost - lost == 0)); /* an infinite sum stays infinite */
    s->sum = t;
}
RLX_INLINE double vf_total_of(const vf_total *s) { return vd_sum(s->low + s->high); }
RLX_INLINE double vd_total_of(const vd_total *s) { return vd_sum(s->sum) - vd_sum(s->lost); }
RLX_INLINE double vf_lane_of(const vf_total *s, int l) {
    return l < VD ? s->low[l] : s->high[l - VD];
}
RLX_INLINE double vd_lane_of(const vd_total *s, int l) { return s->sum[l] - s->lost[l]; }

#endif
