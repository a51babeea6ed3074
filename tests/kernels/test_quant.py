"""Quantisation kernels against NumPy and ONNX Runtime."""

import numpy as np
import onnx
import onnx_node
import pytest

from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_kernel

LEVELS = available_levels()
TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32}
SPECIAL = np.array([0.0, -0.0, 0.5, 1.5, -0.5, 2.5, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42,
                    127.5, 128.5, -128.5, 254.5, 255.5], np.float32)


def shaped(shape, axis, block):
    """outer, axis, inner and the shape of the scales."""
    if axis is None:
        return (1, 1, int(np.prod(shape))), ()
    outer, inner = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1:]))
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block) if block else shape[axis]
    return (outer, shape[axis], inner), tuple(scales) if block else (shape[axis],)


def spread(scale, shape, axis, block):
    """Scales broadcast to `shape`, by the definition."""
    if axis is None:
        return np.broadcast_to(scale, shape)
    if block:
        return np.take(scale, np.arange(shape[axis]) // block, axis)
    column = [-1 if i == axis else 1 for i in range(len(shape))]
    return np.broadcast_to(scale.reshape(column), shape)


CASES = [((1000,), None, 0), ((3, 5), 0, 0), ((3, 35), 1, 0), ((2, 3, 33), 1, 0), ((4, 35), 1, 16),
         ((35, 20), 0, 8), ((0,), None, 0), ((2, 0), 1, 0), ((1,), None, 0)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("q", ["i8", "u8", "i16", "u16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_quantize_linear(case, q, level):
    shape, axis, block = case
    rng = np.random.default_rng(0)
    dims, scale_shape = shaped(shape, axis, block)
    info = np.iinfo(TYPES[q])
    x = rng.normal(0, info.max / 3, shape).astype(np.float32)
    flat = x.reshape(-1)
    flat[: len(SPECIAL)] = SPECIAL[: x.size]
    scale = rng.choice([0.5, 1.0, 1.3, 0.01], scale_shape).astype(np.float32)
    zp = rng.integers(0, info.max // 2, scale_shape).astype(TYPES[q])
    s, z = spread(scale, shape, axis, block), spread(zp, shape, axis, block)
    with np.errstate(over="ignore", invalid="ignore"):
        r = np.rint(x / s)
    for zero in (zp, None):
        want = np.clip(r.astype(np.float64) + (z if zero is zp else 0), info.min, info.max)
        want = np.where(np.isnan(r), 0, want)
        y = np.full(shape, 77, TYPES[q])
        args = [x, scale, zero, y]
        attrs = dict(zip(("outer", "axis", "inner"), dims, strict=True), block=block)
        call_kernel(f"quantize_linear.{q}", args, attrs | {"qmin": info.min, "qmax": info.max},
                    extent=x.size, level=level, threads=2, grain=7)
        np.testing.assert_array_equal(y, want.astype(TYPES[q]))
    back = np.full(shape, np.nan, np.float32)
    call_kernel(f"dequantize_linear.{q}", [y, scale, zp, back], attrs, extent=x.size, level=level,
                threads=2, grain=5)
    np.testing.assert_array_equal(back, (y.astype(np.int32) - z).astype(np.float32) * s)


@pytest.mark.parametrize("level", LEVELS)
def test_dequantize_i32(level):
    x = np.array([-2**31, 2**31 - 1, 0, 16777217, 5], np.int32)
    y = np.empty(5, np.float32)
    scale, zp = np.float32([0.5]), np.array([1], np.int32)
    call_kernel("dequantize_linear.i32", [x, scale, zp, y],
                dict(outer=1, axis=1, inner=5, block=0), extent=5, level=level)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, (x - np.int32(1)).astype(np.float32) * scale)


@pytest.mark.parametrize("level", LEVELS)
def test_int4_range_and_packing(level):
    x = np.array([-9.0, -8, -0.5, 0.5, 7, 7.6, 3], np.float32)
    y = np.empty(7, np.int8)
    call_kernel("quantize_linear.i8", [x, np.float32([1]), None, y],
                dict(outer=1, axis=1, inner=7, block=0, qmin=-8, qmax=7), extent=7, level=level)
    np.testing.assert_array_equal(y, [-8, -8, 0, 0, 7, 7, 3])
    packed = np.full(4, 0xA5, np.uint8)
    call_kernel("pack.b4", [y, packed], {"n": 7}, extent=4, level=level)
    assert packed.tolist() == [0x88, 0x00, 0x77, 0x03]
    back, unsigned = np.empty(7, np.int8), np.empty(7, np.uint8)
    call_kernel("unpack.i4", [packed, back], {}, extent=7, level=level, threads=2, grain=3)
    call_kernel("unpack.u4", [packed, unsigned], {}, extent=7, level=level)
    np.testing.assert_array_equal(back, y)
    np.testing.assert_array_equal(unsigned, y & 15)


@pytest.mark.parametrize("level", LEVELS)
def test_fake_quantize(level):
    x = np.concatenate([SPECIAL, np.linspace(-3, 3, 40, dtype=np.float32)])
    scale, zp = np.float32([0.1]), np.array([10], np.int32)
    attrs = dict(outer=1, axis=1, inner=x.size, block=0, qmin=0, qmax=255)
    with np.errstate(over="ignore", invalid="ignore"):
        want = (np.clip(np.rint(x / scale) + np.float32(10), 0, 255) - np.float32(10)) * scale
    y = x.copy()
    call_kernel("fake_quantize.f32", [y, scale, zp, y], attrs, extent=x.size, level=level)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("q", ["i8", "u8"])
def test_requantize(q, level):
    rng = np.random.default_rng(0)
    acc = rng.integers(-2**31, 2**31, (6, 33)).astype(np.int32)
    acc[0, :4] = [2**31 - 1, -2**31, 16777217, 3]
    m = rng.uniform(1e-9, 1e-7, 33)
    m[:4] = [1e-7, 1e-7, 0.5, 0.5]
    bias, zp = rng.integers(-50, 50, 33).astype(np.int32), rng.integers(0, 9, 33).astype(TYPES[q])
    y = np.empty(acc.shape, TYPES[q])
    call_kernel(f"requantize.{q}", [acc, m, bias, zp, y], dict(outer=6, axis=33, inner=1),
                extent=acc.size, level=level, threads=2, grain=10)
    with np.errstate(over="ignore"):
        r = np.rint((acc + bias).astype(np.float64) * m) + zp
    info = np.iinfo(TYPES[q])
    np.testing.assert_array_equal(y, np.clip(r, info.min, info.max).astype(TYPES[q]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 15, 16, 33, 1000])
def test_dynamic_quantize_linear(n, level):
    rng = np.random.default_rng(n)
    for x in (rng.normal(1, 2, n), -rng.random(n), np.zeros(n), rng.random(n)):
        x = x.astype(np.float32)
        chunks = -(-n // 64)
        ranges, scale = np.full((chunks, 2), np.nan, np.float32), np.empty(1, np.float32)
        zp, y = np.empty(1, np.uint8), np.empty(n, np.uint8)
        call_kernel("quant_range.f32", [x, ranges], {"n": n, "chunk": 64}, extent=chunks,
                    level=level, threads=2)
        call_kernel("quant_params.u8", [ranges, scale, zp], {"chunks": chunks}, extent=1,
                    level=level)
        call_kernel("quantize_linear.u8", [x, scale, zp, y],
                    dict(outer=1, axis=1, inner=n, block=0, qmin=0, qmax=255), extent=n,
                    level=level)
        types = [onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8]
        want = onnx_node.session("DynamicQuantizeLinear", [x], 3, out_types=types)()
        for g, e in zip((y, scale, zp), want, strict=True):
            np.testing.assert_array_equal(g, np.reshape(e, g.shape))


def test_no_byte_beyond_the_operands(guard_arguments, level):
    for n in (1, 7, 17, 33):
        test_int4_range_and_packing(level)
        test_dynamic_quantize_linear(n, level)
        for case in CASES[1:6]:
            test_quantize_linear(case, "u8", level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1000])
def test_lookup(n, dtype, level, guard_arguments):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 256, n).astype(np.uint8)
    table = rng.integers(0, 256, 256).astype(dtype)
    y = np.zeros(n, dtype)
    call_kernel(f"lookup.b{y.itemsize}", [x, table, y], {}, extent=n, level=level, threads=2, grain=3)
    np.testing.assert_array_equal(y, table[x])
