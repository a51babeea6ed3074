"""Executables saved and loaded: the same bits, and everything else that an executable does."""

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.lower.program import BodyRef, Program
from rlx.testing.files import feed, loop, loop_feed, mlp


def saved(exe: rlx.CompiledGraph, tmp_path: pathlib.Path, portable: bool = False) -> rlx.CompiledGraph:
    path = tmp_path / "exe.rlx"
    exe.save(path, portable=portable)
    return rlx.load(path)


def same(a: rlx.CompiledGraph, b: rlx.CompiledGraph, inputs: dict[str, np.ndarray]) -> None:
    want, got = a.run(inputs), b.run(inputs)
    assert list(got.keys()) == list(want.keys())
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        assert got[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits(tmp_path: pathlib.Path, optimize: bool, threads: int) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}, optimize=optimize, threads=threads))
    other = saved(exe, tmp_path)
    for k in range(3):  # run k and run k + 1
        same(exe, other, feed(seed=k))
    same(exe, other.clone(), feed())
    assert other.run(feed(), threads=2)["y"].tobytes() == exe.run(feed())["y"].tobytes()


def told(program: Program) -> list[Any]:
    """All that a program says, whatever the order of attributes."""
    return [
        (c.kernel, [None if a is None else (a.role, repr(a.operand), a.nbytes) for a in c.args],
         {k: told(v.program) if isinstance(v, BodyRef) else v for k, v in c.attrs.items()},
         c.extent, c.grain, c.cost, c.node, c.inplace, c.phases)
        for c in program.calls
    ]


@pytest.mark.parametrize("flag", [True, False])
def test_control_flow(tmp_path: pathlib.Path, flag: bool) -> None:
    exe = loop()
    other = saved(exe, tmp_path)
    for k in range(2):
        same(exe, other, loop_feed(k, flag))
    assert told(other._complete()._full.compiled.program) == told(exe._full.compiled.program)


def test_every_shape_that_was_compiled_and_no_other(tmp_path: pathlib.Path) -> None:
    exe = mlp()
    for n in (1, 5):
        exe.run(feed(n))
    other = saved(exe, tmp_path)
    for n in (5, 1):
        same(exe, other, feed(n))
    with pytest.raises(rlx.BindingError, match=r"program for these sizes or the graph.*\[\[1, 16\]\], \[\[5, 16\]\]"):
        other.run(feed(2))
    same(exe, other, feed(5))


def test_a_file_with_its_graph_compiles_new_sizes(tmp_path: pathlib.Path) -> None:
    exe = mlp()
    exe.run(feed(2))
    other = saved(exe, tmp_path, portable=True)
    for n in (2, 7, 1):
        same(exe, other, feed(n))
    assert other.graph.structural_hash() == exe.graph.structural_hash()
    assert other.dump_nodes(feed())["hidden"].tobytes() == exe.run(feed())["h"].tobytes()


def test_sizes_that_a_run_tells_need_the_graph(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("found")
    x = g.input("x", (12,), rlx.f32)
    g.output("where", ops.nonzero(x))
    exe = rlx.compile(g)
    with pytest.raises(rlx.BindingError, match="sizes that only a run can tell"):
        exe.save(tmp_path / "a.rlx")
    other = saved(exe, tmp_path, portable=True)
    same(exe, other, {"x": np.float32([0, 1, 0, 2] * 3)})


def test_nothing_compiled_is_refused_unless_the_graph_goes_along(tmp_path: pathlib.Path) -> None:
    with pytest.raises(rlx.BindingError, match="has not been compiled for any sizes"):
        mlp().save(tmp_path / "a.rlx")
    same(mlp(), saved(mlp(), tmp_path, portable=True), feed())


def test_parameters(tmp_path: pathlib.Path) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}))
    other = saved(exe, tmp_path)
    assert other.get_param("w").tobytes() == exe.get_param("w").tobytes()
    new = np.random.default_rng(9).standard_normal((16, 24)).astype(np.float32)
    for e in (exe, other):
        e.set_param("w", new)
    same(exe, other, feed())
    other.set_param("w", new * 2)
    assert other.run(feed())["y"].tobytes() != exe.run(feed())["y"].tobytes()
    with pytest.raises(rlx.UnknownNameError, match="did you mean"):
        other.set_param("ww", new)


