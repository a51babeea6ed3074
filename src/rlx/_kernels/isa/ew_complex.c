/* Elementwise complex arithmetic and functions; c64 is two f32, c128 two f64.
 *
 * c64 computes in double and rounds once: products are exact and nothing
 * overflows on the way. c128 uses the plain product and Smith's division, as
 * numpy does. Nothing is contracted to fused multiply-add: with it z conj(z)
 * and z / z would have an imaginary part. Integer exponents up to 100 multiply. */
#include "unfused.h"

#include "ew.h"

#include <complex.h>
#include <math.h>

typedef struct {
    double re, im;
} pair;

RLX_INLINE pair pair_of(double complex z) { return (pair){creal(z), cimag(z)}; }
RLX_INLINE double complex complex_of(pair z) { return CMPLX(z.re, z.im); }

RLX_INLINE pair z_mul(pair a, pair b) {
    double aa = RLX_ROUNDED(a.re * b.re), bb = RLX_ROUNDED(a.im * b.im);
    double ab = RLX_ROUNDED(a.re * b.im), ba = RLX_ROUNDED(a.im * b.re);
    return (pair){aa - bb, ab + ba};
}
RLX_INLINE pair z_div(pair a, pair b) {
    double abs_re = __builtin_fabs(b.re), abs_im = __builtin_fabs(b.im);
    if (abs_re >= abs_im) {
        if (abs_re == 0 && abs_im == 0)
            return (pair){a.re / abs_re, a.im / abs_re};
        double ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
        double re = RLX_ROUNDED(a.im * ratio), im = RLX_ROUNDED(a.re * ratio);
        return (pair){(a.re + re) * scale, (a.im - im) * scale};
    }
    double ratio = b.re / b.im, scale = 1 / (b.im + b.re * ratio);
    double re = RLX_ROUNDED(a.re * ratio), im = RLX_ROUNDED(a.im * ratio);
    return (pair){(re + a.im) * scale, (im - a.re) * scale};
}

static pair z_pow(pair a, pair b) {
    if (b.re == 0 && b.im == 0)
        return (pair){1, 0};
    if (a.re == 0 && a.im == 0) {
        double r = b.re > 0 ? 0 : __builtin_nan("");
        return (pair){r, r};
    }
    if (b.im == 0 && b.re == __builtin_floor(b.re) && __builtin_fabs(b.re) <= 100) {
        int e = (int)__builtin_fabs(b.re);
        pair r = {1, 0};
        for (; e; e >>= 1) {
            if (e & 1)
                r = r.re == 1 && r.im == 0 ? a : z_mul(r, a);
            if (e > 1)
                a = z_mul(a, a);
        }
        return b.re < 0 ? z_div((pair){1, 0}, r) : r;
    }
    return pair_of(cpow(complex_of(a), complex_of(b)));
}

RLX_INLINE pair z_conj(pair a) { return (pair){a.re, -a.im}; }
RLX_INLINE pair z_recip(pair a) { return z_div((pair){1, 0}, a); }
RLX_INLINE pair z_exp(pair a) { return pair_of(cexp(complex_of(a))); }
RLX_INLINE pair z_log(pair a) { return pair_of(clog(complex_of(a))); }
RLX_INLINE pair z_sqrt(pair a) { return pair_of(csqrt(complex_of(a))); }
RLX_INLINE pair z_sin(pair a) { return pair_of(csin(complex_of(a))); }
RLX_INLINE pair z_cos(pair a) { return pair_of(ccos(complex_of(a))); }
RLX_INLINE pair z_tanh(pair a) { return pair_of(ctanh(complex_of(a))); }

#define BINARY(op, name, T)                                                               \
    static int op##_##name(RLX_EW_ARGS) {                                                 \
        const T *a = a_, *b = b_;                                                         \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            pair r = z_##op((pair){a[2 * i], a[2 * i + 1]}, (pair){b[2 * i], b[2 * i + 1]}); \
            d[2 * i] = (T)r.re;                                                           \
            d[2 * i + 1] = (T)r.im;                                                       \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
#define UNARY(op, name, T)                                                                \
    static int op##_##name(RLX_EW_ARGS) {                                                 \
        const T *a = a_;                                                                  \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            pair r = z_##op((pair){a[2 * i], a[2 * i + 1]});                              \
            d[2 * i] = (T)r.re;                                                           \
            d[2 * i + 1] = (T)r.im;                                                       \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
#define TO_REAL(op, name, T, ...)                                                         \
    static int op##_##name(RLX_EW_ARGS) {                                                 \
        const T *a = a_;                                                                  \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            T re = a[2 * i], im = a[2 * i + 1];                                           \
            (void)re, (void)im;                                                           \
            d[i] = __VA_ARGS__;                                                           \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }

