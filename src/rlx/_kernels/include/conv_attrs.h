/* What the layouts of convolutions have in common, and how those of channels-first images are read. */
#ifndef RLX_CONV_ATTRS_H
#define RLX_CONV_ATTRS_H

#include <stddef.h>
#include <string.h>

#define CONV_WINDOW                                 \
    "in_d in_h in_w out_d out_h out_w k_d k_h k_w " \
    "stride_d stride_h stride_w dilation_d dilation_h dilation_w pad_d pad_h pad_w "
#define CONV_LAST_HEAD "batch groups C OC ldi ldo " CONV_WINDOW
#define CONV_TAIL "work_stride clamp lo:f hi:f steps:*"

/* Channels first. Attributes of their own lie between head and tail, in the struct as in the layout. */
#define CONV_FIRST_HEAD "batch groups C OC " CONV_WINDOW
#define CONV_FIRST_HEAD_FIELDS int64_t batch, groups, c, oc, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3]
#define CONV_FIRST_TAIL_FIELDS  \
    int64_t work_stride, clamp; \
    T lo, hi;                   \
    const int64_t *steps;       \
    int64_t n_steps, taps, k, plane_in, plane_out
#define CONV_FIRST_READ(p, at)                                                       \
    do {                                                                             \
        enum { WORDS = offsetof(__typeof__(p), lo) / sizeof(int64_t) };              \
        memcpy(&(p), at, WORDS * sizeof(int64_t));                                   \
        (p).lo = (T)RLX_F(at, WORDS), (p).hi = (T)RLX_F(at, WORDS + 1);              \
        (p).steps = RLX_LIST(at, WORDS + 2), (p).n_steps = RLX_COUNT(at, WORDS + 2); \
        (p).taps = (p).kernel[0] * (p).kernel[1] * (p).kernel[2];                    \
        (p).k = (p).taps * (p).c;                                                    \
        (p).plane_in = (p).in[0] * (p).in[1] * (p).in[2];                            \
        (p).plane_out = (p).out[0] * (p).out[1] * (p).out[2];                        \
    } while (0)

#endif
