"""State in pairs: recurrent layers against whole sequences, variants against each other, children, many runs."""

import os
import pathlib
import sys

import numpy as np
import pytest
from forked import true_in_child

import rlx
from rlx import ops

F = np.float32
CALLS = ("run", "run_raw", "run_typed", "run_slots")


def call(e: rlx.CompiledGraph, how: str, given: dict[str, np.ndarray]) -> list[bytes]:
    """Bytes of all outputs of a run variant; handles stand in for what is not given."""
    if how == "run_slots":
        results: list[object] = list(e.run_slots([given.get(n) for n in e.signature.inputs]))
    else:
        results = list(getattr(e, how)(given))
    return [r[0] if isinstance(r, tuple) else np.asarray(r).tobytes() for r in results]


def recurrent(kind: str, steps: int) -> rlx.CompiledGraph:
    """A layer over `steps` inputs, its state given and returned."""
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    rng = np.random.default_rng(2)
    g = rlx.Graph(kind)
    x = g.input("x", (steps, 2, 3))
    w, r, b = (g.constant((rng.standard_normal(s) * 0.5).astype(F))
               for s in ((1, gates * 4, 3), (1, gates * 4, 4), (1, 2 * gates * 4)))
    h = g.input("h", (1, 2, 4))
    if kind == "lstm":
        y, y_h, y_c = ops.lstm(x, w, r, b, None, h, g.input("c", (1, 2, 4)))
        g.output("c_next", y_c)
    else:
        y, y_h = getattr(ops, kind)(x, w, r, b, None, h)
    g.output("h_next", y_h)
    g.output("y", y)
    return rlx.compile(g, rlx.CompileOptions(poison=True, check=True, threads=1))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_r28_recurrent_layers_keep_nothing_by_themselves_and_all_of_it_through_links(kind: str) -> None:
    x = np.random.default_rng(3).standard_normal((12, 2, 3)).astype(F)
    zero = {n: np.zeros((1, 2, 4), F) for n in (("h", "c") if kind == "lstm" else ("h",))}
    one, whole = recurrent(kind, 1), recurrent(kind, 12)
    first = one.run({"x": x[:1], **zero})["y"].copy()
    one.run({"x": x[1:2], **zero})
    np.testing.assert_array_equal(one.run({"x": x[:1], **zero})["y"], first)
    want = whole.run({"x": x, **zero})
    for name, array in zero.items():
        one.bind_handle(name, array)
        one.link(f"{name}_next", name)
    got = np.concatenate([one.run({"x": x[t : t + 1]})["y"] for t in range(12)])
    np.testing.assert_allclose(got, want["y"], rtol=1e-5, atol=1e-6)
    for name in zero:
        np.testing.assert_allclose(one.read_handle(name), want[f"{name}_next"], rtol=1e-5, atol=1e-6)


def test_r28_a_moving_average_is_an_output() -> None:
    g = rlx.Graph("average")
    m, x = g.input("mean", (3,)), g.input("x", (5, 3))
    mean = m * 0.75 + ops.reduce_mean(x, axes=(0,), keepdims=False) * 0.25
    g.output("y", x - mean)
    g.output("mean_next", mean)
    e = rlx.compile(g, rlx.CompileOptions(poison=True))
    e.bind_handle("mean", np.zeros(3, F))
    e.link("mean_next", "mean")
    rng, want = np.random.default_rng(0), np.zeros(3)
    for k in range(30):
        x_k = rng.standard_normal((5, 3)).astype(F)
        call(e, CALLS[k % 4], {"x": x_k})
        want = want * 0.75 + x_k.mean(0) * 0.25
    np.testing.assert_allclose(e.read_handle("mean"), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", CALLS)
def test_r12_a_handle_gives_every_variant_the_same_answer(how: str) -> None:
    g = rlx.Graph("wide")
    s, x = g.input("s", (2,), rlx.i64), g.input("x", (2,), rlx.i64)
    g.output("next", s + x)
    e = rlx.compile(g, rlx.CompileOptions(poison=True))
    e.bind_handle("s", np.array([2**24 + 1, -(2**53) - 1]))
    e.link("next", "s")
    assert call(e, how, {"x": np.array([0, 0])}) == [np.array([2**24 + 1, -(2**53) - 1]).tobytes()]
    assert call(e, how, {"x": np.array([1, -1])}) == [np.array([2**24 + 2, -(2**53) - 2]).tobytes()]
    np.testing.assert_array_equal(e.read_handle("s"), [2**24 + 2, -(2**53) - 2])


def test_r29_raw_results_have_the_exact_shape_and_type() -> None:
    g = rlx.Graph("shapes")
    x = g.input("x", (3,))
    g.output("scalar", ops.reduce_sum(x, axes=(0,), keepdims=False))
    g.output("flags", ops.gt(x, 0.0))
    g.output("none", x[:0])
    g.output("linked", x + 1)
    e = rlx.compile(g)
    e.bind_handle("x", F([1, -2, 3]))
    e.link("linked", "x")
    views = e.run_raw({})
    assert [(v.dtype.name, v.shape, v.flags.writeable) for v in views] == [
        ("float32", (), False), ("bool", (3,), False), ("float32", (0,), False), ("float32", (3,), False)]
    assert views[0] == 2
    again = e.run_raw({})
    assert again[0] == 5
    assert again[1].ctypes.data == views[1].ctypes.data  # documented: of the last call
    np.testing.assert_array_equal(views[3], [2, -1, 4])  # linked results stay


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_goes_on_with_its_own_state() -> None:
    e = recurrent("gru", 1)
    e.bind_handle("h", np.zeros((1, 2, 4), F))
    e.link("h_next", "h")
    x = {"x": np.ones((1, 2, 3), F)}
    e.run(x)
    twin = e.clone()
    want = [call(twin, "run", x) for _ in range(3)]
    assert true_in_child(lambda: [call(e, "run", x) for _ in range(3)] == want)
    assert [call(e, "run", x) for _ in range(3)] == want


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat_over_many_stateful_runs() -> None:
    """`tools/soak_state.py --runs 100000` is the long form."""
    g = rlx.Graph("flat")
    s, x = g.input("s", (64,)), g.input("x", (64,))
    g.output("next", s * 0.5 + x)
    g.output("other", ops.tanh(x))
    e = rlx.compile(g)
    e.bind_handle("s", np.zeros(64, F))
    e.link("next", "s")
    given = {"x": np.ones(64, F)}

    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    kept = []
    for k in range(12_000):
        out = e.run(given) if k % 3 else e.run_raw(given)
        if k % 1000 == 0:
            kept.append(out)  # somebody holds on to one now and then
        if k == 2_000:
            before = resident()
    assert resident() - before < 3 << 20
    np.testing.assert_allclose(e.read_handle("s"), 2, rtol=1e-6)
