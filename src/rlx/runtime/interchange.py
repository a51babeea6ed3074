"""Other people's arrays: DLPack, the buffer protocol, `__array__`. Memory is shared, and its owner kept alive."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.dtypes import DType
from rlx.errors import BindingError, BindingTypeError, GraphError, RlxError
from rlx.ir.opdef import Array

if TYPE_CHECKING:
    from rlx._kernels._dlpack import Exported


def _from_dlpack(producer: Any) -> Array:
    from rlx._kernels import _dlpack

    return _dlpack.from_dlpack(producer)


def from_dlpack(producer: Any) -> Array:
    """A NumPy array over the memory of anything with `__dlpack__`, in every element type of rlx.

    Other than `numpy.from_dlpack` it knows bfloat16 (a `torch.bfloat16` tensor, say). Nothing is copied; the
    producer's memory lives as long as the array. It is read-only if the producer says so.

    Raises
    ------
    BindingTypeError
        It is no such object, its memory is not on the host, or its element type has no NumPy equivalent.
    """
    if not hasattr(producer, "__dlpack__"):
        raise BindingTypeError(f"from_dlpack: must be given an object with __dlpack__, got {type(producer).__name__}")
    try:
        return _from_dlpack(producer)
    except RlxError:
        raise
    except Exception as error:  # what a producer raises is its own choice
        raise BindingTypeError(f"from_dlpack: memory must be readable here, got {error}") from error


def to_dlpack(array: Array) -> "Exported":
    """The array for consumers of DLPack, in every element type of rlx.

    NumPy arrays export themselves, but for bfloat16: ``torch.from_dlpack(rlx.to_dlpack(outs["y"]))`` works for
    all. Nothing is copied; the array lives as long as the consumer needs it. A read-only array can be read by
    consumers of DLPack 1.0 only.

    Raises
    ------
    BindingTypeError
        Its element type has no DLPack code, or its strides are not whole elements.
    """
    if not isinstance(array, np.ndarray):
        raise BindingTypeError(f"to_dlpack: must be given a NumPy array, got {type(array).__name__}")
    from rlx._kernels._dlpack import Exported

    try:
        return Exported(array)
    except BufferError as error:
        raise BindingTypeError(f"to_dlpack: {error}") from None


def foreign(value: Any, dtype: DType, what: str) -> Array:
    """What is no NumPy array as one: memory is shared where the object has any.

    DLPack comes first, then the buffer protocol, then `__array__`; these keep their element type. Python
    lists and numbers take the declared one when no value is lost in kind.

    Raises
    ------
    BindingError, BindingTypeError
        It is nothing of that.
    """
    if isinstance(value, np.ndarray):
        return value
    if value is None or isinstance(value, (str, bytes)):
        raise BindingTypeError(f"{what}: must be an array of {dtype}, got {type(value).__name__}")
    has_array = hasattr(value, "__array__")
    if hasattr(value, "__dlpack__"):
        try:
            return _from_dlpack(value)
        except RlxError:
            raise
        except Exception as error:
            if not has_array:
                raise _no_array(value, dtype, what, error) from error
    if not has_array:
        try:
            memoryview(value)
        except TypeError:
            return _listed(value, dtype, what)
    try:
        return np.asarray(value)
    except GraphError as error:  # a graph value is no array
        raise _no_array(value, dtype, what, error) from None
    except RlxError:
        raise
    except Exception as error:
        raise _no_array(value, dtype, what, error) from error


def _no_array(value: Any, dtype: DType, what: str, error: Exception) -> BindingTypeError:
    return BindingTypeError(f"{what}: must be an array of {dtype}, got {type(value).__name__} ({error})")


def _listed(value: Any, dtype: DType, what: str) -> Array:
    try:
        raw = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise BindingError(f"{what}: must be an array, got {type(value).__name__} ({error})") from None
    kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}
    if raw.size == 0 or raw.dtype.kind in kinds[dtype.kind]:
        return raw.astype(dtype.numpy)
    return raw


def writeable(value: Any, what: str) -> Array:
    """The memory of a caller's output as an array: of NumPy, of DLPack, or a buffer.

    Raises
    ------
    BindingTypeError
        It is nothing of that.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value)
        return np.asarray(memoryview(value))
    except RlxError:
        raise
    except Exception as error:
        raise BindingTypeError(f"{what}: must be an array whose memory can be written, got {type(value).__name__} "
                               f"({error})") from error
