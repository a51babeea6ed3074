"""The file: a header, four parts, and a digest for every byte.

    header     256 bytes: magic, version, places of the parts, digests
    manifest   JSON: what a run needs to know
    words      64-bit integers: the programs (see `tables`)
    details    JSON: what only a report or an error needs
    sums       digests of the blocks of the next part
    data       arrays, each at a multiple of 64 bytes; the part begins on a page

All numbers are little-endian. The header holds its own digest and that of
everything up to `data`; `sums` holds one of every block of `data`. So a changed
byte is found wherever it is. Nothing is read beyond what the header has been
proved to say.
"""

import mmap
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from rlx._kernels import _interp
from rlx.errors import FormatError, RlxError, file_error
from rlx.machine import available_cpus
from rlx.runtime.levels import LEVELS, rows_of

Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]

MAGIC = b"RLXAOT\x1a\n"
VERSION = 1
HEADER = 256
ALIGN = 64
PAGE = 4096
# Bytes of data per digest.
BLOCK = 1 << 18
_FIELDS = struct.Struct("<8sIIQ QQ QQ QQ QQ QQ I")
_META_AT, _HEADER_AT, _DIGEST = 128, 192, 64


class _Failed:
    def failed(self, status: int, node: int, value: int, bound: int, position: int) -> Exception:
        return RlxError(f"computing a digest failed with status {status}")


