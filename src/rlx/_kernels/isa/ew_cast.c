/* Elementwise casts between all types: rows cast_<to>.<from>, and the roundings
 * round_f16.f32, round_bf16.f32 (f32 in, f32 out).
 *
 * Semantics: float to integer truncates, saturates and maps NaN to 0; integer
 * to integer wraps; anything to bool is != 0 (NaN is true); complex to real
 * takes the real part; every float target is rounded once.
 *
 * Design: casts among the integers, f32 and f64 are one scalar expression in
 * the loops of ew.h. f16 and bf16 go through a block of float on the stack
 * (exact on the way in; on the way out wide sources are first rounded to odd,
 * see half.h), complex through a block of its part type. A cast in place
 * (dst == a) is right when the target is not larger than the source. */
#include "half.h"
#include "narrow.h"

#define WRAP(to, TO, from, FROM) RLX_EW1(cast_##to##_##from, FROM, TO, x)
#define FROM_INTS(M, to, TO)                                                              \
    M(to, TO, i8, int8_t) M(to, TO, i16, int16_t) M(to, TO, i32, int32_t)                 \
    M(to, TO, i64, int64_t) M(to, TO, u8, uint8_t) M(to, TO, u16, uint16_t)               \
    M(to, TO, u32, uint32_t) M(to, TO, u64, uint64_t)
#define INT_FROM_INTS(to, TO, C, U) FROM_INTS(WRAP, to, TO)
RLX_INTS(INT_FROM_INTS)
FROM_INTS(WRAP, f32, float)
FROM_INTS(WRAP, f64, double)
WRAP(f64, double, f32, float)
WRAP(f32, float, f64, double)

/* Float to integer. Narrow types clamp, then truncate. Types whose bounds are
 * not exact in the float clamp below (a power of two) and compare above. */
#define CLAMPED(to, TO, from, FROM, LOW, HIGH)                                            \
    RLX_INLINE TO sat_##to##_##from(FROM x) {                                             \
        x = x == x ? x : 0;                                                               \
        x = x < LOW ? LOW : x;                                                            \
        x = x > HIGH ? HIGH : x;                                                          \
        return (TO)(int32_t)x;                                                            \
    }
#define CLAMP_LOOP(to, TO, from, FROM) \
    RLX_EW1(cast_##to##_##from, FROM, TO, sat_##to##_##from(x))
#define BOUNDED(to, TO, from, FROM, LOW, END, LAST)                                       \
    RLX_INLINE TO sat_##to##_##from(FROM x) {                                             \
        x = x == x ? x : 0;                                                               \
        x = x < LOW ? LOW : x;                                                            \
        TO r = (TO)(x >= END ? 0 : x);                                                    \
        return x >= END ? LAST : r;                                                       \
    }                                                                                     \
    RLX_EW1(cast_##to##_##from, FROM, TO, sat_##to##_##from(x))
#define INTS_FROM_FLOAT(from, FROM)                                                       \
    CLAMPED(i8, int8_t, from, FROM, -128, 127)                                            \
    CLAMPED(u8, uint8_t, from, FROM, 0, 255)                                              \
    CLAMPED(i16, int16_t, from, FROM, -32768, 32767)                                      \
    CLAMPED(u16, uint16_t, from, FROM, 0, 65535)                                          \
    BOUNDED(i32, int32_t, from, FROM, -0x1p31f, 0x1p31f, INT32_MAX)                       \
    BOUNDED(u32, uint32_t, from, FROM, 0, 0x1p32f, UINT32_MAX)                            \
    BOUNDED(i64, int64_t, from, FROM, -0x1p63f, 0x1p63f, INT64_MAX)                       \
    BOUNDED(u64, uint64_t, from, FROM, 0, 0x1p64f, UINT64_MAX)
INTS_FROM_FLOAT(f32, float)
INTS_FROM_FLOAT(f64, double)
CLAMP_LOOP(i8, int8_t, f64, double)
CLAMP_LOOP(u8, uint8_t, f64, double)
CLAMP_LOOP(i16, int16_t, f64, double)
CLAMP_LOOP(u16, uint16_t, f64, double)

/* f32 to narrow integers, the way out of dequantised blocks. */
#define NARROW(to, TO)                                                                    \
    static int cast_##to##_f32(RLX_EW_ARGS) {                                             \
        const float *a = a_;                                                              \
        TO *d = dst;                                                                      \
        int64_t i = 0;                                                                    \
        for (; i + RLX_W32 <= n; i += RLX_W32)                                            \
            rlx_narrow_##to(d + i, *(const rlx_v32u *)(a + i));                           \
        if (i < n)                                                                        \
            rlx_narrow_part_##to(d + i, rlx_load_part_f32(a + i, n - i), n - i);          \
        return RLX_OK;                                                                    \
    }
