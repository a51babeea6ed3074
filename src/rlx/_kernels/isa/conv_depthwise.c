/* conv_depthwise: each channel has a kernel of its own; channels last.
 *
 * conv_depthwise.f32@nhwc, .f64@nhwc
 *   args: input, weights, out, bias [groups * OC] | absent, workspace | absent, operands of the
 *         epilogue
 *   input   [batch, in_d, in_h, in_w, ldi]: `groups` channels used of each pixel
 *   weights [k_d, k_h, k_w, groups * OC]: as they are, not packed
 *   out     [batch, out_d, out_h, out_w, ldo]; output channel o reads input channel o / OC
 *   attrs as in conv_f32.c without blocks (C is 1), and rows: 0, or of how many output rows the lines are copied
 *   first (one plane, OC 1). Workspace only then, and when the last step narrows (PX_MAX * groups * OC elements a
 *   thread). extent: batch * out_d * out_h (an item is an output row).
 *
 * conv_depthwise.f32@nchw
 *   args as above; input [batch, groups, in_h, in_w], weights [k_h, k_w, groups], out [batch, groups, out_h, out_w]
 *   attrs as in conv_first.c and rows: of how many output rows the lines are held at a time
 *   extent: batch * ceil(groups / W). workspace per thread: a vector per tap, and per pixel of those lines, framed
 *
 * conv_depthwise.int8@nhwc
 *   args as conv.int8@nhwc (conv_int8.c), weights [k_h, k_w, C] as they are; one plane
 *   (depth 1), multiplier 1, at most 256 taps
 *   attrs: C ldi ldo in_h in_w out_h out_w k_h k_w stride_* dilation_* pad_* (2 each), batch,
 *   work_stride and those of matmul.int8. extent: batch * out_h
 *   workspace per thread, of CHUNK floats each: k_h * k_w (weights), k_h * width (patch; width:
 *   input pixels under PX_MAX pixels of a line), PX_MAX (accumulators), 3 (columns)
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
 * Measured, AVX-512, time of ONNX Runtime / ours: 3x3 112x112x32 2.2, 56x56x144 2.2,
 * 28x28x192 1.4, 14x14x576 1.6, 7x7x960 1.6, 112x112x96 stride 2 2.3; 5x5 14x14x240 1.3;
 * multiplier 2 28x28x64 2.5. 8 bits, with transposes: 56x56x96 1.75,
 * 7x7x960 1.4, 112x112x96 stride 2 1.17, 5x5 14x14x240 1.85.
 * With more than 25 taps most pixels miss some at an edge, and lines of many channels fall into few sets of the
 * first cache. Then the lines under a few output rows are copied first, a vector of channels after the other,
 * between zeros: 7x7 at 14x14x384 102 to 67 us, 7x7x768 63 to 40. Channels first they are transposed meanwhile, and
 * the sums transposed back: 7x7 at 96x56x56 from 560 us (along lines, conv_first.c) to 360 (ONNX Runtime 396),
 * 768x7x7 from 83 to 50 (57).
 * The 8-bit kernel runs on the float one: for 128 channels at a time, a - a_zero
 * under a tile goes to a patch of floats in the first cache. Sums of up to 256
 * products of 9-bit integers are exact in float, so the result is exact. With VNNI and
 * weights that are signed bytes it multiplies bytes (depthwise_quads).
 */
#include "int8.h"

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

#undef T
#define T float
#include "depthwise_planes.h"

/* ---------------------------------------------------------------------- 8 bits */

#define INT8_LAYOUT                                                                       \
    "batch C ldi ldo in_h in_w out_h out_w k_h k_w stride_h stride_w dilation_h dilation_w " \
    "pad_h pad_w work_stride " RLX_INT8_POST_LAYOUT "steps:*"

enum { CHUNK = 128 };

typedef struct plane {
    int64_t batch, c, ldi, ldo, in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int64_t work_stride;
    rlx_int8_post post;
} plane;

