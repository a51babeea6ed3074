"""The tool that prints figures of the contract measures what it says."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_contract


def test_parts_without_a_model_are_measured_and_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_contract, "quarter", lambda: ("0.26 of the time", True))  # a busy machine decides nothing
    monkeypatch.setattr(check_contract, "fastest", lambda call, turns=1: call() and 1e-9 or 1e-9)
    assert check_contract.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "left out, no model was given" in lines[0]
    assert [line.split("  ")[0] for line in lines[1:]] == ["a quarter of the extent", "loop of 10,000", "op in Python"]
    monkeypatch.setattr(check_contract, "loop", lambda: ("300 ns a step", False))
    assert check_contract.main([]) == 1
    assert "BOUND DOES NOT HOLD" in capsys.readouterr().out
