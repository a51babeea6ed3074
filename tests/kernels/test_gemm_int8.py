"""8-bit matmul and convolution: exact against integer NumPy, zero points, requantisation."""

import itertools

import numpy as np
import pytest

from rlx.lower import gemm_conv, gemm_int8
from rlx.lower.context import workspaces
from rlx.lower.gemm_int8 import OUT_F32, OUT_I8, OUT_I32, OUT_U8, Quant
from rlx.testing.kernels import call_kernel

KINDS = [(a, b) for a in (np.uint8, np.int8) for b in (np.int8, np.uint8)]


def random(dtype, *shape, extreme=False):
    rng = np.random.default_rng(sum(shape))
    info = np.iinfo(dtype)
    if extreme:
        return rng.choice(np.array([info.min, info.max], dtype), shape)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def count(array):
    return 0 if array is None else array.size


def pack(b, level, trans=False, groups=1):
    k, n = b.shape[-2:][:: -1 if trans else 1]
    plan = gemm_int8.plan_pack(k, n, signed=b.dtype == np.int8, trans=trans, groups=groups)
    out = np.full(groups * gemm_int8.packed_bytes(k, n, level), 0xAA, np.uint8)
    call_kernel(plan.kernel, [b, out], plan.attrs, extent=plan.extent, level=level)
    return out


def run(plan, args, level, threads=1):
    work = np.full(max(64, plan.workspace * workspaces(threads)), 0xAA, np.uint8)
    call_kernel(plan.kernel, [*args[:4], work, *args[4:]], plan.attrs, extent=plan.extent,
                threads=threads, grain=plan.grain, level=level)


def multiply(a, b, level, *, za=None, zb=None, bias=None, out=OUT_I32, scale=None, zero=None,
             threads=1, guarded=np.ascontiguousarray, **bounds):
    m, k = a.shape
    n = b.shape[1]
    quant = Quant(a.dtype == np.int8, b.dtype == np.int8, count(za), count(zb), count(scale), out,
                  **bounds)
    dtype = (np.int32, np.float32, np.uint8, np.int8)[out]
    result = guarded(np.full((m, n), 99, dtype))
    plan = gemm_int8.plan_matmul(m, n, k, quant, level=level)
    run(plan, [guarded(a), guarded(pack(b, level)), result, bias, za, zb, scale, zero], level,
        threads)
    return result


def exact(a, b, za=0, zb=0, bias=0):
    za, zb = np.asarray(za, np.int64), np.asarray(zb, np.int64)
    a = a.astype(np.int64) - (za[:, None] if za.ndim and za.size > 1 else za)
    return (a @ (b.astype(np.int64) - zb) + bias).astype(np.int32)


def test_info(level):
    info = np.zeros(3, np.int64)
    call_kernel("gemm_info.int8", [info], {}, extent=1, level=level)
    assert tuple(info) == gemm_int8.panel(level)


@pytest.mark.parametrize(("ta", "tb"), KINDS)
def test_shapes(ta, tb, level, guarded):
    mr, nr, _ = gemm_int8.panel(level)
    for m, n in itertools.product([1, 2, 5, mr, mr + 1, 2 * mr + 3], [1, nr - 1, nr, 5 * nr + 1]):
        k = (3 * m + n) % 70
        a, b = random(ta, m, k), random(tb, k, n)
        np.testing.assert_array_equal(multiply(a, b, level, guarded=guarded), exact(a, b))


@pytest.mark.parametrize(("ta", "tb"), KINDS)
def test_zero_points_and_extremes(ta, tb, level):
    m, n, k = 19, 37, 301
    a, b = random(ta, m, k, extreme=True), random(tb, k, n, extreme=True)
    bias = np.random.default_rng(0).integers(-(2**31), 2**31, n).astype(np.int32)
    for rows, cols in itertools.product([0, 1, m], [0, 1, n]):
        za = random(ta, rows) if rows else None
        zb = random(tb, cols) if cols else None
        got = multiply(a, b, level, za=za, zb=zb, bias=bias, threads=2)
        want = exact(a, b, 0 if za is None else za, 0 if zb is None else zb, bias.astype(np.int64))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("out", [OUT_F32, OUT_U8, OUT_I8])
