/* winograd: 3x3 convolution with stride 1 in fewer multiplications, F(2x2, 3x3) and F(4x4, 3x3).
 *
 * conv_winograd.f32@nhwc  args: input, packed weights, out, bias [OC] | absent, workspace,
 *     operands of the epilogue
 *   input [batch, in_h, in_w, ldi], out [batch, out_h, out_w, ldo]: C, OC channels used of each
 *   side: of the square of outputs of a tile, m = 2 or 4; a tile has (m + 2)^2 inputs, as many components
 *   packed: a matrix C x OC of pack_b.f32 for each component, from winograd_weights
 *   attrs: batch C OC ldi ldo in_h in_w out_h out_w pad_h pad_w (in front) dilation_h dilation_w side tiles
 *     channels work_stride clamp lo:f hi:f steps:*
 *   A task is `tiles` tiles and `channels` outputs, a multiple of the panel or all; tasks of the same
 *   tiles follow one another. workspace per thread: rlx.lower.winograd.
 *   extent: ceil(all tiles / tiles) * ceil(OC / channels), where an image has
 *   ceil(ceil(out_h / dilation_h) / side) * ceil(ceil(out_w / dilation_w) / side) tiles of each of its
 *   dilation_h * dilation_w phases.
 * winograd_weights.f32    args: src [OC, C, 3, 3], dst [(side + 2)^2, C, OC]; attrs: C OC side. extent: OC.
 *
 * Design. Of `tiles` tiles the inputs are transformed, B^T d B, to a matrix [tiles, C] for each component;
 * each is multiplied by its weights with the register tiles of gemm_f32, and the products are transformed
 * back, A^T m A, plus bias, clamp and epilogue. Both sets of matrices stay in the second cache. Few tiles
 * are no reason to read the weights twice: then tasks share tiles and differ in channels, and the tiles are
 * transformed once for the tasks of a call. While one component is multiplied the weights of the next are
 * fetched, a part by each row tile.
 *
 * A dilated convolution is one of neighbours for each phase, the outputs at y mod dilation_h, x mod dilation_w:
 * tiles read and write every dilation-th pixel and line where they lie. All phases have as many tiles as the
 * first, so the last tiles of others may be empty.
 *
 * F(2x2) is Toom-Cook with the points 0, 1, -1 and infinity: its transforms of the data only add. F(4x4) has
 * 0, 2/3, -2/3, 3/2, -3/2, infinity: 36 products for 16 outputs where F(2x2) has 64. The points fix its
 * error. Against sums in double, 256 channels, as multiples of 1e-7 of the largest (of the mean) sum of
 * magnitudes, by maximum (mean); "offset": normal + 100, "range": channels of 1e-3 to 1e3:
 *                     normal        relu          offset        range
 *   direct, f32    2.4 (0.20)    2.1 (0.21)    1.5 (0.18)    3.7 (0.57)
 *   F(2x2)         0.5 (0.11)    0.7 (0.16)    0.3 (0.06)    1.3 (0.29)
 *   F(4x4)         2.7 (0.34)    3.5 (0.39)    0.5 (0.06)    6.6 (0.85)
 *   points 1, 2    8.7 (0.62)   11.8 (0.73)    0.6 (0.07)     30 (1.52)
 *   points 1, 1/2   10 (0.61)   10.5 (0.72)    0.6 (0.07)     26 (1.54)
 *   points 1/2, 2  4.3 (0.43)    4.6 (0.50)    1.7 (0.14)     14 (1.07)
 * So it errs about as a direct sum does; a pair a, 1/a saves coefficients, and 5/8, 3/2 or 0.65, 1.5 are no
 * better. As with any transform an error is relative to the largest terms of a tile. Infinities and NaN
 * would spread over the tile, so a tile with a result that is not finite is computed again, output by
 * output, with the weights taken back from their transform.
 *
 * Measured (Sapphire Rapids, one thread, weights from the third cache, us): direct, F(2x2), F(4x4)
 *                    AVX-512                AVX2
 *    56 x 56 x 64     1350   790   474        2569  1387   856
 *    28 x 28 x 128    1294   692   478        2556  1285   812
 *    14 x 14 x 256    1402   706   640        2975  1301  1033
 *    7 x 7 x 512      1596  1017  1440        2904  1541  1481
 *    8 x 8 x 32       13.5  10.1  10.5        18.0  13.6  11.7
 * Transforms that run once for all tasks, with a barrier, instead of once a call: half of what was
 * transformed lies in the other core's cache, which costs as much. Below 32 channels the transforms cost
 * what they save. */