NARROW(i8, int8_t)
NARROW(i16, int16_t)
NARROW(u8, uint8_t)
NARROW(u16, uint16_t)

#define TRUTH(to, TO, from, FROM) RLX_EW1(cast_##to##_##from, FROM, TO, x != 0)
FROM_INTS(TRUTH, bool, uint8_t)
TRUTH(bool, uint8_t, f32, float)
TRUTH(bool, uint8_t, f64, double)
RLX_EW1(cast_bool_f16, uint16_t, uint8_t, (x & 0x7FFFu) != 0)

/* f16 and bf16 */
#if defined(__AVX512BW__)
static int cast_f32_f16(RLX_EW_ARGS) {
    const uint16_t *a = a_;
    float *d = dst;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(a + i))));
    if (i < n) {
        __mmask16 m = (__mmask16)((1u << (n - i)) - 1);
        _mm512_mask_storeu_ps(d + i, m, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, a + i)));
    }
    return RLX_OK;
}
static int cast_f16_f32(RLX_EW_ARGS) {
    const float *a = a_;
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(a + i), 0));
    if (i < n) {
        __mmask16 m = (__mmask16)((1u << (n - i)) - 1);
        _mm256_mask_storeu_epi16(d + i, m, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, a + i), 0));
    }
    return RLX_OK;
}
#elif defined(__F16C__)
static int cast_f32_f16(RLX_EW_ARGS) {
    const uint16_t *a = a_;
    float *d = dst;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(a + i))));
    for (; i < n; i++)
        d[i] = _cvtsh_ss(a[i]);
    return RLX_OK;
}
static int cast_f16_f32(RLX_EW_ARGS) {
    const float *a = a_;
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), 0));
    for (; i < n; i++)
        d[i] = _cvtss_sh(a[i], 0);
    return RLX_OK;
}
#else
RLX_EW1(cast_f32_f16, uint16_t, float, rlx_f16_to_f32(x))
RLX_EW1(cast_f16_f32, float, uint16_t, rlx_f32_to_f16(x))
#endif
RLX_EW1(cast_f32_bf16, uint16_t, float, rlx_bf16_to_f32(x))

#if defined(__AVX512BW__)
RLX_INLINE __m256i bf16_of_16(__m512 x) {
    __m512i u = _mm512_castps_si512(x), high = _mm512_srli_epi32(u, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i even = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, even), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(r, nan, high, _mm512_set1_epi32(0x40)));
}
static int cast_bf16_f32(RLX_EW_ARGS) {
    const float *a = a_;
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(d + i), bf16_of_16(_mm512_loadu_ps(a + i)));
    if (i < n) {
        __mmask16 m = (__mmask16)((1u << (n - i)) - 1);
        _mm256_mask_storeu_epi16(d + i, m, bf16_of_16(_mm512_maskz_loadu_ps(m, a + i)));
    }
    return RLX_OK;
}
#elif defined(__AVX2__)
RLX_INLINE __m256i bf16_of_8(const float *a) {
    __m256 x = _mm256_loadu_ps(a);
    __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i even = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, even), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(nan));
}
static int cast_bf16_f32(RLX_EW_ARGS) {
    const float *a = a_;
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i packed = _mm256_packus_epi32(bf16_of_8(a + i), bf16_of_8(a + i + 8));
        packed = _mm256_permute4x64_epi64(packed, 0xD8);
        _mm256_storeu_si256((__m256i *)(d + i), packed);
    }
    for (; i < n; i++)
        d[i] = rlx_f32_to_bf16(a[i]);
    return RLX_OK;
}
#else
RLX_EW1(cast_bf16_f32, float, uint16_t, rlx_f32_to_bf16(x))
#endif
RLX_EW1(round_bf16_f32, float, float, rlx_bf16_to_f32(rlx_f32_to_bf16(x)))

