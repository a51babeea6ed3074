"""The text form prints and parses back to the same graph."""

import numpy as np
import pytest

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.ir.graph import Graph
from rlx.ir.text import large_constants, print_graph
from rlx.ops import TABLE
from rlx.ops.parse import parse_graph
from rlx.testing.optest import build, cases, samples_of


def round_trip(graph: Graph) -> Graph:
    again = parse_graph(print_graph(graph), large_constants(graph))
    assert print_graph(again) == print_graph(graph)
    assert again.structural_hash() == graph.structural_hash()
    return again


def test_symbolic_graph_round_trips() -> None:
    g = Graph("mlp")
    x = g.input("x", ("batch", 2 * dtypes.f32.itemsize), dtypes.f32)
    w = g.param("weight 1", (8, 8), dtypes.f32)
    y = ops.tanh(x @ w + np.arange(8, dtype=np.float32))
    z = ops.reshape(y, shape=(x.shape[0] * 2, 4))
    g.output("y", y)
    g.output("z / half", z[1:, ::2])
    round_trip(g)


@pytest.mark.parametrize("op", [o for o in TABLE.values() if o.samples is not None], ids=lambda o: o.name)
def test_every_row_round_trips(op) -> None:  # type: ignore[no-untyped-def]
    for dtype in op.dtypes[:3]:
        for sample in samples_of(op, dtype)[:3]:
            graph, _ = build(op, sample, constants=True)
            round_trip(graph)


def test_special_constants_round_trip() -> None:
    g = Graph("c")
    for i, (o, d) in enumerate(
        [
            (np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 0.1]), "f32"),
            (np.array([2**63, 1], np.uint64), "u64"),
            (np.array([1 + 2j, -0.5j]), "c64"),
            (np.array([True, False]), "bool"),
            (np.array(3.0), "bf16"),
        ]
    ):
        g.output(f"o{i}", g.constant(o, dtype=d))
    again = round_trip(g)
    for a, b in zip(g.outputs.values(), again.outputs.values(), strict=True):
        assert a.array is not None
        assert b.array is not None
        assert a.array.tobytes() == b.array.tobytes()


@pytest.mark.parametrize("text", [
    "", "graph", "graph g {", "graph g { return }x", "graph g { %a: f32[2] = nope() return a=%a }",
    "graph g { %a: f99[2] = input() return a=%a }", "graph g { return a=%a }",
    "graph g { %a: f32[2] = input() %b: f32[3] = tanh(%a) return b=%b }",
    "graph g { %a: f32[2] = constant() {value=@big} return a=%a }",
    "graph g { %a: f32[2] = constant() {value=[1.0]} return a=%a }",
    "graph g { %a: f32[(((((((((((((((((((((((((((((((((((1)))] = input() return a=%a }",
    "graph g { %a: f32[2] = input() return a=%a, a=%a }", "graph g { \x00 }",
])
def test_bad_text_is_an_error_that_tells_the_place(text: str) -> None:
    with pytest.raises(FormatError, match="graph text"):
        parse_graph(text)


def test_every_cut_of_a_text_is_an_error(rng: np.random.Generator) -> None:
    graph, _ = build(TABLE["matmul"], samples_of(TABLE["matmul"], dtypes.f32)[0])
    text = print_graph(graph)
    for n in range(len(text) - 1):
        with pytest.raises(FormatError):
            parse_graph(text[:n])


def test_cases_cover_all_types() -> None:
    assert {d.name for _, d in cases()} == {d.name for d in dtypes.ALL}
