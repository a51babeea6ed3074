"""Stateful pairs over many graphs: every way to run, to make and to copy an executable goes through the same states.

A subject is a graph with its state bound and linked. Its steps are run once by `run` on a fresh executable; every other
way must give the same bytes at every step, and the same handles, with scratch full of garbage.
"""

import copy
import itertools
import pathlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.testing.onnx_decoder import decoder
from rlx.testing.onnx_models import proto
from rlx.testing.passes import graphs

F = np.float32
STEPS = 4
CALLS = ("run", "run_raw", "run_typed", "run_slots")
Feeds = dict[str, np.ndarray]


class Subject:
    """A graph, what prepares an executable of it, and the inputs of step k."""

    def __init__(self, graph: rlx.Graph, feeds: Callable[[int], Feeds], prepare: Callable[[Any], None] = lambda e: None,
                 before: Callable[[Any, int], None] = lambda e, k: None, *, files: bool = True,
                 **options: Any) -> None:
        self.graph, self.feeds, self.prepare, self.before, self.files = graph, feeds, prepare, before, files
        self.options = rlx.CompileOptions(poison=True, threads=1, rng=rlx.RngOptions(seed=11), **options)

    def make(self) -> rlx.CompiledGraph:
        """Fresh, its state bound."""
        exe = rlx.compile(self.graph, self.options)
        self.prepare(exe)
        return exe

    def step(self, exe: Any, k: int, how: str = "run", threads: int | None = None) -> list[bytes]:
        """Bytes of all outputs of step k."""
        self.before(exe, k)
        given = self.feeds(k)
        if how == "run_slots":
            results: list[Any] = list(exe.run_slots([given.get(n) for n in exe.signature.inputs]))
        elif how == "run":
            results = list(exe.run(given, threads=threads))
        else:
            results = list(getattr(exe, how)(given))
        return [r[0] if isinstance(r, tuple) else np.asarray(r).tobytes() for r in results]


def state(exe: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in exe.handles().items()}


def rolled(feeds: Mapping[str, np.ndarray], k: int, skip: Any = ()) -> Feeds:
    """The same values in other places: indices stay valid, shapes too."""
    return {n: np.roll(a.reshape(-1), k).reshape(a.shape) for n, a in feeds.items() if n not in skip}


def random_subject(seed: int) -> Subject:
    """A random graph; the first output of the type and shape of an input feeds it, if there is one."""
    graph, feeds, _ = graphs(seed)
    pairs = ((o, v.node.name) for o, r in graph.outputs.items() for v in graph.inputs if r.type == v.type)
    output, handle = next(pairs, ("", ""))

    def prepare(exe: Any) -> None:
        if handle:
            exe.bind_handle(handle, feeds[handle])
            exe.link(output, handle)

    return Subject(graph, lambda k: rolled(feeds, k, {handle}), prepare)


def noise() -> Subject:
    """Draws in a loop, in a branch and outside, added to a state."""
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    v = body.input("v", (3,))
    body.output("go", body.constant(np.asarray(True)))
    body.output("v", v * 0.5 + ops.random_normal(shape=(3,), dtype=rlx.f32, graph=body))
    branch = rlx.Graph("branch")
    x = branch.input("x", (3,))
    branch.output("y", x + ops.random_uniform(shape=(3,), dtype=rlx.f32, graph=branch))
    g = rlx.Graph("noise")
    s, n, p = g.input("s", (3,)), g.input("n", (), rlx.i64), g.input("p", (), rlx.bool_)
    walked = ops.loop(n, None, s, body=body, n_carried=1)[0]
    g.output("next", ops.cond(p, walked, then=branch, orelse=branch))
    g.output("token", ops.sample(g.constant(np.zeros((2, 9), F))))
    return Subject(g, lambda k: {"n": np.int64(k), "p": np.asarray(k % 2 == 0)},
                   bound({"s": np.zeros(3, F)}, {"next": "s"}))


