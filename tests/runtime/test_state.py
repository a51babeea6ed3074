"""Handles, links, random numbers: the declared state, the same through every run variant."""

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.errors import BindingError, BindingTypeError, UnknownNameError


def counter(dtype: rlx.DType = rlx.f32) -> rlx.CompiledGraph:
    """next = state + x."""
    g = rlx.Graph("counter")
    s, x = g.input("state", (2,), dtype), g.input("x", (2,), dtype)
    g.output("next", s + x)
    g.output("double", x * 2)
    return rlx.compile(g, rlx.CompileOptions(poison=True, check=True))


@pytest.mark.parametrize("call", ["run", "run_raw", "run_typed", "mixed"])
def test_r19_r20_linked_output_feeds_the_next_run_of_every_variant(call: str) -> None:
    e = counter()
    e.bind_handle("state", np.zeros(2, np.float32))
    e.link("next", "state")
    one = np.ones(2, np.float32)
    for k in range(1, 5):
        variant = ["run", "run_raw", "run_typed"][k % 3] if call == "mixed" else call
        getattr(e, variant)({"x": one})
        np.testing.assert_array_equal(e.read_handle("state"), [k, k])
    np.testing.assert_array_equal(e.run({"state": one * 10, "x": one})["next"], [11, 11])
    np.testing.assert_array_equal(e.run({"x": one})["next"], [12, 12])


def test_classic_out_names_link_themselves() -> None:
    g = rlx.Graph("classic")
    s, x = g.input("out0", (1,)), g.input("x", (1,))
    g.output("y", s + x)
    e = rlx.compile(g)
    e.bind_handle("out0", np.zeros(1, np.float32))
    for k in (1, 2, 3):
        assert e.run({"x": np.ones(1, np.float32)})["y"][0] == k


def test_r24_handles_keep_their_type_exactly() -> None:
    e = counter(rlx.i64)
    e.bind_handle("state", np.array([2**24 + 1, 2**53 + 1]))
    np.testing.assert_array_equal(e.read_handle("state"), [2**24 + 1, 2**53 + 1])
    out = e.run({"x": np.ones(2, np.int64)})
    np.testing.assert_array_equal(out["next"], [2**24 + 2, 2**53 + 2])


def test_r22_bad_handles_are_refused() -> None:
    e = counter()
    with pytest.raises(UnknownNameError, match="did you mean 'state'"):
        e.bind_handle("stat", np.zeros(2, np.float32))
    with pytest.raises(BindingError):
        e.bind_handle("state", np.zeros(3, np.float32))
    with pytest.raises(BindingTypeError):
        e.bind_handle("state", np.zeros(2))
    with pytest.raises(BindingError, match="bound first"):
        e.link("next", "state")
    with pytest.raises(UnknownNameError):
        e.link("nope", "state")
    with pytest.raises(UnknownNameError):
        e.read_handle("state")
    e.bind_handle("state", np.zeros(2, np.float32))
    assert list(e.handles()) == ["state"]
    e.unbind_handle("state")
    with pytest.raises(BindingError, match="'state' is missing"):
        e.run({"x": np.zeros(2, np.float32)})


