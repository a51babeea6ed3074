/* What the recurrent families share. */
#ifndef RLX_RNN_H
#define RLX_RNN_H

#include <stdint.h>

enum rlx_act {
    ACT_SIGMOID, ACT_TANH, ACT_RELU, ACT_AFFINE, ACT_LEAKY_RELU, ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH, ACT_HARD_SIGMOID, ACT_ELU, ACT_SOFTSIGN, ACT_SOFTPLUS
};

enum { RLX_RNN_ROWS = 96 }; /* that are projected together; pointers on the stack */

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Attributes of a recurrence; see rnn.c. */
#define RLX_RECURRENT                                                              \
    "dirs seq batch hidden reverse block flag y_t y_d y_b h_d h_b s_d s_b clip:f " \
    "acts:* alpha:* beta:*"

#endif
