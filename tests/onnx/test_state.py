"""State of models: handles, links, caches, the same as of executables."""

import dataclasses
import gc
import importlib.util
import os
import pathlib
import tracemalloc

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx.errors import BindingError, BindingTypeError, UnknownNameError
from rlx.onnx import Model
from rlx.testing.onnx_models import model, proto

F = np.float32


def node(*args: object, **attrs: object) -> object:
    return helper.make_node(*args, **attrs)  # type: ignore[arg-type]


def counter() -> Model:
    nodes = [node("Add", ["state", "x"], ["next"]), node("Mul", ["x", "x"], ["square"])]
    return model(nodes, {"state": np.zeros(3, F), "x": np.zeros(3, F)}, ["next", "square"])  # type: ignore[arg-type]


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_a_link_feeds_the_next_run_without_copies_or_memory() -> None:
    m = counter()
    m.bind_handle("state", np.zeros(3, F))
    m.link("next", "state")
    x = {"x": np.ones(3, F)}
    places = set()
    for k in range(1, 7):
        out = m.run(x)
        np.testing.assert_array_equal(out["next"], k)
        if k > 1:  # the first run imports and compiles
            assert address(out["next"]) == address(m.view_handle("state"))
            places.add(address(out["next"]))
    assert len(places) == 2
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(100):
            m.run(x)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            m.run(x)
        assert tracemalloc.get_traced_memory()[0] - before < 4096
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(m.read_handle("state"), 206)
    np.testing.assert_array_equal(m.run({"state": np.zeros(3, F), **x})["next"], 1)
    np.testing.assert_array_equal(m.run(x)["next"], 2)
    assert (m.links(), list(m.handles())) == ({"next": "state"}, ["state"])
    m.unbind_handle("state")
    with pytest.raises(BindingError, match="missing"):
        m.run(x)


def test_results_of_models_that_are_held_never_change() -> None:
    m = counter()
    m.bind_handle("state", np.zeros(3, F))
    m.link("next", "state")
    kept = [m.run({"x": np.ones(3, F)})["next"] for _ in range(5)]
    np.testing.assert_array_equal([k[0] for k in kept], [1, 2, 3, 4, 5])


def test_reports_of_models_with_state() -> None:
    m = counter()
    m.bind_handle("state", np.zeros(3, F))
    assert m.compiled_for({"x": np.ones(3, F)})
    assert m.profile({"x": np.ones(3, F)}, repeat=2).rows
    assert m.io_manifest.inputs == {"state": rlx.f32, "x": rlx.f32}
    m.link("next", "state")
    np.testing.assert_array_equal(m.run({"x": np.ones(3, F)})["next"], 1)


def test_forks_of_models() -> None:
    m = counter()
    m.bind_handle("state", np.zeros(3, F))
    m.link("next", "state")
    fork = m.fork()
    for _ in range(2):
        np.testing.assert_array_equal(m.run({"x": np.ones(3, F)})["next"], 1)
        np.testing.assert_array_equal(m.run({"x": np.ones(3, F)}, out=[np.empty(3, F), None])["next"], 2)
        m.restore(fork)


@pytest.mark.parametrize("options", [{"poison": True}, {"busy": "wait"}])
def test_state_with_options(options: dict[str, object]) -> None:
    nodes = [node("Add", ["state", "x"], ["next"])]
    file = proto(nodes, {"state": np.zeros(3, F), "x": np.zeros(3, F)}, ["next"])  # type: ignore[arg-type]
    m = rlx.load(file.SerializeToString(), options=rlx.CompileOptions(**options))  # type: ignore[arg-type]
    m.bind_handle("state", np.zeros(3, F))
    m.link("next", "state")
    for k in (1, 2, 3):
        np.testing.assert_array_equal(m.run({"x": np.ones(3, F)})["next"], k)


def test_state_of_models_in_several_segments() -> None:
    """The results of the last segment are taken over; what the caller holds stays."""
    nodes = [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["p"], to=1),
             node("ReduceSum", ["p"], ["total"], keepdims=0), node("Add", ["state", "total"], ["next"])]
    m = model(nodes, {"state": F(0), "x": np.zeros(4, F)}, ["next"])  # type: ignore[arg-type]
    m.bind_handle("state", F(0))
    m.link("next", "state")
    kept = [m.run({"x": F([1, 0, k, 1])})["next"] for k in (0, 1, 0, 1)]
    assert [float(k) for k in kept] == [3, 8, 11, 16]