def test_scaled(out, per_column, level):
    m, n, k = 15, 40, 64
    a, b = random(np.uint8, m, k), random(np.int8, k, n)
    za = np.array([128], np.uint8)
    rng = np.random.default_rng(1)
    scale = rng.uniform(1e-4, 1e-2, n if per_column else 1).astype(np.float32)
    sums = exact(a, b, za)
    if out == OUT_F32:
        got = multiply(a, b, level, za=za, out=out, scale=scale)
        np.testing.assert_array_equal(got, sums.astype(np.float32) * scale)
        return
    zero = np.array([3], np.uint8) if out == OUT_U8 else np.array([-7], np.int8)
    info = np.iinfo(zero.dtype)
    want = np.rint(sums.astype(np.float32) * scale) + int(zero[0])
    got = multiply(a, b, level, za=za, out=out, scale=scale, zero=zero)
    np.testing.assert_array_equal(got, np.clip(want, info.min, info.max).astype(zero.dtype))
    got = multiply(a, b, level, za=za, out=out, scale=scale, zero=zero, q_lo=int(zero[0]))
    np.testing.assert_array_equal(got, np.clip(want, int(zero[0]), info.max).astype(zero.dtype))


def test_half_to_even(level):
    a = np.arange(256, dtype=np.uint8)[:, None]
    got = multiply(a, np.ones((1, 3), np.int8), level, out=OUT_U8,
                   scale=np.array([0.5], np.float32))
    np.testing.assert_array_equal(got[:, 0], np.rint(np.arange(256) / 2).astype(np.uint8))


def test_batches(level):
    a, b = random(np.uint8, 2, 5, 9), random(np.int8, 2, 9, 20)
    packed = pack(b, level, groups=2)
    out = np.full((2, 5, 20), 99, np.int32)
    dims = [(2, 45, gemm_int8.packed_bytes(9, 20, level), 100)]
    plan = gemm_int8.plan_matmul(5, 20, 9, Quant(), batch=dims, level=level)
    run(plan, [a, packed, out, None], level)
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


def test_empty(level):
    for m, n, k in [(0, 4, 3), (4, 0, 3), (4, 4, 0)]:
        a, b = random(np.uint8, m, k), random(np.int8, k, n)
        bias = np.arange(n, dtype=np.int32)
        np.testing.assert_array_equal(multiply(a, b, level, bias=bias), exact(a, b, bias=bias))


