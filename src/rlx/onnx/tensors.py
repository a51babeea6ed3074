"""Tensor of a file -> array, by reference into the file where that is possible."""

import mmap
import os
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import FileError, FormatError, MissingFileError, file_error
from rlx.onnx.elements import HOST_TYPES, STRING, numpy_type
from rlx.onnx.messages import Tensor

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

# Code of data that lies in a file beside.
_EXTERNAL = 1

# The list of a tensor that holds numbers of an element type; others are ints of 32 bits.
_LISTS = {
    1: "float_data",
    7: "int64_data",
    11: "double_data",
    12: "uint64_data",
    13: "uint64_data",
    14: "float_data",
    15: "double_data",
}


def type_name(code: int) -> str:
    """Name of an ONNX element type for messages and signatures."""
    known = dtypes.from_onnx(code)
    if known is not None:
        return known.name
    if code in HOST_TYPES:
        return str(np.dtype(HOST_TYPES[code]).name)
    return {STRING: "string", 0: "undefined"}.get(code, f"type {code}")


class TensorReader:
    """Reads tensors of one model: from its bytes, and from files beside it.

    Parameters
    ----------
    buffer : memoryview
        The serialised model, into which large arrays point.
    folder : str, optional
        Where external data may lie; None forbids it.
    """

    def __init__(self, buffer: memoryview, folder: str | None) -> None:
        self.buffer = buffer
        self.folder = folder
        self._files: dict[str, memoryview] = {}
        self.maps: list[mmap.mmap] = []

    def array(self, t: Tensor) -> Array:
        """The tensor's values. Strings come as objects.

        Raises
        ------
        FormatError
            The tensor is malformed, or its data lies where it may not.
        """
        what = f"tensor {t.name!r}"
        shape = tuple(t.dims)
        if any(d < 0 for d in shape):
            raise FormatError(f"{what}: sizes must be >= 0, got {list(shape)}")
        dtype = numpy_type(t.data_type, what)
        if dtype.kind == "O":
            return self._strings(t, shape, what)
        bits = _bits(t.data_type, dtype)
        count = 1
        for d in shape:
            count *= d
        raw: bytes | memoryview
        if t.data_location == _EXTERNAL:
            raw = self._external(t, (count * bits + 7) // 8, what)
        elif t.raw_data is not None:
            raw = t.raw_data
        else:
            return self._typed(t, shape, count, what)
        if len(raw) != (count * bits + 7) // 8:
            raise FormatError(
                f"{what}: data must be {(count * bits + 7) // 8} bytes for {type_name(t.data_type)}"
                f"{list(shape)}, got {len(raw)}"
            )
        if bits < 8:
            return _unpack(np.frombuffer(raw, np.uint8), dtype, bits, count).reshape(shape)
        return np.frombuffer(raw, dtype, count).reshape(shape) if count else np.zeros(shape, dtype)

    @staticmethod
    def _part(buffer: memoryview, offset: int, size: int, what: str) -> memoryview:
        if offset < 0 or size < 0 or offset + size > len(buffer):
            raise FormatError(
                f"{what}: data must lie within the file of {len(buffer)} bytes, got offset {offset}, length {size}"
            )
        return buffer[offset : offset + size]

    def _external(self, t: Tensor, expected: int, what: str) -> memoryview:
        entries = {e.key: e.value for e in t.external_data}
        location = entries.get("location", "")
        try:
            offset = int(entries.get("offset", "0"))
            size = int(entries.get("length", str(expected)))
        except ValueError:
            raise FormatError(f"{what}: offset and length must be numbers, got {entries}") from None
        return self._part(self._file(location, what), offset, size, what)

    def _file(self, location: str, what: str) -> memoryview:
        found = self._files.get(location)
        if found is not None:
            return found
        if self.folder is None:
            raise FormatError(f"{what}: external data {location!r} cannot be read for a model given as bytes")
        if not location or "\x00" in location or os.path.isabs(location) or "\\" in location:
            raise FormatError(
                f"{what}: external data must be a relative path below the model's folder, got {location!r}"
            )
        base = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(base, location))
        if os.path.commonpath([base, path]) != base or path == base:
            raise FormatError(f"{what}: external data must lie below the model's folder, got {location!r}")
        if not os.path.isfile(path):
            kind = FileError if os.path.exists(path) else MissingFileError
            raise kind(f"{what}: external data must be an existing file, got {location!r}")
        try:
            buffer = self.map(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise file_error(f"{what}: external data must be a readable file, got {location!r} ({reason})", error
                             ) from None
        self._files[location] = buffer
        return buffer

    def give(self, location: str, data: memoryview) -> None:
        """The content of a file beside the model, which is not looked for."""
        self._files[location] = data

    def map(self, path: str) -> memoryview:
        """A read-only map of a file."""
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            made = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.maps.append(made)
        return memoryview(made)

    def release_pages(self) -> None:
        """Tell the system that the mapped files need not stay in memory; they are read again on use."""
        for made in self.maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                made.madvise(mmap.MADV_DONTNEED)

    def discard(self, array: Array) -> None:
        """As `release_pages`, of the pages that lie wholly inside an array."""
        first = array.ctypes.data
        for made in self.maps:
            start = np.frombuffer(made, np.uint8).ctypes.data
            low = -(-(first - start) // mmap.PAGESIZE) * mmap.PAGESIZE
            high = (first - start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            if 0 <= low < high <= len(made) and hasattr(mmap, "MADV_DONTNEED"):
                made.madvise(mmap.MADV_DONTNEED, low, high - low)

    @staticmethod
    def _strings(t: Tensor, shape: tuple[int, ...], what: str) -> Array:
        result = np.empty(len(t.string_data), object)
        try:
            result[:] = [s.decode() for s in t.string_data]
            return result.reshape(shape)
        except ValueError as error:
            raise FormatError(f"{what}: strings must be UTF-8 and fit {list(shape)}, got {error}") from None

    @staticmethod
    def _typed(t: Tensor, shape: tuple[int, ...], count: int, what: str) -> Array:
        dtype = numpy_type(t.data_type, what)
        if count == 0:
            return np.zeros(shape, dtype)
        name = _LISTS.get(t.data_type, "int32_data")
        stored = getattr(t, name)
        bits = _bits(t.data_type, dtype)
        parts = (count * bits + 7) // 8 if bits < 8 else 2 * count if dtype.kind == "c" else count
        if len(stored) != parts:
            raise FormatError(
                f"{what}: {name} must have {parts} numbers for {type_name(t.data_type)}{list(shape)}, got {len(stored)}"
            )
        numbers: Array = np.asarray(stored)
        if bits < 8:
            return _unpack(numbers.astype(np.uint8), dtype, bits, count).reshape(shape)
        if dtype.kind == "c":
            return numbers.view(dtype).reshape(shape)
        if name == "int32_data" and dtype.kind not in "iub":  # the bits of a float
            return numbers.astype(f"u{dtype.itemsize}").view(dtype).reshape(shape)
        return numbers.astype(dtype).reshape(shape)


def _bits(code: int, dtype: np.dtype[Any]) -> int:
    """Bits of one element in a file."""
    if code in HOST_TYPES and dtype.itemsize == 1 and dtype.name != "float8_e8m0fnu":
        return 2 if dtype.name.endswith("int2") else 4
    return 8 * dtype.itemsize


def _unpack(packed: Array, dtype: np.dtype[Any], bits: int, count: int) -> Array:
    """Elements of 2 or 4 bits, the first in the lowest bits of a byte."""
    each = (packed[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8((1 << bits) - 1)
    values = each.reshape(-1)[:count]
    if dtype.name.startswith("float"):
        return values.view(dtype)
    if dtype.name.startswith("int"):
        top = 1 << bits - 1
        return ((values.astype(np.int8) ^ top) - top).astype(np.int8).astype(dtype)
    return values.astype(dtype)
