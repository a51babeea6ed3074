/* Bounds of convolutions: see bounds.h. Taps are compared with the image by the kernels. */
#include "bounds.h"
#include "conv_int8.h"

enum { PX_MAX = RLX_VREGS == 32 ? 14 : 8, WIDE_ROWS = 40, CHUNK = 128, FIRST_MAX_K = 640, MOST_PHASES = 1 << 22 };

typedef struct geometry {
    int64_t batch, groups, c, oc, ldi, ldo;
    const int64_t *in, *out, *kernel, *stride, *dilation, *pad;
    int64_t pixels_in, pixels_out, taps, k;
} geometry;

/* Attributes "batch groups C OC [ldi ldo] in_* out_* k_* stride_* dilation_* pad_*", three of each. */
static geometry geometry_of(rlx_claim *c, int first) {
    const int at = first ? 4 : 6;
    geometry g = {rlx_at(c, 0), rlx_at(c, 1), rlx_at(c, 2), rlx_at(c, 3), 0, 0, c->attrs + at, c->attrs + at + 3,
                  c->attrs + at + 6, c->attrs + at + 9, c->attrs + at + 12, c->attrs + at + 15, 0, 0, 0, 0};
    if (!first)
        g.ldi = rlx_at(c, 4), g.ldo = rlx_at(c, 5);
    for (int i = 0; i < 3; i++) {
        rlx_must(c, g.in[i] >= 0 && g.in[i] <= (int64_t)1 << 36 && g.out[i] >= 0 && g.out[i] <= (int64_t)1 << 36,
                 "images must be of possible size");
        rlx_small(c, at + 6 + i, 0);
        rlx_small(c, at + 9 + i, 1);
        rlx_small(c, at + 12 + i, 1);
        rlx_small(c, at + 15 + i, 0);
    }
    g.pixels_in = rlx_mul(g.batch, rlx_product(g.in, 3));
    g.pixels_out = rlx_mul(g.batch, rlx_product(g.out, 3));
    g.taps = rlx_product(g.kernel, 3);
    g.k = rlx_mul(g.taps, g.c);
    rlx_must(c, g.c <= (int64_t)1 << 32 && g.oc <= (int64_t)1 << 32 && g.groups <= (int64_t)1 << 32 &&
                    g.ldi <= (int64_t)1 << 32 && g.ldo <= (int64_t)1 << 32,
             "channels must be of possible number");
    return g;
}

static int64_t lanes(const rlx_claim *c) { return rlx_is(c->type, "f64") ? RLX_W64 : RLX_W32; }

/* Elements of a tile of A: rows of kc terms and room behind them. */
static int64_t tile(int64_t kc, int64_t w) {
    return rlx_mul3(RLX_GEMM_MR, rlx_add(kc, 2 * w - 1) / w, w);
}

/* Pixels of a result do not overlap. */
static void distinct(rlx_claim *c, int64_t pixels, int64_t channels, int64_t ldo) {
    rlx_must(c, (ldo >= channels && channels >= 1) || pixels <= 1, "pixels must have places of their own");
}