#include "epilogue.h"
#include "gemm.h"

#define W RLX_W32
#define UNROLL _Pragma("GCC unroll 16")
typedef rlx_v32 V;
typedef rlx_v32u VU;

#define LAYOUT                                                                            \
    "batch C OC ldi ldo in_h in_w out_h out_w pad_h pad_w dilation_h dilation_w side " \
    "tiles channels work_stride clamp lo:f hi:f steps:*"
enum { MOST = 6 }; /* inputs of a tile, along a side */

/* The points of F(4x4), A and 1 / A. */
#define A (2.0 / 3)
#define B (3.0 / 2)

typedef struct problem {
    int64_t batch, c, oc, ldi, ldo, in_h, in_w, out_h, out_w, pad_h, pad_w, dilation_h, dilation_w, side, tiles,
        channels, work_stride, clamp;
    float lo, hi;
    const int64_t *steps;
    int64_t n_steps, across, down; /* tiles of a phase */
    int64_t group;  /* of packed weights: elements of a component */
    int64_t stride; /* elements from a component to the next, of the inputs */
    int64_t ldm, stride_m; /* from a tile to the next, and from a component, of the products */
} problem;

/* Tiles of the first phase, along one axis. */
static inline int64_t tiles_along(int64_t out, int64_t dilation, int64_t side) {
    return ((out + dilation - 1) / dilation + side - 1) / side;
}

static problem problem_of(const int64_t *at) {
    problem p;
    memcpy(&p, at, 18 * sizeof(int64_t));
    p.lo = (float)RLX_F(at, 18), p.hi = (float)RLX_F(at, 19);
    p.steps = RLX_LIST(at, 20), p.n_steps = RLX_COUNT(at, 20);
    p.down = tiles_along(p.out_h, p.dilation_h, p.side), p.across = tiles_along(p.out_w, p.dilation_w, p.side);
    p.group = (p.oc + W - 1) / W * W * p.c;
    /* A line more, so that components of a tile do not lie a multiple of 4 KB apart. */
    p.stride = (p.tiles * p.c + 15) / 16 * 16 + 16;
    p.ldm = (p.channels + 15) / 16 * 16;
    p.stride_m = p.tiles * p.ldm + 16;
    return p;
}

typedef struct place {
    int64_t image, y, x; /* of the first output */
} place;

static inline place place_of(const problem *p, int64_t tile) {
    const int64_t plane = p->across * p->down, phases = p->dilation_h * p->dilation_w;
    const int64_t phase = tile / plane % phases;
    const place s = {tile / plane / phases,
                     tile / p->across % p->down * p->side * p->dilation_h + phase / p->dilation_w,
                     tile % p->across * p->side * p->dilation_w + phase % p->dilation_w};
    return s;
}

RLX_ALWAYS_INLINE V load(const float *p, int64_t n) {
    return n >= W ? (V) * (const VU *)p : rlx_load_part_f32(p, n);
}
RLX_ALWAYS_INLINE void store(float *p, V v, int64_t n) {
    if (n >= W)
        *(VU *)p = v;
    else
        rlx_store_part_f32(p, v, n);
}

/* B^T d of one line. */
RLX_ALWAYS_INLINE void forward(const int side, const V *d, V *t) {
    if (side == 2) {
        t[0] = d[0] - d[2];
        t[1] = d[1] + d[2];
        t[2] = d[2] - d[1];
        t[3] = d[1] - d[3];
    } else {
        const float a = (float)A, b = (float)B, aa = (float)(A * A), bb = (float)(B * B), sum = (float)(A * A + B * B);
        const V even_a = d[4] - bb * d[2], odd_a = a * d[3] - b * d[1];
        const V even_b = d[4] - aa * d[2], odd_b = b * d[3] - a * d[1];
        t[0] = (d[0] + d[4]) - sum * d[2];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = (d[1] + d[5]) - sum * d[3];
    }
}

/* A^T m of one line. */
RLX_ALWAYS_INLINE void backward(const int side, const V *m, V *y) {
    if (side == 2) {
        y[0] = m[0] + m[1] + m[2];
        y[1] = m[1] - m[2] - m[3];
    } else {
        const float a = (float)A, b = (float)B, aa = (float)(A * A), bb = (float)(B * B);
        const float aaa = (float)(A * A * A), bbb = (float)(B * B * B);
        const V sum_a = m[1] + m[2], less_a = m[1] - m[2], sum_b = m[3] + m[4], less_b = m[3] - m[4];
        y[0] = m[0] + sum_a + sum_b;
        y[1] = a * less_a + b * less_b;
        y[2] = aa * sum_a + bb * sum_b;
        y[3] = aaa * less_a + bbb * less_b + m[5];
    }
}