/* dst = src - zero; dst has room for a vector beyond n. */
RLX_ALWAYS_INLINE void to_floats(float *dst, const uint8_t *src, int64_t n, const int is_signed,
                                 float zero) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m128i v = _mm_maskz_loadu_epi8(m, src + i);
        __m512 x = _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
        _mm512_storeu_ps(dst + i, _mm512_sub_ps(x, _mm512_set1_ps(zero)));
    }
#elif defined(__AVX2__)
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm_loadl_epi64((const __m128i *)(src + i));
        __m256 x = _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
        _mm256_storeu_ps(dst + i, _mm256_sub_ps(x, _mm256_set1_ps(zero)));
    }
#endif
    for (; i < n; i++)
        dst[i] = (float)(is_signed ? (int8_t)src[i] : src[i]) - zero;
}

/* Input pixels [iw, iw + width) of the valid kernel lines, channels [0, n); zeros in padding. */
RLX_ALWAYS_INLINE void fill_patch(const plane *p, float *dst, const uint8_t *in, int64_t ih,
                                  int64_t iw, int64_t width, int64_t n, const int64_t *lines,
                                  const int is_signed, float zero) {
    int64_t left = iw < 0 ? (-iw < width ? -iw : width) : 0;
    int64_t right = p->in[1] - iw < width ? p->in[1] - iw : width;
    right = right > left ? right : left;
    for (int64_t kh = lines[0]; kh < lines[1]; kh++) {
        const uint8_t *src = in + ((ih + kh * p->dilation[0]) * p->in[1] + iw) * p->ldi;
        float *to = dst + kh * width * n;
        memset(to, 0, (size_t)(left * n) * sizeof(float));
        if (p->ldi == n)
            to_floats(to + left * n, src + left * n, (right - left) * n, is_signed, zero);
        else
            for (int64_t x = left; x < right; x++)
                to_floats(to + x * n, src + x * p->ldi, n, is_signed, zero);
        memset(to + right * n, 0, (size_t)((width - right) * n) * sizeof(float));
    }
}

#ifdef __AVX512VNNI__
/* Bytes: 64 channels at a time. Four kernel lines lie side by side in a lane: an input pixel is spread once, as G =
 * ceil(k_h / 4) quads of 4 vectors, and meets the weights of k_w output pixels by VPDPBUSD. Vector v has channel
 * 16 l + 4 v + c in lane 4 l + c: what two rounds of unpacking give, and what two rounds of packing undo. */
enum { QUAD = 64, QUAD_BYTES = 4 * QUAD, AT_ONCE = 4 };

static inline int64_t quad_place(int64_t c) { return c % 16 / 4 * 16 + c / 16 * 4 + c % 4; }

typedef struct quads {
    const plane *p;
    int64_t groups, n; /* of kernel lines; channels */
    uint8_t *x;        /* [pixel][groups] */
    int8_t *w;         /* [k_w][groups] */
    __m512i fill, flip, base[4];
    __m512 scale[4], lo, hi;
    __m512i zero;
} quads;

/* Four vectors of bytes side by side. */
RLX_ALWAYS_INLINE void quad_store(void *to, const __m512i *v) {
    const __m512i a = _mm512_unpacklo_epi8(v[0], v[1]), b = _mm512_unpackhi_epi8(v[0], v[1]);
    const __m512i c = _mm512_unpacklo_epi8(v[2], v[3]), d = _mm512_unpackhi_epi8(v[2], v[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, c));
    _mm512_storeu_si512((char *)to + 64, _mm512_unpackhi_epi16(a, c));
    _mm512_storeu_si512((char *)to + 128, _mm512_unpacklo_epi16(b, d));
    _mm512_storeu_si512((char *)to + 192, _mm512_unpackhi_epi16(b, d));
}

static __mmask64 quad_mask(const quads *q) {
    return q->n < QUAD ? ((__mmask64)1 << q->n) - 1 : ~(__mmask64)0;
}

