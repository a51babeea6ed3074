"""Random ops: ranges and moments, streams of their own, sampling rules."""

import numpy as np
import pytest

import rlx
from rlx import ops


def run(build, feeds=None, **options):
    graph = rlx.Graph("g")
    values = {k: graph.input(k, v.shape, v.dtype) for k, v in (feeds or {}).items()}
    results = build(graph, **values)
    for i, v in enumerate(results if isinstance(results, tuple) else (results,)):
        graph.output(f"y{i}", v)
    return list(rlx.compile(graph, rlx.CompileOptions(**options)).run(feeds or {}))


def test_ranges_and_moments():
    u, n, i = run(lambda g: (
        ops.random_uniform(graph=g, shape=(50_000,), low=-1.0, high=3.0),
        ops.random_normal(graph=g, shape=(50_000,), mean=1.0, std=2.0, dtype=rlx.f64),
        ops.randint(graph=g, shape=(50_000,), low=-3, high=5, dtype=rlx.i32)))
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.03 and abs(u.var() - 16 / 12) < 0.03
    assert abs(n.mean() - 1) < 0.04 and abs(n.std() - 2) < 0.04
    assert sorted(set(i.tolist())) == list(range(-3, 5))


def test_ops_have_streams_of_their_own_unless_seeded_alike():
    def build(g):
        return (*(ops.random_uniform(graph=g, shape=(64,)) for _ in range(2)),
                *(ops.random_uniform(graph=g, shape=(64,), seed=s) for s in (3, 3, 4)))

    a, b, c, d, e = run(build)
    assert not np.array_equal(a, b) and not np.array_equal(c, e)
    np.testing.assert_array_equal(c, d)


def test_passes_do_not_change_the_numbers():
    def build(g):
        x = ops.random_uniform(graph=g, shape=(100,))
        return ops.add(x, 0.0) * 1.0, ops.random_normal(graph=g, shape=(7,))

    for a, b in zip(run(build), run(build, optimize=False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_bernoulli_and_dropout():
    x = np.full(20_000, 0.3, np.float32)
    hit, (y, kept) = (lambda r: (r[0], r[1:]))(run(
        lambda g, x: (ops.bernoulli(x), *ops.dropout(x, ratio=0.25, training=True)), {"x": x}))
    assert hit.dtype == np.bool_ and abs(hit.mean() - 0.3) < 0.02
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_array_equal(y, np.where(kept, x / np.float32(0.75), 0))


def test_sampling_rules():
    logits = np.tile(np.array([[1.0, 3.0, 3.0, -np.inf, 2.0]], np.float32), (4000, 1))
    greedy, two, half, any_ = run(
        lambda g, x: (
            ops.sample(x, temperature=0.0),
            ops.sample(x, top_k=2),
            ops.sample(x, top_p=0.3),
            ops.multinomial(x, samples=3),
        ),
        {"x": logits},
    )
    assert set(greedy.tolist()) == {1} and set(two.tolist()) == {1, 2} and set(half.tolist()) == {1}
    assert any_.shape == (4000, 3) and set(any_.reshape(-1).tolist()) == {0, 1, 2, 4}


def test_nan_logits_raise():
    with pytest.raises(rlx.RlxError, match="sample"):
        run(lambda g, x: ops.sample(x), {"x": np.array([[1.0, np.nan]], np.float32)})
