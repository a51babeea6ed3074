/* LSTM with 8-bit weights whose operands are quantised as they come.
 *
 * x of all steps is one tensor of bytes, the hidden states of the batch are
 * another one at every step: scale and zero point from their least and greatest
 * value and 0 (codes round(v / scale) + zero, half to even; NaN gives 0). Steps
 * beyond the longest sequence do not count in the range of x; in that of h a
 * row counts up to its last state. Products are exact in 32-bit integers, then
 *   z = float(x W) * (x_scale * w_scale) + float(h R) * (h_scale * r_scale) + b
 * in this order, and the gates of rnn.c.
 *
 * Panel: UB = 16 hidden units with the gates i f g o side by side, RLX_KG
 * consecutive k together (int8.h): [P][depth / KG][4][UB][KG] signed bytes
 * (b, or b - 128 if unsigned), padded with zeros; behind all panels of a direction
 * the sums over k of the columns, i32 [P][4][UB]. One row reads two panels at a time
 * (a stream each), which hides the latency of the products; several rows share
 * the loads. A step is a phase, split by panels: with two threads each keeps its
 * half of R in its own second cache (each quantises the whole state for itself:
 * under 1 % of a step). Odd steps pass the panels backwards: what is at the end of one
 * step is still in the second cache at the start of the next. The bits depend on
 * neither. A row of codes: `depth` terms (int8.h), then i32, the sum of
 * (code - zero).
 *
 * rnn_pack.int8      args  src, dst
 *   attrs dirs hidden depth signed order:*
 *   src(d, k, g, u) = src[((d*depth + k)*4 + g)*hidden + u]; packed gate j takes
 *   source gate order[j].
 *   extent dirs*P.
 * rnn_columns.T      args  src, dst         (T: f32, i8, u8)
 *   attrs dirs hidden dir column order:*
 *   one value per column in panels, [dirs][P][4][UB]: f32 scales as they are,
 *   zero points as i32 (u8: - 128). src[d*dir + (g*hidden + u)*column].
 *   extent dirs*P.
 * rnn_quantize.int8  args  X [seq][batch][inputs], lens i32?, codes, params
 *   attrs seq batch inputs
 *   params: f32 scale, i32 zero.
 *   extent 1.
 * rnn_project.int8   args  codes, params, W packed, scale, zero?, Z
 *   attrs dirs seq batch inputs hidden
 *   Z [dirs][seq][batch][P][4][UB]; zero absent: 0, of signed weights.
 *   extent dirs*ceil(seq*batch/96)*P.
 * dynamic_quantize_lstm.f32
 *                    args  Z, R packed, scale, zero?, bias packed?, peepholes packed?,
 *                          lens i32?, h0?, c0?, Y?, Y_h?, Y_c?, ws, codes
 *   attrs of rnn.c's lstm (block: batch), stride; bias and peepholes are packed by it.
 *   ws: dirs*batch blocks of 3*P*UB floats; codes: batch rows per thread, `stride` bytes.
 *   extent (seq + 2)*dirs*P in seq + 2 phases: states in, the steps, states out.
 *
 * Bound by reading the weights of a step. Measured (Xeon, AVX-512, one thread, one
 * row, time of ONNX Runtime's node / ours): T = 1, I = H = 512 1.4, T = 80,
 * I = H = 768 2.1. */
#include "abi.h"
#include "int8.h"
#include "rnn_gates.h"
#include "rnn.h"

_Static_assert(VF == RLX_W32, "both name the lanes of a vector");

#define T float
#define V vf
#define VN VF
#define UB 16
#define N(name) name##_int8
#define V_(name) vf_##name
#include "../include/rnn_cell.inc"

typedef rlx_int8_term term;
typedef uint32_t vu __attribute__((vector_size(RLX_VB)));
typedef uint32_t vu_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));

enum { COLUMNS = 4 * UB, NV = UB / VF };

#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)

