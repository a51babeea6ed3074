/* probe: what this processor can do at most, for the roofline of a report.
 *
 * probe.fma.f32  args: terms f32[16], out f32[64], done f64[1];  extent: rounds
 * probe.fma.f64  args: terms f64[8], out f64[64], done f64[1];  extent: rounds
 * probe.dot.i8   args: terms i8[128], out i32[64], done f64[1];  extent: rounds
 *   Multiply-adds of registers alone; `done` grows by the operations made (a
 *   multiply-add is two). Twelve chains hide a latency of four cycles on two
 *   ports, and fit sixteen registers.
 * probe.read     args: x, out u64[8];  attrs: bytes;  extent: passes
 *   Reads x (a multiple of 512 bytes) with full registers, as a matrix-vector
 *   product does, and combines what it read.
 *
 * The results are stored, so that nothing can be left out.
 */
#include "int8.h"
#include "vec.h"

enum { RLX_CHAINS = 12, RLX_INNER = 64 };

#define PROBE(NAME, T, VEC, LANES)                                                      \
    static int NAME(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {   \
        const T *terms = (const T *)RLX_PTR(t, f, 0);                                   \
        T *out = (T *)RLX_PTR(t, f, 1);                                                 \
        double *done = (double *)RLX_PTR(t, f, 2);                                      \
        VEC acc[RLX_CHAINS], a = {0}, b = {0}, sum = {0};                               \
        for (int i = 0; i < (LANES); i++)                                               \
            a[i] = terms[0], b[i] = terms[1];                                           \
        for (int i = 0; i < RLX_CHAINS; i++)                                            \
            acc[i] = b + (T)i;                                                          \
        for (int64_t round = lo; round < hi; round++)                                   \
            for (int inner = 0; inner < RLX_INNER; inner++)                             \
                _Pragma("GCC unroll 12") for (int i = 0; i < RLX_CHAINS; i++)           \
                    acc[i] = acc[i] * a + b;                                            \
        for (int i = 0; i < RLX_CHAINS; i++)                                            \
            sum += acc[i];                                                              \
        memcpy(out, &sum, sizeof sum);                                                  \
        *done += (double)(hi - lo) * RLX_INNER * RLX_CHAINS * (LANES)*2;                \
        return RLX_OK;                                                                  \
    }

typedef float probe_vf __attribute__((vector_size(RLX_VEC_BYTES)));
PROBE(probe_fma_f32, float, probe_vf, RLX_VEC_BYTES / 4)
PROBE(probe_fma_f64, double, rlx_vd, RLX_VD)

static int probe_dot_i8(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const int8_t *terms = (const int8_t *)RLX_PTR(t, f, 0);
    int32_t *out = (int32_t *)RLX_PTR(t, f, 1);
    double *done = (double *)RLX_PTR(t, f, 2);
    rlx_vi32 acc[RLX_CHAINS], a = RLX_INT8_LOAD(terms), b = RLX_INT8_LOAD(terms + 64), sum = {0};
    for (int i = 0; i < RLX_CHAINS; i++)
        acc[i] = sum + i;
    for (int64_t round = lo; round < hi; round++)
        for (int inner = 0; inner < RLX_INNER; inner++) {
            _Pragma("GCC unroll 12") for (int i = 0; i < RLX_CHAINS; i++)
                acc[i] = RLX_INT8_DOT(acc[i], a, b);
            __asm__ volatile("" : "+x"(a)); /* else the products are formed once */
        }
    for (int i = 0; i < RLX_CHAINS; i++)
        sum += acc[i];
    memcpy(out, &sum, sizeof sum);
    *done += (double)(hi - lo) * RLX_INNER * RLX_CHAINS * (double)(sizeof sum / 4) * RLX_KG * 2;
    return RLX_OK;
}

typedef uint64_t probe_vu __attribute__((vector_size(RLX_VEC_BYTES)));

static int probe_read(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) {
    const char *x = RLX_PTR(t, f, 0);
    const int64_t bytes = t->attrs[0] / 512 * 512;
    probe_vu seen[8] = {{0}};
    for (int64_t pass = lo; pass < hi; pass++)
        for (int64_t at = 0; at < bytes; at += 8 * RLX_VEC_BYTES) {
            _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
                probe_vu v;
                memcpy(&v, x + at + i * RLX_VEC_BYTES, sizeof v);
                seen[i] ^= v;
            }
            __asm__ volatile("" ::: "memory"); /* two passes are not none */
        }
    for (int i = 1; i < 8; i++)
        seen[0] ^= seen[i];
    memcpy(RLX_PTR(t, f, 1), &seen[0], sizeof seen[0]);
    return RLX_OK;
}

const rlx_kernel_row rlx_rows_probe[] = {
    {"probe.fma.f32", probe_fma_f32, "", 0},
    {"probe.fma.f64", probe_fma_f64, "", 0},
    {"probe.dot.i8", probe_dot_i8, "", 0},
    {"probe.read", probe_read, "bytes", 0},
    {NULL, NULL, NULL, 0},
};
