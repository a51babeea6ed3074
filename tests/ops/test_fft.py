"""Helpers around Fourier transforms: ONNX's DFT, several axes, windows."""

import numpy as np
import pytest

import rlx
from rlx import ops


def run(build, x):
    graph = rlx.Graph("g")
    graph.output("y", build(graph.input("x", x.shape, x.dtype)))
    return rlx.compile(graph).run({"x": x})["y"]


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def test_dft_of_onnx():
    rng = np.random.default_rng(0)
    real, both = rng.standard_normal((2, 12, 5, 1)), rng.standard_normal((2, 12, 5, 2))
    z = both[..., 0] + 1j * both[..., 1]
    np.testing.assert_allclose(
        run(lambda x: ops.dft(x, axis=1), real), pairs(np.fft.fft(real[..., 0], axis=1)), atol=1e-12
    )
    np.testing.assert_allclose(run(lambda x: ops.dft(x, n=16), both), pairs(np.fft.fft(z, 16, axis=2)), atol=1e-12)
    np.testing.assert_allclose(
        run(lambda x: ops.dft(x, axis=1, inverse=True), both), pairs(np.fft.ifft(z, axis=1)), atol=1e-12
    )
    np.testing.assert_allclose(
        run(lambda x: ops.dft(x, axis=1, onesided=True), real), pairs(np.fft.rfft(real[..., 0], axis=1)), atol=1e-12
    )
    half = pairs(np.fft.rfft(real[..., 0], axis=1))
    np.testing.assert_allclose(run(lambda x: ops.dft(x, axis=1, inverse=True, onesided=True), half), real, atol=1e-12)


def test_several_axes():
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    np.testing.assert_allclose(run(lambda v: ops.fftn(v, axes=(0, 2)), x), np.fft.fftn(x, axes=(0, 2)), atol=1e-12)
    np.testing.assert_allclose(run(lambda v: ops.fftn(ops.fftn(v), inverse=True), x), x, atol=1e-12)


@pytest.mark.parametrize("kind", ["hann", "hamming", "blackman"])
def test_windows(kind):
    n = 10
    full = ops.window(kind, n, dtype=np.float64)
    np.testing.assert_allclose(ops.window(kind, n + 1, periodic=False, dtype=np.float64)[:n], full, atol=1e-15)
    if kind != "hamming":
        np.testing.assert_allclose(full, {"hann": np.hanning, "blackman": np.blackman}[kind](n + 1)[:n], atol=1e-15)
