"""Element types of ONNX as NumPy types. Works without the package `onnx`."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import FormatError

STRING = 8
_NAMES = {
    21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip


class _HostTypes(Mapping[int, Any]):
    """By code; ml_dtypes is imported when one of the codes is met."""

    def __getitem__(self, code: int) -> Any:
        import ml_dtypes

        found = getattr(ml_dtypes, _NAMES[code], None)
        if found is None:
            raise KeyError(code)
        return found

    def __contains__(self, code: object) -> bool:
        return code in _NAMES and super().__contains__(code)

    def __iter__(self) -> Iterator[int]:
        import ml_dtypes

        return iter([code for code, name in _NAMES.items() if hasattr(ml_dtypes, name)])

    def __len__(self) -> int:
        return len(list(iter(self)))


# Element types that the IR does not compute in: they exist on the host alone. Numbers of onnx.TensorProto.DataType.
HOST_TYPES = _HostTypes()


def numpy_type(code: int, what: str) -> np.dtype[Any]:
    """NumPy type of an ONNX element type; object for strings.

    Raises
    ------
    FormatError
        There is no such type.
    """
    known = dtypes.from_onnx(code)
    if known is not None:
        return np.dtype(known.numpy)
    if code == STRING:
        return np.dtype(object)
    if code in HOST_TYPES:
        host: np.dtype[Any] = np.dtype(HOST_TYPES[code])
        return host
    raise FormatError(f"{what}: element type must be one that ONNX defines, got code {code}")
