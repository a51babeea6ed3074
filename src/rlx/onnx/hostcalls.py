"""Functions that steps of a plan call in Python, by name: so that a file can hold the call.

A factory takes what the node says (numbers, texts, lists, arrays) and returns the
function of a run's values. Needs neither `onnx` nor the table of ops.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import FormatError
from rlx.onnx.steps import Maps

if TYPE_CHECKING:
    from rlx._kernels._text import Grams

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Factory = Callable[..., Callable[..., Any]]
HOST: dict[str, Factory] = {}


def host_call(factory: Factory) -> Factory:
    """Register a factory; what it makes knows its name and what it was made with."""
    name = factory.__name__

    def make(**given: Any) -> Callable[..., Any]:
        function = factory(**given)
        function.named = (name, given)  # type: ignore[attr-defined]
        return function

    HOST[name] = make
    return make


@host_call
def move(*, op: str, attrs: Mapping[str, Any]) -> Callable[..., Any]:
    """The definition of an op that copies values, on arrays of any element type."""
    if op == "reshape":  # the common one, without the table of ops
        shape = attrs["shape"]
        return lambda x: x.reshape(shape)
    from rlx.ops import TABLE

    reference = TABLE[op].reference
    return lambda *xs: reference(*xs, **attrs)


@host_call
def take(*, axis: int) -> Callable[..., Any]:
    """Elements along an axis."""
    return lambda x, i: x.take(i, axis)


@host_call
def take_last() -> Callable[..., Any]:
    """Columns."""
    return lambda x, i: np.take(x, i.reshape(-1), -1).reshape(1 if x.ndim < 2 else -1, i.size)


@host_call
def join(*, axis: int) -> Callable[..., Any]:
    """One array of several."""
    return lambda *xs: np.concatenate(xs, axis)


@host_call
def tile(*, reps: Sequence[int]) -> Callable[..., Any]:
    """Repeat an array."""
    return lambda x: np.tile(x, reps)


@host_call
def equal() -> Callable[..., Any]:
    """Whether elements are equal."""
    return lambda a, b: np.asarray(np.equal(a, b), np.bool_)


@host_call
def choose() -> Callable[..., Any]:
    """Elements of one array or the other."""
    return lambda c, a, b: np.where(c, a, b)


@host_call
def string_concat() -> Callable[..., Any]:
    """Texts, one after the other."""
    from rlx._kernels import _text

    def run(a: Array, b: Array) -> Array:
        if a.shape != b.shape:
            a, b = map(np.ascontiguousarray, np.broadcast_arrays(a, b))
        return _text.joined(a, b)

    return run


def _nothing(x: Array) -> Array:
    """What is left when no word is: one empty string."""
    return np.full((1, 1) if x.ndim == 2 else 1, "", object)


@host_call
def normalise_strings(*, change: int, sensitive: bool, stop: Set[str], ascii_only: bool) -> Callable[[Array], Array]:
    """Texts without stop words, in one case (0 as they are, 1 lower, 2 upper)."""
    from rlx._kernels import _text

    if not stop:
        return lambda x: _text.change_case(x, change, ascii_only) if x.size else _nothing(x)
    words = frozenset(stop)

    def run(x: Array) -> Array:
        kept = _text.change_case(_text.without(x, words, not sensitive, ascii_only), change, ascii_only)
        return (kept[None, :] if x.ndim == 2 else kept) if kept.size else _nothing(x)

    return run


@host_call
def split_strings(*, delimiter: str | None, most: int) -> Callable[[Array], Any]:
    """Texts cut at a delimiter, and how many pieces each gave."""
    from rlx._kernels import _text

    def run(x: Array) -> Any:
        rows = _text.split(x, delimiter, most)
        return _text.padded(rows, x.shape, ""), _text.lengths(rows, x.shape)

    return run


@host_call
def full_match(*, pattern: str) -> Callable[..., object]:
    """Whether all of a text matches a pattern."""
    from rlx.onnx.patterns import matcher

    match = matcher(pattern)
    return lambda x: match(x)


@host_call
def count_grams(*, grams: dict[tuple[Any, ...], int], skips: int, scale: Array, mode: str) -> Callable[[Array], Array]:
    """How often each n-gram occurs, weighted."""
    count = _grams(grams, skips, len(scale))
    plain = mode == "TF" or bool((scale == 1).all()) and mode != "IDF"

    def run(x: Array) -> Array:
        rows = len(x) if x.ndim > 1 else 1
        items = x if x.dtype == object else np.asarray(x, object)
        table = count(items, rows)
        if not plain:
            table = np.where(table > 0, scale, np.float32(0)) if mode == "IDF" else table * scale
        return table[0] if x.ndim < 2 else table

    return run


def _grams(places: dict[tuple[Any, ...], int], skips: int, width: int) -> "Grams":
    """Counter of n-grams, each with the place it counts in."""
    from rlx._kernels import _text

    numbers: dict[Any, int] = {}
    nodes: dict[tuple[Any, ...], int] = {(): 0}
    edges: list[tuple[int, int, int]] = []
    for gram in places:
        for end, item in enumerate(gram, 1):
            number = numbers.setdefault(item, len(numbers))
            if gram[:end] not in nodes:
                nodes[gram[:end]] = len(nodes)
                edges.append((nodes[gram[: end - 1]], number, nodes[gram[:end]]))
    longest = max((len(g) for g in places), default=1)
    return _text.Grams(numbers, edges, [places.get(g, -1) for g in nodes], longest, skips, width)


@host_call
def tokenise(*, expression: str | None, separators: list[str] | None, shortest: int, mark: bool,
             fill: str) -> Callable[[Array], Array]:
    """Texts cut into tokens: what a pattern finds, what lies between separators, or single letters."""
    from rlx._kernels import _text
    from rlx.onnx.patterns import Split, finder, splitter

    split: Split
    if expression and expression != ".":  # that one means every letter, line ends too
        split = finder(expression, shortest)
    elif not expression and separators and separators != [""]:
        split = splitter(separators, shortest)
    else:
        split = list if shortest == 1 else _no_tokens

    def run(x: Array) -> Array:
        rows = _text.rows_of(x, split)
        if mark:
            rows = [["\x02", *r, "\x03"] for r in rows]
        return _text.padded(rows, x.shape, fill)

    return run


def _no_tokens(text: str) -> list[str]:
    return []


@host_call
def one_hot(*, known: list[Any], zeros: bool) -> Callable[[Array], Array]:
    """Rows with a 1 at the place of a category."""
    from rlx._kernels import _text

    width = len(known)
    table = {c: i for i, c in enumerate(known)}

    def encode(x: Array) -> Array:
        made, gone = _text.one_hot(x, table, width)
        if gone >= 0 and not zeros:
            raise FormatError(f"one-hot encoding: a category must be one of {known}, got {x.reshape(-1)[gone]!r}")
        return made

    return encode


@host_call
def mapper(*, x: DType | None, table: dict[Any, Any], missing: Any, kind: Any, nan: Any = None
           ) -> Callable[[Array], Array]:
    """Look-ups of every element of arrays like `x`; what is not in the table becomes `missing`, NaN becomes `nan`."""
    from rlx._kernels import _text

    made = np.dtype(kind)
    if x is None:
        if made == np.int64:
            return lambda x: _text.positions(x, table, missing)
        if made == np.float32:
            return lambda x: _text.floats(x, table, missing)
        if made.kind == "O":
            return lambda x: _text.objects(x, table, missing)
    elif x is dtypes.i64 and made.kind == "O":
        return lambda x: _text.names(x, table, missing)
    return lambda x: _mapped(x, table, missing, made, nan)


def _mapped(x: Array, table: dict[Any, Any], missing: Any, kind: Any, nan: Any = None) -> Array:
    items = x.reshape(-1).tolist()
    if nan is not None and x.dtype.kind == "f":
        found = [nan if item != item else table.get(item, missing) for item in items]
    else:
        found = [table.get(item, missing) for item in items]
    result = np.empty(x.size, kind)
    result[:] = found
    return result.reshape(x.shape)


@host_call
def zip_map(*, keys: list[Any]) -> Callable[[Array], Maps]:
    """One map per row."""
    from rlx._kernels import _text

    def run(x: Array) -> Maps:
        if x.shape[-1] != len(keys):
            raise FormatError(f"there must be one label per column, got {len(keys)} for {x.shape[-1]}")
        return Maps(_text.maps(x, keys))

    return run


@host_call
def labels_of(*, labels: Array) -> Callable[[Array], Any]:
    """Labels by their numbers."""
    return lambda i: labels[i]


@host_call
def vector_of_map(*, keys: list[Any]) -> Callable[[Any], Array]:
    """The values of a map at given keys."""

    def run(x: Any) -> Array:
        values = [x.get(k, 0) for k in keys]
        kind: Any = np.float32
        if any(isinstance(v, str) for v in values):
            kind = object
        elif all(isinstance(v, (int, np.integer)) for v in values):
            kind = np.int64
        return np.asarray([values], kind)

    return run


@host_call
def array_of_map(*, kind: Any, sparse: bool, size: int) -> Callable[[Any], Array]:
    """The values of a map in the order of its keys, or each at the place that its key says."""

    def run(x: Any) -> Array:
        if not sparse:
            return np.asarray([[x[k] for k in sorted(x)]], kind)
        result = np.zeros((1, size), kind)
        for k, v in x.items():
            result[0, k] = v
        return result

    return run


@host_call
def nonzero() -> Callable[[Array], Array]:
    """Places of the elements that are not zero, one column each."""

    def run(x: Array) -> Array:
        if x.ndim:
            return np.asarray(np.nonzero(x), np.int64).reshape(x.ndim, -1)
        return np.zeros((0, int(bool(x))), np.int64)

    return run


@host_call
def compress(*, axis: int | None) -> Callable[[Array, Array], Array]:
    """What a condition selects along an axis; None for the flat array."""
    if axis is None:
        return lambda x, condition: np.compress(condition, x.reshape(-1))
    return lambda x, condition: np.compress(condition, x, axis)


@host_call
def unique(*, axis: int | None, ordered: bool) -> Callable[[Array], Any]:
    """Different values, where each occurs first, which one each element is, and how often each occurs."""

    def run(x: Array) -> Any:
        values, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        inverse = inverse.reshape(-1)
        if not ordered:
            order = np.argsort(first)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            values = np.take(values, order, axis=axis or 0)
            first, counts, inverse = first[order], counts[order], rank[inverse]
        return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)

    return run
