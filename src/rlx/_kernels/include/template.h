/* Names of the templates over T (element), S (suffix), V/VU (vector, unaligned
 * vector) and W (lanes). */
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x##_, S)
#define LOAD(p) ((V) * (const VU *)(p))
#define UNROLL _Pragma("GCC unroll 16")
