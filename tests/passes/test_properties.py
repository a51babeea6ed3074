"""What every pass must keep, over networks and random graphs: meaning, outputs, names, types; twice is once."""

import numpy as np
import pytest

import rlx
from rlx.compiler import compile_static
from rlx.ir.graph import Graph
from rlx.ir.verify import verify
from rlx.passes import PASSES, PassManager, default_pipeline
from rlx.passes.specialise import specialise
from rlx.reference import evaluate
from rlx.runtime.variant import run_once
from rlx.testing.passes import NETS, graphs

SEEDS = range(18)
SPECIAL = {  # have files of their own
    "half-weights", "keep-channels-first", "move-denormals", "reduce-stacks", "tabulate", "weight-only",
    "winograd",
}  # fmt: skip
OPTIONAL = [p.name for p in default_pipeline() if not p.required]


def fold(part: Graph):
    return run_once(compile_static(part, rlx.CompileOptions(threads=1, optimize=False)), {})


def before_and_after(graph: Graph, name: str) -> tuple[Graph, Graph]:
    """The graph as the pass meets it, and what it makes of it."""
    passes = list(default_pipeline())
    at = [p.name for p in passes].index(name)
    manager = PassManager(passes[:at], evaluate=fold)
    before = manager.run(specialise(graph, {}))
    after = PassManager(passes[at : at + 1], evaluate=fold, check=True).run(specialise(before, {}))
    return before, after


@pytest.mark.parametrize("name", PASSES)
def test_C4_a_pass_keeps_meaning_names_and_types_and_twice_is_once(name):
    fired = 0
    for seed in SEEDS:
        graph, feeds, assert_near = graphs(seed)
        before, after = before_and_after(graph, name)
        again = before_and_after(graph, name)[1]
        assert after.structural_hash() == again.structural_hash(), "a pass must be a function of its graph"
        fired += after.structural_hash() != before.structural_hash()
        verify(after)
        assert list(after.outputs) == list(graph.outputs)
        assert [v.type for v in after.outputs.values()] == [v.type for v in graph.outputs.values()]
        assert [v.name for v in after.inputs] == [v.name for v in graph.inputs]
        known = {n.name for n in before.nodes}
        for node in after.nodes:  # a new node stands in the place of one that was there
            if not node.op.has("leaf"):
                assert node.loc in {n.loc for n in before.nodes} or node.name in known, node
        if seed < len(NETS) or seed % 3 == 0:
            assert_near(evaluate(after, feeds), evaluate(before, feeds))
        twice = PassManager([default_pipeline()[name]], evaluate=fold).run(specialise(after, {}))
        assert twice.structural_hash() == after.structural_hash(), f"seed {seed}: {name} is not idempotent"
    assert fired or name in SPECIAL, name


@pytest.mark.parametrize("name", OPTIONAL)
def test_C4_results_do_not_depend_on_a_single_toggle(name):
    for seed in range(12):
        graph, feeds, assert_near = graphs(seed)
        options = rlx.CompileOptions(threads=1, disable=(name,), check=True, poison=True)
        assert_near(rlx.compile(graph, options).run(feeds), rlx.compile(graph).run(feeds))


@pytest.mark.parametrize("seed", SEEDS)
def test_C4_intermediates_as_outputs_change_nothing(seed):
    graph, feeds, assert_near = graphs(seed)
    want = rlx.compile(graph, rlx.CompileOptions(threads=1)).run(feeds)
    full = specialise(graph, {})
    for node in full.nodes:
        if not node.op.has("leaf"):
            for v in node.outputs:
                full.outputs.setdefault(f"inner/{v.name}", v)
    options = rlx.CompileOptions(threads=1, check=True, poison=True)
    got = rlx.compile(full, options).run(feeds)
    assert_near(got, want)
    exact = rlx.compile(full, rlx.CompileOptions(threads=1, optimize=False)).run(feeds)
    for name in full.outputs:
        a, b = got[name], exact[name]
        if b.dtype.kind == "b" or (b.dtype.kind in "iu" and seed >= len(NETS)):
            assert a.dtype == b.dtype
        elif b.dtype.kind == "f":
            t = 4e-2 if b.dtype.itemsize == 2 else 1e-3
            np.testing.assert_allclose(a, b, rtol=t, atol=t, err_msg=name)
