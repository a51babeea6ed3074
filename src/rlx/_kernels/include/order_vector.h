/* Sorting of unsigned keys in vectors (AVX-512), for order.c: u32 and u64.
 *
 * Design. Quicksort: a part is cut by the median of nine of its keys; a vector is compared with it, and the smaller and
 * the other keys are packed (compress) to the front of the part and of a spare one, which is copied back. Stores are
 * whole vectors: what they write beyond the packed keys has been read already. A part of up to four vectors is sorted by a
 * bitonic network in registers, padded with the largest key. A part whose smallest key is the pivot is cut behind all
 * keys that equal it, so equal keys cost one pass; a part that is cut badly too often goes to a sort by bytes.
 * Measured, this and by bytes (merging for short rows): one row of 10,000 f32 40 and 110 us, a million 7.2 and 28 ms, 64
 * rows of 1000 197 and 535 us; indices of 1000 rows of 16 32 and 240 us; the 300 best of 8400 15 us, 88 by a heap.
 * NumPy's, which knows no order of equal keys, takes 0.58 of that for values. */
#ifndef RLX_ORDER_VECTOR_H
#define RLX_ORDER_VECTOR_H

#if defined(__AVX512F__)
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define U uint32_t
#define BITS 32
#define LANES 16
#define MASK __mmask16
#define OP(name) _mm512_##name##_epu32
#define OPI(name) _mm512_##name##_epi32
#define CMP(name) _mm512_##name##_epu32_mask
#include "order_vector.inc"
#define U uint64_t
#define BITS 64
#define LANES 8
#define MASK __mmask8
#define OP(name) _mm512_##name##_epu64
#define OPI(name) _mm512_##name##_epi64
#define CMP(name) _mm512_##name##_epu64_mask
#include "order_vector.inc"

/* By the bytes of an entry (order.c). */
typedef uint32_t key_4;
typedef uint64_t key_8;
#define quick_4 quick_u32
#define quick_8 quick_u64
#endif

#endif
