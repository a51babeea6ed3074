"""Time a model: latencies, time per kernel, every node against the roofline, the ratio to another runtime."""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlx.cli.session import Session, open_session
from rlx.errors import ConfigError
from rlx.options import default_threads
from rlx.runtime.kernels import table as kernel_table
from rlx.runtime.report import Profile, table_text
from rlx.runtime.roofline import NodeTime, Roofline, measure_machine, roofline

Call = Callable[[], object]
PERCENTILES = (0, 50, 90, 99)
MOST_ROWS = 15


def bench(options: argparse.Namespace) -> None:
    """The command."""
    if not options.seconds > 0:
        raise ConfigError(f"--seconds: must be more than 0, got {options.seconds}")
    session = open_session(options)
    calls: dict[str, Call] = {"rlx": lambda: session.model.run(session.inputs)}
    if options.against is not None:
        calls[options.against] = onnxruntime_call(session, options.threads)
    with session.step(f"measuring for {options.seconds:g} s"):
        samples = measure(calls, options.seconds)
    profile = session.model.profile(session.inputs, repeat=max(1, min(50, len(samples["rlx"]))))
    total = max(profile.total, 1e-9)
    found = against_peaks(session, options.threads, profile)
    if options.trace is not None:
        profile.to_chrome_trace(options.trace)
    if options.html is not None:
        from rlx.cli.roofpage import page

        options.html.write_text(page(options.model.name, found, samples), encoding="utf-8")
    kernels = [(name, n, spent, spent / total) for name, n, spent in profile.by_kernel()]
    other = samples.get(options.against, [])
    ratio = median(samples["rlx"]) / median(other) if other else None
    fastest = min(samples["rlx"]) / min(other) if other else None
    if options.json:
        print(json.dumps({
            "model": str(options.model),
            "latency_s": {k: {f"p{p}": percentile(v, p) for p in PERCENTILES} | {"runs": len(v)}
                          for k, v in samples.items()},
            "ratio": ratio,
            "ratio_fastest": fastest,
            "kernels": [{"kernel": k, "calls": n, "us": t / 1e3, "share": s} for k, n, t, s in kernels],
            "machine": {"isa": found.machine.level, "peak_per_ns": found.machine.peak,
                        "read_bytes_per_ns": [list(pair) for pair in found.machine.bandwidth]},
            "nodes": [node_facts(r) for r in found.rows],
        }, indent=2))
        return
    rows = [(name, str(len(v)), *(f"{percentile(v, p) * 1e3:.3f}" for p in PERCENTILES)) for name, v in samples.items()]
    print(table_text(("latency, ms", "runs", "min", "p50", "p90", "p99"), rows, (1, 2, 3, 4, 5)))
    if ratio is not None:
        print(f"\ntime of rlx / time of {options.against}: {ratio:.2f} at the median, {fastest:.2f} at the fastest")
    print(f"\n{histogram(samples['rlx'])}\n")
    shown = [(k, str(n), f"{t / 1e3:.1f}", f"{100 * s:.1f} %") for k, n, t, s in kernels[:MOST_ROWS]]
    if len(kernels) > MOST_ROWS:
        rest = kernels[MOST_ROWS:]
        shown.append((f"{len(rest)} others", str(sum(r[1] for r in rest)), f"{sum(r[2] for r in rest) / 1e3:.1f}",
                      f"{100 * sum(r[3] for r in rest):.1f} %"))
    print(table_text(("kernel", "calls", "us", "share"), shown, (1, 2, 3)))
    print(f"\n{found.text(None if options.full else MOST_ROWS)}")


def against_peaks(session: Session, threads: int | None, profile: Profile) -> Roofline:
    """The profile held against what this processor can do."""
    parts = session.model.compiled_for(session.inputs)
    table = parts[0].table if parts else kernel_table()
    with session.step("measuring the peaks of this processor"):
        machine = measure_machine(table, threads or default_threads())
    return roofline(machine, parts, profile)


def node_facts(row: NodeTime) -> dict[str, Any]:
    """A node's row as data."""
    work = row.work
    return {"node": row.node, "op": row.op, "kernels": list(row.kernels), "us": row.nanoseconds / 1e3,
            "flops": work.flops if work else None, "bytes": work.nbytes if work else None,
            "bound": row.bound or None, "roofline_share": row.share}


def measure(calls: dict[str, Call], seconds: float) -> dict[str, list[float]]:
    """Seconds of every call, taken in turns so that what disturbs one disturbs all."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(samples["rlx"]) < 3:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    return samples


def onnxruntime_call(session: Session, threads: int | None) -> Call:
    """The same model and inputs in ONNX Runtime."""
    if session.path.suffix == ".rlx":
        raise ConfigError(f"--against onnxruntime: the model must be an ONNX file, got {session.path.name!r}")
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError("--against onnxruntime: must be installed, got none\nhint: pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    other: Any = onnxruntime.InferenceSession(str(session.path), options, providers=["CPUExecutionProvider"])
    return lambda: other.run(None, session.inputs)


def percentile(samples: Sequence[float], p: float) -> float:
    """The smallest sample that at least p per cent do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(p / 100 * len(ordered)) - 1)]


def median(samples: Sequence[float]) -> float:
    """The 50th percentile."""
    return percentile(samples, 50)


def histogram(samples: Sequence[float], bins: int = 12, width: int = 48) -> str:
    """Counts of latencies between the fastest and the 99th percentile, as bars."""
    low, high = percentile(samples, 0), percentile(samples, 99)
    if high <= low:
        return f"all runs took {low * 1e3:.3f} ms"
    counts = [0] * bins
    for s in samples:
        counts[min(bins - 1, int((s - low) / (high - low) * bins))] += 1
    most = max(counts)
    lines = []
    for i, n in enumerate(counts):
        edge = low + (high - low) * i / bins
        sign = ">=" if i == bins - 1 else "  "
        lines.append(f"{sign} {edge * 1e3:9.3f} ms  {'#' * math.ceil(n / most * width):{width}} {n}")
    return "\n".join(lines)
