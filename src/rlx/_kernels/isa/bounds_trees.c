/* Bounds of tree ensembles: see bounds.h. The walk trusts its tables, so they are constants, looked at here:
 * children come after their parent (no walk is endless), features, leaves and members are in range. */
#include "bounds.h"

typedef struct node_f32 { float threshold; int32_t feature, next, aux; } node_f32;
typedef struct node_f64 { double threshold; int32_t feature, next, aux, padding; } node_f64;

typedef struct sizes {
    int64_t nodes, features, leaves, members;
    int general;
} sizes;

#define SOUND(T)                                                                                        \
    static int sound_##T(const node_##T *node, const sizes *s) {                                        \
        int bad = 0;                                                                                    \
        for (int64_t i = 0; i < s->nodes; i++, node++) {                                                \
            const int leaf = node->next == i, nan = node->threshold != node->threshold;                 \
            bad |= node->feature < 0 || node->feature >= s->features || node->aux < 0;                  \
            bad |= leaf ? !(s->general || nan) || node->aux >> 3 >= s->leaves                           \
                        : node->next <= i || node->next >= s->nodes - 1;                                \
            bad |= s->general && !leaf && (node->aux & 3) == 3 && node->aux >> 3 >= s->members;         \
        }                                                                                               \
        return !bad;                                                                                    \
    }
SOUND(f32)
SOUND(f64)

static int in_range(const int32_t *x, int64_t n, int64_t most) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= x[i] < 0 || x[i] >= most;
    return !bad;
}

/* Members of sets: lists that end with NaN, the last of them, too. */
static int64_t members_of(const rlx_claim *c) {
    const int64_t n = rlx_has(c, 6) ? c->bytes[6] / c->size : 0;
    if (!n)
        return 0;
    if (c->size == 8) {
        const double last = ((const double *)c->data[6])[n - 1];
        return last != last ? n : 0;
    }
    const float last = ((const float *)c->data[6])[n - 1];
    return last != last ? n : 0;
}

static void tree_ensemble(rlx_claim *c) {
    const int64_t rows = rlx_at(c, 0), features = rlx_at(c, 1), trees = rlx_at(c, 2), targets = rlx_at(c, 3);
    const int64_t aggregate = c->attrs[7], binary = c->attrs[9], chunk = rlx_at(c, 10), wide = c->size == 8;
    const int single = c->attrs[6] != 0 && aggregate < 2;
    const int64_t node = wide ? sizeof(node_f64) : sizeof(node_f32), width = rlx_mul(targets, aggregate < 2 ? 1 : 2);
    for (int i = 1; i <= 6; i++)
        if (rlx_has(c, i))
            rlx_must(c, c->data[i] != NULL, "trees must be constants");
    rlx_must(c, chunk >= 1 && targets >= 1 && (!binary || targets == 1), "there must be rows and targets");
    rlx_extent(c, rows);
    if (features)
        rlx_reads(c, 0, rlx_span(features, rows, rlx_at(c, 4)), c->size);
    rlx_reads(c, 1, 1, node);
    rlx_reads(c, 2, trees, 4);
    rlx_reads(c, 5, 0, c->size);
    rlx_may_read(c, 7, targets, 8);
    rlx_writes(c, 8, rlx_mul(rows, binary ? 2 : targets), c->size);
    rlx_may_write(c, 9, rows, 8);
    rlx_works(c, 10, rlx_at(c, 11), rlx_mul3(chunk, width, 8));
    if (!single) {
        rlx_reads(c, 3, 1, 4);
        rlx_reads(c, 4, 0, 4);
    }
    if (c->why)
        return;
    const int64_t weights = c->bytes[5] / c->size, pairs = single ? weights : rlx_less(weights, c->bytes[4] / 4);
    const int64_t members = members_of(c);
    sizes s = {c->bytes[1] / node, features ? features : 1, single ? weights : c->bytes[3] / 4 - 1, members,
               c->attrs[5] != 0};
    rlx_must(c, s.nodes < (int64_t)1 << 31, "there must be less than 2^31 nodes");
    rlx_must(c, wide ? sound_f64((const node_f64 *)c->data[1], &s) : sound_f32((const node_f32 *)c->data[1], &s),
             "nodes must be in range");
    rlx_must(c, in_range((const int32_t *)c->data[2], trees, s.nodes), "roots must be in range");
    if (!single)
        rlx_must(c, in_range((const int32_t *)c->data[3], c->bytes[3] / 4, pairs + 1) &&
                        in_range((const int32_t *)c->data[4], pairs, targets), "leaves must be in range");
}

const rlx_bounds_row rlx_bounds_bounds_trees[] = {
    {"tree_ensemble", "rows features trees targets x_s general single aggregate post binary chunk ws", tree_ensemble},
    {NULL, NULL, NULL},
};
