"""A loaded ONNX model holds at most 1.15 x its weights, its arena and 20 MB over `import rlx`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

CHILD = """
import gc, json, sys
import numpy as np
import rlx

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024

before = resident()
model = rlx.load(sys.argv[1], threads=1)
inputs = model.signature.inputs
model.run({k: np.zeros([d or 1 for d in t.shape], np.float32) for k, t in inputs.items()})
gc.collect()
after = resident()
report = model.memory_report()
found = sorted({m.split(".")[0] for m in sys.modules} & {"onnx", "google", "scipy", "onnxruntime"})
print(json.dumps([after - before, report.weights, report.arena, found]))
"""


def check(model: Any, path: Path) -> None:
    """Load and run the model in a fresh interpreter, hold it to the limit."""
    onnx.save(model, path)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CHILD, str(path)]
    for _ in range(2):  # the first may write byte code
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
    grown, weights, arena, others = json.loads(done.stdout)
    assert not others  # files are read by rlx alone
    assert grown <= 1.15 * weights + arena + 20 * 2**20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_model_of_a_thousand_nodes_stays_small(tmp_path: Path) -> None:
    """Convolutions, norms, activations, quantisers, and shape arithmetic between them."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: dict[str, Any] = {
        "scale": np.float32(0.05), "zero": np.int8(0), "minus": np.int64([-1]),
        "one": np.ones(8, np.float32), "nought": np.zeros(8, np.float32),
    }
    x = "x"

    def add(op: str, *inputs: str, **attrs: Any) -> str:
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [out], name=f"{op}_{len(nodes)}", **attrs))
        return out

    i = 0
    while len(nodes) < 1000:
        weights[f"w{i}"] = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
        y = add("Conv", x, f"w{i}", pads=[1, 1, 1, 1])
        y = add("BatchNormalization", y, "one", "nought", "nought", "one")
        y = add("Mul", y, add("Sigmoid", y))
        y = add("DequantizeLinear", add("QuantizeLinear", y, "scale", "zero"), "scale", "zero")
        rows = add("Concat", add("Slice", add("Shape", y), "c0", "c1"), "c8", "minus", axis=0)
        y = add("Reshape", add("Reshape", y, rows), add("Shape", x))
        x = add("Relu", add("Add", x, y))
        i += 1
    weights |= {"c0": np.int64([0]), "c1": np.int64([1]), "c8": np.int64([8])}
    graph = helper.make_graph(
        nodes,
        "many",
        [helper.make_tensor_value_info("x", 1, [1, 8, 8, 8])],
        [helper.make_tensor_value_info(x, 1, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "many.onnx")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_an_ensemble_of_a_hundred_trees_stays_small(tmp_path: Path) -> None:
    """One node with two million numbers: none of them is kept as an object, nor any list of them."""
    trees, depth, classes = 100, 9, 10
    inner = 2 ** (depth - 1) - 1
    per_tree = 2**depth - 1
    ids = np.tile(np.arange(per_tree), trees)
    tree = np.repeat(np.arange(trees), per_tree)
    is_inner = ids < inner
    rng = np.random.default_rng(0)
    leaves = np.arange(inner, per_tree)
    attrs = {
        "nodes_treeids": tree, "nodes_nodeids": ids,
        "nodes_featureids": np.where(is_inner, rng.integers(0, 64, len(ids)), 0),
        "nodes_values": np.where(is_inner, rng.standard_normal(len(ids)), 0),
        "nodes_truenodeids": np.where(is_inner, 2 * ids + 1, 0),
        "nodes_falsenodeids": np.where(is_inner, 2 * ids + 2, 0),
        "nodes_modes": np.where(is_inner, "BRANCH_LEQ", "LEAF"),
        "nodes_hitrates": np.ones(len(ids)), "nodes_missing_value_tracks_true": np.zeros(len(ids), int),
        "class_treeids": np.repeat(np.arange(trees), len(leaves) * classes),
        "class_nodeids": np.tile(np.repeat(leaves, classes), trees),
        "class_ids": np.tile(np.arange(classes), trees * len(leaves)),
        "class_weights": rng.random(trees * len(leaves) * classes),
        "classlabels_int64s": np.arange(classes),
    }
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
                            **{k: v.tolist() for k, v in attrs.items()})
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", 1, [None, 64])],
        [helper.make_tensor_value_info(n, t, None) for n, t in (("label", 7), ("scores", 1))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    check(model, tmp_path / "trees.onnx")