static inline int64_t row_bytes(int64_t k) {
    return (rlx_int8_depth(k) * (int64_t)sizeof(term) + 3) / 4 * 4 + 4;
}
static inline int32_t *row_sum(char *row, int64_t k) {
    return (int32_t *)(row + row_bytes(k) - 4);
}
static inline int64_t dir_bytes(int64_t panels, int64_t k) {
    return panels * COLUMNS * (rlx_int8_depth(k) + 4);
}

/* ------------------------------------------------------------------ packing */

static int pack(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs, *order = RLX_LIST(a, 4);
    const int64_t hidden = a[1], depth = a[2], panels = ceil_div(hidden, UB);
    const int64_t padded = rlx_int8_depth(depth);
    const uint8_t flip = a[3] ? 0 : 0x80;
    for (int64_t item = lo; item < hi; item++) {
        const int64_t d = item / panels, p = item % panels;
        const uint8_t *src = (const uint8_t *)RLX_PTR(t, f, 0) + d * depth * 4 * hidden;
        char *dir = RLX_PTR(t, f, 1) + d * dir_bytes(panels, depth);
        int8_t *dst = (int8_t *)dir + p * COLUMNS * padded;
        int32_t *sums = (int32_t *)(dir + panels * COLUMNS * padded) + p * COLUMNS;
        const int whole = p * UB + UB <= hidden;
        if (!whole || depth < padded) memset(dst, 0, (size_t)(COLUMNS * padded));
        for (int64_t k = 0; k < padded; k += RLX_KG)
            for (int64_t c = 0; c < COLUMNS; c += VF) {
                const uint8_t *s = src + k * 4 * hidden + order[c / UB] * hidden + p * UB + c % UB;
                int8_t *o = dst + k * COLUMNS + c * RLX_KG;
                if (whole && k + RLX_KG <= depth) {
                    rlx_int8_interleave(o, s, 4 * hidden, flip);
                    continue;
                }
                for (int64_t j = 0; j < VF && p * UB + c % UB + j < hidden; j++)
                    for (int64_t i = 0; i < RLX_KG && k + i < depth; i++)
                        o[j * RLX_KG + i] = (int8_t)(s[i * 4 * hidden + j] ^ flip);
            }
        for (int64_t c = 0; c < COLUMNS; c += VF) {
            rlx_vi32 sum = {0};
            for (int64_t k = 0; k < padded; k += RLX_KG)
                sum = RLX_INT8_DOT(sum, RLX_INT8_ONES - (rlx_vi32){0},
                                   RLX_INT8_LOAD(dst + k * COLUMNS + c * RLX_KG));
            *(rlx_vi32u *)(sums + c) = sum;
        }
    }
    return RLX_OK;
}

#define COLUMNS_KERNEL(S, FROM, TO, SHIFT)                                                    \
    static int columns_##S(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {  \
        const int64_t *a = t->attrs, *order = RLX_LIST(a, 4);                                 \
        const int64_t hidden = a[1], panels = ceil_div(hidden, UB);                           \
        const FROM *src = (const FROM *)RLX_PTR(t, f, 0);                                     \
        TO *dst = (TO *)RLX_PTR(t, f, 1);                                                     \
        for (int64_t item = lo; item < hi; item++)                                            \
            for (int64_t c = 0; c < COLUMNS; c++) {                                           \
                const int64_t u = item % panels * UB + c % UB;                                \
                const int64_t at = item / panels * a[2] + (order[c / UB] * hidden + u) * a[3]; \
                dst[item * COLUMNS + c] = u < hidden ? (TO)(src[at] - (SHIFT)) : 0;           \
            }                                                                                 \
        return RLX_OK;                                                                        \
    }
COLUMNS_KERNEL(f32, float, float, 0)
COLUMNS_KERNEL(i8, int8_t, int32_t, 0)
COLUMNS_KERNEL(u8, uint8_t, int32_t, 128)

/* ------------------------------------------------------------- quantisation */

typedef struct range { float low, high; } range;
typedef struct quant { float scale; int32_t zero; } quant;

