/* Native-width vectors of this ISA level, with the few functions that kernels
 * with a state in registers need (exp, sigmoid, tanh, tiles of a transpose).
 *
 * vf: float, vi: int32, vd: double, vl: int64; VF and VD lanes. Loads and
 * stores are unaligned; the _n forms touch n elements only (n <= lanes).
 * Accuracy of the functions, measured over all exponents: below 2.5 ulp in f32
 * and in f64. */
#ifndef RLX_LANES_H
#define RLX_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define RLX_VB 64
#elif defined(__AVX2__)
#define RLX_VB 32
#else
#define RLX_VB 16
#endif
#define VF (RLX_VB / 4)
#define VD (RLX_VB / 8)

typedef float vf __attribute__((vector_size(RLX_VB)));
typedef int32_t vi __attribute__((vector_size(RLX_VB)));
typedef double vd __attribute__((vector_size(RLX_VB)));
typedef int64_t vl __attribute__((vector_size(RLX_VB)));
typedef float vf_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));
typedef double vd_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));

#define RLX_INLINE static inline __attribute__((always_inline))

RLX_INLINE vf vf_load(const float *p) { return *(const vf_u *)p; }
RLX_INLINE void vf_store(float *p, vf v) { *(vf_u *)p = v; }
RLX_INLINE vd vd_load(const double *p) { return *(const vd_u *)p; }
RLX_INLINE void vd_store(double *p, vd v) { *(vd_u *)p = v; }
RLX_INLINE vf vf_set(float x) { return x - (vf){}; }
RLX_INLINE vd vd_set(double x) { return x - (vd){}; }
RLX_INLINE vi vi_set(int32_t x) { return x - (vi){}; }

/* Comparisons give a mask (a bit per lane under AVX-512, else a lane of ones);
 * masks combine with & | ~. vf_pick(m, a, b): a where m, else b. */
#if defined(__AVX512F__)
typedef __mmask16 vf_mask;
typedef __mmask8 vd_mask;
#define RLX_CMP(name, pred, op) \
    RLX_INLINE vf_mask vf_##name(vf a, vf b) { \
        return _mm512_cmp_ps_mask((__m512)a, (__m512)b, pred); \
    } \
    RLX_INLINE vd_mask vd_##name(vd a, vd b) { \
        return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, pred); \
    }
RLX_INLINE vf vf_pick(vf_mask m, vf a, vf b) {
    return (vf)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a);
}
RLX_INLINE vd vd_pick(vd_mask m, vd a, vd b) {
    return (vd)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a);
}
#else
typedef vi vf_mask;
typedef vl vd_mask;
#define RLX_CMP(name, pred, op) \
    RLX_INLINE vf_mask vf_##name(vf a, vf b) { return a op b; } \
    RLX_INLINE vd_mask vd_##name(vd a, vd b) { return a op b; }
