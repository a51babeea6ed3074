/* The kernel families of one ISA level. Adding a family: a line in
 * kernel_families.def (rows rlx_rows_<family>[]) or ew_families.def (micro-kernels
 * rlx_ews_<family>[]), and a file isa/<family>.c
 * that defines them; meson reads the lists. What a call may touch is told by
 * rules in bounds_families.def (rlx_bounds_<family>[], see bounds.h). */
#ifndef RLX_FAMILIES_H
#define RLX_FAMILIES_H

#include "abi.h"
#include "bounds.h"

typedef struct rlx_families {
    const rlx_kernel_row *const *kernels; /* NULL-terminated */
    const rlx_ew_row *const *ews;         /* NULL-terminated */
    const rlx_bounds_row *const *bounds;  /* NULL-terminated */
    int64_t (*size_of)(const char *, int64_t);
    int (*ew_shape_of)(const char *, int32_t, rlx_ew_shape *);
    const char *level;
    const char *sources; /* digest of the sources of all kernels */
} rlx_families;

extern const rlx_families rlx_all_families;

#endif
