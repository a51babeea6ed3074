"""Programs of many extents from one compilation: traced sizes, proofs, and what cannot be followed."""

import copy
import gc
import math
import pathlib
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.ir.traced import Trace, Traced, TracedFloat, at, sqrt, trace_of
from rlx.ops.view import bounds
from rlx.runtime import executable, family

UPPER = 48
RNG = np.random.default_rng(11)
W = RNG.standard_normal((32, 32)).astype(np.float32) / 6
X = RNG.standard_normal((2, UPPER, 32)).astype(np.float32)


# -- traced numbers -------------------------------------------------------------------


@pytest.mark.parametrize("f", [
    lambda n: n + 3, lambda n: 3 - n, lambda n: n * n, lambda n: (n + 1) // 2, lambda n: -(-n // 4), lambda n: 100 % n,
    lambda n: n % 5, lambda n: -n, lambda n: abs(3 - n), lambda n: n << 2, lambda n: n >> 1, lambda n: n**2,
    lambda n: divmod(n, 3)[1], lambda n: math.trunc(n * 0.3), lambda n: math.ceil(n / 7), lambda n: math.floor(n / 7),
    lambda n: round(n / 3), lambda n: math.prod((2, n, 3)), lambda n: sum((1, n)), lambda n: n.bit_length(),
    lambda n: n & 6, lambda n: 1 / n, lambda n: sqrt(n),
])  # fmt: skip
def test_numbers_know_their_values_at_every_extent(f: Callable[[Any], Any]) -> None:
    trace = Trace(5, 9)
    made = f(trace.size)
    assert isinstance(made, (Traced, TracedFloat)) and trace.valid.all()
    assert [at(made, n) for n in range(1, 10)] == [f(n) for n in range(1, 10)]
    assert made == f(5)