static void conv(rlx_claim *c) {
    const geometry g = geometry_of(c, 0);
    const int64_t mc = rlx_at(c, 24), nc = rlx_at(c, 25), kc = rlx_at(c, 26), out = rlx_at(c, 27), w = lanes(c);
    const int64_t half = rlx_stored(c);
    const int64_t all = rlx_mul(g.groups, g.oc), span = rlx_span(all, g.pixels_out, g.ldo);
    rlx_must(c, half || rlx_is(c->variant, "nhwc"), "a convolution must be of a known kind");
    rlx_must(c, mc >= 1 && nc >= 1 && kc >= 1 && (nc % w == 0 || nc >= g.oc), "blocks must be whole panels");
    rlx_must(c, g.ldi != g.c || g.groups == 1 || !g.c, "pixels must hold all groups");
    rlx_extent(c, rlx_mul3(g.groups, rlx_ceil(g.oc, nc), rlx_ceil(g.pixels_out, mc)));
    distinct(c, g.pixels_out, all, g.ldo);
    rlx_reads(c, 0, rlx_span(rlx_mul(g.groups, g.c), g.pixels_in, g.ldi), c->size);
    rlx_reads(c, 1, rlx_mul3(g.groups, rlx_up(g.oc, w), g.k), half ? half : c->size);
    rlx_writes(c, 2, span, out);
    rlx_may_read(c, 3, all, c->size);
    int64_t work = tile(kc, w);
    work = rlx_add(work, out != c->size ? rlx_mul(mc, nc) : 0);
    if (half && rlx_less(mc, g.pixels_out) > WIDE_ROWS)
        work = rlx_add(work, rlx_mul(rlx_less(kc, g.k), rlx_up(rlx_less(nc, g.oc), w)));
    rlx_works(c, 4, rlx_at(c, 28), rlx_mul(work, c->size));
    rlx_epilogue_bounds(c, 32, 5, g.pixels_out, all, span, c->size, out);
}

static void conv_int8(rlx_claim *c) {
    const geometry g = geometry_of(c, 0);
    const int64_t mc = rlx_at(c, 24), nc = rlx_at(c, 25), out = rlx_at(c, 32) < 2 ? 4 : 1, ldc = rlx_up(nc, RLX_W32);
    const int64_t all = rlx_mul(g.groups, g.oc), span = rlx_span(all, g.pixels_out, g.ldo);
    const int64_t depth = rlx_up(g.k, RLX_KG);
    rlx_must(c, mc >= 1 && nc >= 1 && (nc % RLX_W32 == 0 || nc >= g.oc), "blocks must be whole panels");
    rlx_must(c, rlx_at(c, 29) <= 1, "a convolution must have one zero point of its input");
    rlx_extent(c, rlx_mul3(g.groups, rlx_ceil(g.oc, nc), rlx_ceil(g.pixels_out, mc)));
    distinct(c, g.pixels_out, all, g.ldo);
    rlx_reads(c, 0, rlx_span(rlx_mul(g.groups, g.c), g.pixels_in, g.ldi), 1);
    rlx_reads(c, 1, rlx_mul3(g.groups, rlx_up(g.oc, RLX_W32), rlx_add(depth, 4)), 1);
    rlx_writes(c, 2, span, out);
    int64_t work = rlx_mul3(4, RLX_GEMM_MR + 3, ldc);
    work = rlx_add(work, rlx_add(rlx_mul3(RLX_GEMM_MR, depth, sizeof(rlx_int8_term)), 64));
    const int64_t line = c->why ? 0 : rlx_conv_int8_line(c->attrs);
    const int64_t lines = rlx_mul3(g.kernel[1], line, sizeof(rlx_int8_term));
    rlx_works(c, 4, rlx_at(c, 26), rlx_add(work, line ? lines : RLX_INT8_VNNI ? 0 : g.k));
    rlx_int8_bounds(c, 27, 1, all);
    rlx_epilogue_bounds(c, 35, 9, g.pixels_out, all, span, out, out);
}

/* Elements of the weights and of the framed lines under `rows` output rows of a vector of channels. */
static int64_t framed(rlx_claim *c, const geometry *g, int64_t rows) {
    rlx_must(c, g->oc == 1 && g->in[0] == 1 && g->out[0] == 1 && g->kernel[0] == 1 && g->pad[0] == 0 &&
                    g->kernel[1] >= 1 && g->kernel[2] >= 1 && g->out[2] >= 1 && rows >= 1,
             "framed lines must be of one plane");
    if (c->why)
        return 0;
    const int64_t under = rlx_add(rlx_mul(rows - 1, g->stride[1]), (g->kernel[1] - 1) * g->dilation[1] + 1);
    const int64_t span = rlx_add(rlx_mul(g->out[2] - 1, g->stride[2]), (g->kernel[2] - 1) * g->dilation[2] + 1);
    return rlx_mul(rlx_add(rlx_mul(rlx_less(under, g->in[1]), span), g->taps), lanes(c));
}

