/* Template: depthwise convolution, channels last. See conv_depthwise.c. */
#include "conv_attrs.h"

#define DEPTHWISE_LAYOUT CONV_LAST_HEAD "out_size rows " CONV_TAIL

typedef struct NAME(depthwise) {
    int64_t batch, groups, c, oc, ldi, ldo, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t out_size, rows, work_stride, clamp;
    T lo, hi;
    int64_t channels; /* of the output: groups * oc */
} NAME(depthwise);

/* One row tile: `px` pixels, all channels. */
typedef struct NAME(tile) {
    const NAME(depthwise) *p;
    const T *x;  /* first tap of the first pixel, were it inside */
    const T *w, *bias;
    T *c;
    int64_t ldc, px;
    int64_t lo[2], hi[2];                       /* valid kernel planes and lines */
    int64_t kw_lo[PX_MAX], kw_count[PX_MAX];    /* valid taps of each pixel of an edge tile */
} NAME(tile);

/* PX pixels of n <= W channels from channel ch on. The first and last `edge`
 * pixels leave out the taps that are in padding. With a multiplier the input
 * channels are spread over the lanes that read them. */
RLX_ALWAYS_INLINE void NAME(pixels)(const int PX, const int edge, const int part,
                                    const int multiplied, const NAME(tile) *t, int64_t ch,
                                    int64_t n) {
    const NAME(depthwise) *p = t->p;
    int64_t step = p->stride[2] * p->ldi;
    V acc[PX_MAX];
    UNROLL for (int j = 0; j < PX; j++) acc[j] = (V){0};
    VI lane = {0};
    int64_t from = ch, count = n; /* input channels */
    if (multiplied) {
        from = ch / p->oc;
        count = (ch + n - 1) / p->oc - from + 1;
        for (int l = 0; l < n; l++)
            lane[l] = (ch + l) / p->oc - from;
    }
    for (int64_t kd = t->lo[0]; kd < t->hi[0]; kd++)
        for (int64_t kh = t->lo[1]; kh < t->hi[1]; kh++) {
            const T *w = t->w + (kd * p->kernel[1] + kh) * p->kernel[2] * p->channels + ch;
            const T *x0 = t->x + from + (kd * p->dilation[0] * p->in[1] + kh * p->dilation[1]) *
                                          p->in[2] * p->ldi;
            const T *x3 = x0 + 3 * step, *x6 = x3 + 3 * step, *x9 = x6 + 3 * step,
                    *x12 = x9 + 3 * step;
            int64_t skip = p->dilation[2] * p->ldi;
            for (int64_t kw = 0; kw < p->kernel[2]; kw++) {
                V wv = part ? NAME(rlx_load_part)(w, n) : LOAD(w);
                UNROLL for (int j = 0; j < PX; j++) {
                    const T *x = j < 3 ? x0 : j < 6 ? x3 : j < 9 ? x6 : j < 12 ? x9 : x12;
                    x += j % 3 * step;
                    if ((j >= edge && j < PX - edge) ||
                        (uint64_t)(kw - t->kw_lo[j]) < (uint64_t)t->kw_count[j]) {
                        V xv = part ? NAME(rlx_load_part)(x, count) : LOAD(x);
                        acc[j] += wv * (multiplied ? __builtin_shuffle(xv, lane) : xv);
                    }
                }
                w += p->channels;
                x0 += skip, x3 += skip, x6 += skip, x9 += skip, x12 += skip;
                __asm__("" : "+r"(x0), "+r"(x3), "+r"(x6), "+r"(x9), "+r"(x12));
            }
        }
    if (t->bias) {
        V b = part ? NAME(rlx_load_part)(t->bias + ch, n) : LOAD(t->bias + ch);
        UNROLL for (int j = 0; j < PX; j++) acc[j] += b;
    }
    if (p->clamp) {
        V lo = p->lo - (V){0}, hi = p->hi - (V){0};
        UNROLL for (int j = 0; j < PX; j++) acc[j] = NAME(rlx_clamp)(acc[j], lo, hi);
    }
    UNROLL for (int j = 0; j < PX; j++) {
        if (part)
            NAME(rlx_store_part)(t->c + j * t->ldc + ch, acc[j], n);
        else
            *(VU *)(t->c + j * t->ldc + ch) = acc[j];
    }
}

RLX_ALWAYS_INLINE void NAME(all_channels)(const int PX, const int edge, const NAME(tile) *t) {
    int64_t ch = 0, end = t->p->channels;
    for (; ch + W <= end; ch += W)
        NAME(pixels)(PX, edge, 0, 0, t, ch, W);
    if (ch < end)
        NAME(pixels)(PX, edge, 1, 0, t, ch, end - ch);
}

