"""Measure the figures of the cost model and keep them for this user, processor and version."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rlx import costs
from rlx.errors import ConfigError
from rlx.runtime.report import table_text


def tune(options: argparse.Namespace) -> None:
    """The command."""
    from rlx.tune import applied, measure

    if options.reset:
        Path(costs.path()).unlink(missing_ok=True)
        print(f"no figures at {costs.path()}: the defaults hold")
        return
    if not 0 < options.seconds < 60:
        raise ConfigError(f"--seconds: must be in (0, 60), got {options.seconds}")
    level = costs.level_here()
    found = []
    for figure in measure(level, options.seconds):
        found.append(figure)
        if not options.quiet:
            print(f"{figure.name}: {figure.after:g} ({figure.note})", file=sys.stderr)
    where = None
    if not options.dry_run:
        where = costs.write({**costs.loaded().costs, level: applied(level, found)})
    if options.json:
        print(json.dumps({"isa": level, "processor": costs.processor(), "file": str(where) if where else None,
                          "figures": [asdict(f) for f in found]}, indent=2))  # fmt: skip
        return
    rows = [(f.name, f"{f.before:.10g}", f"{f.after:.10g}") for f in found]
    print(f"{costs.processor()}, {level}\n\n{table_text(('figure', 'before', 'now'), rows, (1, 2))}\n")
    print(f"written to {where}" if where else "nothing was written")