/* Channels first. */
static void depthwise_planes(rlx_claim *c) {
    const geometry g = geometry_of(c, 1);
    const int64_t planes = rlx_mul(g.batch, g.groups), in = rlx_product(g.in, 3), plane = rlx_product(g.out, 3);
    rlx_extent(c, rlx_mul(g.batch, rlx_ceil(g.groups, lanes(c))));
    rlx_reads(c, 0, rlx_mul(planes, in), 4);
    rlx_reads(c, 1, rlx_mul(g.taps, g.groups), 4);
    rlx_writes(c, 2, rlx_mul(planes, plane), 4);
    rlx_may_read(c, 3, g.groups, 4);
    rlx_works(c, 4, rlx_at(c, 23), rlx_mul(4, framed(c, &g, rlx_at(c, 22))));
    rlx_epilogue_bounds(c, 27, 5, planes, plane, rlx_mul(planes, plane), 4, 4);
}

static void depthwise(rlx_claim *c) {
    const geometry g = geometry_of(c, 0);
    const int64_t all = rlx_mul(g.groups, g.oc), out = rlx_at(c, 24), span = rlx_span(all, g.pixels_out, g.ldo);
    rlx_must(c, g.oc >= 1, "there must be channels per group");
    rlx_extent(c, rlx_mul3(g.batch, g.out[0], g.out[1]));
    distinct(c, g.pixels_out, all, g.ldo);
    rlx_reads(c, 0, rlx_span(g.groups, g.pixels_in, g.ldi), c->size);
    rlx_reads(c, 1, rlx_mul(g.taps, all), c->size);
    rlx_writes(c, 2, span, out);
    rlx_may_read(c, 3, all, c->size);
    const int64_t rows = rlx_at(c, 25);
    if (out != c->size)
        rlx_works(c, 4, rlx_at(c, 26), rlx_mul3(PX_MAX, all, c->size));
    if (rows) {
        rlx_must(c, out == c->size, "framed lines must not be narrowed");
        rlx_works(c, 4, rlx_at(c, 26), rlx_mul(framed(c, &g, rows), c->size));
    }
    rlx_epilogue_bounds(c, 30, 5, g.pixels_out, all, span, c->size, out);
}

/* attrs: batch C ldi ldo, two each of in out k stride dilation pad, work_stride ... */
static void depthwise_int8(rlx_claim *c) {
    const int64_t batch = rlx_at(c, 0), channels = rlx_at(c, 1), ldi = rlx_at(c, 2), ldo = rlx_at(c, 3);
    const int64_t pixels_in = rlx_mul3(batch, rlx_at(c, 4), rlx_at(c, 5)), rows = rlx_mul(batch, rlx_at(c, 6));
    const int64_t pixels = rlx_mul(rows, rlx_at(c, 7)), out = rlx_at(c, 22) < 2 ? 4 : 1;
    for (int i = 8; i < 16; i++)
        rlx_small(c, i, i >= 10 && i < 14);
    const int64_t *a = c->attrs, taps = rlx_mul(a[8], a[9]), span = rlx_span(channels, pixels, ldo);
    if (c->why)
        return;
    const int64_t width = (PX_MAX - 1) * a[11] + (a[9] - 1) * a[13] + 1;
    rlx_must(c, a[9] >= 1 && rlx_at(c, 19) <= 1, "a convolution must have one zero point of its input");
    rlx_extent(c, rows);
    distinct(c, pixels, channels, ldo);
    rlx_reads(c, 0, rlx_span(channels, pixels_in, ldi), 1);
    rlx_reads(c, 1, rlx_mul(taps, channels), 1);
    rlx_writes(c, 2, span, out);
    const int64_t chunks = rlx_add(rlx_add(taps, rlx_mul(a[8], width)), PX_MAX + 3);
    rlx_works(c, 4, rlx_at(c, 16), rlx_mul3(4, CHUNK, chunks));
    rlx_int8_bounds(c, 17, 1, channels);
    rlx_epilogue_bounds(c, 25, 9, pixels, channels, span, out, out);
}