/* Two products a register: (re re, re im) -+ (im im, im re); addsub is not fused. */
#if defined(__AVX2__)
RLX_INLINE __m256d load_c64(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
RLX_INLINE __m256d load_c128(const double *p) { return _mm256_loadu_pd(p); }
RLX_INLINE void store_c64(float *p, __m256d v) { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }
RLX_INLINE void store_c128(double *p, __m256d v) { _mm256_storeu_pd(p, v); }
#define PAIRS_OF_PRODUCTS(name)                                                           \
    for (; i + 2 <= n; i += 2) {                                                          \
        __m256d x = load_##name(a + 2 * i), y = load_##name(b + 2 * i);                   \
        __m256d re = _mm256_mul_pd(_mm256_movedup_pd(x), y);                              \
        __m256d im = _mm256_mul_pd(_mm256_permute_pd(x, 15), _mm256_permute_pd(y, 5));    \
        store_##name(d + 2 * i, _mm256_addsub_pd(re, im));                                \
    }
#else
#define PAIRS_OF_PRODUCTS(name)
#endif
#define PRODUCT(name, T)                                                                  \
    static int mul_##name(RLX_EW_ARGS) {                                                  \
        const T *a = a_, *b = b_;                                                         \
        T *d = dst;                                                                       \
        int64_t i = 0;                                                                    \
        PAIRS_OF_PRODUCTS(name)                                                           \
        for (; i < n; i++) {                                                              \
            pair r = z_mul((pair){a[2 * i], a[2 * i + 1]}, (pair){b[2 * i], b[2 * i + 1]}); \
            d[2 * i] = (T)r.re;                                                           \
            d[2 * i + 1] = (T)r.im;                                                       \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }                                                                                     \
    static int square_##name(RLX_EW_ARGS) {                                               \
        return mul_##name(dst, a_, a_, NULL, n, p, err);                                  \
    }

RLX_INLINE float hypot_c64(float re, float im) {
    double x = (double)re, y = (double)im, r = __builtin_sqrt(x * x + y * y);
    return (float)(__builtin_isinf(re) || __builtin_isinf(im) ? __builtin_inf() : r);
}

#define FUNCTIONS(name, T)                                                                \
    PRODUCT(name, T)                                                                      \
    BINARY(div, name, T)                                                                  \
    BINARY(pow, name, T)                                                                  \
    UNARY(conj, name, T)                                                                  \
    UNARY(recip, name, T)                                                                 \
    UNARY(exp, name, T)                                                                   \
    UNARY(log, name, T)                                                                   \
    UNARY(sqrt, name, T)                                                                  \
    UNARY(sin, name, T)                                                                   \
    UNARY(cos, name, T)                                                                   \
    UNARY(tanh, name, T)                                                                  \
    TO_REAL(real, name, T, re)                                                            \
    TO_REAL(imag, name, T, im)                                                            \
    static int make_complex_##name(RLX_EW_ARGS) {                                         \
        const T *a = a_, *b = b_;                                                         \
        T *d = dst;                                                                       \
        RLX_IVDEP for (int64_t i = 0; i < n; i++) {                                       \
            d[2 * i] = a[i];                                                              \
            d[2 * i + 1] = b[i];                                                          \
        }                                                                                 \
        return RLX_OK;                                                                    \
    }
FUNCTIONS(c64, float)
FUNCTIONS(c128, double)
TO_REAL(abs, c64, float, hypot_c64(re, im))
TO_REAL(abs, c128, double, hypot(re, im))

/* add, sub and neg work on the parts */
#define PARTS(name, T)                                                                    \
    RLX_EW2(add_parts_##name, T, T, x + y)                                                \
    RLX_EW2(sub_parts_##name, T, T, x - y)                                                \
    RLX_EW1(neg_parts_##name, T, T, -x)                                                   \
    static int add_##name(RLX_EW_ARGS) {                                                  \
        return add_parts_##name(dst, a_, b_, NULL, 2 * n, p, err);                        \
    }                                                                                     \
    static int sub_##name(RLX_EW_ARGS) {                                                  \
        return sub_parts_##name(dst, a_, b_, NULL, 2 * n, p, err);                        \
    }                                                                                     \
    static int neg_##name(RLX_EW_ARGS) {                                                  \
        return neg_parts_##name(dst, a_, NULL, NULL, 2 * n, p, err);                      \
    }
PARTS(c64, float)
PARTS(c128, double)

#define ROWS(name, part)                                                                  \
    {"add." #name, add_##name, 2}, {"sub." #name, sub_##name, 2},                         \
        {"mul." #name, mul_##name, 2}, {"div." #name, div_##name, 2},                     \
        {"pow." #name, pow_##name, 2}, {"neg." #name, neg_##name, 1},                     \
        {"conj." #name, conj_##name, 1}, {"square." #name, square_##name, 1},             \
        {"recip." #name, recip_##name, 1}, {"exp." #name, exp_##name, 1},                 \
        {"log." #name, log_##name, 1}, {"sqrt." #name, sqrt_##name, 1},                   \
        {"sin." #name, sin_##name, 1}, {"cos." #name, cos_##name, 1},                     \
        {"tanh." #name, tanh_##name, 1}, {"abs." #name, abs_##name, 1},                   \
        {"real." #name, real_##name, 1}, {"imag." #name, imag_##name, 1},                 \
        {"make_complex." #part, make_complex_##name, 2},

const rlx_ew_row rlx_ews_ew_complex[] = {
    ROWS(c64, f32)
    ROWS(c128, f64)
    {NULL, NULL, 0},
};
