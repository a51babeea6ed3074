/* Template: implicit GEMM convolution, channels last. See conv_f32.c. */
#include "conv_attrs.h"

#define CONV_LAYOUT CONV_LAST_HEAD "mc nc kc out_size " CONV_TAIL

#define CONV_MAX_RUNS 64

typedef CAT(rlx_gemm_block_, S) NAME(block);

typedef struct NAME(conv) {
    int64_t batch, groups, c, oc, ldi, ldo, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t mc, nc, kc, out_size, work_stride, clamp;
    T lo, hi;
    const int64_t *steps;
    int64_t n_steps;
    int64_t rows, k;  /* output pixels; taps * c */
    int64_t run;      /* elements of K that are contiguous in the input */
    int64_t merged;   /* the taps of a kernel row are one run */
    int64_t by_row;   /* tiles end where an output row ends */
    int64_t ld_tile;
    int64_t merge;    /* output pixels that a row of C holds side by side: 1 but for transposes */
    int64_t phase;    /* of a transposed convolution: output pixels are not side by side */
    int64_t place[4]; /* elements from image, plane, line and pixel of the output to the next */
} NAME(conv);

/* What follows from the geometry. */
static void NAME(derive)(NAME(conv) *p) {
    p->rows = p->batch * p->out[0] * p->out[1] * p->out[2];
    p->k = p->kernel[0] * p->kernel[1] * p->kernel[2] * p->c;
    p->merged = p->ldi == p->c && (p->dilation[2] == 1 || p->kernel[2] == 1);
    p->run = p->merged ? p->kernel[2] * p->c : p->c;
    p->ld_tile = (p->kc + 2 * W - 1) / W * W;
}

static NAME(conv) NAME(conv_of)(const int64_t *at) {
    NAME(conv) p;
    memcpy(&p, at, 30 * sizeof(int64_t));
    p.lo = (T)RLX_F(at, 30), p.hi = (T)RLX_F(at, 31);
    p.steps = RLX_LIST(at, 32), p.n_steps = RLX_COUNT(at, 32);
    NAME(derive)(&p);
    int64_t tiles = (p.out[2] + RLX_GEMM_MR - 1) / RLX_GEMM_MR;
    p.by_row = 3 * p.out[2] >= 2 * RLX_GEMM_MR * tiles;
    p.phase = 0, p.merge = 1;
    p.place[3] = p.ldo;
    return p;
}

typedef struct NAME(pixel) {
    int64_t image, d, h, w;
} NAME(pixel);

/* Coordinates of output pixel i. */
static inline NAME(pixel) NAME(pixel_of)(const NAME(conv) *p, int64_t i) {
    NAME(pixel) o;
    o.w = i % p->out[2], i /= p->out[2];
    o.h = i % p->out[1], i /= p->out[1];
    o.d = i % p->out[0], o.image = i / p->out[0];
    return o;
}

static inline void NAME(advance)(const NAME(conv) *p, NAME(pixel) *o, int64_t pixels) {
    for (o->w += pixels; o->w >= p->out[2]; o->w -= p->out[2])
        if (++o->h == p->out[1]) {
            o->h = 0;
            if (++o->d == p->out[0])
                o->d = 0, o->image++;
        }
}

/* Input coordinates of the first tap of an output pixel. */
static inline NAME(pixel) NAME(first_tap)(const NAME(conv) *p, const NAME(pixel) *o) {
    NAME(pixel) x = {o->image, o->d * p->stride[0] - p->pad[0], o->h * p->stride[1] - p->pad[1],
                     o->w * p->stride[2] - p->pad[2]};
    return x;
}

/* Copy n elements; dst has room for a vector beyond them. */
RLX_ALWAYS_INLINE void NAME(copy)(T *dst, const T *src, int64_t n) {
    for (; n >= W; n -= W, dst += W, src += W)
        *(VU *)dst = LOAD(src);
    if (n > 0)
        *(VU *)dst = NAME(rlx_load_part)(src, n);
}

RLX_ALWAYS_INLINE void NAME(zero)(T *dst, int64_t n) {
    for (; n > 0; n -= W, dst += W)
        *(VU *)dst = (V){0};
}