/* Weights of n channels less their zero points, and their sums. */
static void quad_weights(const quads *q, const uint8_t *w, const char *b_zero, int64_t c0, int32_t *sums) {
    const plane *p = q->p;
    const __mmask64 mask = quad_mask(q);
    __m512i zero = _mm512_setzero_si512(), total[4] = {zero, zero, zero, zero};
    if (p->post.b_zero_n > 1)
        zero = _mm512_maskz_loadu_epi8(mask, b_zero + c0);
    else if (p->post.b_zero_n)
        zero = _mm512_maskz_set1_epi8(mask, b_zero[0]);
    int8_t *to = q->w;
    for (int64_t kw = 0; kw < p->kernel[1]; kw++)
        for (int64_t g = 0; g < q->groups; g++, to += QUAD_BYTES) {
            __m512i v[4];
            for (int64_t l = 0; l < 4; l++) {
                const int64_t kh = 4 * g + l;
                v[l] = kh < p->kernel[0] ? _mm512_sub_epi8(_mm512_maskz_loadu_epi8(mask, w + (kh * p->kernel[1] + kw) * p->c),
                                                           zero)
                                         : _mm512_setzero_si512();
            }
            quad_store(to, v);
            for (int i = 0; i < 4; i++)
                total[i] = _mm512_dpbusd_epi32(total[i], _mm512_set1_epi8(1), _mm512_loadu_si512(to + 64 * i));
        }
    int32_t all[QUAD];
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(all + 16 * i, total[i]);
    for (int64_t j = 0; j < q->n; j++)
        sums[j] = all[quad_place(j)];
}

/* Input pixels [iw, iw + width) of the lines from ih on; `fill` where padding is. */
static void quad_spread(const quads *q, const uint8_t *in, int64_t ih, int64_t iw, int64_t width) {
    const plane *p = q->p;
    const __mmask64 mask = quad_mask(q);
    for (int64_t g = 0; g < q->groups; g++) {
        const uint8_t *line[4];
        for (int64_t l = 0; l < 4; l++) {
            const int64_t at = ih + (4 * g + l) * p->dilation[0];
            line[l] = 4 * g + l < p->kernel[0] && (uint64_t)at < (uint64_t)p->in[0] ? in + at * p->in[1] * p->ldi : NULL;
        }
        for (int64_t x = 0; x < width; x++) {
            const int inside = (uint64_t)(iw + x) < (uint64_t)p->in[1];
            __m512i v[4];
            UNROLL for (int l = 0; l < 4; l++) {
                v[l] = q->fill;
                if (inside && line[l])
                    v[l] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, line[l] + (iw + x) * p->ldi), q->flip);
            }
            quad_store(q->x + (x * q->groups + g) * QUAD_BYTES, v);
        }
    }
}

