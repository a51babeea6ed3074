/* conv_first: convolution of channels-first images out of one channel, and the transposed one whose taps
 * never meet, for those that stand alone in a graph. The others: conv_planes.c.
 *
 * conv_direct.f32@nchw
 *   args: input [batch, groups, in_d, in_h, in_w], weights [groups * OC, 1, k_d, k_h, k_w] as they are,
 *         out [batch, groups * OC, out_d, out_h, out_w], bias [groups * OC] | absent, workspace,
 *         operands of the epilogue
 *   attrs: OC is per group, C is 1; pad_*: padding in front (what is behind follows from out_*); nc: output
 *   lines of an item; at most 640 taps; work_stride: bytes of a thread's workspace; clamp lo hi; steps: see
 *   epilogue.h; the epilogue sees a matrix [batch * groups * OC, out_d * out_h * out_w].
 *   extent: batch * groups * out_d * ceil(out_h / nc)
 *   workspace, elements: k_d * lines * stride_w * length + a vector, with up(out_w) to whole vectors,
 *   lines = (nc - 1) * stride_h + (k_h - 1) * dilation_h + 1,
 *   length = up(out_w) + (k_w - 1) * dilation_w / stride_w + 1
 *
 * conv_masked.f32@nchw: stride 1, one plane in, one of the same size out
 *   args as conv_direct.f32@nchw
 *   attrs: channels: of the output; groups, OC; height, width; at most 25 taps; the rest as above
 *   extent: batch * channels. workspace: taps * vectors of a plane, 2 bytes each (AVX-512) or a vector each
 *
 * conv_spread.f32@nchw: transposed convolution with the kernel's size as stride and nothing cropped
 *   args: input [batch, C, in_h, in_w], weights [C, OC, k_h, k_w] as they are, out
 *         [batch, OC, in_h * k_h, in_w * k_w], bias [OC] | absent, workspace
 *   attrs: nc: input pixels of an item, whole vectors. extent: batch * ceil(in_h * in_w / nc)
 *   workspace, elements: nc * (C + 1 + rows) + rows * (C + 1), rows = OC * k_h * k_w
 *
 * Design. Chains of convolutions are fastest channels last (conv_f32.c, conv_depthwise.c). A single one would
 * be transposed before and after, which costs 20 to 65 % of its time.
 * direct: with less than 4 output channels a tile of a matrix product would have too few rows. Input lines,
 * padded (and split by the remainders of the stride), lie in the first cache; up to 8 vectors of up to 8
 * output lines are summed up in registers. Nothing is expanded.
 * masked: where a plane keeps its size, a tap is at a constant distance from its output, and the lanes of each
 * vector that are inside are known ahead for every tap. Nothing is copied, vectors run over the ends of lines.
 * Against `direct`, and against channels last, both with their copies: 3x3 960 at 7x7 2.4 and 1.4, 3x3 576 at
 * 14x14 1.6 and 1.8, 3x3 144 at 56x56 1.2 and 2.5, 5x5 240 at 28x28 1.1 and 1.4 (AVX2: 0.7, as the masks are 78 KB;
 * `direct` beyond 48 KB); 7x7 taps 0.95 and less. A plane of 7x7 takes 80 cycles: 36 loads that mostly lie in two
 * cache lines, and 36 masks that come through the port of the second FMA.
 * spread: every tap of every output channel is a row of one product, with the bias as one more column against
 * a line of ones; its lines are then woven into the output. A last layer from 24 channels to 1 takes a
 * quarter of the time of the channels-last form.
 */
#include "epilogue.h"
#include "gemm.h"
#include "lines.h"

/* p = a0 b0 a1 b1 ... */
RLX_ALWAYS_INLINE void rlx_zip_f32(float *p, rlx_v32 a, rlx_v32 b) {
#if defined(__AVX512F__)
    __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_storeu_ps(p, _mm512_permutex2var_ps((__m512)a, low, (__m512)b));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps((__m512)a, high, (__m512)b));
#elif defined(__AVX2__)
    __m256 low = _mm256_unpacklo_ps((__m256)a, (__m256)b), high = _mm256_unpackhi_ps((__m256)a, (__m256)b);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
#else
    for (int i = 0; i < RLX_W32; i++)
        p[2 * i] = a[i], p[2 * i + 1] = b[i];
#endif
}

#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "template.h"
#include "conv_first_driver.h"
#include "conv_spread_driver.h"
#include "conv_masked.h"

const rlx_kernel_row rlx_rows_conv_first[] = {
    {"conv_direct.f32@nchw", conv_direct_f32, CONV_FIRST_LAYOUT, 0},
    {"conv_masked.f32@nchw", conv_masked, CONV_MASKED_LAYOUT, 0},
    {"conv_spread.f32@nchw", conv_spread_f32, CONV_SPREAD_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
