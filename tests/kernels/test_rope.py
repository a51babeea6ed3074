"""rope against its definition and ONNX Runtime's RotaryEmbedding."""

import numpy as np
import onnx_node
import pytest

from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = available_levels()


def rope(x, cos, sin, positions=None, *, n_rot=None, style=0, inverse=0, past=0, order="bshd",
         out=None, level=None, threads=1):
    """x laid out as `order` says."""
    y = np.full_like(x, np.nan) if out is None else out
    axes = [order.index(c) for c in "bsh"]
    batch, seq, heads = (x.shape[a] for a in axes)
    step = [x.strides[a] // x.itemsize for a in axes]
    dim = x.shape[3]
    rows, width = cos.shape[-2:]
    attrs = dict(batch=batch, seq=seq, heads=heads, dim=dim, n_rot=dim if n_rot is None else n_rot,
                 style=style, inverse=inverse, x_b=step[0], x_s=step[1], x_h=step[2], y_b=step[0],
                 y_s=step[1], y_h=step[2], rows=rows, t_b=rows * width if cos.ndim == 3 else 0,
                 t_s=width, p_b=0 if positions is None or len(positions) == 1 else seq, p_s=1,
                 past=past)
    call_kernel(f"rope.{'f32' if x.dtype == np.float32 else 'f64'}", [x, cos, sin, positions, y],
                attrs, extent=batch * seq * heads, level=level, threads=threads)
    return y


def reference(x, cos, sin, positions, n_rot, style):
    """x [b, s, h, d]"""
    y = x.astype(np.float64).copy()
    half = n_rot // 2
    c, s = cos[positions][:, :, None, :half], sin[positions][:, :, None, :half]
    first = slice(0, n_rot, 2) if style else slice(0, half)
    second = slice(1, n_rot, 2) if style else slice(half, n_rot)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s
    return y


def tables(rows, half, dtype):
    angle = np.arange(rows)[:, None] / 100 ** (np.arange(half) / max(half, 1))
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_definition(dtype, style, level):
    rng = np.random.default_rng(0)
    for dim, n_rot in ((2, 2), (6, 4), (32, 32), (34, 34), (64, 16), (80, 66), (300, 300), (5, 0)):
        x = rng.normal(0, 1, (3, 4, 2, dim)).astype(dtype)
        cos, sin = tables(20, n_rot // 2, dtype)
        if n_rot == 0:
            cos, sin = np.zeros((2, 20, 1), dtype)
        for positions in (rng.integers(0, 20, (3, 4)), rng.integers(0, 20, (1, 4)), None):
            used = np.arange(4)[None] + 7 if positions is None else positions
            used = np.broadcast_to(used, (3, 4))
            want = reference(x, cos, sin, used, n_rot, style)
            got = rope(x, cos, sin, positions, n_rot=n_rot, style=style, past=7, level=level,
                       threads=2)
            tol = 1e-6 if dtype == np.float32 else 1e-14
            np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
            place = x.copy()
            rope(place, cos, sin, positions, n_rot=n_rot, style=style, past=7, out=place,
                 level=level)
            assert place.tobytes() == got.tobytes()
            bhsd = np.ascontiguousarray(x.swapaxes(1, 2))
            other = rope(bhsd, cos, sin, positions, n_rot=n_rot, style=style, past=7,
                         order="bhsd", level=level)
            assert np.ascontiguousarray(other.swapaxes(1, 2)).tobytes() == got.tobytes()
            back = rope(got, cos, sin, positions, n_rot=n_rot, style=style, past=7, inverse=1,
                        level=level)
            np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("style", [0, 1])
def test_onnxruntime(style):
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (2, 3, 5, 16)).astype(np.float32)  # b h s d
    cos, sin = tables(9, 8, np.float32)
    positions = rng.integers(0, 9, (2, 5))
    want = onnx_node.session("RotaryEmbedding", [x, positions, cos, sin], 1, opset=1,
                             domain="com.microsoft", interleaved=style)()[0]
    got = rope(x, cos, sin, positions, style=style, order="bhsd")
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_position_out_of_range():
    x = np.zeros((1, 3, 1, 4), np.float32)
    cos, sin = tables(5, 2, np.float32)
    with pytest.raises(KernelFailure, match="status 1, value 5, bound 5, position 2"):
        rope(x, cos, sin, np.array([[0, 4, 5]]))
    with pytest.raises(KernelFailure, match="status 1, value -1"):
        rope(x, cos, sin, past=-1)


def test_no_byte_beyond_the_operands(guard_arguments, level):
    for dim, n_rot in ((6, 4), (34, 34), (38, 30)):
        for style in (0, 1):
            x = np.random.default_rng(0).normal(0, 1, (2, 3, 2, dim)).astype(np.float32)
            cos, sin = tables(3, n_rot // 2, np.float32)
            want = reference(x, cos, sin, np.arange(3)[None].repeat(2, 0), n_rot, style)
            got = rope(x, cos, sin, n_rot=n_rot, style=style, level=level)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
