"""The tree holds what it should: no leftovers, no risky calls, tests that assert, files of a readable size."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = [p for top in ("src", "tests", "tools", "asv_bench", "examples") for p in sorted((ROOT / top).rglob("*.py"))
        if "__pycache__" not in p.parts]
PACKAGE = [p for p in CODE if (ROOT / "src") in p.parents]
TESTS = [p for p in CODE if (ROOT / "tests") in p.parents]
COMPILED = {".pyx", ".pxd", ".pyi", ".c", ".h", ".inc"}
TEXT = CODE + sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in COMPILED)
TEXT += [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXT += [ROOT / "pyproject.toml", ROOT / "meson.build"]
MOST_LINES = 900

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w")
LEFTOVER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
FLAGS = re.compile("^[^#]*(?:-march=nat" + "ive|-ffast-" + "math|-Of" + "ast|-ffinite-math" + "-only)")


def name(path: Path) -> str:
    """Path as it is printed."""
    return path.relative_to(ROOT).as_posix()


def hits(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Places where a pattern stands."""
    return [f"{name(p)}:{i}: {line.strip()[:90]}" for p in paths
            for i, line in enumerate(p.read_text().splitlines(), 1) if pattern.search(line)]


def test_no_machine_paths() -> None:
    assert not hits(MACHINE_PATH, TEXT)


def test_no_leftovers() -> None:
    assert not hits(LEFTOVER, TEXT)


def test_no_compiler_flags_that_the_numerics_contract_forbids() -> None:
    """Documentation may name them; build files may not."""
    assert not hits(FLAGS, [ROOT / "pyproject.toml", ROOT / "meson.build", *(ROOT / "src").rglob("meson.build")])


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_package_runs_no_text_as_code_and_unpickles_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text())
    calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    if path.name == "records.py":  # makes the __init__ of a class from the names of its fields, as dataclasses does
        calls.discard("exec")
    assert not calls & {"eval", "exec", "compile", "__import__"}
    modules = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    modules |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    if name(path) == "src/rlx/startup.py":  # reads code that the build compiled, as Python reads byte code files
        modules.discard("marshal")
    assert not modules & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    keywords = {k.arg for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords
                if isinstance(k.value, ast.Constant) and k.value.value is True}
    assert "allow_pickle" not in keywords


@pytest.mark.parametrize("path", [p for p in TESTS if p.name.startswith("test_")], ids=name)
def test_every_test_asserts_something(path: Path) -> None:
    """An assert, pytest.raises, or a call of a function whose name says that it checks."""
    tree = ast.parse(path.read_text())
    helpers = {f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and asserts(f, set())}
    empty = [f.name for f in ast.walk(tree)
             if isinstance(f, ast.FunctionDef) and f.name.startswith("test") and not asserts(f, helpers)]
    assert not empty


def asserts(function: ast.FunctionDef, helpers: set[str]) -> bool:
    """Whether a function can fail on purpose (a guard page ends the process)."""
    if any("guard" in a.arg for a in function.args.args):
        return True
    for n in ast.walk(function):
        if isinstance(n, ast.Assert):
            return not (isinstance(n.test, ast.Constant) and n.test.value is True)
        if isinstance(n, ast.Call):
            called = n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
            if called in helpers or re.match(r"_?(assert|check|raises|verify|compare|same|close|equal|guard)", called):
                return True
    return False


def test_test_names_are_unique_in_a_file() -> None:
    """A second test of one name silently replaces the first."""
    twice = []
    for path in TESTS:
        body = ast.parse(path.read_text()).body
        names = [n.name for n in body if isinstance(n, ast.FunctionDef)]
        twice += [f"{name(path)}: {n}" for n in set(names) if names.count(n) > 1]
    assert not twice


WRITTEN = [p for p in TEXT if p.suffix != ".md" and "made by tools/" not in p.read_text()[:200].lower()]


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_files_are_of_a_readable_size(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
