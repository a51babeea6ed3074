/* Run-wide state that kernels read through frame->state (NULL: all zero). */
#ifndef RLX_STATE_H
#define RLX_STATE_H

#include <stdint.h>

typedef struct rlx_state {
    uint64_t seed;
    uint64_t counter; /* number of the run; below 2^56 */
    int32_t backend;  /* RLX_RNG_... */
    int32_t reserved;
} rlx_state;

enum { RLX_RNG_PHILOX = 0, RLX_RNG_ZEROS = 1 };

#endif
