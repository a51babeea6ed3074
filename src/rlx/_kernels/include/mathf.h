/* float32 functions, one value at a time and without branches, so that any loop
 * over them vectorises (masked selects instead of jumps): sin and cos, whose
 * argument is reduced in double, and log for scalar loops. The others exist on
 * whole vectors, in vmathf.h and vmathw.h.
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

#endif
