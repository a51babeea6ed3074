/* Quantisation: linear codes, four-bit packing, eight-bit floats.
 *
 * Rounding is half to even, results saturate, NaN becomes 0 (as in a cast).
 * x / scale is a division, as ONNX defines it.
 *
 * Which scale an element takes: the tensor is [outer][axis][inner]; block 0 has
 * one scale (and zero point) per index of axis (axis = 1: per tensor); block b > 0
 * has scales of shape [outer][ceil(axis/b)][inner]. zero points may be absent.
 * Extent is always the number of elements, cut anywhere.
 *
 * quantize_linear.Q   Q in i8 u8 i16 u16; args x f32, scale f32, zp Q?, y Q
 *   attrs outer axis inner block qmin qmax     (qmin, qmax: e.g. -8 7 for int4)
 * dequantize_linear.Q Q in i8 u8 i16 u16 i32; args x Q, scale f32, zp Q?, y f32
 *   attrs outer axis inner block;  y = (x - zp) * scale, x - zp wraps as int32
 * fake_quantize.f32   args x f32, scale f32, zp i32?, y f32 (may be x)
 *   attrs outer axis inner block qmin qmax;  NaN stays NaN
 * requantize.Q        Q in i8 u8; args acc i32, multiplier f64, bias i32?, zp Q?, y Q
 *   attrs outer axis inner;  y = sat(round((acc + bias) * multiplier) + zp), in
 *   double; multiplier, bias and zp per index of axis (axis = 1: one for all).
 *   acc + bias wraps.
 * quant_range.f32     args x f32, ranges f32 [chunks][2]; attrs n chunk
 *   smallest and largest of 0 and each chunk of x, NaN left out.
 *   extent ceil(n/chunk).
 * quant_params.u8     args ranges, scale f32, zp u8; attrs chunks; extent 1
 *   ONNX DynamicQuantizeLinear: scale = (max - min)/255 (1 if that is 0),
 *   zp = sat(round(-min/scale)); follow with quantize_linear.u8.
 * lookup.b1, lookup.b4    args x bytes, table of 256, y; extent n
 * unpack.i4, unpack.u4  args packed u8, y i8/u8; low nibble first; extent n
 * pack.b4             args x u8/i8, packed u8; attrs n; extent ceil(n/2); the
 *   spare nibble of an odd n is 0.
 *
 * All loops are written for the compiler's vectoriser; a run of elements with
 * one scale, or with scales that lie side by side, is one loop. */
#include "abi.h"
#include "lanes.h"

/* A run of elements that starts at i: n of them, the first one's scale index s,
 * which advances by step (0 or 1). */
typedef struct quant_run { int64_t n, s, step; } quant_run;

static inline quant_run next_run(int64_t i, int64_t hi, int64_t axis, int64_t inner,
                                 int64_t block) {
    quant_run r = {hi - i, 0, 0};
    if (axis == 1 && !block) return r;
    const int64_t in = i % inner, at = i / inner % axis;
    int64_t n;
    if (!block) {
        r.s = at, r.step = inner == 1;
        n = r.step ? axis - at : inner - in;
    } else {
        const int64_t blocks = (axis + block - 1) / block;
        r.s = (i / inner / axis * blocks + at / block) * inner + in, r.step = inner != 1;
        n = block - at % block < axis - at ? block - at % block : axis - at;
        n = r.step ? inner - in : n;
    }
    r.n = n < r.n ? n : r.n;
    return r;
}

#define FOR_RUNS(lo, hi, axis, inner, block, ...)                   \
    for (int64_t i = (lo), n; i < (hi); i += n) {                   \
        const quant_run r_ = next_run(i, (hi), axis, inner, block); \
        const int64_t s = r_.s, step = r_.step;                     \
        n = r_.n;                                                   \
        __VA_ARGS__                                                 \
    }

/* Nearest integer as a float, clamped; NaN gives 0. */
RLX_INLINE float to_code(float x, float scale, float zp, float lo, float hi) {
    float r = rintf(x / scale) + zp;
    r = r < lo ? lo : r;
    r = r > hi ? hi : r;
    return r == r ? r : 0.0f;
}

#define QUANTIZE(Q, T)                                                                         \
    static int quantize_##Q(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {  \
        const int64_t *a = t->attrs;                                                           \
        const float *x = (const float *)RLX_PTR(t, f, 0);                                      \
        const float *scale = (const float *)RLX_PTR(t, f, 1);                                  \
        const T *zp = (const T *)RLX_OPT(t, f, 2);                                             \
        T *y = (T *)RLX_PTR(t, f, 3);                                                          \
        const float qmin = (float)a[4], qmax = (float)a[5];                                    \
        FOR_RUNS(lo, hi, a[1], a[2], a[3], {                                                   \
            if (step) {                                                                        \
                for (int64_t k = 0; k < n; k++)                                                \
                    y[i + k] = (T)(int32_t)to_code(x[i + k], scale[s + k],                     \
                                                   zp ? (float)zp[s + k] : 0, qmin, qmax);     \
            } else {                                                                           \
                const float one = scale[s], z = zp ? (float)zp[s] : 0;                         \
                for (int64_t k = 0; k < n; k++)                                                \
                    y[i + k] = (T)(int32_t)to_code(x[i + k], one, z, qmin, qmax);              \
            }                                                                                  \
        })                                                                                     \
        return RLX_OK;                                                                         \
    }

