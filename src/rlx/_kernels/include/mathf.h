/* float32 functions, one value at a time and without branches, so that any loop
 * over them vectorises (masked selects instead of jumps). The hot ones exist on
 * whole vectors in vmathf.h; here are those that go through double (pow, exp2,
 * log2, ...: computed there and rounded once), sin and cos (whose argument is
 * reduced in double), and log for scalar loops.
 *
 * Accuracy: see docs/reference/accuracy.md. NaN propagates, infinities and
 * signed zeros give the limits of the mathematical function. The polynomials
 * are weighted minimax fits (Lawson iteration). */
#ifndef RLX_MATHF_H
#define RLX_MATHF_H

#include "ew.h"

#define RLX_INFF __builtin_inff()
#define RLX_NANF __builtin_nanf("")

/* x = m 2^e, m in [sqrt(1/2), sqrt(2)); x positive, normal or not */
RLX_INLINE float rlx_mantissa_f32(float x, float *e) {
    int tiny = x < 0x1p-126f;
    uint32_t u = rlx_bits_f32(tiny ? x * 0x1p23f : x) + (0x3F800000u - 0x3F3504F3u);
    *e = (float)((int32_t)(u >> 23) - 127) - (tiny ? 23.0f : 0.0f);
    return rlx_from_bits_f32((u & 0x007FFFFFu) + 0x3F3504F3u);
}

RLX_INLINE float rlx_log_f32(float x) {
    float e, f = rlx_mantissa_f32(x, &e) - 1.0f, s = f * f;
    float q = 0.0673546791f;
    q = q * f - 0.116803132f;
    q = q * f + 0.118954331f;
    q = q * f - 0.124054432f;
    q = q * f + 0.142186314f;
    q = q * f - 0.166679665f;
    q = q * f + 0.20002158f;
    q = q * f - 0.250000119f;
    q = q * f + 0.333333135f;
    float y = q * (s * f) + e * -2.12194440e-4f;
    y = y - 0.5f * s;
    float r = e * 0.693359375f + (f + y);
    r = x < RLX_INFF ? r : x;
    r = x == 0 ? -RLX_INFF : r;
    return x < 0 ? RLX_NANF : r;
}

/* sin and cos for |x| <= RLX_TRIG_LIMIT_F32: the reduction runs in double */
#define RLX_TRIG_LIMIT_F32 0x1p19f
RLX_INLINE float rlx_trig_f32(float x, int32_t shift) {
    double v = (double)x, k = v * 0x1.45f306dc9c883p-1 + 0x1.8p52;
    uint32_t quadrant = (uint32_t)rlx_bits_f64(k) + (uint32_t)shift;
    k -= 0x1.8p52;
    float r = (float)((v - k * 1.57079632673412561417e+00) - k * 6.07710050650619224932e-11);
    float z = r * r;
    float s = (-0.000195108383f * z + 0.00833213143f) * z - 0.166666538f;
    float c = (2.44312032e-05f * z - 0.0013887306f) * z + 0.0416666456f;
    s = __builtin_copysignf(s * (z * r) + r, r);
    c = c * (z * z) + (1.0f - 0.5f * z);
    float y = quadrant & 1 ? c : s;
    return rlx_from_bits_f32(rlx_bits_f32(y) ^ (quadrant & 2) << 30);
}
RLX_INLINE float rlx_sin_f32(float x) { return rlx_trig_f32(x, 0); }
RLX_INLINE float rlx_cos_f32(float x) { return rlx_trig_f32(x, 1); }

/* log2 and exp2 in double, good to 2^-44 and 2^-34: for float results */

/* log2(1 + f) for s = f / (2 + f) */
RLX_INLINE double rlx_log2_series(double s) {
    double z = s * s, q = 0.28291407916341638;
    q = q * z + 0.31990476709718724;
    q = q * z + 0.41220927396853529;
    q = q * z + 0.57707794216164543;
    q = q * z + 0.96179669411400281;
    q = q * z + 2.8853900817778499;
    return q * s;
}

