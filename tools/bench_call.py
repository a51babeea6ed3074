"""What a call costs: eight layers tanh(x W + b), x 1x16, through `run`, by turns with ONNX Runtime in one process.

    bench_call.py [--seconds 2] [--json OUT] [--least 5]

`ratio` is ONNX Runtime's time over rlx's. `run_slots` and the same graph imported from ONNX are measured too. What the
kernels take by themselves is told from a graph of 64 such layers, so that what a call costs over them can be named, and
compared with a call of ONNX Runtime for a graph of one Identity. The loop and the call of this tool are taken off too.
The exit status is 1 if the ratio is below `--least`.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from rlx import ops

Call = Callable[[], object]
LAYERS, MANY, WIDTH, BATCH = 8, 64, 16, 50


def layers(count: int = LAYERS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases."""
    draw = np.random.default_rng(0)
    shapes = [((WIDTH, WIDTH), (WIDTH,))] * count
    return [tuple(draw.standard_normal(s).astype(np.float32) / 4 for s in pair) for pair in shapes]  # type: ignore[misc]


def graph(count: int = LAYERS) -> rlx.Graph:
    """The graph of rlx."""
    g = rlx.Graph("tiny")
    y = g.input("x", (1, WIDTH), rlx.f32)
    for w, b in layers(count):
        y = ops.tanh(y @ g.constant(w) + g.constant(b))
    g.output("y", y)
    return g


def onnx_model() -> bytes:
    """The same as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, held, name = [], [], "x"
    for i, (w, b) in enumerate(layers()):
        held += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes += [helper.make_node("MatMul", [name, f"w{i}"], [f"m{i}"]),
                  helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
                  helper.make_node("Tanh", [f"a{i}"], [f"t{i}"])]  # fmt: skip
        name = f"t{i}"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, WIDTH]) for n in ("x", name)]
    made = helper.make_model(helper.make_graph(nodes, "tiny", info[:1], info[1:], held),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=9)  # fmt: skip
    return bytes(made.SerializeToString())


def empty_model() -> bytes:
    """A graph of one node that does nothing."""
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, WIDTH]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty", info[:1], info[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def calls() -> dict[str, Call]:
    """What is compared."""
    import onnxruntime

    x = np.linspace(-1, 1, WIDTH, dtype=np.float32)[None]
    feeds = {"x": x}
    exe = rlx.compile(graph(), rlx.CompileOptions(threads=1))
    proto = onnx_model()
    model = rlx.load(proto, threads=1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    want = session.run(None, feeds)[0]
    for got in (exe.run(feeds)[0], exe.run_slots([x])[0], model.run(feeds)[0]):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    empty = onnxruntime.InferenceSession(empty_model(), options, providers=["CPUExecutionProvider"])
    many = rlx.compile(graph(MANY), rlx.CompileOptions(threads=1))
    many.run_slots([x])
    return {"run": lambda: exe.run(feeds), "run_slots": lambda: exe.run_slots([x]),
            "model.run": lambda: model.run(feeds), "onnxruntime": lambda: session.run(None, feeds),
            "onnxruntime, empty graph": lambda: empty.run(None, feeds), "nothing": lambda: len(feeds),
            f"run, {MANY} layers": lambda: many.run(feeds), f"run_slots, {MANY} layers": lambda: many.run_slots([x])}


def measure(seconds: float) -> dict[str, Any]:
    """Medians in seconds of one call, in turns of many."""
    todo = calls()
    samples: dict[str, list[float]] = {name: [] for name in todo}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(samples["run"]) < 5:
        for name, call in todo.items():
            start = time.perf_counter()
            for _ in range(BATCH):
                call()
            samples[name].append((time.perf_counter() - start) / BATCH)
    found: dict[str, Any] = {name: statistics.median(s) for name, s in samples.items()}
    layer = {name: (found[f"{name}, {MANY} layers"] - found[name]) / (MANY - LAYERS) for name in ("run", "run_slots")}
    empty = found["onnxruntime, empty graph"] - found["nothing"]
    over = {name: found[name] - LAYERS * t - found["nothing"] for name, t in layer.items()}
    return {"seconds": found, "ratio": found["onnxruntime"] / found["run"], "kernels": LAYERS * layer["run_slots"],
            "over": over, "over_empty": {name: t / empty for name, t in over.items()}}


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 below this ratio")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    args = parser.parse_args(given)
    found = measure(args.seconds)
    for name, t in found["seconds"].items():
        print(f"{name:<25} {t * 1e6:7.2f} us  {found['seconds']['onnxruntime'] / t:6.2f}")
    print(f"{f'kernels of {LAYERS} layers':<25} {found['kernels'] * 1e6:7.2f} us")
    for name, t in found["over"].items():
        share = found["over_empty"][name]
        print(f"{name + ' over them':<25} {t * 1e6:7.2f} us  {share:.3f} of ONNX Runtime's empty graph")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(found["ratio"] < args.least)


if __name__ == "__main__":
    sys.exit(main())