def bound(handles: Mapping[str, Any], links: Mapping[str, str]) -> Callable[[Any], None]:
    def prepare(exe: Any) -> None:
        for name, array in handles.items():
            exe.bind_handle(name, array)
        for output, name in links.items():
            exe.link(output, name)

    return prepare


def cache() -> Subject:
    """Keys and values in memory of fixed size, one length for both."""
    shape, g = (1, 2, 16, 4), rlx.Graph("attend")
    q, k, v = (g.input(n, (1, 2, "t", 4)) for n in "qkv")
    pos = g.input("pos", (), rlx.i64)
    k_all, end = ops.cache_append(g.input("keys", shape), k, pos, axis=2)
    v_all, _ = ops.cache_append(g.input("values", shape), v, pos, axis=2)
    g.output("y", ops.attention(q, k_all, v_all, None, ops.expand(end, shape=(1,)), causal=True, lens_past=True))
    for name, value in (("keys_next", k_all), ("values_next", v_all), ("pos_next", end)):
        g.output(name, value)

    def prepare(exe: Any) -> None:
        for name in ("keys", "values"):
            exe.bind_handle(name, np.zeros((1, 2, 0, 4), F), axis=2, length="pos")
            exe.link(f"{name}_next", name)
        exe.link("pos_next", "pos")

    def feeds(k: int) -> Feeds:
        rows = np.random.default_rng(k).standard_normal((3, 1, 2, (5, 1, 2, 1)[k % 4], 4)).astype(F)
        return dict(zip("qkv", rows, strict=True))

    return Subject(g, feeds, prepare)


def rows_alone() -> Subject:
    """A cache to which the executable appends what the graph gives."""
    g = rlx.Graph("rows")
    kept, pos, row = g.input("kept", (1, 12, 3)), g.input("pos", (), rlx.i64), g.input("row", (1, 2, 3))
    g.output("new", row * 2 + ops.random_uniform(shape=(1, 2, 3), dtype=rlx.f32, graph=g))
    seen = ops.lt(ops.arange(12, graph=g), pos)
    g.output("sum", ops.reduce_sum(ops.where(ops.reshape(seen, shape=(1, 12, 1)), kept, g.constant(F(0))), axes=(1,)))

    def prepare(exe: Any) -> None:
        exe.bind_handle("kept", np.ones((1, 1, 3), F), axis=1, length="pos")
        exe.link("new", "kept", append=True)

    return Subject(g, lambda k: {"row": np.full((1, 2, 3), k, F)}, prepare)


def extent() -> Subject:
    """Another extent at every step, a state that has none, and the state of a bucket."""
    g = rlx.Graph("bucket")
    x, s, w = g.input("x", ("n", 8)), g.input("s", (8,)), g.param("w", (8, 8))
    y = ops.tanh(x @ w + s)
    g.output("y", ops.softmax(y, axis=0))
    g.output("next", ops.reduce_mean(y, axes=(0,)))

    def prepare(exe: Any) -> None:
        exe.set_param("w", np.random.default_rng(0).standard_normal((8, 8)).astype(F))
        bound({"s": np.zeros(8, F)}, {"next": "s"})(exe)

    def before(exe: Any, k: int) -> None:
        exe.set_active_extent("n", (3, 6, None, 2)[k % 4])

    return Subject(g, lambda k: {"x": np.random.default_rng(k).standard_normal((6, 8)).astype(F)}, prepare, before,
                   files=False, extents={"n": 6})


def open_sizes() -> Subject:
    """Another size at every step."""
    g = rlx.Graph("open")
    x, s = g.input("x", ("n", 4)), g.input("s", (4,))
    g.output("y", ops.cumsum(x + s, axis=0))
    g.output("next", ops.reduce_max(x, axes=(0,)) - s)
    return Subject(g, lambda k: {"x": np.random.default_rng(k).standard_normal((k % 3 + 1, 4)).astype(F)},
                   bound({"s": np.zeros(4, F)}, {"next": "s"}))


