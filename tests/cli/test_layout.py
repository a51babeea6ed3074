"""The picture of a graph: boxes do not overlap, edges go down."""

import itertools
import random

import pytest

from rlx.cli.layout import GAP_X, layers_of, place


def some_graph(n: int, seed: int) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    """Sizes and edges of a random graph in topological order."""
    rng = random.Random(seed)
    edges = sorted({(rng.randrange(max(0, b - 6), b), b) for b in range(1, n) for _ in range(rng.randrange(1, 3))})
    return [(rng.uniform(40, 160), 34.0) for _ in range(n)], edges


@pytest.mark.parametrize("seed", range(5))
def test_boxes_of_a_layer_keep_their_distance(seed: int) -> None:
    sizes, edges = some_graph(80, seed)
    drawing = place(sizes, edges)
    rows: dict[int, list[tuple[float, float]]] = {}
    for box in drawing.boxes:
        rows.setdefault(box.layer, []).append((box.x - box.width / 2, box.x + box.width / 2))
    for spans in rows.values():
        assert all(b[0] - a[1] >= GAP_X - 1e-6 for a, b in itertools.pairwise(sorted(spans)))
    assert all(b.x - b.width / 2 >= 0 and b.x + b.width / 2 <= drawing.width for b in drawing.boxes)


@pytest.mark.parametrize("seed", range(5))
def test_edges_go_down_one_layer_at_a_time(seed: int) -> None:
    sizes, edges = some_graph(80, seed)
    for chain in place(sizes, edges).edges:
        assert [b.layer for b in chain] == list(range(chain[0].layer, chain[-1].layer + 1))
        assert all(a.y < b.y for a, b in itertools.pairwise(chain))


def test_empty_and_single_graphs() -> None:
    assert place([], []).boxes == []
    assert len(place([(40.0, 34.0)], []).boxes) == 1


def test_a_source_lies_just_above_its_first_reader() -> None:
    assert layers_of(5, [(0, 1), (1, 2), (2, 4), (3, 4)]) == [0, 1, 2, 2, 3]
