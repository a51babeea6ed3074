"""Element types of ONNX as NumPy types. Works without the package `onnx`."""

from typing import Any

import ml_dtypes
import numpy as np

from rlx import dtypes
from rlx.errors import FormatError

STRING = 8
# Element types that the IR does not compute in: they exist on the host alone. Numbers of onnx.TensorProto.DataType.
HOST_TYPES: dict[int, Any] = {
    code: getattr(ml_dtypes, name)
    for code, name in {
        21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
    }.items()
    if hasattr(ml_dtypes, name)
}


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
