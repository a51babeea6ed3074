#!/usr/bin/env python3
"""Run every sample of every op at every extent, and compare what families foretell with ordinary compilations.

    hunt_extents.py [--isa LEVEL] [TEXT ...]

Takes half an hour for all. Exit status 1 if anything differs.
"""

import argparse
import sys
import traceback

from rlx.runtime.levels import available_levels
from rlx.testing.extents import foretold, samples_under_extents
from rlx.testing.optest import cases


def main() -> int:
    """Hunt; print what fails and a line of totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=available_levels(), help="level of families (default: the best)")
    parser.add_argument("wanted", nargs="*", metavar="TEXT", help="only ops whose name contains it")
    args = parser.parse_args()
    ran = used = families = failures = 0
    for op, dtype in cases():
        if args.wanted and not any(text in op.name for text in args.wanted):
            continue
        try:
            found, good = samples_under_extents(op, dtype, 10**9)
            ran, used = ran + found, used + good
            families += foretold(op, dtype, 10**9, 96, (96, 33, 8), args.isa)
        except Exception:
            failures += 1
            print(f"{op.name} {dtype}:\n{traceback.format_exc()}", flush=True)
    print(f"{ran} graphs, {used} extents in use, {families} families, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
