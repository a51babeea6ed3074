"""Scaled dot-product attention and rotary position embedding."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import FLOATS, DType, bool_
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.traced import sqrt
from rlx.ir.types import TensorType, broadcast
from rlx.ops._rules import Rng, data, require_dtype, require_rank, same_dtype

TOLERANCE = Tolerance(rtol={"f32": 1e-5, "f64": 1e-12, "f16": 4e-3, "bf16": 2e-2},
                      atol={"f32": 2e-5, "f64": 1e-12, "f16": 4e-3, "bf16": 4e-2})


def attend(q: Array, k: Array, v: Array, mask: Array | None, lens: Array | None, *, scale: float, softcap: float,
           causal: bool, past: int, window: int | None, empty: float, lens_past: bool) -> Array:
    """Attention of [B, H, S, D] arrays: numerics contract, section Attention."""
    (_, heads, sq, _), kv, sk = q.shape, k.shape[1], k.shape[2]
    chosen = np.arange(heads) * kv // heads
    s = np.einsum("bhid,bhjd->bhij", q, k[:, chosen]) * np.asarray(scale, q.dtype)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if mask is not None and mask.dtype != np.bool_:
        s = s + mask
    i, j = np.arange(sq)[:, None] + past, np.arange(sk)
    if lens_past and lens is not None:
        i = np.arange(sq)[:, None] + (lens - sq)[:, None, None, None]
    visible = np.ones(s.shape, np.bool_)
    if causal or window is not None:
        visible &= j <= i
    if window is not None:
        visible &= j >= i - window
    if mask is not None and mask.dtype == np.bool_:
        visible &= mask
    if lens is not None:
        visible &= (j < lens[:, None])[:, None, None]
    s = np.where(visible, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    p = np.where(total == 0, empty, p / np.where(total == 0, 1, total))
    return np.asarray(np.einsum("bhij,bhjd->bhid", p, v[:, chosen]))


def _heads(op: str, name: str, t: TensorType, count: int | None) -> tuple[Any, ...]:
    """(batch, heads, length, width) of an operand in either form."""
    require_rank(op, t, 3, 4, name)
    if t.rank == 4:
        return t.shape
    if count is None or count < 1:
        raise TypeRuleError(f"{op}: num_heads must be given for {name} of rank 3, got {count}")
    width = t.shape[2]
    if isinstance(width, int) and width % count:
        raise TypeRuleError(f"{op}: width of {name} must divide by {count} heads, got {t}")
    return (t.shape[0], count, t.shape[1], width // count)


def _infer_attention(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None,
                     lens: TensorType | None = None, *, num_heads: int | None, num_kv_heads: int | None,
                     scale: float | None, softcap: float, causal: bool, past: int | None,
                     window: int | None, lens_past: bool) -> tuple[TensorType, ...]:
    op = "attention"
    dtype = same_dtype(op, [q, k, v])
    require_dtype(op, dtype, FLOATS)
    kv_count = num_kv_heads if num_kv_heads is not None else num_heads
    b, heads, sq, d = _heads(op, "q", q, num_heads)
    b2, kv, sk, d2 = _heads(op, "k", k, kv_count)
    b3, kv2, sk2, dv = _heads(op, "v", v, kv_count)
    if not (b == b2 == b3 and kv == kv2 and sk == sk2 and d == d2):
        raise TypeRuleError(f"{op}: batch, lengths, heads and widths of q, k, v must agree, got {q}, {k} and {v}")
    if isinstance(heads, int) and isinstance(kv, int) and (kv == 0 or heads % kv):
        raise TypeRuleError(f"{op}: query heads must be a multiple of key heads, got {heads} and {kv}")
    if not 0 <= softcap < math.inf:
        raise TypeRuleError(f"{op}: softcap must be >= 0 and finite, got {softcap}")
    if scale is not None and not math.isfinite(scale):
        raise TypeRuleError(f"{op}: scale must be finite, got {scale}")
    if window is not None and window < 0:
        raise TypeRuleError(f"{op}: window must be >= 0, got {window}")
    if mask is not None:
        if mask.dtype not in (bool_, dtype):
            raise TypeRuleError(f"{op}: mask type must be bool or {dtype}, got {mask.dtype}")
        shape = mask.shape if not (mask.rank == 2 and mask.dtype == bool_) else (mask.shape[0], 1, 1, mask.shape[1])
        if broadcast([shape, (b, heads, sq, sk)], op) != (b, heads, sq, sk):
            raise TypeRuleError(f"{op}: mask must broadcast to {[b, heads, sq, sk]}, got {mask}")
    if lens_past and (lens is None or past is not None):
        raise TypeRuleError(f"{op}: lens_past must come with lens and without past, got lens {lens} and past {past}")
    if lens is not None and lens != TensorType(dtypes.i64, (b,)):
        raise TypeRuleError(f"{op}: lens must be i64[{b}], got {lens}")
    shape = (b, heads, sq, dv) if q.rank == 4 else (b, sq, heads * dv)
    return (q.with_shape(shape),)


def _split(x: Array, count: int | None) -> Array:
    if x.ndim == 4:
        return x
    assert count is not None
    return x.reshape(*x.shape[:2], count, x.shape[2] // count).transpose(0, 2, 1, 3)


def _attention(q: Array, k: Array, v: Array, mask: Array | None = None, lens: Array | None = None, *,
               num_heads: int | None, num_kv_heads: int | None, scale: float | None, softcap: float, causal: bool,
               past: int | None, window: int | None, lens_past: bool) -> Array:
    count = num_kv_heads if num_kv_heads is not None else num_heads
    q4, k4, v4 = _split(q, num_heads), _split(k, count), _split(v, count)
    if mask is not None and mask.dtype == np.bool_ and mask.ndim == 2:
        mask = mask[:, None, None]
    y = attend(q4, k4, v4, mask, lens, scale=q4.shape[3] ** -0.5 if scale is None else scale, softcap=softcap,
               causal=causal, past=k4.shape[2] - q4.shape[2] if past is None else past, window=window, empty=0.0,
               lens_past=lens_past)
    return y if q.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[1], -1)


def _attention_in_ops(q: Any, k: Any, v: Any, mask: Any = None, lens: Any = None, *, num_heads: int | None,
                      num_kv_heads: int | None, scale: float | None, softcap: float, causal: bool, past: int | None,
                      window: int | None, lens_past: bool) -> Any:
    from rlx import ops

    count = num_kv_heads if num_kv_heads is not None else num_heads
    b, heads, sq, d = _heads("attention", "q", q.type, num_heads)
    _, kv, sk, _ = _heads("attention", "k", k.type, count)
    dv = _heads("attention", "v", v.type, count)[3]

    def view(x: Any, n: int, s: int, w: int) -> tuple[int, ...]:
        return (0, n * s * w, s * w, w) if x.rank == 4 else (0, s * n * w, w, n * w)

    if mask is not None and mask.dtype == bool_ and mask.rank == 2:
        mask = ops.reshape(mask, shape=(mask.shape[0], 1, 1, mask.shape[1]))
    y = fused_attention(
        q,
        k,
        v,
        mask,
        lens,
        sizes=(b, heads, kv, sq, sk, d, dv),
        q_view=view(q, heads, sq, d),
        k_view=view(k, kv, sk, d),
        v_view=view(v, kv, sk, dv),
        tokens=q.rank == 3,
        scale=1 / sqrt(d) if scale is None else scale,
        softcap=softcap,
        causal=causal,
        past=sk - sq if past is None else past,
        window=window,
        empty=0.0,
        lens_past=lens_past,
    )
    return y if q.rank == 4 else ops.reshape(y, shape=(b, sq, heads * dv))


def _attention_samples(dtype: DType, rng: Rng) -> list[Sample]:
    def qkv(b: int, h: int, g: int, sq: int, sk: int, d: int, dv: int) -> tuple[Array, Array, Array]:
        return (data(rng, dtype, b, h, sq, d, low=-2, high=2), data(rng, dtype, b, g, sk, d, low=-2, high=2),
                data(rng, dtype, b, g, sk, dv))

    def flat(x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1))

    q, k, v = qkv(2, 4, 2, 7, 9, 16, 8)
    hidden = rng.random((2, 4, 7, 9)) < 0.6
    hidden[0, 0, 0] = False
    bias = data(rng, dtype, 4, 7, 9)
    low = np.where(rng.random((2, 1, 1, 9)) < 0.5, -np.inf, 0.0).astype(dtype.numpy)
    one = qkv(1, 2, 2, 1, 33, 8, 20)
    return [
        Sample((q, k, v)),
        Sample((q, k, v, hidden), {"scale": 0.3}),
        Sample((q, k, v, bias), {"softcap": 2.0}),
        Sample((q, k, v, low), {"causal": True}),
        Sample((q, k, v), {"causal": True, "past": -2, "window": 3}),
        Sample((flat(q), flat(k), flat(v), rng.random((2, 9)) < 0.5), {"num_heads": 4, "num_kv_heads": 2}),
        Sample((q, k, v, None, np.array([0, 5])), {"window": 2, "causal": True}),
        Sample((q, k, v, None, np.array([7, 8])), {"causal": True, "lens_past": True}),
        Sample((q[:, :, :1], k, v, None, np.array([1, 6])), {"causal": True, "lens_past": True, "window": 2}),
        Sample((flat(q), flat(q), flat(q), rng.random(7) < 0.7), {"num_heads": 4}),
        Sample(one, {"causal": True}),
        Sample((*one, rng.random((1, 1, 33)) < 0.5)),
        Sample(qkv(2, 1, 1, 40, 70, 33, 5), {}),
        Sample(qkv(0, 2, 2, 3, 3, 4, 4)),
        Sample(qkv(1, 2, 2, 3, 0, 4, 4)),
        Sample(qkv(1, 2, 2, 0, 3, 4, 4)),
    ]


def _attention_errors() -> list[ErrorSample]:
    q, k = np.zeros((1, 4, 3, 8), np.float32), np.zeros((1, 2, 5, 8), np.float32)
    return [
        ErrorSample((q, k, k[:, :, :4]), {}, "must agree"),
        ErrorSample((q, k[:, :, :, :4], k), {}, "must agree"),
        ErrorSample((q[:, :3], k, k), {}, "multiple of key heads"),
        ErrorSample((q[0], k, k), {}, "num_heads"),
        ErrorSample((q, k, k, np.zeros((2, 3, 4), np.float32)), {}, "broadcast"),
        ErrorSample((q, k, k, np.zeros(5, np.int32)), {}, "mask type"),
        ErrorSample((q, k, k, None, np.zeros(1, np.int32)), {}, "lens must"),
        ErrorSample((q, k, k), {"window": -1}, "window must"),
        ErrorSample((q, k, k), {"lens_past": True}, "lens_past must"),
        ErrorSample((q, k.astype(np.float64), k), {}, "types must match"),
    ]


attention = OpDef(
    "attention",
    ("q", "k", "v", "mask?", "lens?"),
    _infer_attention,
    _attention,
    "softmax(q k^T scale, masked) v of [B, H, S, D], or [B, S, H*D] with num_heads. mask: bool (true: visible; "
    "rank 2 is [B, K]) "
    "or an additive bias, broadcast to [B, H, Q, K]; lens: keys of each item. causal: key j is visible to "
    "query i iff j <= i + past (K - Q unless given; with lens_past lens - Q, the queries being the last of each "
    "item); window w: moreover j >= i + past - w. A row without a visible key is zero.",
    attrs=(
        Attr("num_heads", "int", None),
        Attr("num_kv_heads", "int", None),
        Attr("scale", "float", None),
        Attr("softcap", "float", 0.0),
        Attr("causal", "bool", False),
        Attr("past", "int", None),
        Attr("window", "int", None),
        Attr("lens_past", "bool", False),
    ),
    dtypes=FLOATS,
    decompose=_attention_in_ops,
    samples=_attention_samples,
    errors=_attention_errors,
    tolerance=TOLERANCE,
)


def _infer_fused(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType | None = None,
    lens: TensorType | None = None,
    *,
    sizes: Sequence[int],
    tokens: bool,
    **at: Any,
) -> tuple[TensorType, ...]:
    b, heads, _, sq, _, _, dv = sizes
    return (q.with_shape((b, sq, heads, dv) if tokens else (b, heads, sq, dv)),)


def _strided(x: Array, shape: tuple[int, ...], view: Sequence[int]) -> Array:
    flat = np.ascontiguousarray(x).reshape(-1)[view[0] :]
    return np.lib.stride_tricks.as_strided(flat, shape, [s * x.itemsize for s in (*view[1:], 1)])


def _fused(q: Array, k: Array, v: Array, mask: Array | None = None, lens: Array | None = None, *, sizes: Sequence[int],
           q_view: Sequence[int], k_view: Sequence[int], v_view: Sequence[int], tokens: bool, **at: Any) -> Array:
    b, heads, kv, sq, sk, d, dv = sizes
    y = attend(
        _strided(q, (b, heads, sq, d), q_view),
        _strided(k, (b, kv, sk, d), k_view),
        _strided(v, (b, kv, sk, dv), v_view),
        mask,
        lens,
        **at,
    )
    return y.transpose(0, 2, 1, 3) if tokens else y


fused_attention = OpDef(
    "fused_attention",
    ("q", "k", "v", "mask?", "lens?"),
    _infer_fused,
    _fused,
    "attention over strided views: (offset, strides of batch, head, position) in elements; result [B, H, Q, D] "
    "or, tokens, [B, Q, H, D].",
    attrs=(
        Attr("sizes", "ints"),
        Attr("q_view", "ints"),
        Attr("k_view", "ints"),
        Attr("v_view", "ints"),
        Attr("tokens", "bool"),
        Attr("scale", "float"),
        Attr("softcap", "float", 0.0),
        Attr("causal", "bool", False),
        Attr("past", "int", 0),
        Attr("window", "int", None),
        Attr("empty", "float", 0.0),
        Attr("lens_past", "bool", False),
    ),
    dtypes=FLOATS,
    tolerance=TOLERANCE,
    internal=True,
)


# -- rotary position embedding --------------------------------------------------------


def _infer_rotary(
    x: TensorType,
    cos: TensorType,
    sin: TensorType,
    positions: TensorType | None = None,
    *,
    interleaved: bool,
    num_heads: int | None,
    rotary_dim: int,
) -> tuple[TensorType, ...]:
    op = "rotary_embedding"
    require_dtype(op, same_dtype(op, [x, cos, sin]), FLOATS)
    b, _, s, d = _heads(op, "x", x, num_heads)
    width = rotary_dim or d
    if isinstance(width, int) and (width % 2 or width < 0 or (isinstance(d, int) and width > d)):
        raise TypeRuleError(f"{op}: rotary_dim must be even and at most {d}, got {width}")
    if cos.shape != sin.shape or cos.shape[-1:] != (width // 2,):
        raise TypeRuleError(f"{op}: cos and sin must end with {width // 2}, got {cos} and {sin}")
    if positions is None:
        if cos.rank != 3 or broadcast([cos.shape[:2], (b, s)], op) != (b, s):
            raise TypeRuleError(f"{op}: cos without positions must be [{b}, {s}, {width // 2}], got {cos}")
    else:
        require_rank(op, cos, 2, 2, "cos")
        require_dtype(op, positions.dtype, (dtypes.i32, dtypes.i64), "positions")
        if positions.rank != 2 or broadcast([positions.shape, (b, s)], op) != (b, s):
            raise TypeRuleError(f"{op}: positions must be [{b}, {s}], got {positions}")
    return (x,)


def _rotary(
    x: Array,
    cos: Array,
    sin: Array,
    positions: Array | None = None,
    *,
    interleaved: bool,
    num_heads: int | None,
    rotary_dim: int,
) -> Array:
    y = _split(x, num_heads)
    width = rotary_dim or y.shape[3]
    c, s = (t[:, None] if positions is None else t[positions][:, None] for t in (cos, sin))
    part, rest = y[..., :width], y[..., width:]
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., : width // 2], part[..., width // 2 :])
    real, imag = c * a - s * b, s * a + c * b
    turned = np.stack([real, imag], -1).reshape(part.shape) if interleaved else np.concatenate([real, imag], -1)
    result = np.concatenate([turned, rest], -1)
    return result if x.ndim == 4 else result.transpose(0, 2, 1, 3).reshape(x.shape)


def _rotary_in_ops(x: Any, cos: Any, sin: Any, positions: Any = None, **at: Any) -> Any:
    from rlx import ops

    wide = positions if positions is None or positions.dtype == dtypes.i64 else ops.cast(positions, dtype=dtypes.i64)
    return rope(x, cos, sin, wide, **at)


def _rotary_samples(dtype: DType, rng: Rng) -> list[Sample]:
    def table(*shape: int) -> tuple[Array, Array]:
        angle = rng.uniform(-3, 3, shape)
        return np.cos(angle).astype(dtype.numpy), np.sin(angle).astype(dtype.numpy)

    x, flat = data(rng, dtype, 2, 3, 5, 8), data(rng, dtype, 2, 5, 24)
    positions = rng.integers(0, 9, (2, 5))
    return [
        Sample((x, *table(9, 4), positions)),
        Sample((x, *table(9, 4), positions), {"interleaved": True}),
        Sample((x, *table(2, 5, 4))),
        Sample((flat, *table(9, 4), positions.astype(np.int32)), {"num_heads": 3}),
        Sample((x, *table(9, 2), positions), {"rotary_dim": 4}),
        Sample((x, *table(1, 1, 4))),
        Sample((flat, *table(1, 5, 4)), {"num_heads": 3}),
        Sample((flat, *table(9, 3), positions), {"num_heads": 3, "rotary_dim": 6, "interleaved": True}),
        Sample((x[:, :, :0], *table(2, 0, 4))),
    ]


def _rotary_errors() -> list[ErrorSample]:
    x, c = np.zeros((1, 2, 3, 8), np.float32), np.zeros((1, 3, 4), np.float32)
    return [
        ErrorSample((x, c[..., :3], c[..., :3]), {}, "must end with"),
        ErrorSample((x, c, c), {"rotary_dim": 3}, "even"),
        ErrorSample((x, c[0], c[0]), {}, "without positions"),
        ErrorSample((x, c[0], c[0], np.zeros((1, 3), np.float32)), {}, "positions type"),
    ]


rotary_embedding = OpDef(
    "rotary_embedding",
    ("x", "cos", "sin", "positions?"),
    _infer_rotary,
    _rotary,
    "Pairs of x turned by angles: x [B, H, S, D] or [B, S, H*D] with num_heads; cos and sin are [B, S, D / 2], "
    "or tables [P, D / 2] "
    "read at positions [B, S]. interleaved: pairs are neighbours, else halves. rotary_dim: only the first so "
    "many (0: all).",
    attrs=(Attr("interleaved", "bool", False), Attr("num_heads", "int", None), Attr("rotary_dim", "int", 0)),
    dtypes=FLOATS,
    decompose=_rotary_in_ops,
    samples=_rotary_samples,
    errors=_rotary_errors,
    tolerance=Tolerance(
        rtol={"f32": 2e-6, "f16": 1e-2, "bf16": 8e-2}, atol={"f32": 2e-6, "f64": 1e-14, "f16": 2e-2, "bf16": 1.2e-1}
    ),
)

rope = OpDef(
    "rope", ("x", "cos", "sin", "positions?"), _infer_rotary, _rotary, "rotary_embedding with positions in i64.",
    attrs=rotary_embedding.attrs, dtypes=FLOATS, tolerance=rotary_embedding.tolerance, internal=True,
)
