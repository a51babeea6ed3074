"""Careless and hostile use ends in a right result or in an error of ours; the executable stays usable."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

import rlx
from rlx import ops


def doubled(shape=(4,), **options):
    g = rlx.Graph("g")
    x = g.input("x", shape)
    g.output("y", x + x)
    g.output("z", x * x)
    return rlx.compile(g, rlx.CompileOptions(**options))


def slow(n=700, depth=40, **options):
    """A graph whose run takes long enough to interfere with."""
    g = rlx.Graph("g")
    y = g.input("x", (n, n))
    p = g.param("p", (n, n))
    for _ in range(depth):
        y = ops.cumsum(ops.tanh(y + p), axis=1)
    g.output("y", y)
    exe = rlx.compile(g, rlx.CompileOptions(threads=1, **options))
    exe.set_param("p", np.ones((n, n), np.float32))
    return exe, {"x": np.ones((n, n), np.float32)}


X = np.arange(4, dtype=np.float32)


def test_outputs_that_share_memory_are_refused():
    exe = doubled()
    buffer = np.zeros(6, np.float32)
    for out in ({"y": buffer[:4], "z": buffer[:4]}, [buffer[:4], buffer[2:]]):
        with pytest.raises(rlx.BindingError, match="share memory"):
            exe.run({"x": X}, out=out)
    shared = X.copy()
    with pytest.raises(rlx.BindingError, match="share memory"):
        exe.run({"x": shared}, out=[shared, shared])
    got = exe.run({"x": shared}, out={"y": shared})
    np.testing.assert_array_equal(got["y"], X + X)
    np.testing.assert_array_equal(got["z"], X * X)


@pytest.mark.parametrize("shape", [(1,) * 65, (2**62,), (2**70,), (2**40, 2**40, 0)])
def test_sizes_that_cannot_be_addressed_are_refused(shape):
    with pytest.raises(rlx.SizeError):
        rlx.Graph("g").input("x", shape)


@pytest.mark.parametrize("through", [lambda v: v, lambda v: ops.reduce_sum(ops.cumsum(v + 1.0, axis=0), axes=None)])
def test_values_larger_than_the_machine_are_refused_before_they_are_allocated(through):
    g = rlx.Graph("g")
    g.output("y", through(ops.expand(g.input("x", ("n", 1)), shape=("n", 2**44))))
    exe = rlx.compile(g)
    with pytest.raises(rlx.SizeError):
        exe.run({"x": np.ones((1, 1), np.float32)})


@pytest.mark.parametrize(
    "shape", ["ab", 3, (2.5,), (None,), (True,), ((1,),), (b"a",), (-1,), ("a b",)],
)
def test_shapes_are_tuples_of_sizes(shape):
    with pytest.raises(rlx.GraphError):
        rlx.Graph("g").input("x", shape)


def test_no_type_is_no_type():
    with pytest.raises(rlx.GraphError):
        rlx.Graph("g").input("x", (2,), None)


@pytest.mark.parametrize(
    ("value", "got"),
    [(None, "NoneType"), ("abc", "str"), (b"abc", "bytes"), ({}, "dict"), ([None], "list"), (object(), "object"),
     (np.array(None), "dtype object"), (np.array("abc"), "dtype <U3"), (np.zeros((2, 2), object), "dtype object")],
    ids=["none", "str", "bytes", "dict", "list", "object", "array of None", "array of str", "array of objects"],
)
def test_the_message_names_what_was_given_not_a_rank(value, got):
    exe = doubled(("n",))
    with pytest.raises(rlx.BindingTypeError) as caught:
        exe.run({"x": value})
    assert str(caught.value).endswith(f"must be an array, got {got}")
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X + X)


class Broken:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("broken")


@pytest.mark.parametrize("shape", [(4,), ("n",)])
@pytest.mark.parametrize(
    "value",
    [None, "abcd", b"abcd", [[1, 2], [3]], [object()] * 4, Broken(), np.zeros(4, [("a", "f4")]), np.zeros(4, object)],
    ids=["none", "str", "bytes", "ragged", "objects", "broken", "structured", "object"],
)
def test_what_is_no_array_is_refused(value, shape):
    exe = doubled(shape)
    with pytest.raises(rlx.BindingError):
        exe.run({"x": value})
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X + X)


@pytest.mark.parametrize(
    "value",
    [np.ma.masked_array(X, [0, 1, 0, 0]), memoryview(X), X.astype(">f4"),
     np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("f4"),
     np.asfortranarray(X), np.repeat(X, 2)[::2], X.tolist()],
    ids=["masked", "memoryview", "big-endian", "unaligned", "fortran", "strided", "list"],
)
def test_array_likes_are_read(value):
    np.testing.assert_array_equal(doubled().run({"x": value})["y"], X + X)


@pytest.mark.parametrize("inputs", [3, [X], "x", {"x": X, 3: X}])
def test_inputs_are_a_mapping_of_names(inputs):
    exe = doubled()
    for run in (exe.run, exe.run_typed, exe.run_raw, exe.profile, exe.dump_nodes):
        with pytest.raises(rlx.BindingError):
            run(inputs)


@pytest.mark.parametrize(
    "item", [(b"123", rlx.f32), (3, rlx.f32), ("a", rlx.f32), (memoryview(np.zeros((8, 8)))[::2], rlx.f32)]
)
def test_bytes_are_bytes(item):
    with pytest.raises(rlx.BindingError):
        doubled().run_typed({"x": item})


def test_calls_with_junk():
    exe = doubled()
    for call in (
        lambda: rlx.compile(3),
        lambda: rlx.compile(exe.graph, {"threads": 1}),
        lambda: rlx.CompileOptions(dims=3),
        lambda: rlx.CompileOptions(rng=3),
        lambda: rlx.CompileOptions(disable=3),
        lambda: rlx.CompileOptions(optimize="no"),
        lambda: exe.bind_handle(3, X),
        lambda: exe.bind_handle("out²", X),
        lambda: exe.set_params(3),
        lambda: exe.set_rng(3),
        lambda: exe.run_slots(3),
        lambda: rlx.load(None),
        lambda: rlx.load("\0"),
    ):
        with pytest.raises(rlx.RlxError):
            call()


@pytest.mark.parametrize("threads", [64, 2**31 - 1, 2**31, 2**80])
def test_many_threads_are_as_many_as_there_are(threads):
    g = rlx.Graph("g")
    x = g.input("x", (257, 300))
    g.output("s", ops.softmax(ops.tanh(ops.transpose(x, perm=(1, 0)) @ x), axis=0))
    g.output("k", ops.topk(x, k=5)[0])
    g.output("c", ops.cumsum(x, axis=0))
    q = ops.reshape(x, shape=(1, 3, 257, 100))
    g.output("a", ops.attention(q, q, q))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    a = np.random.default_rng(0).normal(size=(257, 300)).astype(np.float32)
    want = [w.copy() for w in exe.run({"x": a})]
    wide = rlx.compile(g, rlx.CompileOptions(threads=threads))
    for _ in range(3):
        for got in (exe.run({"x": a}, threads=threads), wide.run({"x": a})):
            for have, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(have, w)


@pytest.mark.parametrize("shape", [(4,), ("n",)])
def test_a_graph_changed_after_compiling_is_not_seen(shape):
    exe = doubled(shape)
    w = exe.graph.input("w", (3,))
    exe.graph.output("late", ops.tanh(w))
    for e in (exe, exe.clone()):
        assert list(e.run({"x": X}).keys()) == ["y", "z"]


@pytest.mark.parametrize("busy", ["raise", "wait"])
def test_a_call_from_inside_a_call_is_refused(busy):
    exe = doubled(busy=busy)

    class Nested:
        def __array__(self, *args, **kwargs):
            return exe.run({"x": X})["y"]

    with pytest.raises(rlx.ExecutionError, match="one call at a time"):
        exe.run({"x": Nested()})
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X + X)


def test_inputs_weights_and_state_changed_during_a_run():
    exe, feeds = slow()
    want = exe.run(feeds)["y"].copy()
    got = []
    thread = threading.Thread(target=lambda: got.append(exe.run(feeds)["y"]))
    thread.start()
    time.sleep(0.02)
    feeds["x"] = None
    for _ in range(5):
        exe.set_param("p", np.zeros((700, 700), np.float32))
        exe.set_rng(rlx.RngOptions(seed=3))
        try:
            exe.run({"x": np.ones((700, 700), np.float32)})
        except rlx.ExecutionError:
            time.sleep(0.005)
    thread.join()
    np.testing.assert_array_equal(got[0], want)


def test_a_refused_call_does_not_poison_the_one_in_progress():
    exe, feeds = slow(poison=True)
    want = exe.run(feeds)["y"].copy()
    got = []

    def often():
        for _ in range(10):
            with contextlib.suppress(rlx.ExecutionError):
                got.append(exe.run(feeds)["y"])

    threads = [threading.Thread(target=often) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got
    for y in got:
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("constant", [False, True])
def test_bytes_that_pass_for_bool_are_true(constant):
    raw = np.array([0, 1, 2, 255, 128, 3, 0, 254] * 5, np.uint8)
    truth = raw != 0
    g = rlx.Graph("g")
    c = g.constant(raw.view(np.bool_)) if constant else g.input("c", (40,), rlx.bool_)
    d, x = g.input("d", (40,), rlx.bool_), g.input("x", (40,))
    g.output("not", ops.logical_not(c))
    g.output("and", ops.logical_and(c, d))
    g.output("eq", ops.eq(c, d))
    g.output("cast", ops.cast(c, dtype=rlx.f32))
    g.output("where", ops.where(ops.logical_and(c, d), x, -x))
    other = np.roll(raw, 3)
    feeds = {"d": other.view(np.bool_), "x": np.arange(40, dtype=np.float32)}
    got = rlx.compile(g).run(feeds if constant else {"c": raw.view(np.bool_), **feeds})
    both = truth & (other != 0)
    np.testing.assert_array_equal(got["not"].view(np.uint8), ~truth)
    np.testing.assert_array_equal(got["and"].view(np.uint8), both)
    np.testing.assert_array_equal(got["eq"].view(np.uint8), truth == (other != 0))
    np.testing.assert_array_equal(got["cast"], truth.astype(np.float32))
    np.testing.assert_array_equal(got["where"], np.where(both, feeds["x"], -feeds["x"]))


def test_a_scalar_whose_byte_passes_for_bool_is_true():
    g = rlx.Graph("g")
    c = g.input("c", (), rlx.bool_)
    g.output("y", ops.logical_not(c))
    got = rlx.compile(g).run({"c": np.array(2, np.uint8).view(np.bool_)})["y"]
    assert got.view(np.uint8) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("busy", ["raise", "wait"])
def test_a_child_does_not_wait_for_a_run_of_its_parent(busy):
    exe, feeds = slow(busy=busy)
    thread = threading.Thread(target=exe.run, args=(feeds,))
    thread.start()
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        exe.run(feeds)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
