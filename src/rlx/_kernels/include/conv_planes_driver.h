/* Template: convolution over padded planes of channels-first images. See conv_planes.c. */
#include "conv_attrs.h"

#define CONV_PLANES_LAYOUT CONV_FIRST_HEAD "height lines columns mc pass pitch image in_place " CONV_TAIL

enum { PLANES_MAX_TERMS = 1024, FETCH_TERMS = 8, NEAR_TERMS = 384, NEAR_PANELS = 2, NEAR_TILES = 3 };

typedef struct NAME(planes) {
    CONV_FIRST_HEAD_FIELDS;
    int64_t height, lines, columns, mc, pass, pitch, image, in_place;
    CONV_FIRST_TAIL_FIELDS;
    int64_t phases[3], lines_in; /* of a phase */
} NAME(planes);

static NAME(planes) NAME(planes_of)(const int64_t *at) {
    NAME(planes) p;
    CONV_FIRST_READ(p, at);
    for (int d = 1; d < 3; d++) /* one where all taps have the same remainder */
        p.phases[d] = p.kernel[d] == 1 || p.dilation[d] % p.stride[d] == 0 ? 1 : p.stride[d];
    p.lines_in = p.lines + (p.kernel[1] - 1) * p.dilation[1] / p.stride[1];
    return p;
}

/* A vector of places. Those that are outputs, `count` of them, lie side by side from `at` on. */
typedef struct NAME(panel) {
    int64_t at, count;
    int32_t lanes[W]; /* the places that are outputs, in order */
} NAME(panel);

/* What the pass after this one reads in place: a stretch of each of `channels` planes. */
typedef struct NAME(ahead) {
    const T *at;
    int64_t channels, lines, line, plane; /* cache lines of a stretch; the next one; from plane to plane */
    int64_t share;                        /* cache lines that are fetched after FETCH_TERMS terms of a tile */
} NAME(ahead);

/* Rows of weights against the panels of an item. */
typedef struct NAME(product) {
    int64_t rows, height, k;
    const T *a;           /* [k][height] */
    const T *b;           /* place 0 of the first term */
    const int64_t *terms; /* where term k lies from b on */
    const NAME(panel) *panels, *end;
    T *c;
    int64_t ldc;
    int accumulate, clamp;
    const T *bias;
    T lo, hi;
    NAME(ahead) *ahead;
    int64_t lda; /* from a row of weights to the next, of all passes */
} NAME(product);

/* Bring the next lines nearer: loads that jump from plane to plane are not foreseen by the processor. */
RLX_ALWAYS_INLINE void NAME(fetch_ahead)(NAME(ahead) *q) {
    for (int64_t i = 0; i < q->share && q->channels > 0; i++) {
        __builtin_prefetch((const char *)q->at + 64 * q->line, 0, 2);
        if (++q->line == q->lines)
            q->line = 0, q->channels--, q->at += q->plane;
    }
}

/* One sum per element in the order of k, so that its bits do not depend on tile or lane. */
RLX_ALWAYS_INLINE void NAME(planes_micro)(const int MR, const int NP, const NAME(product) *g,
                                          const NAME(panel) *d, const T *b) {
    int64_t height = g->height, ldc = g->ldc;
    const T *a = g->a;
    V acc[RLX_GEMM_MR][8];
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NP; j++) {
            acc[i][j] = (V){0};
            __builtin_prefetch(g->c + i * ldc + d[j].at, 1, 3);
        }
    for (const int64_t *term = g->terms, *end = term + g->k; term < end;) {
        const int64_t *stop = end - term < FETCH_TERMS ? end : term + FETCH_TERMS;
        for (; term < stop; term++, a += height) {
            const T *x = b + *term;
            V bv[8];
            UNROLL for (int j = 0; j < NP; j++) bv[j] = LOAD(x + j * W);
            UNROLL for (int i = 0; i < MR; i++) {
                V w = a[i] - (V){0};
                UNROLL for (int j = 0; j < NP; j++) acc[i][j] += w * bv[j];
            }
        }
        NAME(fetch_ahead)(g->ahead);
    }
    V lo = g->lo - (V){0}, hi = g->hi - (V){0};
    UNROLL for (int j = 0; j < NP; j++) {
        T *c = g->c + d[j].at;
        int64_t n = d[j].count;
        VI lanes = *(const VIU *)d[j].lanes;
        UNROLL for (int i = 0; i < MR; i++, c += ldc) {
            V v = acc[i][j];
            if (n < W)
                v = __builtin_shuffle(v, lanes);
            if (g->accumulate)
                v += n < W ? NAME(rlx_load_part)(c, n) : LOAD(c);
            if (g->bias)
                v += g->bias[i] - (V){0};
            if (g->clamp)
                v = NAME(rlx_clamp)(v, lo, hi);
            if (n < W)
                NAME(rlx_store_part)(c, v, n);
            else
                *(VU *)c = v;
        }
    }
}

