/* Names of the templates over T (element), S (suffix), V/VU (vector, unaligned
 * vector) and W (lanes). Weights of a product may be stored in another type:
 * TB, of which LOADB makes a V and TRANSPOSE_B a transposed copy; COPY_PART: n < W elements to W, zero-padded. */
#ifndef TB
#define TB T
#define LOADB LOAD
#define TRANSPOSE_B NAME(rlx_transpose)
#define COPY_PART(dst, src, n) (*(VU *)(dst) = NAME(rlx_load_part)(src, n))
#endif
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x##_, S)
#define LOAD(p) ((V) * (const VU *)(p))
#define UNROLL _Pragma("GCC unroll 16")
