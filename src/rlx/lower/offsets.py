"""Blocks with lifetimes to offsets: the least memory in which none overlaps another that is alive.

Each block in turn goes to the smallest gap between the blocks it meets in time (best fit).
What comes out depends on the order alone. Largest first reaches the lower bound on most
programs at once; where it does not, other orders are tried, and then the best one is repaired:
a block that reaches the top comes earlier, as it was placed too late (the draws are always the
same). The work is bounded by a number of comparisons, so that planning stays linear in the
program for all but the smallest.
"""

from collections.abc import Sequence

from rlx._kernels import _nodes

# First and last call (inclusive) of a block's life, and its bytes.
Span = tuple[int, int, int]
# Comparisons of two blocks that all attempts together may take beyond the first.
WORK = 40_000
REPAIRS = 400
# A plan within one part in so many of the lower bound is good enough.
CLOSE = 200


def lower_bound(spans: Sequence[Span]) -> int:
    """Most bytes alive at one call: no plan can be smaller."""
    change: dict[int, int] = {}
    for first, last, need in spans:
        change[first] = change.get(first, 0) + need
        change[last + 1] = change.get(last + 1, 0) - need
    most = now = 0
    for at in sorted(change):
        now += change[at]
        most = max(most, now)
    return most


def place(spans: Sequence[Span], order: Sequence[int], limit: int | None = None) -> tuple[list[int], int, int]:
    """Offsets by best fit in an order, the bytes they take, and how many comparisons that cost.

    With `limit` it stops as soon as it needs that much or more.
    """
    found: tuple[list[int], int, int] = _nodes.place(spans, order, limit)
    return found


def pack(spans: Sequence[Span]) -> tuple[list[int], int]:
    """Offsets of all blocks, and the bytes they take together.

    Parameters
    ----------
    spans : sequence of (first, last, bytes)
        Sizes are multiples of the alignment.
    """
    order = sorted(range(len(spans)), key=lambda i: (-spans[i][2], spans[i][0]))
    offsets, top, cost = place(spans, order)
    bound = lower_bound(spans)
    least = bound + bound // CLOSE
    if top <= least or cost > WORK:
        return offsets, top
    left = WORK
    for other in _orders(spans, bound):
        found, size, work = place(spans, other, top)
        left -= work
        if size < top:
            order, offsets, top = other, found, size
        if top <= least or left <= 0:
            return offsets, top
    return _repaired(spans, order, offsets, top, least, left)


def _orders(spans: Sequence[Span], least: int) -> list[list[int]]:
    """Other orders: of equal ones the last to die first; the latest; those of the fullest call; bytes times life."""
    n = range(len(spans))
    full = _fullest(spans, least)
    return [
        sorted(n, key=lambda i: (-spans[i][2], -spans[i][1])),
        sorted(n, key=lambda i: (-spans[i][0], -spans[i][2])),
        sorted(n, key=lambda i: (not spans[i][0] <= full <= spans[i][1], -spans[i][2], spans[i][0])),
        sorted(n, key=lambda i: (-spans[i][2] * (spans[i][1] - spans[i][0] + 1), spans[i][0])),
    ]


def _fullest(spans: Sequence[Span], least: int) -> int:
    """A call at which `least` bytes are alive."""
    events = sorted([(first, need) for first, _, need in spans] + [(last + 1, -need) for _, last, need in spans])
    now = 0
    for at, need in events:
        now += need
        if now >= least:
            return at
    return 0


def _repaired(
    spans: Sequence[Span], order: list[int], offsets: list[int], top: int, least: int, left: int
) -> tuple[list[int], int]:
    """Better offsets by moving a block that reaches the top forward, and a swap now and then; sideways steps count."""
    import random  # few programs come here

    draw = random.Random(0)
    n = len(spans)
    current, size = offsets, top
    for _ in range(REPAIRS):
        trial = list(order)
        index = draw.choice([i for i in order if current[i] + spans[i][2] == size])
        at = trial.index(index)
        del trial[at]
        trial.insert(draw.randrange(at + 1), index)
        if draw.random() < 0.5:
            i, k = draw.randrange(n), draw.randrange(n)
            trial[i], trial[k] = trial[k], trial[i]
        found, reached, work = place(spans, trial)
        left -= work
        if reached <= size:
            order, current, size = trial, found, reached
        if reached < top:
            offsets, top = found, reached
        if top <= least or left <= 0:
            break
    return offsets, top
