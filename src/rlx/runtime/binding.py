"""What a caller gives, checked: names, shapes, element types, bytes; and the exceptions of failed runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from rlx._kernels._host import ResultError
from rlx.dtypes import DType
from rlx.errors import (
    BindingError,
    BindingTypeError,
    CancelledError,
    DivisionExecutionError,
    ExecutionError,
    IndexExecutionError,
    RlxError,
    UnknownNameError,
)
from rlx.ir.dims import AnyDim, Dim
from rlx.ir.graph import Value, clean_bools
from rlx.ir.opdef import Array
from rlx.lower.program import NodeInfo, Port
from rlx.records import record


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint with the names that are most like `name`."""
    import difflib  # for errors alone

    names = list(known)
    close = difflib.get_close_matches(str(name), names, 3)
    if close:
        return f"\nhint: did you mean {' or '.join(map(repr, close))}?"
    return f"\nhint: known names are {names}" if names else "\nhint: there are none"


def check_names(given: Iterable[Any], known: Sequence[str], place: str) -> None:
    """Every input is given and nothing else; a misspelt name is told before the one that is missing for it.

    Raises
    ------
    UnknownNameError
        A name is no input.
    BindingError
        An input is missing.
    """
    names = list(given)
    for name in names:
        if name not in known:
            raise UnknownNameError(f"{place}: no input {name!r}{nearest(name, known)}")
    for name in known:
        if name not in names:
            raise BindingError(
                f"{place}: every input must be given, {name!r} is missing; inputs are {list(known)}")


# What index errors of ops mean that do not count from the end.
_COUNTS = dict.fromkeys(("attention", "fused_attention", "lstm", "gru", "rnn"), "a length must be in [0, {0}]")
_COUNTS["rope"] = "a position must be in [0, {0})"


def failure(status: int, info: NodeInfo, value: int, bound: int, position: int) -> RlxError:
    """The exception of a failed run."""
    place = info.place
    if status == 1 and info.op in _COUNTS:
        return IndexExecutionError(f"{place}: {_COUNTS[info.op].format(bound)}, got {value} (element {position})")
    if status == 1:
        return IndexExecutionError(
            f"{place}: an index must be in [{-bound}, {bound}), got {value} (element {position} of the indices)")
    if status == 2:
        return DivisionExecutionError(f"{place}: an integer divisor must not be 0, got 0 (element {position})")
    if status == 3:
        return ExecutionError(f"{place}: an integer exponent must not be negative, got {value} (element {position})")
    if status == 4:
        return ExecutionError(f"{place}: LAPACK must succeed, got info {value} for item {bound}")
    if status == 5:
        return ExecutionError(f"{place}: values must be finite, got NaN or infinity (element {position})")
    if status == 9:
        return IndexExecutionError(f"{place}: length and new rows must fit the capacity {bound}, got {value} rows at "
                                   f"the end (item {position})\nhint: truncate the cache, or bind a larger one")
    if status == 6:
        return CancelledError(f"{place}: the run was cancelled")
    if status == 64:
        return ExecutionError(f"{place}: its C kernel must return 0, got {value}")
    return ExecutionError(f"{place}: a value met at run time is not allowed, got {value} (element {position})")


@record(frozen=True)
class Wide:
    """What a program takes the first rows of.

    Attributes
    ----------
    inputs : mapping of name to shape
        Shapes at bucket size, which an input may have besides its own.
    params : mapping of name to set of int
        Axes on which a parameter may have more rows than are read.
    """

    inputs: Mapping[str, tuple[int, ...]]
    params: Mapping[str, frozenset[int]]


