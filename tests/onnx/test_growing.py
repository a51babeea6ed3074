"""Models whose past grows by `Concat`: caches in place, few compilations; sizes that are followed."""

import gc
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from forked import true_in_child
from onnx import TensorProto, helper

import rlx
from rlx.errors import BindingError, BindingTypeError, SizeError, UnknownNameError
from rlx.onnx import Model
from rlx.testing.onnx_decoder import decoder
from rlx.testing.onnx_models import model

F = np.float32


def load(data: bytes, **options: Any) -> Model:
    made = rlx.load(data, options=rlx.CompileOptions(threads=1, **options))
    assert isinstance(made, Model)
    return made


def tokens(n: int, batch: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, (batch, n))


class ByHand:
    """The same model, its past given and taken at every step."""

    def __init__(self, data: bytes, batch: int = 1, kv: int = 2, **options: Any) -> None:
        self.model = load(data, **options)
        names = [n for n in self.model.signature.inputs if n.startswith("past")]
        self.past = {n: np.zeros((batch, kv, 0, 8), F) for n in names}

    def step(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        total = self.past["past_key_values.0.key"].shape[2] + ids.shape[1]
        out = self.model.run({"input_ids": ids, "attention_mask": np.ones((len(ids), total), np.int64), **self.past})
        self.past = {n: np.array(out[n.replace("past_key_values", "present")]) for n in self.past}
        return dict(out.items())


def step(m: Model, ids: np.ndarray, **more: Any) -> Any:
    total = (int(m.read_handle("cache_length")) if "cache_length" in m.handles() else 0) + ids.shape[1]
    return m.run({"input_ids": ids, "attention_mask": np.ones((len(ids), total), np.int64), **more})


def same(got: Any, want: dict[str, np.ndarray]) -> None:
    assert list(got.keys()) == list(want)
    for name, array in want.items():
        assert got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name


def compilations(m: Model) -> int:
    sized = m._core.sized  # type: ignore[attr-defined]
    count: int = sized.compiled
    assert not sized.reason
    return count


@pytest.mark.parametrize("case", [
    {}, {"batch": 3, "poison": True}, {"kv_heads": 1, "heads": 2}, {"optimize": False}, {"threads": 2},
    {"random": True},
])
def test_generation_equals_feeding_by_hand(case: dict[str, Any]) -> None:
    batch = case.get("batch", 1)
    build = {k: v for k, v in case.items() if k in ("kv_heads", "heads", "random")}
    options = {k: v for k, v in case.items() if k in ("poison", "optimize")}
    data, kv = decoder(**build), case.get("kv_heads", 2)
    m, hand = load(data, **options), ByHand(data, batch, kv, **options)
    found = m.bind_caches(64, {"batch_size": batch})
    assert found["present.1.value"] == type(found["present.1.value"])("past_key_values.1.value", 2)
    for k, n in enumerate([7, *[1] * 12, 4, 1, 1]):
        ids = tokens(n, batch, seed=k)
        got = step(m, ids) if case.get("threads") is None else m.run(
            {"input_ids": ids, "attention_mask": np.ones((batch, int(m.read_handle("cache_length")) + n), np.int64)},
            threads=2)
        same(got, hand.step(ids))
    assert m.read_handle("past_key_values.1.key").tobytes() == hand.past["past_key_values.1.key"].tobytes()
    assert int(m.read_handle("cache_length")) == 25


def test_many_lengths_are_few_compilations_in_one_memory() -> None:
    m = load(decoder())
    m.bind_caches(200)
    step(m, tokens(10))
    places = set()
    for k in range(20):
        out = step(m, tokens(1, seed=k))
        places.add(out["present.0.key"].ctypes.data)
    before = compilations(m)
    for k in range(160):
        out = step(m, tokens(1, seed=k))
        places.add(out["present.0.key"].ctypes.data)
    assert len(places) == 1 and not out["present.0.key"].flags.writeable
    assert before <= 12 and compilations(m) <= before + 8
    calls = m._caches()._known  # type: ignore[attr-defined]
    program = list(calls.values())[-1].compiled.program
    moved = [c for c in program.calls if c.kernel.startswith(("concat", "copy", "transpose"))]
    assert not [c for c in moved if any(a is not None and a.nbytes >= 150 * 8 * 4 for a in c.args)]
    assert sum(c.kernel == "cache.append" for c in program.calls) == 4
    report = m.memory_report()
    assert report.variants > 100 and report.weights < 60_000  # weights are held once


def test_steps_of_known_lengths_allocate_nothing() -> None:
    m = load(decoder())
    m.bind_caches(64)
    ids, masks = tokens(1), [np.ones((1, n), np.int64) for n in range(65)]

    def generate() -> None:
        m.truncate("past_key_values.0.key", 0)
        for n in range(1, 41):
            m.run({"input_ids": ids, "attention_mask": masks[n]})

    step(m, ids)
    for _ in range(3):
        generate()
    gc.collect()
    tracemalloc.start()
    try:
        generate()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            generate()
        assert tracemalloc.get_traced_memory()[0] - before < 16 << 10  # 400 runs
    finally:
        tracemalloc.stop()


def test_prompts_of_many_lengths_are_few_compilations() -> None:
    data = decoder()
    m, hand = load(data), ByHand(data)
    m.bind_caches(128)
    empty = m.fork()
    for n in (5, 9, 12, 40, 41, 77, 100, 128, 33, 34):
        m.restore(empty)
        hand.past = {k: v[:, :, :0] for k, v in hand.past.items()}
        same(step(m, tokens(n)), hand.step(tokens(n)))
    before = compilations(m)
    for n in range(50, 70):
        m.restore(empty)
        step(m, tokens(n))
    assert compilations(m) <= before + 4


def test_truncating_forking_cloning_and_pickling() -> None:
    data = decoder()
    m, hand = load(data), ByHand(data)
    m.bind_caches(32)
    step(m, tokens(6))
    hand.step(tokens(6))
    held = m.view_handle("past_key_values.0.key")
    kept = held.copy()
    prompt, past = m.fork(), dict(hand.past)
    first = [np.array(step(m, tokens(1, seed=k))["logits"]) for k in range(5)]
    twin = m.clone()
    m.restore(prompt)
    copy = m.clone()
    with pytest.raises(BindingError, match="no caches that grow when it is pickled"):
        pickle.dumps(m)
    for who in (m, copy):
        for k in range(5):
            np.testing.assert_array_equal(step(who, tokens(1, seed=k))["logits"], first[k])
    for k in range(5):
        np.testing.assert_array_equal(hand.step(tokens(1, seed=k))["logits"], first[k])
    same(step(twin, tokens(1, seed=9)), hand.step(tokens(1, seed=9)))
    m.truncate("past_key_values.0.key", 6)
    assert int(m.read_handle("cache_length")) == 6
    hand.past = past
    same(step(m, tokens(2, seed=3)), hand.step(tokens(2, seed=3)))
    np.testing.assert_array_equal(held, kept)  # what somebody holds stays


def test_a_full_cache_raises_and_stays() -> None:
    m, want = load(decoder(random=True)), load(decoder(random=True))
    for each in (m, want):
        each.bind_caches(8)
        step(each, tokens(7))
    for n in (2, 3):
        with pytest.raises(BindingError, match=r"cache 'past_key_values\.\d\.\w+': length and new rows must"):
            step(m, tokens(n))
    same(step(m, tokens(1)), dict(step(want, tokens(1)).items()))
    with pytest.raises(BindingError, match="capacity 8, got 9"):
        step(m, tokens(1))


def test_errors_name_what_is_wrong() -> None:
    m = load(decoder())
    with pytest.raises(BindingError, match="capacity must be a positive int, got 0"):
        m.bind_caches(0)
    with pytest.raises(SizeError, match=r"0\.key.* must fit this machine's .*\nhint: give a smaller"):
        m.bind_caches(2**40)
    with pytest.raises(BindingError, match="an input that an output puts rows behind"):
        m.bind_handle("past_key_values.0.key", np.zeros((1, 2, 0, 8), F), axis=1, capacity=4)
    with pytest.raises(BindingError, match="an input that an output puts rows behind"):
        m.bind_handle("input_ids", np.zeros((1, 0), np.int64), axis=1, capacity=4)
    with pytest.raises(BindingError, match=r"open sizes of caches are \['batch_size'\], got \['batch'\]"):
        m.bind_caches(16, {"batch": 2})
    m.bind_caches(16)
    good = {"input_ids": tokens(3), "attention_mask": np.ones((1, 3), np.int64)}
    with pytest.raises(UnknownNameError, match="did you mean 'input_ids'"):
        m.run({"input_id": tokens(3), "attention_mask": np.ones((1, 3), np.int64)})
    with pytest.raises(BindingError, match="'attention_mask'"):
        m.run({"input_ids": tokens(3)})
    with pytest.raises(BindingTypeError):
        m.run({**good, "input_ids": np.ones((1, 3), F)})
    with pytest.raises(BindingError):
        m.run({**good, "input_ids": np.ones(3, np.int64)})
    with pytest.raises(UnknownNameError):
        m.run({**good, "more": np.ones(3)})
    with pytest.raises(rlx.RlxError):
        m.run({**good, "attention_mask": np.ones((1, 9), np.int64)})
    assert int(m.read_handle("cache_length")) == 0
    want = ByHand(decoder()).step(tokens(3))
    same(m.run({"input_ids": tokens(3).tolist(), "attention_mask": [[1, 1, 1]]}), want)
    loose = load(decoder())
    loose.bind_handle("past_key_values.0.key", np.zeros((1, 2, 0, 8), F), axis=2, capacity=16)
    with pytest.raises(BindingError, match=r"must be linked from 'present\.0\.key'"):
        loose.run(good)


def test_an_explicit_past_overrides_the_caches_for_one_run() -> None:
    data = decoder()
    m, hand = load(data), ByHand(data)
    m.bind_caches(32)
    step(m, tokens(4))
    other = ByHand(data)
    other.step(tokens(9, seed=5))
    got = m.run({"input_ids": tokens(1), "attention_mask": np.ones((1, 10), np.int64), **other.past})
    same(got, other.step(tokens(1)))
    hand.step(tokens(4))
    same(step(m, tokens(1)), hand.step(tokens(1)))


@pytest.mark.parametrize("options", [{"nan_check": True}, {"busy": "wait"}])
def test_options_hold_for_caches(options: dict[str, Any]) -> None:
    data = decoder()
    m, hand = load(data, **options), ByHand(data)
    m.bind_caches(32)
    for k, n in enumerate((5, 1, 1, 2, 1)):
        same(step(m, tokens(n, seed=k)), hand.step(tokens(n, seed=k)))


def test_what_needs_a_value_is_run_by_hand_into_the_same_caches() -> None:
    """A shape that depends on data cannot be followed: imported per length as before, the cache grows all the same."""
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
             helper.make_node("NonZero", ["present"], ["places"]),
             helper.make_node("Shape", ["places"], ["count"])]
    m = model(nodes, {"past": np.zeros((1, 0, 2), F), "x": np.zeros((1, 1, 2), F)}, ["present", "count"])
    m.bind_handle("past", np.zeros((1, 0, 2), F), axis=1, capacity=6)
    m.link("present", "past")
    for k in range(1, 7):
        out = m.run({"x": np.full((1, 1, 2), k % 2, F)})
        assert out["present"].shape == (1, k, 2) and out["count"].tolist() == [3, 2 * ((k + 1) // 2)]
    with pytest.raises(BindingError, match="capacity 6"):
        m.run({"x": np.zeros((1, 1, 2), F)})
    np.testing.assert_array_equal(m.read_handle("past")[0, :, 0], [1, 0, 1, 0, 1, 0])
    assert "sizes are not followed: node" in str(m.explain())


def test_what_else_reads_the_past_and_the_whole_of_it() -> None:
    """Behind an `Identity`; the past is read before it grows, the whole of it by a slice; axes have no names."""
    nodes = [helper.make_node("Concat", ["past", "x"], ["p"], axis=1), helper.make_node("Identity", ["p"], ["present"]),
             helper.make_node("ReduceSum", ["past"], ["old"], keepdims=0),
             helper.make_node("Slice", ["p", "i0", "i2", "i1"], ["first"])]
    places = {f"i{k}": np.array([k]) for k in range(3)}
    m = model(nodes, {"past": np.zeros((1, 3, 2), F), "x": np.zeros((1, 1, 2), F)}, ["present", "old", "first"], places)
    assert list(m.bind_caches(16, {"past.2": 2})) == ["present"]
    seen = np.zeros((1, 0, 2), F)
    for k in range(9):
        x = np.full((1, 1 if k else 2, 2), k + 1, F)
        old, seen = seen.sum(), np.concatenate([seen, x], 1)
        out = m.run({"x": x})
        np.testing.assert_array_equal(out["present"], seen)
        np.testing.assert_array_equal(out["first"], seen[:, :2])
        assert out["old"] == old
    assert compilations(m) < 9


def test_a_cache_that_is_part_of_another_ones_rows() -> None:
    nodes = [helper.make_node("Concat", ["a", "x"], ["A"], axis=0),
             helper.make_node("Concat", ["b", "A"], ["B"], axis=0)]
    m = model(nodes, {"a": np.zeros((2, 2), F), "b": np.zeros((2, 2), F), "x": np.zeros((1, 2), F)}, ["A", "B"])
    m.bind_caches(64, {"a.1": 2, "b.1": 2})
    m.run({"x": np.ones((1, 2), F)})  # both are empty: one row each
    with pytest.raises(BindingError, match="caches of one length must grow by as many rows, got"):
        m.run({"x": np.ones((1, 2), F)})


def test_other_state_beside_caches() -> None:
    """A state of fixed size (as of a recurrent layer) and caches along other axes."""
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=-1),
             helper.make_node("ReduceSum", ["present", "axes"], ["seen"], keepdims=0),
             helper.make_node("Add", ["state", "seen"], ["state_next"])]
    feeds = {"past": np.zeros((2, 0), F), "x": np.zeros((2, 1), F), "state": np.zeros(2, F)}
    m = model(nodes, feeds, ["present", "state_next"], {"axes": np.array([1])})
    m.bind_handle("past", np.zeros((2, 0), F), axis=1, capacity=40)
    m.bind_handle("state", np.zeros(2, F))
    m.link("present", "past")
    m.link("state_next", "state")
    want, seen = np.zeros(2, F), np.zeros((2, 0), F)
    for k in range(30):
        x = np.full((2, 1), k, F)
        seen = np.concatenate([seen, x], 1)
        want = want + seen.sum(1)
        np.testing.assert_array_equal(m.run({"x": x})["state_next"], want)
    np.testing.assert_array_equal(m.read_handle("past"), seen)
    assert compilations(m) < 12