/* B^T d B of n <= W channels of a tile whose first input is at src; rows, columns: bits of those
 * that are not padding. */
RLX_ALWAYS_INLINE void input_block(const int side, const float *src, int64_t line, int64_t pixel,
                                   const unsigned rows, const unsigned columns, float *dst, int64_t stride,
                                   const int64_t n) {
    const int size = side + 2;
    V t[MOST][MOST];
    UNROLL for (int i = 0; i < size; i++) {
        if (rows >> i & 1) {
            V d[MOST];
            UNROLL for (int j = 0; j < size; j++)
                d[j] = columns >> j & 1 ? load(src + i * line + j * pixel, n) : (V){0};
            forward(side, d, t[i]);
        } else {
            UNROLL for (int j = 0; j < size; j++) t[i][j] = (V){0};
        }
    }
    UNROLL for (int j = 0; j < size; j++) {
        V d[MOST], u[MOST];
        UNROLL for (int i = 0; i < size; i++) d[i] = t[i][j];
        forward(side, d, u);
        UNROLL for (int i = 0; i < size; i++) store(dst + (size * i + j) * stride, u[i], n);
    }
}

/* Bits of [0, size) for which at + i * step is in [0, limit). */
static inline unsigned bits_inside(int64_t at, int64_t step, int64_t limit, int size) {
    unsigned bits = 0;
    for (int i = 0; i < size; i++)
        bits |= (unsigned)((uint64_t)(at + i * step) < (uint64_t)limit) << i;
    return bits;
}

/* B^T d B of a tile: dst[k * stride + c] for the components k. */
RLX_ALWAYS_INLINE void transform_input(const int side, const problem *p, const float *in, const place *s,
                                       float *dst) {
    const int64_t y0 = s->y - p->pad_h, x0 = s->x - p->pad_w;
    const int64_t line = p->dilation_h * p->in_w * p->ldi, pixel = p->dilation_w * p->ldi;
    const float *src = in + ((s->image * p->in_h + y0) * p->in_w + x0) * p->ldi;
    const unsigned all = (1u << (side + 2)) - 1;
    const unsigned rows = bits_inside(y0, p->dilation_h, p->in_h, side + 2);
    const unsigned columns = bits_inside(x0, p->dilation_w, p->in_w, side + 2);
    int64_t c = 0;
    if (rows == all && columns == all)
        for (; c + W <= p->c; c += W)
            input_block(side, src + c, line, pixel, all, all, dst + c, p->stride, W);
    for (; c + W <= p->c; c += W)
        input_block(side, src + c, line, pixel, rows, columns, dst + c, p->stride, W);
    if (c < p->c)
        input_block(side, src + c, line, pixel, rows, columns, dst + c, p->stride, p->c - c);
}

RLX_ALWAYS_INLINE void put(const problem *p, float *out, const place *s, int64_t i, int64_t j, int64_t c, V v,
                           const float *bias, const int64_t n) {
    const int64_t y = s->y + i * p->dilation_h, x = s->x + j * p->dilation_w;
    if (y >= p->out_h || x >= p->out_w)
        return;
    if (bias)
        v += load(bias + c, n);
    if (p->clamp)
        v = rlx_clamp_f32(v, p->lo - (V){}, p->hi - (V){});
    store(out + ((s->image * p->out_h + y) * p->out_w + x) * p->ldo + c, v, n);
}

/* A^T m A of n <= W outputs from channel c on; m: their products. Returns zeros where all are finite. */
RLX_ALWAYS_INLINE V output_block(const int side, const problem *p, const float *m, float *out, const place *s,
                                 const float *bias, int64_t c, const int64_t n) {
    const int size = side + 2;
    V u[4][MOST], bad = {0};
    UNROLL for (int j = 0; j < size; j++) {
        V a[MOST], y[4];
        UNROLL for (int i = 0; i < size; i++) a[i] = load(m + (size * i + j) * p->stride_m, n);
        backward(side, a, y);
        UNROLL for (int i = 0; i < side; i++) u[i][j] = y[i];
    }
    UNROLL for (int i = 0; i < side; i++) {
        V y[4];
        backward(side, u[i], y);
        UNROLL for (int j = 0; j < side; j++) {
            bad += y[j] * 0.0f;
            put(p, out, s, i, j, c, y[j], bias, n);
        }
    }
    return bad;
}

