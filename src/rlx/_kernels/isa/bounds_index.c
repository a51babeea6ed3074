/* Bounds of gathers, scatters, orders and what counts: see bounds.h. Indices are checked by the kernels. */
#include "bounds.h"
#include "run.h"

static void gather(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), dim = rlx_at(c, 1), n = rlx_at(c, 2), inner = rlx_at(c, 3);
    rlx_extent(c, rlx_mul(outer, n));
    rlx_reads(c, 0, rlx_mul3(outer, dim, inner), c->size);
    rlx_reads(c, 1, n, c->size2);
    rlx_writes(c, 2, rlx_mul3(outer, n, inner), c->size);
}

/* Along `axis`, shape and strides of the other operand; what it spans. */
static int64_t along(rlx_claim *c, const int64_t **shape, int64_t *n, int64_t *axis) {
    int64_t n_stride, span = 1;
    const int64_t dim = rlx_at(c, 1), *stride = rlx_items(c, 4, &n_stride);
    *shape = rlx_items(c, 2, n);
    *axis = c->attrs[0];
    rlx_must(c, *n >= 1 && *n <= MAX_RANK && n_stride == *n && *axis >= 0 && *axis < *n,
             "there must be a stride per axis");
    if (c->why)
        return RLX_BIG;
    for (int64_t d = 0; d < *n; d++)
        span = rlx_span(span, d == *axis ? dim : (*shape)[d], stride[d]);
    return rlx_product(*shape, *n) ? span : 0;
}

static void gather_elements(rlx_claim *c) {
    const int64_t *shape;
    int64_t n, axis, span = along(c, &shape, &n, &axis);
    if (c->why)
        return;
    const int64_t size = rlx_product(shape, n);
    rlx_extent(c, rlx_product(shape, n - 1));
    rlx_reads(c, 0, span, c->size);
    rlx_reads(c, 1, size, c->size2);
    rlx_writes(c, 2, size, c->size);
}

static void scatter_elements(rlx_claim *c) {
    const int64_t *shape;
    int64_t n, axis, span = along(c, &shape, &n, &axis);
    if (c->why)
        return;
    const int64_t size = rlx_product(shape, n);
    rlx_extent(c, rlx_mul(rlx_product(shape, axis), rlx_product(shape + axis + 1, n - axis - 1)));
    rlx_reads(c, 0, size, c->size2);
    rlx_reads(c, 1, size, c->size);
    rlx_writes(c, 2, span, c->size);
}

static void gather_nd(rlx_claim *c) {
    int64_t k;
    const int64_t *dims = rlx_items(c, 3, &k), all = rlx_mul(rlx_at(c, 0), rlx_at(c, 1)), inner = rlx_at(c, 2);
    rlx_extent(c, all);
    if (k)
        rlx_reads(c, 1, rlx_mul(all, k), c->size2);
    rlx_reads(c, 0, rlx_mul3(rlx_at(c, 0), rlx_product(dims, k), inner), c->size);
    rlx_writes(c, 2, rlx_mul(all, inner), c->size);
}

static void scatter_nd(rlx_claim *c) {
    int64_t k;
    const int64_t *dims = rlx_items(c, 2, &k), n = rlx_at(c, 0), inner = rlx_at(c, 1);
    rlx_extent(c, inner);
    if (k)
        rlx_reads(c, 0, rlx_mul(n, k), c->size2);
    rlx_reads(c, 1, rlx_mul(n, inner), c->size);
    rlx_writes(c, 2, rlx_mul(rlx_product(dims, k), inner), c->size);
}

static void one_hot(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), depth = rlx_at(c, 1), inner = rlx_at(c, 2);
    rlx_extent(c, rlx_mul(outer, depth));
    rlx_reads(c, 0, rlx_mul(outer, inner), c->size2);
    rlx_reads(c, 1, 2, c->size);
    rlx_writes(c, 2, rlx_mul3(outer, depth, inner), c->size);
}

static void compress(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), n = rlx_at(c, 1), inner = rlx_at(c, 2), m = rlx_at(c, 3);
    rlx_serial(c);
    rlx_must(c, m <= n, "there must be an element per condition");
    rlx_reads(c, 0, rlx_mul3(outer, n, inner), c->size);
    rlx_reads(c, 1, m, 1);
    rlx_writes(c, 2, rlx_mul3(outer, m, inner), c->size);
    rlx_writes(c, 3, 1, 8);
}

