/* gemm_float8: out = epilogue(clamp(A B + bias)), A in f32, B stored in float8 and widened.
 *
 * pack_b.<f8>          as pack_b.f32; panels of the same shape, 1 byte an element
 * matmul.f32@<f8>      args and attrs of matmul.f32; `trans_b` as in gemm_half.c
 * conv.f32@<f8>        conv.f32@nhwc over such panels
 * for f8 = f8e4m3fn, f8e5m2
 *
 * Design. That of gemm_half.c: widening is exact, so the bits are those of a product whose weights
 * were widened before. A load of B costs three (e5m2) to eight (e4m3fn) instructions more, so a
 * block that few rows share is widened once. The formats with one zero have no kernels of their own:
 * all their values are halves, and weights of theirs are stored as such. */
#include "epilogue.h"
#include "gemm.h"
#include "widen.h"

#define TB uint8_t
#define LOADB NAME(rlx_widen)
#define TRANSPOSE_B rlx_transpose_b8
#include "template.h"
#define T float
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32

/* What the templates call under the suffix of the storage type. */
#define rlx_load_part_f8e4m3fn rlx_load_part_f32
#define rlx_store_part_f8e4m3fn rlx_store_part_f32
#define rlx_clamp_f8e4m3fn rlx_clamp_f32
#define rlx_transpose_f8e4m3fn rlx_transpose_f32
#define rlx_load_part_f8e5m2 rlx_load_part_f32
#define rlx_store_part_f8e5m2 rlx_store_part_f32
#define rlx_clamp_f8e5m2 rlx_clamp_f32
#define rlx_transpose_f8e5m2 rlx_transpose_f32

/* dst[c * ldd + r] = src[r * lds + c] for r < rows, c < cols. */
static void rlx_transpose_b8(uint8_t *dst, int64_t ldd, const uint8_t *src, int64_t lds,
                             int64_t rows, int64_t cols) {
    for (int64_t c0 = 0; c0 < cols; c0 += 64) {
        int64_t c1 = c0 + 64 < cols ? c0 + 64 : cols;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = c0; c < c1; c++)
                dst[c * ldd + r] = src[r * lds + c];
    }
}

void rlx_pack_panels_f8e4m3fn(uint8_t *dst, const uint8_t *src, int64_t ldb, int trans, int64_t k,
                              int64_t n, int64_t panel_stride);
void rlx_pack_panels_f8e5m2(uint8_t *dst, const uint8_t *src, int64_t ldb, int trans, int64_t k,
                            int64_t n, int64_t panel_stride);

#define WIDE_ROWS 40 /* of a convolution's task; gemm_half.py gives the workspace */
#define S f8e4m3fn
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_half_driver.h"
#include "conv_driver.h"
#undef S
#define S f8e5m2
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_half_driver.h"
#include "conv_driver.h"

const rlx_kernel_row rlx_rows_gemm_float8[] = {
    {"pack_b.f8e4m3fn", pack_b_f8e4m3fn, PACK_LAYOUT, 0},
    {"pack_b.f8e5m2", pack_b_f8e5m2, PACK_LAYOUT, 0},
    {"matmul.f32@f8e4m3fn", matmul_half_f8e4m3fn, MATMUL_LAYOUT, 0},
    {"matmul.f32@f8e5m2", matmul_half_f8e5m2, MATMUL_LAYOUT, 0},
    {"conv.f32@f8e4m3fn", conv_run_f8e4m3fn, CONV_LAYOUT, 0},
    {"conv.f32@f8e5m2", conv_run_f8e5m2, CONV_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
