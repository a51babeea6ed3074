/* float32 transcendentals, one value at a time and without branches, so that
 * any loop over them vectorises (masked selects instead of jumps).
 *
 * Accuracy: at most 4 ulp over the whole range, denormals included; the
 * measured numbers stand in docs/reference/accuracy.md. NaN propagates,
 * infinities and signed zeros give the limits of the mathematical function.
 *
 * How cancellation and double rounding are avoided:
 *   exp       r = x - n ln2 in two pieces, exp(r) by a polynomial, 2^n applied
 *             in two factors so that a denormal result is rounded once.
 *   expm1     2^n (exp(r) - 1) + (2^n - 1): exact near 0 without a branch.
 *   tanh      through expm1(-2|x|); sigmoid, silu, mish, softplus through
 *             exp(-|x|), with 2^n applied after the last product.
 *   gelu      x Phi(x) from Phi(-|x|) = g(|x|) exp(-x^2/2): the negative tail
 *             keeps its relative accuracy down to the denormals. x^2 is split,
 *             so the exponent carries no rounding error.
 *   pow, exp2, log2, ... compute in double and round once.
 * The polynomials are weighted minimax fits (Lawson iteration). */
#ifndef RLX_MATHF_H
#define RLX_MATHF_H

#include "ew.h"

#define RLX_INFF __builtin_inff()
#define RLX_NANF __builtin_nanf("")

RLX_INLINE float rlx_pow2_f32(int32_t n) {
    return rlx_from_bits_f32((uint32_t)(n + 127) << 23);
}
/* v 2^n, rounded once if v is in [2^-60, 2^60] and |n| < 200 */
RLX_INLINE float rlx_scale_f32(float v, int32_t n) {
    int32_t half = n >> 1;
    return v * rlx_pow2_f32(half) * rlx_pow2_f32(n - half);
}

/* x + extra = n ln2 + r; returns exp(r) - 1 */
RLX_INLINE float rlx_exp_core_f32(float x, float extra, int32_t *n) {
    float k = __builtin_rintf(x * 0x1.715476p+0f);
    float r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f + extra;
    float q = 0.00139517174f;
    q = q * r + 0.00836959854f;
    q = q * r + 0.0416661873f;
    q = q * r + 0.166665122f;
    q = q * r + 0.5f;
    *n = (int32_t)k;
    return q * (r * r) + r;
}

RLX_INLINE float rlx_exp_f32(float x) {
    int32_t n;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float m = 1.0f + rlx_exp_core_f32(x, 0.0f, &n);
    return rlx_scale_f32(m, n);
}

/* expm1 for x <= 0 */
RLX_INLINE float rlx_expm1_negative_f32(float x) {
    int32_t n;
    x = x < -40.0f ? -40.0f : x;
    float e = rlx_exp_core_f32(x, 0.0f, &n), s = rlx_pow2_f32(n);
    return s * e + (s - 1.0f);
}

RLX_INLINE float rlx_expm1_f32(float x) {
    int32_t n;
    float z = x > 89.0f ? 89.0f : x;
    z = z < -40.0f ? -40.0f : z;
    float e = rlx_exp_core_f32(z, 0.0f, &n), s = rlx_pow2_f32(n - 1);
    float r = 2.0f * (s * e + (s - 0.5f));
    return __builtin_fabsf(x) < 0x1p-25f ? x : r;
}

RLX_INLINE float rlx_tanh_f32(float x) {
    float e = rlx_expm1_negative_f32(-2.0f * __builtin_fabsf(x));
    return __builtin_copysignf(e / (e + 2.0f), x);
}

