/* Bounds of recurrent layers: see bounds.h. */
#include "bounds.h"
#include "int8.h"
#include "rnn.h"

enum { COLUMNS = 4 * 16, MOST_GATES = 4 };

/* Hidden units of a panel. */
static int64_t units(const rlx_claim *c) { return c->size == 8 ? 8 : 16; }

/* 1 + the greatest gate that a list of `gates` names. */
static int64_t gates_in(rlx_claim *c, int i, int64_t gates) {
    int64_t n, most = 0;
    const int64_t *order = rlx_items(c, i, &n);
    rlx_must(c, n == gates && gates <= MOST_GATES, "there must be an entry per gate");
    for (int64_t g = 0; g < n && g < MOST_GATES; g++) {
        rlx_must(c, order[g] >= 0 && order[g] < MOST_GATES, "gates must be in range");
        most = order[g] >= most ? order[g] + 1 : most;
    }
    return most;
}

static void pack(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), gates = rlx_at(c, 1), hidden = rlx_at(c, 2), depth = rlx_at(c, 3), ub = units(c);
    const int64_t panels = rlx_mul(dirs, rlx_ceil(hidden, ub)), rows = rlx_mul(gates_in(c, 7, gates), hidden);
    rlx_must(c, gates >= 1 && rlx_at(c, 6) <= 1, "no more than one gate must be apart");
    rlx_extent(c, panels);
    rlx_reads(c, 0, rlx_span(rlx_span(depth, rows, rlx_at(c, 4)), dirs, rlx_at(c, 5)), c->size);
    rlx_writes(c, 1, rlx_mul3(panels, depth, rlx_mul(gates, ub)), c->size);
}

static void pack_bias(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), gates = rlx_at(c, 1), hidden = rlx_at(c, 2), ub = units(c);
    const int64_t panels = rlx_mul(dirs, rlx_ceil(hidden, ub));
    const int64_t from = rlx_span(rlx_mul(gates_in(c, 4, gates), hidden), dirs, rlx_at(c, 3));
    rlx_extent(c, panels);
    rlx_may_read(c, 0, from, c->size);
    rlx_may_read(c, 1, from, c->size);
    rlx_writes(c, 2, rlx_mul3(panels, gates, ub), c->size);
    rlx_may_write(c, 3, rlx_mul(panels, ub), c->size);
}

static void project(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), seq = rlx_at(c, 1), batch = rlx_at(c, 2), inputs = rlx_at(c, 3);
    const int64_t gates = rlx_at(c, 5), ub = units(c), rows = rlx_mul3(dirs, seq, batch);
    const int64_t panels = rlx_ceil(rlx_at(c, 4), ub), width = rlx_mul3(panels, gates, ub);
    rlx_must(c, gates == 1 || gates == 3 || gates == 4, "there must be 1, 3 or 4 gates");
    rlx_extent(c, rlx_mul3(dirs, rlx_ceil(rlx_mul(seq, batch), RLX_RNN_ROWS), panels));
    rlx_reads(c, 0, rlx_span(rlx_span(inputs, batch, rlx_at(c, 7)), seq, rlx_at(c, 6)), c->size);
    rlx_reads(c, 1, rlx_mul3(dirs, width, inputs), c->size);
    rlx_may_read(c, 2, rlx_mul(dirs, width), c->size);
    rlx_writes(c, 3, rlx_mul(rows, width), c->size);
}

