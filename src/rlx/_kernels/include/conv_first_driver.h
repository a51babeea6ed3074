/* Template: depthwise convolution of channels-first images. See conv_first.c. */
#include "conv_attrs.h"

#define CONV_FIRST_LAYOUT CONV_FIRST_HEAD "nc " CONV_TAIL

enum { FIRST_MAX_K = 640 };

typedef struct NAME(first) {
    CONV_FIRST_HEAD_FIELDS;
    int64_t nc;
    CONV_FIRST_TAIL_FIELDS;
} NAME(first);

/* dst[i] = src[i * step] for i < n. */
RLX_ALWAYS_INLINE void NAME(every)(T *dst, const T *src, int64_t step, int64_t n) {
    int64_t i = 0;
    if (step == 2) /* the last pair may end the buffer */
        for (; i + W < n; i += W)
            *(VU *)(dst + i) = NAME(rlx_every_second)(LOAD(src + 2 * i), LOAD(src + 2 * i + W), 0);
    for (; i < n; i++)
        dst[i] = src[i * step];
}

/* A line of input between zeros, for stride 1, in whole vectors: up to W - 1 elements behind it are
 * written, too. */
RLX_ALWAYS_INLINE void NAME(plain_line)(const NAME(first) *p, T *dst, const T *line, int64_t length) {
    int64_t at = 0, room = length - p->pad[2];
    int64_t n = p->in[2] < room ? p->in[2] : room;
    if (line && n > 0) {
        for (; at < p->pad[2]; at += W)
            *(VU *)(dst + at) = (V){0};
        T *to = dst + p->pad[2];
        for (at = 0; at + W <= n; at += W)
            *(VU *)(to + at) = LOAD(line + at);
        if (at < n)
            *(VU *)(to + at) = NAME(rlx_load_part)(line + at, n - at);
        at = p->pad[2] + (at < n ? at + W : at);
    }
    for (; at < length; at += W)
        *(VU *)(dst + at) = (V){0};
}

/* A line of input, padded: dst[phase][j] = line[j * stride + phase - pad], zeros outside. */
static void NAME(line)(const NAME(first) *p, T *dst, const T *line, int64_t length) {
    int64_t step = p->stride[2];
    if (step == 1) {
        NAME(plain_line)(p, dst, line, length);
        return;
    }
    for (int64_t phase = 0; phase < step; phase++, dst += length) {
        int64_t x = phase - p->pad[2]; /* of dst[0] */
        int64_t from, to;
        rlx_inside(x, step, p->in[2], length, &from, &to);
        to = line ? to : from;
        memset(dst, 0, (size_t)from * sizeof(T));
        if (to > from)
            NAME(every)(dst + from, line + x + from * step, step, to - from);
        memset(dst + to, 0, (size_t)(length - to) * sizeof(T));
    }
}

/* R output lines of NV vectors of a channel that reads one input channel. */
RLX_ALWAYS_INLINE void NAME(lines)(const int R, const int NV, const NAME(first) *p, const T *x, int64_t line,
                                   const int64_t *taps, const T *w, T bias, T *c, int64_t last) {
    V acc[8];
    UNROLL for (int i = 0; i < R * NV; i++) acc[i] = (V){0};
    for (int64_t k = 0; k < p->k; k++) {
        const T *at = x + taps[k];
        V by = w[k] - (V){0};
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int j = 0; j < NV; j++) acc[r * NV + j] += by * LOAD(at + r * line + j * W);
    }
    V lo = p->lo - (V){0}, hi = p->hi - (V){0};
    UNROLL for (int i = 0; i < R * NV; i++) {
        acc[i] += bias - (V){0};
        acc[i] = p->clamp ? NAME(rlx_clamp)(acc[i], lo, hi) : acc[i];
    }
    UNROLL for (int r = 0; r < R; r++, c += p->out[2]) {
        UNROLL for (int j = 0; j < NV - 1; j++) *(VU *)(c + j * W) = acc[r * NV + j];
        NAME(rlx_store_part)(c + (NV - 1) * W, acc[r * NV + NV - 1], last);
    }
}

#define LINES(R, NV)                                                                                      \
    static void NAME(lines_##R##x##NV)(const NAME(first) *p, const T *x, int64_t line, const int64_t *taps, \
                                       const T *w, T bias, T *c, int64_t last) {                          \
        NAME(lines)(R, NV, p, x, line, taps, w, bias, c, last);                                           \
    }
