"""Importing stays cheap, and graphs are built without kernels."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EDITABLE = "rlx/__init__.py" not in {f.as_posix() for f in importlib.metadata.distribution("rlx").files or []}


def python(code: str) -> str:
    """What a fresh interpreter prints; it may cache byte code, as an installed package has it."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(code: str) -> set[str]:
    """Names of the modules loaded after a statement."""
    return set(json.loads(python(f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))")))


def test_import_rlx_loads_element_types_and_nothing_else() -> None:
    loaded = modules_after("import rlx")
    assert not {m for m in loaded if m.split(".")[0] in ("scipy", "onnx", "torch")}
    light = {"rlx", "rlx.collector", "rlx.dtypes", "rlx.errors", "rlx.forking", "rlx.records", "rlx.startup"}
    assert {m for m in loaded if m.startswith("rlx")} <= light


# Compiled code that graphs are made with: nothing that runs them.
NODES = {"rlx._kernels", "rlx._kernels._nodes"}


def test_import_ops_loads_neither_scipy_nor_kernels() -> None:
    loaded = modules_after("import rlx.ops") - NODES
    assert not {m for m in loaded if m.startswith(("scipy", "onnx", "torch", "rlx._kernels", "rlx.runtime"))}


def test_building_a_graph_loads_no_kernels() -> None:
    loaded = modules_after(
        "import rlx\nfrom rlx import ops\n"
        "g = rlx.Graph('g')\ng.output('y', ops.tanh(g.input('x', ('n', 3), rlx.f32) + 1))"
    )
    assert not {m for m in loaded - NODES if m.startswith(("scipy", "rlx._kernels", "rlx.runtime"))}


def test_compiling_loads_no_scipy_for_plain_graphs() -> None:
    loaded = modules_after(
        "import rlx\nfrom rlx import ops\n"
        "g = rlx.Graph('g')\ng.output('y', ops.tanh(g.input('x', (4, 3), rlx.f32) + 1))\nrlx.compile(g)"
    )
    assert not {m for m in loaded if m.startswith(("scipy", "onnx"))}


def spent(code: str) -> tuple[float, float]:
    """Processor seconds of importing NumPy and of `code` after it; medians of fresh interpreters."""
    script = (
        "import time\na = time.process_time()\nimport numpy\nb = time.process_time()\n"
        f"{code}\nprint(b - a, time.process_time() - b)"
    )
    python(script)
    pairs = [tuple(map(float, python(script).split())) for _ in range(5)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def test_import_costs_less_than_100_ms_over_numpy() -> None:
    assert spent("import rlx")[1] < 0.1


@pytest.mark.skipif(EDITABLE, reason="an editable install has no byte code files")
def test_all_that_compiling_imports_costs_no_more_than_numpy() -> None:
    numpy, rlx = spent("import rlx, rlx.ops\nrlx.compile")
    assert rlx < max(0.1, 1.2 * numpy)


def test_public_names_resolve() -> None:
    import rlx

    missing = [n for n in rlx.__all__ if not hasattr(rlx, n)]
    assert not missing
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rlx.nonsense


@pytest.mark.skipif(shutil.which("tach") is None and importlib.util.find_spec("tach") is None, reason="needs tach")
def test_packages_import_only_what_they_may() -> None:
    """`tach.toml` is the list."""
    command = [shutil.which("tach") or "tach"]
    done = subprocess.run([*command, "check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