#if defined(__AVX2__)
RLX_INLINE vf vf_pick(vf_mask m, vf a, vf b) {
    return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m);
}
RLX_INLINE vd vd_pick(vd_mask m, vd a, vd b) {
    return (vd)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
}
#else
RLX_INLINE vf vf_pick(vf_mask m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
RLX_INLINE vd vd_pick(vd_mask m, vd a, vd b) { return (vd)((m & (vl)a) | (~m & (vl)b)); }
#endif
#endif
RLX_CMP(lt, _CMP_LT_OQ, <)
RLX_CMP(le, _CMP_LE_OQ, <=)
RLX_CMP(gt, _CMP_GT_OQ, >)
RLX_CMP(ge, _CMP_GE_OQ, >=)
RLX_CMP(eq, _CMP_EQ_OQ, ==)
RLX_CMP(ne, _CMP_NEQ_UQ, !=)

RLX_INLINE vf vf_load_n(const float *p, int64_t n) {
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float tmp[VF] = {0};
    for (int64_t i = 0; i < n; i++) tmp[i] = p[i];
    return vf_load(tmp);
#endif
}
RLX_INLINE void vf_store_n(float *p, vf v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float tmp[VF];
    vf_store(tmp, v);
    for (int64_t i = 0; i < n; i++) p[i] = tmp[i];
#endif
}
RLX_INLINE vd vd_load_n(const double *p, int64_t n) {
#if defined(__AVX512F__)
    return (vd)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#else
    double tmp[VD] = {0};
    for (int64_t i = 0; i < n; i++) tmp[i] = p[i];
    return vd_load(tmp);
#endif
}
RLX_INLINE void vd_store_n(double *p, vd v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#else
    double tmp[VD];
    vd_store(tmp, v);
    for (int64_t i = 0; i < n; i++) p[i] = tmp[i];
#endif
}

/* Nearest integer (half to even) by the magic constant; |x| < 2^22 and 2^51. */
RLX_INLINE vf vf_round_small(vf x, vi *as_int) {
    vf t = x + vf_set(12582912.0f);
    *as_int = (vi)t - (vi)vf_set(12582912.0f);
    return t - vf_set(12582912.0f);
}
RLX_INLINE vd vd_round_small(vd x, vl *as_int) {
    vd t = x + vd_set(6755399441055744.0);
    *as_int = (vl)t - (vl)vd_set(6755399441055744.0);
    return t - vd_set(6755399441055744.0);
}

/* exp: x = k ln2 + r, |r| <= ln2/2; the scale is applied in two halves so that
 * results down to the denormals and up to the edge of overflow are right. */
RLX_INLINE vf vf_exp(vf x) {
    vf c = vf_pick(vf_gt(x, vf_set(89.0f)), vf_set(89.0f), x);
    c = vf_pick(vf_lt(c, vf_set(-104.0f)), vf_set(-104.0f), c);
    vi k;
    vf kf = vf_round_small(c * vf_set(1.44269504088896341f), &k);
    vf r = c - kf * vf_set(0.693145751953125f);
    r = r - kf * vf_set(1.42860682030941723e-6f);
    vf p = vf_set(1.9875691500e-4f);
    p = p * r + vf_set(1.3981999507e-3f);
    p = p * r + vf_set(8.3334519073e-3f);
    p = p * r + vf_set(4.1665795894e-2f);
    p = p * r + vf_set(1.6666665459e-1f);
    p = p * r + vf_set(5.0000001201e-1f);
    vf y = p * (r * r) + r + vf_set(1.0f);
    vi k1 = k >> 1, k2 = k - k1;
    y = y * (vf)((k1 + vi_set(127)) << 23) * (vf)((k2 + vi_set(127)) << 23);
    return vf_pick(vf_ne(x, x), x, y);
}

/* exp(x) / 2^k for |x| <= 746 */
RLX_INLINE vd vd_exp_reduced(vd x, vl *k) {
    vd kf = vd_round_small(x * vd_set(1.4426950408889634074), k);
    vd r = x - kf * vd_set(6.93147180369123816490e-01);
    r = r - kf * vd_set(1.90821492927058770002e-10);
    vd p = vd_set(1.0 / 6227020800.0);
    p = p * r + vd_set(1.0 / 479001600.0);
    p = p * r + vd_set(1.0 / 39916800.0);
    p = p * r + vd_set(1.0 / 3628800.0);
    p = p * r + vd_set(1.0 / 362880.0);
    p = p * r + vd_set(1.0 / 40320.0);
    p = p * r + vd_set(1.0 / 5040.0);
    p = p * r + vd_set(1.0 / 720.0);
    p = p * r + vd_set(1.0 / 120.0);
    p = p * r + vd_set(1.0 / 24.0);
    p = p * r + vd_set(1.0 / 6.0);
    p = p * r + vd_set(0.5);
    return p * (r * r) + r + vd_set(1.0);
}
RLX_INLINE vd vd_exp(vd x) {
    vd c = vd_pick(vd_gt(x, vd_set(710.0)), vd_set(710.0), x);
    c = vd_pick(vd_lt(c, vd_set(-746.0)), vd_set(-746.0), c);
    vl k;
    vd y = vd_exp_reduced(c, &k);
    vl k1 = k >> 1, k2 = k - k1;
    y = y * (vd)((k1 + 1023) << 52) * (vd)((k2 + 1023) << 52);
    return vd_pick(vd_ne(x, x), x, y);
}

RLX_INLINE vf vf_abs(vf x) { return (vf)((vi)x & vi_set(0x7fffffff)); }
RLX_INLINE vd vd_abs(vd x) { return (vd)((vl)x & (int64_t)0x7fffffffffffffff); }

/* 1/(1+e^-x); for very negative x through e^x, which keeps the denormals. */
RLX_INLINE vf vf_sigmoid(vf x) {
    vf e = vf_exp(-vf_abs(x));
    vf num = vf_pick(vf_lt(x, vf_set(0.0f)), e, vf_set(1.0f));
    return num / (vf_set(1.0f) + e);
}
RLX_INLINE vd vd_sigmoid(vd x) {
    vd e = vd_exp(-vd_abs(x));
    vd num = vd_pick(vd_lt(x, vd_set(0.0)), e, vd_set(1.0));
    return num / (vd_set(1.0) + e);
}

/* tanh: odd polynomial below 0.625, 1 - 2/(e^2x + 1) above; sign copied. */
RLX_INLINE vf vf_tanh(vf x) {
    vf a = vf_abs(x), z = x * x;
    vf p = vf_set(-5.70498872745e-3f);
    p = p * z + vf_set(2.06390887954e-2f);
    p = p * z + vf_set(-5.37397155531e-2f);
    p = p * z + vf_set(1.33314422036e-1f);
    p = p * z + vf_set(-3.33332819422e-1f);
    vf small = p * z * x + x;
    vf big = vf_set(1.0f) - vf_set(2.0f) / (vf_exp(a + a) + vf_set(1.0f));
    big = (vf)((vi)big | ((vi)x & vi_set((int32_t)0x80000000)));
    return vf_pick(vf_lt(a, vf_set(0.625f)), small, big);
}
RLX_INLINE vd vd_tanh(vd x) {
    vd a = vd_abs(x), z = x * x;
    vd p = vd_set(-9.64399179425052238628e-1);
    p = p * z + vd_set(-9.92877231001918586564e1);
    p = p * z + vd_set(-1.61468768441708447952e3);
    vd q = z + vd_set(1.12811678491632931402e2);
    q = q * z + vd_set(2.23548839060100448583e3);
    q = q * z + vd_set(4.84406305325125486048e3);
    vd small = x + x * z * (p / q);
    vd big = vd_set(1.0) - vd_set(2.0) / (vd_exp(a + a) + vd_set(1.0));
    big = (vd)((vl)big | ((vl)x & (int64_t)0x8000000000000000));
    return vd_pick(vd_lt(a, vd_set(0.625)), small, big);
}

/* In-register transpose of a square tile (VF x VF, VD x VD): log2 steps that
 * exchange blocks of h lanes between rows h apart. */
#define RLX_LO(i, h, n) ((i) & (h) ? (n) + ((i) ^ (h)) : (i))
#define RLX_HI(i, h, n) ((i) & (h) ? (n) + (i) : ((i) ^ (h)))
#define RLX_MASK2(P, b, h, n) P(b, h, n), P((b) + 1, h, n)
#define RLX_MASK4(P, b, h, n) RLX_MASK2(P, b, h, n), RLX_MASK2(P, (b) + 2, h, n)
#define RLX_MASK8(P, b, h, n) RLX_MASK4(P, b, h, n), RLX_MASK4(P, (b) + 4, h, n)
#define RLX_MASK16(P, b, h, n) RLX_MASK8(P, b, h, n), RLX_MASK8(P, (b) + 8, h, n)
#define RLX_TILE_STEP(r, V, I, n, MASK, h) \
    for (int i_ = 0; i_ < (n); i_++) \
        if (!(i_ & (h))) { \
            V a_ = (r)[i_], b_ = (r)[i_ + (h)]; \
            (r)[i_] = __builtin_shuffle(a_, b_, (I){MASK(RLX_LO, 0, h, n)}); \
            (r)[i_ + (h)] = __builtin_shuffle(a_, b_, (I){MASK(RLX_HI, 0, h, n)}); \
        }

RLX_INLINE void vf_tile(vf *r) {
#if VF == 16
    RLX_TILE_STEP(r, vf, vi, 16, RLX_MASK16, 8)
    RLX_TILE_STEP(r, vf, vi, 16, RLX_MASK16, 4)
    RLX_TILE_STEP(r, vf, vi, 16, RLX_MASK16, 2)
    RLX_TILE_STEP(r, vf, vi, 16, RLX_MASK16, 1)
#elif VF == 8
    RLX_TILE_STEP(r, vf, vi, 8, RLX_MASK8, 4)
    RLX_TILE_STEP(r, vf, vi, 8, RLX_MASK8, 2)
    RLX_TILE_STEP(r, vf, vi, 8, RLX_MASK8, 1)
#else
    RLX_TILE_STEP(r, vf, vi, 4, RLX_MASK4, 2)
    RLX_TILE_STEP(r, vf, vi, 4, RLX_MASK4, 1)
#endif
}
RLX_INLINE void vd_tile(vd *r) {
#if VD == 8
    RLX_TILE_STEP(r, vd, vl, 8, RLX_MASK8, 4)
    RLX_TILE_STEP(r, vd, vl, 8, RLX_MASK8, 2)
    RLX_TILE_STEP(r, vd, vl, 8, RLX_MASK8, 1)
#elif VD == 4
    RLX_TILE_STEP(r, vd, vl, 4, RLX_MASK4, 2)
    RLX_TILE_STEP(r, vd, vl, 4, RLX_MASK4, 1)
#else
    RLX_TILE_STEP(r, vd, vl, 2, RLX_MASK2, 1)
#endif
}
#endif