class Helper:
    """Slow paths of the executor: everything that makes or refuses an array.

    Of an input at bucket size (see `Wide`), the first rows are read.
    """

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port], nodes: Sequence[NodeInfo], graph: str,
                 wide: Wide | None = None) -> None:
        self.wide = wide or Wide({}, {})
        self.inputs = inputs
        self.outputs = outputs
        self.nodes = nodes
        self.graph = graph

    def coerce(self, i: int, value: Any) -> Array:
        port = self.inputs[i]
        what = f"input {port.name!r} of graph {self.graph!r}"
        wide = self.wide.inputs.get(port.name)
        if wide is not None and wide != port.shape and shape_of(value, what) == wide:
            return first_rows(fit(value, port.dtype, wide, what), port.shape)
        return fit(value, port.dtype, port.shape, what)

    def names(self, given: Mapping[Any, Any]) -> None:
        check_names(given, [p.name for p in self.inputs], f"graph {self.graph!r}")

    def out(self, i: int, out: Any) -> Array | None:
        port = self.outputs[i]
        if isinstance(out, Mapping):
            names = [p.name for p in self.outputs]
            for name in out:
                if name not in names:
                    raise UnknownNameError(f"graph {self.graph!r}: no output {name!r}{nearest(name, names)}")
            array = out.get(port.name)
        elif isinstance(out, Sequence):
            if len(out) != len(self.outputs):
                raise BindingError(f"out: must have {len(self.outputs)} arrays, got {len(out)}")
            array = out[i]
        else:
            raise BindingTypeError(f"out: must be a mapping of names or a sequence of arrays, got {type(out).__name__}")
        if array is None:
            return None
        what = f"out[{port.name!r}]"
        if not isinstance(array, np.ndarray):  # an import takes half a microsecond in every call
            from rlx.runtime.interchange import writeable

            array = writeable(array, what)
        if array.dtype != port.dtype.numpy:
            raise BindingTypeError(f"{what}: dtype must be {port.dtype}, got {array.dtype}")
        if array.shape != port.shape:
            raise BindingError(f"{what}: shape must be {port.shape}, got {array.shape}")
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            got = ", ".join(word for word, holds in (
                ("strided", array.flags.c_contiguous), ("unaligned", array.flags.aligned),
                ("read-only", array.flags.writeable)) if not holds)
            raise BindingError(f"{what}: must be C-contiguous, aligned and writeable, got an array that is {got}")
        return array

    def shared(self, i: int) -> NoReturn:
        raise BindingError(f"out[{self.outputs[i].name!r}]: must not share memory with another output,"
                           " got overlapping arrays")

    def busy(self) -> NoReturn:
        raise ExecutionError(
            f"graph {self.graph!r}: an executable runs one call at a time, got a second one"
            "\nhint: use clone() for another thread, or CompileOptions(busy='wait')")

    def closed(self) -> NoReturn:
        raise ExecutionError(f"graph {self.graph!r}: the executable has been closed, got a call")

    def failed(self, status: int, node: int, value: int, bound: int, position: int) -> RlxError:
        return failure(status, self.nodes[max(node, 0)], value, bound, position)

    def raised(self, node: int, error: Exception) -> RlxError:
        return kernel_raised(self.nodes[max(node, 0)], error)


def kernel_raised(info: NodeInfo, error: Exception) -> ExecutionError:
    """The exception of a run in which a kernel in Python raised."""
    own = isinstance(error, ResultError)
    text = str(error) if own else f"its kernel must not raise, got {type(error).__name__}: {error}"
    raised = ExecutionError(f"{info.place}: {text}")
    raised.__cause__ = error
    return raised


def shape_of(value: Any, what: str) -> tuple[int, ...]:
    """Shape of anything array-like.

    Raises
    ------
    BindingError
        It has none.
    """
    if isinstance(value, np.ndarray):
        shape: tuple[int, ...] = value.shape
        return shape
    try:
        if hasattr(value, "shape"):
            return tuple(np.shape(value))
        from rlx.runtime.interchange import from_dlpack

        array = from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    except RlxError:
        raise
    except Exception as error:
        raise BindingError(f"{what}: must be an array, got {type(value).__name__} ({error})") from error
    require_numbers(array, value, what)
    return array.shape


def require_numbers(array: Array, value: Any, what: str) -> None:
    """Refuse what NumPy holds as objects or text: its rank would say nothing about the value.

    Raises
    ------
    BindingTypeError
        The array has no numbers.
    """
    if array.dtype.kind in "OUS":
        got = f"dtype {array.dtype}" if array is value else type(value).__name__
        raise BindingTypeError(f"{what}: must be an array, got {got}")


