/* Bounds of attention, images, detection, small matrices and random numbers: see bounds.h. */
#include "bounds.h"

/* ----------------------------------------------------------------- sequences */

/* batch x heads x rows of `row` elements with the strides at i. */
static int64_t head_span(rlx_claim *c, int i, int64_t batch, int64_t heads, int64_t rows, int64_t row) {
    return rlx_span(rlx_span(rlx_span(row, rows, rlx_at(c, i + 2)), heads, rlx_at(c, i + 1)), batch, rlx_at(c, i));
}

static void attention(rlx_claim *c) {
    enum { KB = 96, TILE = 32, MOST_QUERIES = 128, FEW_QUERIES = 4, ROWS = 4, MORE = 4096 };
    const int64_t batch = rlx_at(c, 0), heads = rlx_at(c, 1), kv = rlx_at(c, 2), sq = rlx_at(c, 3), sk = rlx_at(c, 4);
    const int64_t d = rlx_at(c, 5), dv = rlx_at(c, 6), block = rlx_at(c, 31), far = (int64_t)1 << 48;
    const int64_t past = c->attrs[28], window = c->attrs[29], size = rlx_stored(c) ? rlx_stored(c) : c->size;
    rlx_must(c, block >= TILE && block <= MOST_QUERIES && block % TILE == 0, "a block must be one to four tiles");
    rlx_must(c, sk <= RLX_FREE || (c->attrs[12] >= 1 && d >= 1), "keys must have places of their own");
    rlx_must(c, sq < far && sk < far && past > -far && past < far && window < far && window > -far,
             "places must be in range");
    rlx_must(c, !c->extent || (kv >= 1 && heads >= kv), "queries must have keys");
    if (c->why)
        return;
    const int64_t each = kv ? heads / kv : 1;
    rlx_extent(c, sq <= FEW_QUERIES ? rlx_mul3(batch, kv, rlx_ceil(each, each < ROWS ? (each ? each : 1) : ROWS))
                                    : rlx_mul3(batch, heads, rlx_ceil(sq, block)));
    rlx_reads(c, 0, head_span(c, 7, batch, heads, sq, d), size);
    rlx_reads(c, 1, head_span(c, 10, batch, kv, sk, d), size);
    rlx_reads(c, 2, head_span(c, 13, batch, kv, sk, dv), size);
    if (rlx_has(c, 3))
        rlx_reads(c, 3, head_span(c, 19, batch, heads, sq, rlx_span(1, sk, rlx_at(c, 22))), 1);
    if (rlx_has(c, 4))
        rlx_reads(c, 4, head_span(c, 23, batch, heads, sq, rlx_span(1, sk, rlx_at(c, 26))), c->size);
    rlx_may_read(c, 5, batch, 8);
    rlx_writes(c, 6, head_span(c, 16, batch, heads, sq, dv), size);
    rlx_works(c, 7, rlx_at(c, 32),
              rlx_mul(rlx_add(rlx_mul(KB + block, rlx_add(rlx_add(d, dv), 4)), MORE), c->size));
}

static void rope(rlx_claim *c) {
    const int64_t batch = rlx_at(c, 0), seq = rlx_at(c, 1), heads = rlx_at(c, 2), dim = rlx_at(c, 3), turn = rlx_at(c, 4);
    const int64_t rows = rlx_at(c, 13), past = c->attrs[18];
    const int64_t x = rlx_span(rlx_span(rlx_span(dim, heads, rlx_at(c, 9)), seq, rlx_at(c, 8)), batch, rlx_at(c, 7));
    const int64_t y = rlx_span(rlx_span(rlx_span(dim, heads, rlx_at(c, 12)), seq, rlx_at(c, 11)), batch, rlx_at(c, 10));
    const int64_t table = rlx_span(rlx_span(turn / 2, rows, rlx_at(c, 15)), batch, rlx_at(c, 14));
    rlx_must(c, turn <= dim && past < RLX_BIG && past > -RLX_BIG, "no more than a row must turn");
    rlx_extent(c, rlx_mul3(batch, seq, heads));
    rlx_reads(c, 0, x, c->size);
    rlx_reads(c, 1, table, c->size);
    rlx_reads(c, 2, table, c->size);
    if (rlx_has(c, 3))
        rlx_reads(c, 3, rlx_span(rlx_span(1, seq, rlx_at(c, 17)), batch, rlx_at(c, 16)), 8);
    rlx_writes(c, 4, y, c->size);
    rlx_aliases(c, 4, 0);
}

