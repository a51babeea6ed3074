"""Caches of executables: keys, limits, sharing, threads, buckets."""

import gc
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.runtime.cache import LRU

RNG = np.random.default_rng(7)
D = 16
PARAMS = {n: RNG.standard_normal((D, D)).astype(np.float32) for n in ("q", "k", "v")}


def layer(width: int = D, name: str = "layer") -> rlx.Graph:
    """Attention over all rows of a sequence, without a mask: padding would show in every row."""
    g = rlx.Graph(name)
    x = g.input("x", ("batch", "seq", width))
    q, k, v = (x @ g.param(n, (width, width)) for n in ("q", "k", "v"))
    weights = ops.softmax(q @ ops.transpose(k, perm=(0, 2, 1)), axis=-1)
    g.output("y", weights @ v)
    g.output("mean", ops.reduce_mean(x, axes=1))
    return g


def exact(x: np.ndarray, params: dict[str, np.ndarray] = PARAMS) -> Any:
    exe = rlx.compile(layer(), rlx.CompileOptions(dims={"batch": x.shape[0], "seq": x.shape[1]}))
    exe.set_params(params)
    return exe.run({"x": x})


def rows(batch: int, seq: int) -> np.ndarray:
    return RNG.standard_normal((batch, seq, D)).astype(np.float32)


def assert_same(got: Any, want: Any) -> None:
    assert list(got.keys()) == list(want.keys())
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def test_lru_drops_what_was_not_used_for_longest() -> None:
    lru: LRU[str, int] = LRU(2)
    lru.put("a", 1)
    lru.put("b", 2)
    assert lru.get("a") == 1 and lru.get("x") is None
    lru.put("c", 3)
    assert list(lru) == ["a", "c"] and "b" not in lru
    s = lru.stats
    assert (s.hits, s.misses, s.evictions, s.entries) == (1, 1, 1, 2) and s.hit_rate == 0.5


def test_lru_counts_bytes_and_keeps_the_newest() -> None:
    lru: LRU[int, int] = LRU(None, 10, sum)
    for i, n in enumerate((4, 5, 3)):
        lru.put(i, n)
    assert lru.values() == [5, 3]
    lru.put(9, 100)
    assert lru.values() == [100] and lru.stats.nbytes == 100


@pytest.mark.parametrize("bad", [0, -1, True, 2.0])
def test_limits_are_checked(bad: Any) -> None:
    for make in (rlx.CompileCache, lambda **k: rlx.DynamicDimCompileCache(layer(), **k)):
        for name in ("max_entries", "max_bytes"):
            with pytest.raises(rlx.ConfigError, match=name):
                make(**{name: bad})


def test_r92_key_is_the_graph_and_the_options() -> None:
    cache = rlx.CompileCache()
    a = cache.compile(layer(), rlx.CompileOptions(dims={"seq": 3}))
    assert cache.compile(layer(name="other name"), rlx.CompileOptions(dims={"seq": 3})) is a
    others = [
        cache.compile(layer(), rlx.CompileOptions(dims={"seq": 4})),
        cache.compile(layer(), rlx.CompileOptions(dims={"seq": 3}, optimize=False)),
        cache.compile(layer(), rlx.CompileOptions(extents={"seq": 3})),
        cache.compile(layer(8), rlx.CompileOptions(dims={"seq": 3})),
    ]
    assert len({id(e) for e in (a, *others)}) == 5 == len(cache)
    assert (layer(), rlx.CompileOptions(dims={"seq": 4})) in cache and layer() not in cache
    constants = []
    for value in (1.0, 2.0):
        g = rlx.Graph("c")
        g.output("y", g.input("x", (2,)) * np.float32(value))
        constants.append(cache.compile(g))
    assert constants[0] is not constants[1]
    assert "7 entries" in repr(cache) and cache.stats.misses == 7 and cache.stats.hits == 1
    cache.clear()
    assert len(cache) == 0 and a.run is not None


