/* What the GEMM family shares with convolution: the register-tiled row block.
 *
 * rlx_gemm_rows_f32 multiplies `rows` <= RLX_GEMM_MR rows of A, K contiguous,
 * by the columns [0, n) of packed panels of B. */
#ifndef RLX_GEMM_H
#define RLX_GEMM_H

#include "abi.h"
#include "tile.h"

enum { RLX_GEMM_MR = RLX_VREGS == 32 ? 14 : 6 };

/* A stretch of K: k terms from a + a, at b + b. Rows of a convolution are
 * several stretches of the input, one after another. */
typedef struct rlx_gemm_run {
    int64_t a, b, k;
} rlx_gemm_run;

#define RLX_GEMM_DECLARE(T, S) \
    typedef struct rlx_gemm_block_##S { \
        int64_t rows, n;                                                             \
        const rlx_gemm_run *runs, *end; /* at least one */                           \
        const T *a;                                                                  \
        int64_t lda;     /* elements between rows of A */                            \
        const void *b;   /* first panel, in the type it is stored in */              \
        int64_t bk, bp;  /* elements between k steps, between panels */              \
        T *c;                                                                        \
        int64_t ldc;                                                                 \
        int accumulate;  /* c += a b, else c = a b (c is not read) */                \
        int clamp;       /* then to [lo, hi] */                                      \
        const T *bias;   /* then + bias[column], or NULL; before the clamp */        \
        const T *addend; /* then + addend[row * ld_addend + column], or NULL; likewise */ \
        int64_t ld_addend;                                                           \
        T lo, hi;                                                                    \
        const void *next; /* panels that are multiplied after these, bp apart, or NULL: fetched meanwhile, \
                             a part by each of the `tiles` row tiles that share B; this is row tile `tile` */ \
        int64_t tile, tiles;                                                         \
        const T *below;  /* rows of A that are multiplied after these, or NULL; fetched meanwhile, as is \
                            what the result is written over */                       \
        int first;       /* nobody has fetched these panels: each tile fetches those right of its own */ \
    } rlx_gemm_block_##S;                                                            \
    void rlx_gemm_rows_##S(const rlx_gemm_block_##S *g);                             \
    void rlx_pack_panels_##S(T *dst, const T *src, int64_t ldb, int trans, int64_t k, int64_t n, \
                             int64_t panel_stride);

RLX_GEMM_DECLARE(float, f32)
RLX_GEMM_DECLARE(double, f64)

/* B stored in half precision, widened in registers: see gemm_half.c. */
typedef rlx_gemm_block_f32 rlx_gemm_block_f16, rlx_gemm_block_bf16;
void rlx_gemm_rows_f16(const rlx_gemm_block_f16 *g);
void rlx_gemm_rows_bf16(const rlx_gemm_block_bf16 *g);
/* Or in float8: see gemm_float8.c. */
typedef rlx_gemm_block_f32 rlx_gemm_block_f8e4m3fn, rlx_gemm_block_f8e5m2;
void rlx_gemm_rows_f8e4m3fn(const rlx_gemm_block_f8e4m3fn *g);
void rlx_gemm_rows_f8e5m2(const rlx_gemm_block_f8e5m2 *g);

/* Shapes of the micro-kernels, rows x panels, and the widest for each number of rows. */
#define RLX_UPTO1(F, MR) F(MR, 1)
#define RLX_UPTO2(F, MR) RLX_UPTO1(F, MR) F(MR, 2)
#define RLX_UPTO3(F, MR) RLX_UPTO2(F, MR) F(MR, 3)
#define RLX_UPTO4(F, MR) RLX_UPTO3(F, MR) F(MR, 4)
#define RLX_UPTO6(F, MR) RLX_UPTO4(F, MR) F(MR, 5) F(MR, 6)
#define RLX_UPTO8(F, MR) RLX_UPTO6(F, MR) F(MR, 7) F(MR, 8)
#if RLX_VREGS == 32
#define RLX_SHAPES(F) \
    RLX_UPTO8(F, 1) RLX_UPTO8(F, 2) RLX_UPTO8(F, 3) RLX_UPTO4(F, 4) RLX_UPTO4(F, 5)      \
    RLX_UPTO4(F, 6) RLX_UPTO3(F, 7) RLX_UPTO3(F, 8) RLX_UPTO2(F, 9) RLX_UPTO2(F, 10)     \
    RLX_UPTO2(F, 11) RLX_UPTO2(F, 12) RLX_UPTO2(F, 13) RLX_UPTO2(F, 14)
static const uint8_t rlx_widest[RLX_GEMM_MR + 1] = {0, 8, 8, 8, 4, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2};
#else
#define RLX_SHAPES(F)                                                                     \
    RLX_UPTO8(F, 1) RLX_UPTO6(F, 2) RLX_UPTO4(F, 3) RLX_UPTO3(F, 4) RLX_UPTO2(F, 5)      \
    RLX_UPTO2(F, 6)
static const uint8_t rlx_widest[RLX_GEMM_MR + 1] = {0, 8, 6, 4, 3, 2, 2};
#endif

/* So few rows are bound by the read of B. */
enum { RLX_FEW_ROWS = 8 };

/* Rows of the tiles that [0, rows) is cut into: as equal as can be, so that no
 * tile is left with too few rows to hide the FMA latency. */
static inline int64_t rlx_tile_rows(int64_t rows, int64_t limit, int64_t at) {
    int64_t left = rows - at, tiles;
    if (left <= limit)
        return left;
    tiles = (left + limit - 1) / limit;
    return (left + tiles - 1) / tiles;
}

#endif
