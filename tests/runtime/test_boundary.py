"""Names, sizes and types at the boundary: what goes silently wrong elsewhere is a clear error here.

Names of tests carry the number of the fault in the study (R-n) or report (Ann).
"""

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.errors import BindingError, BindingTypeError, GraphError, UnknownNameError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def affine(**options: object) -> rlx.CompiledGraph:
    """y = x * weight + bias, z = x."""
    g = rlx.Graph("affine")
    x = g.input("x", (2, 3))
    w = g.param("weight", (3,))
    b = g.param("bias", (2, 3))
    g.output("y", x * w + b)
    g.output("z", x)
    return rlx.compile(g, rlx.CompileOptions(check=True, poison=True, **options))  # type: ignore[arg-type]


@pytest.fixture
def exe() -> rlx.CompiledGraph:
    e = affine()
    e.set_params({"weight": np.ones(3, np.float32), "bias": np.zeros((2, 3), np.float32)})
    return e


def test_r1_unknown_param_proposes_the_nearest_name(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'weight'"):
        exe.set_param("wieght", np.ones(3, np.float32))
    with pytest.raises(KeyError):
        exe.get_param("wieght")


def test_r2_unknown_input_is_named(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(UnknownNameError, match="no input 'q'"):
        exe.run({"x": X, "q": X})
    for call in (exe.run_raw, exe.run_typed):
        with pytest.raises(UnknownNameError):
            call({"x": X, "q": X})


def test_a_misspelt_input_is_named_with_the_nearest_names(exe: rlx.CompiledGraph) -> None:
    g = rlx.Graph("near")
    g.output("y", g.input("signal", ("n", 3), rlx.f32) + g.input("gain", (3,), rlx.f32))
    open_sizes = rlx.compile(g)
    fixed = rlx.compile(g, rlx.CompileOptions(dims={"n": 2}))
    cached = rlx.DynamicDimCompileCache(g)
    given = {"singal": X, "gain": X[0]}
    for e in (open_sizes, fixed):
        for call in (e.run, e.run_raw, e.run_typed, lambda x, e=e: e.run(x, out=None, threads=2)):
            with pytest.raises(UnknownNameError, match="no input 'singal'\nhint: did you mean 'signal'"):
                call(given)
            with pytest.raises(BindingError, match="'gain' is missing"):
                call({"signal": X})
    with pytest.raises(UnknownNameError, match="no input 'singal'\nhint: did you mean 'signal'"):
        cached.run(given)
    raw = {"singal": (X.tobytes(), rlx.f32), "gain": X[0]}
    with pytest.raises(UnknownNameError, match="did you mean 'signal'"):
        fixed.run_typed(raw)
    np.testing.assert_array_equal(open_sizes.run({"signal": X, "gain": X[0]})["y"], X + X[0])


def test_r3_missing_input_is_named(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError, match="'x' is missing"):
        exe.run({})
    with pytest.raises(BindingError, match="'x' is missing"):
        exe.run_typed({})
    with pytest.raises(BindingError, match="number of arrays must be 1"):
        exe.run_slots([])
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X)


def test_r4_unset_param_raises_at_first_run() -> None:
    e = affine()
    e.set_param("weight", np.ones(3, np.float32))
    with pytest.raises(BindingError, match=r"'bias'"):
        e.run({"x": X})
    with pytest.raises(BindingError, match="must be set"):
        e.get_param("bias")


@pytest.mark.parametrize("n", [2, 5])
def test_r5_r6_wrong_size_raises_and_neighbours_stay(exe: rlx.CompiledGraph, n: int) -> None:
    before = exe.get_param("bias").copy()
    with pytest.raises(BindingError, match=r"shape must be \(3,\)"):
        exe.set_param("weight", np.ones(n, np.float32))
    with pytest.raises(BindingError, match="shape"):
        exe.run({"x": np.zeros((n, 3), np.float32)} if n != 2 else {"x": np.zeros((2, 2), np.float32)})
    np.testing.assert_array_equal(exe.get_param("bias"), before)
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X)