/* -------------------------------------------------------------------- images */

/* Places are trusted by the kernel: they are a constant, looked at here. */
static void resample(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0), m = rlx_at(c, 1), inner = rlx_at(c, 2), taps = rlx_at(c, 3);
    const int64_t outer = rlx_groups(c, m), table = rlx_mul(taps, m);
    rlx_must(c, taps >= 1, "a result must have terms");
    rlx_reads(c, 0, rlx_mul3(outer, n, inner), c->size);
    rlx_reads(c, 1, table, 4);
    rlx_reads(c, 2, table, c->size);
    rlx_writes(c, 3, rlx_mul3(outer, m, inner), c->size);
    if (c->why)
        return;
    rlx_must(c, c->data[1] != NULL, "places must be a constant");
    const int32_t *places = (const int32_t *)c->data[1];
    int bad = 0;
    for (int64_t i = 0; i < table && places; i++)
        bad |= places[i] < 0 || places[i] >= n;
    rlx_must(c, !bad, "places must be in range");
}

static void grid_sample(rlx_claim *c) {
    int64_t rank;
    const int64_t *in = rlx_items(c, 5, &rank), channels = rlx_at(c, 0), points = rlx_at(c, 1);
    const int64_t batch = rlx_groups(c, points), volume = rlx_product(in, rank);
    rlx_must(c, rank >= 1 && rank <= 3 && volume < (int64_t)1 << 31, "an image must have one to three axes");
    for (int64_t d = 0; d < rank; d++)
        rlx_must(c, in[d] < (int64_t)1 << 31, "an image must be of possible size");
    rlx_reads(c, 0, rlx_mul3(batch, channels, volume), c->size);
    rlx_reads(c, 1, rlx_mul3(batch, points, rank), c->size);
    rlx_writes(c, 2, rlx_mul3(batch, channels, points), c->size);
}

static void roi_align(rlx_claim *c) {
    const int64_t channels = rlx_at(c, 1), bins_y = rlx_at(c, 4), bins_x = rlx_at(c, 5), rois = rlx_groups(c, bins_y);
    rlx_must(c, c->attrs[6] <= 1024, "a bin must have few points");
    rlx_must(c, channels >= 1 || rlx_mul(bins_x, c->extent) <= RLX_FREE, "bins must have places of their own");
    rlx_reads(c, 0, rlx_mul(rlx_mul(rlx_at(c, 0), channels), rlx_mul(rlx_at(c, 2), rlx_at(c, 3))), c->size);
    rlx_reads(c, 1, rlx_mul(4, rois), c->size);
    rlx_reads(c, 2, rois, 8);
    rlx_writes(c, 3, rlx_mul(rlx_mul(rois, channels), rlx_mul(bins_y, bins_x)), c->size);
}

/* ----------------------------------------------------------------- detection */

static void nms(rlx_claim *c) {
    const int64_t batch = rlx_at(c, 0), classes = rlx_at(c, 1), boxes = rlx_at(c, 2), capacity = rlx_at(c, 3);
    const int64_t items = rlx_mul(batch, classes);
    rlx_must(c, boxes < (int64_t)1 << 31, "there must be less than 2^31 boxes");
    rlx_extent(c, items);
    rlx_reads(c, 0, rlx_mul3(batch, boxes, 4), 4);
    rlx_reads(c, 1, rlx_mul(items, boxes), 4);
    rlx_may_read(c, 2, 1, 8);
    rlx_may_read(c, 3, 1, 4);
    rlx_may_read(c, 4, 1, 4);
    rlx_writes(c, 5, rlx_mul(items, capacity), 8);
    rlx_writes(c, 6, items, 8);
    rlx_works(c, 7, rlx_at(c, 5), rlx_add(rlx_add(rlx_mul(8, boxes), 8), rlx_mul(20, capacity)));
}

