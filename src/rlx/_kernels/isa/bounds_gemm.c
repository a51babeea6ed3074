/* Bounds of products and of packing for them: see bounds.h. */
#include "bounds.h"
#include "int8.h"

enum { NBITS_HEAD = 32 * 4 };

int64_t rlx_stored(const rlx_claim *c) {
    static const char *const types[] = {"f16", "bf16", "f8e4m3fn", "f8e5m2"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rlx_is(c->variant, types[i]))
            return c->size2;
    return 0;
}

/* Columns of a panel. */
static int64_t width_of(const rlx_claim *c) { return rlx_is(c->type, "f64") ? RLX_W64 : RLX_W32; }

/* (size, strides...) per outer dimension: how many matrices, and what they span beside one. */
static int64_t outer(rlx_claim *c, int i, int64_t far[3]) {
    int64_t n, count = 1;
    const int64_t *batch = rlx_items(c, i, &n);
    far[0] = far[1] = far[2] = 0;
    rlx_must(c, n % 4 == 0, "an outer dimension must have strides");
    for (int64_t d = 0; d + 4 <= n; d += 4) {
        count = rlx_mul(count, batch[d]);
        for (int j = 0; j < 3; j++)
            far[j] = rlx_add(far[j], batch[d] > 0 ? rlx_mul(batch[d] - 1, batch[d + 1 + j]) : 0);
    }
    return count;
}

/* What a walk spans with `far` on top; nothing if it has no elements. */
static int64_t with(int64_t span, int64_t far) { return span ? rlx_add(span, far) : 0; }

static void blocks(rlx_claim *c, int64_t count, int64_t m, int64_t mc, int64_t n, int64_t nc, int64_t w) {
    rlx_must(c, mc >= 1 && nc >= 1 && (nc % w == 0 || nc >= n), "blocks must be whole panels");
    rlx_extent(c, rlx_mul3(count, rlx_ceil(m, mc), rlx_ceil(n, nc)));
}

static void matmul(rlx_claim *c) {
    const int64_t m = rlx_at(c, 0), n = rlx_at(c, 1), k = rlx_at(c, 2), lda = rlx_at(c, 3), ldb = rlx_at(c, 4);
    const int64_t ldo = rlx_at(c, 5), mc = rlx_at(c, 8), nc = rlx_at(c, 9), kc = rlx_at(c, 10), out = rlx_at(c, 11);
    const int trans_a = c->attrs[6] != 0, trans_b = c->attrs[7] != 0, unpacked = rlx_is(c->variant, "unpacked");
    const int64_t half = rlx_stored(c);
    const int bits = !half && c->variant[0] == 'u' && !unpacked ? c->variant[1] - '0' : 0;
    const int64_t w = width_of(c), size = c->size, panels = rlx_ceil(n, w);
    int64_t far[3], count = outer(c, 16, far);
    rlx_must(c, kc >= 1 && (unpacked || half || bits || !*c->variant), "a product must be of a known kind");
    rlx_must(c, !bits || kc % 16 == 0, "blocks must be whole words");
    rlx_must(c, ldo >= n || m <= 1, "rows must have places of their own");
    blocks(c, count, m, mc, n, nc, w);
    const int64_t span = rlx_span(n, m, ldo);
    rlx_reads(c, 0, with(trans_a ? rlx_span(m, k, lda) : rlx_span(k, m, lda), far[0]), size);
    if (unpacked)
        rlx_reads(c, 1, with(trans_b ? rlx_span(k, n, ldb) : rlx_span(n, k, ldb), far[1]), size);
    else if (bits)
        rlx_reads(c, 1, with(rlx_mul3(panels, rlx_ceil(k, 32 / bits), w), far[1]), 4);
    else
        rlx_reads(c, 1, with(rlx_mul3(panels, k, w), far[1]), half ? half : size);
    rlx_writes(c, 2, with(span, far[2]), out);
    rlx_may_read(c, 3, n, size);
    const int64_t depth = rlx_less(kc, k), cols = rlx_up(rlx_less(nc, n), w);
    int64_t work = rlx_mul(trans_a ? rlx_mul(RLX_GEMM_MR, kc) : 0, size);
    work = rlx_add(work, out != size ? rlx_mul3(mc, nc, size) : 0);
    if (unpacked || ((half || bits) && trans_b))
        work = rlx_add(work, rlx_mul3(cols, depth, size));
    work = rlx_add(work, bits ? NBITS_HEAD : 0);
    if (work)
        rlx_works(c, 4, rlx_at(c, 12), work);
    if (bits) {
        const int64_t block = rlx_at(c, 22), per_panel = rlx_ceil(k, block);
        rlx_must(c, block >= 1, "a block must have elements");
        rlx_reads(c, 5, rlx_mul3(panels, per_panel, w), 4);
        rlx_may_read(c, 6, rlx_mul3(panels, rlx_ceil(per_panel, 4), w), 4);
        rlx_must(c, block % (32 / bits) == 0 || block >= k, "blocks must be whole words");
    }
    const int64_t addend = c->attrs[20], ld = rlx_at(c, 21);
    rlx_must(c, addend == -1 || addend >= 5, "an addend must be an operand of its own");
    if (addend != -1) {
        rlx_reads(c, addend, ld ? rlx_span(n, rlx_mul(count, m), ld) : with(span, far[2]), size);
        rlx_aliases(c, 2, addend);
    }
    rlx_epilogue_bounds(c, 18, bits ? 7 : 5, rlx_mul(count, m), n, with(span, far[2]), size, out);
}

