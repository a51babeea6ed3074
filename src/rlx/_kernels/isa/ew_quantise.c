/* ew_quantise: a quantisation in one step, quantize_<code type>.f32: saturate(round(x / scale) + zero).
 *
 * Operands x, scale, zero, all f32; half to even, NaN gives 0. The same codes as div, round, add and cast in turn
 * (rlx/lower/region.py puts the four together).
 *
 * Design. A vector of divisions takes 10 cycles with AVX-512, all the rest 6. Where one scale holds for a call (a
 * block of a region), x is multiplied by its reciprocal, BLOCK elements at a time, and they are divided only if one of
 * them lies within 2^-21 of the largest quotient of where two codes meet: the product is within 2^-22 of the
 * quotient, so all others round alike. Measured, 49k elements: 15 -> 10 us (16 as four steps). */
#include "narrow.h"
#include "vmathf.h"

#define BLOCK 256
#define NOT_A_NUMBER __builtin_nanf("")

/* 1 / scale; NaN, with which every element is divided, where either is so large or so small that bits are lost. */
RLX_INLINE float reciprocal(float scale) {
    const float size = __builtin_fabsf(scale);
    return size > 0x1p-100f && size < 0x1p100f ? 1.0f / scale : NOT_A_NUMBER;
}

/* The larger of two sizes; that of a number, of a number and NaN. */
RLX_INLINE rlx_v32 larger(rlx_v32 x, rlx_v32 most) {
#if defined(__AVX512DQ__)
    return (rlx_v32)_mm512_range_ps((__m512)x, (__m512)most, 0x0b);
#else
    return rlx_vmax((rlx_v32)((rlx_vi32)x & 0x7fffffff), most);
#endif
}

/* For n elements: whole vectors, then one part. */
#define EACH(WHOLE_STORE, PART_STORE, ...)                                                           \
    int64_t i = 0;                                                                                   \
    for (; i + RLX_W32 <= n; i += RLX_W32) {                                                         \
        const rlx_v32 x_ = *(const rlx_v32u *)(x + i), s_ = *(const rlx_v32u *)(scale + i);          \
        const rlx_v32 z_ = *(const rlx_v32u *)(zero + i);                                            \
        WHOLE_STORE(d + i, (__VA_ARGS__) + z_);                                                      \
    }                                                                                                \
    if (i < n) {                                                                                     \
        const rlx_v32 x_ = rlx_load_part_f32(x + i, n - i), s_ = rlx_load_part_f32(scale + i, n - i); \
        const rlx_v32 z_ = rlx_load_part_f32(zero + i, n - i);                                       \
        PART_STORE(d + i, (__VA_ARGS__) + z_, n - i);                                                \
    }

/* Largest product, and largest distance from a code. */
typedef struct seen { rlx_v32 product, apart; } seen;

RLX_INLINE rlx_v32 near_by(rlx_v32 x, rlx_v32 inverse, seen *so_far) {
    const rlx_v32 q = x * inverse, r = rlx_vround(q);
    so_far->product = larger(q, so_far->product), so_far->apart = larger(q - r, so_far->apart);
    return r;
}

/* Whether none lay where two codes meet; what is no number has no neighbours. */
RLX_INLINE int is_certain(const seen *all) {
    const rlx_v32 nearest = all->apart + all->product * 0x1p-21f;
    int certain = 1;
    for (int k = 0; k < RLX_W32; k++) certain &= nearest[k] < 0.5f;
    return certain;
}

RLX_INLINE int same(const float *x, int64_t n, float value) {
    int other = 0;
    for (int64_t k = 0; k < n; k++) other |= x[k] != value;
    return !other;
}

#define QUANTIZE(Q, T)                                                                               \
    RLX_INLINE int multiplied_##Q(T *d, const float *x, const float *scale, const float *zero, int64_t n, \
                                  float inverse) {                                                   \
        const rlx_v32 times = inverse - (rlx_v32){0};                                                \
        seen all = {{0}, {0}};                                                                       \
        EACH(rlx_narrow_##Q, rlx_narrow_part_##Q, (void)s_, near_by(x_, times, &all))                \
        return is_certain(&all);                                                                     \
    }                                                                                                \
    RLX_INLINE void divided_##Q(T *d, const float *x, const float *scale, const float *zero, int64_t n) { \
        EACH(rlx_narrow_##Q, rlx_narrow_part_##Q, rlx_vround(x_ / s_))                               \
    }                                                                                                \
    static int quantize_##Q(RLX_EW_ARGS) {                                                           \
        const float *x = a_, *scale = b_, *zero = c_;                                                \
        T *d = dst;                                                                                  \
        const int one = n > 0 && same(scale, n, scale[0]);                                           \
        const float inverse = one ? reciprocal(scale[0]) : NOT_A_NUMBER;                             \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                     \
            const int64_t m = n - i < BLOCK ? n - i : BLOCK;                                         \
            if (inverse != inverse || !multiplied_##Q(d + i, x + i, scale + i, zero + i, m, inverse)) \
                divided_##Q(d + i, x + i, scale + i, zero + i, m);                                   \
        }                                                                                            \
        return RLX_OK;                                                                               \
    }
QUANTIZE(i8, int8_t)
QUANTIZE(u8, uint8_t)
QUANTIZE(i16, int16_t)
QUANTIZE(u16, uint16_t)

#define ROW(Q) {"quantize_" #Q ".f32", quantize_##Q, 3}
const rlx_ew_row rlx_ews_ew_quantise[] = {
    ROW(i8), ROW(u8), ROW(i16), ROW(u16),
    {NULL, NULL, 0},
};