def optimiser() -> Subject:
    """Parameters that runs update."""
    g = rlx.Graph("descent")
    x, w, v = g.input("x", (3,)), g.param("w", (3,)), g.input("v", (3,))
    moved = v * 0.5 + (w - x)
    g.output("v_next", moved)
    g.output("w_next", w - moved * 0.25)

    def prepare(exe: Any) -> None:
        exe.set_param("w", np.zeros(3, F))
        bound({"v": np.zeros(3, F)}, {"v_next": "v", "w_next": "w"})(exe)

    return Subject(g, lambda k: {"x": np.full(3, k, F)}, prepare)


def control() -> Subject:
    """A while that stops early, a scan with a trajectory, nested bodies, integers as state."""
    inner = rlx.Graph("inner")
    c, x = inner.input("c", (), rlx.i64), inner.input("x", (), rlx.i64)
    inner.output("c", c + x)
    inner.output("y", c * x)
    outer = rlx.Graph("outer")
    c, xs = outer.input("c", (), rlx.i64), outer.input("xs", (3,), rlx.i64)
    last, ys = ops.scan(c, xs, body=inner, n_carried=1, n_xs=1)
    outer.output("c", last)
    outer.output("ys", ys)
    early = rlx.Graph("early")
    early.input("i", (), rlx.i64)
    v = early.input("v", (), rlx.i64)
    early.output("go", ops.lt(v, 40))
    early.output("v", v + 7)
    g = rlx.Graph("control")
    s, m, most = g.input("s", (), rlx.i64), g.input("m", (2, 3), rlx.i64), g.input("most", (), rlx.i64)
    last, rows = ops.scan(s, m, body=outer, n_carried=1, n_xs=1, reverse=True)
    g.output("next", ops.loop(most, None, last, body=early, n_carried=1)[0])
    g.output("rows", rows)
    return Subject(g, lambda k: {"m": np.arange(6).reshape(2, 3) - k, "most": np.int64(3 * k)},
                   bound({"s": np.int64(2)}, {"next": "s"}))


def recurrent() -> Subject:
    """An LSTM whose state is linked."""
    rng, g = np.random.default_rng(2), rlx.Graph("lstm")
    x, h, c = g.input("x", (2, 2, 3)), g.input("h", (1, 2, 4)), g.input("c", (1, 2, 4))
    w, r, b = (g.constant((rng.standard_normal(s) * 0.5).astype(F)) for s in ((1, 16, 3), (1, 16, 4), (1, 32)))
    y, h_next, c_next = ops.lstm(x, w, r, b, None, h, c)
    for name, value in (("y", y), ("h_next", h_next), ("c_next", c_next)):
        g.output(name, value)
    zero = np.zeros((1, 2, 4), F)
    return Subject(g, lambda k: {"x": np.random.default_rng(k).standard_normal((2, 2, 3)).astype(F)},
                   bound({"h": zero, "c": zero}, {"h_next": "h", "c_next": "c"}))


def dynamic() -> Subject:
    """A size that a run tells, and noise behind it."""
    g = rlx.Graph("dynamic")
    x, s = g.input("x", (6,)), g.input("s", (6,))
    places = ops.nonzero(ops.cast(x > 0.0, dtype=rlx.i32))
    g.output("places", places)
    g.output("next", s + ops.random_normal(shape=(6,), dtype=rlx.f32, graph=g))
    g.output("picked", ops.gather(s, ops.reshape(places, shape=(-1,))) * 2.0)
    return Subject(g, lambda k: {"x": np.random.default_rng(k).standard_normal(6).astype(F)},
                   bound({"s": np.zeros(6, F)}, {"next": "s"}))


