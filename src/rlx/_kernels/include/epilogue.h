/* Epilogue: a chain of elementwise micro-kernels run on a tile of the output
 * right after it was computed, while it is in the first or second cache.
 *
 * The chain is a list attribute; each step is
 *     fn kind arg ld size n_params params...
 *   fn      address of an rlx_ew micro-kernel
 *   kind    RLX_EPI_UNARY   dst = fn(dst)
 *           RLX_EPI_ROW     dst = fn(dst, operand[n])         operand: [N]
 *           RLX_EPI_FULL    dst = fn(dst, operand[row, n])    operand rows of ld elements,
 *                           row counted over (batch, M) of the logical output
 *           RLX_EPI_SAME    dst = fn(dst, operand[offset of the output element]):
 *                           the operand has the output's own strides
 *           | RLX_EPI_SWAP  the operand comes first: dst = fn(operand, dst)
 *   arg     index of the operand among the thunk's arguments, -1 if unary
 *   ld      row stride of a FULL operand in elements
 *   size    bytes of an element of the operand
 *   params  the micro-kernel's parameters (doubles)
 * When the kernel's `out_size` differs from the accumulator's size the last
 * step narrows: it reads the tile from workspace and writes the output.
 */
#ifndef RLX_EPILOGUE_H
#define RLX_EPILOGUE_H

#include "abi.h"

enum {
    RLX_EPI_UNARY = 0,
    RLX_EPI_ROW = 1,
    RLX_EPI_FULL = 2,
    RLX_EPI_SAME = 3,
    RLX_EPI_KIND = 7,
    RLX_EPI_SWAP = 8
};

typedef struct rlx_epi_tile {
    char *acc;       /* the tile: rows of accumulators, ld_acc elements apart */
    char *out;       /* where the result belongs; == acc unless narrowing */
    int64_t ld_acc, ld_out; /* elements */
    int64_t acc_size, out_size;
    int64_t rows, cols;
    int64_t row;     /* of the tile's first row, over (batch, M) */
    int64_t row_step; /* from one tile row to the next */
    int64_t col;     /* of the tile's first column */
    int64_t offset;  /* element offset of the tile in the output */
} rlx_epi_tile;

enum { RLX_EPI_HEAD = 6 };

static int rlx_epilogue(const rlx_thunk *t, const rlx_frame *f, const int64_t *step, int64_t count,
                        const rlx_epi_tile *tile) {
    const int64_t *end = step + count;
    while (step < end) {
        rlx_ew fn = (rlx_ew)(intptr_t)step[0];
        int64_t kind = step[1] & RLX_EPI_KIND, swap = step[1] & RLX_EPI_SWAP;
        int64_t ld = step[3], size = step[4];
        const double *params = (const double *)(step + RLX_EPI_HEAD);
        const int64_t *next = step + RLX_EPI_HEAD + step[5];
        int narrow = next == end && tile->out != tile->acc;
        const char *operand = kind == RLX_EPI_UNARY ? NULL : RLX_PTR(t, f, step[2]);
        int64_t advance = 0; /* elements of the operand per tile row */
        if (kind == RLX_EPI_ROW) {
            operand += tile->col * size;
        } else if (kind == RLX_EPI_FULL) {
            operand += (tile->row * ld + tile->col) * size;
            advance = ld * tile->row_step;
        } else if (kind == RLX_EPI_SAME) {
            operand += tile->offset * size;
            advance = tile->ld_out;
        }
        int64_t ld_dst = narrow ? tile->ld_out : tile->ld_acc;
        int64_t dst_size = narrow ? tile->out_size : tile->acc_size;
        char *dst = narrow ? tile->out : tile->acc;
        const char *src = tile->acc;
        int64_t rows = tile->rows, cols = tile->cols;
        if (ld_dst == cols && tile->ld_acc == cols &&
            (kind == RLX_EPI_UNARY || (kind != RLX_EPI_ROW && advance == cols))) {
            cols *= rows;
            rows = 1;
        }
        for (int64_t r = 0; r < rows; r++) {
            int status = fn(dst, swap ? operand : src, swap ? src : operand, NULL, cols, params,
                            f->error);
            if (status) {
                f->error->position += tile->offset + r * tile->ld_out;
                return status;
            }
            dst += ld_dst * dst_size;
            src += tile->ld_acc * tile->acc_size;
            operand += operand ? advance * size : 0;
        }
        step = next;
    }
    return RLX_OK;
}

#endif
