/* Random numbers: Philox streams, and sampling of tokens.
 *
 * attr `key` names the op's stream (32 bits); seed, run counter and back end come
 * from frame->state (state.h, philox.h). Element i depends on i alone, so the
 * numbers are the same for every cut and thread count. Back end "zeros": all
 * words are 0 (uniform gives low, normal gives mean).
 *
 * random_bits.u32   args y; attrs key offset       words offset, offset + 1, ...
 * uniform.f32/.f64  args y; attrs key low:f high:f
 *   low + u (high - low), below high; u has 24 bits (word i) or 53 bits (words
 *   2i, 2i + 1).
 * normal.f32/.f64   args y; attrs key mean:f std:f
 *   Box-Muller, both results used: elements 2j, 2j + 1 come from words 2j, 2j + 1
 *   (f32: u of 32 bits, so |z| < 6.7) or 4j .. 4j + 3 (f64).
 * bernoulli.f32     args p f32, y bool; attrs key;  y = u < p, NaN gives false
 * randint.i32/.i64  args y; attrs key low high
 *   low <= y < high: the high half of (words 2i, 2i + 1) x (high - low).
 * dropout.f32/.f64  args x, y, mask bool?; attrs key ratio:f
 *   y = u >= ratio ? x / (1 - ratio) : 0; x is not multiplied by 0. y may be x.
 *   All of these: extent = elements.
 * multinomial.f32   args logits, y i64, ws; attrs classes samples x_s key ws
 *   y[row][s]: class with probability exp(logit) / sum. extent rows; ws per
 *   thread, stride attribute in bytes >= classes*8.
 * sample.f32        args logits, y i64, ws; attrs vocab x_s key top_k temperature:f
 *                   top_p:f ws
 *   One token a row. temperature 0: the first largest logit. top_k k > 0 keeps
 *   exactly min(k, vocab) (ties: lower index first); top_p < 1 keeps the smallest
 *   prefix, in falling order, whose share of what top_k left reaches p, one token
 *   at least. extent rows; ws per thread, bytes >= vocab*16.
 *   In both a class of probability 0 is never returned; NaN, +inf, only -inf or
 *   no class at all are RLX_ERR_VALUE (position = row). Element e (row, or
 *   row*samples + s) uses words 2e, 2e + 1. Probabilities add up in double. */
#include "lanes.h"
#include "mathf.h"
#include "philox.h"

enum { WORDS = 4 * RLX_PHILOX_LANES }; /* of one call of rlx_philox */

/* For the elements [lo, hi) that take `per` words each: w points to a buffer of
 * WORDS/per whole elements of which [from, to) are wanted; first: index of the
 * first element of the buffer. */
#define FOR_WORDS(per, ...)                                                          \
    for (int64_t base = lo / (WORDS / (per)) * (WORDS / (per)); base < hi;           \
         base += WORDS / (per)) {                                                    \
        uint32_t w[WORDS];                                                           \
        rlx_philox(&stream, (uint64_t)base * (per) / 4, w);                          \
        const int64_t from = base < lo ? lo - base : 0;                              \
        const int64_t to = hi - base < WORDS / (per) ? hi - base : WORDS / (per);    \
        __VA_ARGS__                                                                  \
    }
#define UNIT_F32(word) ((float)((word) >> 8) * 0x1p-24f)

static int random_bits(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const int64_t offset = t->attrs[1];
    uint32_t *y = (uint32_t *)RLX_PTR(t, f, 0) - offset;
    lo += offset, hi += offset;
    FOR_WORDS(1, { for (int64_t i = from; i < to; i++) y[base + i] = w[i]; })
    return RLX_OK;
}

static int uniform_f32(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const float low = (float)RLX_F(t->attrs, 1), high = (float)RLX_F(t->attrs, 2);
    const float width = high - low, last = high > low ? nextafterf(high, low) : high;
    float *y = (float *)RLX_PTR(t, f, 0);
    FOR_WORDS(1, {
        for (int64_t i = from; i < to; i++) {
            const float v = low + UNIT_F32(w[i]) * width;
            y[base + i] = v < high ? v : last;
        }
    })
    return RLX_OK;
}
static int uniform_f64(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const double low = RLX_F(t->attrs, 1), high = RLX_F(t->attrs, 2);
    const double width = high - low, last = high > low ? nextafter(high, low) : high;
    double *y = (double *)RLX_PTR(t, f, 0);
    FOR_WORDS(2, {
        for (int64_t i = from; i < to; i++) {
            const double v = low + rlx_unit_f64(w[2 * i], w[2 * i + 1]) * width;
            y[base + i] = v < high ? v : last;
        }
    })
    return RLX_OK;
}

