"""Write the table of ONNX ops in `docs/reference/onnx.md`.

With `--check` nothing is written and the exit status is 1 when the page is out of date.
"""

import argparse
import sys
from pathlib import Path

from rlx.onnx.registry import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "onnx.md"
BEGIN, END = "<!-- begin table -->\n", "<!-- end table -->\n"
TITLES = {"": "ai.onnx"}


def coverage() -> str:
    """One table per domain: op, and the opset from which a function holds when it is not the first."""
    lines: list[str] = []
    for domain in sorted({d for d, _ in table()}):
        names = sorted(name for d, name in table() if d == domain)
        lines += [
            f"### {TITLES.get(domain, domain)} ({len(names)})",
            "",
            "| op | own function from opset |",
            "|---|---|",
        ]
        for name in names:
            since = sorted({version for version, _ in table()[domain, name]})
            lines.append(f"| {name} | {', '.join(map(str, since))} |")
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with a new table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{coverage()}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is out of date")
    check = parser.parse_args(arguments).check
    text = PAGE.read_text()
    new = page(text)
    if text == new:
        return 0
    if check:
        print("docs/reference/onnx.md is out of date; run python tools/gen_onnx_coverage.py", file=sys.stderr)
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