static range widened(range r, const float *x, int64_t n) {
    vf low = vf_set(r.low), high = vf_set(r.high);
    for (int64_t i = 0; i < n; i += VF) {
        const vf v = n - i >= VF ? vf_load(x + i) : vf_load_n(x + i, n - i);
        low = vf_pick(vf_lt(v, low), v, low);
        high = vf_pick(vf_gt(v, high), v, high);
    }
    for (int k = 0; k < VF; k++) {
        r.low = low[k] < r.low ? low[k] : r.low;
        r.high = high[k] > r.high ? high[k] : r.high;
    }
    return r;
}

static quant quant_of(range r) {
    const float step = (r.high - r.low) / 255.0f, scale = step == 0 ? 1.0f : step;
    float zero = rintf(-r.low / scale);
    zero = zero > 0 ? zero : 0;
    zero = zero < 255 ? zero : 255;
    return (quant){scale, (int32_t)zero};
}

/* A row of codes. Lanes beyond n are codes of 0 and add nothing to the sum. */
static void codes_of(char *row, const float *x, int64_t n, quant q) {
    const vf lo = vf_set((float)-q.zero), hi = vf_set((float)(255 - q.zero));
    const vf scale = vf_set(q.scale);
    term *dst = (term *)row;
    vi total = {0};
    for (int64_t i = 0; i < n; i += VF) {
        const int64_t m = n - i < VF ? n - i : VF;
        vf v = (m == VF ? vf_load(x + i) : vf_load_n(x + i, m)) / scale;
        vi code;
        v = vf_pick(vf_gt(v, lo), v, lo); /* NaN to the bound */
        vf_round_small(vf_pick(vf_lt(v, hi), v, hi), &code);
        total += code;
#ifdef __AVX512VNNI__
        _mm512_mask_cvtepi32_storeu_epi8(dst + i, (__mmask16)((1u << m) - 1),
                                         (__m512i)(code + vi_set(q.zero)));
#else
        typedef term terms __attribute__((vector_size(VF * sizeof(term))));
        const terms s = __builtin_convertvector(code, terms);
        memcpy(dst + i, &s, (size_t)m * sizeof(term));
#endif
    }
    for (int64_t i = n; i < rlx_int8_depth(n); i++) dst[i] = 0;
    int32_t sum = 0;
    for (int k = 0; k < VF; k++) sum += total[k];
    *row_sum(row, n) = sum;
}

static int64_t longest(const int32_t *lens, int64_t seq, int64_t batch) {
    if (!lens) return seq;
    int64_t most = 0;
    for (int64_t b = 0; b < batch; b++) most = lens[b] > most ? lens[b] : most;
    return most < seq ? most : seq;
}

static int quantize(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    if (lo >= hi) return RLX_OK;
    const int64_t seq = t->attrs[0], batch = t->attrs[1], n = t->attrs[2];
    const float *x = (const float *)RLX_PTR(t, f, 0);
    const int64_t used = longest((const int32_t *)RLX_OPT(t, f, 1), seq, batch);
    const quant q = quant_of(widened((range){0, 0}, x, used * batch * n));
    memcpy(RLX_PTR(t, f, 3), &q, sizeof q);
    for (int64_t i = 0; i < seq * batch; i++)
        codes_of(RLX_PTR(t, f, 2) + i * row_bytes(n), x + i * n, n, q);
    return RLX_OK;
}

/* ----------------------------------------------------------------- products */

typedef int32_t sums_of_row[2 * COLUMNS];

