/* conv_f32: dense and grouped convolution, channels last, implicit GEMM.
 *
 * conv.f32@nhwc   args: input, packed weights, out, bias [groups * OC] | absent, workspace,
 *                 operands of the epilogue
 *   input  [batch, in_d, in_h, in_w, ldi]: groups * C channels used of each pixel
 *   packed [group][ceil(OC / NR)][k_d * k_h * k_w * C][NR]: pack_b.f32 with trans of
 *          [groups * OC, k_d, k_h, k_w, C]
 *   out    [batch, out_d, out_h, out_w, ldo]: groups * OC channels used of each pixel
 * attrs: C, OC are per group; pad_*: padding in front (what is behind follows from out_*);
 *   mc nc kc: pixels, channels and depth of a task; the rest as in gemm_f32.c.
 *   extent: groups * ceil(OC / nc) * ceil(batch * out_d * out_h * out_w / mc).
 * 1-D and 2-D problems have leading dimensions of 1. A 1x1 convolution without stride and
 * padding is a matmul; rlx/lower/gemm.py says so.
 *
 * pack_conv_transpose.f32   args: weights [groups * OC, k_d, k_h, k_w, C], packed (as many bytes
 *   as for a convolution). extent: stride_d * stride_h * stride_w
 * conv_transpose.f32@nhwc   args as conv.f32@nhwc; attrs too (mc counts pixels of a phase); pad_*
 *   crops the front of the full result; merge: k_w if the taps of a line are taken as output
 *   channels (k_w = stride_w, nothing cropped, one group, ldo = OC), else 1.
 *   out[o] = sum over i, k with o = i * stride - pad + k * dilation of in[i] w[k].
 *   extent: sum over phases of groups * ceil(OC / nc) * ceil(pixels of the phase / mc), mc rounded
 *   down to whole output lines where it is longer than one
 *
 * Design. An output pixel is a row of A whose K is k_d * k_h stretches of the
 * input (all taps of a kernel row lie side by side). The micro-kernel walks the
 * stretches; the rows of a tile, pixels of one output row, are a constant stride
 * apart. Away from the padding they are read where they lie. A tile that
 * touches padding copies the input pixels under it, with zeros, into a patch in
 * the first cache, once for all output channels, and is read the same way. Where
 * output rows are shorter than a tile (7 x 7), rows are gathered one by one
 * into a block of MR x kc instead. All three add in the same order, so the bits
 * do not tell which it was. There is no im2col buffer.
 * A transposed convolution falls apart into phases, one for each remainder of
 * the output coordinates by the strides. The taps that hit a phase are an
 * arithmetic progression, so a phase is a convolution of stride 1 whose weights
 * are packed apart and whose output pixels are a stride apart: every output
 * element is written once, and no multiplication by an inserted zero is done.
 * With few output channels (the last layer of a segmentation) a phase would fill
 * a corner of a panel; where kernel and stride agree, a line of taps is one
 * matrix instead (merge): 4 times as fast for 24 -> 1 channels.
 *
 * Measured as in gemm_f32.c, AVX-512: time of ONNX Runtime / ours
 *   3x3   56x56x64 -> 64     1.06      1x1   56x56x64 -> 256   1.44
 *   3x3   28x28x128 -> 128   0.98      1x1   56x56x256 -> 64   1.35
 *   3x3   14x14x256 -> 256   1.07      1x1   56x56x256 -> 512, stride 2   1.5
 *   3x3   7x7x512 -> 512     1.06      1x1   112x112x32 -> 16  2.3
 *   3x3   27x27x64 -> 256    1.2       1x1   14x14x96 -> 576   1.25
 *   3x3   160x160x24 -> 24   1.5       7x7   224x224x3 -> 64, stride 2    1.1
 *   3x3   28x28x256, 32 groups 1.5     3x3   224x224x3 -> 16, stride 2    1.5
 *   3x3   56x56x128, 32 groups 0.9
 * Gathering every tile (no patches) cost 3 to 15 % in 3x3 layers. A group of 4
 * channels fills a quarter of a panel and its stretches are short: that is the
 * slowest case.
 */
#include "epilogue.h"
#include "gemm.h"

#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "template.h"
#include "conv_driver.h"
#include "conv_transpose_driver.h"

const rlx_kernel_row rlx_rows_conv_f32[] = {
    {"conv.f32@nhwc", conv_run_f32, CONV_LAYOUT, 0},
    {"pack_conv_transpose.f32", pack_transpose_f32, PACK_TRANSPOSE_LAYOUT, 0},
    {"conv_transpose.f32@nhwc", transpose_run_f32, CONV_TRANSPOSE_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
