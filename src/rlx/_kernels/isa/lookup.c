/* lookup: tables of 256 results, of quantised activations.
 *
 * lookup.b1, lookup.b4    args x bytes, table of 256, y; extent n
 *
 * Design. Eight bytes are loaded at once and taken apart; a gather of 16 floats takes as long as 16 loads. */
#include "abi.h"

#define LOOKUP(S, T)                                                                         \
    static int lookup_##S(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {  \
        const uint8_t *x = (const uint8_t *)RLX_PTR(t, f, 0);                                \
        const T *table = (const T *)RLX_PTR(t, f, 1);                                        \
        T *y = (T *)RLX_PTR(t, f, 2);                                                        \
        int64_t i = lo;                                                                      \
        for (; i + 8 <= hi; i += 8) {                                                        \
            uint64_t v;                                                                      \
            T r[8];                                                                          \
            memcpy(&v, x + i, 8);                                                            \
            for (int k = 0; k < 8; k++) r[k] = table[v >> 8 * k & 255];                      \
            memcpy(y + i, r, sizeof r);                                                      \
        }                                                                                    \
        for (; i < hi; i++) y[i] = table[x[i]];                                              \
        return RLX_OK;                                                                       \
    }
LOOKUP(b1, uint8_t)
LOOKUP(b4, uint32_t)

const rlx_kernel_row rlx_rows_lookup[] = {
    {"lookup.b1", lookup_b1, "", 0},
    {"lookup.b4", lookup_b4, "", 0},
    {NULL, NULL, NULL, 0},
};
