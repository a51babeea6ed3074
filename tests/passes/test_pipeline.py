"""The pipeline as an object: printed, extended, reordered, thinned out; orders that cannot work are refused."""

import random

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.ir.graph import Graph, Rewriter
from rlx.ops import TABLE
from rlx.passes import PASSES, Pass, PassManager, Pipeline, default_pipeline
from rlx.testing.optest import build, samples_of
from rlx.testing.passes import graphs, order


def drop_double_negation(graph: Graph) -> Graph:
    """neg(neg(x)) is x."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        first = node.inputs[0] if node.op.name == "exp" else None
        if first is not None and first.node.op.name == "log":
            rewriter.replace(node.outputs[0], rewriter.get(first.node.inputs[0]))
        else:
            rewriter.copy(node)
    return rewriter.finish()


def net() -> Graph:
    g = rlx.Graph("net")
    x = g.input("x", (4,), rlx.f32)
    g.output("y", ops.exp(ops.log(x)))
    return g


MINE = Pass("mine", drop_double_negation)


def test_the_pipeline_prints_one_line_per_pass():
    lines = str(default_pipeline()).splitlines()
    assert [line.split()[1] for line in lines] == list(PASSES)
    assert sum("required" in line for line in lines) == 2
    assert len(default_pipeline(optimize=False)) == 2


def test_a_pass_of_ones_own_runs_at_its_place_and_is_reported():
    pipeline = default_pipeline().insert(MINE, after="simplify")
    assert pipeline.names.index("mine") == pipeline.names.index("simplify") + 1
    assert default_pipeline().insert(MINE, before="simplify").names.index("mine") == 1
    assert default_pipeline().append(MINE).names[-1] == "mine"
    exe = rlx.compile(net(), rlx.CompileOptions(pipeline=pipeline, check=True))
    x = np.float32([-1, 0, 2, np.nan])
    np.testing.assert_array_equal(exe.run({"x": x})["y"], x)
    assert exe.explain().changes["mine"] == "-1 exp"
    record = next(r for r in exe._variant.compiled.records if r.name == "mine")
    assert str(record).startswith("mine: 3 -> 2 nodes (-1 exp), ")
    assert "no change" in str(exe._variant.compiled.records[0])
    off = rlx.compile(net(), rlx.CompileOptions(pipeline=pipeline, disable=("mine",)))
    assert np.isnan(off.run({"x": x})["y"][0])


def test_pipelines_are_values():
    assert default_pipeline() == default_pipeline()
    assert default_pipeline().without("simplify") != default_pipeline()
    moved = default_pipeline().move("simplify", after="merge-common")
    assert moved != default_pipeline()
    assert moved.move("simplify", after="eliminate-dead") == default_pipeline()
    assert hash(moved) != hash(default_pipeline())
    assert "simplify" not in default_pipeline().without("simplify")
    other = Pass("simplify", drop_double_negation)
    assert default_pipeline().replace(other)["simplify"] is other
    assert len({default_pipeline(), moved, default_pipeline()}) == 2


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda p: p.without("decompose"), "must hold the pass 'decompose'"),
        (lambda p: p.move("widen-halves", before="decompose"), "must come after 'decompose'"),
        (lambda p: p.move("fuse-elementwise", before="simplify"), "must come after"),
        (lambda p: p.insert(Pass("simplify", drop_double_negation), after="decompose"), "'simplify' twice"),
        (lambda p: p.insert(MINE, after="nope"), "got 'nope'"),
        (lambda p: p.insert(MINE), "one of before= and after="),
        (lambda p: p.without("nope"), "got 'nope'"),
        (lambda p: p.append(Pass("late", drop_double_negation, after=("later",))).append(
            Pass("later", drop_double_negation)), "'late' must come after 'later'"),
        (lambda p: Pipeline([*p, "simplify"]), "must be made of Pass objects"),
        (lambda p: Pipeline([*p, Pass("", drop_double_negation)]), "a name and a function"),
    ],
)
def test_orders_that_cannot_work_are_refused(build, match):
    with pytest.raises(rlx.ConfigError, match=match):
        build(default_pipeline())


def test_options_check_the_pipeline():
    with pytest.raises(rlx.ConfigError, match="must be a Pipeline"):
        rlx.CompileOptions(pipeline=["simplify"])
    with pytest.raises(rlx.ConfigError, match=r"got \['mine'\]"):
        rlx.CompileOptions(disable=("mine",))
    with pytest.raises(rlx.ConfigError, match="required passes must stay"):
        rlx.CompileOptions(disable=("decompose",))


def test_a_pass_that_misbehaves_is_named():
    def broken(graph: Graph) -> Graph:
        raise KeyError("oops")

    def nothing(graph: Graph) -> Graph:
        return None  # type: ignore[return-value]

    def in_place(graph: Graph) -> Graph:
        graph.nodes.pop()
        return graph

    def malformed(graph: Graph) -> Graph:
        after = Rewriter(graph)
        for node in graph.nodes:
            after.copy(node)
        result = after.finish()
        result.nodes.reverse()
        return result

    for function, match in ((broken, "oops"), (nothing, "must return a Graph, got NoneType"), (in_place, ""),
                            (malformed, "must be made before")):
        pipeline = default_pipeline().insert(Pass("mine", function), after="simplify")
        with pytest.raises(rlx.PassError, match=rf"pass 'mine' on graph 'net' failed: .*{match}.*'simplify'\]"):
            rlx.compile(net(), rlx.CompileOptions(pipeline=pipeline, check=True))


def test_without_an_evaluator_passes_that_compute_are_left_out():
    g = rlx.Graph("g")
    g.output("y", g.input("x", (), rlx.f32) + ops.exp(g.constant(np.float32(1))))
    manager = PassManager(default_pipeline())
    assert any(n.op.name == "region" for n in manager.run(g).nodes)
    assert not any(r.name.startswith("fold-constants") for r in manager.records)


@pytest.mark.parametrize("seed", range(40))
def test_every_order_that_is_accepted_gives_the_same_results(seed):
    graph, feeds, assert_near = graphs(seed)
    pipeline = order(default_pipeline(), random.Random(seed))
    want = rlx.compile(graph, rlx.CompileOptions(threads=1, optimize=False)).run(feeds)
    got = rlx.compile(graph, rlx.CompileOptions(threads=1, pipeline=pipeline, check=True, poison=True)).run(feeds)
    assert_near(got, want)


@pytest.mark.parametrize("name", [p.name for p in default_pipeline() if p.ops])
def test_a_pass_finds_nothing_in_a_graph_without_the_ops_that_it_names(name: str) -> None:
    """So that it need not be called, nor its module be imported."""
    p = default_pipeline()[name]
    seen = 0
    for op in TABLE.values():
        if op.samples is None or op.has("custom"):
            continue
        kind = next((d for d in op.dtypes if d.name == "f32"), op.dtypes[0])
        for sample in samples_of(op, kind)[:2]:
            graph, _ = build(op, sample)
            if p.ops.isdisjoint(n.op.name for n in graph.nodes):
                more = {"evaluate": None} if p.evaluates else {}
                assert p.function(graph, **more) is graph, op.name
                seen += 1
    assert seen > 100


def test_names_of_passes_are_those_of_ops() -> None:
    assert not {name for p in default_pipeline() for name in p.ops} - set(TABLE)


def test_a_pass_without_its_ops_is_not_called() -> None:
    def run(graph: rlx.Graph) -> rlx.Graph:
        raise AssertionError

    g = rlx.Graph("g")
    g.output("y", ops.exp(g.input("x", (3,), rlx.f32)))
    manager = PassManager([Pass("never", run, ops=frozenset({"matmul"}))])
    assert manager.run(g) is g and str(manager.records[0]) == "never: no change, 0.00 ms"
