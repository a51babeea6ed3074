/* Run-wide state that kernels read through frame->state (NULL: all zero). */
#ifndef RLX_STATE_H
#define RLX_STATE_H

#include <stdint.h>

typedef struct rlx_state {
    uint64_t seed;
    uint64_t counter; /* number of the run; below 2^56 */
    uint64_t trip;    /* 0 outside loops; inside, a hash of the trips of all enclosing loops */
    int32_t backend;  /* RLX_RNG_... */
    int32_t reserved;
} rlx_state;

enum { RLX_RNG_PHILOX = 0, RLX_RNG_ZEROS = 1 };

/* Hash of trip i of a loop inside trips of hash `outer` (finaliser of SplitMix64, a bijection). */
static inline uint64_t rlx_trip(uint64_t outer, int64_t i) {
    uint64_t z = outer + ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#endif