def test_r7_slots_take_exactly_the_inputs(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError, match="number of arrays must be 1"):
        exe.run_slots([X, X])
    with pytest.raises(BindingError, match="shape"):
        exe.run_slots([X.reshape(-1)])
    np.testing.assert_array_equal(exe.run_slots([X])[0], X)


def test_r8_r12_byte_counts_are_exact(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError, match="must be 12 bytes"):
        exe.set_param_typed("weight", b"\0" * 11, rlx.f32)
    with pytest.raises(BindingError, match="must be 24 bytes"):
        exe.run_typed({"x": (X.tobytes()[:-4], rlx.f32)})
    ((data, dtype), _) = exe.run_typed({"x": (X.tobytes(), "f32")})
    assert (data, dtype) == (X.tobytes(), rlx.f32)


def test_r9_other_dtypes_are_refused(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingTypeError, match="dtype must be f32, got float64"):
        exe.run({"x": X.astype(np.float64)})
    with pytest.raises(BindingTypeError, match="got i64"):
        exe.set_param_typed("weight", np.arange(3).tobytes(), rlx.i64)
    with pytest.raises(TypeError):
        exe.set_param("weight", np.ones(3, np.int32))


def test_r10_r11_integers_stay_integers() -> None:
    g = rlx.Graph("ints")
    x = g.input("x", (1,), rlx.i64)
    g.output("next", x + 1)
    g.output("large", x > 2**24)
    e = rlx.compile(g)
    out = e.run({"x": np.array([2**53 + 1])})
    assert out["next"].dtype == np.int64
    assert out["next"][0] == 2**53 + 2
    assert out["large"].dtype == np.bool_


def test_r13_constants_keep_their_bytes() -> None:
    for array in (np.arange(5), np.array([True]), np.array([1 + 2j], np.complex64), np.array([3], np.int16)):
        g = rlx.Graph("c")
        g.input("x", (1,))
        g.output("c", g.constant(array))
        out = rlx.compile(g).run({"x": np.zeros(1, np.float32)})["c"]
        assert out.dtype == array.dtype
        np.testing.assert_array_equal(out, array)


def test_r14_duplicate_names_are_refused() -> None:
    g = rlx.Graph("twice")
    g.input("x", (1,))
    with pytest.raises(GraphError, match="twice"):
        g.input("x", (2,))
    with pytest.raises(GraphError, match="twice"):
        g.param("x", (2,))


def test_r15_flat_data_is_not_a_matrix(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError, match=r"shape must be \(2, 3\), got \(6,\)"):
        exe.run({"x": X.reshape(6)})


def test_r16_unused_inputs_and_params_stay_known() -> None:
    g = rlx.Graph("unused")
    x = g.input("x", (1,))
    g.input("ignored", (1,))
    g.param("p", (1,))
    g.output("y", x)
    e = rlx.compile(g)
    e.set_param("p", np.ones(1, np.float32))
    one = np.ones(1, np.float32)
    assert e.run({"x": one, "ignored": one})["y"] == 1
    with pytest.raises(BindingError, match="ignored"):
        e.run({"x": one})


def test_lists_and_numbers_are_taken_arrays_of_another_type_are_not(exe: rlx.CompiledGraph) -> None:
    np.testing.assert_array_equal(exe.run({"x": X.tolist()})["y"], X)
    np.testing.assert_array_equal(exe.run({"x": [[1, 2, 3], [4, 5, 6]]})["y"], [[1, 2, 3], [4, 5, 6]])
    with pytest.raises(BindingTypeError):
        exe.run({"x": [["a", "b", "c"], ["d", "e", "f"]]})
    with pytest.raises(BindingTypeError):
        exe.run({"x": None})
    with pytest.raises(BindingError):
        exe.run({"x": [[1, 2, 3], [4, 5]]})


