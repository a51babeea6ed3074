"""The speed gate can pass, can fail, and does not pass when it measured nothing."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_gate


def case(most: float) -> bench_gate.Case:
    """A call that takes about twice as long as the other."""
    return bench_gate.Case("sleep", lambda: time.sleep(2e-3), lambda: time.sleep(1e-3), most)


@pytest.mark.parametrize(("cases", "status"), [
    ((lambda: case(50.0),), 0),
    ((lambda: case(50.0), lambda: case(0.5)), 1),
    ((), 2),
])
def test_status_says_what_happened(
    cases: tuple[object, ...], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_gate, "CASES", cases)
    assert bench_gate.main() == status
    assert ("TOO SLOW" in capsys.readouterr().out) == (status == 1)


def test_every_case_of_the_gate_does_the_same_on_both_sides() -> None:
    """Each side runs; what it computes is checked by the tests of the ops."""
    for make in bench_gate.CASES:
        made = make()
        made.ours()
        made.theirs()
        assert made.most > 0
