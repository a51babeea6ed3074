/* attention: softmax(q k^T * scale, masked) v without storing the scores.
 *
 * attention.f32, attention.f64; attention.f32@f16, attention.f32@bf16: q, k, v and out are
 *   halves, all sums f32, and a result is rounded once: the bits of casts around attention.f32
 *   args  q, k, v, mask u8?, bias T?, lens i64?, out, ws
 *   attrs batch heads kv_heads sq sk d dv  q_b q_h q_s  k_b k_h k_s  v_b v_h v_s
 *         o_b o_h o_s  m_b m_h m_q m_k  b_b b_h b_q b_k  causal past window
 *         lens_past block ws  scale:f softcap:f empty:f
 *   q(b, h, i, c) = q[b*q_b + h*q_h + i*q_s + c]; k, v (kv head g), out alike: the
 *   last axis is contiguous, every other one is free, so packed QKV, BSHD and
 *   BHSD need no copy. Query head h reads kv head h*kv_heads/heads.
 *   mask(b, h, i, j) (non-zero: visible) and bias by their strides; 0 broadcasts.
 *   A bias of -inf hides the key like a mask. softcap > 0: s = c tanh(s/c) before
 *   bias and masks.
 *   causal: key j is visible to query i iff j <= i + past; window >= 0 moreover
 *   asks j >= i + past - window (and j <= i + past); window < 0: none.
 *   lens: [batch] keys of each item that exist, in [0, sk] (else RLX_ERR_INDEX);
 *   lens_past: past = lens[b] - sq instead of the attribute.
 *   ws: per thread, stride attribute `ws` in bytes >= ((96 + max(block, 32))*(d + dv + 4) + 4096)*sizeof(T).
 *   block: queries of a work item: 32, 64, 96 or 128. extent batch*heads*ceil(sq/block), but
 *   for sq <= 4 batch*kv_heads*ceil(each/min(each, 4)) with each = heads/kv_heads.
 *   empty: 0, or NaN to make a row without a visible key NaN, as softmax does.
 * A row without a visible key is zero. A hidden key is never seen: neither its
 * k nor its v row reaches the result, be they NaN. A visible NaN makes its row
 * NaN. Every row is computed on its own, so neither cut nor block change bits.
 *
 * Blocking. Queries lie in vector lanes (2 vectors, QL lanes; 1 if that holds them), everything
 * else is a broadcast: q is transposed and scaled once per QL queries, then for each
 * KB = 96 keys S^T[key][lane] = k . q^T in register tiles of KR keys x 2
 * vectors, the online softmax runs down the keys lane by lane without any
 * horizontal step, and O^T[dv][lane] = O^T * correction + v^T p in the same kind
 * of tile. A block of keys serves all tiles of a work item. k and v are read in place, one scalar per
 * two multiply-adds, unless they are halves or their rows are far apart (packed projections: each
 * row in another page, and few sets of the first cache): then a block is brought into the workspace.
 * Only q, bias tiles and the result pass a transpose. Up to 4 queries (decode) take the
 * other road: k rows as vectors, read once for up to 4 query heads that share them, VN partial sums
 * transposed and added, p v as two chains per vector of dv.
 * The exponential skips results below 2^-126; they cannot change a sum >= 1. */
#include "abi.h"
#include "exp_down.h"
#include "half.h"
#include "rows.h"
#include "widen.h"

enum { KB = 96, MOST_QUERIES = 128, FEW_QUERIES = 4, ROWS = 4, ROW_KEYS = 256, FAR_ROWS = 2048 };
enum { NATIVE, F16, BF16 };

