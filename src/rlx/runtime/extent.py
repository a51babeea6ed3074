"""Active extent: a graph whose sizes are bounded by buckets, bound to the rows that a run really has.

The rule of a row of the ops table tells, on symbolic sizes, which axis of each
result carries a bucketed size. A run on `actual` rows executes the program of
exactly these sizes, over the scratch of the bucket; at the end its results are
laid out at bucket size, and what lies beyond is zero.
"""

import math
import operator
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rlx.errors import BindingError, ConfigError, UnknownNameError
from rlx.ir.dims import Dim
from rlx.ir.graph import Graph, Value
from rlx.ir.types import Shape, TensorType, static_shape
from rlx.options import CompileOptions
from rlx.passes.specialise import specialise
from rlx.records import record, replace
from rlx.runtime.binding import Wide, nearest

# Extents in use by name; empty at full size.
ExtentKey: TypeAlias = tuple[tuple[str, int], ...]


@record(frozen=True)
class ExtentReport:
    """What `set_active_extent` did. True in a condition if the extent is in use.

    Attributes
    ----------
    name : str
        The symbolic size.
    actual, upper : int
        Rows asked for, and rows of the bucket.
    used : bool
        Whether runs are now on `actual` rows. If not, they go on as before the call.
    reason : str
        Why it is not used, by node and op; empty if it is.
    """

    name: str
    actual: int
    upper: int
    used: bool = True
    reason: str = ""

    @property
    def fraction(self) -> float:
        """Share of the bucket's rows that runs compute."""
        return self.actual / self.upper if self.used else 1.0

    def __bool__(self) -> bool:
        return self.used

    def __str__(self) -> str:
        state = "in use" if self.used else f"not used: {self.reason}"
        return f"extent {self.name}: {self.actual} of {self.upper}, {state}"


def check_extents(graph: Graph, extents: Mapping[str, int], dims: Mapping[str, int]) -> None:
    """Refuse extents of sizes that the graph does not have, or that are numbers already.

    Raises
    ------
    ConfigError
        Naming them.
    """
    known = sorted(graph.symbols())
    unknown = [n for n in extents if n not in known]
    if unknown:
        raise ConfigError(f"CompileOptions.extents: sizes of graph {graph.name!r} are {known}, got {unknown}")
    both = [n for n in extents if n in dims]
    if both:
        raise ConfigError(f"CompileOptions.extents: a size must be given there or in dims, got {both} in both")


