"""Compile caches: executables by graph and options, by bucket, by sizes; weights and parameters shared."""

import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from rlx._kernels import _interp
from rlx.errors import BindingError, ConfigError
from rlx.forking import follow
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.options import CompileOptions, default_threads
from rlx.records import replace
from rlx.runtime import kernels
from rlx.runtime.binding import as_mapping, bind_sizes, check_names, first_rows, nearest, shape_of
from rlx.runtime.cache import LRU, CacheStats
from rlx.runtime.executable import CompiledGraph
from rlx.runtime.report import MemoryReport, human, memory_of

K = TypeVar("K", bound=Hashable)


def power_of_two_ladder(low: int, high: int) -> tuple[int, ...]:
    """Buckets of powers of two: from `low` to `high`, both rounded up to one.

    Raises
    ------
    ConfigError
        Unless 0 < low <= high.

    Examples
    --------
    >>> power_of_two_ladder(10, 100)
    (16, 32, 64, 128)
    """
    for name, n in (("low", low), ("high", high)):
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"power_of_two_ladder: {name} must be a positive int, got {n!r}")
    if low > high:
        raise ConfigError(f"power_of_two_ladder: low must be at most high, got {low} and {high}")
    first, last = (low - 1).bit_length(), (high - 1).bit_length()
    return tuple(1 << p for p in range(first, last + 1))


def options_fingerprint(options: CompileOptions) -> tuple[object, ...]:
    """Equal for options, and the defaults that the environment gives them, that compile to the same."""
    parts: list[object] = [kernels.table(options.isa).level, options.threads or default_threads()]
    for f in fields(options):
        value = getattr(options, f.name)
        if f.name == "pipeline" and value is not None:
            parts.append(id(value))  # the entry keeps it alive
        elif isinstance(value, Mapping):
            parts.append((f.name, tuple(sorted((str(k), repr(v)) for k, v in value.items()))))
        else:
            parts.append((f.name, repr(value)))
    return tuple(parts)


def held_bytes(entries: Iterable[CompiledGraph]) -> int:
    """Weights, packed forms and scratch of executables; what they share counts once."""
    report = memory_of("cache", [v for e in entries for v in e.variants()])
    return report.weights + report.arena


class _Entries(Generic[K]):
    """Executables by key: each is compiled once, whatever the number of threads that ask for it."""

    def __init__(self, max_entries: int | None, max_bytes: int | None) -> None:
        self._lru: LRU[K, CompiledGraph] = LRU(max_entries, max_bytes, held_bytes)
        self._lock = threading.Lock()
        self._building: dict[K, threading.Lock] = {}
        follow(self)

    def _after_fork(self) -> None:
        self._lru.after_fork()
        self._lock, self._building = threading.Lock(), {}

    def _entry(self, key: K, graph: Graph, options: CompileOptions, like: CompiledGraph | None) -> CompiledGraph:
        found = self._lru.get(key)
        if found is not None:
            return found
        with self._lock:
            turn = self._building.setdefault(key, threading.Lock())
        with turn:
            found = self._lru.peek(key)
            if found is None:
                found = CompiledGraph(graph, options, like=like)
                self._lru.put(key, found)
        with self._lock:
            self._building.pop(key, None)
        return found

    @property
    def stats(self) -> CacheStats:
        """Hits, misses, evictions, entries and bytes."""
        return self._lru.stats

    def clear(self) -> None:
        """Drop all executables. Those that somebody else holds stay usable."""
        self._lru.clear()

    def memory_report(self) -> MemoryReport:
        """Bytes of all entries; what they share counts once."""
        return memory_of(type(self).__name__, [v for e in self._lru.values() for v in e.variants()])

    def __len__(self) -> int:
        return len(self._lru)

    def _describe(self, what: str) -> str:
        limits = [f"at most {self._lru.max_entries} entries" if self._lru.max_entries else "",
                  f"at most {human(self._lru.max_bytes)}" if self._lru.max_bytes else ""]
        parts = [what, str(self.stats), *filter(None, limits)]
        return f"{type(self).__name__}({'; '.join(p for p in parts if p)})"


