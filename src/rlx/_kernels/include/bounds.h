/* What a call may touch: a rule per family says how many bytes of each operand a kernel reads and writes,
 * given its attributes. A program that comes from elsewhere is proved by these rules before it runs, and so
 * is every program in the tests.
 *
 * A rule looks at a claim (the numbers of one call) and either finds that the kernel stays inside its
 * operands, whatever their contents are, or says why not. It belongs to the layout that its row names: with
 * another layout the kernel has no rule, and a call of it cannot be proved. Quantities saturate at BIG, which
 * no operand has. Beside its size an operand has a role (only what a rule calls written may be written, and
 * that must be memory of the run), an alignment, and must not share memory with what is written, unless the
 * rule allows it: a kernel may check an index and read it again. Work is bounded, too: what a loop counts is
 * memory that is touched, or not more than RLX_FREE of what has no memory. */
#ifndef RLX_BOUNDS_H
#define RLX_BOUNDS_H

#include "abi.h"

enum { RLX_MOST_ARGS = 64 };
#define RLX_BIG ((int64_t)1 << 61)
/* Beyond any stride, kernel or padding: products of three stay below 2^63. */
#define RLX_SMALL ((int64_t)1 << 20)
/* Items without memory of their own that a call may have. */
#define RLX_FREE ((int64_t)1 << 24)

/* Operands of a micro-kernel: bytes of an element of what it writes and reads, parameters, and whether
 * it can trap on operands that change while it runs. */
typedef struct rlx_ew_shape {
    int32_t dst, src[3], params, traps;
} rlx_ew_shape;

typedef struct rlx_claim {
    const char *family, *type, *variant; /* of "family.type@variant" */
    int64_t size, size2;                 /* bytes of an element of type, of variant if that is a type */
    const int64_t *attrs;
    const int64_t *refs;                 /* per word of attrs: number of the micro-kernel, -1 none */
    const rlx_ew_shape *ews;
    int64_t extent, phases, grain;
    int64_t workers;                     /* workspaces that are used at once */
    int64_t n_args;
    const int64_t *slots, *places, *bytes; /* per operand; bytes -1: absent */
    const uint8_t *writable;
    const char *const *data;             /* of constants: their bytes, else NULL */
    int64_t touched[RLX_MOST_ARGS];         /* found by the rule: bytes that are read or written, */
    uint64_t written, alias[RLX_MOST_ARGS]; /* what is written, and what it may start at the place of */
    const char *why;                     /* what does not hold; NULL */
} rlx_claim;

typedef void (*rlx_bounds)(rlx_claim *c);

typedef struct rlx_bounds_row {
    const char *family, *layout;
    rlx_bounds rule;
} rlx_bounds_row;

static inline void rlx_deny(rlx_claim *c, const char *why) {
    if (!c->why)
        c->why = why;
}
static inline void rlx_must(rlx_claim *c, int holds, const char *why) {
    if (!holds)
        rlx_deny(c, why);
}

/* Saturating arithmetic on quantities; what is negative is BIG, too. */
static inline int64_t rlx_mul(int64_t a, int64_t b) {
    int64_t r;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) || r > RLX_BIG)
        return RLX_BIG;
    return r;
}
static inline int64_t rlx_mul3(int64_t a, int64_t b, int64_t c) { return rlx_mul(rlx_mul(a, b), c); }
static inline int64_t rlx_add(int64_t a, int64_t b) {
    if (a < 0 || b < 0 || a > RLX_BIG || b > RLX_BIG || a + b > RLX_BIG)
        return RLX_BIG;
    return a + b;
}
static inline int64_t rlx_ceil(int64_t a, int64_t b) { return a >= RLX_BIG || b <= 0 ? RLX_BIG : a / b + (a % b != 0); }
static inline int64_t rlx_up(int64_t a, int64_t b) { return rlx_mul(rlx_ceil(a, b), b); }
static inline int64_t rlx_less(int64_t a, int64_t b) { return a < b ? a : b; }

/* Attribute i as a quantity. */
static inline int64_t rlx_at(rlx_claim *c, int i) {
    const int64_t v = c->attrs[i];
    if (v < 0 || v >= RLX_BIG) {
        rlx_deny(c, "sizes must not be negative");
        return RLX_BIG;
    }
    return v;
}
/* Attribute i, in [low, RLX_SMALL]. */
static inline int64_t rlx_small(rlx_claim *c, int i, int64_t low) {
    const int64_t v = c->attrs[i];
    rlx_must(c, v >= low && v <= RLX_SMALL, "strides, kernels and paddings must be in range");
    return v;
}
/* The list whose place and length are at i; its items are as many words of the block. */
static inline const int64_t *rlx_items(rlx_claim *c, int i, int64_t *n) {
    *n = RLX_COUNT(c->attrs, i);
    return RLX_LIST(c->attrs, i);
}
/* Product of n quantities. */
static inline int64_t rlx_product(const int64_t *x, int64_t n) {
    int64_t p = 1, zero = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < 0)
            return RLX_BIG;
        zero |= x[i] == 0;
        p = rlx_mul(p, x[i] ? x[i] : 1);
    }
    return zero ? 0 : p;
}
/* One more than the greatest offset of a strided walk: (n - 1) * stride on top of `span`; 0 if there is nothing. */
static inline int64_t rlx_span(int64_t span, int64_t n, int64_t stride) {
    return n <= 0 || span <= 0 ? (n < 0 ? RLX_BIG : 0) : rlx_add(span, rlx_mul(n - 1, stride));
}