/* Vectors of an operand as it is stored. */
RLX_INLINE vf vf_read(const int kind, const void *p) {
    return kind == F16 ? (vf)rlx_widen_f16(p) : kind == BF16 ? (vf)rlx_widen_bf16(p) : vf_load(p);
}
RLX_INLINE vf vf_read_n(const int kind, const void *p, int64_t n) {
    return kind == F16 ? (vf)rlx_widen_part_f16(p, n) : kind == BF16 ? (vf)rlx_widen_part_bf16(p, n) : vf_load_n(p, n);
}
RLX_INLINE void vf_write_n(const int kind, void *p, vf v, int64_t n) {
    if (kind == NATIVE) {
        vf_store_n(p, v, n);
        return;
    }
    float lanes[VF];
    uint16_t halves[VF];
    vf_store(lanes, v);
    for (int64_t i = 0; i < n; i++) halves[i] = kind == F16 ? rlx_f32_to_f16(lanes[i]) : rlx_f32_to_bf16(lanes[i]);
    memcpy(p, halves, (size_t)n * 2);
}
RLX_INLINE void vf_write(const int kind, void *p, vf v) {
    if (kind == NATIVE) {
        vf_store(p, v);
    } else if (kind == BF16) {
        typedef uint32_t words __attribute__((vector_size(RLX_VB)));
        typedef uint16_t halves __attribute__((vector_size(RLX_VB / 2)));
        const words u = (words)v, nan = (words)((u & 0x7FFFFFFFu) > 0x7F800000u);
        const words r = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
        const halves h = __builtin_convertvector((nan & quiet) | (~nan & r), halves);
        memcpy(p, &h, sizeof h);
    } else {
#if defined(__AVX512F__)
        _mm256_storeu_si256(p, _mm512_cvtps_ph((__m512)v, 0));
#elif defined(__F16C__)
        _mm_storeu_si128(p, _mm256_cvtps_ph((__m256)v, 0));
#else
        vf_write_n(kind, p, v, VF);
#endif
    }
}
RLX_INLINE vd vd_read(const int kind, const void *p) { return vd_load(p); }
RLX_INLINE vd vd_read_n(const int kind, const void *p, int64_t n) { return vd_load_n(p, n); }
RLX_INLINE void vd_write(const int kind, void *p, vd v) { vd_store(p, v); }
RLX_INLINE void vd_write_n(const int kind, void *p, vd v, int64_t n) { vd_store_n(p, v, n); }

/* v = exp(v - top) for v <= top or NaN, of `count` <= 4 vectors; 0 below the normal range. */
RLX_INLINE void vf_terms(vf *v, const int count, vf top) {
    for (int k = 0; k < count; k++) v[k] = v[k] - top;
    vf_exp_down(v, count, 0, -87.0f);
}
RLX_INLINE void vd_terms(vd *v, const int count, vd top) {
    for (int k = 0; k < count; k++) v[k] = vd_exp(v[k] - top);
}

#define T float
#define V vf
#define VN VF
#define N(name) name##_f32
#define V_(name) vf_##name
#include "../include/attention.inc"
#undef T
#undef V
#undef VN
#undef N
#undef V_

#define T double
#define V vd
#define VN VD
#define N(name) name##_f64
#define V_(name) vd_##name
#include "../include/attention.inc"

#define LAYOUT \
    "batch heads kv_heads sq sk d dv q_b q_h q_s k_b k_h k_s v_b v_h v_s o_b o_h o_s " \
    "m_b m_h m_q m_k b_b b_h b_q b_k causal past window lens_past block ws scale:f softcap:f empty:f"

#define KERNEL(name, type, kind)                                                          \
    static int name(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {     \
        return attention_##type(kind, t, f, lo, hi);                                      \
    }
KERNEL(run_f32, f32, NATIVE)
KERNEL(run_f64, f64, NATIVE)
KERNEL(run_f16, f32, F16)
KERNEL(run_bf16, f32, BF16)

const rlx_kernel_row rlx_rows_attention[] = {
    {"attention.f32", run_f32, LAYOUT, 0},
    {"attention.f64", run_f64, LAYOUT, 0},
    {"attention.f32@f16", run_f16, LAYOUT, 0},
    {"attention.f32@bf16", run_bf16, LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
