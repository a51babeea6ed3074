"""Compiled samples read and write nothing beyond the caller's arrays: those end at a page that may not be touched.

Run in a process of its own per family: a touch ends the process.
"""

import subprocess
import sys

import pytest

from rlx.ops import TABLE

SCRIPT = """
import ctypes, mmap, sys
import numpy as np
import rlx
from rlx.ops import TABLE
from rlx.runtime.executable import CompiledGraph
from rlx.testing.optest import build, samples_of

libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
keep = []

def guarded(like, at_end=True):
    size = -(-max(1, like.nbytes) // PAGE) * PAGE
    area = mmap.mmap(-1, size + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for start in (address, address + PAGE + size):
        assert libc.mprotect(ctypes.c_void_p(start), PAGE, 0) == 0
    offset = PAGE + (size - like.nbytes if at_end else 0)
    out = np.frombuffer(area, np.uint8, like.nbytes, offset).view(like.dtype).reshape(like.shape)
    out[...] = like
    keep.append(area)
    return out

family, level = sys.argv[1], sys.argv[2]
for op in TABLE.values():
    if op.family != family or op.internal or op.samples is None:
        continue
    for dtype in dict.fromkeys((op.dtypes[0], op.dtypes[len(op.dtypes) // 2], op.dtypes[-1])):
        for i, sample in enumerate(samples_of(op, dtype)[:12]):
            print(op.name, dtype, i, file=sys.stderr, flush=True)
            graph, feeds = build(op, sample)
            exe = CompiledGraph(graph, rlx.CompileOptions(threads=1, isa=level))
            want = exe.run(feeds)
            for at_end in (True, False):
                given = {k: guarded(v, at_end) for k, v in feeds.items()}
                out = None if op.has("dynamic") else {k: guarded(np.zeros_like(v), at_end) for k, v in want.items()}
                got = exe.run(given, out=out)
                for g, w in zip(got, want, strict=True):
                    assert op.has("random") or g.tobytes() == w.tobytes(), (op.name, dtype, i)
    keep.clear()
print("done")
"""


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize(
    "family", sorted({o.family for o in TABLE.values() if o.samples is not None and not o.internal})
)
def test_no_byte_beyond_an_array_is_touched(family: str, level: str) -> None:
    from rlx.runtime.kernels import available_levels

    if level not in available_levels():
        pytest.skip(f"this machine has no {level}")
    done = subprocess.run([sys.executable, "-c", SCRIPT, family, level], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, f"status {done.returncode} at {done.stderr[-600:]}"
