"""Active extent: a bucket runs on fewer rows, bit for bit as a graph compiled for that many."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.runtime.extent import ExtentReport

UPPER = 8
RNG = np.random.default_rng(5)
W = {"w": RNG.standard_normal((16, 16)).astype(np.float32), "b": RNG.standard_normal(16).astype(np.float32)}
X = RNG.standard_normal((UPPER, 16)).astype(np.float32)


def block(x: Any) -> Any:
    """Rows stay apart."""
    g = x.graph
    w, b = g.param("w", (16, 16)), g.param("b", (16,))
    return ops.gelu(ops.layer_norm(ops.tanh(x @ w + b) + x, axis=-1)) @ w


def mixing(x: Any) -> Any:
    """Every row sees every other one."""
    h = block(x)
    keys = ops.softmax(h @ ops.transpose(h, perm=(1, 0)), axis=1)
    return ops.cumsum(keys @ h, axis=0) + ops.reduce_sum(h, axes=0) + ops.softmax(h, axis=0)


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "block": block,
    "mixing": mixing,
    "transposed": lambda x: ops.transpose(block(x), perm=(1, 0)),
    "square": lambda x: block(x) @ ops.transpose(x, perm=(1, 0)),
    "merged": lambda x: ops.reshape(block(x), shape=(x.shape[0] * 4, 4)),
    "alone": lambda x: ops.reduce_max(block(x), axes=(0, 1)),
    "input": lambda x: block(x) * 0 + x,
}


def compiled(build: Callable[[Any], Any], **options: Any) -> rlx.CompiledGraph:
    g = rlx.Graph("g")
    g.output("y", build(g.input("x", ("batch", 16))))
    exe = rlx.compile(g, rlx.CompileOptions(poison=True, check=True, **options))
    exe.set_params(W)
    return exe


def assert_rows(wide: np.ndarray, want: np.ndarray) -> None:
    """The first part is `want`, bit for bit; the rest is zero."""
    first = tuple(slice(0, n) for n in want.shape)
    assert wide.dtype == want.dtype
    assert np.ascontiguousarray(wide[first]).tobytes() == want.tobytes()
    rest = wide.copy()
    rest[first] = 0
    assert not any(rest.tobytes())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BUILDERS)
def test_c5_r12_first_rows_equal_a_graph_of_that_size_and_the_rest_is_zero(name: str, threads: int) -> None:
    exe = compiled(BUILDERS[name], extents={"batch": UPPER}, threads=threads)
    for a in [*range(1, UPPER + 1), 3]:
        assert exe.set_active_extent("batch", a)
        want = compiled(BUILDERS[name], dims={"batch": a}, threads=threads).run({"x": X[:a]})["y"]
        for given in (X, X[:a], np.asfortranarray(X)):
            assert_rows(exe.run({"x": given})["y"], want)
    assert exe.set_active_extent("batch", None)
    assert_rows(exe.run({"x": X})["y"], compiled(BUILDERS[name], dims={"batch": UPPER}).run({"x": X})["y"])


def test_r21_every_run_variant_honours_the_extent() -> None:
    exe = compiled(mixing, extents={"batch": UPPER})
    want = compiled(mixing, dims={"batch": 3}).run({"x": X[:3]})["y"]
    exe.set_active_extent("batch", 3)
    out = np.full((UPPER, 16), 7, np.float32)
    assert exe.run({"x": X}, out={"y": out})["y"] is out
    calls = {
        "run": exe.run({"x": X})["y"],
        "out": out,
        "raw": exe.run_raw({"x": X})[0],
        "slots": exe.run_slots([X[:3]])[0],
    }
    for given in (X, X[:3]):
        data, dtype = exe.run_typed({"x": (given.tobytes(), rlx.f32)})[0]
        calls[f"typed {len(given)}"] = np.frombuffer(data, dtype.numpy).reshape(UPPER, 16)
    for wide in calls.values():
        assert_rows(wide, want)


def test_r80_extent_is_checked_and_says_what_it_did() -> None:
    exe = compiled(block, extents={"batch": UPPER})
    assert "active_extent" in exe.capabilities
    assert "active_extent" not in compiled(block, dims={"batch": 2}).capabilities
    report = exe.set_active_extent("batch", 2)
    assert report == ExtentReport("batch", 2, UPPER) and report.used and report.fraction == 0.25
    assert "extent batch: 2 of 8, in use" in str(exe.explain())
    for bad in (0, -1, UPPER + 1, 2.5, True, "3", np.float32(2)):
        with pytest.raises(rlx.BindingError, match=r"must be an int in \[1, 8\]"):
            exe.set_active_extent("batch", bad)
    with pytest.raises(rlx.UnknownNameError, match="did you mean 'batch'"):
        exe.set_active_extent("bach", 1)
    assert exe.active_extents() == {"batch": 2}
    assert exe.set_active_extent("batch", np.int32(3)).actual == 3
    assert exe.set_active_extent("batch", None).actual == UPPER


def test_r80_graph_that_cannot_be_smaller_says_why_by_node_and_stays_as_it_was() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("batch", 16))
    g.output("y", ops.reshape(x, shape=(x.shape[0] // 4, 64), name="fours"))
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": UPPER}))
    assert exe.set_active_extent("batch", 4)
    report = exe.set_active_extent("batch", 3)
    assert not report and report.fraction == 1.0 and "reshape" in report.reason and "node 'fours'" in report.reason
    assert "not used" in str(exe.explain())
    assert_rows(exe.run({"x": X[:4]})["y"], X[:4].reshape(1, 64))
    assert exe.set_active_extent("batch", 8)
    assert "not used" not in str(exe.explain())


def test_r80_output_without_first_rows_is_refused() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("batch", 2))
    g.output("y", ops.pad(x, before=(0, 0), after=(0, 0)))
    g.output("z", ops.expand(x[:1], shape=(10 - x.shape[0], 2), name="less"))
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": UPPER}))
    report = exe.set_active_extent("batch", 3)
    assert not report and "'less'" in report.reason and "grow with the extent" in report.reason


def test_axes_that_carry_an_extent_are_told() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("batch", 16))
    g.output("y", ops.reshape(ops.transpose(x, perm=(1, 0), name="t"), shape=(4, x.shape[0] * 4), name="r"))
    g.output("s", ops.reduce_sum(x, axes=(0,), name="gone"))
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": UPPER}))
    assert exe.extent_axes("batch") == {"x": {0: "batch"}, "t": {1: "batch"}, "r": {1: "4*batch"}}
    with pytest.raises(rlx.UnknownNameError, match="no extent"):
        exe.extent_axes("seq")


def test_extents_and_options_are_checked() -> None:
    for bad in ({"batch": 0}, {"batch": True}, {"batch": 2.0}, 3):
        with pytest.raises(rlx.ConfigError, match="extents"):
            rlx.CompileOptions(extents=bad)
    with pytest.raises(rlx.ConfigError, match=r"got \['bath'\]"):
        compiled(block, extents={"bath": 3})
    with pytest.raises(rlx.ConfigError, match="in both"):
        compiled(block, extents={"batch": 3}, dims={"batch": 3})


def test_wrong_shapes_are_refused_under_an_extent() -> None:
    exe = compiled(block, extents={"batch": UPPER})
    exe.set_active_extent("batch", 3)
    for n in (1, 4, 9):
        with pytest.raises(rlx.BindingError, match="shape must be"):
            exe.run({"x": np.zeros((n, 16), np.float32)})
    with pytest.raises(rlx.BindingError, match="bytes"):
        exe.run_typed({"x": (X[:4].tobytes(), rlx.f32)})


def test_clones_have_extents_of_their_own() -> None:
    exe = compiled(mixing, extents={"batch": UPPER})
    exe.set_active_extent("batch", 5)
    twin = exe.clone()
    assert twin.active_extents() == {"batch": 5}
    exe.set_active_extent("batch", 2)
    for e, a in ((twin, 5), (exe, 2), (exe.clone(), 2)):
        assert_rows(e.run({"x": X})["y"], compiled(mixing, dims={"batch": a}).run({"x": X[:a]})["y"])
    twin.set_active_extent("batch", None)
    assert_rows(twin.run({"x": X})["y"], compiled(mixing, dims={"batch": 8}).run({"x": X})["y"])
    assert exe.active_extents() == {"batch": 2}


def test_parameters_set_later_reach_every_extent() -> None:
    exe = compiled(block, extents={"batch": UPPER})
    for a in (2, 3):
        exe.set_active_extent("batch", a)
        exe.run({"x": X})
    exe.set_param("w", W["w"] * 2)
    for a in (3, 2, None):
        exe.set_active_extent("batch", a)
        other = compiled(block, dims={"batch": a or UPPER})
        other.set_param("w", W["w"] * 2)
        assert_rows(exe.run({"x": X})["y"], other.run({"x": X[:a]})["y"])


def test_parameter_of_bucket_size_gives_its_first_rows() -> None:
    g = rlx.Graph("g")
    x, table = g.input("x", (2, "seq", 4)), g.param("table", ("seq", 4))
    g.output("y", (x + table) @ ops.transpose(table, perm=(1, 0)))
    data = RNG.standard_normal((2, 6, 4)).astype(np.float32)
    rows = RNG.standard_normal((6, 4)).astype(np.float32)
    exe = rlx.compile(g, rlx.CompileOptions(extents={"seq": 6}, poison=True))
    exe.set_active_extent("seq", 4)
    exe.set_params({"table": rows})
    for a in (4, 1, 6, 5):
        exe.set_active_extent("seq", a)
        other = rlx.compile(g, rlx.CompileOptions(dims={"seq": a}))
        other.set_params({"table": rows[:a]})
        want = other.run({"x": data[:, :a]})["y"]
        assert_rows(exe.run({"x": data})["y"], want)
        assert_rows(exe.run({"x": np.ascontiguousarray(data[:, :a])})["y"], want)


def test_two_extents_and_an_open_size() -> None:
    def build(**options: Any) -> rlx.CompiledGraph:
        g = rlx.Graph("g")
        x = g.input("x", ("batch", "seq", "width"))
        g.output("y", ops.softmax(x, axis=1) * ops.reduce_sum(x, axes=2, keepdims=True))
        return rlx.compile(g, rlx.CompileOptions(poison=True, **options))

    exe = build(extents={"batch": 4, "seq": 5})
    data = {w: RNG.standard_normal((4, 5, w)).astype(np.float32) for w in (3, 7)}
    for b, s, w in ((2, 3, 3), (2, 3, 7), (4, 3, 7), (1, 5, 3), (4, 5, 3)):
        assert exe.set_active_extent("batch", b) and exe.set_active_extent("seq", s)
        cut = np.ascontiguousarray(data[w][:b, :s])
        want = build().run({"x": cut})["y"]
        assert_rows(exe.run({"x": data[w]})["y"], want)
        assert_rows(exe.run({"x": cut})["y"], want)
        assert_rows(exe.clone().run({"x": cut})["y"], want)


def test_handles_and_extents_together() -> None:
    def build(**options: Any) -> rlx.CompiledGraph:
        g = rlx.Graph("g")
        x, h = g.input("x", ("batch", 4)), g.input("h", ("batch", 4))
        g.output("next", ops.tanh(h + x))
        exe = rlx.compile(g, rlx.CompileOptions(poison=True, **options))
        rows = options.get("dims", {"batch": UPPER})["batch"]
        exe.bind_handle("h", np.ones((rows, 4), np.float32))
        exe.link("next", "h")
        return exe

    x = RNG.standard_normal((UPPER, 4)).astype(np.float32)
    exe, small = build(extents={"batch": UPPER}), build(dims={"batch": 3})
    exe.set_active_extent("batch", 3)
    for call in ("run", "run_raw", "run"):
        got, want = getattr(exe, call)({"x": x})[0], getattr(small, call)({"x": x[:3]})[0]
        assert_rows(got, want)
    assert_rows(exe.read_handle("h"), small.read_handle("h"))


def test_random_numbers_are_those_of_the_smaller_graph() -> None:
    def build(**options: Any) -> rlx.CompiledGraph:
        g = rlx.Graph("g")
        x = g.input("x", ("batch", 4))
        g.output("y", x + ops.random_normal(shape=(x.shape[0], 4), graph=g))
        return rlx.compile(g, rlx.CompileOptions(rng=rlx.RngOptions(seed=3), **options))

    exe, small = build(extents={"batch": 5}), build(dims={"batch": 2})
    exe.set_active_extent("batch", 2)
    x = np.zeros((5, 4), np.float32)
    for _ in range(2):
        assert_rows(exe.run({"x": x})["y"], small.run({"x": x[:2]})["y"])
    exe.set_rng(rlx.RngOptions(seed=9))
    small.set_rng(rlx.RngOptions(seed=9))
    assert_rows(exe.run({"x": x})["y"], small.run({"x": x[:2]})["y"])


def test_sizes_that_depend_on_data() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("batch", 4))
    g.output("rows", ops.nonzero(x))
    g.output("y", ops.exp(x))
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": 6}))
    x6 = RNG.integers(0, 2, (6, 4)).astype(np.float32)
    for a in (4, 1, 6):
        exe.set_active_extent("batch", a)
        for given in (x6, x6[:a]):
            got = exe.run({"x": given})
            np.testing.assert_array_equal(got["rows"], np.argwhere(x6[:a]).T)
            assert_rows(got["y"], by_kernels(x6[:a]))


def by_kernels(x: np.ndarray) -> np.ndarray:
    """exp by the kernels."""
    g = rlx.Graph("g")
    g.output("y", ops.exp(g.input("x", x.shape)))
    return rlx.compile(g).run({"x": x})["y"]


def test_bodies_of_loops_follow_the_extent() -> None:
    def build(**options: Any) -> rlx.CompiledGraph:
        g = rlx.Graph("g")
        x = g.input("x", ("batch", 4))
        body = rlx.Graph("body")
        body.input("i", (), rlx.i64)
        h = body.input("h", ("batch", 4))
        body.output("go", body.constant(np.asarray(True)))
        body.output("next", ops.tanh(h) + ops.reduce_sum(h, axes=0))
        g.output("y", ops.loop(g.constant(np.asarray(3)), None, x, body=body, n_carried=1)[0])
        return rlx.compile(g, rlx.CompileOptions(poison=True, **options))

    exe = build(extents={"batch": 6})
    x = RNG.standard_normal((6, 4)).astype(np.float32)
    for a in (2, 6, 5):
        exe.set_active_extent("batch", a)
        assert_rows(exe.run({"x": x})["y"], build(dims={"batch": a}).run({"x": x[:a]})["y"])


def test_dump_nodes_and_profile_follow_the_extent() -> None:
    exe = compiled(block, extents={"batch": UPPER})
    exe.set_active_extent("batch", 3)
    shapes = {a.shape for a in exe.dump_nodes({"x": X}).values()}
    assert (3, 16) in shapes
    assert exe.profile({"x": X}, repeat=1).total > 0
    assert exe.memory_report().variants == 2


def test_programs_of_extents_share_weights_and_scratch_and_are_bounded() -> None:
    exe = compiled(block, extents={"batch": 160})
    exe.run({"x": np.zeros((160, 16), np.float32)})
    before = exe.memory_report()
    x = RNG.standard_normal((160, 16)).astype(np.float32)
    for a in range(1, 160):
        exe.set_active_extent("batch", a)
        if a % 20 == 1:
            exe.run({"x": x})
    assert exe.memory_report().variants <= 129
    assert exe.memory_report().weights == before.weights
    assert exe.memory_report().arena == before.arena
    scratch = {v.scratch.ctypes.data for v in exe.variants()}
    assert len(scratch) == 1


def test_open_sizes_share_scratch_and_one_run_at_a_time() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("n", 64))
    for i in range(6):
        x = ops.tanh(x @ g.param(f"w{i}", (64, 64)))
    g.output("y", x)
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    exe.set_params({f"w{i}": np.eye(64, dtype=np.float32) for i in range(6)})
    for n in (50, 10, 20, 50):
        exe.run({"x": np.ones((n, 64), np.float32)})
    assert len({v.scratch.ctypes.data for v in exe.variants()}) == 1
    assert len({id(v.executor.guard) for v in exe.variants()}) == 1
    guards = {id(v.executor.guard) for e in (exe, exe.clone()) for v in e.variants()}
    assert len(guards) == 1  # a clone starts without programs of open sizes


def test_c5_cost_falls_with_the_rows() -> None:
    """A quarter of the rows of a chain of products takes less than half of the time (in fact about a quarter)."""
    g = rlx.Graph("chain")
    x = g.input("x", ("batch", 256))
    for i in range(4):
        x = ops.relu(x @ g.constant(RNG.standard_normal((256, 256)).astype(np.float32)), name=f"r{i}")
    g.output("y", x)
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": 256}, threads=1))
    data = {"x": RNG.standard_normal((256, 256)).astype(np.float32)}
    spent: dict[int, list[float]] = {256: [], 64: []}
    for _ in range(12):
        for rows, times in spent.items():
            exe.set_active_extent("batch", rows)
            start = time.thread_time()
            exe.run(data)
            times.append(time.thread_time() - start)
    assert min(spent[64]) < 0.5 * min(spent[256])


def test_r30_extents_changed_from_another_thread_never_corrupt() -> None:
    exe = compiled(mixing, extents={"batch": UPPER}, threads=1, busy="wait")
    wants = {a: compiled(mixing, dims={"batch": a}, threads=1).run({"x": X[:a]})["y"] for a in (2, 5, 8)}
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for a in np.random.default_rng(seed).choice([2, 5, 8], 60):
                exe.set_active_extent("batch", int(a))
                wide = exe.run({"x": X})["y"]
                if not any(np.array_equal(wide[:n], w) and not wide[n:].any() for n, w in wants.items()):
                    errors.append(AssertionError("rows of no extent"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