/* PX output pixels: to bytes at `out`, or as sums at `sums`, channels in order. */
RLX_ALWAYS_INLINE void quad_pixels(const int PX, const quads *q, const uint8_t *x, uint8_t *out, int32_t *sums) {
    const plane *p = q->p;
    const int64_t pixel = q->groups * QUAD_BYTES, step = p->stride[1] * pixel;
    const int8_t *w = q->w;
    __m512i acc[AT_ONCE][4];
    UNROLL for (int i = 0; i < PX; i++)
        UNROLL for (int v = 0; v < 4; v++) acc[i][v] = out ? q->base[v] : _mm512_setzero_si512();
    for (int64_t kw = 0; kw < p->kernel[1]; kw++)
        for (int64_t g = 0; g < q->groups; g++, w += QUAD_BYTES) {
            const uint8_t *at = x + kw * p->dilation[1] * pixel + g * QUAD_BYTES;
            UNROLL for (int v = 0; v < 4; v++) {
                const __m512i wv = _mm512_loadu_si512(w + 64 * v);
                UNROLL for (int i = 0; i < PX; i++)
                    acc[i][v] = _mm512_dpbusd_epi32(acc[i][v], _mm512_loadu_si512(at + i * step + 64 * v), wv);
            }
        }
    const __mmask64 mask = quad_mask(q);
    UNROLL for (int i = 0; i < PX; i++) {
        if (!out) {
            UNROLL for (int v = 0; v < 4; v++) {
                int32_t *to = sums + i * CHUNK + 4 * v;
                _mm_storeu_si128((__m128i *)to, _mm512_extracti32x4_epi32(acc[i][v], 0));
                _mm_storeu_si128((__m128i *)(to + 16), _mm512_extracti32x4_epi32(acc[i][v], 1));
                _mm_storeu_si128((__m128i *)(to + 32), _mm512_extracti32x4_epi32(acc[i][v], 2));
                _mm_storeu_si128((__m128i *)(to + 48), _mm512_extracti32x4_epi32(acc[i][v], 3));
            }
            continue;
        }
        __m512i u[4];
        UNROLL for (int v = 0; v < 4; v++) {
            const __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i][v]), q->scale[v]);
            u[v] = _mm512_cvtps_epi32((__m512)rlx_clamp_f32((rlx_v32)y, (rlx_v32)q->lo, (rlx_v32)q->hi));
            u[v] = _mm512_and_si512(_mm512_add_epi32(u[v], q->zero), _mm512_set1_epi32(255));
        }
        const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(u[0], u[1]), _mm512_packus_epi32(u[2], u[3]));
        _mm512_mask_storeu_epi8(out + i * p->ldo, mask, bytes);
    }
}

static int depthwise_quads(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi, const plane *p, char *work,
                           int64_t width, rlx_int8_columns *columns, int32_t *acc) {
    const int64_t taps = p->kernel[0] * p->kernel[1], groups = (p->kernel[0] + 3) / 4;
    const int64_t reach = (p->kernel[1] - 1) * p->dilation[1] + 1;
    /* The patch holds k_h * width pixels of CHUNK floats. */
    const int64_t room = p->kernel[0] * width * (CHUNK * (int64_t)sizeof(float)) / (groups * QUAD_BYTES);
    const int64_t most = (room - reach) / p->stride[1] + 1;
    const int bytes = p->post.out_kind > 1 && RLX_COUNT(t->attrs, 25) == 0;
    rlx_int8_post post = p->post; /* zero points of weights are taken off before the product */
    post.b_zero_n = 0, post.b_signed = 1;
    quads q = {.p = p, .groups = groups, .w = (int8_t *)work, .x = (uint8_t *)work + taps * CHUNK * (int64_t)sizeof(float)};
    const int32_t za = rlx_int8_zero(RLX_OPT(t, f, 5), post.a_zero_n, 0, post.a_signed);
    const int32_t zero = RLX_PRESENT(t, 8) ? rlx_int8_zero(RLX_PTR(t, f, 8), 1, 0, post.out_kind == 3) : 0;
    q.flip = _mm512_set1_epi8(post.a_signed ? (char)128 : 0);
    q.fill = _mm512_xor_si512(_mm512_set1_epi8((char)za), q.flip);
    q.zero = _mm512_set1_epi32(zero);
    q.lo = _mm512_set1_ps((float)(post.q_lo - zero)), q.hi = _mm512_set1_ps((float)(post.q_hi - zero));
    for (int64_t c0 = 0; c0 < p->c; c0 += QUAD) {
        int32_t sums[QUAD], base[QUAD] = {0}, row_sums[PX_MAX] = {0};
        float scale[QUAD] = {0};
        q.n = p->c - c0 < QUAD ? p->c - c0 : QUAD;
        quad_weights(&q, (const uint8_t *)RLX_PTR(t, f, 1) + c0, RLX_OPT(t, f, 6), c0, sums);
        rlx_int8_prepare(t, f, &post, columns, c0, q.n, sums);
        for (int64_t j = 0; j < q.n; j++)
            base[quad_place(j)] = columns->base[j], scale[quad_place(j)] = columns->scale[j];
        for (int v = 0; v < 4; v++)
            q.base[v] = _mm512_loadu_si512(base + 16 * v), q.scale[v] = _mm512_loadu_ps(scale + 16 * v);
        for (int64_t i = lo; i < hi; i++) {
            const uint8_t *in = (const uint8_t *)RLX_PTR(t, f, 0) + i / p->out[0] * p->in[0] * p->in[1] * p->ldi + c0;
            const int64_t ih = i % p->out[0] * p->stride[0] - p->pad[0];
            for (int64_t x0 = 0; x0 < p->out[1]; x0 += most) {
                const int64_t end = p->out[1] - x0 < most ? p->out[1] : x0 + most;
                quad_spread(&q, in, ih, x0 * p->stride[1] - p->pad[1], (end - x0 - 1) * p->stride[1] + reach);
                for (int64_t x = x0; x < end;) {
                    const int64_t px = end - x < AT_ONCE ? end - x : AT_ONCE, row = i * p->out[1] + x;
                    const uint8_t *from = q.x + (x - x0) * p->stride[1] * groups * QUAD_BYTES;
                    uint8_t *out = bytes ? (uint8_t *)RLX_PTR(t, f, 2) + row * p->ldo + c0 : NULL;
                    if (px == AT_ONCE && bytes)
                        quad_pixels(AT_ONCE, &q, from, out, acc);
                    else if (px == AT_ONCE)
                        quad_pixels(AT_ONCE, &q, from, NULL, acc);
                    for (int64_t r = 0; px < AT_ONCE && r < px; r++)
                        quad_pixels(1, &q, from + r * p->stride[1] * groups * QUAD_BYTES, bytes ? out + r * p->ldo : NULL,
                                    acc + r * CHUNK);
                    if (!bytes) {
                        const rlx_int8_target to = {&post, columns, q.n, row_sums, row, 0, c0, row * p->ldo + c0, p->ldo,
                                                    RLX_LIST(t->attrs, 25), RLX_COUNT(t->attrs, 25)};
                        const int status = rlx_int8_finish(t, f, &to, acc, CHUNK, px);
                        if (status)
                            return status;
                    }
                    x += px;
                }
            }
        }
    }
    return RLX_OK;
}

