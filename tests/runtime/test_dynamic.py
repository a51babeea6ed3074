"""Sizes that only a run can tell: non-zero, unique, compress, and what is built on them."""

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.runtime.staged import Staged


def test_nonzero_and_what_follows_it() -> None:
    g = rlx.Graph("nz")
    x = g.input("x", (3, 4))
    found = ops.nonzero(x)
    g.output("index", found)
    picked = ops.gather(ops.reshape(x, shape=(-1,)), found[0] * 4 + found[1], axis=0)
    g.output("values", picked)
    g.output("total", ops.reduce_sum(picked, axes=(0,)))
    g.output("doubled", x * 2)
    e = rlx.compile(g, rlx.CompileOptions(check=True, poison=True))
    rng = np.random.default_rng(0)
    for density in (0.0, 1.0, 0.5, 0.2, 0.5):
        a = np.where(rng.random((3, 4)) < density, rng.standard_normal((3, 4)), 0).astype(np.float32)
        out = e.run({"x": a})
        np.testing.assert_array_equal(out["index"], np.stack(np.nonzero(a)))
        np.testing.assert_array_equal(out["values"], a[np.nonzero(a)])
        np.testing.assert_allclose(out["total"], a.sum(), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(out["doubled"], a * 2)
        assert list(out.keys()) == ["index", "values", "total", "doubled"]


def test_unique_gives_all_four_results() -> None:
    g = rlx.Graph("unique")
    x = g.input("x", (9,), rlx.i64)
    for name, value in zip(("values", "index", "inverse", "counts"), ops.unique(x), strict=True):
        g.output(name, value)
    e = rlx.compile(g)
    for data in ([3, 1, 3, 2, 2, 3, 1, 9, -4], [5] * 9, list(range(9))):
        a = np.array(data)
        out = e.run({"x": a})
        values, index, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
        np.testing.assert_array_equal(out["values"], values)
        np.testing.assert_array_equal(out["index"], index)
        np.testing.assert_array_equal(out["inverse"], inverse)
        np.testing.assert_array_equal(out["counts"], counts)


def test_two_dynamic_ops_one_behind_the_other() -> None:
    g = rlx.Graph("chain")
    x = g.input("x", (6,))
    keep = ops.compress(x, x > 0, axis=0)
    big = ops.compress(keep, keep > 2, axis=0)
    g.output("big", big)
    g.output("count", ops.reduce_sum(ops.cast(keep > 2, dtype=rlx.i64), axes=(0,)))
    e = rlx.compile(g, rlx.CompileOptions(check=True))
    for data in ([1, -1, 3, 4, 2, -5], [-1] * 6, [9] * 6):
        a = np.array(data, np.float32)
        out = e.run({"x": a})
        np.testing.assert_array_equal(out["big"], a[a > 2])
        assert out["count"] == (a > 2).sum()


def test_params_symbolic_sizes_threads_and_clones() -> None:
    g = rlx.Graph("mixed")
    x, w = g.input("x", ("n", 4)), g.param("w", (4, 2))
    rows = ops.compress(x, ops.reduce_sum(x, axes=(1,)) > 0, axis=0)
    g.output("y", rows @ w)
    e = rlx.compile(g)
    e.set_param("w", np.ones((4, 2), np.float32))
    rng = np.random.default_rng(1)
    for n in (5, 3, 5):
        a = rng.standard_normal((n, 4)).astype(np.float32)
        want = a[a.sum(1) > 0] @ np.ones((4, 2), np.float32)
        np.testing.assert_allclose(e.run({"x": a}, threads=2)["y"], want, rtol=1e-5)
        np.testing.assert_allclose(e.clone().run({"x": a})["y"], want, rtol=1e-5)
    e.set_param("w", np.full((4, 2), 2, np.float32))
    np.testing.assert_allclose(e.run({"x": a})["y"], 2 * want, rtol=1e-5)


def test_sizes_are_compiled_once_and_bounded() -> None:
    g = rlx.Graph("cache")
    x = g.input("x", (200,))
    g.output("y", ops.compress(x, x > 0, axis=0) + 1)
    e = rlx.compile(g)
    for n in [*range(100), *range(100)]:
        a = np.full(200, -1, np.float32)
        a[:n] = 1
        assert e.run({"x": a})["y"].shape == (n,)
    variant = e._variant
    assert isinstance(variant, Staged)
    assert len(variant.later) <= 64


def test_out_arrays_of_staged_graphs() -> None:
    g = rlx.Graph("out")
    x = g.input("x", (4,))
    g.output("y", ops.compress(x, x > 0, axis=0))
    e = rlx.compile(g)
    a = np.array([1, -1, 2, -2], np.float32)
    target = np.empty(2, np.float32)
    assert e.run({"x": a}, out={"y": target})["y"] is target
    np.testing.assert_array_equal(target, [1, 2])
    with pytest.raises(rlx.BindingError, match="shape must be"):
        e.run({"x": a}, out={"y": np.empty(3, np.float32)})


def test_loop_that_appends_has_rows_up_to_its_bound() -> None:
    body = rlx.Graph("body")
    i = body.input("i", (), rlx.i64)
    s = body.input("s", ())
    body.output("go", ops.lt(s, body.constant(np.float32(20))))
    body.output("s", s * 2)
    body.output("row", s + ops.cast(i, dtype=rlx.f32))
    g = rlx.Graph("append")
    x = g.input("x", ())
    last, rows, trips = ops.loop(None, g.constant(np.asarray(True)), x, body=body, n_carried=1, bound=16)
    g.output("last", last)
    g.output("rows", rows)
    g.output("trips", trips)
    out = rlx.compile(g, rlx.CompileOptions(poison=True)).run({"x": np.float32(1)})
    assert out["trips"] == 6
    assert out["last"] == 64
    np.testing.assert_array_equal(out["rows"][:6], [1, 3, 6, 11, 20, 37])
    np.testing.assert_array_equal(out["rows"][6:], 0)
