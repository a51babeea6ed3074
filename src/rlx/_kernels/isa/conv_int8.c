/* conv_int8: convolution of 8-bit tensors, channels last.
 *
 * conv.int8@nhwc   args: input, packed weights, out, bias i32 [groups * OC] | absent, workspace,
 *     a_zero scalar, b_zero (scalar or per output channel), scale, out_zero (each | absent),
 *     operands of the epilogue
 *   weights: pack_b.int8 with trans of [groups * OC, k_d, k_h, k_w, C], one group after another
 *   attrs: geometry as in conv_f32.c, then mc nc work_stride and the attributes of matmul.int8.
 *     b_zero_n and scale_n: 0, 1 or groups * OC. A tap in padding has the value a_zero.
 *   workspace per thread: as in gemm_int8.c, then K bytes, or k_h lines of terms (rlx_conv_int8_line) and a vector.
 *   extent: groups * ceil(OC / nc) * ceil(batch * out_d * out_h * out_w / mc)
 *
 * Design: where a kernel line is whole groups of terms (k_w * C a multiple of RLX_KG), nothing is dilated and there is
 * one plane, the k_h lines of input under a line of output are brought to terms once, with their padding, and stay in
 * the first caches: a row of a tile is k_h stretches of k_w * C terms, rows are stride_w * C apart. So a byte is
 * copied once a task instead of k_h * k_w times, which was a fifth of 3x3 64 -> 64 at 56x56. Elsewhere (sums of
 * rows are wanted, short lines) the rows of a tile are gathered once for all output channels, kernel line by kernel line.
 */
#include "conv_attrs.h"
#include "conv_int8.h"

#define W RLX_W32
#define CONV_INT8_LAYOUT CONV_LAST_HEAD "mc nc work_stride " RLX_INT8_POST_LAYOUT "steps:*"

typedef struct conv {
    int64_t batch, groups, c, oc, ldi, ldo, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t mc, nc, work_stride;
    rlx_int8_post post;
    int64_t k;
} conv;

/* Copy n bytes; dst has room for a vector beyond them. */
RLX_ALWAYS_INLINE void copy(uint8_t *dst, const uint8_t *src, int64_t n) {
#ifdef __AVX512BW__
    for (; n > 0; n -= 64, dst += 64, src += 64) {
        __mmask64 m = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
        _mm512_storeu_si512(dst, _mm512_maskz_loadu_epi8(m, src));
    }
#else
    memcpy(dst, src, (size_t)n);
#endif
}

typedef struct pixel {
    int64_t w, h, d, image; /* output coordinates */
} pixel;

static pixel pixel_of(const conv *p, int64_t i) {
    pixel x;
    x.w = i % p->out[2], i /= p->out[2];
    x.h = i % p->out[1], i /= p->out[1];
    x.d = i % p->out[0], x.image = i / p->out[0];
    return x;
}

static void next(const conv *p, pixel *x) {
    if (++x->w == p->out[2]) {
        x->w = 0;
        if (++x->h == p->out[1]) {
            x->h = 0;
            if (++x->d == p->out[0])
                x->d = 0, x->image++;
        }
    }
}

/* The K bytes under an output pixel; `fill` where padding is. */
static void gather(const conv *p, const uint8_t *in, uint8_t *dst, const pixel *x, uint8_t fill) {
    int64_t w = x->w * p->stride[2] - p->pad[2], h = x->h * p->stride[1] - p->pad[1];
    int64_t d = x->d * p->stride[0] - p->pad[0], line = p->kernel[2] * p->c;
    for (int64_t kd = 0; kd < p->kernel[0]; kd++)
        for (int64_t kh = 0; kh < p->kernel[1]; kh++, dst += line) {
            int64_t id = d + kd * p->dilation[0], ih = h + kh * p->dilation[1];
            if ((uint64_t)id >= (uint64_t)p->in[0] || (uint64_t)ih >= (uint64_t)p->in[1]) {
                memset(dst, fill, (size_t)line);
                continue;
            }
            const uint8_t *src =
                in + (((x->image * p->in[0] + id) * p->in[1] + ih) * p->in[2] + w) * p->ldi;
            int64_t reach = w + (p->kernel[2] - 1) * p->dilation[2];
            if (w >= 0 && reach < p->in[2] && p->ldi == p->c && p->dilation[2] == 1) {
                copy(dst, src, line);
                continue;
            }
            for (int64_t kw = 0; kw < p->kernel[2]; kw++) {
                if ((uint64_t)(w + kw * p->dilation[2]) < (uint64_t)p->in[2])
                    copy(dst + kw * p->c, src + kw * p->dilation[2] * p->ldi, p->c);
                else
                    memset(dst + kw * p->c, fill, (size_t)p->c);
            }
        }
}

/* Below this width of a line tiles of whole pixels are gathered, over several lines. */
enum { LEAST_PIXELS = 10 };

/* The lines of input under a line of output, as terms, padding included: `width` terms each, line ih in place
 * ih mod k_h, so that the next line of output finds all but the last ones. */
typedef struct lines {
    rlx_int8_term *terms;
    int64_t width, held[CONV_INT8_LINES];
    const rlx_int8_term *at[CONV_INT8_LINES]; /* of kernel line kh */
} lines;