def test_r93_parameters_and_packed_weights_are_shared() -> None:
    cache = rlx.CompileCache()
    made = [cache.compile(layer(), rlx.CompileOptions(dims={"seq": n, "batch": 1})) for n in (2, 3, 4)]
    made[1].set_params(PARAMS)
    for n, exe in zip((2, 3, 4), made, strict=True):
        x = rows(1, n)
        assert_same(exe.run({"x": x}), exact(x))
    one = made[0].memory_report().weights
    assert one > 0 and cache.memory_report().weights == one
    twin = made[0].clone()
    made[2].set_param("v", PARAMS["v"] * 2)
    x = rows(1, 2)
    assert_same(made[0].run({"x": x}), exact(x, {**PARAMS, "v": PARAMS["v"] * 2}))
    assert_same(twin.run({"x": x}), exact(x))


def test_byte_budget_drops_executables() -> None:
    cache = rlx.CompileCache(max_bytes=1)
    for n in (2, 3, 4):
        cache.compile(layer(), rlx.CompileOptions(dims={"seq": n, "batch": 1}))
    assert len(cache) == 1 and cache.stats.evictions == 2


def test_many_threads_compile_once() -> None:
    cache, got = rlx.CompileCache(), []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        got.append(cache.compile(layer(), rlx.CompileOptions(dims={"seq": 5, "batch": 2})))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 8 and len({id(e) for e in got}) == 1


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(rlx.ConfigError, match="Graph"):
        rlx.CompileCache().compile("graph")
    with pytest.raises(rlx.ConfigError, match="open size"):
        rlx.DynamicDimCompileCache(layer(), rlx.CompileOptions(dims={"seq": 1, "batch": 1}))
    with pytest.raises(rlx.ConfigError, match="sizes must be"):
        rlx.DynamicDimCompileCache(layer()).executable({"seq": 1})
    for bad in ({}, {"seq": ()}, {"seq": (2, 2)}, {"seq": (4, 2)}, {"seq": (0, 1)}, {"sec": (1,)}, {"seq": 4}, 4):
        with pytest.raises(rlx.ConfigError):
            rlx.BucketedCompileCache(layer(), bad)
    with pytest.raises(rlx.ConfigError, match="extents"):
        rlx.BucketedCompileCache(layer(), {"seq": (4,)}, rlx.CompileOptions(extents={"seq": 3}))


def test_ladder_edges() -> None:
    assert rlx.power_of_two_ladder(1, 1) == (1,)
    assert rlx.power_of_two_ladder(3, 100) == (4, 8, 16, 32, 64, 128)
    assert rlx.power_of_two_ladder(16, 16) == (16,)
    for low, high in ((0, 4), (4, 0), (5, 3), (True, 4), (1.0, 4)):
        with pytest.raises(rlx.ConfigError):
            rlx.power_of_two_ladder(low, high)


def test_dynamic_dims() -> None:
    cache = rlx.DynamicDimCompileCache(layer(), max_entries=3)
    cache.set_params(PARAMS)
    for b, n in ((1, 2), (2, 2), (1, 2), (3, 4), (1, 5)):
        x = rows(b, n)
        assert_same(cache.run({"x": x}), exact(x))
    assert len(cache) == 3 and cache.stats.evictions == 1 and cache.stats.hits == 1
    assert "'layer' by batch, seq" in repr(cache)
    assert cache.executable({"batch": 1, "seq": 5}).signature.inputs["x"].rank == 3


