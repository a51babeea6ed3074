/* Elementwise comparisons, float classification, selection and clipping.
 *
 * Results of comparisons are bool: one byte, 0 or 1. Every comparison with NaN
 * is false, except ne. `where` moves items by their size, whatever their type;
 * any non-zero condition byte selects the second operand. `clip` keeps NaN,
 * and a NaN bound makes every result NaN (as numpy does). */
#include "ew.h"

#define COMPARE(name, T)                                                                  \
    RLX_EW2(eq_##name, T, uint8_t, x == y)                                                \
    RLX_EW2(ne_##name, T, uint8_t, x != y)                                                \
    RLX_EW2(lt_##name, T, uint8_t, x < y)                                                 \
    RLX_EW2(le_##name, T, uint8_t, x <= y)                                                \
    RLX_EW2(gt_##name, T, uint8_t, x > y)                                                 \
    RLX_EW2(ge_##name, T, uint8_t, x >= y)
#define COMPARE_INT(name, T, C, U) COMPARE(name, T)
#define COMPARE_FLOAT(name, T, U, f) COMPARE(name, T)
RLX_INTS(COMPARE_INT)
RLX_FLOATS(COMPARE_FLOAT)

#define COMPARE_COMPLEX(name, T)                                                          \
    static int eq_##name(RLX_EW_ARGS) {                                                   \
        const T *a = a_, *b = b_;                                                         \
        uint8_t *d = dst;                                                                 \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) d[i] =                                  \
            (uint8_t)((a[2 * i] == b[2 * i]) & (a[2 * i + 1] == b[2 * i + 1]));           \
        return RLX_OK;                                                                    \
    }                                                                                     \
    static int ne_##name(RLX_EW_ARGS) {                                                   \
        const T *a = a_, *b = b_;                                                         \
        uint8_t *d = dst;                                                                 \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) d[i] =                                  \
            (uint8_t)((a[2 * i] != b[2 * i]) | (a[2 * i + 1] != b[2 * i + 1]));           \
        return RLX_OK;                                                                    \
    }
COMPARE_COMPLEX(c64, float)
COMPARE_COMPLEX(c128, double)

RLX_EW1(not_bool, uint8_t, uint8_t, x ^ 1)

#define CLASSIFY(name, T, U, f)                                                           \
    RLX_EW1(isnan_##name, T, uint8_t, x != x)                                             \
    RLX_EW1(isfinite_##name, T, uint8_t, __builtin_fabs##f(x) < __builtin_inf##f())       \
    RLX_EW1S(isinf_##name, T, uint8_t,                                                    \
             T low = p[0] != 0 ? -__builtin_inf##f() : __builtin_nan##f("");              \
             T high = p[1] != 0 ? __builtin_inf##f() : __builtin_nan##f(""),              \
             (x == low) | (x == high))                                                    \
    RLX_EW1S(clip_##name, T, T,                                                           \
             T low = (T)p[0]; T high = (T)p[1];                                           \
             if (low != low || high != high) low = high = __builtin_nan##f("");           \
             int none = low != low,                                                       \
             none ? low : (x < low ? low : x) > high ? high : x < low ? low : x)
RLX_FLOATS(CLASSIFY)

RLX_EW3(where_b1, uint8_t, uint8_t, x ? y : z)
RLX_EW3(where_b2, uint8_t, uint16_t, x ? y : z)
RLX_EW3(where_b4, uint8_t, uint32_t, x ? y : z)
RLX_EW3(where_b8, uint8_t, uint64_t, x ? y : z)

static int where_b16(RLX_EW_ARGS) {
    const uint8_t *a = a_;
    const uint64_t *b = b_, *c = c_;
    uint64_t *d = dst;
    for (int64_t i = 0; i < n; i++) {
        uint64_t m = (uint64_t)0 - (a[i] != 0);
        d[2 * i] = (b[2 * i] & m) | (c[2 * i] & ~m);
        d[2 * i + 1] = (b[2 * i + 1] & m) | (c[2 * i + 1] & ~m);
    }
    return RLX_OK;
}

#define COMPARE_NAMES(name)                                                               \
    {"eq." #name, eq_##name, 2}, {"ne." #name, ne_##name, 2}, {"lt." #name, lt_##name, 2}, \
        {"le." #name, le_##name, 2}, {"gt." #name, gt_##name, 2}, {"ge." #name, ge_##name, 2},
#define INT_NAMES(name, T, C, U) COMPARE_NAMES(name)
#define FLOAT_NAMES(name, T, U, f)                                                        \
    COMPARE_NAMES(name)                                                                   \
    {"isnan." #name, isnan_##name, 1}, {"isinf." #name, isinf_##name, 1},                 \
        {"isfinite." #name, isfinite_##name, 1}, {"clip." #name, clip_##name, 1},

const rlx_ew_row rlx_ews_ew_compare[] = {
    RLX_INTS(INT_NAMES)
    RLX_FLOATS(FLOAT_NAMES)
    {"eq.bool", eq_u8, 2},
    {"ne.bool", ne_u8, 2},
    {"lt.bool", lt_u8, 2},
    {"le.bool", le_u8, 2},
    {"gt.bool", gt_u8, 2},
    {"ge.bool", ge_u8, 2},
    {"eq.c64", eq_c64, 2},
    {"ne.c64", ne_c64, 2},
    {"eq.c128", eq_c128, 2},
    {"ne.c128", ne_c128, 2},
    {"not.bool", not_bool, 1},
    {"where.b1", where_b1, 3},
    {"where.b2", where_b2, 3},
    {"where.b4", where_b4, 3},
    {"where.b8", where_b8, 3},
    {"where.b16", where_b16, 3},
    {NULL, NULL, 0},
};