/* Whether all weights less their zero points are signed bytes. */
static int weights_are_bytes(const rlx_thunk *t, const rlx_frame *f, const plane *p) {
    const uint8_t *w = (const uint8_t *)RLX_PTR(t, f, 1);
    const char *b_zero = RLX_OPT(t, f, 6);
    if (p->post.b_signed && p->post.b_zero_n == 0)
        return 1;
    for (int64_t i = 0; i < p->kernel[0] * p->kernel[1]; i++)
        for (int64_t c = 0; c < p->c; c++) {
            const uint8_t byte = w[i * p->c + c];
            const int32_t v = (p->post.b_signed ? (int8_t)byte : byte) -
                              rlx_int8_zero(b_zero, p->post.b_zero_n, c, p->post.b_signed);
            if (v < -128 || v > 127)
                return 0;
        }
    return 1;
}
#endif

static int depthwise_int8(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    plane p;
    memcpy(&p, t->attrs, 25 * sizeof(int64_t));
    const int64_t *steps = RLX_LIST(t->attrs, 25);
    int64_t n_steps = RLX_COUNT(t->attrs, 25), taps = p.kernel[0] * p.kernel[1];
    int64_t reach = (p.kernel[1] - 1) * p.dilation[1] + 1;
    float *weights = (float *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    float *patch = weights + taps * CHUNK;
    float *acc = patch + p.kernel[0] * ((PX_MAX - 1) * p.stride[1] + reach) * CHUNK;
    rlx_int8_columns columns = rlx_int8_columns_at((int32_t *)(acc + PX_MAX * CHUNK), CHUNK);
    const char *b_zero = RLX_OPT(t, f, 6);
    int32_t za = rlx_int8_zero(RLX_OPT(t, f, 5), p.post.a_zero_n, 0, p.post.a_signed);
    int32_t row_sums[PX_MAX] = {0};
#ifdef __AVX512VNNI__
    if (weights_are_bytes(t, f, &p))
        return depthwise_quads(t, f, lo, hi, &p, (char *)weights, (PX_MAX - 1) * p.stride[1] + reach, &columns,
                               (int32_t *)acc);
#endif
    rlx_int8_post post = p.post; /* zero points are taken off before the product */
    post.a_zero_n = post.b_zero_n = post.a_signed = 0;
    post.b_signed = 1;
    for (int64_t c0 = 0; c0 < p.c && lo < hi; c0 += CHUNK) {
        int64_t n = p.c - c0 < CHUNK ? p.c - c0 : CHUNK;
        const uint8_t *w = (const uint8_t *)RLX_PTR(t, f, 1) + c0;
        for (int64_t k = 0; k < taps; k++)
            for (int64_t j = 0; j < n; j++) {
                int32_t v = p.post.b_signed ? (int8_t)w[k * p.c + j] : w[k * p.c + j];
                v -= rlx_int8_zero(b_zero, p.post.b_zero_n, c0 + j, p.post.b_signed);
                weights[k * n + j] = (float)v;
            }
        rlx_int8_prepare(t, f, &post, &columns, c0, n, columns.base);
        depthwise_f32 q = {.groups = n, .c = 1, .oc = 1, .ldi = n, .channels = n,
                           .kernel = {1, p.kernel[0], p.kernel[1]},
                           .stride = {1, 1, p.stride[1]}, .dilation = {1, 1, p.dilation[1]}};
        tile_f32 tile = {.p = &q, .x = patch, .w = weights, .c = acc, .ldc = CHUNK, .hi = {1, 0}};
        for (int64_t i = lo; i < hi; i++) {
            const uint8_t *in = (const uint8_t *)RLX_PTR(t, f, 0) +
                                i / p.out[0] * p.in[0] * p.in[1] * p.ldi + c0;
            int64_t ih = i % p.out[0] * p.stride[0] - p.pad[0];
            valid_f32(ih, p.kernel[0], p.dilation[0], p.in[0], &tile.lo[1], &tile.hi[1]);
            for (int64_t x = 0; x < p.out[1]; x += tile.px) {
                tile.px = rlx_tile_rows(p.out[1], PX_MAX, x);
                int64_t width = (tile.px - 1) * p.stride[1] + reach;
                const int64_t lines[2] = {tile.lo[1], tile.hi[1]};
                int64_t iw = x * p.stride[1] - p.pad[1];
                if (p.post.a_signed)
                    fill_patch(&p, patch, in, ih, iw, width, n, lines, 1, (float)za);
                else
                    fill_patch(&p, patch, in, ih, iw, width, n, lines, 0, (float)za);
                q.in[2] = width;
                widths_f32[tile.px](&tile, 0);
                for (int64_t r = 0; r < tile.px; r++)
                    for (float *v = acc + r * CHUNK; v < acc + r * CHUNK + n; v += RLX_W32) {
                        rlx_v32 sums = *(rlx_v32u *)v;
                        *(rlx_vi32u *)v = __builtin_convertvector(sums, rlx_vi32);
                    }
                int64_t row = i * p.out[1] + x;
                const rlx_int8_target to = {&post, &columns, n, row_sums, row, 0, c0, row * p.ldo + c0, p.ldo,
                                            steps, n_steps};
                int status = rlx_int8_finish(t, f, &to, (int32_t *)acc, CHUNK, tile.px);
                if (status)
                    return status;
            }
        }
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_conv_depthwise[] = {
    {"conv_depthwise.f32@nhwc", depthwise_run_f32, DEPTHWISE_LAYOUT, 0},
    {"conv_depthwise.f64@nhwc", depthwise_run_f64, DEPTHWISE_LAYOUT, 0},
    {"conv_depthwise.f32@nchw", depthwise_planes, DEPTHWISE_PLANES_LAYOUT, 0},
    {"conv_depthwise.int8@nhwc", depthwise_int8, INT8_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