/* x - zp wraps as int32 does */
#define DEQUANTIZE(Q, T)                                                                       \
    static int dequantize_##Q(const rlx_thunk *t, const rlx_frame *f, int64_t lo,              \
                              int64_t hi) {                                                    \
        const int64_t *a = t->attrs;                                                           \
        const T *x = (const T *)RLX_PTR(t, f, 0);                                              \
        const float *scale = (const float *)RLX_PTR(t, f, 1);                                  \
        const T *zp = (const T *)RLX_OPT(t, f, 2);                                             \
        float *y = (float *)RLX_PTR(t, f, 3);                                                  \
        FOR_RUNS(lo, hi, a[1], a[2], a[3], {                                                   \
            if (step) {                                                                        \
                for (int64_t k = 0; k < n; k++)                                                \
                    y[i + k] = (float)(int32_t)((uint32_t)x[i + k] -                           \
                                                (zp ? (uint32_t)zp[s + k] : 0)) * scale[s + k]; \
            } else {                                                                           \
                const float one = scale[s];                                                    \
                const uint32_t z = zp ? (uint32_t)zp[s] : 0;                                   \
                for (int64_t k = 0; k < n; k++)                                                \
                    y[i + k] = (float)(int32_t)((uint32_t)x[i + k] - z) * one;                 \
            }                                                                                  \
        })                                                                                     \
        return RLX_OK;                                                                         \
    }

#define REQUANTIZE(Q, T, LO, HI)                                                               \
    static int requantize_##Q(const rlx_thunk *t, const rlx_frame *f, int64_t lo,              \
                              int64_t hi) {                                                    \
        const int64_t *a = t->attrs;                                                           \
        const int32_t *x = (const int32_t *)RLX_PTR(t, f, 0);                                  \
        const double *m = (const double *)RLX_PTR(t, f, 1);                                    \
        const int32_t *bias = (const int32_t *)RLX_OPT(t, f, 2);                               \
        const T *zp = (const T *)RLX_OPT(t, f, 3);                                             \
        T *y = (T *)RLX_PTR(t, f, 4);                                                          \
        FOR_RUNS(lo, hi, a[1], a[2], 0, {                                                      \
            for (int64_t k = 0; k < n; k++) {                                                  \
                const int64_t c = s + (step ? k : 0);                                          \
                const int32_t acc =                                                            \
                    (int32_t)((uint32_t)x[i + k] + (bias ? (uint32_t)bias[c] : 0));            \
                double r = rint((double)acc * m[c]);                                           \
                r += zp ? (double)zp[c] : 0;                                                   \
                r = r < LO ? LO : r;                                                           \
                r = r > HI ? HI : r;                                                           \
                y[i + k] = (T)(int32_t)(r == r ? r : 0);                                       \
            }                                                                                  \
        })                                                                                     \
        return RLX_OK;                                                                         \
    }

QUANTIZE(i8, int8_t)
QUANTIZE(u8, uint8_t)
QUANTIZE(i16, int16_t)
QUANTIZE(u16, uint16_t)
DEQUANTIZE(i8, int8_t)
DEQUANTIZE(u8, uint8_t)
DEQUANTIZE(i16, int16_t)
DEQUANTIZE(u16, uint16_t)
DEQUANTIZE(i32, int32_t)
REQUANTIZE(i8, int8_t, -128.0, 127.0)
REQUANTIZE(u8, uint8_t, 0.0, 255.0)

static int fake_quantize(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const float *x = (const float *)RLX_PTR(t, f, 0), *scale = (const float *)RLX_PTR(t, f, 1);
    const int32_t *zp = (const int32_t *)RLX_OPT(t, f, 2);
    float *y = (float *)RLX_PTR(t, f, 3);
    const float qmin = (float)a[4], qmax = (float)a[5];
    FOR_RUNS(lo, hi, a[1], a[2], a[3], {
        for (int64_t k = 0; k < n; k++) {
            const int64_t c = s + (step ? k : 0);
            const float z = zp ? (float)zp[c] : 0, v = x[i + k];
            const float q = (to_code(v, scale[c], z, qmin, qmax) - z) * scale[c];
            y[i + k] = v == v ? q : v;
        }
    })
    return RLX_OK;
}