def test_a58_rows_do_not_depend_on_the_bucket() -> None:
    """Padding leaks into attention without a mask; an extent does not pad."""
    cache = rlx.BucketedCompileCache(layer(), {"seq": rlx.power_of_two_ladder(2, 16)},
                                     rlx.CompileOptions(poison=True))
    cache.set_params(PARAMS)
    for n in (1, 2, 3, 5, 8, 9, 16, 3):
        x = rows(2, n)
        assert_same(cache.run({"x": x}), exact(x))
    assert len(cache) == 4
    assert cache.bucket({"seq": 9}) == {"seq": 16}
    for n in (0, 17):
        with pytest.raises(rlx.BindingError, match=r"must be in \[1, 16\]"):
            cache.run({"x": rows(1, n)})
    cache.set_param("k", PARAMS["k"] * 3)
    x = rows(1, 3)
    assert_same(cache.run({"x": x}), exact(x, {**PARAMS, "k": PARAMS["k"] * 3}))
    np.testing.assert_array_equal(cache.get_param("q"), PARAMS["q"])
    for n in (2, 4, 8, 16):
        cache.run({"x": rows(2, n)})
    assert len({e.memory_report().weights for e in cache._lru.values()} | {cache.memory_report().weights}) == 1


def test_two_bucketed_sizes_and_limits() -> None:
    cache = rlx.BucketedCompileCache(layer(), {"seq": (4, 8), "batch": (2, 4)}, max_entries=2)
    cache.set_params(PARAMS)
    for b, n in ((1, 3), (2, 4), (3, 7), (4, 1), (1, 1), (2, 8)):
        x = rows(b, n)
        assert_same(cache.run({"x": x}), exact(x))
    assert len(cache) == 2 and cache.stats.evictions == 3


