/* gemm_f32: out = epilogue(clamp(A B + bias)).
 *
 * gemm_info.f32      args: out int64[2]: rows of the tallest tile, columns NR of a panel
 * pack_b.f32         args: src, packed. attrs: K N ldb trans group_stride
 *                    src[k * ldb + n], or src[n * ldb + k] if trans; one matrix per group.
 *                    packed: [group][ceil(N / NR)][K][NR], zero-padded in N.
 *                    extent: groups * ceil(N / NR)
 * matmul.f32         args: a, packed, out, bias [N] | absent, workspace | absent,
 *                    operands of the epilogue
 * matmul.f32@unpacked   the same with B as it lies: b[k * ldb + n], or b[n * ldb + k] if trans_b
 * attrs: M N K; lda ldb ldo: elements between rows as stored; trans_a: A is [K, M];
 *     mc nc kc: rows, columns and depth of a task; out_size: bytes of an output element
 *     (4 unless the last step narrows); work_stride: bytes of a thread's workspace;
 *     addend: the argument that is added after the bias, of the output's shape, or -1, its rows
 *     ld_addend apart, 0: strides of the output; clamp lo hi: after that; batch: (size, stride a, b, out in elements) of the outer dimensions,
 *     outermost first; steps: see epilogue.h. extent: batch * ceil(N / nc) * ceil(M / mc).
 * rlx/lower/gemm.py computes every derived number.
 *
 * Design. A panel is one vector wide and a micro-kernel takes MR rows times NP
 * panels: 14x2 or 8x3 vectors of 16 floats (AVX-512), 6x2 of 8 (AVX2), and for
 * few rows up to 1x8, where the panels are as many read streams. Panels of one
 * vector leave at most 15 padded columns and let each row count have the shape
 * that fills the registers. A is read where it lies by broadcast loads; a copy
 * of A was not measurably better even for row strides of 4 KB. Rows are cut
 * into tiles of nearly equal height: 16 rows are 8 + 8, not 14 + 2.
 * The panels of the next pass, or of the next columns, are fetched into the second cache
 * while a block is multiplied, a part by each row tile: weights of a network come from memory,
 * and a burst at the first row tile waits for them. Rows of 49 pixels: 108 -> 145 GFLOP/s.
 * A B that fits the first cache and is given in every run is read where it lies, in tiles of 6 x 4 vectors
 * (AVX2: 6 x 2): see gemm_direct.h. So, with AVX-512, are packed panels of few terms, if there are four: rows of
 * A and of the result are then met once.
 * Where B does not fit the second cache, about 98 rows share it and tasks differ in columns.
 * Each element is a chain of FMAs over k from zero, cut every kc <= 384 terms,
 * with the parts added in order; bias and clamp come last. So the bits depend
 * on K alone: not on M, N, tile, cut, packing or, with FMA, ISA level, and equal
 * those of the unfused graph.
 *
 * Measured (Sapphire Rapids, one thread, operands aligned to 64 bytes, best of many
 * on a busy machine; peak: FMAs on registers in the same process; the others:
 * ONNX Runtime 1.32 and OpenBLAS with AVX-512):
 *      M     N     K   of peak AVX-512  AVX2   time of ORT / ours   OpenBLAS / ours
 *    128   384   384       0.97         0.90          1.03               1.22
 *    128  1536   384       0.95         0.86          1.04               1.30
 *    128   384  1536       0.92         0.89          1.03               1.29
 *      1   384   384    memory bound                  1.67               1.30
 *      1   384  1536    memory bound                  1.25               1.11
 *      1  1024  1024    memory bound                  1.05               1.02
 *      8   384   384       0.89         0.74          1.41               3.3
 *     16    16    16       0.11         0.19          7.0                2.5
 *    256   256   256       1.0          0.94          1.20               1.21
 *    512   512   512       0.86         0.86          1.00               1.11
 *   1024  1024  1024       0.83         0.81          1.04               1.01
 *   2048  2048  2048       0.83         0.81          1.02               0.96
 * Fetched meanwhile, a few lines at a time (AVX-512): the line of each panel that is needed 8 steps later, or 16
 * steps with up to 8 rows, into the first cache; the panels right of a call's first tile, the rows of A of the next
 * tile and the lines of the result, from 192 terms on, into the second one. 256^3 with everything in the third cache
 * 207 -> 194 us, in the second 189 -> 187 (FMA peak 177); 8 rows x 768 x 768 84 -> 73, 4 rows x 384 x 1536 70 -> 65.
 * A tile that has nothing to add, no limits and no part of a panel is written without looking at the rest:
 * 512x32x2048 485 -> 440. Steps must not be unrolled by the compiler, which mixes them until registers run out.
 * Without effect: prefetching C all at once (it costs 12 % at K = 64 where C comes from afar), weights in pages of
 * 2 MB, clearing registers without moves, other mc, nc and kc (within 2 %), K unrolled by 2
 * or 4 with AVX-512; with AVX2 unrolling by 2 gives 5 %. Operands that are not
 * aligned to the cache line cost 5 to 40 %.
 */
#include "epilogue.h"
#include "gemm.h"

#define T float
#define S f32
#define V rlx_v32
#define VU rlx_v32u
#define W RLX_W32
#include "template.h"
#include "gemm_kernel.h"
#include "gemm_driver.h"
#include "gemm_plain.h"

const rlx_kernel_row rlx_rows_gemm_f32[] = {
    {"gemm_info.f32", gemm_info_f32, "", 0},
    {"pack_b.f32", pack_b_f32, PACK_LAYOUT, 0},
    {"matmul.f32", matmul_f32, MATMUL_LAYOUT, 0},
    {"matmul.f32@unpacked", matmul_unpacked_f32, MATMUL_LAYOUT, 0},
    {NULL, NULL, NULL, 0},
};
