"""Ops that a user registers: in graphs, text, folding, ONNX files; kernels in Python and C; what goes wrong."""

import ctypes
import gc
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.ir.verify import verify
from rlx.ops.parse import parse_graph
from rlx.passes.specialise import specialise
from rlx.reference import evaluate
from rlx.runtime import levels
from rlx.testing.optest import Setup, check_sample

F = np.float32


@pytest.fixture(autouse=True)
def clean_table():
    before = set(rlx.registered_ops())
    yield
    for name in set(rlx.registered_ops()) - before:
        rlx.unregister_op(name)


def soft(x, *, alpha):
    """tanh of alpha x."""
    return np.tanh(x * x.dtype.type(alpha))


def register(name="t.soft", **more):
    return rlx.register_op(name, **{"inputs": ("x",), "reference": soft, "attributes": {"alpha": 1.0}, **more})


def graph_of(op, *arrays, **attrs):
    g = rlx.Graph("g")
    made = op(*(g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)), **attrs)
    for i, v in enumerate(made if isinstance(made, tuple) else (made,)):
        g.output(f"y{i}", v)
    return g, {f"x{i}": a for i, a in enumerate(arrays)}


def run(op, *arrays, **attrs):
    g, feeds = graph_of(op, *arrays, **attrs)
    return rlx.compile(g, rlx.CompileOptions(threads=1, check=True, poison=True)).run(feeds)


# -- a row like any other --------------------------------------------------------------


def test_a_registered_op_is_used_like_any_other():
    op = register(samples=[rlx.Sample((np.ones((2, 3), F),), {"alpha": 0.5})])
    assert getattr(ops, "t.soft") is op and ops.TABLE["t.soft"] is op and rlx.registered_ops()["t.soft"] is op
    assert op.doc == "tanh of alpha x." and "alpha" in str(op.__signature__)
    g = rlx.Graph("g")
    x = g.input("x", ("n", 3), rlx.f32)
    y = op(x + 1.0, alpha=0.5, name="mine")
    assert y.shape == x.shape and y.dtype == rlx.f32
    g.output("y", y * 2.0)
    verify(g)
    again = parse_graph(str(g))
    assert "t.soft(%add) {alpha=0.5}" in str(g) and again.structural_hash() == g.structural_hash()
    data = np.linspace(-2, 2, 12, dtype=F).reshape(4, 3)
    want = np.tanh((data + 1) * F(0.5)) * 2
    np.testing.assert_array_equal(evaluate(g, {"x": data})["y"], want)
    for graph in (g, again):
        for options in (rlx.CompileOptions(), rlx.CompileOptions(optimize=False, threads=2, poison=True)):
            exe = rlx.compile(graph, options)
            for _ in range(3):
                np.testing.assert_array_equal(exe.run({"x": data})["y"], want)
            np.testing.assert_array_equal(exe.clone().run({"x": data[:2]})["y"], want[:2])
            assert [str(c) for c in exe.explain().custom] == ["node 'mine' (t.soft) runs in Python, with the GIL"]
    check_sample(op, rlx.Sample((data,), {"alpha": 2.0}), Setup())


