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
#define TB uint8_t
#define S f8e4m3fn
#include "gemm_half_driver.h"
#undef S
#define S f8e5m2
#include "gemm_half_driver.h"

const rlx_kernel_row rlx_rows_gemm_float8[] = {
    STORED_ROWS(f8e4m3fn),
    STORED_ROWS(f8e5m2),
    {NULL, NULL, NULL, 0},
};
