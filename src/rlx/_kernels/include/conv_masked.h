/* Depthwise convolution that keeps the size of its planes; see conv_first.c. */
#ifndef RLX_CONV_MASKED_H
#define RLX_CONV_MASKED_H

#define CONV_MASKED_LAYOUT \
    "channels groups OC height width k_h k_w dilation_h dilation_w pad_h pad_w work_stride clamp lo:f hi:f steps:*"

enum { MASKED_MAX_TAPS = 25 };

/* Which lanes of a vector are loaded. */
#if defined(__AVX512F__)
typedef uint16_t rlx_lanes;
#else
typedef rlx_vi32u rlx_lanes;
#endif

RLX_ALWAYS_INLINE rlx_lanes rlx_lanes_of(rlx_vi32 inside) {
#if defined(__AVX512F__)
    return (uint16_t)_mm512_movepi32_mask((__m512i)inside);
#else
    return inside;
#endif
}

/* Lanes of p, zeros elsewhere; no other lane is touched. */
RLX_ALWAYS_INLINE rlx_v32 rlx_load_lanes(rlx_lanes lanes, const float *p) {
#if defined(__AVX512F__)
    return (rlx_v32)_mm512_maskz_loadu_ps(lanes, p);
#elif defined(__AVX2__)
    return (rlx_v32)_mm256_maskload_ps(p, (__m256i)lanes);
#else
    rlx_v32 v = {0};
    for (int i = 0; i < RLX_W32; i++)
        if (lanes[i])
            v[i] = p[i];
    return v;
#endif
}

typedef struct masked {
    int64_t channels, groups, oc, in[2], kernel[2], dilation[2], pad[2], work_stride, clamp;
    float lo, hi;
    int64_t taps, plane, vectors;
    const rlx_lanes *lanes; /* [tap][vector] */
    const int64_t *shift;   /* elements from an output to a tap */
} masked;

/* NV vectors of a plane, the last one with `last` elements. */
RLX_ALWAYS_INLINE void masked_vectors(const int NV, const masked *p, const float *x, const rlx_lanes *lanes,
                                      const float *w, float bias, float *c, int64_t last) {
    rlx_v32 acc[8];
    UNROLL for (int j = 0; j < NV; j++) acc[j] = (rlx_v32){0};
    for (int64_t k = 0; k < p->taps; k++, lanes += p->vectors) {
        const float *at = x + p->shift[k];
        rlx_v32 by = w[k] - (rlx_v32){0};
        UNROLL for (int j = 0; j < NV; j++) acc[j] += by * rlx_load_lanes(lanes[j], at + j * RLX_W32);
    }
    rlx_v32 lo = p->lo - (rlx_v32){0}, hi = p->hi - (rlx_v32){0};
    UNROLL for (int j = 0; j < NV; j++) {
        acc[j] += bias - (rlx_v32){0};
        acc[j] = p->clamp ? rlx_clamp_f32(acc[j], lo, hi) : acc[j];
    }
    UNROLL for (int j = 0; j < NV - 1; j++) *(rlx_v32u *)(c + j * RLX_W32) = acc[j];
    rlx_store_part_f32(c + (NV - 1) * RLX_W32, acc[NV - 1], last);
}

#define MASKED(NV)                                                                                             \
    static void masked_##NV(const masked *p, const float *x, const rlx_lanes *lanes, const float *w, float bias, \
                            float *c, int64_t last) {                                                          \
        masked_vectors(NV, p, x, lanes, w, bias, c, last);                                                     \
    }
#define MASKED_ENTRY(NV) [NV] = masked_##NV,
#define MASKED_WIDTHS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
MASKED_WIDTHS(MASKED)
static void (*const all_masked[9])(const masked *, const float *, const rlx_lanes *, const float *, float, float *,
                                   int64_t) = {MASKED_WIDTHS(MASKED_ENTRY)};

/* Lanes and shifts of all taps. */
static void masked_find(const masked *p, rlx_lanes *lanes, int64_t *shift) {
    rlx_vi32 at, x, none = {0}, width = (int32_t)p->in[1] - none, plane = (int32_t)p->plane - none;
    for (int i = 0; i < RLX_W32; i++)
        at[i] = i, x[i] = (int32_t)(i % p->in[1]);
    for (int64_t k = 0; k < p->taps; k++)
        shift[k] = (k / p->kernel[1] * p->dilation[0] - p->pad[0]) * p->in[1] +
                   k % p->kernel[1] * p->dilation[1] - p->pad[1];
    for (int64_t v = 0; v < p->vectors; v++) {
        rlx_lanes down[MASKED_MAX_TAPS], right[MASKED_MAX_TAPS];
        for (int64_t k = 0; k < p->kernel[0]; k++) {
            rlx_vi32 to = at + (int32_t)((k * p->dilation[0] - p->pad[0]) * p->in[1]);
            down[k] = rlx_lanes_of((to >= none) & (to < plane) & (at < plane));
        }
        for (int64_t k = 0; k < p->kernel[1]; k++) {
            rlx_vi32 to = x + (int32_t)(k * p->dilation[1] - p->pad[1]);
            right[k] = rlx_lanes_of((to >= none) & (to < width));
        }
        for (int64_t y = 0, k = 0; y < p->kernel[0]; y++)
            for (int64_t z = 0; z < p->kernel[1]; z++, k++)
                lanes[k * p->vectors + v] = down[y] & right[z];
        at += RLX_W32, x += (int32_t)(RLX_W32 % p->in[1]);
        x -= width & (x >= width);
    }
}

/* An item is an output plane. */
static int conv_masked(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    masked p;
    memcpy(&p, t->attrs, 13 * sizeof(int64_t));
    p.lo = (float)RLX_F(t->attrs, 13), p.hi = (float)RLX_F(t->attrs, 14);
    const int64_t *steps = RLX_LIST(t->attrs, 15);
    int64_t n_steps = RLX_COUNT(t->attrs, 15);
    p.taps = p.kernel[0] * p.kernel[1], p.plane = p.in[0] * p.in[1];
    p.vectors = (p.plane + RLX_W32 - 1) / RLX_W32;
    rlx_lanes *lanes = (rlx_lanes *)(RLX_PTR(t, f, 4) + f->tid * p.work_stride);
    int64_t shift[MASKED_MAX_TAPS];
    masked_find(&p, lanes, shift);
    p.lanes = lanes, p.shift = shift;
    const float *bias = (const float *)RLX_OPT(t, f, 3);
    for (int64_t o = lo; o < hi; o++) {
        int64_t channel = o % p.channels;
        const float *x = (const float *)RLX_PTR(t, f, 0) + o / p.oc * p.plane;
        const float *w = (const float *)RLX_PTR(t, f, 1) + channel * p.taps;
        float *c = (float *)RLX_PTR(t, f, 2) + o * p.plane;
        for (int64_t v = 0, n; v < p.vectors; v += n) {
            n = rlx_tile_rows(p.vectors, 8, v);
            all_masked[n](&p, x + v * RLX_W32, lanes + v, w, bias ? bias[channel] : 0, c + v * RLX_W32,
                          v + n == p.vectors ? p.plane - (p.vectors - 1) * RLX_W32 : RLX_W32);
        }
        if (!n_steps)
            continue;
        rlx_epi_tile tile = {(char *)c, (char *)c, p.plane, p.plane, sizeof(float), sizeof(float), 1, p.plane,
                             o, 1, 0, o * p.plane};
        int status = rlx_epilogue(t, f, steps, n_steps, &tile);
        if (status)
            return status;
    }
    return RLX_OK;
}

#endif
