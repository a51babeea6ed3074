/* Template: transposed convolution by phases. To be included after conv_driver.h. */
#define PACK_TRANSPOSE_LAYOUT                                                             \
    "groups C OC k_d k_h k_w stride_d stride_h stride_w dilation_d dilation_h dilation_w " \
    "pad_d pad_h pad_w merge"
#define CONV_TRANSPOSE_LAYOUT CONV_LAST_HEAD "mc nc kc out_size " CONV_TAIL " merge"

#ifndef RLX_CONV_PHASE
#define RLX_CONV_PHASE
/* The taps first, first + step, ... of one axis that reach the outputs r, r + s, ...:
 * with q = 0, 1, ... the output r + q s sums, over j < taps, the taps in reverse
 * order times the input at q - pad + j * dilation. */
typedef struct rlx_conv_phase {
    int64_t taps, first, step, dilation, pad;
} rlx_conv_phase;

static rlx_conv_phase rlx_conv_phase_of(int64_t r, int64_t k, int64_t s, int64_t d, int64_t p) {
    int64_t a = s, b = d;
    while (b) {
        int64_t c = a % b;
        a = b;
        b = c;
    }
    rlx_conv_phase x = {0, 0, s / a, d / a, 0};
    while (x.first < k && (r + p - x.first * d) % s != 0)
        x.first++;
    if (x.first < k) {
        x.taps = (k - 1 - x.first) / x.step + 1;
        x.pad = (x.taps - 1) * x.dilation - (r + p - x.first * d) / s;
    }
    return x;
}
#endif

/* An item is a phase: [group][panel][tap][C][NR]. */
static int NAME(pack_transpose)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *at = t->attrs, *k = at + 3, *s = at + 6, *d = at + 9, *p = at + 12;
    int64_t groups = at[0], c = at[1], merge = at[15], oc = at[2] * merge;
    int64_t taps = k[0] * k[1] * k[2], k_w = merge > 1 ? 1 : k[2], s_w = merge > 1 ? 1 : s[2];
    int64_t panels = (oc + W - 1) / W, phases = s[0] * s[1] * s_w;
    const T *src = (const T *)RLX_PTR(t, f, 0);
    T *dst = (T *)RLX_PTR(t, f, 1);
    for (int64_t i = 0; i < phases && i < hi; i++) {
        int64_t r[3] = {i / (s[1] * s_w), i / s_w % s[1], i % s_w};
        rlx_conv_phase x[3];
        for (int a = 0; a < 2; a++)
            x[a] = rlx_conv_phase_of(r[a], k[a], s[a], d[a], p[a]);
        x[2] = rlx_conv_phase_of(r[2], k_w, s_w, d[2], p[2]);
        int64_t size = groups * panels * W * x[0].taps * x[1].taps * x[2].taps * c;
        if (i >= lo && size) {
            memset(dst, 0, (size_t)size * sizeof(T));
            T *to = dst;
            for (int64_t o0 = 0; o0 < groups * oc; o0 += oc)
                for (int64_t n0 = 0; n0 < oc; n0 += W)
                    for (int64_t jd = x[0].taps - 1; jd >= 0; jd--)
                        for (int64_t jh = x[1].taps - 1; jh >= 0; jh--)
                            for (int64_t jw = x[2].taps - 1; jw >= 0; jw--) {
                                int64_t kd = x[0].first + jd * x[0].step;
                                int64_t kh = x[1].first + jh * x[1].step;
                                int64_t kw = x[2].first + jw * x[2].step;
                                int64_t tap = (kd * k[1] + kh) * k[2] + kw;
                                for (int64_t e = 0; e < c; e++, to += W)
                                    for (int64_t n = n0; n < oc && n < n0 + W; n++)
                                        to[n - n0] = src[((o0 + n % at[2]) * taps + tap + n / at[2]) * c + e];
                            }
        }
        dst += size;
    }
    return RLX_OK;
}

static int NAME(transpose_run)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    NAME(conv) whole;
    const int64_t *at = t->attrs;
    memcpy(&whole, at, 30 * sizeof(int64_t));
    whole.lo = (T)RLX_F(at, 30), whole.hi = (T)RLX_F(at, 31);
    whole.steps = RLX_LIST(at, 32), whole.n_steps = RLX_COUNT(at, 32);
    whole.by_row = whole.phase = 1;
    whole.merge = at[34];
    const T *bias = (const T *)RLX_OPT(t, f, 3);
    if (whole.merge > 1) { /* the taps of a line are further output channels */
        int64_t w = whole.merge, oc = whole.oc;
        whole.oc *= w, whole.ldo *= w;
        whole.kernel[2] = whole.stride[2] = 1;
        whole.out[2] = whole.in[2];
        if (bias) {
            T *wide = (T *)(RLX_PTR(t, f, 4) + f->tid * whole.work_stride);
            wide += (whole.work_stride / (int64_t)sizeof(T)) - whole.oc;
            for (int64_t j = 0; j < whole.oc; j++)
                wide[j] = bias[j % oc];
            bias = wide;
        }
    }
    int64_t mc = whole.mc, panels = (whole.oc + W - 1) / W;
    int64_t n_blocks = (whole.oc + whole.nc - 1) / whole.nc;
    const int64_t *s = whole.stride, *size = whole.out;
    const T *packed = (const T *)RLX_PTR(t, f, 1);
    int64_t phases = s[0] * s[1] * s[2], task = 0; /* tasks of the phases before */
    for (int64_t i = 0; i < phases && task < hi; i++) {
        int64_t r[3] = {i / (s[1] * s[2]), i / s[2] % s[1], i % s[2]};
        NAME(conv) p = whole;
        for (int a = 0; a < 3; a++) {
            rlx_conv_phase x = rlx_conv_phase_of(r[a], whole.kernel[a], s[a], whole.dilation[a],
                                                 whole.pad[a]);
            p.kernel[a] = x.taps, p.dilation[a] = x.dilation, p.pad[a] = x.pad;
            p.stride[a] = 1;
            p.out[a] = size[a] > r[a] ? (size[a] - r[a] + s[a] - 1) / s[a] : 0;
        }
        NAME(derive)(&p);
        p.place[3] = s[2] * p.ldo, p.place[2] = s[1] * size[2] * p.ldo;
        p.place[1] = s[0] * size[1] * size[2] * p.ldo;
        p.place[0] = size[0] * size[1] * size[2] * p.ldo;
        p.mc = mc > p.out[2] && p.out[2] ? mc / p.out[2] * p.out[2] : mc;
        int64_t origin = ((r[0] * size[1] + r[1]) * size[2] + r[2]) * p.ldo;
        int64_t m_blocks = p.rows ? (p.rows + p.mc - 1) / p.mc : 0;
        int64_t count = p.groups * n_blocks * m_blocks;
        for (int64_t j = lo > task ? lo - task : 0; j < count && task + j < hi; j++) {
            int64_t m0 = j % m_blocks * p.mc, rest = j / m_blocks;
            int64_t n0 = rest % n_blocks * p.nc, g = rest / n_blocks;
            int64_t m1 = m0 + p.mc < p.rows ? m0 + p.mc : p.rows;
            int64_t n1 = n0 + p.nc < p.oc ? n0 + p.nc : p.oc;
            int status = NAME(conv_task)(t, f, &p, packed, bias, origin, s[2], g, m0, m1, n0, n1, 0);
            if (status)
                return status;
        }
        task += count;
        packed += p.groups * panels * W * p.k;
    }
    return RLX_OK;
}