/* out[r][p] = x[r] . w[p] for mr rows, np panels and the gates g0 .. g0+ng. */
RLX_INLINE void micro(const int mr, const int np, const int ng, int64_t g0, int64_t depth,
                      const char *const *x, const int8_t *w, sums_of_row *out) {
    rlx_vi32 acc[mr * np * ng * NV];
#define ACC(r, p, g, v) acc[(((r) * np + (p)) * ng + (g)) * NV + (v)]
    EACH(r, mr) EACH(p, np) EACH(g, ng) EACH(v, NV) ACC(r, p, g, v) = (rlx_vi32){0};
    for (int64_t k = 0; k < depth; k += RLX_KG) {
        const int8_t *wk = w + k * COLUMNS + g0 * UB * RLX_KG;
        EACH(p, np) EACH(g, ng) EACH(v, NV) {
            const rlx_vi32 b =
                RLX_INT8_LOAD(wk + p * depth * COLUMNS + (g * UB + v * VF) * RLX_KG);
            EACH(r, mr) {
                const rlx_vi32 a =
                    *(const rlx_int_u *)((const term *)x[r] + k) - (rlx_vi32){0};
                ACC(r, p, g, v) = RLX_INT8_DOT(ACC(r, p, g, v), a, b);
            }
        }
    }
    EACH(r, mr) EACH(p, np) EACH(g, ng) EACH(v, NV)
        *(rlx_vi32u *)(out[r] + p * COLUMNS + (g0 + g) * UB + v * VF) = ACC(r, p, g, v);
#undef ACC
}

#if RLX_VB == 64
#define MR 6
#define TILE_GATES 4
#define ROW_PANELS 2
#else
#define MR (RLX_VB == 32 ? 4 : 2)
#define TILE_GATES 1
#define ROW_PANELS 1
#endif

static void micro_one(const char *const *x, const int8_t *w, int64_t depth, sums_of_row *out) {
    micro(1, 1, 4, 0, depth, x, w, out);
}
static void micro_panels(const char *const *x, const int8_t *w, int64_t depth, sums_of_row *out) {
    micro(1, ROW_PANELS, 4, 0, depth, x, w, out);
}
static void micro_two(const char *const *x, const int8_t *w, int64_t depth, sums_of_row *out) {
    for (int g = 0; g < 4; g += TILE_GATES) micro(2, 1, TILE_GATES, g, depth, x, w, out);
}
static void micro_rows(const char *const *x, const int8_t *w, int64_t depth, sums_of_row *out) {
    for (int g = 0; g < 4; g += TILE_GATES) micro(MR, 1, TILE_GATES, g, depth, x, w, out);
}

/* Sums of `rows` <= MR rows (m of them are done) with `panels` panels of w. */
static int64_t products(int64_t rows, int64_t panels, int64_t depth, const char *const *x,
                        const int8_t *w, sums_of_row *out) {
    if (rows == 1) {
        (panels == 1 ? micro_one : micro_panels)(x, w, depth, out);
        return 1;
    }
    if (rows < MR) {
        micro_two(x, w, depth, out);
        return 2;
    }
    micro_rows(x, w, depth, out);
    return MR;
}

/* Packed weights of one direction. */
typedef struct weights {
    const int8_t *panels;
    const int32_t *sums, *zero;
    const float *scale;
    int64_t depth, k;
} weights;

static weights weights_at(const rlx_thunk *t, const rlx_frame *f, int at, int64_t d, int64_t panels,
                          int64_t k) {
    const char *dir = RLX_PTR(t, f, at) + d * dir_bytes(panels, k);
    const int32_t *zero = (const int32_t *)RLX_OPT(t, f, at + 2);
    weights w = {(const int8_t *)dir, NULL, NULL, NULL, rlx_int8_depth(k), k};
    w.sums = (const int32_t *)(dir + panels * COLUMNS * w.depth);
    w.scale = (const float *)RLX_PTR(t, f, at + 1) + d * panels * COLUMNS;
    w.zero = zero ? zero + d * panels * COLUMNS : NULL;
    return w;
}

/* Columns c .. c+VF: the sum with its zero points and scale. */
RLX_INLINE vf real(const weights *w, const int32_t *sum, int64_t c, quant q, int32_t row) {
    vu u = (vu)*(const vu_u *)sum;
    if (RLX_INT8_VNNI) u -= (vu)*(const vu_u *)(w->sums + c) * (uint32_t)q.zero;
    if (w->zero) u -= (vu)*(const vu_u *)(w->zero + c) * (uint32_t)row;
    return __builtin_convertvector((vi)u, vf) * (vf_load(w->scale + c) * vf_set(q.scale));
}