static void nonzero(rlx_claim *c) {
    int64_t n;
    const int64_t *shape = rlx_items(c, 0, &n), size = rlx_product(shape, n);
    rlx_serial(c);
    rlx_must(c, n <= MAX_RANK, "there must be at most 32 axes");
    rlx_reads(c, 0, size, c->size);
    rlx_writes(c, 1, rlx_mul(n, size), 8);
    rlx_writes(c, 2, 1, 8);
}

static void search_sorted(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0), m = rlx_at(c, 1), rows = rlx_groups(c, m);
    rlx_reads(c, 0, rlx_mul(c->attrs[2] ? 1 : rows, n), c->size);
    rlx_reads(c, 1, c->extent, c->size);
    rlx_writes(c, 2, c->extent, 8);
}

/* ------------------------------------------------------------------- orders */

static int64_t entry(const rlx_claim *c) { return c->size > 4 ? 16 : 8; }

static void sort(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), n = rlx_at(c, 1), inner = rlx_at(c, 2), all = rlx_mul3(outer, n, inner);
    rlx_must(c, n < (int64_t)1 << 32, "an axis must have less than 2^32 elements");
    rlx_extent(c, rlx_mul(outer, inner));
    rlx_reads(c, 0, all, c->size);
    rlx_may_write(c, 1, all, c->size);
    rlx_may_write(c, 2, all, 8);
    rlx_works(c, 3, rlx_at(c, 4), rlx_mul(2 * entry(c), n));
}

static void top_k(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), n = rlx_at(c, 1), inner = rlx_at(c, 2), k = rlx_at(c, 3);
    rlx_must(c, n < (int64_t)1 << 32 && k <= n, "there must be k elements, less than 2^32");
    rlx_extent(c, rlx_mul(outer, inner));
    rlx_reads(c, 0, rlx_mul3(outer, n, inner), c->size);
    rlx_may_write(c, 1, rlx_mul3(outer, k, inner), c->size);
    rlx_may_write(c, 2, rlx_mul3(outer, k, inner), 8);
    rlx_works(c, 3, rlx_at(c, 5), rlx_mul(2 * entry(c), n));
}

static void unique(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0);
    rlx_serial(c);
    rlx_must(c, n < (int64_t)1 << 32, "there must be less than 2^32 elements");
    rlx_reads(c, 0, n, c->size);
    rlx_writes(c, 1, n, c->size);
    for (int i = 2; i < 5; i++)
        rlx_may_write(c, i, n, 8);
    rlx_writes(c, 5, 1, 8);
    rlx_writes(c, 6, rlx_mul(2 * entry(c) + 16, n), 1);
}

static void unique_rows(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0), m = rlx_at(c, 1);
    rlx_serial(c);
    rlx_reads(c, 0, rlx_mul(n, m), c->size);
    rlx_writes(c, 1, rlx_mul(n, m), c->size);
    for (int i = 2; i < 5; i++)
        rlx_writes(c, i, n, 8);
    rlx_writes(c, 5, 1, 8);
    rlx_writes(c, 6, rlx_mul(3, n), 8);
}

#define ELEMENTS "axis dim shape:* stride:*"
#define SCATTERS(R) {"scatter_elements" R, ELEMENTS, scatter_elements}, {"scatter_nd" R, "n inner dims:*", scatter_nd}

const rlx_bounds_row rlx_bounds_bounds_index[] = {
    {"gather", "outer dim n inner", gather},
    {"gather_elements", ELEMENTS, gather_elements},
    {"gather_nd", "batch n inner dims:*", gather_nd},
    SCATTERS(""), SCATTERS("_add"), SCATTERS("_mul"), SCATTERS("_max"), SCATTERS("_min"),
    {"one_hot", "outer depth inner", one_hot},
    {"compress", "outer n inner m", compress},
    {"nonzero", "shape:*", nonzero},
    {"search_sorted", "n m shared right", search_sorted},
    {"sort", "outer n inner descending stride", sort},
    {"top_k", "outer n inner k largest stride", top_k},
    {"unique", "n sorted", unique},
    {"unique_rows", "n m sorted", unique_rows},
    {NULL, NULL, NULL},
};
