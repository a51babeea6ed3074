"""Hostile ahead-of-time files: numbers of whole ones changed, digests made right again, loaded and run.

Every mutant runs in a forked child, whose inputs and scratch end where a page begins
that nobody may touch. It must end in a result or in an error of rlx: never in a
signal, never without an end.
"""

import collections
import ctypes
import json
import mmap
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

import rlx
from rlx.aot.tables import COLUMNS
from rlx.testing.files import parts, reseal

Array = npt.NDArray[Any]
PAGE = mmap.PAGESIZE
# Seconds after which a run is cancelled, and after which the child has hung.
CANCEL, HUNG = 3.0, 30.0
# Failures after which a campaign ends.
MOST_FAILURES = 20
# Memory of a child beyond what it has when it starts.
ROOM = 3 << 30


@dataclass
class Subject:
    """A whole file and inputs that it runs with."""

    name: str
    data: bytes
    feeds: dict[str, Any]


def guarded(nbytes: int) -> Array:
    """Bytes that end (up to their alignment of 64) where a page begins that must not be touched."""
    size = -(-max(1, nbytes) // PAGE) * PAGE
    raw = mmap.mmap(-1, size + 2 * PAGE)
    base = np.frombuffer(raw, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    for at in (0, size + PAGE):
        if libc.mprotect(ctypes.c_void_p(base.ctypes.data + at), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = PAGE + (size - nbytes) // 64 * 64
    return base[start : start + nbytes]


def guarded_copy(array: Any) -> Any:
    """An array in guarded memory; anything else as it is."""
    if not isinstance(array, np.ndarray) or array.dtype == object:
        return array
    flat = guarded(array.nbytes)
    flat[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.view(array.dtype).reshape(array.shape)


def _number(rng: Random, old: int, like: list[int]) -> int:
    choices: list[Callable[[], int]] = [
        lambda: 0, lambda: 1, lambda: -1, lambda: old + 1, lambda: old - 1, lambda: 2 * old, lambda: old // 2,
        lambda: -old, lambda: rng.choice(like), lambda: rng.choice(like), lambda: old + rng.choice((4, 8, 16, 64, -64)),
        lambda: 1 << rng.randrange(62), lambda: rng.getrandbits(62), lambda: old ^ 1 << rng.randrange(20)]
    return max(-(1 << 63), min((1 << 63) - 1, rng.choice(choices)()))


def _change_words(rng: Random, data: bytearray) -> str:
    """One number of a program."""
    where = parts(bytes(data))
    manifest = json.loads(bytes(data[where["manifest"]]))
    if not manifest["programs"]:
        return _change_json(rng, data, "manifest")
    number = rng.randrange(len(manifest["programs"]))
    spec = manifest["programs"][number]["columns"]
    full = [k for k, (_, n) in enumerate(spec) if n]
    # attributes are most of a program, and most of what a kernel follows
    column = COLUMNS.index("words") if rng.random() < 0.4 and spec[COLUMNS.index("words")][1] else rng.choice(full)
    at, n = spec[column]
    words = data[where["words"]]
    view = np.frombuffer(words, "<i8")
    arrays = int.from_bytes(data[104:108], "little")  # their places and sizes come first
    base = 2 * arrays + at
    i = rng.randrange(n)
    new = _number(rng, int(view[base + i]), view[base : base + n].tolist())
    place = where["words"].start + 8 * (base + i)
    text = f"program {number} {COLUMNS[column]}[{i}] {int(view[base + i])} -> {new}"
    data[place : place + 8] = new.to_bytes(8, "little", signed=True)
    return text


def _change_json(rng: Random, data: bytearray, part: str) -> str:
    """One number of the manifest or the details, by another of as many digits."""
    where = parts(bytes(data))[part]
    found = list(re.finditer(rb"(?<=[\[,:])\d+(?=[\],}])", bytes(data[where])))
    if not found:
        return "nothing"
    match = rng.choice(found)
    new = str(rng.choice([0, rng.randrange(10 ** len(match[0])), int(match[0]) + 1])).encode()[: len(match[0])]
    new = b" " * (len(match[0]) - len(new)) + new
    start = where.start + match.start()
    data[start : start + len(new)] = new
    return f"{part} {match[0].decode()} -> {new.decode()}"


def _change_data(rng: Random, data: bytearray) -> str:
    """Four bytes of an array."""
    where = parts(bytes(data))["data"]
    if where.stop - where.start < 4:
        return "nothing"
    at = where.start + rng.randrange((where.stop - where.start) // 4) * 4
    new = rng.choice([0, 1, 0xFFFFFFFF, 0x7FC00000, rng.getrandbits(32), rng.getrandbits(8)])
    data[at : at + 4] = new.to_bytes(4, "little")
    return f"data at {at} -> {new}"


def mutate(rng: Random, data: bytes) -> tuple[bytes, str]:
    """A sealed mutant, and what was changed."""
    changed, told = bytearray(data), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        told.append(_change_words(rng, changed) if kind < 0.8 else _change_data(rng, changed) if kind < 0.88 else
                    _change_json(rng, changed, "manifest" if kind < 0.95 else "details"))
    return reseal(changed), "; ".join(told)


def _exercise(data: bytes, feeds: dict[str, Any], threads: int) -> str:
    """Load and run; how it ended."""
    kept: list[Any] = []
    timer = threading.Timer(CANCEL, lambda: [m.cancel() for m in kept])
    timer.daemon = True
    timer.start()
    try:
        model = rlx.load(data, threads=threads)
        for variant in getattr(model, "_mapped", None) or [s.variant for s in model._core.segments()]:
            scratch = guarded(variant.scratch.nbytes)
            variant.executor.bind(0, scratch)
            kept.append(variant.executor)
        given = {k: guarded_copy(v) for k, v in feeds.items()}
        model.run(given)
        if hasattr(model, "get_param"):
            names = list(model.signature.params)
            for name in names:
                model.set_param(name, np.zeros_like(model.get_param(name)))
            if names:
                model.run(given)
        return "ran"
    except rlx.RlxError as error:
        return type(error).__name__
    except MemoryError:
        return "MemoryError"


def trial(data: bytes, feeds: dict[str, Any], threads: int = 1) -> str:
    """What becomes of a file in a child: how it ended, or `signal N`, `hung`, or the exception that is not rlx's."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        code = 1
        try:
            with open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * PAGE
            resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.write(writer, _exercise(data, feeds, threads).encode()[:500])
            code = 0
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode()[:500])
        finally:
            os._exit(code)
    os.close(writer)
    end = time.monotonic() + HUNG
    status = None
    while status is None and time.monotonic() < end:
        pid, status_ = os.waitpid(child, os.WNOHANG)
        status = status_ if pid else None
        time.sleep(0.0005)
    text = ""
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        text = "hung"
    elif os.WIFSIGNALED(status):
        text = f"signal {os.WTERMSIG(status)}"
    else:
        text = os.read(reader, 1000).decode(errors="replace")
        if os.WEXITSTATUS(status):
            text = f"raised {text}"
    os.close(reader)
    return text


def is_failure(text: str) -> bool:
    """Whether a mutant ended in a way that must not be."""
    return text.startswith(("signal", "hung", "raised")) or not text


def campaign(subjects: list[Subject], count: int, seed: int, threads: int = 1
             ) -> Iterator[tuple[str, str, str, int]]:
    """Mutants of all subjects in turn: subject, what was changed, how it ended, its number."""
    for subject in subjects:  # also imports what children need
        end = _exercise(subject.data, subject.feeds, threads)
        if end != "ran":
            raise AssertionError(f"{subject.name}: the file itself must run, got {end}")
    for i in range(count):
        subject = subjects[i % len(subjects)]
        rng = Random(f"{seed} {i}")
        data, told = mutate(rng, subject.data)
        yield subject.name, told, trial(data, subject.feeds, threads), i


def report(results: Iterator[tuple[str, str, str, int]]) -> int:
    """Print failures and how many mutants ended how; the number of failures."""
    ends: collections.Counter[str] = collections.Counter()
    failures = 0
    for name, told, end, number in results:
        ends[end if not is_failure(end) else end.split(":")[0]] += 1
        if is_failure(end):
            failures += 1
            print(f"{number}: {name}: {told}: {end}", flush=True)
            if failures == MOST_FAILURES:
                break
    print(", ".join(f"{n} {end}" for end, n in ends.most_common()), f"; {failures} failures", file=sys.stdout)
    return failures
