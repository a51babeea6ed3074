/* Template: convolution of channels-first images. See conv_first.c. */
#define CONV_FIRST_LAYOUT                                                                 \
    "batch groups C OC in_d in_h in_w out_d out_h out_w k_d k_h k_w "                      \
    "stride_d stride_h stride_w dilation_d dilation_h dilation_w pad_d pad_h pad_w "       \
    "mc nc kc work_stride clamp lo:f hi:f steps:*"

enum { FIRST_MAX_K = 640, FIRST_IN_PLACE = 72 };

typedef CAT(rlx_gemm_block_, S) NAME(block);

typedef struct NAME(first) {
    int64_t batch, groups, c, oc, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t mc, nc, kc, work_stride, clamp;
    T lo, hi;
    const int64_t *steps;
    int64_t n_steps, taps, k, plane_in, plane_out;
} NAME(first);

static NAME(first) NAME(first_of)(const int64_t *at) {
    NAME(first) p;
    memcpy(&p, at, 27 * sizeof(int64_t));
    p.lo = (T)RLX_F(at, 27), p.hi = (T)RLX_F(at, 28);
    p.steps = RLX_LIST(at, 29), p.n_steps = RLX_COUNT(at, 29);
    p.taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    p.k = p.taps * p.c;
    p.plane_in = p.in[0] * p.in[1] * p.in[2];
    p.plane_out = p.out[0] * p.out[1] * p.out[2];
    return p;
}

/* Rows of weights side by side, each followed by its bias: [rows][k + 1]. */
static void NAME(copy_rows)(T *dst, const T *w, int64_t ld, const T *bias, int64_t rows, int64_t k) {
    for (int64_t r = 0; r < rows; r++, dst += k + 1, w += ld) {
        memcpy(dst, w, (size_t)k * sizeof(T));
        dst[k] = bias ? bias[r] : 0;
    }
}

static int NAME(first_steps)(const rlx_thunk *t, const rlx_frame *f, const NAME(first) *p, T *c,
                             int64_t rows, int64_t cols, int64_t channel, int64_t pixel) {
    if (!p->n_steps)
        return RLX_OK;
    rlx_epi_tile tile = {(char *)c, (char *)c, p->plane_out, p->plane_out, sizeof(T), sizeof(T), rows,
                         cols, channel, 1, pixel, channel * p->plane_out + pixel};
    return rlx_epilogue(t, f, p->steps, p->n_steps, &tile);
}

/* dst[i] = src[i * step] for i < n. */
RLX_ALWAYS_INLINE void NAME(every)(T *dst, const T *src, int64_t step, int64_t n) {
    int64_t i = 0;
    if (step == 1) {
        memcpy(dst, src, (size_t)n * sizeof(T));
        return;
    }
    if (step == 2) /* the last pair may end the buffer */
        for (; i + W < n; i += W)
            *(VU *)(dst + i) = NAME(rlx_even)(LOAD(src + 2 * i), LOAD(src + 2 * i + W));
    for (; i < n; i++)
        dst[i] = src[i * step];
}

