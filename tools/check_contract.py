"""Figures of the executable's contract that tests only bound: half weights, buckets, extents, loops, ops of one's own.

    python tools/check_contract.py [MINILM.onnx]

The file is a MiniLM with `input_ids` and `attention_mask`. Without it the first two parts are left out, and said to
be. Times are of one thread, the fastest of several turns. The exit status is 1
where a bound of the contract does not hold.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import rlx
from rlx import ops

LADDER = (16, 32, 64, 128)


def fastest(call: Callable[[], object], turns: int = 15) -> float:
    """Seconds of the fastest call."""
    spent = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent)


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def words(length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A sentence of so many words."""
    return {"input_ids": rng.integers(1000, 20_000, (1, length)), "attention_mask": np.ones((1, length), np.int64)}


def halves(file: Path) -> tuple[str, bool]:
    """Weights, direction and time of a sentence encoder whose weights are stored in halves."""
    feeds = words(32, np.random.default_rng(0))
    full = rlx.load(file, threads=1)
    want = full.run(feeds)
    base, parts, good = fastest(lambda: full.run(feeds)), [], True
    for precision in ("f16", "bf16"):
        half = rlx.load(file, threads=1, precision=precision)
        got = half.run(feeds)
        cosines = [float(a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b))
                   for a, b in ((want[n].astype(np.float64), got[n].astype(np.float64)) for n in want.keys()
                                if want[n].dtype == np.float32)]  # fmt: skip
        share = half.memory_report().weights / full.memory_report().weights
        good &= share < 0.51 and min(cosines) > 0.999
        parts.append(f"{precision}: {share:.3f} of the bytes, cosine {min(cosines):.7f}, "
                     f"time {fastest(lambda m=half: m.run(feeds)) / base:.2f}")
    return "; ".join(parts), good


def buckets(file: Path) -> tuple[str, bool]:
    """Mixed lengths through four buckets: the worst difference, and what memory does meanwhile."""
    model, exact = rlx.load(file, threads=1), rlx.load(file, threads=1)
    shapes = [{n: v.shape for n, v in exact.run(words(k, np.random.default_rng(0))).items()} for k in (20, 30)]
    outputs = {n: {i: "sequence_length" for i, (a, b) in enumerate(zip(shape, shapes[1][n], strict=True)) if a != b}
               for n, shape in shapes[0].items()}  # fmt: skip
    padded = rlx.PaddedModel(model, {"sequence_length": LADDER}, outputs=outputs)
    rng, worst = np.random.default_rng(1), 0.0
    for length in (1, 2, 15, 16, 17, 32, 33, 64, 65, 127, 128):
        feeds = words(length, rng)
        got, want = padded.run(feeds), exact.run(feeds)
        worst = max(worst, *(float(np.abs(got[n] - want[n]).max()) for n in want.keys()))
    calls = [words(int(n), rng) for n in rng.integers(1, 129, 1000)]
    for feeds in calls[:100]:
        padded.run(feeds)
    before = resident()
    for feeds in calls:
        padded.run(feeds)
    grown = (resident() - before) / 2**20
    variants = model.memory_report().variants
    return (f"{variants} programs, worst difference {worst:.1e}, 1000 mixed calls: resident {grown:+.2f} MB",
            variants == len(LADDER) and worst < 2e-5 and grown < 2)


def quarter() -> tuple[str, bool]:
    """A chain of eight products at a quarter of its rows."""
    rng = np.random.default_rng(2)
    g = rlx.Graph("chain")
    x = g.input("x", ("batch", 256))
    for _ in range(8):
        x = ops.relu(x @ g.constant(rng.standard_normal((256, 256)).astype(np.float32) / 16))
    g.output("y", x)
    exe = rlx.compile(g, rlx.CompileOptions(extents={"batch": 256}, threads=1))
    feeds, spent = {"x": rng.standard_normal((256, 256)).astype(np.float32)}, {}
    for rows in (256, 64):
        exe.set_active_extent("batch", rows)
        spent[rows] = fastest(lambda: exe.run(feeds), 60)
    ratio = spent[64] / spent[256]
    return f"{ratio:.2f} of the time", ratio < 0.4


def loop() -> tuple[str, bool]:
    """A loop of 10,000 steps."""
    body = rlx.Graph("body")
    step, s = body.input("i", (), rlx.i64), body.input("s", (4,), rlx.f32)
    body.output("go_on", body.constant(np.bool_(True)))
    body.output("next", s * np.float32(1.0001) + ops.cast(step, dtype=rlx.f32) * np.float32(1e-6))
    g = rlx.Graph("loop")
    last, _ = ops.loop(g.constant(np.int64(10_000)), None, g.input("s", (4,), rlx.f32), body=body, n_carried=1)
    g.output("y", last)
    options = rlx.CompileOptions(threads=1)
    compiling = fastest(lambda: rlx.compile(g, options))
    exe, feeds = rlx.compile(g, options), {"s": np.ones(4, np.float32)}
    step_ns = fastest(lambda: exe.run(feeds)) / 10_000 * 1e9
    return (f"compiled in {compiling * 1e3:.1f} ms, {step_ns:.0f} ns a step with its body",
            compiling < 0.02 and step_ns < 200)  # fmt: skip


def own_op() -> tuple[str, bool]:
    """What a registered op in Python costs a run."""
    op = rlx.register_op("contract.same", inputs=("x",), reference=lambda x: x, kernel=lambda x: x)
    try:
        spent = []
        for count in (1, 21):
            g = rlx.Graph("own")
            x = g.input("x", (4,), rlx.f32)
            for _ in range(count):
                x = op(x)
            g.output("y", x)
            exe, feeds = rlx.compile(g, rlx.CompileOptions(threads=1)), {"x": np.ones(4, np.float32)}
            spent.append(fastest(lambda e=exe, f=feeds: [e.run(f) for _ in range(100)], 30) / 100)
        return f"{(spent[1] - spent[0]) / 20 * 1e6:.2f} us a call", True
    finally:
        rlx.unregister_op("contract.same")


def main(given: Sequence[str] | None = None) -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path, nargs="?", metavar="MINILM.onnx")
    args = parser.parse_args(given)
    parts: dict[str, Callable[[], tuple[str, bool]]] = {}
    if args.minilm is not None:
        parts |= {"weights in halves": lambda: halves(args.minilm), "four buckets": lambda: buckets(args.minilm)}
    else:
        print("weights in halves, four buckets: left out, no model was given")
    parts |= {"a quarter of the extent": quarter, "loop of 10,000": loop, "op in Python": own_op}
    failed = 0
    for name, part in parts.items():
        text, good = part()
        failed += not good
        print(f"{name:<24} {text}{'' if good else '  BOUND DOES NOT HOLD'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