CONVS = [
    ((9, 20), 3, 16, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    ((6, 15), 20, 33, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((7, 7), 16, 24, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((11, 17), 6, 5, (3, 2), (1, 2), (2, 3), (2, 0, 1, 5), 1),
    ((10, 12), 12, 8, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
    ((40,), 1, 12, (9,), (4,), (1,), (4, 4), 1),
    ((3, 4, 8), 3, 7, (2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 1, 1, 1, 1), 1),
    ((9, 33), 8, 70, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((11, 40), 12, 20, (2, 2), (3, 3), (1, 1), (0, 1, 2, 0), 1),
    ((8, 24), 16, 36, (5, 1), (1, 2), (1, 1), (2, 0, 2, 0), 4),
    ((5, 12), 4, 9, (3, 3), (1, 1), (1, 1), (4, 5, 4, 5), 1),
]


@pytest.mark.parametrize(("ta", "tb"), KINDS)
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_conv(case, ta, tb, level, guarded):
    spatial, c, oc, kernel, strides, dilations, pads, groups = case
    s = gemm_conv.conv_shape((2, *spatial, c), oc, kernel, strides=strides, dilations=dilations,
                        pads=pads, groups=groups)
    x = guarded(random(ta, 2, *s.in_, c))
    w = guarded(random(tb, oc, *s.kernel, s.c))
    za = np.array([5], ta)
    zb = random(tb, oc)
    bias = np.arange(oc, dtype=np.int32)
    want = np.zeros((2, *s.out, oc), np.int64) + bias
    far = [max(0, (o - 1) * st + (k - 1) * d + 1 - p - n) for n, o, k, st, d, p in
           zip(s.in_, s.out, s.kernel, s.strides, s.dilations, s.pads, strict=True)]
    wide = np.pad(x.astype(np.int64) - 5, [(0, 0), *zip(s.pads, far, strict=True), (0, 0)])
    wz = w.astype(np.int64) - zb.astype(np.int64).reshape(-1, 1, 1, 1, 1)
    for tap in itertools.product(*map(range, s.kernel)):
        window = wide[(slice(None), *(
            slice(t * d, t * d + (o - 1) * st + 1, st)
            for t, d, o, st in zip(tap, s.dilations, s.out, s.strides, strict=True)))]
        for g in range(groups):
            own = slice(g * s.oc, (g + 1) * s.oc)
            want[..., own] += window[..., g * s.c : (g + 1) * s.c] @ wz[(own, *tap)].T
    plan = gemm_int8.plan_pack_conv(s, signed=tb == np.int8)
    packed = np.full(groups * gemm_int8.packed_bytes(s.depth, s.oc, level), 0xAA, np.uint8)
    call_kernel(plan.kernel, [w, packed], plan.attrs, extent=plan.extent, level=level)
    out = guarded(np.full((2, *s.out, oc), 99, np.int32))
    quant = Quant(ta == np.int8, tb == np.int8, 1, oc)
    run(gemm_int8.plan_conv(s, quant, level=level), [x, packed, out, bias, za, zb], level, 2)
    np.testing.assert_array_equal(out, want)


def convolved(s, x, w, za, bias):
    """Sums of a convolution whose weights have no zero points."""
    far = [max(0, (o - 1) * st + (k - 1) * d + 1 - p - n) for n, o, k, st, d, p in
           zip(s.in_, s.out, s.kernel, s.strides, s.dilations, s.pads, strict=True)]
    wide = np.pad(x.astype(np.int64) - za, [(0, 0), *zip(s.pads, far, strict=True), (0, 0)])
    found = np.zeros((s.batch, *s.out, s.groups * s.oc), np.int64) + bias
    for tap in itertools.product(*map(range, s.kernel)):
        window = wide[(slice(None), *(
            slice(t * d, t * d + (o - 1) * st + 1, st)
            for t, d, o, st in zip(tap, s.dilations, s.out, s.strides, strict=True)))]
        for g in range(s.groups):
            own = slice(g * s.oc, (g + 1) * s.oc)
            found[..., own] += window[..., g * s.c : (g + 1) * s.c] @ w[(own, *tap)].astype(np.int64).T
    return found


@pytest.mark.parametrize("ta", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_conv_by_lines(case, ta, level, guarded):
    """Weights without zero points: lines of input are kept as terms, where they are whole groups."""
    spatial, c, oc, kernel, strides, dilations, pads, groups = case
    s = gemm_conv.conv_shape((2, *spatial, c), oc, kernel, strides=strides, dilations=dilations, pads=pads,
                             groups=groups)
    x, w = guarded(random(ta, 2, *s.in_, c, extreme=True)), guarded(random(np.int8, oc, *s.kernel, s.c, extreme=True))
    za, bias = random(ta, 1), np.arange(oc, dtype=np.int32)
    want = convolved(s, x, w, int(za[0]), bias)
    plan = gemm_int8.plan_pack_conv(s, signed=True)
    packed = guarded(np.full(groups * gemm_int8.packed_bytes(s.depth, s.oc, level), 0xAA, np.uint8))
    call_kernel(plan.kernel, [w, packed], plan.attrs, extent=plan.extent, level=level)
    for threads in (1, 2):
        out = guarded(np.full((2, *s.out, oc), 99, np.int32))
        quant = Quant(ta == np.int8, True, 1)
        run(gemm_int8.plan_conv(s, quant, level=level), [x, packed, out, bias, za, None], level, threads)
        np.testing.assert_array_equal(out, want)
    scale, zero = random(np.uint8, oc).astype(np.float32) / 30000, np.array([7], np.uint8)
    q = guarded(np.full((2, *s.out, oc), 99, np.uint8))
    quant = Quant(ta == np.int8, True, 1, 0, oc, OUT_U8)
    run(gemm_int8.plan_conv(s, quant, level=level), [x, packed, q, bias, za, None, scale, zero], level)
    rounded = np.rint(want.astype(np.float32) * scale) + 7
    np.testing.assert_array_equal(q, np.clip(rounded, 0, 255).astype(np.uint8))


DEPTHWISE = [
    ((9, 31), 20, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((9, 20), 150, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),
    ((6, 12), 3, (3, 9), (1, 2), (2, 1), (4, 8, 4, 8)),
    ((40,), 18, (9,), (1,), (3,), (12, 12)),
]


@pytest.mark.parametrize("zeros", ["any", "small", "one"])
@pytest.mark.parametrize(("ta", "tb"), KINDS)
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_depthwise(case, ta, tb, zeros, level, guarded):
    spatial, c, kernel, strides, dilations, pads = case
    s = gemm_conv.conv_shape((2, *spatial, c), c, kernel, strides=strides, dilations=dilations,
                        pads=pads, groups=c)
    assert gemm_int8.depthwise_fits(s)
    x = guarded(random(ta, 2, *s.in_, c, extreme=True))
    w = random(tb, *s.kernel[1:], c, extreme=True)
    za, zb, bias = random(ta, 1), random(tb, c), np.arange(c, dtype=np.int32)
    if zeros != "any":  # weights less their zero points are bytes
        middle = 128 if tb == np.uint8 else 0
        zb = np.full(c if zeros == "small" else 1, middle, tb)
        if zeros == "small":
            zb += np.arange(c, dtype=tb) % 3
            w = np.maximum(w, 2 if tb == np.uint8 else -126).astype(tb)
    w = guarded(w)
    far = [max(0, (o - 1) * st + (k - 1) * d + 1 - p - n) for n, o, k, st, d, p in
           zip(s.in_, s.out, s.kernel, s.strides, s.dilations, s.pads, strict=True)]
    wide = np.pad(x.astype(np.int64) - int(za[0]),
                  [(0, 0), *zip(s.pads, far, strict=True), (0, 0)])
    want = np.zeros((2, *s.out, c), np.int64) + bias
    for tap in itertools.product(*map(range, s.kernel)):
        window = wide[(slice(None), *(
            slice(t * d, t * d + (o - 1) * st + 1, st)
            for t, d, o, st in zip(tap, s.dilations, s.out, s.strides, strict=True)))]
        want += window * (w[tap[1:]].astype(np.int64) - zb)
    out = guarded(np.full((2, *s.out, c), 99, np.int32))
    quant = Quant(ta == np.int8, tb == np.int8, 1, zb.size)
    run(gemm_int8.plan_depthwise(s, quant, level=level), [x, w, out, bias, za, zb], level, 2)
    np.testing.assert_array_equal(out, want)
    scale, zero = random(np.uint8, c).astype(np.float32) / 10000, np.array([7], np.uint8)
    q = guarded(np.full((2, *s.out, c), 99, np.uint8))
    quant = Quant(ta == np.int8, tb == np.int8, 1, zb.size, c, OUT_U8)
    run(gemm_int8.plan_depthwise(s, quant, level=level),
        [x, w, q, bias, za, zb, scale, zero], level)
    rounded = np.rint(want.astype(np.float32) * scale) + 7
    np.testing.assert_array_equal(q, np.clip(rounded, 0, 255).astype(np.uint8))
