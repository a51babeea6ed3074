"""Channels-last layout, folded batch norms and fused epilogues change neither values nor shapes."""

import numpy as np
import pytest

import rlx
from rlx import ops

OFF = ("channels-last", "fold-batch-norm", "fuse-conv", "fuse-matmul", "fuse-elementwise")


def array(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def check(build, *, kernels=None, tolerance=1e-5, **shapes):
    """Same values with the passes and without; returns how often each kernel is called."""
    feeds = {name: array(*shape) for name, shape in shapes.items()}

    def run(**options):
        graph = rlx.Graph("g")
        results = build(*(graph.input(name, shape) for name, shape in shapes.items()))
        for i, value in enumerate(results if isinstance(results, tuple) else (results,)):
            graph.output(f"y{i}", value)
        exe = rlx.compile(graph, rlx.CompileOptions(threads=1, check=True, poison=True, **options))
        return exe, exe.run(feeds)

    exe, got = run()
    _, plain = run(optimize=False)
    _, disabled = run(disable=OFF)
    for name in got.keys():
        assert got[name].shape == plain[name].shape
        np.testing.assert_allclose(got[name], plain[name], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(disabled[name], plain[name], rtol=tolerance, atol=tolerance)
    if kernels is not None:
        assert exe.explain().kernels == kernels
    return exe.explain().kernels


def block(x, oc, k=3, seed=0):
    c = x.shape[1]
    w = x.graph.constant(array(oc, c, k, k, seed=seed) / 8)
    y = ops.conv(x, w, x.graph.constant(array(oc)), pads=(k // 2,) * 4)
    return ops.relu(y)


def test_chain_has_one_transpose_at_each_end():
    def net(x):
        y = block(x, 8)
        z = block(y, 8, seed=1)
        return block(ops.add(y, z), 4, k=1)

    check(net, x=(2, 3, 9, 11), kernels={"strided.b4": 2, "conv.f32@nhwc": 2, "matmul.f32": 1})


def test_a_residual_is_added_where_it_lies():
    def net(x):
        y = block(x, 24, k=1)
        for seed in range(3):
            w = x.graph.constant(array(24, 24, 1, 1, seed=seed) / 8)
            y = ops.relu(ops.conv(block(y, 24, k=1, seed=seed), w, x.graph.constant(array(24))) + y)
        return y + ops.max_pool(y, kernel=(1, 1))

    assert check(net, x=(2, 24, 9, 11))["matmul.f32"] == 7
    graph = rlx.Graph("g")
    graph.output("y", net(graph.input("x", (2, 24, 9, 11))))
    program = rlx.GraphModule(graph, rlx.CompileOptions(threads=1)).lower().program
    shared = [[c.args[i].operand.buffer for i in pair] for c in program.calls for pair in c.inplace
              if c.kernel == "matmul.f32"]
    assert len(shared) == 3
    assert all(result.offset == operand.offset for result, operand in shared)


def test_a_residual_stays_where_it_is_read_again_or_summed_in_passes():
    def net(x):
        y = block(x, 24, k=1)
        wide = x.graph.constant(array(24, 800, 1, 1) / 64)
        many = ops.concat(*([block(y, 400, k=1), block(y, 400, k=1, seed=3)]), axis=1)
        z = ops.relu(ops.conv(many, wide) + y)
        return ops.conv(z, x.graph.constant(array(24, 24, 1, 1) / 8)) + z, z

    check(net, x=(1, 24, 9, 11), tolerance=1e-4)


def test_no_transposes_for_one_channel_and_a_pixel():
    def net(x):
        y = block(x, 8)
        return ops.reshape(ops.conv(y, x.graph.constant(array(5, 8, 6, 7))), shape=(1, 5))

    check(net, x=(1, 1, 6, 7), kernels={"conv.f32@nhwc": 2})


def test_broadcast_operands_concat_slice_and_softmax():
    def net(x, scale):
        y = block(x, 6)
        y = y * scale + x.graph.constant(array(6, 1, 1)) - x.graph.constant(array(7))
        z = ops.concat(y, block(x, 5), axis=1)
        return ops.slice(z, starts=(1, 2), stops=(9, 6), axes=(1, 3)), y

    check(net, x=(2, 3, 5, 7), scale=(6, 1, 1))


def test_mixed_operands():
    def net(x, r):
        y = block(x, 6)
        return ops.relu(y + r) + r * 2.0, y

    check(net, x=(1, 3, 5, 6), r=(1, 6, 5, 6))


def test_spelled_out_transposes_vanish():
    def net(x):
        y = block(ops.transpose(x, perm=(0, 3, 1, 2)), 6)
        return ops.transpose(y, perm=(0, 2, 3, 1))

    check(net, x=(2, 5, 6, 3), kernels={"conv.f32@nhwc": 1})


def test_flattened_space_to_tokens_and_back():
    def net(x):
        y = block(x, 8)
        tokens = ops.transpose(ops.reshape(y, shape=(2, 8, 30)), perm=(0, 2, 1))
        tokens = ops.matmul(tokens, x.graph.constant(array(8, 8)))
        return block(ops.reshape(ops.transpose(tokens, perm=(0, 2, 1)), shape=(2, 8, 5, 6)), 4)

    check(net, x=(2, 3, 5, 6), kernels={"strided.b4": 2, "conv.f32@nhwc": 2, "matmul.f32": 1})


@pytest.mark.parametrize("spatial", [(9,), (5, 6), (3, 4, 5)])
def test_ranks_groups_and_parameters(spatial):
    n = len(spatial)

    def net(x):
        g = x.graph
        y = ops.relu(ops.conv(x, g.constant(array(6, 2, *(3,) * n)), groups=2, pads=(1,) * 2 * n))
        return ops.conv(y, g.constant(array(6, 1, *(3,) * n)), g.constant(array(6)), groups=6, strides=(2,) * n)

    check(net, x=(2, 4, *spatial))


def test_scale_and_shift_per_channel_fold_into_weights():
    def net(x):
        g = x.graph
        y = ops.conv(x, g.constant(array(6, 3, 3, 3)))
        y = (y - g.constant(array(1, 6, 1, 1))) * g.constant(array(6, 1, 1)) / 3.0 + g.constant(array(6, 1, 1))
        return ops.relu(y)

    check(net, x=(2, 3, 7, 8), tolerance=1e-4, kernels={"strided.b4": 2, "conv.f32@nhwc": 1})


def test_residual_and_activation_in_the_epilogue():
    def net(x):
        y = block(x, 6)
        z = ops.conv(y, x.graph.constant(array(6, 6, 1, 1)), x.graph.constant(array(6)))
        return ops.relu(z + y)

    check(net, x=(2, 3, 7, 8), kernels={"strided.b4": 2, "conv.f32@nhwc": 1, "matmul.f32": 1})


def test_weights_given_at_run_time():
    check(lambda x, w, b: ops.relu(ops.conv(x, w, b)), x=(1, 3, 6, 6), w=(5, 3, 2, 3), b=(5,))


def test_batch_norm_folds_or_follows():
    def vectors(g):
        return [g.constant(np.abs(array(6, seed=i)) + 0.5) for i in range(4)]

    def net(x):
        g = x.graph
        y = ops.batch_norm(ops.conv(x, g.constant(array(6, 3, 3, 3))), *vectors(g))
        return ops.conv(ops.batch_norm(ops.relu(y), *vectors(g)), g.constant(array(5, 6, 1, 1)))

    calls = check(net, x=(2, 3, 7, 8), tolerance=1e-4)
    assert calls["strided.b4"] == 2


def test_channel_shuffle_stays_channels_last():
    def net(x):
        y = ops.reshape(block(x, 6), shape=(2, 3, 2, 5, 7))
        y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3, 4)), shape=(2, 6, 5, 7))
        return block(y, 4)

    check(net, x=(2, 3, 5, 7), kernels={"strided.b4": 3, "conv.f32@nhwc": 2})


def test_weights_that_are_filled_by_a_node_are_folded():
    def net(x):
        w = ops.expand(x.graph.constant(np.float32(0.01)), shape=(96, 64, 3, 3))
        return ops.conv(x, w, pads=(1,) * 4)

    check(net, x=(1, 64, 4, 4), kernels={"strided.b4": 2, "conv.f32@nhwc": 1})


def test_winograd_with_epilogue_and_concatenation():
    def net(x):
        g = x.graph
        y = ops.conv(x, g.constant(array(64, 32, 3, 3) / 16), g.constant(array(64)), pads=(1,) * 4)
        z = ops.relu(ops.conv(ops.relu(y), g.constant(array(64, 64, 3, 3) / 16)) + g.constant(array(64, 12, 13)))
        return ops.concat(z, ops.conv(z, g.constant(array(40, 64, 3, 3) / 16), pads=(1,) * 4), axis=1)

    calls = check(net, x=(1, 32, 14, 15), tolerance=2e-4)
    assert calls["conv_winograd.f32@nhwc"] == 3


@pytest.mark.parametrize("dilations", [(2, 2), (1, 3), (4, 4)], ids=str)
def test_winograd_of_dilated_ones(dilations):
    """Each phase is a plain convolution; with too few pixels in a phase, the sums are direct."""
    def net(x):
        g = x.graph
        y = ops.conv(x, g.constant(array(64, 32, 3, 3) / 16), g.constant(array(64)), pads=dilations * 2,
                     dilations=dilations)
        return ops.relu(y + g.constant(array(64, 1, 1)))

    assert check(net, x=(2, 32, 24, 25), tolerance=2e-4)["conv_winograd.f32@nhwc"] == 1
    assert "conv_winograd.f32@nhwc" not in check(net, x=(1, 32, 3, 4), tolerance=2e-4)


def alone(shape, kernel, *, groups=1, strides=1, steps=lambda y: y):
    """A graph function with one convolution, from constants."""
    c = shape[1] // groups
    n = len(kernel)

    def net(x):
        w = x.graph.constant(array(24, c, *kernel) / 8)
        y = ops.conv(x, w, x.graph.constant(array(24)), strides=(strides,) * n, groups=groups,
                     pads=tuple(k // 2 for k in kernel) * 2)
        return steps(y)

    return net


ALONE = {
    "pointwise": ((2, 40, 17, 19), (1, 1), {}, "conv_planes.f32@nchw"),
    "strided pointwise": ((1, 40, 33, 35), (1, 1), {"strides": 2}, "conv_planes.f32@nchw"),
    "few terms": ((2, 3, 30, 32), (3, 3), {}, "conv_planes.f32@nchw"),
    "first layer": ((1, 3, 56, 60), (7, 7), {"strides": 2}, "conv_planes.f32@nchw"),
    "volume": ((1, 4, 5, 9, 100), (3, 3, 3), {}, "conv_planes.f32@nchw"),
    "grouped": ((1, 24, 20, 48), (3, 3), {"groups": 6}, "conv_planes.f32@nchw"),
    "depthwise": ((1, 24, 20, 48), (3, 3), {"groups": 24, "strides": 2}, "conv_direct.f32@nchw"),
    "wide depthwise": ((2, 24, 12, 13), (7, 7), {"groups": 24}, "conv_depthwise.f32@nchw"),
    "small depthwise": ((2, 24, 7, 9), (3, 3), {"groups": 24}, "conv_masked.f32@nchw"),
    "1-D": ((1, 70, 300), (3,), {}, "conv_planes.f32@nchw"),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_convolution_that_stands_alone_is_not_transposed(name):
    shape, kernel, attrs, called = ALONE[name]
    check(alone(shape, kernel, **attrs), x=shape, kernels={called: 1})
    check(alone(shape, kernel, **attrs, steps=ops.relu), x=shape, kernels={called: 1})
    check(alone(shape, kernel, **attrs, steps=lambda y: ops.gelu(ops.abs(y))), x=shape, kernels={called: 1})


def test_a_residual_runs_on_the_tile_of_a_convolution_that_stands_alone():
    def net(x, r):
        y = alone((2, 40, 17, 19), (1, 1))(x)
        return ops.relu(r - y)

    check(net, x=(2, 40, 17, 19), r=(2, 24, 17, 19), kernels={"conv_planes.f32@nchw": 1})


def test_operands_of_other_shapes_stay_outside_a_convolution_that_stands_alone():
    def net(x, row):
        return alone((1, 40, 17, 19), (1, 1))(x) + row, alone((1, 40, 17, 19), (1, 1))(x) * 0.5

    check(net, x=(1, 40, 17, 19), row=(19,))


@pytest.mark.parametrize("follow", [
    lambda y: ops.max_pool(y, kernel=(2, 2)),
    lambda y: ops.transpose(y, perm=(0, 2, 3, 1)),
    lambda y: ops.conv(y, y.graph.constant(array(8, 24, 1, 1))),
])
def test_a_convolution_among_channels_last_ops_does_not_stand_alone(follow):
    def net(x):
        return follow(alone((1, 3, 30, 32), (3, 3))(x))

    assert not any("nchw" in name for name in check(net, x=(1, 3, 30, 32)))


@pytest.mark.parametrize(("x", "w"), [
    ((2, 24, 19, 21), (24, 1, 2, 2)),
    ((1, 7, 17, 33), (7, 5, 3, 2)),
    ((1, 16, 300), (16, 3, 2)),
    ((1, 16, 300), (16, 3, 3)),
    ((1, 5, 40, 40), (5, 4, 2, 1)),
])
def test_a_transposed_convolution_whose_taps_never_meet_is_woven(x, w):
    def net(v):
        weights, bias = v.graph.constant(array(*w) / 4), v.graph.constant(array(w[1]))
        return ops.relu(ops.conv_transpose(v, weights, bias, strides=w[2:])), ops.conv_transpose(v * 2, weights,
                                                                                                 strides=w[2:])

    def one(v):
        return ops.abs(ops.conv_transpose(v, v.graph.constant(array(*w) / 4), v.graph.constant(array(w[1])),
                                          strides=w[2:]))

    assert "conv_spread.f32@nchw" in check(one, x=x)
    check(net, x=x)
