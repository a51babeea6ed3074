/* Fourier transforms along the last axis, any length: fft, rfft, irfft, stft.
 *
 * fft.c64/.c128    args x, plan, y, ws
 *   attrs rows have x_s y_s inverse group ws scale:f plan:*
 *   y[row] = scale * sum_i x[row][i] exp(-+ 2 pi i k/n), n from the plan (minus:
 *   forward). Row r of x starts at complex r*x_s, of y at r*y_s.
 * rfft.f32/.f64    args x real, plan, y complex [rows][n/2 + 1], ws; same attrs
 *   (inverse unused); x_s in reals, y_s in complex numbers.
 * irfft.f32/.f64   args x complex, plan, y real [rows][n], ws; same attrs; x_s in
 *   complex numbers, y_s in reals; the imaginary parts of bin 0 and, n even,
 *   n/2 are not read, as numpy. scale as given (numpy "backward": 1/n).
 *   have: elements of a row of x that exist; the rest up to n (rfft, fft) or
 *   n/2 + 1 (irfft) counts as zero, elements beyond are not read.
 * stft.f32/.f64    args signal, window?, plan, y complex, ws
 *   attrs batch frames hop x_b onesided group ws scale:f plan:*
 *   frame (b, t) = signal[b*x_b + t*hop ...][n] * window[n];
 *   y [batch][frames][n/2 + 1 or n].
 *   extent ceil(rows/group), stft: rows = batch*frames.
 * plan: a constant operand and the list `plan`, both from rlx.ops._fft_plan, as are
 * group and the size of ws (per thread; `ws` is the stride in bytes). Nothing is
 * computed or allocated per run.
 *
 * Method. Stockham's self-sorting passes of radix 4, 2, 3, 5 or a prime up to 31
 * over separate real and imaginary planes [n][L]: L transforms side by side.
 * Two uses of the same passes:
 *   lanes   a vector of rows at once: rows are transposed into planes, every
 *           pass is vertical, twiddles are broadcasts, rows are transposed back;
 *           for short transforms (fft_ways.h): passes write as much as they read,
 *           and beyond L1 the writes decide;
 *   single  one row at a time: n = n1 n2 by four steps: n1-point passes over
 *           L = n2 columns, times twiddles and transposed, n2-point passes over
 *           L = n1; beyond L1 a few columns at a time.
 * Other lengths go by Bluestein with a power of two. Real transforms of even n
 * are complex ones of n/2 and one more pass. The inverse exchanges the planes.
 * Which of the ways is taken depends on the shape alone.
 *
 * Measured (Xeon AVX-512, one thread, per row, this / numpy): c64 n = 512
 * 0.7 us / 6.5 us, n = 1024 1.2 / 15; rfft f32 n = 512 1.2 / 1.4, n = 2048
 * 3.0 / 8.3; c128 n = 1024 4.8 / 5.1, n = 4096 34 / 23 (out of L1); stft f32
 * n = 400, 1000 frames 0.4 ms, ONNX Runtime 43 ms. */
#include "abi.h"
#include "fft_ways.h"
#include "lanes.h"

/* The lanes in the opposite order. */
#if VF == 16
RLX_INLINE vf vf_reverse(vf v) {
    return __builtin_shuffle(v, (vi){15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
}
RLX_INLINE vd vd_reverse(vd v) { return __builtin_shuffle(v, (vl){7, 6, 5, 4, 3, 2, 1, 0}); }
#elif VF == 8
RLX_INLINE vf vf_reverse(vf v) { return __builtin_shuffle(v, (vi){7, 6, 5, 4, 3, 2, 1, 0}); }
RLX_INLINE vd vd_reverse(vd v) { return __builtin_shuffle(v, (vl){3, 2, 1, 0}); }
#else
RLX_INLINE vf vf_reverse(vf v) { return __builtin_shuffle(v, (vi){3, 2, 1, 0}); }
RLX_INLINE vd vd_reverse(vd v) { return __builtin_shuffle(v, (vl){1, 0}); }
#endif

enum { GROUP = 16, MAX_RADIX = 31, BLOCKED_FROM = 90000, PLANE_GAP = 144 };

#define T float
#define V vf
#define VN VF
#define N(name) name##_f32
#define V_(name) vf_##name
#include "../include/fft.inc"
#undef T
#undef V
#undef VN
#undef N
#undef V_

#define T double
#define V vd
#define VN VD
#define N(name) name##_f64
#define V_(name) vd_##name
#include "../include/fft.inc"

#define ROWS "rows have x_s y_s inverse group ws scale:f plan:*"
#define STFT "batch frames hop x_b onesided group ws scale:f plan:*"

const rlx_kernel_row rlx_rows_fft[] = {
    {"fft.c64", fft_f32, ROWS, 0},     {"fft.c128", fft_f64, ROWS, 0},
    {"rfft.f32", rfft_f32, ROWS, 0},   {"rfft.f64", rfft_f64, ROWS, 0},
    {"irfft.f32", irfft_f32, ROWS, 0}, {"irfft.f64", irfft_f64, ROWS, 0},
    {"stft.f32", stft_f32, STFT, 0},   {"stft.f64", stft_f64, STFT, 0},
    {NULL, NULL, NULL, 0},
};
