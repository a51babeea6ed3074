/* scan: places of extrema, and running sums, products and extrema.
 *
 * argmax.T, argmin.T   args: x, out (i64);  attrs: outer n inner select_last
 *                      extent: outer * inner
 *   x [outer, n, inner], out [outer, inner], n >= 1. The first of equal extrema,
 *   or the last if select_last; a NaN beats every number. Always in [0, n).
 * cumsum.T cumprod.T cummax.T cummin.T
 *                      args: x, out;  attrs: outer n inner exclusive reverse
 *                      extent: outer * inner; may run in place
 *   Along the middle axis. exclusive starts with the neutral element (0, 1,
 *   lowest, highest) and leaves the last term out; reverse runs from the end.
 *   f32 accumulates in f64; integers wrap; NaN stays once it has come.
 * T: f32 f64 i8 i16 i32 i64 u8 u16 u32 u64.
 *
 * Loops. inner == 1: argmax folds blocks of eight registers and notes the block
 * of the last win; the place is looked up there at the end.  Scans are serial. inner > 1: up to COLUMNS columns at
 * once, scans up to SCAN_COLUMNS: rows of 512 bytes, 4 KB apart, take twice as long as whole pages, in which
 * the processor fetches ahead; accumulators stay in the first cache.
 */
#include <math.h>

#include "abi.h"
#include "rows.h"

#define COLUMNS 128
#define SCAN_COLUMNS 1024
#define BLOCK 8 /* registers folded before a look whether one of them won */

static inline int any_set(vl mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    return (mask[0] | mask[1]) != 0;
#endif
}

#define MAX_INT(a, b) RLX_SELECT((b) > (a), b, a)
#define MIN_INT(a, b) RLX_SELECT((b) < (a), b, a)
#define MORE(a, b) ((a) > (b))
#define LESS(a, b) ((a) < (b))

#define T float
#define TN f32
#define A double
#define V_MAX vf_max_nan
#define V_MIN vf_min_nan
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define IS_NAN(x) ((x) != (x))
#include "scan.inc"
#define T double
#define TN f64
#define A double
#define V_MAX vd_max_nan
#define V_MIN vd_min_nan
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define IS_NAN(x) ((x) != (x))
#include "scan.inc"

#define T int8_t
#define TN i8
#define A uint64_t
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "scan.inc"
#define T int16_t
#define TN i16
#define A uint64_t
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#include "scan.inc"
#define T int32_t
#define TN i32
#define A uint64_t
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "scan.inc"
#define T int64_t
#define TN i64
#define A uint64_t
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "scan.inc"
#define T uint8_t
#define TN u8
#define A uint64_t
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "scan.inc"
#define T uint16_t
#define TN u16
#define A uint64_t
#define LOWEST 0
#define HIGHEST UINT16_MAX
#include "scan.inc"
#define T uint32_t
#define TN u32
#define A uint64_t
#define LOWEST 0
#define HIGHEST UINT32_MAX
#include "scan.inc"
#define T uint64_t
#define TN u64
#define A uint64_t
#define LOWEST 0
#define HIGHEST UINT64_MAX
#include "scan.inc"

#define SCAN "outer n inner exclusive reverse"
#define ROWS(TN)                                                     \
    {"argmax." #TN, argmax_##TN, "outer n inner select_last", 0},    \
    {"argmin." #TN, argmin_##TN, "outer n inner select_last", 0},    \
    {"cumsum." #TN, cumsum_##TN, SCAN, RLX_INPLACE},                 \
    {"cumprod." #TN, cumprod_##TN, SCAN, RLX_INPLACE},               \
    {"cummax." #TN, cummax_##TN, SCAN, RLX_INPLACE},                 \
    {"cummin." #TN, cummin_##TN, SCAN, RLX_INPLACE}

const rlx_kernel_row rlx_rows_scan[] = {
    ROWS(f32), ROWS(f64), ROWS(i8), ROWS(i16), ROWS(i32), ROWS(i64),
    ROWS(u8), ROWS(u16), ROWS(u32), ROWS(u64),
    {NULL, NULL, NULL, 0},
};
