"""A file's programs, ready to run: what executables, models and graphs of files have in common."""

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx.aot.container import Bytes, Container, check_level, open_file
from rlx.aot.proof import Proof
from rlx.aot.tables import Linker, Table
from rlx.aot.verify import verify
from rlx.errors import FormatError, RlxError, SizeError
from rlx.machine import default_threads, machine_bytes

if TYPE_CHECKING:
    from rlx.aot.programs import Reader
    from rlx.compiler import Compiled

# What malformed content makes Python raise before a check of ours does.
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


class malformed:
    """Turns what malformed content makes Python raise into FormatError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, MALFORMED) and not isinstance(error, RlxError):
            raise FormatError(f"{self.name}: must be well formed, got {type(error).__name__}: {error}") from error


class File:
    """A file whose description has been read.

    Parameters
    ----------
    source : path or bytes
    verify : bool
        Compare the data with its digests now.
    trusted : bool
        Link programs without a proof of what their calls touch.

    Attributes
    ----------
    kind : str
        `executable`, `model` or `graph`.
    body : dict
        What belongs to the kind.
    """

    def __init__(self, source: Any, verify_data: bool = True, trusted: bool = False) -> None:
        self.trusted = trusted
        if isinstance(source, (bytes, bytearray, memoryview)):
            self.container = Container(_aligned(np.frombuffer(source, np.uint8)), "load", verify_data)
        else:
            self.container = open_file(os.fspath(source), verify_data)
        self.name = self.container.name
        with malformed(self.name):
            manifest = json.loads(bytes(self.container.manifest))
            self.kind: str = manifest["kind"]
            self.title = str(manifest["name"])
            self.body: dict[str, Any] = manifest["body"]
            self.level: str = manifest["level"]
            self.made_by = str(manifest["rlx"])
            self._spec: Any = manifest
        self._details: dict[str, Any] | None = None
        self._linker: Linker | None = None
        self._reader: Reader | None = None
        self._proof: Proof | None = None
        self._proved: set[int] = set()
        self._compiled: dict[int, Compiled] = {}

    @property
    def details(self) -> dict[str, Any]:
        """What only reports and errors need."""
        if self._details is None:
            with malformed(self.name):
                self._details = dict(json.loads(bytes(self.container.details)))
        return self._details

    @property
    def linker(self) -> Linker:
        """The programs, for the kernels of this process."""
        if self._linker is None:
            check_level(self.level, self._spec["sources"], self.name)
            with malformed(self.name):
                tables = [Table(s, self.container.words, self.name) for s in self._spec["programs"]]
                least = self._spec["split_ns"]
                if type(least) is int and 0 < least < 1 << 40:
                    _interp.set_split_ns(least)
                self._linker = Linker(self.level, self._spec["kernels"], self._spec["ews"], tables, verify, self.name)
        return self._linker

    @property
    def proof(self) -> Proof:
        """Proves the programs."""
        if self._proof is None:
            self._proof = Proof(self.linker)
        return self._proof

    def prove(self, number: int, program: int, weights: Sequence[Any]) -> None:
        """Prove a variant's program over its constants, once; nothing for a file that is trusted."""
        if not self.trusted and number not in self._proved:
            self.proof.prove(program, weights)
            self._proved.add(number)

    @property
    def reader(self) -> "Reader":
        """The programs in full."""
        if self._reader is None:
            from rlx.aot.programs import Reader

            self._reader = Reader(self)
        return self._reader

    def compiled(self, number: int) -> "Compiled":
        """What compiling gave for a variant."""
        found = self._compiled.get(number)
        if found is None:
            from rlx.aot.programs import compiled_of

            found = self._compiled[number] = compiled_of(self, number)
        return found

    @property
    def ew_names(self) -> list[str]:
        """Micro-kernels by number."""
        return [str(name) for name, _ in self._spec["ews"]]

    @property
    def variants(self) -> list[Any]:
        """Program and arrays of every compiled shape."""
        found: list[Any] = self._spec["variants"]
        return found

    def threads(self, threads: int | None) -> int:
        """Threads of a run: as asked for now, as compiled, or the default."""
        kept = self._spec["threads"]
        return threads or (kept if type(kept) is int and kept > 0 else default_threads())

    def state(self) -> _interp.RunState:
        """The random numbers' state when the file was written."""
        with malformed(self.name):
            seed, counter, backend = self._spec["state"]
            return _interp.RunState(seed, counter, 1 if backend else 0)