def custom() -> Subject:
    """An op of one's own, in a graph whose state goes through it."""
    g = rlx.Graph("custom")
    s, x = g.input("s", (4,)), g.input("x", (4,))
    g.output("next", rlx.ops.TABLE["sweep.mean"](s, x) + ops.random_uniform(shape=(4,), dtype=rlx.f32, graph=g))
    return Subject(g, lambda k: {"x": np.full(4, k, F)}, bound({"s": np.zeros(4, F)}, {"next": "s"}), files=False)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    rlx.register_op("sweep.mean", inputs=("a", "b"), reference=lambda a, b: (a + b) / F(2),
                    kernel=lambda a, b: (a + b) / F(2))
    yield
    rlx.unregister_op("sweep.mean")


KINDS = (noise, cache, rows_alone, extent, open_sizes, optimiser, control, recurrent, dynamic, custom)
SUBJECTS: dict[str, Callable[[], Subject]] = {f.__name__: f for f in KINDS}
SUBJECTS |= {f"random {seed}": lambda seed=seed: random_subject(seed) for seed in range(18)}  # type: ignore[misc]


def through_file(subject: Subject, folder: pathlib.Path, trusted: bool) -> Any:
    """Loaded from an ahead-of-time file that a run left; its state bound, its numbers from the start."""
    exe = subject.make()
    for k in range(STEPS):
        subject.step(exe, k)
    exe.set_rng(rlx.RngOptions(seed=11))
    path = folder / "subject.rlx"
    exe.save(path, portable=True)
    loaded = rlx.load(path, threads=1, trusted=trusted)
    subject.prepare(loaded)
    return loaded


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_way_goes_through_the_same_states(name: str, tmp_path: pathlib.Path) -> None:
    subject = SUBJECTS[name]()
    first = subject.make()
    want, after = [], []
    for k in range(STEPS):
        want.append(subject.step(first, k))
        after.append(state(first))

    def follow(exe: Any, begin: int = 0, hows: Any = ("run",), threads: int | None = None) -> None:
        for k, how in zip(range(begin, STEPS), itertools.cycle(hows), strict=False):
            assert subject.step(exe, k, how, threads) == want[k], (k, how)
            assert state(exe) == after[k], (k, how)

    dynamic_sizes = name == "dynamic"
    for how in CALLS:
        follow(subject.make(), hows=(how,))
    follow(subject.make(), hows=("run_slots", "run_typed", "run_raw", "run"))
    follow(subject.make(), threads=2)
    options = subject.options
    made = [rlx.Session("cpu").compile(subject.graph, options)]
    if not (options.extents or dynamic_sizes or subject.graph.symbols()):
        module = rlx.GraphModule(subject.graph, options)
        made += [rlx.compile_lir(module.lower()), rlx.compile_lir(module.bind().legalise().optimise().lower())]
    for exe in made:
        subject.prepare(exe)
        follow(exe)
    for stop in (0, 2):  # copies of a fresh one, and of one in use; the original goes on by itself
        exe = subject.make()
        for k in range(stop):
            subject.step(exe, k)
        copies = [exe.clone(), copy.deepcopy(exe)]
        if subject.files:
            copies.append(pickle.loads(pickle.dumps(exe)))
        for other in copies:
            follow(other, stop)
        follow(exe, stop)
    if subject.files:
        for trusted in (True, False):
            follow(through_file(subject, tmp_path, trusted))


@pytest.mark.parametrize("name", SUBJECTS)
def test_forks_come_back_and_failures_leave_no_trace(name: str) -> None:
    subject = SUBJECTS[name]()
    exe, want = subject.make(), subject.make()
    subject.step(exe, 0)
    subject.step(want, 0)
    fork, counter = exe.fork(), exe._rng.counter
    found = []
    for _ in range(2):
        found.append([subject.step(exe, k) for k in (1, 2, 3)])
        if name != "optimiser":  # what a parameter was is told by set_param
            exe.restore(fork)
        else:
            break
        exe._rng.rewind(counter)
    assert all(f == found[0] for f in found)
    again = subject.make()
    subject.step(again, 0)
    for given in ({}, {"no such input": np.zeros(1)}, {n: np.zeros((9, 9, 9), np.complex64) for n in subject.feeds(0)}):
        if given or subject.feeds(0):
            before = state(again)
            with pytest.raises(rlx.RlxError):
                again.run(given)
            assert state(again) == before
    assert [subject.step(again, k) for k in (1, 2)] == [subject.step(want, k) for k in (1, 2)]


