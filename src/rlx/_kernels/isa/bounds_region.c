/* Bounds of elementwise regions and epilogues, and the shapes of micro-kernels: see bounds.h. */
#include "bounds.h"
#include "epilogue.h"

int64_t rlx_size_of(const char *name, int64_t length) {
    static const struct {
        const char *name;
        int64_t size;
    } sizes[] = {{"b1", 1}, {"b2", 2}, {"b4", 4}, {"b8", 8}, {"b16", 16}, {"i8", 1}, {"i16", 2}, {"i32", 4},
                 {"i64", 8}, {"u8", 1}, {"u16", 2}, {"u32", 4}, {"u64", 8}, {"f16", 2}, {"bf16", 2}, {"f32", 4},
                 {"f64", 8}, {"c64", 8}, {"c128", 16}, {"bool", 1}, {"f8e4m3fn", 1}, {"f8e5m2", 1},
                 {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if ((int64_t)strlen(sizes[i].name) == length && !memcmp(name, sizes[i].name, (size_t)length))
            return sizes[i].size;
    return 0;
}

/* Micro-kernels whose operands are all of their type. What is not listed has no shape. */
static const char *const plain[] = {
    "abs", "acos", "acosh", "add", "add_add", "add_mul", "add_rsub", "add_sub", "and", "asin", "asinh", "atan",
    "atan2", "atanh", "bit_and", "bit_not", "bit_or", "bit_xor", "ceil", "celu", "clip", "conj", "cos", "cosh",
    "div", "elu", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_div", "fma", "fmod", "gelu", "gelu_tanh",
    "hard_sigmoid", "hard_swish", "leaky_relu", "log", "log10", "log1p", "log2", "log_sigmoid", "max", "min",
    "mish", "mod", "mul", "mul_add", "mul_mul", "mul_rsub", "mul_sub", "neg", "not", "or", "pow", "recip", "relu",
    "round", "round_bf16", "round_f16", "rsqrt", "selu", "shl", "shr", "shrink", "sigmoid", "sign", "silu", "sin",
    "sinh", "softplus", "softsign", "sqrt", "square", "sub", "sub_add", "sub_mul", "sub_rsub", "sub_sub", "swish",
    "tan", "tanh", "thresholded_relu", "trunc", "xor", NULL};
static const char *const to_bool[] = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", NULL};
static const char *const one_parameter[] = {"elu", "celu", "leaky_relu", "swish", "thresholded_relu", NULL};
static const char *const two_parameters[] = {"clip", "selu", "shrink", "hard_sigmoid", NULL};
static const char *const divisions[] = {"div", "floor_div", "mod", "fmod", NULL};

static int among(const char *const *list, const char *name, size_t length) {
    for (; *list; list++)
        if (strlen(*list) == length && !memcmp(*list, name, length))
            return 1;
    return 0;
}

/* <before>_<f>_<after> of ew_around.c */
static int around(const char *name, size_t length) {
    static const char *const functions[] = {"exp", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", NULL};
    if (length > 4 && (!memcmp(name, "add_", 4) || !memcmp(name, "mul_", 4)))
        name += 4, length -= 4;
    if (length > 4 && (!memcmp(name + length - 4, "_add", 4) || !memcmp(name + length - 4, "_mul", 4)))
        length -= 4;
    return among(functions, name, length);
}

int rlx_ew_shape_of(const char *name, int32_t arity, rlx_ew_shape *to) {
    const char *dot = strchr(name, '.');
    const size_t n = dot ? (size_t)(dot - name) : 0;
    const int64_t size = dot ? rlx_size_of(dot + 1, (int64_t)strlen(dot + 1)) : 0;
    memset(to, 0, sizeof *to);
    if (!size || arity < 1 || arity > 3)
        return 0;
    const int complex = dot[1] == 'c';
    to->dst = (int32_t)size;
    for (int i = 0; i < arity; i++)
        to->src[i] = (int32_t)size;
    if (n > 5 && !memcmp(name, "cast_", 5)) {
        to->dst = (int32_t)rlx_size_of(name + 5, (int64_t)n - 5);
        return to->dst && arity == 1;
    }
    if (n > 9 && !memcmp(name, "quantize_", 9)) {
        to->dst = (int32_t)rlx_size_of(name + 9, (int64_t)n - 9);
        return to->dst && arity == 3;
    }
    if (among(to_bool, name, n))
        to->dst = 1;
    else if (complex && (among((const char *const[]){"abs", "real", "imag", NULL}, name, n)))
        to->dst = (int32_t)size / 2;
    else if (n == 12 && !memcmp(name, "make_complex", n))
        to->dst = 2 * (int32_t)size;
    else if (n == 5 && !memcmp(name, "where", n) && arity == 3)
        to->src[0] = 1;
    else if (!among(plain, name, n) && !(size == 4 && around(name, n)))
        return 0;
    to->params = among(one_parameter, name, n) ? 1 : among(two_parameters, name, n) ? 2 : 0;
    /* 64-bit integers are divided after a look at all divisors */
    to->traps = size == 8 && (dot[1] == 'i' || dot[1] == 'u') && among(divisions, name, n);
    return 1;
}

/* The micro-kernel at word `at` of the attributes. */
static const rlx_ew_shape *micro(rlx_claim *c, int64_t at) {
    if (c->refs[at] >= 0)
        return c->ews + c->refs[at];
    rlx_deny(c, "a step must have a micro-kernel");
    return NULL;
}

/* ------------------------------------------------------------------- regions */

enum { FULL, SCALAR, PERIODIC, STRIDED, TEMP, OUT, KINDS };
enum { REG_WORDS = 6, STEP_WORDS = 6, MAX_REGS = 64, MAX_DIMS = 32 };

/* A result may lie where an operand does that has elements of the same size (each is read before its place is
 * written), or whatever their sizes on one thread: no other thread divides by what this one overwrites. */
static void in_place(rlx_claim *c, int64_t w, int64_t r, int64_t size, int64_t other) {
    if (size == other || c->grain == 0)
        rlx_aliases(c, w, r);
}

static void strided_register(rlx_claim *c, const int64_t *reg, int64_t total) {
    int64_t ndim, n_strides, span = 1;
    const int64_t *dims = rlx_items(c, 8, &ndim), *strides = rlx_items(c, 10, &n_strides);
    rlx_must(c, ndim >= 1 && ndim <= MAX_DIMS && reg[4] >= 0 && reg[4] <= n_strides - ndim,
             "a broadcast operand must have a stride per axis");
    if (c->why)
        return;
    rlx_must(c, rlx_product(dims, ndim) >= total, "a region must have its shape");
    for (int64_t d = 0; d < ndim; d++)
        span = rlx_span(span, dims[d], strides[reg[4] + d]);
    rlx_reads(c, reg[2], span, reg[1]);
}

static void region(rlx_claim *c) {
    int64_t n_words, n_steps, n_params;
    const int64_t *regs = rlx_items(c, 4, &n_words), *steps = rlx_items(c, 6, &n_steps);
    const int64_t total = rlx_at(c, 0), block = rlx_at(c, 1), work = rlx_at(c, 2), n = rlx_at(c, 3);
    const int64_t part = rlx_less(block, total), last = c->n_args - 1;
    rlx_items(c, 12, &n_params);
    rlx_must(c, block >= 1 && n <= MAX_REGS && n_words == n * REG_WORDS && n_steps % STEP_WORDS == 0,
             "a region must have blocks, registers and steps");
    if (c->why)
        return;
    rlx_extent(c, rlx_ceil(total, block));
    if (work) {
        rlx_works(c, last, work, work);
        if (!rlx_has(c, last))
            return;
    }
    for (int64_t i = 0; i < n && !c->why; i++) {
        const int64_t *reg = regs + i * REG_WORDS, kind = reg[0], size = reg[1];
        rlx_must(c, kind >= 0 && kind < KINDS && (size == 1 || size == 2 || size == 4 || size == 8 || size == 16),
                 "registers must be of a known kind and size");
        if (kind != TEMP)
            rlx_must(c, reg[2] >= 0 && reg[2] < c->n_args - (work > 0), "a register must have an operand");
        if (c->why)
            return;
        if (kind != FULL && kind != OUT) { /* a block in workspace */
            const int64_t at = kind == TEMP ? reg[2] : reg[3];
            rlx_must(c, at >= 0 && at % size == 0 && rlx_add(at, rlx_mul(part, size)) <= work,
                     "a register must lie inside the workspace");
        }
        if (kind == FULL)
            rlx_reads(c, reg[2], total, size);
        else if (kind == OUT)
            rlx_writes(c, reg[2], total, size);
        else if (kind == SCALAR)
            rlx_reads(c, reg[2], 1, size);
        else if (kind == PERIODIC) {
            rlx_must(c, reg[4] >= 1, "a period must have elements");
            rlx_reads(c, reg[2], reg[4], size);
        } else if (kind == STRIDED)
            strided_register(c, reg, total);
    }
    for (int64_t i = 0; i < n && !c->why; i++)
        for (int64_t j = 0; j < n && regs[i * REG_WORDS] == OUT; j++)
            if (regs[j * REG_WORDS] == FULL)
                in_place(c, regs[i * REG_WORDS + 2], regs[j * REG_WORDS + 2], regs[i * REG_WORDS + 1],
                      regs[j * REG_WORDS + 1]);
    for (int64_t s = 0; s < n_steps && !c->why; s += STEP_WORDS) {
        const int64_t *step = steps + s;
        const rlx_ew_shape *ew = micro(c, step - c->attrs);
        if (!ew)
            return;
        rlx_must(c, step[1] >= 0 && step[1] < n, "a step must have a result");
        rlx_must(c, step[5] >= 0 && rlx_add(step[5], ew->params) <= n_params, "a step must have its parameters");
        if (c->why)
            return;
        const int64_t *dst = regs + step[1] * REG_WORDS;
        rlx_must(c, (dst[0] == TEMP || dst[0] == OUT) && dst[1] == ew->dst, "a step must write a result of its type");
        for (int k = 0; k < 3; k++) {
            rlx_must(c, step[2 + k] < n && step[2 + k] >= (ew->src[k] ? 0 : -1), "a step must have its operands");
            if (c->why || step[2 + k] < 0 || !ew->src[k])
                continue;
            const int64_t *src = regs + step[2 + k] * REG_WORDS;
            rlx_must(c, src[1] == ew->src[k], "operands of a step must be of its type");
            const int in_work = src[0] != FULL && src[0] != OUT, at = src[0] == TEMP ? 2 : 3;
            if (dst[0] == TEMP && in_work) {
                const int64_t a = dst[2], b = src[at];
                rlx_must(c, a == b || a + part * dst[1] <= b || b + part * src[1] <= a, "registers must be apart");
            }
        }
    }
}

/* attrs: fn sizes:* params:* */
static void direct(rlx_claim *c) {
    int64_t n_sizes, n_params;
    const int64_t *sizes = rlx_items(c, 1, &n_sizes);
    const rlx_ew_shape *ew = micro(c, 0);
    rlx_items(c, 3, &n_params);
    rlx_must(c, n_sizes == 4 && c->n_args == 4, "a step must have four operands");
    if (c->why)
        return;
    rlx_must(c, n_params >= ew->params && sizes[3] == ew->dst, "a step must have its parameters and result");
    rlx_writes(c, 3, c->extent, ew->dst);
    for (int i = 0; i < 3 && !c->why; i++) {
        if (!ew->src[i])
            continue;
        rlx_must(c, sizes[i] == ew->src[i], "operands of a step must be of its type");
        rlx_reads(c, i, c->extent, sizes[i]);
        if (!c->why)
            in_place(c, 3, i, ew->dst, ew->src[i]);
    }
}

/* ----------------------------------------------------------------- epilogues */

void rlx_epilogue_bounds(rlx_claim *c, int i, int first, int64_t rows, int64_t cols, int64_t span, int64_t acc,
                         int64_t out) {
    int64_t n;
    const int64_t *step = rlx_items(c, i, &n), *end = step + n;
    rlx_must(c, acc == out || n > 0, "a result that is narrowed must have a step that does it");
    while (step < end && !c->why) {
        rlx_must(c, end - step >= RLX_EPI_HEAD && step[5] >= 0 && step[5] <= end - step - RLX_EPI_HEAD,
                 "a step must have its parameters");
        const rlx_ew_shape *ew = c->why ? NULL : micro(c, step - c->attrs);
        if (!ew)
            return;
        const int64_t kind = step[1] & RLX_EPI_KIND, ld = step[3], size = step[4];
        const int64_t *next = step + RLX_EPI_HEAD + step[5];
        const int64_t dst = next == end ? out : acc;
        rlx_must(c, step[1] == (kind | (step[1] & RLX_EPI_SWAP)) && kind <= RLX_EPI_SAME, "steps must be of a known kind");
        rlx_must(c, step[5] >= ew->params && !ew->src[2] && !ew->traps && ew->dst == dst && ew->src[0] == acc,
                 "a step must fit the result");
        if (kind == RLX_EPI_UNARY) {
            rlx_must(c, !ew->src[1], "a step must have its operands");
        } else {
            rlx_must(c, step[2] >= first && size == ew->src[1] && ew->src[1] == acc && ld >= 0,
                     "a step must have its operands");
            rlx_reads(c, step[2], kind == RLX_EPI_ROW ? cols : kind == RLX_EPI_FULL ? rlx_span(cols, rows, ld) : span,
                      size);
            rlx_aliases(c, 2, step[2]); /* no operand is an index */
        }
        step = next;
    }
}

const rlx_bounds_row rlx_bounds_bounds_region[] = {
    {"region", "total block work n_regs regs:* steps:* dims:* strides:* params:*", region},
    {"region", "fn sizes:* params:*", direct},
    {NULL, NULL, NULL},
};