static inline int rlx_has(const rlx_claim *c, int64_t i) { return i >= 0 && i < c->n_args && c->bytes[i] >= 0; }

/* Operand i holds n elements of `size` bytes. */
static inline void rlx_reads(rlx_claim *c, int64_t i, int64_t n, int64_t size) {
    if (!rlx_has(c, i) || size < 1) {
        rlx_deny(c, "an operand that is used must be there");
        return;
    }
    const int64_t nbytes = rlx_mul(n, size);
    rlx_must(c, c->bytes[i] >= nbytes, "operands must be as large as the attributes say");
    c->touched[i] = nbytes > c->touched[i] ? nbytes : c->touched[i];
    rlx_must(c, c->places[i] % (size < 8 ? size : 8) == 0, "operands must be aligned");
}
static inline void rlx_may_read(rlx_claim *c, int64_t i, int64_t n, int64_t size) {
    if (rlx_has(c, i))
        rlx_reads(c, i, n, size);
}
static inline void rlx_writes(rlx_claim *c, int64_t i, int64_t n, int64_t size) {
    rlx_reads(c, i, n, size);
    if (rlx_has(c, i)) {
        rlx_must(c, c->writable[i], "what is written must be memory of the run");
        c->written |= (uint64_t)1 << i;
    }
}
static inline void rlx_may_write(rlx_claim *c, int64_t i, int64_t n, int64_t size) {
    if (rlx_has(c, i))
        rlx_writes(c, i, n, size);
}
/* Operand i is `bytes` of workspace per thread, `stride` apart. */
static inline void rlx_works(rlx_claim *c, int64_t i, int64_t stride, int64_t bytes) {
    rlx_must(c, stride >= bytes && stride % 8 == 0, "a thread's workspace must be as large as the attributes say");
    rlx_writes(c, i, rlx_mul(stride, c->workers), 1);
    if (rlx_has(c, i))
        rlx_must(c, c->places[i] % 16 == 0, "workspace must be aligned");
}
/* The written operand w may start where operand r does. */
static inline void rlx_aliases(rlx_claim *c, int64_t w, int64_t r) {
    if (rlx_has(c, w) && rlx_has(c, r))
        c->alias[w] |= (uint64_t)1 << r;
}
static inline void rlx_extent(rlx_claim *c, int64_t most) {
    rlx_must(c, c->extent <= most, "there must not be more items than the attributes say");
}
/* The kernel does everything for its first item. */
static inline void rlx_serial(rlx_claim *c) { rlx_must(c, c->extent <= 1, "there must be one item"); }
/* Items 0 .. extent are `per` for each of so many. */
static inline int64_t rlx_groups(rlx_claim *c, int64_t per) {
    if (c->extent == 0)
        return 0;
    if (per <= 0 || per >= RLX_BIG) {
        rlx_deny(c, "there must not be more items than the attributes say");
        return RLX_BIG;
    }
    return rlx_ceil(c->extent, per);
}

/* Bytes of an element of weights that are stored in a narrower type than is computed in; 0: they are not. */
int64_t rlx_stored(const rlx_claim *c);

static inline int rlx_is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Bytes of an element type or item size by name; 0: not one. */
int64_t rlx_size_of(const char *name, int64_t length);
/* Shape of a micro-kernel by name; 0 if it is not known. */
int rlx_ew_shape_of(const char *name, int32_t arity, rlx_ew_shape *to);

/* Operands of an 8-bit product whose attributes RLX_INT8_POST_LAYOUT begin at i. */
void rlx_int8_bounds(rlx_claim *c, int i, int64_t rows, int64_t cols);

/* The epilogue `steps` (attribute i) on a matrix of rows x cols whose accumulators have acc bytes and whose results,
 * `span` elements in all, out bytes; operands of it are counted from `first`. Result is operand 2. */
void rlx_epilogue_bounds(rlx_claim *c, int i, int first, int64_t rows, int64_t cols, int64_t span, int64_t acc,
                         int64_t out);

#endif