/* attrs: batch C OC ldi ldo, two each of in out pad dilation, side tiles channels work_stride ... */
static void winograd(rlx_claim *c) {
    const int64_t batch = rlx_at(c, 0), in = rlx_at(c, 1), oc = rlx_at(c, 2), ldi = rlx_at(c, 3), ldo = rlx_at(c, 4);
    const int64_t height = rlx_at(c, 7), width = rlx_at(c, 8), side = c->attrs[13], tiles = rlx_at(c, 14);
    const int64_t channels = rlx_at(c, 15), pixels = rlx_mul3(batch, height, width), span = rlx_span(oc, pixels, ldo);
    rlx_small(c, 9, 0);
    rlx_small(c, 10, 0);
    const int64_t dilation_h = rlx_small(c, 11, 1), dilation_w = rlx_small(c, 12, 1);
    rlx_must(c, (side == 2 || side == 4) && tiles >= 1, "an item must have tiles of 2 x 2 or 4 x 4");
    rlx_must(c, channels >= 1 && (channels % RLX_W32 == 0 || channels >= oc), "blocks must be whole panels");
    distinct(c, pixels, oc, ldo);
    if (c->why)
        return;
    const int64_t down = rlx_ceil(rlx_ceil(height, dilation_h), side);
    const int64_t across = rlx_ceil(rlx_ceil(width, dilation_w), side);
    const int64_t all = rlx_mul3(batch, rlx_mul(down, across), rlx_mul(dilation_h, dilation_w));
    const int64_t components = (side + 2) * (side + 2);
    rlx_extent(c, rlx_mul(rlx_ceil(all, tiles), rlx_ceil(oc, channels)));
    rlx_reads(c, 0, rlx_span(in, rlx_mul3(batch, rlx_at(c, 5), rlx_at(c, 6)), ldi), 4);
    rlx_reads(c, 1, rlx_mul3(components, rlx_up(oc, RLX_W32), in), 4);
    rlx_writes(c, 2, span, 4);
    rlx_may_read(c, 3, oc, 4);
    const int64_t inputs = rlx_add(rlx_up(rlx_mul(tiles, in), 16), 16);
    const int64_t products = rlx_add(rlx_mul(tiles, rlx_up(channels, 16)), 16);
    rlx_works(c, 4, rlx_at(c, 16), rlx_mul3(4, components, rlx_add(inputs, products)));
    rlx_epilogue_bounds(c, 20, 5, pixels, oc, span, 4, 4);
}

static void winograd_weights(rlx_claim *c) {
    const int64_t in = rlx_at(c, 0), oc = rlx_at(c, 1), side = c->attrs[2];
    rlx_must(c, side == 2 || side == 4, "an item must have tiles of 2 x 2 or 4 x 4");
    rlx_extent(c, oc);
    rlx_reads(c, 0, rlx_mul3(9, in, oc), 4);
    rlx_writes(c, 1, rlx_mul3((side + 2) * (side + 2), in, oc), 4);
}

/* -------------------------------------------------------------- transposed */

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Taps of one axis that reach the outputs r, r + s, ... */
static int64_t phase_taps(int64_t r, int64_t k, int64_t s, int64_t d, int64_t p) {
    int64_t first = 0;
    while (first < k && (r + p - first * d) % s != 0)
        first++;
    return first < k ? (k - 1 - first) / (s / divisor(s, d)) + 1 : 0;
}

