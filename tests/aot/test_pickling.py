"""Pickles and deep copies of graphs, executables and models; use from other processes."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.testing.files import feed, loop, loop_feed, mlp


def through(item: Any) -> Any:
    return pickle.loads(pickle.dumps(item))


@pytest.mark.parametrize("copied", [through, copy.deepcopy])
def test_graphs(copied: Any) -> None:
    for exe in (mlp(), loop()):
        g = exe.graph
        g.metadata["origin"] = "test"
        other = copied(g)
        assert other is not g
        assert other.structural_hash() == g.structural_hash()
        assert other.metadata == {"origin": "test"}
        assert str(other) == str(g)
    built = copied(mlp().graph)
    built.output("more", built.outputs["h"] * 2)
    assert "more" not in mlp().graph.outputs


@pytest.mark.parametrize("copied", [through, copy.deepcopy])
def test_values_stay_values_of_their_graph(copied: Any) -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("n", 4), rlx.f32)
    y = ops.tanh(x)
    g2, x2, y2 = copied((g, x, y))
    assert x2.graph is g2
    assert y2.node.inputs[0] is x2
    g2.output("z", x2 + y2)
    assert not g.outputs


@pytest.mark.parametrize("copied", [through, copy.deepcopy])
def test_constants_of_bodies_keep_their_own_values(copied: Any) -> None:
    """Names of constants are unique in each body, not among bodies."""
    branches = []
    for k in range(2):
        branch = rlx.Graph(f"b{k}")
        c = branch.constant(np.full(64, k + 1, np.float32), name="c")
        branch.output("o", branch.input("v", (64,), rlx.f32) + c)
        branches.append(branch)
    g = rlx.Graph("g")
    g.constant(np.zeros(64, np.float32), name="c")
    x, p = g.input("x", (64,), rlx.f32), g.input("p", (), rlx.bool_)
    picked: Any = ops.cond(p, x, then=branches[0], orelse=branches[1])
    g.output("y", picked)
    exe = rlx.compile(copied(g))
    for flag, want in ((True, 1), (False, 2)):
        got = exe.run({"x": np.zeros(64, np.float32), "p": np.asarray(flag)})["y"]
        np.testing.assert_array_equal(got, np.full(64, want))


@pytest.mark.parametrize("copied", [through, copy.deepcopy])
def test_executables(copied: Any) -> None:
    exe = mlp()
    exe.run(feed(2))
    other = copied(exe)
    for n in (2, 5):
        assert other.run(feed(n))["y"].tobytes() == exe.run(feed(n))["y"].tobytes()
    other.set_param("b", np.zeros(24, np.float32))
    assert other.run(feed(2))["y"].tobytes() != exe.run(feed(2))["y"].tobytes()
    fixed = loop()
    assert copied(fixed).run(loop_feed())["stack"].tobytes() == fixed.run(loop_feed())["stack"].tobytes()


def counter() -> rlx.CompiledGraph:
    g = rlx.Graph("counter")
    s, x = g.input("state", (2,), rlx.f32), g.input("x", (2,), rlx.f32)
    g.output("next", s + x + 0 * ops.random_uniform(graph=g, shape=(2,), dtype=rlx.f32))
    exe = rlx.compile(g)
    exe.bind_handle("state", np.zeros(2, np.float32))
    exe.link("next", "state")
    return exe


@pytest.mark.parametrize("copied", [through, copy.deepcopy])
def test_handles_go_along_and_are_independent(copied: Any) -> None:
    exe = counter()
    one = {"x": np.ones(2, np.float32)}
    exe.run(one)
    other = copied(exe)
    for _ in range(2):
        other.run(one)
    assert other.read_handle("state").tolist() == [3, 3]
    assert exe.read_handle("state").tolist() == [1, 1]
    assert other.links() == {"next": "state"}


def test_caches_go_along() -> None:
    g = rlx.Graph("cache")
    kv, n = g.input("kv", (1, "seq", 2), rlx.f32), g.input("n", (1,), rlx.i64)
    row = g.input("row", (1, 1, 2), rlx.f32)
    g.output("rows", row + 0)
    g.output("sum", ops.reduce_sum(kv, axes=(1,)) + ops.cast(n, dtype=rlx.f32))
    exe = rlx.compile(g, rlx.CompileOptions(dims={"seq": 8}))
    exe.bind_handle("kv", np.ones((1, 2, 2), np.float32), axis=1, length="n")
    exe.link("rows", "kv", append=True)
    row2 = {"row": np.full((1, 1, 2), 5, np.float32)}
    exe.run(row2)
    other = through(exe)
    assert other.read_handle("kv").tolist() == exe.read_handle("kv").tolist()
    for e in (exe, other):
        e.run(row2)
    assert other.read_handle("kv").shape == (1, 4, 2)
    assert other.run(row2)["sum"].tolist() == exe.run(row2)["sum"].tolist()


def test_linked_parameters_go_along() -> None:
    g = rlx.Graph("sgd")
    w, x = g.param("w", (3,), rlx.f32), g.input("x", (3,), rlx.f32)
    g.output("new", w - x)
    exe = rlx.compile(g)
    exe.set_param("w", np.full(3, 9, np.float32))
    exe.link("new", "w")
    one = {"x": np.ones(3, np.float32)}
    exe.run(one)
    other = through(exe)
    other.run(one)
    assert other.get_param("w").tolist() == [7, 7, 7]
    assert exe.get_param("w").tolist() == [8, 8, 8]


def test_loaded_executables(tmp_path: Any) -> None:
    exe = mlp()
    exe.run(feed(2))
    exe.save(tmp_path / "a.rlx")
    loaded = rlx.load(tmp_path / "a.rlx")
    for copied in (through, copy.deepcopy, copy.copy):
        other = copied(loaded)
        assert other.run(feed(2))["y"].tobytes() == exe.run(feed(2))["y"].tobytes()
    clone = loaded.clone()
    (tmp_path / "a.rlx").unlink()
    assert clone.run(feed(2))["y"].tobytes() == exe.run(feed(2))["y"].tobytes()


def test_a_pickle_of_another_kind_is_refused() -> None:
    from rlx.aot import pickles
    from rlx.aot.save import save_graph

    data = save_graph(mlp().graph)
    assert data is not None
    with pytest.raises(rlx.FormatError, match="must hold a executable, got graph"):
        pickles.executable_of(data)
    with pytest.raises(rlx.FormatError):
        pickles.graph_of(data[:-9])


def test_a_pickle_holds_bytes_and_the_name_of_one_function() -> None:
    import pickletools

    found = [arg for op, arg, _ in pickletools.genops(pickle.dumps(mlp().graph)) if isinstance(arg, str)]
    assert found == ["rlx.aot.pickles", "graph_of"]


def test_models() -> None:
    onnx = pytest.importorskip("onnx")
    from rlx.testing.onnx_models import model

    x = {"x": np.arange(6, dtype=np.float32)}
    m = model([onnx.helper.make_node("Tanh", ["x"], ["y"])], x, ["y"])
    want = m.run(x)["y"].tobytes()
    for copied in (through, copy.deepcopy):
        other = copied(m)
        assert other.run(x)["y"].tobytes() == want
        assert other.metadata == m.metadata
        assert copied(other).run(x)["y"].tobytes() == want
    assert copy.deepcopy(m).run({"x": np.ones(3, np.float32)})["y"].shape == (3,)


def test_processes_that_are_spawned_run_what_they_are_sent() -> None:
    exe = mlp()
    want = [exe.run(feed(n))["y"].tobytes() for n in (1, 3)]
    # Methods of what is sent: a child need not be able to import this file. A child that dies is an error, not a wait.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = [pool.submit(exe.run_raw, feed(n)).result(60)[0].tobytes() for n in (1, 3)]
    assert found == want
