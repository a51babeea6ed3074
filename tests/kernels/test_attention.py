"""attention against a NumPy reference in double precision."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from rlx.lower.attention import items_of, work_bytes
from rlx.lower.context import workspaces
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = available_levels()
KERNELS = {"float32": "attention.f32", "float64": "attention.f64", "float16": "attention.f32@f16",
           "bfloat16": "attention.f32@bf16"}


def reference(q, k, v, *, scale=None, softcap=0.0, causal=False, past=None, window=-1, mask=None,
              bias=None, lens=None):
    """numerics.md, section Attention, for [B, H, S, D] arrays."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    (b, h, sq, d), g, sk = q.shape, k.shape[1], k.shape[2]
    kv = np.arange(h) * g // h
    s = np.einsum("bhid,bhjd->bhij", q, k[:, kv]) * (d**-0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    past = sk - sq if past is None else past
    i, j = np.arange(sq)[:, None] + past, np.arange(sk)
    visible = np.ones((b, h, sq, sk), bool)
    if causal or window >= 0:
        visible &= j <= i
    if window >= 0:
        visible &= j >= i - window
    if mask is not None:
        visible &= mask
    if lens is not None:
        visible &= (j < lens[:, None])[:, None, None]
    s = np.where(visible, s, -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        m = s.max(-1, keepdims=True, initial=-np.inf)
        p = np.exp(s - np.where(np.isfinite(m), m, 0))
        total = p.sum(-1, keepdims=True)
        p = np.where(total == 0, 0, p / total)
    return np.einsum("bhij,bhjd->bhid", p, v[:, kv])


def strides(array):
    return [s // array.itemsize for s in array.strides]


def attend(q, k, v, out=None, *, scale=None, softcap=0.0, causal=False, past=None, window=-1,
           mask=None, bias=None, lens=None, lens_past=0, block=32, threads=1, level=None, repeat=1,
           views=(None, None, None, None)):
    """q, k, v, out: buffers; views: [B, H, S, D] views of them when they are laid out otherwise."""
    qv, kv, vv = (a if w is None else w for a, w in zip((q, k, v), views, strict=False))
    (b, h, sq, d), g, sk, dv = qv.shape, kv.shape[1], kv.shape[2], vv.shape[3]
    if out is None:
        out = np.full((b, h, sq, dv), np.nan, q.dtype)
    ov = out if views[3] is None else views[3]
    attrs = dict(batch=b, heads=h, kv_heads=g, sq=sq, sk=sk, d=d, dv=dv)
    for name, a in zip("qkvo", (qv, kv, vv, ov), strict=True):
        attrs |= dict(zip((f"{name}_b", f"{name}_h", f"{name}_s"), strides(a), strict=False))
    for name, a in (("m", mask), ("b", bias)):
        full = [0] * 4 if a is None else strides(np.broadcast_to(a, (b, h, sq, sk)))
        attrs |= dict(zip((f"{name}_b", f"{name}_h", f"{name}_q", f"{name}_k"), full, strict=True))
    size = work_bytes(block, d, dv, max(4, q.itemsize))
    attrs |= dict(causal=int(causal), past=sk - sq if past is None else past, window=window,
                  lens_past=lens_past, block=block, ws=size,
                  scale=d**-0.5 if scale is None else scale, softcap=softcap,
                  empty=0.0)
    base = [None if a is None else np.ascontiguousarray(a) for a in (mask, bias)]
    if base[0] is not None:
        base[0] = base[0].view(np.uint8)
    seconds = call_kernel(
        KERNELS[q.dtype.name],
        [q, k, v, *base, lens, out, np.full(size * workspaces(threads), 0xA5, np.uint8)], attrs,
        extent=items_of(b, h, g, sq, block), threads=threads, level=level, repeat=repeat)
    attend.seconds = seconds
    return out


def qkv(b, h, g, sq, sk, d, dv, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1, s).astype(dtype)
            for s in ((b, h, sq, d), (b, g, sk, d), (b, g, sk, dv)))


def close(got, want):
    tol = 3e-6 if got.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes(dtype, level):
    for sq, sk, d, dv in itertools.product((1, 3, 5, 33), (1, 15, 64, 131), (1, 17, 64), (3, 32)):
        q, k, v = qkv(2, 4, 2, sq, sk, d, dv, dtype)
        close(attend(q, k, v, level=level), reference(q, k, v))
    q, k, v = qkv(1, 1, 1, 0, 3, 4, 4, dtype)
    assert attend(q, k, v, level=level).shape == (1, 1, 0, 4)
    q, k, v = qkv(1, 1, 1, 7, 0, 4, 4, dtype)
    assert not attend(q, k, v, level=level).any()


OPTIONS = [
    dict(causal=True), dict(causal=True, past=0), dict(causal=True, past=-3), dict(window=0),
    dict(window=5), dict(window=70, past=60), dict(softcap=0.7), dict(scale=0.5),
    dict(causal=True, past=3, softcap=2.0),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options, level):
    for sq, sk in ((1, 70), (4, 150), (40, 40), (70, 150), (90, 20)):
        q, k, v = qkv(1, 4, 1, sq, sk, 24, 20)
        close(attend(q, k, v, level=level, **options), reference(q, k, v, **options))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(1, 1, 1, "k"), ("b", 1, 1, "k"), ("b", 1, "q", "k"),
                                   ("b", "h", "q", "k"), ("b", "h", "q", 1)], ids=str)
