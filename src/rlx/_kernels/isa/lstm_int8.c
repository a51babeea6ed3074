/* lstm_int8: the recurrence of an LSTM with 8-bit recurrent weights and a hidden state that is
 * quantised to 8 bits at every step (as com.microsoft.DynamicQuantizeLSTM).
 *
 * lstm_int8_pack   args: r [dirs, hidden, 4 hidden] i8 or u8, packed; attrs: dirs hidden is_signed
 *     packed, per direction: [ceil(hidden / 16)][ceil(hidden / KG)][4 gates][16 units][KG] signed
 *     bytes (r, or r - 128 if unsigned), then their sums over k as int32 [4 hidden].
 *     extent: dirs.
 * lstm_int8.f32    args: z, packed, scale f32, zero i8 | u8 | absent, lens i32 | absent, h0 | absent,
 *     c0 | absent, y | absent, y_h | absent, y_c | absent, workspace
 *   attrs: dirs seq batch hidden reverse scale_n zero_n is_signed work_stride
 *     reverse: 0 forward, 1 reverse, 2 both. scale_n, zero_n: numbers a direction, 1 or 4 hidden
 *     (zero_n 0: absent). Gates in the order i o f c everywhere.
 *   z [dirs, seq, batch, 4 hidden]: what the input and the biases add to the gates.
 *   y [seq, dirs, batch, hidden], h0, c0, y_h, y_c [dirs, batch, hidden].
 *   workspace per thread: see `plan_recurrence` in rlx/lower/lstm_int8.py. extent: dirs.
 *
 * Each step: range of h over the whole batch, widened to contain 0; scale = range / 255 (1 if that is
 * 0), zero = round(-low / scale); q = round(h / scale) + zero; gates = z + (q - zero) (r - r_zero)
 * times both scales. The products are exact in i32. Design: at one row a step is the read of the
 * packed weights, a quarter of the float ones, which keeps them in the second cache; a panel is 16
 * units with all gates, so the gates of a unit are together when they are needed. */
#include "abi.h"
#include "lanes.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>
enum { KG = 4 };
typedef uint8_t term;
#elif defined(__AVX2__)
#include <immintrin.h>
enum { KG = 2 };
typedef int16_t term;
#else
enum { KG = 2 };
typedef int16_t term;
#endif
enum { UB = 16, PANEL = 4 * UB };

static inline int64_t panels_of(int64_t hidden) { return (hidden + UB - 1) / UB; }
static inline int64_t depth_of(int64_t hidden) { return (hidden + KG - 1) / KG * KG; }
static inline int64_t group_bytes(int64_t hidden) {
    return panels_of(hidden) * depth_of(hidden) * PANEL + 16 * hidden;
}

static int pack(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t hidden = t->attrs[1], depth = depth_of(hidden);
    const uint8_t flip = t->attrs[2] ? 0 : 0x80;
    for (int64_t d = lo; d < hi; d++) {
        const uint8_t *src = (const uint8_t *)RLX_PTR(t, f, 0) + d * hidden * 4 * hidden;
        int8_t *dst = (int8_t *)RLX_PTR(t, f, 1) + d * group_bytes(hidden);
        int32_t *sums = (int32_t *)(dst + panels_of(hidden) * depth * PANEL);
        memset(dst, 0, (size_t)group_bytes(hidden));
        for (int64_t k = 0; k < hidden; k++)
            for (int64_t g = 0; g < 4; g++)
                for (int64_t u = 0; u < hidden; u++) {
                    const int8_t v = (int8_t)(src[k * 4 * hidden + g * hidden + u] ^ flip);
                    dst[u / UB * depth * PANEL + k / KG * KG * PANEL + (g * UB + u % UB) * KG + k % KG] = v;
                    sums[g * hidden + u] += v;
                }
    }
    return RLX_OK;
}

