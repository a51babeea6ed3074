/* Bounds of reductions, norms, scans, pooling and quantisation: see bounds.h. */
#include "bounds.h"

/* ---------------------------------------------------------------- reductions */

#define GROUPS "outer r1 mid r2 inner"

static void reduce(rlx_claim *c) {
    const int64_t kept = rlx_mul3(rlx_at(c, 0), rlx_at(c, 2), rlx_at(c, 4));
    rlx_extent(c, kept);
    rlx_reads(c, 0, rlx_mul3(kept, rlx_at(c, 1), rlx_at(c, 3)), c->size);
    rlx_writes(c, 1, kept, c->size);
    if (rlx_is(c->family, "moments"))
        rlx_writes(c, 2, kept, c->size);
}

/* In two steps, by way of accumulators. */
static void reduce_in_parts(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), r = rlx_at(c, 1), inner = rlx_at(c, 2), block = rlx_at(c, 3);
    const int extremum = rlx_is(c->family, "reduce_max") || rlx_is(c->family, "reduce_min");
    const int wide = c->type[0] == 'f' || rlx_is(c->family, "reduce_mean");
    const int64_t parts = rlx_ceil(r, block), acc = !extremum && wide ? 8 : c->size;
    const int64_t partial = rlx_mul3(outer, parts, inner);
    if (rlx_is(c->variant, "split")) {
        rlx_extent(c, rlx_mul(outer, parts));
        rlx_reads(c, 0, rlx_mul3(outer, r, inner), c->size);
        rlx_writes(c, 1, partial, acc);
    } else {
        rlx_extent(c, rlx_mul(outer, inner));
        rlx_reads(c, 0, partial, acc);
        rlx_writes(c, 1, rlx_mul(outer, inner), c->size);
    }
}

/* One result per element along the middle axis. */
static void along(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), n = rlx_at(c, 1), inner = rlx_at(c, 2), all = rlx_mul3(outer, n, inner);
    rlx_extent(c, rlx_mul(outer, inner));
    rlx_reads(c, 0, all, c->size);
    rlx_writes(c, 1, all, c->size);
    rlx_aliases(c, 1, 0);
}

static void log_sum_exp(rlx_claim *c) {
    const int64_t rows = rlx_mul(rlx_at(c, 0), rlx_at(c, 2));
    rlx_extent(c, rows);
    rlx_reads(c, 0, rlx_mul(rows, rlx_at(c, 1)), c->size);
    rlx_writes(c, 1, rows, c->size);
}

static void arg_extremum(rlx_claim *c) {
    const int64_t rows = rlx_mul(rlx_at(c, 0), rlx_at(c, 2)), n = rlx_at(c, 1);
    rlx_must(c, n >= 1, "there must be something to choose from");
    rlx_extent(c, rows);
    rlx_reads(c, 0, rlx_mul(rows, n), c->size);
    rlx_writes(c, 1, rows, 8);
}

/* --------------------------------------------------------------------- norms */

static void layer_norm(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0), all = rlx_mul(c->extent, n);
    const int rms = rlx_is(c->family, "rms_norm"), residual = rms ? 2 : 3, out = rms ? 3 : 5;
    rlx_reads(c, 0, all, c->size);
    rlx_may_read(c, 1, n, c->size);
    if (!rms) {
        rlx_may_read(c, 2, n, c->size);
        rlx_may_read(c, 4, n, c->size);
    }
    rlx_may_read(c, residual, all, c->size);
    rlx_writes(c, out, all, c->size);
    rlx_may_write(c, out + 1, all, c->size);
    rlx_may_write(c, out + 2, c->extent, c->size);
    if (!rms)
        rlx_may_write(c, out + 3, c->extent, c->size);
    for (int i = out; i < out + 2; i++) {
        rlx_aliases(c, i, 0);
        rlx_aliases(c, i, residual);
    }
}

static void group_norm(rlx_claim *c) {
    const int64_t groups = rlx_at(c, 0), channels = rlx_at(c, 1), inner = rlx_at(c, 2);
    const int64_t all = rlx_mul3(rlx_groups(c, groups), channels, inner);
    rlx_must(c, groups >= 1 && channels % groups == 0, "channels must be whole groups");
    rlx_reads(c, 0, all, c->size);
    rlx_may_read(c, 1, channels, c->size);
    rlx_may_read(c, 2, channels, c->size);
    rlx_writes(c, 3, all, c->size);
    rlx_aliases(c, 3, 0);
}