@pytest.mark.parametrize(
    "view",
    [
        lambda: np.ascontiguousarray(X.T).T,
        lambda: np.repeat(X, 2, 1)[:, ::2],
        lambda: X[::-1][::-1],
        lambda: np.asfortranarray(X),
        lambda: X.astype(">f4"),
        lambda: np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
)
def test_p4_strided_swapped_and_unaligned_arrays(exe: rlx.CompiledGraph, view) -> None:  # type: ignore[no-untyped-def]
    np.testing.assert_array_equal(exe.run({"x": view()})["y"], X)


def test_p8_rank_zero_and_empty_outputs_keep_their_shape() -> None:
    g = rlx.Graph("shapes")
    x = g.input("x", ())
    e = g.input("e", (0, 3))
    g.output("x2", x * 2)
    g.output("e2", e + 1)
    out = rlx.compile(g).run({"x": np.float32(2), "e": np.zeros((0, 3), np.float32)})
    assert out["x2"].shape == ()
    assert out["x2"] == 4
    assert out["e2"].shape == (0, 3)


def test_a71_null_pointer_of_an_empty_array() -> None:
    g = rlx.Graph("empty")
    g.output("y", ops.relu(g.input("x", (0,))))
    assert rlx.compile(g).run({"x": np.empty(0, np.float32)})["y"].size == 0


def test_out_arrays_are_written_and_returned(exe: rlx.CompiledGraph) -> None:
    target = np.empty((2, 3), np.float32)
    out = exe.run({"x": X}, out={"y": target})
    assert out["y"] is target
    np.testing.assert_array_equal(target, X)
    both = [np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)]
    assert exe.run({"x": X}, out=both)[1] is both[1]


def test_out_that_overlaps_an_input_gives_the_right_result(exe: rlx.CompiledGraph) -> None:
    data = X.copy()
    exe.run({"x": data}, out={"y": data})
    np.testing.assert_array_equal(data, X)
    flat = np.zeros(12, np.float32)
    source = flat[:6].reshape(2, 3)
    source[...] = X
    exe.run({"x": source}, out={"y": flat[3:9].reshape(2, 3)})
    np.testing.assert_array_equal(flat[3:9].reshape(2, 3), X)


@pytest.mark.parametrize(("out", "error"), [
    ({"y": np.empty((3, 2), np.float32)}, BindingError), ({"y": np.empty((2, 3))}, BindingTypeError),
    ({"q": np.empty((2, 3), np.float32)}, UnknownNameError), ([np.empty((2, 3), np.float32)], BindingError),
    ({"y": [1, 2]}, BindingTypeError), ({"y": np.empty((3, 2), np.float32).T}, BindingError), (3, BindingTypeError),
])
def test_bad_out_arrays_are_refused(exe: rlx.CompiledGraph, out: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        exe.run({"x": X}, out=out)


def test_outputs_are_a_sequence_with_names(exe: rlx.CompiledGraph) -> None:
    out = exe.run({"x": X})
    assert list(out.keys()) == ["y", "z"]
    assert len(out) == 2
    assert out[0] is out["y"]
    assert [a.shape for a in out] == [(2, 3), (2, 3)]
    assert "y" in out
    with pytest.raises(KeyError, match="outputs are"):
        out["nope"]
    for place in (2, 5, -3):
        with pytest.raises(IndexError, match=rf"no output {place}; there are 2: \['y', 'z'\]"):
            out[place]
    assert out[-2] is out[0] and out[:1] == (out["y"],)
    assert "y" in repr(out)


def test_a97_a98_outputs_do_not_alias_inputs_or_each_other(exe: rlx.CompiledGraph) -> None:
    data = X.copy()
    first = exe.run({"x": data})
    kept = first["z"].copy()
    data += 100
    second = exe.run({"x": data})
    np.testing.assert_array_equal(first["z"], kept)
    np.testing.assert_array_equal(second["z"], data)
    assert not np.shares_memory(first["z"], data)
    assert not np.shares_memory(first["y"], second["y"])


def test_r29_raw_views_are_read_only(exe: rlx.CompiledGraph) -> None:
    raw = exe.run_raw({"x": X})
    assert raw[0].dtype == np.float32
    assert raw[0].shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        raw[0][0, 0] = 1


def test_bad_thread_counts_are_refused(exe: rlx.CompiledGraph) -> None:
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(rlx.ConfigError):
            exe.run({"x": X}, threads=bad)  # type: ignore[arg-type]
    with pytest.raises(rlx.ConfigError):
        rlx.CompileOptions(threads=0)
    with pytest.raises(rlx.ConfigError, match="passes are"):
        rlx.CompileOptions(disable=("no-such-pass",))
    with pytest.raises(rlx.ConfigError, match="nope"):
        affine(dims={"nope": 3})


def test_params_are_copied_in_and_out(exe: rlx.CompiledGraph) -> None:
    w = np.full(3, 2, np.float32)
    exe.set_param("weight", w)
    w[...] = 9
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X * 2)
    got = exe.get_param("weight")
    got[...] = 7
    np.testing.assert_array_equal(exe.run({"x": X})["y"], X * 2)


