/* matvec: out[j, i] = clamp(sum_k a[i, k] x[j, k] + bias), for products with one column or few rows.
 *
 * matvec.f32, matvec.f64    args: a, x, out, bias | absent, workspace | absent, operands of
 *                           the epilogue
 * matvec.f32@f16, @bf16     the same with a in halves, widened in registers
 *   a    rows of K contiguous elements, lda apart: A of a product with N = 1, or B stored
 *        [N, K] of a product with few rows
 *   x    X vectors of K contiguous elements, ldx apart; 1 <= X <= 4
 *   out  X rows of M contiguous elements, ldo apart; bias [M], or a scalar if bias_step is 0
 *   attrs: M K lda bias_step mc; clamp lo hi; batch: (size, stride a, x, out); steps: see
 *   epilogue.h, the output being X rows of M columns; X ldx ldo; out_size: bytes of an output
 *   element, others than those of x if the last step narrows, which takes a workspace.
 *   extent: batch * ceil(M / mc)
 *
 * Design. Where nothing can be packed (or packing would pad one column to a
 * panel) the product is bound by reading A once, so it runs along K: four rows
 * at a time share the loads of x, two accumulators each; with several vectors
 * as many rows as leave the accumulators in registers. The sum of an element is
 * split over the lanes and depends on K alone, neither on X nor on the rows
 * beside it, but differs in the last bits from that of matmul.
 * 1000 x 512 in the second cache: 3 times as fast as a matmul of one panel.
 */
#include "epilogue.h"
#include "tile.h"
#include "widen.h"

#define LAYOUT "M K lda bias_step mc clamp lo:f hi:f batch:* steps:* X ldx ldo out_size work_stride"
enum { ROWS = 4, MAX_X = 4 };

#define TB T
#define LOADB LOAD
#define TRANSPOSE_B NAME(rlx_transpose)
#include "template.h"
#define T float
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#define PART rlx_load_part_f32
#define SUM rlx_sum_f32
#define PARTB PART
#define S f32
#include "matvec_driver.h"

#undef TB
#undef LOADB
#undef PARTB
#define TB uint16_t
#undef S
#define S f16
#define LOADB rlx_widen_f16
#define PARTB rlx_widen_part_f16
#include "matvec_driver.h"
#undef S
#undef LOADB
#undef PARTB
#define S bf16
#define LOADB rlx_widen_bf16
#define PARTB rlx_widen_part_bf16
#include "matvec_driver.h"

#undef TB
#undef LOADB
#undef PARTB
#undef PART
#undef SUM
#undef T
#undef S
#undef V
#undef VU
#undef W
#define TB T
#define LOADB LOAD
#define PART rlx_load_part_f64
#define SUM rlx_sum_f64
#define PARTB PART
#define T double
#define S f64
#define V rlx_v64
#define VU rlx_v64u
#define W RLX_W64
#include "matvec_driver.h"

const rlx_kernel_row rlx_rows_matvec[] = {
    {"matvec.f32", matvec_f32, LAYOUT, 0},
    {"matvec.f64", matvec_f64, LAYOUT, 0},
    {"matvec.f32@f16", matvec_f16, LAYOUT, 0},
    {"matvec.f32@bf16", matvec_bf16, LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
