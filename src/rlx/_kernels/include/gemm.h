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
        const T *b;      /* first panel */              \
        int64_t bk, bp;  /* elements between k steps, between panels */              \
        T *c;                                                                        \
        int64_t ldc;                                                                 \
        int accumulate;  /* c += a b, else c = a b (c is not read) */                \
        int clamp;       /* then to [lo, hi] */                                      \
        const T *bias;   /* then + bias[column], or NULL; before the clamp */        \
        T lo, hi;                                                                    \
    } rlx_gemm_block_##S;                                                            \
    void rlx_gemm_rows_##S(const rlx_gemm_block_##S *g);                             \
    void rlx_pack_panels_##S(T *dst, const T *src, int64_t ldb, int trans, int64_t k, int64_t n, \
                             int64_t panel_stride);

RLX_GEMM_DECLARE(float, f32)
RLX_GEMM_DECLARE(double, f64)

/* Rows of the tiles that [0, rows) is cut into: as equal as can be, so that no
 * tile is left with too few rows to hide the FMA latency. */
static inline int64_t rlx_tile_rows(int64_t rows, int64_t limit, int64_t at) {
    int64_t left = rows - at, tiles = (left + limit - 1) / limit;
    return (left + tiles - 1) / tiles;
}

#endif