#define WIDTH(PX) \
    static void NAME(width_##PX)(const NAME(tile) *t, int edge) {    \
        int64_t end = t->p->channels;                                 \
        if (t->p->oc > 1)                                             \
            for (int64_t ch = 0; ch < end; ch += W)                   \
                NAME(pixels)(PX, PX, 1, 1, t, ch, end - ch < W ? end - ch : W); \
        else if (edge == 0)                                           \
            NAME(all_channels)(PX, 0, t);                             \
        else if (edge <= 2 && PX > 4)                                 \
            NAME(all_channels)(PX, PX > 4 ? 2 : PX, t);               \
        else                                                          \
            NAME(all_channels)(PX, PX, t);                            \
    }
#define WIDTH_ENTRY(PX) [PX] = NAME(width_##PX),
#if RLX_VREGS == 32
#define WIDTHS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14)
#else
#define WIDTHS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
#endif
WIDTHS(WIDTH)
static void (*const NAME(widths)[PX_MAX + 1])(const NAME(tile) *, int) = {WIDTHS(WIDTH_ENTRY)};

/* Valid taps [*lo, *hi) of a kernel of k taps, d apart, whose first is at `at`, over [0, n). */
static inline void NAME(valid)(int64_t at, int64_t k, int64_t d, int64_t n, int64_t *lo,
                               int64_t *hi) {
    int64_t end = at >= n ? 0 : (n - 1 - at) / d + 1;
    *lo = at < 0 ? (-at + d - 1) / d : 0;
    *hi = end < k ? end : k;
    if (*hi < *lo)
        *hi = *lo = 0;
}

/* n <= W channels of the input lines [from, to) of an image, each framed by `frame` zeros that are there already. */
static void NAME(fetch_lines)(const NAME(depthwise) *p, const T *in, int64_t from, int64_t to, int64_t frame,
                              int64_t span, int64_t n, T *lines) {
    const int64_t width = p->in[2] < span - frame ? p->in[2] : span - frame;
    for (int64_t y = from; y < to; y++) {
        const T *src = in + y * p->in[2] * p->ldi;
        T *dst = lines + ((y - from) * span + frame) * W;
        for (int64_t x = 0; x < width; x++)
            *(VU *)(dst + x * W) = n < W ? NAME(rlx_load_part)(src + x * p->ldi, n) : LOAD(src + x * p->ldi);
    }
}

/* The output rows [lo, hi) of an image, W channels after the other, from lines and weights beside one another. */
static void NAME(padded_rows)(const NAME(depthwise) *p, const T *in, const T *weights, const T *bias, T *out, T *work,
                              int64_t lo, int64_t hi) {
    const int64_t taps = p->kernel[1] * p->kernel[2], reach = (p->kernel[1] - 1) * p->dilation[1] + 1;
    const int64_t span = (p->out[2] - 1) * p->stride[2] + (p->kernel[2] - 1) * p->dilation[2] + 1;
    const int64_t frame = p->pad[2] < span ? p->pad[2] : span;
    const int64_t top = lo * p->stride[1] - p->pad[1], bottom = (hi - 1) * p->stride[1] - p->pad[1] + reach;
    const int64_t from = top < 0 ? 0 : top < p->in[1] ? top : p->in[1];
    const int64_t to = bottom < from ? from : bottom < p->in[1] ? bottom : p->in[1];
    T *lines = work + taps * W;
    memset(lines, 0, (size_t)((to - from) * span * W) * sizeof(T));
    NAME(depthwise) q = *p;
    q.ldi = W, q.in[2] = span;
    for (int64_t ch = 0; ch < p->channels; ch += W) {
        const int64_t n = p->channels - ch < W ? p->channels - ch : W;
        q.channels = n;
        for (int64_t k = 0; k < taps; k++)
            memcpy(work + k * n, weights + k * p->channels + ch, (size_t)n * sizeof(T));
        NAME(fetch_lines)(p, in + ch, from, to, frame, span, n, lines);
        NAME(tile) tile = {.p = &q, .w = work, .bias = bias ? bias + ch : NULL, .ldc = p->ldo, .hi = {1, 0}};
        for (int64_t row = lo; row < hi; row++) {
            const int64_t ih = row * p->stride[1] - p->pad[1];
            NAME(valid)(ih, p->kernel[1], p->dilation[1], p->in[1], &tile.lo[1], &tile.hi[1]);
            for (int64_t x = 0; x < p->out[2]; x += tile.px) {
                tile.px = rlx_tile_rows(p->out[2], PX_MAX, x);
                tile.x = lines + ((ih - from) * span + x * p->stride[2]) * W;
                tile.c = out + (row * p->out[2] + x) * p->ldo + ch;
                NAME(widths)[tile.px](&tile, 0);
            }
        }
    }
}

