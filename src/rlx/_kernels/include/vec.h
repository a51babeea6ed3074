/* What the templates of vector kernels share: register width, selection. */
#ifndef RLX_VEC_H
#define RLX_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define RLX_VEC_BYTES 64
#elif defined(__AVX2__)
#define RLX_VEC_BYTES 32
#else
#define RLX_VEC_BYTES 16
#endif

/* a where the mask is set, else b; the mask comes from a vector comparison. */
#define RLX_SELECT(mask, a, b)                                  \
    ((__typeof__(a))(((mask) & (__typeof__(mask))(a)) |         \
                     (~(mask) & (__typeof__(mask))(b))))

/* A register of doubles, and as many floats widened into one. Spelt out, as GCC
 * 12 turns __builtin_convertvector into two halves and an insert. */
typedef double rlx_vd __attribute__((vector_size(RLX_VEC_BYTES)));
typedef double rlx_vdu __attribute__((vector_size(RLX_VEC_BYTES), aligned(8)));
#define RLX_VD ((int)(RLX_VEC_BYTES / sizeof(double)))

static inline rlx_vd rlx_load_vd_f32(const float *p) {
#if defined(__AVX512F__)
    return (rlx_vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
    return (rlx_vd)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
    return (rlx_vd){p[0], p[1]};
#endif
}
static inline rlx_vd rlx_load_vd_f64(const double *p) { return *(const rlx_vdu *)p; }

static inline int64_t rlx_min64(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
