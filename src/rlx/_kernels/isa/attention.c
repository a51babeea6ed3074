/* attention: softmax(q k^T * scale, masked) v without storing the scores.
 *
 * attention.f32, attention.f64
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
 *   ws: per thread, stride attribute `ws` in bytes >= (d + dv + 68)*32*sizeof(T).
 *   block: queries of a work item, 32 is good. extent batch*heads*ceil(sq/block).
 *   empty: 0, or NaN to make a row without a visible key NaN, as softmax does.
 * A row without a visible key is zero. A hidden key is never seen: neither its
 * k nor its v row reaches the result, be they NaN. A visible NaN makes its row
 * NaN. Every row is computed on its own, so neither cut nor block change bits.
 *
 * Blocking. Queries lie in vector lanes (2 vectors, QL lanes), everything else
 * is a broadcast: q is transposed and scaled once per QL queries, then for each
 * KB = 64 keys S^T[key][lane] = k . q^T in register tiles of KR keys x 2
 * vectors, the online softmax runs down the keys lane by lane without any
 * horizontal step, and O^T[dv][lane] = O^T * correction + v^T p in the same kind
 * of tile. k and v are read in place, one scalar per two multiply-adds; only q,
 * bias tiles and the result pass a transpose. Up to 4 queries (decode) take the
 * other road: k rows as vectors, VN partial sums transposed and added, p v as
 * two chains per vector of dv.
 * The exponential skips results below 2^-126; they cannot change a sum >= 1. */
#include "abi.h"
#include "lanes.h"

enum { KB = 64 };

/* exp of x <= 0 (or NaN), 0 below the normal range. */
RLX_INLINE vf vf_expneg(vf x) {
    const vf c = vf_pick(vf_lt(x, vf_set(-87.0f)), vf_set(-87.0f), x);
    vi k;
    const vf kf = vf_round_small(c * vf_set(1.44269504088896341f), &k);
    vf r = c - kf * vf_set(0.693145751953125f);
    r = r - kf * vf_set(1.42860682030941723e-6f);
    vf p = vf_set(1.9875691500e-4f);
    p = p * r + vf_set(1.3981999507e-3f);
    p = p * r + vf_set(8.3334519073e-3f);
    p = p * r + vf_set(4.1665795894e-2f);
    p = p * r + vf_set(1.6666665459e-1f);
    p = p * r + vf_set(5.0000001201e-1f);
    const vf y = p * (r * r) + r + vf_set(1.0f);
    return vf_pick(vf_lt(x, vf_set(-87.0f)), vf_set(0.0f), y * (vf)((k + vi_set(127)) << 23));
}
RLX_INLINE vd vd_expneg(vd x) { return vd_exp(x); }

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

const rlx_kernel_row rlx_rows_attention[] = {
    {"attention.f32", attention_f32, LAYOUT, 0},
    {"attention.f64", attention_f64, LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