/* Taps of all phases with outputs, and the items that they make; `per`: of a phase of so many pixels. */
static int64_t phases_of(rlx_claim *c, const int64_t *k, const int64_t *s, const int64_t *d, const int64_t *p,
                         const int64_t *out, int64_t batch, int64_t mc, int64_t *items) {
    const int64_t phases = rlx_product(s, 3);
    int64_t taps = 0;
    *items = 0;
    rlx_must(c, rlx_mul(phases, rlx_add(rlx_add(k[0], k[1]), k[2])) <= MOST_PHASES, "strides must be of possible size");
    for (int64_t i = 0; i < phases && !c->why; i++) {
        const int64_t r[3] = {i / (s[1] * s[2]), i / s[2] % s[1], i % s[2]};
        int64_t t = 1, pixels[3];
        for (int a = 0; a < 3; a++) {
            t = rlx_mul(t, phase_taps(r[a], k[a], s[a], d[a], p[a]));
            pixels[a] = out && out[a] > r[a] ? (out[a] - r[a] + s[a] - 1) / s[a] : 0;
        }
        taps = rlx_add(taps, t);
        const int64_t whole = mc > pixels[2] && pixels[2] ? mc / pixels[2] * pixels[2] : mc;
        if (out)
            *items = rlx_add(*items, rlx_ceil(rlx_mul(batch, rlx_product(pixels, 3)), whole));
    }
    return taps;
}

static void conv_transpose(rlx_claim *c) {
    const geometry g = geometry_of(c, 0);
    const int64_t mc = rlx_at(c, 24), nc = rlx_at(c, 25), kc = rlx_at(c, 26), out = rlx_at(c, 27), w = lanes(c);
    const int64_t merge = rlx_small(c, 34, 1), all = rlx_mul(g.groups, g.oc), oc = rlx_mul(g.oc, merge);
    const int64_t span = rlx_span(all, g.pixels_out, g.ldo);
    rlx_must(c, mc >= 1 && nc >= 1 && kc >= 1 && (nc % w == 0 || nc >= oc), "blocks must be whole panels");
    rlx_must(c, g.ldi != g.c || g.groups == 1 || !g.c, "pixels must hold all groups");
    if (c->why)
        return;
    int64_t k[3], s[3], size[3], items;
    for (int i = 0; i < 3; i++)
        k[i] = g.kernel[i], s[i] = g.stride[i], size[i] = g.out[i];
    if (merge > 1) {
        rlx_must(c, g.groups == 1 && g.ldo == g.oc && k[2] == merge && s[2] == merge && g.pad[2] == 0 && nc >= oc &&
                        g.dilation[2] == 1 && size[2] == g.in[2] * merge,
                 "taps that are channels must not meet");
        k[2] = s[2] = 1, size[2] = g.in[2];
    }
    const int64_t taps = phases_of(c, k, s, g.dilation, g.pad, size, g.batch, mc, &items);
    rlx_extent(c, rlx_mul3(g.groups, rlx_ceil(oc, nc), items));
    distinct(c, g.pixels_out, all, g.ldo);
    rlx_reads(c, 0, rlx_span(rlx_mul(g.groups, g.c), g.pixels_in, g.ldi), c->size);
    rlx_reads(c, 1, rlx_mul3(rlx_mul(g.groups, rlx_up(oc, w)), taps, g.c), c->size);
    rlx_writes(c, 2, span, out);
    rlx_may_read(c, 3, all, c->size);
    const int64_t work = rlx_add(rlx_add(tile(kc, w), out != c->size ? rlx_mul(mc, nc) : 0), merge > 1 ? oc : 0);
    rlx_works(c, 4, rlx_at(c, 28), rlx_mul(work, c->size));
    rlx_epilogue_bounds(c, 32, 5, g.pixels_out, all, span, c->size, out);
}

