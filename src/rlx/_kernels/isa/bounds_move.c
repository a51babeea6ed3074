/* Bounds of what moves elements without computing: see bounds.h. */
#include "bounds.h"
#include "run.h"

static void copy(rlx_claim *c) {
    rlx_reads(c, 0, c->extent, 1);
    rlx_writes(c, 1, c->extent, 1);
    rlx_aliases(c, 1, 0);
}

/* Least and greatest offset of a walk with strides of any sign. */
static void reach(rlx_claim *c, const int64_t *shape, const int64_t *stride, int64_t n, int64_t start, int64_t *most) {
    __int128 low = start, high = start;
    for (int64_t d = 0; d < n; d++) {
        const __int128 far = (__int128)(shape[d] - 1) * stride[d];
        low += far < 0 ? far : 0;
        high += far > 0 ? far : 0;
    }
    rlx_must(c, low >= 0 && high < RLX_BIG, "a walk must stay inside its operand");
    *most = low >= 0 && high < RLX_BIG ? (int64_t)high + 1 : RLX_BIG;
}

static void strided(rlx_claim *c) {
    int64_t n, n_src, n_dst, src = 0, dst = 0;
    const int64_t *shape = rlx_items(c, 2, &n), *from = rlx_items(c, 4, &n_src), *to = rlx_items(c, 6, &n_dst);
    rlx_must(c, n <= MAX_RANK && n_src == n && n_dst == n, "there must be a stride per axis");
    rlx_must(c, rlx_has(c, 0) && rlx_has(c, 1), "an operand that is used must be there");
    if (c->why)
        return;
    const int64_t all = rlx_product(shape, n);
    rlx_must(c, all < RLX_BIG, "sizes must not be negative");
    rlx_extent(c, n > 1 ? rlx_product(shape, n - 1) : 1);
    if (all && !c->why) {
        reach(c, shape, from, n, c->attrs[0], &src);
        reach(c, shape, to, n, c->attrs[1], &dst);
    }
    rlx_must(c, all <= dst, "elements must have places of their own");
    rlx_reads(c, 0, src, c->size);
    rlx_writes(c, 1, dst, c->size);
}

static void fill(rlx_claim *c) { rlx_writes(c, 0, c->extent, c->size); }

static void pad(rlx_claim *c) {
    int64_t n, nb, na, rows = 1, width = 0;
    const int64_t *shape = rlx_items(c, 1, &n), *before = rlx_items(c, 3, &nb), *after = rlx_items(c, 5, &na);
    rlx_must(c, n >= 1 && n <= MAX_RANK && nb == n && na == n, "there must be paddings per axis");
    if (c->why)
        return;
    for (int64_t d = 0; d < n; d++) {
        width = rlx_add(rlx_add(before[d], shape[d]), after[d]);
        rows = d < n - 1 ? rlx_mul(rows, width) : rows;
    }
    rlx_extent(c, rows);
    rlx_reads(c, 0, rlx_product(shape, n), c->size);
    rlx_writes(c, 1, rlx_mul(c->extent, width), c->size);
    rlx_may_read(c, 2, 1, c->size);
}

static void trilu(rlx_claim *c) {
    const int64_t rows = rlx_at(c, 2), all = rlx_mul(c->extent, rlx_at(c, 3));
    rlx_must(c, rows > 0 || !c->extent, "there must be rows");
    rlx_reads(c, 0, all, c->size);
    rlx_writes(c, 1, all, c->size);
    rlx_aliases(c, 1, 0);
}

static void eye(rlx_claim *c) { rlx_writes(c, 0, rlx_mul(c->extent, rlx_at(c, 3)), c->size); }

static void range(rlx_claim *c) {
    rlx_reads(c, 0, 1, c->size);
    rlx_reads(c, 1, 1, c->size);
    rlx_writes(c, 2, c->extent, c->size);
}

static void repeat(rlx_claim *c) {
    const int64_t line = rlx_mul(rlx_at(c, 0), rlx_at(c, 1)), times = rlx_mul(rlx_at(c, 2), rlx_at(c, 3));
    rlx_reads(c, 0, rlx_mul(c->extent, line), c->size);
    rlx_writes(c, 1, rlx_mul3(c->extent, line, times), c->size);
}

/* Lengths are looked at before anything is written, and again after. */
static void append(rlx_claim *c) {
    const int64_t items = rlx_at(c, 0), per = rlx_at(c, 1), capacity = rlx_at(c, 2), rows = rlx_at(c, 3);
    const int64_t row = rlx_at(c, 4), runs = c->extent;
    rlx_must(c, rows <= capacity && (items <= 1 || (per > 0 && runs <= rlx_mul(items, per))),
             "runs must belong to lengths");
    rlx_reads(c, 0, rlx_mul3(runs, capacity, row), 1);
    rlx_reads(c, 1, rlx_mul3(runs, rows, row), 1);
    rlx_reads(c, 2, items, 8);
    rlx_writes(c, 3, rlx_mul3(runs, capacity, row), 1);
    rlx_writes(c, 4, items, 8);
    rlx_aliases(c, 3, 0);
}

const rlx_bounds_row rlx_bounds_bounds_move[] = {
    {"copy", "", copy},
    {"strided", "src_start dst_start shape:* src:* dst:*", strided},
    {"fill", "value value_high", fill},
    {"pad", "mode shape:* before:* after:*", pad},
    {"trilu", "upper k rows cols", trilu},
    {"eye", "one k rows cols", eye},
    {"range", "", range},
    {"repeat", "w inner rh rw", repeat},
    {"cache", "items per capacity rows row", append},
    {NULL, NULL, NULL},
};
