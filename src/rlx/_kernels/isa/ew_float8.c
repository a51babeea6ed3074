/* Elementwise casts to and from the float8 formats: rows cast_<to>.<from>, where one is float8.
 *
 * Semantics: as in ew_cast.c; to float8, p[0] != 0 saturates (float8.h).
 *
 * Design: one scalar expression per pair, which the compiler turns into vectors: the codec has no
 * branches, and wide sources are rounded to odd on the way, so that there is one rounding. */
#include "float8.h"

typedef float _Complex c64;
typedef double _Complex c128;

#define SATURATES uint32_t saturate = p[0] != 0
#define ENCODE(fmt, FMT, from, FROM, wide) \
    RLX_EW1S(cast_##fmt##_##from, FROM, uint8_t, SATURATES, RLX_TO_##FMT(wide, saturate))
#define ENCODERS(fmt, FMT)                                                   \
    ENCODE(fmt, FMT, f32, float, x)                                          \
    ENCODE(fmt, FMT, f64, double, rlx_f64_to_f32_odd(x))                     \
    ENCODE(fmt, FMT, f16, uint16_t, rlx_f16_to_f32(x))                       \
    ENCODE(fmt, FMT, bf16, uint16_t, rlx_bf16_to_f32(x))                     \
    ENCODE(fmt, FMT, i8, int8_t, (float)x)                                   \
    ENCODE(fmt, FMT, i16, int16_t, (float)x)                                 \
    ENCODE(fmt, FMT, i32, int32_t, rlx_f64_to_f32_odd((double)x))            \
    ENCODE(fmt, FMT, i64, int64_t, rlx_f64_to_f32_odd(rlx_i64_to_f64_sticky(x))) \
    ENCODE(fmt, FMT, u8, uint8_t, (float)x)                                  \
    ENCODE(fmt, FMT, u16, uint16_t, (float)x)                                \
    ENCODE(fmt, FMT, u32, uint32_t, rlx_f64_to_f32_odd((double)x))           \
    ENCODE(fmt, FMT, u64, uint64_t, rlx_f64_to_f32_odd(rlx_u64_to_f64_sticky(x))) \
    ENCODE(fmt, FMT, c64, c64, __real__ x)                                   \
    ENCODE(fmt, FMT, c128, c128, rlx_f64_to_f32_odd(__real__ x))

/* No finite value of a format is beyond 2^17, so more stands for infinity. */
RLX_INLINE int32_t whole(float x) {
    x = x == x ? x : 0;
    x = x < -0x1p17f ? -0x1p17f : x;
    return (int32_t)(x > 0x1p17f ? 0x1p17f : x);
}
RLX_INLINE int32_t within(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }
RLX_INLINE int64_t bounded(int32_t v, int64_t low, int64_t high) { return v <= -131072 ? low : v >= 131072 ? high : v; }

#define DECODE(fmt, FMT, to, TO, ...) RLX_EW1(cast_##to##_##fmt, uint8_t, TO, __VA_ARGS__)
#define DECODERS(fmt, FMT)                                                                       \
    DECODE(fmt, FMT, f32, float, RLX_FROM_##FMT(x))                                              \
    DECODE(fmt, FMT, f64, double, RLX_FROM_##FMT(x))                                             \
    DECODE(fmt, FMT, f16, uint16_t, rlx_f32_to_f16(RLX_FROM_##FMT(x)))                           \
    DECODE(fmt, FMT, bf16, uint16_t, rlx_f32_to_bf16(RLX_FROM_##FMT(x)))                         \
    DECODE(fmt, FMT, i8, int8_t, within(whole(RLX_FROM_##FMT(x)), INT8_MIN, INT8_MAX))           \
    DECODE(fmt, FMT, i16, int16_t, within(whole(RLX_FROM_##FMT(x)), INT16_MIN, INT16_MAX))       \
    DECODE(fmt, FMT, i32, int32_t, bounded(whole(RLX_FROM_##FMT(x)), INT32_MIN, INT32_MAX))      \
    DECODE(fmt, FMT, i64, int64_t, bounded(whole(RLX_FROM_##FMT(x)), INT64_MIN, INT64_MAX))      \
    DECODE(fmt, FMT, u8, uint8_t, within(whole(RLX_FROM_##FMT(x)), 0, UINT8_MAX))                \
    DECODE(fmt, FMT, u16, uint16_t, within(whole(RLX_FROM_##FMT(x)), 0, UINT16_MAX))             \
    DECODE(fmt, FMT, u32, uint32_t, bounded(within(whole(RLX_FROM_##FMT(x)), 0, 131072), 0, UINT32_MAX)) \
    DECODE(fmt, FMT, u64, uint64_t, bounded(within(whole(RLX_FROM_##FMT(x)), 0, 131072), 0, -1)) \
    DECODE(fmt, FMT, bool, uint8_t, RLX_FROM_##FMT(x) != 0)                                      \
    DECODE(fmt, FMT, c64, c64, RLX_FROM_##FMT(x))                                                \
    DECODE(fmt, FMT, c128, c128, RLX_FROM_##FMT(x))

#define RECODE(to, TO, from, FROM) ENCODE(to, TO, from, uint8_t, RLX_FROM_##FROM(x))

#define FORMATS(M) M(f8e4m3fn, F8E4M3FN) M(f8e5m2, F8E5M2) M(f8e4m3fnuz, F8E4M3FNUZ) M(f8e5m2fnuz, F8E5M2FNUZ)
FORMATS(ENCODERS)
FORMATS(DECODERS)
RECODE(f8e4m3fn, F8E4M3FN, f8e4m3fn, F8E4M3FN)
RECODE(f8e5m2, F8E5M2, f8e5m2, F8E5M2)
RECODE(f8e4m3fnuz, F8E4M3FNUZ, f8e4m3fnuz, F8E4M3FNUZ)
RECODE(f8e5m2fnuz, F8E5M2FNUZ, f8e5m2fnuz, F8E5M2FNUZ)
RECODE(f8e4m3fn, F8E4M3FN, f8e5m2, F8E5M2)
RECODE(f8e4m3fn, F8E4M3FN, f8e4m3fnuz, F8E4M3FNUZ)
RECODE(f8e4m3fn, F8E4M3FN, f8e5m2fnuz, F8E5M2FNUZ)
RECODE(f8e5m2, F8E5M2, f8e4m3fn, F8E4M3FN)
RECODE(f8e5m2, F8E5M2, f8e4m3fnuz, F8E4M3FNUZ)
RECODE(f8e5m2, F8E5M2, f8e5m2fnuz, F8E5M2FNUZ)
RECODE(f8e4m3fnuz, F8E4M3FNUZ, f8e4m3fn, F8E4M3FN)
RECODE(f8e4m3fnuz, F8E4M3FNUZ, f8e5m2, F8E5M2)
RECODE(f8e4m3fnuz, F8E4M3FNUZ, f8e5m2fnuz, F8E5M2FNUZ)
RECODE(f8e5m2fnuz, F8E5M2FNUZ, f8e4m3fn, F8E4M3FN)
RECODE(f8e5m2fnuz, F8E5M2FNUZ, f8e5m2, F8E5M2)
RECODE(f8e5m2fnuz, F8E5M2FNUZ, f8e4m3fnuz, F8E4M3FNUZ)

#define ROW(to, from) {"cast_" #to "." #from, cast_##to##_##from, 1}
#define WITH(M, fmt)                                                                              \
    M(fmt, f32), M(fmt, f64), M(fmt, f16), M(fmt, bf16), M(fmt, i8), M(fmt, i16), M(fmt, i32),    \
        M(fmt, i64), M(fmt, u8), M(fmt, u16), M(fmt, u32), M(fmt, u64), M(fmt, c64), M(fmt, c128)
#define BACK(fmt, to) ROW(to, fmt)
#define ROWS(fmt, FMT)                                                                     \
    WITH(ROW, fmt), {"cast_" #fmt ".bool", cast_##fmt##_u8, 1}, WITH(BACK, fmt),           \
        ROW(bool, fmt), ROW(fmt, fmt),

const rlx_ew_row rlx_ews_ew_float8[] = {
    FORMATS(ROWS)
    ROW(f8e4m3fn, f8e5m2), ROW(f8e4m3fn, f8e4m3fnuz), ROW(f8e4m3fn, f8e5m2fnuz),
    ROW(f8e5m2, f8e4m3fn), ROW(f8e5m2, f8e4m3fnuz), ROW(f8e5m2, f8e5m2fnuz),
    ROW(f8e4m3fnuz, f8e4m3fn), ROW(f8e4m3fnuz, f8e5m2), ROW(f8e4m3fnuz, f8e5m2fnuz),
    ROW(f8e5m2fnuz, f8e4m3fn), ROW(f8e5m2fnuz, f8e5m2), ROW(f8e5m2fnuz, f8e4m3fnuz),
    {NULL, NULL, 0},
};
