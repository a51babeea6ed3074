/* Exponentials of numbers that are not above 0, of attention's scores.
 *
 * exp(d) = 2^(j/16) 2^k (1 + m) with a table of 16 in one register (AVX2: of 8), whose entries take off
 * what the shift of the whole number leaves of j; so 2^k costs a shift and an addition, and m two terms
 * after r: 12 instructions, the rounding, polynomial and scalef before it 16. Terms below a limit are
 * masked, for an underflow costs a microcode assist. Stages run over four vectors at once: a chain of one
 * vector is 50 cycles long and fills the scheduler with waiting work. */
#ifndef RLX_EXP_DOWN_H
#define RLX_EXP_DOWN_H

#include "lanes.h"

#define RLX_EACH _Pragma("GCC unroll 4") for (int k = 0; k < count; k++)

#if defined(__AVX2__)
/* 2^(j / TABLE) less j in the place where a whole number of 1 / TABLE has it */
#if defined(__AVX512F__)
enum { RLX_TABLE = 16, RLX_PLACE = 19 };
static const int32_t rlx_powers[RLX_TABLE] __attribute__((aligned(64))) = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
#else
enum { RLX_TABLE = 8, RLX_PLACE = 20 };
static const int32_t rlx_powers[RLX_TABLE] __attribute__((aligned(32))) = {
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
#endif
#endif

/* v = 2^unit exp(v) for v <= 0 or NaN, of `count` <= 4 vectors; 0 for v < lowest, where lowest is such that no
 * result above it is denormal. */
RLX_INLINE void vf_exp_down(vf *v, const int count, const int unit, const float lowest) {
    const vf magic = vf_set(12582912.0f);
#if defined(__AVX2__)
    const vi powers = *(const vi *)rlx_powers + (unit << 23);
    vf k_[4], r[4], m[4], t[4];
    vi s[4];
    RLX_EACH s[k] = (vi)(v[k] * vf_set(RLX_TABLE * 1.44269504088896341f) + magic);
    RLX_EACH k_[k] = (vf)s[k] - magic;
    RLX_EACH r[k] = v[k] - k_[k] * vf_set(0x1.62e43p-1f / RLX_TABLE);
    RLX_EACH r[k] = r[k] + k_[k] * vf_set(0x1.05c61p-29f / RLX_TABLE);
#if defined(__AVX512F__)
    RLX_EACH m[k] = vf_set(0.16667046f) * r[k] + vf_set(0.5000162f);
    RLX_EACH t[k] = (vf)(vi)_mm512_permutexvar_epi32((__m512i)s[k], (__m512i)powers);
#else
    RLX_EACH m[k] = vf_set(0.041670635f) * r[k] + vf_set(0.16668028f);
    RLX_EACH m[k] = m[k] * r[k] + vf_set(0.5f);
    RLX_EACH t[k] = (vf)(vi)_mm256_permutevar8x32_epi32((__m256i)powers, (__m256i)s[k]);
#endif
    RLX_EACH m[k] = m[k] * (r[k] * r[k]) + r[k];
    RLX_EACH t[k] = (vf)((vi)t[k] + (s[k] << RLX_PLACE));
#if defined(__AVX512F__)
    RLX_EACH v[k] = (vf)_mm512_maskz_fmadd_ps(_mm512_cmp_ps_mask((__m512)v[k], _mm512_set1_ps(lowest), _CMP_NLT_UQ),
                                          (__m512)t[k], (__m512)m[k], (__m512)t[k]);
#else
    RLX_EACH m[k] = t[k] * m[k] + t[k]; /* NaN where v is -inf */
    RLX_EACH v[k] = (vf)((vi)m[k] & ~(vi)(v[k] < vf_set(lowest)));
#endif
#else
    for (int k = 0; k < count; k++) {
        const vf d = v[k], low = vf_set(lowest - 1), c = vf_pick(vf_gt(low, d), low, d);
        const vf shifted = c * vf_set(1.44269504088896341f) + magic, whole = shifted - magic;
        const vf r = (c - whole * vf_set(0.693145751953125f)) - whole * vf_set(1.42860682030941723e-6f);
        vf p = vf_set(0.00139517174f);
        p = p * r + vf_set(0.00836959854f);
        p = p * r + vf_set(0.0416661873f);
        p = p * r + vf_set(0.166665122f);
        p = p * r + vf_set(0.5f);
        const vf y = p * (r * r) + r + vf_set(1.0f);
        const vi bits = ((vi)shifted - (vi)magic + vi_set(127 + unit)) << 23;
        v[k] = (vf)((vi)y & ~(vi)(d < vf_set(lowest))) * (vf)bits;
    }
#endif
}

#endif
