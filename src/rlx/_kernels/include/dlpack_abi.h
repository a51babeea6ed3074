/* The structures of DLPack 1.0 (github.com/dmlc/dlpack), as far as they are needed on the host. */
#ifndef RLX_DLPACK_ABI_H
#define RLX_DLPACK_ABI_H

#include <stdint.h>

typedef struct rlx_dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} rlx_dl_tensor;

typedef struct rlx_dl_managed {
    rlx_dl_tensor tensor;
    void *context;
    void (*deleter)(struct rlx_dl_managed *);
} rlx_dl_managed;

typedef struct rlx_dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct rlx_dl_versioned *);
    uint64_t flags;
    rlx_dl_tensor tensor;
} rlx_dl_versioned;

enum { RLX_DL_READ_ONLY = 1 };
#endif
