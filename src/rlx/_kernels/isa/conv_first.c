/* conv_first: convolution of channels-first images, for those that stand alone in a graph.
 *
 * conv_direct.f32@nchw, conv_gathered.f32@nchw
 *   args: input [batch, groups * C, in_d, in_h, in_w], weights [groups * OC, C, k_d, k_h, k_w] as they
 *         are, out [batch, groups * OC, out_d, out_h, out_w], bias [groups * OC] | absent, workspace,
 *         operands of the epilogue
 *   attrs: C, OC are per group; pad_*: padding in front (what is behind follows from out_*);
 *   work_stride: bytes of a thread's workspace; clamp lo hi; steps: see epilogue.h; the epilogue sees
 *   a matrix [batch * groups * OC, out_d * out_h * out_w].
 *   direct    nc: output lines of an item; C * taps <= 640. mc, kc: not used.
 *             extent: batch * groups * out_d * ceil(out_h / nc)
 *             workspace, elements: up(out_w) + C * k_d * lines * stride_w * length + MR * (C * taps + 1)
 *             with up(out_w) to whole vectors, lines = (nc - 1) * stride_h + (k_h - 1) * dilation_h + 1,
 *             length = up(out_w) + (k_w - 1) * dilation_w / stride_w + 1
 *   gathered  mc, nc: output channels and pixels of an item; kc: terms of a pass, a multiple of
 *             the taps. extent: batch * groups * ceil(pixels / nc) * ceil(OC / mc)
 *             workspace, elements: (nc + MR) * (kc + 1) + nc, nc whole vectors
 *
 * conv_spread.f32@nchw: transposed convolution with the kernel's size as stride and nothing cropped
 *   args: input [batch, C, in_h, in_w], weights [C, OC, k_h, k_w] as they are, out
 *         [batch, OC, in_h * k_h, in_w * k_w], bias [OC] | absent, workspace
 *   attrs: nc: input pixels of an item, whole vectors. extent: batch * ceil(in_h * in_w / nc)
 *   workspace, elements: nc * (C + 1 + rows) + rows * (C + 1), rows = OC * k_h * k_w
 *
 * Design. Chains of convolutions are fastest channels last (conv_f32.c). A single one would be
 * transposed before and after, which costs 20 to 65 % of its time. Here output channels are the rows
 * of the product and pixels its columns, so that results are written as they belong, and the micro-kernel
 * of gemm_kernel.h does the rest: weights are its A, copied tile by tile with the bias as one more
 * column (against a line of ones), so that rows never lie a power of two apart.
 * direct: input lines, padded (and split by the remainders of the stride), lie in the first cache; a
 * stretch of K is a kernel line, along which B moves by one element. Nothing is expanded. For few
 * terms and lines of many pixels. With less than 4 channels out of one (depthwise) a tile of the
 * micro-kernel would have too few rows: up to 8 vectors of up to 8 lines take their place.
 * spread: every tap of every output channel is a row of one product; its lines are then woven into the
 * output. A last layer from 24 channels to 1 takes a quarter of the time of the channels-last form.
 * gathered: terms of up to nc pixels are brought to panels, whole vectors where the panel lies in one line.
 */
#include "epilogue.h"
#include "gemm.h"

/* The even elements of two vectors. */
RLX_ALWAYS_INLINE rlx_v32 rlx_even_f32(rlx_v32 a, rlx_v32 b) {
#if defined(__AVX512F__)
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (rlx_v32)_mm512_permutex2var_ps((__m512)a, even, (__m512)b);
#elif defined(__AVX2__)
    __m256 v = _mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
    return (rlx_v32)_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
#else
    return (rlx_v32){a[0], a[2], b[0], b[2]};
#endif
}

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

/* v with the lanes [a, b) from p. */
RLX_ALWAYS_INLINE rlx_v32 rlx_load_lanes_f32(rlx_v32 v, const float *p, int64_t a, int64_t b) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_mask_loadu_ps((__m512)v, (__mmask16)((1u << b) - (1u << a)), p);
#elif defined(__AVX2__)
    rlx_vi32 lane = {0, 1, 2, 3, 4, 5, 6, 7};
    __m256i m = (__m256i)((lane >= (int32_t)a) & (lane < (int32_t)b));
    return (rlx_v32)_mm256_or_ps((__m256)v, _mm256_maskload_ps(p, m)); /* these lanes of v are 0 */
#else
    for (int64_t i = a; i < b; i++)
        v[i] = p[i];
    return v;
#endif
}

/* v with the lanes i of [a, b) from p[i * step]. */
RLX_ALWAYS_INLINE rlx_v32 rlx_load_every_f32(rlx_v32 v, const float *p, const int64_t step, int64_t a,
                                             int64_t b) {
#if defined(__AVX512F__)
    if (step == 2) {
        uint32_t m = (uint32_t)((1ull << (2 * b - 1)) - (1ull << (2 * a)));
        __m512 low = _mm512_maskz_loadu_ps((__mmask16)m, p);
        __m512 high = _mm512_maskz_loadu_ps((__mmask16)(m >> 16), p + 16);
        return (rlx_v32)_mm512_mask_mov_ps((__m512)v, (__mmask16)((1u << b) - (1u << a)),
                                           (__m512)rlx_even_f32((rlx_v32)low, (rlx_v32)high));
    }
#elif defined(__AVX2__)
    if (step == 2) {
        rlx_vi32 lane = {0, 1, 2, 3, 4, 5, 6, 7};
        rlx_vi32 low = (lane >= (int32_t)(2 * a)) & (lane < (int32_t)(2 * b - 1));
        rlx_vi32 high = (lane + 8 >= (int32_t)(2 * a)) & (lane + 8 < (int32_t)(2 * b - 1));
        __m256 x = _mm256_maskload_ps(p, (__m256i)low), y = _mm256_maskload_ps(p + 8, (__m256i)high);
        return (rlx_v32)_mm256_or_ps((__m256)v, (__m256)rlx_even_f32((rlx_v32)x, (rlx_v32)y));
    }
#endif
    float lanes[RLX_W32];
    *(rlx_v32u *)lanes = v;
    for (int64_t i = a; i < b; i++)
        lanes[i] = p[i * step];
    return *(const rlx_v32u *)lanes;
}

#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "template.h"
#include "conv_first_driver.h"
#include "conv_spread_driver.h"

const rlx_kernel_row rlx_rows_conv_first[] = {
    {"conv_direct.f32@nchw", conv_direct_f32, CONV_FIRST_LAYOUT, 0},
    {"conv_gathered.f32@nchw", conv_gathered_f32, CONV_FIRST_LAYOUT, 0},
    {"conv_spread.f32@nchw", conv_spread_f32, CONV_SPREAD_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
