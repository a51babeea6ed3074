/* float32 transcendentals on whole vectors (rlx_v32 of tile.h).
 *
 * Accuracy: at most 4 ulp over the whole range, denormals included; the
 * measured numbers stand in docs/reference/accuracy.md. NaN propagates,
 * infinities and signed zeros give the limits of the mathematical function.
 * There are no branches: lanes are selected, so a lane never depends on its
 * neighbours, and a partial vector computes what a full one does.
 *
 * How cancellation and double rounding are avoided:
 *   exp       x = k ln2 + r in two pieces, exp(r) - 1 by a polynomial, 2^k
 *             applied so that a denormal result is rounded once.
 *   expm1     2^k (exp(r) - 1) + (2^k - 1): exact near 0 without a select.
 *   tanh      through expm1(-2|x|); AVX-512 by a table of polynomials, in half the time.
 *   sigmoid, silu, mish, softplus through exp(-|x|), with 2^k applied after the last
 *             product. AVX-512 has sigmoid and silu from 2^-64 (1 + exp(-x)), which
 *             is normal wherever it counts: no select, one scaling.
 *   gelu      x Phi(x) from Phi(-|x|) = g(|x|) exp(-x^2/2): the negative tail
 *             keeps its relative accuracy down to the denormals. x^2 is never
 *             rounded before it is reduced, so the exponent carries no rounding error. AVX-512 has g from a
 *             table of polynomials, which takes 0.75 of the time. (g as one polynomial in
 *             1 / (1 + a/3) was as fast as that and 6.6 ulp off.)
 *   gelu_tanh x sigmoid(t), t in two floats.
 *   log       x = 2^e (1 + f), f in [-1/4, 1/2).
 * The polynomials are weighted minimax fits (Lawson iteration).
 *
 * Tried: the same functions as scalar expressions in loops that the compiler
 * vectorises. GCC 12 threads jumps through clamps and selects, which cost 20
 * to 50 % more instructions; AVX-512 has scalef, getexp and fixupimm, which
 * replace up to ten. */
#ifndef RLX_VMATHF_H
#define RLX_VMATHF_H

#include "exp_table.h"
#include "tile.h"

#define RLX_VMATH static inline __attribute__((always_inline))

