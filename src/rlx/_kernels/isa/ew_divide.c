/* Elementwise integer division (div, floor_div, mod, fmod), integer pow, and
 * the remainders of floats.
 *
 * Integers: a first pass looks for a zero divisor (or a negative exponent) and
 * reports its position before anything is written; the second pass cannot
 * fail. Items of up to 32 bits divide in double, which is exact after
 * truncation (|a| < 2^53) and vectorises; 64-bit items use the divide
 * instruction. INT_MIN / -1 wraps, INT_MIN % -1 is 0: a divisor of -1 takes
 * the negated dividend.
 *
 * Floats follow numpy: mod takes the divisor's sign, fmod the dividend's, both
 * keep signed zeros; floor_div is (a - mod) / b. f32 remainders are computed in
 * double (exact while the quotient is below 2^29), f64 ones by libm. */
#include "ew.h"

#include <math.h>

#define FIND(cond)                                                                        \
    do {                                                                                  \
        int any = 0;                                                                      \
        for (int64_t i = 0; i < n; i++) any |= (cond);                                    \
        if (__builtin_expect(any, 0)) {                                                   \
            int64_t i = 0;                                                                \
            while (!(cond)) i++;                                                          \
            err->position = i;                                                            \
            err->value = (int64_t)b[i];                                                   \
            err->bound = 0;                                                               \
            return FAILURE;                                                               \
        }                                                                                 \
    } while (0)

/* Q: truncated quotient of x and y for y other than 0 (and -1 if signed). */
#define QUOTIENT_F(T) ((T)((double)x / (double)y))
#define QUOTIENT_I(T) ((T)(x / y))

#define FAILURE RLX_ERR_DIVIDE
#define INT_LOOP(fn, T, ...)                                                              \
    static int fn(RLX_EW_ARGS) {                                                          \
        const T *a = a_, *b = b_;                                                         \
        T *d = dst;                                                                       \
        FIND(b[i] == 0);                                                                  \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            T x = a[i], y = b[i];                                                         \
            d[i] = (T)(__VA_ARGS__);                                                      \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }

#define SIGNED_DIVIDE(name, T, C, Q)                                                      \
    RLX_INLINE T quotient_##name(T x, T y) {                                              \
        T minus = (T)((C)0 - (C)x), one = y == -1;                                        \
        y = one ? 1 : y;                                                                  \
        T q = Q(T);                                                                       \
        return one ? minus : q;                                                           \
    }                                                                                     \
    RLX_INLINE T remainder_##name(T x, T y) {                                             \
        return (T)((C)x - (C)quotient_##name(x, y) * (C)y);                               \
    }                                                                                     \
    RLX_INLINE T floored_##name(T x, T y) {                                               \
        T q = quotient_##name(x, y), r = (T)((C)x - (C)q * (C)y);                         \
        return (T)((C)q - (C)((r != 0) & ((r ^ y) < 0)));                                 \
    }                                                                                     \
    RLX_INLINE T modulo_##name(T x, T y) {                                                \
        T r = remainder_##name(x, y);                                                     \
        return (T)((C)r + (((r != 0) & ((r ^ y) < 0)) ? (C)y : 0));                       \
    }                                                                                     \
    INT_LOOP(div_##name, T, quotient_##name(x, y))                                        \
    INT_LOOP(floor_div_##name, T, floored_##name(x, y))                                   \
    INT_LOOP(fmod_##name, T, remainder_##name(x, y))                                      \
    INT_LOOP(mod_##name, T, modulo_##name(x, y))

#define UNSIGNED_DIVIDE(name, T, C, Q)                                                    \
    INT_LOOP(div_##name, T, Q(T))                                                         \
    INT_LOOP(mod_##name, T, (C)x - (C)Q(T) * (C)y)

SIGNED_DIVIDE(i8, int8_t, uint32_t, QUOTIENT_F)
SIGNED_DIVIDE(i16, int16_t, uint32_t, QUOTIENT_F)
SIGNED_DIVIDE(i32, int32_t, uint32_t, QUOTIENT_F)
SIGNED_DIVIDE(i64, int64_t, uint64_t, QUOTIENT_I)
UNSIGNED_DIVIDE(u8, uint8_t, uint32_t, QUOTIENT_F)
UNSIGNED_DIVIDE(u16, uint16_t, uint32_t, QUOTIENT_F)
UNSIGNED_DIVIDE(u32, uint32_t, uint32_t, QUOTIENT_F)
UNSIGNED_DIVIDE(u64, uint64_t, uint64_t, QUOTIENT_I)
#undef FAILURE

/* Exponentiation by squaring; one exponent for the whole block (x ** 2) makes
 * the loop over bits the outer one, and the inner one vectorises. */
#define FAILURE RLX_ERR_NEG_POWER
#define POWER(name, T, C, CHECK)                                                          \
    static int pow_##name(RLX_EW_ARGS) {                                                  \
        const T *a = a_, *b = b_;                                                         \
        T *d = dst;                                                                       \
        int varies = 0;                                                                   \
        CHECK;                                                                            \
        for (int64_t i = 0; i < n; i++) varies |= b[i] != b[0];                           \
        if (n > 0 && !varies && (b[0] == 2 || b[0] == 3)) {                               \
            T cube = b[0] == 3;                                                           \
            RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                   \
                C x = (C)a[i];                                                            \
                d[i] = (T)(x * x * (cube ? x : 1));                                       \
            }                                                                             \
            return RLX_OK;                                                                \
        }                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                 \
            C x = (C)a[i], r = 1;                                                         \
            for (C e = (C)b[i]; e; e >>= 1) {                                             \
                if (e & 1)                                                                \
                    r *= x;                                                               \
                x *= x;                                                                   \
            }                                                                             \
            d[i] = (T)r;                                                                  \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
#define SIGNED_POWER(name, T, C, U) POWER(name, T, C, FIND(b[i] < 0))
#define UNSIGNED_POWER(name, T, C, U) POWER(name, T, C, (void)0)
RLX_SIGNED_INTS(SIGNED_POWER)
RLX_UNSIGNED_INTS(UNSIGNED_POWER)
#undef FAILURE

RLX_INLINE double fmod_of_f64(double x, double y) { return fmod(x, y); }

RLX_INLINE float fmod_of_f32(float x, float y) {
    double ax = __builtin_fabs((double)x), ay = __builtin_fabs((double)y);
    double q = ax / ay;
    if (__builtin_expect(!(q < 0x1p29) || !(ay < __builtin_inf()), 0))
        return fmodf(x, y);
    double r = ax - __builtin_floor(q) * ay;
    r = r < 0 ? r + ay : r;
    return (float)__builtin_copysign(r, (double)x);
}

#define FLOAT_REMAINDERS(name, T, U, f)                                                   \
    RLX_INLINE T mod_of_##name(T x, T y) {                                                \
        T r = fmod_of_##name(x, y);                                                       \
        if (r != 0 && (y < 0) != (r < 0) && y == y)                                       \
            return r + y;                                                                 \
        return r == 0 ? __builtin_copysign##f(r, y) : r;                                  \
    }                                                                                     \
    RLX_INLINE T floor_div_of_##name(T x, T y) {                                          \
        if (y == 0)                                                                       \
            return x / y;                                                                 \
        T r = fmod_of_##name(x, y), q = (x - r) / y;                                      \
        if (r != 0 && (y < 0) != (r < 0))                                                 \
            q -= 1;                                                                       \
        if (q == 0)                                                                       \
            return __builtin_copysign##f((T)0, x / y);                                    \
        T low = __builtin_floor##f(q);                                                    \
        return q - low > (T)0.5 ? low + 1 : low;                                          \
    }                                                                                     \
    RLX_EW2(fmod_##name, T, T, fmod_of_##name(x, y))                                      \
    RLX_EW2(mod_##name, T, T, mod_of_##name(x, y))                                        \
    RLX_EW2(floor_div_##name, T, T, floor_div_of_##name(x, y))
RLX_FLOATS(FLOAT_REMAINDERS)

#define SIGNED_NAMES(name, T, C, U)                                                       \
    {"div." #name, div_##name, 2}, {"floor_div." #name, floor_div_##name, 2},             \
        {"mod." #name, mod_##name, 2}, {"fmod." #name, fmod_##name, 2},                   \
        {"pow." #name, pow_##name, 2},
#define UNSIGNED_NAMES(name, T, C, U)                                                     \
    {"div." #name, div_##name, 2}, {"floor_div." #name, div_##name, 2},                   \
        {"mod." #name, mod_##name, 2}, {"fmod." #name, mod_##name, 2},                    \
        {"pow." #name, pow_##name, 2},
#define FLOAT_NAMES(name, T, U, f)                                                        \
    {"floor_div." #name, floor_div_##name, 2}, {"mod." #name, mod_##name, 2},             \
        {"fmod." #name, fmod_##name, 2},

const rlx_ew_row rlx_ews_ew_divide[] = {
    RLX_SIGNED_INTS(SIGNED_NAMES)
    RLX_UNSIGNED_INTS(UNSIGNED_NAMES)
    RLX_FLOATS(FLOAT_NAMES)
    {NULL, NULL, 0},
};
