"""Passes, aliasing, control flow, randomness, errors (A91 to A149, R-31 to R-54, Appendix C of the study)."""

import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------ passes


def test_r7_a103_outputs_count_as_uses(every_way):
    def build(x, r, w, b):
        total = x + r
        h = ops.relu(total @ w + b)
        return total, ops.layer_norm(total), total @ w, total @ w + b, h

    x, r, w, b = data(4, 8), data(4, 8, seed=1), data(8, 8, seed=2), data(8, seed=3)
    total, normal, product, biased, active = every_way(build, x, r, w, b)
    np.testing.assert_array_equal(total, x + r)
    np.testing.assert_allclose(normal.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(product, (x + r) @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(active, np.maximum(biased, 0))


def test_r51_a_transposed_operand_that_is_an_output_is_there(every_way):
    x, w = data(3, 4), data(5, 4, seed=1)

    def build(x, w):
        t = ops.transpose(w, perm=(1, 0))
        return t, x @ t

    t, y = every_way(build, x, w, rtol=3e-7)  # few rows are read along K where w lies transposed
    np.testing.assert_array_equal(t, w.T)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (8,), (1, 8), (4, 1), (4, 8), ()])
def test_r5_r52_only_a_row_of_columns_is_a_bias(every_way, shape):
    x, w, c = data(4, 8), data(8, 8, seed=1), data(*shape, seed=2)
    got = every_way(lambda x, w, c: ops.relu(x @ w + c), x, w, c)
    np.testing.assert_allclose(got, np.maximum(x @ w + c, 0), rtol=1e-5, atol=1e-5)
    a, b = data(2, 3, 4, 1, 5), data(2, 3, 4, 6, 5, seed=1)
    np.testing.assert_array_equal(every_way(lambda a, b: a + b, a, b), a + b)


def test_r50_a_rate_per_element_is_not_a_scalar(every_way):
    w, g = np.float32([1, 1]), np.float32([1, 1])
    got = every_way(lambda w, g: w - g * w.graph.constant(np.float32([0.1, 0.2])), w, g)
    np.testing.assert_allclose(got, [0.9, 0.8], rtol=1e-6)


def test_r53_attention_is_matched_by_its_uses_not_by_neighbours(every_way):
    q, k, v, other = (data(1, 2, 6, 4, seed=i) for i in range(4))

    def build(q, k, v, other):
        s = q @ ops.transpose(k, perm=(0, 1, 3, 2)) * 0.7
        unrelated = ops.softmax(other, axis=-1)
        p = ops.softmax(s, axis=-1)
        return p @ v, unrelated @ ops.transpose(v, perm=(0, 1, 3, 2)), p

    y, z, p = every_way(build, q, k, v, other)
    np.testing.assert_allclose(p @ v, y, rtol=1e-4, atol=1e-5)
    e = np.exp(other - other.max(-1, keepdims=True))
    np.testing.assert_allclose(e / e.sum(-1, keepdims=True) @ v.swapaxes(-1, -2), z, rtol=1e-4, atol=1e-5)


def test_r13_fusions_named_by_the_user_fire():
    g = rlx.Graph("g")
    x, w, b = g.input("x", (4, 8), rlx.f32), g.param("w", (8, 8), rlx.f32), g.param("b", (8,), rlx.f32)
    g.output("y", ops.relu(x @ w + b))
    exe = rlx.compile(g)
    exe.set_params({"w": data(8, 8), "b": data(8)})
    exe.run({"x": data(4, 8)})
    assert [row.kernel for row in exe.profile({"x": data(4, 8)}).rows] == ["matmul.f32"]


def test_r33_r54_there_is_no_default_way_to_lower_an_op(monkeypatch):
    """An op without a rule is an error that names it, not a kernel that does nothing."""
    from rlx.lower.context import RULES

    g = rlx.Graph("g")
    g.output("y", ops.cumsum(g.input("x", (3,), rlx.f32), name="running"))
    assert RULES["cumsum"]
    monkeypatch.delitem(RULES, "cumsum")
    with pytest.raises(rlx.RlxError, match=r"running(.|\n)*cumsum|cumsum(.|\n)*running"):
        rlx.compile(g)