def test_rules_for_shapes_types_and_several_results():
    op = rlx.register_op(
        "t.split", inputs=("x", "scale?"), outputs=2,
        reference=lambda x, scale=None: (x.sum(-1), x.argmax(-1).astype(np.int64)),
        shape=lambda x, s: [x[:-1], x[:-1]], dtype=lambda x, s: [x, rlx.i64])
    g = rlx.Graph("g")
    a, b = op(g.input("x", ("n", 4), rlx.f64))
    assert str(a.type) == "f64[n]" and str(b.type) == "i64[n]"
    x = np.arange(8.0).reshape(2, 4)
    got = run(op, x)
    np.testing.assert_array_equal(got[0], x.sum(-1))
    np.testing.assert_array_equal(got[1], [3, 3])
    pair = rlx.register_op("t.pair", inputs=("a", "b*"), reference=lambda *xs: sum(xs),
                           infer=lambda a, *more: rlx.TensorType(a.dtype, a.shape), dtypes=(rlx.f32, rlx.i32))
    np.testing.assert_array_equal(run(pair, np.ones(3, F), np.ones(3, F), np.ones(3, F))[0], [3, 3, 3])
    with pytest.raises(rlx.TypeRuleError, match=r"types must be one of \[f32, i32\], got f64"):
        graph_of(pair, np.ones(3))
    with pytest.raises(rlx.GraphError, match="attribute 'alpha' must be of kind float, got 'x'"):
        graph_of(register(), np.ones(3), alpha="x")
    with pytest.raises(rlx.TypeRuleError, match=r"its rule failed on \['f32\[\]'\]: IndexError"):
        graph_of(rlx.register_op("t.bad", inputs=("x",), reference=soft, shape=lambda x: (x[0],)), F(1).reshape(()))
    with pytest.raises(rlx.TypeRuleError, match="must give 1 types, got 2"):
        graph_of(rlx.register_op("t.two", inputs=("x",), reference=soft, infer=lambda x: (x, x)), np.ones(3))


def test_halves_are_widened_for_the_definition_and_given_as_they_are_to_a_kernel():
    seen = []

    def kernel(x, *, alpha):
        seen.append(x.dtype)
        return soft(x.astype(F), alpha=alpha).astype(x.dtype)

    for dtype in (np.float16, rlx.bf16.numpy):
        x = np.linspace(-2, 2, 5).astype(dtype)
        want = np.tanh(x.astype(F) * F(0.5)).astype(dtype)
        np.testing.assert_array_equal(run(register(replace=True), x, alpha=0.5)[0], want)
        np.testing.assert_array_equal(run(register(kernel=kernel, replace=True), x, alpha=0.5)[0], want)
    assert seen == [np.dtype(np.float16), rlx.bf16.numpy]


def test_constants_fold_equal_calls_merge_and_states_stay():
    calls = []

    def kernel(x, *, alpha):
        calls.append(x.copy())
        return soft(x, alpha=alpha)

    def count(**more):
        calls.clear()
        op = register(kernel=kernel, replace=True, **more)
        g = rlx.Graph("g")
        x = g.input("x", (3,), rlx.f32)
        c = g.constant(np.ones(3, F))
        g.output("y", op(x) + op(x) + op(c))
        op(x, alpha=3.0)  # nobody reads it
        exe = rlx.compile(g)
        folded = len(calls)
        exe.run({"x": np.ones(3, F)})
        return folded, len(calls) - folded

    assert count() == (1, 1)
    assert count(traits=("nondeterministic",)) == (0, 3)
    assert count(traits=("stateful",)) == (0, 4)


def test_a_failing_kernel_is_not_folded_but_raises_when_it_runs():
    def kernel(x):
        raise ValueError("no")

    op = rlx.register_op("t.raise", inputs=("x",), reference=lambda x: x, kernel=kernel)
    g = rlx.Graph("g")
    g.output("y", op(g.constant(np.ones(3, F))))
    exe = rlx.compile(g)
    with pytest.raises(rlx.ExecutionError, match="ValueError: no"):
        exe.run({})


def test_custom_ops_in_bodies_of_control_flow():
    op = register()
    body = rlx.Graph("body")
    s = body.input("s", (2,), rlx.f32)
    t = body.input("t", (2,), rlx.f32)
    made = op(s + t, alpha=0.5)
    body.output("s", made)
    body.output("row", made)
    g = rlx.Graph("g")
    x, xs = g.input("x", (2,), rlx.f32), g.input("xs", (5, 2), rlx.f32)
    last, rows = ops.scan(x, xs, body=body, n_carried=1, n_xs=1)
    g.output("last", last)
    g.output("rows", rows)
    feeds = {"x": np.ones(2, F), "xs": np.arange(10, dtype=F).reshape(5, 2)}
    exe = rlx.compile(g, rlx.CompileOptions(threads=2, poison=True))
    want = evaluate(g, feeds)
    for _ in range(2):
        got = exe.run(feeds)
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])
    assert [c.op for c in exe.explain().custom] == ["t.soft"]


