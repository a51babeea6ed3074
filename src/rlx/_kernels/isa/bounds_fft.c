/* Bounds of Fourier transforms: see bounds.h. The plan is read as fft.inc reads it. */
#include "bounds.h"
#include "fft_ways.h"
#include "lanes.h"

enum { GROUP = 16, MAX_RADIX = 31, BLOCKED_FROM = 90000, PLANE_GAP = 144 };

typedef struct plan {
    int64_t n, core, first, second, points, table; /* table: elements of the constant operand */
} plan;

/* One length and its radices; elements of its tables. */
static int64_t passes(rlx_claim *c, const int64_t **w, const int64_t *end, int64_t *table) {
    rlx_must(c, *w < end, "a plan must be whole");
    if (c->why)
        return 0;
    const int64_t n = *(*w)++;
    if (!n)
        return 0;
    rlx_must(c, n > 0 && n < (int64_t)1 << 40 && *w < end && **w >= 0 && **w < end - *w, "a plan must be whole");
    if (c->why)
        return 0;
    int64_t left = n;
    for (int64_t count = *(*w)++; count > 0; count--) {
        const int64_t r = *(*w)++;
        rlx_must(c, r >= 2 && r <= MAX_RADIX && (r % 2 == 1 || r == 2 || r == 4) && left % r == 0,
                 "radices must divide their length");
        if (c->why)
            return 0;
        left /= r;
        *table = rlx_add(*table, 2 * (r - 1) * left + (r & 1 ? 2 * r : 0));
    }
    rlx_must(c, left == 1, "radices must divide their length");
    return n;
}

static plan plan_of(rlx_claim *c, int i, int kind) {
    int64_t count;
    const int64_t *w = rlx_items(c, i, &count), *end = w + count;
    plan p = {0};
    rlx_must(c, count >= 4, "a plan must be whole");
    if (c->why)
        return p;
    p.n = w[0], p.points = w[3];
    const int real = w[1] != 0, bluestein = w[2] != 0;
    w += 4;
    p.core = passes(c, &w, end, &p.table);
    p.first = passes(c, &w, end, &p.table);
    p.second = passes(c, &w, end, &p.table);
    rlx_must(c, p.n >= 1 && p.n < (int64_t)1 << 40 && p.core >= 1 && p.points >= 0 && (!bluestein || p.points <= p.core),
             "a plan must be of possible size");
    rlx_must(c, !p.first || p.first * p.second == p.core, "factors of a plan must make its length");
    rlx_must(c, kind == 'c' || p.n % 2 == 1 || real, "a plan must be of the kind that is asked for");
    if (c->why)
        return p;
    p.table += p.first ? 2 * p.core : 0;
    p.table += real ? 2 * (p.n / 2 + 1) : 0;
    p.table += bluestein ? 2 * p.points + 2 * p.core : 0;
    return p;
}

/* The table, and workspace for rows one by one or a vector of them at once; `size`: of a real. */
static void common(rlx_claim *c, const plan *p, int table, int ws, int64_t stride, int64_t size) {
    const int64_t vn = RLX_VB / size, most = (p->core > p->n ? p->core : p->n) + 1;
    int64_t work = 4 * ((most + 15) / 16 * 16 + PLANE_GAP);
    if (p->first && 4 * p->core * size > BLOCKED_FROM)
        work += 4 * ((p->first > p->second ? p->first : p->second) * 2 * vn + PLANE_GAP);
    if (rlx_fft_side_by_side(p->core, RLX_VB) && 4 * most * vn > work)
        work = 4 * most * vn;
    rlx_reads(c, table, p->table, size);
    rlx_works(c, ws, stride, rlx_mul(work, size));
}

static void transform(rlx_claim *c) {
    const int real = rlx_is(c->family, "rfft"), back = rlx_is(c->family, "irfft");
    const plan p = plan_of(c, 8, real || back ? 'r' : 'c');
    const int64_t rows = rlx_at(c, 0), have = rlx_at(c, 1), group = rlx_at(c, 5);
    const int64_t size = real || back ? c->size : c->size / 2, bins = p.n / 2 + 1;
    rlx_must(c, group >= 1 && group <= GROUP, "a group must have rows");
    if (c->why)
        return;
    rlx_extent(c, rlx_ceil(rows, group));
    rlx_reads(c, 0, rlx_span(rlx_less(have, back ? bins : p.n), rows, rlx_at(c, 2)), real ? size : 2 * size);
    rlx_writes(c, 2, rlx_span(real ? bins : p.n, rows, rlx_at(c, 3)), back ? size : 2 * size);
    common(c, &p, 1, 3, rlx_at(c, 6), size);
}

static void stft(rlx_claim *c) {
    const plan p = plan_of(c, 8, 'r');
    const int64_t batch = rlx_at(c, 0), frames = rlx_at(c, 1), group = rlx_at(c, 5), rows = rlx_mul(batch, frames);
    rlx_must(c, group >= 1 && group <= GROUP, "a group must have rows");
    if (c->why)
        return;
    rlx_extent(c, rlx_ceil(rows, group));
    rlx_reads(c, 0, rlx_span(rlx_span(p.n, frames, rlx_at(c, 2)), batch, rlx_at(c, 3)), c->size);
    rlx_may_read(c, 1, p.n, c->size);
    rlx_writes(c, 3, rlx_mul(rows, c->attrs[4] ? p.n / 2 + 1 : p.n), 2 * c->size);
    common(c, &p, 2, 4, rlx_at(c, 6), c->size);
}

#define ROWS "rows have x_s y_s inverse group ws scale:f plan:*"

const rlx_bounds_row rlx_bounds_bounds_fft[] = {
    {"fft", ROWS, transform},
    {"rfft", ROWS, transform},
    {"irfft", ROWS, transform},
    {"stft", "batch frames hop x_b onesided group ws scale:f plan:*", stft},
    {NULL, NULL, NULL},
};
