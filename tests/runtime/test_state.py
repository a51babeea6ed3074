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