#define PLANES_MICRO(MR, NP)                                                                               \
    static void NAME(planes_##MR##x##NP)(const NAME(product) *g, const NAME(panel) *d, const T *b) {       \
        NAME(planes_micro)(MR, NP, g, d, b);                                                               \
    }
#define PLANES_ENTRY(MR, NP) [MR][NP] = NAME(planes_##MR##x##NP),
RLX_SHAPES(PLANES_MICRO)
static void (*const NAME(planes_micros)[RLX_GEMM_MR + 1][9])(const NAME(product) *, const NAME(panel) *,
                                                             const T *) = {RLX_SHAPES(PLANES_ENTRY)};

static void NAME(multiply_planes)(const NAME(product) *g) {
    int64_t panels = g->end - g->panels, limit = rlx_widest[g->rows];
    for (int64_t j = 0, n; j < panels; j += n) {
        n = rlx_tile_rows(panels, limit, j);
        NAME(planes_micros)[g->rows][n](g, g->panels + j, g->b + j * W);
    }
}

/* All tiles of `oc` rows against a few panels at a time, whose terms are copied to the first cache: tiles that read
 * them in place meet each in another page, and in few sets of that cache. */
static void NAME(multiply_near)(const NAME(product) *whole, int64_t oc, int64_t plane_out) {
    _Alignas(64) T near[NEAR_TERMS * NEAR_PANELS * W];
    int64_t terms[NEAR_TERMS], panels = whole->end - whole->panels, widest = rlx_widest[whole->height];
    const int64_t limit = widest < NEAR_PANELS ? widest : NEAR_PANELS;
    for (int64_t k = 0; k < whole->k; k++)
        terms[k] = k * NEAR_PANELS * W;
    for (int64_t j = 0, n; j < panels; j += n) {
        n = rlx_tile_rows(panels, limit, j);
        for (int64_t k = 0; k < whole->k; k++)
            for (int64_t i = 0; i < n; i++)
                *(VU *)(near + terms[k] + i * W) = LOAD(whole->b + whole->terms[k] + (j + i) * W);
        NAME(product) g = *whole;
        g.terms = terms;
        for (int64_t o = 0; o < oc; o += g.rows) {
            g.rows = oc - o < g.height ? oc - o : g.height;
            NAME(planes_micros)[g.rows][n](&g, g.panels + j, near);
            g.a += g.height * whole->lda;
            g.c += g.rows * plane_out;
            g.bias = g.bias ? g.bias + g.rows : NULL;
        }
    }
}

/* Tiles of a product. */
static int64_t NAME(planes_tiles)(int64_t rows, int64_t height, int64_t panels) {
    int64_t limit = rlx_widest[height], rest = rows % height;
    return rows / height * ((panels + limit - 1) / limit) +
           (rest ? (panels + rlx_widest[rest] - 1) / rlx_widest[rest] : 0);
}

/* The panels of whole lines of nx outputs `pitch` places apart. */
static void NAME(find_panels)(NAME(panel) *d, int64_t panels, int64_t pitch, int64_t nx) {
    int64_t x = 0, at = 0;
    for (; panels > 0; panels--, d++) {
        d->at = at, d->count = 0;
        for (int lane = 0; lane < W; lane++) {
            d->lanes[lane] = 0;
            if (x < nx)
                d->lanes[d->count++] = lane;
            x = x + 1 == pitch ? 0 : x + 1;
        }
        at += d->count;
    }
}

