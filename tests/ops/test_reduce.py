"""Reductions too large for a sample: two steps, long sums, any thread count."""

import numpy as np
import pytest

import rlx
from rlx import ops


def _run(op: str, x: np.ndarray, axes: tuple[int, ...] | None, threads: int = 1) -> np.ndarray:
    g = rlx.Graph("g")
    v = g.input("x", x.shape, x.dtype)
    g.output("y", getattr(ops, op)(v, axes=axes))
    return rlx.compile(g, rlx.CompileOptions(threads=threads)).run({"x": x})["y"]


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_mean", "reduce_l2", "reduce_l1"])
@pytest.mark.parametrize(("shape", "axes"), [((300_007,), None), ((2, 90_001, 3), (1,)), ((100_003, 5), (0,))])
def test_few_results_of_much_data(op: str, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    one, two = _run(op, x, axes), _run(op, x, axes, threads=2)
    np.testing.assert_array_equal(one, two)
    want = getattr(ops, op).reference(x.astype(np.float64), axes=axes, keepdims=False)
    np.testing.assert_allclose(one, want, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integer_means_of_much_data(dtype: type) -> None:
    x = np.random.default_rng(0).integers(0, 100, (400_001,)).astype(dtype)
    assert _run("reduce_mean", x, None) == x.astype(np.int64).sum() // x.size


def test_mean_does_not_overflow_on_the_way() -> None:
    assert _run("reduce_mean", np.full(2, 3e38, np.float32), None) == np.float32(3e38)
    np.testing.assert_allclose(_run("reduce_mean", np.full(70_000, 1e308), None), 1e308, rtol=1e-11)