def test_set_params_is_all_or_nothing(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError):
        exe.set_params({"weight": np.full(3, 5, np.float32), "bias": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(exe.get_param("weight"), np.ones(3, np.float32))


def test_graph_stays_usable_after_compile() -> None:
    g = rlx.Graph("again")
    x = g.input("x", (2,))
    g.output("y", x + 1)
    first = rlx.compile(g)
    g.output("z", x * 3)
    second = rlx.compile(g)
    feed = {"x": np.ones(2, np.float32)}
    assert list(first.run(feed).keys()) == ["y"]
    assert list(second.run(feed).keys()) == ["y", "z"]


@pytest.mark.parametrize("optimize", [False, True])
def test_constants_of_a_graph_stay_after_compile(optimize: bool) -> None:
    """Whether or not a pass made a new graph: compile again, and look at every value."""
    g = rlx.Graph("again")
    w = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    g.output("y", g.input("x", (4, 32)) @ g.constant(w))
    feed = {"x": np.ones((4, 32), np.float32)}
    options = rlx.CompileOptions(optimize=optimize)
    runs = [rlx.compile(g, options) for _ in range(2)]
    for exe in runs:
        np.testing.assert_array_equal(exe.run(feed)["y"], feed["x"] @ w)
        assert any((v.shape == (4, 32)) for v in exe.dump_nodes(feed).values())


def test_values_of_another_graph_are_refused() -> None:
    a, b = rlx.Graph("a"), rlx.Graph("b")
    x, y = a.input("x", (1,)), b.input("y", (1,))
    with pytest.raises(GraphError, match="must belong to graph 'a'"):
        _ = x + y
    with pytest.raises(GraphError, match="no truth value"):
        bool(x > 0)


def test_no_outputs_is_an_error() -> None:
    with pytest.raises(BindingError, match="at least one output"):
        rlx.compile(rlx.Graph("none"))


def test_symbolic_sizes_are_bound_by_the_inputs() -> None:
    g = rlx.Graph("sym")
    x = g.input("x", ("n", 3))
    y = g.input("y", ("n",))
    g.output("z", x + ops.unsqueeze(y, 1))
    e = rlx.compile(g)
    for n in (0, 1, 5, 2, 5):
        a, b = np.ones((n, 3), np.float32), np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(e.run({"x": a, "y": b})["z"], a + b[:, None])
    with pytest.raises(BindingError, match="size n must be 4"):
        e.run({"x": np.ones((4, 3), np.float32), "y": np.ones(3, np.float32)})
    with pytest.raises(BindingError, match="rank must be 2"):
        e.run({"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)})
    with pytest.raises(BindingError, match="size 3 must be 3"):
        e.run({"x": np.ones((4, 2), np.float32), "y": np.ones(4, np.float32)})
    with pytest.raises(BindingError, match="missing"):
        e.run({"x": np.ones((4, 3), np.float32)})


def test_session_and_compile_are_the_same_call(exe: rlx.CompiledGraph) -> None:
    e = rlx.Session("cpu").compile(exe.graph, rlx.CompileOptions())
    e.set_params({"weight": np.ones(3, np.float32), "bias": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(e.run({"x": X})["y"], exe.run({"x": X})["y"])
    with pytest.raises(rlx.ConfigError, match="must be one of"):
        rlx.Session("tpu")


def test_reports_can_be_printed(exe: rlx.CompiledGraph) -> None:
    exe.run({"x": X})
    assert "fuse-elementwise" in str(exe.explain())
    assert "arena" in str(exe.memory_report())
    assert "x: f32[2, 3]" in str(exe.signature)
    assert "us" in str(exe.profile({"x": X}))
    assert "clone" in exe.capabilities
    nodes = exe.dump_nodes({"x": X})
    np.testing.assert_array_equal(nodes["mul"], X)


@pytest.mark.parametrize(
    "call",
    [np.asarray, np.exp, np.sum, np.negative, lambda v: np.array([v, v]), lambda v: np.add(v, X),
     lambda v: np.add.reduce(v), lambda v: np.add(X, v, out=np.empty_like(X)), lambda v: np.concatenate([v, v]),
     lambda v: np.matmul(v, X), lambda v: np.arctan2(X, v), lambda v: np.exp(v, dtype=np.float64)],
    ids=["asarray", "exp", "sum", "negative", "array of values", "add", "reduce", "out", "concatenate", "matmul",
         "arctan2", "dtype"],
)
def test_numpy_does_not_take_graph_values(call: Any) -> None:
    value = rlx.Graph("g").input("v", (2, 3))
    with pytest.raises(GraphError, match=r"value 'v': .*\nhint: .*rlx\.ops"):
        call(value)


def test_an_array_on_the_left_of_an_operator_is_a_constant_of_the_graph() -> None:
    g = rlx.Graph("g")
    v = g.input("v", (2, 3))
    feed = (np.arange(6, dtype=np.float32).reshape(2, 3) + 1) / 4
    b, two = X, np.float32(2)
    expected = {}
    for i, operate in enumerate((
        lambda a: b + a, lambda a: b - a, lambda a: b * a, lambda a: b / a, lambda a: b // a, lambda a: b % a,
        lambda a: b.T @ a, lambda a: b < a, lambda a: b <= a, lambda a: b > a, lambda a: b >= a, lambda a: b == a,
        lambda a: b != a, lambda a: two * a, lambda a: two - a, lambda a: two / a, lambda a: two < a,
        lambda a: two**a,
    )):
        g.output(f"y{i}", operate(v))
        expected[f"y{i}"] = operate(feed)
    for name, array in rlx.compile(g).run({"v": feed}).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-6, err_msg=name)
        assert array.dtype == expected[name].dtype


def test_an_array_does_not_become_a_value_in_place() -> None:
    array = X.copy()
    with pytest.raises(GraphError, match="got a graph value for add"):
        array += rlx.Graph("g").input("v", (2, 3))
    np.testing.assert_array_equal(array, X)


def test_a_graph_value_is_no_input_of_a_run(exe: rlx.CompiledGraph) -> None:
    with pytest.raises(BindingError, match="must be an array of f32, got Value"):
        exe.run({"x": rlx.Graph("g").input("v", (2, 3))})


@pytest.mark.parametrize("build", [
    lambda x, a: ops.tanh(x) + a, lambda x, a: x * a, lambda x, a: x @ a[:, None], lambda x, a: ops.where(x > 0, a, x),
])
def test_a_constant_is_what_the_array_was(build: Any) -> None:
    array = np.arange(1, 5, dtype=np.float32)
    kept = array.copy()
    g, h = rlx.Graph("now"), rlx.Graph("kept")
    g.output("y", build(g.input("x", (4,)), array))
    h.output("y", build(h.input("x", (4,)), kept))
    array[:] = 9
    exe = rlx.compile(g)
    array[:] = 99
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    assert exe.run({"x": x})["y"].tobytes() == rlx.compile(h).run({"x": x})["y"].tobytes()


def test_a_read_only_constant_is_not_copied() -> None:
    array = np.ones(1000, np.float32)
    array.flags.writeable = False
    assert rlx.Graph("g").constant(array).array is array
