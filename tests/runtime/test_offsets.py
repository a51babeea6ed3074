"""Plans of memory: nothing that is alive together overlaps, and little is wasted."""

import random
import time

import pytest

import rlx
from rlx import ops
from rlx.lower.offsets import Span, lower_bound, pack, place


def random_spans(seed: int, n: int) -> list[Span]:
    """Lifetimes as of a random DAG: chains, skips and workspaces of many sizes."""
    draw = random.Random(seed)
    spans = []
    for at in range(n):
        life = draw.choice([0, 1, 1, 2, 3, 8, draw.randrange(n)])
        spans.append((at, min(n, at + life), 64 * draw.choice([1, 1, 2, 7, 64, 100, 1000, draw.randrange(1, 5000)])))
    return spans


def check(spans: list[Span], offsets: list[int], top: int) -> None:
    """By pairs: alive together means apart in memory."""
    assert len(offsets) == len(spans)
    assert top == max((o + s[2] for o, s in zip(offsets, spans, strict=True)), default=0)
    for i, (first, last, size) in enumerate(spans):
        assert offsets[i] >= 0 and offsets[i] % 64 == 0
        for k in range(i):
            if spans[k][0] <= last and first <= spans[k][1]:
                assert offsets[i] + size <= offsets[k] or offsets[k] + spans[k][2] <= offsets[i]


@pytest.mark.parametrize("seed", range(40))
def test_random_lifetimes(seed: int) -> None:
    spans = random_spans(seed, random.Random(seed).randrange(1, 60))
    offsets, top = pack(spans)
    check(spans, offsets, top)
    plain = place(spans, sorted(range(len(spans)), key=lambda i: (-spans[i][2], spans[i][0])))
    assert lower_bound(spans) <= top <= plain[1]
    assert pack(spans) == (offsets, top)  # always the same


def test_r82_random_lifetimes_come_close_to_the_bound() -> None:
    ratios = [pack(s)[1] / lower_bound(s) for s in (random_spans(seed, 50) for seed in range(60))]
    assert sum(ratios) / len(ratios) < 1.02
    assert max(ratios) < 1.1


def test_small_cases() -> None:
    assert pack([]) == ([], 0)
    assert pack([(3, 3, 64)]) == ([0], 64)
    assert pack([(0, 1, 64), (1, 2, 128), (2, 3, 64)])[1] == 192
    # A hole that only fits when the short-lived block lies beside the long-lived one.
    spans = [(0, 1, 64), (0, 2, 64), (1, 2, 64), (2, 3, 128)]
    offsets, top = pack(spans)
    check(spans, offsets, top)
    assert top == lower_bound(spans) == 192 + 64


def test_bounds_are_exact_on_lifetimes_that_touch() -> None:
    assert lower_bound([(0, 4, 64), (5, 9, 128)]) == 128
    assert lower_bound([(0, 5, 64), (5, 9, 128)]) == 192
    assert lower_bound([]) == 0


def test_r82_time_is_near_linear() -> None:
    """Four times the blocks take well below sixteen times as long."""
    def seconds(n: int) -> float:
        draw = random.Random(n)
        spans = [(i, i + draw.randrange(1, 12), 64 * draw.randrange(1, 500)) for i in range(n)]
        start = time.process_time()
        offsets, top = pack(spans)
        assert top >= lower_bound(spans) and len(offsets) == n
        return time.process_time() - start

    small = min(seconds(2000) for _ in range(3))
    assert seconds(8000) < 10 * small + 0.05


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_random_dags_stay_within_five_per_cent(seed: int) -> None:
    draw = random.Random(seed)
    g = rlx.Graph("dag")
    alive = [g.input("x", (64,), rlx.f32)]
    for _ in range(60):
        a, b = draw.choice(alive[-6:]), draw.choice(alive[-6:])
        size = min(a.shape[0], b.shape[0])
        a, b = (ops.slice(v, starts=(0,), stops=(size,), axes=(0,)) for v in (a, b))
        made = ops.cumsum(ops.add(a, b), axis=0)
        alive.append(ops.tile(made, reps=(draw.choice([1, 1, 2]),)) if made.shape[0] < 4096 else made)
    g.output("y", ops.concat(*alive[-5:], axis=0))
    report = rlx.compile(g, rlx.CompileOptions(check=True)).memory_report()
    assert report.bound <= report.arena <= 1.05 * report.bound