RLX_ALWAYS_INLINE void NAME(planes_zero)(T *dst, int64_t n) {
    for (; n > 0; n -= W, dst += W)
        *(VU *)dst = (V){0};
}

/* dst[j] = line[j * step + x] where that is inside, else 0, j < pitch; zeros may follow, less than a vector. */
RLX_ALWAYS_INLINE void NAME(planes_line)(T *dst, const T *line, int64_t x, int64_t step, int64_t in, int64_t pitch) {
    int64_t from, to;
    rlx_inside(x, step, in, pitch, &from, &to);
    NAME(planes_zero)(dst, from);
    int64_t i = from;
    for (; step == 1 && i + W <= to; i += W)
        *(VU *)(dst + i) = LOAD(line + x + i);
    if (step == 1 && i < to)
        *(VU *)(dst + i) = NAME(rlx_load_part)(line + x + i, to - i), i = to;
    for (; i < to; i++)
        dst[i] = line[x + i * step];
    NAME(planes_zero)(dst + to, pitch - to);
}

/* The same for both remainders by 2. */
static void NAME(planes_pair)(T *even, T *odd, const T *line, int64_t x, int64_t in, int64_t pitch) {
    int64_t from[2], to[2];
    rlx_inside(x, 2, in, pitch, &from[0], &to[0]);
    rlx_inside(x + 1, 2, in, pitch, &from[1], &to[1]); /* from[1] <= from[0], to[1] <= to[0] */
    NAME(planes_zero)(even, from[0]);
    NAME(planes_zero)(odd, from[1]);
    int64_t i = from[0];
    for (int64_t j = from[1]; j < i && j < to[1]; j++)
        odd[j] = line[x + 1 + 2 * j];
    for (; i < to[1]; i += W) {
        int64_t n = 2 * (to[1] - i);
        const T *src = line + x + 2 * i;
        V a = n < W ? NAME(rlx_load_part)(src, n) : LOAD(src);
        V b = n >= 2 * W ? LOAD(src + W) : n > W ? NAME(rlx_load_part)(src + W, n - W) : (V){0};
        *(VU *)(even + i) = NAME(rlx_every_second)(a, b, 0);
        *(VU *)(odd + i) = NAME(rlx_every_second)(a, b, 1);
    }
    for (int64_t j = from[0] > to[1] ? from[0] : to[1]; j < to[0]; j++)
        even[j] = line[x + 2 * j];
    NAME(planes_zero)(even + to[0], pitch - to[0]);
    NAME(planes_zero)(odd + to[1], pitch - to[1]);
}

/* Channels [0, count) of `in` under the outputs from (z, y, x) on: [channel][kernel plane][phase][phase]
 * [line][pitch], a vector of zeros after each phase. Lines of the image are read in order. */
static void NAME(fill_planes)(const NAME(planes) *p, T *dst, const T *in, int64_t count, int64_t z, int64_t y,
                              int64_t x) {
    int64_t step = p->stride[2], ix = x * step - p->pad[2], phase = p->lines_in * p->pitch + W;
    int64_t phases = p->phases[1] * p->phases[2];
    for (int64_t i = 0; i < count * p->kernel[0]; i++, dst += phases * phase) {
        int64_t iz = z * p->stride[0] - p->pad[0] + i % p->kernel[0] * p->dilation[0];
        const T *plane = in + i / p->kernel[0] * p->plane_in + iz * p->in[1] * p->in[2];
        for (int64_t j = 1; j <= phases; j++)
            *(VU *)(dst + j * phase - W) = (V){0};
        for (int64_t l = 0; l < p->lines_in; l++)
            for (int64_t py = 0; py < p->phases[1]; py++) {
                T *to = dst + py * p->phases[2] * phase + l * p->pitch;
                int64_t iy = (y + l) * p->stride[1] - p->pad[1] + py;
                const T *line = plane + iy * p->in[2];
                if ((uint64_t)iz >= (uint64_t)p->in[0] || (uint64_t)iy >= (uint64_t)p->in[1])
                    for (int64_t px = 0; px < p->phases[2]; px++, to += phase)
                        NAME(planes_zero)(to, p->pitch);
                else if (p->phases[2] == 2 && step == 2)
                    NAME(planes_pair)(to, to + phase, line, ix, p->in[2], p->pitch);
                else
                    for (int64_t px = 0; px < p->phases[2]; px++, to += phase)
                        NAME(planes_line)(to, line, ix + px, step, p->in[2], p->pitch);
            }
    }
}

