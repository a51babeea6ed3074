/* Elementwise regions: a chain of micro-kernels over blocks that stay in L1.
 *
 * Design. A region is a straight-line program over "registers". A register is
 * an input, a temporary of one block, or an output. The flat index space of the
 * region's shape is walked in blocks; per block every step calls its
 * micro-kernel once, so intermediates never leave L1 and the interpretation
 * costs about 3 ns a step and block. An input is one of
 *
 *   FULL      lies in the region's own order: used where it lies
 *   SCALAR    one element for all: splatted into a block once per range
 *   PERIODIC  repeats every `period` elements (a bias over rows): the block is a
 *             multiple of the period, so the pattern is laid out once per range
 *   STRIDED   anything else (broadcast in the middle, transposed): gathered per
 *             block in runs along the innermost axis; a run of step 1 that
 *             covers the block is used where it lies
 *
 * Sums, differences and products that only the next step reads run as one step with it (ew_pairs.c), and functions
 * with the sum or product before and after them (ew_around.c).
 * Operands and results of cheap steps beyond the second cache are fetched a block ahead, a part before each step, so
 * that memory works while the steps do: 8 cheap operations on 1M items went from 0.84 to 0.94 of the time
 * of a compiled loop; in the second cache that cost 10 %. Beside a function the processor fetches in time by itself,
 * and the bursts hold up its loads: silu(x) z on 1M items takes 443 us without, 536 with operands fetched,
 * 658 with the result as well; 8 operations with four functions 1477, 1602 and 1754.
 *
 * Measured against the alternative of one kernel per op with full arrays in
 * between: 8 ops on 1M f32 are about 5 times as fast, since only the inputs and
 * the result touch memory.
 *
 * region.ew      attrs: total block work n_regs regs:* steps:* dims:* strides:* params:*
 *   args: inputs and outputs in any order, then the per-thread workspace (last)
 *   total    elements of the region
 *   block    elements per block
 *   work     bytes of workspace per thread
 *   regs     6 words each: kind, item size, argument index or workspace byte
 *            offset, workspace byte offset of the block (inputs), period or
 *            index of the first stride in `strides`, whether it is fetched ahead
 *            (FULL and OUT)
 *   steps    6 words each: micro-kernel address, dst, a, b, c (registers, -1 for
 *            none), index into params
 *   dims     the region's shape, for STRIDED inputs
 *   extent   number of blocks
 * region.direct  attrs: fn sizes:* params:*    args: a b c out (a, b, c may be absent)
 *   one step over operands in flat order; sizes = their item sizes; extent = elements
 */
#include "abi.h"

enum { REG_FULL, REG_SCALAR, REG_PERIODIC, REG_STRIDED, REG_TEMP, REG_OUT };
enum { REG_WORDS = 6, STEP_WORDS = 6, MAX_REGS = 64, MAX_DIMS = 32, FAR_ITEMS = 1 << 18 };

#define FOR_SIZE(size, BODY)                                                             \
    switch (size) {                                                                      \
    case 1: { typedef uint8_t T; BODY } break;                                           \
    case 2: { typedef uint16_t T; BODY } break;                                          \
    case 4: { typedef uint32_t T; BODY } break;                                          \
    case 8: { typedef uint64_t T; BODY } break;                                          \
    default: { typedef struct { uint64_t w[2]; } T; BODY } break;                        \
    }

static void splat(char *dst, const char *src, int64_t size, int64_t n) {
    FOR_SIZE(size, {
        T value;
        memcpy(&value, src, sizeof value);
        T *d = (T *)dst;
        for (int64_t i = 0; i < n; i++)
            d[i] = value;
    })
}

static void copy_strided(char *dst, const char *src, int64_t size, int64_t stride, int64_t n) {
    FOR_SIZE(size, {
        T *d = (T *)dst;
        const T *s = (const T *)src;
        for (int64_t i = 0; i < n; i++)
            d[i] = s[i * stride];
    })
}

/* Lay out elements [start, start + n) of a broadcast input; returns where they are. */
static const char *gather_block(char *block, const char *src, int64_t size, const int64_t *dims,
                                const int64_t *strides, int64_t ndim, int64_t start, int64_t n) {
    int64_t index[MAX_DIMS];
    int64_t rest = start;
    int64_t at = 0;
    for (int64_t k = ndim - 1; k >= 0; k--) {
        index[k] = rest % dims[k];
        rest /= dims[k];
        at += index[k] * strides[k];
    }
    const int64_t inner = dims[ndim - 1], step = strides[ndim - 1];
    if (step == 1 && index[ndim - 1] + n <= inner)
        return src + at * size;
    char *dst = block;
    while (n > 0) {
        int64_t run = inner - index[ndim - 1];
        if (run > n)
            run = n;
        if (step == 0)
            splat(dst, src + at * size, size, run);
        else if (step == 1)
            memcpy(dst, src + at * size, (size_t)(run * size));
        else
            copy_strided(dst, src + at * size, size, step, run);
        dst += run * size;
        n -= run;
        if (n == 0)
            break;
        at -= index[ndim - 1] * step;
        index[ndim - 1] = 0;
        for (int64_t k = ndim - 2; k >= 0; k--) {
            at += strides[k];
            if (++index[k] < dims[k])
                break;
            at -= dims[k] * strides[k];
            index[k] = 0;
        }
    }
    return block;
}