def test_registering_again_and_forgetting():
    first = register(version=1)
    g, feeds = graph_of(first, np.ones(3, F))
    text, digest = str(g), g.structural_hash()
    with pytest.raises(rlx.ConfigError, match="must be registered once"):
        register()
    second = register(reference=lambda x, *, alpha: x * 0, version=2, replace=True)
    assert getattr(ops, "t.soft") is second
    h, _ = graph_of(second, np.ones(3, F))
    assert h.structural_hash() != digest, "the version counts"
    exe, other = rlx.compile(g), rlx.compile(h)
    np.testing.assert_array_equal(exe.run(feeds)[0], np.tanh(np.ones(3, F)))
    np.testing.assert_array_equal(other.run(feeds)[0], np.zeros(3))
    both = specialise(g, {})
    both.output("z", both.emit(second, [both.inputs[0]], {})[0])
    got = rlx.compile(both).run(feeds)
    assert got[0].tolist() != got["z"].tolist(), "two definitions of one name are never merged"
    rlx.unregister_op("t.soft")
    assert not hasattr(ops, "t.soft")
    np.testing.assert_array_equal(exe.run(feeds)[0], np.tanh(np.ones(3, F)))
    np.testing.assert_array_equal(rlx.compile(g).run(feeds)[0], np.tanh(np.ones(3, F)))
    with pytest.raises(rlx.FormatError, match=r"no op 't\.soft'"):
        parse_graph(text)
    with pytest.raises(rlx.ConfigError, match=r"got 't.soft'"):
        rlx.unregister_op("t.soft")
    with pytest.raises(rlx.ConfigError, match="got 'tanh'"):
        rlx.unregister_op("tanh")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"name": "tanh"}, "must not be that of a built-in op"),
        ({"name": "input"}, "must not be that of a built-in op"),
        ({"name": "a b"}, "words joined by dots"),
        ({"name": ""}, "words joined by dots"),
        ({"inputs": "x"}, "inputs must be a sequence of names"),
        ({"inputs": ("x*", "y")}, "only the last"),
        ({"inputs": ("x", "x?")}, "names of operands must differ"),
        ({"reference": None}, "the reference must be callable"),
        ({"kernel": 3}, "must be callable or a C function"),
        ({"attributes": {"alpha": None}}, "a default whose kind can be told"),
        ({"attributes": {"name": 1}}, "a name of its own"),
        ({"attributes": [rlx.Attr("a", "any")]}, "of a kind that prints"),
        ({"attributes": [rlx.Attr("a", "int", "x")]}, "must be of kind int"),
        ({"attributes": [rlx.Attr("a", "int", 1), rlx.Attr("a", "int", 1)]}, "attributes must differ"),
        ({"traits": ("fast",)}, r"got \['fast'\]"),
        ({"dtypes": ("f33",)}, "dtype must be one of"),
        ({"outputs": 0}, "small number"),
        ({"version": -1}, "version"),
        ({"infer": lambda x: x, "shape": lambda x: x}, "without shape and dtype"),
        ({"items": lambda x: 1}, "items are for C kernels"),
        ({"out": True}, "out=True needs a kernel"),
        ({"onnx": (("d", "n"),)}, "onnx must be a list"),
        ({"samples": [rlx.Sample((np.ones(2, F),), {"beta": 1})]}, "a sample must work, got GraphError"),
        ({"samples": [rlx.Sample(np.ones(2, F))]}, r"a sample must be Sample\(\(operand, "),
        ({"samples": [rlx.Sample((np.ones(2, F),))], "kernel": lambda x, *, alpha: alpha * np.tanh(x) + 1},
         "result 0 of the kernel must be that of the definition, got"),
        ({"samples": [rlx.Sample((np.ones(2, F),))], "shape": lambda x, *, alpha: (3,)}, "got shape"),
        ({"samples": [rlx.Sample((np.ones(2, F),))], "vjp": lambda x, y, d, **k: 3}, "a gradient or None for each"),
        ({"samples": [rlx.Sample((np.ones(2, F),))], "vjp": lambda x, y, d, **k: (3,)}, "gradient 0 of vjp"),
    ],
)
def test_what_cannot_be_registered(more, match):
    with pytest.raises(rlx.ConfigError, match=match):
        register(**more)
    assert not [name for name in rlx.registered_ops() if not name.startswith("onnx.")]


