/* float32 functions that compute in double and round once: a vector of floats
 * becomes two of doubles. log2 is good to 2^-44 there and exp2 to 2^-34, so the
 * result is the correctly rounded one but for about one argument in a thousand.
 *
 * log2   x = 2^e m, m in [sqrt(1/2), sqrt(2)), log2(m) from s = (m-1) / (m+1).
 * exp2   adding 1.5 2^52 leaves the nearest integer in the low bits, which go
 *        straight into the exponent. */
#ifndef RLX_VMATHW_H
#define RLX_VMATHW_H

#include "vmathf.h"

typedef uint64_t rlx_vu64 __attribute__((vector_size(RLX_VBYTES)));

typedef struct {
    rlx_v64 low, high;
} rlx_vwide;

RLX_VMATH rlx_vwide rlx_vwiden(rlx_v32 x) {
#if defined(__AVX512F__)
    return (rlx_vwide){(rlx_v64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)),
                       (rlx_v64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1))};
#elif defined(__AVX2__)
    return (rlx_vwide){(rlx_v64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)),
                       (rlx_v64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1))};
#else
    rlx_vwide w;
    for (int i = 0; i < RLX_W64; i++)
        w.low[i] = x[i], w.high[i] = x[i + RLX_W64];
    return w;
#endif
}
RLX_VMATH rlx_v32 rlx_vnarrow(rlx_v64 low, rlx_v64 high) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_insertf32x8(
        _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)), _mm512_cvtpd_ps((__m512d)high), 1);
#elif defined(__AVX2__)
    return (rlx_v32)_mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)low)), _mm256_cvtpd_ps((__m256d)high), 1);
#else
    rlx_v32 x;
    for (int i = 0; i < RLX_W64; i++)
        x[i] = (float)low[i], x[i + RLX_W64] = (float)high[i];
    return x;
#endif
}

