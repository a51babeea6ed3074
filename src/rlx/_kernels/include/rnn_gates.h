/* Activations of gates: in f32 the functions of vmathf.h, in f64 those of lanes.h. */
#ifndef RLX_RNN_GATES_H
#define RLX_RNN_GATES_H

#include "lanes.h"
#include "vmathf.h"

RLX_INLINE vf vf_gate_sigmoid(vf x) { return (vf)rlx_vsigmoid_f32((rlx_v32)x); }
RLX_INLINE vf vf_gate_tanh(vf x) { return (vf)rlx_vtanh_f32((rlx_v32)x); }
RLX_INLINE vd vd_gate_sigmoid(vd x) { return vd_sigmoid(x); }
RLX_INLINE vd vd_gate_tanh(vd x) { return vd_tanh(x); }

#endif
