"""Steps of a plan: a small tree of compiled segments, host calls and guards.

An ordinary model is one segment. Where a shape or a branch depends on data, the
plan continues with one child per outcome that has been met.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.records import record

if TYPE_CHECKING:
    from rlx.ir.types import TensorType
    from rlx.runtime.variant import Variant

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

# Outcomes kept per step; the one not used for longest goes first.
MAX_CHILDREN = 32


@record(frozen=True)
class Slot:
    """A value that a run holds: a model input, or a result of an earlier step.

    Attributes
    ----------
    type : TensorType, optional
        None for what only the host knows: strings, maps, exotic element types.
    shape : tuple of int, optional
        Of arrays of either kind.
    part : int, optional
        Position, when the value is one of a list.
    """

    index: int
    name: str
    type: "TensorType | None"
    shape: tuple[int, ...] | None
    part: int | None = None

    @property
    def key(self) -> "Key":
        """Where the value is."""
        return (self.index, self.part)


Key = tuple[int, int | None]


def fetch(values: list[Any], key: Key) -> Any:
    """A run's value."""
    value = values[key[0]]
    return value if key[1] is None else value[key[1]]


class Maps(list[Any]):
    """A sequence of maps: one value of the host, its elements are not looked at."""


def structure(value: Any) -> Any:
    """What the rest of an import may depend on: types and shapes, not values."""
    if isinstance(value, np.ndarray):
        return (value.dtype.num, value.shape)
    if type(value) is list:
        return ("list", *map(structure, value))
    return None if value is None else type(value).__name__


def content(value: Any) -> Any:
    """A key for the very value."""
    if isinstance(value, np.ndarray):
        raw = tuple(value.reshape(-1)) if value.dtype == object else value.tobytes()
        return (value.dtype.num, value.shape, raw)
    if isinstance(value, list):
        return tuple(map(content, value))
    return repr(value)


class Step:
    """One step; `children` has the next one per outcome.

    Attributes
    ----------
    last : bool
        It hands out the results.
    """

    last = False

    def __init__(self) -> None:
        self.children: dict[Any, Step] = {}

    def run(self, values: list[Any], threads: int) -> Any:
        """Do it, put results into `values`, return the outcome."""
        return None

    def add(self, outcome: Any, child: "Step") -> None:
        """Append what follows an outcome."""
        if len(self.children) >= MAX_CHILDREN:
            self.children.pop(next(iter(self.children)))
        self.children[outcome] = child


class Start(Step):
    """The root."""


class Segment(Step):
    """A compiled graph."""

    def __init__(self, variant: "Variant", reads: list[tuple[str, Key]], writes: int, poison: bool) -> None:
        super().__init__()
        self.poison = poison
        self.variant = variant
        self.reads = reads
        self.first = writes
        self.direct = False  # it is the whole model: its outputs are the model's
        # Compiles it in the ordinary way, if it is a copy of another size's program, whose scratch it uses.
        self.again: Callable[[], Variant] | None = None

    def run(self, values: list[Any], threads: int) -> Any:
        """Run the program on arrays that exist."""
        if self.poison:
            self.variant.scratch[...] = 0xA5
        inputs = {name: fetch(values, key) for name, key in self.reads}
        if self.variant.nan_check is not None:
            self.variant.nan_check.check(inputs, {}, self.variant.executor.state)
        results = self.variant.executor.run(inputs, threads, None)
        store(values, self.first, results.values())
        return None


class Views(Step):
    """A segment that only gives values other shapes: nothing to compile, nothing to copy."""

    def __init__(self, views: list[tuple[Key, tuple[int, ...]]], writes: int) -> None:
        super().__init__()
        self.views = views
        self.first = writes

    def run(self, values: list[Any], threads: int) -> Any:
        """Reshape arrays that exist."""
        store(values, self.first, [fetch(values, key).reshape(shape) for key, shape in self.views])
        return None