/* Terms [k0, k1) of the rows from pixel o on into dst, zeros where padding is. */
static void NAME(gather)(const NAME(conv) *p, const T *in, T *dst, NAME(pixel) o, int64_t rows,
                         int64_t k0, int64_t k1) {
    int64_t row_stride = p->in[2] * p->ldi;
    int64_t first = k0 / p->run, kw0 = p->merged ? 0 : first % p->kernel[2];
    int64_t line = p->merged ? first : first / p->kernel[2];
    int64_t kh0 = line % p->kernel[1], kd0 = line / p->kernel[1];
    for (int64_t r = 0; r < rows; r++, dst += p->ld_tile, NAME(advance)(p, &o, 1)) {
        NAME(pixel) x = NAME(first_tap)(p, &o);
        const T *image = in + x.image * p->in[0] * p->in[1] * row_stride;
        int64_t kd = kd0, kh = kh0, kw = kw0, at = k0 % p->run;
        int64_t lo = 0, hi = p->run; /* part of a run that is inside the row */
        if (p->merged) {
            int64_t right = p->in[2] - x.w;
            lo = x.w < 0 ? -x.w * p->c : 0;
            hi = right < p->kernel[2] ? right * p->c : p->run;
            lo = lo < p->run ? lo : p->run;
            hi = hi > lo ? hi : lo;
        }
        T *d = dst;
        for (int64_t k = k0; k < k1;) {
            int64_t end = p->run - at < k1 - k ? p->run : at + k1 - k;
            int64_t id = x.d + kd * p->dilation[0], ih = x.h + kh * p->dilation[1];
            int64_t iw = x.w + kw * p->dilation[2];
            int inside = (uint64_t)id < (uint64_t)p->in[0] && (uint64_t)ih < (uint64_t)p->in[1] &&
                         (p->merged || (uint64_t)iw < (uint64_t)p->in[2]);
            if (inside) {
                const T *src = image + (id * p->in[1] + ih) * row_stride + iw * p->ldi;
                int64_t from = at > lo ? at : lo, to = end < hi ? end : hi;
                if (from >= to) {
                    NAME(zero)(d, end - at);
                } else {
                    NAME(zero)(d, from - at);
                    NAME(copy)(d + (from - at), src + from, to - from);
                    NAME(zero)(d + (to - at), end - to);
                }
            } else {
                NAME(zero)(d, end - at);
            }
            d += end - at;
            k += end - at;
            at = 0;
            if (p->merged || ++kw == p->kernel[2]) {
                kw = 0;
                if (++kh == p->kernel[1])
                    kh = 0, kd++;
            }
        }
    }
}

/* Stretches of K, [k0, k1), for rows of one output row whose input pixels lie
 * in lines `line` elements apart (planes `plane` apart), a pixel `ld` elements. */
static int64_t NAME(runs)(const NAME(conv) *p, int64_t k0, int64_t k1, int64_t plane, int64_t line,
                          int64_t ld, rlx_gemm_run *runs) {
    int64_t n = 0, at = k0 % p->run;
    for (int64_t k = k0, index = k0 / p->run; k < k1; index++) {
        int64_t kw = p->merged ? 0 : index % p->kernel[2];
        int64_t y = p->merged ? index : index / p->kernel[2];
        int64_t kh = y % p->kernel[1], kd = y / p->kernel[1];
        int64_t len = p->run - at < k1 - k ? p->run - at : k1 - k;
        runs[n].a = kd * plane + kh * line + kw * p->dilation[2] * ld + at;
        runs[n].b = k * W;
        runs[n++].k = len;
        k += len;
        at = 0;
    }
    return n;
}

/* Whether no tap of so many rows is in padding; x: first tap of the first. */
static int NAME(inside)(const NAME(conv) *p, const NAME(pixel) *x, int64_t rows) {
    int64_t far_d = x->d + (p->kernel[0] - 1) * p->dilation[0];
    int64_t far_h = x->h + (p->kernel[1] - 1) * p->dilation[1];
    int64_t far_w = x->w + (rows - 1) * p->stride[2] + (p->kernel[2] - 1) * p->dilation[2];
    return x->d >= 0 && x->h >= 0 && x->w >= 0 && far_d < p->in[0] && far_h < p->in[1] &&
           far_w < p->in[2];
}

/* The input pixels under a tile of one output row (x: its first tap), for the kernel
 * lines [y0, y1) and the taps from kw0 on, `width` pixels a line, with padding. */
static void NAME(patch)(const NAME(conv) *p, const T *in, T *dst, const NAME(pixel) *x, int64_t y0,
                        int64_t y1, int64_t kw0, int64_t width) {
    int64_t iw = x->w + kw0 * p->dilation[2];
    int64_t left = iw < 0 ? (-iw < width ? -iw : width) : 0;
    int64_t right = p->in[2] - iw < width ? p->in[2] - iw : width;
    right = right > left ? right : left;
    for (int64_t y = y0; y < y1; y++, dst += width * p->c) {
        int64_t id = x->d + y / p->kernel[1] * p->dilation[0];
        int64_t ih = x->h + y % p->kernel[1] * p->dilation[1];
        if ((uint64_t)id >= (uint64_t)p->in[0] || (uint64_t)ih >= (uint64_t)p->in[1]) {
            NAME(zero)(dst, width * p->c);
            continue;
        }
        const T *src = in + (((x->image * p->in[0] + id) * p->in[1] + ih) * p->in[2] + iw) * p->ldi;
        NAME(zero)(dst, left * p->c);
        if (p->ldi == p->c)
            NAME(copy)(dst + left * p->c, src + left * p->c, (right - left) * p->c);
        else
            for (int64_t j = left; j < right; j++)
                NAME(copy)(dst + j * p->c, src + j * p->ldi, p->c);
        NAME(zero)(dst + right * p->c, (width - right) * p->c);
    }
}

