/* Which way a Fourier transform of many rows takes (fft.c): by its length alone. */
#ifndef RLX_FFT_WAYS_H
#define RLX_FFT_WAYS_H

#include <stdint.h>

enum { RLX_FFT_SIDE_BY_SIDE_MOST = 768 }; /* for longer ones ops/_fft_plan.py leaves no room */

/* Whether rows go side by side: while the four planes of vectors of `bytes` fit L1, and up to twice that for
 * lengths that are no power of two, whose four steps fill vectors badly (core 200: 111 to 41 us for 100 rows of f32,
 * 95 to 68 of f64; core 256 would go from 21 to 28 and from 34 to 51). */
static inline int rlx_fft_side_by_side(int64_t core, int64_t bytes) {
    return core <= RLX_FFT_SIDE_BY_SIDE_MOST && core * bytes <= ((core & (core - 1)) ? 24576 : 12288);
}

#endif
