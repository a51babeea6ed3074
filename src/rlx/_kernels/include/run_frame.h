/* The frame of a run with what only the interpreter and kernels in Python use.
 * Kernels see its first part. Threads of the pool have a copy of that part
 * alone: a call that needs the rest runs on the thread of the run (grain 0).
 */
#ifndef RLX_RUN_FRAME_H
#define RLX_RUN_FRAME_H

#include "abi.h"

typedef struct rlx_run_frame {
    rlx_frame frame;
    void **keepers; /* per slot the Python object that owns its memory; NULL inside bodies */
    void **raised;  /* where a Python exception is left; owned by the executor */
} rlx_run_frame;

/* Status of a custom C kernel that failed: value = what it returned. */
enum { RLX_ERR_CUSTOM = 64 };

#endif