def test_r36_a_call_with_too_few_operands_is_refused():
    g = rlx.Graph("g")
    with pytest.raises(rlx.RlxError, match="concat"):
        ops.concat(axis=0, graph=g)
    with pytest.raises(rlx.RlxError, match="where"):
        ops.where(g.input("c", (2,), rlx.bool_), g.input("a", (2,), rlx.f32))


def test_r41_nodes_keep_their_names_and_places_through_the_passes():
    g = rlx.Graph("g")
    x = g.input("x", (2, 3), rlx.f32)
    i = g.input("i", (1,), rlx.i64)
    y = ops.exp(ops.neg(ops.gather(x * 1.0, i, name="my_gather")), name="my_exp")
    g.output("y", y)
    with pytest.raises(rlx.ExecutionError, match=r"my_gather(.|\n)*test_programs\.py"):
        rlx.compile(g).run({"x": data(2, 3), "i": np.array([5])})


def test_r42_graphs_are_compared_by_structure():
    def make(scale):
        g = rlx.Graph("g")
        x = g.input("x", (2,), rlx.f32)
        g.output("y", ops.exp(x) * g.constant(np.float32([scale, 1])))
        return g

    assert make(2).structural_hash() == make(2).structural_hash() != make(3).structural_hash()


def test_a149_what_cannot_be_folded_is_left_to_the_run():
    g = rlx.Graph("g")
    x = g.constant(np.array([1, 2], np.int64))
    g.output("y", ops.gather(x, g.constant(np.array([7], np.int64)), name="late"))
    exe = rlx.compile(g)
    with pytest.raises(rlx.ExecutionError, match="late"):
        exe.run({})


def test_a148_indices_of_extrema_through_the_default_pipeline(every_way):
    x = np.array([[-3, -1, -2], [0, 0, 0]], np.int64)
    assert every_way(lambda x: ops.argmax(x, axis=1), x).tolist() == [1, 0]
    assert every_way(lambda x: ops.argmin(x, axis=1) * 1, x).tolist() == [0, 0]


# ---------------------------------------------------------------------- aliasing


def test_a97_a98_a_passed_through_input_is_a_value_of_its_own():
    g = rlx.Graph("g")
    x = g.input("x", (1,), rlx.f32)
    g.output("zero", x - x)
    g.output("same", x)
    exe = rlx.compile(g)
    given = np.float32([2.3])
    first = exe.run({"x": given})
    given[0] = 9
    exe.run({"x": np.float32([5])})
    assert first["zero"][0] == 0 and first["same"][0] == np.float32(2.3)


def test_a100_one_executable_over_several_shapes(every_way):
    g = rlx.Graph("g")
    x = g.input("x", ("n", 4), rlx.f32)
    g.output("y", ops.tanh(x) + 1)
    g.output("x2", ops.reshape(x, shape=(-1,)))
    exe = rlx.compile(g, rlx.CompileOptions(poison=True))
    for n in (32, 1, 32, 7, 1):
        a = data(n, 4, seed=n)
        outs = exe.run({"x": a})
        np.testing.assert_allclose(outs["y"], np.tanh(a) + 1, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(outs["x2"], a.reshape(-1))


def test_a101_the_plan_holds_for_every_number_of_threads(every_way):
    def build(x):
        a = ops.tanh(x)
        b = a * 2.0
        c = ops.reduce_sum(a, axes=1, keepdims=True)
        return b + c, a

    y, a = every_way(build, data(300, 300), threads=2)
    np.testing.assert_allclose(y, a * 2 + a.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


def test_a106_views_of_views_share_one_root(every_way):
    def build(x):
        root = ops.tanh(x)
        view = ops.reshape(ops.reshape(root, shape=(4, 6)), shape=(2, 12))
        return ops.relu(view) + 1.0, root * 3.0

    x = data(24)
    y, z = every_way(build, x)
    np.testing.assert_allclose(z, np.tanh(x) * 3, rtol=1e-6)
    np.testing.assert_allclose(y, np.maximum(np.tanh(x), 0).reshape(2, 12) + 1, rtol=1e-6)


def test_r39_an_optional_operand_at_the_start_of_scratch_is_there(every_way):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 4, 8)).astype(np.float32) for _ in range(3))
    hidden = np.triu(np.ones((1, 1, 4, 4), bool), 1)
    # the mask is the first value computed, so it lies at offset 0
    got = every_way(lambda m, q, k, v: ops.attention(q, k, v, ops.logical_not(m)), hidden, q, k, v)
    want = every_way(lambda q, k, v: ops.attention(q, k, v, causal=True), q, k, v)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a107_results_live_when_everything_else_is_gone():
    g = rlx.Graph("g")
    g.output("y", g.input("x", (1000,), rlx.f32) * 2.0)
    exe = rlx.compile(g)
    x = data(1000)
    y = exe.run({"x": x})["y"]
    view = y[::2]
    del exe, g, y
    np.testing.assert_array_equal(view, x[::2] * 2)