def test_a_state_that_grows() -> None:
    m = model([node("Concat", ["past", "x"], ["present"], axis=1)],  # type: ignore[list-item]
              {"past": np.zeros((1, 0), F), "x": np.zeros((1, 1), F)}, ["present"])
    m.bind_handle("past", np.zeros((1, 0), F))
    m.link("present", "past")
    for k in range(1, 8):
        np.testing.assert_array_equal(m.run({"x": F([[k]])})["present"], [np.arange(k) + 1])
    with pytest.raises(BindingError, match="rank must be 2"):
        m.bind_handle("past", np.zeros(3, F))


def test_bad_state_of_models_is_refused() -> None:
    m = counter()
    with pytest.raises(UnknownNameError, match="did you mean 'state'"):
        m.bind_handle("stat", np.zeros(3, F))
    with pytest.raises(BindingTypeError, match="dtype must be f32"):
        m.bind_handle("state", np.zeros(3))
    with pytest.raises(BindingError, match="bound first"):
        m.link("next", "state")
    m.bind_handle("state", np.zeros(3, F))
    with pytest.raises(UnknownNameError, match="no output 'nxt'"):
        m.link("nxt", "state")
    with pytest.raises(UnknownNameError, match="no input 'y'"):
        m.run({"x": np.ones(3, F), "y": np.ones(3, F)})


def test_tensor_scatter_writes_a_linked_cache_in_place() -> None:
    nodes = [node("TensorScatter", ["cache", "x", "at"], ["grown"], axis=1), node("Add", ["at", "one"], ["more"])]
    m = model(nodes, {"cache": np.zeros((1, 6, 2), F), "x": np.zeros((1, 1, 2), F), "at": np.zeros(1, np.int64)},
              ["grown", "more"], {"one": np.int64([1])}, opset=24)  # type: ignore[arg-type]
    m.bind_handle("cache", np.zeros((1, 0, 2), F), axis=1, capacity=6, length="at")
    m.link("grown", "cache")
    m.link("more", "at")
    places = set()
    for k in range(1, 7):
        m.run({"x": np.full((1, 1, 2), k, F)})
        np.testing.assert_array_equal(m.read_handle("cache")[0, :, 0], np.arange(k) + 1)
        if k > 2:
            places.add(address(m.view_handle("cache")))
    assert len(places) == 1
    assert m.memory_report().variants == 1
    with pytest.raises(IndexError, match="capacity 6"):
        m.run({"x": np.zeros((1, 1, 2), F)})


def noise(options: rlx.CompileOptions | None = None) -> Model:

    nodes = [node("RandomNormalLike", ["x"], ["n"]), node("Add", ["x", "n"], ["y"])]
    file = proto(nodes, {"x": np.zeros(3, F)}, ["y"])  # type: ignore[arg-type]
    loaded = rlx.load(file.SerializeToString(), options=options)
    assert isinstance(loaded, Model)
    return loaded


def test_r25_models_draw_from_a_stream_of_their_own() -> None:
    x = {"x": np.zeros(3, F)}
    m = noise(rlx.CompileOptions(rng=rlx.RngOptions(seed=3)))
    first, second, third = (m.run(x)["y"] for _ in range(3))
    assert len(np.unique(np.concatenate([first, second, third]))) == 9
    m.set_rng(rlx.RngOptions(seed=3))
    np.testing.assert_array_equal(m.run(x)["y"], first)
    clone = m.clone()
    clone.set_rng(rlx.RngOptions(seed=4))
    np.testing.assert_array_equal(m.run(x)["y"], second)
    assert not np.array_equal(clone.run(x)["y"], first)
    assert (m.rng.seed, clone.rng.seed) == (3, 4)
    m.run({"x": np.zeros(2, F)})  # another program of the same stream
    assert not np.array_equal(m.run(x)["y"], third)
    m.set_rng(rlx.RngOptions(backend="zero"))
    np.testing.assert_array_equal(m.run(x)["y"], 0)
    with pytest.raises(rlx.ConfigError, match="RngOptions"):
        m.set_rng(7)  # type: ignore[arg-type]


def rows_at() -> Model:
    """Rows of a table from a position on, and the positions themselves."""
    nodes = [node("Add", ["pos", "two"], ["end"]), node("Slice", ["table", "pos", "end", "zero"], ["rows"]),
             node("Squeeze", ["pos"], ["p"]), node("Squeeze", ["end"], ["e"]),
             node("Range", ["p", "e", "one"], ["places"]), node("Add", ["pos", "step"], ["next"])]
    return model(nodes, {"pos": np.zeros(1, np.int64), "table": np.zeros((50, 3), F)},  # type: ignore[arg-type]
                 ["rows", "places", "next"], {"two": np.int64([2]), "zero": np.int64([0]), "one": np.int64(1),
                                              "step": np.int64([1])})