def test_parameters_that_were_never_set_must_be_set(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("g")
    g.output("y", g.input("x", (2, 3), rlx.f32) @ g.param("w", (3, 4), rlx.f32))
    other = saved(rlx.compile(g), tmp_path)
    x = np.ones((2, 3), np.float32)
    with pytest.raises(rlx.BindingError, match="every parameter must be set"):
        other.run({"x": x})
    other.set_param("w", np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(other.run({"x": x})["y"], np.full((2, 4), 3))


def test_random_numbers_go_on_where_they_were(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("noise")
    g.output("y", g.input("x", (64,), rlx.f32) + ops.random_normal(graph=g, shape=(64,), dtype=rlx.f32))
    exe = rlx.compile(g, rlx.CompileOptions(rng=rlx.RngOptions(seed=11)))
    x = {"x": np.zeros(64, np.float32)}
    exe.run(x)
    other = saved(exe, tmp_path)
    same(exe, other, x)
    assert other.rng == exe.rng == rlx.RngOptions(seed=11)
    same(exe, other, x)
    for e in (exe, other):
        e.set_rng(rlx.RngOptions(seed=4))
    same(exe, other, x)


def test_every_run_variant_and_handles(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("counter")
    s, x = g.input("state", (2,), rlx.f32), g.input("x", (2,), rlx.f32)
    g.output("next", s + x)
    other = saved(rlx.compile(g), tmp_path)
    one = np.ones(2, np.float32)
    assert other.run_slots([one, one])[0].tolist() == [2, 2]
    assert other.run_raw({"state": one, "x": one})[0].tolist() == [2, 2]
    assert other.run_typed({"state": (one.tobytes(), rlx.f32), "x": one})[0][0] == (2 * one).tobytes()
    other.bind_handle("state", one * 0)
    other.link("next", "state")
    for k in range(1, 4):
        other.run({"x": one})
        assert other.read_handle("state").tolist() == [k, k]


def test_reports_say_what_they_said_before(tmp_path: pathlib.Path) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}))
    exe.run(feed())
    other = saved(exe, tmp_path)
    assert str(other.signature.outputs) == str(exe.signature.outputs)
    assert str(other.explain()) == str(exe.explain())
    assert other.memory_report() == exe.memory_report()
    calls = [[(r.kernel, r.node) for r in e.profile(feed()).rows] for e in (exe, other)]
    assert calls[0] == calls[1]
    assert other.options == exe.options
    with pytest.raises(rlx.BindingError, match="intermediate values need the graph"):
        other.dump_nodes(feed())


def test_a_failing_run_names_its_node(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("look-up")
    table, i = g.constant(np.arange(6, dtype=np.float32)), g.input("i", (2,), rlx.i64)
    g.output("y", ops.gather(table, i, axis=0, name="pick"))
    other = saved(rlx.compile(g), tmp_path)
    with pytest.raises(rlx.errors.IndexExecutionError, match="node 'pick'"):
        other.run({"i": np.int64([1, 6])})
    assert other.run({"i": np.int64([1, 5])})["y"].tolist() == [1, 5]
    with pytest.raises(rlx.BindingError, match="'i' is missing"):
        other.run({})
    with pytest.raises(rlx.errors.BindingTypeError, match="dtype must be i64"):
        other.run({"i": np.zeros(2)})


def test_a_loaded_executable_is_one_and_can_be_saved_again(tmp_path: pathlib.Path) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}))
    other = saved(exe, tmp_path)
    assert isinstance(other, rlx.CompiledGraph)
    again = tmp_path / "again.rlx"
    other.save(again)
    same(exe, rlx.load(again), feed())
    with pytest.raises(rlx.BindingError, match="comes from a file without its graph"):
        other.save(again, portable=True)


