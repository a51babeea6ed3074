/* winograd: 3x3 convolution with stride 1 in 16 / 36 of the multiplications, F(2x2, 3x3).
 *
 * conv_winograd.f32@nhwc  args: input, packed weights, out, bias [OC] | absent, workspace,
 *     operands of the epilogue
 *   input [batch, in_h, in_w, ldi], out [batch, out_h, out_w, ldo]: C, OC channels used of each
 *   packed: 16 matrices C x OC of pack_b.f32, from winograd_weights
 *   attrs: batch C OC ldi ldo in_h in_w out_h out_w pad_h pad_w (in front) tiles work_stride
 *     clamp lo:f hi:f steps:*
 *   workspace per thread: 16 * tiles * (C + OC) floats. extent: ceil(all tiles / tiles), where an
 *   image has ceil(out_h / 2) * ceil(out_w / 2) tiles.
 * winograd_weights.f32    args: src [OC, C, 3, 3], dst [16, C, OC]; attrs: C OC. extent: OC.
 *
 * Design. A tile is 2x2 outputs and the 4x4 inputs under them. Of `tiles` tiles the inputs are
 * transformed, B^T d B, to 16 matrices [tiles, C]; each is multiplied by its weights with the
 * register tiles of gemm_f32, and the 16 products are transformed back, A^T m A, plus bias, clamp
 * and epilogue. `tiles` keeps both sets of matrices in the second cache and shares the read of the
 * weights. The transforms only add, so an error stays within a few ulp of the largest input of a
 * tile. They spread infinities and NaN over the tile, though: a tile with a result that is not
 * finite is computed again, output by output, with the weights taken back from their transform.
 *
 * Measured (Xeon AVX-512, one thread) against conv.f32@nhwc: 56 x 56 x 64, 64 outputs 1.8 times as
 * fast, 28 x 28 x 128 1.7, 14 x 14 x 256 1.4. Below 32 channels the transforms cost what they save. */
#include "epilogue.h"
#include "gemm.h"

#define W RLX_W32
typedef rlx_v32 V;
typedef rlx_v32u VU;

#define LAYOUT                                                                            \
    "batch C OC ldi ldo in_h in_w out_h out_w pad_h pad_w tiles work_stride clamp lo:f hi:f steps:*"

typedef struct problem {
    int64_t batch, c, oc, ldi, ldo, in_h, in_w, out_h, out_w, pad_h, pad_w, tiles, work_stride, clamp;
    float lo, hi;
    const int64_t *steps;
    int64_t n_steps, across, down;
} problem;

static problem problem_of(const int64_t *at) {
    problem p;
    memcpy(&p, at, 14 * sizeof(int64_t));
    p.lo = (float)RLX_F(at, 14), p.hi = (float)RLX_F(at, 15);
    p.steps = RLX_LIST(at, 16), p.n_steps = RLX_COUNT(at, 16);
    p.down = (p.out_h + 1) / 2, p.across = (p.out_w + 1) / 2;
    return p;
}

typedef struct place {
    int64_t image, y, x; /* of the first output */
} place;