static int project(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const int64_t rows = a[1] * a[2], k = a[3], panels = ceil_div(a[4], UB), stride = row_bytes(k);
    char *codes = RLX_PTR(t, f, 0);
    quant q;
    memcpy(&q, RLX_PTR(t, f, 1), sizeof q);
    float *z = (float *)RLX_PTR(t, f, 5);
    sums_of_row sums[MR];
    const int64_t blocks = ceil_div(rows, RLX_RNN_ROWS);
    while (lo < hi) {
        const int64_t d = lo / (blocks * panels), i0 = lo / panels % blocks * RLX_RNN_ROWS;
        const int64_t i1 = rows - i0 < RLX_RNN_ROWS ? rows : i0 + RLX_RNN_ROWS, first = lo % panels;
        const int64_t end = panels - first < hi - lo ? panels : first + hi - lo;
        const weights w = weights_at(t, f, 2, d, panels, k);
        const int64_t group = i1 - i0 == 1 ? ROW_PANELS : 1;
        for (int64_t p = first; p < end; p += group) {
            const int64_t m = end - p < group ? end - p : group;
            for (int64_t i = i0, done; i < i1; i += done) {
                const char *x[MR];
                const int64_t n = i1 - i < MR ? i1 - i : MR;
                for (int64_t r = 0; r < n; r++) x[r] = codes + (i + r) * stride;
                done = products(n, m, w.depth, x, w.panels + p * COLUMNS * w.depth, sums);
                for (int64_t r = 0; r < done; r++) {
                    const int32_t sum = *row_sum((char *)x[r], k);
                    float *to = z + ((d * rows + i + r) * panels + p) * COLUMNS;
                    for (int64_t c = 0; c < m * COLUMNS; c += VF)
                        vf_store(to + c, real(&w, sums[r] + c, p * COLUMNS + c, q, sum));
                }
            }
        }
        lo += end - first;
    }
    return RLX_OK;
}

/* --------------------------------------------------------------- recurrence */

/* The hidden states before step s: rows that go on to codes. */
static quant quantize_state(const job_int8 *j, int64_t s, char *codes, int64_t stride) {
    range r = {0, 0};
    for (int64_t b = 0; b < j->batch; b++)
        if (s == 0 || s <= length_int8(j, b)) r = widened(r, buf_int8(j, b, s & 1), j->hidden);
    const quant q = quant_of(r);
    for (int64_t b = 0; b < j->batch; b++)
        if (s < length_int8(j, b))
            codes_of(codes + b * stride, buf_int8(j, b, s & 1), j->hidden, q);
    return q;
}

/* What the gates of a direction read. */
typedef struct cell {
    weights w;
    const float *bias, *peep;
    int plain;
} cell;

/* The gates of row b in the panels [p, p + m): products, zero points, scales, bias, activations. */
RLX_INLINE void gates_of(const job_int8 *j, const cell *k, int64_t s, int64_t b, int64_t p, int64_t m,
                         const float *z, const int32_t *sums, quant q, int32_t row) {
    float *c = buf_int8(j, b, 2), *h = buf_int8(j, b, (s + 1) & 1), gates[COLUMNS];
    for (int64_t g = p; g < p + m; g++) {
        for (int64_t at = 0; at < COLUMNS; at += VF) {
            const int64_t col = g * COLUMNS + at;
            vf v = vf_load(z + col) + real(&k->w, sums + (g - p) * COLUMNS + at, col, q, row);
            if (k->bias) v += vf_load(k->bias + col);
            vf_store(gates + at, v);
        }
        if (k->plain)
            lstm_gates_int8(j, 1, gates, NULL, c + g * UB, h + g * UB);
        else
            lstm_gates_int8(j, 0, gates, k->peep ? k->peep + g * 3 * UB : NULL, c + g * UB, h + g * UB);
    }
}

