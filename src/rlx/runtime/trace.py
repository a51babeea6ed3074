"""Profiles as traces in the Trace Event Format (JSON), which Perfetto and chrome://tracing show."""

import json
import os
from typing import TYPE_CHECKING, Any

from rlx.errors import ConfigError

if TYPE_CHECKING:
    from rlx.runtime.report import Profile


def events(profile: "Profile") -> list[dict[str, Any]]:
    """One complete event per call, one after another, and scratch in use as a counter. Times in microseconds."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "rlx"}},
        {"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "kernel calls, mean times"}},
    ]
    at = 0.0
    total = max(profile.total, 1e-9)
    for i, row in enumerate(profile.rows):
        time = row.nanoseconds / 1e3
        found.append({"ph": "X", "pid": 0, "tid": 0, "ts": at, "dur": time, "name": row.node, "cat": row.kernel,
                      "args": {"call": i, "op": row.op, "kernel": row.kernel,
                               "share": f"{100 * row.nanoseconds / total:.2f} %"}})
        found.append({"ph": "C", "pid": 0, "ts": at, "name": "scratch in use", "args": {"bytes": row.live}})
        at += time
    found.append({"ph": "C", "pid": 0, "ts": at, "name": "scratch in use", "args": {"bytes": 0}})
    return found


def write_trace(profile: "Profile", path: Any) -> None:
    """Write a trace file.

    Raises
    ------
    ConfigError
        The file cannot be written.
    """
    try:
        with open(os.fspath(path), "w") as file:
            json.dump({"traceEvents": events(profile), "displayTimeUnit": "ns"}, file)
    except OSError as error:
        raise ConfigError(f"trace: {os.fspath(path)!r} must be writable, got {error.strerror or error}") from None
