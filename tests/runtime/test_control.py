"""Control flow: one branch runs, loops stop early, any number of results, nothing is unrolled; the reported faults."""

import time

import numpy as np
import pytest
from onnx import TensorProto, helper

import rlx
from rlx import ops
from rlx.ops.control import checkpoint_steps
from rlx.reference import evaluate

F = np.float32
WAYS = [rlx.CompileOptions(threads=1, check=True, poison=True), rlx.CompileOptions(threads=2, optimize=False),
        rlx.CompileOptions(threads=2, poison=True, disable=("sink-constants", "skip-loops", "inline-branches"))]


def agree(graph, feeds):
    """Results of the definition, after every way to compile has given the very same, run after run and as a clone."""
    want = evaluate(graph, feeds)
    for options in WAYS:
        exe = rlx.compile(graph, options)
        for run in (exe.run, exe.run, exe.clone().run):
            got = run(feeds)
            for name, w in want.items():
                assert (got[name].dtype, got[name].shape) == (w.dtype, w.shape), name
                np.testing.assert_array_equal(got[name], w, err_msg=f"{name} {options}")
    return want


@pytest.fixture
def counted():
    """An op that counts its calls, and the list of what it was called with."""
    calls = []

    def kernel(x, *, tag):
        calls.append(tag)
        return x + 1

    op = rlx.register_op("t.counted", inputs=("x",), reference=lambda x, *, tag: x + 1, kernel=kernel,
                         attributes={"tag": ""}, traits=("stateful",))
    yield op, calls
    rlx.unregister_op("t.counted")


def doubling(limit=100.0, width=2):
    """A body that doubles its first value while it is below the limit; carries three values and gives a row."""
    body = rlx.Graph("body")
    i = body.input("i", (), rlx.i64)
    a, n, flag = body.input("a", (width,)), body.input("n", (), rlx.i64), body.input("flag", (), rlx.bool_)
    twice = a * 2.0
    body.output("go", ops.reduce_max(twice, axes=(0,)) < limit)
    body.output("a", twice)
    body.output("n", n + i)
    body.output("flag", ops.logical_not(flag))
    body.output("row", a + 0.5)
    return body


def loop_graph(bound=12, trips=None, body=None):
    g = rlx.Graph("g")
    values = [g.input("a", (2,)), g.input("n", (), rlx.i64), g.input("flag", (), rlx.bool_)]
    given = None
    if trips is not None:
        given = g.input("trips", (), rlx.i64) if trips == "input" else g.constant(np.int64(trips))
    made = ops.loop(given, g.input("start", (), rlx.bool_), *values, body=body or doubling(), n_carried=3, bound=bound)
    for name, v in zip(("a1", "n1", "flag1", "rows", "count"), made, strict=True):
        g.output(name, v)
    return g


def feeds(**more):
    return {"a": F([1, 3]), "n": np.int64(5), "flag": np.asarray(False), "start": np.asarray(True), **more}


def test_R38_one_branch_runs(counted):
    op, calls = counted

    def branch(tag):
        body = rlx.Graph(tag)
        body.output("y", op(body.input("x", (2,)), tag=tag))
        body.output("z", ops.neg(body.inputs[0]))
        return body

    g = rlx.Graph("g")
    x = g.input("x", (2,))
    for name, v in zip("yz", ops.cond(g.input("p", (), rlx.bool_), x, then=branch("yes"), orelse=branch("no")),
                       strict=True):
        g.output(name, v)
    for pred, tag in ((True, "yes"), (False, "no")):
        given = {"x": F([1, np.nan]), "p": np.asarray(pred)}
        calls.clear()
        exe = rlx.compile(g)
        exe.run(given)
        assert calls == [tag], "the other branch did not run"
        np.testing.assert_array_equal(exe.run(given)["z"], -given["x"])


def test_R38_a_loop_stops_early_and_gives_all_it_carries(counted):
    op, calls = counted
    want = agree(loop_graph(), feeds())
    assert (int(want["count"]), want["a1"].tolist(), int(want["n1"]), bool(want["flag1"])) == (6, [64, 192], 20, False)
    np.testing.assert_array_equal(want["rows"][6:], 0)
    body = rlx.Graph("body")
    i, s = body.input("i", (), rlx.i64), body.input("s", (1,))
    body.output("go", i < 3)
    body.output("s", op(s, tag="step"))
    g = rlx.Graph("g")  # no bound at all
    made = ops.loop(None, g.input("start", (), rlx.bool_), g.input("s", (1,)), body=body, n_carried=1)
    g.output("s1", made[0])
    g.output("count", made[1])
    for start, trips in ((True, 4), (False, 0)):
        calls.clear()
        got = rlx.compile(g).run({"s": F([0]), "start": np.asarray(start)})
        assert (len(calls), int(got["count"]), float(got["s1"][0])) == (trips, trips, trips)


