"""Zero sizes, windows, indices, repeated and hostile ones (A67 to A89, R-34, R-35, R-63 to R-68, R-86, R-87)."""

import numpy as np
import pytest

import rlx
from rlx import ops


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a67_a68_products_of_nothing(every_way):
    assert every_way(lambda a, b: a @ b, f32(0, 3), f32(3, 4)).shape == (0, 4)
    assert every_way(lambda a, b: a @ b, f32(2, 0), f32(0, 3)).tolist() == [[0] * 3] * 2
    assert every_way(lambda a, w, c: ops.gemm(a, w, c), f32(0, 3), f32(3, 4), f32(4)).shape == (0, 4)
    assert every_way(lambda a, b: a * b, f32(0, 3), f32(3)).shape == (0, 3)


def test_a73_nearest_of_a_tie(every_way):
    got = every_way(lambda x: ops.resize(x, sizes=[1, 1, 6], nearest_mode="round_prefer_ceil"),
                    np.arange(20, dtype=np.float32).reshape(1, 1, 20))
    assert got[0, 0, 4] == 15


def test_a74_pytorch_half_pixel_of_length_one(every_way):
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    got = every_way(lambda x: ops.resize(x, sizes=[1, 1, 1], mode="linear",
                                         coordinate_transformation_mode="pytorch_half_pixel"), x)
    assert got.item() == 0  # the text: coordinate 0


def test_a76_a77_windows_of_ceil_mode(every_way):
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    got = every_way(lambda x: ops.avg_pool(x, kernel=(3, 3), strides=(2, 2), ceil_mode=True), x)
    assert got[0, 0].tolist() == [[6, 7.5], [12, 13.5]]
    for n, k, s, pad in ((4, 2, 3, 1), (5, 2, 3, 1), (3, 2, 2, 1)):
        y = np.ones((1, 1, n), np.float32)
        for op in (ops.max_pool, ops.avg_pool):
            got = every_way(lambda x, op=op, k=k, s=s, p=pad: op(x, kernel=(k,), strides=(s,), pads=(p, p),
                                                                 ceil_mode=True), y)
            assert got.size and (got == 1).all()  # no window lies wholly in the padding


def test_r68_means_divide_by_what_is_there(every_way):
    x = np.ones((1, 1, 3, 3), np.float32)
    inside = every_way(lambda x: ops.avg_pool(x, kernel=(3, 3), pads=(1, 1, 1, 1)), x)
    whole = every_way(lambda x: ops.avg_pool(x, kernel=(3, 3), pads=(1, 1, 1, 1), count_include_pad=True), x)
    assert (inside == 1).all() and whole[0, 0, 0, 0] == pytest.approx(4 / 9)


def test_a82_negative_indices_count_from_the_end(every_way):
    x = f32(3, 3)
    np.testing.assert_array_equal(every_way(ops.gather, x, np.array([0, -1])), x[[0, 2]])


@pytest.mark.parametrize("index", [12, -13, 2**40, -(2**40)])
def test_a83_a85_r64_an_index_outside_is_an_error_with_its_values(index):
    for optimize in (True, False):
        for build in (
            lambda x, i, u: ops.gather(x, i, name="pick"),
            lambda x, i, u: ops.gather_elements(x, i, name="pick"),
            lambda x, i, u: ops.scatter_elements(x, i, u, name="pick"),
            lambda x, i, u: ops.scatter_nd(x, ops.reshape(i, shape=(1, 1)), u, name="pick"),
        ):
            g = rlx.Graph("g")
            y = build(g.input("x", (12,), rlx.f32), g.input("i", (1,), rlx.i64), g.input("u", (1,), rlx.f32))
            g.output("y", y)
            exe = rlx.compile(g, rlx.CompileOptions(optimize=optimize))
            x = np.arange(12, dtype=np.float32)
            feeds = {"x": x, "i": np.array([index]), "u": np.float32([7])}
            with pytest.raises(rlx.ExecutionError) as error:
                exe.run(feeds)
            assert all(part in str(error.value) for part in ("pick", "12", str(index)))
            assert x.tolist() == list(range(12))
            assert exe.run({**feeds, "i": np.array([-1])})["y"].size in (1, 12)