/* Where the terms of a pass lie. */
static void NAME(find_terms)(const NAME(planes) *p, int64_t *terms, int64_t channels) {
    int64_t phase = p->lines_in * p->pitch + W;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t tap = 0; tap < p->taps; tap++) {
            int64_t x = tap % p->kernel[2] * p->dilation[2], line = tap / p->kernel[2];
            int64_t y = line % p->kernel[1] * p->dilation[1], z = line / p->kernel[1];
            int64_t of = (z * p->phases[1] + y % p->stride[1]) * p->phases[2] + x % p->stride[2];
            *terms++ = p->in_place ? c * p->plane_in
                                   : c * p->image + of * phase + y / p->stride[1] * p->pitch + x / p->stride[2];
        }
}

/* The outputs of an item: a group of an image, a plane, and lines or pixels of it. */
typedef struct NAME(strip) {
    int64_t gi, z, y0, x0, ny, nx;
} NAME(strip);

static NAME(strip) NAME(strip_of)(const NAME(planes) *p, int64_t i) {
    int64_t y_blocks = (p->out[1] + p->lines - 1) / p->lines, x_blocks = (p->out[2] + p->columns - 1) / p->columns;
    NAME(strip) s = {.x0 = i % x_blocks * p->columns, .y0 = i / x_blocks % y_blocks * p->lines};
    i /= x_blocks * y_blocks;
    s.z = i % p->out[0], s.gi = i / p->out[0];
    s.nx = s.x0 + p->columns < p->out[2] ? p->columns : p->out[2] - s.x0;
    s.ny = s.y0 + p->lines < p->out[1] ? p->lines : p->out[1] - s.y0;
    return s;
}

/* What a strip reads in place of the channels from c0 on. */
static NAME(ahead) NAME(reads)(const NAME(planes) *p, const T *in, const NAME(strip) *s, int64_t c0) {
    return (NAME(ahead)){.at = in + (s->gi * p->c + c0) * p->plane_in + s->x0, .plane = p->plane_in,
                         .channels = c0 + p->pass < p->c ? p->pass : p->c - c0,
                         .lines = (s->nx * (int64_t)sizeof(T) + 63) / 64};
}

