"""Convolution, channels last, against a direct sum in double precision."""

import itertools
import math

import numpy as np
import pytest

from rlx.lower import conv_first, gemm, gemm_conv
from rlx.lower.context import workspaces
from rlx.runtime import kernels
from rlx.testing.kernels import call_kernel

DTYPES = {"f32": np.float32, "f64": np.float64}
TOLERANCE = {"f32": 3e-6, "f64": 1e-14}


def random(*shape, dtype="f32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(DTYPES[dtype])


def reference(x, w, s):
    """x [N, D, H, W, G C], w [G OC, kd, kh, kw, C] -> [N, od, oh, ow, G OC], tap by tap."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    far = [
        max(0, (o - 1) * st + (k - 1) * d + 1 - p - n)
        for n, o, k, st, d, p in zip(s.in_, s.out, s.kernel, s.strides, s.dilations, s.pads,
                                     strict=True)
    ]
    pads = list(zip(s.pads, far, strict=True))
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    out = np.zeros((s.batch, *s.out, s.groups * s.oc))
    for tap in itertools.product(*map(range, s.kernel)):
        window = x[(slice(None), *(
            slice(t * d, t * d + (o - 1) * st + 1, st)
            for t, d, o, st in zip(tap, s.dilations, s.out, s.strides, strict=True)))]
        for g in range(s.groups):
            a = window[..., g * s.c : (g + 1) * s.c]
            out[..., g * s.oc : (g + 1) * s.oc] += a @ w[(slice(g * s.oc, (g + 1) * s.oc), *tap)].T
    return out


def convolve(s, x, w, level, dtype="f32", bias=None, threads=1, grain=None, out=None, **options):
    pack = gemm_conv.plan_pack_conv(s, dtype=dtype, level=level)
    size = s.groups * gemm.packed_bytes(s.depth, s.oc, dtype, level) // x.itemsize
    packed = np.full(size, np.nan, x.dtype)
    call_kernel(pack.kernel, [w, packed], pack.attrs, extent=pack.extent, level=level)
    plan = gemm_conv.plan_conv(s, dtype=dtype, level=level, **options)
    if out is None:
        out = np.full((s.batch, *s.out, s.groups * s.oc), np.nan, x.dtype)
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8) if plan.workspace else None
    call_kernel(plan.kernel, [x, packed, out, bias, work], plan.attrs, extent=plan.extent,
                threads=threads, grain=grain or plan.grain, level=level)
    return out, plan


def check(out, x, w, s, dtype="f32", bias=None):
    extra = 0 if bias is None else bias.astype(np.float64)
    want = reference(x, w, s) + extra
    size = reference(np.abs(x), np.abs(w), s) + np.abs(extra) + 1e-30
    assert not np.isnan(out).any()
    assert (np.abs(out - want) <= TOLERANCE[dtype] * size).all()


# spatial, C, OC, kernel, strides, dilations, pads, groups
CASES = [
    ((9, 40), 3, 16, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    ((12, 33), 8, 33, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((5, 5), 130, 17, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((20, 31), 3, 20, (7, 7), (2, 2), (1, 1), (3, 3, 2, 4), 1),
    ((7, 7), 16, 24, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((8, 31), 16, 24, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    ((11, 30), 6, 5, (3, 2), (1, 2), (2, 3), (2, 0, 1, 5), 1),
    ((10, 18), 12, 8, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
    ((6, 6), 4, 4, (5, 5), (1, 1), (1, 1), (4, 4, 4, 4), 1),
    ((4, 3), 5, 3, (1, 1), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((900,), 1, 12, (400,), (160,), (1,), (0, 0), 1),
    ((60,), 20, 12, (3,), (1,), (1,), (1, 1), 2),
    ((300,), 80, 24, (3,), (2,), (1,), (1, 1), 1),
    ((4, 5, 16), 3, 7, (2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 1, 1, 1, 1), 1),
    ((1, 1), 4, 4, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((3, 3), 1, 1, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
]


def shape_of(case, batch):
    spatial, c, oc, kernel, strides, dilations, pads, groups = case
    return gemm_conv.conv_shape((batch, *spatial, c), oc, kernel, strides=strides, dilations=dilations,
                           pads=pads, groups=groups)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv(case, dtype, level, guarded):
    for batch in (1, 3):
        s = shape_of(case, batch)
        x = guarded(random(batch, *s.in_, s.groups * s.c, dtype=dtype))
        w = guarded(random(s.groups * s.oc, *s.kernel, s.c, dtype=dtype))
        bias = guarded(random(s.groups * s.oc, dtype=dtype)) if batch == 3 else None
        out = guarded(np.full((batch, *s.out, s.groups * s.oc), np.nan, x.dtype))
        convolve(s, x, w, level, dtype, bias, out=out)
        check(out, x, w, s, dtype, bias)


def test_tiles_and_gathers_agree(level):
    """A pixel's bits do not depend on whether its tile was gathered, nor on threads and cuts."""
    s = gemm_conv.conv_shape((1, 6, 64, 5), 40, (3, 3), pads=(1, 1, 1, 1))
    x, w = random(1, 1, 6, 64, 5), random(40, 1, 3, 3, 5)
    x[:] = x[:, :, :, :1]  # the same input at each column
    out, plan = convolve(s, x, w, level)
    assert (out[..., 1:-1, :] == out[..., 1:2, :]).all()
    assert plan.extent >= 1
    for spatial in [(30, 60), (1, 2000)]:
        s = gemm_conv.conv_shape((2, *spatial, 24), 40, (3, 3), pads=(1, 1, 1, 1))
        x, w = random(2, 1, *spatial, 24), random(40, 1, 3, 3, 24)
        one, plan = convolve(s, x, w, level)
        assert plan.extent > 2
        assert (one == convolve(s, x, w, level, threads=2)[0]).all()
        assert (one == convolve(s, x, w, level, threads=2, grain=3)[0]).all()
        check(one, x, w, s)


def test_channel_slices_and_clamp(level):
    """Input and output are channel slices of wider tensors."""
    s = gemm_conv.conv_shape((1, 10, 20, 6), 9, (3, 3), pads=(1, 1, 1, 1))
    wide, w, bias = random(1, 1, 10, 20, 10), random(9, 1, 3, 3, 6), random(9)
    out = np.full((1, 1, 10, 20, 12), 99, np.float32)
    convolve(s, wide, w, level, bias=bias, out=out, ldi=10, ldo=12, clamp=(0.0, 6.0))
    assert (out[..., 9:] == 99).all()
    want = np.clip(reference(wide[..., :6], w, s) + bias, 0, 6)
    np.testing.assert_allclose(out[..., :9], want, rtol=1e-4, atol=1e-4)


def test_empty(level):
    for case in [((0, 5), 3, 4, (1, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
                 ((5, 5), 3, 4, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1)]:
        s = shape_of(case, 0 if case[0][0] else 1)
        out, plan = convolve(s, random(s.batch, *s.in_, 3), random(4, *s.kernel, 3), level)
        assert plan.extent == 0
        assert out.size == 0


# spatial, channels, multiplier, kernel, strides, dilations, pads
DEPTHWISE = [
    ((8, 31), 35, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((9, 29), 16, 1, (3, 3), (2, 2), (1, 1), (0, 1, 1, 0)),
    ((14, 14), 40, 1, (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    ((6, 12), 3, 1, (5, 9), (1, 2), (1, 1), (4, 8, 4, 8)),
    ((7, 20), 17, 1, (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)),
    ((6, 9), 5, 3, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((50,), 18, 1, (31,), (1,), (1,), (15, 15)),
    ((4, 5, 6), 20, 1, (2, 3, 3), (1, 2, 1), (1, 1, 1), (1, 0, 1, 0, 1, 1)),
    ((1, 1), 4, 1, (3, 3), (1, 1), (1, 1), (2, 2, 2, 2)),
    ((5, 70), 33, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    # lines between zeros: blocks of rows, steps, dilation, more padding than lines, a result of one row
    ((40, 56), 37, 1, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    ((7, 7), 48, 1, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    ((50, 31), 17, 1, (7, 5), (2, 3), (1, 1), (3, 2, 2, 0)),
    ((30, 40), 16, 1, (6, 6), (1, 1), (3, 2), (8, 5, 7, 5)),
    ((3, 2), 5, 1, (9, 9), (1, 1), (1, 1), (20, 20, 20, 20)),
    ((7, 9), 20, 1, (7, 9), (1, 1), (1, 1), (0, 0, 0, 0)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_depthwise(case, dtype, level, guarded):
    spatial, c, multiplier, kernel, strides, dilations, pads = case
    s = gemm_conv.conv_shape((2, *spatial, c), c * multiplier, kernel, strides=strides,
                        dilations=dilations, pads=pads, groups=c)
    x = guarded(random(2, *s.in_, c, dtype=dtype))
    w = random(c * multiplier, *s.kernel, 1, dtype=dtype)
    lying = guarded(np.moveaxis(w[..., 0], 0, -1))
    bias = guarded(random(c * multiplier, dtype=dtype))
    for b, clamp, threads in [(None, None, 1), (bias, (-1.0, 1.0), 2)]:
        plan = gemm_conv.plan_depthwise(s, dtype=dtype, clamp=clamp, level=level)
        out = guarded(np.full((2, *s.out, c * multiplier), np.nan, x.dtype))
        work = guarded(np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)) if plan.workspace else None
        assert work is None or dtype == "f32"
        call_kernel(plan.kernel, [x, lying, out, b, work], plan.attrs, extent=plan.extent,
                    threads=threads, level=level)
        if clamp is None:
            check(out, x, w, s, dtype)
        else:
            want = np.clip(reference(x, w, s) + b, -1, 1)
            np.testing.assert_allclose(out, want, atol=1e-4)


@pytest.mark.parametrize("case", DEPTHWISE[-6:], ids=str)
def test_depthwise_of_planes(case, level, guarded):
    """Channels first, with limits and an epilogue; a vector of channels that is not full, images, threads."""
    spatial, c, _, kernel, strides, dilations, pads = case
    s = gemm_conv.conv_shape((2, *spatial, c), c, kernel, strides=strides, dilations=dilations, pads=pads, groups=c)
    x, w, bias = guarded(random(2, c, *s.in_)), random(c, *s.kernel, 1), guarded(random(c))
    lying, full = guarded(np.moveaxis(w[..., 0], 0, -1)), guarded(random(2, c, *s.out))
    assert not math.prod(kernel) > 25 or gemm_conv.framed(s, level)[0]
    want = np.moveaxis(np.clip(reference(np.moveaxis(x, 1, -1), w, s) + bias, -1, 1), -1, 1) + full
    steps = [gemm.Step(kernels.table(level).ew("add.f32").address, gemm.EPI_FULL, 5, math.prod(s.out))]
    plan = conv_first.plan_planes(s, clamp=(-1.0, 1.0), steps=steps, level=level)
    for threads, grain in ((1, plan.grain), (2, 1)):
        out = guarded(np.full(want.shape, np.nan, np.float32))
        work = guarded(np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8))
        call_kernel(plan.kernel, [x, lying, out, bias, work, full], plan.attrs, extent=plan.extent, grain=grain,
                    threads=threads, level=level)
        np.testing.assert_allclose(out, want, atol=1e-4)


# spatial, C, OC, kernel, strides, dilations, pads, output padding, groups
TRANSPOSED = [
    ((5, 9), 6, 20, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (0, 0), 1),
    ((4, 30), 8, 17, (4, 4), (2, 2), (1, 1), (1, 1, 1, 1), (0, 0), 1),
    ((6, 7), 4, 6, (3, 3), (2, 1), (1, 1), (1, 0, 0, 1), (1, 0), 2),
    ((5, 5), 3, 5, (3, 2), (3, 4), (2, 3), (1, 0, 2, 1), (0, 0), 1),
    ((40,), 5, 18, (16,), (8,), (1,), (4, 4), (0,), 1),
    ((7,), 700, 3, (3,), (2,), (2,), (1, 1), (1,), 1),
    ((2, 3, 4), 3, 4, (2, 3, 2), (2, 1, 2), (1, 2, 1), (0, 1, 0, 1, 1, 0), (0, 0, 1), 1),
    ((1, 1), 2, 3, (1, 1), (3, 3), (1, 1), (0, 0, 0, 0), (2, 1), 1),
    ((9, 21), 24, 1, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (0, 0), 1),
    ((5, 11), 3, 3, (3, 2), (2, 2), (1, 1), (1, 0, 0, 0), (0, 0), 1),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_conv_transpose(case, dtype, level, guarded):
    spatial, c, oc, kernel, strides, dilations, pads, extra, groups = case
    s = gemm_conv.conv_transpose_shape((2, *spatial, c), oc, kernel, strides=strides, groups=groups,
                                  dilations=dilations, pads=pads, output_padding=extra)
    x = guarded(random(2, *s.in_, c, dtype=dtype))
    w = guarded(random(oc, *s.kernel, s.c, dtype=dtype))
    bias = guarded(random(oc, dtype=dtype))

    def scatter(x, w):
        full = np.zeros((2, *((n - 1) * st + (k - 1) * d + 1 + 9 for n, st, k, d in
                              zip(s.in_, s.strides, s.kernel, s.dilations, strict=True)), oc))
        for tap in itertools.product(*map(range, s.kernel)):
            at = (slice(None), *(slice(t * d, t * d + (n - 1) * st + 1, st) for t, d, n, st in
                                 zip(tap, s.dilations, s.in_, s.strides, strict=True)))
            for g in range(groups):
                own = slice(g * s.oc, (g + 1) * s.oc)
                a = x[..., g * s.c : (g + 1) * s.c].astype(np.float64)
                full[(*at, own)] += a @ w[(own, *tap)].T.astype(np.float64)
        crop = (slice(None), *(slice(p, p + o) for p, o in zip(s.pads, s.out, strict=True)))
        return full[crop]

    plan = gemm_conv.plan_pack_conv_transpose(s, dtype=dtype, level=level)
    size = gemm_conv.conv_transpose_packed_bytes(s, dtype=dtype, level=level)
    assert size <= groups * gemm.packed_bytes(s.depth, s.oc, dtype, level)
    packed = np.full(size // x.itemsize, np.nan, x.dtype)
    call_kernel(plan.kernel, [w, packed], plan.attrs, extent=plan.extent, level=level, threads=2)
    plan = gemm_conv.plan_conv_transpose(s, dtype=dtype, level=level)
    for threads in (1, 2):
        out = guarded(np.full((2, *s.out, oc), np.nan, x.dtype))
        work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)
        call_kernel(plan.kernel, [x, guarded(packed), out, bias, work], plan.attrs,
                    extent=plan.extent, threads=threads, level=level)
        size = scatter(np.abs(x), np.abs(w)) + np.abs(bias) + 1e-30
        assert not np.isnan(out).any()
        assert (np.abs(out - (scatter(x, w) + bias)) <= TOLERANCE[dtype] * size).all()


KINDS = ["conv", "depthwise", "framed", "transpose", "merged"]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_epilogue(kind, narrow, level):
    """Operands of each kind meet the right elements; the last step may narrow to f16."""
    ew = kernels.table(level).ew
    c, oc, ldo = 20, 20 if kind in ("depthwise", "framed") else 35, 40
    groups = c if kind in ("depthwise", "framed") else 1
    if kind == "merged":
        ldo = oc = 3
        s = gemm_conv.conv_transpose_shape((2, 9, 31, c), oc, (2, 2), strides=(2, 2))
    else:
        shape = gemm_conv.conv_transpose_shape if kind == "transpose" else gemm_conv.conv_shape
        k = 7 if kind == "framed" else 3
        s = shape((2, 9, 31, c), oc, (k, k), strides=(2, 2), pads=(k // 2,) * 4, groups=groups)
    x, w = random(2, 1, 9, 31, c), random(oc, *s.kernel, s.c)
    bias, row = random(oc), random(oc) + 1
    full = random(s.rows, oc + 3)
    same = random(s.rows, ldo)
    plan, pack = {
        "conv": (gemm_conv.plan_conv, gemm_conv.plan_pack_conv),
        "depthwise": (gemm_conv.plan_depthwise, None),
        "framed": (gemm_conv.plan_depthwise, None),
        "transpose": (gemm_conv.plan_conv_transpose, gemm_conv.plan_pack_conv_transpose),
        "merged": (gemm_conv.plan_conv_transpose, gemm_conv.plan_pack_conv_transpose),
    }[kind]
    if pack is None:
        packed = np.ascontiguousarray(np.moveaxis(w[..., 0], 0, -1))
    else:
        job = pack(s, level=level)
        packed = np.full(gemm.packed_bytes(s.depth, s.oc, level=level) // 4, np.nan, np.float32)
        call_kernel(job.kernel, [w, packed], job.attrs, extent=job.extent, level=level)

    def call(steps, out, out_size=4, operands=(), threads=1):
        job = plan(s, ldo=ldo, steps=steps, out_size=out_size, level=level)
        work = np.full(max(64, job.workspace * workspaces(threads)), 0xFF, np.uint8)
        call_kernel(job.kernel, [x, packed, out, bias, work, *operands], job.attrs,
                    extent=job.extent, threads=threads, level=level)

    plain = np.full((s.rows, ldo), 99, np.float32)
    call([], plain)
    assert (plain[:, oc:] == 99).all()
    want = (plain[:, :oc] * row + full[:, :oc]) + same[:, :oc]
    steps = [
        gemm.Step(ew("mul.f32").address, gemm.EPI_ROW, 5),
        gemm.Step(ew("add.f32").address, gemm.EPI_FULL, 6, oc + 3),
        gemm.Step(ew("add.f32").address, gemm.EPI_SAME, 7),
    ]
    if narrow:
        steps.append(gemm.Step(ew("cast_f16.f32").address))
        want = want.astype(np.float16)
    for threads in (1, 2):
        out = np.full((s.rows, ldo), 99, want.dtype)
        call(steps, out, want.itemsize, [row, full, same], threads)
        np.testing.assert_array_equal(out[:, :oc], want)
        assert (out[:, oc:] == 99).all()


@pytest.mark.parametrize("axes", [(40, 1), (1, 40), (40, 1, 1), (1, 40, 1)])
@pytest.mark.parametrize(("stride", "dilation", "pads"), [(1, 1, (0, 0)), (2, 1, (2, 1)), (1, 3, (4, 4))])
def test_a_line_is_read_alike_along_any_axis(axes, stride, dilation, pads, level):
    """Axes of one pixel change neither plan nor bits."""
    x, w, bias = random(2, 40, 6), random(20, 5, 6), random(20)
    line = gemm_conv.conv_shape(x.shape, 20, (5,), strides=(stride,), dilations=(dilation,), pads=pads)
    want, plan = convolve(line, x, w, level, bias=bias)
    check(want, x.reshape(2, *line.in_, 6), w.reshape(20, *line.kernel, 6), line, bias=bias)

    def spread(value, fill):
        return tuple(value if n > 1 else fill for n in axes)

    s = gemm_conv.conv_shape((2, *axes, 6), 20, spread(5, 1), strides=spread(stride, 1), dilations=spread(dilation, 1),
                             pads=spread(pads[0], 0) + spread(pads[1], 0))
    out, other = convolve(s, x, w, level, bias=bias)
    assert plan == other or plan.attrs == other.attrs
    np.testing.assert_array_equal(out.reshape(want.shape), want)
