/* ew_around: a function with the sum or product before and after it in one step, <before>_<f>_<after>.f32.
 *
 * before: add, mul (of the first two operands) or nothing; after: add, mul (with the last operand) or nothing.
 *
 * Design. A function takes 10 to 20 cycles a vector, so the operations beside it, their loads and their stores are almost
 * free while their vector is in a register; as steps of their own they took a third as long as gelu, and a step that
 * computes lets memory work for operands that the others only wait for. Each operation rounds as it does alone
 * (RLX_VEND). Measured, AVX-512: gelu(x + row) + r on 128 x 3072, see docs/performance-limits.md. rlx/lower/region.py
 * puts the steps together. */
#if !defined(__clang__)
#pragma GCC optimize("schedule-insns,sched-pressure") /* see vew.h */
#endif
#include "gelu.h"
#include "vew.h"

#define EACH(f)                                                             \
    RLX_INLINE void some_##f(rlx_v32 *v, const int count) {                 \
        _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) v[k] = rlx_v##f##_f32(v[k]); \
    }
EACH(exp)
EACH(tanh)
EACH(sigmoid)
EACH(silu)
EACH(gelu_tanh)
RLX_INLINE void some_gelu(rlx_v32 *v, const int count) { rlx_vgelu_some_f32(v, count); }

#define ARITHMETIC(F, f)                                                    \
    F(f, add_##f, 2, x + SECOND, x)                                         \
    F(f, mul_##f, 2, x * SECOND, x)                                         \
    F(f, f##_add, 2, x, x + SECOND)                                         \
    F(f, f##_mul, 2, x, x * SECOND)                                         \
    F(f, add_##f##_add, 3, x + SECOND, x + THIRD)                           \
    F(f, add_##f##_mul, 3, x + SECOND, x * THIRD)                           \
    F(f, mul_##f##_add, 3, x * SECOND, x + THIRD)                           \
    F(f, mul_##f##_mul, 3, x * SECOND, x * THIRD)
#define FUNCTIONS(F)                                                        \
    ARITHMETIC(F, exp)                                                      \
    ARITHMETIC(F, tanh)                                                     \
    ARITHMETIC(F, sigmoid)                                                  \
    ARITHMETIC(F, silu)                                                     \
    ARITHMETIC(F, gelu)                                                     \
    ARITHMETIC(F, gelu_tanh)

#define STEP(f, name, arity, BEFORE, AFTER) RLX_VEWF(name##_f32, some_##f, BEFORE, AFTER)
FUNCTIONS(STEP)

#define ROW(f, name, arity, BEFORE, AFTER) {#name ".f32", name##_f32, arity},
const rlx_ew_row rlx_ews_ew_around[] = {
    FUNCTIONS(ROW)
    {NULL, NULL, 0},
};