/* sin and cos of 2 pi x 2^-32 for an angle given as a signed 32-bit fraction of
 * a turn: quarters are split off exactly, polynomials on [-pi/4, pi/4]. */
static inline void turn_f32(int32_t x, float *sine, float *cosine) {
    const int32_t q = (int32_t)(((uint32_t)x + 0x20000000u) >> 30);
    const float r = (float)(int32_t)((uint32_t)x - ((uint32_t)q << 30)) * 1.46291807926715968e-9f;
    const float z = r * r;
    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    const float a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = q & 2 ? -a : a;
    *cosine = (q + 1) & 2 ? -b : b;
}

static int normal_f32(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const float mean = (float)RLX_F(t->attrs, 1), std = (float)RLX_F(t->attrs, 2);
    float *y = (float *)RLX_PTR(t, f, 0);
    FOR_WORDS(1, {
        float z[WORDS];
        for (int i = 0; i < WORDS / 2; i++) {
            const float u = ((float)w[2 * i] + 1.0f) * 0x1p-32f;
            const float r = sqrtf(-2.0f * rlx_log_f32(u)) * (stream.zeros ? 0.0f : 1.0f);
            float s, c;
            turn_f32((int32_t)w[2 * i + 1], &s, &c);
            z[2 * i] = r * c, z[2 * i + 1] = r * s;
        }
        for (int64_t i = from; i < to; i++) y[base + i] = mean + std * z[i];
    })
    return RLX_OK;
}
/* log of u in [2^-53, 1], through atanh of (m - 1)/(m + 1), m in [sqrt(1/2), sqrt(2)) */
static inline double log_unit_f64(double u) {
    uint64_t bits;
    memcpy(&bits, &u, 8);
    bits += 0x3FF0000000000000u - 0x3FE6A09E667F3BCDu;
    const double e = (double)((int32_t)(bits >> 52) - 1023);
    bits = (bits & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu;
    double m;
    memcpy(&m, &bits, 8);
    const double s = (m - 1) / (m + 1), z = s * s;
    double p = 2.0 / 23;
    p = p * z + 2.0 / 21;
    p = p * z + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    return e * M_LN2 + (p * z * s + 2 * s);
}

/* turn_f32 in double: x in [-2^31, 2^31) with a fraction */
static inline void turn_f64(double x, double *sine, double *cosine) {
    const double turns = x * 0x1p-30 + 0x1.8p52, quarter = turns - 0x1.8p52;
    uint64_t q;
    memcpy(&q, &turns, 8);
    const double r = (x * 0x1p-30 - quarter) * M_PI_2, z = r * r;
    double s = 1.58962301576546568060e-10;
    s = s * z - 2.50507477628578072866e-8;
    s = s * z + 2.75573136213857245213e-6;
    s = s * z - 1.98412698295895385996e-4;
    s = s * z + 8.33333333332211858878e-3;
    s = s * z - 1.66666666666666307295e-1;
    s = s * z * r + r;
    double c = -1.13585365213876817300e-11;
    c = c * z + 2.08757008419747316778e-9;
    c = c * z - 2.75573141792967388112e-7;
    c = c * z + 2.48015872888517045348e-5;
    c = c * z - 1.38888888888730564116e-3;
    c = c * z + 4.16666666666665929218e-2;
    c = c * z * z - 0.5 * z + 1.0;
    const double a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = q & 2 ? -a : a;
    *cosine = (q + 1) & 2 ? -b : b;
}

static int normal_f64(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const double mean = RLX_F(t->attrs, 1), std = RLX_F(t->attrs, 2);
    double *y = (double *)RLX_PTR(t, f, 0);
    FOR_WORDS(2, {
        double z[WORDS / 2];
        for (int i = 0; i < WORDS / 4; i++) {
            const uint32_t *p = w + 4 * i;
            const double u = rlx_unit_f64(p[0], p[1]) + 0x1p-53;
            const double r = sqrt(-2 * log_unit_f64(u)) * (stream.zeros ? 0.0 : 1.0);
            double s, c;
            turn_f64((double)(int32_t)p[3] + (double)p[2] * 0x1p-32, &s, &c);
            z[2 * i] = r * c, z[2 * i + 1] = r * s;
        }
        for (int64_t i = from; i < to; i++) y[base + i] = mean + std * z[i];
    })
    return RLX_OK;
}

static int bernoulli(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);
    const float *p = (const float *)RLX_PTR(t, f, 0);
    uint8_t *y = (uint8_t *)RLX_PTR(t, f, 1);
    FOR_WORDS(1, {
        for (int64_t i = from; i < to; i++) y[base + i] = UNIT_F32(w[i]) < p[base + i];
    })
    return RLX_OK;
}

