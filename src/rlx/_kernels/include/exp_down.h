/* Exponentials of numbers that are not above 0, for softmax and attention: by the table of exp_table.h in 12
 * instructions; rounding, a longer polynomial and scalef took 16. Terms below a limit are masked, for an
 * underflow costs a microcode assist. Stages run over four vectors at once: a chain of one vector is 50
 * cycles long and fills the scheduler with waiting work. */
#ifndef RLX_EXP_DOWN_H
#define RLX_EXP_DOWN_H

#include "exp_table.h"
#include "lanes.h"

#define RLX_DOWN_EACH _Pragma("GCC unroll 4") for (int k = 0; k < count; k++)

/* v = 2^unit exp(v) for v <= 0 or NaN, of `count` <= 4 vectors; 0 for v < lowest, which must be such that no
 * other result is denormal. */
RLX_INLINE void vf_exp_down(vf *v, const int count, const int unit, const float lowest) {
#if defined(__AVX2__)
    const vf magic = vf_set(RLX_EXP_MAGIC);
    const vi powers = *(const vi *)rlx_exp_powers + (unit << 23);
    vf whole[4], r[4], m[4], t[4];
    vi s[4];
    RLX_DOWN_EACH s[k] = (vi)(v[k] * vf_set(RLX_EXP_SCALE) + magic);
    RLX_DOWN_EACH whole[k] = (vf)s[k] - magic;
    RLX_DOWN_EACH r[k] = v[k] - whole[k] * vf_set(RLX_EXP_HIGH);
    RLX_DOWN_EACH r[k] = r[k] - whole[k] * vf_set(RLX_EXP_LOW);
#if defined(__AVX512F__)
    RLX_DOWN_EACH m[k] = vf_set(RLX_EXP_Q3) * r[k] + vf_set(RLX_EXP_Q2);
    RLX_DOWN_EACH t[k] = (vf)(vi)_mm512_permutexvar_epi32((__m512i)s[k], (__m512i)powers);
#else
    RLX_DOWN_EACH m[k] = vf_set(RLX_EXP_Q4) * r[k] + vf_set(RLX_EXP_Q3);
    RLX_DOWN_EACH m[k] = m[k] * r[k] + vf_set(RLX_EXP_Q2);
    RLX_DOWN_EACH t[k] = (vf)(vi)_mm256_permutevar8x32_epi32((__m256i)powers, (__m256i)s[k]);
#endif
    RLX_DOWN_EACH m[k] = m[k] * (r[k] * r[k]) + r[k];
    RLX_DOWN_EACH t[k] = (vf)((vi)t[k] + (s[k] << RLX_EXP_PLACE));
#if defined(__AVX512F__)
    RLX_DOWN_EACH v[k] = (vf)_mm512_maskz_fmadd_ps(
        _mm512_cmp_ps_mask((__m512)v[k], _mm512_set1_ps(lowest), _CMP_NLT_UQ), (__m512)t[k], (__m512)m[k],
        (__m512)t[k]);
#else
    RLX_DOWN_EACH m[k] = t[k] * m[k] + t[k]; /* NaN where v is -inf */
    RLX_DOWN_EACH v[k] = (vf)((vi)m[k] & ~(vi)(v[k] < vf_set(lowest)));
#endif
#else
    const vf magic = vf_set(12582912.0f), low = vf_set(lowest - 1);
    for (int k = 0; k < count; k++) {
        const vf d = v[k], c = vf_pick(vf_gt(low, d), low, d);
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

#undef RLX_DOWN_EACH
#endif
