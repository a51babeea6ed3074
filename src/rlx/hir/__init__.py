"""Blocks of models: layers that declare their parameters and emit the ops of the table.

A block is a function of a `Builder`, values and sizes; it emits fused ops (`ops.attention`, `ops.layer_norm`, ...) or,
with ``Builder(graph, fused=False)``, primitives, which the passes fuse again where they can.
"""

from rlx.hir.attention import Rope, attention
from rlx.hir.builder import Builder, ParamSpec
from rlx.hir.conv import conv_block
from rlx.hir.dense import (
    activate,
    embedding,
    gated_mlp,
    geglu,
    layer_norm,
    linear,
    mlp,
    residual,
    rms_norm,
    swiglu,
)
from rlx.hir.recurrent import gru, lstm
from rlx.hir.transformer import decoder_layer, encoder_layer

__all__ = [
    "Builder",
    "ParamSpec",
    "Rope",
    "activate",
    "attention",
    "conv_block",
    "decoder_layer",
    "embedding",
    "encoder_layer",
    "gated_mlp",
    "geglu",
    "gru",
    "layer_norm",
    "linear",
    "lstm",
    "mlp",
    "residual",
    "rms_norm",
    "swiglu",
]