class CompileCache(_Entries[tuple[str, tuple[object, ...]]]):
    """Executables by what they compute: graphs of the same structure and options are compiled once.

    The key is a digest of the graph (ops, types, attributes, constants, names of inputs, parameters
    and outputs) and of the options with their defaults. Entries of one graph share its parameters
    and all share packed weights: a parameter set in one of them is set in all.

    Parameters
    ----------
    max_entries : int, optional
        Most executables kept; the one not used for longest goes first.
    max_bytes : int, optional
        Most bytes of weights and scratch of all entries together.
    """

    def __init__(self, max_entries: int | None = None, max_bytes: int | None = None) -> None:
        super().__init__(max_entries, max_bytes)

    def compile(self, graph: Graph, options: CompileOptions | None = None) -> CompiledGraph:
        """The executable of a graph, compiled unless it is here.

        Raises
        ------
        ConfigError
            The arguments are not a graph and options.
        """
        key = self._key(graph, options or CompileOptions())
        same = next((e for k, e in self._lru.items() if k[0] == key[0]), None)
        return self._entry(key, graph, options or CompileOptions(), same)

    def _key(self, graph: Graph, options: CompileOptions) -> tuple[str, tuple[object, ...]]:
        if not isinstance(graph, Graph) or not isinstance(options, CompileOptions):
            raise ConfigError(f"CompileCache: must be given a Graph and CompileOptions, got {type(graph).__name__} "
                              f"and {type(options).__name__}")
        return graph.structural_hash(), options_fingerprint(options)

    def __contains__(self, key: object) -> bool:
        graph, options = key if isinstance(key, tuple) else (key, CompileOptions())
        return isinstance(graph, Graph) and self._key(graph, options) in self._lru

    def __repr__(self) -> str:
        return self._describe("")


class _OneGraph(_Entries[K]):
    """Executables of one graph, with one set of parameters."""

    def __init__(self, graph: Graph, options: CompileOptions | None, max_entries: int | None,
                 max_bytes: int | None) -> None:
        super().__init__(max_entries, max_bytes)
        if not isinstance(graph, Graph):
            raise ConfigError(f"{type(self).__name__}: must be given a Graph, got {type(graph).__name__}")
        self.graph = graph.snapshot()
        self.options = options or CompileOptions()
        if self.options.extents:
            raise ConfigError(f"{type(self).__name__}: options must have no extents of their own, "
                              f"got {dict(self.options.extents)}")
        # Compiles nothing: its sizes are open. Holds parameters and packed weights for all entries.
        self._root = CompiledGraph(self.graph, replace(self.options, dims={}, extents={}))

    def set_param(self, name: str, array: Any) -> None:
        """Set a parameter in all entries, those to come too. The array is copied."""
        self._root.set_param(name, array)

    def set_params(self, arrays: Mapping[str, Any]) -> None:
        """Set several parameters in all entries, those to come too."""
        self._root.set_params(arrays)

    def get_param(self, name: str) -> Array:
        """A copy of a parameter's value."""
        return self._root.get_param(name)

    def _sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """Named sizes as the shapes of inputs tell them."""
        names = [v.node.name for v in self.graph.inputs]
        check_names(inputs, names, f"graph {self.graph.name!r}")
        shapes = [shape_of(inputs[n], f"input {n!r} of graph {self.graph.name!r}") for n in names]
        return bind_sizes(self.graph.inputs, shapes, self.graph.name)


