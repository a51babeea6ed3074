"""CompiledGraph: what a user runs. Binding, checking, state, reports."""

import difflib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx.compiler import Compiled, compile_static
from rlx.dtypes import DType
from rlx.errors import (
    BindingError,
    BindingTypeError,
    CancelledError,
    ConfigError,
    DivisionExecutionError,
    ExecutionError,
    IndexExecutionError,
    RlxError,
    UnknownNameError,
)
from rlx.ir.dims import AnyDim, Dim
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.lower.program import NodeInfo, Port
from rlx.options import CompileOptions, default_threads
from rlx.passes.cleanup import eliminate_dead
from rlx.passes.specialise import specialise
from rlx.runtime.link import link
from rlx.runtime.report import Explanation, MemoryReport, Profile, Signature, explain, memory_of
from rlx.runtime.staged import Staged, is_dynamic
from rlx.runtime.weights import WeightStore, aligned


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint with the names that are most like `name`."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, 3)
    return f"\nhint: did you mean {' or '.join(map(repr, close))}?" if close else f"\nhint: known names are {names}"


def failure(status: int, info: NodeInfo, value: int, bound: int, position: int) -> RlxError:
    """The exception of a failed run."""
    place = info.place
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
    if status == 6:
        return CancelledError(f"{place}: the run was cancelled")
    return ExecutionError(f"{place}: a value met at run time is not allowed, got {value} (element {position})")


class _Helper:
    """Slow paths of the executor: everything that makes or refuses an array."""

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port], nodes: Sequence[NodeInfo], graph: str) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.nodes = nodes
        self.graph = graph

    def coerce(self, i: int, value: Any) -> Array:
        port = self.inputs[i]
        return fit(value, port.dtype, port.shape, f"input {port.name!r} of graph {self.graph!r}")

    def default(self, i: int) -> NoReturn:
        names = [p.name for p in self.inputs]
        raise BindingError(f"graph {self.graph!r}: every input must be given, {self.inputs[i].name!r} is missing; inputs are {names}")

    def unknown(self, given: Mapping[Any, Any]) -> NoReturn:
        names = [p.name for p in self.inputs]
        bad = next(k for k in given if k not in names)
        raise UnknownNameError(f"graph {self.graph!r}: no input {bad!r}{nearest(bad, names)}")

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
        if not isinstance(array, np.ndarray):
            raise BindingTypeError(f"{what}: must be a NumPy array, got {type(array).__name__}")
        if array.dtype != port.dtype.numpy:
            raise BindingTypeError(f"{what}: dtype must be {port.dtype}, got {array.dtype}")
        if array.shape != port.shape:
            raise BindingError(f"{what}: shape must be {port.shape}, got {array.shape}")
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            raise BindingError(f"{what}: must be C-contiguous, aligned and writeable, got {array.flags}")
        return array

    def busy(self) -> NoReturn:
        raise ExecutionError(
            f"graph {self.graph!r}: an executable runs one call at a time, got a second one"
            "\nhint: use clone() for another thread, or CompileOptions(busy='wait')")

    def failed(self, status: int, node: int, value: int, bound: int, position: int) -> RlxError:
        return failure(status, self.nodes[max(node, 0)], value, bound, position)