def as_mapping(value: Any, what: str) -> dict[str, Any]:
    """A mapping as a dict; None is empty.

    Raises
    ------
    BindingTypeError
        It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BindingTypeError(f"{what}: must be a mapping of names to arrays, got {type(value).__name__}")
    return dict(value)


def fit(value: Any, dtype: DType, shape: tuple[int, ...], what: str) -> Array:
    """An array of exactly this type and shape, contiguous and aligned, or an error.

    Arrays keep their element type (a mismatch is an error); Python lists and
    numbers take the declared one when no value is lost in kind. See `foreign` for what is an array.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        from rlx.runtime.interchange import foreign

        value = foreign(value, dtype, what)
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != dtype.numpy:
        raise BindingTypeError(
            f"{what}: dtype must be {dtype}, got {array.dtype}\nhint: convert with .astype({dtype.numpy.name!r})"
        )
    if array.shape != shape:
        raise BindingError(f"{what}: shape must be {shape}, got {array.shape}")
    fitted = np.require(np.asarray(array, dtype.numpy), requirements=["C", "A"]).reshape(shape)
    return clean_bools(fitted) if dtype.kind == "b" else fitted


def first_rows(array: Array, shape: Sequence[int | None]) -> Array:
    """The first part of an array on every axis, contiguous; None takes all of an axis."""
    return np.require(array[tuple([slice(0, n) for n in shape])], requirements=["C", "A"])


def rows_of_param(array: Array, shape: tuple[int, ...], axes: frozenset[int], what: str) -> Array:
    """A parameter as a program of this shape reads it.

    Raises
    ------
    BindingError
        It has another size on an axis where it must not have more rows.
    """
    if array.shape == shape:
        return array
    fits = len(array.shape) == len(shape) and all(
        have == n or (have > n and i in axes) for i, (have, n) in enumerate(zip(array.shape, shape, strict=False)))
    if not fits:
        raise BindingError(f"{what}: shape must be {shape} for these inputs, got {array.shape}")
    return first_rows(array, shape)


def from_bytes(data: Any, dtype: DType, value: Value, what: str) -> Array:
    """Raw bytes as an array of the declared type; the count must be exact."""
    if dtype != value.dtype:
        raise BindingTypeError(f"{what}: dtype must be {value.dtype}, got {dtype}")
    if isinstance(data, np.ndarray) or hasattr(data, "__dlpack__"):
        from rlx.runtime.interchange import foreign

        return foreign(data, dtype, what)
    try:
        raw = memoryview(data).cast("B")
    except TypeError as error:
        raise BindingTypeError(f"{what}: must be contiguous bytes, got {type(data).__name__} ({error})") from None
    shape = value.shape
    if not value.type.is_static:
        raise BindingError(f"{what}: a symbolic shape cannot be told from bytes, got {value.type}; pass an array")
    size = 1
    for d in shape:
        assert isinstance(d, int)
        size *= d
    if raw.nbytes != size * dtype.itemsize:
        raise BindingError(f"{what}: must be {size * dtype.itemsize} bytes for {value.type}, got {raw.nbytes}")
    if not raw.nbytes:
        return np.empty(shape, dtype.numpy)  # type: ignore[arg-type]
    return np.frombuffer(raw, dtype.numpy).reshape(shape)  # type: ignore[arg-type]


def bind_sizes(inputs: Sequence[Value], shapes: Sequence[tuple[int, ...]], graph: str) -> dict[str, int]:
    """Values of the symbolic sizes that the given shapes imply.

    Raises
    ------
    BindingError
        A rank or size does not fit, or two inputs disagree about a symbol.
    """
    sizes: dict[str, int] = {}
    checks: list[tuple[str, AnyDim, int, tuple[int, ...]]] = []
    for v, shape in zip(inputs, shapes, strict=True):
        name = v.node.name
        if len(shape) != v.rank:
            raise BindingError(
                f"input {name!r} of graph {graph!r}: rank must be {v.rank} ({v.type}), got shape {shape}"
            )
        for d, n in zip(v.shape, shape, strict=True):
            plain = isinstance(d, Dim) and len(d.terms) == 1 and str(d).isidentifier()
            if plain and str(d) not in sizes:
                sizes[str(d)] = n
            checks.append((name, d, n, shape))
    for name, d, n, shape in checks:
        want = d.bind(sizes) if isinstance(d, Dim) else d
        if want != n:
            raise BindingError(f"input {name!r} of graph {graph!r}: size {d} must be {want}, got shape {shape}")
    return sizes