class Guard(Step):
    """Branches on the content of values."""

    def __init__(self, slots: list[Key]) -> None:
        super().__init__()
        self.slots = slots

    def run(self, values: list[Any], threads: int) -> Any:
        """The content is the outcome."""
        return tuple(content(fetch(values, key)) for key in self.slots)


class Test(Step):
    """Branches on what a function makes of values, for those that differ from run to run."""

    def __init__(self, slots: list[Key], function: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self.slots = slots
        self.function = function

    def run(self, values: Any, threads: int) -> Any:
        """What the function returns is the outcome."""
        return self.function([fetch(values, key) for key in self.slots])


class Host(Step):
    """A call of a Python function; the structure of what it returns is the outcome.

    Parameters
    ----------
    function : callable
    arguments : list
        Constants, slots, and lists of them.
    first : int
        Where the results go.
    fixed : bool
        The structure of the results follows from that of the arguments.
    floats : bool
        It computes with floats: NumPy's warnings are to be silenced.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: list[Any], first: int, *, fixed: bool, floats: bool
    ) -> None:
        super().__init__()
        self.first = first
        self.fixed = fixed
        self.floats = floats
        self.count = 0
        self.function = function
        self.arguments = arguments
        self.call = _bound(function, arguments)

    def run(self, values: list[Any], threads: int) -> Any:
        """Call it."""
        if self.floats:
            with np.errstate(all="ignore"):
                results = self.call(values)
        else:
            results = self.call(values)
        if type(results) is np.ndarray and self.first == len(values):
            self.count = 1
            values.append(results)
            return None if self.fixed else (structure(results),)
        if not isinstance(results, tuple):
            results = (results,)
        self.count = len(results)
        store(values, self.first, [np.asarray(r) if isinstance(r, np.generic) else r for r in results])
        return self.outcome(values)

    def outcome(self, values: list[Any]) -> Any:
        """Structure of the results that are in `values`; None when it is fixed."""
        if self.fixed:
            return None
        return tuple([structure(v) for v in values[self.first : self.first + self.count]])


def _bound(function: Callable[..., Any], arguments: list[Any]) -> Callable[[list[Any]], Any]:
    """The call of a function on a run's values."""
    if len(arguments) == 1 and isinstance(arguments[0], Slot) and arguments[0].part is None:
        index = arguments[0].index
        return lambda values: function(values[index])
    return lambda values: function(*[actual(a, values) for a in arguments])


class Finish(Step):
    """The results; those that no step has made for this run alone are copied."""

    last = True

    def __init__(self, items: list[Any], fresh: set[int]) -> None:
        super().__init__()
        self.items = items
        self.copies = []
        for item in items:
            own = isinstance(item, Slot) and item.index in fresh and item.part is None
            self.copies.append(not own)
            fresh = fresh - {item.index} if own else fresh
        slots = [i.index for i in items if isinstance(i, Slot) and i.part is None]
        self.slots = slots if len(slots) == len(items) else None

    def results(self, values: list[Any]) -> list[Any]:
        """Results that the caller may change."""
        found = [values[i] for i in self.slots] if self.slots else [actual(i, values) for i in self.items]
        return [owned(v) if copy else v for v, copy in zip(found, self.copies, strict=True)]


def store(values: list[Any], first: int, results: Sequence[Any]) -> None:
    """Put results into consecutive slots, growing the list."""
    if first > len(values):
        values.extend([None] * (first - len(values)))
    values[first : first + len(results)] = results


def owned(value: Any) -> Any:
    """A result that the caller may change."""
    return value.copy() if isinstance(value, np.ndarray) else list(value) if isinstance(value, list) else value


def actual(item: Any, values: list[Any]) -> Any:
    """The run's value of an item: slots looked up, lists walked."""
    if isinstance(item, Slot):
        return values[item.index] if item.part is None else values[item.index][item.part]
    if type(item) is list:
        return [actual(i, values) for i in item]
    return item


def is_tensor(array: Array) -> bool:
    """Whether the IR has the array's element type."""
    return dtypes.is_known(array.dtype)