def test_a_derivative_is_kept_and_tried_out():
    def vjp(operands, results, gradients, *, alpha):
        (y,), (d,) = results, gradients
        return (d * (1.0 - y * y) * alpha,)

    op = register(vjp=vjp, samples=[rlx.Sample((np.ones(2, F),))])
    assert op.vjp is vjp


# -- kernels in Python -----------------------------------------------------------------


def test_what_a_kernel_raises_names_the_node():
    class Own(Exception):
        pass

    def kernel(x):
        raise Own("broken")

    op = rlx.register_op("t.raise", inputs=("x",), reference=lambda x: x, kernel=kernel)
    g = rlx.Graph("g")
    g.output("y", op(g.input("x", (2,), rlx.f32), name="layer.3"))
    exe = rlx.compile(g)
    for _ in range(2):
        with pytest.raises(rlx.ExecutionError, match=r"'layer.3' \(t.raise\).*must not raise, got Own: broken") as e:
            exe.run({"x": np.ones(2, F)})
        assert isinstance(e.value.__cause__, Own)


def test_what_is_no_exception_passes_as_it_is():
    def kernel(x):
        raise KeyboardInterrupt

    op = rlx.register_op("t.stop", inputs=("x",), reference=lambda x: x, kernel=kernel)
    with pytest.raises(KeyboardInterrupt):
        run(op, np.ones(2, F))


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (lambda x: x.astype(np.float64), r"must return float32\[2, 3\], got float64\[2, 3\]"),
        (lambda x: x[0], r"must return float32\[2, 3\], got float32\[3\]"),
        (lambda x: None, r"must return float32\[2, 3\], got NoneType"),
        (lambda x: (x, x), r"must return float32\[2, 3\], got tuple"),
        (lambda x: [1.0], r"must return float32\[2, 3\], got list"),
        (lambda x: 1.0, r"must return float32\[2, 3\], got float64\[\]"),
    ],
)
def test_a_wrong_result_is_an_error(result, match):
    op = rlx.register_op("t.wrong", inputs=("x",), reference=lambda x: x, kernel=result)
    with pytest.raises(rlx.ExecutionError, match=match):
        run(op, np.ones((2, 3), F))


def test_the_number_of_results_is_checked():
    op = rlx.register_op("t.two", inputs=("x",), outputs=2, reference=lambda x: (x, x), kernel=lambda x: (x,))
    with pytest.raises(rlx.ExecutionError, match="must return 2 results, got 1"):
        run(op, np.ones(2, F))
    op = rlx.register_op("t.type", inputs=("x",), outputs=2, reference=lambda x: (x, x), kernel=lambda x: (x, x[:1]))
    with pytest.raises(rlx.ExecutionError, match=r"float32\[2\] as result 1 of 2, got float32\[1\]"):
        run(op, np.ones(2, F))


def test_results_of_any_layout_are_copied():
    x = np.arange(12, dtype=F).reshape(3, 4)
    for kernel in (lambda a: a, lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, axis=0)[::2],
                   lambda a: a.T.copy().T, lambda a: a.astype(">f4").view(">f4").astype("<f4")):
        op = rlx.register_op("t.same", inputs=("x",), reference=lambda a: a, kernel=kernel, replace=True)
        np.testing.assert_array_equal(run(op, x)[0], x)
    flags = rlx.register_op("t.flags", inputs=("x",), reference=lambda a: a > 0, dtype=lambda a: rlx.bool_,
                            kernel=lambda a: (a > 0).view(np.uint8).__mul__(7).view(np.bool_))
    got = run(flags, x)[0]
    assert got.view(np.uint8).tolist() == (x > 0).astype(np.uint8).tolist(), "bools are 0 or 1"