def test_a86_repeated_indices_give_the_same_sum_every_time(every_way):
    got = every_way(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="add"), np.zeros(3, np.float32),
                    np.array([[0], [1], [1]]), np.float32([1, 2, 3]))
    assert got.tolist() == [1, 5, 0]
    rng = np.random.default_rng(0)
    i, u = rng.integers(0, 10, (50_000, 1)), rng.standard_normal(50_000).astype(np.float32)
    g = rlx.Graph("g")
    a, b = g.input("i", i.shape, rlx.i64), g.input("u", u.shape, rlx.f32)
    g.output("y", ops.scatter_nd(g.constant(np.zeros(10, np.float32)), a, b, reduction="add"))
    exe = rlx.compile(g, rlx.CompileOptions(threads=2))
    runs = {exe.run({"i": i, "u": u}, threads=1 + n % 2)["y"].tobytes() for n in range(10)}
    assert len(runs) == 1


def test_a88_a89_ties_of_top_k(every_way):
    x = np.array([0, 1, 2, 2], np.float32)
    for k in range(1, 5):
        values, indices = every_way(lambda x, k=k: ops.topk(x, k=k), x)
        assert indices.tolist() == [2, 3, 1, 0][:k] and values.tolist() == [2, 2, 1, 0][:k]
        _, some = every_way(lambda x, k=k: ops.topk(x, k=k, sorted=False), x)
        assert set(some.tolist()) == set(indices.tolist())


def test_r65_top_k_orders_nan_wherever_it_stands(every_way):
    for at in range(5):
        x = np.arange(5, dtype=np.float32)
        x[at] = np.nan
        values, indices = every_way(lambda x: ops.topk(x, k=2), x)
        assert indices[0] == at and np.isnan(values[0])


@pytest.mark.parametrize("build", [
    lambda x: ops.slice(x, starts=[0], stops=[9], axes=[5]),
    lambda x: ops.transpose(x, perm=(0, 0, 1)),
    lambda x: ops.transpose(x, perm=(0, 1, 7)),
    lambda x: ops.flip(x, axes=[3]),
    lambda x: ops.reduce_sum(x, axes=(0, 3)),
    lambda x: ops.reduce_sum(x, axes=(0, 0)),
    lambda x: ops.reshape(x, shape=(5, 5)),
    lambda x: ops.concat(x, ops.reshape(x, shape=(2, 4, 3)), axis=0),
    lambda x: ops.gather(x, x, axis=0),
    lambda x: ops.softmax(x, axis=3),
    lambda x: ops.cumsum(x, axis=-4),
])
def test_r35_r87_what_does_not_fit_is_refused_when_built(build):
    g = rlx.Graph("g")
    with pytest.raises(rlx.GraphError) as error:
        build(g.input("x", (2, 3, 4), rlx.f32))
    assert "got" in str(error.value)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_r34_r86_windows_of_every_rank(every_way, rank):
    size, kernel = (1, 2, *(5,) * rank), (3, 2, *(3,) * rank)
    x, w = f32(*size), f32(*kernel, seed=1)
    got = every_way(ops.conv, x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel[2:], axis=tuple(range(2, 2 + rank)))
    axes = (1, *range(2 + rank, 2 + 2 * rank)), (1, *range(2, 2 + rank))
    np.testing.assert_allclose(got, np.moveaxis(np.tensordot(windows, w, axes), -1, 1), rtol=1e-4, atol=1e-5)
    peak = every_way(lambda x: ops.max_pool(x, kernel=(3,) * rank), x)
    np.testing.assert_array_equal(peak, windows.max(axis=tuple(range(2 + rank, 2 + 2 * rank))))
    q = np.clip(np.round(x * 20), -128, 127).astype(np.int8)
    v = np.clip(np.round(w * 20), -128, 127).astype(np.int8)
    wide = np.moveaxis(np.tensordot(np.lib.stride_tricks.sliding_window_view(
        q.astype(np.int64), kernel[2:], axis=tuple(range(2, 2 + rank))), v.astype(np.int64), axes), -1, 1)
    np.testing.assert_array_equal(every_way(ops.conv_integer, q, v), wide)


def test_r69_requantising_keeps_bits_above_24(every_way):
    x = np.full((1, 1200), 127, np.int8)
    w = np.full((1200, 1), 127, np.int8)
    total = 1200 * 127 * 127
    scale = np.float32(1)
    out = np.float32(total / 100)
    got = every_way(lambda x, w, one, out, zero: ops.qlinear_matmul(x, one, zero, w, one, zero, out, zero),
                    x, w, scale, out, np.int8(0))
    assert got.item() == 100


def test_r76_blocks_must_divide():
    g = rlx.Graph("g")
    with pytest.raises(rlx.GraphError, match="block"):
        ops.dequantize_linear(g.input("x", (4, 10), rlx.i8), g.input("s", (4, 2), rlx.f32), axis=1, block_size=4)