def fit(value: Any, dtype: DType, shape: tuple[int, ...], what: str) -> Array:
    """An array of exactly this type and shape, contiguous and aligned, or an error.

    Arrays keep their element type (a mismatch is an error); Python lists and
    numbers take the declared one when no value is lost in kind.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        if value is None or isinstance(value, (str, bytes)):
            raise BindingTypeError(f"{what}: must be an array of {dtype}, got {type(value).__name__}")
        if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__"):
            try:
                raw = np.asarray(value)
            except ValueError as error:
                raise BindingError(f"{what}: must be an array, got {type(value).__name__} ({error})") from None
            kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}
            if raw.size == 0 or raw.dtype.kind in kinds[dtype.kind]:
                value = raw.astype(dtype.numpy)
            else:
                value = raw
        elif hasattr(value, "__array__"):
            value = np.asarray(value)
        else:
            value = np.from_dlpack(value)
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != dtype.numpy:
        raise BindingTypeError(f"{what}: dtype must be {dtype}, got {array.dtype}\nhint: convert with .astype({dtype.numpy.name!r})")
    if array.shape != shape:
        raise BindingError(f"{what}: shape must be {shape}, got {array.shape}")
    return np.require(np.asarray(array, dtype.numpy), requirements=["C", "A"]).reshape(shape)


def run_once(compiled: Compiled, inputs: dict[str, Array]) -> dict[str, Array]:
    """Run a compiled graph once; used for constant folding."""
    variant = Variant(compiled, WeightStore(compiled.table), 1, "constants")
    variant.upload({})
    results = variant.executor.run(inputs, 1, None)
    return dict(results.items())


class Variant:
    """One compiled program with its own scratch and table of addresses."""

    def __init__(self, compiled: Compiled, store: WeightStore, threads: int, name: str) -> None:
        self.compiled = compiled
        self.store = store
        self.linked = link(compiled.program, compiled.table)
        self.threads = threads
        self.name = name
        program = compiled.program
        ins = [(p.name, p.dtype.numpy, p.shape, program.input_slot(i)) for i, p in enumerate(program.inputs)]
        outs = [(p.name, p.dtype.numpy, p.shape, program.output_slot(i)) for i, p in enumerate(program.outputs)]
        self.helper = _Helper(program.inputs, program.outputs, program.nodes, name)
        self.executor = _interp.Executor(self.linked, ins, outs, self.helper, threads)
        self.scratch = aligned(max(64, program.arena_bytes))
        self.executor.bind(0, self.scratch)
        self.raw_outputs: list[Array] | None = None

    def upload(self, params: Mapping[str, Array]) -> None:
        """Bind every weight to its array, packed where the program asks for it."""
        program = self.compiled.program
        for i, weight in enumerate(program.weights):
            source = params[weight.param] if weight.param is not None else weight.array
            assert source is not None
            self.executor.bind(program.weight_slot(i), self.store.get(weight, source))


class CompiledGraph:
    """An executable graph. Made by `rlx.compile`; runs one call at a time.

    Attributes
    ----------
    graph : Graph
        As the user built it.
    options : CompileOptions
    """

    def __init__(self, graph: Graph, options: CompileOptions) -> None:
        self.graph = graph
        self.options = options
        self._threads = options.threads or default_threads()
        self._params: dict[str, Array | None] = {v.node.name: None for v in graph.params}
        self._dirty = True
        self._lock = threading.Lock()
        self._variants: dict[tuple[tuple[int, ...], ...], Variant | Staged] = {}
        self._store: WeightStore | None = None
        unknown = [n for n in options.dims if n not in graph.symbols()]
        if unknown:
            raise ConfigError(f"CompileOptions.dims: sizes of graph {graph.name!r} are {sorted(graph.symbols())}, got {unknown}")
        if not graph.outputs:
            raise BindingError(f"graph {graph.name!r}: must have at least one output, got none")
        self._bound = specialise(graph, options.dims) if options.dims else graph
        self._open = sorted(self._bound.symbols())
        self._variant: Variant | Staged | None = None
        if not self._open:
            self._variant = self._make(self._bound)

    # -- variants ---------------------------------------------------------------

    def _make(self, graph: Graph) -> Variant | Staged:
        if is_dynamic(graph):
            return Staged(eliminate_dead(graph), self._make)
        compiled = compile_static(graph, self.options)
        if self._store is None:
            self._store = WeightStore(compiled.table)
        return Variant(compiled, self._store, self._threads, self.graph.name)

    def _select(self, inputs: Mapping[str, Any]) -> Variant | Staged:
        """The variant for the shapes of these inputs."""
        shapes = []
        for v in self._bound.inputs:
            name = v.node.name
            if name not in inputs:
                raise BindingError(f"graph {self.graph.name!r}: every input must be given, {name!r} is missing; "
                                   f"inputs are {[i.node.name for i in self._bound.inputs]}")
            shapes.append(tuple(np.shape(inputs[name])))
        key = tuple(shapes)
        found = self._variants.get(key)
        if found is None:
            sizes = bind_sizes(self._bound.inputs, shapes, self.graph.name)
            found = self._make(specialise(self._bound, sizes))
            found.upload(self._given_params())
            self._variants[key] = found
        return found

    def _given_params(self) -> dict[str, Array]:
        missing = [n for n, a in self._params.items() if a is None]
        if missing:
            raise BindingError(f"graph {self.graph.name!r}: every parameter must be set before the first run, got none for {missing}"
                               "\nhint: call set_params({...})")
        return {n: a for n, a in self._params.items() if a is not None}

    def _upload(self) -> None:
        params = self._given_params()
        for variant in [self._variant, *self._variants.values()]:
            if variant is not None:
                variant.upload(params)
        self._dirty = False

    def _prepare(self, inputs: Mapping[str, Any]) -> Variant | Staged:
        """The common prologue of every run variant."""
        if self._dirty:
            self._upload()
        variant = self._variant if self._variant is not None else self._select(inputs)
        if self.options.poison:
            variant.scratch[...] = 0xA5
        return variant

    # -- running ----------------------------------------------------------------

    def run(self, inputs: Mapping[str, Any] | None = None, *, threads: int | None = None, out: Any = None) -> _interp.Outputs:
        """Run once.

        Parameters
        ----------
        inputs : mapping of name to array
            A C-contiguous array of the declared type is read where it lies.
        threads : int, optional
            Threads of this run.
        out : mapping of name to array, or sequence, optional
            Where to write outputs; the same arrays come back.

        Returns
        -------
        Outputs
            Indexable by position and by name, in the order of outputs.

        Raises
        ------
        BindingError
            A name, shape, element type or array count does not fit.
        ExecutionError
            The run failed; names the node. The executable stays usable.
        """
        given = inputs if type(inputs) is dict else dict(inputs or {})
        if threads is not None:
            threads = check_threads(threads)
        if self.options.busy == "wait":
            with self._lock:
                return self._prepare(given).executor.run(given, threads or 0, out)
        if self._dirty or self._variant is None or self.options.poison:
            return self._prepare(given).executor.run(given, threads or 0, out)
        return self._variant.executor.run(given, threads or 0, out)

    def run_typed(self, inputs: Mapping[str, Any]) -> list[tuple[bytes, DType]]:
        """Run on raw bytes: name -> (bytes, dtype) or array; returns (bytes, dtype) per output.

        Raises
        ------
        BindingError
            A byte count is not that of the declared type and shape.
        """
        arrays = {}
        ports = {v.node.name: v for v in self._bound.inputs}
        for name, item in inputs.items():
            if isinstance(item, tuple) and len(item) == 2:
                if name not in ports:
                    raise UnknownNameError(f"graph {self.graph.name!r}: no input {name!r}{nearest(name, ports)}")
                arrays[name] = from_bytes(item[0], dtypes.as_dtype(item[1]), ports[name], f"input {name!r}")
            else:
                arrays[name] = item
        return [(a.tobytes(), dtypes.of_array(a)) for a in self.run(arrays)]

    def run_raw(self, inputs: Mapping[str, Any]) -> list[Array]:
        """Run into buffers that the executable keeps; the views are valid until its next run_raw or run_slots."""
        given = dict(inputs)
        variant = self._prepare(given)
        if isinstance(variant, Staged):
            return list(variant.run(given, 0, None))
        if variant.raw_outputs is None:
            variant.raw_outputs = [np.empty(p.shape, p.dtype.numpy) for p in variant.compiled.program.outputs]
        results = variant.executor.run(given, 0, variant.raw_outputs)
        views = [a.view() for a in results]
        for view in views:
            view.flags.writeable = False
        return views

    def run_slots(self, arrays: Sequence[Any]) -> list[Array]:
        """As `run_raw`, inputs by position in the order of the signature.

        Raises
        ------
        BindingError
            The number of arrays is not the number of inputs.
        """
        names = [v.node.name for v in self._bound.inputs]
        if len(arrays) != len(names):
            raise BindingError(f"run_slots: number of arrays must be {len(names)} ({names}), got {len(arrays)}")
        return self.run_raw(dict(zip(names, arrays, strict=True)))

    # -- parameters -------------------------------------------------------------

    def _param(self, name: str) -> Value:
        for v in self._bound.params:
            if v.node.name == name:
                return v
        raise UnknownNameError(f"graph {self.graph.name!r}: no parameter {name!r}{nearest(name, self._params)}")

    def set_param(self, name: str, array: Any) -> None:
        """Set a parameter. The array is copied.

        Raises
        ------
        UnknownNameError, BindingError
            No such parameter, or another shape or element type.
        """
        v = self._param(name)
        shape = v.shape if v.type.is_static else tuple(np.shape(array))
        fitted = fit(array, v.dtype, shape, f"parameter {name!r} of graph {self.graph.name!r}")  # type: ignore[arg-type]
        old = self._params[name]
        if old is not None and self._store is not None:
            self._store.forget(old)
        self._params[name] = fitted.copy() if fitted is array or fitted.base is not None else fitted
        self._dirty = True

    def set_params(self, arrays: Mapping[str, Any]) -> None:
        """Set several parameters; nothing is changed when one of them does not fit."""
        for name, array in arrays.items():
            v = self._param(name)
            if v.type.is_static:
                fit(array, v.dtype, v.shape, f"parameter {name!r} of graph {self.graph.name!r}")  # type: ignore[arg-type]
        for name, array in arrays.items():
            self.set_param(name, array)

    def set_param_typed(self, name: str, data: Any, dtype: Any) -> None:
        """Set a parameter from raw bytes of the declared element type."""
        v = self._param(name)
        self.set_param(name, from_bytes(data, dtypes.as_dtype(dtype), v, f"parameter {name!r}"))

    def get_param(self, name: str) -> Array:
        """A copy of a parameter's value.

        Raises
        ------
        BindingError
            It has not been set.
        """
        self._param(name)
        array = self._params[name]
        if array is None:
            raise BindingError(f"parameter {name!r}: must be set before it is read, got none")
        return array.copy()

    # -- life cycle and reports ---------------------------------------------------

    def clone(self) -> "CompiledGraph":
        """An independent executable that shares programs and weights, and nothing else."""
        other = CompiledGraph.__new__(CompiledGraph)
        other.__dict__.update(self.__dict__)
        other._lock = threading.Lock()
        other._params = dict(self._params)
        if self._store is not None:
            other._store = WeightStore(self._store.table)
            other._store._made = dict(self._store._made)

        def twin(variant: Variant | Staged) -> Variant | Staged:
            assert other._store is not None
            if isinstance(variant, Staged):
                return Staged(variant.graph, other._make)
            return Variant(variant.compiled, other._store, variant.threads, variant.name)

        other._variant = None if self._variant is None else twin(self._variant)
        other._variants = {}
        other._dirty = True
        return other

    def cancel(self) -> None:
        """Stop a run in progress on another thread before its next kernel call."""
        for variant in [self._variant, *self._variants.values()]:
            if variant is not None:
                variant.executor.cancel()

    @property
    def signature(self) -> Signature:
        """Names, element types and shapes of inputs, parameters and outputs."""
        return Signature.of(self.graph)

    @property
    def capabilities(self) -> frozenset[str]:
        """What this executable can do."""
        return frozenset({"clone", "typed_io", "out", "threads", "dynamic_shapes"})

    def _any_variant(self) -> Variant | Staged:
        variant = self._variant or next(iter(self._variants.values()), None)
        if variant is None:
            raise BindingError(f"graph {self.graph.name!r}: sizes {self._open} must be bound before this report"
                               "\nhint: run it once, or give CompileOptions(dims={...})")
        return variant

    def explain(self) -> Explanation:
        """Which passes fired and which kernels run."""
        return explain(self._any_variant().compiled)

    def memory_report(self) -> MemoryReport:
        """Bytes of weights, arena and its lower bound."""
        variants = [v for v in [self._variant, *self._variants.values()] if v is not None]
        return memory_of(self.graph.name, variants)

    def profile(self, inputs: Mapping[str, Any], *, repeat: int = 10, threads: int | None = None) -> Profile:
        """Time of every kernel call, averaged over `repeat` runs."""
        given = dict(inputs)
        variant = self._prepare(given)
        if isinstance(variant, Staged):
            raise BindingError(f"graph {self.graph.name!r}: a graph with data-dependent sizes runs in stages and has no single profile"
                               "\nhint: profile the stages' graphs on their own")
        spent = np.zeros(len(variant.linked), np.int64)
        variant.executor.run(given, threads or 0, None)
        variant.executor.spent = spent
        try:
            for _ in range(repeat):
                variant.executor.run(given, threads or 0, None)
        finally:
            variant.executor.spent = None
        return Profile.of(variant.compiled, spent / max(1, repeat))

    def dump_nodes(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Every intermediate value by name, of the graph as written."""
        shapes = [tuple(np.shape(inputs[v.node.name])) for v in self._bound.inputs if v.node.name in inputs]
        graph = self._bound
        if self._open:
            graph = specialise(graph, bind_sizes(self._bound.inputs, shapes, graph.name))
        full = specialise(graph, {})
        full.outputs = {v.name: v for n in full.nodes if not n.op.has("leaf") for v in n.outputs}
        compiled = compile_static(full, CompileOptions(threads=1, optimize=False, isa=self.options.isa))
        variant = Variant(compiled, WeightStore(compiled.table), 1, self.graph.name)
        variant.upload(self._given_params())
        return dict(variant.executor.run(dict(inputs), 1, None).items())

    def __repr__(self) -> str:
        return f"CompiledGraph({self.graph.name!r}, {self.signature})"


