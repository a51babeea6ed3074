"""Steps of elementwise regions: pairs in one step, limits as clips; the bits are those of single ops."""

import itertools

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.lower import region

ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3e38, -1.5]
NAMES = ("add", "sub", "mul")


def data(n: int, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).astype(dtype)
    x[rng.integers(0, n, 3 * len(ODD))] = np.array(ODD * 3, dtype)
    return x


def run(build, arrays, **options):
    g = rlx.Graph("g")
    result = build(*(g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)))
    for i, v in enumerate(result if isinstance(result, tuple) else (result,)):
        g.output(f"y{i}", v)
    exe = rlx.compile(g, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    return exe, [exe.run(feeds)[f"y{i}"] for i in range(len(g.outputs))]


def same(build, arrays):
    exe, got = run(build, arrays)
    _, want = run(build, arrays, optimize=False)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (np.signbit(a) == np.signbit(b))[~np.isnan(a)].all()
    return exe


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(NAMES, NAMES)))
def test_two_operations_in_one_step_round_twice(first: str, second: str, dtype: str) -> None:
    arrays = [data(1003, dtype, i) for i in range(3)]
    one, two = getattr(ops, first), getattr(ops, second)
    same(lambda x, y, z: two(one(x, y), z), arrays)
    same(lambda x, y, z: two(z, one(x, y)), arrays)
    same(lambda x, y, z: ops.abs(two(one(x, y), ops.sqrt(ops.abs(z)))), arrays)


def test_a_value_with_two_readers_or_that_leaves_stays_a_step_of_its_own() -> None:
    arrays = [data(777, "f4", i) for i in range(3)]

    def net(x, y, z):
        a = x * y
        b = a + z
        c = b - x
        return c * c, b, (a - y) * z

    same(net, arrays)


def test_long_chains_and_broadcast_operands() -> None:
    arrays = [data(60, "f4", 1).reshape(4, 15), data(15, "f4", 2), data(4, "f4", 3).reshape(4, 1)]

    def net(x, row, column):
        y = x
        for _ in range(4):
            y = (y * row + column) - (x - row) * column
        return y * 0.5 + 1.0

    same(net, arrays)


def test_far_operands_are_read_once_each() -> None:
    arrays = [np.arange(1 << 19, dtype=np.float32), np.ones(1 << 19, np.float32)]
    _, (got,) = run(lambda x, y: ops.abs(x * y + y) - x, arrays)
    np.testing.assert_array_equal(got, np.abs(arrays[0] + 1) - arrays[0])


@pytest.mark.parametrize("limits", [(-4.0, 4.0), (0.0, 1.0), (-0.0, 2.0), (3.0, -3.0), (0.1, np.inf)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_limits_are_clips(limits: tuple[float, float], dtype: str) -> None:
    x = data(999, dtype, 5)
    lo, hi = (np.asarray(v, dtype) for v in limits)
    exe = same(lambda v: ops.max(ops.min(v * 2.0, hi), lo), [x])
    same(lambda v: ops.min(hi, ops.max(lo, v * 2.0)), [x])
    same(lambda v: ops.clip(ops.clip(v * 2.0, lo=limits[0], hi=limits[1]), lo=-1.0, hi=1.0), [x])
    assert exe.explain().kernels == {"region.ew": 1}


def test_max_with_nan_stays_a_max() -> None:
    exe = same(lambda v: ops.max(v, np.float32(np.nan)), [data(99, "f4", 6)])
    assert exe.explain().kernels == {"region.ew": 1}


FUNCTIONS = ("exp", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh")


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("before", ["add", "mul", None])
@pytest.mark.parametrize("after", ["add", "mul", None])
def test_a_function_and_what_stands_beside_it_are_one_step_and_round_apart(
    function, before, after, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noted(node, firsts):
        made.append(step(node, firsts)[0])
        return step(node, firsts)

    step = region._step
    monkeypatch.setattr(region, "_step", noted)
    x, y, z = (data(1003, "f4", i) for i in range(3))

    def net(x, y, z):
        v = getattr(ops, before)(x, y) if before else x
        v = getattr(ops, function)(v)
        return getattr(ops, after)(z, v) if after else v

    same(net, [x, y, z])
    if before or after:
        assert "_".join(part for part in (before, function, after) if part) + ".f32" in made


def test_functions_take_sums_that_are_not_pairs_themselves() -> None:
    arrays = [data(777, "f4", i) for i in range(3)]
    same(lambda x, y, z: ops.tanh(x * y + z) * z + x, arrays)
    same(lambda x, y, z: ops.silu(x + y) * ops.sigmoid(x + y) + z, arrays)
    same(lambda x, y, z: ops.exp(x * x) * ops.exp(x * x), arrays)


def test_gelu_far_below_zero_does_not_depend_on_its_neighbours() -> None:
    x = np.linspace(-9, 9, 4096, dtype=np.float32)
    (whole,) = run(lambda v: ops.gelu(v), [x])[1]
    for stretch in (x[::7], x[x > -5], x[x < -6], np.float32([-6, 1, -5.9999995, -6.0000005])):
        (got,) = run(lambda v: ops.gelu(v), [np.ascontiguousarray(stretch)])[1]
        near = np.isin(stretch, x)
        np.testing.assert_array_equal(got[near], whole[np.isin(x, stretch[near])])
def quantised(x, scale, zero, dtype):
    return ops.cast(ops.round(x / scale) + zero, dtype=dtype)


@pytest.mark.parametrize("dtype", [rlx.i8, rlx.u8, rlx.i16, rlx.u16])
def test_a_quantisation_is_one_step(dtype: rlx.DType) -> None:
    arrays = [data(1003, "f4", 1), np.float32(0.03), np.float32(5)]
    exe = same(lambda x, s, z: quantised(ops.relu(x), s, z, dtype), arrays)
    text = str(exe._variant.compiled.program)
    assert f"&quantize_{dtype.name}.f32" in text and "&div.f32" not in text
    same(lambda x, s, z: ops.cast(z + ops.round(x / s), dtype=dtype), arrays)


def test_a_part_of_a_quantisation_that_leaves_is_a_step_of_its_own() -> None:
    arrays = [data(1003, "f4", 2), np.float32(0.03), np.float32(5)]

    def net(x, s, z):
        quotient = x / s
        moved = ops.round(quotient) + z
        return ops.cast(moved, dtype=rlx.i8), moved, ops.cast(ops.round(quotient) + z * 2.0, dtype=rlx.u8)

    exe = same(net, arrays)
    assert "&quantize_" not in str(exe._variant.compiled.program)


def test_functions_are_not_taken_for_comparisons_when_their_cost_is_estimated() -> None:
    weights = {name: region.weight_of_op(name) for name in (*FUNCTIONS, "erf", "log", "sin")}
    assert set(weights.values()) == {region.FUNCTION}
    assert {region.weight_of_op(name) for name in ("ge", "lt", "add", "relu", "leaky_relu")} == {0.06}
