/* softmax: exponentials normalised along an axis, and their logarithms.
 *
 * softmax.T, log_softmax.T   args: x, out;  attrs: outer n inner
 *                            extent: outer * inner; may run in place
 * log_sum_exp.T              args: x, out;  attrs: outer n inner
 *                            extent: outer * inner
 *   x is [outer, n, inner], the middle axis is the one that is summed over; out
 *   is like x, of log_sum_exp [outer, inner]. T in f32, f64.
 *
 * Meaning. The row maximum is taken off first. A NaN gives a NaN row, as does a
 * row of -inf or one that holds +inf (log_sum_exp: -inf and +inf). Without
 * elements log_sum_exp is -inf. Four registers of floats are added up, then
 * widened into a sum of doubles; sums of doubles are compensated (Kahan). The
 * maximum ignores NaN, as the sum carries it into the whole row.
 *
 * Terms. exp(d) of d = x - maximum <= 0 is made UNIT times too large, so that no term of
 * a result above 0 is denormal, and the factor that normalises takes UNIT off again: a
 * denormal result is rounded once. Terms that end as 0 are masked: an underflow costs a
 * microcode assist, which would make a row of -inf thirty times slower. In f32
 * exp(d) comes from a table in one register
 * (exp_table.h), which takes 12 instructions; rounding, a longer polynomial and scalef took 16. Stages run over four vectors at once:
 * a chain of one vector is 50 cycles long and fills the scheduler with waiting work.
 *
 * Loops. inner == 1: a row at a time in three passes that stay in L1 (maximum;
 * exponential, stored, and sum; scale), of three rows at once: maximum of row i + 1,
 * terms of row i, scale of row i - 1. The folds of a register to one number, the
 * division and the logarithm take 30 cycles each, in which the other rows work. Rows of
 * at most 8 vectors have their own loops. A part of a vector is kept aside as a
 * whole one until it is scaled: what was stored in part cannot be read without a wait.
 * inner > 1: one register of columns at a time down the axis, so a lane does the same
 * whatever the cut of the range.
 */
#include <math.h>

#include "abi.h"
#include "exp_table.h"
#include "rows.h"

enum { SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP };

#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < count; k++)

#if defined(__AVX2__)
/* v = UNIT exp(v - top) for v <= top or NaN, of `count` <= 4 vectors */
RLX_INLINE void vf_terms(vf *v, const int count, vf top) {
    const vf magic = vf_set(RLX_EXP_MAGIC);
    const vi powers = *(const vi *)rlx_exp_powers + (64 << 23);
    vf whole[4], r[4], m[4], t[4];
    vi s[4];
    EACH v[k] = v[k] - top;
    EACH s[k] = (vi)(v[k] * vf_set(RLX_EXP_SCALE) + magic);
    EACH whole[k] = (vf)s[k] - magic;
    EACH r[k] = v[k] - whole[k] * vf_set(RLX_EXP_HIGH);
    EACH r[k] = r[k] - whole[k] * vf_set(RLX_EXP_LOW);
#if defined(__AVX512F__)
    EACH m[k] = vf_set(RLX_EXP_Q3) * r[k] + vf_set(RLX_EXP_Q2);
    EACH t[k] = (vf)(vi)_mm512_permutexvar_epi32((__m512i)s[k], (__m512i)powers);
#else
    EACH m[k] = vf_set(RLX_EXP_Q4) * r[k] + vf_set(RLX_EXP_Q3);
    EACH m[k] = m[k] * r[k] + vf_set(RLX_EXP_Q2);
    EACH t[k] = (vf)(vi)_mm256_permutevar8x32_epi32((__m256i)powers, (__m256i)s[k]);
#endif
    EACH m[k] = m[k] * (r[k] * r[k]) + r[k];
    EACH t[k] = (vf)((vi)t[k] + (s[k] << RLX_EXP_PLACE));
#if defined(__AVX512F__)
    EACH v[k] = (vf)_mm512_maskz_fmadd_ps(_mm512_cmp_ps_mask((__m512)v[k], _mm512_set1_ps(-104.0f), _CMP_NLT_UQ),
                                          (__m512)t[k], (__m512)m[k], (__m512)t[k]);
#else
    EACH m[k] = t[k] * m[k] + t[k]; /* NaN where v is -inf */
    EACH v[k] = (vf)((vi)m[k] & ~(vi)(v[k] < vf_set(-104.0f)));
#endif
}
#else
RLX_INLINE void vf_terms(vf *v, const int count, vf top) {
    const vf magic = vf_set(12582912.0f);
    for (int k = 0; k < count; k++) {
        const vf d = v[k] - top, c = vf_max(vf_set(-105.0f), d);
        const vf shifted = c * vf_set(1.44269504088896341f) + magic, whole = shifted - magic;
        const vf r = (c - whole * vf_set(0.693145751953125f)) - whole * vf_set(1.42860682030941723e-6f);
        vf p = vf_set(0.00139517174f);
        p = p * r + vf_set(0.00836959854f);
        p = p * r + vf_set(0.0416661873f);
        p = p * r + vf_set(0.166665122f);
        p = p * r + vf_set(0.5f);
        const vf y = p * (r * r) + r + vf_set(1.0f);
        const vi bits = ((vi)shifted - (vi)magic + vi_set(127 + 64)) << 23;
        v[k] = (vf)((vi)y & ~(vi)(d < vf_set(-104.0f))) * (vf)bits;
    }
}
#endif

RLX_INLINE void vd_terms(vd *v, const int count, vd top) {
    EACH {
        const vd d = v[k] - top, c = vd_max(vd_set(-746.0), d);
        vl n;
        const vd whole = vd_round_small(c * vd_set(1.4426950408889634074), &n);
        vd r = c - whole * vd_set(6.93147180369123816490e-01);
        r = r - whole * vd_set(1.90821492927058770002e-10);
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
        const vd y = p * (r * r) + r + vd_set(1.0);
        v[k] = (vd)((vl)y & ~(vl)(d < vd_set(-745.2))) * (vd)((n + (1023 + 512)) << 52);
    }
}

#define T float
#define V vf
#define VN VF
#define FN(name) name##_f32
#define V_(name) vf_##name
#define UNIT 0x1p64
#include "softmax.inc"
#undef T
#undef V
#undef VN
#undef FN
#undef V_
#undef UNIT

#define T double
#define V vd
#define VN VD
#define FN(name) name##_f64
#define V_(name) vd_##name
#define UNIT 0x1p512
#include "softmax.inc"

#define ROWS(TN)                                                        \
    {"softmax." #TN, softmax_##TN, "outer n inner", RLX_INPLACE},       \
    {"log_softmax." #TN, log_softmax_##TN, "outer n inner", RLX_INPLACE}, \
    {"log_sum_exp." #TN, log_sum_exp_##TN, "outer n inner", 0}

const rlx_kernel_row rlx_rows_softmax[] = {
    ROWS(f32),
    ROWS(f64),
    {NULL, NULL, NULL, 0},
};