class DynamicDimCompileCache(_OneGraph[tuple[tuple[str, int], ...]]):
    """Executables of one graph by the values of its symbolic sizes.

    Parameters
    ----------
    graph : Graph
        With at least one symbolic size.
    options : CompileOptions, optional
        Sizes in its `dims` are the same in all entries.
    max_entries, max_bytes : int, optional
        Limits; the entry not used for longest goes first.

    Raises
    ------
    ConfigError
        The graph has no open size.
    """

    def __init__(self, graph: Graph, options: CompileOptions | None = None, *, max_entries: int | None = None,
                 max_bytes: int | None = None) -> None:
        super().__init__(graph, options, max_entries, max_bytes)
        self._open = sorted(self.graph.symbols() - set(self.options.dims))
        if not self._open:
            raise ConfigError(f"DynamicDimCompileCache: graph {graph.name!r} must have an open size, got none")

    def executable(self, dims: Mapping[str, int]) -> CompiledGraph:
        """The executable of these sizes.

        Raises
        ------
        ConfigError
            The names are not those of the open sizes.
        """
        if sorted(dims) != self._open:
            raise ConfigError(f"DynamicDimCompileCache: sizes must be {self._open}, got {sorted(dims)}")
        options = replace(self.options, dims={**self.options.dims, **dims})
        return self._entry(tuple(sorted(dims.items())), self.graph, options, self._root)

    def run(self, inputs: Mapping[str, Any], *, threads: int | None = None) -> _interp.Outputs:
        """Run the executable of the sizes that the inputs have; one call at a time per executable."""
        given = as_mapping(inputs, "inputs")
        sizes = self._sizes(given)
        exe = self.executable({n: sizes[n] for n in self._open})
        with exe.turn:
            return exe.run(given, threads=threads)

    def __repr__(self) -> str:
        return self._describe(f"{self.graph.name!r} by {', '.join(self._open)}")


Buckets = Mapping[str, Sequence[int]]


def check_buckets(buckets: Any, known: Iterable[str], what: str) -> dict[str, tuple[int, ...]]:
    """Bucket sizes in increasing order.

    Raises
    ------
    ConfigError
        A size is unknown, or its buckets are not increasing positive ints.
    """
    known = sorted(known)
    if not isinstance(buckets, Mapping) or not buckets:
        raise ConfigError(f"{what}: buckets must map names of sizes to numbers, got {buckets!r}"
                          f"\nhint: {{name: power_of_two_ladder(16, 128)}} with a name of {known}")
    result = {}
    for name, ladder in buckets.items():
        if name not in known:
            raise ConfigError(f"{what}: sizes are {known}, got {name!r}{nearest(name, known)}")
        steps = tuple(ladder) if isinstance(ladder, Iterable) and not isinstance(ladder, str) else ()
        bad = not steps or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in steps)
        if bad or any(a >= b for a, b in zip(steps, steps[1:], strict=False)):
            raise ConfigError(f"{what}: buckets of {name!r} must be increasing positive ints, got {ladder!r}")
        result[name] = steps
    return result


def pick(buckets: Mapping[str, Sequence[int]], sizes: Mapping[str, int], what: str) -> dict[str, int]:
    """The smallest bucket of each size that holds it.

    Raises
    ------
    BindingError
        A size is missing, 0 or larger than all buckets.
    """
    missing = [name for name in buckets if name not in sizes]
    if missing:
        unknown = [name for name in sizes if name not in buckets]
        raise BindingError(f"{what}: sizes must name {list(buckets)}, got {list(sizes)}"
                           f"\nhint: {missing} missing" + (f", {unknown} not among them" if unknown else ""))
    found = {}
    for name, ladder in buckets.items():
        n = sizes[name]
        step = next((b for b in ladder if b >= n), None)
        if step is None or n < 1:
            raise BindingError(f"{what}: size {name!r} must be in [1, {ladder[-1]}], got {n}"
                               "\nhint: add a larger bucket")
        found[name] = step
    return found