def test_operands_cannot_be_written_and_must_not_be_kept():
    kept = []

    def writes(x):
        x[0] = 1
        return x

    def keeps(x):
        kept.append(x)
        return x * 2

    def keeps_a_part(x):
        kept.append(x[1:])
        return x * 2

    def cycle(x):
        loop = [x]
        loop.append(loop)
        return x * 2

    x = np.ones(3, F)

    def net(kernel, **more):
        op = rlx.register_op("t.k", inputs=("x",), reference=lambda a: a * 2, kernel=kernel, replace=True, **more)
        g = rlx.Graph("g")
        g.output("y", op(ops.softmax(g.input("x", (3,), rlx.f32), axis=0)))
        return rlx.compile(g, rlx.CompileOptions(threads=1))

    with pytest.raises(rlx.ExecutionError, match="read-only"):
        net(writes).run({"x": x})
    for kernel in (keeps, keeps_a_part):
        exe = net(kernel)
        for _ in range(2):
            with pytest.raises(rlx.ExecutionError, match="must not keep its arrays, got argument 0"):
                exe.run({"x": x})
        assert np.isfinite(kept[0]).all(), "what was kept is memory that exists"
        del exe
        gc.collect()
        assert kept[0].shape in ((3,), (2,)) and np.isfinite(kept[0]).all()
        kept.clear()
        net(kernel, copies=True).run({"x": x})
        assert kept[0].flags.owndata or kept[0].base.flags.owndata
        kept.clear()
    np.testing.assert_allclose(net(cycle).run({"x": x})["y"], np.full(3, 2 / 3), rtol=1e-6)
    np.testing.assert_allclose(net(lambda x: (x.__setitem__(0, 5), x)[1], copies=True).run({"x": x})["y"][0], 5)


def test_a_kernel_may_write_its_results_in_place():
    def kernel(x, *, out):
        np.multiply(x, 2, out=out)

    def two(x, *, out):
        out[0][...], out[1][...] = x, -x

    x = np.arange(3, dtype=F)
    np.testing.assert_array_equal(
        run(rlx.register_op("t.out", inputs=("x",), reference=lambda a: a * 2, kernel=kernel, out=True), x)[0], x * 2)
    got = run(rlx.register_op("t.outs", inputs=("x",), outputs=2, reference=lambda a: (a, -a), kernel=two, out=True), x)
    assert [g.tolist() for g in got] == [x.tolist(), (-x).tolist()]
    late = []

    def keeps(x, *, out):
        late.append(out)

    with pytest.raises(rlx.ExecutionError, match="must not keep"):
        run(rlx.register_op("t.keep", inputs=("x",), reference=lambda a: a, kernel=keeps, out=True), x)
    with pytest.raises(rlx.ExecutionError, match="must write to out and return None, got ndarray"):
        run(rlx.register_op("t.ret", inputs=("x",), reference=lambda a: a, kernel=lambda x, *, out: x, out=True), x)


def test_sizes_zero_and_one_absent_operands_and_scalars():
    op = rlx.register_op("t.add", inputs=("x", "y?"), reference=lambda x, y=None: x if y is None else x + y)
    for shape in ((0,), (1,), (), (2, 0, 3)):
        x = np.ones(shape, F)
        np.testing.assert_array_equal(run(op, x)[0], x)
        np.testing.assert_array_equal(run(op, x, x)[0], x + x)


def test_a_kernel_may_run_other_executables_but_not_its_own():
    g = rlx.Graph("inner")
    g.output("y", ops.tanh(g.input("x", (3,), rlx.f32)))
    inner = rlx.compile(g)
    op = rlx.register_op("t.inner", inputs=("x",), reference=np.tanh, kernel=lambda x: inner.run({"x": x})["y"])
    x = np.ones(3, F)
    np.testing.assert_array_equal(run(op, x)[0], inner.run({"x": x})["y"])
    made = []
    own = rlx.register_op("t.own", inputs=("x",), reference=np.tanh, kernel=lambda x: made[0].run({"x0": x})[0])
    h, feeds = graph_of(own, x)
    for busy in ("raise", "wait"):
        made[:] = [rlx.compile(h, rlx.CompileOptions(busy=busy))]
        with pytest.raises(rlx.ExecutionError, match="one call at a time"):
            made[0].run(feeds)
        made[0].cancel()
        assert not made[0]._variant.executor.is_running


