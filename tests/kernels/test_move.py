"""Data movement: strided copies, fills, pads, triangles, ranges."""

import itertools

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
RNG = np.random.default_rng(0)


def values(shape, size):
    n = int(np.prod(shape))
    return RNG.integers(0, 256, n * size, np.uint8).view(DTYPES[size]).reshape(shape)


def same(a, b):
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def strided(src, dst, shape, s_strides, d_strides, level, s_start=0, d_start=0, **kw):
    call_kernel(
        f"strided.b{src.itemsize}", [src, dst],
        {"src_start": s_start, "dst_start": d_start, "shape": shape,
         "src": s_strides, "dst": d_strides},
        extent=int(np.prod(shape[:-1])), level=level, **kw)


def items(strides, array):
    return [s // array.itemsize for s in strides]


@pytest.mark.parametrize("size", DTYPES)
@pytest.mark.parametrize(("m", "n"), [*itertools.product([1, 2, 3, 4, 8, 17, 70], [1, 2, 3, 4, 16, 33, 300]),
                                        (49, 1024), (16, 2048)])
def test_transpose(size, m, n, level, guarded):
    src = guarded(values((2, n, m), size))
    dst = guarded(np.zeros((2, m, n), src.dtype))
    for threads, grain in ((1, 1), (2, 5)):
        dst[...] = 0
        strided(src, dst, (2, m, n), [n * m, 1, m], [m * n, n, 1], level,
                threads=threads, grain=grain)
        same(dst, np.ascontiguousarray(src.transpose(0, 2, 1)))


@pytest.mark.parametrize("size", DTYPES)
def test_general_strides(size, level, guarded):
    data = guarded(values((3, 4, 5, 6), size))
    views = [
        data.transpose(2, 0, 3, 1), data[::-1, ::2, ::-2, 1:5], data[:, :, ::-1, ::-1],
        np.broadcast_to(data[:, :1], data.shape), np.broadcast_to(data[..., :1], data.shape),
        data[1, 2, 3], data[1, 2, 3, 4:5], data[1], data[:, 0:0],
    ]
    for view in views:
        out = guarded(np.zeros(view.shape, view.dtype))
        start = (view.__array_interface__["data"][0] - data.__array_interface__["data"][0]) // size
        strided(data, out, view.shape, items(view.strides, data), items(out.strides, out), level,
                s_start=start, threads=2, grain=3)
        same(out, np.ascontiguousarray(view))


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("size", DTYPES)
def test_every_second_item_and_no_byte_behind_the_last(size, n, level, guarded):
    src = guarded(values((3, 2 * n), size).reshape(-1)[: 6 * n - 1])
    dst = guarded(np.zeros((3, n), src.dtype))
    strided(src, dst, (3, n), (2 * n, 2), (n, 1), level)
    want = np.concatenate([src, src[:1]]).reshape(3, 2 * n)[:, ::2]
    same(np.asarray(dst), np.ascontiguousarray(want))


def test_rank_zero_and_scattered_write(level):
    src, dst = values((4, 6), 4), np.zeros((10, 20), np.uint32)
    call_kernel("strided.b4", [src, dst],
                {"src_start": 7, "dst_start": 3, "shape": [], "src": [], "dst": []},
                extent=1, level=level)
    want = np.zeros_like(dst)
    want[0, 3] = src[1, 1]
    want[1:9:2, 2:14:2] = src
    strided(src, dst, (4, 6), [6, 1], [40, 2], level, d_start=22)
    same(dst, want)


@pytest.mark.parametrize("size", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 16, 31, 32, 33, 63, 64, 65, 255, 257, 1000])
def test_runs(size, n, level, guarded):
    src = guarded(values((3, n), size))
    out = guarded(np.zeros((3, n), src.dtype))
    strided(src, out, (3, n), [n, 1], [n, 1], level)
    same(out, src)


@pytest.mark.parametrize("size", DTYPES)
def test_fill(size, level, guarded):
    value = values((1,), size)
    words = np.zeros(2, np.int64)
    words.view(np.uint8)[:size] = value.view(np.uint8)
    for n in (0, 1, 7, 64, 100):
        out = guarded(np.zeros(n, value.dtype))
        call_kernel(f"fill.b{size}", [out], {"value": words[0], "value_high": words[1]},
                    extent=n, threads=2, grain=9, level=level)
        same(out, np.repeat(value, n))


@pytest.mark.parametrize("size", DTYPES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [((0, 0), (1, 2), (3, 0)), ((2, 9), (0, 1), (17, 30))])
def test_pad(size, mode, pads, level, guarded):
    data = guarded(values((2, 3, 7), size))
    value = values((1,), size)
    kw = {"constant_values": value[0]} if mode == "constant" else {}
    want = np.pad(data, pads, mode, **kw)
    out = guarded(np.zeros(want.shape, data.dtype))
    call_kernel(
        f"pad.b{size}", [data, out, value],
        {"mode": ["constant", "edge", "reflect", "wrap"].index(mode), "shape": data.shape,
         "before": [p[0] for p in pads], "after": [p[1] for p in pads]},
        extent=int(np.prod(want.shape[:-1])), threads=2, grain=2, level=level)
    same(out, want)


def test_pad_of_nothing_and_of_one(level):
    out = np.ones(5, np.uint32)
    attrs = {"mode": 0, "shape": [0], "before": [2], "after": [3]}
    call_kernel("pad.b4", [np.zeros(0, np.uint32), out, None], attrs, extent=1, level=level)
    assert not out.any()
    call_kernel("pad.b4", [np.full(1, 9, np.uint32), out[:4].copy(), None],
                {"mode": 2, "shape": [1], "before": [2], "after": [1]}, extent=1, level=level)


@pytest.mark.parametrize("size", [1, 4, 16])
@pytest.mark.parametrize("k", [-9, -2, 0, 1, 3, 9, 2**62, -(2**62)])
def test_trilu(size, k, level):
    data = values((2, 4, 6), size)
    bounded = max(-50, min(50, k))
    for upper, reference in ((1, np.triu), (0, np.tril)):
        out = np.empty_like(data)
        call_kernel(f"trilu.b{size}", [data, out], {"upper": upper, "k": k, "rows": 4, "cols": 6},
                    extent=8, threads=2, level=level)
        same(out, reference(data, bounded))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64, np.int64])
def test_eye(dtype, level):
    one = int.from_bytes(np.ones(1, dtype).tobytes(), "little")
    for k in (-7, -1, 0, 2, 9):
        out = np.full((4, 6), 3, dtype)
        call_kernel(f"eye.b{out.itemsize}", [out], {"one": one, "k": k, "rows": 4, "cols": 6},
                    extent=4, level=level)
        same(out, np.eye(4, 6, k, dtype))


@pytest.mark.parametrize("dtype", ["i16", "i32", "i64", "f32", "f64"])
def test_range(dtype, level):
    np_type = np.dtype(dtype[0] + str(int(dtype[1:]) // 8)).type
    start, step = np.array([3], np_type), np.array([-7], np_type)
    if dtype[0] == "f":
        step = np.array([0.1], np_type)
    out = np.zeros(1001, np_type)
    call_kernel(f"range.{dtype}", [start, step, out], {}, extent=1001, threads=2, grain=13,
                level=level)
    same(out, start + np.arange(1001).astype(np_type) * step)
