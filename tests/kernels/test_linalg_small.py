"""det and inverse against NumPy."""

import numpy as np
import pytest

from rlx.lower.context import workspaces
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = available_levels()


def run(kind, x, level=None, threads=1):
    n = x.shape[-1]
    y = np.full(x.shape[:1] if kind == "det" else x.shape, 7, x.dtype)
    size = max(8, n * n * 16)
    call_kernel(f"{kind}.{'f32' if x.dtype == np.float32 else 'f64'}",
                [x, y, np.zeros(size * workspaces(threads), np.uint8)], {"n": n, "ws": size}, extent=len(x),
                level=level, threads=threads)
    return y


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 16, 33])
def test_numpy(n, dtype, level):
    x = np.random.default_rng(n).normal(0, 1, (5, n, n)).astype(dtype)
    wide = x.astype(np.float64)
    rtol = 1e-6 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(run("det", x, level, 2), np.linalg.det(wide), rtol=rtol)
    inverse = run("inverse", x, level, 2)
    want = np.linalg.inv(wide)
    np.testing.assert_allclose(inverse, want, rtol=rtol, atol=rtol * np.abs(want).max(initial=0))


def test_singular_and_nonfinite():
    x = np.array([[[1.0, 2], [3, 4]], [[1, 2], [2, 4]], [[np.nan, 1], [1, 1]], [[0, 1], [1, 0]]])
    det = run("det", x)
    np.testing.assert_allclose(det, [-2, 0, np.nan, -1])
    with pytest.raises(KernelFailure, match="status 4, value 2, bound 1"):
        run("inverse", x)
    with pytest.raises(KernelFailure, match="status 5, value 0, bound 0"):
        run("inverse", x[2:3])
    np.testing.assert_array_equal(run("inverse", x[3:]), x[3:])
