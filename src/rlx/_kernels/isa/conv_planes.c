/* conv_planes: dense convolution of channels-first images that stand alone in a graph.
 *
 * conv_planes.f32@nchw
 *   args: input [batch, groups * C, in_d, in_h, in_w], packed weights,
 *         out [batch, groups * OC, out_d, out_h, out_w], bias [groups * OC] | absent, workspace, operands of the epilogue
 *   attrs: C, OC are per group; pad_*: padding in front (what is behind follows from out_*);
 *   height: rows of a tile of weights; an item has `lines` output lines, or `columns` of a single
 *   one, and mc output channels, a multiple of height; pass: channels that are summed up at once, at
 *   most 1024 terms; pitch, image: elements of the workspace from line to line, from channel to
 *   channel; in_place: pixels are read where they lie (1x1, all in one line, whole vectors);
 *   clamp lo hi; steps: see epilogue.h; the epilogue sees a matrix [batch * groups * OC, out_d * out_h * out_w].
 *   extent: batch * groups * out_d * ceil(out_h / lines) * ceil(out_w / columns) * ceil(OC / mc)
 *   workspace: see plan_planes in lower/conv_planes.py
 *
 * pack_conv_planes.f32: [groups * OC, K] to [groups][ceil(OC / height)][K][height]
 *
 * Design. Output channels are the rows of a product and pixels its columns, so that results are written
 * as they belong. The input lines under an item are copied once between zeros, apart for each remainder by
 * the strides, so that a term is one offset: the place of an output, plus what a table says of the term.
 * No stretches of K, hence no loop within a loop for kernels of few taps or of a stride. Lines follow one
 * another without a break, the zeros right of one being those left of the next: vectors run over their
 * ends, and the outputs among their lanes are drawn together before they are written. That wastes 2 to
 * 7 % of the lanes, where vectors that end with the line would waste up to half. Weights are tiles of
 * [K][height], one stream. All tiles pass over the lines of an item, which lie in the second cache (512 KB).
 * Pixels that need no copy (1x1 with few output channels) are read where they lie; each term is then in
 * another page, which the processor does not foresee: the next stretch is fetched, 8 terms at a time. Stretches of
 * 128 KB rather than 512, as nothing fetches the first one: 96 -> 24 at 56x56 166 to 141 us, 256 -> 64 895 to 833.
 * Three tiles and more share two vectors of each term, copied to the first cache: 256 -> 64 to 785; two do not (+2 %).
 *
 * Measured, AVX-512, one core: share of the time that goes to FMAs at their peak: 1-D 0.97, 7x7 stride 2 0.95,
 * 3x3 dilated 0.93 (4 % are lanes that are no outputs, 3 % the copy), 1x1 64 -> 256 at 56x56 0.82.
 * Against the channels-last form with its two transposes: 7x7 stride 2 3 -> 64 1.27, 1x1 64 -> 256 1.36, 256 -> 64
 * 1.27, 3x3 stride 2 3 -> 32 1.64, 3x3 dilated at 112x112 1.14, 1-D of 3000 pixels 1.13 to 1.41; slower by 5 to 35 %
 * at 28x28 and below with many channels (passes/conv_alone.py).
 * Fetching the cache lines of the result before a tile gave 1 to 4 %. Without effect: passes of 192 to 1024 terms,
 * 256 KB to 1 MB of lines, fetching the next channel while one is copied (1x1: 5 % slower).
 */
#include "epilogue.h"
#include "gemm.h"
#include "lines.h"

#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define VI rlx_vi32
#define VIU rlx_vi32u
#define W RLX_W32
#include "template.h"
#include "conv_planes_driver.h"

const rlx_kernel_row rlx_rows_conv_planes[] = {
    {"conv_planes.f32@nchw", conv_planes_f32, CONV_PLANES_LAYOUT, 0},
    {"pack_conv_planes.f32", pack_conv_planes_f32, PACK_PLANES_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
