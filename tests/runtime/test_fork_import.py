"""A fork while another thread makes its first calls, which import modules."""

import os
import subprocess
import sys

import pytest

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
