"""TensorProto -> array, by reference into the file where that is possible."""

import mmap
import os
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, numpy_helper

from rlx import dtypes
from rlx.errors import FormatError
from rlx.onnx.elements import numpy_type
from rlx.onnx.wire import KEY

Array = npt.NDArray[Any]

def type_name(code: int) -> str:
    """Name of an ONNX element type for messages and signatures."""
    known = dtypes.from_onnx(code)
    if known is not None:
        return known.name
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"type {code}"


class TensorReader:
    """Reads tensors of one model: from its bytes, and from files beside it.

    Parameters
    ----------
    buffer : memoryview
        The serialised model, into which internal references point.
    folder : pathlib.Path, optional
        Where external data may lie; None forbids it.
    """

    def __init__(self, buffer: memoryview, folder: pathlib.Path | None) -> None:
        self.buffer = buffer
        self.folder = folder
        self._files: dict[str, memoryview] = {}
        self.maps: list[mmap.mmap] = []

    def array(self, t: TensorProto) -> Array:
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
        bits = 8 * dtype.itemsize
        if dtype.itemsize == 1 and not dtypes.from_onnx(t.data_type):
            bits = {"4": 4, "2": 2}.get(dtype.name[-1:], 8) if "int" in dtype.name else bits
            bits = 4 if "float4" in dtype.name else bits
        count = 1
        for d in shape:
            count *= d
        internal = next((e.value for e in t.external_data if e.key == KEY), None)
        if internal is not None:
            offset, size = (int(part) for part in internal.split(","))
            raw = self._part(self.buffer, offset, size, what)
        elif t.data_location == TensorProto.EXTERNAL:
            raw = self._external(t, (count * bits + 7) // 8, what)
        elif t.HasField("raw_data"):
            raw = memoryview(t.raw_data)
        else:
            return self._typed(t, shape, count, what)
        if len(raw) != (count * bits + 7) // 8:
            raise FormatError(
                f"{what}: data must be {(count * bits + 7) // 8} bytes for {type_name(t.data_type)}"
                f"{list(shape)}, got {len(raw)}"
            )
        if bits < 8:
            return self._unpack(t, raw, what)
        return np.frombuffer(raw, dtype, count).reshape(shape) if count else np.zeros(shape, dtype)

    @staticmethod
    def _part(buffer: memoryview, offset: int, size: int, what: str) -> memoryview:
        if offset < 0 or size < 0 or offset + size > len(buffer):
            raise FormatError(
                f"{what}: data must lie within the file of {len(buffer)} bytes, got offset {offset}, length {size}"
            )
        return buffer[offset : offset + size]

    def _external(self, t: TensorProto, expected: int, what: str) -> memoryview:
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
            raise FormatError(f"{what}: external data must be an existing file, got {location!r}")
        buffer = self.map(path)
        self._files[location] = buffer
        return buffer

    def map(self, path: str | pathlib.Path) -> memoryview:
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

    @staticmethod
    def _strings(t: TensorProto, shape: tuple[int, ...], what: str) -> Array:
        result = np.empty(len(t.string_data), object)
        try:
            result[:] = [s.decode() for s in t.string_data]
            return result.reshape(shape)
        except ValueError as error:
            raise FormatError(f"{what}: strings must be UTF-8 and fit {list(shape)}, got {error}") from None

    @staticmethod
    def _typed(t: TensorProto, shape: tuple[int, ...], count: int, what: str) -> Array:
        stored = max(len(t.float_data), len(t.int32_data), len(t.int64_data), len(t.double_data), len(t.uint64_data))
        if count > 8 * stored:
            raise FormatError(f"{what}: data must have {count} elements for {list(shape)}, got {stored}")
        if count == 0:
            return np.zeros(shape, numpy_type(t.data_type, what))
        try:
            return np.asarray(numpy_helper.to_array(t))
        except (ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"{what}: data must fit {type_name(t.data_type)}{list(shape)}, got {error}") from None

    @staticmethod
    def _unpack(t: TensorProto, raw: memoryview, what: str) -> Array:
        plain = TensorProto()
        plain.dims.extend(t.dims)
        plain.data_type = t.data_type
        plain.raw_data = bytes(raw)
        try:
            return np.asarray(numpy_helper.to_array(plain))
        except (ValueError, TypeError) as error:
            raise FormatError(f"{what}: packed data must fit its shape, got {error}") from None