static int quant_range(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t n = t->attrs[0], chunk = t->attrs[1];
    const float *x = (const float *)RLX_PTR(t, f, 0);
    float *out = (float *)RLX_PTR(t, f, 1);
    for (int64_t c = lo; c < hi; c++) {
        const int64_t end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
        int64_t i = c * chunk;
        vf low = {0}, high = {0};
        for (; i < end; i += VF) {
            const vf v = end - i >= VF ? vf_load(x + i) : vf_load_n(x + i, end - i);
            low = vf_pick(vf_lt(v, low), v, low);
            high = vf_pick(vf_gt(v, high), v, high);
        }
        float a = 0, b = 0;
        for (int k = 0; k < VF; k++) {
            a = low[k] < a ? low[k] : a;
            b = high[k] > b ? high[k] : b;
        }
        out[2 * c] = a, out[2 * c + 1] = b;
    }
    return RLX_OK;
}

static int quant_params(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    if (lo >= hi) return RLX_OK;
    const float *r = (const float *)RLX_PTR(t, f, 0);
    float low = 0, high = 0;
    for (int64_t c = 0; c < t->attrs[0]; c++) {
        low = r[2 * c] < low ? r[2 * c] : low;
        high = r[2 * c + 1] > high ? r[2 * c + 1] : high;
    }
    const float range = (high - low) / 255.0f, scale = range == 0 ? 1.0f : range;
    *(float *)RLX_PTR(t, f, 1) = scale;
    *(uint8_t *)RLX_PTR(t, f, 2) = (uint8_t)(int32_t)to_code(-low, scale, 0, 0, 255);
    return RLX_OK;
}

static int unpack_i4(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const uint8_t *x = (const uint8_t *)RLX_PTR(t, f, 0);
    int8_t *y = (int8_t *)RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++)
        y[i] = (int8_t)((((x[i / 2] >> (4 * (i & 1))) & 15) ^ 8) - 8);
    return RLX_OK;
}
static int unpack_u4(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const uint8_t *x = (const uint8_t *)RLX_PTR(t, f, 0);
    uint8_t *y = (uint8_t *)RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++) y[i] = (x[i / 2] >> (4 * (i & 1))) & 15;
    return RLX_OK;
}
static int pack_b4(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const uint8_t *x = (const uint8_t *)RLX_PTR(t, f, 0);
    uint8_t *y = (uint8_t *)RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++)
        y[i] = (x[2 * i] & 15) | (2 * i + 1 < t->attrs[0] ? (uint8_t)(x[2 * i + 1] << 4) : 0);
    return RLX_OK;
}

/* One byte at a time: a gather of 16 floats takes as long as 16 loads. */
#define LOOKUP(S, T)                                                                         \
    static int lookup_##S(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {  \
        const uint8_t *x = (const uint8_t *)RLX_PTR(t, f, 0);                                \
        const T *table = (const T *)RLX_PTR(t, f, 1);                                        \
        T *y = (T *)RLX_PTR(t, f, 2);                                                        \
        int64_t i = lo;                                                                      \
        for (; i + 8 <= hi; i += 8) {                                                        \
            uint64_t v;                                                                      \
            T r[8];                                                                          \
            memcpy(&v, x + i, 8);                                                            \
            for (int k = 0; k < 8; k++) r[k] = table[v >> 8 * k & 255];                      \
            memcpy(y + i, r, sizeof r);                                                      \
        }                                                                                    \
        for (; i < hi; i++) y[i] = table[x[i]];                                              \
        return RLX_OK;                                                                       \
    }
LOOKUP(b1, uint8_t)
LOOKUP(b4, uint32_t)

#define BY_AXIS "outer axis inner block"

const rlx_kernel_row rlx_rows_quant[] = {
    {"quantize_linear.i8", quantize_i8, BY_AXIS " qmin qmax", 0},
    {"quantize_linear.u8", quantize_u8, BY_AXIS " qmin qmax", 0},
    {"quantize_linear.i16", quantize_i16, BY_AXIS " qmin qmax", 0},
    {"quantize_linear.u16", quantize_u16, BY_AXIS " qmin qmax", 0},
    {"dequantize_linear.i8", dequantize_i8, BY_AXIS, 0},
    {"dequantize_linear.u8", dequantize_u8, BY_AXIS, 0},
    {"dequantize_linear.i16", dequantize_i16, BY_AXIS, 0},
    {"dequantize_linear.u16", dequantize_u16, BY_AXIS, 0},
    {"dequantize_linear.i32", dequantize_i32, BY_AXIS, 0},
    {"fake_quantize.f32", fake_quantize, BY_AXIS " qmin qmax", RLX_INPLACE},
    {"requantize.i8", requantize_i8, "outer axis inner", 0},
    {"requantize.u8", requantize_u8, "outer axis inner", 0},
    {"quant_range.f32", quant_range, "n chunk", 0},
    {"quant_params.u8", quant_params, "chunks", 0},
    {"lookup.b1", lookup_b1, "", 0},
    {"lookup.b4", lookup_b4, "", 0},
    {"unpack.i4", unpack_i4, "", 0},
    {"unpack.u4", unpack_u4, "", 0},
    {"pack.b4", pack_b4, "n", 0},
    {NULL, NULL, NULL, 0},
};