/* How the micro-kernel reads the terms [k0, k1) of a tile. */
typedef struct NAME(reader) {
    int64_t k0, k1;
    int64_t n_direct; /* stretches of the input itself; 0 if they are too many */
    rlx_gemm_run direct[CONV_MAX_RUNS], runs[CONV_MAX_RUNS];
} NAME(reader);

static void NAME(start_reading)(const NAME(conv) *p, int64_t k0, int64_t k1, NAME(reader) *q) {
    int64_t line = p->in[2] * p->ldi;
    q->k0 = k0, q->k1 = k1, q->n_direct = 0;
    if (p->by_row && (k1 - 1) / p->run - k0 / p->run < CONV_MAX_RUNS)
        q->n_direct = NAME(runs)(p, k0, k1, p->dilation[0] * p->in[1] * line,
                                 p->dilation[1] * line, p->ldi, q->direct);
}

/* Prepare the rows from output pixel o on: where they lie, as a patch, or gathered. */
static void NAME(read_rows)(const NAME(conv) *p, const T *in, T *work, const NAME(pixel) *o,
                            NAME(reader) *q, NAME(block) *g) {
    int64_t k0 = q->k0, k1 = q->k1;
    g->a = work;
    g->runs = q->runs;
    g->end = q->runs + 1;
    if (k0 == k1) { /* no taps: zeros */
        q->runs[0] = (rlx_gemm_run){0, 0, 0};
        return;
    }
    if (q->n_direct) {
        NAME(pixel) x = NAME(first_tap)(p, o);
        if (NAME(inside)(p, &x, g->rows)) {
            g->a = in + (((x.image * p->in[0] + x.d) * p->in[1] + x.h) * p->in[2] + x.w) * p->ldi;
            g->lda = p->stride[2] * p->ldi;
            g->runs = q->direct;
            g->end = q->direct + q->n_direct;
            return;
        }
        int64_t first = k0 / p->run, last = (k1 - 1) / p->run, taps = p->merged ? 1 : p->kernel[2];
        int64_t y0 = first / taps, y1 = last / taps + 1, kw0 = 0, kw1 = p->kernel[2];
        if (y1 - y0 == 1) {
            kw0 = p->merged ? k0 % p->run / p->c : first % taps;
            kw1 = (p->merged ? (k1 - 1) % p->run / p->c : last % taps) + 1;
        }
        int64_t width = (g->rows - 1) * p->stride[2] + (kw1 - kw0 - 1) * p->dilation[2] + 1;
        if ((y1 - y0) * width * p->c <= RLX_GEMM_MR * p->kc) {
            NAME(patch)(p, in, work, &x, y0, y1, kw0, width);
            g->a = work - (y0 * width + kw0 * p->dilation[2]) * p->c;
            g->lda = p->stride[2] * p->c;
            g->end = q->runs + NAME(runs)(p, k0, k1, p->kernel[1] * width * p->c, width * p->c,
                                          p->c, q->runs);
            return;
        }
    }
    NAME(gather)(p, in, work, *o, g->rows, k0, k1);
    q->runs[0] = (rlx_gemm_run){0, k0 * W, k1 - k0};
    g->lda = p->ld_tile;
}

/* One task: pixels [m0, m1) x channels [n0, n1) of a group. out: where output
 * pixel 0 is, in elements; step: logical pixels from one pixel of a line to the next; follows: the
 * next task of this call has the next channels. */
