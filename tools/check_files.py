"""Save every model of a list ahead of time, load it in another process, compare all bits; print sizes and times.

    python tools/check_files.py LIST [--only TEXT ...]

Times are those of a fresh process that has imported rlx, the fastest of three: `load` with every byte compared with
its digest, `own` without (description, proof of the programs, modules), `bytes` the difference: mapping and reading
what a first run reads anyway, `run` the first run. The line of 20 ms is for `own`. They count for an installed
package; an editable one looks for
changes of its sources while it is imported. Exit status 1 when a result differs.
"""

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import model_list
import numpy as np

import rlx

CHILD = """
import pickle, sys, time
feeds = pickle.load(sys.stdin.buffer)
import numpy, rlx
start = time.perf_counter()
model = rlx.load(sys.argv[1], threads=1, verify=sys.argv[2] == "1")
loaded = time.perf_counter()
results = list(model.run(feeds).values())
pickle.dump((loaded - start, time.perf_counter() - loaded, results), sys.stdout.buffer)
"""


def same(a: Any, b: Any) -> bool:
    """Equal, bit for bit."""
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and (bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes())
    return bool(a == b)


def elsewhere(path: Path, feeds: dict[str, Any], verify: str) -> tuple[float, float, list[Any]]:
    """Seconds of loading and of the first run in a fresh process, and what it gave."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(path), verify], input=pickle.dumps(feeds),
                          capture_output=True, check=True)
    found: tuple[float, float, list[Any]] = pickle.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    model_list.add_arguments(parser)
    options = parser.parse_args(arguments)
    different = 0
    slowest = slowest_own = 0.0
    owns: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "m.rlx"
        print(f"{'model':52} {'MB':>7} {'load ms':>8} {'own':>7} {'bytes':>7} {'run ms':>8}")
        for entry in model_list.read(options):
            name = entry["name"][-52:]
            if "missing" in entry:
                print(f"{name:52} missing: {entry['missing'][:60]}")
                continue
            feeds = model_list.feeds(entry["feeds"])
            model = rlx.load(entry["path"], threads=1)
            want = list(model.run(feeds).values())
            model.save(target)
            found = [elsewhere(target, feeds, v) for v in "101010"]
            equal = all(same(a, b) for f in found for a, b in zip(f[2], want, strict=True))
            different += not equal
            load, own = (min(f[0] for f in found[i::2]) * 1e3 for i in (0, 1))
            slowest, slowest_own = max(slowest, load), max(slowest_own, own)
            owns.append(own)
            print(f"{name:52} {target.stat().st_size / 1e6:7.1f} {load:8.1f} {own:7.1f} {load - own:7.1f}"
                  f" {min(f[1] for f in found) * 1e3:8.1f} {'' if equal else ' DIFFERS'}", flush=True)
    print(f"{different} differ; own: median {np.median(owns) if owns else 0:.1f} ms, slowest {slowest_own:.1f} ms;"
          f" slowest load {slowest:.1f} ms")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