/* Bring part s of `parts` of the bytes at p nearer. */
static inline void fetch_ahead(const char *p, int64_t bytes, int64_t s, int64_t parts) {
    for (int64_t i = bytes * s / parts / 64; i < bytes * (s + 1) / parts / 64; i++)
        __builtin_prefetch(p + i * 64);
}

static int region_ew(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const int64_t total = a[0], block = a[1], work = a[2], n_regs = a[3];
    const int64_t *regs = RLX_LIST(a, 4), *steps = RLX_LIST(a, 6), *dims = RLX_LIST(a, 8);
    const int64_t *strides = RLX_LIST(a, 10), *params = RLX_LIST(a, 12);
    const int64_t n_steps = RLX_COUNT(a, 6) / STEP_WORDS, ndim = RLX_COUNT(a, 8);
    char *scratch = NULL;
    if (work > 0)
        scratch = RLX_PTR(t, f, t->n_args - 1) + f->tid * work;
    const int far = total > FAR_ITEMS;
    char *base[MAX_REGS];
    char *at[MAX_REGS];
    for (int64_t r = 0; r < n_regs; r++) {
        const int64_t *reg = regs + r * REG_WORDS;
        switch (reg[0]) {
        case REG_TEMP:
            at[r] = scratch + reg[2];
            break;
        case REG_SCALAR:
            at[r] = scratch + reg[3];
            splat(at[r], RLX_PTR(t, f, reg[2]), reg[1], block < total ? block : total);
            break;
        case REG_PERIODIC: {
            const char *src = RLX_PTR(t, f, reg[2]);
            const int64_t bytes = reg[4] * reg[1], all = (block < total ? block : total) * reg[1];
            at[r] = scratch + reg[3];
            for (int64_t done = 0; done < all; done += bytes)
                memcpy(at[r] + done, src, (size_t)(done + bytes <= all ? bytes : all - done));
            break;
        }
        default:
            base[r] = RLX_PTR(t, f, reg[2]);
        }
    }
    for (int64_t item = lo; item < hi; item++) {
        const int64_t start = item * block;
        const int64_t n = start + block <= total ? block : total - start;
        for (int64_t r = 0; r < n_regs; r++) {
            const int64_t *reg = regs + r * REG_WORDS;
            if (reg[0] == REG_FULL || reg[0] == REG_OUT)
                at[r] = base[r] + start * reg[1];
            else if (reg[0] == REG_STRIDED)
                at[r] = (char *)gather_block(scratch + reg[3], base[r], reg[1], dims,
                                             strides + reg[4], ndim, start, n);
        }
        for (int64_t s = 0; s < n_steps; s++) {
            const int64_t *step = steps + s * STEP_WORDS;
            if (far && item + 1 < hi)
                for (int64_t r = 0; r < n_regs; r++)
                    if (regs[r * REG_WORDS + 5])
                        fetch_ahead(at[r] + n * regs[r * REG_WORDS + 1], block * regs[r * REG_WORDS + 1],
                                    s, n_steps);
            const rlx_ew fn = (rlx_ew)(intptr_t)step[0];
            const int status = fn(at[step[1]], step[2] >= 0 ? at[step[2]] : NULL,
                                  step[3] >= 0 ? at[step[3]] : NULL,
                                  step[4] >= 0 ? at[step[4]] : NULL, n,
                                  (const double *)(params + step[5]), f->error);
            if (status) {
                f->error->position += start;
                return status;
            }
        }
    }
    return RLX_OK;
}

static int region_direct(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int64_t *a = t->attrs;
    const rlx_ew fn = (rlx_ew)(intptr_t)a[0];
    const int64_t *sizes = RLX_LIST(a, 1);
    char *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = t->args[i].slot >= 0 ? RLX_PTR(t, f, i) + lo * sizes[i] : NULL;
    if (hi <= lo)
        return RLX_OK;
    const int status = fn(p[3], p[0], p[1], p[2], hi - lo, (const double *)RLX_LIST(a, 3), f->error);
    if (status)
        f->error->position += lo;
    return status;
}

const rlx_kernel_row rlx_rows_region[] = {
    {"region.ew", region_ew,
     "total block work n_regs regs:* steps:* dims:* strides:* params:*", RLX_INPLACE},
    {"region.direct", region_direct, "fn sizes:* params:*", RLX_INPLACE},
    {NULL, NULL, NULL, 0},
};
