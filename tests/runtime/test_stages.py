"""Stages one by one, lowered modules, and the memory plan: the same bits from every entry point."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.lower import memory
from rlx.lower.memory import lifetimes
from rlx.testing.passes import graphs

SEEDS = range(24)


def same(got, want):
    assert list(got.keys()) == list(want.keys())
    for name in want.keys():
        a, b = got[name], want[name]
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def net(*, batch="n"):
    g = rlx.Graph("net")
    x = g.input("x", (batch, 4), rlx.f32)
    w = g.param("w", (4, 4), rlx.f32)
    h = ops.tanh(x @ w + 1.0)
    g.output("h", h)
    g.output("part", ops.reshape(h * 2.0, shape=(-1,))[1:3])
    return g


@pytest.mark.parametrize("seed", SEEDS)
def test_R40_every_entry_point_gives_the_same_bits(seed):
    graph, feeds, _ = graphs(seed)
    options = rlx.CompileOptions(threads=1, check=True, poison=True)
    want = rlx.compile(graph, options).run(feeds)
    lirs = []

    def of(module):
        lirs.append(module.lower())
        return rlx.compile_lir(lirs[-1])

    built = rlx.GraphModule(graph, options)
    for exe in (
        rlx.Session("cpu").compile(graph, options),
        rlx.backend.backend("cpu").compile(graph, options),
        of(built),
        of(built.bind().legalise().optimise()),
        rlx.compile_lir(lirs[0]),  # a second one of the same module
        rlx.Session().compile_lir(lirs[0], rlx.CompileOptions(threads=2)),
        of(rlx.GraphModule.parse(str(built), built.constants, options)),
        of(rlx.GraphModule.parse(str(built.optimise()), built.optimise().constants, options)),
    ):
        same(exe.run(feeds), want)
        same(exe.run(feeds), want)
    assert len({lir.fingerprint for lir in lirs}) == 1, "text, steps and shortcuts make one program"
    assert all(lir == lirs[0] and hash(lir) == hash(lirs[0]) for lir in lirs)


def test_stages_know_where_they_are():
    module = rlx.GraphModule(net())
    assert module.stage == "built"
    bound = module.bind(n=3)
    assert (bound.stage, bound.graph.symbols(), module.graph.symbols()) == ("bound", set(), {"n"})
    done = bound.legalise().optimise()
    assert done.stage == "optimised"
    assert [r.name for r in done.records] == list(rlx.passes.PASSES)
    assert str(done).startswith("module optimised\ngraph net {")
    assert str(done.manifest) == "(x: f32[3, 4]) -> (h: f32[3, 4], part: f32[2])"
    assert repr(done).startswith("GraphModule('net', optimised, ")
    assert module == rlx.GraphModule(net()) and module != bound and bound != module.bind(n=4)
    assert bound != rlx.GraphModule(net(), rlx.CompileOptions(optimize=False)).bind(n=3)
    assert len({module, rlx.GraphModule(net()), bound}) == 2
    with pytest.raises(rlx.ConfigError, match="before 'bound'"):
        bound.bind(n=2)
    with pytest.raises(rlx.ConfigError, match=r"got \['m'\]"):
        module.bind(m=2)
    with pytest.raises(rlx.BindingError, match=r"sizes \['n'\] must be bound"):
        module.lower()
    with pytest.raises(rlx.ConfigError, match="must be given a Graph"):
        rlx.GraphModule("graph")
    with pytest.raises(rlx.FormatError):
        rlx.GraphModule.parse("module later\ngraph g {")


def test_a_graph_of_data_dependent_sizes_is_not_one_program():
    g = rlx.Graph("g")
    g.output("y", ops.nonzero(g.input("x", (4,), rlx.f32)))
    with pytest.raises(rlx.BindingError, match=r"program per stage, got \['nonzero'\]"):
        rlx.GraphModule(g).lower()


def test_a_lowered_module_shows_its_plan():
    lir = rlx.GraphModule(net(), rlx.CompileOptions(isa="avx2", threads=1)).bind(n=2).lower()
    assert lir.isa == "avx2" and lir.alignment == 64
    assert lir.views["slice"] == rlx.stages.View("mul", 4)
    assert {b.kind for b in lir.buffers} == {"input", "output", "scratch", "weight"}
    assert all(b.offset % lir.alignment == 0 for b in lir.buffers)
    assert lir.live_bound <= lir.arena_bytes
    lir.check()
    text = str(lir)
    assert lir.fingerprint[:16] in text and "slice = mul + 4" in text and "matmul.f32" in text
    assert "2 calls" not in repr(lir) and "arena" in repr(lir)
    other = rlx.GraphModule(net(), rlx.CompileOptions(isa="baseline", threads=1)).bind(n=2).lower()
    assert other != lir


def test_options_that_decide_about_the_program_cannot_change_afterwards():
    lir = rlx.GraphModule(net(), rlx.CompileOptions(dims={"n": 2}, disable=("winograd",))).lower()
    x, w = np.ones((2, 4), np.float32), np.eye(4, dtype=np.float32)
    exe = rlx.compile_lir(lir, rlx.CompileOptions(poison=True, busy="wait", rng=rlx.RngOptions(seed=3)))
    assert exe.options.disable == ("winograd",) and exe.rng.seed == 3
    assert exe.signature.inputs["x"].shape[0] == "n" or str(exe.signature.inputs["x"]) == "f32[n, 4]"
    exe.set_params({"w": w})
    want = rlx.compile(net(), rlx.CompileOptions(dims={"n": 2}))
    want.set_params({"w": w})
    same(exe.run({"x": x}), want.run({"x": x}))
    same(exe.clone().run({"x": x}), want.run({"x": x}))
    for options, name in ((rlx.CompileOptions(dims={"n": 3}), "dims"), (rlx.CompileOptions(optimize=False), "optimize"),
                          (rlx.CompileOptions(isa="baseline"), "isa"),
                          (rlx.CompileOptions(disable=("simplify",)), "disable")):
        with pytest.raises(rlx.ConfigError, match=f"option '{name}' must be as the module was lowered with"):
            rlx.compile_lir(lir, options)
    with pytest.raises(rlx.ConfigError, match="must be given a LirModule"):
        rlx.compile_lir(net())


def test_buckets_run_from_a_lowered_module():
    options = rlx.CompileOptions(extents={"n": 8}, threads=1)
    w = np.eye(4, dtype=np.float32)
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    g = rlx.Graph("rows")
    g.output("h", ops.tanh(g.input("x", ("n", 4), rlx.f32) @ g.param("w", (4, 4), rlx.f32)))
    a, b = rlx.compile(g, options), rlx.compile_lir(rlx.GraphModule(g, options).lower())
    for exe in (a, b):
        exe.set_params({"w": w})
        assert exe.set_active_extent("n", 3)
    same(b.run({"x": x}), a.run({"x": x}))


def test_fingerprints_are_the_same_in_another_process():
    code = """if True:
        import rlx, numpy as np
        from rlx.testing.passes import graphs
        for seed in (0, 1, 3, 4, 7):
            graph = graphs(seed)[0]
            module = rlx.GraphModule(graph, rlx.CompileOptions(threads=1))
            print(module.fingerprint, module.lower().fingerprint)
    """
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONHASHSEED": str(i)}).stdout for i in range(2)}
    assert len(runs) == 1 and next(iter(runs)).count("\n") == 5


# -- memory plan: semantics 4.4 and appendix C.3 ------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_C3_the_plan_changes_no_bit_and_keeps_its_invariants(seed, monkeypatch):
    graph, feeds, _ = graphs(seed)
    options = rlx.CompileOptions(threads=1, poison=True)
    lir = rlx.GraphModule(graph, options).lower()
    lir.check()
    shared = rlx.compile_lir(lir).run(feeds)
    monkeypatch.setattr(rlx.compiler.memory, "plan", partial(memory.plan, reuse=False))
    apart = rlx.GraphModule(graph, options).lower()
    same(rlx.compile_lir(apart).run(feeds), shared)
    # bounds
    scratch = [b for b in lir.program.buffers if b.kind == "scratch"]
    assert lir.live_bound <= lir.arena_bytes <= sum(-(-max(b.nbytes, 1) // 64) * 64 for b in scratch)
    assert apart.arena_bytes >= lir.arena_bytes
    # roots whose lives meet lie apart, but for a result that takes over an operand that dies there
    spans = lifetimes(lir.program)
    for i, (a, (first, last)) in enumerate(spans.items()):
        assert a.offset % 64 == 0 and a.offset + a.nbytes <= lir.arena_bytes
        for b, (first2, last2) in list(spans.items())[i + 1 :]:
            if a.nbytes and b.nbytes and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes:
                assert first2 >= last or first >= last2, (a, b)
    # views lie inside their roots
    sizes = {b.label: b.nbytes for b in lir.program.buffers}
    values = {v.name: v for n in lir.graph.nodes for v in n.outputs}
    for name, view in lir.views.items():
        size = values[name].dtype.itemsize * int(np.prod([int(d) for d in values[name].shape], dtype=np.int64))
        assert view.offset >= 0 and (view.offset + size <= sizes[view.root] or size == 0 or "concat" in view.root)


def test_C3_a_chain_of_equal_ops_needs_two_buffers_at_most():
    g = rlx.Graph("chain")
    x = g.input("x", (16, 16), rlx.f32)
    for _ in range(20):
        x = x @ np.eye(16, dtype=np.float32)
    g.output("y", x)
    lir = rlx.GraphModule(g, rlx.CompileOptions(threads=1)).lower()
    assert len(lir.program.calls) == 20
    assert sum(b.nbytes for b in lir.program.buffers if b.kind == "scratch" and b.label != "work") == 19 * 1024
    assert lir.arena_bytes <= 2 * 1024


def test_C3_a_part_of_the_first_axis_is_a_view():
    g = rlx.Graph("part")
    x = ops.softmax(g.input("x", (8, 4), rlx.f32), axis=1)
    g.output("y", ops.softmax(x[2:6], axis=1))
    lir = rlx.GraphModule(g, rlx.CompileOptions(threads=1)).lower()
    assert lir.views["slice"] == rlx.stages.View("softmax", 32)
    assert len(lir.program.calls) == 2
