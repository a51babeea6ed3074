"""CompiledGraph: what a user runs. Binding, checking, state, reports."""

import _thread
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx.collector import collector_paused
from rlx.compiler import Compiled, compile_static
from rlx.dtypes import DType
from rlx.errors import (
    BindingError,
    BindingTypeError,
    ConfigError,
    RlxError,
    SizeError,
    UnknownNameError,
)
from rlx.forking import follow
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.machine import check_count, check_threads
from rlx.options import CompileOptions, RngOptions, default_threads
from rlx.passes.cleanup import eliminate_dead
from rlx.passes.specialise import specialise
from rlx.runtime import kernels
from rlx.runtime.binding import (
    Wide,
    as_mapping,
    bind_sizes,
    check_names,
    from_bytes,
    nearest,
    require_numbers,
    shape_of,
)
from rlx.runtime.bucketed import Bucketed, Key
from rlx.runtime.cache import LRU, VARIANTS
from rlx.runtime.extent import Extents, bind_options
from rlx.runtime.family import Families
from rlx.runtime.lifecycle import LifeCycle
from rlx.runtime.manifest import IoDtypeManifest
from rlx.runtime.parameters import Parameters
from rlx.runtime.report import (
    Explanation,
    MemoryReport,
    Profile,
    Signature,
    explain,
    memory_of,
    stages_of,
)
from rlx.runtime.settings import active_options
from rlx.runtime.staged import Staged, is_dynamic
from rlx.runtime.state import Handles, handles_of, with_inputs
from rlx.runtime.stateful import Stateful
from rlx.runtime.variant import Variant, make_state, settle
from rlx.runtime.verbose import tell
from rlx.runtime.weights import WeightStore

if TYPE_CHECKING:
    from rlx.runtime.dispatch import DispatchReport


