"""Hunt for random graphs whose compiled results differ from their definition.

    hunt_graphs.py [--isa LEVEL] FIRST LAST

Each seed is run with passes on and off, one thread and two, on poisoned scratch, with the memory plan checked. The exit
status is 1 if a seed failed.
"""

import argparse
import sys
import warnings

import numpy as np

import rlx
from rlx import dtypes
from rlx.reference import evaluate
from rlx.runtime.levels import available_levels
from rlx.testing.graphs import build_graph
from rlx.testing.graphs_more import MORE

TOLERANCE = {"f64": 1e-8, "f32": 1e-3, "f16": 4e-2, "bf16": 2e-1}


def check(seed: int, isa: str | None) -> None:
    """Build, run and compare the graph of a seed."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 6, int(rng.integers(1, 4))).tolist()
    steps = [tuple(rng.integers(0, 64, 4).tolist()) for _ in range(int(rng.integers(1, 20)))]
    graph, feeds, exact = build_graph(shape, steps, MORE)
    if not graph.outputs:
        return
    want = evaluate(graph, feeds)
    for threads, optimize in ((1, True), (2, False), (2, True)):
        options = rlx.CompileOptions(threads=threads, optimize=optimize, check=True, poison=True, isa=isa)
        exe = rlx.compile(graph, options)
        got, again = exe.run(feeds), exe.clone().run(feeds)
        for name, w in want.items():
            g = got[name]
            assert (g.dtype, g.shape) == (w.dtype, w.shape), name
            assert g.tobytes() == again[name].tobytes(), f"{name}: two runs differ"
            if exact[name] or w.dtype.kind not in "fV":
                np.testing.assert_array_equal(g, w, err_msg=f"{name} {options}")
            else:
                t = TOLERANCE[dtypes.of_array(w).name]
                np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=t, atol=t, err_msg=name)


def main() -> int:
    """Try the seeds in [FIRST, LAST)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=available_levels(), help="level to compile for (default: the best)")
    parser.add_argument("first", type=int, metavar="FIRST")
    parser.add_argument("last", type=int, metavar="LAST")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    bad = 0
    for seed in range(args.first, args.last):
        try:
            check(seed, args.isa)
        except Exception as error:
            bad += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
    print(f"done, bad {bad}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