/* ---------------------------------------------------------------- direct */

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
        int64_t from = x < 0 ? (-x + step - 1) / step : 0;
        int64_t to = x < p->in[2] ? (p->in[2] - x + step - 1) / step : 0;
        from = from < length ? from : length;
        to = !line ? from : to > length ? length : to > from ? to : from;
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
    NAME(first) p = NAME(first_of)(t->attrs);
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    int64_t reach = (p.kernel[2] - 1) * p.dilation[2];
    int64_t width = (p.out[2] + W - 1) / W * W; /* vectors read whole panels */
    int64_t length = width + reach / p.stride[2] + 1, ld = length * p.stride[2];
    int64_t lines = (p.nc - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
    int64_t image = p.kernel[0] * lines * ld, strips = (p.out[1] + p.nc - 1) / p.nc;
    T *ones = (T *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    T *patch = ones + width, *rows = patch + p.c * image;
    rlx_gemm_run runs[FIRST_MAX_K + 1];
    int64_t n = 0, by_line = p.c == 1 && p.oc < 4, merged = p.stride[2] == 1 && !by_line;
    for (int64_t c = 0; c < p.c; c++)
        for (int64_t y = 0; y < p.kernel[0] * p.kernel[1]; y++) {
            int64_t at = c * image + (y / p.kernel[1] * lines + y % p.kernel[1] * p.dilation[1]) * ld;
            int64_t first = c * p.taps + y * p.kernel[2];
            if (merged) {
                runs[n++] = (rlx_gemm_run){first, at, p.kernel[2]};
                continue;
            }
            for (int64_t x = 0; x < p.kernel[2]; x++) {
                int64_t to = x * p.dilation[2];
                runs[n++] = (rlx_gemm_run){first + x, at + to % p.stride[2] * length + to / p.stride[2], 1};
            }
        }
    int64_t taps[FIRST_MAX_K];
    for (int64_t k = 0; k < p.k && by_line; k++)
        taps[k] = runs[k].b;
    rlx_gemm_run *last = &runs[n++];
    *last = (rlx_gemm_run){p.k, 0, 1};
    for (int64_t i = 0; i < width; i++)
        ones[i] = 1;
    NAME(block) g = {.runs = runs, .end = runs + n, .lda = p.k + 1, .n = p.out[2], .bk = p.dilation[2],
                     .bp = W, .ldc = p.plane_out, .clamp = (int)p.clamp, .lo = p.lo, .hi = p.hi};
    for (int64_t item = lo; item < hi; item++) {
        int64_t y0 = item % strips * p.nc, y1 = y0 + p.nc < p.out[1] ? y0 + p.nc : p.out[1];
        int64_t z = item / strips % p.out[0], gi = item / strips / p.out[0]; /* group of an image */
        const T *in = (const T *)RLX_PTR(t, f, 0) + gi * p.c * p.plane_in;
        int64_t first = y0 * p.stride[1] - p.pad[1], count = lines - (p.nc - (y1 - y0)) * p.stride[1];
        T *dst = patch;
        for (int64_t c = 0; c < p.c; c++)
            for (int64_t d = 0; d < p.kernel[0]; d++, dst = patch + (c * p.kernel[0] + d) * lines * ld) {
                int64_t iz = z * p.stride[0] - p.pad[0] + d * p.dilation[0];
                for (int64_t y = 0; y < count; y++, dst += ld) {
                    int inside = (uint64_t)iz < (uint64_t)p.in[0] &&
                                 (uint64_t)(first + y) < (uint64_t)p.in[1];
                    NAME(line)(&p, dst,
                               inside ? in + c * p.plane_in + (iz * p.in[1] + first + y) * p.in[2] : NULL,
                               length);
                }
            }
        int64_t channel = gi % p.groups * p.oc;
        const T *w = (const T *)RLX_PTR(t, f, 1) + channel * p.k;
        int64_t here = (z * p.out[1] + y0) * p.out[2], pixels = (y1 - y0) * p.out[2];
        for (int64_t o = 0; o < p.oc && by_line; o++) {
            T *c = (T *)RLX_PTR(t, f, 2) + (gi * p.oc + o) * p.plane_out + here;
            NAME(channel)(&p, patch, p.stride[1] * ld, taps, w + o * p.k, bias ? bias[channel + o] : 0, c, y1 - y0);
            int status = NAME(first_steps)(t, f, &p, c, 1, pixels, gi * p.oc + o, here);
            if (status)
                return status;
        }
        for (int64_t o = 0; o < p.oc && !by_line; o += g.rows) {
            g.rows = rlx_tile_rows(p.oc, RLX_GEMM_MR, o);
            NAME(copy_rows)(rows, w + o * p.k, p.k, bias ? bias + channel + o : NULL, g.rows, p.k);
            g.a = rows;
            for (int64_t y = y0; y < y1; y++) {
                int64_t pixel = (z * p.out[1] + y) * p.out[2];
                const T *b = patch + (y - y0) * p.stride[1] * ld;
                g.b = b;
                last->b = ones - b;
                g.c = (T *)RLX_PTR(t, f, 2) + (gi * p.oc + o) * p.plane_out + pixel;
                NAME(rlx_gemm_rows)(&g);
                int status = NAME(first_steps)(t, f, &p, g.c, g.rows, p.out[2], gi * p.oc + o, pixel);
                if (status)
                    return status;
            }
        }
    }
    return RLX_OK;
}

/* ---------------------------------------------------------------- gathered */

/* The pixels of a panel that lie in one output line. */
typedef struct NAME(stretch) {
    int64_t lane, lanes; /* first, number */
    int64_t z, y, x;     /* of the first tap of the first pixel */
} NAME(stretch);

/* Where the lanes [a, b) of one tap come from: lane i from `at` + i * stride. */
typedef struct NAME(source) {
    int64_t at, a, b;
} NAME(source);

/* The sources of all taps of a panel that are not padding; ends[tap]: how many there are up to its end. */
static void NAME(find_sources)(const NAME(first) *p, const NAME(stretch) *s, int64_t count, NAME(source) *found,
                               int64_t *ends, int64_t tap0, int64_t tap1) {
    int64_t step = p->stride[2], n = 0;
    for (int64_t tap = tap0; tap < tap1; tap++) {
        int64_t kx = tap % p->kernel[2], line = tap / p->kernel[2];
        int64_t ky = line % p->kernel[1], kz = line / p->kernel[1];
        for (int64_t i = 0; i < count; i++) {
            int64_t z = s[i].z + kz * p->dilation[0], y = s[i].y + ky * p->dilation[1];
            if ((uint64_t)z >= (uint64_t)p->in[0] || (uint64_t)y >= (uint64_t)p->in[1])
                continue;
            int64_t x = s[i].x + kx * p->dilation[2], from = 0, to = s[i].lanes;
            if (x < 0)
                from = (-x + step - 1) / step;
            if (x + (to - 1) * step >= p->in[2])
                to = x < p->in[2] ? (p->in[2] - x + step - 1) / step : 0;
            if (from < to)
                found[n++] = (NAME(source)){(z * p->in[1] + y) * p->in[2] + x - s[i].lane * step,
                                            s[i].lane + from, s[i].lane + to};
        }
        ends[tap - tap0] = n;
    }
}

/* Terms of one channel, taps [0, taps): dst[tap][W]. */
RLX_ALWAYS_INLINE void NAME(gather_channel)(const T *in, T *dst, const NAME(source) *s, const int64_t *ends,
                                            int64_t taps, const int64_t step) {
    const NAME(source) *end = s;
    for (int64_t tap = 0; tap < taps; tap++, dst += W) {
        const NAME(source) *stop = end + (ends[tap] - (tap ? ends[tap - 1] : 0));
        V v = {0};
        for (; end < stop; end++) {
            const T *src = in + end->at;
            if (step == 1)
                v = end->b - end->a == W ? LOAD(src) : NAME(rlx_load_lanes)(v, src, end->a, end->b);
            else
                v = NAME(rlx_load_every)(v, src, step, end->a, end->b);
        }
        *(VU *)dst = v;
    }
}

/* The stretches of the n pixels of a panel from pixel `at` on. */
static int64_t NAME(find_stretches)(const NAME(first) *p, NAME(stretch) *s, int64_t at, int64_t n) {
    int64_t count = 0;
    for (int64_t lane = 0; lane < n; count++) {
        int64_t x = (at + lane) % p->out[2], y = (at + lane) / p->out[2];
        int64_t left = p->out[2] - x < n - lane ? p->out[2] - x : n - lane;
        s[count] = (NAME(stretch)){lane, left, y / p->out[1] * p->stride[0] - p->pad[0],
                                   y % p->out[1] * p->stride[1] - p->pad[1], x * p->stride[2] - p->pad[2]};
        lane += left;
    }
    return count;
}

/* What is looked up at once: few taps of few panels, so that input lines are read along. */
enum { FIRST_TAPS = 16, FIRST_PANELS = 4 };

/* Terms of channels [c0, c1) for n pixels from `at` on: dst[panel][c * taps + tap, and a line of ones][W]. */
static void NAME(gather)(const NAME(first) *p, const T *in, T *dst, int64_t at, int64_t n, int64_t c0, int64_t c1) {
    NAME(stretch) stretches[FIRST_PANELS][W];
    NAME(source) found[FIRST_PANELS][FIRST_TAPS * W];
    int64_t ends[FIRST_PANELS][FIRST_TAPS], counts[FIRST_PANELS], k = (c1 - c0) * p->taps, bp = (k + 1) * W;
    if (p->k == p->c && p->plane_in == p->plane_out && p->stride[0] * p->stride[1] * p->stride[2] == 1) {
        for (int64_t c = c0; c < c1; c++) /* each pixel depends on the one at its place */
            for (int64_t j = 0; j < n; j += W) {
                const T *src = in + c * p->plane_in + at + j;
                *(VU *)(dst + j * (k + 1) + (c - c0) * W) =
                    n - j < W ? NAME(rlx_load_part)(src, n - j) : LOAD(src);
            }
        for (int64_t j = 0; j < n; j += W)
            for (int64_t i = 0; i < W; i++)
                dst[j * (k + 1) + k * W + i] = 1;
        return;
    }
    for (; n > 0; n -= FIRST_PANELS * W, at += FIRST_PANELS * W, dst += FIRST_PANELS * bp) {
        int64_t panels = n < FIRST_PANELS * W ? (n + W - 1) / W : FIRST_PANELS;
        for (int64_t j = 0; j < panels; j++) {
            counts[j] = NAME(find_stretches)(p, stretches[j], at + j * W, n - j * W < W ? n - j * W : W);
            for (int64_t i = 0; i < W; i++)
                dst[j * bp + k * W + i] = 1;
        }
        for (int64_t tap = 0; tap < p->taps; tap += FIRST_TAPS) {
            int64_t taps = p->taps - tap < FIRST_TAPS ? p->taps - tap : FIRST_TAPS;
            for (int64_t j = 0; j < panels; j++)
                NAME(find_sources)(p, stretches[j], counts[j], found[j], ends[j], tap, tap + taps);
            for (int64_t c = c0; c < c1; c++) {
                const T *plane = in + c * p->plane_in;
                T *d = dst + ((c - c0) * p->taps + tap) * W;
                for (int64_t j = 0; j < panels; j++, d += bp) {
                    if (p->stride[2] == 1)
                        NAME(gather_channel)(plane, d, found[j], ends[j], taps, 1);
                    else if (p->stride[2] == 2)
                        NAME(gather_channel)(plane, d, found[j], ends[j], taps, 2);
                    else
                        NAME(gather_channel)(plane, d, found[j], ends[j], taps, p->stride[2]);
                }
            }
        }
    }
}

/* An item: pixels [i * nc, ...) x channels [j * mc, ...) of one group of one image. */
static int NAME(conv_gathered)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    NAME(first) p = NAME(first_of)(t->attrs);
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    int64_t n_blocks = (p.plane_out + p.nc - 1) / p.nc, m_blocks = (p.oc + p.mc - 1) / p.mc;
    int64_t step = p.kc / p.taps; /* channels of a pass */
    T *panels = (T *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    T *rows = panels + (p.nc + W - 1) / W * W * (p.kc + 1);
    /* Few channels do not repay gathering: pixels that are where they are needed are read there. */
    int in_place = p.k == p.c && p.plane_in == p.plane_out && p.oc <= FIRST_IN_PLACE &&
                   p.stride[0] * p.stride[1] * p.stride[2] == 1;
    T *ones = rows + RLX_GEMM_MR * (p.kc + 1);
    for (int64_t i = 0; i < p.nc && in_place; i++)
        ones[i] = 1;
    for (int64_t item = lo; item < hi; item++) {
        int64_t m0 = item % m_blocks * p.mc, m1 = m0 + p.mc < p.oc ? m0 + p.mc : p.oc, rest = item / m_blocks;
        int64_t n0 = rest % n_blocks * p.nc, gi = rest / n_blocks;
        int64_t cols = n0 + p.nc < p.plane_out ? p.nc : p.plane_out - n0;
        const T *in = (const T *)RLX_PTR(t, f, 0) + gi * p.c * p.plane_in;
        int64_t channel = gi % p.groups * p.oc;
        const T *w = (const T *)RLX_PTR(t, f, 1) + channel * p.k;
        for (int64_t c0 = 0; c0 == 0 || c0 < p.c; c0 += step) {
            int64_t c1 = c0 + step < p.c ? c0 + step : p.c, k = (c1 - c0) * p.taps;
            int last = c1 >= p.c;
            int64_t whole = in_place ? cols / W * W : 0;
            if (whole < cols)
                NAME(gather)(&p, in, panels + whole * (k + 1), n0 + whole, cols - whole, c0, c1);
            rlx_gemm_run run = {0, 0, k + last};
            NAME(block) g = {.runs = &run, .end = &run + 1, .lda = k + 1, .a = rows, .ldc = p.plane_out, .accumulate = c0 > 0,
                             .clamp = last && p.clamp, .lo = p.lo, .hi = p.hi};
            for (int64_t o = m0; o < m1; o += g.rows) {
                g.rows = rlx_tile_rows(m1 - m0, RLX_GEMM_MR, o - m0);
                NAME(copy_rows)(rows, w + o * p.k + c0 * p.taps, p.k, bias ? bias + channel + o : NULL, g.rows,
                                k);
                g.c = (T *)RLX_PTR(t, f, 2) + (gi * p.oc + o) * p.plane_out + n0;
                if (whole) {
                    const T *b = in + c0 * p.plane_in + n0;
                    rlx_gemm_run two[2] = {{0, 0, k}, {k, ones - b, 1}};
                    NAME(block) h = g;
                    h.runs = two, h.end = two + 1 + last;
                    h.n = whole, h.b = b, h.bk = p.plane_in, h.bp = W;
                    NAME(rlx_gemm_rows)(&h);
                }
                if (whole < cols) {
                    g.n = cols - whole, g.b = panels + whole * (k + 1), g.bk = W, g.bp = (k + 1) * W;
                    g.c += whole;
                    NAME(rlx_gemm_rows)(&g);
                    g.c -= whole;
                }
                int status = last ? NAME(first_steps)(t, f, &p, g.c, g.rows, cols, gi * p.oc + o, n0) : RLX_OK;
                if (status)
                    return status;
            }
        }
    }
    return RLX_OK;
}