static void matvec(rlx_claim *c) {
    const int64_t m = rlx_at(c, 0), k = rlx_at(c, 1), lda = rlx_at(c, 2), step = rlx_at(c, 3), mc = rlx_at(c, 4);
    const int64_t x = rlx_at(c, 12), ldx = rlx_at(c, 13), ldo = rlx_at(c, 14), out = rlx_at(c, 15);
    int64_t far[3], count = outer(c, 8, far);
    const int64_t span = with(rlx_span(m, x, ldo), far[2]);
    rlx_must(c, x >= 1 && x <= 4 && mc >= 1, "there must be one to four vectors");
    rlx_must(c, ldo >= m || x <= 1, "rows must have places of their own");
    rlx_extent(c, rlx_mul(count, rlx_ceil(m, mc)));
    rlx_reads(c, 0, with(rlx_span(k, m, lda), far[0]), *c->variant ? rlx_stored(c) : c->size);
    rlx_reads(c, 1, with(rlx_span(k, x, ldx), far[1]), c->size);
    rlx_writes(c, 2, span, out);
    rlx_may_read(c, 3, rlx_span(1, m, step), c->size);
    if (out != c->size)
        rlx_works(c, 4, rlx_at(c, 16), rlx_mul3(x, mc, c->size));
    rlx_epilogue_bounds(c, 10, 5, rlx_mul(count, x), m, span, c->size, out);
}

static void matmul_plain(rlx_claim *c) {
    const int64_t m = rlx_at(c, 0), n = rlx_at(c, 1), k = rlx_at(c, 2);
    int64_t far[3], count = outer(c, 8, far);
    rlx_extent(c, rlx_mul(count, m));
    rlx_must(c, k <= RLX_FREE || c->attrs[4] >= 1, "terms must have places of their own");
    rlx_reads(c, 0, with(rlx_span(rlx_span(1, k, rlx_at(c, 4)), m, rlx_at(c, 3)), far[0]), c->size);
    rlx_reads(c, 1, with(rlx_span(rlx_span(1, n, rlx_at(c, 6)), k, rlx_at(c, 5)), far[1]), c->size);
    rlx_writes(c, 2, with(rlx_span(n, m, rlx_at(c, 7)), far[2]), c->size);
}