/* What all recurrences say alike: operands from `lens` on; `states`: 2 with a cell. */
static void states(rlx_claim *c, int lens, int count, int n_acts) {
    const int64_t dirs = rlx_at(c, 0), seq = rlx_at(c, 1), batch = rlx_at(c, 2), hidden = rlx_at(c, 3), size = c->size;
    const int y = lens + 1 + count;
    rlx_may_read(c, lens, batch, 4);
    for (int i = 0; i < count; i++) {
        rlx_may_read(c, lens + 1 + i, rlx_span(rlx_span(hidden, batch, rlx_at(c, 11)), dirs, rlx_at(c, 10)), size);
        rlx_may_write(c, y + 1 + i, rlx_span(rlx_span(hidden, batch, rlx_at(c, 13)), dirs, rlx_at(c, 12)), size);
        rlx_aliases(c, y + 1 + i, lens + 1 + i);
    }
    rlx_may_write(c, y, rlx_span(rlx_span(rlx_span(hidden, batch, rlx_at(c, 9)), dirs, rlx_at(c, 8)), seq, rlx_at(c, 7)),
                  size);
    for (int i = 15; i <= 19; i += 2) {
        int64_t n;
        rlx_items(c, i, &n);
        rlx_must(c, n == rlx_mul(dirs, n_acts), "there must be an activation per gate");
    }
    rlx_must(c, hidden >= 1 || rlx_mul(seq, batch) <= RLX_FREE, "steps must have units");
    rlx_must(c, rlx_at(c, 5) >= 1 && (batch >= 1 || !c->extent), "a block must have rows");
}

static void recurrence(rlx_claim *c) {
    const int lstm = rlx_is(c->family, "lstm"), gru = rlx_is(c->family, "gru");
    const int64_t dirs = rlx_at(c, 0), seq = rlx_at(c, 1), batch = rlx_at(c, 2), hidden = rlx_at(c, 3), ub = units(c);
    const int64_t gates = lstm ? 4 : gru ? 3 : 1, buffers = lstm ? 3 : gru ? 4 : 2, panels = rlx_ceil(hidden, ub);
    const int64_t pad = rlx_mul(panels, ub), blocks = rlx_mul(dirs, rlx_ceil(batch, rlx_at(c, 5)));
    const int lens = lstm || gru ? 3 : 2, count = lstm ? 2 : 1, ws = lens + 2 + 2 * count;
    const int64_t halves = gru && !c->attrs[6] ? 2 : 1;
    rlx_extent(c, c->phases == 1 ? blocks : rlx_mul3(blocks, panels, rlx_add(rlx_mul(halves, seq), 2)));
    rlx_reads(c, 0, rlx_mul(rlx_mul3(dirs, seq, batch), rlx_mul(pad, gates)), c->size);
    rlx_reads(c, 1, rlx_mul(rlx_mul3(dirs, pad, hidden), gates), c->size);
    if (lens == 3)
        rlx_may_read(c, 2, rlx_mul3(dirs, pad, lstm ? 3 : 1), c->size);
    states(c, lens, count, lstm ? 3 : gru ? 2 : 1);
    rlx_writes(c, ws, rlx_mul3(rlx_mul(dirs, batch), buffers, pad), c->size);
}

/* -------------------------------------------------------------------- 8 bits */

static int64_t row_bytes(int64_t k) {
    return rlx_add(rlx_up(rlx_mul(rlx_up(k, RLX_KG), sizeof(rlx_int8_term)), 4), 4);
}
static int64_t dir_bytes(int64_t panels, int64_t k) { return rlx_mul3(panels, COLUMNS, rlx_add(rlx_up(k, RLX_KG), 4)); }

static void pack_int8(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), hidden = rlx_at(c, 1), depth = rlx_at(c, 2), panels = rlx_ceil(hidden, 16);
    gates_in(c, 4, 4);
    rlx_extent(c, rlx_mul(dirs, panels));
    rlx_reads(c, 0, rlx_mul3(rlx_mul(dirs, depth), 4, hidden), 1);
    rlx_writes(c, 1, rlx_mul(dirs, dir_bytes(panels, depth)), 1);
}

