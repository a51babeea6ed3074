"""Integer and complex products: strides, batches, wrapping, cuts of the range."""

import numpy as np
import pytest

from rlx.testing.kernels import call_kernel

TYPES = {"i8": "b1", "u8": "b1", "i16": "b2", "i32": "b4", "i64": "b8", "c64": "c64", "c128": "c128"}
NUMPY = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "c64": np.complex64, "c128": np.complex128}


def random(rng, dtype, *shape):
    if dtype[0] == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(info.min, info.max, shape, NUMPY[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 17, 5), (4, 33, 0), (2, 0, 3), (7, 9, 70)])
@pytest.mark.parametrize("trans_b", [False, True])
def test_products(dtype, m, n, k, trans_b, level):
    rng = np.random.default_rng(0)
    a, b = random(rng, dtype, 2, m, k), random(rng, dtype, k, n)
    out = np.empty((2, m, n), NUMPY[dtype])
    stored = np.ascontiguousarray(b.T) if trans_b else b
    attrs = {"M": m, "N": n, "K": k, "a_m": k, "a_k": 1, "b_k": 1 if trans_b else n, "b_n": k if trans_b else 1,
             "o_m": n, "batch": [2, m * k, 0, m * n]}
    for threads in (1, 2):
        call_kernel(
            f"matmul_plain.{TYPES[dtype]}", [a, stored, out], attrs, extent=2 * m, grain=3, threads=threads, level=level
        )
        if dtype[0] == "c":
            np.testing.assert_allclose(out, a @ b, rtol=1e-4 if dtype == "c64" else 1e-12, atol=1e-4)
        else:
            np.testing.assert_array_equal(out, a @ b)