class Extents:
    """The bucketed sizes of a graph, and the rows of them that runs are on.

    Parameters
    ----------
    graph : Graph
        With the bucketed sizes as symbols.
    upper : mapping of str to int
        Rows of each bucket.

    Attributes
    ----------
    full : Graph
        The graph at bucket sizes.
    actual : dict of str to int
        Extents in use. Those that are not named have their bucket's size.
    refused : dict of str to ExtentReport
        Per size the last request, if it could not be met.
    """

    def __init__(self, graph: Graph, upper: Mapping[str, int]) -> None:
        self.graph = graph
        self.upper = dict(upper)
        self.full = specialise(graph, self.upper) if upper else graph
        self._current: Graph | None = self.full
        self._now: dict[str, Shape] = {}  # of inputs at the extents in use
        self._param_axes = {
            v.node.name: frozenset(i for i, d in enumerate(v.shape) if isinstance(d, Dim) and d.symbols() & set(upper))
            for v in graph.params
        }
        self.actual: dict[str, int] = {}
        self.refused: dict[str, ExtentReport] = {}

    def fork(self) -> "Extents":
        """An independent copy that shares the graphs."""
        other = Extents.__new__(Extents)
        other.__dict__.update(self.__dict__)
        other.actual, other.refused = dict(self.actual), dict(self.refused)
        return other

    # -- requests -----------------------------------------------------------------

    def ask(self, name: str, actual: Any) -> tuple[ExtentReport, dict[str, int]]:
        """Check a request; returns what would be reported, and the extents that would be in use.

        Raises
        ------
        UnknownNameError
            No such extent.
        BindingError
            It is not an int in [1, upper].
        """
        if name not in self.upper:
            raise UnknownNameError(f"graph {self.graph.name!r}: no extent {name!r}{nearest(name, self.upper)}")
        upper = self.upper[name]
        wanted = dict(self.actual)
        wanted.pop(name, None)
        if actual is None:
            return ExtentReport(name, upper, upper), wanted
        if isinstance(actual, bool) or not hasattr(actual, "__index__") or not 0 < operator.index(actual) <= upper:
            raise BindingError(f"extent {name!r} of graph {self.graph.name!r}: must be an int in [1, {upper}], "
                               f"got {actual!r}")
        rows = operator.index(actual)
        if rows < upper:
            wanted[name] = rows
        return ExtentReport(name, rows, upper), wanted

    def use(self, report: ExtentReport, wanted: dict[str, int]) -> ExtentReport:
        """Put extents to use."""
        sizes = {**self.upper, **wanted}
        self.actual, self._current = wanted, None if wanted else self.full
        self._now = {v.node.name: v.type.bind(sizes).shape for v in self.graph.inputs} if wanted else {}
        self.refused.pop(report.name, None)
        return report

    def refuse(self, report: ExtentReport, reason: str) -> ExtentReport:
        """Keep the extents as they are, and remember why."""
        self.refused[report.name] = refused = replace(report, used=False, reason=reason)
        return refused

    def reports(self) -> tuple[ExtentReport, ...]:
        """What is in use, per extent, then what was asked for last in vain."""
        now = [ExtentReport(n, self.actual.get(n, u), u) for n, u in self.upper.items()]
        return (*now, *self.refused.values())

    def key(self, actual: Mapping[str, int] | None = None) -> ExtentKey:
        """What tells programs of different extents apart; empty at full size."""
        return tuple(sorted((self.actual if actual is None else actual).items()))

    def axes(self, name: str) -> dict[str, dict[int, str]]:
        """Values that carry a size: their axes, and how.

        Raises
        ------
        UnknownNameError
            No such extent.
        """
        if name not in self.upper:
            raise UnknownNameError(f"graph {self.graph.name!r}: no extent {name!r}{nearest(name, self.upper)}")
        found = {
            v.name: {i: str(d) for i, d in enumerate(v.shape) if isinstance(d, Dim) and name in d.symbols()}
            for node in self.graph.nodes for v in node.outputs
        }
        return {value: axes for value, axes in found.items() if axes}

    # -- graphs ---------------------------------------------------------------------

    @property
    def current(self) -> Graph:
        """The graph at the extents in use; its outputs are laid out at bucket size."""
        if self._current is None:
            self._current = self.bind(self.actual)
        return self._current

    def bind(self, actual: Mapping[str, int]) -> Graph:
        """The graph at these sizes, its outputs laid out at bucket size.

        Raises
        ------
        BindingError
            An output has no first rows that could be those of a smaller graph.
        GraphError
            A rule refuses the sizes.
        """
        if not actual:
            return self.full
        graph = specialise(self.graph, {**self.upper, **actual})
        outputs, graph.outputs = graph.outputs, {}
        for (name, value), wide in zip(outputs.items(), self.full.outputs.values(), strict=True):
            graph.output(name, widen(name, value, wide.type))
        return graph

    # -- what a caller gives ----------------------------------------------------------

    def wide(self, sizes: Mapping[str, int], actual: Mapping[str, int] | None = None) -> Wide:
        """What may be given at the size of the bucket, other sizes bound."""
        inputs: dict[str, tuple[int, ...]] = {}
        if self.actual if actual is None else actual:
            inputs = {v.node.name: static_shape(v.type.bind(sizes).shape, v.name) for v in self.full.inputs}
        return Wide(inputs, self._param_axes)

    def first(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of which a run takes an input of this shape, which may be that of the bucket."""
        if not self.actual:
            return shape
        wide = next(v.shape for v in self.full.inputs if v.node.name == name)
        now = self._now[name]
        if len(wide) != len(shape):
            return shape
        cut = {i: n for i, (w, n) in enumerate(zip(wide, now, strict=True)) if w != n and isinstance(n, int)}
        if not all(shape[i] == wide[i] for i in cut):
            return shape
        return tuple([cut.get(i, n) for i, n in enumerate(shape)])

    def port(self, name: str, port: Value, data: Any) -> Value:
        """The declaration that raw bytes fit: at bucket size, or at the extents in use."""
        now = self._now.get(name)
        if now is None or isinstance(data, np.ndarray) or any(isinstance(d, Dim) for d in now):
            return port
        if memoryview(data).nbytes == math.prod(static_shape(now, name)) * port.dtype.itemsize:
            return next(v for v in self.current.inputs if v.node.name == name)
        return port


def widen(name: str, value: Value, want: TensorType) -> Value:
    """A result with zeros behind its rows.

    Raises
    ------
    BindingError
        A size shrinks when the extent grows, or what is missing is not a number.
    """
    if value.shape == want.shape:
        return value
    after = []
    for have, full in zip(value.shape, want.shape, strict=True):
        missing = 0 if have == full else full - have
        if not isinstance(missing, int) or missing < 0:
            raise BindingError(f"{value.node.place}, output {name!r}: its sizes must grow with the extent, "
                               f"got {value.type} within a bucket of {want}")
        after.append(missing)
    from rlx import ops

    padded: Value = ops.pad(value, before=(0,) * len(after), after=tuple(after), name=f"{name}.rows")
    return padded


def bind_options(graph: Graph, options: CompileOptions) -> Extents:
    """The graph with the sizes that options give; its buckets beside it.

    Raises
    ------
    ConfigError
        Options name sizes that the graph does not have.
    BindingError
        The graph has no outputs.
    """
    known = graph.symbols()
    unknown = [n for n in options.dims if n not in known]
    if unknown:
        raise ConfigError(f"CompileOptions.dims: sizes of graph {graph.name!r} are {sorted(known)}, got {unknown}")
    if not graph.outputs:
        raise BindingError(f"graph {graph.name!r}: must have at least one output, got none")
    check_extents(graph, options.extents, options.dims)
    return Extents(specialise(graph, options.dims) if options.dims else graph.snapshot(), options.extents)