/* log2(1 + f) for s = f / (2 + f) */
RLX_VMATH rlx_v64 rlx_wlog2_series(rlx_v64 s) {
    rlx_v64 z = s * s, q = 0.28291407916341638 * z + 0.31990476709718724;
    q = q * z + 0.41220927396853529;
    q = q * z + 0.57707794216164543;
    q = q * z + 0.96179669411400281;
    q = q * z + 2.8853900817778499;
    return q * s;
}
/* x = (1 + f) 2^e; x positive, normal and finite */
RLX_VMATH rlx_v64 rlx_wsplit(rlx_v64 x, rlx_v64 *e) {
    rlx_vu64 u = (rlx_vu64)x + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    *e = (rlx_v64)((u >> 52) | 0x4330000000000000u) - 0x1.00000000003FFp52;
    return (rlx_v64)((u & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu) - 1.0;
}
RLX_VMATH rlx_v64 rlx_wlog2(rlx_v64 x) {
    rlx_v64 e, f = rlx_wsplit(x, &e);
    return rlx_wlog2_series(f / (f + 2.0)) + e;
}
/* log(1 + x) */
RLX_VMATH rlx_v64 rlx_wlog1p(rlx_v64 x) {
    rlx_v64 e, f = rlx_wsplit(x + 1.0, &e);
    rlx_vi64 near = e == 0; /* where 1 + x would have lost bits of x */
    f = (rlx_v64)((near & (rlx_vi64)x) | (~near & (rlx_vi64)f));
    return (rlx_wlog2_series(f / (f + 2.0)) + e) * 0.69314718055994530942;
}
/* NaN gives anything */
RLX_VMATH rlx_v64 rlx_wexp2(rlx_v64 t) {
    rlx_v64 zero = {0};
    t = rlx_clamp_f64(t, zero - 1000.0, zero + 1000.0);
    rlx_v64 k = t + 0x1.8p52, r = t - (k - 0x1.8p52);
    rlx_v64 q = 1.5201919530683925e-05 * r + 0.0001546929112412262;
    q = q * r + 0.0013333922571016781;
    q = q * r + 0.0096180272537596985;
    q = q * r + 0.055504103534431144;
    q = q * r + 0.24022651198156814;
    q = q * r + 0.69314718072844395;
    q = q * r + 1.0;
    return (rlx_v64)((rlx_vu64)q + ((rlx_vu64)k << 52));
}

#if defined(__AVX512F__)
#define RLX_VEQUAL(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_EQ_OQ)
#define RLX_VNEGATIVE(x) _mm512_movepi32_mask((__m512i)(x))
#else
#define RLX_VEQUAL(a, b) ((a) == (b))
#define RLX_VNEGATIVE(x) ((rlx_vi32)(x) < 0)
#endif

RLX_VMATH rlx_v32 rlx_vexp2_f32(rlx_v32 x) {
    rlx_vwide w = rlx_vwiden(x);
    rlx_v32 r = rlx_vnarrow(rlx_wexp2(w.low), rlx_wexp2(w.high));
    return rlx_vselect(RLX_VEQUAL(x, x), r, x);
}

/* r where x is positive and finite; the limits of a logarithm elsewhere */
RLX_VMATH rlx_v32 rlx_vlog_edges(rlx_v32 r, rlx_v32 x) {
    r = rlx_vselect(RLX_VLESS(x, rlx_vall(__builtin_inff())), r, x);
    r = rlx_vselect(RLX_VEQUAL(x, rlx_vall(0)), rlx_vall(-__builtin_inff()), r);
    return rlx_vselect(RLX_VLESS(x, rlx_vall(0)), rlx_vall(__builtin_nanf("")), r);
}
RLX_VMATH rlx_v32 rlx_vlog2_f32(rlx_v32 x) {
    rlx_vwide w = rlx_vwiden(x);
    return rlx_vlog_edges(rlx_vnarrow(rlx_wlog2(w.low), rlx_wlog2(w.high)), x);
}
RLX_VMATH rlx_v32 rlx_vlog10_f32(rlx_v32 x) {
    const double scale = 0.30102999566398119521;
    rlx_vwide w = rlx_vwiden(x);
    return rlx_vlog_edges(rlx_vnarrow(rlx_wlog2(w.low) * scale, rlx_wlog2(w.high) * scale), x);
}
RLX_VMATH rlx_v32 rlx_vlog1p_f32(rlx_v32 x) {
    rlx_vwide w = rlx_vwiden(x);
    rlx_v32 r = rlx_vlog_edges(rlx_vnarrow(rlx_wlog1p(w.low), rlx_wlog1p(w.high)), x + 1.0f);
    return rlx_vselect(RLX_VLESS(rlx_vabs(x), rlx_vall(0x1p-25f)), x, r);
}

RLX_VMATH rlx_v32 rlx_vpow_f32(rlx_v32 x, rlx_v32 y) {
    rlx_v32 a = rlx_vabs(x), one = rlx_vall(1), zero = rlx_vall(0);
    rlx_v32 infinite = rlx_vall(__builtin_inff()), nan = rlx_vall(__builtin_nanf(""));
    rlx_vwide u = rlx_vwiden(a), v = rlx_vwiden(y);
    rlx_v64 low = v.low * rlx_wlog2(u.low), high = v.high * rlx_wlog2(u.high);
    rlx_v32 r = rlx_vnarrow(rlx_wexp2(low), rlx_wexp2(high));
    /* |x| = 0 or inf: the sign of y decides; y = +-inf: whether |x| > 1 */
    rlx_v32 grows = rlx_vselect(RLX_VLESS(zero, y), infinite, zero);
    rlx_v32 falls = rlx_vselect(RLX_VLESS(zero, y), zero, infinite);
    rlx_v32 at_end = rlx_vselect(RLX_VLESS(one, a), grows, falls);
    r = rlx_vselect(RLX_VEQUAL(a, zero), falls, r);
    r = rlx_vselect(RLX_VEQUAL(a, infinite), grows, r);
    r = rlx_vselect(RLX_VEQUAL(rlx_vabs(y), infinite), at_end, r);
    r = rlx_vselect(RLX_VEQUAL(a, one), one, r);
    /* integers are even or odd; from 2^23 on every float is whole, from 2^24 on even */
    rlx_v32 size = rlx_vmin(rlx_vall(0x1p24f), rlx_vabs(y)), half = 0.5f * size;
    rlx_mask32 whole = RLX_VEQUAL(rlx_vround(size), size);
    rlx_mask32 odd = whole & ~RLX_VEQUAL(rlx_vround(half), half) & RLX_VNEGATIVE(x);
    r = rlx_vselect(odd, -r, r);
    r = rlx_vselect(RLX_VLESS(x, zero) & RLX_VLESS(a, infinite) & ~whole, nan, r);
    r = rlx_vselect(RLX_VEQUAL(x, x), r, x);
    r = rlx_vselect(RLX_VEQUAL(y, y), r, y);
    r = rlx_vselect(RLX_VEQUAL(x, one) | RLX_VEQUAL(y, zero), one, r);
    return rlx_vselect(RLX_VEQUAL(y, rlx_vall(2)), x * x, r);
}

#endif
