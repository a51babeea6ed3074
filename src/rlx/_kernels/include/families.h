/* The kernel families of one ISA level. Adding a family: a line in
 * kernel_families.def (rows rlx_rows_<family>[]) or ew_families.def (micro-kernels
 * rlx_ews_<family>[]), a file isa/<family>.c that defines them, a word in
 * meson.build. */
#ifndef RLX_FAMILIES_H
#define RLX_FAMILIES_H

#include "abi.h"

typedef struct rlx_families {
    const rlx_kernel_row *const *kernels; /* NULL-terminated */
    const rlx_ew_row *const *ews;         /* NULL-terminated */
    const char *level;
} rlx_families;

extern const rlx_families rlx_all_families;

/* Range kernels: rlx_rows_<family>[]; the blank line after a list ends it. */
#define RLX_KERNEL_FAMILIES(X) \
    X(copy) \
    X(move) \
    X(region) \
    X(gemm_f32) \
    X(gemm_f64) \

/* Elementwise micro-kernels: rlx_ews_<family>[] */
#define RLX_EW_FAMILIES(X) \
    X(ew_arith) \
    X(ew_compare) \
    X(ew_divide) \
    X(ew_unary) \
    X(ew_cast) \

#endif