/* ---- what the vector extensions cannot say ---- */
#if defined(__AVX512F__)
typedef __mmask16 rlx_mask32;
#define RLX_VLESS(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_LT_OQ)
RLX_VMATH rlx_v32 rlx_vselect(rlx_mask32 m, rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a);
}
/* the second operand where the comparison is false, NaN included */
RLX_VMATH rlx_v32 rlx_vmin(rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm512_min_ps((__m512)a, (__m512)b);
}
RLX_VMATH rlx_v32 rlx_vmax(rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm512_max_ps((__m512)a, (__m512)b);
}
RLX_VMATH rlx_v32 rlx_vround(rlx_v32 x) {
    return (rlx_v32)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_VMATH rlx_v32 rlx_vfma(rlx_v32 a, rlx_v32 b, rlx_v32 c) {
    return (rlx_v32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
/* v 2^k for whole k */
RLX_VMATH rlx_v32 rlx_vscale(rlx_v32 v, rlx_v32 k) {
    return (rlx_v32)_mm512_scalef_ps((__m512)v, (__m512)k);
}
RLX_VMATH rlx_v32 rlx_vpow2(rlx_v32 k) { return rlx_vscale((rlx_v32){0} + 1.0f, k); }
/* 1 / d to a few ulp, for where that is enough: a division costs ten cycles */
RLX_VMATH rlx_v32 rlx_vrecip(rlx_v32 d) {
    rlx_v32 t = (rlx_v32)_mm512_rcp14_ps((__m512)d);
    return t * (2.0f - d * t);
}
#else
typedef rlx_vi32 rlx_mask32;
#define RLX_VLESS(a, b) ((a) < (b))
#if defined(__AVX2__)
RLX_VMATH rlx_v32 rlx_vselect(rlx_mask32 m, rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m);
}
RLX_VMATH rlx_v32 rlx_vmin(rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm256_min_ps((__m256)a, (__m256)b);
}
RLX_VMATH rlx_v32 rlx_vmax(rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)_mm256_max_ps((__m256)a, (__m256)b);
}
RLX_VMATH rlx_v32 rlx_vround(rlx_v32 x) {
    return (rlx_v32)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RLX_VMATH rlx_vi32 rlx_vto_int(rlx_v32 x) { return (rlx_vi32)_mm256_cvtps_epi32((__m256)x); }
RLX_VMATH rlx_v32 rlx_vto_float(rlx_vi32 x) { return (rlx_v32)_mm256_cvtepi32_ps((__m256i)x); }
RLX_VMATH rlx_v32 rlx_vfma(rlx_v32 a, rlx_v32 b, rlx_v32 c) {
    return (rlx_v32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#else
RLX_VMATH rlx_v32 rlx_vselect(rlx_mask32 m, rlx_v32 a, rlx_v32 b) {
    return (rlx_v32)((m & (rlx_vi32)a) | (~m & (rlx_vi32)b));
}
RLX_VMATH rlx_v32 rlx_vmin(rlx_v32 a, rlx_v32 b) { return rlx_vselect(a < b, a, b); }
RLX_VMATH rlx_v32 rlx_vmax(rlx_v32 a, rlx_v32 b) { return rlx_vselect(a > b, a, b); }
RLX_VMATH rlx_v32 rlx_vround(rlx_v32 x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
RLX_VMATH rlx_vi32 rlx_vto_int(rlx_v32 x) {
    return (rlx_vi32)(x + 0x1.8p23f) - 0x4B400000;
}
RLX_VMATH rlx_v32 rlx_vto_float(rlx_vi32 x) {
    return (rlx_v32)(x + 0x4B400000) - 0x1.8p23f;
}
RLX_VMATH rlx_v32 rlx_vfma(rlx_v32 a, rlx_v32 b, rlx_v32 c) {
    for (int i = 0; i < RLX_W32; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
}
#endif
RLX_VMATH rlx_v32 rlx_vpow2_int(rlx_vi32 n) { return (rlx_v32)((n + 127) << 23); }
/* |k| < 200: two factors, so that v 2^k is rounded once */
RLX_VMATH rlx_v32 rlx_vscale(rlx_v32 v, rlx_v32 k) {
    rlx_vi32 n = rlx_vto_int(k), half = n >> 1;
    return v * rlx_vpow2_int(half) * rlx_vpow2_int(n - half);
}
RLX_VMATH rlx_v32 rlx_vpow2(rlx_v32 k) { return rlx_vpow2_int(rlx_vto_int(k)); }
RLX_VMATH rlx_v32 rlx_vrecip(rlx_v32 d) { return 1.0f / d; }
#endif

RLX_VMATH rlx_v32 rlx_vall(float x) { return (rlx_v32){0} + x; }
RLX_VMATH rlx_v32 rlx_vabs(rlx_v32 x) { return (rlx_v32)((rlx_vi32)x & 0x7FFFFFFF); }
RLX_VMATH rlx_v32 rlx_vcopysign(rlx_v32 x, rlx_v32 sign) {
    rlx_vi32 low = (rlx_vi32){0} + 0x7FFFFFFF;
    return (rlx_v32)(((rlx_vi32)x & low) | ((rlx_vi32)sign & ~low));
}

/* |x| < 2^22; an addition that joins the product before it, where rounding as such takes two steps */
RLX_VMATH rlx_v32 rlx_vround_small(rlx_v32 x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/* ---- exponentials ---- */

/* x = k ln2 + r, |r| <= ln2 / 2 */
RLX_VMATH rlx_v32 rlx_vexp_reduce(rlx_v32 x, rlx_v32 *k) {
    *k = rlx_vround_small(x * 0x1.715476p+0f);
    x = x - *k * 0.693359375f;
    return x - *k * -2.12194440e-4f;
}
/* exp(r) - 1 */
RLX_VMATH rlx_v32 rlx_vexp_tail(rlx_v32 r) {
    rlx_v32 q = 0.00139517174f * r + 0.00836959854f;
    q = q * r + 0.0416661873f;
    q = q * r + 0.166665122f;
    q = q * r + 0.5f;
    return q * (r * r) + r;
}
RLX_VMATH rlx_v32 rlx_vexp_core(rlx_v32 x, rlx_v32 *k) {
    return rlx_vexp_tail(rlx_vexp_reduce(x, k));
}
/* exp(x) = (1 + *m) 2^k for -120 <= x <= 0. Products with the mantissa are taken as y + y *m, which
 * rounds once less. */
RLX_VMATH rlx_v32 rlx_vexp_negative(rlx_v32 x, rlx_v32 *m, rlx_v32 *k) {
    *m = rlx_vexp_core(x, k);
    return rlx_vscale(1.0f + *m, *k);
}

RLX_VMATH rlx_v32 rlx_vexp_f32(rlx_v32 x) {
    rlx_v32 k;
    x = rlx_clamp_f32(x, rlx_vall(-104.0f), rlx_vall(89.0f));
    rlx_v32 m = 1.0f + rlx_vexp_core(x, &k);
    return rlx_vscale(m, k);
}

/* for x <= 0 */
RLX_VMATH rlx_v32 rlx_vexpm1_negative_f32(rlx_v32 x) {
    rlx_v32 k, e = rlx_vexp_core(rlx_vmax(rlx_vall(-40.0f), x), &k), s = rlx_vpow2(k);
    return s * e + (s - 1.0f);
}
RLX_VMATH rlx_v32 rlx_vexpm1_f32(rlx_v32 x) {
    rlx_v32 k, z = rlx_clamp_f32(x, rlx_vall(-40.0f), rlx_vall(89.0f));
    rlx_v32 e = rlx_vexp_core(z, &k), s = rlx_vpow2(k - 1.0f);
    rlx_v32 r = 2.0f * (s * e + (s - 0.5f));
    return rlx_vselect(RLX_VLESS(rlx_vabs(x), rlx_vall(0x1p-25f)), x, r);
}

#if defined(__AVX512F__)
/* Values by the segment of a in [0, 15): 32 of them, an eighth of an octave of a + 1 each, found by the
 * low bits of its exponent and the high ones of its mantissa. The first row holds the centres, the
 * others coefficients of the powers of the distance to it. */
RLX_VMATH rlx_v32 rlx_vpiecewise(rlx_v32 a, const float table[6][32]) {
    __m512i i = _mm512_srli_epi32((__m512i)(a + 1.0f), 20);
    rlx_v32 v[6];
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++)
        v[j] = (rlx_v32)_mm512_permutex2var_ps(_mm512_loadu_ps(table[j]), i, _mm512_loadu_ps(table[j] + 16));
    rlx_v32 d = a - v[0], p = v[5] * d + v[4];
    p = p * d + v[3];
    p = p * d + v[2];
    return p * d + v[1];
}

/* tanh(a) / min(a, 1), relative error below 2^-23.6; 17 instructions and no division */
static const float rlx_tanh_table[6][32] __attribute__((aligned(64))) = {
    {1.125f, 1.375f, 1.625f, 1.875f, 2.125f, 2.375f, 2.625f, 2.875f, 3.25f, 3.75f, 4.25f, 4.75f,
     5.25f, 5.75f, 6.25f, 6.75f, 7.5f, 8.5f, 9.5f, 10.5f, 11.5f, 12.5f, 13.5f, 14.5f, 0.0625f,
     0.1875f, 0.3125f, 0.4375f, 0.5625f, 0.6875f, 0.8125f, 0.9375f},
    {0.8093011f, 0.8798267f, 0.92534626f, 0.95404524f, 0.97187275f, 0.982845f, 0.98955977f,
     0.9936546f, 0.99699765f, 0.99889445f, 0.99959314f, 0.99985033f, 0.9999449f, 0.99997973f,
     0.99999255f, 0.99999726f, 0.9999994f, 0.99999994f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f,
     0.99869996f, 0.98844373f, 0.96867114f, 0.9407316f, 0.9063644f, 0.86745244f, 0.8258056f,
     0.78300965f},
    {0.3450342f, 0.2259057f, 0.14373426f, 0.08979729f, 0.055463023f, 0.034015387f, 0.020771325f,
     0.012650351f, 0.0059947763f, 0.0022095358f, 0.00081340974f, 0.00029931348f, 0.00011012168f,
     4.0512907e-05f, 1.4904056e-05f, 5.4829216e-06f, 1.2203161e-06f, 1.6515192e-07f, 2.2350884e-08f,
     0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -0.041536674f, -0.121557765f, -0.19297348f, -0.25170588f,
     -0.2956282f, -0.3245291f, -0.33969527f, -0.34332868f},
    {-0.27923995f, -0.1987597f, -0.13300483f, -0.08567109f, -0.053903192f, -0.033431944f,
     -0.02055451f, -0.012570104f, -0.0059769317f, -0.0022071446f, -0.00081309705f, -0.0002992753f,
     -0.00011011803f, -4.0512976e-05f, -1.4904272e-05f, -5.4830266e-06f, -1.2207572e-06f,
     -1.6521169e-07f, -2.2358973e-08f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -0.33022f, -0.30618238f,
     -0.2623923f, -0.20605268f, -0.14521469f, -0.08689079f, -0.03594427f, 0.005140764f},
    {0.11034917f, 0.099385604f, 0.07519102f, 0.05189159f, 0.03398698f, 0.021586794f, 0.013462087f,
     0.008303501f, 0.0040211747f, 0.0014911502f, 0.00055017386f, 0.00020261596f, 7.456781e-05f,
     2.7435966e-05f, 1.00936695e-05f, 3.713327e-06f, 8.6800276e-07f, 1.1747169e-07f, 1.5898069e-08f,
     0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.032973953f, 0.09290151f, 0.13674861f, 0.15939489f, 0.161325f,
     0.14716116f, 0.123262115f, 0.09562555f},
    {0.003880675f, -0.02103297f, -0.025107572f, -0.020849776f, -0.014995524f, -0.010028664f,
     -0.006442419f, -0.0040436382f, -0.0019834582f, -0.0007413901f, -0.00027433893f, -0.0001011403f,
     -3.7236783e-05f, -1.3702621e-05f, -5.04145e-06f, -1.8547184e-06f, -4.3223014e-07f,
     -5.8496298e-08f, -7.916634e-09f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.12984104f, 0.10643849f,
     0.067204f, 0.023534028f, -0.0142739145f, -0.040271282f, -0.05334389f, -0.055733133f},
};
RLX_VMATH rlx_v32 rlx_vtanh_f32(rlx_v32 x) {
    rlx_v32 a = rlx_vmin(rlx_vall(9.5f), rlx_vabs(x));
    /* x, or 1 with its sign */
    rlx_v32 z = (rlx_v32)_mm512_range_ps((__m512)x, (__m512)rlx_vall(1.0f), 2);
    return z * rlx_vpiecewise(a, rlx_tanh_table);
}

/* Powers of two as in exp_table.h, 2^-64 of them and of 8 bits, and the logarithms of what they lack. */
static const int32_t rlx_short_powers[16] __attribute__((aligned(64))) = {
    0x1f800000, 0x1f7e0000, 0x1f7c0000, 0x1f7a0000, 0x1f780000, 0x1f770000, 0x1f760000, 0x1f750000,
    0x1f750000, 0x1f750000, 0x1f750000, 0x1f760000, 0x1f770000, 0x1f790000, 0x1f7b0000, 0x1f7d0000};
static const float rlx_short_rests[16] __attribute__((aligned(64))) = {
    0.0f, -0.0024878373f, -0.0029687611f, -0.0016112614f, 0.0014365382f, -0.00026544437f,
    -2.7331727e-05f, 0.001990561f, 0.00010682293f, 0.00017853793f, 0.0020435231f, 0.00069278176f,
    0.0012526212f, -0.0008880541f, -0.0010514673f, 0.00059753517f};

/* 2^-64 (1 + exp(-x)) for -120 <= x <= 40 or NaN. A power t of 8 bits makes 1 + t exact where it matters,
 * so that the sum is rounded once. */
RLX_VMATH rlx_v32 rlx_vexp_plus_1(rlx_v32 x) {
    rlx_v32 s = x * -RLX_EXP_SCALE + RLX_EXP_MAGIC, k = s - RLX_EXP_MAGIC;
    rlx_v32 r = -x - k * RLX_EXP_HIGH;
    r = r + (rlx_v32)_mm512_permutexvar_ps((__m512i)s, _mm512_load_ps(rlx_short_rests));
    r = r - k * RLX_EXP_LOW;
    rlx_v32 m = (0.16667162f * r + 0.5000209f) * (r * r) + r;
    __m512i t = _mm512_permutexvar_epi32((__m512i)s, _mm512_load_si512(rlx_short_powers));
    t = _mm512_add_epi32(t, _mm512_slli_epi32((__m512i)s, RLX_EXP_PLACE));
    return (rlx_v32)t * m + ((rlx_v32)t + 0x1p-64f);
}

RLX_VMATH rlx_v32 rlx_vsigmoid_f32(rlx_v32 x) {
    rlx_v32 z = rlx_clamp_f32(x, rlx_vall(-120.0f), rlx_vall(40.0f));
    return 1.0f / rlx_vexp_plus_1(z) * 0x1p-64f;
}

RLX_VMATH rlx_v32 rlx_vsilu_f32(rlx_v32 x) {
    rlx_v32 z = rlx_clamp_f32(x, rlx_vall(-120.0f), rlx_vall(40.0f));
    /* x itself beyond, infinity and NaN */
    return (rlx_v32)_mm512_mask_mul_ps((__m512)x, RLX_VLESS(x, rlx_vall(40.0f)),
                                       (__m512)(z / rlx_vexp_plus_1(z)), _mm512_set1_ps(0x1p-64f));
}
#else
RLX_VMATH rlx_v32 rlx_vtanh_f32(rlx_v32 x) {
    rlx_v32 e = rlx_vexpm1_negative_f32(-2.0f * rlx_vabs(x));
    return rlx_vcopysign(e / (e + 2.0f), x);
}

RLX_VMATH rlx_v32 rlx_vsigmoid_f32(rlx_v32 x) {
    rlx_v32 m, k, e = rlx_vexp_negative(rlx_vmax(rlx_vall(-104.0f), -rlx_vabs(x)), &m, &k);
    return rlx_vselect(RLX_VLESS(x, rlx_vall(0)), e, rlx_vall(1.0f)) / (1.0f + e);
}

RLX_VMATH rlx_v32 rlx_vsilu_f32(rlx_v32 x) {
    rlx_mask32 below = RLX_VLESS(x, rlx_vall(0));
    rlx_v32 m, k, e = rlx_vexp_negative(rlx_vmax(rlx_vall(-120.0f), -rlx_vabs(x)), &m, &k);
    rlx_v32 low = rlx_vmax(rlx_vall(-120.0f), x);
    rlx_v32 r = rlx_vselect(below, low + low * m, x) / (1.0f + e);
    return rlx_vscale(r, rlx_vselect(below, k, rlx_vall(0)));
}
#endif

/* Where x is NaN the next two take a number for exp(-|x|): of two NaN operands the order, which is the
 * compiler's to choose, decides which sign comes out. */

/* x tanh(log(1 + exp x)), as a fraction of exp(-|x|) */
RLX_VMATH rlx_v32 rlx_vmish_f32(rlx_v32 x) {
    rlx_mask32 below = RLX_VLESS(x, rlx_vall(0));
    rlx_v32 m, k, e = rlx_vexp_negative(rlx_vmax(-rlx_vabs(x), rlx_vall(-120.0f)), &m, &k);
    rlx_v32 low = rlx_vmax(rlx_vall(-120.0f), x);
    low = low + low * m;
    rlx_v32 top = rlx_vselect(below, low * e + 2.0f * low, x * (1.0f + 2.0f * e));
    rlx_v32 bottom = rlx_vselect(below, e * (e + 2.0f) + 2.0f, 2.0f * (e * (e + 1.0f)) + 1.0f);
    return rlx_vscale(top / bottom, rlx_vselect(below, k, rlx_vall(0)));
}

RLX_VMATH rlx_v32 rlx_vsoftplus_f32(rlx_v32 x) {
    rlx_v32 m, k, e = rlx_vexp_negative(rlx_vmax(-rlx_vabs(x), rlx_vall(-104.0f)), &m, &k);
    rlx_v32 q = 0.00203021406f * e - 0.0134073934f; /* log1p on [0, 1] */
    q = q * e + 0.0414779373f;
    q = q * e - 0.0824414119f;
    q = q * e + 0.124184117f;
    q = q * e - 0.161056802f;
    q = q * e + 0.19890745f;
    q = q * e - 0.249872699f;
    q = q * e + 0.333325595f;
    q = q * e - 0.499999821f;
    return rlx_vmax(rlx_vall(0), x) + (q * (e * e) + e);
}
RLX_VMATH rlx_v32 rlx_vlog_sigmoid_f32(rlx_v32 x) { return -rlx_vsoftplus_f32(-x); }

/* ---- the normal distribution ---- */

/* 1 + a h(a), where exp(a^2/2) Phi(-a) = 0.5 / (1 + a h(a)), a in [0, 14.6]; h goes
 * from sqrt(2/pi) to sqrt(pi/2), so the errors of its polynomial weigh little */
RLX_VMATH rlx_v32 rlx_vmills(rlx_v32 a) {
    rlx_v32 t = rlx_vrecip(1.0f + 0.3f * a), h = -0.202140197f * t + 1.13356566f;
    h = h * t - 2.54892111f;
    h = h * t + 2.87957954f;
    h = h * t - 1.76402318f;
    h = h * t + 0.781897783f;
    h = h * t - 0.279351652f;
    h = h * t - 0.152922899f;
    h = h * t - 0.303245664f;
    h = h * t + 1.2534467f;
    return 1.0f + a * h;
}
/* exp(-scale a^2) = (1 + result) 2^k, the argument reduced without rounding a^2 */
RLX_VMATH rlx_v32 rlx_vexp_square(rlx_v32 a, float scale, rlx_v32 *k) {
    rlx_v32 b = -scale * a;
    *k = rlx_vround_small(b * 0x1.715476p+0f * a);
    rlx_v32 r = rlx_vfma(a, b, *k * -0.693359375f); /* both products are exact */
    return rlx_vexp_tail(r - *k * -2.12194440e-4f);
}

/* Scaling into the subnormals takes 150 cycles a vector: not for lanes that end as x, or as -0. */
RLX_VMATH rlx_v32 rlx_vscale_of(rlx_v32 v, rlx_v32 k, rlx_mask32 stays_x, rlx_mask32 gone) {
    v = rlx_vselect(gone, -rlx_vall(0), v);
    return rlx_vscale(v, rlx_vselect(gone, rlx_vall(0), rlx_vselect(stays_x, rlx_vmax(rlx_vall(-100), k), k)));
}

#if defined(__AVX512F__)
/* exp(a^2/2) Phi(-a) on [0, 15), relative error below 2^-23.9. Takes 13 instructions, the quotient 20
 * and a division. */
static const float rlx_tail_table[6][32] __attribute__((aligned(64))) = {
    {1.125f, 1.375f, 1.625f, 1.875f, 2.125f, 2.375f, 2.625f, 2.875f, 3.25f, 3.75f, 4.25f, 4.75f,
     5.25f, 5.75f, 6.25f, 6.75f, 7.5f, 8.5f, 9.5f, 10.5f, 11.5f, 12.5f, 13.5f, 14.5f, 0.0625f,
     0.1875f, 0.3125f, 0.4375f, 0.5625f, 0.6875f, 0.8125f, 0.9375f},
    {0.245331392f, 0.217639819f, 0.195023105f, 0.176290885f, 0.160580099f, 0.147254065f,
     0.135835603f, 0.125961721f, 0.113452062f, 0.100039206f, 0.0893593207f, 0.0806754008f,
     0.073488228f, 0.0674492344f, 0.0623084866f, 0.0578826331f, 0.0522930957f, 0.0463100448f,
     0.04154329f, 0.037658859f, 0.0344340578f, 0.0317149274f, 0.0293917321f, 0.0273842253f,
     0.476011127f, 0.433182299f, 0.396211833f, 0.364104867f, 0.336061448f, 0.311434001f,
     0.289695084f, 0.270412415f},
    {-0.122944281f, -0.0996874049f, -0.0820296481f, -0.0683968067f, -0.0577095337f,
     -0.0492138453f, -0.0423738174f, -0.0368023142f, -0.0302229654f, -0.0237951837f,
     -0.0191651415f, -0.0157341138f, -0.0131290555f, -0.0111091919f, -0.00951423217f,
     -0.00823451299f, -0.00674402062f, -0.00530689815f, -0.00428103097f, -0.00352425897f,
     -0.00295060361f, -0.00250570895f, -0.00215390231f, -0.00187101436f, -0.369191468f,
     -0.317720503f, -0.27512601f, -0.239646345f, -0.209907681f, -0.184831381f, -0.16356501f,
     -0.145430624f},
    {0.0535094291f, 0.0402847342f, 0.0308623966f, 0.0240233857f, 0.0189736299f, 0.0151855629f,
     0.0123021416f, 0.0100775147f, 0.00761351455f, 0.00540351402f, 0.00395365525f,
     0.00296912808f, 0.00228030933f, 0.00178566435f, 0.00142225157f, 0.00114982307f,
     0.000856350234f, 0.000600634608f, 0.000436705217f, 0.00032704373f, 0.000251041056f,
     0.000196770285f, 0.00015701777f, 0.00012725289f, 0.226468354f, 0.186804861f, 0.155117482f,
     0.129629791f, 0.108994171f, 0.0921811983f, 0.078399241f, 0.0670355931f},
    {-0.020964276f, -0.0147962151f, -0.0106460629f, -0.00779749174f, -0.00580570707f,
     -0.00438876357f, -0.00336443936f, -0.00261279242f, -0.00183362549f, -0.00118127104f,
     -0.000789598678f, -0.000544901588f, -0.000386616419f, -0.000281050015f, -0.000208717975f,
     -0.000157956805f, -0.000107637636f, -6.74233743e-05f, -4.42479359e-05f, -3.01780983e-05f,
     -2.12570267e-05f, -1.53889687e-05f, -1.14059521e-05f, -8.62804882e-06f, -0.11845804f,
     -0.0943158716f, -0.0756143928f, -0.0610263571f, -0.0495700762f, -0.0405143611f,
     -0.033310879f, -0.0275457092f},
    {0.00750639057f, 0.00500277383f, 0.00340329274f, 0.00235987362f, 0.00166574481f,
     0.00119543192f, 0.000871245866f, 0.0006441609f, 0.000420838129f, 0.000247821037f,
     0.000152203793f, 9.69793036e-05f, 6.38187485e-05f, 4.32091329e-05f, 3.00019383e-05f,
     2.13041221e-05f, 1.32712767e-05f, 7.45152784e-06f, 4.42616147e-06f, 2.75499042e-06f,
     1.78366361e-06f, 1.19419462e-06f, 8.22967081e-07f, 5.81560244e-07f, 0.0547936335f,
     0.0423036963f, 0.0328919478f, 0.0257494915f, 0.0202918369f, 0.0160936769f, 0.0128433872f,
     0.0103111062f},
};

RLX_VMATH rlx_v32 rlx_vtail(rlx_v32 a) { return rlx_vpiecewise(a, rlx_tail_table); }

/* For x that gelu.h leaves, below -6. */
RLX_VMATH rlx_v32 rlx_vgelu_far_f32(rlx_v32 x) {
    /* the smaller magnitude with the sign of x; 14.6 for NaN */
    rlx_v32 k, z = (rlx_v32)_mm512_range_ps((__m512)x, (__m512)rlx_vall(14.6f), 2);
    rlx_v32 e = rlx_vexp_square(z, 0.5f, &k), g = z * rlx_vtail(rlx_vabs(z));
    return rlx_vscale_of(g * e + g, k, (rlx_mask32)0, RLX_VLESS(x, rlx_vall(-14.5f)));
}
#else
RLX_VMATH rlx_v32 rlx_vgelu_f32(rlx_v32 x) {
    rlx_v32 k, a = rlx_vmin(rlx_vall(14.6f), rlx_vabs(x));
    rlx_v32 e = rlx_vexp_square(a, 0.5f, &k);
    rlx_v32 g = rlx_vcopysign(0.5f * a, x) / rlx_vmills(a);
    rlx_mask32 above = RLX_VLESS(rlx_vall(0), x);
    rlx_v32 v = rlx_vscale_of(g * e + g, k, above, RLX_VLESS(x, rlx_vall(-14.5f)));
    return rlx_vselect(above, x - v, v);
}
#endif

RLX_VMATH rlx_v32 rlx_verfc_f32(rlx_v32 x) {
    rlx_v32 k, a = rlx_vmin(rlx_vall(10.2f), rlx_vabs(x));
    rlx_v32 e = rlx_vexp_square(a, 1.0f, &k), g = 1.0f / rlx_vmills(a * 0x1.6a09e6p+0f);
    rlx_v32 v = rlx_vscale(g * e + g, k);
    return rlx_vselect(RLX_VLESS(x, rlx_vall(0)), 2.0f - v, v);
}

RLX_VMATH rlx_v32 rlx_verf_f32(rlx_v32 x) {
    rlx_v32 k, a = rlx_vabs(x), t = rlx_vmin(rlx_vall(4.0f), a), s = t * t;
    rlx_v32 p = 8.31677244e-05f * s - 0.000813001185f;
    p = p * s + 0.00519990642f;
    p = p * s - 0.0268589407f;
    p = p * s + 0.112836875f;
    p = p * s - 0.376126319f;
    p = p * s + 0.12837923f;
    rlx_v32 q = -1.04331193e-05f * t + 0.00031485816f;
    q = q * t - 0.00361034204f;
    q = q * t + 0.0236945655f;
    q = q * t - 0.106159046f;
    q = q * t - 0.635198057f;
    q = q * t - 0.12863708f;
    rlx_v32 e = rlx_vexp_core(q * t - t, &k), c = rlx_vpow2(k);
    rlx_v32 r = rlx_vselect(RLX_VLESS(a, rlx_vall(0.92f)), p * a + a, 1.0f - (c * e + c));
    return rlx_vcopysign(r, x);
}

/* x sigmoid(t), t = x (c1 + c3 x^2) as v + low */
RLX_VMATH rlx_v32 rlx_vgelu_tanh_f32(rlx_v32 x) {
    const rlx_v32 c1 = rlx_vall(0x1.988454p+0f), c3 = rlx_vall(0x1.2444f2p-4f);
    rlx_mask32 below = RLX_VLESS(x, rlx_vall(0));
    rlx_v32 k, a = rlx_vmin(rlx_vall(11.0f), rlx_vabs(x));
    rlx_v32 s = a * a, s_low = rlx_vfma(a, a, -s);
    rlx_v32 p = c3 * s, p_low = rlx_vfma(c3, s, -p) + c3 * s_low;
    rlx_v32 w = p + c1, z = w - p, w_low = (p - (w - z)) + (c1 - z);
    w_low = w_low + (p_low + (0x1.49b16ap-29f * s - 0x1.857936p-25f));
    rlx_v32 v = a * w, v_low = rlx_vfma(a, w, -v) + a * w_low;
    rlx_v32 r = rlx_vexp_reduce(-v, &k) - v_low;
    /* 1 + e is 1 long before e is subnormal, and what is less than half the least number is -0 */
    rlx_v32 m = rlx_vexp_tail(r), e = rlx_vscale(1.0f + m, rlx_vmax(rlx_vall(-100), k));
    rlx_v32 y = rlx_vselect(below, -a - a * m, x) / (1.0f + e);
    rlx_mask32 gone = RLX_VLESS(x, rlx_vall(-10.9f));
    return rlx_vscale_of(y, rlx_vselect(below, k, rlx_vall(0)), gone, gone);
}

/* x sigmoid(t), t = slope x as v + low, the slope in two floats */
RLX_VMATH rlx_v32 rlx_vswish_f32(rlx_v32 x, rlx_v32 slope, rlx_v32 slope_low) {
    rlx_v32 largest = rlx_vall(0x1.fffffep127f), a = rlx_clamp_f32(x, -largest, largest);
    rlx_v32 v = slope * a, low = rlx_vfma(slope, a, -v) + slope_low * a;
    rlx_mask32 below = RLX_VLESS(v, rlx_vall(0)), far = RLX_VLESS(rlx_vall(120), rlx_vabs(v));
    low = rlx_vselect(far, rlx_vall(0), rlx_vselect(below, low, -low));
    rlx_v32 k, r = rlx_vexp_reduce(rlx_vmax(rlx_vall(-120), -rlx_vabs(v)), &k) + low;
    rlx_v32 m = rlx_vselect(far, rlx_vall(-1), rlx_vexp_tail(r)), e = rlx_vscale(1.0f + m, k);
    rlx_v32 y = rlx_vselect(below, a + a * m, x) / (1.0f + e);
    return rlx_vcopysign(rlx_vscale(y, rlx_vselect(below, k, rlx_vall(0))), x);
}

/* ---- logarithm ---- */

RLX_VMATH rlx_v32 rlx_vlog_f32(rlx_v32 x) {
#if defined(__AVX512F__)
    __m512 mantissa = _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    rlx_v32 f = (rlx_v32)mantissa - 1.0f;
    rlx_v32 e = (rlx_v32)_mm512_getexp_ps((__m512)x) - (rlx_v32)_mm512_getexp_ps(mantissa);
#else
    rlx_mask32 tiny = RLX_VLESS(x, rlx_vall(0x1p-126f));
    rlx_vi32 u = (rlx_vi32)rlx_vselect(tiny, x * 0x1p23f, x) + (0x3F800000 - 0x3F400000);
    rlx_v32 shift = rlx_vselect(tiny, rlx_vall(23), rlx_vall(0));
    rlx_v32 e = rlx_vto_float(((u >> 23) & 0xFF) - 127) - shift;
    rlx_v32 f = (rlx_v32)((u & 0x007FFFFF) + 0x3F400000) - 1.0f;
#endif
    rlx_v32 s = f * f, q = 0.0376724638f * f - 0.0911614224f;
    q = q * f + 0.11700654f;
    q = q * f - 0.127277851f;
    q = q * f + 0.142762408f;
    q = q * f - 0.166552961f;
    q = q * f + 0.199996054f;
    q = q * f - 0.250001639f;
    q = q * f + 0.333333403f;
    rlx_v32 y = q * (s * f) + e * -2.12194440e-4f;
    y = y - 0.5f * s;
    rlx_v32 r = e * 0.693359375f + (f + y);
#if defined(__AVX512F__)
    /* by class of x: NaN quiet(x), 0 -inf, +inf itself, negative NaN */
    return (rlx_v32)_mm512_fixupimm_ps((__m512)r, (__m512)x, _mm512_set1_epi32(0x03530422), 0);
#else
    rlx_v32 infinite = rlx_vall(__builtin_inff());
    r = rlx_vselect(RLX_VLESS(x, infinite), r, x);
    r = rlx_vselect((rlx_mask32)(x == 0.0f), -infinite, r);
    return rlx_vselect(RLX_VLESS(x, rlx_vall(0)), rlx_vall(__builtin_nanf("")), r);
#endif
}

#endif
