/* digest: 64-byte check sums of blocks of a file.
 *
 * Design: eight 64-bit lanes, as in the long form of XXH3: a stripe of 64 bytes
 * adds to each lane the product of the halves of its own word (keyed by place)
 * and, as it is, the word of its neighbour; every 16 stripes the lanes are
 * scrambled by steps that can be undone. So two blocks that differ within one
 * aligned 8-byte word never have the same digest: the neighbour's lane differs,
 * and no later step can make it equal again. Anything else goes unseen once in
 * 2**64 or more. The lanes are kept whole instead of being folded to one word,
 * which is what makes that certain. A last stripe that is not full is read into
 * zeros; the length goes into the lanes.
 *
 * This finds damage; it is no signature (whoever can write a file can compute it).
 *
 * Integer arithmetic only: every level gives the same bytes. One 32x32->64
 * multiplication per 8 bytes keeps up with memory at every level with vectors;
 * CRC32C over three interleaved streams was as fast at one block but has 4 bytes
 * of digest and needs SSE4.2. */
#include "abi.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { LANES = 8, STRIPE = 64, STRIPES = 16 };

/* Digits of pi, then as many as the stripes of a round need. */
static const uint64_t keys[LANES + STRIPES] = {
    0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u, 0x452821e638d01377u,
    0xbe5466cf34e90c6cu, 0xc0ac29b7c97c50ddu, 0x3f84d5b5b5470917u, 0x9216d5d98979fb1bu, 0xd1310ba698dfb5acu,
    0x2ffd72dbd01adfb7u, 0xb8e1afed6a267e96u, 0xba7c9045f12c7f99u, 0x24a19947b3916cf7u, 0x0801f2e2858efc16u,
    0x636920d871574e69u, 0xa458fea3f4933d7eu, 0x0d95748f728eb658u, 0x718bcd5882154aeeu, 0x7b54a41dc25a59b5u,
    0x9c30d5392af26013u, 0xc5d1b023286085f0u, 0xca417918b8db38efu, 0x8e79dcb0603a180eu};

static const uint64_t prime = 0x9e3779b1u;

static inline void stripe(uint64_t *acc, const char *p, const uint64_t *key) {
#if defined(__AVX512F__)
    __m512i x = _mm512_loadu_si512(p);
    __m512i v = _mm512_xor_si512(x, _mm512_loadu_si512(key));
    __m512i product = _mm512_mul_epu32(v, _mm512_srli_epi64(v, 32));
    __m512i a = _mm512_add_epi64(_mm512_loadu_si512(acc), _mm512_permutex_epi64(x, 0xb1));
    _mm512_storeu_si512(acc, _mm512_add_epi64(a, product));
#elif defined(__AVX2__)
    for (int i = 0; i < LANES; i += 4) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(p + 8 * i));
        __m256i v = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)(key + i)));
        __m256i product = _mm256_mul_epu32(v, _mm256_srli_epi64(v, 32));
        __m256i a = _mm256_add_epi64(_mm256_loadu_si256((const __m256i *)(acc + i)), _mm256_permute4x64_epi64(x, 0xb1));
        _mm256_storeu_si256((__m256i *)(acc + i), _mm256_add_epi64(a, product));
    }
#elif defined(__SSE2__)
    for (int i = 0; i < LANES; i += 2) {
        __m128i x = _mm_loadu_si128((const __m128i *)(p + 8 * i));
        __m128i v = _mm_xor_si128(x, _mm_loadu_si128((const __m128i *)(key + i)));
        __m128i product = _mm_mul_epu32(v, _mm_srli_epi64(v, 32));
        __m128i a = _mm_add_epi64(_mm_loadu_si128((const __m128i *)(acc + i)), _mm_shuffle_epi32(x, 0x4e));
        _mm_storeu_si128((__m128i *)(acc + i), _mm_add_epi64(a, product));
    }
#else
    for (int i = 0; i < LANES; i++) {
        uint64_t x;
        memcpy(&x, p + 8 * i, 8);
        uint64_t v = x ^ key[i];
        acc[i ^ 1] += x;
        acc[i] += (uint64_t)(uint32_t)v * (v >> 32);
    }
#endif
}

static inline void scramble(uint64_t *acc) {
    for (int i = 0; i < LANES; i++)
        acc[i] = (acc[i] ^ (acc[i] >> 47) ^ keys[STRIPES + i]) * prime;
}

static void digest_of(const char *p, int64_t n, uint64_t *acc) {
    for (int i = 0; i < LANES; i++)
        acc[i] = keys[i];
    int64_t at = 0;
    for (; at + STRIPE * STRIPES <= n; at += STRIPE * STRIPES) {
        for (int s = 0; s < STRIPES; s++)
            stripe(acc, p + at + STRIPE * s, keys + s);
        scramble(acc);
    }
    int s = 0;
    for (; at + STRIPE <= n; at += STRIPE)
        stripe(acc, p + at, keys + s++);
    if (at < n) {
        char last[STRIPE] = {0};
        memcpy(last, p + at, (size_t)(n - at));
        stripe(acc, last, keys + s);
    }
    for (int i = 0; i < LANES; i++)
        acc[i] += (uint64_t)n * keys[LANES + i];
    scramble(acc);
}

/* Item i is block i of the first operand; the last block may be shorter. */
static int digest_blocks(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    int64_t block = t->attrs[0], nbytes = t->attrs[1];
    const char *from = RLX_PTR(t, f, 0);
    char *to = RLX_PTR(t, f, 1);
    for (int64_t i = lo; i < hi; i++) {
        uint64_t acc[LANES];
        int64_t start = i * block, n = nbytes - start < block ? nbytes - start : block;
        digest_of(from + start, n, acc);
        memcpy(to + sizeof acc * i, acc, sizeof acc);
    }
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_digest[] = {
    {"digest.blocks", digest_blocks, "block nbytes", 0},
    {NULL, NULL, NULL, 0},
};
