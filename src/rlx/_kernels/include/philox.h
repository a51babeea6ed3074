/* Philox4x32-10 (Salmon et al. 2011, the constants of Random123).
 *
 * A stream is (seed, op key, run counter, trip). The key is the seed, inside a loop
 * xor a hash of the trip; the 128-bit counter is, from the low word up: block (low 32 bits); block (next 8 bits) and
 * run (its high 24 bits); op key; run (low 32 bits). So no two ops, runs or
 * elements share a block. A block gives four words; word w of a stream is word
 * w % 4 of block w / 4. */
#ifndef RLX_PHILOX_H
#define RLX_PHILOX_H

#include "abi.h"
#include "state.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

typedef struct rlx_stream {
    uint64_t seed, run;
    uint32_t key;
    int zeros;
} rlx_stream;

static inline rlx_stream rlx_stream_of(const rlx_frame *f, int64_t key) {
    const rlx_state *s = (const rlx_state *)f->state;
    rlx_stream r = {0, 0, (uint32_t)key, 0};
    if (s) r.seed = s->seed ^ s->trip, r.run = s->counter, r.zeros = s->backend == RLX_RNG_ZEROS;
    return r;
}

enum { RLX_PHILOX_LANES = 16 };

/* A vector of 64-bit lanes; a product takes the low 32 bits of each lane, so what
 * stands above them need not be cleared between rounds. */
#if defined(__AVX512F__)
typedef __m512i rlx_pv;
#define RLX_PV_MUL(a, b) _mm512_mul_epu32(a, b)
#elif defined(__AVX2__)
typedef __m256i rlx_pv;
#define RLX_PV_MUL(a, b) _mm256_mul_epu32(a, b)
#elif defined(__SSE2__)
typedef __m128i rlx_pv;
#define RLX_PV_MUL(a, b) _mm_mul_epu32(a, b)
#else
typedef uint64_t rlx_pv __attribute__((vector_size(16)));
#define RLX_PV_MUL(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#endif
typedef uint64_t rlx_pu __attribute__((vector_size(sizeof(rlx_pv))));
#define RLX_PV_LANES ((int)(sizeof(rlx_pv) / 8))

/* Blocks first .. first + RLX_PHILOX_LANES of the stream into out[lane][4]. */
static inline void rlx_philox(const rlx_stream *s, uint64_t first, uint32_t *out) {
    enum { L = RLX_PHILOX_LANES, G = L / RLX_PV_LANES };
    if (s->zeros) {
        memset(out, 0, 4 * L * sizeof *out);
        return;
    }
    const rlx_pu zero = {0};
    rlx_pu c0[G], c1[G], c2[G], c3[G];
    uint64_t block[L];
    for (int i = 0; i < L; i++) block[i] = first + (uint64_t)i;
    for (int g = 0; g < G; g++) {
        memcpy(&c0[g], block + g * RLX_PV_LANES, sizeof c0[g]);
        c1[g] = ((c0[g] >> 32) & 0xFF) | (zero + (s->run >> 32 << 8));
        c2[g] = zero + s->key;
        c3[g] = zero + s->run;
    }
    uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
    const rlx_pv m0 = (rlx_pv)(zero + 0xD2511F53u), m1 = (rlx_pv)(zero + 0xCD9E8D57u);
    for (int round = 0; round < 10; round++) {
        _Pragma("GCC unroll 8") for (int g = 0; g < G; g++) {
            const rlx_pu a = (rlx_pu)RLX_PV_MUL((rlx_pv)c0[g], m0);
            const rlx_pu b = (rlx_pu)RLX_PV_MUL((rlx_pv)c2[g], m1);
            c0[g] = (b >> 32) ^ c1[g] ^ (zero + k0);
            c2[g] = (a >> 32) ^ c3[g] ^ (zero + k1);
            c1[g] = b;
            c3[g] = a;
        }
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    uint64_t low[L], high[L];
    for (int g = 0; g < G; g++) {
        const rlx_pu a = (c0[g] & 0xFFFFFFFFu) | c1[g] << 32;
        const rlx_pu b = (c2[g] & 0xFFFFFFFFu) | c3[g] << 32;
        memcpy(low + g * RLX_PV_LANES, &a, sizeof a);
        memcpy(high + g * RLX_PV_LANES, &b, sizeof b);
    }
    for (int i = 0; i < L; i++) {
        memcpy(out + 4 * i, low + i, 8);
        memcpy(out + 4 * i + 2, high + i, 8);
    }
}

/* A double in [0, 1) from words w and w + 1. */
static inline double rlx_unit_f64(uint32_t low, uint32_t high) {
    return (double)high * 0x1p-32 + (double)(low >> 11) * 0x1p-53;
}

/* The double at position i of the stream (words 2i, 2i + 1). */
static inline double rlx_philox_unit(const rlx_stream *s, uint64_t i) {
    uint32_t w[4 * RLX_PHILOX_LANES];
    rlx_philox(s, i / 2, w);
    return rlx_unit_f64(w[2 * (i & 1)], w[2 * (i & 1) + 1]);
}
#endif