/* Items by `rows` of an image. */
static int NAME(padded_run)(const NAME(depthwise) *p, const rlx_thunk *t, const rlx_frame *f, const int64_t *steps,
                            int64_t n_steps, int64_t lo, int64_t hi) {
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    T *work = (T *)(RLX_PTR(t, f, 4) + f->tid * p->work_stride);
    for (int64_t i = lo, end; i < hi; i = end) {
        const int64_t image = i / p->out[1], row = i % p->out[1], plane = p->out[1] * p->out[2];
        const int64_t left = p->out[1] - row < hi - i ? p->out[1] - row : hi - i;
        end = i + (left < p->rows ? left : p->rows);
        T *out = (T *)RLX_PTR(t, f, 2) + image * plane * p->ldo;
        NAME(padded_rows)(p, (const T *)RLX_PTR(t, f, 0) + image * p->in[1] * p->in[2] * p->ldi,
                          (const T *)RLX_PTR(t, f, 1), bias, out, work, row, row + end - i);
        if (n_steps) {
            const int64_t pixel = i * p->out[2];
            char *at = (char *)((T *)RLX_PTR(t, f, 2) + pixel * p->ldo);
            const rlx_epi_tile e = {at, at, p->ldo, p->ldo, sizeof(T), sizeof(T), (end - i) * p->out[2], p->channels,
                                    pixel, 1, 0, pixel * p->ldo};
            const int status = rlx_epilogue(t, f, steps, n_steps, &e);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}

/* An item is an output row. */
static int NAME(depthwise_run)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs;
    NAME(depthwise) p;
    memcpy(&p, at, 28 * sizeof(int64_t));
    p.lo = (T)RLX_F(at, 28), p.hi = (T)RLX_F(at, 29);
    p.channels = p.groups * p.oc;
    const int64_t *steps = RLX_LIST(at, 30);
    int64_t n_steps = RLX_COUNT(at, 30);
    if (p.rows)
        return NAME(padded_run)(&p, t, f, steps, n_steps, lo, hi);
    const T *in = (const T *)RLX_PTR(t, f, 0);
    NAME(tile) tile = {.p = &p, .w = (const T *)RLX_PTR(t, f, 1),
                       .bias = (const T *)RLX_OPT(t, f, 3), .ldc = p.ldo};
    int narrow = p.out_size != (int64_t)sizeof(T);
    for (int64_t i = lo; i < hi; i++) {
        int64_t rest = i / p.out[1], image = rest / p.out[0];
        int64_t id = rest % p.out[0] * p.stride[0] - p.pad[0];
        int64_t ih = i % p.out[1] * p.stride[1] - p.pad[1];
        NAME(valid)(id, p.kernel[0], p.dilation[0], p.in[0], &tile.lo[0], &tile.hi[0]);
        NAME(valid)(ih, p.kernel[1], p.dilation[1], p.in[1], &tile.lo[1], &tile.hi[1]);
        for (int64_t w = 0; w < p.out[2]; w += tile.px) {
            tile.px = rlx_tile_rows(p.out[2], PX_MAX, w);
            int64_t iw = w * p.stride[2] - p.pad[2];
            int64_t reach = iw + (tile.px - 1) * p.stride[2] + (p.kernel[2] - 1) * p.dilation[2];
            int64_t edge = 0; /* how far from the ends of the tile padding reaches */
            for (int64_t j = 0; j < tile.px && (iw < 0 || reach >= p.in[2] || p.oc > 1); j++) {
                int64_t end;
                NAME(valid)(iw + j * p.stride[2], p.kernel[2], p.dilation[2], p.in[2],
                            &tile.kw_lo[j], &end);
                tile.kw_count[j] = end - tile.kw_lo[j];
                int64_t depth = j < tile.px - 1 - j ? j + 1 : tile.px - j;
                if (tile.kw_count[j] < p.kernel[2] && edge < depth)
                    edge = depth;
            }
            int64_t row = i * p.out[2] + w;
            char *out = RLX_PTR(t, f, 2) + row * p.ldo * p.out_size;
            tile.c = (T *)out;
            if (narrow) {
                tile.c = (T *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
                tile.ldc = p.channels;
            }
            tile.x = in + (((image * p.in[0] + id) * p.in[1] + ih) * p.in[2] + iw) * p.ldi;
            NAME(widths)[tile.px](&tile, (int)edge);
            if (n_steps) {
                rlx_epi_tile e = {(char *)tile.c, out, tile.ldc, p.ldo, sizeof(T), p.out_size,
                                  tile.px, p.channels, row, 1, 0, row * p.ldo};
                int status = rlx_epilogue(t, f, steps, n_steps, &e);
                if (status)
                    return status;
            }
        }
    }
    return RLX_OK;
}