static int NAME(conv_task)(const rlx_thunk *t, const rlx_frame *f, const NAME(conv) *p,
                           const TB *packed, const T *bias, int64_t origin, int64_t step,
                           int64_t g0, int64_t m0, int64_t m1, int64_t n0, int64_t n1, int follows) {
    int64_t cols = n1 - n0, panels = (p->oc + W - 1) / W, column = g0 * p->oc + n0;
    const T *in = (const T *)RLX_PTR(t, f, 0) + g0 * p->c;
    const TB *b = packed + g0 * panels * W * p->k + n0 * p->k;
    T *work = (T *)(RLX_PTR(t, f, 4) + f->tid * p->work_stride);
    int narrow = p->out_size != (int64_t)sizeof(T);
    int64_t ldc = narrow ? cols : p->place[3];
    NAME(reader) reader;
    NAME(pixel) start = NAME(pixel_of)(p, m0);

    for (int64_t k0 = 0; k0 == 0 || k0 < p->k; k0 += p->kc) {
        int64_t k1 = k0 + p->kc < p->k ? k0 + p->kc : p->k;
        int last = k1 >= p->k;
        NAME(block) g = {.n = cols, .b = b, .bk = W, .bp = p->k * W, .ldc = ldc,
                         .accumulate = k0 > 0, .bias = last && bias ? bias + column : NULL,
                         .clamp = last && p->clamp, .lo = p->lo, .hi = p->hi};
        void (*multiply)(const NAME(block) *) = NAME(rlx_gemm_rows);
#ifdef WIDE_ROWS /* B in halves: widened once for a task of many rows */
        if (m1 - m0 > WIDE_ROWS) {
            T *wide = work + RLX_GEMM_MR * p->ld_tile + (narrow ? p->mc * p->nc : 0);
            NAME(widen_block)(wide, b + k0 * W, p->k * W, k1 - k0, cols);
            g.b = wide - k0 * W; /* runs count from the first term of all */
            g.bp = (k1 - k0) * W;
            multiply = rlx_gemm_rows_f32;
        }
        else
#endif
        if (k1 < p->k || (follows && n0 + cols < p->oc)) {
            g.next = k1 < p->k ? b + k1 * W : b + cols * p->k;
            g.tiles = p->by_row ? (p->out[2] + RLX_GEMM_MR - 1) / RLX_GEMM_MR * ((m1 - m0) / p->out[2])
                                : (m1 - m0 + RLX_GEMM_MR - 1) / RLX_GEMM_MR;
            g.tiles = g.tiles ? g.tiles : 1;
        }
        NAME(pixel) o = start;
        if (k1 > k0)
            NAME(start_reading)(p, k0, k1, &reader);
        else
            reader.k0 = reader.k1 = 0;
        for (int64_t i = m0; i < m1; i += g.rows, g.tile++, NAME(advance)(p, &o, g.rows)) {
            int64_t from = m0, to = m1; /* equal tiles of the part of this line in the task */
            if (p->by_row) {
                from = i - o.w > m0 ? i - o.w : m0;
                to = i - o.w + p->out[2] < m1 ? i - o.w + p->out[2] : m1;
            }
            g.rows = rlx_tile_rows(to - from, RLX_GEMM_MR, i - from);
            NAME(read_rows)(p, in, work, &o, &reader, &g);
            int64_t place = origin + i * p->ldo;
            if (p->phase)
                place = origin + o.image * p->place[0] + o.d * p->place[1] + o.h * p->place[2] +
                        o.w * p->place[3];
            char *out = RLX_PTR(t, f, 2) + (place + column) * p->out_size;
            g.c = narrow ? work + RLX_GEMM_MR * p->ld_tile + (i - m0) * ldc : (T *)out;
            multiply(&g);
            if (last && p->n_steps) {
                int64_t w = p->merge, row = place / (p->ldo / w);
                rlx_epi_tile tile = {(char *)g.c, out, ldc / w, p->place[3] / w, sizeof(T),
                                     p->out_size, g.rows * w, cols / w, row, step, column,
                                     place + column};
                int status = rlx_epilogue(t, f, p->steps, p->n_steps, &tile);
                if (status)
                    return status;
            }
        }
    }
    return RLX_OK;
}

static int NAME(conv_run)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    NAME(conv) p = NAME(conv_of)(t->attrs);
    int64_t m_blocks = (p.rows + p.mc - 1) / p.mc, n_blocks = (p.oc + p.nc - 1) / p.nc;
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    for (int64_t i = lo; i < hi; i++) {
        int64_t m0, n0, g;
        if (p.groups > 1) { /* the groups of a pixel share its lines, and what follows splits pixels too */
            n0 = i % n_blocks * p.nc, g = i / n_blocks % p.groups, m0 = i / n_blocks / p.groups * p.mc;
        } else
            m0 = i % m_blocks * p.mc, n0 = i / m_blocks * p.nc, g = 0;
        int64_t m1 = m0 + p.mc < p.rows ? m0 + p.mc : p.rows;
        int64_t n1 = n0 + p.nc < p.oc ? n0 + p.nc : p.oc;
        int status = NAME(conv_task)(t, f, &p, (const TB *)RLX_PTR(t, f, 1), bias, 0, 1, g, m0, m1, n0,
                                     n1, i + 1 < hi && (m1 == p.rows || p.groups > 1));
        if (status)
            return status;
    }
    return RLX_OK;
}
