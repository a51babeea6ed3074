/* Loops of elementwise micro-kernels.
 *
 * A kernel is one scalar expression. The macros below put it into a loop over
 * whole vectors (the compiler vectorises it; the trip count is a multiple of
 * the lanes, so there is no epilogue) and into a tail that copies the last
 * elements to a zero-padded block, runs the same loop once over that block and
 * stores the valid bytes. Body and tail are thus one and the same code. No
 * byte outside the operands is read: AVX-512 masks the loads and stores, other
 * levels copy in power-of-two pieces.
 *
 * `ivdep` says that iterations are independent: dst may equal an operand (same
 * index), never overlap it partially.
 */
#ifndef RLX_EW_H
#define RLX_EW_H

#include "abi.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#define RLX_VB 64
#elif defined(__AVX2__)
#include <immintrin.h>
#define RLX_VB 32
#else
#define RLX_VB 16
#endif

#define RLX_IVDEP _Pragma("GCC ivdep")
#define RLX_INLINE static inline __attribute__((always_inline))

#if !defined(__AVX512BW__)
RLX_INLINE void rlx_copy_small(char *dst, const char *src, int64_t bytes) {
#if RLX_VB > 16
    if (bytes & 16) {
        memcpy(dst, src, 16);
        dst += 16, src += 16;
    }
#endif
    if (bytes & 8) {
        memcpy(dst, src, 8);
        dst += 8, src += 8;
    }
    if (bytes & 4) {
        memcpy(dst, src, 4);
        dst += 4, src += 4;
    }
    if (bytes & 2) {
        memcpy(dst, src, 2);
        dst += 2, src += 2;
    }
    if (bytes & 1)
        *dst = *src;
}
#endif

/* `count` items, fewer than RLX_VB bytes; block holds RLX_VB bytes and is zeroed
 * beyond them. */
#if defined(__AVX512BW__)
#define RLX_TAIL_MASK(bytes) ((__mmask64)((1ULL << (bytes)) - 1))
#elif defined(__AVX2__)
RLX_INLINE __m256i rlx_tail_mask(int64_t words) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)words),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

RLX_INLINE void rlx_load_tail(void *block, const void *src, int64_t count, int64_t item) {
#if defined(__AVX512BW__)
    _mm512_store_si512(block, _mm512_maskz_loadu_epi8(RLX_TAIL_MASK(count * item), src));
#else
#if defined(__AVX2__)
    if (item % 4 == 0) {
        __m256i mask = rlx_tail_mask(count * item / 4);
        _mm256_store_si256(block, _mm256_maskload_epi32(src, mask));
        return;
    }
#endif
    memset(block, 0, RLX_VB);
    rlx_copy_small(block, src, count * item);
#endif
}

RLX_INLINE void rlx_store_tail(void *dst, const void *block, int64_t count, int64_t item) {
#if defined(__AVX512BW__)
    _mm512_mask_storeu_epi8(dst, RLX_TAIL_MASK(count * item), _mm512_load_si512(block));
#else
#if defined(__AVX2__)
    if (item % 4 == 0) {
        __m256i mask = rlx_tail_mask(count * item / 4);
        _mm256_maskstore_epi32(dst, mask, _mm256_load_si256(block));
        return;
    }
#endif
    rlx_copy_small(dst, block, count * item);
#endif
}

#define RLX_MAX2(a, b) ((a) > (b) ? (a) : (b))
#define RLX_BLOCK(T, name) T name[RLX_VB / sizeof(T)] __attribute__((aligned(64)))

#define RLX_EW_ARGS                                                                         \
    void *dst, const void *a_, const void *b_, const void *c_, int64_t n, const double *p, \
        rlx_error *err

/* One operand: expression in x. Setup runs before the loop (reads p). */
#define RLX_EW1S(fn, TA, TO, SETUP, ...)                                             \
    static int fn(RLX_EW_ARGS) {                                                     \
        enum { W = RLX_VB / RLX_MAX2(sizeof(TA), sizeof(TO)) };                      \
        const TA *a = a_;                                                            \
        TO *d = dst;                                                                 \
        int64_t m = n & ~(int64_t)(W - 1);                                           \
        SETUP;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < m; i++) {                                  \
            TA x = a[i];                                                             \
            d[i] = (TO)(__VA_ARGS__);                                                \
        }                                                                            \
        if (m < n) {                                                                 \
            RLX_BLOCK(TA, ta);                                                       \
            RLX_BLOCK(TO, td);                                                       \
            rlx_load_tail(ta, a + m, n - m, sizeof(TA));                             \
            RLX_IVDEP for (int64_t i = 0; i < W; i++) {                              \
                TA x = ta[i];                                                        \
                td[i] = (TO)(__VA_ARGS__);                                           \
            }                                                                        \
            rlx_store_tail(d + m, td, n - m, sizeof(TO));                            \
        }                                                                            \
        return RLX_OK;                                                               \
    }