@pytest.mark.parametrize("seed", range(0, 18, 3))
def test_state_by_links_is_state_by_hand(seed: int) -> None:
    subject = random_subject(seed)
    linked, plain = subject.make(), rlx.compile(subject.graph, subject.options)
    names = list(linked.links().items())
    held = {handle: linked.read_handle(handle) for _, handle in names}
    for k in range(STEPS):
        out = plain.run({**subject.feeds(k), **held})
        assert [np.asarray(v).tobytes() for v in out] == subject.step(linked, k)
        held = {handle: np.array(out[output]) for output, handle in names}
    assert state(linked) == {n: a.tobytes() for n, a in held.items()}


def lstm_model() -> bytes:
    """As voice detectors have it: a state in, the next one out, noise beside it."""
    from onnx import helper

    rng = np.random.default_rng(1)
    weights = {n: (rng.standard_normal(s) * 0.4).astype(F) for n, s in
               {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}.items()}
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "h_next", "c_next"], hidden_size=4),
             helper.make_node("RandomNormalLike", ["y"], ["noise"]), helper.make_node("Add", ["y", "noise"], ["out"])]
    feeds = {"x": np.zeros((1, 1, 3), F), "h": np.zeros((1, 1, 4), F), "c": np.zeros((1, 1, 4), F)}
    data: bytes = proto(nodes, feeds, ["out", "h_next", "c_next"], weights).SerializeToString()
    return data


@pytest.mark.parametrize("kind", ["lstm", "decoder"])
def test_models_go_through_the_same_states_in_every_way(kind: str) -> None:
    data = lstm_model() if kind == "lstm" else decoder(random=True, layers=1)

    def make() -> Any:
        m = rlx.load(data, options=rlx.CompileOptions(poison=True, threads=1, rng=rlx.RngOptions(seed=3)))
        if kind == "lstm":
            bound(dict.fromkeys(("h", "c"), np.zeros((1, 1, 4), F)), {"h_next": "h", "c_next": "c"})(m)
        else:
            m.bind_caches(32)
        return m

    def step(m: Any, k: int, threads: int | None = None, how: str = "run") -> list[bytes]:
        if kind == "lstm":
            given = {"x": np.random.default_rng(k).standard_normal((1, 1, 3)).astype(F)}
        else:
            n = 4 if k == 0 else 1
            given = {"input_ids": np.random.default_rng(k).integers(0, 50, (1, n)),
                     "attention_mask": np.ones((1, 4 + k), np.int64)}
        if how == "run_typed":
            return [data for data, _ in m.run_typed(given)]
        return [v.tobytes() for v in (m.run_raw(given) if how == "run_raw" else m.run(given, threads=threads))]

    first, want, after = make(), [], []
    for k in range(6):
        want.append(step(first, k))
        after.append(state(first))

    def follow(m: Any, begin: int = 0, threads: int | None = None, how: str = "run") -> None:
        for k in range(begin, 6):
            assert step(m, k, threads, how) == want[k], k
            assert state(m) == after[k], k

    follow(make())
    follow(make(), threads=2)
    for how in ("run_raw", "run_typed"):
        follow(make(), how=how)
    for stop in (0, 2):
        m = make()
        for k in range(stop):
            step(m, k)
        copies = [m.clone(), copy.deepcopy(m)]
        if kind == "lstm" and stop:  # a model that grows is not pickled
            copies.append(pickle.loads(pickle.dumps(m)))
        fork, counter = m.fork(), m._core.rng.counter
        for other in copies:
            follow(other, stop)
        follow(m, stop)
        m.restore(fork)
        m._core.rng.rewind(counter)
        follow(m, stop)
        with pytest.raises(rlx.RlxError):
            m.run({"no such input": np.zeros(1)})
