"""Caches: a valid part that grows in memory of fixed size, in place; forks, views, truncation."""

import gc
import tracemalloc

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.errors import BindingError, UnknownNameError

F = np.float32
B, H, D, N = 1, 2, 8, 224
VOCAB = 11


def store(capacity: int = 6, rows: int = 1, batch: int = 1, per_item: bool = False) -> rlx.CompiledGraph:
    """Appends to a cache [batch, capacity, 2] and gives the sum of what is valid."""
    g = rlx.Graph("store")
    c = g.input("cache", (batch, capacity, 2))
    new = g.input("new", (batch, rows, 2))
    n = g.input("n", (batch,) if per_item else (), rlx.i64)
    grown, more = ops.cache_append(c, new, n, axis=1)
    places = ops.reshape(g.constant(np.arange(capacity)), shape=(1, capacity, 1))
    seen = ops.lt(places, ops.reshape(more, shape=(-1, 1, 1)))
    zero = g.constant(np.zeros((), F))
    g.output("sum", ops.reduce_sum(ops.where(seen, grown, zero), axes=(1,), keepdims=False))
    g.output("grown", grown)
    g.output("n_next", more)
    return rlx.compile(g, rlx.CompileOptions(poison=True, check=True))


def wired(**how: object) -> rlx.CompiledGraph:
    e = store(**how)  # type: ignore[arg-type]
    batch = e.graph.inputs[0].shape[0]
    e.bind_handle("cache", np.zeros((batch, 0, 2), F), axis=1, length="n")
    e.link("grown", "cache")
    e.link("n_next", "n")
    return e


def rows(*values: float) -> dict[str, np.ndarray]:
    return {"new": np.repeat(F(values)[:, None, None], 2, 2)}


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@pytest.mark.parametrize("call", ["run", "run_raw", "run_typed", "run_slots"])
def test_rows_are_appended_in_place(call: str) -> None:
    e = wired()
    places = set()
    for k in range(1, 7):
        if call == "run_slots":
            e.run_slots([None, rows(k)["new"], None])
        else:
            getattr(e, call)(rows(k))
        places.add(address(e.view_handle("cache")))
        assert e.read_handle("cache").shape == (1, k, 2)
    assert len(places) == 1
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, 2, 3, 4, 5, 6])
    assert e.read_handle("n") == 6


def test_a_full_cache_raises_and_stays() -> None:
    e = wired(capacity=2)
    e.run(rows(1))
    e.run(rows(2))
    with pytest.raises(IndexError, match=r"capacity 2, got 3 rows.*\nhint: truncate"):
        e.run(rows(3))
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, 2])
    e.truncate("cache", 1)
    e.run(rows(4))
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, 4])


def test_views_of_the_valid_part_stay_true() -> None:
    e = wired()
    e.run(rows(1))
    e.run(rows(2))
    view = e.view_handle("cache")
    assert not view.flags.writeable
    e.run(rows(3))
    assert address(e.view_handle("cache")) == address(view)
    np.testing.assert_array_equal(view[0, :, 0], [1, 2])
    e.truncate("cache", 1)
    e.run(rows(9))
    assert address(e.view_handle("cache")) != address(view)
    np.testing.assert_array_equal(view[0, :, 0], [1, 2])
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, 9])
    del view
    here = address(e.view_handle("cache"))
    e.truncate("cache", 0)
    np.testing.assert_array_equal(e.run(rows(5))["sum"], 5)
    assert address(e.view_handle("cache")) == here


def test_results_that_are_held_keep_their_valid_part() -> None:
    e = wired()
    kept = [e.run(rows(k))["grown"] for k in (1, 2, 3)]
    for k, array in enumerate(kept):
        np.testing.assert_array_equal(array[0, : k + 1, 0], np.arange(k + 1) + 1)


def test_forks_and_clones_copy_when_one_side_writes() -> None:
    e = wired()
    e.run(rows(1))
    fork, clone = e.fork(), e.clone()
    assert address(clone.view_handle("cache")) == address(e.view_handle("cache"))
    e.run(rows(2))
    clone.run(rows(7))
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, 2])
    np.testing.assert_array_equal(clone.read_handle("cache")[0, :, 0], [1, 7])
    for last in (3, 4):  # two continuations of one prompt
        e.restore(fork)
        e.run(rows(last))
        np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [1, last])
    e.bind_handle("n", np.int64(0))
    e.run(rows(8))
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [8])


def test_explicit_inputs_override_a_cache_for_one_run() -> None:
    e = wired()
    e.run(rows(1))
    out = e.run({"cache": np.full((1, 6, 2), 5, F), "n": np.int64(2), **rows(3)})
    np.testing.assert_array_equal(out["sum"], 13)
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [5, 5, 3])
    np.testing.assert_array_equal(e.run(rows(1))["sum"], 14)


