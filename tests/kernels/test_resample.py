"""Resizing by tables, grid sampling, region pooling, col2im."""

import itertools

import numpy as np
import pytest

from rlx.testing.kernels import KernelFailure, call_kernel

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(8)
TYPES = {"f32": np.float32, "f64": np.float64}
types = pytest.mark.parametrize("name", TYPES)


def peer(op, inputs, opset, **attrs):
    """The result of ONNX Runtime for one node."""
    helper = onnx.helper
    names = [f"x{i}" for i in range(len(inputs))]
    declared = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for n, x in zip(names, inputs, strict=True)]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "g", declared, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


@types
@pytest.mark.parametrize("taps", [1, 2, 4, 7])
@pytest.mark.parametrize(("outer", "n_in", "n_out", "inner"),
                         [(3, 5, 9, 1), (2, 5, 9, 33), (1, 1, 4, 2), (2, 7, 3, 0)])
def test_resize_axis(name, taps, outer, n_in, n_out, inner, level):
    x = RNG.standard_normal((outer, n_in, inner)).astype(TYPES[name])
    index = RNG.integers(0, n_in, (n_out, taps))
    weight = RNG.standard_normal((n_out, taps)).astype(x.dtype)
    index[1] = -1
    want = np.einsum("jt,ojti->oji", weight.astype(np.float64), x[:, index].astype(np.float64))
    want[:, 1] = 7
    attrs = {"outer": outer, "n_in": n_in, "n_out": n_out, "inner": inner, "taps": taps, "fill": 7.0}
    for threads, grain in ((1, 1), (2, 4)):
        out = np.zeros((outer, n_out, inner), x.dtype)
        call_kernel(f"resize_axis.{name}", [x, index, weight, out], attrs, extent=outer * n_out,
                    level=level, threads=threads, grain=grain)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def grid_sample(name, x, grid, level, mode, padding, align, **kw):
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    call_kernel(f"grid_sample.{name}", [x, grid, out],
                {"channels": x.shape[1], "in": x.shape[2:], "out": out.shape[2:], "mode": mode,
                 "padding": padding, "align": align},
                extent=x.shape[0] * int(np.prod(out.shape[2:-1])), level=level, **kw)
    return out


@pytest.mark.parametrize(("mode", "rank"), [(0, 2), (1, 2), (2, 2), (0, 3), (1, 3)])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(mode, rank, padding, align, level):
    sizes = (4, 5, 6)[-rank:]
    x = RNG.standard_normal((2, 3, *sizes)).astype(np.float32)
    grid = RNG.uniform(-1.7, 1.7, (2, *(3, 7, 150)[-rank:], rank)).astype(np.float32)
    want = peer("GridSample", [x, grid], 20, mode=["nearest", "linear", "cubic"][mode],
                padding_mode=["zeros", "border", "reflection"][padding], align_corners=align)
    got = grid_sample("f32", x, grid, level, mode, padding, align)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    cut = grid_sample("f32", x, grid, level, mode, padding, align, threads=2, grain=3)
    assert cut.tobytes() == got.tobytes()
    double = grid_sample("f64", x.astype(np.float64), grid.astype(np.float64), level, mode,
                         padding, align)
    assert (abs(double - want) < 1e-4).mean() > 0.99


def test_grid_sample_survives_odd_coordinates(level):
    x = np.ones((1, 1, 3, 3), np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e20, 0], np.float32)
    grid = np.stack(np.meshgrid(odd, odd), -1)[None]
    for mode, padding, align in itertools.product((0, 1, 2), (0, 1, 2), (0, 1)):
        out = grid_sample("f32", x, grid, level, mode, padding, align)
        assert np.isfinite(out).all()
        assert out[0, 0, -1, -1] == 1


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("sampling", [0, 2, 13])
def test_roi_align(mode, half, sampling, level):
    x = RNG.standard_normal((2, 3, 16, 20)).astype(np.float32)
    corner = RNG.uniform(-5, 15, (9, 2))
    rois = np.concatenate([corner, corner + RNG.uniform(0, 30, (9, 2))], 1).astype(np.float32)
    batch = RNG.integers(0, 2, 9)
    want = peer("RoiAlign", [x, rois, batch], 16, mode=mode, output_height=3, output_width=4,
                sampling_ratio=sampling, spatial_scale=0.5,
                coordinate_transformation_mode="half_pixel" if half else "output_half_pixel")
    attrs = {"batch": 2, "channels": 3, "height": 16, "width": 20, "out_h": 3, "out_w": 4,
             "sampling": sampling, "scale": 0.5, "offset": 0.5 if half else 0.0,
             "max": int(mode == "max")}
    for name, dtype in TYPES.items():
        out = np.zeros((9, 3, 3, 4), dtype)
        call_kernel(f"roi_align.{name}", [x.astype(dtype), rois.astype(dtype), batch, out], attrs,
                    extent=9, level=level, threads=2)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_roi_align_checks_its_batch_index(level):
    attrs = {"batch": 1, "channels": 1, "height": 2, "width": 2, "out_h": 1, "out_w": 1,
             "sampling": 0, "scale": 1.0, "offset": 0.5, "max": 0}
    x, out = np.ones((1, 1, 2, 2), np.float32), np.full((2, 1, 1, 1), 5, np.float32)
    rois = np.array([[0, 0, 2, 2], [np.nan, 0, 1e30, 3e38]], np.float32)
    with pytest.raises(KernelFailure) as info:
        call_kernel("roi_align.f32", [x, rois, np.array([0, 1]), out], attrs, extent=2, level=level)
    assert (info.value.value, info.value.bound, info.value.position) == (1, 1, 1)
    assert (out == 5).all()
    call_kernel("roi_align.f32", [x, rois, np.array([0, 0]), out], attrs, extent=2, level=level)
    assert out[0, 0, 0, 0] == 1


@types
@pytest.mark.parametrize("case", [
    ((5, 6), (2, 3), (1, 2), (1, 1), (0, 1), (1, 0)),
    ((7,), (3,), (2,), (2,), (2,), (1,)),
    ((4, 5, 6), (2, 2, 3), (1, 2, 1), (2, 1, 1), (0, 0, 1), (1, 0, 1)),
])
def test_col2im(name, case, level):
    image, kernel, stride, dilation, begin, end = case
    blocks = [(n + b + e - (k - 1) * d - 1) // s + 1
              for n, k, s, d, b, e in zip(image, kernel, stride, dilation, begin, end, strict=True)]
    x = RNG.standard_normal((2, 3, int(np.prod(kernel)), int(np.prod(blocks)))).astype(TYPES[name])
    want = np.zeros((2, 3, *image))
    for ik, k in enumerate(np.ndindex(*kernel)):
        for ib, block in enumerate(np.ndindex(*blocks)):
            at = [b * s - p + q * d
                  for b, s, p, q, d in zip(block, stride, begin, k, dilation, strict=True)]
            if all(0 <= a < n for a, n in zip(at, image, strict=True)):
                want[(slice(None), slice(None), *at)] += x[:, :, ik, ib]
    out = np.zeros(want.shape, x.dtype)
    call_kernel(f"col2im.{name}", [x, out],
                {"image": image, "kernel": kernel, "stride": stride, "dilation": dilation,
                 "begin": begin, "end": end}, extent=6, level=level, threads=2)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