def digests(data: Bytes, block: int = BLOCK, level: str | None = None) -> Bytes:
    """The digests of the blocks of some bytes, 64 bytes each; on several threads when there is much.

    Parameters
    ----------
    level : str, optional
        ISA level of the kernel, which all give the same bytes; any that runs by default.
    """
    from rlx._kernels import _cpu

    count = -(-len(data) // block)
    result = np.zeros(_DIGEST * count, np.uint8)
    if not count:
        return result
    address = rows_of(level or _cpu.levels()[-1])[0]["digest.blocks"][0]

    def ints(*values: int) -> np.ndarray[tuple[Any, ...], np.dtype[np.int64]]:
        return np.array(values, np.int64)

    cost = len(data) // 8
    program = _interp.Program(
        ints(address), ints(count), ints(4), ints(1), ints(0), ints(cost), ints(block, len(data)), ints(0), ints(0, 1),
        ints(0, 0), ints(0, 2), 2, None)
    executor = _interp.Executor(program, [], [], _Failed(), 1)
    executor.bind(0, data)
    executor.bind(1, result)
    executor.run_bound(min(available_cpus(), 8))
    return result


def _one(data: Bytes, level: str | None = None) -> bytes:
    """The digest of some bytes as one block."""
    return digests(data, max(1, len(data)), level).tobytes() if len(data) else bytes(_DIGEST)


def pad(nbytes: int, to: int) -> int:
    """Bytes up to the next multiple."""
    return -nbytes % to


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Places of the arrays in `data`, and its length."""
    at, places = 0, []
    for n in sizes:
        places.append(at)
        at += n + pad(n, ALIGN)
    return places, at


def write(file: BinaryIO, manifest: bytes, words: bytes, details: bytes, arrays: Sequence[Bytes],
          read_back: Callable[[], Bytes]) -> None:
    """Write a whole file.

    Parameters
    ----------
    file : binary file
        Opened for writing, empty, seekable.
    arrays : sequence of uint8 arrays
        The data, in the order in which the manifest counts them.
    read_back : callable
        The bytes written so far, to compute the digests from.
    """
    sizes = [a.nbytes for a in arrays]
    places, total = _places(sizes)
    table = np.array([*places, *sizes], "<i8").tobytes()
    parts, at = [], HEADER
    for part in (manifest, table + words, details):
        parts.append((at, len(part)))
        at += len(part) + pad(len(part), ALIGN)
    sums = (at, _DIGEST * -(-total // BLOCK))
    data = (sums[0] + sums[1] + pad(sums[0] + sums[1], PAGE), total)
    file.write(bytes(HEADER))
    for part in (manifest, table + words, details):
        file.write(part + bytes(pad(len(part), ALIGN)))
    file.write(bytes(data[0] - sums[0]))
    for array in arrays:
        file.write(array.data)
        file.write(bytes(pad(array.nbytes, ALIGN)))
    file.flush()
    found = digests(read_back()[data[0] :])
    file.seek(sums[0])
    file.write(found.tobytes())
    file.flush()
    head = _FIELDS.pack(MAGIC, VERSION, HEADER, data[0] + total, *parts[0], *parts[1], *parts[2], *sums, *data,
                        len(arrays))
    head += bytes(_META_AT - len(head)) + _one(read_back()[HEADER : data[0]])
    head += _one(np.frombuffer(head, np.uint8))
    file.seek(0)
    file.write(head)
    file.flush()


class Container:
    """A file that has been found to be whole.

    Attributes
    ----------
    name : str
        What errors call it.
    manifest : memoryview
    words : int64 array
    details : memoryview
    """

    def __init__(self, raw: Bytes, name: str, verify: bool = True) -> None:
        self.name = name
        self.raw = raw
        if len(raw) < HEADER or raw[: len(MAGIC)].tobytes() != MAGIC:
            raise FormatError(f"{name}: must be an ahead-of-time file of rlx, got other bytes ({len(raw)} of them)")
        fields = _FIELDS.unpack(raw[: _FIELDS.size].tobytes())
        if fields[1] != VERSION:
            raise FormatError(f"{name}: the format's version must be {VERSION}, got {fields[1]}"
                              "\nhint: compile the model again with this version of rlx")
        if _one(raw[:_HEADER_AT]) != raw[_HEADER_AT : _HEADER_AT + _DIGEST].tobytes() or fields[2] != HEADER:
            raise FormatError(f"{name}: the header is damaged")
        if fields[3] != len(raw):
            raise FormatError(f"{name}: must be {fields[3]:,} bytes long, got {len(raw):,}: it has been cut off")
        starts, sizes = fields[4:14:2], fields[5:14:2]
        parts = list(zip(starts, sizes, strict=True))
        if any(at % ALIGN or at < HEADER or at > len(raw) or n > len(raw) - at for at, n in parts):
            raise FormatError(f"{name}: every part must lie inside the file, got {starts} and {sizes}")
        views = [raw[at : at + n] for at, n in parts]
        self.data = views[4]
        if _one(raw[HEADER : starts[4]]) != raw[_META_AT : _META_AT + _DIGEST].tobytes():
            raise FormatError(f"{name}: the description of the programs is damaged")
        self.sums = views[3]
        count = fields[14]
        if len(views[1]) % 8 or 16 * count > len(views[1]) or starts[4] + sizes[4] != len(raw):
            raise FormatError(f"{name}: the parts must fit together, got {starts} and {sizes}")
        self.manifest = views[0].data
        self.details = views[2].data
        words = views[1].view("<i8")
        self._places, self._sizes = words[:count].tolist(), words[count : 2 * count].tolist()
        self.words = words[2 * count :]
        if any(at < 0 or n < 0 or at % ALIGN or at + n > len(self.data)
               for at, n in zip(self._places, self._sizes, strict=True)):
            raise FormatError(f"{name}: every array must lie inside the file")
        if verify:
            self.verify()

    def verify(self) -> None:
        """Compare every byte of the data with its digest.

        Raises
        ------
        FormatError
            Tells the first block that differs.
        """
        found = digests(self.data)
        if len(found) != len(self.sums):
            raise FormatError(f"{self.name}: the data must have {len(found)} bytes of digests, got {len(self.sums)}")
        if not np.array_equal(found, self.sums):
            block = int((found != self.sums).argmax()) // _DIGEST
            at = len(self.raw) - len(self.data) + block * BLOCK
            raise FormatError(f"{self.name}: the data is damaged, first between bytes {at:,} and {at + BLOCK:,}")

    def array(self, i: Any) -> Bytes:
        """The bytes of array `i`; they cannot be written.

        Raises
        ------
        FormatError
            There is no such array.
        """
        if type(i) is not int or not 0 <= i < len(self._places):
            raise FormatError(f"{self.name}: an array's number must be in [0, {len(self._places)}), got {i!r}")
        at = self._places[i]
        return self.data[at : at + self._sizes[i]]


def open_file(path: str | os.PathLike[str], verify: bool = True) -> Container:
    """Map a file and check it.

    Raises
    ------
    FileError
        It cannot be read.
    FormatError
        It is no whole ahead-of-time file.
    """
    name = os.fspath(path)
    try:
        fd = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            if not os.fstat(fd).st_size:
                raise FormatError(f"{name}: must be an ahead-of-time file of rlx, got an empty one")
            # What follows reads all of it: pages are mapped at once, not one fault at a time.
            populate = getattr(mmap, "MAP_POPULATE", 0) if verify else 0
            view = mmap.mmap(fd, 0, mmap.MAP_PRIVATE | populate, mmap.PROT_READ)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, FormatError):
            raise
        raise file_error(f"load: the model must be a readable file, got {name!r} ({reason})", error) from None
    return Container(np.frombuffer(view, np.uint8), name, verify)


def check_level(level: Any, sources: Any, name: str) -> None:
    """Refuse programs for kernels that this process does not have.

    Raises
    ------
    FormatError
        They are for an ISA level above this machine's, or for other kernels.
    """
    from rlx import config
    from rlx._kernels import _cpu

    cap = config.isa()
    here = [x for x in _cpu.levels() if cap not in LEVELS or LEVELS.index(x) <= LEVELS.index(cap)]
    if level not in here:
        raise FormatError(f"{name}: programs must be for an ISA level of {here}, got {level!r}"
                          "\nhint: compile with CompileOptions(isa=...) for the weakest machine that is to run it")
    if rows_of(level)[2] != sources:
        raise FormatError(f"{name}: programs must be for the kernels of this build of rlx ({rows_of(level)[2]}),"
                          f" got {sources}\nhint: compile the model again")