static void fill_lines(const conv *p, lines *l, const uint8_t *in, const pixel *x, int32_t za) {
    const int64_t k = p->kernel[1], pixels = l->width / p->c, pad = p->pad[2];
    const int64_t n = p->in[2] < pixels - pad ? p->in[2] : pixels - pad > 0 ? pixels - pad : 0;
    const rlx_int8_term fill = RLX_INT8_VNNI ? (rlx_int8_term)(p->post.a_signed ? za ^ 128 : za) : 0;
    for (int64_t kh = 0; kh < k; kh++) {
        const int64_t ih = x->h * p->stride[1] - p->pad[1] + kh, slot = (ih + p->pad[1]) % k;
        const int64_t id = x->image * (p->in[1] + p->pad[1] + k * p->out[1] * p->stride[1]) + ih + p->pad[1];
        rlx_int8_term *to = l->terms + slot * l->width;
        l->at[kh] = to;
        if (l->held[slot] == id)
            continue;
        l->held[slot] = id;
        const int inside = (uint64_t)ih < (uint64_t)p->in[1];
        const int64_t left = inside ? (pad < pixels ? pad : pixels) * p->c : l->width, right = left + n * p->c;
        for (int64_t j = 0; j < left; j++)
            to[j] = fill;
        if (!inside)
            continue;
        const uint8_t *src = in + (x->image * p->in[1] + ih) * p->in[2] * p->ldi;
        if (p->ldi == p->c)
            rlx_int8_line(to + left, src, n * p->c, p->post.a_signed, za);
        else
            for (int64_t j = 0; j < n; j++)
                rlx_int8_line(to + left + j * p->c, src + j * p->ldi, p->c, p->post.a_signed, za);
        for (int64_t j = right; j < l->width; j++)
            to[j] = fill;
    }
}

static int conv_run(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    conv p;
    memcpy(&p, at, 35 * sizeof(int64_t));
    p.k = p.kernel[0] * p.kernel[1] * p.kernel[2] * p.c;
    const int64_t *steps = RLX_LIST(at, 35);
    int64_t n_steps = RLX_COUNT(at, 35), depth = rlx_int8_depth(p.k);
    int64_t pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    int64_t m_blocks = (pixels + p.mc - 1) / p.mc, n_blocks = (p.oc + p.nc - 1) / p.nc;
    int64_t ldc = (p.nc + W - 1) / W * W;
    int32_t *c = (int32_t *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    rlx_int8_columns columns = rlx_int8_columns_at(c + RLX_GEMM_MR * ldc, ldc);
    rlx_int8_term *a_tile = (rlx_int8_term *)(columns.scale + ldc);
    uint8_t *raw = (uint8_t *)(a_tile + RLX_GEMM_MR * depth);
    int32_t za = rlx_int8_zero(RLX_OPT(t, f, 5), p.post.a_zero_n, 0, p.post.a_signed);
    int want_sum = p.post.b_zero_n > 0 || !p.post.b_signed;
    lines line = {.terms = (rlx_int8_term *)raw, .width = rlx_conv_int8_line(at)};
    const int by_lines = line.width && p.out[2] >= LEAST_PIXELS;
    for (int64_t task = lo; task < hi; task++) {
        int64_t m0 = task % m_blocks * p.mc, rest = task / m_blocks;
        int64_t n0 = rest % n_blocks * p.nc, g = rest / n_blocks;
        int64_t m1 = m0 + p.mc < pixels ? m0 + p.mc : pixels;
        int64_t cols = n0 + p.nc < p.oc ? p.nc : p.oc - n0, column = g * p.oc + n0;
        const uint8_t *in = (const uint8_t *)RLX_PTR(t, f, 0) + g * p.c;
        const int8_t *b = (const int8_t *)RLX_PTR(t, f, 1) + g * rlx_int8_group_bytes(p.k, p.oc);
        const int32_t *sums = (const int32_t *)(b + (p.oc + W - 1) / W * W * depth) + n0;
        const rlx_int8_term *starts[CONV_INT8_LINES] = {a_tile};
        rlx_int8_tile tile = {0, depth, 1, depth, starts, depth, b + n0 * depth, (cols + W - 1) / W, c, ldc};
        int32_t row_sums[RLX_GEMM_MR] = {0};
        rlx_int8_target to = {&p.post, &columns, cols, row_sums, 0, 0, column, 0, p.ldo, steps, n_steps};
        rlx_int8_prepare(t, f, &p.post, &columns, column, cols, sums);
        if (by_lines) {
            tile.runs = p.kernel[1], tile.run = p.kernel[2] * p.c, tile.lda = p.stride[2] * p.c;
            for (int64_t kh = 0; kh < p.kernel[1]; kh++)
                line.held[kh] = -1;
        }
        pixel x = pixel_of(&p, m0);
        for (int64_t i = m0, left = 0, segment = 0; i < m1; i += tile.rows) {
            if (by_lines) {
                if (!left) { /* pixels of a line */
                    left = segment = p.out[2] - x.w < m1 - i ? p.out[2] - x.w : m1 - i;
                    fill_lines(&p, &line, in, &x, za);
                }
                tile.rows = rlx_tile_rows(segment, RLX_GEMM_MR, segment - left);
                for (int64_t kh = 0; kh < p.kernel[1]; kh++)
                    starts[kh] = line.at[kh] + x.w * tile.lda;
                left -= tile.rows;
                x.w += tile.rows - 1;
                next(&p, &x);
            } else {
                tile.rows = rlx_tile_rows(m1 - m0, RLX_GEMM_MR, i - m0);
                for (int64_t r = 0; r < tile.rows; r++) {
                    if (RLX_INT8_VNNI) /* terms are bytes: converted where they are */
                        raw = (uint8_t *)(a_tile + r * depth);
                    gather(&p, in, raw, &x, (uint8_t)za);
                    next(&p, &x);
                    row_sums[r] = rlx_int8_row(a_tile + r * depth, raw, p.k, p.post.a_signed, za,
                                               want_sum);
                }
            }
            to.row = i, to.offset = i * p.ldo + column;
            int status = rlx_int8_products(t, f, &tile, &to);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_conv_int8[] = {
    {"conv.int8@nhwc", conv_run, CONV_INT8_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