def test_a_length_per_item() -> None:
    e = store(batch=2, per_item=True)
    e.bind_handle("n", np.int64([2, 1]))
    first = np.zeros((2, 2, 2), F)
    first[0], first[1, 0] = 1, 2
    e.bind_handle("cache", first, axis=1, length="n")
    e.link("grown", "cache")
    e.link("n_next", "n")
    np.testing.assert_array_equal(e.run(rows(10, 20))["sum"][:, 0], [12, 22])
    np.testing.assert_array_equal(e.read_handle("n"), [3, 2])
    e.truncate("cache", np.array([0, 2]))
    np.testing.assert_array_equal(e.run(rows(10, 20))["sum"][:, 0], [10, 42])


def test_new_rows_alone_are_appended_by_the_executable() -> None:
    g = rlx.Graph("rows")
    c, n, x = g.input("cache", (1, 4, 2)), g.input("n", (), rlx.i64), g.input("x", (1, 1, 2))
    g.output("new", x * 2)
    g.output("first", c[:, :1] + ops.cast(n, dtype=rlx.f32))
    e = rlx.compile(g)
    e.bind_handle("cache", np.zeros((1, 0, 2), F), axis=1, length="n")
    with pytest.raises(BindingError, match="types must be equal"):
        e.link("new", "cache")
    e.link("new", "cache", append=True)
    place = address(e.view_handle("cache"))
    for k in (1, 2, 3, 4):
        np.testing.assert_array_equal(e.run({"x": np.full((1, 1, 2), k, F)})["first"], (k > 1) * 2 + k - 1)
    assert address(e.view_handle("cache")) == place
    np.testing.assert_array_equal(e.read_handle("cache")[0, :, 0], [2, 4, 6, 8])
    with pytest.raises(BindingError, match="fit the capacity 4, got 4 and 1"):
        e.run({"x": np.zeros((1, 1, 2), F)})
    e.truncate("cache", 2)
    assert e.read_handle("n") == 2


def test_bad_caches_are_refused() -> None:
    e = store(per_item=False)
    array = np.zeros((1, 2, 2), F)
    for how, text in (
        ({"axis": 1}, "must have a length"),
        ({"capacity": 6}, "must have a length"),
        ({"axis": 3, "length": "n"}, "axis must be an int in"),
        ({"axis": 1, "length": "new"}, "must be one i64"),
        ({"axis": 1, "length": "n", "capacity": 5}, "capacity must be 6"),
    ):
        with pytest.raises(BindingError, match=text):
            e.bind_handle("cache", array, **how)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="length must name an input"):
        e.bind_handle("cache", array, axis=1, length="m")
    with pytest.raises(BindingError, match="at most 6"):
        e.bind_handle("cache", np.zeros((1, 7, 2), F), axis=1, length="n")
    with pytest.raises(BindingError, match="shape must be"):
        e.bind_handle("cache", np.zeros((1, 2, 3), F), axis=1, length="n")
    e.bind_handle("cache", array, axis=1, length="n")
    for name, n, text in (("cache", 3, r"in \[0, 2\]"), ("cache", -1, "in"), ("cache", 1.5, "must be an int"),
                          ("n", 1, "must be a cache")):
        with pytest.raises(BindingError, match=text):
            e.truncate(name, n)
    with pytest.raises(BindingError, match="unbind the caches first"):
        e.unbind_handle("n")
    with pytest.raises(BindingError, match=r"must be in \[0, 6\]"):
        e.bind_handle("n", np.int64(7))
    with pytest.raises(BindingError, match="only a cache"):
        e.link("n_next", "n", append=True)


def decoder(layers: int = 2) -> rlx.Graph:
    """Tokens of a sequence, cached keys and values; T new tokens a run."""
    rng = np.random.default_rng(5)
    g = rlx.Graph("decoder")
    tokens = g.input("tokens", (B, "T"), rlx.i64)
    pos = g.input("pos", (), rlx.i64)

    def weight(*shape: int) -> rlx.Value:
        return g.constant((rng.standard_normal(shape) * 0.4).astype(F))

    steps = ops.cumsum(ops.expand(g.constant(np.int64(1)), shape=(tokens.shape[1],)), axis=0) - 1 + pos
    x = ops.gather(weight(VOCAB, H * D), tokens, axis=0) + ops.gather(weight(N, H * D), steps, axis=0)
    for i in range(layers):
        heads = []
        for _ in range(3):
            y = ops.reshape(x @ weight(H * D, H * D), shape=(B, tokens.shape[1], H, D))
            heads.append(ops.transpose(y, perm=(0, 2, 1, 3)))
        kv = []
        for name, value in zip("kv", heads[1:], strict=True):
            cache = g.input(f"{name}{i}", (B, H, N, D))
            grown, end = ops.cache_append(cache, value, pos, axis=2)
            kv.append(grown)
            g.output(f"{name}{i}_next", kv[-1])
        lens = ops.expand(end, shape=(B,))
        y = ops.attention(heads[0], *kv, None, lens, causal=True, lens_past=True)
        y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), shape=(B, tokens.shape[1], H * D))
        x = x + ops.tanh(y @ weight(H * D, H * D))
    g.output("logits", x[:, -1] @ weight(H * D, VOCAB))
    g.output("pos_next", end)
    return g