def test_masks_broadcast(shape, level):
    rng = np.random.default_rng(1)
    for sq, sk in ((2, 67), (50, 77)):
        dims = {"b": 2, "h": 3, "q": sq, "k": sk, 1: 1}
        mask = rng.random([dims[s] for s in shape]) < 0.6
        bias = rng.normal(0, 2, mask.shape).astype(np.float32)
        q, k, v = qkv(2, 3, 3, sq, sk, 16, 16)
        want = reference(q, k, v, mask=mask)
        close(attend(q, k, v, mask=mask, level=level), want)
        close(attend(q, k, v, bias=bias, level=level), reference(q, k, v, bias=bias))
        inf = np.where(mask, bias, -np.float32(np.inf))
        close(attend(q, k, v, bias=inf, causal=True, level=level),
              reference(q, k, v, mask=mask, bias=bias, causal=True))


@pytest.mark.parametrize("level", LEVELS)
def test_masked_rows_are_zero_and_hidden_nan_is_not_seen(level):
    for sq in (2, 40):
        q, k, v = qkv(1, 2, 2, sq, 100, 16, 16)
        mask = np.ones((1, 1, 1, 100), bool)
        mask[..., 30:] = False
        want = reference(q, k, v, mask=mask)
        k[:, :, 30:], v[:, :, 30:] = np.nan, np.nan
        close(attend(q, k, v, mask=mask, level=level), want)
        close(attend(q, k, v, lens=np.array([30], np.int64), level=level), want)
        bias = np.where(mask, 0, -np.inf).astype(np.float32)
        close(attend(q, k, v, bias=bias, level=level), want)
        assert not attend(q, k, v, mask=mask & False, level=level).any()
        k[0, 1, 3] = np.nan
        got = attend(q, k, v, mask=mask, level=level)
        assert np.isnan(got[0, 1]).all()
        close(got[0, 0], want[0, 0])


@pytest.mark.parametrize("level", LEVELS)
def test_causal_does_not_see_nan_of_the_future(level):
    q, k, v = qkv(1, 1, 1, 64, 64, 8, 8)
    want = reference(q, k, v, causal=True)
    k[0, 0, 20], v[0, 0, 20] = np.nan, np.nan
    got = attend(q, k, v, causal=True, level=level)
    close(got[0, 0, :20], want[0, 0, :20])
    assert np.isnan(got[0, 0, 20:]).all()


@pytest.mark.parametrize("level", LEVELS)
def test_layouts(level):
    rng = np.random.default_rng(2)
    b, s, h, d = 2, 37, 3, 8
    packed = rng.normal(0, 1, (b, s, 3, h, d)).astype(np.float32)
    q, k, v = (packed[:, :, i].swapaxes(1, 2) for i in range(3))
    out = np.full((b, s, h, d), np.nan, np.float32)
    flat = packed.reshape(-1)
    attend(flat, flat[h * d:], flat[2 * h * d:], out, level=level,
           views=(q, k, v, out.swapaxes(1, 2)))
    close(out.swapaxes(1, 2), reference(q, k, v))


@pytest.mark.parametrize("level", LEVELS)
def test_lens(level):
    lens = np.array([7, 0, 50], np.int64)
    for sq in (1, 6):
        q, k, v = qkv(3, 2, 1, sq, 50, 8, 8)
        got = attend(q, k, v, lens=lens, lens_past=1, causal=True, level=level)
        for b, n in enumerate(lens):
            one = reference(q[b:b + 1], k[b:b + 1, :, :n], v[b:b + 1, :, :n], causal=True)
            close(got[b:b + 1], one)
        with pytest.raises(KernelFailure, match="status 1, value 51, bound 50, position 1"):
            attend(q, k, v, lens=np.array([7, 51, 3], np.int64), level=level)


