/* float64 transcendentals on whole vectors (rlx_v64 of tile.h), for levels with
 * fused multiply-add.
 *
 * Accuracy: at most 2 ulp over the whole range; the measured numbers stand in
 * docs/reference/accuracy.md. The structure is that of vmathf.h; in addition
 * quotients are corrected by their remainder, which fma makes exact, and sums
 * that feed a quotient carry their rounding error in a second double. sin and
 * cos reduce with pi/2 in three doubles: the first difference is exact. */
#ifndef RLX_VMATHD_H
#define RLX_VMATHD_H

#include "tile.h"

#if defined(__AVX2__) && defined(__FMA__)

#define RLX_VMATH64 static inline __attribute__((always_inline))

RLX_VMATH64 rlx_v64 rlx_wall(double x) { return (rlx_v64){0} + x; }
RLX_VMATH64 rlx_v64 rlx_wabs(rlx_v64 x) {
    return (rlx_v64)((rlx_vi64)x & 0x7FFFFFFFFFFFFFFF);
}
RLX_VMATH64 rlx_v64 rlx_wcopysign(rlx_v64 x, rlx_v64 sign) {
    rlx_vi64 low = (rlx_vi64){0} + 0x7FFFFFFFFFFFFFFF;
    return (rlx_v64)(((rlx_vi64)x & low) | ((rlx_vi64)sign & ~low));
}