def test_a_position_that_moves_is_no_new_program() -> None:
    m, table = rows_at(), np.random.default_rng(0).standard_normal((50, 3)).astype(F)
    m.bind_handle("table", table)
    m.bind_handle("pos", np.zeros(1, np.int64))
    m.link("next", "pos")
    for k in range(48):
        out = m.run()
        np.testing.assert_array_equal(out["rows"], table[k : k + 2])
        np.testing.assert_array_equal(out["places"], [k, k + 1])
    assert m.memory_report().variants == 1


FORMS: dict[str, tuple[list[tuple[object, ...]], np.ndarray, dict[str, np.ndarray], object]] = {
    "a row": ([("Add", ["pos", "one"], ["end"]), ("Slice", ["t", "pos", "end", "zero"], ["y"])],
              np.zeros(1, np.int64), {"one": np.array([1])}, lambda t, p: t[p : p + 1]),
    "rows, i32": ([("Add", ["pos", "four"], ["end"]), ("Slice", ["t", "pos", "end"], ["y"])],
                  np.zeros(1, np.int32), {"four": np.array([4], np.int32)}, lambda t, p: t[p : p + 4]),
    "a range": ([("Add", ["pos", "one"], ["end"]), ("Range", ["pos", "end", "one"], ["r"]),
                 ("Gather", ["t", "r"], ["y"])],
                np.zeros((), np.int64), {"one": np.int64(1)}, lambda t, p: t[p : p + 1]),
    "two axes": ([("Concat", ["pos", "pos"], ["at"]), ("Add", ["at", "wide"], ["end"]),
                  ("Slice", ["t", "at", "end"], ["y"])],
                 np.zeros(1, np.int64), {"wide": np.array([2, 2])}, lambda t, p: t[p : p + 2, p : p + 2]),
}


@pytest.mark.parametrize("form", FORMS)
def test_positions_in_other_forms_are_no_new_programs(form: str) -> None:
    steps, pos, constants, want = FORMS[form]
    t = np.arange(1600, dtype=F).reshape(40, 40)
    nodes = [node(*s, **({"axis": 0} if s[0] in ("Concat", "Gather") else {})) for s in steps]
    m = model(nodes, {"pos": pos}, ["y"], {"t": t, "zero": np.zeros(1, np.int64), **constants})  # type: ignore[arg-type]
    for p in range(30):
        got = m.run({"pos": (pos + p).astype(pos.dtype)})["y"]
        np.testing.assert_array_equal(got, want(t, p))  # type: ignore[operator]
    assert m.memory_report().variants == 1


@pytest.mark.parametrize("pos", [-60, -50, -3, -2, -1, 0, 30, 48, 49, 50, 90])
def test_slices_at_any_position_are_those_of_python(pos: int) -> None:
    m, table = rows_at(), np.arange(150, dtype=F).reshape(50, 3)
    for where in (5, pos, 7, pos):
        out = m.run({"table": table, "pos": np.int64([where])})
        np.testing.assert_array_equal(out["rows"], table[where : where + 2])
        np.testing.assert_array_equal(out["places"], [where, where + 1])


def test_grouped_attention_decodes_with_one_program() -> None:
    """A buffer of fixed size, in place; the total length is a value that differs at every step."""

    heads, size, room = 2, 8, 32
    nodes = [helper.make_node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "ends", "total"],
                              ["y", "present_k", "present_v"], domain="com.microsoft", num_heads=heads,
                              kv_num_heads=heads),
             node("Add", ["ends", "one"], ["ends_next"]), node("Add", ["total", "one0"], ["total_next"])]
    cache, row = np.zeros((1, heads, room, size), F), np.zeros((1, 1, heads * size), F)
    like = {"q": row, "k": row, "v": row, "past_k": cache, "past_v": cache, "ends": np.zeros(1, np.int32),
            "total": np.int32(0)}
    file = proto(nodes, like, ["y", "present_k", "present_v", "ends_next", "total_next"],  # type: ignore[arg-type]
                 {"one": np.int32([1]), "one0": np.int32(1)}, domains=["com.microsoft"])
    m = rlx.load(file.SerializeToString(), threads=1)
    rng = np.random.default_rng(0)
    for name in ("k", "v"):
        m.bind_handle(f"past_{name}", cache)
        m.link(f"present_{name}", f"past_{name}")
    m.bind_handle("ends", np.int32([0]))
    m.bind_handle("total", np.int32(1))
    m.link("ends_next", "ends")
    m.link("total_next", "total")
    kept: list[list[np.ndarray]] = [[], []]
    for step in range(20):
        q, k, v = (rng.standard_normal((1, 1, heads * size)).astype(F) for _ in range(3))
        y = m.run({"q": q, "k": k, "v": v})["y"]
        for held, new in zip(kept, (k, v), strict=True):
            held.append(new.reshape(heads, size))
        keys, values = (np.stack(held, 1).astype(np.float64) for held in kept)
        scores = np.einsum("hd,hjd->hj", q.reshape(heads, size), keys) / np.sqrt(size)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        want = np.einsum("hj,hjd->hd", p / p.sum(-1, keepdims=True), values)
        np.testing.assert_allclose(y.reshape(heads, size), want, rtol=1e-4, atol=1e-5, err_msg=str(step))
    assert m.memory_report().variants <= 2  # the first token is a prompt


