"""Measure everything that docs/performance.md shows, and write the page with its plots. One command.

    perf_report.py [LIST] [--quick] [--minutes 25] [--results DIR] [--only STAGE ...] [--page-only]

Stages: call (a tiny graph), models-1 and models-2 (models at one and two threads, first answers), memory (peaks),
grid (single ops of real shapes against all peers). Each keeps its figures in the folder of results as it goes: what
an interrupted run has measured is not measured again, `--fresh` starts over. A stage that runs out of its
share of the time is shown with what it has. Figures of another version of the sources are measured anew.

Without LIST (a JSON list of models) the page has no models and no memory.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import bench_call  # noqa: E402
import bench_memory  # noqa: E402
import bench_models  # noqa: E402
import model_list  # noqa: E402
import perf_page  # noqa: E402

Row = dict[str, Any]
# Share of the time that each stage may take.
SHARES = {"call": 0.02, "models-1": 0.24, "models-2": 0.22, "memory": 0.16, "grid": 0.36}


class Store:
    """Rows of the stages, one JSON object a line, so that nothing is lost when a run is stopped."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, stage: str) -> Path:
        """Where a stage keeps its rows."""
        return self.folder / f"{stage}.jsonl"

    def rows(self, stage: str) -> list[Row]:
        """Rows of this version of the sources; half a line at the end is none."""
        found: dict[str, Row] = {}
        try:
            lines = self.file(stage).read_text().splitlines()
        except OSError:
            return []
        for text in lines:
            try:
                row = json.loads(text)
            except ValueError:
                continue
            if isinstance(row, dict) and row.get("key") == self.key and "name" in row:
                found[row["name"]] = row
        return list(found.values())

    def add(self, stage: str, row: Row) -> None:
        """Keep a row."""
        with self.file(stage).open("a") as file:
            file.write(json.dumps({**row, "key": self.key}) + "\n")

    def clear(self) -> None:
        """Forget everything."""
        for stage in SHARES:
            self.file(stage).unlink(missing_ok=True)


def sources() -> str:
    """Version of the sources, and whether they were changed since."""
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if not done.returncode else ""

    import rlx

    return f"{rlx.__version__} {git('rev-parse', '--short=12', 'HEAD:src') or 'unknown'}"


def grid_row(title: str, args: argparse.Namespace) -> Row:
    """One cell of the grid, in a process of its own."""
    out = args.results / "cell.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / "tools/bench_grid.py"), "--only", title, "--json", str(out),
               "--seconds", "0.05" if args.quick else "0.3", "--peers", *args.peers]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    try:
        rows = [r for r in json.loads(out.read_text())["rows"] if f"{r['family']}/{r['name']}" == title]
    except (OSError, ValueError, KeyError):
        rows = []
    if not rows:
        return {"name": title, "missing": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:200]}
    return {**rows[0], "name": title}


def jobs(stage: str, args: argparse.Namespace) -> list[tuple[str, Callable[[], Row]]]:
    """What a stage has to measure: names, and functions that measure one."""
    if stage == "call":
        return [("call", lambda: {"name": "call", **bench_call.measure(0.5 if args.quick else 3.0)})]
    if stage == "grid":
        command = [sys.executable, str(ROOT / "tools/bench_grid.py"), "--list"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        titles = done.stdout.split("\n")[:-1][:: 8 if args.quick else 1]
        return [(t, lambda t=t: grid_row(t, args)) for t in titles]  # type: ignore[misc]
    if args.list is None:
        return []
    entries = model_list.read(args)[:: 6 if args.quick else 1]
    if stage == "memory":
        return [(e["name"], lambda e=e: bench_memory.row_of(e, 1)) for e in entries]  # type: ignore[misc]
    threads = int(stage[-1])
    seconds = 0.3 if args.quick else 2.5
    return [(e["name"], lambda e=e: bench_models.row_of(e, threads, seconds)) for e in entries]  # type: ignore[misc]


def run_stage(stage: str, store: Store, args: argparse.Namespace, seconds: float) -> Iterator[str]:
    """Measure what is not there yet; lines of progress."""
    todo = jobs(stage, args)
    have = {r["name"] for r in store.rows(stage)}
    left = [(name, job) for name, job in todo if name not in have]
    start = time.monotonic()
    for i, (name, job) in enumerate(left):
        spent = time.monotonic() - start
        if spent > seconds:
            yield f"{stage}: out of its {seconds:.0f} s, {len(left) - i} of {len(todo)} not measured"
            return
        try:
            row = {**job(), "name": name}
        except Exception as error:
            row = {"name": name, "missing": f"{type(error).__name__}: {str(error)[:200]}"}
        store.add(stage, row)
        per = (time.monotonic() - start) / (i + 1)
        ratio = f"{row['ratio']:6.2f}" if "ratio" in row else "   -  "
        rest = per * (len(left) - i - 1)
        yield f"{stage:<9} {len(have) + i + 1:3d}/{len(todo):<3d} {ratio}  {name:<58} about {rest:4.0f} s left"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, nargs="?", metavar="LIST", help="a JSON list of models")
    parser.add_argument("--cache", type=Path, help="where fetched model files are")
    parser.add_argument("--tools", type=Path, help="folder of fetch_models.py and randomize_weights.py")
    parser.add_argument("--quick", action="store_true", help="a part of everything, for a look at the page")
    parser.add_argument("--minutes", type=float, default=25.0, help="all stages together (default: 25)")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "performance", help="folder of figures")
    parser.add_argument("--only", nargs="*", default=list(SHARES), choices=list(SHARES), metavar="STAGE", dest="stages")
    parser.add_argument("--peers", nargs="*", default=["onnxruntime", "torch", "openvino"], help="peers of the grid")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md", help="the page to write")
    parser.add_argument("--page-only", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    args = parser.parse_args(given)
    args.only = []
    return args


def main(given: Sequence[str] | None = None) -> int:
    """Measure and write; 2 if there is nothing to show."""
    args = arguments(given)
    store = Store(args.results, sources() + (" quick" if args.quick else ""))
    if args.fresh:
        store.clear()
    stop = time.monotonic() + 60 * args.minutes
    if not args.page_only:
        rest = sum(SHARES[s] for s in args.stages)
        for stage in args.stages:
            share = SHARES[stage] / rest * (stop - time.monotonic())
            rest -= SHARES[stage]
            for text in run_stage(stage, store, args, share):
                print(text, flush=True)
    results = {stage: store.rows(stage) for stage in SHARES}
    if not any(results.values()):
        print("nothing was measured", file=sys.stderr)
        return 2
    for path in perf_page.write(args.page, results, about(store.key)):
        print(f"wrote {path}")
    return 0


def about(key: str) -> dict[str, str]:
    """What the figures are of."""
    from importlib import metadata

    from rlx import costs
    from rlx.options import available_cpus

    found = {"rlx": key, "processor": costs.processor(), "instruction set": costs.level_here(),
             "processors": str(available_cpus()), "Python": platform.python_version()}  # fmt: skip
    for package in ("numpy", "onnxruntime", "torch", "openvino"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