/* A^T m A of the outputs [n0, n1) of a tile; returns whether all results are finite. */
RLX_ALWAYS_INLINE int transform_output(const int side, const problem *p, const float *m, float *out,
                                       const place *s, const float *bias, int64_t n0, int64_t n1) {
    V bad = {0};
    int64_t c = n0;
    for (; c + W <= n1; c += W)
        bad += output_block(side, p, m + (c - n0), out, s, bias, c, W);
    if (c < n1)
        bad += output_block(side, p, m + (c - n0), out, s, bias, c, n1 - c);
    int finite = 1;
    for (int i = 0; i < W; i++)
        finite &= bad[i] == 0;
    return finite;
}

/* The outputs [n0, n1) of a tile, one by one: w = R u R^T where R u is the first of u, a multiple of
 * the difference of the next two, and the last. */
static void direct(const problem *p, const float *in, const float *packed, float *out, const place *s,
                   const float *bias, int64_t n0, int64_t n1) {
    const int size = (int)p->side + 2, last = size - 1;
    const float back = p->side == 2 ? 1.0f : (float)(A * (A * A - B * B));
    for (int64_t c = n0; c < n1; c += W) {
        V acc[4][4] = {0};
        for (int64_t k = 0; k < p->c; k++) {
            V r[3][MOST], w[3][3];
            for (int j = 0; j < size; j++) {
                const float *u = packed + j * p->group + c * p->c + k * W;
                const int64_t down = size * p->group;
                r[0][j] = load(u, W), r[2][j] = load(u + last * down, W);
                r[1][j] = back * (load(u + down, W) - load(u + 2 * down, W));
            }
            for (int i = 0; i < 3; i++)
                w[i][0] = r[i][0], w[i][1] = back * (r[i][1] - r[i][2]), w[i][2] = r[i][last];
            for (int64_t i = 0; i < p->side; i++)
                for (int64_t j = 0; j < p->side; j++)
                    for (int tap = 0; tap < 9; tap++) {
                        const int64_t y = s->y + (i + tap / 3) * p->dilation_h - p->pad_h;
                        const int64_t x = s->x + (j + tap % 3) * p->dilation_w - p->pad_w;
                        if ((uint64_t)y < (uint64_t)p->in_h && (uint64_t)x < (uint64_t)p->in_w)
                            acc[i][j] += in[((s->image * p->in_h + y) * p->in_w + x) * p->ldi + k] * w[tap / 3][tap % 3];
                    }
        }
        for (int64_t i = 0; i < p->side; i++)
            for (int64_t j = 0; j < p->side; j++)
                put(p, out, s, i, j, c, acc[i][j], bias, n1 - c);
    }
}

/* The epilogue on the outputs [n0, n1) of the tiles [t0, t1), row by row. */
static int finish(const rlx_thunk *t, const rlx_frame *f, const problem *p, float *out, int64_t t0,
                  int64_t t1, int64_t n0, int64_t n1) {
    const int64_t step = p->dilation_w;
    for (int64_t tile = t0; tile < t1;) {
        const place s = place_of(p, tile);
        const int64_t left = p->across - tile % p->across, n = left < t1 - tile ? left : t1 - tile;
        const int64_t rest = (p->out_w - s.x + step - 1) / step, width = p->side * n < rest ? p->side * n : rest;
        for (int64_t i = 0; i < p->side && width > 0 && s.y + i * p->dilation_h < p->out_h; i++) {
            const int64_t pixel = (s.image * p->out_h + s.y + i * p->dilation_h) * p->out_w + s.x;
            char *at = (char *)(out + pixel * p->ldo + n0);
            rlx_epi_tile e = {.acc = at, .out = at, .ld_acc = step * p->ldo, .ld_out = step * p->ldo,
                              .acc_size = sizeof(float), .out_size = sizeof(float), .rows = width,
                              .cols = n1 - n0, .row = pixel, .row_step = step, .col = n0,
                              .offset = pixel * p->ldo + n0};
            const int status = rlx_epilogue(t, f, p->steps, p->n_steps, &e);
            if (status)
                return status;
        }
        tile += n;
    }
    return RLX_OK;
}

