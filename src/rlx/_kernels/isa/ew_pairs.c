/* ew_pairs: two arithmetic steps in one, <first>_<second>.<type>: second(first(a, b), c).
 *
 * Design. A step of a region moves three vectors between L1 and registers for one operation, so a chain of
 * cheap operations is bound by loads and stores. A pair moves four for two. Each operation rounds
 * as it does alone: a product is not fused into the sum (rlx/lower/region.py puts pairs together; rsub is
 * c - first(a, b)). Measured, AVX-512: x*y+x, *c-y, clip, abs, *x+y on 16k f32 take 7.0 us, 9.2 as single steps. */
#include "unfused.h"

#include "ew.h"

#define SECONDS(F, first, x1, name, T)                                                    \
    F(first, add, name, T, x1 + z)                                                        \
    F(first, sub, name, T, x1 - z)                                                        \
    F(first, rsub, name, T, z - x1)                                                       \
    F(first, mul, name, T, x1 * z)
#define PAIR(first, second, name, T, ...) \
    RLX_EW3(first##_##second##_##name, T, T, __VA_ARGS__)
#define PAIRS(name, T, U, f)                                                              \
    SECONDS(PAIR, add, (x + y), name, T)                                                  \
    SECONDS(PAIR, sub, (x - y), name, T)                                                  \
    SECONDS(PAIR, mul, (x * y), name, T)
RLX_FLOATS(PAIRS)

#define PAIR_NAME(first, second, name, T, ...) \
    {#first "_" #second "." #name, first##_##second##_##name, 3},
#define PAIR_NAMES(name, T, U, f)                                                         \
    SECONDS(PAIR_NAME, add, 0, name, T)                                                   \
    SECONDS(PAIR_NAME, sub, 0, name, T)                                                   \
    SECONDS(PAIR_NAME, mul, 0, name, T)

const rlx_ew_row rlx_ews_ew_pairs[] = {
    RLX_FLOATS(PAIR_NAMES)
    {NULL, NULL, 0},
};