RLX_INLINE float rlx_sigmoid_f32(float x) {
    int32_t n;
    float a = -__builtin_fabsf(x);
    a = a < -104.0f ? -104.0f : a;
    float m = 1.0f + rlx_exp_core_f32(a, 0.0f, &n), e = rlx_scale_f32(m, n);
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

RLX_INLINE float rlx_silu_f32(float x) {
    int32_t n;
    float a = -__builtin_fabsf(x), low = x < -120.0f ? -120.0f : x;
    a = a < -120.0f ? -120.0f : a;
    float m = 1.0f + rlx_exp_core_f32(a, 0.0f, &n), e = rlx_scale_f32(m, n);
    float r = (x < 0 ? low * m : x) / (1.0f + e);
    return rlx_scale_f32(r, x < 0 ? n : 0);
}

/* log1p on [0, 1] */
RLX_INLINE float rlx_log1p_unit_f32(float e) {
    float q = 0.00203021406f;
    q = q * e - 0.0134073934f;
    q = q * e + 0.0414779373f;
    q = q * e - 0.0824414119f;
    q = q * e + 0.124184117f;
    q = q * e - 0.161056802f;
    q = q * e + 0.19890745f;
    q = q * e - 0.249872699f;
    q = q * e + 0.333325595f;
    q = q * e - 0.499999821f;
    return q * (e * e) + e;
}

RLX_INLINE float rlx_softplus_f32(float x) {
    float l = rlx_log1p_unit_f32(rlx_exp_f32(-__builtin_fabsf(x)));
    return (0 > x ? 0 : x) + l;
}

RLX_INLINE float rlx_log_sigmoid_f32(float x) { return -rlx_softplus_f32(-x); }

/* x tanh(log(1 + exp x)), as a fraction of exp(-|x|) */
RLX_INLINE float rlx_mish_f32(float x) {
    int32_t n;
    float a = -__builtin_fabsf(x), low = x < -120.0f ? -120.0f : x;
    a = a < -120.0f ? -120.0f : a;
    float m = 1.0f + rlx_exp_core_f32(a, 0.0f, &n), e = rlx_scale_f32(m, n);
    float top = x < 0 ? low * m * (e + 2.0f) : x * (1.0f + 2.0f * e);
    float bottom = x < 0 ? e * (e + 2.0f) + 2.0f : 2.0f * (e * (e + 1.0f)) + 1.0f;
    return rlx_scale_f32(top / bottom, x < 0 ? n : 0);
}

/* g(a) = exp(a^2/2) Phi(-a) = 0.5 / (1 + a k(a)), a in [0, 14.6]; k goes from
 * sqrt(2/pi) to sqrt(pi/2), so the errors of its polynomial weigh little */
RLX_INLINE float rlx_mills_f32(float a) {
    float t = 1.0f / (1.0f + 0.3f * a);
    float k = -0.202140197f;
    k = k * t + 1.13356566f;
    k = k * t - 2.54892111f;
    k = k * t + 2.87957954f;
    k = k * t - 1.76402318f;
    k = k * t + 0.781897783f;
    k = k * t - 0.279351652f;
    k = k * t - 0.152922899f;
    k = k * t - 0.303245664f;
    k = k * t + 1.2534467f;
    return 0.5f / (1.0f + a * k);
}

/* scale: exp(-scale a^2) = (1 + result) 2^n, a >= 0, a^2 without rounding error */
RLX_INLINE float rlx_exp_square_f32(float a, float scale, int32_t *n) {
    float top = rlx_from_bits_f32(rlx_bits_f32(a) & 0xFFFFF000u);
    return rlx_exp_core_f32(-scale * (top * top), -scale * ((a - top) * (a + top)), n);
}

RLX_INLINE float rlx_gelu_f32(float x) {
    int32_t n;
    float a = __builtin_fabsf(x);
    a = a > 14.6f ? 14.6f : a;
    float m = rlx_exp_square_f32(a, 0.5f, &n), g = rlx_mills_f32(a);
    float v = rlx_scale_f32(__builtin_copysignf(a, x) * (g * m + g), n);
    return x > 0 ? x - v : v;
}

RLX_INLINE float rlx_erfc_f32(float x) {
    int32_t n;
    float a = __builtin_fabsf(x);
    a = a > 10.2f ? 10.2f : a;
    float m = rlx_exp_square_f32(a, 1.0f, &n), g = 2.0f * rlx_mills_f32(a * 0x1.6a09e6p+0f);
    float v = rlx_scale_f32(g * m + g, n);
    v = x < 0 ? 2.0f - v : v;
    return x == x ? v : x;
}

RLX_INLINE float rlx_erf_f32(float x) {
    int32_t n;
    float a = __builtin_fabsf(x), t = a > 4.0f ? 4.0f : a, s = t * t;
    float p = 8.31677244e-05f;
    p = p * s - 0.000813001185f;
    p = p * s + 0.00519990642f;
    p = p * s - 0.0268589407f;
    p = p * s + 0.112836875f;
    p = p * s - 0.376126319f;
    p = p * s + 0.12837923f;
    float q = -1.04331193e-05f;
    q = q * t + 0.00031485816f;
    q = q * t - 0.00361034204f;
    q = q * t + 0.0236945655f;
    q = q * t - 0.106159046f;
    q = q * t - 0.635198057f;
    q = q * t - 0.12863708f;
    float e = rlx_exp_core_f32(q * t - t, 0.0f, &n), c = rlx_pow2_f32(n);
    float r = a < 0.92f ? p * a + a : 1.0f - (c * e + c);
    return __builtin_copysignf(r, x);
}

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

RLX_INLINE float rlx_gelu_tanh_f32(float x) {
    double v = (double)x, z = v * v;
    double t = v * (1.5957691216057308 + 0.071354816272600260 * z) * 1.4426950408889634;
    double e = rlx_exp2_short(-__builtin_fabs(t));
    double low = x < -0x1p10f ? -0x1p10 : v;
    double r = (x < 0 ? low * e : v) / (1.0 + e);
    return (float)(x == x ? r : v);
}

#endif
