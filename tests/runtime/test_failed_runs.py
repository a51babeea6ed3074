"""A run that fails has not been: handles, parameters and random numbers are as before it."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx import ops
from rlx.testing.onnx_models import model

F = np.float32


def picker(*, dynamic: bool = False, optimize: bool = True) -> rlx.CompiledGraph:
    """Noise, a state, and a row whose place a run tells; a place outside fails after the noise was drawn."""
    g = rlx.Graph("picker")
    s, i = g.input("s", (3,)), g.input("i", (1,), rlx.i64)
    noise = ops.random_normal(shape=(3,), dtype=rlx.f32, graph=g)
    g.output("noise", noise)
    g.output("s_next", s + noise)
    if dynamic:  # the places of what is not zero: the rest is a program of its own
        places = ops.nonzero(i)
        g.output("more", ops.random_uniform(shape=(2,), dtype=rlx.f32, graph=g))
        g.output("row", ops.gather(noise, i + ops.reduce_sum(places, axes=(0, 1))))
    else:
        g.output("row", ops.gather(noise, i))
    exe = rlx.compile(g, rlx.CompileOptions(rng=rlx.RngOptions(seed=5), poison=True, optimize=optimize))
    exe.bind_handle("s", np.zeros(3, F))
    exe.link("s_next", "s")
    return exe


def run(exe: rlx.CompiledGraph, how: str, place: int) -> list[bytes]:
    i = np.array([place])
    if how == "run_slots":
        results = list(exe.run_slots([None, i]))
    else:
        results = list(getattr(exe, how)({"i": i}))
    return [r[0] if isinstance(r, tuple) else np.asarray(r).tobytes() for r in results]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("how", ["run", "run_raw", "run_typed", "run_slots"])
def test_a_retried_run_draws_the_same_numbers(how: str, dynamic: bool) -> None:
    never, retried = picker(dynamic=dynamic), picker(dynamic=dynamic)
    for k in range(4):
        for bad in (99, -99, 99)[: k % 4]:
            with pytest.raises(rlx.ExecutionError):
                run(retried, how, bad)
        assert run(retried, how, k % 3) == run(never, how, k % 3), k
        assert retried.read_handle("s").tobytes() == never.read_handle("s").tobytes()
    twin = retried.clone()
    with pytest.raises(rlx.ExecutionError):
        run(retried, how, 99)
    assert run(twin, how, 1) == run(retried, how, 1)


def test_refused_and_cancelled_calls_draw_nothing() -> None:
    exe, want = picker(), picker()
    for given in ({"i": np.zeros(2, np.int64)}, {"j": np.zeros(1)}, {"i": np.zeros(1, F)}):
        with pytest.raises(rlx.RlxError):
            exe.run(given)
    with pytest.raises(rlx.RlxError):
        exe.run({"i": np.zeros(1, np.int64)}, out={"noise": np.zeros(4, F)})
    assert run(exe, "run", 0) == run(want, "run", 0)


def test_a_full_cache_draws_nothing() -> None:
    g = rlx.Graph("cache")
    keys, pos = g.input("keys", (1, 2, 3)), g.input("pos", (), rlx.i64)
    row = ops.random_normal(shape=(1, 1, 3), dtype=rlx.f32, graph=g)
    g.output("row", row)
    g.output("seen", ops.reduce_sum(keys, axes=(0, 1, 2)) + ops.cast(pos, dtype=rlx.f32))
    exe = rlx.compile(g)
    exe.bind_handle("keys", np.zeros((1, 0, 3), F), axis=1, length="pos")
    exe.link("row", "keys", append=True)
    rows = [np.array(exe.run()["row"]) for _ in range(2)]
    for _ in range(3):
        with pytest.raises(rlx.BindingError, match="capacity 2"):
            exe.run()
    exe.truncate("keys", 1)
    third = np.array(exe.run()["row"])
    same = rlx.compile(g)
    zero = {"keys": np.zeros((1, 2, 3), F), "pos": np.int64(0)}
    want = [np.array(same.run(zero)["row"]) for _ in range(3)]
    np.testing.assert_array_equal(np.stack([*rows, third]), np.stack(want))


@pytest.mark.parametrize("stateful", [False, True])
def test_models_in_several_segments_go_back_too(stateful: bool) -> None:
    def make() -> rlx.onnx.Model:
        nodes = [helper.make_node("RandomNormal", [], ["noise"], shape=[3]),
                 helper.make_node("NonZero", ["flags"], ["places"]),
                 helper.make_node("RandomUniform", [], ["more"], shape=[2]),
                 helper.make_node("Add", ["i", "places"], ["at"]),
                 helper.make_node("Gather", ["noise", "at"], ["row"]),
                 helper.make_node("Add", ["s", "noise"], ["s_next"])]
        m = model(nodes, {"flags": np.ones(2, F), "i": np.zeros(1, np.int64), "s": np.zeros(3, F)},
                  ["row", "more", "s_next"])
        m.set_rng(rlx.RngOptions(seed=3))
        if stateful:
            m.bind_handle("s", np.zeros(3, F))
            m.link("s_next", "s")
        return m

    never, retried = make(), make()
    state = {} if stateful else {"s": np.zeros(3, F)}
    for k in range(5):
        good = {"flags": F([1, 0]), "i": np.array([k % 3]), **state}
        for flags in (F([1, 0]), F([1, 1]))[: k % 3]:  # a plan that is known, and one that is new
            with pytest.raises(rlx.ExecutionError):
                retried.run({**good, "flags": flags, "i": np.array([77])})
        a, b = retried.run(good), never.run(good)
        assert [np.asarray(v).tobytes() for v in a] == [np.asarray(v).tobytes() for v in b], k


@pytest.mark.parametrize("make", [lambda e: e, lambda e: e.clone(), lambda e: pickled(e)])
def test_copies_go_on_after_a_failure(make: Callable[[rlx.CompiledGraph], rlx.CompiledGraph]) -> None:
    exe = picker()
    run(exe, "run", 0)
    with pytest.raises(rlx.ExecutionError):
        run(exe, "run", 99)
    other = make(exe)
    want = picker()
    run(want, "run", 0)
    assert run(other, "run", 2) == run(want, "run", 2)


def pickled(exe: rlx.CompiledGraph) -> rlx.CompiledGraph:
    import pickle

    made = pickle.loads(pickle.dumps(exe))
    assert isinstance(made, rlx.CompiledGraph)
    return made


def test_a_kernel_of_ones_own_that_raises_draws_nothing() -> None:
    calls = []

    def kernel(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("not now")
        return x

    op = rlx.register_op("failing.once", inputs=("x",), reference=lambda x: x, kernel=kernel, traits=("stateful",))
    try:
        g = rlx.Graph("g")
        g.output("y", op(ops.random_normal(shape=(3,), dtype=rlx.f32, graph=g)))
        exe = rlx.compile(g)
        found = [exe.run()["y"].copy()]
        with pytest.raises(rlx.ExecutionError, match="not now"):
            exe.run()
        found.append(exe.run()["y"].copy())
        exe.set_rng(rlx.RngOptions(seed=0))
        np.testing.assert_array_equal(found, [exe.run()["y"].copy() for _ in range(2)])
    finally:
        rlx.unregister_op("failing.once")


def test_a_cancelled_run_leaves_the_cache_and_the_numbers() -> None:
    stopped: list[rlx.CompiledGraph] = []

    def kernel(x: np.ndarray) -> np.ndarray:
        for exe in stopped:
            exe.cancel()
        return x

    op = rlx.register_op("failing.stop", inputs=("x",), reference=lambda x: x, kernel=kernel, traits=("stateful",))
    try:
        g = rlx.Graph("g")
        keys, pos = g.input("keys", (1, 4, 3)), g.input("pos", (), rlx.i64)
        row = ops.random_normal(shape=(1, 1, 3), dtype=rlx.f32, graph=g)
        cache, end = ops.cache_append(keys, row, pos, axis=1)
        g.output("keys_next", cache)
        g.output("end", end)
        g.output("after", ops.tanh(op(cache)))
        exe = rlx.compile(g)
        exe.bind_handle("keys", np.zeros((1, 0, 3), F), axis=1, length="pos")
        exe.link("keys_next", "keys")
        exe.link("end", "pos")
        exe.run()
        twin, before = exe.clone(), exe.read_handle("keys")
        stopped.append(exe)
        for _ in range(2):
            with pytest.raises(rlx.CancelledError):
                exe.run()
        np.testing.assert_array_equal(exe.read_handle("keys"), before)
        stopped.clear()
        for _ in range(3):
            np.testing.assert_array_equal(exe.run()["after"], twin.run()["after"])
        np.testing.assert_array_equal(exe.read_handle("keys"), twin.read_handle("keys"))
        assert exe.read_handle("keys").shape == (1, 4, 3)
    finally:
        rlx.unregister_op("failing.stop")


def test_a_run_in_stages_is_one_run_for_random_numbers() -> None:
    """What a size is known from does not change the stream: the same numbers with and without a stage before them."""

    def build(staged: bool) -> rlx.CompiledGraph:
        g = rlx.Graph("stages")
        x = g.input("x", (4,), rlx.i64)
        scale = ops.reduce_sum(ops.nonzero(x), axes=(0, 1)) * 0 if staged else ops.reduce_sum(x, axes=(0,)) * 0
        drawn = ops.random_normal(shape=(3,), dtype=rlx.f32, graph=g, name="late")
        g.output("y", drawn + ops.cast(scale, dtype=rlx.f32))
        g.output("z", ops.random_uniform(shape=(3,), dtype=rlx.f32, graph=g, name="early"))
        return rlx.compile(g)

    one, two = build(False), build(True)
    for k in range(4):
        x = {"x": np.array([1, 0, k, 2])}
        a, b = one.run(x), two.run(x)
        np.testing.assert_array_equal(a["y"], b["y"])
        np.testing.assert_array_equal(a["z"], b["z"])