#define RANDINT(T)                                                                           \
    static int randint_##T(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);                             \
        const uint64_t low = (uint64_t)t->attrs[1], width = (uint64_t)t->attrs[2] - low;     \
        T##_t *y = (T##_t *)RLX_PTR(t, f, 0);                                                \
        FOR_WORDS(2, {                                                                       \
            for (int64_t i = from; i < to; i++) {                                            \
                const uint64_t bits = (uint64_t)w[2 * i + 1] << 32 | w[2 * i];               \
                y[base + i] = (T##_t)(low + (uint64_t)(((__uint128_t)bits * width) >> 64));  \
            }                                                                                \
        })                                                                                   \
        return RLX_OK;                                                                       \
    }
RANDINT(int32)
RANDINT(int64)

#define DROPOUT(T, NAME)                                                                  \
    static int dropout_##NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo,         \
                              int64_t hi) {                                               \
        const rlx_stream stream = rlx_stream_of(f, t->attrs[0]);                          \
        const double ratio = RLX_F(t->attrs, 1);                                          \
        const T scale = ratio < 1 ? (T)(1 / (1 - ratio)) : 0;                             \
        const float limit = (float)ratio;                                                 \
        const T *x = (const T *)RLX_PTR(t, f, 0);                                         \
        T *y = (T *)RLX_PTR(t, f, 1);                                                     \
        uint8_t *mask = (uint8_t *)RLX_OPT(t, f, 2);                                      \
        FOR_WORDS(1, {                                                                    \
            for (int64_t i = from; i < to; i++)                                           \
                y[base + i] = UNIT_F32(w[i]) >= limit ? x[base + i] * scale : 0;          \
            for (int64_t i = from; mask && i < to; i++)                                   \
                mask[base + i] = UNIT_F32(w[i]) >= limit;                                 \
        })                                                                                \
        return RLX_OK;                                                                    \
    }
DROPOUT(float, f32)
DROPOUT(double, f64)

/* Largest logit's index, or -1: NaN, +inf, nothing above -inf. */
static int64_t largest(const float *x, int64_t n) {
    vf top = vf_set(-INFINITY), bad = {0};
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        const vf v = vf_load(x + i);
        top = vf_pick(vf_gt(v, top), v, top);
        bad += vf_pick(vf_lt(v, vf_set(INFINITY)), (vf){0}, vf_set(1));
    }
    float most = -INFINITY, wrong = 0;
    for (int k = 0; k < VF; k++) {
        most = top[k] > most ? top[k] : most;
        wrong += bad[k];
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
        wrong += !(x[i] < INFINITY);
    }
    if (wrong > 0 || most == -INFINITY) return -1;
    for (i = 0; x[i] != most;) i++;
    return i;
}

static int multinomial(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t n = t->attrs[0], samples = t->attrs[1], x_s = t->attrs[2];
    const rlx_stream stream = rlx_stream_of(f, t->attrs[3]);
    double *sum = (double *)(RLX_PTR(t, f, 2) + f->tid * t->attrs[4]);
    int64_t *y = (int64_t *)RLX_PTR(t, f, 1);
    for (int64_t row = lo; row < hi; row++) {
        const float *x = (const float *)RLX_PTR(t, f, 0) + row * x_s;
        const int64_t top = largest(x, n);
        if (top < 0) return rlx_fail(f, RLX_ERR_VALUE, 0, n, row);
        double total = 0;
        for (int64_t i = 0; i < n; i++) sum[i] = total += exp((double)x[i] - x[top]);
        for (int64_t s = 0; s < samples; s++) {
            const double r = rlx_philox_unit(&stream, (uint64_t)(row * samples + s)) * total;
            int64_t a = 0, b = n - 1; /* first index whose sum exceeds r */
            while (a < b) {
                const int64_t m = (a + b) / 2;
                if (sum[m] > r) b = m;
                else a = m + 1;
            }
            y[row * samples + s] = sum[a] > r ? a : top;
        }
    }
    return RLX_OK;
}

typedef struct token { double p; float x; int32_t index; } token;

/* Falling logit, rising index. */
static inline int before(const token *a, const token *b) {
    return a->x > b->x || (a->x == b->x && a->index < b->index);
}
/* Heap with the first token at the root, or (last 1) the last one. */
static void sift(token *h, int64_t n, int64_t i, int last) {
    const token moved = h[i];
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(h + c + !last, h + c + last)) c++;
        if (last ? !before(&moved, h + c) : !before(h + c, &moved)) break;
        h[i] = h[c];
    }
    h[i] = moved;
}

