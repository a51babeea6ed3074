/* Philox4x32-10 (Salmon et al. 2011, the constants of Random123).
 *
 * A stream is (seed, op key, run counter). The key is the seed; the 128-bit
 * counter is, from the low word up: block (low 32 bits); block (next 8 bits) and
 * run (its high 24 bits); op key; run (low 32 bits). So no two ops, runs or
 * elements share a block. A block gives four words; word w of a stream is word
 * w % 4 of block w / 4. */
#ifndef RLX_PHILOX_H
#define RLX_PHILOX_H

#include "abi.h"
#include "state.h"

typedef struct rlx_stream {
    uint64_t seed, run;
    uint32_t key;
    int zeros;
} rlx_stream;

static inline rlx_stream rlx_stream_of(const rlx_frame *f, int64_t key) {
    const rlx_state *s = (const rlx_state *)f->state;
    rlx_stream r = {0, 0, (uint32_t)key, 0};
    if (s) r.seed = s->seed, r.run = s->counter, r.zeros = s->backend == RLX_RNG_ZEROS;
    return r;
}

enum { RLX_PHILOX_LANES = 16 };

/* Blocks first .. first + RLX_PHILOX_LANES of the stream into out[lane][4]. */
static inline void rlx_philox(const rlx_stream *s, uint64_t first, uint32_t *out) {
    enum { L = RLX_PHILOX_LANES };
    if (s->zeros) {
        memset(out, 0, 4 * L * sizeof *out);
        return;
    }
    uint32_t c0[L], c1[L], c2[L], c3[L], k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
    for (int i = 0; i < L; i++) {
        const uint64_t b = first + (uint64_t)i;
        c0[i] = (uint32_t)b;
        c1[i] = (uint32_t)((b >> 32) & 0xFF) | (uint32_t)(s->run >> 32) << 8;
        c2[i] = s->key;
        c3[i] = (uint32_t)s->run;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < L; i++) {
            const uint64_t a = (uint64_t)c0[i] * 0xD2511F53u, b = (uint64_t)c2[i] * 0xCD9E8D57u;
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)b;
            c3[i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < L; i++)
        out[4 * i] = c0[i], out[4 * i + 1] = c1[i], out[4 * i + 2] = c2[i], out[4 * i + 3] = c3[i];
}

/* A double in [0, 1) from words w and w + 1. */
static inline double rlx_unit_f64(uint32_t low, uint32_t high) {
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

/* The double at position i of the stream (words 2i, 2i + 1). */
static inline double rlx_philox_unit(const rlx_stream *s, uint64_t i) {
    uint32_t w[4 * RLX_PHILOX_LANES];
    rlx_philox(s, i / 2, w);
    return rlx_unit_f64(w[2 * (i & 1)], w[2 * (i & 1) + 1]);
}
#endif
