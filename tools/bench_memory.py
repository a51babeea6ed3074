"""Peak memory of loading a model and running it three times: rlx against ONNX Runtime.

    bench_memory.py LIST [--only TEXT ...] [--threads 1] [--json OUT] [--least 1.0]

Every figure comes from a process of its own: the inputs are read, the library is imported (the
base), the model is loaded and run. The peak is the high-water mark of resident memory that the
system keeps (VmHWM). `ratio` is ONNX Runtime's peak over rlx's: above 1, rlx needs less. For rlx the arena
(scratch of a run) is shown with the lower bound that no plan can be below. The exit
status is 1 if a model is below `--least`, 2 if nothing was measured.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import model_list

MIB = 1 << 20
RUNS = 3


def status() -> dict[str, int]:
    """Bytes resident now and at most, of this process."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key in ("VmHWM", "VmRSS"):
            found[key] = int(rest.split()[0]) * 1024
    return found


def worker(library: str, model: str, inputs: str, threads: int) -> dict[str, int]:
    """Load and run in this process; bytes."""
    feeds = model_list.feeds(inputs)
    if library == "rlx":
        import rlx

        base = status()["VmHWM"]
        loaded = rlx.load(model, threads=threads)
        for _ in range(RUNS):
            loaded.run(feeds)
        found = {"base": base, "peak": status()["VmHWM"], "resident": status()["VmRSS"]}
        try:
            report = loaded.memory_report()
        except rlx.BindingError:  # nothing was compiled: it is all look-ups
            return found
        return found | {"weights": report.weights, "arena": report.arena, "bound": report.bound}
    else:
        import onnxruntime

        base = status()["VmHWM"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for _ in range(RUNS):
            session.run(None, feeds)
    now = status()
    return {"base": base, "peak": now["VmHWM"], "resident": now["VmRSS"]}


def measured(library: str, entry: model_list.Entry, threads: int, tries: int) -> dict[str, int]:
    """Figures of a process of its own; the smallest peak of several."""
    command = [__file__, "--worker", library, entry["path"], entry["feeds"], threads]
    found: list[dict[str, int]] = [model_list.figures(command, threads) for _ in range(tries)]
    return min(found, key=lambda f: f["peak"])


def row_of(entry: model_list.Entry, threads: int, tries: int = 1) -> dict[str, Any]:
    """Figures of both libraries for one model, in bytes, and their ratio."""
    row: dict[str, Any] = {"name": entry["name"]}
    try:
        if "missing" in entry:
            raise RuntimeError(entry["missing"])
        for library in ("rlx", "onnxruntime"):
            row[library] = measured(library, entry, threads, tries)
        row["ratio"] = row["onnxruntime"]["peak"] / row["rlx"]["peak"]
    except (RuntimeError, OSError, ValueError) as error:
        row["missing"] = str(error)[:300]
    return row


def line(row: dict[str, Any]) -> str:
    """A row for people; sizes in MiB, peak and what of it lies above the bare import."""
    if "ratio" not in row:
        return f"{row['name']:<48} not measured: {row['missing']}"
    parts = [f"{k} {row[k]['peak'] / MIB:7.1f} (+{(row[k]['peak'] - row[k]['base']) / MIB:6.1f})"
             for k in ("rlx", "onnxruntime")]
    arena = ""
    if row["rlx"].get("bound"):
        used = row["rlx"]["arena"] / row["rlx"]["bound"]
        arena = f"  arena {row['rlx']['arena'] / 1024:9.1f} KiB, {used:.3f} of the lower bound"
    return f"{row['name']:<48} {parts[0]}  {parts[1]}  ratio {row['ratio']:5.2f}{arena}"


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    parser = model_list.parser(__doc__)
    parser.add_argument("--tries", type=int, default=1, help="processes per figure; the smallest peak counts")
    args = parser.parse_args(given)
    rows = model_list.measure(args, lambda entry: row_of(entry, args.threads, args.tries), line)
    return model_list.judge(rows, args.least, "peak of ONNX Runtime / peak of rlx", digits=2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(worker(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))))
    else:
        sys.exit(main())