def test_a_kernel_may_cancel_the_run_and_the_run_may_be_cancelled_meanwhile():
    made = []
    op = rlx.register_op("t.cancel", inputs=("x",), reference=lambda x: x, kernel=lambda x: (made[0].cancel(), x)[1])
    g, feeds = graph_of(op, np.ones(3, F))
    made.append(rlx.compile(g))
    with pytest.raises(rlx.CancelledError):
        made[0].run(feeds)
    started = threading.Event()

    def slow(x):
        started.set()
        time.sleep(0.2)
        return x

    slow_op = rlx.register_op("t.slow", inputs=("x",), reference=lambda x: x, kernel=slow)
    h, feeds = graph_of(lambda v: slow_op(slow_op(v) + 1.0), np.ones(3, F))
    exe = rlx.compile(h)
    caught = []

    def target():
        try:
            exe.run(feeds)
        except rlx.CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    started.wait(5)
    exe.cancel()
    thread.join(5)
    assert len(caught) == 1


def test_many_threads_raise_their_own_exceptions():
    def kernel(x):
        time.sleep(0.0005)
        raise ValueError(int(x[0]))

    op = rlx.register_op("t.who", inputs=("x",), reference=lambda x: x, kernel=kernel)
    g, _ = graph_of(op, np.ones(1, F))
    exe = rlx.compile(g)
    wrong = []

    def work(who):
        mine = exe.clone()
        for _ in range(30):
            try:
                mine.run({"x0": np.full(1, who, F)})
            except rlx.ExecutionError as error:
                if error.__cause__.args != (who,):
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_call_costs_less_than_2_us_more_than_the_function():
    def function(x):
        return x

    op = rlx.register_op("t.id", inputs=("x",), reference=function, traits=("stateful",))

    def chain(n):
        g = rlx.Graph("g")
        v = g.input("x", (4,), rlx.f32)
        for _ in range(n):
            v = op(v)
        g.output("y", v)
        return rlx.compile(g, rlx.CompileOptions(threads=1))

    x = np.ones(4, F)
    short, long = chain(1), chain(401)

    def spent(f):
        start = time.process_time()
        for _ in range(10):
            f()
        return (time.process_time() - start) / 10

    best = min(spent(lambda: long.run({"x": x})) - spent(lambda: short.run({"x": x})) for _ in range(15)) / 400
    plain = min(spent(lambda: [function(x) for _ in range(400)]) for _ in range(15)) / 400
    assert best - plain < 2e-6


# -- kernels in C ------------------------------------------------------------------------

