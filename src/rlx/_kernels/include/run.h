/* Walking over rows of an array: indices of rows, copies of runs. */
#ifndef RLX_RUN_H
#define RLX_RUN_H

#include <stdint.h>
#include <string.h>

#define MAX_RANK 32

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Split a flat row number into one index per axis of shape[0..n). */
static inline void unravel(int64_t row, const int64_t *shape, int n, int64_t *index) {
    for (int d = n - 1; d >= 0; d--) {
        index[d] = row % shape[d];
        row /= shape[d];
    }
}

/* Advance an index by one row. */
static inline void advance(const int64_t *shape, int n, int64_t *index) {
    for (int d = n - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return;
        index[d] = 0;
    }
}

/* A short run: whole vectors, the last one overlapping. */
static inline void copy_run(char *restrict d, const char *restrict s, int64_t n) {
    if (n >= 16 && n <= 256) {
        typedef char v16 __attribute__((vector_size(16), aligned(1)));
        for (int64_t i = 0; i + 16 < n; i += 16)
            *(v16 *)(d + i) = *(const v16 *)(s + i);
        *(v16 *)(d + n - 16) = *(const v16 *)(s + n - 16);
    } else {
        memcpy(d, s, (size_t)n);
    }
}

#endif
