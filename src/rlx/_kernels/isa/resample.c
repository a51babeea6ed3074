/* resample: reading between the pixels. T in f32, f64.
 *
 * resize_axis.T   args: x, index (i64), weight (T), out
 *                 attrs: outer n_in n_out inner taps fill:f
 *                 extent: outer * n_out
 *   out[o, j, :] = sum over t of weight[j, t] * x[o, index[j, t], :], for x
 *   [outer, n_in, inner], index and weight [n_out, taps]. The tables (coordinate
 *   transformation, cubic coefficients, antialiasing, excluded taps) are made at
 *   compile time, one call per resized axis; indices are in range by
 *   construction. index[j, 0] = -1 fills the row with `fill`. Nearest is gather.
 * grid_sample.T   args: x, grid, out
 *                 attrs: channels in:* out:* mode padding align
 *                 extent: batch * product of out[:-1]
 *   x [batch, channels, in...], grid [batch, out..., rank], out [batch, channels,
 *   out...], rank 2 or 3; the last axis of grid holds (x, y) or (x, y, z), -1 to 1
 *   across the image. mode 0 nearest (half to even), 1 linear, 2 cubic (a =
 *   -0.75, rank 2 only); padding 0 zeros, 1 border, 2 reflection, applied to each
 *   tap. A coordinate that is NaN or infinite reads padding.
 * roi_align.T     args: x, rois (T), batch_index (i64), out
 *                 attrs: batch channels height width out_h out_w sampling
 *                        scale:f offset:f max
 *                 extent: number of rois
 *   x [batch, channels, height, width], rois [n, 4] = x1 y1 x2 y2, out [n,
 *   channels, out_h, out_w]. Coordinates are scaled, then `offset` is taken off
 *   (0.5 for half_pixel, which also lets regions be smaller than a pixel).
 *   sampling 0: ceil(size of a bin) samples per side. max: the largest weighted
 *   tap instead of the mean. RLX_ERR_INDEX if batch_index is not in [0, batch).
 * col2im.T        args: x, out
 *                 attrs: image:* kernel:* stride:* dilation:* begin:* end:*
 *                 extent: batch * channels
 *   x [batch, channels * product of kernel, blocks]; overlapping taps add up in
 *   the order of the kernel. One to three axes.
 */
#include <math.h>

#include "abi.h"
#include "vec.h"

#define CHUNK 128 /* points whose taps are kept at once */

/* Integer place i of an axis of n pixels, after padding; -1: none. */
static inline int64_t pad_tap(int64_t i, int64_t n, int64_t padding, int64_t align) {
    if (i >= 0 && i < n)
        return i;
    if (padding == 0)
        return -1;
    if (padding == 1)
        return i < 0 ? 0 : n - 1;
    if (n == 1)
        return 0;
    const int64_t period = align ? 2 * (n - 1) : 2 * n;
    int64_t r = i % period;
    if (r < 0)
        r += period;
    if (r < n)
        return r;
    return align ? period - r : period - 1 - r;
}

static void read_list(const int64_t *a, int at, int64_t *to, int64_t filler) {
    const int64_t *list = RLX_LIST(a, at);
    const int n = (int)RLX_COUNT(a, at);
    for (int d = 0; d < 3; d++)
        to[d] = d < 3 - n ? filler : list[d - (3 - n)];
}

#define T float
#define FN(name) name##_f32
#include "resample.inc"
#undef T
#undef FN
#define T double
#define FN(name) name##_f64
#include "resample.inc"

#define ROWS(TN)                                                                          \
    {"resize_axis." #TN, resize_axis_##TN, "outer n_in n_out inner taps fill:f", 0},      \
    {"grid_sample." #TN, grid_sample_##TN, "channels in:* out:* mode padding align", 0},  \
    {"roi_align." #TN, roi_align_##TN,                                                    \
     "batch channels height width out_h out_w sampling scale:f offset:f max", 0},         \
    {"col2im." #TN, col2im_##TN, "image:* kernel:* stride:* dilation:* begin:* end:*", 0}

const rlx_kernel_row rlx_rows_resample[] = {
    ROWS(f32),
    ROWS(f64),
    {NULL, NULL, NULL, 0},
};
