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
 * microcode assist, which would make a row of -inf thirty times slower. In f32 exp(d) is that
 * of exp_down.h.
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
#include "exp_down.h"
#include "rows.h"

enum { SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP };

#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < count; k++)

/* v = UNIT exp(v - top) for v <= top or NaN, of `count` <= 4 vectors */
RLX_INLINE void vf_terms(vf *v, const int count, vf top) {
    EACH v[k] = v[k] - top;
    vf_exp_down(v, count, 64, -104.0f);
}

RLX_INLINE void vd_terms(vd *v, const int count, vd top) {
    EACH {
        const vd d = v[k] - top;
        vl n;
        const vd y = vd_exp_reduced(vd_max(vd_set(-746.0), d), &n);
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
