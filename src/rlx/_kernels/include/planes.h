/* Planes in lanes: VF planes of floats as vectors of one pixel each, and back. */
#ifndef RLX_PLANES_H
#define RLX_PLANES_H

#include "rows.h"

#define PLANES_UNROLL _Pragma("GCC unroll 16")

/* to[k] = x[k] of `planes` <= VF planes, k < n; up to VF - 1 more are written. */
RLX_INLINE void vf_from_planes(const float *x, int64_t plane, const int64_t planes, int64_t n, vf *to) {
    for (int64_t k = 0; k < n; k += VF) {
        const int64_t at = n < VF ? 0 : k < n - VF ? k : n - VF; /* the last block overlaps the one before */
        vf block[VF];
        PLANES_UNROLL for (int l = 0; l < VF; l++) {
            if (l >= planes)
                block[l] = (vf){0};
            else if (n < VF)
                block[l] = vf_load_n(x + l * plane, n);
            else
                block[l] = vf_load(x + l * plane + at);
        }
        vf_tile(block);
        PLANES_UNROLL for (int l = 0; l < VF; l++) to[at + l] = block[l];
    }
}

/* n <= VF pixels of each of `planes` <= VF planes. */
RLX_INLINE void vf_to_planes(vf *block, int64_t n, float *out, int64_t plane, const int64_t planes) {
    if (plane == 1 && planes == VF) {
        *(vf_u *)out = block[0];
        return;
    }
    vf_tile(block);
    PLANES_UNROLL for (int l = 0; l < VF; l++) {
        if (l >= planes)
            break;
        if (n == VF)
            *(vf_u *)(out + l * plane) = block[l];
        else
            vf_store_part(out + l * plane, block[l], n);
    }
}

#endif
