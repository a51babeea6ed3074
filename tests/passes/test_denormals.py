"""Input channels whose weights are denormal: scaled by powers of two, the same bits."""

import numpy as np
import pytest

import rlx
from rlx import ops


def decayed(oc: int, c: int, *kernel: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((oc, c, *kernel)).astype(np.float32)
    w[:, ::2] *= np.float32(1e-40)
    w[:, 2] = 0
    return w


def compiled(w: np.ndarray, shape: tuple[int, ...], **options: object) -> rlx.CompiledGraph:
    g = rlx.Graph("g")
    x = g.input("x", shape, rlx.f32)
    y = ops.conv(x, g.constant(w), g.constant(np.linspace(-1, 1, len(w), dtype=np.float32)))
    g.output("y", ops.relu(y))
    return rlx.compile(g, rlx.CompileOptions(threads=1, check=True, poison=True, **options))  # type: ignore[arg-type]


def moves(exe: rlx.CompiledGraph) -> bool:
    """Whether the pass found something: it adds nodes."""
    return any(after > before for name, before, after, _ in exe.explain().passes if name == "move-denormals")


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (3,)])
@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30, 0.0])
def test_the_bits_are_those_of_the_weights_as_they_are(kernel: tuple[int, ...], size: float) -> None:
    w, shape = decayed(24, 32, *kernel), (1, 32, *(9,) * len(kernel))
    x = (np.random.default_rng(1).standard_normal(shape) * size).astype(np.float32)
    moved, kept = compiled(w, shape), compiled(w, shape, disable=("move-denormals", "winograd"))
    np.testing.assert_array_equal(moved.run({"x": x})["y"], kept.run({"x": x})["y"])
    assert moves(moved) and not moves(kept)


@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
def test_products_and_transposed_convolutions(size: float) -> None:
    rng = np.random.default_rng(2)
    w = np.ascontiguousarray(decayed(24, 32).T)
    feeds = {"x": (rng.standard_normal((7, 32)) * size).astype(np.float32),
             "z": (rng.standard_normal((1, 32, 5, 5)) * size).astype(np.float32)}
    g = rlx.Graph("g")
    g.output("y", ops.matmul(g.input("x", (7, 32), rlx.f32), g.constant(w)))
    kernel = g.constant(np.repeat(w[:, :, None, None], 2, axis=3))
    g.output("u", ops.conv_transpose(g.input("z", (1, 32, 5, 5), rlx.f32), kernel))
    moved, kept = (rlx.compile(g, rlx.CompileOptions(threads=1, disable=d)) for d in ((), ("move-denormals",)))
    for name, value in kept.run(feeds).items():
        np.testing.assert_array_equal(moved.run(feeds)[name], value)
    assert moves(moved) and not moves(kept)


def test_infinities_and_nans_pass_through_the_scale() -> None:
    w, shape = decayed(8, 16, 1, 1), (1, 16, 4, 4)
    x = np.ones(shape, np.float32)
    x[0, 0, 0, 0], x[0, 0, 1, 1], x[0, 2, 2, 2] = np.inf, np.nan, np.inf
    moved, kept = compiled(w, shape), compiled(w, shape, disable=("move-denormals",))
    np.testing.assert_array_equal(moved.run({"x": x})["y"], kept.run({"x": x})["y"])


@pytest.mark.parametrize("options", [{"denormals": "zero"}, {}])
def test_where_they_count_as_zero_or_are_few_nothing_is_moved(options: dict[str, str]) -> None:
    w = decayed(24, 32, 1, 1)
    if not options:
        w[:, ::2] *= np.float32(1e20)
    exe = compiled(w, (1, 32, 9, 9), **options)
    assert not moves(exe)