/* attrs: groups C OC, three each of k stride dilation pad, merge */
static void pack_conv_transpose(rlx_claim *c) {
    const int64_t groups = rlx_at(c, 0), in = rlx_at(c, 1), oc = rlx_at(c, 2), merge = rlx_small(c, 15, 1);
    for (int i = 3; i < 15; i++)
        rlx_small(c, i, i >= 6 && i < 12);
    if (c->why)
        return;
    const int64_t *a = c->attrs, whole = rlx_mul3(groups, oc, rlx_product(a + 3, 3));
    int64_t k[3] = {a[3], a[4], a[5]}, s[3] = {a[6], a[7], a[8]}, items;
    rlx_must(c, merge == 1 || (groups == 1 && k[2] == merge && s[2] == merge), "taps that are channels must not meet");
    if (merge > 1)
        k[2] = s[2] = 1;
    const int64_t taps = phases_of(c, k, s, a + 9, a + 12, NULL, 0, 1, &items), w = lanes(c);
    rlx_reads(c, 0, rlx_mul(whole, in), c->size);
    rlx_writes(c, 1, rlx_mul3(rlx_mul(groups, rlx_up(rlx_mul(oc, merge), w)), taps, in), c->size);
}

/* ----------------------------------------------------------- channels first */

/* Out of one channel. */
static void conv_direct(rlx_claim *c) {
    const geometry g = geometry_of(c, 1);
    const int64_t nc = rlx_at(c, 22), items = rlx_mul(g.batch, g.groups), all = rlx_mul(g.groups, g.oc);
    const int64_t plane = rlx_product(g.out, 3), out = rlx_mul3(g.batch, all, plane);
    rlx_must(c, nc >= 1 && g.c == 1 && g.taps >= 1 && g.taps <= FIRST_MAX_K, "there must be one channel and few terms");
    rlx_extent(c, rlx_mul3(items, g.out[0], rlx_ceil(g.out[1], nc)));
    rlx_reads(c, 0, rlx_mul(items, rlx_product(g.in, 3)), 4);
    rlx_reads(c, 1, rlx_mul(all, g.k), 4);
    rlx_writes(c, 2, out, 4);
    rlx_may_read(c, 3, all, 4);
    if (c->why)
        return;
    const int64_t width = rlx_up(g.out[2], RLX_W32);
    const int64_t length = rlx_add(width, (g.kernel[2] - 1) * g.dilation[2] / g.stride[2] + 1);
    const int64_t lines = rlx_add(rlx_mul(nc - 1, g.stride[1]), (g.kernel[1] - 1) * g.dilation[1] + 1);
    /* lines are written in whole vectors: a vector takes what lies behind the last one */
    const int64_t work = rlx_add(rlx_mul3(g.kernel[0], lines, rlx_mul(g.stride[2], length)), RLX_W32);
    rlx_works(c, 4, rlx_at(c, 23), rlx_mul(4, work));
    rlx_epilogue_bounds(c, 27, 5, rlx_mul(g.batch, all), plane, out, 4, 4);
}

/* attrs: channels groups OC, two each of size kernel dilation pad, work_stride ... */
static void conv_masked(rlx_claim *c) {
    const int64_t channels = rlx_at(c, 0), oc = rlx_at(c, 2), height = rlx_at(c, 3), width = rlx_at(c, 4);
    for (int i = 5; i < 11; i++)
        rlx_small(c, i, i < 9);
    if (c->why)
        return;
    const int64_t *a = c->attrs, taps = rlx_mul(a[5], a[6]), plane = rlx_mul(height, width), far = (int64_t)1 << 30;
    const int64_t vectors = rlx_ceil(plane, RLX_W32);
#if defined(__AVX512F__)
    const int64_t mask = 2;
#else
    const int64_t mask = 4 * RLX_W32;
#endif
    rlx_must(c, channels >= 1 && oc >= 1 && width >= 1 && taps <= FIRST_MAX_K, "there must be few terms");
    rlx_must(c, plane < far && rlx_mul(rlx_add(rlx_mul(a[5], a[7]), a[9]), width) < far &&
                    rlx_add(rlx_mul(a[6], a[8]), a[10]) < far, "places must be 32-bit numbers");
    if (c->why)
        return;
    rlx_reads(c, 0, rlx_mul(rlx_groups(c, oc), plane), 4);
    rlx_reads(c, 1, rlx_mul(channels, taps), 4);
    rlx_writes(c, 2, rlx_mul(c->extent, plane), 4);
    rlx_may_read(c, 3, channels, 4);
    rlx_works(c, 4, rlx_at(c, 11), rlx_mul3(taps, vectors, mask));
    rlx_epilogue_bounds(c, 15, 5, c->extent, plane, rlx_mul(c->extent, plane), 4, 4);
}