static void columns(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), hidden = rlx_at(c, 1), panels = rlx_mul(dirs, rlx_ceil(hidden, 16));
    const int64_t rows = rlx_mul(gates_in(c, 4, 4), hidden);
    rlx_extent(c, panels);
    rlx_reads(c, 0, rlx_span(rlx_span(1, rows, rlx_at(c, 3)), dirs, rlx_at(c, 2)), c->size);
    rlx_writes(c, 1, rlx_mul(panels, COLUMNS), 4);
}

static void quantize(rlx_claim *c) {
    const int64_t rows = rlx_mul(rlx_at(c, 0), rlx_at(c, 1)), n = rlx_at(c, 2);
    rlx_serial(c);
    rlx_reads(c, 0, rlx_mul(rows, n), 4);
    rlx_may_read(c, 1, rlx_at(c, 1), 4);
    rlx_writes(c, 2, rlx_mul(rows, row_bytes(n)), 1);
    rlx_writes(c, 3, 2, 4);
}

static void project_int8(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), rows = rlx_mul(rlx_at(c, 1), rlx_at(c, 2)), k = rlx_at(c, 3);
    const int64_t panels = rlx_ceil(rlx_at(c, 4), 16), width = rlx_mul(panels, COLUMNS);
    rlx_extent(c, rlx_mul3(dirs, rlx_ceil(rows, RLX_RNN_ROWS), panels));
    rlx_reads(c, 0, rlx_mul(rows, row_bytes(k)), 1);
    rlx_reads(c, 1, 2, 4);
    rlx_reads(c, 2, rlx_mul(dirs, dir_bytes(panels, k)), 1);
    rlx_reads(c, 3, rlx_mul(dirs, width), 4);
    rlx_may_read(c, 4, rlx_mul(dirs, width), 4);
    rlx_writes(c, 5, rlx_mul3(dirs, rows, width), 4);
}

static void lstm_int8(rlx_claim *c) {
    const int64_t dirs = rlx_at(c, 0), seq = rlx_at(c, 1), batch = rlx_at(c, 2), hidden = rlx_at(c, 3);
    const int64_t panels = rlx_ceil(hidden, 16), width = rlx_mul3(dirs, panels, COLUMNS);
    rlx_must(c, rlx_at(c, 5) >= batch, "a step must have all rows");
    rlx_extent(c, rlx_mul3(rlx_add(seq, 2), dirs, panels));
    rlx_reads(c, 0, rlx_mul3(seq, batch, width), 4);
    rlx_reads(c, 1, rlx_mul(dirs, dir_bytes(panels, hidden)), 1);
    rlx_reads(c, 2, width, 4);
    rlx_may_read(c, 3, width, 4);
    rlx_may_read(c, 4, width, 4);
    rlx_may_read(c, 5, rlx_mul3(dirs, panels, 3 * 16), 4);
    states(c, 6, 2, 3);
    rlx_writes(c, 12, rlx_mul3(rlx_mul(dirs, batch), 3, rlx_mul(panels, 16)), 4);
    rlx_works(c, 13, rlx_at(c, 21), rlx_mul(batch, row_bytes(hidden)));
}

const rlx_bounds_row rlx_bounds_bounds_rnn[] = {
    {"rnn_pack", "dirs gates hidden depth row dir apart order:*", pack},
    {"rnn_pack", "dirs hidden depth signed order:*", pack_int8},
    {"rnn_pack_bias", "dirs gates hidden dir order:*", pack_bias},
    {"rnn_project", "dirs seq batch inputs hidden gates x_t x_b", project},
    {"rnn_project", "dirs seq batch inputs hidden", project_int8},
    {"lstm", RLX_RECURRENT, recurrence},
    {"gru", RLX_RECURRENT, recurrence},
    {"rnn", RLX_RECURRENT, recurrence},
    {"rnn_columns", "dirs hidden dir column order:*", columns},
    {"rnn_quantize", "seq batch inputs", quantize},
    {"dynamic_quantize_lstm", RLX_RECURRENT " stride", lstm_int8},
    {NULL, NULL, NULL},
};