static void batch_norm(rlx_claim *c) {
    const int64_t outer = rlx_at(c, 0), channels = rlx_at(c, 1), inner = rlx_at(c, 2);
    const int64_t all = rlx_mul3(outer, channels, inner);
    rlx_extent(c, inner > 1 ? rlx_mul(outer, channels) : outer);
    rlx_reads(c, 0, all, c->size);
    for (int i = 1; i < 5; i++)
        rlx_reads(c, i, channels, c->size);
    rlx_writes(c, 5, all, c->size);
    rlx_aliases(c, 5, 0);
}

static void lrn(rlx_claim *c) {
    const int64_t channels = rlx_at(c, 1);
    const int64_t all = rlx_mul3(rlx_groups(c, channels), channels, rlx_at(c, 2));
    rlx_small(c, 3, 1);
    rlx_reads(c, 0, all, c->size);
    rlx_writes(c, 1, all, c->size);
}

/* ------------------------------------------------------------------- pooling */

enum { IN, OUT, KERNEL, STRIDE, DILATION, BEGIN, END, GEOMETRY };

static void pool(rlx_claim *c) {
    const int last = rlx_is(c->variant, "last"), lists = rlx_is(c->family, "pool_avg") ? GEOMETRY : END;
    int64_t n[GEOMETRY], in = 0, out = 0, row = 1;
    for (int k = 0; k < lists; k++) {
        const int64_t *items = rlx_items(c, last + 2 * k, &n[k]);
        rlx_must(c, n[k] == n[0] && n[k] >= 1 && n[k] <= 3, "there must be one to three axes");
        if (c->why)
            return;
        for (int64_t d = 0; d < n[k]; d++)
            rlx_must(c, items[d] >= (k == KERNEL || k == STRIDE || k == DILATION) && (k <= OUT || items[d] <= RLX_SMALL),
                     "kernels, strides and paddings must be in range");
        if (k == IN)
            in = rlx_product(items, n[k]);
        if (k == OUT) {
            out = rlx_product(items, n[k]);
            row = last ? 1 : items[n[k] - 1];
        }
        for (int64_t d = 0; d < n[k]; d++)
            rlx_must(c, k > OUT || items[d] <= (int64_t)1 << 36, "images must be of possible size");
    }
    if (c->why)
        return;
    const int64_t channels = last ? rlx_at(c, 0) : 1, planes = rlx_groups(c, row ? out / row : 0);
    if (row == 0)
        return;
    rlx_reads(c, 0, rlx_mul3(planes, in, channels), c->size);
    rlx_writes(c, 1, rlx_mul3(planes, out, channels), c->size);
    if (rlx_is(c->family, "pool_max_index"))
        rlx_writes(c, 2, rlx_mul(planes, out), 8);
}

/* -------------------------------------------------------------- tables */

static void lookup(rlx_claim *c) {
    rlx_reads(c, 0, c->extent, 1);
    rlx_reads(c, 1, 256, c->size);
    rlx_writes(c, 2, c->extent, c->size);
}

#define PARTS(OP) {"reduce_" OP, "outer r inner block", reduce_in_parts}
#define BOTH(OP) {"reduce_" OP, GROUPS, reduce}, PARTS(OP)
#define SCAN(OP) {"cum" OP, "outer n inner exclusive reverse", along}
#define WINDOW "in:* out:* kernel:* stride:* dilation:* begin:*"
#define POOL(OP, MORE) {"pool_" OP, WINDOW MORE, pool}, {"pool_" OP, "channels " WINDOW MORE, pool}

const rlx_bounds_row rlx_bounds_bounds_rows[] = {
    BOTH("sum"), BOTH("sum_square"), BOTH("l1"), BOTH("l2"), BOTH("log_sum"), BOTH("prod"), BOTH("max"),
    BOTH("min"), BOTH("mean"),
    {"reduce_any", GROUPS, reduce}, {"reduce_all", GROUPS, reduce}, {"moments", GROUPS, reduce},
    {"softmax", "outer n inner", along}, {"log_softmax", "outer n inner", along},
    {"log_sum_exp", "outer n inner", log_sum_exp},
    {"argmax", "outer n inner select_last", arg_extremum}, {"argmin", "outer n inner select_last", arg_extremum},
    SCAN("sum"), SCAN("prod"), SCAN("max"), SCAN("min"),
    {"layer_norm", "n eps:f", layer_norm}, {"rms_norm", "n eps:f", layer_norm},
    {"group_norm", "groups channels inner eps:f", group_norm},
    {"batch_norm", "outer channels inner eps:f", batch_norm},
    {"lp_norm", "outer n inner p eps:f", along},
    {"lrn", "outer channels inner size alpha:f beta:f bias:f", lrn},
    POOL("max", ""), POOL("avg", " end:* include_pad"), POOL("lp", " p:f"),
    {"pool_max_index", WINDOW " column_major", pool},
    {"lookup", "", lookup},
    {NULL, NULL, NULL},
};
