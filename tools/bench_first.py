"""First answers: from nothing to the first result, against ONNX Runtime.

    bench_first.py LIST [--only TEXT ...] [--threads 1] [--repeat 5] [--json OUT]

Two measures, each the same for both libraries; files are in the page cache, inputs are made before the clock starts.

fresh   A process for every sample, rlx and ONNX Runtime by turns. `import` is the time of ``import rlx`` or
        ``import onnxruntime`` (NumPy included, and everything else that the statement loads); `answer` runs from the
        call that loads the file to the end of the first run, so that what is imported on need counts there.
        `whole` is their sum, which is what somebody waits for who writes a script of three lines.
warm    One process that has loaded the same file before with both libraries: the file is loaded and run
        again, by turns. This is what a server pays for a further model.

Each figure is the median of the samples, each ratio ONNX Runtime's time over that of rlx: above 1, rlx is first. The
exit status is 1 if the geometric mean of the whole is below `--least`, 2 if nothing was measured. Run it with an
installed package: an editable install looks for changed sources whenever it is imported.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import model_list

FRESH = '''
import sys, time
library, path, inputs, threads = sys.argv[1:5]
threads = int(threads)
start = time.perf_counter()
if library == "rlx":
    import rlx
else:
    import onnxruntime
imported = time.perf_counter() - start
import numpy
with numpy.load(inputs, allow_pickle=False) as archive:
    feeds = {k[3:]: archive[k] for k in archive.files if k.startswith("in:")}
feeds = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feeds.items()}
start = time.perf_counter()
if library == "rlx":
    model = rlx.load(path, threads=threads)
    model.run(feeds)
else:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
print(imported, time.perf_counter() - start)
'''
LIBRARIES = ("rlx", "onnxruntime")
MEASURES = ("import", "answer", "whole", "warm")


def fresh(path: Path, inputs: Path, threads: int, repeat: int) -> dict[str, dict[str, float]]:
    """Seconds of `import`, `answer` and `whole` by library; processes by turns.

    Raises
    ------
    RuntimeError
        A process failed; with the last line that it wrote.
    """
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in LIBRARIES}
    for turn in range(repeat + 1):
        for name in LIBRARIES:
            printed = model_list.child(["-c", FRESH, name, path, inputs, threads], threads,
                                       without=["PYTHONDONTWRITEBYTECODE"])
            imported, answer = map(float, printed.split()[-2:])
            if turn:  # the first one reads files from the disk
                samples[name].append((imported, answer))
    return {
        "import": {n: statistics.median(i for i, _ in s) for n, s in samples.items()},
        "answer": {n: statistics.median(a for _, a in s) for n, s in samples.items()},
        "whole": {n: statistics.median(i + a for i, a in s) for n, s in samples.items()},
    }


def warm(path: str, inputs: str, threads: int, repeat: int) -> dict[str, float]:
    """Seconds of one more first answer by library, in this process."""
    from bench_models import openers

    made = openers(path, model_list.feeds(inputs), threads)
    samples: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    stop = time.perf_counter() + 20
    for turn in range(2 * repeat + 1):
        for name in LIBRARIES[:: 1 if turn % 2 else -1]:
            gc.collect()
            start = time.perf_counter()
            call: Callable[[], object] | None = made[name]()
            call()  # type: ignore[misc]
            elapsed = time.perf_counter() - start
            call = None
            if turn:
                samples[name].append(elapsed)
        if time.perf_counter() > stop and turn >= 3:
            break
    return {name: statistics.median(s) for name, s in samples.items()}


def row_of(entry: model_list.Entry, threads: int, repeat: int) -> dict[str, Any]:
    """Figures of one model, in seconds, and their ratios."""
    row: dict[str, Any] = {"name": entry["name"]}
    if "missing" in entry:
        return row | {"missing": entry["missing"]}
    try:
        row |= fresh(entry["path"], entry["feeds"], threads, repeat)
        command = [__file__, "--worker", entry["path"], entry["feeds"], threads, repeat]
        row["warm"] = model_list.figures(command, threads)
    except RuntimeError as error:
        return row | {"missing": str(error)}
    row["ratio"] = {m: row[m]["onnxruntime"] / row[m]["rlx"] for m in MEASURES}
    return row


def line(row: dict[str, Any]) -> str:
    """A row for people, in milliseconds."""
    if "ratio" not in row:
        return f"{row['name']:<44} not measured: {row['missing']}"
    return f"{row['name']:<44}" + "".join(
        f"  {m} {row[m]['rlx'] * 1e3:7.1f} / {row[m]['onnxruntime'] * 1e3:7.1f} {row['ratio'][m]:5.2f}"
        for m in MEASURES[1:]
    )


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    parser = model_list.parser(__doc__, "exit with 1 below this geometric mean of the whole")
    parser.add_argument("--repeat", type=int, default=5, help="samples of each measure and library")
    args = parser.parse_args(given)
    rows = model_list.measure(args, lambda entry: row_of(entry, args.threads, args.repeat), line)
    known = model_list.measured(rows)
    if not known:
        return 2
    for m in MEASURES:
        print(model_list.summary(f"{m:<7} ONNX Runtime / rlx", [r["ratio"][m] for r in known], rows, "no later"))
    return int(statistics.geometric_mean(r["ratio"]["whole"] for r in known) < args.least)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        path, inputs, threads, repeat = sys.argv[2:6]
        print(json.dumps(warm(path, inputs, int(threads), int(repeat))))
    else:
        sys.exit(main())