def test_saving_over_the_file_that_is_mapped_leaves_the_reader_alone(tmp_path: pathlib.Path) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}))
    other = saved(exe, tmp_path)
    before = other.run(feed())["y"].tobytes()
    exe.set_param("b", np.zeros(24, np.float32))
    exe.save(tmp_path / "exe.rlx")
    assert other.run(feed())["y"].tobytes() == before
    assert rlx.load(tmp_path / "exe.rlx").run(feed())["y"].tobytes() == exe.run(feed())["y"].tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["exe.rlx"]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}))
    with pytest.raises(rlx.FormatError, match="must be writable"):
        exe.save(tmp_path / "missing" / "exe.rlx")
    (tmp_path / "folder.rlx").mkdir()
    with pytest.raises(rlx.FormatError, match="must be writable"):
        exe.save(tmp_path / "folder.rlx")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.rlx"]


@pytest.mark.parametrize("element", [rlx.f64, rlx.f16, rlx.bf16, rlx.i8, rlx.i64, rlx.u16, rlx.bool_, rlx.c64])
def test_every_element_type(tmp_path: pathlib.Path, element: rlx.DType) -> None:
    g = rlx.Graph("types")
    x, p = g.input("x", (6,), element), g.param("p", (6,), element)
    c = g.constant((np.arange(6) % 3).astype(element.numpy))
    g.output("y", ops.concat(x, p, c, axis=0))
    exe = rlx.compile(g)
    exe.set_param("p", (np.arange(6) % 2).astype(element.numpy))
    same(exe, saved(exe, tmp_path), {"x": (np.arange(6) % 5).astype(element.numpy)})


LIGHT = """
import sys
import numpy as np
import rlx
exe = rlx.load(sys.argv[1])
exe.run({"x": np.zeros((3, 16), np.float32)})
heavy = ("onnx", "rlx.passes", "rlx.ops", "rlx.compiler", "rlx.lower", "rlx.ir", "rlx.options", "scipy")
print(sorted(m for m in sys.modules if m.startswith(heavy)))
"""


def test_running_imports_nothing_that_compiles(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "exe.rlx"
    mlp(rlx.CompileOptions(dims={"batch": 3})).save(path)
    done = subprocess.run([sys.executable, "-c", LIGHT, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_format_knows_every_field_of_a_program() -> None:
    """Whoever adds one has to write it to the file, or to say here why it is not in it."""
    import dataclasses

    from rlx.lower import program

    known = {
        "Program": {"calls", "buffers", "inputs", "outputs", "weights", "nodes", "arena_bytes", "live_bound",
                    "max_threads", "zero_denormals"} | {"names"},  # which values lie where, for tests of lowering
        "Call": {"kernel", "args", "attrs", "extent", "grain", "cost", "node", "inplace", "phases"},
        "Arg": {"role", "operand", "nbytes"},
        "Operand": {"buffer", "offset"},
        "Weight": {"array", "param", "transform", "nbytes"},
        "Transform": {"kernel", "attrs", "nbytes", "extent", "key", "args", "first"},
        "Port": {"name", "dtype", "shape"},
        "NodeInfo": {"name", "op", "loc"},
    }
    for name, fields in known.items():
        assert {f.name for f in dataclasses.fields(getattr(program, name))} == fields, name
    assert set(program.Buffer.__slots__) == {"index", "kind", "label", "nbytes", "offset", "slot", "source"}


def test_custom_ops_are_not_programs_of_a_file_but_may_be_in_its_graph(tmp_path: pathlib.Path) -> None:
    op = rlx.register_op("t.thrice", inputs=("x",), reference=lambda x: 3 * x)
    try:
        g = rlx.Graph("g")
        g.output("y", ops.tanh(op(g.input("x", (4,), rlx.f32))))
        exe = rlx.compile(g)
        with pytest.raises(rlx.BindingError, match="has custom ops, which are functions of a process"):
            exe.save(tmp_path / "a.rlx")
        other = saved(exe, tmp_path, portable=True)
        same(exe, other, {"x": np.arange(4, dtype=np.float32)})
    finally:
        rlx.unregister_op("t.thrice")
    with pytest.raises(rlx.FormatError, match=r"exe\.rlx.*: no op 't\.thrice'\nhint: .* rlx\.register_op first"):
        rlx.load(tmp_path / "exe.rlx").run({"x": np.arange(4, dtype=np.float32)})
