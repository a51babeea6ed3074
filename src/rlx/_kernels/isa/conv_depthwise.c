/* conv_depthwise: each channel has a kernel of its own; channels last.
 *
 * conv_depthwise.f32@nhwc, .f64@nhwc
 *   args: input, weights, out, bias [groups * OC] | absent, workspace | absent, operands of the
 *         epilogue
 *   input   [batch, in_d, in_h, in_w, ldi]: `groups` channels used of each pixel
 *   weights [k_d, k_h, k_w, groups * OC]: as they are, not packed
 *   out     [batch, out_d, out_h, out_w, ldo]; output channel o reads input channel o / OC
 *   attrs as in conv_f32.c without blocks (C is 1); workspace only when the last step narrows:
 *   PX_MAX * groups * OC elements a thread. extent: batch * out_d * out_h (an item is an
 *   output row).
 *
 * Design. A vector is W channels. A tile of up to PX_MAX = 14 (8 without
 * AVX-512) pixels of an output row stays in registers through all taps: one load
 * of weights and one FMA with a memory operand per pixel and tap, so the loop
 * runs at the two loads a cycle that the cache gives. Taps in padding are left
 * out: whole kernel lines by the loop bounds, single taps of the outer two pixels
 * of an edge tile (of all pixels, should padding reach further) by a predictable
 * branch, which beats both a padded copy and cutting off the edge pixels (a tile
 * of one pixel is bound by the FMA latency). At 56 x 56 x 144 in cache, 3 x 3,
 * the moving of lines between L1 and L2 takes as long as the arithmetic.
 */
#include "epilogue.h"
#include "gemm.h"

enum { PX_MAX = RLX_VREGS == 32 ? 14 : 8 };

#include "template.h"
#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#define VI rlx_vi32
#include "depthwise_driver.h"
#undef T
#undef S
#undef V
#undef VU
#undef W
#undef VI
#define T double
#define S f64
#define V rlx_v64
#define VU rlx_v64u
#define W RLX_W64
#define VI rlx_vi64
#undef WIDTH
#undef WIDTH_ENTRY
#undef WIDTHS
#undef DEPTHWISE_LAYOUT
#include "depthwise_driver.h"

const rlx_kernel_row rlx_rows_conv_depthwise[] = {
    {"conv_depthwise.f32@nhwc", depthwise_run_f32, DEPTHWISE_LAYOUT, 0},
    {"conv_depthwise.f64@nhwc", depthwise_run_f64, DEPTHWISE_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