/* The products of n tiles and the outputs [n0, n1), component by component. */
static void multiply(const problem *p, const float *v, const float *packed, float *m, int64_t n, int64_t n0,
                     int64_t n1) {
    const rlx_gemm_run run = {0, 0, p->c};
    const int64_t components = (p->side + 2) * (p->side + 2);
    int64_t row_tiles = (n + RLX_GEMM_MR - 1) / RLX_GEMM_MR;
    for (int64_t k = 0; k < components; k++) {
        const float *b = packed + k * p->group + n0 * p->c;
        rlx_gemm_block_f32 g = {.n = n1 - n0, .runs = &run, .end = &run + 1, .lda = p->c, .b = b, .bk = W,
                                .bp = p->c * W, .ldc = p->ldm, .tiles = row_tiles,
                                .next = k + 1 < components ? b + p->group : NULL};
        for (int64_t i = 0; i < n; i += g.rows, g.tile++) {
            g.rows = rlx_tile_rows(n, RLX_GEMM_MR, i);
            g.a = v + k * p->stride + i * p->c;
            g.c = m + k * p->stride_m + i * p->ldm;
            rlx_gemm_rows_f32(&g);
        }
    }
}

RLX_ALWAYS_INLINE int winograd(const int side, const problem *p, const rlx_thunk *t, const rlx_frame *f,
                               int64_t lo, int64_t hi) {
    const int64_t all = p->batch * p->dilation_h * p->dilation_w * p->down * p->across;
    const int64_t parts = (p->oc + p->channels - 1) / p->channels;
    const float *in = (const float *)RLX_PTR(t, f, 0), *packed = (const float *)RLX_PTR(t, f, 1);
    const float *bias = (const float *)RLX_OPT(t, f, 3);
    float *out = (float *)RLX_PTR(t, f, 2);
    float *v = (float *)(RLX_PTR(t, f, 4) + f->tid * p->work_stride);
    float *m = v + (side + 2) * (side + 2) * p->stride;
    for (int64_t task = lo; task < hi; task++) {
        const int64_t t0 = task / parts * p->tiles, t1 = t0 + p->tiles < all ? t0 + p->tiles : all;
        const int64_t n0 = task % parts * p->channels, n1 = n0 + p->channels < p->oc ? n0 + p->channels : p->oc;
        if (task == lo || task % parts == 0)
            for (int64_t i = t0; i < t1; i++) {
                const place s = place_of(p, i);
                transform_input(side, p, in, &s, v + (i - t0) * p->c);
            }
        multiply(p, v, packed, m, t1 - t0, n0, n1);
        for (int64_t i = t0; i < t1; i++) {
            const place s = place_of(p, i);
            if (!transform_output(side, p, m + (i - t0) * p->ldm, out, &s, bias, n0, n1))
                direct(p, in, packed, out, &s, bias, n0, n1);
        }
        if (p->n_steps) {
            const int status = finish(t, f, p, out, t0, t1, n0, n1);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}

static int conv_winograd(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const problem p = problem_of(t->attrs);
    return p.side == 2 ? winograd(2, &p, t, f, lo, hi) : winograd(4, &p, t, f, lo, hi);
}

/* G w of one line: of a point q the value of w there, over the product of q less each other point. */
static inline void transform_line(int64_t side, double a, double b, double c, double *u) {
    if (side == 2) {
        u[0] = a, u[1] = (a + b + c) / 2, u[2] = (a - b + c) / 2, u[3] = c;
        return;
    }
    const double over_a = 2 * A * A * (A * A - B * B), over_b = 2 * B * B * (B * B - A * A);
    u[0] = a;
    u[1] = (a + A * b + A * A * c) / over_a, u[2] = (a - A * b + A * A * c) / over_a;
    u[3] = (a + B * b + B * B * c) / over_b, u[4] = (a - B * b + B * B * c) / over_b;
    u[5] = c;
}

/* G w G^T. */
static int weights(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t c = t->attrs[0], oc = t->attrs[1], side = t->attrs[2], size = side + 2;
    float *dst = (float *)RLX_PTR(t, f, 1);
    for (int64_t o = lo; o < hi; o++)
        for (int64_t k = 0; k < c; k++) {
            const float *w = (const float *)RLX_PTR(t, f, 0) + (o * c + k) * 9;
            double r[3][MOST], u[MOST];
            for (int j = 0; j < 3; j++)
                transform_line(side, w[j], w[3 + j], w[6 + j], r[j]);
            for (int64_t i = 0; i < size; i++) {
                transform_line(side, r[0][i], r[1][i], r[2][i], u);
                for (int64_t j = 0; j < size; j++)
                    dst[((size * i + j) * c + k) * oc + o] = (float)u[j];
            }
        }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_winograd[] = {
    {"conv_winograd.f32@nhwc", conv_winograd, LAYOUT, 0},
    {"winograd_weights.f32", weights, "C OC side", 0},
    {NULL, NULL, NULL, 0},
};