/* An item: channels [i * mc, ...) of a strip: `lines` lines, or `columns` of one. */
static int NAME(conv_planes)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    NAME(planes) p = NAME(planes_of)(t->attrs);
    const T *input = (const T *)RLX_PTR(t, f, 0), *bias = (const T *)RLX_OPT(t, f, 3);
    int64_t m_blocks = (p.oc + p.mc - 1) / p.mc, tiles = (p.oc + p.height - 1) / p.height;
    int64_t most = ((p.lines - 1) * p.pitch + p.columns + W - 1) / W;
    NAME(panel) *panels = (NAME(panel) *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    T *patch = (T *)(panels + most);
    int64_t terms[PLANES_MAX_TERMS];
    NAME(find_terms)(&p, terms, p.pass < p.c ? p.pass : p.c);
    NAME(find_panels)(panels, most, p.pitch, p.columns);
    for (int64_t item = lo, next; item < hi; item = next) { /* all items of the same strip at once */
        int64_t strip = item / m_blocks, m0 = item % m_blocks * p.mc;
        next = (strip + 1) * m_blocks < hi ? (strip + 1) * m_blocks : hi;
        int64_t m1 = (next - strip * m_blocks) * p.mc < p.oc ? (next - strip * m_blocks) * p.mc : p.oc;
        NAME(strip) s = NAME(strip_of)(&p, strip), then = NAME(strip_of)(&p, next < hi ? strip + 1 : strip);
        int64_t count = ((s.ny - 1) * p.pitch + s.nx + W - 1) / W, pixel = (s.z * p.out[1] + s.y0) * p.out[2] + s.x0;
        int64_t channel = s.gi % p.groups * p.oc;
        NAME(panel) whole = panels[count - 1];
        panels[count - 1].count = s.ny * s.nx - whole.at;
        for (int64_t c0 = 0, n; c0 < p.c; c0 += n) {
            n = c0 + p.pass < p.c ? p.pass : p.c - c0;
            int last = c0 + n == p.c;
            const T *in = input + (s.gi * p.c + c0) * p.plane_in;
            const T *a = (const T *)RLX_PTR(t, f, 1) + s.gi % p.groups * tiles * p.height * p.k;
            NAME(ahead) ahead = {0};
            if (!p.in_place) {
                NAME(fill_planes)(&p, patch, in, n, s.z, s.y0, s.x0);
            } else if (!last || next < hi) {
                int64_t times = NAME(planes_tiles)(m1 - m0, p.height, count) * ((n + FETCH_TERMS - 1) / FETCH_TERMS);
                ahead = NAME(reads)(&p, input, last ? &then : &s, last ? 0 : c0 + n);
                ahead.share = (ahead.channels * ahead.lines + times - 1) / times;
            }
            NAME(product) g = {.height = p.height, .k = n * p.taps, .b = p.in_place ? in + pixel : patch,
                               .terms = terms, .panels = panels, .end = panels + count, .ldc = p.plane_out,
                               .accumulate = c0 > 0, .clamp = last && p.clamp, .lo = p.lo, .hi = p.hi,
                               .ahead = &ahead, .lda = p.k};
            const int near = p.in_place && n <= NEAR_TERMS && m1 - m0 > (NEAR_TILES - 1) * p.height;
            if (near) {
                g.a = a + m0 * p.k + c0 * p.taps * p.height;
                g.bias = last && bias ? bias + channel + m0 : NULL;
                g.c = (T *)RLX_PTR(t, f, 2) + (s.gi * p.oc + m0) * p.plane_out + pixel;
                NAME(multiply_near)(&g, m1 - m0, p.plane_out);
                if (!last || !p.n_steps)
                    continue;
            }
            for (int64_t o = m0; o < m1; o += g.rows) {
                g.rows = m1 - o < p.height ? m1 - o : p.height;
                g.a = a + o * p.k + c0 * p.taps * p.height;
                g.bias = last && bias ? bias + channel + o : NULL;
                g.c = (T *)RLX_PTR(t, f, 2) + (s.gi * p.oc + o) * p.plane_out + pixel;
                if (!near)
                    NAME(multiply_planes)(&g);
                if (!last || !p.n_steps)
                    continue;
                int64_t row = s.gi * p.oc + o;
                rlx_epi_tile tile = {(char *)g.c, (char *)g.c, p.plane_out, p.plane_out, sizeof(T), sizeof(T), g.rows,
                                     s.ny * s.nx, row, 1, pixel, row * p.plane_out + pixel};
                int status = rlx_epilogue(t, f, p.steps, p.n_steps, &tile);
                if (status)
                    return status;
            }
        }
        panels[count - 1] = whole;
    }
    return RLX_OK;
}

/* args: weights [groups * OC, K], packed [groups][ceil(OC / height)][K][height]. An item is a tile. */
static int NAME(pack_conv_planes)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    int64_t oc = t->attrs[0], k = t->attrs[1], height = t->attrs[2], tiles = (oc + height - 1) / height;
    for (int64_t i = lo; i < hi; i++) {
        int64_t o = i % tiles * height, rows = oc - o < height ? oc - o : height;
        const T *src = (const T *)RLX_PTR(t, f, 0) + (i / tiles * oc + o) * k;
        T *dst = (T *)RLX_PTR(t, f, 1) + i * k * height;
        for (int64_t j = 0; j < k; j++, dst += height)
            for (int64_t r = 0; r < height; r++)
                dst[r] = r < rows ? src[r * k + j] : 0;
    }
    return RLX_OK;
}
#define PACK_PLANES_LAYOUT "OC K height"
