/* norm: mean and variance taken off, in the ways that networks do it.
 *
 * T in f32, f64. Absent operands (gamma, beta, ...) have slot < 0.
 *
 * layer_norm.T    args: x, gamma?, beta?, residual?, bias?, out, sum?, mean?, inv_std?
 *                 attrs: n eps:f;  extent: rows
 *   h = x + residual + bias (x, residual [rows, n], bias [n]);
 *   out = (h - mean) / sqrt(var + eps) * gamma + beta, gamma and beta [n].
 *   sum receives h, mean and inv_std [rows] the statistics. out may share memory
 *   with x or residual, not with gamma, beta or bias.
 * rms_norm.T      args: x, gamma?, residual?, out, sum?, inv_rms?
 *                 attrs: n eps:f;  extent: rows
 *   h = x + residual; out = h / sqrt(mean(h^2) + eps) * gamma.
 * group_norm.T    args: x, gamma?, beta?, out
 *                 attrs: groups channels inner eps:f;  extent: batch * groups
 *   x [batch, channels, inner]; gamma and beta [channels]. groups = channels is
 *   instance norm, groups = 1 a layer norm with weights per channel.
 * group_norm.T@channels_last   the same, x [batch, inner, channels]
 * batch_norm.T    args: x, gamma, beta, mean, var, out
 *                 attrs: outer channels inner eps:f;  extent: outer * channels
 *                 (inner > 1), outer (inner == 1)
 *   x [outer, channels, inner]: (x - mean) * (gamma / sqrt(var + eps)) + beta.
 * moments.T       args: x, mean, var;  attrs: outer r1 mid r2 inner
 *                 extent: outer * mid * inner
 *   Mean and (biased) variance over r1 and r2, see reduce.c.
 * lp_norm.T       args: x, out;  attrs: outer n inner p eps:f
 *                 extent: outer * inner
 *   x / max(|x|_p, eps) over the middle axis, p = 1 or 2; 0 where the divisor is 0.
 * lrn.T           args: x, out;  attrs: outer channels inner size alpha:f beta:f bias:f
 *                 extent: outer * channels
 *   x / (bias + alpha / size * sum of x^2 over channels c - (size-1)/2 .. c +
 *   size/2)^beta.
 *
 * Meaning. Means are summed in double. The variance is that of d = x - mean, the
 * mean held as a rounded value and a rest, so [40000..40003] loses nothing, and a
 * constant row gives exact zeros. d^2 is summed in the type itself, 16 at most
 * per lane before the sum goes to double. Where that sum is useless (it left the
 * range of the type or fell near its bottom) the row is done again in scaled
 * double arithmetic.
 *
 * Loops. Rows stay in L1 between the three passes. channels_last works on up to
 * COLUMNS neighbouring channels at once, so whole lines are read even when a
 * group is a single channel.
 */
#include <float.h>
#include <math.h>

#include "abi.h"
#include "rows.h"

#define COLUMNS 256

#define LOAD_WIDE rlx_load_vd_f32
#define T float
#define V vf
#define VN VF
#define TINY 1e-28
#define HUGE_SQUARE 1e37
#define FN(name) name##_f32
#define V_(name) vf_##name
#include "norm.inc"
#include "norm_channel.inc"
#undef LOAD_WIDE
#undef T
#undef V
#undef VN
#undef TINY
#undef HUGE_SQUARE
#undef FN
#undef V_

#define LOAD_WIDE rlx_load_vd_f64
#define T double
#define V vd
#define VN VD
#define TINY 1e-280
#define HUGE_SQUARE 1e307
#define FN(name) name##_f64
#define V_(name) vd_##name
#include "norm.inc"
#include "norm_channel.inc"

#define ROWS(TN)                                                                            \
    {"layer_norm." #TN, layer_norm_##TN, "n eps:f", 0},                                     \
    {"rms_norm." #TN, rms_norm_##TN, "n eps:f", 0},                                         \
    {"group_norm." #TN, group_norm_##TN, "groups channels inner eps:f", 0},                 \
    {"group_norm." #TN "@channels_last", group_norm_last_##TN, "groups channels inner eps:f", 0}, \
    {"batch_norm." #TN, batch_norm_##TN, "outer channels inner eps:f", 0},                  \
    {"moments." #TN, moments_##TN, "outer r1 mid r2 inner", 0},                             \
    {"lp_norm." #TN, lp_norm_##TN, "outer n inner p eps:f", 0},                             \
    {"lrn." #TN, lrn_##TN, "outer channels inner size alpha:f beta:f bias:f", 0}

const rlx_kernel_row rlx_rows_norm[] = {
    ROWS(f32),
    ROWS(f64),
    {NULL, NULL, NULL, 0},
};