def test_plans_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that grows is a new shape at every step; what is kept of them does not grow."""
    from rlx.onnx import plans

    nodes = [node("Concat", ["past", "x"], ["present"], axis=0), node("Softmax", ["present"], ["s"], axis=0),
             node("ReduceSum", ["s"], ["total"], keepdims=0)]
    m = model(nodes, {"past": np.zeros(0, F), "x": np.zeros(1, F)}, ["present", "total"])  # type: ignore[arg-type]
    m.bind_handle("past", np.zeros(0, F))
    m.link("present", "past")
    monkeypatch.setattr(plans, "MAX_BYTES", 5 * plans.CALL_BYTES)
    for k in range(1, 41):
        out = m.run({"x": F([k])})
        np.testing.assert_array_equal(out["present"], np.arange(k) + 1)
        np.testing.assert_allclose(out["total"], 1, rtol=1e-5)
        assert m.memory_report().variants <= 6
    gc.collect()
    from rlx.runtime.variant import Variant

    assert sum(isinstance(o, Variant) and o.name == "test" for o in gc.get_objects()) <= 6


TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "soak_state.py"
MODELS = pathlib.Path(os.environ.get("RLX_MODELS", "~/.cache/rlx-models")).expanduser()


def tool() -> object:
    spec = importlib.util.spec_from_file_location("soak_state", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STATEFUL = [p for p in sorted(MODELS.glob("*.onnx")) if tool().setup(p) is not None]  # type: ignore[attr-defined]


@pytest.mark.models
@pytest.mark.skipif(not STATEFUL, reason="no model files: set RLX_MODELS")
@pytest.mark.parametrize("path", STATEFUL, ids=lambda p: p.stem)
def test_models_with_state_run_through_linked_handles(path: pathlib.Path) -> None:
    """Bit for bit what feeding the state by hand gives; `tools/soak_state.py` runs 10,000 steps."""
    soak = tool()
    found = soak.soak(path, 120)  # type: ignore[attr-defined]
    assert found["buffers"] == 2 * len(soak.setup(path)[0])  # type: ignore[attr-defined]
    assert found["traced"] < 1 << 17


def grower(size: object) -> Model:
    """Its output has one more element than the state."""
    nodes = [node("Concat", ["state", "one"], ["next"], axis=0), node("Neg", ["x"], ["y"])]
    m = proto(nodes, {"state": np.zeros(2, F), "x": np.zeros(1, F)}, ["next", "y"], {"one": np.ones(1, F)})
    m.graph.input[0].CopyFrom(helper.make_tensor_value_info("state", 1, [size]))
    loaded = rlx.load(m.SerializeToString())
    assert isinstance(loaded, Model)
    return loaded


def test_a_handle_of_another_size_than_declared_is_refused_when_it_is_bound() -> None:
    m = grower(2)
    with pytest.raises(BindingError, match=r"handle 'state' of model 'test': shape must be \(2,\), got \(3,\)"):
        m.bind_handle("state", np.zeros(3, F))
    assert m.handles() == {}
    m.bind_handle("state", np.zeros(2, F))
    np.testing.assert_array_equal(m.run({"x": np.ones(1, F)})["next"], [0, 0, 1])
    for size in (0, -1, "n"):  # open
        m = grower(size)
        m.bind_handle("state", np.zeros(3, F))
        m.link("next", "state")
        for k in (4, 5):
            assert m.run({"x": np.ones(1, F)})["next"].shape == (k,)


@pytest.mark.parametrize("busy", ["raise", "wait"])
def test_an_error_about_a_linked_input_names_handle_and_output(busy: str) -> None:
    m = grower(2)
    m._options = dataclasses.replace(m._options, busy=busy)  # type: ignore[arg-type]
    m.bind_handle("state", np.zeros(2, F))
    m.link("next", "state")
    x = {"x": np.ones(1, F)}
    for _ in range(2):  # in its own run: nothing is taken that the next one would refuse
        with pytest.raises(BindingError) as e:
            m.run(x)
        assert str(e.value) == ("link 'next' -> 'state' of model 'test': the output must fit the handle, f32[2], "
                                "got float32[3]")
    with pytest.raises(BindingError, match=r"^input 'state' of model 'test': shape must be"):
        m.run({"state": np.zeros(4, F), **x})  # given, so it is not the handle's
    np.testing.assert_array_equal(m.read_handle("state"), [0, 0])
