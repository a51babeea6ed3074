"""Models against ONNX Runtime: time of a run, by turns in one process, and the time of the first answer.

    bench_models.py LIST [--only TEXT ...] [--threads 1] [--seconds 2] [--json OUT]

Every model is measured in a process of its own. First answer: from the call that loads the file to the
end of the first run, once for each library (rlx first and ONNX Runtime first in turns, so that neither profits from
a warm file), imports not counted. Run: medians of calls in turns. `ratio` is ONNX Runtime's time over
rlx's: above 1, rlx is faster. The exit status is 1 if a model is below `--least`, 2 if nothing was measured.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import model_list
import numpy as np

Call = Callable[[], object]


def openers(path: str, feeds: dict[str, Any], threads: int) -> dict[str, Callable[[], Call]]:
    """Functions that load a model and return its run, by library."""
    import onnxruntime

    import rlx

    def ours() -> Call:
        model = rlx.load(path, threads=threads)
        return lambda: model.run(feeds)

    def theirs() -> Call:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)

    return {"rlx": ours, "onnxruntime": theirs}


def warm_up() -> None:
    """Run a tiny model in both libraries: what they import on the way is not counted."""
    import bench_call

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.onnx"
        path.write_bytes(bench_call.onnx_model())
        for make in openers(str(path), {"x": np.zeros((1, bench_call.WIDTH), np.float32)}, 1).values():
            make()()


def worker(path: str, inputs: str, threads: int, seconds: float, order: int) -> dict[str, Any]:
    """Seconds of the first answer and of a run, in this process."""
    warm_up()
    made = openers(path, model_list.feeds(inputs), threads)
    names = list(made)[:: 1 if order == 0 else -1]
    first, calls = {}, {}
    for name in names:
        start = time.perf_counter()
        calls[name] = made[name]()
        calls[name]()
        first[name] = time.perf_counter() - start
    for call in calls.values():
        call()
    samples: dict[str, list[float]] = {name: [] for name in names}
    stop = time.perf_counter() + seconds
    while (now := time.perf_counter()) < stop or len(samples["rlx"]) < 5:
        for name in names:
            start = time.perf_counter()
            calls[name]()
            samples[name].append(time.perf_counter() - start)
        if now > stop + 4 * seconds and len(samples["rlx"]) >= 3:
            break
    return {"first": first, "run": {k: statistics.median(v) for k, v in samples.items()},
            "fastest": {k: min(v) for k, v in samples.items()}, "runs": len(samples["rlx"])}


def row_of(entry: model_list.Entry, threads: int, seconds: float) -> dict[str, Any]:
    """Figures of one model, in seconds, and their ratios."""
    row: dict[str, Any] = {"name": entry["name"], "threads": threads}
    if "missing" in entry:
        return row | {"missing": entry["missing"]}
    command = [__file__, "--worker", entry["path"], entry["feeds"], threads, seconds / 2]
    try:
        parts = [model_list.figures([*command, order], threads) for order in (0, 1)]
    except RuntimeError as error:
        return row | {"missing": str(error)}
    for what in ("first", "run", "fastest"):
        row[what] = {k: min(p[what][k] for p in parts) for k in ("rlx", "onnxruntime")}
    row["runs"] = sum(p["runs"] for p in parts)
    row["ratio"] = statistics.geometric_mean(p["run"]["onnxruntime"] / p["run"]["rlx"] for p in parts)
    row["first_ratio"] = row["first"]["onnxruntime"] / row["first"]["rlx"]
    return row


def line(row: dict[str, Any]) -> str:
    """A row for people, in milliseconds."""
    if "ratio" not in row:
        return f"{row['name']:<56} not measured: {row['missing']}"
    run, first = row["run"], row["first"]
    return (f"{row['name']:<56} run {run['rlx'] * 1e3:9.3f} / {run['onnxruntime'] * 1e3:9.3f} ms"
            f"  ratio {row['ratio']:5.2f}"
            f"  first answer {first['rlx'] * 1e3:7.1f} / {first['onnxruntime'] * 1e3:7.1f} ms")


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    parser = model_list.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="time of each model")
    args = parser.parse_args(given)
    rows = model_list.measure(args, lambda entry: row_of(entry, args.threads, args.seconds), line)
    return model_list.judge(rows, args.least, f"ONNX Runtime / rlx at {args.threads} thread(s)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        path, inputs, threads, seconds, order = sys.argv[2:7]
        print(json.dumps(worker(path, inputs, int(threads), float(seconds), int(order))))
    else:
        sys.exit(main())
