/* The floating-point mode of a run.
 *
 * Rounding, and what happens to denormal numbers, are a property of the thread. Other software changes
 * it for good: a library linked with -ffast-math flushes denormals from its import on, and a thread of
 * the pool would not even know. So a run sets its mode (round to nearest, denormals kept unless asked
 * otherwise) on every thread that takes part, and gives the caller's back. It costs a nanosecond when
 * nothing is to be changed.
 */
#ifndef RLX_FP_MODE_H
#define RLX_FP_MODE_H

#if defined(__x86_64__)
#include <xmmintrin.h>

#define RLX_FP_DEFAULT 0x1F80u /* no traps, round to nearest */
#define RLX_FP_ZERO 0x8040u    /* denormal operands and results are 0 */
#define RLX_FP_FLAGS 0x3Fu     /* what has happened; not a mode */

static inline unsigned rlx_fp_get(void) {
    return _mm_getcsr() & ~RLX_FP_FLAGS;
}

static inline void rlx_fp_set(unsigned mode) {
    if (rlx_fp_get() != mode)
        _mm_setcsr(mode);
}

/* Returns the caller's mode, for `rlx_fp_set`. */
static inline unsigned rlx_fp_enter(int zero) {
    unsigned before = rlx_fp_get();
    rlx_fp_set(zero ? RLX_FP_DEFAULT | RLX_FP_ZERO : RLX_FP_DEFAULT);
    return before;
}
#else
static inline unsigned rlx_fp_get(void) {
    return 0;
}
static inline void rlx_fp_set(unsigned mode) {
    (void)mode;
}
static inline unsigned rlx_fp_enter(int zero) {
    (void)zero;
    return 0;
}
#endif

#endif
