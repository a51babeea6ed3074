"""Run a model once and print its outputs: type, range, first values."""

import argparse
import json
import re
from typing import Any

import numpy as np

from rlx.cli.session import open_session
from rlx.runtime.report import table_text


def run(options: argparse.Namespace) -> None:
    """The command."""
    session = open_session(options)
    with session.step("running"):
        results = session.model.run(session.inputs)
    rows = [describe(name, value) for name, value in results.items()]
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        for row, value in zip(rows, results.values(), strict=True):
            if isinstance(value, np.ndarray) and value.dtype != object:
                path = options.output / (re.sub(r"[^\w.-]", "_", row["name"]) + ".npy")
                np.save(path, value, allow_pickle=False)
                row["file"] = str(path)
    if options.json:
        print(json.dumps({"model": str(options.model), "outputs": rows}, indent=2))
        return
    header = ("output", "type", "min", "mean", "max", "first values")
    print(table_text(header, [tuple(_cell(r.get(k)) for k in ("name", "type", "min", "mean", "max", "first"))
                              for r in rows], (2, 3, 4)))
    for row in rows:
        if row.get("nan"):
            print(f"note: {row['name']} holds {row['nan']} NaN")
        if "file" in row:
            print(f"wrote {row['file']}")


def describe(name: str, value: Any) -> dict[str, Any]:
    """What a person wants to know of an output."""
    row: dict[str, Any] = {"name": name}
    if not isinstance(value, np.ndarray):
        return row | {"type": type(value).__name__, "first": str(value)[:60]}
    row["type"] = f"{value.dtype}{list(value.shape)}"
    row["first"] = [_plain(v) for v in value.reshape(-1)[:4]]
    if value.size and (value.dtype.kind in "biuf" or value.dtype.name == "bfloat16"):
        wide = value.astype(np.float64)
        nan = int(np.isnan(wide).sum())
        if nan:
            row["nan"] = nan
        if nan < value.size:
            row |= {"min": float(np.nanmin(wide)), "mean": float(np.nanmean(wide)), "max": float(np.nanmax(wide))}
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, (np.floating, np.complexfloating)) or np.asarray(value).dtype.name == "bfloat16":
        return float(value) if not isinstance(value, np.complexfloating) else str(value)
    return value.item() if isinstance(value, np.generic) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list):
        return " ".join(_cell(v) for v in value)
    return str(value)