# --------------------------------------------------------------------- sizes that are followed


def encoder() -> bytes:
    """Tokens through positions, a reshape by shape arithmetic, an expanded mask and a softmax over tokens."""
    port, rng = helper.make_tensor_value_info, np.random.default_rng(0)
    weights = {"table": rng.standard_normal((64, 8)), "place": rng.standard_normal((1, 64, 8)),
               "w": rng.standard_normal((8, 8))}
    ints = {"one": 1, "zero": 0, "i0": [0], "i1": [1], "two_four": [2, 4]}
    nodes = [helper.make_node(op, ins.split(), [out], **attrs) for op, ins, out, attrs in (
        ("Shape", "ids", "shape", {}), ("Gather", "shape one", "n", {}), ("Unsqueeze", "n i0", "n1", {}),
        ("Slice", "place i0 n1 i1", "places", {}), ("Gather", "table ids", "t", {}), ("Add", "t places", "h", {}),
        ("MatMul", "h w", "q", {}), ("Gather", "shape zero", "b", {}), ("Unsqueeze", "b i0", "b1", {}),
        ("Concat", "b1 n1 two_four", "heads", {"axis": 0}), ("Reshape", "q heads", "qh", {}),
        ("Transpose", "qh", "qt", {"perm": [0, 2, 1, 3]}), ("Transpose", "qh", "kt", {"perm": [0, 2, 3, 1]}),
        ("MatMul", "qt kt", "s", {}), ("Concat", "b1 i1 n1 n1", "wide", {"axis": 0}),
        ("Unsqueeze", "mask two_axes", "m4", {}), ("Expand", "m4 wide", "mw", {}),
        ("Cast", "mw", "mf", {"to": TensorProto.FLOAT}), ("Add", "s mf", "sm", {}),
        ("Softmax", "sm", "p", {"axis": -1}),
        ("MatMul", "p qt", "y", {}), ("Cast", "n", "nf", {"to": TensorProto.FLOAT}), ("Div", "y nf", "out", {}),
    )]
    ints["two_axes"] = [1, 2]
    constants = [helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.astype(F).reshape(-1)) for k, v in weights.items()]
    constants += [helper.make_tensor(k, TensorProto.INT64, np.shape(v), np.reshape(v, -1)) for k, v in ints.items()]
    graph = helper.make_graph(nodes, "encoder", [port("ids", TensorProto.INT64, ["batch", "seq"]),
                                                 port("mask", TensorProto.INT64, ["batch", "seq"])],
                              [port("out", TensorProto.FLOAT, ["batch", 2, "seq", 4])], constants)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    made: bytes = file.SerializeToString()
    return made


