"""What the blocks of rlx.hir compute, written down in NumPy from their sources; `p` holds parameters by name."""

import math

import numpy as np


def sub(p, name):
    """Parameters below a prefix."""
    return {k[len(name) + 1 :]: v for k, v in p.items() if k.startswith(name + ".")}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def relu(x):
    return np.maximum(x, 0)


def linear(p, x):
    return x @ p["weight"] + p.get("bias", 0)


def layer_norm(p, x, eps=1e-5):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * p["weight"] + p.get("bias", 0)


def rms_norm(p, x, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * p["weight"]


def gated(p, x, act):
    return linear(sub(p, "down_proj"), act(linear(sub(p, "gate_proj"), x)) * linear(sub(p, "up_proj"), x))


def turned(x, positions, theta=10000.0, interleaved=False):
    """x [B, H, S, D]: each pair as a complex number times exp(i angle)."""
    d = x.shape[3]
    angle = positions[:, None, :, None] * theta ** (-np.arange(0, d, 2) / d)
    pair = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., : d // 2] + 1j * x[..., d // 2 :]
    z = pair * np.exp(1j * angle)
    if interleaved:
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], -1)


def attention(p, x, heads, kv=None, context=None, causal=False, mask=None, positions=None, interleaved=False):
    kv = kv or heads
    source = x if context is None else context
    if "in_proj_weight" in p:
        w, b = p["in_proj_weight"], p.get("in_proj_bias", np.zeros(p["in_proj_weight"].shape[1]))
        k_width = (w.shape[1] * kv) // (heads + 2 * kv)
        q_width = w.shape[1] - 2 * k_width
        cuts = [q_width, q_width + k_width]
        (wq, wk, wv), (bq, bk, bv) = np.split(w, cuts, 1), np.split(b, cuts)
        q, k, v = x @ wq + bq, source @ wk + bk, source @ wv + bv
    else:
        q, k, v = (linear(sub(p, f"{n}_proj"), s) for n, s in (("q", x), ("k", source), ("v", source)))
    q, k, v = (t.reshape(*t.shape[:2], n, -1).transpose(0, 2, 1, 3) for t, n in ((q, heads), (k, kv), (v, kv)))
    if positions is not None:
        q, k = (turned(t, positions, interleaved=interleaved) for t in (q, k))
    k, v = (np.repeat(t, heads // kv, 1) for t in (k, v))
    s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[3])
    if mask is not None and mask.dtype == bool:
        s = np.where(mask[:, None, None] if mask.ndim == 2 else mask, s, -np.inf)
    elif mask is not None:
        s = s + mask
    if causal:
        sq, sk = s.shape[2:]
        s = np.where(np.tril(np.ones((sq, sk), bool), sk - sq), s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    y = (e / np.where(total == 0, 1, total)) @ v
    y = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    return linear(sub(p, "out_proj" if "in_proj_weight" in p else "o_proj"), y)


def encoder_layer(p, x, heads, mask=None, causal=False, norm_first=False, act=gelu):
    def attend(y):
        return attention(sub(p, "self_attn"), y, heads, mask=mask, causal=causal)

    def feed(y):
        return linear(sub(p, "linear2"), act(linear(sub(p, "linear1"), y)))

    if norm_first:
        x = x + attend(layer_norm(sub(p, "norm1"), x))
        return x + feed(layer_norm(sub(p, "norm2"), x))
    x = layer_norm(sub(p, "norm1"), x + attend(x))
    return layer_norm(sub(p, "norm2"), x + feed(x))


def decoder_layer(p, x, heads, kv, positions, act=silu):
    y = rms_norm(sub(p, "input_layernorm"), x)
    x = x + attention(sub(p, "self_attn"), y, heads, kv, causal=True, positions=positions)
    return x + gated(sub(p, "mlp"), rms_norm(sub(p, "post_attention_layernorm"), x), act)


def recurrent(p, kind, x, hidden, layers=1, both=False, initial=None):
    """torch.nn.LSTM and GRU, batch first: equations of their pages."""
    directions = ("", "_reverse") if both else ("",)
    finals = []
    for layer in range(layers):
        ys = []
        for d, suffix in enumerate(directions):
            w, r = p[f"weight_ih_l{layer}{suffix}"], p[f"weight_hh_l{layer}{suffix}"]
            bw, br = (p.get(f"bias_{n}_l{layer}{suffix}", 0) for n in ("ih", "hh"))
            at = layer * len(directions) + d
            h, c = ([s[at] for s in initial] + [0])[:2] if initial is not None else (np.zeros((len(x), hidden)),) * 2
            y = np.zeros((*x.shape[:2], hidden), x.dtype)
            steps = range(x.shape[1])
            for t in reversed(steps) if suffix else steps:
                a, e = x[:, t] @ w.T + bw, h @ r.T + br
                if kind == "lstm":
                    i, f, g, o = np.split(a + e, 4, 1)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                else:
                    (ar, az, an), (er, ez, en) = np.split(a, 3, 1), np.split(e, 3, 1)
                    z = sigmoid(az + ez)
                    h = (1 - z) * np.tanh(an + sigmoid(ar + er) * en) + z * h
                y[:, t] = h
            ys.append(y)
            finals.append((h, c))
        x = np.concatenate(ys, 2)
    states = [np.stack(s) for s in zip(*finals, strict=True)]
    return [x, *states[: 2 if kind == "lstm" else 1]]


def conv_block(p, x, stride, pad, groups, act=relu, eps=1e-5):
    """Two-dimensional."""
    w = p["conv.weight"]
    out, per, kh, kw = w.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    win = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::stride, ::stride]
    firsts = [o * groups // out * per for o in range(out)]
    y = np.stack([np.einsum("bchwij,cij->bhw", win[:, c : c + per], w[o]) for o, c in enumerate(firsts)], 1)
    column = (-1, 1, 1)
    y = y + np.reshape(p.get("conv.bias", np.zeros(out)), column)
    if "norm.weight" in p:
        scale = p["norm.weight"] / np.sqrt(p["norm.running_var"] + eps)
        y = (y - p["norm.running_mean"].reshape(column)) * scale.reshape(column) + p["norm.bias"].reshape(column)
    return act(y)