/* The k first tokens to the front, in order. */
static void first_tokens(token *h, int64_t n, int64_t k) {
    for (int64_t i = k / 2; i-- > 0;) sift(h, k, i, 1);
    for (int64_t i = k; i < n; i++)
        if (before(h + i, h)) {
            h[0] = h[i];
            sift(h, k, 0, 1);
        }
    for (int64_t m = k - 1; m > 0; m--) {
        const token worst = h[0];
        h[0] = h[m], h[m] = worst;
        sift(h, m, 0, 1);
    }
}

/* p = exp((x - top) / temperature), and their sum in index order. */
static double weigh(token *h, const float *x, int64_t n, float top, double temperature) {
    double total = 0;
    for (int64_t i = 0; i < n; i += VD) {
        double p[VD];
        const int64_t m = n - i < VD ? n - i : VD;
        for (int64_t c = 0; c < VD; c++)
            p[c] = c < m ? ((double)x[i + c] - top) / temperature : 0;
        vd_store(p, vd_exp(vd_load(p)));
        for (int64_t c = 0; c < m; c++) {
            h[i + c] = (token){p[c], x[i + c], (int32_t)(i + c)};
            total += p[c];
        }
    }
    return total;
}

static int sample(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t n = t->attrs[0], x_s = t->attrs[1];
    const rlx_stream stream = rlx_stream_of(f, t->attrs[2]);
    const int64_t k = t->attrs[3] > 0 && t->attrs[3] < n ? t->attrs[3] : n;
    const double temperature = RLX_F(t->attrs, 4), top_p = RLX_F(t->attrs, 5);
    token *h = (token *)(RLX_PTR(t, f, 2) + f->tid * t->attrs[6]);
    int64_t *y = (int64_t *)RLX_PTR(t, f, 1);
    for (int64_t row = lo; row < hi; row++) {
        const float *x = (const float *)RLX_PTR(t, f, 0) + row * x_s;
        const int64_t top = largest(x, n);
        if (top < 0) return rlx_fail(f, RLX_ERR_VALUE, 0, n, row);
        y[row] = top;
        if (temperature == 0) continue;
        double total = weigh(h, x, n, x[top], temperature), sum = 0;
        /* the candidates: count tokens from h[first] on, in steps */
        int64_t first = 0, step = 1, count = n;
        if (k < n) {
            first_tokens(h, n, count = k);
            total = 0;
            for (int64_t i = 0; i < k; i++) total += h[i].p;
            if (top_p < 1) {
                for (count = 0; count < k && (count == 0 || sum < top_p * total); count++)
                    sum += h[count].p;
                total = sum;
            }
        } else if (top_p < 1) {
            for (int64_t i = n / 2; i-- > 0;) sift(h, n, i, 0);
            first = n - 1, step = -1;
            for (count = 0; count < n && (count == 0 || sum < top_p * total); count++) {
                const token best = h[0];
                h[0] = h[n - 1 - count], h[n - 1 - count] = best;
                sift(h, n - 1 - count, 0, 0);
                sum += best.p;
            }
            total = sum;
        }
        const double r = rlx_philox_unit(&stream, (uint64_t)row) * total;
        sum = 0;
        for (int64_t i = 0; i < count; i++) {
            const token *c = h + first + i * step;
            sum += c->p;
            if (sum > r) {
                y[row] = c->index;
                break;
            }
        }
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_random[] = {
    {"random_bits.u32", random_bits, "key offset", 0},
    {"uniform.f32", uniform_f32, "key low:f high:f", 0},
    {"uniform.f64", uniform_f64, "key low:f high:f", 0},
    {"normal.f32", normal_f32, "key mean:f std:f", 0},
    {"normal.f64", normal_f64, "key mean:f std:f", 0},
    {"bernoulli.f32", bernoulli, "key", 0},
    {"randint.i32", randint_int32, "key low high", 0},
    {"randint.i64", randint_int64, "key low high", 0},
    {"dropout.f32", dropout_f32, "key ratio:f", RLX_INPLACE},
    {"dropout.f64", dropout_f64, "key ratio:f", RLX_INPLACE},
    {"multinomial.f32", multinomial, "classes samples x_s key ws", 0},
    {"sample.f32", sample, "vocab x_s key top_k temperature:f top_p:f ws", 0},
    {NULL, NULL, NULL, 0},
};