def test_kept_outputs_cannot_be_changed_from_outside() -> None:
    e = counter()
    start = np.zeros(2, np.float32)
    e.bind_handle("state", start)
    start[...] = 5
    e.link("next", "state")
    out = e.run({"x": np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="read-only"):
        out["next"][0] = 9
    target = np.empty(2, np.float32)
    e.run({"x": np.ones(2, np.float32)}, out={"next": target})
    target[...] = 77
    np.testing.assert_array_equal(e.read_handle("state"), [2, 2])


def test_clones_have_their_own_handles() -> None:
    e = counter()
    e.bind_handle("state", np.zeros(2, np.float32))
    e.link("next", "state")
    one = {"x": np.ones(2, np.float32)}
    e.run(one)
    c = e.clone()
    c.run(one)
    c.run(one)
    np.testing.assert_array_equal(e.read_handle("state"), [1, 1])
    np.testing.assert_array_equal(c.read_handle("state"), [3, 3])


def noise() -> rlx.CompiledGraph:
    g = rlx.Graph("noise")
    x = g.input("x", (64,))
    g.output("a", x + ops.random_uniform(shape=(64,), dtype=rlx.f32, graph=g))
    g.output("b", x + ops.random_uniform(shape=(64,), dtype=rlx.f32, graph=g))
    return rlx.compile(g)


def test_r43_r45_streams_differ_by_op_and_run_and_restart_with_the_seed() -> None:
    e = noise()
    zero = {"x": np.zeros(64, np.float32)}
    first, second = e.run(zero), e.run(zero)
    assert not np.array_equal(first["a"], first["b"])
    assert not np.array_equal(first["a"], second["a"])
    e.set_rng(rlx.RngOptions(seed=0))
    np.testing.assert_array_equal(e.run(zero)["a"], first["a"])
    c = e.clone()
    c.set_rng(rlx.RngOptions(seed=9))
    np.testing.assert_array_equal(e.run(zero)["a"], second["a"])
    assert c.rng.seed == 9
    assert e.rng.seed == 0
    e.set_rng(rlx.RngOptions(backend="zero"))
    np.testing.assert_array_equal(e.run(zero)["a"], 0)
    with pytest.raises(rlx.ConfigError):
        rlx.RngOptions(seed=-1)


def _walk(steps: int, draws: int = 4) -> rlx.Graph:
    """Rows that a loop draws, one per trip."""
    body = rlx.Graph("body")
    i = body.input("i", (), rlx.i64)
    body.output("go", ops.lt(i, body.constant(np.int64(steps))))
    body.output("row", ops.random_uniform(shape=(draws,), dtype=rlx.f32, graph=body))
    g = rlx.Graph("walk")
    n = g.input("n", (), rlx.i64)
    for name in ("a", "b"):
        rows, _ = ops.loop(n, None, body=body, n_carried=0, bound=steps)
        g.output(name, rows)
    return g


@pytest.mark.parametrize("optimize", [True, False])
def test_random_ops_in_a_loop_draw_fresh_numbers_on_every_trip(optimize: bool) -> None:
    e = rlx.compile(_walk(6), rlx.CompileOptions(optimize=optimize))
    first, second = e.run({"n": np.int64(6)}), e.run({"n": np.int64(6)})
    drawn = np.concatenate([first["a"], first["b"], second["a"], second["b"]]).reshape(-1)
    assert len(np.unique(drawn)) == drawn.size
    e.set_rng(rlx.RngOptions(seed=0))
    np.testing.assert_array_equal(e.run({"n": np.int64(6)})["a"], first["a"])
    np.testing.assert_array_equal(rlx.compile(_walk(6)).run({"n": np.int64(6)})["b"], first["b"])


def test_nested_loops_draw_fresh_numbers_on_every_trip() -> None:
    inner = rlx.Graph("inner")
    x = inner.input("x", (), rlx.f32)
    inner.output("y", x + ops.random_uniform(shape=(), dtype=rlx.f32, graph=inner))
    outer = rlx.Graph("outer")
    xs = outer.input("xs", (3,), rlx.f32)
    outer.output("ys", ops.scan(xs, body=inner, n_carried=0, n_xs=1))
    g = rlx.Graph("nested")
    v = g.input("v", (4, 3), rlx.f32)
    g.output("y", ops.scan(v, body=outer, n_carried=0, n_xs=1))
    bits = [rlx.compile(g, rlx.CompileOptions(optimize=o)).run({"v": np.zeros((4, 3), np.float32)})[0]
            for o in (True, False)]
    assert len(np.unique(bits[0])) == 12
    np.testing.assert_array_equal(bits[0], bits[1])


@pytest.mark.parametrize("pred", [True, False])
def test_a_branch_that_draws_gives_the_same_bits_with_passes_on_and_off(pred: bool) -> None:
    branch = rlx.Graph("branch")
    x = branch.input("x", (5,))
    branch.output("y", x + ops.random_normal(shape=(5,), dtype=rlx.f32, graph=branch))
    g = rlx.Graph("g")
    g.output("y", ops.cond(g.constant(np.asarray(pred)), g.input("x", (5,)), then=branch, orelse=branch))
    on, off = (rlx.compile(g, rlx.CompileOptions(optimize=o)).run({"x": np.zeros(5, np.float32)})[0]
               for o in (True, False))
    np.testing.assert_array_equal(on, off)