static inline place place_of(const problem *p, int64_t tile) {
    place s = {tile / (p->across * p->down), tile / p->across % p->down * 2, tile % p->across * 2};
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

/* B^T d B of n <= W channels of a tile whose first input is at src; there[i]: bits of the inputs of
 * line i that are not padding. */
RLX_ALWAYS_INLINE void input_block(const float *src, int64_t line, int64_t pixel, const int inside,
                                   const uint8_t *there, float *dst, int64_t stride, const int64_t n) {
    V d[4][4], t[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            d[i][j] = inside || (there[i] >> j & 1) ? load(src + i * line + j * pixel, n) : (V){0};
    for (int j = 0; j < 4; j++) {
        t[0][j] = d[0][j] - d[2][j];
        t[1][j] = d[1][j] + d[2][j];
        t[2][j] = d[2][j] - d[1][j];
        t[3][j] = d[1][j] - d[3][j];
    }
    for (int i = 0; i < 4; i++) {
        float *to = dst + 4 * i * stride;
        store(to, t[i][0] - t[i][2], n);
        store(to + stride, t[i][1] + t[i][2], n);
        store(to + 2 * stride, t[i][2] - t[i][1], n);
        store(to + 3 * stride, t[i][1] - t[i][3], n);
    }
}

/* B^T d B of a tile: dst[k * stride + c] for the 16 components k. */
static void transform_input(const problem *p, const float *in, const place *s, float *dst,
                            int64_t stride) {
    const int64_t y0 = s->y - p->pad_h, x0 = s->x - p->pad_w, line = p->in_w * p->ldi;
    const float *src = in + ((s->image * p->in_h + y0) * p->in_w + x0) * p->ldi;
    const int inside = y0 >= 0 && x0 >= 0 && y0 + 4 <= p->in_h && x0 + 4 <= p->in_w;
    uint8_t there[4] = {0};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            there[i] |= (uint8_t)(((uint64_t)(y0 + i) < (uint64_t)p->in_h &&
                                   (uint64_t)(x0 + j) < (uint64_t)p->in_w) << j);
    int64_t c = 0;
    if (inside)
        for (; c + W <= p->c; c += W)
            input_block(src + c, line, p->ldi, 1, there, dst + c, stride, W);
    for (; c + W <= p->c; c += W)
        input_block(src + c, line, p->ldi, 0, there, dst + c, stride, W);
    if (c < p->c)
        input_block(src + c, line, p->ldi, 0, there, dst + c, stride, p->c - c);
}

RLX_ALWAYS_INLINE void put(const problem *p, float *out, const place *s, int i, int j, int64_t c, V v,
                           const float *bias, const int64_t n) {
    if (s->y + i >= p->out_h || s->x + j >= p->out_w)
        return;
    if (bias)
        v += load(bias + c, n);
    if (p->clamp)
        v = rlx_clamp_f32(v, p->lo - (V){}, p->hi - (V){});
    store(out + ((s->image * p->out_h + s->y + i) * p->out_w + s->x + j) * p->ldo + c, v, n);
}

RLX_ALWAYS_INLINE V output_block(const problem *p, const float *m, int64_t stride, float *out,
                                 const place *s, const float *bias, int64_t c, const int64_t n) {
    V a[4][4], u[2][4], bad = {0};
    for (int k = 0; k < 16; k++)
        a[k / 4][k % 4] = load(m + k * stride + c, n);
    for (int j = 0; j < 4; j++) {
        u[0][j] = a[0][j] + a[1][j] + a[2][j];
        u[1][j] = a[1][j] - a[2][j] - a[3][j];
    }
    for (int i = 0; i < 2; i++) {
        const V left = u[i][0] + u[i][1] + u[i][2], right = u[i][1] - u[i][2] - u[i][3];
        bad += left * 0.0f + right * 0.0f;
        put(p, out, s, i, 0, c, left, bias, n);
        put(p, out, s, i, 1, c, right, bias, n);
    }
    return bad;
}

/* A^T m A of a tile; returns whether all results are finite. */
static int transform_output(const problem *p, const float *m, int64_t stride, float *out,
                            const place *s, const float *bias) {
    V bad = {0};
    int64_t c = 0;
    for (; c + W <= p->oc; c += W)
        bad += output_block(p, m, stride, out, s, bias, c, W);
    if (c < p->oc)
        bad += output_block(p, m, stride, out, s, bias, c, p->oc - c);
    int finite = 1;
    for (int i = 0; i < W; i++)
        finite &= bad[i] == 0;
    return finite;
}

/* A tile output by output: w = R u R^T with R = [1 0 0 0; 0 1 -1 0; 0 0 0 1]. */
static void direct(const problem *p, const float *in, const float *packed, int64_t group, float *out,
                   const place *s, const float *bias) {
    for (int64_t c = 0; c < p->oc; c += W) {
        V acc[4] = {0};
        for (int64_t k = 0; k < p->c; k++) {
            V u[4][4], r[3][4], w[3][3];
            for (int i = 0; i < 16; i++)
                u[i / 4][i % 4] = *(const VU *)(packed + i * group + c * p->c + k * W);
            for (int j = 0; j < 4; j++)
                r[0][j] = u[0][j], r[1][j] = u[1][j] - u[2][j], r[2][j] = u[3][j];
            for (int i = 0; i < 3; i++)
                w[i][0] = r[i][0], w[i][1] = r[i][1] - r[i][2], w[i][2] = r[i][3];
            for (int o = 0; o < 4; o++)
                for (int tap = 0; tap < 9; tap++) {
                    const int64_t y = s->y + o / 2 + tap / 3 - p->pad_h, x = s->x + o % 2 + tap % 3 - p->pad_w;
                    if ((uint64_t)y < (uint64_t)p->in_h && (uint64_t)x < (uint64_t)p->in_w)
                        acc[o] += in[((s->image * p->in_h + y) * p->in_w + x) * p->ldi + k] * w[tap / 3][tap % 3];
                }
        }
        for (int o = 0; o < 4; o++)
            put(p, out, s, o / 2, o % 2, c, acc[o], bias, p->oc - c);
    }
}

/* The epilogue on the outputs of the tiles [t0, t1), row by row. */
static int finish(const rlx_thunk *t, const rlx_frame *f, const problem *p, float *out, int64_t t0,
                  int64_t t1) {
    for (int64_t tile = t0; tile < t1;) {
        const place s = place_of(p, tile);
        const int64_t left = p->across - s.x / 2, n = left < t1 - tile ? left : t1 - tile;
        const int64_t width = s.x + 2 * n < p->out_w ? 2 * n : p->out_w - s.x;
        for (int64_t i = 0; i < 2 && s.y + i < p->out_h; i++) {
            const int64_t pixel = (s.image * p->out_h + s.y + i) * p->out_w + s.x;
            char *at = (char *)(out + pixel * p->ldo);
            rlx_epi_tile e = {.acc = at, .out = at, .ld_acc = p->ldo, .ld_out = p->ldo,
                              .acc_size = sizeof(float), .out_size = sizeof(float), .rows = width,
                              .cols = p->oc, .row = pixel, .row_step = 1, .col = 0,
                              .offset = pixel * p->ldo};
            const int status = rlx_epilogue(t, f, p->steps, p->n_steps, &e);
            if (status)
                return status;
        }
        tile += n;
    }
    return RLX_OK;
}

static int winograd(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const problem p = problem_of(t->attrs);
    const int64_t all = p.batch * p.down * p.across, group = (p.oc + W - 1) / W * W * p.c;
    const float *in = (const float *)RLX_PTR(t, f, 0), *packed = (const float *)RLX_PTR(t, f, 1);
    const float *bias = (const float *)RLX_OPT(t, f, 3);
    float *out = (float *)RLX_PTR(t, f, 2);
    float *v = (float *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride), *m = v + 16 * p.tiles * p.c;
    const rlx_gemm_run run = {0, 0, p.c};
    for (int64_t task = lo; task < hi; task++) {
        const int64_t t0 = task * p.tiles, t1 = t0 + p.tiles < all ? t0 + p.tiles : all, n = t1 - t0;
        for (int64_t i = 0; i < n; i++) {
            const place s = place_of(&p, t0 + i);
            transform_input(&p, in, &s, v + i * p.c, p.tiles * p.c);
        }
        for (int k = 0; k < 16; k++) {
            rlx_gemm_block_f32 g = {.n = p.oc, .runs = &run, .end = &run + 1, .lda = p.c,
                                    .b = packed + k * group, .bk = W, .bp = p.c * W, .ldc = p.oc};
            for (int64_t i = 0; i < n; i += g.rows) {
                g.rows = rlx_tile_rows(n, RLX_GEMM_MR, i);
                g.a = v + (k * p.tiles + i) * p.c;
                g.c = m + (k * p.tiles + i) * p.oc;
                rlx_gemm_rows_f32(&g);
            }
        }
        for (int64_t i = 0; i < n; i++) {
            const place s = place_of(&p, t0 + i);
            if (!transform_output(&p, m + i * p.oc, p.tiles * p.oc, out, &s, bias))
                direct(&p, in, packed, group, out, &s, bias);
        }
        if (p.n_steps) {
            const int status = finish(t, f, &p, out, t0, t1);
            if (status)
                return status;
        }
    }
    return RLX_OK;
}

/* G w G^T with G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]. */
static int weights(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t c = t->attrs[0], oc = t->attrs[1];
    float *dst = (float *)RLX_PTR(t, f, 1);
    for (int64_t o = lo; o < hi; o++)
        for (int64_t k = 0; k < c; k++) {
            const float *w = (const float *)RLX_PTR(t, f, 0) + (o * c + k) * 9;
            double r[4][3];
            for (int j = 0; j < 3; j++) {
                const double a = w[j], b = w[3 + j], d = w[6 + j];
                r[0][j] = a, r[1][j] = (a + b + d) / 2, r[2][j] = (a - b + d) / 2, r[3][j] = d;
            }
            for (int i = 0; i < 4; i++) {
                const double a = r[i][0], b = r[i][1], d = r[i][2];
                const double u[4] = {a, (a + b + d) / 2, (a - b + d) / 2, d};
                for (int j = 0; j < 4; j++)
                    dst[((4 * i + j) * c + k) * oc + o] = (float)u[j];
            }
        }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_winograd[] = {
    {"conv_winograd.f32@nhwc", winograd, LAYOUT, 0},
    {"winograd_weights.f32", weights, "C OC", 0},
    {NULL, NULL, NULL, 0},
};