/* attrs from 22 on: height lines columns mc pass pitch image in_place work_stride ... */
static void conv_planes(rlx_claim *c) {
    enum { MAX_TERMS = 1024, PANEL = 16 + 4 * RLX_W32 };
    const geometry g = geometry_of(c, 1);
    const int64_t height = rlx_at(c, 22), lines = rlx_at(c, 23), columns = rlx_at(c, 24), mc = rlx_at(c, 25);
    const int64_t pass = rlx_at(c, 26), pitch = rlx_at(c, 27), image = rlx_at(c, 28), in_place = c->attrs[29];
    const int64_t items = rlx_mul(g.batch, g.groups), all = rlx_mul(g.groups, g.oc), plane = rlx_product(g.out, 3);
    const int64_t plane_in = rlx_product(g.in, 3), out = rlx_mul3(g.batch, all, plane), some = rlx_less(pass, g.c);
    rlx_must(c, height >= 1 && height <= RLX_GEMM_MR && mc >= height && mc % height == 0, "blocks must be whole tiles");
    rlx_must(c, lines >= 1 && columns >= 1 && pass >= 1 && pitch >= columns && (lines == 1 || columns >= g.out[2]),
             "an item must be whole lines, or a part of one");
    rlx_must(c, g.taps >= 1 && rlx_mul(some, g.taps) <= MAX_TERMS, "a pass must have few terms");
    rlx_extent(c, rlx_mul3(rlx_mul3(items, g.out[0], rlx_ceil(g.out[1], lines)), rlx_ceil(g.out[2], columns),
                           rlx_ceil(g.oc, mc)));
    rlx_reads(c, 0, rlx_mul3(items, g.c, plane_in), 4);
    rlx_reads(c, 1, rlx_mul3(g.groups, rlx_up(g.oc, height > 0 ? height : 1), g.k), 4);
    rlx_writes(c, 2, out, 4);
    rlx_may_read(c, 3, all, 4);
    if (c->why)
        return;
    const int64_t places = rlx_add(rlx_mul(lines - 1, pitch), columns), panels = rlx_ceil(places, RLX_W32);
    int64_t patch = 0;
    if (in_place) {
        rlx_must(c, g.taps == 1 && plane_in == plane && lines == 1 && g.out[2] % RLX_W32 == 0 &&
                        (columns % RLX_W32 == 0 || columns >= g.out[2]), "pixels in place must be whole vectors");
    } else {
        int64_t phases = 1, most = 0;
        for (int d = 1; d < 3; d++)
            phases = rlx_mul(phases, g.kernel[d] == 1 || g.dilation[d] % g.stride[d] == 0 ? 1 : g.stride[d]);
        const int64_t down = (g.kernel[1] - 1) * g.dilation[1] / g.stride[1];
        const int64_t right = (g.kernel[2] - 1) * g.dilation[2] / g.stride[2];
        const int64_t phase = rlx_add(rlx_mul(rlx_add(lines, down), pitch), RLX_W32);
        const int64_t channel = rlx_mul3(g.kernel[0], phases, phase);
        rlx_must(c, image == channel, "channels must lie one after the other");
        /* what the last term reads, and what is written */
        most = rlx_add(rlx_add(rlx_mul(some, channel), rlx_mul(down, pitch)), rlx_add(right, rlx_mul(panels, RLX_W32)));
        most = most >= RLX_BIG || phase > most ? RLX_BIG : most - phase;
        patch = rlx_add(rlx_mul(some, channel), RLX_W32);
        patch = most > patch ? most : patch;
    }
    rlx_works(c, 4, rlx_at(c, 30), rlx_add(rlx_mul(panels, PANEL), rlx_mul(4, patch)));
    rlx_epilogue_bounds(c, 34, 5, rlx_mul(g.batch, all), plane, out, 4, 4);
}

