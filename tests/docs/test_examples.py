"""Every ```python block of README and docs runs, every ```pycon session prints what it says."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx import ops

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|pycon)\n(.*?)^```", re.S | re.M)
WITH_BLOCKS = [p for p in PAGES if FENCE.search(p.read_text())]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page share their names, in order."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"rlx": rlx, "ops": ops, "np": np, "__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    text = page.read_text()
    failures: list[str] = []
    for match in FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 1
        if match[1] == "python":
            exec(compile("\n" * line + match[2], str(page), "exec"), names)
        else:
            case = doctest.DocTestParser().get_doctest(match[2], names, page.name, str(page), line)
            runner.run(case, out=failures.append, clear_globs=False)
            names.update(case.globs)
    assert not failures, "".join(failures)


def test_there_are_pages_with_examples() -> None:
    """A change of fences must not switch the test above off."""
    assert {p.name for p in WITH_BLOCKS} >= {"README.md", "tour.md", "errors.md"}


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links of README and docs name files that exist."""
    links = [(p, t) for p in PAGES for t in re.findall(r"\]\(([^)#]+)", p.read_text()) if "://" not in t]
    broken = [f"{p.relative_to(ROOT)}: {t}" for p, t in links if not (p.parent / t).exists()]
    assert not broken
