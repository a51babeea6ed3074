/* float64 transcendentals on whole vectors (rlx_v64 of tile.h), for levels with
 * fused multiply-add.
 *
 * Accuracy: at most 2 ulp over the whole range; the measured numbers stand in
 * docs/reference/accuracy.md. The structure is that of vmathf.h; in addition
 *   quotients  are corrected by their remainder, which fma makes exact,
 *   sums       that feed a quotient or an exponent carry their rounding error
 *              in a second double,
 *   gelu, erfc take the normal distribution's tail as a quotient of polynomials
 *              evaluated with compensation (plain Horner costs 3 ulp),
 *   sin, cos   reduce with pi/2 in three doubles: the first difference is exact.
 *
 * Measured, 512 elements on AVX-512 against libm or long double in a loop: exp
 * 0.35 us (2.0), log 0.36 (2.4), erf 0.9 (4.4), gelu 3.4 (64), softplus 1.3 (50). */
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

/* exp(r + rest) - 1 = result + *low, for rest below half an ulp of r */
RLX_VMATH64 rlx_v64 rlx_wexp_tail(rlx_v64 r, rlx_v64 rest, rlx_v64 *low) {
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
/* x = k ln2 + r; exp(r) - 1 = result + *low */
RLX_VMATH64 rlx_v64 rlx_wexp_core(rlx_v64 x, rlx_v64 *k, rlx_v64 *low) {
    *k = rlx_wround(x * 0x1.71547652b82fep+0);
    rlx_v64 high = x - *k * 6.93147180369123816490e-01; /* exact */
    rlx_v64 r = high - *k * 1.90821492927058770002e-10;
    return rlx_wexp_tail(r, (high - r) - *k * 1.90821492927058770002e-10, low);
}
/* the same for x + extra; exp(r) = result + *low */
RLX_VMATH64 rlx_v64 rlx_wexp_sum(rlx_v64 x, rlx_v64 extra, rlx_v64 *k, rlx_v64 *low) {
    *k = rlx_wround(x * 0x1.71547652b82fep+0);
    rlx_v64 high = x - *k * 6.93147180369123816490e-01;
    rlx_v64 r = high - *k * 1.90821492927058770002e-10;
    rlx_v64 rest = (high - r) - *k * 1.90821492927058770002e-10 + extra, sum = r + rest;
    rlx_v64 e = rlx_wexp_tail(sum, (r - sum) + rest, low), m = 1.0 + e;
    *low = ((1.0 - m) + e) + *low;
    return m;
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

/* log(1 + f) + high + low, f in [-1/4, 1/2]: from s = f / (2 + f), as 2s + s R(s^2) */
RLX_VMATH64 rlx_v64 rlx_wlog1p_sum(rlx_v64 f, rlx_v64 high, rlx_v64 low) {
    rlx_v64 s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    rlx_v64 q = 0.13609030262858498723 * z + 0.13209708242059463252;
    q = q * z + 0.15388867805613716627;
    q = q * z + 0.18181737626302937168;
    q = q * z + 0.22222223048351588063;
    q = q * z + 0.28571428567275934598;
    q = q * z + 0.40000000000007941042;
    q = q * z + 0.66666666666666664178;
    rlx_v64 y = s * (half + q * z) + low, sum = high + f, rest = f - (sum - high);
    return sum + (rest - (half - y));
}

/* x sigmoid(t + t_low); a: x made finite */
RLX_VMATH64 rlx_v64 rlx_wgate(rlx_v64 x, rlx_v64 a, rlx_v64 t, rlx_v64 t_low) {
    rlx_mask64 below = RLX_WLESS(t, rlx_wall(0)), far = RLX_WLESS(rlx_wall(800), rlx_wabs(t));
    t_low = rlx_wselect(far, rlx_wall(0), rlx_wselect(below, t_low, -t_low));
    rlx_v64 k, m_low, m = rlx_wexp_sum(rlx_wmax(rlx_wall(-800), -rlx_wabs(t)), t_low, &k, &m_low);
    m = rlx_wselect(far, rlx_wall(0), m);
    m_low = rlx_wselect(far, rlx_wall(0), m_low);
    rlx_v64 e = rlx_wscale(m, k), bottom = 1.0 + e, bottom_low = e - (bottom - 1.0);
    rlx_v64 product = a * m, product_low = rlx_wfma(a, m, -product) + a * m_low;
    rlx_v64 top = rlx_wselect(below, product, a);
    rlx_v64 top_low = rlx_wselect(below, product_low, rlx_wall(0));
    rlx_v64 r = rlx_wquotient(top, top_low, bottom, bottom_low);
    r = rlx_wscale(r, rlx_wselect(below, k, rlx_wall(0)));
    return rlx_wcopysign(rlx_wselect(RLX_WLESS(rlx_wall(40), t), x, r), x);
}
RLX_VMATH64 rlx_v64 rlx_wfinite(rlx_v64 x) {
    rlx_v64 largest = rlx_wall(0x1.fffffffffffffp1023);
    return rlx_clamp_f64(x, -largest, largest);
}
RLX_VMATH64 rlx_v64 rlx_wsilu_f64(rlx_v64 x) {
    rlx_v64 a = rlx_wfinite(x);
    return rlx_wgate(x, a, a, rlx_wall(0));
}
RLX_VMATH64 rlx_v64 rlx_wswish_f64(rlx_v64 x, rlx_v64 slope) {
    rlx_v64 a = rlx_wfinite(x), t = slope * a;
    return rlx_wgate(x, a, t, rlx_wfma(slope, a, -t));
}
/* t = x (c1 + c3 x^2), c1 = 2 sqrt(2/pi), c3 = 0.044715 c1, in two doubles */
RLX_VMATH64 rlx_v64 rlx_wgelu_tanh_f64(rlx_v64 x) {
    const rlx_v64 c1 = rlx_wall(0x1.9884533d43651p+0), c3 = rlx_wall(0x1.2444f2a4d8b4bp-4);
    rlx_v64 a = rlx_clamp_f64(x, rlx_wall(-30), rlx_wall(30));
    rlx_v64 s = a * a, s_low = rlx_wfma(a, a, -s);
    rlx_v64 p = c3 * s, p_low = rlx_wfma(c3, s, -p) + c3 * s_low;
    rlx_v64 w = p + c1, z = w - p, w_low = (p - (w - z)) + (c1 - z);
    w_low = w_low + (p_low + (-0x1.6c843a29d1c70p-61 * s + -0x1.cbc0d30ebfd15p-54));
    rlx_v64 t = a * w, t_low = rlx_wfma(a, w, -t) + a * w_low;
    return rlx_wgate(x, a, t, t_low);
}

/* log(1 + exp(-|x|)), by 1 + e = u and the bits of e that u has lost */
RLX_VMATH64 rlx_v64 rlx_wsoftplus_f64(rlx_v64 x) {
    rlx_v64 k, low, e = rlx_wexp_core(rlx_wmax(rlx_wall(-760), -rlx_wabs(x)), &k, &low);
    e = rlx_wscale(1.0 + (e + low), k);
    rlx_v64 u = 1.0 + e, lost = e - (u - 1.0);
    rlx_mask64 upper = RLX_WLESS(rlx_wall(1.5), u);
    rlx_v64 f = rlx_wselect(upper, 0.5 * u, u) - 1.0;
    rlx_v64 high = rlx_wselect(upper, rlx_wall(6.93147180369123816490e-01), rlx_wall(0));
    rlx_v64 rest = rlx_wselect(upper, rlx_wall(1.90821492927058770002e-10), rlx_wall(0));
    rlx_v64 l = rlx_wlog1p_sum(f, high, rest + lost / u);
    return rlx_wmax(rlx_wall(0), x) + l;
}
RLX_VMATH64 rlx_v64 rlx_wlog_sigmoid_f64(rlx_v64 x) { return -rlx_wsoftplus_f64(-x); }

/* x tanh(log(1 + exp x)), as a fraction of e = exp(-|x|) = m 2^k */
RLX_VMATH64 rlx_v64 rlx_wmish_f64(rlx_v64 x) {
    rlx_mask64 below = RLX_WLESS(x, rlx_wall(0));
    rlx_v64 k, m_low, a = rlx_wmax(rlx_wall(-800), -rlx_wabs(x));
    rlx_v64 m = rlx_wexp_sum(a, rlx_wall(0), &k, &m_low), e = rlx_wscale(m, k);
    /* below: e (e + 2) / (e (e + 2) + 2), one e without its 2^k */
    rlx_v64 w = 2.0 + e, w_low = e - (w - 2.0);
    rlx_v64 n = m * w, n_low = rlx_wfma(m, w, -n) + (m * w_low + m_low * w);
    rlx_v64 p = e * w, p_low = rlx_wfma(e, w, -p) + e * w_low;
    /* above: (1 + 2e) / (1 + 2e + 2e^2) */
    rlx_v64 e2 = 2.0 * e, h = 1.0 + e2, h_low = e2 - (h - 1.0);
    rlx_v64 q = e2 * e, q_low = rlx_wfma(e2, e, -q);
    rlx_v64 base = rlx_wselect(below, rlx_wall(2), h), base_low = rlx_wselect(below, p_low, h_low);
    rlx_v64 added = rlx_wselect(below, p, q), bottom = base + added;
    rlx_v64 bottom_low = ((base - bottom) + added) + rlx_wselect(below, base_low, h_low + q_low);
    rlx_v64 r = rlx_wquotient(rlx_wselect(below, n, h), rlx_wselect(below, n_low, h_low), bottom,
                              bottom_low);
    r = rlx_wscale(r * rlx_wselect(below, a, x), rlx_wselect(below, k, rlx_wall(0)));
    return rlx_wcopysign(r, x);
}

/* ---- the normal distribution ----
 * exp(a^2/2) Phi(-a) on [0, 38.8] and exp(y^2) erfc(y) on [0, 27.4] as quotients
 * of polynomials with positive coefficients (relative error 2^-59), evaluated
 * with their rounding errors carried along. */
static const double rlx_mills_top[] = {
    0.5, 0.82628635886910588557, 0.67699560802630112242,
    0.3552880508656749413, 0.1310175843839511517, 0.035310687328309372152,
    0.0070338865191580173454, 0.0010237849278065084053, 0.0001045876930348920502,
    6.8182134833611856433e-6, 2.1797133670500318249e-7,
};
static const double rlx_mills_bottom[] = {
    1.0, 2.4504572785410772064, 2.8091732455075309843,
    1.9927049439394235582, 0.97412439817012932302, 0.34552485159676938471,
    0.091042834351547809301, 0.01789240854239586868, 0.0025833389740923593404,
    0.00026270884165206314353, 0.000017090726699894170017, 5.4637311564374353306e-7,
};
static const double rlx_erfcx_top[] = {
    1.0, 2.3370907502331437511, 2.7079824321052044897,
    2.0098127203333582198, 1.0481406750716092136, 0.39949482333128722593,
    0.11254218430652827753, 0.023165608477713986981, 0.0033468061771165456063,
    0.00030855711933838373675, 0.00001395016554912020368,
};
static const double rlx_erfcx_bottom[] = {
    1.0, 3.4654699173286564373, 5.6183464910150619685,
    5.6362207150541017016, 3.8964975926805172921, 1.9545837250604089225,
    0.7283426748123824744, 0.20242949459341166799, 0.041333423585477749446,
    0.0059444225091147768154, 0.00054690325439661344054, 0.000024726024648301618213,
};

RLX_VMATH64 rlx_v64 rlx_whorner(const double *c, int last, rlx_v64 a, rlx_v64 *low) {
    rlx_v64 s = rlx_wall(c[last]), lost = rlx_wall(0);
    for (int i = last - 1; i >= 0; i--) {
        rlx_v64 p = s * a, p_low = rlx_wfma(s, a, -p), t = p + c[i], z = t - p;
        lost = lost * a + (p_low + ((p - (t - z)) + (c[i] - z)));
        s = t;
    }
    *low = lost;
    return s;
}
/* exp(-scale a^2) = (result + *low) 2^k */
RLX_VMATH64 rlx_v64 rlx_wexp_square(rlx_v64 a, double scale, rlx_v64 *k, rlx_v64 *low) {
    rlx_v64 square = a * a, square_low = rlx_wfma(a, a, -square);
    return rlx_wexp_sum(-scale * square, -scale * square_low, k, low);
}

RLX_VMATH64 rlx_v64 rlx_wgelu_f64(rlx_v64 x) {
    rlx_v64 k, m_low, n_low, d_low, a = rlx_wmin(rlx_wall(38.8), rlx_wabs(x));
    rlx_v64 m = rlx_wexp_square(a, 0.5, &k, &m_low);
    rlx_v64 n = rlx_whorner(rlx_mills_top, 10, a, &n_low);
    rlx_v64 d = rlx_whorner(rlx_mills_bottom, 11, a, &d_low);
    rlx_v64 p = a * n, p_low = rlx_wfma(a, n, -p) + a * n_low;
    rlx_v64 top = p * m, top_low = rlx_wfma(p, m, -top) + (p * m_low + p_low * m);
    rlx_v64 v = rlx_wscale(rlx_wcopysign(rlx_wquotient(top, top_low, d, d_low), x), k);
    return rlx_wselect(RLX_WLESS(rlx_wall(0), x), x - v, v);
}

RLX_VMATH64 rlx_v64 rlx_werfc_f64(rlx_v64 x) {
    rlx_v64 k, m_low, n_low, d_low, a = rlx_wmin(rlx_wall(27.4), rlx_wabs(x));
    rlx_v64 m = rlx_wexp_square(a, 1.0, &k, &m_low);
    rlx_v64 n = rlx_whorner(rlx_erfcx_top, 10, a, &n_low);
    rlx_v64 d = rlx_whorner(rlx_erfcx_bottom, 11, a, &d_low);
    rlx_v64 top = n * m, top_low = rlx_wfma(n, m, -top) + (n * m_low + n_low * m);
    rlx_v64 v = rlx_wscale(rlx_wquotient(top, top_low, d, d_low), k);
    return rlx_wselect(RLX_WLESS(x, rlx_wall(0)), 2.0 - v, v);
}
RLX_VMATH64 rlx_v64 rlx_werf_f64(rlx_v64 x) {
    rlx_v64 k, low, a = rlx_wmin(rlx_wall(6), rlx_wabs(x)), z = a * a;
    rlx_v64 e = rlx_wexp_core(-z, &k, &low), n = rlx_wall(rlx_erfcx_top[10]);
    rlx_v64 d = rlx_erfcx_bottom[11] * a + rlx_erfcx_bottom[10];
    for (int i = 9; i >= 0; i--)
        n = n * a + rlx_erfcx_top[i], d = d * a + rlx_erfcx_bottom[i];
    rlx_v64 far = 1.0 - (e + 1.0) * rlx_wpow2(k) * (n / d); /* erfc < 1/4: errors shrink */
    rlx_v64 p = -8.8472239185603843414e-10 * z + 1.4193379448710600748e-8;
    p = p * z - 1.6301115555811786155e-7;
    p = p * z + 1.6457733512818286229e-6;
    p = p * z - 0.000014925453340176485682;
    p = p * z + 0.00012055327050643200482;
    p = p * z - 0.00085483269056565775946;
    p = p * z + 0.0052239776239569738919;
    p = p * z - 0.026866170645020646401;
    p = p * z + 0.11283791670954699845;
    p = p * z - 0.37612638903183746036;
    p = p * z + 0.12837916709551257374;
    return rlx_wcopysign(rlx_wselect(RLX_WLESS(a, rlx_wall(0.84)), p * a + a, far), x);
}

/* ---- logarithm ---- */
/* x = (1 + f) 2^e, f in [-1/4, 1/2); x positive and finite */
RLX_VMATH64 rlx_v64 rlx_wsplit_log(rlx_v64 x, rlx_v64 *e) {
#if defined(__AVX512F__)
    __m512d mantissa = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    *e = (rlx_v64)_mm512_getexp_pd((__m512d)x) - (rlx_v64)_mm512_getexp_pd(mantissa);
    return (rlx_v64)mantissa - 1.0;
#else
    rlx_mask64 tiny = RLX_WLESS(x, rlx_wall(0x1p-1022));
    rlx_vi64 u = (rlx_vi64)rlx_wselect(tiny, x * 0x1p52, x);
    u += 0x3FF0000000000000 - 0x3FE8000000000000;
    rlx_v64 biased = (rlx_v64)(((u >> 52) & 0x7FF) | 0x4330000000000000);
    *e = biased - rlx_wselect(tiny, rlx_wall(0x1p52 + 1075), rlx_wall(0x1p52 + 1023));
    return (rlx_v64)((u & 0x000FFFFFFFFFFFFF) + 0x3FE8000000000000) - 1.0;
#endif
}
RLX_VMATH64 rlx_v64 rlx_wlog_f64(rlx_v64 x) {
    rlx_v64 e, f = rlx_wsplit_log(x, &e);
    rlx_v64 r = rlx_wlog1p_sum(f, e * 6.93147180369123816490e-01, e * 1.90821492927058770002e-10);
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

/* log(x) = result + *low, to 2^-64; x positive and finite */
RLX_VMATH64 rlx_v64 rlx_wlog_pair(rlx_v64 x, rlx_v64 *low) {
    rlx_v64 e, f = rlx_wsplit_log(x, &e);
    /* s = f / (2 + f) */
    rlx_v64 d = 2.0 + f, d_low = f - (d - 2.0), recip = 1.0 / d, s = f * recip;
    rlx_v64 s_low = (rlx_wfma(-s, d, f) - s * d_low) * recip;
    rlx_v64 z = s * s, z_low = rlx_wfma(s, s, -z) + 2.0 * s * s_low;
    /* log(1 + f) = s (2 + z (2/3 + z q)) */
    rlx_v64 q = 0.12196357569783030216 * z + 0.11652734508665300677;
    q = q * z + 0.1333718536414207752;
    q = q * z + 0.15384542408802128846;
    q = q * z + 0.18181818930246129982;
    q = q * z + 0.22222222218460066091;
    q = q * z + 0.28571428571435765852;
    q = q * z + 0.39999999999999997745;
    rlx_v64 u = z * q, p = 0x1.5555555555555p-1 + u;
    rlx_v64 p_low = (0x1.5555555555555p-1 - p) + u + 0x1.5555555555555p-55;
    rlx_v64 t = z * p, t_low = rlx_wfma(z, p, -t) + (z * p_low + z_low * p);
    rlx_v64 v = 2.0 + t, v_low = (2.0 - v) + t + t_low;
    rlx_v64 l = s * v, l_low = rlx_wfma(s, v, -l) + (s * v_low + s_low * v);
    rlx_v64 base = e * 6.93147180369123816490e-01, sum = base + l;
    rlx_v64 rest = (base - sum) + l + (e * 1.90821492927058770002e-10 + l_low);
    rlx_v64 high = sum + rest;
    *low = (sum - high) + rest;
    return high;
}

#if defined(__AVX512F__)
#define RLX_WEQUAL(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_EQ_OQ)
#define RLX_WNEGATIVE(x) _mm512_movepi64_mask((__m512i)(x))
#else
#define RLX_WEQUAL(a, b) ((a) == (b))
#define RLX_WNEGATIVE(x) ((rlx_vi64)(x) < 0)
#endif

RLX_VMATH64 rlx_v64 rlx_wpow_f64(rlx_v64 x, rlx_v64 y) {
    rlx_v64 a = rlx_wabs(x), one = rlx_wall(1), zero = rlx_wall(0);
    rlx_v64 infinite = rlx_wall(__builtin_inf()), nan = rlx_wall(__builtin_nan(""));
    rlx_v64 k, m_low, l_low, l = rlx_wlog_pair(a, &l_low);
    rlx_v64 t = y * l, t_low = rlx_wfma(y, l, -t) + y * l_low;
    t_low = rlx_wselect(RLX_WLESS(rlx_wabs(t), rlx_wall(746)), t_low, zero);
    rlx_v64 m = rlx_wexp_sum(rlx_clamp_f64(t, rlx_wall(-746), rlx_wall(710)), t_low, &k, &m_low);
    rlx_v64 r = rlx_wscale(m + m_low, k);
    /* |x| = 0 or inf: the sign of y decides; y = +-inf: whether |x| > 1 */
    rlx_v64 grows = rlx_wselect(RLX_WLESS(zero, y), infinite, zero);
    rlx_v64 falls = rlx_wselect(RLX_WLESS(zero, y), zero, infinite);
    rlx_v64 at_end = rlx_wselect(RLX_WLESS(one, a), grows, falls);
    r = rlx_wselect(RLX_WEQUAL(a, zero), falls, r);
    r = rlx_wselect(RLX_WEQUAL(a, infinite), grows, r);
    r = rlx_wselect(RLX_WEQUAL(rlx_wabs(y), infinite), at_end, r);
    r = rlx_wselect(RLX_WEQUAL(a, one), one, r);
    /* integers are even or odd; from 2^53 on every double is even */
    rlx_v64 size = rlx_wmin(rlx_wall(0x1p53), rlx_wabs(y)), half = 0.5 * size;
    rlx_mask64 whole = RLX_WEQUAL(rlx_wround(size), size);
    rlx_mask64 odd = whole & ~RLX_WEQUAL(rlx_wround(half), half) & RLX_WNEGATIVE(x);
    r = rlx_wselect(odd, -r, r);
    r = rlx_wselect(RLX_WLESS(x, zero) & RLX_WLESS(a, infinite) & ~whole, nan, r);
    r = rlx_wselect(RLX_WEQUAL(x, x), r, x);
    r = rlx_wselect(RLX_WEQUAL(y, y), r, y);
    r = rlx_wselect(RLX_WEQUAL(x, one) | RLX_WEQUAL(y, zero), one, r);
    return rlx_wselect(RLX_WEQUAL(y, rlx_wall(2)), x * x, r);
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
