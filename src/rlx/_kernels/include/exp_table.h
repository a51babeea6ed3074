/* exp(x) = 2^(j / RLX_EXP_STEPS) 2^n (1 + m): powers of two in one register of floats (AVX2 and AVX-512).
 *
 * s = x RLX_EXP_STEPS / ln 2 is rounded by adding 1.5 2^23, which leaves the whole number k in the low
 * bits; j is its lowest bits, n the rest. The entries are 2^(j / RLX_EXP_STEPS) less j in the place
 * that k << RLX_EXP_PLACE has it, so that adding this makes 2^(k / RLX_EXP_STEPS), for normal results.
 * m = r + r^2 q(r), |r| <= ln 2 / (2 RLX_EXP_STEPS), the fits of q are off by 2^-29 and 2^-32 in exp. */
#ifndef RLX_EXP_TABLE_H
#define RLX_EXP_TABLE_H

#include <stdint.h>

#if defined(__AVX512F__)
enum { RLX_EXP_STEPS = 16, RLX_EXP_PLACE = 19 };
static const int32_t rlx_exp_powers[RLX_EXP_STEPS] __attribute__((aligned(64))) = {
    0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
    0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
#define RLX_EXP_Q2 0.5000162f
#define RLX_EXP_Q3 0.16667046f
#elif defined(__AVX2__)
enum { RLX_EXP_STEPS = 8, RLX_EXP_PLACE = 20 };
static const int32_t rlx_exp_powers[RLX_EXP_STEPS] __attribute__((aligned(32))) = {
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
#define RLX_EXP_Q2 0.5f
#define RLX_EXP_Q3 0.16668028f
#define RLX_EXP_Q4 0.041670635f
#endif
#if defined(__AVX2__)
#define RLX_EXP_MAGIC 12582912.0f
#define RLX_EXP_SCALE (RLX_EXP_STEPS * 1.44269504088896341f)
#define RLX_EXP_HIGH (0x1.62e43p-1f / RLX_EXP_STEPS)
#define RLX_EXP_LOW (-0x1.05c61p-29f / RLX_EXP_STEPS)
#endif

#endif
