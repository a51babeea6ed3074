"""Tables of 256 results against NumPy."""

import numpy as np
import pytest

from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_kernel

LEVELS = available_levels()


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
