"""Broken files: every cut and many random changes end in an error of ours or in a run, within bounds.

A changed trip count may ask for 2**50 trips: such a run must end when a signal comes.
"""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = """
import resource, signal, sys, warnings
import numpy as np, onnx
from onnx import helper
import rlx
from rlx.testing.onnx_models import info, proto

warnings.simplefilter("ignore")
kind, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
then = helper.make_graph([helper.make_node("Neg", ["h"], ["t"])], "then", [], [info("t")])
orelse = helper.make_graph([helper.make_node("Relu", ["h"], ["e"])], "else", [], [info("e")])
body = helper.make_graph(
    [helper.make_node("Add", ["s", "s"], ["s2"]), helper.make_node("Identity", ["go"], ["g2"])], "body",
    [info("i", np.int64(0)), info("go", np.asarray(True)), info("s", x)], [info("g2"), info("s2")])
nodes = [
    helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]), helper.make_node("Shape", ["c"], ["n"]),
    helper.make_node("Reshape", ["c", "shape"], ["r"]), helper.make_node("MatMul", ["r", "m"], ["h"]),
    helper.make_node("If", ["p"], ["d"], then_branch=then, else_branch=orelse),
    helper.make_node("Loop", ["trips", "", "d"], ["l"], body=body),
    helper.make_node("Slice", ["l", "a", "b"], ["k"]), helper.make_node("Pad", ["k", "pads"], ["q"]),
    helper.make_node("Expand", ["q", "big"], ["v"]), helper.make_node("NonZero", ["v"], ["z"]),
    helper.make_node("Concat", ["v", "v"], ["y"], axis=0),
]
constants = {"w": np.ones((3, 3, 3), np.float32), "shape": np.int64([2, -1]), "m": np.ones((12, 5), np.float32),
    "p": np.asarray(True), "trips": np.int64(3), "a": np.int64([0]), "b": np.int64([9]),
    "pads": np.int64([0, 1, 0, 1]), "big": np.int64([2, 7])}
base = proto(nodes, {"x": x}, ["y", "z"], constants).SerializeToString()
rlx.load(base, threads=1).run({"x": x})

class TooLong(BaseException):
    pass

def alarm(*args):
    raise TooLong

signal.signal(signal.SIGALRM, alarm)
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
for seed in range(first, last):
    rng = np.random.default_rng(seed)
    data = bytearray(base)
    if kind == "cut":
        data = data[: seed * len(base) // last]
    else:
        for _ in range(int(rng.integers(1, 6))):
            at = int(rng.integers(len(data)))
            data[at] = int(rng.integers(256)) if rng.random() < 0.5 else data[at] ^ (1 << int(rng.integers(8)))
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        m = rlx.load(bytes(data), threads=1)
        m.run({k: x if t.dtype == "f32" else np.zeros((1,), np.int64) for k, t in m.signature.inputs.items()})
    except TooLong:
        assert b"Loop" in data, seed
    except rlx.RlxError as error:
        assert str(error)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
"""


@pytest.mark.parametrize(("kind", "first", "last"), [("flip", 0, 100), ("flip", 100, 200), ("cut", 0, 60)])
def test_broken_files_are_refused_or_run(kind: str, first: int, last: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(first), str(last)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "done"


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_mutated_models_are_refused_or_run(first: int) -> None:
    """Names, attributes, constants, types, nesting and bytes; within 2 GiB and a few seconds each."""
    tool = pathlib.Path(__file__).parents[2] / "tools" / "fuzz_onnx.py"
    done = subprocess.run([sys.executable, str(tool), str(first), str(first + 250)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\nlast seeds: {done.stderr[-300:]}"