/* Step s of the panels [first, end). */
static void step(const job_int8 *j, const cell *k, int64_t s, int64_t first, int64_t end, char *codes) {
    const int64_t stride = row_bytes(j->hidden);
    const quant q = quantize_state(j, s, codes, stride);
    int64_t ids[ROWS], n;
    const float *z[ROWS], *h[ROWS];
    sums_of_row sums[MR];
    for (int64_t b = 0; (n = gather_int8(j, s, &b, ids, z, h)) > 0;) {
        const int64_t group = n == 1 ? ROW_PANELS : 1, last = ceil_div(end - first, group) - 1;
        for (int64_t e = 0; e <= last; e++) {
            const int64_t p = first + (s & 1 ? last - e : e) * group, m = end - p < group ? end - p : group;
            for (int64_t i = 0, done; i < n; i += done) {
                const char *x[MR];
                const int64_t some = n - i < MR ? n - i : MR;
                for (int64_t r = 0; r < some; r++) x[r] = codes + ids[i + r] * stride;
                done = products(some, m, k->w.depth, x, k->w.panels + p * COLUMNS * k->w.depth, sums);
                for (int64_t r = 0; r < done; r++)
                    gates_of(j, k, s, ids[i + r], p, m, z[i + r], sums[r], q,
                             *row_sum((char *)x[r], j->hidden));
            }
        }
        emit_int8(j, s, ids, n, first * UB, (end * UB < j->hidden ? end * UB : j->hidden) - first * UB);
    }
}

static int lstm(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    job_int8 j = {.z = (const float *)RLX_PTR(t, f, 0), .lens = (const int32_t *)RLX_OPT(t, f, 6),
                  .h0 = (const float *)RLX_OPT(t, f, 7), .y = (float *)RLX_OPT(t, f, 9),
                  .yh = (float *)RLX_OPT(t, f, 10), .ws = (float *)RLX_PTR(t, f, 12)};
    const float *biases = (const float *)RLX_OPT(t, f, 4);
    const float *peepholes = (const float *)RLX_OPT(t, f, 5), *c0 = (const float *)RLX_OPT(t, f, 8);
    float *yc = (float *)RLX_OPT(t, f, 11);
    const int64_t dirs = t->attrs[0], seq = t->attrs[1], panels = ceil_div(t->attrs[3], UB);
    char *codes = RLX_PTR(t, f, 13) + f->tid * t->attrs[21];
    const int whole = lo == 0 && hi == t->extent; /* one thread: a direction after the other */
    while (lo < hi) {
        const int64_t phase = whole ? lo / panels % (seq + 2) : lo / (dirs * panels), first = lo % panels;
        const int64_t d = whole ? lo / (panels * (seq + 2)) : lo / panels % dirs;
        const int64_t end = hi - lo < panels - first ? first + hi - lo : panels, s = phase - 1;
        lo += end - first;
        const int status = job_item_int8(&j, t, f, d, 4, 3, 3);
        if (status) return status;
        if (phase > 0 && s < seq) {
            const cell k = {.w = weights_at(t, f, 1, d, panels, j.hidden),
                            .bias = biases ? biases + d * panels * COLUMNS : NULL,
                            .peep = peepholes ? peepholes + d * panels * 3 * UB : NULL,
                            .plain = j.plain && !peepholes && !t->attrs[6]};
            if (s < longest(j.lens, seq, j.batch)) step(&j, &k, s, first, end, codes);
        } else if (phase == 0 && first == 0) {
            load_state_int8(&j, j.h0, 0);
            load_state_int8(&j, c0, 2);
        } else if (phase > 0 && first == 0) {
            finish_int8(&j);
            for (int64_t b = 0; b < j.batch; b++) store_state_int8(&j, yc, b, 2);
        }
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_rnn_int8[] = {
    {"rnn_pack.int8", pack, "dirs hidden depth signed order:*", 0},
    {"rnn_columns.f32", columns_f32, "dirs hidden dir column order:*", 0},
    {"rnn_columns.i8", columns_i8, "dirs hidden dir column order:*", 0},
    {"rnn_columns.u8", columns_u8, "dirs hidden dir column order:*", 0},
    {"rnn_quantize.int8", quantize, "seq batch inputs", 0},
    {"rnn_project.int8", project, "dirs seq batch inputs hidden", 0},
    {"dynamic_quantize_lstm.f32", lstm, RLX_RECURRENT " stride", 0},
    {NULL, NULL, NULL, 0},
};