@pytest.mark.parametrize("trips", [0, 1, 3, 100, "input"])
@pytest.mark.parametrize("start", [True, False])
def test_A91_trips_of_any_number_zero_among_them(trips, start):
    g = loop_graph(trips=trips)
    for n in (0, 2, 50) if trips == "input" else (trips,):
        more = {"trips": np.int64(n)} if trips == "input" else {}
        want = agree(g, feeds(start=np.asarray(start), **more))
        assert int(want["count"]) == (min(n, 6) if start else 0)
        assert want["rows"].shape == (12, 2), "stacked results keep their rank"
        if not want["count"]:
            assert want["a1"].tolist() == [1, 3] and int(want["n1"]) == 5 and not want["flag1"]


def scan_graph(n, reverse=False):
    body = rlx.Graph("body")
    s, x, w = body.input("s", (2,)), body.input("x", (2,)), body.input("w", (2, 2))
    t = ops.reshape(ops.reshape(s, shape=(1, 2)) @ w, shape=(2,)) + x
    body.output("s", t)
    body.output("y", t * 0.5)
    body.output("k", ops.reduce_sum(x, axes=(0,)))
    g = rlx.Graph("g")
    w = g.constant(F([[0.5, 0.25], [0.0, 0.5]]))
    made = ops.scan(g.input("s", (2,)), g.input("x", (n, 2)), w, body=body, n_carried=1, n_xs=1, reverse=reverse)
    for name, v in zip(("last", "ys", "ks"), made, strict=True):
        g.output(name, v)
    return g


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_A91_scans_of_any_length_forwards_and_backwards(n, reverse):
    x = np.arange(2 * n, dtype=F).reshape(n, 2)
    want = agree(scan_graph(n, reverse), {"s": F([1, 2]), "x": x})
    assert want["ys"].shape == (n, 2) and want["ks"].shape == (n,)
    if n == 0:
        assert want["last"].tolist() == [1, 2]


def test_A92_a_loop_without_trips_does_not_lend_its_input():
    """Its result is a value of its own: writing to one does not change the other, and later nodes may work in place."""
    for trips in (0, "input"):
        g = loop_graph(trips=trips)
        first = g.outputs["a1"]
        g.output("later", ops.softmax(first, axis=0))
        g.output("again", g.inputs[0] + 0.0)
        more = {"trips": np.int64(0)} if trips == "input" else {}
        given = feeds(**more)
        for options in WAYS:
            exe = rlx.compile(g, options)
            got = exe.run(given)
            assert not np.shares_memory(got["a1"], given["a"])
            kept = got["a1"].copy()
            np.sin(got["a1"], out=got["a1"])
            assert given["a"].tolist() == [1, 3] and got["again"].tolist() == [1, 3]
            np.testing.assert_array_equal(exe.run(given)["a1"], kept)
            given["a"][:] = [7, 8]
            assert kept.tolist() == [1, 3]
            given["a"][:] = [1, 3]