def feeds(n: int, batch: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {"ids": rng.integers(0, 64, (batch, n)), "mask": rng.integers(0, 2, (batch, n))}


@pytest.mark.parametrize("options", [{"poison": True}, {"optimize": False}])
def test_c5_extents_of_a_file_are_exact_at_every_size(options: dict[str, Any]) -> None:
    m, exact = load(encoder(), extents={"seq": 64}, **options), load(encoder(), **options)
    order = np.random.default_rng(0).permutation(64)[:24] + 1
    for n in order:
        same(m.run(feeds(int(n))), dict(exact.run(feeds(int(n))).items()))
    assert compilations(m) < 40
    before = compilations(m)
    for n in order:
        same(m.run(feeds(int(n)), threads=2), dict(exact.run(feeds(int(n))).items()))
    assert compilations(m) == before
    for n, batch in ((20, 2), (20, 3), (33, 3), (34, 3), (35, 3)):  # another batch is another family
        same(m.run(feeds(n, batch)), dict(exact.run(feeds(n, batch)).items()))


def test_r80_sizes_beyond_the_extent_and_of_no_name() -> None:
    m, exact = load(encoder(), extents={"seq": 16}), load(encoder())
    for n in (4, 5, 6, 17, 40, 16):
        same(m.run(feeds(n)), dict(exact.run(feeds(n)).items()))
    with pytest.raises(rlx.ConfigError, match=r"sizes of the file are \['batch', 'seq'\], got \['sequence'\]"):
        load(encoder(), extents={"sequence": 16})


def test_clones_and_files_of_models_that_follow_a_size(tmp_path: Any) -> None:
    m, exact = load(encoder(), extents={"seq": 64}), load(encoder())
    for n in (20, 21, 22, 30):
        m.run(feeds(n))
    twin = m.clone()
    for n in (22, 23):
        same(twin.run(feeds(n)), dict(exact.run(feeds(n)).items()))
        same(m.run(feeds(n)), dict(exact.run(feeds(n)).items()))
    m.save(tmp_path / "m.rlx")
    loaded = rlx.load(tmp_path / "m.rlx")
    copied = pickle.loads(pickle.dumps(m))
    for n in (20, 30, 23):
        same(loaded.run(feeds(n)), dict(exact.run(feeds(n)).items()))
        same(copied.run(feeds(n)), dict(exact.run(feeds(n)).items()))
    with pytest.raises(BindingError, match="need the ONNX file"):
        loaded.bind_caches(8)


def test_reports_of_models_that_follow_sizes() -> None:
    m = load(encoder(), extents={"seq": 64})
    for n in (20, 21, 22, 23):
        m.run(feeds(n))
    assert m.memory_report().variants == 4
    assert m.profile(feeds(22), repeat=2).rows and m.compiled_for(feeds(23))
    assert "seq" in str(m.signature) and str(m.explain())
    m.trim()
    m.run(feeds(24))
    m.close()
    with pytest.raises(rlx.RlxError):
        m.run(feeds(24))


def test_memory_is_flat_over_many_lengths() -> None:
    m = load(encoder(), extents={"seq": 64})
    rng = np.random.default_rng(1)
    for n in rng.integers(1, 65, 300):
        m.run(feeds(int(n)))
    gc.collect()
    tracemalloc.start()
    try:
        for n in rng.integers(1, 65, 50):
            m.run(feeds(int(n)))
        before = tracemalloc.get_traced_memory()[0]
        for n in rng.integers(1, 65, 300):
            m.run(feeds(int(n)))
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def test_values_of_all_nodes_and_cancelling_beside_caches() -> None:
    m = load(decoder())
    m.bind_caches(16)
    step(m, tokens(5))
    given = {"input_ids": tokens(1, seed=7), "attention_mask": np.ones((1, 6), np.int64)}
    seen = m.dump_nodes(given)
    m.cancel()  # nothing is in progress
    out = m.run(given)
    np.testing.assert_allclose(seen["logits"], out["logits"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(seen["present.0.key"], out["present.0.key"])
    assert int(m.read_handle("cache_length")) == 6


def test_a_child_goes_on_with_its_own_cache() -> None:
    m = load(decoder())
    m.bind_caches(32)
    for n in (4, 1, 1):
        step(m, tokens(n))
    twin = m.clone()
    want = [step(twin, tokens(1, seed=k))["logits"].tobytes() for k in range(4)]
    assert true_in_child(lambda: [step(m, tokens(1, seed=k))["logits"].tobytes() for k in range(4)] == want)
    assert [step(m, tokens(1, seed=k))["logits"].tobytes() for k in range(4)] == want


def test_four_threads_on_clones() -> None:
    import threading

    m = load(decoder())
    m.bind_caches(32)
    step(m, tokens(5))
    twin = m.clone()
    want = [step(twin, tokens(1, seed=k))["logits"].tobytes() for k in range(12)]
    wrong: list[int] = []

    def work(who: Model) -> None:
        for k in range(12):
            if step(who, tokens(1, seed=k))["logits"].tobytes() != want[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(m.clone(),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
