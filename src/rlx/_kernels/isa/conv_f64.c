/* conv_f64: the kernel of conv_f32.c for double. */
#include "epilogue.h"
#include "gemm.h"

#define T double
#define S f64
#define V rlx_v64
#define VU rlx_v64u
#define W RLX_W64
#include "template.h"
#include "conv_driver.h"
#include "conv_transpose_driver.h"

const rlx_kernel_row rlx_rows_conv_f64[] = {
    {"conv.f64@nhwc", conv_run_f64, CONV_LAYOUT, 0},
    {"pack_conv_transpose.f64", pack_transpose_f64, PACK_TRANSPOSE_LAYOUT, 0},
    {"conv_transpose.f64@nhwc", transpose_run_f64, CONV_TRANSPOSE_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
