"""rlx against ONNX Runtime, OpenVINO, PyTorch (eager and inductor), NumPy and SciPy over a grid of real shapes.

All calls of a cell run by turns in one process, each as often, in changing order; medians are compared.
`best / rlx` is the time of the fastest peer over that of rlx: above 1, rlx is faster. A peer that is not
installed, refuses a cell or gives another answer is named; a cell without any peer is no pass.

    bench_grid.py [--family gemm ...] [--only TEXT ...] [--peers torch ...] [--threads 1] [--json OUT]

What the machine can do is capped alike for all by RLX_ISA=avx2 with ONEDNN_MAX_CPU_ISA=AVX2,
ATEN_CPU_CAPABILITY=avx2 and MKL_ENABLE_INSTRUCTIONS=AVX2 (ONNX Runtime cannot be capped, nor can the
products of OpenVINO: leave them out).
The exit status is 1 if a cell is below `--least`, 2 if nothing was measured.
"""

import argparse
import gc
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from grid_cells import CELLS, Cell
from grid_data import DATA_CELLS
from grid_peers import PEERS, Call, Made, run_rlx

from rlx.runtime.report import table_text

Clock = Callable[[], float]
BATCH = 3e-4  # seconds: calls are repeated so often that a reading of the fastest takes this long


def alternate(calls: Sequence[Call], seconds: float, clock: Clock) -> list[list[float]]:
    """Seconds per call of each, measured in turns.

    A reading is as many calls for all, since the first one of them meets operands that the others have driven out
    of the caches. The order changes from turn to turn, so that nobody always runs after its own kind, whose code
    and operands it would find there.
    """
    once = []
    for call in calls:
        call()
        start = clock()
        call()
        once.append(max(clock() - start, 1e-7))
    count = max(1, round(BATCH / min(once)))
    turns = int(min(201, max(9, seconds / (count * sum(once)))))
    readings: list[list[float]] = [[] for _ in calls]
    order, shuffle = list(range(len(calls))), random.Random(0).shuffle
    for _ in range(turns):
        shuffle(order)
        for i in order:
            call = calls[i]
            start = clock()
            for _ in range(count):
                call()
            readings[i].append((clock() - start) / count)
    return readings


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether two answers are the same but for rounding."""
    return got.shape == want.shape and bool(np.allclose(got, want, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(want).max())))


def measure(cell: Cell, peers: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Times of one cell by peer, and the ratio."""
    made: list[tuple[str, Made]] = [("rlx", run_rlx(cell, args.threads)[0])]
    row: dict[str, Any] = {"family": cell.family, "name": cell.name, "missing": {}}
    want = made[0][1][1](made[0][1][0]())
    for peer in peers:
        try:
            found = PEERS[peer](cell, args.threads)
            for call, result in found:
                if not agree(result(call()), want):
                    raise ValueError("another answer than rlx")
            made += [(peer, pair) for pair in found]
        except Exception as error:
            row["missing"][peer] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    clock = time.process_time if args.clock == "cpu" else time.perf_counter
    readings = alternate([pair[0] for _, pair in made], args.seconds * len(made), clock)
    times: dict[str, float] = {}
    for (name, _), values in zip(made, readings, strict=True):
        times[name] = min(times.get(name, math.inf), statistics.median(values))
    row["us"] = {name: round(t * 1e6, 3) for name, t in times.items()}
    others = {name: t for name, t in times.items() if name != "rlx"}
    if others:
        row["best"] = min(others, key=lambda name: others[name])
        row["ratio"] = round(others[row["best"]] / times["rlx"], 4)
    return row


def summary(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> dict[str, Any]:
    """What the rows say together, per family and over all."""
    def of(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        ratios = [r["ratio"] for r in some if "ratio" in r]
        if not ratios:
            return {"cells": len(some), "measured": 0}
        return {"cells": len(some), "measured": len(ratios), "mean": round(statistics.geometric_mean(ratios), 3),
                "worst": min(ratios), "at least 1": sum(r >= 1 for r in ratios)}

    families = list(dict.fromkeys(r["family"] for r in rows))
    missing = {p: sum(p not in r["us"] for r in rows) for p in peers}
    return {"families": {f: of([r for r in rows if r["family"] == f]) for f in families}, "all": of(rows),
            "cells without a peer": missing}


def chosen(args: argparse.Namespace) -> list[Cell]:
    """The cells that the command line names."""
    return [c for c in (*CELLS, *DATA_CELLS) if (not args.family or c.family in args.family)
            and (not args.only or any(text in c.title for text in args.only))]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="*", choices=sorted({c.family for c in (*CELLS, *DATA_CELLS)}),
                        help="families of cells")
    parser.add_argument("--only", nargs="*", help="cells whose title contains one of these texts")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="time per cell and runner")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: time of the process, for a busy machine")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 if a cell is below this ratio")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--list", action="store_true", help="print the cells and leave")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    args = arguments(given)
    cells = chosen(args)
    if args.list:
        print("\n".join(c.title for c in cells))
        return 0
    rows = []
    for cell in cells:
        row = measure(cell, args.peers, args)
        rows.append(row)
        times = " ".join(f"{name} {t:.1f}" for name, t in row["us"].items())
        lost = "".join(f"  [{p}: {why}]" for p, why in row["missing"].items())
        print(f"{row.get('ratio', math.nan):6.2f}  {cell.title:<58} us: {times}{lost}", flush=True)
        gc.collect()
    found = summary(rows, args.peers)
    lines = [(f, *(str(s.get(what, "")) for what in ("cells", "measured", "mean", "worst", "at least 1")))
             for f, s in [*found["families"].items(), ("all", found["all"])]]
    print(table_text(("family", "cells", "measured", "mean", "worst", ">= 1"), lines, (1, 2, 3, 4, 5)))
    for peer, count in found["cells without a peer"].items():
        if count:
            print(f"{peer}: missing in {count} of {len(rows)} cells")
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "summary": found, "rows": rows}, indent=1) + "\n")
    if not found["all"]["measured"]:
        print("nothing was measured", file=sys.stderr)
        return 2
    return int(found["all"]["worst"] < args.least)


if __name__ == "__main__":
    sys.exit(main())
