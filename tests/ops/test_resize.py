"""Resizing against the reference of ONNX, and reported faults of others."""

import itertools

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.ops.resize import COORDINATES, NEAREST

resize_reference = pytest.importorskip("onnx.reference.ops.op_resize")


def _run(x: np.ndarray, **attrs: object) -> np.ndarray:
    g = rlx.Graph("g")
    g.output("y", ops.resize(g.input("x", x.shape, x.dtype), **attrs))
    return rlx.compile(g).run({"x": x})["y"]


def test_half_pixel_tie_goes_up() -> None:
    x = np.arange(20, dtype=np.float32)
    got = _run(x, scales=(0.3,), nearest_mode="round_prefer_ceil")
    np.testing.assert_array_equal(got, [1, 5, 8, 11, 15, 18])
    np.testing.assert_array_equal(_run(x, sizes=(6,), nearest_mode="round_prefer_ceil"), got)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_pytorch_half_pixel_of_one_result_is_the_first_element(mode: str) -> None:
    x = np.array([3.0, 5.0, 9.0], np.float32)
    got = _run(x, sizes=(1,), mode=mode, coordinate_transformation_mode="pytorch_half_pixel")
    np.testing.assert_allclose(got, [3.0], rtol=1e-6)


@pytest.mark.parametrize("where", [c for c in COORDINATES if c not in ("tf_half_pixel_for_nn", "tf_crop_and_resize")])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_equals_the_onnx_reference(mode: str, where: str) -> None:
    r = resize_reference
    x = np.random.default_rng(0).standard_normal((1, 1, 6, 7)).astype(np.float32)
    for k, scales in enumerate([(1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 0.5, 0.8), (1.0, 1.0, 1.7, 0.6)]):
        nearest = NEAREST[k % 4]
        attrs = {"coordinate_transformation_mode": where, "cubic_coeff_a": -0.5}
        if mode == "nearest":
            attrs["nearest_mode"] = nearest

        def coeffs(ratio: float, scale: float, nearest: str = nearest) -> np.ndarray:
            if mode == "nearest":
                return r._nearest_coeffs(ratio, mode=nearest)
            return r._linear_coeffs(ratio, scale) if mode == "linear" else r._cubic_coeffs(ratio, scale, A=-0.5)

        want = r._interpolate_nd(x, coeffs, scale_factors=np.array(scales), coordinate_transformation_mode=where)
        got = _run(x, mode=mode, scales=scales, **attrs)
        assert got.shape == want.shape
        if where == "pytorch_half_pixel" and 1 in got.shape[2:]:
            continue
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{mode} {where} {scales}")


@pytest.mark.parametrize(("mode", "outside"), list(itertools.product(["linear", "cubic"], [False, True])))
def test_antialias_equals_the_onnx_reference(mode: str, outside: bool) -> None:
    r = resize_reference
    x = np.random.default_rng(0).standard_normal((1, 1, 9, 7)).astype(np.float32)
    functions = {"linear": r._linear_coeffs_antialias, "cubic": r._cubic_coeffs_antialias}
    for scales in [(1.0, 1.0, 0.6, 0.8), (1.0, 1.0, 0.4, 2.0)]:
        want = r._interpolate_nd(x, functions[mode], scale_factors=np.array(scales), exclude_outside=outside)
        got = _run(x, mode=mode, scales=scales, antialias=True, exclude_outside=outside)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