@pytest.mark.parametrize("level", LEVELS)
def test_cut_and_block_do_not_change_bits(level):
    q, k, v = qkv(2, 3, 3, 71, 130, 20, 24)
    base = attend(q, k, v, causal=True, level=level)
    for block, threads in ((16, 2), (32, 2), (64, 1), (7, 2), (128, 1)):
        other = attend(q, k, v, causal=True, block=block, threads=threads, level=level)
        assert other.tobytes() == base.tobytes()


def test_no_byte_beyond_the_operands(guard_arguments, level):
    for sq, sk, d, dv in ((1, 19, 17, 3), (2, 70, 15, 33), (5, 65, 7, 9), (33, 1, 1, 1)):
        q, k, v = qkv(2, 4, 2, sq, sk, d, dv)
        close(attend(q, k, v, level=level), reference(q, k, v))
        mask = np.random.default_rng(0).random((2, 1, sq, sk)) < 0.7
        bias = mask.astype(np.float32)
        close(attend(q, k, v, mask=mask, level=level), reference(q, k, v, mask=mask))
        close(attend(q, k, v, bias=bias, level=level), reference(q, k, v, bias=bias))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_halves_have_the_bits_of_casts_around_f32(dtype, level, guard_arguments):
    for sq, sk, d, dv, options in ((1, 70, 33, 20, {}), (3, 19, 16, 7, {"causal": True}), (40, 77, 17, 35, {}),
                                   (150, 130, 64, 64, {"causal": True, "window": 70}), (5, 3, 1, 1, {"softcap": 2.0})):
        q, k, v = (x.astype(dtype) for x in qkv(2, 4, 2, sq, sk, d, dv))
        mask = np.random.default_rng(0).random((2, 1, sq, sk)) < 0.8
        got = attend(q, k, v, level=level, mask=mask, **options)
        wide = attend(*(x.astype(np.float32) for x in (q, k, v)), level=level, mask=mask, **options)
        assert got.dtype == dtype
        assert got.tobytes() == wide.astype(dtype).tobytes()


def test_halves_round_to_infinity_and_keep_nan(level):
    for sq in (1, 8):
        q, k, v = (np.ones((1, 1, n, 16), np.float16) for n in (sq, 3, 3))
        v[..., 0], v[..., 1], v[..., 2] = np.nan, np.inf, -65504
        got = attend(q, k, v, level=level)
        assert np.isnan(got[..., 0]).all()
        assert np.isinf(got[..., 1]).all()
        np.testing.assert_array_equal(got[..., 2:4], np.tile(np.float16([-65504, 1]), (1, 1, sq, 1)))


@pytest.mark.parametrize(("heads", "groups"), [(8, 2), (2, 1), (3, 1), (7, 1), (6, 6), (10, 2)])
def test_heads_that_share_keys_have_the_bits_of_one_alone(heads, groups, level):
    rng = np.random.default_rng(3)
    for sq, sk, d, dv in ((1, 300, 24, 40), (4, 33, 17, 9)):
        q, k, v = qkv(2, heads, groups, sq, sk, d, dv)
        mask, bias = rng.random((2, heads, sq, sk)) < 0.7, rng.normal(0, 1, (heads, sq, sk)).astype(np.float32)
        got = attend(q, k, v, level=level, mask=mask, bias=bias, causal=True, threads=2)
        close(got, reference(q, k, v, mask=mask, bias=bias, causal=True))
        for h in range(heads):
            g = h * groups // heads
            one = attend(q[:, h : h + 1].copy(), k[:, g : g + 1].copy(), v[:, g : g + 1].copy(), level=level,
                         mask=mask[:, h : h + 1].copy(), bias=bias[h : h + 1].copy(), causal=True)
            assert one.tobytes() == got[:, h : h + 1].tobytes()


def test_rows_far_apart_have_the_bits_of_dense_ones(level):
    q, k, v = qkv(1, 2, 2, 130, 150, 24, 40)
    wide = [np.full((1, 2, 150, 600), np.nan, np.float32) for _ in "kv"]
    for x, y in zip(wide, (k, v), strict=True):
        x[..., : y.shape[3]] = y
    views = (None, *(x[..., : y.shape[3]] for x, y in zip(wide, (k, v), strict=True)), None)
    got = attend(q, *wide, level=level, views=views, block=128)
    assert got.tobytes() == attend(q, k, v, level=level).tobytes()
