/* gemm_half: out = epilogue(clamp(A B + bias)), A in f32, B stored in f16 or bf16 and widened.
 *
 * pack_b.f16, pack_b.bf16            as pack_b.f32; panels of the same shape, 2 bytes an element
 * matmul.f32@f16, matmul.f32@bf16    args and attrs of matmul.f32; `trans_b` says that each task
 *                                    widens its block of B first (rlx/lower/gemm_half.py decides)
 * conv.f32@f16, conv.f32@bf16        conv.f32@nhwc over such panels
 *
 * Design. Widening is exact, so the micro-kernels are those of gemm_f32.c with another load of B:
 * the bits are the ones of a product whose weights were widened before. A load costs two
 * instructions more on the ports that do the arithmetic: with few rows that is nothing beside the
 * read of B, which is halved; with many rows it is 10 to 15 % in a full tile, so a block is widened
 * once into the second cache, where the f32 kernels find it. bf16 dot products (AVX-512-BF16) round
 * the products of a pair together and flush denormals: other bits than the contract's, not used.
 */
#include "epilogue.h"
#include "gemm.h"
#include "widen.h"

#define TB uint16_t
#define LOADB NAME(rlx_widen)
#define TRANSPOSE_B rlx_transpose_b16
#include "template.h"
#define T float
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32

/* What the templates call under the suffix of the storage type. */
#define rlx_load_part_f16 rlx_load_part_f32
#define rlx_store_part_f16 rlx_store_part_f32
#define rlx_clamp_f16 rlx_clamp_f32
#define rlx_load_part_bf16 rlx_load_part_f32
#define rlx_store_part_bf16 rlx_store_part_f32
#define rlx_clamp_bf16 rlx_clamp_f32
#define rlx_transpose_f16 rlx_transpose_f32
#define rlx_transpose_bf16 rlx_transpose_f32

/* dst[c * ldd + r] = src[r * lds + c] for r < rows, c < cols. */
static void rlx_transpose_b16(uint16_t *dst, int64_t ldd, const uint16_t *src, int64_t lds,
                              int64_t rows, int64_t cols) {
    for (int64_t c0 = 0; c0 < cols; c0 += 32) {
        int64_t c1 = c0 + 32 < cols ? c0 + 32 : cols;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = c0; c < c1; c++)
                dst[c * ldd + r] = src[r * lds + c];
    }
}

void rlx_pack_panels_f16(uint16_t *dst, const uint16_t *src, int64_t ldb, int trans, int64_t k,
                         int64_t n, int64_t panel_stride);
void rlx_pack_panels_bf16(uint16_t *dst, const uint16_t *src, int64_t ldb, int trans, int64_t k,
                          int64_t n, int64_t panel_stride);

#define WIDE_ROWS 40 /* of a convolution's task; gemm_half.py gives the workspace */
#define S f16
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_half_driver.h"
#include "conv_driver.h"
#undef S
#define S bf16
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_half_driver.h"
#include "conv_driver.h"

const rlx_kernel_row rlx_rows_gemm_half[] = {
    {"pack_b.f16", pack_b_f16, PACK_LAYOUT, 0},
    {"pack_b.bf16", pack_b_bf16, PACK_LAYOUT, 0},
    {"matmul.f32@f16", matmul_half_f16, MATMUL_LAYOUT, 0},
    {"matmul.f32@bf16", matmul_half_bf16, MATMUL_LAYOUT, 0},
    {"conv.f32@f16", conv_run_f16, CONV_LAYOUT, 0},
    {"conv.f32@bf16", conv_run_bf16, CONV_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
