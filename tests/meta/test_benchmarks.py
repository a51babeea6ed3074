"""The benchmark suite imports, every benchmark runs, every family of ops has one."""

import importlib
import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.ops import FAMILY

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "asv_bench" / "benchmarks"
sys.path.insert(0, str(SUITE.parent))
MODULES = sorted(p.stem for p in SUITE.glob("*.py") if p.stem != "__init__")
KINDS = ("time_", "track_", "timeraw_", "mem_", "peakmem_")


def classes(module: str) -> list[type]:
    """Benchmark classes of a module."""
    found = importlib.import_module(f"benchmarks.{module}")
    own = [c for c in vars(found).values() if inspect.isclass(c) and c.__module__ == found.__name__]
    return [c for c in own if not inspect.isabstract(c)]


def small(cls: type) -> Iterator[tuple[Any, ...]]:
    """Every value of the first parameter with the first of all others, but all of who runs it."""
    params = getattr(cls, "params", ())
    if not params:
        yield ()
        return
    lists = params if isinstance(params[0], (list, tuple)) else (params,)
    yield from itertools.product(lists[0], *(axis if "numpy" in axis else axis[:1] for axis in lists[1:]))


CASES = [pytest.param(c, p, id=f"{m}-{c.__name__}-{'-'.join(map(str, p))}")
         for m in MODULES for c in classes(m) for p in small(c)]


@pytest.mark.parametrize(("cls", "parameters"), CASES)
def test_every_benchmark_runs_once(cls: type, parameters: tuple[Any, ...]) -> None:
    names = [n for n in dir(cls) if n.startswith(KINDS)]
    assert names, f"{cls.__name__} measures nothing"
    instance = cls()
    try:
        if hasattr(instance, "setup"):
            instance.setup(*parameters)
    except NotImplementedError as reason:
        pytest.skip(str(reason))
    for name in names:
        result = getattr(instance, name)(*parameters)
        if name.startswith("track_"):
            assert result == result
        if name.startswith("timeraw_"):
            compile(result, name, "exec")


def test_every_family_has_a_benchmark() -> None:
    """New family: add it to a class of real sizes, or to the list in `table.py`."""
    covered = {f for m in MODULES for c in classes(m) for f in getattr(c, "families", ())}
    assert set(FAMILY.values()) <= covered, sorted(set(FAMILY.values()) - covered)
    assert covered <= set(FAMILY.values()), sorted(covered - set(FAMILY.values()))


def test_there_are_three_controls() -> None:
    (control,) = classes("control")
    assert len([n for n in dir(control) if n.startswith("time_")]) == 3


def test_configuration_follows_the_rules() -> None:
    """One wheel command without isolation, one thread at run time, the repository one folder up."""
    conf = json.loads((SUITE.parent / "asv.conf.json").read_text())
    assert conf["repo"] == ".."
    assert len(conf["build_command"]) == 1
    assert "--no-build-isolation" in conf["build_command"][0]
    assert conf["matrix"]["env_nobuild"]["RLX_NUM_THREADS"] == ["1"]
