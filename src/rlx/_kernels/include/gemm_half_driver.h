/* Template: products and convolutions in f32 with B stored in a narrower type: S of TB, widened by
 * rlx_widen_S. See gemm_half.c and gemm_float8.c. */
#ifndef RLX_GEMM_HALF_DRIVER_H
#define RLX_GEMM_HALF_DRIVER_H
#include "epilogue.h"
#include "gemm.h"
#include "widen.h"

#define LOADB NAME(rlx_widen)
#define TRANSPOSE_B NAME(rlx_transpose_b)
#define T float
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "template.h"

#define WIDE_ROWS 40 /* of a convolution's task; gemm_half.py gives the workspace */
#define STORED_ROWS(S)                                    \
    {"pack_b." #S, pack_b_##S, PACK_LAYOUT, 0},            \
    {"matmul.f32@" #S, matmul_half_##S, MATMUL_LAYOUT, 0}, \
    {"conv.f32@" #S, conv_run_##S, CONV_LAYOUT, 0}
#endif

/* What the templates call under the suffix of the storage type. */
RLX_ALWAYS_INLINE V NAME(rlx_load_part)(const T *p, int64_t n) { return rlx_load_part_f32(p, n); }
RLX_ALWAYS_INLINE void NAME(rlx_store_part)(T *p, V v, int64_t n) { rlx_store_part_f32(p, v, n); }
RLX_ALWAYS_INLINE V NAME(rlx_clamp)(V v, V lo, V hi) { return rlx_clamp_f32(v, lo, hi); }
RLX_ALWAYS_INLINE void NAME(rlx_transpose)(T *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows,
                                           int64_t cols) {
    rlx_transpose_f32(dst, ldd, src, lds, rows, cols);
}

/* dst[c * ldd + r] = src[r * lds + c] for r < rows, c < cols. */
static void NAME(rlx_transpose_b)(TB *dst, int64_t ldd, const TB *src, int64_t lds, int64_t rows, int64_t cols) {
    const int64_t line = 64 / sizeof(TB);
    for (int64_t c0 = 0; c0 < cols; c0 += line) {
        int64_t c1 = c0 + line < cols ? c0 + line : cols;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = c0; c < c1; c++)
                dst[c * ldd + r] = src[r * lds + c];
    }
}

#include "gemm_kernel.h"
#include "gemm_driver.h"

/* The terms [0, kc) of `cols` columns of panels that are `stride` elements apart, in f32. */
static void NAME(widen_block)(T *dst, const TB *src, int64_t stride, int64_t kc, int64_t cols) {
    for (int64_t n = 0; n < cols; n += W, src += stride)
        for (int64_t k = 0; k < kc; k++, dst += W)
            *(VU *)dst = LOADB(src + k * W);
}

/* Many rows share a block of B: it is widened once, into the workspace. */
static int NAME(read_half)(const NAME(problem) *p, const TB *b, T *work, int64_t rows, int64_t n0,
                           int64_t n1, int64_t k0, int64_t kc, NAME(part) *parts) {
    const TB *src = b + n0 * p->k + k0 * W;
    int64_t stride = p->k * W;
    if (!p->trans_b) {
        parts[0] = (NAME(part)){.n = n1 - n0, .bk = W, .bp = stride, .b = src, .rows = NAME(rlx_gemm_rows)};
        return 1;
    }
    NAME(widen_block)(work, src, stride, kc, n1 - n0);
    parts[0] = (NAME(part)){.n = n1 - n0, .bk = W, .bp = kc * W, .b = work, .rows = rlx_gemm_rows_f32};
    return 1;
}

static int NAME(matmul_half)(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    return NAME(run)(t, f, lo, hi, NAME(read_half));
}

#include "conv_driver.h"