def test_extents_that_would_divide_by_zero_are_ruled_out() -> None:
    trace = Trace(5, 9)
    n = trace.size
    assert at(12 // (n - 1), 5) == 3 and trace.valid.tolist() == [False] + [True] * 8
    assert at(12 % (n - 2), 5) == 0 and at(1 / (n - 3), 5) == 0.5
    assert trace.valid.tolist() == [False] * 3 + [True] * 6
    for f in (lambda: 1 // (n - 5), lambda: n % 0, lambda: n / (n - n)):
        with pytest.raises(ZeroDivisionError):
            f()


def test_comparisons_rule_out_other_outcomes() -> None:
    trace = Trace(5, 9)
    n = trace.size
    assert n > 3 and trace.valid.tolist() == [False] * 3 + [True] * 6
    assert n != 7 and not trace.valid[6]
    assert max(6, n) == 6 and trace.valid.tolist() == [False] * 3 + [True] * 3 + [False] * 3
    assert (2, n) == (2, n) and n - n == 0 and type(n - n) is int and bool(n)
    assert trace.valid.sum() == 3
    assert trace_of((1, [2, n])) is trace and trace_of((1, 2)) is None


@pytest.mark.parametrize("start", [-9, -2, 0, 3, 20])
@pytest.mark.parametrize("stop", [None, -9, -3, 0, 2, 5, 30])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_bounds_of_slices_are_those_of_python(start: int, stop: int | None, step: int) -> None:
    for n in range(8):
        first, last, _ = slice(start, stop, step).indices(n)
        want = range(first, last, step)
        got = bounds(n, start, stop, step)
        assert got[1] == len(want) and (not want or got[0] == want[0])


# -- programs ----------------------------------------------------------------------------


def layer(x: Any) -> Any:
    """Attention and a product; sequences in rows that are not outermost."""
    g = x.graph
    w = g.param("w", (32, 32))
    heads = [ops.transpose(ops.reshape(x @ w, shape=(2, x.shape[1], 4, 8)), perm=(0, 2, 1, 3)) for _ in range(2)]
    weights = ops.softmax(heads[0] @ ops.transpose(heads[1], perm=(0, 1, 3, 2)), axis=-1)
    y = ops.reshape(ops.transpose(weights @ heads[1], perm=(0, 2, 1, 3)), shape=(2, x.shape[1], 32))
    return ops.layer_norm(ops.gelu(y @ w) + x[:, ::-1], axis=-1) * ops.reduce_mean(x, axes=(1,), keepdims=True)


def compiled(build: Callable[[Any], Any] = layer, **options: Any) -> rlx.CompiledGraph:
    g = rlx.Graph("g")
    g.output("y", build(g.input("x", (2, "seq", 32))))
    exe = rlx.compile(g, rlx.CompileOptions(poison=True, threads=1, **options))
    if exe.signature.params:
        exe.set_params({"w": W})
    return exe


def assert_exact(exe: rlx.CompiledGraph, n: int, build: Callable[[Any], Any] = layer, scale: float = 1) -> None:
    small = compiled(build, dims={"seq": n})
    if small.signature.params:
        small.set_params({"w": W * np.float32(scale)})
    want = small.run({"x": X[:, :n]})["y"]
    wide = exe.run({"x": X})["y"]
    assert np.ascontiguousarray(wide[:, :n]).tobytes() == want.tobytes()
    assert not wide[:, n:].any()


def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many graphs have been compiled in the ordinary way."""
    calls = [0]
    plain = executable.compile_static

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return plain(*args, **kwargs)

    monkeypatch.setattr(executable, "compile_static", counted)
    return calls


@pytest.mark.parametrize("check", [False, True])
def test_every_extent_is_exact_and_few_are_compiled(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    exe = compiled(extents={"seq": UPPER}, check=check)
    extents = [int(n) for n in np.random.default_rng(0).permutation(np.arange(1, UPPER))]
    compiles = 0
    for n in extents:
        with monkeypatch.context() as patch:
            calls = count(patch)
            assert exe.set_active_extent("seq", n)
            compiles += calls[0]
        assert_exact(exe, n)
    families = [f for found in exe._families.known.values() for f in found]
    assert not exe._families.hopeless and any(f.trusted for f in families)
    assert compiles < len(extents) // 2


def test_parameters_clones_and_reports_of_foretold_programs() -> None:
    exe = compiled(extents={"seq": UPPER})
    for n in (40, 39, 38):
        exe.set_active_extent("seq", n)
        exe.run({"x": X})
    exe.set_param("w", W * 2)
    exe.set_active_extent("seq", 37)
    assert_exact(exe, 37, scale=2)
    twin = exe.clone()
    twin.set_active_extent("seq", 36)
    exe.set_param("w", W * 3)
    assert_exact(twin, 36, scale=2)
    assert_exact(exe, 37, scale=3)
    assert "in use" in str(exe.explain()) and exe.profile({"x": X}, repeat=1).total > 0
    small = compiled(dims={"seq": 37})
    mine, plain = exe._variant.compiled.program, small._variant.compiled.program
    names = [c.kernel for c in mine.calls if not c.kernel.startswith(("pad", "fill"))]
    assert names == [c.kernel for c in plain.calls] and type(mine.calls[0].extent) is int
    assert len(mine.calls[:2]) == 2
    assert str(mine).count("\n") == len(mine.calls)


def test_constant_made_from_the_extent_is_compiled_anew() -> None:
    def build(x: Any) -> Any:
        places = ops.arange(0, x.shape[1], dtype=rlx.f32, graph=x.graph)
        return x * ops.reshape(places, shape=(1, x.shape[1], 1)) + ops.reduce_sum(places)

    exe = compiled(build, extents={"seq": UPPER})
    for n in (40, 39, 38, 7):
        exe.set_active_extent("seq", n)
        assert_exact(exe, n, build)


def test_number_written_into_a_constant_ends_the_trace() -> None:
    def build(x: Any) -> Any:
        return ops.softmax_cross_entropy(x[:, :, 0], x.graph.constant(np.zeros(2, np.int64)))[0]

    exe = compiled(build, extents={"seq": UPPER})
    for n in (40, 39, 38):
        exe.set_active_extent("seq", n)
        want = compiled(build, dims={"seq": n}).run({"x": X[:, :n]})["y"]
        assert exe.run({"x": X})["y"].tobytes() == want.tobytes()


def test_what_is_not_foretold_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "same_program", lambda a, b: False)
    exe = compiled(extents={"seq": UPPER})
    for n in (40, 39, 38, 39):
        exe.set_active_extent("seq", n)
        assert_exact(exe, n)
    assert exe._families.hopeless == {"seq"} and not any(exe._families.known.values())


def test_a_number_that_lost_its_trace_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size turned into a plain one stays that of the traced extent: the proof fails."""
    from rlx.lower import softmax

    plain = softmax.shape_of
    monkeypatch.setattr(softmax, "shape_of", lambda v: tuple(np.array(plain(v)).tolist()))

    def build(x: Any) -> Any:
        return ops.softmax(x, axis=1)

    exe = compiled(build, extents={"seq": UPPER})
    for n in (40, 39, 38):
        exe.set_active_extent("seq", n)
        assert_exact(exe, n, build)
    assert exe._families.hopeless == {"seq"}


def test_results_may_not_share_memory_that_is_equal_by_chance() -> None:
    """At 16 rows the two are equally large; at fewer they are not."""
    def build(x: Any) -> Any:
        y = ops.exp(x)
        wide = ops.reduce_sum(y, axes=2, keepdims=True) * x.graph.constant(np.ones((2, 1, 16), np.float32))
        return ops.concat(y, wide, axis=2) @ x.graph.constant(RNG.standard_normal((48, 5)).astype(np.float32))

    constant = RNG.bit_generator.state

    def fixed(x: Any) -> Any:
        RNG.bit_generator.state = constant
        return build(x)

    exe = compiled(fixed, extents={"seq": UPPER}, check=True)
    for n in (16, 15, 14, 2, 3, 30):
        exe.set_active_extent("seq", n)
        assert_exact(exe, n, fixed)


def test_two_extents_have_families_of_their_own() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("batch", "seq", 8))
    g.output("y", ops.softmax(x @ ops.transpose(x, perm=(0, 2, 1)), axis=-1) @ x)
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": 5, "seq": 20}, poison=True, threads=1))
    data = RNG.standard_normal((5, 20, 8)).astype(np.float32)
    for b, s in ((4, 19), (3, 18), (4, 17), (3, 16), (4, 16), (2, 20), (5, 3), (4, 15), (3, 15)):
        exe.set_active_extent("batch", b)
        exe.set_active_extent("seq", s)
        small = rlx.compile(g, rlx.CompileOptions(dims={"batch": b, "seq": s}, threads=1))
        want = small.run({"x": np.ascontiguousarray(data[:b, :s])})["y"]
        wide = exe.run({"x": data})["y"]
        assert np.ascontiguousarray(wide[:b, :s]).tobytes() == want.tobytes()
        assert not wide[b:].any() and not wide[:, s:].any()


def test_files_and_copies_keep_extents(tmp_path: pathlib.Path) -> None:
    exe = compiled(extents={"seq": UPPER})
    exe.set_active_extent("seq", 7)
    exe.run({"x": X})
    exe.save(tmp_path / "plain.rlx")
    exe.save(tmp_path / "whole.rlx", portable=True)
    whole = rlx.load(tmp_path / "whole.rlx")
    for other in (whole, pickle.loads(pickle.dumps(exe)), copy.deepcopy(exe)):
        for n in (7, 30, 29, 28, UPPER):
            assert other.set_active_extent("seq", n)
            assert_exact(other, n)
    plain = rlx.load(tmp_path / "plain.rlx")
    assert "active_extent" in whole.capabilities and "active_extent" not in plain.capabilities
    report = plain.set_active_extent("seq", 7)
    assert not report and "portable=True" in report.reason
    assert_exact(plain, UPPER)


def test_closed_executables_hold_no_programs() -> None:
    exe = compiled(extents={"seq": UPPER})
    for n in (30, 29):
        exe.set_active_extent("seq", n)
    first = weakref.ref(next(f for found in exe._families.known.values() for f in found).first)
    exe.close()
    gc.collect()
    assert first() is None
    with pytest.raises(rlx.ExecutionError, match="closed"):
        exe.set_active_extent("seq", 3)


def test_python_kernels_get_the_sizes_of_their_extent() -> None:
    """A call of Python code holds arrays of fixed shapes: no family, every extent is compiled."""
    double = rlx.register_op("test_extent_double", inputs=["x"], reference=lambda x: x + x)
    try:
        exe = compiled(lambda x: ops.exp(double(x)), extents={"seq": UPPER})
        for n in (40, 39, 38, 3):
            exe.set_active_extent("seq", n)
            assert_exact(exe, n, lambda x: ops.exp(double(x)))
        assert exe._families.hopeless == {"seq"}
    finally:
        rlx.unregister_op("test_extent_double")
