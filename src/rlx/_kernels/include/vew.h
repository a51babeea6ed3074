/* Loops of elementwise micro-kernels whose body is an expression of whole
 * vectors (types of tile.h): full registers, then one masked register, so the
 * tail is the same code and touches nothing outside.
 *
 * Vectors come in groups whose instructions are mixed (schedule-insns, which GCC leaves out on x86):
 * the chain of one takes 50 to 100 cycles, and a scheduler filled with it has no room for the next.
 *
 * SETUP runs once (reads p); the expression is in x, or in x and y. */
#ifndef RLX_VEW_H
#define RLX_VEW_H

#include "ew.h"
#include "tile.h"

#if defined(__AVX512F__)
#define RLX_VEW_GROUP 4
#elif defined(__AVX2__)
#define RLX_VEW_GROUP 2
#else
#define RLX_VEW_GROUP 1
#endif
#define RLX_VEW_EACH _Pragma("GCC unroll 4") for (int k = 0; k < RLX_VEW_GROUP; k++)

#define RLX_VEW1(fn, T, V, W, f, SETUP, ...)                            \
    static int fn(RLX_EW_ARGS) {                                        \
        const T *a = a_;                                                \
        T *d = dst;                                                     \
        SETUP;                                                          \
        int64_t i = 0;                                                  \
        for (; i + RLX_VEW_GROUP * W <= n; i += RLX_VEW_GROUP * W) {    \
            V v[RLX_VEW_GROUP];                                         \
            RLX_VEW_EACH v[k] = *(const V##u *)(a + i + k * W);         \
            RLX_VEW_EACH {                                              \
                V x = v[k];                                             \
                v[k] = __VA_ARGS__;                                     \
            }                                                           \
            RLX_VEW_EACH *(V##u *)(d + i + k * W) = v[k];               \
        }                                                               \
        for (; i + W <= n; i += W) {                                    \
            V x = *(const V##u *)(a + i);                               \
            *(V##u *)(d + i) = __VA_ARGS__;                             \
        }                                                               \
        if (i < n) {                                                    \
            V x = rlx_load_part_##f(a + i, n - i);                      \
            rlx_store_part_##f(d + i, __VA_ARGS__, n - i);              \
        }                                                               \
        return RLX_OK;                                                  \
    }
#define RLX_VEW2(fn, T, V, W, f, ...)                                   \
    static int fn(RLX_EW_ARGS) {                                        \
        const T *a = a_, *b = b_;                                       \
        T *d = dst;                                                     \
        int64_t i = 0;                                                  \
        for (; i + W <= n; i += W) {                                    \
            V x = *(const V##u *)(a + i), y = *(const V##u *)(b + i);   \
            *(V##u *)(d + i) = __VA_ARGS__;                             \
        }                                                               \
        if (i < n) {                                                    \
            V x = rlx_load_part_##f(a + i, n - i);                      \
            V y = rlx_load_part_##f(b + i, n - i);                      \
            rlx_store_part_##f(d + i, __VA_ARGS__, n - i);              \
        }                                                               \
        return RLX_OK;                                                  \
    }
#define RLX_VEW1_F32(fn, SETUP, ...)                                    \
    RLX_VEW1(fn, float, rlx_v32, RLX_W32, f32, SETUP, __VA_ARGS__)
#define RLX_VEW1_F64(fn, SETUP, ...)                                    \
    RLX_VEW1(fn, double, rlx_v64, RLX_W64, f64, SETUP, __VA_ARGS__)

/* Here a product ends: it is not fused into the sum that follows. */
#if defined(__AVX512F__)
#define RLX_VEND(x) __asm__("" : "+v"(x))
#elif defined(__x86_64__)
#define RLX_VEND(x) __asm__("" : "+x"(x))
#else
#define RLX_VEND(x) __asm__("" : "+w"(x))
#endif

/* f32 by a function of whole groups, some(v, count), with an operation before and one after it: BEFORE is in x, of the
 * first operand, and SECOND; AFTER in x, the value, and SECOND or THIRD. */
RLX_INLINE rlx_v32 rlx_vew_load(const float *p, int k, int64_t n) {
    return n < RLX_W32 ? rlx_load_part_f32(p, n) : (rlx_v32) * (const rlx_v32u *)(p + k * RLX_W32);
}
#define SECOND rlx_vew_load(b, k, n)
#define THIRD rlx_vew_load(c, k, n)
#define RLX_VEWF(fn, some, BEFORE, AFTER)                                                                    \
    /* `count` whole vectors, or one of n elements */                                                        \
    RLX_INLINE void fn##_group(float *d, const float *a, const float *b, const float *c, const int count,    \
                               const int64_t n) {                                                            \
        rlx_v32 v[RLX_VEW_GROUP];                                                                            \
        _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) {                                            \
            rlx_v32 x = rlx_vew_load(a, k, n);                                                                     \
            v[k] = BEFORE;                                                                                   \
            RLX_VEND(v[k]);                                                                                  \
        }                                                                                                    \
        some(v, count);                                                                                      \
        _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) {                                            \
            rlx_v32 x = v[k];                                                                                \
            RLX_VEND(x);                                                                                     \
            x = AFTER;                                                                                       \
            if (n < RLX_W32)                                                                                 \
                rlx_store_part_f32(d, x, n);                                                                 \
            else                                                                                             \
                *(rlx_v32u *)(d + k * RLX_W32) = x;                                                          \
        }                                                                                                    \
    }                                                                                                        \
    static int fn(RLX_EW_ARGS) {                                                                             \
        const float *a = a_, *b = b_, *c = c_;                                                               \
        float *d = dst;                                                                                      \
        int64_t i = 0;                                                                                       \
        for (; i + RLX_VEW_GROUP * RLX_W32 <= n; i += RLX_VEW_GROUP * RLX_W32)                               \
            fn##_group(d + i, a + i, b + i, c + i, RLX_VEW_GROUP, RLX_W32);                                  \
        for (; i + RLX_W32 <= n; i += RLX_W32)                                                               \
            fn##_group(d + i, a + i, b + i, c + i, 1, RLX_W32);                                              \
        if (i < n)                                                                                           \
            fn##_group(d + i, a + i, b + i, c + i, 1, n - i);                                                \
        return RLX_OK;                                                                                       \
    }

/* Powers: x^2 is x x in every lane, so a block of squares may take the short way. */
#define RLX_POWERS(T, f, general)                                       \
    static int pow_##f(RLX_EW_ARGS) {                                   \
        const T *a = a_, *b = b_;                                       \
        T *d = dst;                                                     \
        int other = 0;                                                  \
        for (int64_t i = 0; i < n; i++)                                 \
            other |= b[i] != 2;                                         \
        if (other)                                                      \
            return general(dst, a_, b_, NULL, n, p, err);               \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) d[i] = a[i] * a[i];   \
        return RLX_OK;                                                  \
    }

#endif
