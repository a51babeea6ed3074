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
#define TB uint16_t
#define S f16
#include "gemm_half_driver.h"
#undef S
#define S bf16
#include "gemm_half_driver.h"

const rlx_kernel_row rlx_rows_gemm_half[] = {
    STORED_ROWS(f16),
    STORED_ROWS(bf16),
    {NULL, NULL, NULL, 0},
};