def test_a139_no_byte_beyond_a_users_array(every_way):
    import mmap

    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    assert libc.mprotect(__import__("ctypes").c_void_p(address + page), page, 0) == 0
    try:
        for n in (1, 5, 15, 17, 33):
            x = np.frombuffer(memory, np.float32, n, page - 4 * n)
            for build in (ops.tanh, ops.softmax, lambda x: ops.reduce_sum(x, axes=0), lambda x: x + x):
                g = rlx.Graph("g")
                g.output("y", build(g.input("x", (n,), rlx.f32)))
                assert rlx.compile(g).run({"x": x})["y"].size in (1, n)
            del x
    finally:
        libc.mprotect(__import__("ctypes").c_void_p(address + page), page, 3)


# ------------------------------------------------------------- threads, randomness


def test_a112_processors_of_the_process_are_obeyed():
    code = ("import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}); import rlx; "
            "from rlx.options import default_threads; assert default_threads() == 1; "
            "assert len(os.sched_getaffinity(0)) == 1")
    env = {k: v for k, v in os.environ.items() if not k.endswith("NUM_THREADS")}
    assert subprocess.run([sys.executable, "-c", code], env=env, timeout=60).returncode == 0


def test_a113_executables_are_made_and_run_from_several_threads():
    x = data(16, 16)
    wrong = []

    def work(seed):
        g = rlx.Graph("g")
        w = data(16, 16, seed=seed)
        g.output("y", ops.relu(g.input("x", (16, 16), rlx.f32) @ g.constant(w)))
        exe = rlx.compile(g, rlx.CompileOptions(threads=2))
        for _ in range(30):
            if not np.allclose(exe.run({"x": x})["y"], np.maximum(x @ w, 0), atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a137_r44_a_seed_means_the_same_whenever_it_is_set():
    def make():
        g = rlx.Graph("g")
        g.output("n", ops.random_normal(shape=(64,), graph=g))
        g.output("s", ops.sample(g.constant(np.zeros((1, 1000), np.float32))))
        return g

    early = rlx.compile(make(), rlx.CompileOptions(rng=rlx.RngOptions(seed=7)))
    late = rlx.compile(make())
    late.run({})
    late.set_rng(rlx.RngOptions(seed=7))
    one, two = [early.run({}) for _ in range(2)], [late.run({}) for _ in range(2)]
    for a, b in zip(one, two, strict=True):
        assert a["n"].tobytes() == b["n"].tobytes() and a["s"].tobytes() == b["s"].tobytes()
    assert one[0]["n"].tobytes() != one[1]["n"].tobytes()
    assert len({int(early.run({})["s"].item()) for _ in range(8)}) > 1


# ------------------------------------------------------------------------- errors


def test_a127_r31_errors_name_node_operands_sizes_and_place():
    g = rlx.Graph("g")
    x = g.input("left", (2, 58), rlx.f32)
    with pytest.raises(rlx.GraphError) as error:
        ops.matmul(x, g.input("right", (85, 3), rlx.f32), name="score")
    assert all(part in str(error.value) for part in ("score", "58", "85", "matmul"))


def test_r31_every_error_is_ours_and_also_a_built_in_one():
    import inspect

    import rlx.errors

    classes = [c for _, c in inspect.getmembers(rlx.errors, inspect.isclass) if issubclass(c, rlx.RlxError)]
    assert len(classes) > 10
    builtin = (ValueError, TypeError, KeyError, IndexError, RuntimeError, ArithmeticError, OSError, MemoryError,
               Warning)
    assert all(issubclass(c, builtin) for c in classes if c is not rlx.RlxError)


# ---------------------------------------------------------------- boundary anchors


def test_c1_integers_beyond_24_bits_and_doubles_are_exact():
    g = rlx.Graph("g")
    g.output("n", g.input("n", (1,), rlx.i64) + 1)
    g.output("d", g.input("d", (1,), rlx.f64) * 2.0)
    exe = rlx.compile(g)
    for _ in range(2):
        outs = exe.run({"n": np.array([16777217]), "d": np.array([0.1])})
        assert outs["n"][0] == 16777218 and outs["d"][0] == 0.2


@pytest.mark.parametrize("variant", ["run", "run_raw", "run_slots", "run_typed"])
def test_c1_a_handle_called_like_the_output_counts(variant):
    g = rlx.Graph("g")
    state, x = g.input("out0", (1,), rlx.f32), g.input("x", (1,), rlx.f32)
    g.output("y", state + x)
    exe = rlx.compile(g)
    exe.bind_handle("out0", np.zeros(1, np.float32))
    one = np.ones(1, np.float32)
    seen = []
    for _ in range(3):
        if variant == "run_typed":
            seen.append(float(np.frombuffer(exe.run_typed({"x": one})[0][0], np.float32)[0]))
        elif variant == "run_slots":
            exe.run({"x": one})  # slots take every input; the handle still follows
            seen.append(float(exe.read_handle("out0")[0]))
        else:
            seen.append(float(getattr(exe, variant)({"x": one})[0][0]))
    assert seen == [1, 2, 3] and exe.read_handle("out0")[0] == 3
    assert exe.run({"x": one, "out0": np.float32([10])})[0][0] == 11


def test_c2_four_bit_codes_with_a_zero_point(every_way):
    q = np.array([[0, 15]], ml_dtypes.uint4)
    g = rlx.Graph("g")
    codes = g.constant(q.astype(np.uint8))
    g.output("y", ops.dequantize_linear(codes, g.constant(np.float32(0.5)), g.constant(np.uint8(8))))
    assert rlx.compile(g).run({})["y"].tolist() == [[-4.0, 3.5]]


def test_c3_plans_against_no_reuse_and_their_own_bounds():
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(draw):
        g, feeds = random_program(draw)
        plain = rlx.compile(g, rlx.CompileOptions(optimize=False, check=True))
        exe = rlx.compile(g, rlx.CompileOptions(check=True, poison=True))
        first, again, want = exe.run(feeds), exe.run(feeds), plain.run(feeds)
        for a, b, c in zip(first, again, want, strict=True):
            assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a.astype(np.float64), c.astype(np.float64), rtol=1e-4, atol=1e-5)
        report = exe.memory_report()
        assert report.bound <= report.arena <= report.unshared + 64 * 64

    def random_program(draw):
        g = rlx.Graph("dag")
        x = g.input("x", (6, 8), rlx.f32)
        pool = [x]
        for _ in range(draw.draw(st.integers(3, 12))):
            a, b = (pool[draw.draw(st.integers(0, len(pool) - 1))] for _ in range(2))
            kind = draw.draw(st.integers(0, 5))
            pool.append([lambda a, b: ops.tanh(a), lambda a, b: a + b, lambda a, b: a * b * 0.1,
                         lambda a, b: ops.reshape(ops.reshape(a, shape=(48,)), shape=(6, 8)),
                         lambda a, b: ops.softmax(a, axis=1), lambda a, b: ops.flip(a, axes=[0])][kind](a, b))
        for i, v in enumerate(pool[-3:]):
            g.output(f"y{i}", v)
        return g, {"x": data(6, 8)}

    check()