#define LINES_ENTRY(R, NV) [NV][R] = NAME(lines_##R##x##NV),
#define LINES_UPTO(F, NV) F(1, NV) F(2, NV)
#define LINES_SHAPES(F)                                                                                   \
    LINES_UPTO(F, 1) F(3, 1) F(4, 1) F(5, 1) F(6, 1) F(7, 1) F(8, 1) LINES_UPTO(F, 2) F(3, 2) F(4, 2)      \
        LINES_UPTO(F, 3) LINES_UPTO(F, 4) F(1, 5) F(1, 6) F(1, 7) F(1, 8)
LINES_SHAPES(LINES)
static void (*const NAME(all_lines)[9][9])(const NAME(first) *, const T *, int64_t, const int64_t *, const T *, T,
                                           T *, int64_t) = {LINES_SHAPES(LINES_ENTRY)};

/* `count` output lines of a channel that reads one input channel. */
static void NAME(channel)(const NAME(first) *p, const T *x, int64_t line, const int64_t *taps, const T *w, T bias,
                          T *c, int64_t count) {
    int64_t panels = (p->out[2] + W - 1) / W;
    for (int64_t j = 0, nv; j < panels; j += nv) {
        nv = rlx_tile_rows(panels, 8, j);
        int64_t last = j + nv == panels ? p->out[2] - (panels - 1) * W : W;
        for (int64_t y = 0, r; y < count; y += r) {
            r = rlx_tile_rows(count, 8 / nv, y);
            NAME(all_lines)[nv][r](p, x + y * line + j * W, line, taps, w, bias, c + y * p->out[2] + j * W, last);
        }
    }
}

/* An item: nc output lines of one plane of one group. */
static int NAME(conv_direct)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    NAME(first) p;
    CONV_FIRST_READ(p, t->attrs);
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    int64_t reach = (p.kernel[2] - 1) * p.dilation[2];
    int64_t width = (p.out[2] + W - 1) / W * W; /* vectors read whole panels */
    int64_t length = width + reach / p.stride[2] + 1, ld = length * p.stride[2];
    int64_t lines = (p.nc - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
    int64_t strips = (p.out[1] + p.nc - 1) / p.nc, taps[FIRST_MAX_K];
    T *patch = (T *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    for (int64_t k = 0; k < p.k; k++) {
        int64_t x = k % p.kernel[2] * p.dilation[2], y = k / p.kernel[2];
        taps[k] = (y / p.kernel[1] * lines + y % p.kernel[1] * p.dilation[1]) * ld + x % p.stride[2] * length +
                  x / p.stride[2];
    }
    for (int64_t item = lo; item < hi; item++) {
        int64_t y0 = item % strips * p.nc, y1 = y0 + p.nc < p.out[1] ? y0 + p.nc : p.out[1];
        int64_t z = item / strips % p.out[0], gi = item / strips / p.out[0]; /* group of an image */
        const T *in = (const T *)RLX_PTR(t, f, 0) + gi * p.plane_in;
        int64_t first = y0 * p.stride[1] - p.pad[1], count = lines - (p.nc - (y1 - y0)) * p.stride[1];
        for (int64_t d = 0; d < p.kernel[0]; d++) {
            int64_t iz = z * p.stride[0] - p.pad[0] + d * p.dilation[0];
            T *dst = patch + d * lines * ld;
            for (int64_t y = 0; y < count; y++, dst += ld) {
                int inside = (uint64_t)iz < (uint64_t)p.in[0] && (uint64_t)(first + y) < (uint64_t)p.in[1];
                NAME(line)(&p, dst, inside ? in + (iz * p.in[1] + first + y) * p.in[2] : NULL, length);
            }
        }
        int64_t channel = gi % p.groups * p.oc;
        const T *w = (const T *)RLX_PTR(t, f, 1) + channel * p.k;
        int64_t here = (z * p.out[1] + y0) * p.out[2], pixels = (y1 - y0) * p.out[2];
        for (int64_t o = 0; o < p.oc; o++) {
            T *c = (T *)RLX_PTR(t, f, 2) + (gi * p.oc + o) * p.plane_out + here;
            NAME(channel)(&p, patch, p.stride[1] * ld, taps, w + o * p.k, bias ? bias[channel + o] : 0, c, y1 - y0);
            if (!p.n_steps)
                continue;
            int64_t row = gi * p.oc + o;
            rlx_epi_tile tile = {(char *)c, (char *)c, p.plane_out, p.plane_out, sizeof(T), sizeof(T), 1, pixels,
                                 row, 1, here, row * p.plane_out + here};
            int status = rlx_epilogue(t, f, p.steps, p.n_steps, &tile);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}