/* sums[gate][unit] of a panel. */
static inline void products(const term *q, const int8_t *w, int64_t depth, int32_t sums[4][UB]) {
#if defined(__AVX512VNNI__)
    __m512i a[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    __m512i b[4] = {a[0], a[0], a[0], a[0]};
    int64_t k = 0;
    for (; k + 8 <= depth; k += 8, w += 2 * 4 * PANEL) {
        int32_t x, y;
        memcpy(&x, q + k, 4);
        memcpy(&y, q + k + 4, 4);
        const __m512i vx = _mm512_set1_epi32(x), vy = _mm512_set1_epi32(y);
        for (int g = 0; g < 4; g++) {
            a[g] = _mm512_dpbusd_epi32(a[g], vx, _mm512_loadu_si512(w + 64 * g));
            b[g] = _mm512_dpbusd_epi32(b[g], vy, _mm512_loadu_si512(w + 4 * PANEL + 64 * g));
        }
    }
    if (k < depth) {
        int32_t x;
        memcpy(&x, q + k, 4);
        for (int g = 0; g < 4; g++)
            a[g] = _mm512_dpbusd_epi32(a[g], _mm512_set1_epi32(x), _mm512_loadu_si512(w + 64 * g));
    }
    for (int g = 0; g < 4; g++)
        _mm512_storeu_si512(sums[g], _mm512_add_epi32(a[g], b[g]));
#elif defined(__AVX2__)
    __m256i a[8];
    for (int g = 0; g < 8; g++)
        a[g] = _mm256_setzero_si256();
    for (int64_t k = 0; k < depth; k += 2, w += 2 * PANEL) {
        int32_t x;
        memcpy(&x, q + k, 4);
        const __m256i vx = _mm256_set1_epi32(x);
        for (int g = 0; g < 8; g++)
            a[g] = _mm256_add_epi32(a[g], _mm256_madd_epi16(vx, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16 * g)))));
    }
    for (int g = 0; g < 8; g++)
        _mm256_storeu_si256((__m256i *)(sums[g / 2] + g % 2 * 8), a[g]);
#else
    memset(sums, 0, 4 * UB * sizeof(int32_t));
    for (int64_t k = 0; k < depth; k += 2, w += 2 * PANEL)
        for (int64_t c = 0; c < PANEL; c++)
            sums[c / UB][c % UB] += q[k] * w[2 * c] + q[k + 1] * w[2 * c + 1];
#endif
}

typedef struct job {
    int64_t seq, batch, hidden, depth, scale_n, zero_n, is_signed;
    const int8_t *w;
    const int32_t *col_sums;
    const float *scale;
    const uint8_t *zero;
    const int32_t *lens;
} job;

static inline int32_t zero_at(const job *j, int64_t column) {
    if (!j->zero_n)
        return j->is_signed ? 0 : -128; /* r - 128 was packed */
    const uint8_t z = j->zero[j->zero_n > 1 ? column : 0];
    return j->is_signed ? (int8_t)z : (int32_t)z - 128;
}

/* Range of all hidden states, widened to contain 0. */
static void range_of(const float *h, int64_t n, float *scale, int32_t *zero) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        low = h[i] < low ? h[i] : low;
        high = h[i] > high ? h[i] : high;
    }
    const float s = (high - low) / 255.0f;
    *scale = s == 0 ? 1.0f : s;
    const float z = __builtin_rintf(-low / *scale);
    *zero = (int32_t)(z < 0 ? 0 : z > 255 ? 255 : z);
}

static int32_t quantise(term *q, const float *h, int64_t hidden, int64_t depth, float scale, int32_t zero) {
    int32_t sum = 0;
    for (int64_t k = 0; k < hidden; k++) {
        const float v = __builtin_rintf(h[k] / scale) + (float)zero;
        const int32_t x = v >= 0 ? (v <= 255 ? (int32_t)v : 255) : 0;
        q[k] = (term)x;
        sum += x;
    }
    for (int64_t k = hidden; k < depth; k++)
        q[k] = 0;
    return sum;
}

