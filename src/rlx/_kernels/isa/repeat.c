/* repeat: every element several times, along two neighbouring axes at once.
 *
 * repeat.b*    args: x, out;  attrs: w inner rh rw;  extent: outer * h
 *   x [outer * h, w, inner], out [outer * h, rh, w, rw, inner]: every row rh
 *   times, and in it every run of `inner` items rw times. By item size: b1 b2 b4
 *   b8 b16.
 *
 * Enlarging an image by whole factors. A row is widened once and then copied; for
 * inner == 1 the usual factors are loops of known length, which become
 * interleaves.
 */
#include "abi.h"

typedef struct {
    uint64_t low, high;
} item16;

#define WIDEN(N)                          \
    for (int64_t j = 0; j < w; j++)       \
        for (int64_t k = 0; k < (N); k++) \
            to[j * (N) + k] = from[j];

#define REPEAT(T, B)                                                                       \
    static int repeat_##B(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) { \
        const int64_t w = t->attrs[0], inner = t->attrs[1], rh = t->attrs[2], rw = t->attrs[3]; \
        const int64_t row = w * rw * inner;                                                \
        if (hi <= lo || row == 0 || rh == 0)                                               \
            return RLX_OK;                                                                 \
        const T *x = (const T *)RLX_PTR(t, f, 0);                                          \
        T *out = (T *)RLX_PTR(t, f, 1);                                                    \
        for (int64_t i = lo; i < hi; i++) {                                                \
            const T *restrict from = x + i * w * inner;                                    \
            T *restrict to = out + i * rh * row;                                           \
            if (rw == 1)                                                                   \
                memcpy(to, from, (size_t)row * sizeof(T));                                 \
            else if (inner == 1) {                                                         \
                if (rw == 2) {                                                             \
                    WIDEN(2)                                                               \
                } else if (rw == 3) {                                                      \
                    WIDEN(3)                                                               \
                } else if (rw == 4) {                                                      \
                    WIDEN(4)                                                               \
                } else {                                                                   \
                    WIDEN(rw)                                                              \
                }                                                                          \
            } else {                                                                       \
                T *o = to;                                                                 \
                for (int64_t j = 0; j < w; j++)                                            \
                    for (int64_t k = 0; k < rw; k++, o += inner)                           \
                        memcpy(o, from + j * inner, (size_t)inner * sizeof(T));            \
            }                                                                              \
            for (int64_t k = 1; k < rh; k++)                                               \
                memcpy(to + k * row, to, (size_t)row * sizeof(T));                         \
        }                                                                                  \
        return RLX_OK;                                                                     \
    }
REPEAT(uint8_t, b1)
REPEAT(uint16_t, b2)
REPEAT(uint32_t, b4)
REPEAT(uint64_t, b8)
REPEAT(item16, b16)

const rlx_kernel_row rlx_rows_repeat[] = {
    {"repeat.b1", repeat_b1, "w inner rh rw", 0},
    {"repeat.b2", repeat_b2, "w inner rh rw", 0},
    {"repeat.b4", repeat_b4, "w inner rh rw", 0},
    {"repeat.b8", repeat_b8, "w inner rh rw", 0},
    {"repeat.b16", repeat_b16, "w inner rh rw", 0},
    {NULL, NULL, NULL, 0},
};
