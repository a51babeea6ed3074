/* Recurrent nets: lstm, gru, rnn (f32, f64) with ONNX semantics.
 *
 * Three steps, each a thunk of its own:
 *   rnn_pack      once, at compile time: W, R, peepholes into panels
 *   rnn_pack_bias once: input and recurrent biases into panels
 *   rnn_project   all time steps at once: Z = X W^T + b, a GEMM
 *   lstm/gru/rnn  the recurrence: per step z = Z[t] + h R^T, then gate math
 *
 * Panel: UB hidden units (16 in f32, 8 in f64, at every ISA level) with all G
 * gates side by side, k outermost: [P][K][G][UB], P = ceil(H / UB), padded
 * units are zero. A step multiplies one broadcast h[k] with G*UB columns that
 * lie in a row, so one pass over the panel leaves every gate of the same units
 * in registers and the gate math runs on whole vectors. Rows of the batch share
 * the loads of a panel, MR at a time. Each output is one chain of
 * multiply-adds over k from the projected value on: the bits of a row do not
 * depend on the rows beside it. At one row eight chains (panels times gates)
 * side by side hide their latency.
 *
 * Packed gate order: lstm i f g o, gru z r h, rnn h.
 *
 * rnn_pack.T       args  src, dst
 *   attrs dirs gates hidden depth row dir apart order:*
 *   src(d, g, u, k) = src[d*dir + (g*hidden + u)*row + k]; packed gate j takes
 *   source gate order[j] (ONNX lstm iofc: 0 2 3 1; torch ifgo: 0 1 2 3; ONNX
 *   gru zrh: 0 1 2; torch rzn: 1 0 2; rnn: 0). dst [dirs][P][depth][gates][UB].
 *   Peepholes: gates 3, depth 1, row 1, ONNX order iof: 0 2 1.
 *   apart (R of a gru without linear_before_reset): the last gate of a panel lies by itself behind the
 *   others, [K][gates - 1][UB] [K][UB], as it is read by itself.
 *   extent dirs*P.
 * rnn_pack_bias.T  args  wb?, rb?, dst, dst_h?
 *   attrs dirs gates hidden dir order:*     (dir: stride of a direction in wb, rb)
 *   dst [dirs][P][gates][UB] = wb + rb; with dst_h [dirs][P][UB] (gru with
 *   linear_before_reset) the last packed gate's rb goes there instead.
 *   extent dirs*P.
 * rnn_project.T    args  X, W packed, bias packed?, Z
 *   attrs dirs seq batch inputs hidden gates x_t x_b
 *   X(t, b, k) = X[t*x_t + b*x_b + k]; Z [dirs][seq][batch][P][gates][UB].
 *   extent dirs*ceil(seq*batch/96)*P: blocks of rows, panels innermost.
 * lstm.T           args  Z, R packed, peepholes packed?, lens i32?, h0?, c0?,
 *                        Y?, Y_h?, Y_c?, ws
 * gru.T            args  Z, R packed, rb_h packed?, lens i32?, h0?, Y?, Y_h?, ws
 * rnn.T            args  Z, R packed, lens i32?, h0?, Y?, Y_h?, ws
 *   attrs dirs seq batch hidden reverse block flag y_t y_d y_b h_d h_b s_d s_b
 *         clip:f acts:* alpha:* beta:*
 *   reverse: 0 forward, 1 reverse, 2 both (direction 1 is the reversed one).
 *   block: rows of the batch per work item (24 is good; the bits do not depend
 *   on it). flag: lstm input_forget, gru linear_before_reset.
 *   Y(t, d, b, u) = Y[t*y_t + d*y_d + b*y_b + u]; h0, c0 by h_d h_b; Y_h, Y_c by
 *   s_d s_b (in elements). lens: steps of each row; Y beyond is zero, the state
 *   stays; a length outside [0, seq] is RLX_ERR_INDEX. clip <= 0: none.
 *   acts: per direction lstm f g h, gru f g, rnn f, coded as in rlx_act below;
 *   alpha, beta: one for each act.
 *   ws: dirs*batch blocks of 3 (lstm), 4 (gru), 2 (rnn) times P*UB values.
 *   Y_h may be the memory of h0 and Y_c that of c0 (same strides).
 *   In one phase extent dirs*ceil(batch/block); or seq + 2 phases (states in, the
 *   steps, states out) of P times as many items, panels innermost: then threads
 *   share a step, and each keeps its part of R in its own second cache. A step of
 *   a gru without linear_before_reset is two phases: gates, candidates.
 *
 * Measured (Xeon, AVX-512, one thread, time of ONNX Runtime's node / ours): LSTM
 * T = 1, I = H = 128 2.6, T = 100, 256 1.24, T = 20, 8 rows, 128 -> 256 1.17; GRU
 * T = 100, 256 1.3; RNN 2.5. One row is bound by reading R from L2 once a step,
 * several rows by products at the FMA peak. Tried: pieces of a panel of 8 to 32 KB
 * for several rows: within 4 %. */
#include "abi.h"
#include "rnn_gates.h"
#include "rnn.h"

#define T float
#define V vf
#define VN VF
#define UB 16
#define N(name) name##_f32
#define V_(name) vf_##name
#include "../include/rnn.inc"
#undef T
#undef V
#undef VN
#undef UB
#undef N
#undef V_

#define T double
#define V vd
#define VN VD
#define UB 8
#define N(name) name##_f64
#define V_(name) vd_##name
#include "../include/rnn.inc"

#define PACK "dirs gates hidden depth row dir apart order:*"
#define BIAS "dirs gates hidden dir order:*"
#define PROJECT "dirs seq batch inputs hidden gates x_t x_b"

const rlx_kernel_row rlx_rows_rnn[] = {
    {"rnn_pack.f32", pack_f32, PACK, 0},
    {"rnn_pack.f64", pack_f64, PACK, 0},
    {"rnn_pack_bias.f32", pack_bias_f32, BIAS, 0},
    {"rnn_pack_bias.f64", pack_bias_f64, BIAS, 0},
    {"rnn_project.f32", project_f32, PROJECT, 0},
    {"rnn_project.f64", project_f64, PROJECT, 0},
    {"lstm.f32", lstm_f32, RLX_RECURRENT, 0},
    {"lstm.f64", lstm_f64, RLX_RECURRENT, 0},
    {"gru.f32", gru_f32, RLX_RECURRENT, 0},
    {"gru.f64", gru_f64, RLX_RECURRENT, 0},
    {"rnn.f32", rnn_f32, RLX_RECURRENT, 0},
    {"rnn.f64", rnn_f64, RLX_RECURRENT, 0},
    {NULL, NULL, NULL, 0},
};