SOURCE = r"""
#include "rlx_custom.h"
int32_t scale(void *const *data, const int64_t *const *shapes, const int64_t *ranks, const int64_t *attrs,
              int64_t lo, int64_t hi) {
    const float *x = data[0], *y = data[1];
    float *out = data[2];
    double alpha = rlx_attr_float(attrs, 0);
    int64_t bias = attrs[1];
    const int64_t *list = RLX_ATTR_LIST(attrs, 2);
    const char *text = (const char *)RLX_ATTR_LIST(attrs, 4);
    if (attrs[6] != RLX_F32 || ranks[0] != 2 || RLX_ATTR_COUNT(attrs, 2) != 3 || text[RLX_ATTR_COUNT(attrs, 4)])
        return 77;
    for (int64_t i = lo; i < hi; i++)
        out[i] = (float)(alpha * x[i] + (y ? y[i % shapes[0][1]] : 0) + bias + list[2] + text[0]);
    return 0;
}
int32_t fail(void *const *data, const int64_t *const *shapes, const int64_t *ranks, const int64_t *attrs,
             int64_t lo, int64_t hi) { return 42; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("custom")
    (folder / "k.c").write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-I", rlx.get_include(), "-o", folder / "k.so",
                    folder / "k.c"], check=True)
    return ctypes.CDLL(str(folder / "k.so"))


def scale_reference(x, y=None, *, alpha, bias, list, text, kind):
    return (alpha * x.astype(np.float64) + (0 if y is None else y) + bias + list[2] + ord(text[0])).astype(F)


ATTRS = {"alpha": 2.5, "bias": -3, "list": (1, 2, 3), "text": rlx.Attr("text", "str", "ab"), "kind": rlx.f32}


def capsule(function):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.cast(function, ctypes.c_void_p), b"any.name", None)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("items", [None, lambda x, y, **k: x.size])
def test_a_c_function_as_kernel(library, items, threads):
    class Jitted:  # what numba's cfunc looks like
        address = ctypes.cast(library.scale, ctypes.c_void_p).value

    n = 200 if items is None else 100_000
    x, y = np.arange(n, dtype=F).reshape(-1, 4), np.arange(4, dtype=F)
    if items is None:
        x = x[:1, :1]  # one item does all that lo and hi say
        y = y[:1]
    for kernel in (library.scale, capsule(library.scale), Jitted()):
        op = rlx.register_op("t.scale", inputs=("x", "y?"), reference=scale_reference, attributes=ATTRS, kernel=kernel,
                             items=items, item_ns=2.0, replace=True)
        assert op.is_native
        for arrays in ((x, y), (x,)):
            g, feeds = graph_of(op, *arrays)
            exe = rlx.compile(g, rlx.CompileOptions(threads=threads, poison=True))
            np.testing.assert_array_equal(exe.run(feeds)[0], evaluate(g, feeds)["y0"])
        assert str(exe.explain().custom[0]) == "node 't.scale' (t.scale) runs a C function"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_numba_cfunc_as_kernel(threads):
    """As the guide has it, compiled by numba itself."""
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.cfunc(types.int32(types.CPointer(types.voidptr), types.CPointer(types.CPointer(types.int64)),
                             types.CPointer(types.int64), types.CPointer(types.int64), types.int64, types.int64))
    def kernel(data, shapes, ranks, attrs, lo, hi):
        x, out = numba.carray(data[0], hi, np.float32), numba.carray(data[1], hi, np.float32)
        for i in range(lo, hi):
            out[i] = max(x[i], 0)
        return 0

    op = rlx.register_op("t.numba", inputs=("x",), reference=lambda x: np.maximum(x, 0), kernel=kernel,
                         dtypes=(rlx.f32,), items=lambda x, **k: x.size, item_ns=2.0)
    assert op.is_native
    for n in (1, 7, 100_000):
        x = np.random.default_rng(n).standard_normal(n).astype(F)
        g, feeds = graph_of(op, x)
        exe = rlx.compile(g, rlx.CompileOptions(threads=threads, poison=True))
        np.testing.assert_array_equal(exe.run(feeds)[0], np.maximum(x, 0))
    assert "runs a C function" in str(exe.explain())


def test_a_c_function_that_fails_names_the_node(library):
    op = rlx.register_op("t.fail", inputs=("x",), reference=lambda x: x, kernel=library.fail)
    with pytest.raises(rlx.ExecutionError, match=r"node 't.fail' \(t.fail\).*its C kernel must return 0, got 42"):
        run(op, np.ones(2, F))


def test_a_ctypes_callback_takes_the_gil_itself():
    seen = []
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)

    @kind
    def kernel(data, shapes, ranks, attrs, lo, hi):
        pointers = ctypes.cast(data, ctypes.POINTER(ctypes.c_void_p))
        seen.append((lo, hi))
        ctypes.memmove(pointers[1], pointers[0], 12)
        return 0

    op = rlx.register_op("t.call", inputs=("x",), reference=lambda x: x, kernel=kernel)
    x = np.arange(3, dtype=F)
    np.testing.assert_array_equal(run(op, x)[0], x)
    assert seen == [(0, 1)]


@pytest.mark.parametrize(
    ("more", "match"),
    [({"attributes": [rlx.Attr("a", "int", None)]}, "numbers never None"), ({"copies": True}, "for Python kernels"),
     ({"attributes": [rlx.Attr("a", "dims", ())]}, "attributes of a C kernel")],
)
def test_what_a_c_kernel_cannot_have(library, more, match):
    with pytest.raises(rlx.ConfigError, match=match):
        rlx.register_op("t.c", inputs=("x",), reference=lambda x: x, kernel=library.fail, **more)


def test_programs_with_foreign_kernels_are_not_written_to_files(library, tmp_path):
    """An address in a file would be called in another process; a graph in a file names the op instead."""
    for kernel in (library.fail, lambda x: x):
        op = rlx.register_op("t.c", inputs=("x",), reference=lambda x: x, kernel=kernel, replace=True)
        exe = rlx.compile(graph_of(op, np.ones(2, F))[0], rlx.CompileOptions(threads=1))
        with pytest.raises(rlx.BindingError, match="has custom ops, which are functions of a process"):
            exe.save(tmp_path / "x.rlx")
    exe.save(tmp_path / "x.rlx", portable=True)
    np.testing.assert_array_equal(rlx.load(tmp_path / "x.rlx").run({"x0": np.ones(2, F)})[0], [1, 1])
    rlx.unregister_op("t.c")
    with pytest.raises(rlx.RlxError, match=r"t\.c"):
        rlx.load(tmp_path / "x.rlx").run({"x0": np.ones(2, F)})
    assert not {"custom.host", "custom.native"} & set(levels.rows_of("baseline")[0]), "no file finds them by name"


def test_items_must_be_a_number(library):
    op = rlx.register_op("t.items", inputs=("x",), reference=lambda x: x, kernel=library.fail, items=lambda x: -1)
    with pytest.raises(rlx.LoweringError, match="items must give an int >= 0, got -1"):
        run(op, np.ones(2, F))


def test_extents_and_every_run_variant(library):
    """A kernel sees the rows that a run has; all variants of a run call it alike."""
    def running(x):
        return np.cumsum(x, 0, dtype=x.dtype)

    op = rlx.register_op("t.running", inputs=("x",), reference=running)
    g = rlx.Graph("g")
    g.output("y", op(g.input("x", ("n", 3)) * 2.0) + 1.0)
    exe = rlx.compile(g, rlx.CompileOptions(extents={"n": 32}, threads=1, poison=True))
    x = np.random.default_rng(0).random((32, 3)).astype(F)
    for n in (32, 3, 17, 5, 31, 2, 16, 1, 32):
        assert exe.set_active_extent("n", n)
        got = exe.run({"x": x})["y"]
        np.testing.assert_array_equal(got[:n], running(x[:n] * 2) + 1)
        assert not got[n:].any()
    want = running(x * 2) + 1
    fixed = rlx.compile(g, rlx.CompileOptions(dims={"n": 32}, threads=1))
    out = np.empty_like(x)
    variants = [fixed.run({"x": x}, out={"y": out})["y"], out, fixed.run_raw({"x": x})[0], fixed.run_slots([x])[0],
                np.frombuffer(fixed.run_typed({"x": x})[0][0], F).reshape(x.shape), fixed.dump_nodes({"x": x})["add"],
                fixed.clone().run({"x": x})["y"]]
    for got in variants:
        np.testing.assert_array_equal(got, want)
    assert any(r.kernel == "custom.host" for r in fixed.profile({"x": x}).rows)


# -- start-up ------------------------------------------------------------------------------


def test_custom_ops_cost_nothing_at_start_up():
    code = "import sys, rlx; from rlx import ops; assert 'rlx.custom' not in sys.modules; print(len(ops.TABLE))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(not n.startswith(("t.", "onnx.")) for n in ops.TABLE)


@pytest.mark.parametrize("inputs", [2, None, "x", b"x", {"x"}, (1,)])
def test_operands_are_a_sequence_of_names(inputs):
    with pytest.raises(rlx.ConfigError, match=r"register_op 'a\.b': inputs must be "):
        rlx.register_op("a.b", inputs=inputs, reference=lambda x: x)
    assert "a.b" not in rlx.registered_ops()
