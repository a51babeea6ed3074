"""A fork while another thread makes its first calls, which import modules."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import rlx

PROGRAM = """
import os, signal, sys, threading, time, rlx

def work():
    g = rlx.Graph("g")
    x = g.input("x", (8, 8))
    g.output("y", (x @ x).sum())
    rlx.compile(g)

def child():
    signal.alarm(20)
    try:
        work()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

thread = threading.Thread(target=work)
thread.start()
pids = []
for _ in range(20):
    time.sleep(0.004)
    pid = os.fork()
    if pid == 0:
        child()
    pids.append(pid)
print([os.waitpid(p, 0)[1] for p in pids])
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_of_a_fork_beside_first_calls_can_compile() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str([0] * 20), done.stderr


WAIT = """
import os, sys, threading, time
from rlx import forking

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "rlx.slow":
            entered.set()
            time.sleep(0.3)
        return None

entered = threading.Event()
sys.meta_path.insert(0, Finder())

def load():
    try:
        import rlx.slow
    except ImportError:
        ended.append(time.monotonic())

ended = []
thread = threading.Thread(target=load)
thread.start()
entered.wait()
pid = os.fork()
if pid == 0:
    os._exit(0 if ended and not forking._foreign() else 1)
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_waits_for_an_import_of_another_thread() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WAIT], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr


def test_a_portable_model_that_another_thread_is_importing_can_be_imported_in_a_child(tmp_path: pathlib.Path) -> None:
    program = """
import os, signal, sys, threading, time
import numpy as np
import rlx
from rlx.aot import source

read, entered = source.Source._read, threading.Event()

def slow(self):
    entered.set()
    time.sleep(0.5)
    return read(self)

m = rlx.load(sys.argv[1])
source.Source._read = slow
run = lambda: m.run({"x": np.ones((3, 4), np.float32)})["y"].tolist()
thread = threading.Thread(target=run)
thread.start()
assert entered.wait(10)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    os._exit(0 if run() == [[2.0] * 4] * 3 else 1)
thread.join()
print(os.waitpid(pid, 0)[1])
"""
    onnx = pytest.importorskip("onnx")
    nodes = [onnx.helper.make_node("Add", ["x", "x"], ["y"])]
    ports = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 4]) for n in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:]),
                                   opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    made = rlx.load(model.SerializeToString())
    path = str(tmp_path / "m.rlx")
    made.save(path, inputs={"x": np.ones((2, 4), np.float32)}, portable=True)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, path], capture_output=True, text=True,
                          timeout=60)
    assert done.stdout.strip() == "0", done.stderr
