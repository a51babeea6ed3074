"""Python values as JSON: numbers, texts, tuples, dicts, arrays by their number in the file. Nothing is evaluated."""

import binascii
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.aot.container import Bytes, Container
from rlx.errors import FormatError
from rlx.onnx.elements import HOST_TYPES
from rlx.onnx.plans import ABSENT
from rlx.onnx.steps import Maps, Slot

_TYPES = {np.dtype(t).name: np.dtype(t) for t in (*(d.numpy for d in dtypes.ALL), *HOST_TYPES.values())}
_TYPES["object"] = np.dtype(object)
_BY_NUM = {t.num: name for name, t in _TYPES.items()}


def numpy_by_number(number: int) -> np.dtype[Any]:
    """The element type with a number of this process."""
    found: np.dtype[Any] = _TYPES[_BY_NUM[number]]
    return found


class Arrays:
    """Arrays of a file that is being written; what lies at one address is written once."""

    def __init__(self) -> None:
        self.items: list[Bytes] = []
        self._known: dict[tuple[int, int], int] = {}
        self._keep: list[object] = []

    def add(self, array: Any) -> int:
        """Number of an array's bytes."""
        flat = np.ascontiguousarray(array)
        key = (flat.ctypes.data, flat.nbytes)
        found = self._known.get(key) if flat.nbytes else None
        if found is None:
            self._keep.append(flat)
            self.items.append(flat.reshape(-1).view(np.uint8) if flat.nbytes else np.zeros(0, np.uint8))
            found = self._known[key] = len(self.items) - 1
        return found


def encode(value: Any, arrays: Arrays, what: str) -> Any:
    """A value in a form that JSON keeps.

    Raises
    ------
    FormatError
        It is of a kind that files do not hold.
    """
    if value is None or isinstance(value, (bool, int, str)) and type(value).__module__ == "builtins":
        return value
    if value is ABSENT:
        return {"absent": 0}
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is complex:
        return {"complex": [encode(value.real, arrays, what), encode(value.imag, arrays, what)]}
    if type(value) is list:
        return [encode(v, arrays, what) for v in value]
    if isinstance(value, Maps):
        return {"maps": [encode(v, arrays, what) for v in value]}
    if type(value) is tuple:
        return {"tuple": [encode(v, arrays, what) for v in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [encode(v, arrays, what) for v in sorted(value, key=repr)]}
    if isinstance(value, bytes):
        return {"bytes": binascii.b2a_base64(value, newline=False).decode()}
    if isinstance(value, Slot):
        return {"slot": [value.index, value.name, value.part]}
    if isinstance(value, dtypes.DType):
        return {"type": value.name}
    if isinstance(value, np.dtype):
        return {"numpy": value.name}
    if isinstance(value, np.generic):
        return {"scalar": encode(np.asarray(value), arrays, what)}
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"objects": [list(value.shape), [encode(v, arrays, what) for v in value.reshape(-1).tolist()]]}
        if value.dtype.name in _TYPES:
            return {"array": [value.dtype.name, list(value.shape), arrays.add(value)]}
    if isinstance(value, Mapping):
        return {"dict": [[encode(k, arrays, what), encode(v, arrays, what)] for k, v in value.items()]}
    raise FormatError(f"{what}: a file holds numbers, texts and arrays, and collections of them,"
                      f" got {type(value).__name__}")


def decode(item: Any, file: Container) -> Any:
    """The value behind what `encode` gave."""
    if not isinstance(item, (dict, list)):
        return item
    if isinstance(item, list):
        return [decode(v, file) for v in item]
    ((kind, body),) = item.items()
    if kind == "array":
        name, shape, number = body
        if name not in _TYPES or name == "object" or not all(type(d) is int and 0 <= d < 2**60 for d in shape):
            raise FormatError(f"{file.name}: an array must have a known type and shape, got {name!r} {shape}")
        return np.ndarray(tuple(shape), _TYPES[name], _exact(file.array(number), name, shape, file).data)
    if kind == "objects":
        result = np.empty(len(body[1]), object)
        result[:] = [decode(v, file) for v in body[1]]
        return result.reshape(body[0])
    if kind == "scalar":
        return decode(body, file)[()]
    if kind == "slot":
        return Slot(_int(body[0]), str(body[1]), None, None, None if body[2] is None else _int(body[2]))
    if kind == "dict":
        return {decode(k, file): decode(v, file) for k, v in body}
    if kind in ("tuple", "set", "maps"):
        return {"tuple": tuple, "set": set, "maps": Maps}[kind]([decode(v, file) for v in body])
    if kind == "bytes":
        return binascii.a2b_base64(body)
    if kind == "float":
        return float(body)
    if kind == "complex":
        return complex(decode(body[0], file), decode(body[1], file))
    if kind == "type":
        return dtypes.BY_NAME[body]
    if kind == "numpy":
        return _TYPES[body]
    if kind == "absent":
        return ABSENT
    raise FormatError(f"{file.name}: a value of a kind that is known must stand here, got {kind!r}")


def _int(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FormatError(f"a place must be an int >= 0, got {value!r}")
    return value


def _exact(raw: Bytes, name: str, shape: Any, file: Container) -> Bytes:
    want = _TYPES[name].itemsize * math.prod(shape)
    if len(raw) != want:
        raise FormatError(f"{file.name}: an array of {name} {shape} must have {want} bytes, got {len(raw)}")
    return raw


def encode_key(key: Any, arrays: Arrays) -> Any:
    """A key of a plan (`rlx.onnx.steps.structure`, `content`): element types by name, not by this process's number."""
    if isinstance(key, tuple) and len(key) in (2, 3) and type(key[0]) is int and isinstance(key[1], tuple):
        return {"of": [_BY_NUM[key[0]], list(key[1]), *(encode(k, arrays, "key") for k in key[2:])]}
    if isinstance(key, tuple):
        return {"tuple": [encode_key(k, arrays) for k in key]}
    return encode(key, arrays, "key of a plan")


def decode_key(item: Any, file: Container) -> Any:
    """The key behind what `encode_key` gave."""
    if isinstance(item, dict):
        ((kind, body),) = item.items()
        if kind == "of":
            return (_TYPES[body[0]].num, tuple(body[1]), *(decode(k, file) for k in body[2:]))
        if kind == "tuple":
            return tuple(decode_key(k, file) for k in body)
    return decode(item, file)