class CompiledGraph(Bucketed, Parameters, Stateful, LifeCycle, _interp.Entry):
    """An executable graph. Made by `rlx.compile`; runs one call at a time.

    Attributes
    ----------
    graph : Graph
        As the user built it.
    options : CompileOptions
    turn : lock
        Held by caches that run it for several threads.
    """

    def __init__(self, graph: Graph, options: CompileOptions, ready: Compiled | None = None, *,
                 like: "CompiledGraph | None" = None) -> None:
        """Compile a graph; `like` is an executable of the same graph whose parameters and weights it shares."""
        self.graph = graph
        self.options = options
        self._threads = options.threads or default_threads()
        self._careful = options.poison or options.nan_check or options.busy == "wait"
        self._params: dict[str, Array | None] = {v.node.name: None for v in graph.params}
        self._sharers: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()
        if like is not None:
            self._params, self._sharers = like._params, like._sharers
        self._sharers.add(self)
        self._dirty = True
        self._lock = _thread.RLock()
        self.turn = _thread.RLock()
        self._variants: LRU[Key, Variant | Staged] = LRU(VARIANTS)
        self._guard = _interp.Guard()
        self._scratch: Array | None = None
        self._store: WeightStore = WeightStore(kernels.table(options.isa)) if like is None else like._store
        self._rng = make_state(options.rng)
        self._extents = bind_options(graph, options)
        self._bound = self._extents.full
        self._families = Families(options, self._extents.upper, self._extents.bind)
        self._open = sorted(self._bound.symbols())
        self._handles = handles_of(self._bound)
        self._full: Variant | Staged | None = None
        if not self._open:
            self._full = self._make(self._bound, self._extents.wide({}), ready)
        self._variant = self._full
        follow(self)  # at the end: a fork during a compilation meets whole executables alone

    def _after_fork(self) -> None:
        self._lock = _thread.RLock()
        self.turn = _thread.RLock()
        self._variants.after_fork()
        self._families.after_fork()
        for variant in self._programs():
            variant.executor.abandon()

    # -- variants ---------------------------------------------------------------

    def _make(self, graph: Graph, wide: Wide | None = None, ready: Compiled | None = None) -> Variant | Staged:
        if is_dynamic(graph):
            return Staged(eliminate_dead(graph), self._make, wide)
        with collector_paused():
            try:
                check = None
                if self.options.nan_check:
                    from rlx.runtime.intermediates import NanCheck

                    check = NanCheck(graph, self.options.isa, wide)
                compiled = ready or compile_static(graph, self.options)
                self.io_manifest.check(compiled.program.inputs, compiled.program.outputs, self.graph.name)
                variant = Variant(compiled, self._store, self._threads, self.graph.name, self._rng, wide=wide,
                                  scratch=self._scratch)
            except (MemoryError, OverflowError) as error:
                raise out_of_memory(error, self.graph.name) from None
            variant.nan_check = check
            settle(compiled)
            tell(compiled)
        return self._own(variant)

    def _own(self, variant: Variant) -> Variant:
        """Programs of one executable never run at the same time, and use the same scratch where it is large enough."""
        variant.executor.guard = self._guard
        if self._scratch is None or variant.scratch.nbytes > self._scratch.nbytes:
            self._scratch = variant.scratch
        return variant

    def variants(self) -> list[Variant | Staged]:
        """Every program made so far: of the shapes and extents that were met."""
        found = {id(v): v for v in (self._full, self._variant, *self._variants.values()) if v is not None}
        return list(found.values())

    def _select(self, inputs: Mapping[str, Any]) -> Variant | Staged:
        """The variant for the shapes of these inputs."""
        shapes = []
        known = self._extents.current.inputs
        if any(v.node.name not in inputs for v in known):
            check_names(inputs, [v.node.name for v in known], f"graph {self.graph.name!r}")
        for v in known:
            name = v.node.name
            shape = shape_of(inputs[name], f"input {name!r} of graph {self.graph.name!r}")
            shapes.append(self._extents.first(name, shape))
        key = (self._extents.key(), tuple(shapes))
        found = self._variants.get(key)
        if found is None:
            for v in known:
                value = inputs[v.node.name]
                if isinstance(value, np.ndarray):
                    require_numbers(value, value, f"input {v.node.name!r} of graph {self.graph.name!r}")
            sizes = bind_sizes(self._extents.current.inputs, shapes, self.graph.name)
            found = self._make(specialise(self._extents.current, sizes), self._extents.wide(sizes))
            found.upload(self._given_params())
            self._variants.put(key, found)
        return found

    def _upload(self) -> None:
        params = self._given_params()
        if self._full is not None:
            self._full.upload(params)
        for key, variant in self._variants.items():
            try:
                variant.upload(params)
            except BindingError:  # a program of sizes that a parameter no longer has
                self._variants.drop(key)
        self._dirty = False

    def _prepare(self, inputs: Mapping[str, Any]) -> Variant | Staged:
        """Parameters uploaded, program chosen, scratch poisoned if asked for."""
        if self._dirty:
            self._upload()
        variant = self._variant if self._variant is not None else self._select(inputs)
        if self.options.poison and not (isinstance(variant, Variant) and variant.executor.is_running):
            variant.scratch[...] = 0xA5
        return variant

    def _execute(self, given: dict[str, Any], threads: int, out: Any, raw: bool = False) -> _interp.Outputs:
        """The common prologue and epilogue of every run variant."""
        stateful = self._handles.active
        if stateful:
            given = self._handles.feed(given)
        variant = self._prepare(given)
        if isinstance(variant, Variant) and variant.nan_check is not None:
            variant.nan_check.check(given, self._given_params(), self._rng)
        kept = variant.kept_outputs() if raw and not isinstance(variant, Staged) else None
        try:
            if stateful:
                return self._handles.run(variant.executor, given, threads, out, kept)
            if kept is not None:
                out = _interp.Targets(kept, None)
            return variant.executor.run(given, threads, out)
        except (MemoryError, OverflowError) as error:
            raise self._refused(error) from None

    # -- running ----------------------------------------------------------------

    def _run(self, inputs: Mapping[str, Any] | None, threads: int | None, out: Any) -> _interp.Outputs:
        """A call that is not like the one before."""
        given = inputs if type(inputs) is dict else as_mapping(inputs, "inputs")
        if threads is not None:
            threads = check_threads(threads)
        if self.options.busy == "wait":
            with self._lock:
                return self._execute(given, threads or 0, out)
        variant = self._variant  # once: another thread may close this meanwhile
        if self._dirty or variant is None or self._careful or self._handles.active:
            return self._execute(given, threads or 0, out)
        if isinstance(variant, Variant):
            self._know(variant, variant.executor, None)
        try:
            return variant.executor.run(given, threads or 0, out)
        except (MemoryError, OverflowError) as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> SizeError:
        return out_of_memory(error, self.graph.name)

    def run_typed(self, inputs: Mapping[str, Any]) -> list[tuple[bytes, DType]]:
        """Run on raw bytes: name -> (bytes, dtype) or array; returns (bytes, dtype) per output.

        Raises
        ------
        BindingError
            A byte count is not that of the declared type and shape.
        """
        arrays = {}
        ports = {v.node.name: v for v in self._bound.inputs}
        for name, item in as_mapping(inputs, "inputs").items():
            if isinstance(item, tuple) and len(item) == 2:
                if name not in ports:
                    raise UnknownNameError(f"graph {self.graph.name!r}: no input {name!r}{nearest(name, ports)}")
                port = self._extents.port(name, ports[name], item[0])
                arrays[name] = from_bytes(item[0], dtypes.as_dtype(item[1]), port, f"input {name!r}")
            else:
                arrays[name] = item
        return [(a.tobytes(), dtypes.of_array(a)) for a in self.run(arrays)]

    def run_raw(self, inputs: Mapping[str, Any]) -> list[Array]:
        """Run into buffers that the executable keeps; the views are valid until its next run_raw or run_slots."""
        results = self._execute(as_mapping(inputs, "inputs"), 0, None, raw=True)
        for array in results:
            array.flags.writeable = False
        return list(results)

    def _run_slots(self, arrays: Sequence[Any]) -> list[Array]:
        """A call by position that is not like the one before."""
        names = [v.node.name for v in self.graph.inputs]
        if not isinstance(arrays, Sequence):
            raise BindingTypeError(f"run_slots: must be a sequence of arrays, got {type(arrays).__name__}")
        if len(arrays) != len(names):
            raise BindingError(f"run_slots: number of arrays must be {len(names)} ({names}), got {len(arrays)}")
        views = self.run_raw({n: a for n, a in zip(names, arrays, strict=True) if a is not None})
        chosen = self._variant
        if isinstance(chosen, Variant) and [p.name for p in chosen.compiled.program.inputs] == names:
            self._know(chosen, chosen.executor, chosen.kept_outputs())
        return views

    # -- state --------------------------------------------------------------------

    def _state(self) -> Handles:
        return self._handles

    def link(self, output: str, handle: str, *, append: bool = False) -> None:
        if handle in self._params:
            self._free_param(handle)
        super().link(output, handle, append=append)

    link.__doc__ = Stateful.link.__doc__

    def _free_param(self, name: str) -> None:
        """Turn a parameter into state: the graph is compiled anew with an input in its place."""
        value = self._given_params_of([name])[name]
        if self._extents.actual:
            raise BindingError(f"graph {self.graph.name!r}: parameter {name!r} must be linked at full extents, "
                               f"got {self._extents.actual}\nhint: set_active_extent(name, None) before, again after")
        before = self._extents, self._families, self._bound
        self._extents = Extents(with_inputs(self._extents.graph, {name}), self._extents.upper)
        self._families = Families(self.options, self._extents.upper, self._extents.bind)
        self._bound = self._extents.full
        try:
            full = None if self._open else self._make(self._bound)
        except RlxError:
            self._extents, self._families, self._bound = before
            raise
        self._variants.clear()
        self._full = self._variant = full
        del self._params[name]
        self._dirty = True
        self._handles.add_param(name, next(v.type for v in self._bound.inputs if v.node.name == name), value)

    def set_rng(self, options: RngOptions) -> None:
        """Seed the random ops anew; the number of the run starts at 0 again."""
        if not isinstance(options, RngOptions):
            raise ConfigError(f"set_rng: must be given RngOptions, got {type(options).__name__}")
        self._rng = make_state(options)
        for variant in self.variants():
            variant.set_state(self._rng)

    @property
    def rng(self) -> RngOptions:
        """Seed and backend of the random ops."""
        return RngOptions(self._rng.seed, "zero" if self._rng.backend else "philox")

    def _programs(self) -> list[Variant]:
        return [s for v in self.variants() for s in stages_of(v)]

    def _what(self) -> str:
        return f"graph {self.graph.name!r}"

    def _waiting(self) -> Any:
        return self._lock if self.options.busy == "wait" else None

    def _let_go(self) -> None:
        self._full = self._variant = self._scratch = None
        self._know(None, None, None)
        self._families = Families(self.options, self._extents.upper, self._extents.bind)
        self._variants = LRU(VARIANTS)
        self._store = WeightStore(self._store.table)
        self._params = dict.fromkeys(self._params)
        self._handles = handles_of(self._bound)
        self._sharers.discard(self)
        self.__dict__.pop("_file", None)

    # -- files ----------------------------------------------------------------------

    def save(self, path: Any, portable: bool = False) -> None:
        """Write an ahead-of-time file: all programs compiled so far, weights, parameters; `rlx.load` maps it.

        Handles and extents in use are not part of it; the seed and count of random numbers are.

        Parameters
        ----------
        path : path
            Appears when it is whole.
        portable : bool
            Also hold the graph and its constants as they are, so that a loaded executable
            compiles sizes that are new, and can be compiled anew for other machines.

        Raises
        ------
        BindingError
            Nothing has been compiled yet, or sizes are told by runs alone, and portable is False.
        FileError
            The file cannot be written.
        """
        from rlx.aot.save import save_executable

        with self._lock:
            save_executable(self, path, portable)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a portable file, and the handles."""
        from rlx.aot.pickles import executable_of
        from rlx.aot.save import pickled

        with self._lock:
            return executable_of, (pickled(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledGraph":
        return self.clone()

    # -- life cycle and reports ---------------------------------------------------

    def clone(self) -> "CompiledGraph":
        """An independent executable that shares programs and weights, and nothing else."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._careful = self._careful
        other._lock = _thread.RLock()
        other.turn = _thread.RLock()
        other._params, other._sharers = dict(self._params), weakref.WeakSet([other])
        other._rng = _interp.RunState(self._rng.seed, self._rng.counter, self._rng.backend)
        other._handles = self._handles.fork()
        other._store = WeightStore(self._store.table)
        other._guard, other._scratch = _interp.Guard(), None

        def twin(variant: Variant | Staged) -> Variant | Staged:
            if isinstance(variant, Staged):
                return Staged(variant.graph, other._make, variant.wide)
            return other._own(Variant(variant.compiled, other._store, variant.threads, variant.name, other._rng,
                                      variant, wide=variant.helper.wide, scratch=other._scratch))

        other._extents = self._extents.fork()
        other._variants = LRU(VARIANTS)
        other._full = None if self._full is None else twin(self._full)
        other._variant = other._full
        if self._variant is not self._full and self._variant is not None:
            other._variant = twin(self._variant)
            other._variants.put((other._extents.key(), None), other._variant)
        other._dirty = True
        follow(other)
        return other

    def cancel(self) -> None:
        """Stop a run in progress on another thread before its next kernel call."""
        for variant in self.variants():
            variant.executor.cancel()

    @property
    def signature(self) -> Signature:
        """Names, element types and shapes of inputs, parameters and outputs."""
        return Signature.of(self.graph)

    @property
    def io_manifest(self) -> IoDtypeManifest:
        """Element types of inputs, parameters and outputs as a caller meets them."""
        return IoDtypeManifest.of(self.graph)

    @property
    def capabilities(self) -> frozenset[str]:
        """What this executable can do."""
        flags = {"clone", "dynamic_shapes", "out", "persistent_handles", "rng", "threads", "typed_io"}
        return frozenset(flags | {"active_extent"} if self._extents.upper else flags)

    def _any_variant(self) -> Variant | Staged:
        variant = self._variant or next(iter(self._variants.values()), None)
        if variant is None:
            raise BindingError(f"graph {self.graph.name!r}: sizes {self._open} must be bound before this report"
                               "\nhint: run it once, or give CompileOptions(dims={...})")
        return variant

    def explain(self) -> Explanation:
        """Which passes fired and which kernels run."""
        return explain(self._any_variant().compiled, self._extents.reports(), active_options(self.options),
                       self.options.precision.storage.is_half)

    def dispatch(self) -> "DispatchReport":
        """Which kernel does each node's work, over how many items, and whether threads share it."""
        from rlx.runtime.dispatch import DispatchReport

        return DispatchReport.of(self._any_variant().compiled)

    def memory_report(self) -> MemoryReport:
        """Bytes of weights, arena and its lower bound."""
        return memory_of(self.graph.name, self.variants())

    def profile(self, inputs: Mapping[str, Any], *, repeat: int = 10, threads: int | None = None) -> Profile:
        """Time of every kernel call, averaged over `repeat` runs; linked outputs go nowhere."""
        repeat = check_count("repeat", repeat)
        given = self._handles.feed(as_mapping(inputs, "inputs"))
        if threads is not None:
            threads = check_threads(threads)
        variant = self._prepare(given)
        if isinstance(variant, Staged):
            raise BindingError(
                f"graph {self.graph.name!r}: a graph with data-dependent sizes runs in stages and has no single profile"
                "\nhint: profile the stages' graphs on their own"
            )
        spent = np.zeros(len(variant.linked), np.int64)
        variant.executor.run(given, threads or 0, None)
        variant.executor.spent = spent
        try:
            for _ in range(repeat):
                variant.executor.run(given, threads or 0, None)
        finally:
            variant.executor.spent = None
        return Profile.of(variant.compiled, spent / repeat)

    def dump_nodes(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Every intermediate value by name, of the graph as written."""
        inputs = self._handles.feed(as_mapping(inputs, "inputs"))
        graph, sizes = self._extents.current, {}
        shapes = [self._extents.first(v.node.name, shape_of(inputs[v.node.name], f"input {v.node.name!r}"))
                  for v in graph.inputs if v.node.name in inputs]
        if self._open:
            sizes = bind_sizes(graph.inputs, shapes, graph.name)
            graph = specialise(graph, sizes)
        from rlx.runtime.intermediates import Intermediates

        values = Intermediates(graph, self.options.isa, self._extents.wide(sizes))
        return values.run(inputs, self._given_params(), make_state(self.rng))

    def __repr__(self) -> str:
        return f"CompiledGraph({self.graph.name!r}, {self.signature})"


def out_of_memory(error: Exception, name: str) -> SizeError:
    """The system refused memory."""
    if isinstance(error, SizeError):
        return error
    return SizeError(f"graph {name!r}: sizes must fit the memory that is free, got {error or 'no memory'}")
