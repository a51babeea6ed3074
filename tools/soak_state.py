"""Run models with state for many steps through linked handles, against feeding the state by hand.

    python tools/soak_state.py FOLDER [--steps 10000]
    python tools/soak_state.py --runs 100000 --seconds 60

The second form runs a small graph with state many times, then from eight threads on clones for so long, and
prints by how much the resident set grew. The first, for every model of the folder that carries state: equality of
all outputs at every step, bit for bit, what tracemalloc and the resident set grew by, how many buffers the state
was in, and the time of a step both ways.
"""

import argparse
import gc
import pathlib
import threading
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


def small() -> rlx.CompiledGraph:
    """next = state / 2 + x, and a random output."""
    g = rlx.Graph("small")
    s, x = g.input("state", (256,)), g.input("x", (256,))
    g.output("next", s * 0.5 + x)
    g.output("noise", rlx.ops.random_normal(shape=(16,), dtype=rlx.f32, graph=g))
    e = rlx.compile(g)
    e.bind_handle("state", np.zeros(256, np.float32))
    e.link("next", "state")
    return e


def many_runs(runs: int) -> dict[str, int]:
    """Growth over many runs of every variant."""
    e, x = small(), np.ones(256, np.float32)
    calls = [lambda: e.run({"x": x}), lambda: e.run_raw({"x": x}), lambda: e.run_typed({"x": x}),
             lambda: e.run_slots([None, x])]
    before = 0
    for k in range(runs):
        calls[k % 4]()
        if k == runs // 10:
            before = resident()
    grown = resident() - before
    np.testing.assert_allclose(e.read_handle("state"), 2, rtol=1e-6)
    return {"runs": runs, "resident": grown}


def many_threads(seconds: float) -> dict[str, Any]:
    """Eight threads on clones; every one's state must be its own.

    Raises
    ------
    AssertionError
        A state is wrong.
    """
    e = small()
    end = time.monotonic() + seconds
    counts, wrong = [0] * 8, []

    def work(k: int, clone: rlx.CompiledGraph) -> None:
        x, state = np.full(256, k + 1, np.float32), np.zeros(256, np.float32)
        while time.monotonic() < end:
            out = clone.run({"x": x})["next"]
            state = state * np.float32(0.5) + x
            if not np.array_equal(out, state):
                wrong.append(k)
                return
            counts[k] += 1

    threads = [threading.Thread(target=work, args=(k, e.clone())) for k in range(8)]
    before = resident()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, f"threads {wrong} saw another state"
    return {"threads": 8, "runs": sum(counts), "resident": resident() - before}


def main() -> None:
    """Print a row per model, or per soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    args = parser.parse_args()
    if args.runs:
        print(many_runs(args.runs))
    if args.seconds:
        print(many_threads(args.seconds))
    for path in sorted(args.folder.glob("*.onnx")) if args.folder else []:
        if setup(path) is not None:
            print(path.stem, soak(path, args.steps))


if __name__ == "__main__":
    main()