#if defined(__AVX512F__)
typedef __mmask8 rlx_mask64;
#define RLX_WLESS(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_LT_OQ)
RLX_VMATH64 rlx_v64 rlx_wselect(rlx_mask64 m, rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a);
}
RLX_VMATH64 rlx_v64 rlx_wmin(rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm512_min_pd((__m512d)a, (__m512d)b);
}
RLX_VMATH64 rlx_v64 rlx_wmax(rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm512_max_pd((__m512d)a, (__m512d)b);
}
RLX_VMATH64 rlx_v64 rlx_wround(rlx_v64 x) {
    return (rlx_v64)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_VMATH64 rlx_v64 rlx_wfma(rlx_v64 a, rlx_v64 b, rlx_v64 c) {
    return (rlx_v64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
/* v 2^k for whole k */
RLX_VMATH64 rlx_v64 rlx_wscale(rlx_v64 v, rlx_v64 k) {
    return (rlx_v64)_mm512_scalef_pd((__m512d)v, (__m512d)k);
}
RLX_VMATH64 rlx_v64 rlx_wpow2(rlx_v64 k) { return rlx_wscale(rlx_wall(1), k); }
#else
typedef rlx_vi64 rlx_mask64;
#define RLX_WLESS(a, b) ((a) < (b))
RLX_VMATH64 rlx_v64 rlx_wselect(rlx_mask64 m, rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
}
RLX_VMATH64 rlx_v64 rlx_wmin(rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm256_min_pd((__m256d)a, (__m256d)b);
}
RLX_VMATH64 rlx_v64 rlx_wmax(rlx_v64 a, rlx_v64 b) {
    return (rlx_v64)_mm256_max_pd((__m256d)a, (__m256d)b);
}
RLX_VMATH64 rlx_v64 rlx_wround(rlx_v64 x) {
    return (rlx_v64)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_VMATH64 rlx_v64 rlx_wfma(rlx_v64 a, rlx_v64 b, rlx_v64 c) {
    return (rlx_v64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
/* 2^k for whole |k| < 1022: k + 1023 into the exponent field */
RLX_VMATH64 rlx_v64 rlx_wpow2(rlx_v64 k) {
    return (rlx_v64)((rlx_vi64)(k + (0x1.8p52 + 1023)) << 52);
}
/* |k| < 2000: two factors, so that v 2^k is rounded once */
RLX_VMATH64 rlx_v64 rlx_wscale(rlx_v64 v, rlx_v64 k) {
    rlx_v64 half = rlx_wround(0.5 * k);
    return v * rlx_wpow2(half) * rlx_wpow2(k - half);
}
#endif

/* ---- exponentials ---- */

/* x = k ln2 + r; exp(r) - 1 = result + *low */
RLX_VMATH64 rlx_v64 rlx_wexp_core(rlx_v64 x, rlx_v64 *k, rlx_v64 *low) {
    *k = rlx_wround(x * 0x1.71547652b82fep+0);
    rlx_v64 high = x - *k * 6.93147180369123816490e-01; /* exact */
    rlx_v64 r = high - *k * 1.90821492927058770002e-10;
    rlx_v64 rest = (high - r) - *k * 1.90821492927058770002e-10;
    rlx_v64 q = 2.0914686968086877233e-9 * r + 2.5105217004720745164e-8;
    q = q * r + 2.7557273643110295328e-7;
    q = q * r + 2.755725540020642443e-6;
    q = q * r + 2.4801587325547741216e-5;
    q = q * r + 0.00019841269874820625271;
    q = q * r + 0.0013888888888883748305;
    q = q * r + 0.0083333333333261351258;
    q = q * r + 0.041666666666666669755;
    q = q * r + 0.16666666666666670991;
    q = q * r + 0.5;
    rlx_v64 p = q * (r * r) + rest, e = r + p;
    *low = (r - e) + p;
    return e;
}

RLX_VMATH64 rlx_v64 rlx_wexp_f64(rlx_v64 x) {
    rlx_v64 k, low;
    x = rlx_clamp_f64(x, rlx_wall(-746), rlx_wall(710));
    rlx_v64 e = rlx_wexp_core(x, &k, &low);
    return rlx_wscale(1.0 + (e + low), k);
}

/* (top + top_low) / (bottom + bottom_low) */
RLX_VMATH64 rlx_v64 rlx_wquotient(rlx_v64 top, rlx_v64 top_low, rlx_v64 bottom,
                                  rlx_v64 bottom_low) {
    rlx_v64 recip = 1.0 / bottom, q = top * recip;
    rlx_v64 rest = rlx_wfma(-q, bottom, top) + (top_low - q * bottom_low);
    return q + rest * recip;
}

/* exp(x) - 1 = result + *low, for x <= 0 */
RLX_VMATH64 rlx_v64 rlx_wexpm1_negative(rlx_v64 x, rlx_v64 *low) {
    rlx_v64 k, e_low, e = rlx_wexp_core(rlx_wmax(rlx_wall(-80), x), &k, &e_low);
    rlx_v64 s = rlx_wpow2(k), base = s - 1.0;
    e *= s;
    rlx_v64 sum = base + e;
    *low = ((base - sum) + e) + s * e_low;
    return sum;
}
RLX_VMATH64 rlx_v64 rlx_wexpm1_negative_f64(rlx_v64 x) {
    rlx_v64 low, e = rlx_wexpm1_negative(x, &low);
    return e + low;
}

RLX_VMATH64 rlx_v64 rlx_wtanh_f64(rlx_v64 x) {
    rlx_v64 low, e = rlx_wexpm1_negative(-2.0 * rlx_wabs(x), &low);
    rlx_v64 bottom = e + 2.0, bottom_low = (e - (bottom - 2.0)) + low;
    return rlx_wcopysign(rlx_wquotient(e, low, bottom, bottom_low), x);
}

RLX_VMATH64 rlx_v64 rlx_wsigmoid_f64(rlx_v64 x) {
    rlx_v64 k, low, a = rlx_wmax(rlx_wall(-760), -rlx_wabs(x));
    rlx_v64 e = rlx_wexp_core(a, &k, &low);
    e = rlx_wscale(1.0 + (e + low), k);
    rlx_v64 bottom = 1.0 + e, bottom_low = e - (bottom - 1.0);
    rlx_v64 top = rlx_wselect(RLX_WLESS(x, rlx_wall(0)), e, rlx_wall(1));
    return rlx_wquotient(top, rlx_wall(0), bottom, bottom_low);
}

RLX_VMATH64 rlx_v64 rlx_wsilu_f64(rlx_v64 x) {
    rlx_mask64 below = RLX_WLESS(x, rlx_wall(0));
    rlx_v64 k, low, a = rlx_wmax(rlx_wall(-760), -rlx_wabs(x));
    rlx_v64 m = rlx_wexp_core(a, &k, &low);
    m = 1.0 + (m + low);
    rlx_v64 e = rlx_wscale(m, k), bottom = 1.0 + e, bottom_low = e - (bottom - 1.0);
    rlx_v64 product = a * m, product_low = rlx_wfma(a, m, -product);
    rlx_v64 top = rlx_wselect(below, product, x);
    rlx_v64 top_low = rlx_wselect(below, product_low, rlx_wall(0));
    rlx_v64 r = rlx_wquotient(top, top_low, bottom, bottom_low);
    r = rlx_wscale(r, rlx_wselect(below, k, rlx_wall(0)));
    return rlx_wcopysign(rlx_wselect(RLX_WLESS(rlx_wall(40), x), x, r), x);
}

/* ---- logarithm: log(1 + f) from s = f / (2 + f), as 2s + s R(s^2) ---- */
RLX_VMATH64 rlx_v64 rlx_wlog_f64(rlx_v64 x) {
#if defined(__AVX512F__)
    __m512d mantissa = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    rlx_v64 f = (rlx_v64)mantissa - 1.0;
    rlx_v64 e = (rlx_v64)_mm512_getexp_pd((__m512d)x) - (rlx_v64)_mm512_getexp_pd(mantissa);
#else
    rlx_mask64 tiny = RLX_WLESS(x, rlx_wall(0x1p-1022));
    rlx_vi64 u = (rlx_vi64)rlx_wselect(tiny, x * 0x1p52, x);
    u += 0x3FF0000000000000 - 0x3FE8000000000000;
    rlx_v64 biased = (rlx_v64)(((u >> 52) & 0x7FF) | 0x4330000000000000);
    rlx_v64 e = biased - rlx_wselect(tiny, rlx_wall(0x1p52 + 1075), rlx_wall(0x1p52 + 1023));
    rlx_v64 f = (rlx_v64)((u & 0x000FFFFFFFFFFFFF) + 0x3FE8000000000000) - 1.0;
#endif
    rlx_v64 s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    rlx_v64 q = 0.13609030262858498723 * z + 0.13209708242059463252;
    q = q * z + 0.15388867805613716627;
    q = q * z + 0.18181737626302937168;
    q = q * z + 0.22222223048351588063;
    q = q * z + 0.28571428567275934598;
    q = q * z + 0.40000000000007941042;
    q = q * z + 0.66666666666666664178;
    rlx_v64 y = s * (half + q * z) + e * 1.90821492927058770002e-10;
    rlx_v64 base = e * 6.93147180369123816490e-01, sum = base + f, rest = f - (sum - base);
    rlx_v64 r = sum + (rest - (half - y));
#if defined(__AVX512F__)
    /* by class of x: NaN quiet(x), 0 -inf, +inf itself, negative NaN */
    return (rlx_v64)_mm512_fixupimm_pd((__m512d)r, (__m512d)x, _mm512_set1_epi64(0x03530422), 0);
#else
    rlx_v64 infinite = rlx_wall(__builtin_inf());
    r = rlx_wselect(RLX_WLESS(x, infinite), r, x);
    r = rlx_wselect((rlx_mask64)(x == 0.0), -infinite, r);
    return rlx_wselect(RLX_WLESS(x, rlx_wall(0)), rlx_wall(__builtin_nan("")), r);
#endif
}

/* ---- sin and cos for |x| <= RLX_TRIG_LIMIT_F64 ---- */
#define RLX_TRIG_LIMIT_F64 0x1p20
RLX_VMATH64 rlx_v64 rlx_wtrig_f64(rlx_v64 x, int64_t shift) {
    rlx_v64 t = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, k = t - 0x1.8p52;
    rlx_vi64 quadrant = (rlx_vi64)t + shift;
    rlx_v64 high = rlx_wfma(-k, rlx_wall(0x1.921fb54442d18p+0), x); /* exact */
    rlx_v64 r = rlx_wfma(-k, rlx_wall(0x1.1a62633145c07p-54), high);
    rlx_v64 low = rlx_wfma(-k, rlx_wall(0x1.1a62633145c07p-54), high - r);
    low = low + k * 0x1.f1976b7ed8fbcp-110;
    rlx_v64 z = r * r, half = 0.5 * z;
    rlx_v64 s = 1.5918101230274120348e-10 * z - 2.5051131455427947391e-8;
    s = s * z + 2.755731610068302914e-6;
    s = s * z - 0.00019841269836754970014;
    s = s * z + 0.0083333333333309461029;
    s = s * z - 0.16666666666666664621;
    s = s * (z * r) + low * (1.0 - half);
    s = rlx_wcopysign(r + s, r);
    rlx_v64 c = -1.1382614868556324576e-11 * z + 2.0876146024689746601e-9;
    c = c * z - 2.7557317270560324065e-7;
    c = c * z + 2.4801587298763433164e-5;
    c = c * z - 0.0013888888888887395746;
    c = c * z + 0.041666666666666665387;
    rlx_v64 w = 1.0 - half;
    c = w + (((1.0 - w) - half) + (c * (z * z) - r * low));
#if defined(__AVX512F__)
    rlx_mask64 odd = _mm512_test_epi64_mask((__m512i)quadrant, _mm512_set1_epi64(1));
#else
    rlx_mask64 odd = -(quadrant & 1);
#endif
    rlx_v64 y = rlx_wselect(odd, c, s);
    return (rlx_v64)((rlx_vi64)y ^ (quadrant & 2) << 62);
}
RLX_VMATH64 rlx_v64 rlx_wsin_f64(rlx_v64 x) { return rlx_wtrig_f64(x, 0); }
RLX_VMATH64 rlx_v64 rlx_wcos_f64(rlx_v64 x) { return rlx_wtrig_f64(x, 1); }

#endif
#endif
