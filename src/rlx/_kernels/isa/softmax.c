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
 * Loops. inner == 1: a row at a time, three passes that stay in L1 (maximum;
 * exponential, stored, and sum; scale). inner > 1: one register of columns at a
 * time down the axis, so a lane does the same whatever the cut of the range.
 */
#include <math.h>

#include "abi.h"
#include "rows.h"

enum { SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP };

/* exp of x <= 0 (or NaN), denormal results included. What rounds to 0 is masked
 * before the last product: an underflow costs a microcode assist, which would
 * make a row of -inf thirty times slower. */
RLX_INLINE vf vf_exp_down(vf x) {
#if defined(__AVX512F__)
    const __mmask16 keep = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-104.0f), _CMP_NLT_UQ);
    const vf k = (vf)_mm512_roundscale_ps((__m512)(x * vf_set(1.44269504088896341f)), 0);
    vf r = x - k * vf_set(0.693145751953125f);
#else
    const vf c = vf_max(vf_set(-105.0f), x);
    const vf shifted = c * vf_set(1.44269504088896341f) + vf_set(12582912.0f);
    const vf k = shifted - vf_set(12582912.0f);
    vf r = c - k * vf_set(0.693145751953125f);
#endif
    r = r - k * vf_set(1.42860682030941723e-6f);
    vf p = vf_set(0.00139517174f);
    p = p * r + vf_set(0.00836959854f);
    p = p * r + vf_set(0.0416661873f);
    p = p * r + vf_set(0.166665122f);
    p = p * r + vf_set(0.5f);
    vf y = p * (r * r) + r + vf_set(1.0f);
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_scalef_ps(keep, (__m512)y, (__m512)k);
#else
    /* 2^(k + 64) is normal; the last product rounds, once, if it must */
    const vi bits = ((vi)shifted - (vi)vf_set(12582912.0f) + vi_set(127 + 64)) << 23;
    y = (vf)((vi)y & ~(vi)(x < vf_set(-104.0f)));
    return y * (vf)bits * vf_set(0x1p-64f);
#endif
}

RLX_INLINE vd vd_exp_down(vd x) {
    const vd c = vd_max(vd_set(-746.0), x);
    vl k;
    const vd kf = vd_round_small(c * vd_set(1.4426950408889634074), &k);
    vd r = c - kf * vd_set(6.93147180369123816490e-01);
    r = r - kf * vd_set(1.90821492927058770002e-10);
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
    vd y = p * (r * r) + r + vd_set(1.0);
    y = (vd)((vl)y & ~(vl)(x < vd_set(-745.2)));
    return y * (vd)((k + (1023 + 512)) << 52) * vd_set(0x1p-512);
}

#define T float
#define V vf
#define VN VF
#define FN(name) name##_f32
#define V_(name) vf_##name
#include "softmax.inc"
#undef T
#undef V
#undef VN
#undef FN
#undef V_

#define T double
#define V vd
#define VN VD
#define FN(name) name##_f64
#define V_(name) vd_##name
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
