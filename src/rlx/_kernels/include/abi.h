/* The contract between lowering, interpreter and kernels.
 *
 * A program is an array of thunks. A thunk is one resolved kernel call: a
 * function pointer, its operands and its attributes; a cache line, read once.
 *
 * operand    (slot, byte offset): address = frame->base[slot] + offset.
 *            slot < 0 means the operand is absent (never "offset 0").
 *            Slots: 0 scratch (the arena), then the bound inputs, the
 *            outputs and the weight arrays, in the order the program lists.
 * attributes an array of 64-bit words laid out as the kernel's row says, e.g.
 *            "outer axis inner eps:f perm:*":
 *              name    one int64
 *              name:f  one double (bit copy; read with RLX_F)
 *              name:*  two words: word offset from the start of the attribute
 *                      block, and count; the values follow the fixed part
 *                      (read with RLX_LIST / RLX_COUNT)
 *            Lowering fills them by name, so the layout is told in one place.
 * extent     number of independent work items. A kernel does the half-open
 *            range [lo, hi) of them and nothing else: starts no thread,
 *            allocates nothing, raises nothing. The interpreter may cut
 *            [0, extent) anywhere at multiples of `grain`; the bits must not
 *            depend on the cut.
 * phases     with more than one, the items are cut into so many equal parts that
 *            depend on one another: part k + 1 starts when part k is done, and
 *            only within a part is there anything to split. A range that spans
 *            parts is done in order.
 * workspace  an operand of its own; a per-thread one is a block per thread:
 *            address + frame->tid * stride (stride is an attribute).
 * aliasing   an output operand may be the very same memory as an input only
 *            for kernels whose row is flagged RLX_INPLACE.
 */
#ifndef RLX_ABI_H
#define RLX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rlx_arg {
    int32_t slot;
    int32_t reserved;
    int64_t offset;
} rlx_arg;

/* Where and why a kernel failed; the executable turns it into an exception. */
typedef struct rlx_error {
    int32_t node;    /* filled by the interpreter */
    int32_t status;  /* filled by the interpreter */
    int64_t value;   /* offending index, divisor, LAPACK info ... */
    int64_t bound;   /* the bound that was exceeded, batch item ... */
    int64_t position; /* flat position of the offending element */
} rlx_error;

typedef struct rlx_frame {
    char *const *base;
    rlx_error *error;
    const volatile int32_t *cancel; /* non-zero: stop between thunks */
    void *state;                    /* run-wide state, e.g. the random counter */
    int64_t *since;                 /* estimated work since signals were looked at, ns */
    int32_t tid;
    int32_t n_threads;
} rlx_frame;

typedef struct rlx_thunk rlx_thunk;
typedef int (*rlx_kernel)(const rlx_thunk *, const rlx_frame *, int64_t lo, int64_t hi);

struct rlx_thunk {
    rlx_kernel fn;
    const int64_t *attrs;
    const rlx_arg *args;
    int64_t extent;
    int64_t grain;   /* smallest piece worth a thread; 0: run on one thread */
    int32_t node;    /* index into the program's node table, for errors */
    int32_t n_args;
    int64_t cost;    /* estimated nanoseconds on one core */
    int64_t phases;  /* equal parts of the extent that run one after another */
};

/* Status codes. Zero is success. */
enum {
    RLX_OK = 0,
    RLX_ERR_INDEX = 1,      /* index out of range: value, bound, position */
    RLX_ERR_DIVIDE = 2,     /* integer division by zero: position */
    RLX_ERR_NEG_POWER = 3,  /* integer raised to a negative power: value, position */
    RLX_ERR_LAPACK = 4,     /* info != 0: value = info, bound = batch item */
    RLX_ERR_NONFINITE = 5,  /* NaN or infinity where it is not allowed */
    RLX_ERR_CANCELLED = 6,
    RLX_ERR_VALUE = 7,      /* any other bad value met at run time */
    RLX_ERR_PYTHON = 8      /* a Python callback raised; the exception is set */
};

/* Elementwise micro-kernel: n contiguous elements, any of a, b, c unused by
 * the arity may be NULL. dst may equal a, b or c. p: the op's parameters.
 * Returns a status (position = index inside the block, in err). */
typedef int (*rlx_ew)(void *dst, const void *a, const void *b, const void *c,
                      int64_t n, const double *p, rlx_error *err);

enum {
    RLX_INPLACE = 1  /* the first output may share memory with any input */
};

/* A family exports a NULL-terminated array of each. */
typedef struct rlx_kernel_row {
    const char *name;   /* "softmax.f32" */
    rlx_kernel fn;
    const char *layout; /* attribute layout, see above */
    int32_t flags;
} rlx_kernel_row;

typedef struct rlx_ew_row {
    const char *name;   /* "add.f32" */
    rlx_ew fn;
    int32_t arity;
} rlx_ew_row;

static inline double rlx_word_to_double(int64_t w) {
    double d;
    memcpy(&d, &w, sizeof d);
    return d;
}
#define RLX_F(attrs, i) rlx_word_to_double((attrs)[i])
#define RLX_LIST(attrs, i) ((attrs) + (attrs)[i])
#define RLX_COUNT(attrs, i) ((attrs)[(i) + 1])
#define RLX_PRESENT(t, i) ((i) < (t)->n_args && (t)->args[i].slot >= 0)
#define RLX_PTR(t, f, i) ((f)->base[(t)->args[i].slot] + (t)->args[i].offset)
#define RLX_OPT(t, f, i) (RLX_PRESENT(t, i) ? RLX_PTR(t, f, i) : NULL)

static inline int rlx_fail(const rlx_frame *f, int status, int64_t value, int64_t bound,
                           int64_t position) {
    f->error->value = value;
    f->error->bound = bound;
    f->error->position = position;
    return status;
}

#endif
