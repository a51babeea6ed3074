"""Places the nodes of a graph in layers, so that edges go down and cross little.

The usual four steps: longest path gives the layer, edges over several layers get
a chain of bends, sweeps by the mean place of neighbours order each layer, and a
few rounds of the same give coordinates that keep a distance.
"""

import itertools
from collections.abc import Sequence

from rlx.records import record

GAP_X, GAP_Y = 18.0, 34.0
BEND = 8.0
SWEEPS = 6


@record
class Box:
    """A node's box, or a bend of an edge (height 0)."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0


@record
class Drawing:
    """Boxes by node, edges as chains of places, and the size of the whole."""

    boxes: list[Box]
    edges: list[list[Box]]
    width: float
    height: float


def layers_of(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from a source; nodes are in topological order."""
    layer = [0] * n
    for a, b in sorted(edges, key=lambda e: e[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    # A source moves down to just above its first reader.
    readers: dict[int, list[int]] = {}
    sinks = {b for _, b in edges}
    for a, b in edges:
        readers.setdefault(a, []).append(b)
    for node, below in readers.items():
        if node not in sinks:
            layer[node] = max(0, min(layer[b] for b in below) - 1)
    return layer


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Lay out nodes of the given sizes; edges are pairs (from, to) of indices in topological order."""
    boxes = [Box(w, h, layer) for (w, h), layer in zip(sizes, layers_of(len(sizes), edges), strict=True)]
    rows: list[list[Box]] = [[] for _ in range(max((b.layer for b in boxes), default=0) + 1)]
    for box in boxes:
        rows[box.layer].append(box)
    up: dict[int, list[Box]] = {}
    down: dict[int, list[Box]] = {}
    chains = []
    for a, b in edges:
        chain = [boxes[a]]
        for layer in range(boxes[a].layer + 1, boxes[b].layer):
            bend = Box(BEND, 0.0, layer)
            rows[layer].append(bend)
            chain.append(bend)
        chain.append(boxes[b])
        for above, below in itertools.pairwise(chain):
            down.setdefault(id(above), []).append(below)
            up.setdefault(id(below), []).append(above)
        chains.append(chain)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        near, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row in order:
            row.sort(key=lambda box: _wish(box, near))
            _spread(row, [_wish(box, near) for box in row])
    for sweep in range(2 * SWEEPS):
        near, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row in order:
            _spread(row, [_wish(box, near) for box in row])
    left = min((b.x - b.width / 2 for row in rows for b in row), default=0.0)
    y = GAP_X
    for row in rows:
        tall = max((b.height for b in row), default=0.0)
        for box in row:
            box.x += GAP_X - left
            box.y = y + tall / 2
        y += tall + GAP_Y
    right = max((b.x + b.width / 2 for row in rows for b in row), default=0.0)
    return Drawing(boxes, chains, right + GAP_X, y)


def _wish(box: Box, near: dict[int, list[Box]]) -> float:
    found = near.get(id(box))
    return sum(b.x for b in found) / len(found) if found else box.x


def _spread(row: Sequence[Box], wishes: Sequence[float]) -> None:
    """Put boxes as near to their wishes as their order and widths allow (isotonic regression by pools)."""
    pools: list[tuple[float, int]] = []  # mean of (wish - offset), members
    offsets = []
    at = 0.0
    for box, wish in zip(row, wishes, strict=True):
        offset = at + box.width / 2
        at += box.width + GAP_X
        offsets.append(offset)
        mean, n = wish - offset, 1
        while pools and pools[-1][0] > mean:
            other, m = pools.pop()
            mean, n = (mean * n + other * m) / (n + m), n + m
        pools.append((mean, n))
    i = 0
    for mean, n in pools:
        for _ in range(n):
            row[i].x = mean + offsets[i]
            i += 1
