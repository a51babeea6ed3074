/* gemm_f64: the kernels of gemm_f32.c for double; a panel is 8, 4 or 2 columns. */
#include "epilogue.h"
#include "gemm.h"

#define T double
#define S f64
#define V rlx_v64
#define VU rlx_v64u
#define W RLX_W64
#include "template.h"
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_plain.h"

const rlx_kernel_row rlx_rows_gemm_f64[] = {
    {"gemm_info.f64", gemm_info_f64, "", 0},
    {"pack_b.f64", pack_b_f64, PACK_LAYOUT, 0},
    {"matmul.f64", matmul_f64, MATMUL_LAYOUT, 0},
    {"matmul.f64@unpacked", matmul_unpacked_f64, MATMUL_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
