"""The element types: one row each, found by name, NumPy type or foreign code."""

import sys
from typing import Any

import numpy as np

from rlx.errors import GraphError
from rlx.records import field, record


@record(frozen=True, eq=False)
class DType:
    """An element type; there is one object of each.

    Attributes
    ----------
    name : str
        `f32`, `bf16`, `i8`, ...; used everywhere, also in kernel names.
    itemsize : int
        Bytes per element.
    kind : str
        `f` float, `i` signed, `u` unsigned, `b` bool, `c` complex.
    numpy : numpy.dtype
        The same type in NumPy (bfloat16 and float8 through ml_dtypes).
    onnx : int
        `TensorProto.DataType` code.
    is_float : bool
        Real floating point, half types and float8 included.
    is_int : bool
        Signed or unsigned integer (not bool).
    is_complex : bool
    is_half : bool
        A storage type: computed in f32 and rounded once.
    is_float8 : bool
        A storage type of one byte: moved and cast, and nothing else.
    is_stored : bool
        A storage type, half or float8: widened to f32 before anything is computed.
    """

    name: str
    itemsize: int
    kind: str
    numpy: np.dtype[Any] = field(compare=False, hash=False)
    onnx: int = field(compare=False, hash=False)
    is_float: bool = field(init=False, compare=False, repr=False)
    is_int: bool = field(init=False, compare=False, repr=False)
    is_complex: bool = field(init=False, compare=False, repr=False)
    is_half: bool = field(init=False, compare=False, repr=False)
    is_float8: bool = field(init=False, compare=False, repr=False)
    is_stored: bool = field(init=False, compare=False, repr=False)

    def __repr__(self) -> str:
        return self.name

    def __post_init__(self) -> None:
        real, size = self.kind == "f", self.itemsize
        self.__dict__.update(is_float=real, is_int=self.kind in "iu", is_complex=self.kind == "c",
                             is_half=real and size == 2, is_float8=real and size == 1, is_stored=real and size <= 2)

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


class _FirstAsked:
    """The NumPy type of an element type that NumPy does not have itself, when it is first asked for."""

    def __get__(self, dtype: DType | None, owner: type) -> Any:
        if dtype is None:
            return self
        import ml_dtypes

        dtype.__dict__["numpy"] = made = np.dtype(getattr(ml_dtypes, _EXTENSIONS[dtype.name]))
        return made


setattr(DType, "numpy", _FirstAsked())  # noqa: B010 (for mypy it is a field)

# Element types of ml_dtypes, which takes 5 ms to import and is imported when one of them is met.
_EXTENSIONS = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


def _extension(name: str, itemsize: int, kind: str, onnx: int) -> DType:
    made = DType(name, itemsize, kind, np.dtype(np.void), onnx)
    del made.__dict__["numpy"]
    return made


def _row(name: str, numpy_type: Any, kind: str, onnx: int) -> DType:
    dtype = np.dtype(numpy_type)
    return DType(name, dtype.itemsize, kind, dtype, onnx)


f64 = _row("f64", np.float64, "f", 11)
f32 = _row("f32", np.float32, "f", 1)
f16 = _row("f16", np.float16, "f", 10)
bf16 = _extension("bf16", 2, "f", 16)
i8 = _row("i8", np.int8, "i", 3)
i16 = _row("i16", np.int16, "i", 5)
i32 = _row("i32", np.int32, "i", 6)
i64 = _row("i64", np.int64, "i", 7)
u8 = _row("u8", np.uint8, "u", 2)
u16 = _row("u16", np.uint16, "u", 4)
u32 = _row("u32", np.uint32, "u", 12)
u64 = _row("u64", np.uint64, "u", 13)
bool_ = _row("bool", np.bool_, "b", 9)
c64 = _row("c64", np.complex64, "c", 14)
c128 = _row("c128", np.complex128, "c", 15)
f8e4m3fn = _extension("f8e4m3fn", 1, "f", 17)
f8e4m3fnuz = _extension("f8e4m3fnuz", 1, "f", 18)
f8e5m2 = _extension("f8e5m2", 1, "f", 19)
f8e5m2fnuz = _extension("f8e5m2fnuz", 1, "f", 20)

# What to do about an op that does not take them.
FLOAT8_HINT = "hint: float8 is stored, moved and cast; compute with ops.cast(x, dtype=rlx.f32)"

FLOAT8 = (f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz)
ALL = (f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool_, c64, c128, *FLOAT8)
FLOATS = (f64, f32, f16, bf16)
SIGNED = (i8, i16, i32, i64)
UNSIGNED = (u8, u16, u32, u64)
INTS = SIGNED + UNSIGNED
REALS = FLOATS + INTS
COMPLEX = (c64, c128)
NUMBERS = REALS + COMPLEX

BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL if d.name not in _EXTENSIONS}
_BY_ONNX = {d.onnx: d for d in ALL}


def as_dtype(value: Any) -> DType:
    """Return the DType for a DType, a name (`"f32"`) or anything NumPy takes as a type.

    Raises
    ------
    GraphError
        The type is none of the supported ones.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    found = None if value is None else _look_up(value)  # for NumPy None is float64
    if found is None:
        raise GraphError(f"dtype must be one of {[d.name for d in ALL]}, got {value!r}")
    return found


def _look_up(value: Any) -> DType | None:
    try:
        kind = np.dtype(value).newbyteorder("=")
    except TypeError:
        kind = None  # perhaps a name that NumPy knows once ml_dtypes is there, such as "bfloat16"
    found = None if kind is None else _BY_NUMPY.get(kind)
    if found is None and len(_BY_NUMPY) < len(ALL) and (kind is None or "ml_dtypes" in sys.modules):
        _BY_NUMPY.update({BY_NAME[name].numpy: BY_NAME[name] for name in _EXTENSIONS})
        return _look_up(value)
    return found


def is_known(kind: np.dtype[Any]) -> bool:
    """Whether a NumPy type is that of an element type, in the byte order of this machine."""
    return kind in _BY_NUMPY or ("ml_dtypes" in sys.modules and _look_up(kind) is not None and kind.isnative)


def from_onnx(code: int) -> DType | None:
    """Return the DType of an ONNX element type code, None when rlx has no such type."""
    return _BY_ONNX.get(code)


def of_array(array: np.ndarray[tuple[Any, ...], np.dtype[Any]] | np.generic) -> DType:
    """Return the DType of a NumPy array or scalar."""
    return _BY_NUMPY.get(array.dtype) or as_dtype(array.dtype)