static void step(const job *j, const float *z, const term *q, int32_t q_sum, float h_scale, int32_t h_zero,
                 float *h, float *c) {
    const int64_t hidden = j->hidden;
    const int32_t rest = q_sum - (int32_t)hidden * h_zero;
    for (int64_t u0 = 0; u0 < hidden; u0 += UB) {
        const int64_t n = hidden - u0 < UB ? hidden - u0 : UB;
        int32_t sums[4][UB];
        float gate[4][UB] = {{0}}, cell[UB] = {0};
        products(q, j->w + u0 / UB * j->depth * PANEL, j->depth, sums);
        for (int64_t g = 0; g < 4; g++)
            for (int64_t u = 0; u < n; u++) {
                const int64_t column = g * hidden + u0 + u;
                const int32_t exact = sums[g][u] - h_zero * j->col_sums[column] - zero_at(j, column) * rest;
                gate[g][u] = z[column] + (float)exact * (h_scale * j->scale[j->scale_n > 1 ? column : 0]);
            }
        memcpy(cell, c + u0, (size_t)n * sizeof(float));
        for (int64_t u = 0; u < UB; u += VF) {
            const vf i = vf_sigmoid(vf_load(gate[0] + u)), o = vf_sigmoid(vf_load(gate[1] + u));
            const vf r = vf_sigmoid(vf_load(gate[2] + u)), x = vf_tanh(vf_load(gate[3] + u));
            const vf next = r * vf_load(cell + u) + i * x;
            vf_store(cell + u, next);
            vf_store(gate[0] + u, o * vf_tanh(next));
        }
        memcpy(c + u0, cell, (size_t)n * sizeof(float));
        memcpy(h + u0, gate[0], (size_t)n * sizeof(float));
    }
}

static int lstm(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    job j = {.seq = a[1], .batch = a[2], .hidden = a[3], .depth = depth_of(a[3]), .scale_n = a[5], .zero_n = a[6],
             .is_signed = a[7], .lens = (const int32_t *)RLX_OPT(t, f, 4)};
    const int64_t dirs = a[0], hidden = j.hidden, states = j.batch * hidden;
    char *work = RLX_PTR(t, f, 10) + f->tid * a[8];
    float *h = (float *)work, *c = h + states;
    term *q = (term *)(c + states);
    float *const y = (float *)RLX_OPT(t, f, 7);
    for (int64_t b = 0; j.lens && b < j.batch; b++)
        if (j.lens[b] < 0 || j.lens[b] > j.seq)
            return rlx_fail(f, RLX_ERR_INDEX, j.lens[b], j.seq, b);
    for (int64_t d = lo; d < hi; d++) {
        const float *z = (const float *)RLX_PTR(t, f, 0) + d * j.seq * j.batch * 4 * hidden;
        j.w = (const int8_t *)RLX_PTR(t, f, 1) + d * group_bytes(hidden);
        j.col_sums = (const int32_t *)(j.w + panels_of(hidden) * j.depth * PANEL);
        j.scale = (const float *)RLX_PTR(t, f, 2) + d * j.scale_n;
        j.zero = j.zero_n ? (const uint8_t *)RLX_PTR(t, f, 3) + d * j.zero_n : NULL;
        const int backward = a[4] == 1 || (a[4] == 2 && d == 1);
        for (int s = 0; s < 2; s++) {
            const float *start = (const float *)RLX_OPT(t, f, 5 + s);
            if (start)
                memcpy(s ? c : h, start + d * states, (size_t)states * sizeof(float));
            else
                memset(s ? c : h, 0, (size_t)states * sizeof(float));
        }
        for (int64_t s = 0; s < j.seq; s++) {
            float scale;
            int32_t zero;
            range_of(h, states, &scale, &zero);
            for (int64_t b = 0; b < j.batch; b++) {
                const int64_t len = j.lens ? j.lens[b] : j.seq, time = backward && s < len ? len - 1 - s : s;
                float *out = y ? y + ((time * dirs + d) * j.batch + b) * hidden : NULL;
                if (s >= len) {
                    if (out)
                        memset(out, 0, (size_t)hidden * sizeof(float));
                    continue;
                }
                const int32_t sum = quantise(q, h + b * hidden, hidden, j.depth, scale, zero);
                step(&j, z + (time * j.batch + b) * 4 * hidden, q, sum, scale, zero, h + b * hidden, c + b * hidden);
                if (out)
                    memcpy(out, h + b * hidden, (size_t)hidden * sizeof(float));
            }
        }
        for (int s = 0; s < 2; s++)
            if (RLX_PRESENT(t, 8 + s))
                memcpy((float *)RLX_PTR(t, f, 8 + s) + d * states, s ? c : h, (size_t)states * sizeof(float));
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_lstm_int8[] = {
    {"lstm_int8_pack", pack, "dirs hidden is_signed", 0},
    {"lstm_int8.f32", lstm, "dirs seq batch hidden reverse scale_n zero_n is_signed work_stride", 0},
    {NULL, NULL, NULL, 0},
};
