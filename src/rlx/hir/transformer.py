"""Transformer layers: encoder (post- and pre-norm), decoder as in Llama."""

from typing import Any

from rlx.hir.attention import Rope, attention
from rlx.hir.builder import Activation, Builder
from rlx.hir.dense import gated_mlp, layer_norm, linear, rms_norm
from rlx.ir.graph import Value

LLAMA_ROPE = Rope()


def encoder_layer(b: Builder, x: Value, num_heads: int, hidden: int, *, mask: Any = None, causal: bool = False,
                  norm_first: bool = False, activation: Activation = "gelu", packed: bool = True, eps: float = 1e-5,
                  name: str | None = None) -> Value:
    """Self attention and a feed-forward block, each with a residual and a layer norm.

    Names of parameters are those of torch.nn.TransformerEncoderLayer: `self_attn`, `linear1`, `linear2`, `norm1`,
    `norm2`.

    Parameters
    ----------
    b : Builder
    x : Value
        [B, S, in]; the result has the same type.
    num_heads : int
    hidden : int
        Width of the feed-forward block.
    mask, causal
        As for `attention`.
    norm_first : bool
        Norm before each block (pre-norm) instead of after each residual (post-norm, as in BERT).
    activation : str, callable or None
    packed : bool
        As for `attention`.
    eps : float
        Of the norms.
    name : str, optional
    """
    with b.scope(name):
        n = b.width("encoder_layer", x)

        def attend(y: Value) -> Value:
            return attention(b, y, num_heads, mask=mask, causal=causal, packed=packed, name="self_attn")

        def feed(y: Value) -> Value:
            return linear(b, linear(b, y, hidden, activation=activation, name="linear1"), n, name="linear2")

        if norm_first:
            x = x + attend(layer_norm(b, x, eps=eps, name="norm1"))
            return x + feed(layer_norm(b, x, eps=eps, name="norm2"))
        x = layer_norm(b, x + attend(x), eps=eps, name="norm1")
        return layer_norm(b, x + feed(x), eps=eps, name="norm2")


def decoder_layer(b: Builder, x: Value, num_heads: int, hidden: int, *, num_kv_heads: int | None = None,
                  head_dim: int | None = None, mask: Any = None, causal: bool = True, rope: Rope | None = LLAMA_ROPE,
                  positions: Any = None, activation: Activation = "silu", eps: float = 1e-6,
                  name: str | None = None) -> Value:
    """Pre-norm decoder layer as in Llama: rms norms, rotary positions, grouped heads, a gated feed-forward block.

    Names of parameters are those of Hugging Face's Llama: `input_layernorm`, `self_attn`, `post_attention_layernorm`,
    `mlp`.

    Parameters
    ----------
    b : Builder
    x : Value
        [B, S, in]; the result has the same type.
    num_heads : int
    hidden : int
        Width of the gated block.
    num_kv_heads, head_dim, mask, causal, rope, positions
        As for `attention`.
    activation : str, callable or None
        Of the gate.
    eps : float
        Of the norms.
    name : str, optional
    """
    with b.scope(name):
        y = attention(b, rms_norm(b, x, eps=eps, name="input_layernorm"), num_heads, num_kv_heads=num_kv_heads,
                      head_dim=head_dim, mask=mask, causal=causal, rope=rope, positions=positions, bias=False,
                      name="self_attn")
        x = x + y
        normed = rms_norm(b, x, eps=eps, name="post_attention_layernorm")
        return x + gated_mlp(b, normed, hidden, activation=activation, name="mlp")
