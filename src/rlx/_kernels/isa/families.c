/* The row tables of this level, gathered; compiled once per level. */
#include "families.h"
#include "sources.h"

#define X(name) extern const rlx_kernel_row rlx_rows_##name[];
#include "kernel_families.def"
#undef X
#define X(name) extern const rlx_ew_row rlx_ews_##name[];
#include "ew_families.def"
#undef X

#define X(name) rlx_rows_##name,
static const rlx_kernel_row *const kernels[] = {
#include "kernel_families.def"
    NULL};
#undef X
#define X(name) rlx_ews_##name,
static const rlx_ew_row *const ews[] = {
#include "ew_families.def"
    NULL};
#undef X

#define X(name) extern const rlx_bounds_row rlx_bounds_##name[];
#include "bounds_families.def"
#undef X
#define X(name) rlx_bounds_##name,
static const rlx_bounds_row *const bounds[] = {
#include "bounds_families.def"
    NULL};
#undef X

const rlx_families rlx_all_families = {kernels, ews, bounds, rlx_size_of, rlx_ew_shape_of, RLX_LEVEL, RLX_SOURCES};