static void pack_conv_planes(rlx_claim *c) {
    const int64_t oc = rlx_at(c, 0), k = rlx_at(c, 1), height = rlx_at(c, 2), groups = rlx_groups(c, rlx_ceil(oc, height));
    rlx_must(c, height >= 1 && height <= RLX_GEMM_MR, "blocks must be whole tiles");
    rlx_reads(c, 0, rlx_mul3(groups, oc, k), 4);
    rlx_writes(c, 1, rlx_mul3(c->extent, k, height), 4);
}

static void conv_spread(rlx_claim *c) {
    const int64_t batch = rlx_at(c, 0), in = rlx_at(c, 1), oc = rlx_at(c, 2), plane = rlx_mul(rlx_at(c, 3), rlx_at(c, 4));
    const int64_t taps = rlx_mul(rlx_small(c, 5, 1), rlx_small(c, 6, 1)), nc = rlx_at(c, 7), rows = rlx_mul(oc, taps);
    rlx_must(c, nc >= 1 && nc % RLX_W32 == 0, "blocks must be whole vectors");
    rlx_extent(c, rlx_mul(batch, rlx_ceil(plane, nc)));
    rlx_reads(c, 0, rlx_mul3(batch, in, plane), 4);
    rlx_reads(c, 1, rlx_mul(in, rows), 4);
    rlx_writes(c, 2, rlx_mul3(batch, rows, plane), 4);
    rlx_may_read(c, 3, oc, 4);
    rlx_works(c, 4, rlx_at(c, 8), rlx_mul(4, rlx_add(rlx_mul(nc, rlx_add(in + 1, rows)), rlx_mul(rows, in + 1))));
}

#define PLACES "in_d in_h in_w out_d out_h out_w "
#define WINDOW "k_d k_h k_w stride_d stride_h stride_w dilation_d dilation_h dilation_w pad_d pad_h pad_w "
#define LAST "batch groups C OC ldi ldo " PLACES WINDOW
#define CLAMP "clamp lo:f hi:f steps:*"
#define FIRST "batch groups C OC " PLACES WINDOW

const rlx_bounds_row rlx_bounds_bounds_conv[] = {
    {"conv", LAST "mc nc kc out_size work_stride " CLAMP, conv},
    {"conv", LAST "mc nc work_stride " RLX_INT8_POST_LAYOUT "steps:*", conv_int8},
    {"conv_depthwise", LAST "out_size rows work_stride " CLAMP, depthwise},
    {"conv_depthwise", FIRST "rows work_stride " CLAMP, depthwise_planes},
    {"conv_depthwise",
     "batch C ldi ldo in_h in_w out_h out_w k_h k_w stride_h stride_w dilation_h dilation_w pad_h pad_w work_stride "
     RLX_INT8_POST_LAYOUT "steps:*", depthwise_int8},
    {"conv_winograd",
     "batch C OC ldi ldo in_h in_w out_h out_w pad_h pad_w dilation_h dilation_w side tiles channels "
     "work_stride " CLAMP, winograd},
    {"winograd_weights", "C OC side", winograd_weights},
    {"conv_transpose", LAST "mc nc kc out_size work_stride " CLAMP " merge", conv_transpose},
    {"pack_conv_transpose", "groups C OC " WINDOW "merge", pack_conv_transpose},
    {"conv_direct", FIRST "nc work_stride " CLAMP, conv_direct},
    {"conv_masked", "channels groups OC height width k_h k_w dilation_h dilation_w pad_h pad_w work_stride " CLAMP,
     conv_masked},
    {"conv_planes", FIRST "height lines columns mc pass pitch image in_place work_stride " CLAMP, conv_planes},
    {"pack_conv_planes", "OC K height", pack_conv_planes},
    {"conv_spread", "batch C OC in_h in_w k_h k_w nc work_stride", conv_spread},
    {NULL, NULL, NULL},
};