/* What follows an 8-bit product (attributes from i on): scales and zero points of `cols` columns. */
void rlx_int8_bounds(rlx_claim *c, int i, int64_t rows, int64_t cols) {
    const int64_t a_zero = rlx_at(c, i + 2), b_zero = rlx_at(c, i + 3), scale = rlx_at(c, i + 4);
    rlx_may_read(c, 3, cols, 4);
    if (a_zero)
        rlx_reads(c, 5, a_zero == 1 ? 1 : rows, 1);
    if (b_zero)
        rlx_reads(c, 6, b_zero == 1 ? 1 : cols, 1);
    rlx_may_read(c, 7, scale > 1 ? cols : 1, 4);
    rlx_may_read(c, 8, 1, 1);
}

static void matmul_int8(rlx_claim *c) {
    const int64_t m = rlx_at(c, 0), n = rlx_at(c, 1), k = rlx_at(c, 2), lda = rlx_at(c, 3), ldo = rlx_at(c, 4);
    const int64_t mc = rlx_at(c, 5), nc = rlx_at(c, 6), out = rlx_at(c, 13) < 2 ? 4 : 1, ldc = rlx_up(nc, RLX_W32);
    int64_t far[3], count = outer(c, 16, far);
    const int64_t span = with(rlx_span(n, m, ldo), far[2]), depth = rlx_up(k, RLX_KG);
    blocks(c, count, m, mc, n, nc, RLX_W32);
    rlx_must(c, ldo >= n || m <= 1, "rows must have places of their own");
    rlx_reads(c, 0, with(rlx_span(k, m, lda), far[0]), 1);
    rlx_reads(c, 1, with(rlx_mul(rlx_up(n, RLX_W32), rlx_add(depth, 4)), far[1]), 1);
    rlx_writes(c, 2, span, out);
    rlx_works(c, 4, rlx_at(c, 7), rlx_add(rlx_mul3(4, RLX_GEMM_MR + 3, ldc),
                                          rlx_add(rlx_mul3(RLX_GEMM_MR, depth, sizeof(rlx_int8_term)), 64)));
    rlx_int8_bounds(c, 8, m, n);
    rlx_epilogue_bounds(c, 18, 9, rlx_mul(count, m), n, span, out, out);
}

/* ------------------------------------------------------------------- packing */

static void pack(rlx_claim *c) {
    const int64_t k = rlx_at(c, 0), n = rlx_at(c, 1), ldb = rlx_at(c, 2), stride = rlx_at(c, 4);
    const int64_t w = width_of(c), panels = rlx_ceil(n, w), one = c->attrs[3] ? rlx_span(k, n, ldb) : rlx_span(n, k, ldb);
    const int64_t groups = rlx_groups(c, panels);
    rlx_reads(c, 0, rlx_span(one, groups, stride), c->size);
    rlx_writes(c, 1, rlx_mul3(c->extent, k, w), c->size);
}

static void pack_int8(rlx_claim *c) {
    const int64_t k = rlx_at(c, 0), n = rlx_at(c, 1), ldb = rlx_at(c, 2), stride = rlx_at(c, 4);
    const int64_t one = c->attrs[3] ? rlx_span(k, n, ldb) : rlx_span(n, k, ldb);
    rlx_reads(c, 0, rlx_span(one, c->extent, stride), 1);
    rlx_writes(c, 1, rlx_mul3(c->extent, rlx_up(n, RLX_W32), rlx_add(rlx_up(k, RLX_KG), 4)), 1);
}

#define MATMUL "M N K lda ldb ldo trans_a trans_b mc nc kc out_size work_stride clamp lo:f hi:f batch:* steps:* addend ld_addend"

const rlx_bounds_row rlx_bounds_bounds_gemm[] = {
    {"matmul", MATMUL, matmul},
    {"matmul", MATMUL " block", matmul},
    {"matmul", "M N K lda ldo mc nc work_stride " RLX_INT8_POST_LAYOUT "batch:* steps:*", matmul_int8},
    {"matvec", "M K lda bias_step mc clamp lo:f hi:f batch:* steps:* X ldx ldo out_size work_stride", matvec},
    {"matmul_plain", "M N K a_m a_k b_k b_n o_m batch:*", matmul_plain},
    {"pack_b", "K N ldb trans group_stride", pack},
    {"pack_b", "K N ldb trans group_stride b_signed", pack_int8},
    {NULL, NULL, NULL},
};
