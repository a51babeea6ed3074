"""Run models with state for many steps through linked handles, against feeding the state by hand.

    python tools/soak_state.py FOLDER [--steps 10000]

For every model of the folder that carries state: equality of all outputs at every step, bit for bit, what
tracemalloc and the resident set grew by, how many buffers the state was in, and the time of a step both ways.
"""

import argparse
import gc
import pathlib
import time
import tracemalloc
from typing import Any

import numpy as np

import rlx

# Output -> input of the models in the list of public models that carry state, and the shapes of their other inputs.
STATEFUL: dict[str, tuple[dict[str, str], dict[str, tuple[int, ...]]]] = {
    "silero_vad": ({"stateN": "state"}, {"input": (1, 576), "state": (2, 1, 128)}),
    "openwakeword__silero_vad": ({"hn": "h", "cn": "c"}, {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)}),
    "voicefilter_lite": (
        {"hN": "h0", "cN": "c0"},
        {"stacked_logmel": (1, 1, 512), "dvec": (1, 256), "h0": (3, 1, 512), "c0": (3, 1, 512)},
    ),
}


def setup(path: pathlib.Path) -> tuple[dict[str, str], dict[str, tuple[int, ...]]] | None:
    """Links and shapes for a model file, None if it carries no state."""
    found = [STATEFUL[k] for k in sorted(STATEFUL, key=len) if k in path.stem]
    return found[-1] if found else None


def resident() -> int:
    """Bytes of the resident set."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def soak(path: pathlib.Path, steps: int) -> dict[str, Any]:
    """Figures of one model.

    Raises
    ------
    AssertionError
        An output differs.
    """
    known = setup(path)
    assert known is not None
    links, shapes = known
    rng = np.random.default_rng(0)
    by_hand, linked = rlx.load(path, threads=1), rlx.load(path, threads=1)
    state = {handle: np.zeros(shapes[handle], np.float32) for handle in links.values()}
    fixed = {"sr": np.asarray(16000)} if "sr" in linked.signature.inputs else {}
    data = [{k: (rng.standard_normal(s) * 0.1).astype(np.float32) for k, s in shapes.items() if k not in state}
            for _ in range(16)]
    for handle, array in state.items():
        linked.bind_handle(handle, array)
    for output, handle in links.items():
        linked.link(output, handle)
    if fixed:
        linked.bind_handle("sr", fixed["sr"])
    addresses: set[int] = set()
    spent = [0.0, 0.0]
    before = (0, 0)
    gc.collect()
    for step in range(steps):
        given = data[step % len(data)]
        start = time.perf_counter()
        want = by_hand.run({**given, **fixed, **state})
        middle = time.perf_counter()
        got = linked.run(given)
        end = time.perf_counter()
        spent[0] += middle - start
        spent[1] += end - middle
        state = {handle: want[output] for output, handle in links.items()}
        for name in want.keys():
            assert got[name].tobytes() == want[name].tobytes(), f"{path.stem}: {name} differs at step {step}"
        addresses.update(linked.view_handle(h).ctypes.data for h in state)
        if step == min(100, steps // 2):
            tracemalloc.start()
            before = (tracemalloc.get_traced_memory()[0], resident())
    after = (tracemalloc.get_traced_memory()[0], resident())
    tracemalloc.stop()
    return {"steps": steps, "traced": after[0] - before[0], "resident": after[1] - before[1],
            "buffers": len(addresses), "by hand us": spent[0] / steps * 1e6, "linked us": spent[1] / steps * 1e6}


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=10_000)
    args = parser.parse_args()
    for path in sorted(args.folder.glob("*.onnx")):
        if setup(path) is not None:
            print(path.stem, soak(path, args.steps))


if __name__ == "__main__":
    main()
