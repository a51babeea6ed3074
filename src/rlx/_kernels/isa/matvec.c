/* matvec: out[i] = clamp(sum_k a[i, k] x[k] + bias), for products with one column or one row.
 *
 * matvec.f32, matvec.f64   args: a, x, out, bias | absent, absent, operands of the epilogue
 *   a    rows of K contiguous elements, lda apart: A of a product with N = 1, or B stored
 *        [N, K] of a product with M = 1
 *   x    K contiguous elements; out: M contiguous elements; bias [M], or a scalar if
 *        bias_step is 0
 *   attrs: M K lda bias_step mc; clamp lo hi; batch: (size, stride a, x, out); steps: see
 *   epilogue.h, the output being a row of M columns.
 *   extent: batch * ceil(M / mc)
 *
 * Design. Where nothing can be packed (or packing would pad one column to a
 * panel) the product is bound by reading A once, so it runs along K: four rows
 * at a time share the loads of x, two accumulators each. The sum of an element is
 * split over the lanes and depends on K alone, but differs in the last bits from
 * that of matmul.
 * 1000 x 512 in the second cache: 3 times as fast as a matmul of one panel.
 */
#include "epilogue.h"
#include "tile.h"

#define LAYOUT "M K lda bias_step mc clamp lo:f hi:f batch:* steps:*"
enum { ROWS = 4 };

#include "template.h"
#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "matvec_driver.h"
#undef T
#undef S
#undef V
#undef VU
#undef W
#define T double
#define S f64
#define V rlx_v64
#define VU rlx_v64u
#define W RLX_W64
#include "matvec_driver.h"

const rlx_kernel_row rlx_rows_matvec[] = {
    {"matvec.f32", matvec_f32, LAYOUT, 0},
    {"matvec.f64", matvec_f64, LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
