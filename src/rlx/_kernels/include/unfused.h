/* Included first: in this file a product is rounded before it is added, never fused into the sum.
 *
 * Neither half is enough with GCC 12: it contracts what a barrier kept apart once a loop is vectorised, and
 * with contraction off its vectoriser still makes fmaddsub of a sum beside a difference of products.
 * RLX_ROUNDED stands at the products of such pairs. */
#ifndef RLX_UNFUSED_H
#define RLX_UNFUSED_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define RLX_ROUNDED(x) __builtin_assoc_barrier(x)
#elif __has_builtin(__arithmetic_fence)
#define RLX_ROUNDED(x) __arithmetic_fence(x)
#endif
#endif
#if !defined(RLX_ROUNDED)
#error "the compiler offers no way to keep a product from being fused"
#endif

#endif