def start(e: rlx.CompiledGraph, layers: int = 2) -> None:
    for i in range(layers):
        for name in "kv":
            e.bind_handle(f"{name}{i}", np.zeros((B, H, 0, D), F), axis=2, length="pos")
            e.link(f"{name}{i}_next", f"{name}{i}")
    e.link("pos_next", "pos")


def test_prefill_and_200_decode_steps_equal_recomputing_from_scratch() -> None:
    g = decoder()
    e, scratch = rlx.compile(g, rlx.CompileOptions(poison=True)), rlx.compile(g)
    start(e)
    start(scratch)
    empty = scratch.fork()
    prompt = np.arange(16)[None] % VOCAB
    tokens = list(prompt[0])
    logits = e.run({"tokens": prompt})["logits"]
    places = set()
    for step in range(200):
        tokens.append(int(logits[0].argmax()))
        logits = e.run({"tokens": np.array([tokens[-1:]])})["logits"]
        places.add(tuple(address(e.view_handle(h)) for h in ("k0", "v0", "k1", "v1")))
        if step % 20 == 0 or step == 199:
            scratch.restore(empty)
            whole = scratch.run({"tokens": np.array([tokens])})["logits"]
            np.testing.assert_allclose(logits, whole, rtol=2e-4, atol=2e-5)
    assert e.memory_report().variants == 2  # one program for the prompt, one for all steps
    assert len(places) == 1
    assert e.read_handle("pos") == 216
    assert e.read_handle("k1").shape == (B, H, 216, D)


def test_decoding_allocates_nothing() -> None:
    e = rlx.compile(decoder())
    start(e)
    e.run({"tokens": np.arange(4)[None]})
    one = {"tokens": np.array([[3]])}
    for _ in range(10):
        e.run(one)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(60):
            e.run(one)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(120):
            e.run(one)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 4096


def test_the_decoder_gives_the_same_bits_with_one_thread_two_threads_a_clone_and_after_truncation() -> None:
    e = rlx.compile(decoder())
    start(e)
    e.run({"tokens": np.arange(20)[None] % VOCAB})
    prefix = e.fork()

    def go(exe: rlx.CompiledGraph, **how: int) -> bytes:
        return b"".join(exe.run({"tokens": np.array([[t]])}, **how)["logits"].tobytes() for t in (1, 5, 2, 8))

    want = go(e, threads=1)
    e.restore(prefix)
    assert go(e, threads=2) == want
    e.truncate("k0", 20)
    assert e.read_handle("v1").shape[2] == 20
    assert go(e) == want
    e.restore(prefix)
    assert go(e.clone()) == want
    assert go(e) == want


def test_attention_costs_what_is_valid() -> None:
    """A tenth of a long cache is attended in well under half the time of all of it."""
    import time

    g = rlx.Graph("attend")
    q, lens = g.input("q", (1, 4, 1, 32)), g.input("lens", (1,), rlx.i64)
    k = g.input("k", (1, 4, 8192, 32))
    g.output("y", ops.attention(q, k, k, None, lens, causal=True, lens_past=True))
    e = rlx.compile(g, rlx.CompileOptions(threads=1))
    rng = np.random.default_rng(0)
    given = {"q": rng.standard_normal((1, 4, 1, 32)).astype(F), "k": rng.standard_normal((1, 4, 8192, 32)).astype(F)}

    def cost(n: int) -> float:
        best = 9.0
        for _ in range(7):
            t = time.process_time()
            for _ in range(5):
                e.run({**given, "lens": np.array([n])})
            best = min(best, time.process_time() - t)
        return best

    assert cost(819) < 0.4 * cost(8192)


@pytest.mark.parametrize("length", [-1, 6, 1 << 62])
def test_lengths_out_of_range_are_told_as_such(length: int) -> None:
    """Attention and recurrent layers count from the start: the range that an error tells has no negative part."""
    g = rlx.Graph("attend")
    q, k, lens = g.input("q", (2, 2, 3, 8)), g.input("k", (2, 2, 5, 8)), g.input("lens", (2,), rlx.i64)
    g.output("y", ops.attention(q, k, k, None, lens, causal=True, lens_past=True))
    given = {"q": np.ones((2, 2, 3, 8), F), "k": np.ones((2, 2, 5, 8), F)}
    for optimize in (True, False):
        e = rlx.compile(g, rlx.CompileOptions(optimize=optimize))
        with pytest.raises(IndexError, match=rf"a length must be in \[0, 5\], got {length} \(element 1\)"):
            e.run({**given, "lens": np.array([5, length])})
        assert np.isfinite(e.run({**given, "lens": np.array([5, 0])})["y"]).all()