def onnx_loop(*, extra=None, initializer=None, values=("s",)):
    """A file with a Loop whose body takes (i, go, s)."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["s", "s"], ["t"])], "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [2]),
         *([value(extra, TensorProto.FLOAT, [2])] if extra else [])],
        [value("go_on", TensorProto.BOOL, []), value("t", TensorProto.FLOAT, [2])],
        [helper.make_tensor(initializer, TensorProto.FLOAT, [2], [1.0, 2.0])] if initializer else [])
    node = helper.make_node("Loop", ["trips", "", *values], ["y"], name="mine", body=body)
    graph = helper.make_graph([node], "g", [value("trips", TensorProto.INT64, []), value("s", TensorProto.FLOAT, [2])],
                              [value("y", TensorProto.FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


def test_A94_a_body_with_other_inputs_than_the_node_gives_is_refused():
    given = {"trips": np.int64(3), "s": F([1, 2])}
    np.testing.assert_array_equal(rlx.load(onnx_loop()).run(given)["y"], [8, 16])
    for more in ({"extra": "more"}, {"extra": "more", "initializer": "more"}, {"values": ("s", "s")}, {"values": ()}):
        with pytest.raises(rlx.FormatError, match=r"'mine' \(Loop\)"):
            rlx.load(onnx_loop(**more)).run(given)
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    body.output("go", body.constant(np.asarray(True)))
    g = rlx.Graph("g")
    p, s = g.input("p", (), rlx.bool_), g.input("s", (2,))
    with pytest.raises(rlx.TypeRuleError, match="body must have 2 inputs, got 1"):
        ops.loop(None, p, s, body=body, n_carried=1)


def test_A95_a_counter_that_starts_as_a_constant_counts():
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    k, total, table = body.input("k", (), rlx.i64), body.input("total", ()), body.input("table", (5,))
    body.output("go", k < 4)
    body.output("k", k + 1)
    body.output("total", total + ops.gather(table, k, axis=0))
    body.output("seen", ops.gather(table, k, axis=0))
    g = rlx.Graph("g")
    made = ops.loop(None, g.constant(np.asarray(True)), g.constant(np.int64(0)), g.constant(F(0)), g.input("t", (5,)),
                    body=body, n_carried=2, bound=9)
    for name, v in zip(("k", "total", "seen", "count"), made, strict=True):
        g.output(name, v)
    want = agree(g, {"t": F([1, 2, 4, 8, 16])})
    assert (int(want["k"]), float(want["total"]), int(want["count"])) == (5, 31, 5)
    assert want["seen"].tolist() == [1, 2, 4, 8, 16, 0, 0, 0, 0]


def test_R77_which_rows_are_kept():
    assert checkpoint_steps(10, 4) == (2, 4, 7, 9)
    assert checkpoint_steps(7, 7) == tuple(range(7)) and checkpoint_steps(7, 1) == (6,) and checkpoint_steps(0, 0) == ()
    for length in range(1, 30):
        for count in range(1, length + 1):
            steps = checkpoint_steps(length, count)
            assert steps[-1] == length - 1 and all(a < b for a, b in zip(steps, steps[1:], strict=False))
    with pytest.raises(rlx.TypeRuleError, match="between 0 and 3 steps must be kept, got 4"):
        checkpoint_steps(3, 4)
    g = scan_graph(10)
    g.output("kept", ops.gather(g.outputs["ys"], np.asarray(checkpoint_steps(10, 4)), axis=0))
    want = agree(g, {"s": F([1, 2]), "x": np.arange(20, dtype=F).reshape(10, 2)})
    np.testing.assert_array_equal(want["kept"], want["ys"][[2, 4, 7, 9]])


def nested_graph():
    """A loop over scans over branches, each reading values of the graphs around it."""
    yes, no = rlx.Graph("yes"), rlx.Graph("no")
    for body, factor in ((yes, 2.0), (no, -0.5)):
        v, c = body.input("v", (2,)), body.input("c", (2,))
        body.output("r", v * factor + c)
    inner = rlx.Graph("inner")
    s, x, c = inner.input("s", (2,)), inner.input("x", (2,)), inner.input("c", (2,))
    t = ops.cond(ops.reduce_sum(x, axes=(0,)) > 0.0, s + x, c, then=yes, orelse=no)
    inner.output("s", t)
    inner.output("row", t)
    outer = rlx.Graph("outer")
    i, a = outer.input("i", (), rlx.i64), outer.input("a", (2,))
    xs, c = outer.input("xs", (3, 2)), outer.input("c", (2,))
    last, rows = ops.scan(a, xs, c, body=inner, n_carried=1, n_xs=1)
    outer.output("go", ops.reduce_max(ops.abs(last), axes=(0,)) < 5.0)
    outer.output("a", last)
    outer.output("rows", rows + ops.cast(i, dtype=rlx.f32))
    g = rlx.Graph("g")
    made = ops.loop(g.constant(np.int64(9)), None, g.input("a", (2,)), g.input("xs", (3, 2)), g.constant(F([0.25, -1])),
                    body=outer, n_carried=1, bound=9)
    for name, v in zip(("a1", "rows", "count"), made, strict=True):
        g.output(name, v)
    return g


def test_nested_bodies_and_values_from_outside():
    want = agree(nested_graph(), {"a": F([1, -1]), "xs": F([[1, 2], [-3, 0], [0.5, 0.5]])})
    assert 0 < int(want["count"]) < 9 and want["rows"].shape == (9, 3, 2)


def test_constant_predicates_and_trip_counts_are_decided_when_compiled():
    g = loop_graph(trips=0)
    assert "control.loop" not in rlx.compile(g).explain().kernels
    assert "control.loop" not in rlx.compile(scan_graph(0)).explain().kernels
    assert "control.loop" in rlx.compile(scan_graph(1)).explain().kernels
    h = nested_graph()
    exe = rlx.compile(h)
    assert "control.loop" in exe.explain().kernels
    b = rlx.Graph("b")
    x = b.input("x", (2,))
    body = rlx.Graph("then")
    body.output("y", ops.exp(body.input("x", (2,))))
    other = rlx.Graph("else")
    other.output("y", ops.neg(other.input("x", (2,))))
    flag = b.constant(np.asarray(3)) > 2
    b.output("y", ops.cond(flag, x, then=body, orelse=other))
    assert "control.if" not in rlx.compile(b).explain().kernels
    np.testing.assert_array_equal(agree(b, {"x": F([0, 0])})["y"], [1, 1])


def test_constants_from_outside_are_weights_of_the_body():
    rng = np.random.default_rng(0)
    body = rlx.Graph("body")
    s, x, w = body.input("s", (4, 64)), body.input("x", (4, 64)), body.input("w", (64, 64))
    t = ops.tanh(s @ w + x)
    body.output("s", t)
    g = rlx.Graph("g")
    w = g.constant((rng.standard_normal((64, 64)) * 0.1).astype(F))
    g.output("y", ops.scan(g.input("s", (4, 64)), g.input("x", (5, 4, 64)), w, body=body, n_carried=1, n_xs=1))
    given = {"s": rng.standard_normal((4, 64)).astype(F), "x": rng.standard_normal((5, 4, 64)).astype(F)}
    want = evaluate(g, given)["y"]
    for options in WAYS:
        np.testing.assert_allclose(rlx.compile(g, options).run(given)["y"], want, rtol=1e-5, atol=1e-5)
    text = str(rlx.GraphModule(g, rlx.CompileOptions(threads=1)).lower())
    assert "tanh.f32" in text and text.count("program:") == 2, "the activation joined the product inside the body"


def test_a_loop_of_ten_thousand_steps_compiles_in_milliseconds_and_costs_little():
    body = rlx.Graph("body")
    s, x = body.input("s", (4,)), body.input("x", (4,))
    body.output("s", s * 0.5 + x)

    def scan(n):
        g = rlx.Graph("g")
        g.output("y", ops.scan(g.input("s", (4,)), g.input("x", (n, 4)), body=body, n_carried=1, n_xs=1))
        return g

    def spent(f, n=1):
        start = time.process_time()
        for _ in range(n):
            f()
        return (time.process_time() - start) / n

    options = rlx.CompileOptions(threads=1)
    rlx.compile(scan(3), options)
    long = scan(10_000)
    assert min(spent(lambda: rlx.compile(long, options)) for _ in range(5)) < 0.02
    exe, short = rlx.compile(long, options), rlx.compile(scan(1), options)
    given = {"s": np.ones(4, F), "x": np.ones((10_000, 4), F)}
    once = {"s": given["s"], "x": given["x"][:1]}
    steps = min(spent(lambda: exe.run(given)) for _ in range(10))
    steps -= min(spent(lambda: short.run(once), 50) for _ in range(5))
    assert steps / 9_999 < 200e-9, "body included"
    assert len(exe._variant.compiled.program.calls) <= 2


def test_a_loop_can_be_cancelled_and_raises_for_its_node():
    body = rlx.Graph("body")
    i, s = body.input("i", (), rlx.i64), body.input("s", (), rlx.i64)
    body.output("go", body.constant(np.asarray(True)))
    body.output("s", ops.div(s, 5 - i, name="ratio"))
    g = rlx.Graph("g")
    g.output("y", ops.loop(g.constant(np.int64(100)), None, g.input("s", (), rlx.i64), body=body, n_carried=1)[0])
    exe = rlx.compile(g)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="node 'ratio'"):
            exe.run({"s": np.int64(7)})


def test_values_that_are_counted_but_not_given_are_told():
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    s = body.input("s", (), rlx.f32)
    body.output("go", body.constant(np.asarray(True)))
    body.output("s", s + 1.0)
    g = rlx.Graph("g")
    n, s = g.constant(np.int64(3)), g.input("s", ())
    for wrong in (2, -1):
        with pytest.raises(rlx.TypeRuleError, match=rf"loop: .*n_carried={wrong}, 1 given"):
            ops.loop(n, None, s, body=body, n_carried=wrong)
    with pytest.raises(rlx.TypeRuleError, match=r"scan: .*n_carried=1, n_xs=1, 1 given"):
        ops.scan(s, body=body, n_carried=1, n_xs=1)