/* dst = second(first(a)) by blocks */
enum { BLOCK = 256 };
#define CHAIN(fn, FROM, MID, TO, first, second)                                           \
    static int fn(RLX_EW_ARGS) {                                                          \
        const char *a = a_;                                                               \
        char *d = dst;                                                                    \
        MID mid[BLOCK] __attribute__((aligned(64)));                                      \
        for (int64_t i = 0; i < n; i += BLOCK) {                                          \
            int64_t m = n - i < BLOCK ? n - i : BLOCK;                                    \
            first(mid, a + i * (int64_t)(FROM), NULL, NULL, m, p, err);                   \
            second(d + i * (int64_t)(TO), mid, NULL, NULL, m, p, err);                    \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
CHAIN(round_f16_f32, 4, uint16_t, 4, cast_f16_f32, cast_f32_f16)

/* Wide types to the float that is rounded next. All integers beyond 2^17 are
 * infinite in f16, and those within are exact in float. */
#define RANGED(from, FROM, bounded)                                                       \
    RLX_EW1(ranged_##from, FROM, float, (int32_t)(x > 131072 ? 131072 : bounded))
RANGED(i32, int32_t, x < -131072 ? -131072 : x)
RANGED(i64, int64_t, x < -131072 ? -131072 : x)
RANGED(u32, uint32_t, x)
RANGED(u64, uint64_t, x)
RLX_EW1(odd_f64, double, float, rlx_f64_to_f32_odd(x))
RLX_EW1(odd_i32, int32_t, float, rlx_f64_to_f32_odd((double)x))
RLX_EW1(odd_u32, uint32_t, float, rlx_f64_to_f32_odd((double)x))
RLX_EW1(odd_i64, int64_t, float, rlx_f64_to_f32_odd(rlx_i64_to_f64_sticky(x)))
RLX_EW1(odd_u64, uint64_t, float, rlx_f64_to_f32_odd(rlx_u64_to_f64_sticky(x)))

#define TO_HALF(half, wide)                                                               \
    CHAIN(cast_##half##_i8, 1, float, 2, cast_f32_i8, cast_##half##_f32)                  \
    CHAIN(cast_##half##_i16, 2, float, 2, cast_f32_i16, cast_##half##_f32)                \
    CHAIN(cast_##half##_i32, 4, float, 2, wide##_i32, cast_##half##_f32)                  \
    CHAIN(cast_##half##_i64, 8, float, 2, wide##_i64, cast_##half##_f32)                  \
    CHAIN(cast_##half##_u8, 1, float, 2, cast_f32_u8, cast_##half##_f32)                  \
    CHAIN(cast_##half##_u16, 2, float, 2, cast_f32_u16, cast_##half##_f32)                \
    CHAIN(cast_##half##_u32, 4, float, 2, wide##_u32, cast_##half##_f32)                  \
    CHAIN(cast_##half##_u64, 8, float, 2, wide##_u64, cast_##half##_f32)                  \
    CHAIN(cast_##half##_f64, 8, float, 2, odd_f64, cast_##half##_f32)
TO_HALF(f16, ranged)
TO_HALF(bf16, odd)
CHAIN(cast_f16_bf16, 2, float, 2, cast_f32_bf16, cast_f16_f32)
CHAIN(cast_bf16_f16, 2, float, 2, cast_f32_f16, cast_bf16_f32)

#define FROM_HALF(half)                                                                   \
    CHAIN(cast_i8_##half, 2, float, 1, cast_f32_##half, cast_i8_f32)                      \
    CHAIN(cast_i16_##half, 2, float, 2, cast_f32_##half, cast_i16_f32)                    \
    CHAIN(cast_i32_##half, 2, float, 4, cast_f32_##half, cast_i32_f32)                    \
    CHAIN(cast_i64_##half, 2, float, 8, cast_f32_##half, cast_i64_f32)                    \
    CHAIN(cast_u8_##half, 2, float, 1, cast_f32_##half, cast_u8_f32)                      \
    CHAIN(cast_u16_##half, 2, float, 2, cast_f32_##half, cast_u16_f32)                    \
    CHAIN(cast_u32_##half, 2, float, 4, cast_f32_##half, cast_u32_f32)                    \
    CHAIN(cast_u64_##half, 2, float, 8, cast_f32_##half, cast_u64_f32)                    \
    CHAIN(cast_f64_##half, 2, float, 8, cast_f32_##half, cast_f64_f32)
FROM_HALF(f16)
FROM_HALF(bf16)

/* complex: the parts of c64 are f32, those of c128 are f64 */
#define PARTS(name, T)                                                                    \
    static int cast_real_##name(RLX_EW_ARGS) {                                            \
        const T *a = a_;                                                                  \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) d[i] = a[2 * i];                        \
        return RLX_OK;                                                                    \
    }                                                                                     \
    static int cast_##name##_real(RLX_EW_ARGS) {                                          \
        const T *a = a_;                                                                  \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            d[2 * i] = a[i];                                                              \
            d[2 * i + 1] = 0;                                                             \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }                                                                                     \
    static int cast_bool_##name(RLX_EW_ARGS) {                                            \
        const T *a = a_;                                                                  \
        uint8_t *d = dst;                                                                 \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) d[i] =                                  \
            (uint8_t)((a[2 * i] != 0) | (a[2 * i + 1] != 0));                             \
        return RLX_OK;                                                                    \
    }
PARTS(c64, float)
PARTS(c128, double)

#define REALS_FROM(z, Z, part, PART)                                                      \
    CHAIN(cast_i8_##z, Z, PART, 1, cast_real_##z, cast_i8_##part)                         \
    CHAIN(cast_i16_##z, Z, PART, 2, cast_real_##z, cast_i16_##part)                       \
    CHAIN(cast_i32_##z, Z, PART, 4, cast_real_##z, cast_i32_##part)                       \
    CHAIN(cast_i64_##z, Z, PART, 8, cast_real_##z, cast_i64_##part)                       \
    CHAIN(cast_u8_##z, Z, PART, 1, cast_real_##z, cast_u8_##part)                         \
    CHAIN(cast_u16_##z, Z, PART, 2, cast_real_##z, cast_u16_##part)                       \
    CHAIN(cast_u32_##z, Z, PART, 4, cast_real_##z, cast_u32_##part)                       \
    CHAIN(cast_u64_##z, Z, PART, 8, cast_real_##z, cast_u64_##part)                       \
    CHAIN(cast_f16_##z, Z, PART, 2, cast_real_##z, cast_f16_##part)                       \
    CHAIN(cast_bf16_##z, Z, PART, 2, cast_real_##z, cast_bf16_##part)
REALS_FROM(c64, 8, f32, float)
REALS_FROM(c128, 16, f64, double)
CHAIN(cast_f64_c64, 8, float, 8, cast_real_c64, cast_f64_f32)
CHAIN(cast_f32_c128, 16, double, 4, cast_real_c128, cast_f32_f64)

#define TO_COMPLEX(z, Z, part, PART)                                                      \
    CHAIN(cast_##z##_i8, 1, PART, Z, cast_##part##_i8, cast_##z##_real)                   \
    CHAIN(cast_##z##_i16, 2, PART, Z, cast_##part##_i16, cast_##z##_real)                 \
    CHAIN(cast_##z##_i32, 4, PART, Z, cast_##part##_i32, cast_##z##_real)                 \
    CHAIN(cast_##z##_i64, 8, PART, Z, cast_##part##_i64, cast_##z##_real)                 \
    CHAIN(cast_##z##_u8, 1, PART, Z, cast_##part##_u8, cast_##z##_real)                   \
    CHAIN(cast_##z##_u16, 2, PART, Z, cast_##part##_u16, cast_##z##_real)                 \
    CHAIN(cast_##z##_u32, 4, PART, Z, cast_##part##_u32, cast_##z##_real)                 \
    CHAIN(cast_##z##_u64, 8, PART, Z, cast_##part##_u64, cast_##z##_real)                 \
    CHAIN(cast_##z##_f16, 2, PART, Z, cast_##part##_f16, cast_##z##_real)                 \
    CHAIN(cast_##z##_bf16, 2, PART, Z, cast_##part##_bf16, cast_##z##_real)
TO_COMPLEX(c64, 8, f32, float)
TO_COMPLEX(c128, 16, f64, double)
CHAIN(cast_c64_f64, 8, float, 8, cast_f32_f64, cast_c64_real)
CHAIN(cast_c128_f32, 4, double, 16, cast_f64_f32, cast_c128_real)

static int cast_c128_c64(RLX_EW_ARGS) {
    return cast_f64_f32(dst, a_, NULL, NULL, 2 * n, p, err);
}
static int cast_c64_c128(RLX_EW_ARGS) {
    return cast_f32_f64(dst, a_, NULL, NULL, 2 * n, p, err);
}

/* same type */
#define SAME(size)                                                                        \
    static int same_b##size(RLX_EW_ARGS) {                                                \
        if (n > 0 && dst != a_)                                                           \
            memmove(dst, a_, (size_t)n * size);                                           \
        return RLX_OK;                                                                    \
    }
SAME(1)
SAME(2)
SAME(4)
SAME(8)
SAME(16)

#define ROW(to, from) {"cast_" #to "." #from, cast_##to##_##from, 1}
#define ROWS_FROM_ALL(to)                                                                 \
    ROW(to, i8), ROW(to, i16), ROW(to, i32), ROW(to, i64), ROW(to, u8), ROW(to, u16),     \
        ROW(to, u32), ROW(to, u64), {"cast_" #to ".bool", cast_##to##_u8, 1},
#define ROWS_FROM_WIDE(to) ROW(to, f32), ROW(to, f64), ROW(to, c64), ROW(to, c128),
#define INT_ROWS(to, TO, C, U) \
    ROWS_FROM_ALL(to) ROWS_FROM_WIDE(to) ROW(to, f16), ROW(to, bf16),

const rlx_ew_row rlx_ews_ew_cast[] = {
    RLX_INTS(INT_ROWS)
    ROWS_FROM_ALL(f32)
    ROWS_FROM_ALL(f64)
    ROWS_FROM_ALL(f16) ROWS_FROM_WIDE(f16)
    ROWS_FROM_ALL(bf16) ROWS_FROM_WIDE(bf16)
    ROWS_FROM_ALL(c64)
    ROWS_FROM_ALL(c128)
    ROWS_FROM_WIDE(bool)
    ROW(bool, i8), ROW(bool, i16), ROW(bool, i32), ROW(bool, i64),
    ROW(bool, u8), ROW(bool, u16), ROW(bool, u32), ROW(bool, u64),
    ROW(bool, f16),
    {"cast_bool.bf16", cast_bool_f16, 1},
    {"cast_bool.bool", same_b1, 1},
    ROW(f32, f64), ROW(f32, f16), ROW(f32, bf16), ROW(f32, c128),
    {"cast_f32.c64", cast_real_c64, 1},
    {"cast_f32.f32", same_b4, 1},
    ROW(f64, f32), ROW(f64, f16), ROW(f64, bf16), ROW(f64, c64),
    {"cast_f64.c128", cast_real_c128, 1},
    {"cast_f64.f64", same_b8, 1},
    ROW(f16, bf16), ROW(bf16, f16),
    {"cast_f16.f16", same_b2, 1},
    {"cast_bf16.bf16", same_b2, 1},
    ROW(c64, f64), ROW(c64, f16), ROW(c64, bf16), ROW(c64, c128),
    {"cast_c64.f32", cast_c64_real, 1},
    {"cast_c64.c64", same_b8, 1},
    ROW(c128, f32), ROW(c128, f16), ROW(c128, bf16), ROW(c128, c64),
    {"cast_c128.f64", cast_c128_real, 1},
    {"cast_c128.c128", same_b16, 1},
    {"round_f16.f32", round_f16_f32, 1},
    {"round_bf16.f32", round_bf16_f32, 1},
    {NULL, NULL, 0},
};