def check_threads(threads: Any) -> int:
    """A thread count.

    Raises
    ------
    ConfigError
        It is not a positive int.
    """
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise ConfigError(f"threads: must be a positive int, got {threads!r}")
    return int(threads)


def from_bytes(data: Any, dtype: DType, value: Value, what: str) -> Array:
    """Raw bytes as an array of the declared type; the count must be exact."""
    if dtype != value.dtype:
        raise BindingTypeError(f"{what}: dtype must be {value.dtype}, got {dtype}")
    if isinstance(data, np.ndarray):
        return data
    raw = memoryview(data).cast("B")
    shape = value.shape
    if not value.type.is_static:
        raise BindingError(f"{what}: a symbolic shape cannot be told from bytes, got {value.type}; pass an array")
    size = 1
    for d in shape:
        assert isinstance(d, int)
        size *= d
    if raw.nbytes != size * dtype.itemsize:
        raise BindingError(f"{what}: must be {size * dtype.itemsize} bytes for {value.type}, got {raw.nbytes}")
    return np.frombuffer(bytes(raw), dtype.numpy).reshape(shape)  # type: ignore[arg-type]


def bind_sizes(inputs: Sequence[Value], shapes: Sequence[tuple[int, ...]], graph: str) -> dict[str, int]:
    """Values of the symbolic sizes that the given shapes imply.

    Raises
    ------
    BindingError
        A rank or size does not fit, or two inputs disagree about a symbol.
    """
    sizes: dict[str, int] = {}
    checks: list[tuple[str, AnyDim, int, TensorShape]] = []
    for v, shape in zip(inputs, shapes, strict=True):
        name = v.node.name
        if len(shape) != v.rank:
            raise BindingError(f"input {name!r} of graph {graph!r}: rank must be {v.rank} ({v.type}), got shape {shape}")
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


TensorShape = tuple[int, ...]