class LoadedVariant:
    """One program of a file with its scratch; stands in for `rlx.runtime.variant.Variant`.

    Parameters
    ----------
    number : int
        Of the variant.
    """

    def __init__(self, file: File, number: int, threads: int, state: _interp.RunState | None = None) -> None:
        self.file = file
        self.number = number
        self.threads = threads
        self.name = file.title
        self.raw_outputs: list[Any] | None = None
        self.nan_check = None
        self.closed = False
        with malformed(file.name):
            spec = file.variants[number]
            index = spec["program"]
            if type(index) is not int or not 0 <= index < len(file.linker.tables):
                raise FormatError(f"{file.name}: a variant must have a program, got {index!r}")
            self.table = table = file.linker.tables[index]
            self.linked = file.linker.link(index)
            if table.arena + sum(_nbytes(p) for p in table.outputs) > machine_bytes():
                raise SizeError(f"{file.name}: a run must fit this machine's {machine_bytes():,} bytes,"
                                f" got {table.arena:,}")
            slots = range(1, table.n_slots)
            ports = [(n, dtypes.BY_NAME[d].numpy, s, slot) for (n, d, s), slot in
                     zip((*table.inputs, *table.outputs), slots, strict=False)]
            n = len(table.inputs)
            helper = _Later(lambda: helper_of(file, number))
            self.executor = _interp.Executor(self.linked, ports[:n], ports[n:], helper, threads)
            self.executor.limit = table.threads
            self.executor.zero_denormals = bool(table.zero_denormals)
            self.executor.source = _Later(lambda: file.compiled(number).program)
            if state is not None:
                self.executor.state = state
            raw = np.empty(max(64, table.arena) + 64, np.uint8)
            start = -raw.ctypes.data % 64
            self.scratch = raw[start : start + max(64, table.arena)]
            self.executor.bind(0, self.scratch)
            arrays = spec["arrays"]
            if len(arrays) != len(table["weight_nbytes"]):
                raise FormatError(f"{file.name}: a variant must have one array per weight, got {len(arrays)}")
            self.complete = True
            bound: list[Any] = [None] * len(arrays)
            for i, (a, nbytes) in enumerate(zip(arrays, table["weight_nbytes"].tolist(), strict=True)):
                if a == -1:
                    if table["weight_param"][i] < 0:
                        raise FormatError(f"{file.name}: a constant must have its array")
                    self.complete = False
                    continue
                array = file.container.array(a)
                if len(array) < nbytes:
                    raise FormatError(f"{file.name}: a weight must have {nbytes} bytes, got {len(array)}")
                self.executor.bind(table.weight_slot(i), array)
                bound[i] = array
            file.prove(number, index, bound)

    @property
    def compiled(self) -> "Compiled":
        """The program in full, for reports."""
        return self.file.compiled(self.number)

    def set_state(self, state: _interp.RunState) -> None:
        """Draw random numbers from `state`."""
        self.executor.state = state


def _aligned(raw: Bytes) -> Bytes:
    """Bytes at an address that arrays of any type may have."""
    if raw.ctypes.data % 16 == 0:
        return raw
    room = np.empty(len(raw) + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + len(raw)] = raw
    return room[start : start + len(raw)]


def _nbytes(port: tuple[str, str, tuple[int, ...]]) -> int:
    n = dtypes.BY_NAME[port[1]].itemsize
    for d in port[2]:
        n *= d
    return n


def helper_of(file: File, number: int) -> Any:
    """The slow paths of a variant's executor."""
    from rlx.runtime.binding import Helper

    program = file.compiled(number).program
    return Helper(program.inputs, program.outputs, program.nodes, file.title)


class _Later:
    """Something that is made when it is first asked for anything."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)


__all__ = ["MALFORMED", "Bytes", "File", "LoadedVariant", "malformed"]