def test_bucketed_runs_from_many_threads() -> None:
    cache = rlx.BucketedCompileCache(layer(), {"seq": (4, 8)}, rlx.CompileOptions(threads=1))
    cache.set_params(PARAMS)
    xs = [rows(1, n) for n in range(1, 9)]
    wants = [exact(x) for x in xs]
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in np.random.default_rng(seed).integers(0, 8, 40):
                assert_same(cache.run({"x": xs[i]}), wants[i])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_bucket_that_a_graph_cannot_have_says_why() -> None:
    g = rlx.Graph("fours")
    x = g.input("x", ("n", 2))
    g.output("y", ops.reshape(x, shape=(x.shape[0] // 4, 8)))
    cache = rlx.BucketedCompileCache(g, {"n": (8,)})
    assert cache.run({"x": np.ones((4, 2), np.float32)})["y"].shape == (1, 8)
    with pytest.raises(rlx.BindingError, match="not used: reshape"):
        cache.run({"x": np.ones((3, 2), np.float32)})


def test_sizes_of_a_bucket_are_named() -> None:
    cache = rlx.BucketedCompileCache(layer(), {"seq": (8,)})
    assert cache.bucket({"seq": 3, "batch": 2}) == {"seq": 8}
    wrong = r"must name \['seq'\], got \['sec'\]\nhint: \['seq'\] missing, \['sec'\] not among them"
    with pytest.raises(rlx.BindingError, match=wrong):
        cache.bucket({"sec": 3})
    with pytest.raises(rlx.BindingError, match=r"must name \['seq'\], got \[\]\nhint: \['seq'\] missing$"):
        cache.executable({})


def test_table_of_positions_is_cut_to_each_size() -> None:
    g = rlx.Graph("g")
    x, table = g.input("x", ("n", 3)), g.param("table", ("n", 3))
    g.output("y", x + table)
    positions = RNG.standard_normal((8, 3)).astype(np.float32)
    cache = rlx.BucketedCompileCache(g, {"n": (4, 8)})
    cache.set_params({"table": positions})
    for n in (1, 4, 6, 8):
        x = RNG.standard_normal((n, 3)).astype(np.float32)
        np.testing.assert_array_equal(cache.run({"x": x})["y"], x + positions[:n])
    exe = rlx.compile(g)
    exe.set_params({"table": positions})
    with pytest.raises(rlx.BindingError, match=r"parameter .table.*shape must be"):
        exe.run({"x": np.zeros((4, 3), np.float32)})
    for n in (8, 5, 8):
        exe.set_params({"table": positions[:n]})
        np.testing.assert_array_equal(exe.run({"x": np.zeros((n, 3), np.float32)})["y"], positions[:n])


def masked() -> rlx.Graph:
    """Attention whose mask tells which keys are real."""
    g = rlx.Graph("masked")
    x, mask = g.input("x", ("batch", "seq", D)), g.input("mask", ("batch", "seq"), rlx.i64)
    q, k, v = (x @ PARAMS[n] for n in ("q", "k", "v"))
    keep = ops.reshape(ops.cast(mask, dtype=rlx.f32), shape=(mask.shape[0], 1, mask.shape[1]))
    scores = q @ ops.transpose(k, perm=(0, 2, 1)) + (keep - np.float32(1)) * np.float32(1e30)
    g.output("y", ops.softmax(scores, axis=-1) @ v)
    return g


def test_a58_padded_model_with_a_mask_agrees_with_the_exact_size() -> None:
    model = rlx.compile(masked())
    padded = rlx.PaddedModel(model, {"seq": (4, 8)}, pad={"x": 7.0})
    for n in (1, 3, 4, 6):
        x = rows(2, n)
        feeds = {"x": x, "mask": np.ones((2, n), np.int64)}
        got, want = padded.run(feeds)["y"], rlx.compile(masked()).run(feeds)["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert "4: 3 runs, 8: 1 runs" in repr(padded)
    with pytest.raises(rlx.BindingError, match="must be in"):
        padded.run({"x": rows(1, 9), "mask": np.ones((1, 9), np.int64)})
    with pytest.raises(rlx.BindingError, match="size 'seq' must be 3"):
        padded.run({"x": rows(1, 3), "mask": np.ones((1, 2), np.int64)})


def test_padded_model_checks_its_arguments() -> None:
    model = rlx.compile(masked())
    with pytest.raises(rlx.ConfigError, match="given a model"):
        rlx.PaddedModel(3, {"seq": (4,)})
    with pytest.raises(rlx.ConfigError, match="no input 'mas'"):
        rlx.PaddedModel(model, {"seq": (4,)}, pad={"mas": 1})
    with pytest.raises(rlx.ConfigError, match="no output 'z'"):
        rlx.PaddedModel(model, {"seq": (4,)}, outputs={"z": {1: "seq"}})
    with pytest.raises(rlx.ConfigError, match="which axes carry"):
        rlx.PaddedModel(model, {"seq": (4,)}, outputs={"y": {1: "unknown"}})


def test_mixed_lengths_leave_no_memory_behind() -> None:
    cache = rlx.BucketedCompileCache(layer(), {"seq": rlx.power_of_two_ladder(4, 16)}, rlx.CompileOptions(threads=1))
    cache.set_params(PARAMS)
    xs = [rows(1, n) for n in range(1, 17)]
    for x in xs:
        cache.run({"x": x})
    order = RNG.integers(0, 16, 400)
    for i in order[:100]:
        cache.run({"x": xs[i]})
    gc.collect()
    tracemalloc.start()
    for i in order:
        cache.run({"x": xs[i]})
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000


def test_constants_folded_for_every_size_are_kept_once() -> None:
    """Each program folds the weight anew; the packed results are equal."""
    g = rlx.Graph("g")
    x = g.input("x", ("n", 64))
    w = RNG.standard_normal((64, 96)).astype(np.float32)
    g.output("y", ops.tanh(x @ ops.tanh(g.constant(w))))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    weights = set()
    for n in (20, 24, 40, 24):
        exe.run({"x": np.ones((n, 64), np.float32)})
        weights.add(exe.memory_report().weights)
    assert len(weights) == 1 and weights.pop() >= w.nbytes


def test_store_of_weights_forgets_what_is_gone() -> None:
    w = RNG.standard_normal((32, 32)).astype(np.float32)
    g = rlx.Graph("g")
    x = g.input("x", ("n", 32))
    g.output("y", x @ (g.constant(w) + np.float32(1)))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    for n in range(1, 400):
        exe.run({"x": np.ones((n, 32), np.float32)})
    assert len(exe._store._made) < 400
