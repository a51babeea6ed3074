"""What a file declares about its inputs and outputs, and values that fit it. Works without the package `onnx`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import BindingError, BindingTypeError
from rlx.onnx.elements import numpy_type
from rlx.records import record

Dim = int | str | None

# Of a model whose caches have no length of their own: the handle that holds how much is valid, and what it becomes.
LENGTH = "cache_length"
LENGTH_NEXT = "cache_length_next"


@record(frozen=True)
class CacheOf:
    """Where an output gets its first rows from: it is that input with new rows behind it.

    Attributes
    ----------
    input : str
    axis : int
        Along which it grows.
    """

    input: str
    axis: int


@record(frozen=True)
class Declared:
    """What the file declares about an input or output. The rank of an input is checked, and sizes above 0.

    Attributes
    ----------
    kind : str
        `tensor`, `sequence`, `optional` or `map`.
    dtype : str
        Element type of the tensor, or of those inside.
    shape : tuple of int, str or None, optional
        None when the rank is open.
    default : bool
        The input may be left out.
    """

    kind: str
    dtype: str
    shape: tuple[Dim, ...] | None
    default: bool = False
    code: int = 0
    inner: "Declared | None" = None

    @property
    def sizes(self) -> tuple[int | None, ...] | None:
        """The shape with None for what is open: names, and sizes that no exporter can mean (0 and below)."""
        if self.shape is None:
            return None
        return tuple([d if isinstance(d, int) and d > 0 else None for d in self.shape])

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.kind}({self.inner or self.dtype})"
        dims = "..." if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.dtype}[{dims}]"


@record(frozen=True)
class ModelSignature:
    """Names and types of inputs and outputs, in order."""

    inputs: dict[str, Declared]
    outputs: dict[str, Declared]

    def __str__(self) -> str:
        from rlx.runtime.report import table_text

        rows = [("input", k, str(t), "optional" if t.default else "") for k, t in self.inputs.items()]
        rows += [("output", k, str(t), "") for k, t in self.outputs.items()]
        return table_text(("", "name", "type", ""), rows)

    def _repr_html_(self) -> str:
        from rlx.runtime.report import table_html

        rows = [("input", k, str(t)) for k, t in self.inputs.items()]
        return table_html(("", "name", "type"), rows + [("output", k, str(t)) for k, t in self.outputs.items()])


def strings(array: Any, what: str) -> Any:
    """An array whose elements are all `str`; bytes are UTF-8.

    Raises
    ------
    BindingTypeError
        An element is something else.
    """
    from rlx._kernels._text import check

    if check(array):
        return array
    items = array.astype(object).reshape(-1).tolist()
    try:
        found = [str(v) if isinstance(v, str) else v.decode() if isinstance(v, bytes) else None for v in items]
    except UnicodeDecodeError as error:
        raise BindingTypeError(f"{what}: bytes must be UTF-8, got {error}") from None
    if None in found:
        bad = items[found.index(None)]
        raise BindingTypeError(f"{what}: every element must be a string, got {type(bad).__name__}")
    made = np.empty(len(found), object)
    made[:] = found
    return made.reshape(array.shape)


def fit_declared(value: Any, declared: Declared, what: str, sized: bool = True) -> Any:
    """A value of the declared type, or an error; elements of sequences (`sized` false) may differ in size."""
    from rlx.runtime.binding import fit, shape_of

    if declared.kind == "optional":
        inner = declared.inner
        assert inner is not None
        return None if value is None else fit_declared(value, inner, what, sized)
    if declared.kind == "sequence":
        inner = declared.inner
        assert inner is not None
        if isinstance(value, np.ndarray) or not isinstance(value, Sequence):
            raise BindingTypeError(f"{what}: must be a list of arrays, got {type(value).__name__}")
        return [fit_declared(v, inner, f"{what}, element {i}", False) for i, v in enumerate(value)]
    if declared.kind == "map":
        if not isinstance(value, Mapping):
            raise BindingTypeError(f"{what}: must be a mapping, got {type(value).__name__}")
        return dict(value)
    known = dtypes.from_onnx(declared.code)
    if known is not None:
        array = fit(value, known, shape_of(value, what), what)
    elif declared.code:
        want = numpy_type(declared.code, what)
        array = np.asarray(value)
        if want.kind == "O":
            if array.dtype.kind not in "OUST":
                raise BindingTypeError(f"{what}: must be strings, got {array.dtype}")
            array = strings(array, what)
        elif array.dtype != want:
            raise BindingTypeError(f"{what}: dtype must be {want}, got {array.dtype}")
    else:
        array = np.asarray(value)
    sizes = declared.sizes
    if sizes is None:
        return array
    if array.ndim != len(sizes):
        raise BindingError(f"{what}: rank must be {len(sizes)} ({declared}), got shape {array.shape}")
    if sized and any(d is not None and d != n for d, n in zip(sizes, array.shape, strict=True)):
        raise BindingError(f"{what}: shape must be as declared, {declared}, got {array.shape}")
    return array


def from_bytes(data: Any, dtype: Any, declared: Declared, what: str) -> Any:
    """Raw bytes as an array of the declared type; one size may be open.

    Raises
    ------
    BindingError, BindingTypeError
        The type is another one, or the shape cannot be told from the number of bytes.
    """
    known = dtypes.from_onnx(declared.code) if declared.kind == "tensor" else None
    if known is None or dtypes.as_dtype(dtype) != known:
        raise BindingTypeError(f"{what}: dtype must be {declared.dtype}, got {dtype}")
    sizes = declared.sizes
    if sizes is None or sizes.count(None) > 1:
        raise BindingError(f"{what}: at most one size can be told from bytes, got {declared}; pass an array")
    try:
        raw = memoryview(data).cast("B")
    except TypeError as error:
        raise BindingTypeError(f"{what}: must be contiguous bytes, got {type(data).__name__} ({error})") from None
    unit = known.itemsize
    for d in sizes:
        unit *= 1 if d is None else d
    open_size = None in sizes
    if raw.nbytes % unit or (not open_size and raw.nbytes != unit):
        must = f"a multiple of {unit}" if open_size else f"{unit}"
        raise BindingError(f"{what}: must be {must} bytes for {declared}, got {raw.nbytes}")
    return np.frombuffer(raw, known.numpy).reshape([raw.nbytes // unit if d is None else d for d in sizes])
