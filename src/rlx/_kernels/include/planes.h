/* Planes in lanes: VF planes of floats as vectors of one pixel each, and back. */
#ifndef RLX_PLANES_H
#define RLX_PLANES_H

#include "rows.h"

#define PLANES_UNROLL _Pragma("GCC unroll 16")

/* A square tile transposed from memory, rows `stride` apart. With 16 lanes, quarters of rows that are 4 apart are
 * joined by loads, and exchanged within: half the shuffles. */
RLX_INLINE void vf_tile_from(const float *s, int64_t stride, vf *r) {
#if VF == 16
    for (int q = 0; q < 4; q++) {
        __m512 z[4];
        for (int i = 0; i < 4; i++) {
            const float *at = s + i * stride + 4 * q;
            z[i] = _mm512_castps128_ps512(_mm_loadu_ps(at));
            z[i] = _mm512_insertf32x4(z[i], _mm_loadu_ps(at + 4 * stride), 1);
            z[i] = _mm512_insertf32x4(z[i], _mm_loadu_ps(at + 8 * stride), 2);
            z[i] = _mm512_insertf32x4(z[i], _mm_loadu_ps(at + 12 * stride), 3);
        }
        const __m512 a = _mm512_unpacklo_ps(z[0], z[1]), b = _mm512_unpackhi_ps(z[0], z[1]);
        const __m512 c = _mm512_unpacklo_ps(z[2], z[3]), d = _mm512_unpackhi_ps(z[2], z[3]);
        r[4 * q] = (vf)_mm512_shuffle_ps(a, c, 0x44);
        r[4 * q + 1] = (vf)_mm512_shuffle_ps(a, c, 0xee);
        r[4 * q + 2] = (vf)_mm512_shuffle_ps(b, d, 0x44);
        r[4 * q + 3] = (vf)_mm512_shuffle_ps(b, d, 0xee);
    }
#else
    for (int i = 0; i < VF; i++)
        r[i] = vf_load(s + i * stride);
    vf_tile(r);
#endif
}

/* to[k] = x[k] of `planes` <= VF planes, k < n; up to VF - 1 more are written. */
RLX_INLINE void vf_from_planes(const float *x, int64_t plane, const int64_t planes, int64_t n, vf *to) {
    for (int64_t k = 0; k < n; k += VF) {
        const int64_t at = n < VF ? 0 : k < n - VF ? k : n - VF; /* the last block overlaps the one before */
        vf block[VF];
        if (n >= VF && planes == VF) {
            vf_tile_from(x + at, plane, block);
        } else {
            PLANES_UNROLL for (int l = 0; l < VF; l++) {
                if (l >= planes)
                    block[l] = (vf){0};
                else if (n < VF)
                    block[l] = vf_load_n(x + l * plane, n);
                else
                    block[l] = vf_load(x + l * plane + at);
            }
            vf_tile(block);
        }
        PLANES_UNROLL for (int l = 0; l < VF; l++) to[at + l] = block[l];
    }
}

/* n <= VF pixels of each of `planes` <= VF planes. */
RLX_INLINE void vf_to_planes(const vf *pixels, int64_t n, float *out, int64_t plane, const int64_t planes) {
    if (plane == 1 && planes == VF) {
        *(vf_u *)out = pixels[0];
        return;
    }
    vf block[VF]; /* pixels beyond n are not looked at */
    vf_tile_from((const float *)pixels, VF, block);
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