/* x positive, normal and finite */
RLX_INLINE double rlx_log2_short(double x) {
    uint64_t u = rlx_bits_f64(x) + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    double e = rlx_from_bits_f64((u >> 52) | 0x4330000000000000u) - 0x1.00000000003FFp52;
    double m = rlx_from_bits_f64((u & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
    return rlx_log2_series((m - 1.0) / (m + 1.0)) + e;
}

RLX_INLINE double rlx_exp2_short(double t) {
    t = t > 1000.0 ? 1000.0 : t;
    t = t < -1000.0 ? -1000.0 : t;
    double k = t + 0x1.8p52;
    uint64_t n = rlx_bits_f64(k) << 52;
    double r = t - (k - 0x1.8p52), q = 1.5201919530683925e-05;
    q = q * r + 0.0001546929112412262;
    q = q * r + 0.0013333922571016781;
    q = q * r + 0.0096180272537596985;
    q = q * r + 0.055504103534431144;
    q = q * r + 0.24022651198156814;
    q = q * r + 0.69314718072844395;
    q = q * r + 1.0;
    return rlx_from_bits_f64(rlx_bits_f64(q) + n);
}

/* log2 of any float, as a double */
RLX_INLINE double rlx_log2_wide(float x) {
    double r = rlx_log2_short((double)x);
    r = x < RLX_INFF ? r : (double)x;
    r = x == 0 ? -__builtin_inf() : r;
    return x < 0 ? __builtin_nan("") : r;
}

RLX_INLINE float rlx_exp2_f32(float x) {
    float r = (float)rlx_exp2_short((double)x);
    return x == x ? r : x;
}
RLX_INLINE float rlx_log2_f32(float x) { return (float)rlx_log2_wide(x); }
RLX_INLINE float rlx_log10_f32(float x) {
    return (float)(rlx_log2_wide(x) * 0.30102999566398119521);
}

RLX_INLINE float rlx_log1p_f32(float x) {
    double v = (double)x, y = v + 1.0;
    uint64_t u = rlx_bits_f64(y) + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    double e = rlx_from_bits_f64((u >> 52) | 0x4330000000000000u) - 0x1.00000000003FFp52;
    double f = rlx_from_bits_f64((u & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu) - 1.0;
    f = e == 0 ? v : f;
    double r = (rlx_log2_series(f / (f + 2.0)) + e) * 0.69314718055994530942;
    r = x < RLX_INFF ? r : v;
    r = x == -1.0f ? -__builtin_inf() : r;
    r = x == 0 ? v : r;
    return (float)(x < -1.0f ? __builtin_nan("") : r);
}

RLX_INLINE float rlx_pow_f32(float x, float y) {
    float a = __builtin_fabsf(x);
    double l = rlx_log2_short((double)a), w = (double)y;
    l = a < RLX_INFF ? l : (double)a;
    l = a == 0 ? -__builtin_inf() : l;
    double t = w * l, v = rlx_exp2_short(t);
    float r = (float)(t == t ? v : t);
    r = a == 1.0f && y == y ? 1.0f : r;
    int whole = __builtin_rintf(y) == y, odd = whole & (__builtin_rintf(0.5f * y) != 0.5f * y);
    uint32_t sign = odd ? rlx_bits_f32(x) & 0x80000000u : 0u;
    r = rlx_from_bits_f32(rlx_bits_f32(r) | sign);
    r = (x < 0) & (a < RLX_INFF) & !whole ? RLX_NANF : r;
    return (x == 1.0f) | (y == 0) ? 1.0f : r;
}

/* x sigmoid(slope x): the product in the exponent needs double */
RLX_INLINE float rlx_swish_f32(float x, double slope) {
    float bounded = x > 0x1.fffffep127f ? 0x1.fffffep127f : x;
    bounded = bounded < -0x1.fffffep127f ? -0x1.fffffep127f : bounded;
    double t = slope * (double)bounded, e = rlx_exp2_short(-__builtin_fabs(t) * 1.4426950408889634);
    double v = (t < 0 ? e * (double)bounded : (double)x) / (1.0 + e);
    return (float)(x == x ? v : (double)x);
}

#endif
