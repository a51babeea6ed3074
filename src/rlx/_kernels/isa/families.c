/* The row tables of this level, gathered; compiled once per level. */
#include "families.h"

#define DECLARE_ROWS(name) extern const rlx_kernel_row rlx_rows_##name[];
#define DECLARE_EWS(name) extern const rlx_ew_row rlx_ews_##name[];
RLX_KERNEL_FAMILIES(DECLARE_ROWS)
RLX_EW_FAMILIES(DECLARE_EWS)

#define ROWS(name) rlx_rows_##name,
#define EWS(name) rlx_ews_##name,
static const rlx_kernel_row *const kernels[] = {RLX_KERNEL_FAMILIES(ROWS) NULL};
static const rlx_ew_row *const ews[] = {RLX_EW_FAMILIES(EWS) NULL};

const rlx_families rlx_all_families = {kernels, ews, RLX_LEVEL};