class BucketedCompileCache(_OneGraph[tuple[tuple[str, int], ...]]):
    """One executable per bucket of sizes; a run uses the smallest that holds it, at its active extent.

    Results are those of the graph compiled for the very sizes, bit for bit, and have these sizes.
    Nothing is padded, so nothing leaks from padding into rows, masks or not.

    Parameters
    ----------
    graph : Graph
        With symbolic sizes.
    buckets : mapping of str to sequence of int
        Per size its buckets, e.g. ``{"seq": power_of_two_ladder(16, 128)}``. Sizes that are not
        named are bound by each combination of inputs.
    options : CompileOptions, optional
    max_entries, max_bytes : int, optional
        Limits on executables and on the bytes of their weights and scratch.

    Raises
    ------
    ConfigError
        A size is unknown, or its buckets are not increasing positive ints.
    """

    def __init__(self, graph: Graph, buckets: Buckets, options: CompileOptions | None = None, *,
                 max_entries: int | None = None, max_bytes: int | None = None) -> None:
        super().__init__(graph, options, max_entries, max_bytes)
        known = self.graph.symbols() - set(self.options.dims)
        self.buckets = check_buckets(buckets, known, "BucketedCompileCache")
        self._others = tuple(sorted(known - set(self.buckets)))

    def bucket(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The bucket that holds these sizes.

        Raises
        ------
        BindingError
            There is none.
        """
        return pick(self.buckets, sizes, f"graph {self.graph.name!r}")

    def executable(self, sizes: Mapping[str, int]) -> CompiledGraph:
        """The executable of the bucket that holds these sizes, as the last run left its extents."""
        upper = self.bucket(sizes)
        options = replace(self.options, extents=upper)
        return self._entry(tuple(sorted(upper.items())), self.graph, options, self._root)

    def run(self, inputs: Mapping[str, Any], *, threads: int | None = None) -> _interp.Outputs:
        """Run at the sizes that the inputs have; one call at a time per bucket.

        Raises
        ------
        BindingError
            No bucket holds a size, or the graph cannot have it (says why, by node and op).
        """
        given = as_mapping(inputs, "inputs")
        sizes = self._sizes(given)
        exe = self.executable(sizes)
        with exe.turn:
            for name in self.buckets:
                report = exe.set_active_extent(name, sizes[name])
                if not report:
                    raise BindingError(f"graph {self.graph.name!r}: {report}")
            wide = exe.run(given, threads=threads)
        known = {**self.options.dims, **sizes}
        arrays = [_cut(a, v.type.bind(known).shape) for a, v in zip(wide, self.graph.outputs.values(), strict=True)]
        return _interp.Outputs(tuple(arrays), {n: i for i, n in enumerate(self.graph.outputs)})

    def __repr__(self) -> str:
        return self._describe(f"{self.graph.name!r} by " + ", ".join(f"{n} {list(b)}" for n, b in self.buckets.items()))


def _cut(array: Array, shape: Sequence[Any]) -> Array:
    """The rows that a run computed; sizes that depend on data are as they came."""
    want = [n if isinstance(n, int) else None for n in shape]
    same = all(n is None or n == have for n, have in zip(want, array.shape, strict=True))
    return array if same else first_rows(array, want)


@runtime_checkable
class Runnable(Protocol):
    """What `PaddedModel` runs: a `Model`, or a `CompiledGraph` with open sizes."""

    @property
    def signature(self) -> Any:
        """`inputs` and `outputs` by name, each with a `shape`."""
        ...

    def run(self, inputs: Mapping[str, Any], *, threads: int | None = None) -> Any:
        """Run once."""
        ...


class PaddedModel:
    """A model that masks its own padding, run at few sizes: inputs are padded, outputs cut.

    For models whose inputs tell which rows are real (an attention mask), as files of transformers
    do. Padded rows are then multiplied by zero: results are those of the exact size up to the
    rounding of longer sums. A model without a mask must not be run so: its rows would see the
    padding. Use `BucketedCompileCache`, which never pads, or the model itself.

    Parameters
    ----------
    model : Model or CompiledGraph
        With named sizes in its signature.
    buckets : mapping of str to sequence of int
        Per name its sizes, increasing.
    pad : mapping of str to number, optional
        What inputs are padded with, by name; 0 by default. The mask must become 0.
    outputs : mapping of str to mapping of int to str, optional
        Which axes of an output carry a size, where the signature does not tell:
        ``{"output": {1: "sequence_length"}}``.

    Raises
    ------
    ConfigError
        A size or an output is unknown, or the signature does not tell which of an output's axes
        carry a size.
    """

    def __init__(self, model: Runnable, buckets: Buckets, *, pad: Mapping[str, Any] | None = None,
                 outputs: Mapping[str, Mapping[int, str]] | None = None) -> None:
        if not isinstance(model, Runnable):
            raise ConfigError(f"PaddedModel: must be given a model, got {type(model).__name__}")
        self.model = model
        signature = model.signature
        self._axes = {n: _named_axes(t.shape) for n, t in signature.inputs.items()}
        names = {s for axes in self._axes.values() for s in axes.values()}
        self.buckets = check_buckets(buckets, names, "PaddedModel")
        self._pad = dict(pad or {})
        for name in self._pad:
            if name not in self._axes:
                raise ConfigError(f"PaddedModel: no input {name!r}{nearest(name, self._axes)}")
        told = dict(outputs or {})
        for name in told:
            if name not in signature.outputs:
                raise ConfigError(f"PaddedModel: no output {name!r}{nearest(name, signature.outputs)}")
        self._cuts: dict[str, dict[int, str]] = {}
        for name, t in signature.outputs.items():
            axes = dict(told[name]) if name in told else _named_axes(t.shape)
            unknown = [s for s in axes.values() if s not in names]
            if t.shape is None or unknown:
                raise ConfigError(f"PaddedModel: output {name!r} must tell which axes carry {sorted(self.buckets)}, "
                                  f"got {t}\nhint: outputs={{{name!r}: {{axis: name}}}}")
            self._cuts[name] = {axis: s for axis, s in axes.items() if s in self.buckets}
        self._runs: dict[tuple[int, ...], int] = {}

    def bucket(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The bucket that holds these sizes.

        Raises
        ------
        BindingError
            There is none.
        """
        return pick(self.buckets, sizes, "PaddedModel")

    def run(self, inputs: Mapping[str, Any], *, threads: int | None = None) -> _interp.Outputs:
        """Pad, run, cut. One call at a time.

        Raises
        ------
        BindingError
            No bucket holds a size, or two inputs disagree about one.
        """
        given = {n: np.asarray(v) for n, v in as_mapping(inputs, "inputs").items()}
        sizes: dict[str, int] = {}
        for name, array in given.items():
            for axis, symbol in self._axes.get(name, {}).items():
                n = array.shape[axis] if axis < array.ndim else 0
                if sizes.setdefault(symbol, n) != n:
                    raise BindingError(f"input {name!r}: size {symbol!r} must be {sizes[symbol]}, "
                                       f"got shape {array.shape}")
        upper = self.bucket(sizes)
        padded = {n: self._widen(n, a, upper) for n, a in given.items()}
        results = self.model.run(padded, threads=threads)
        key = tuple(upper.values())
        self._runs[key] = self._runs.get(key, 0) + 1
        names = list(results.keys())
        arrays = [self._first(results[n], self._cuts[n], sizes) for n in names]
        return _interp.Outputs(tuple(arrays), {n: i for i, n in enumerate(names)})

    def _widen(self, name: str, array: Array, upper: Mapping[str, int]) -> Array:
        shape = list(array.shape)
        for axis, symbol in self._axes.get(name, {}).items():
            shape[axis] = upper.get(symbol, shape[axis])
        if tuple(shape) == array.shape:
            return array
        wide = np.full(shape, self._pad.get(name, 0), array.dtype)
        wide[tuple([slice(0, n) for n in array.shape])] = array
        return wide

    @staticmethod
    def _first(array: Array, axes: Mapping[int, str], sizes: Mapping[str, int]) -> Array:
        want = [sizes[axes[i]] if i in axes else n for i, n in enumerate(array.shape)]
        return array if tuple(want) == array.shape else first_rows(array, want)

    def __repr__(self) -> str:
        runs = ", ".join(f"{'x'.join(map(str, k))}: {n} runs" for k, n in sorted(self._runs.items()))
        ladder = ", ".join(f"{n} {list(b)}" for n, b in self.buckets.items())
        return f"PaddedModel({self.model!r} by {ladder}; {runs or 'no runs'})"


def _named_axes(shape: Any) -> dict[int, str]:
    return {i: str(d) for i, d in enumerate(shape or ()) if d is not None and not isinstance(d, int)}