static void nms_compact(rlx_claim *c) {
    const int64_t items = rlx_mul(rlx_at(c, 0), rlx_at(c, 1)), all = rlx_mul(items, rlx_at(c, 2));
    rlx_serial(c);
    rlx_reads(c, 0, all, 8);
    rlx_reads(c, 1, items, 8);
    rlx_writes(c, 2, rlx_mul(3, all), 8);
    rlx_may_write(c, 3, 1, 8);
}

/* -------------------------------------------------------------- small matrices */

static void det(rlx_claim *c) {
    const int64_t n = rlx_at(c, 0), one = rlx_mul(n, n), all = rlx_mul(c->extent, one);
    const int inverse = rlx_is(c->family, "inverse");
    rlx_reads(c, 0, all, c->size);
    rlx_writes(c, 1, inverse ? all : c->extent, c->size);
    rlx_works(c, 2, rlx_at(c, 1), rlx_mul(one, inverse ? 16 : 8));
}

/* -------------------------------------------------------------- random numbers */

static void generate(rlx_claim *c) {
    if (rlx_is(c->family, "random_bits"))
        rlx_at(c, 1);
    rlx_writes(c, 0, c->extent, c->size);
}

static void bernoulli(rlx_claim *c) {
    rlx_reads(c, 0, c->extent, 4);
    rlx_writes(c, 1, c->extent, 1);
}

static void dropout(rlx_claim *c) {
    rlx_reads(c, 0, c->extent, c->size);
    rlx_writes(c, 1, c->extent, c->size);
    rlx_may_write(c, 2, c->extent, 1);
    rlx_aliases(c, 1, 0);
}

static void draw(rlx_claim *c) {
    const int one = rlx_is(c->family, "sample");
    const int64_t n = rlx_at(c, 0), x_s = rlx_at(c, one ? 1 : 2);
    rlx_must(c, n < (int64_t)1 << 31, "there must be less than 2^31 classes");
    rlx_reads(c, 0, rlx_span(n, c->extent, x_s), 4);
    rlx_writes(c, 1, one ? c->extent : rlx_mul(c->extent, rlx_at(c, 1)), 8);
    rlx_works(c, 2, rlx_at(c, one ? 6 : 4), rlx_mul(one ? 16 : 8, n));
}

const rlx_bounds_row rlx_bounds_bounds_mixed[] = {
    {"attention",
     "batch heads kv_heads sq sk d dv q_b q_h q_s k_b k_h k_s v_b v_h v_s o_b o_h o_s m_b m_h m_q m_k b_b b_h b_q b_k "
     "causal past window lens_past block ws scale:f softcap:f empty:f", attention},
    {"rope", "batch seq heads dim n_rot style inverse x_b x_s x_h y_b y_s y_h rows t_b t_s p_b p_s past", rope},
    {"resample", "n m inner taps", resample},
    {"grid_sample", "channels points mode padding align in:*", grid_sample},
    {"roi_align", "batch channels height width bins_y bins_x sampling maximum scale:f shift:f", roi_align},
    {"nms", "batch classes boxes capacity center ws", nms},
    {"nms_compact", "batch classes capacity", nms_compact},
    {"det", "n ws", det},
    {"inverse", "n ws", det},
    {"random_bits", "key offset", generate},
    {"uniform", "key low:f high:f", generate},
    {"normal", "key mean:f std:f", generate},
    {"randint", "key low high", generate},
    {"bernoulli", "key", bernoulli},
    {"dropout", "key ratio:f", dropout},
    {"multinomial", "classes samples x_s key ws", draw},
    {"sample", "vocab x_s key top_k temperature:f top_p:f ws", draw},
    {NULL, NULL, NULL},
};