#define RLX_EW1(fn, TA, TO, ...) RLX_EW1S(fn, TA, TO, (void)0, __VA_ARGS__)

/* Two operands of one type: expression in x and y. */
#define RLX_EW2(fn, TA, TO, ...)                                                     \
    static int fn(RLX_EW_ARGS) {                                                     \
        enum { W = RLX_VB / RLX_MAX2(sizeof(TA), sizeof(TO)) };                      \
        const TA *a = a_, *b = b_;                                                   \
        TO *d = dst;                                                                 \
        int64_t m = n & ~(int64_t)(W - 1);                                           \
        RLX_IVDEP for (int64_t i = 0; i < m; i++) {                                  \
            TA x = a[i], y = b[i];                                                   \
            d[i] = (TO)(__VA_ARGS__);                                                \
        }                                                                            \
        if (m < n) {                                                                 \
            RLX_BLOCK(TA, ta);                                                       \
            RLX_BLOCK(TA, tb);                                                       \
            RLX_BLOCK(TO, td);                                                       \
            rlx_load_tail(ta, a + m, n - m, sizeof(TA));                             \
            rlx_load_tail(tb, b + m, n - m, sizeof(TA));                             \
            RLX_IVDEP for (int64_t i = 0; i < W; i++) {                              \
                TA x = ta[i], y = tb[i];                                             \
                td[i] = (TO)(__VA_ARGS__);                                           \
            }                                                                        \
            rlx_store_tail(d + m, td, n - m, sizeof(TO));                            \
        }                                                                            \
        return RLX_OK;                                                               \
    }

/* Three operands, the first of type TA, the others and the result of type T:
 * expression in x, y, z. */
#define RLX_EW3(fn, TA, T, ...)                                                      \
    static int fn(RLX_EW_ARGS) {                                                     \
        enum { W = RLX_VB / RLX_MAX2(sizeof(TA), sizeof(T)) };                       \
        const TA *a = a_;                                                            \
        const T *b = b_, *c = c_;                                                    \
        T *d = dst;                                                                  \
        int64_t m = n & ~(int64_t)(W - 1);                                           \
        RLX_IVDEP for (int64_t i = 0; i < m; i++) {                                  \
            TA x = a[i];                                                             \
            T y = b[i], z = c[i];                                                    \
            d[i] = (T)(__VA_ARGS__);                                                 \
        }                                                                            \
        if (m < n) {                                                                 \
            RLX_BLOCK(TA, ta);                                                       \
            RLX_BLOCK(T, tb);                                                        \
            RLX_BLOCK(T, tc);                                                        \
            RLX_BLOCK(T, td);                                                        \
            rlx_load_tail(ta, a + m, n - m, sizeof(TA));                             \
            rlx_load_tail(tb, b + m, n - m, sizeof(T));                              \
            rlx_load_tail(tc, c + m, n - m, sizeof(T));                              \
            RLX_IVDEP for (int64_t i = 0; i < W; i++) {                              \
                TA x = ta[i];                                                        \
                T y = tb[i], z = tc[i];                                              \
                td[i] = (T)(__VA_ARGS__);                                            \
            }                                                                        \
            rlx_store_tail(d + m, td, n - m, sizeof(T));                             \
        }                                                                            \
        return RLX_OK;                                                               \
    }

/* Integer types: name, type, the unsigned type arithmetic is done in (so that
 * it wraps), the unsigned type of the same width. */
#define RLX_SIGNED_INTS(X)                  \
    X(i8, int8_t, uint32_t, uint8_t)        \
    X(i16, int16_t, uint32_t, uint16_t)     \
    X(i32, int32_t, uint32_t, uint32_t)     \
    X(i64, int64_t, uint64_t, uint64_t)
#define RLX_UNSIGNED_INTS(X)                \
    X(u8, uint8_t, uint32_t, uint8_t)       \
    X(u16, uint16_t, uint32_t, uint16_t)    \
    X(u32, uint32_t, uint32_t, uint32_t)    \
    X(u64, uint64_t, uint64_t, uint64_t)
#define RLX_INTS(X) RLX_SIGNED_INTS(X) RLX_UNSIGNED_INTS(X)

/* Float types: name, type, the unsigned type of the same width, suffix of the
 * built-in functions. */
#define RLX_FLOATS(X)             \
    X(f32, float, uint32_t, f)    \
    X(f64, double, uint64_t, )

RLX_INLINE uint32_t rlx_bits_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
RLX_INLINE float rlx_from_bits_f32(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
RLX_INLINE uint64_t rlx_bits_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
RLX_INLINE double rlx_from_bits_f64(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}

#endif
