"""What runs an ONNX model that has been imported: plans by input shapes. Works without the package `onnx`.

What only a first run, a report or an error needs is imported there, so that a model
of an ahead-of-time file runs within milliseconds.
"""

import _thread
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx._kernels._route import Route
from rlx.errors import BindingError, BindingTypeError, ConfigError, UnknownNameError
from rlx.forking import follow
from rlx.machine import check_threads
from rlx.onnx.declared import LENGTH, LENGTH_NEXT, CacheOf, Declared, Dim, fit_declared, from_bytes
from rlx.onnx.elements import numpy_type
from rlx.onnx.plans import ABSENT, ClosedPlans, Plans
from rlx.onnx.reported import Reported
from rlx.onnx.steps import Guard, Segment, Step, Test

if TYPE_CHECKING:
    from rlx.onnx.caches import CacheRuns
    from rlx.options import CompileOptions, RngOptions
    from rlx.runtime.state import Handles
    from rlx.runtime.variant import Variant

class Guarded:
    """Executors of whole models by what the plan asks of some inputs."""

    __slots__ = ("first", "names")

    def __init__(self, names: list[tuple[int, str]], first: Step) -> None:
        self.names = names
        self.first = first

    def pick(self, inputs: Mapping[str, Any]) -> _interp.Executor:
        """The executor for these inputs; KeyError when the outcome is new, or the plan does more than ask."""
        values: Any = {i: inputs[name] for i, name in self.names}
        step = self.first
        while isinstance(step, (Guard, Test)):
            step = step.children[step.run(values, 0)]
        if isinstance(step, Segment) and step.direct:
            return step.variant.executor
        raise KeyError


class PlannedModel(Reported):
    """A model as its plans: what `rlx.load` of an ahead-of-time file gives, and the base of `Model`.

    Parameters
    ----------
    name : str
    core : Plans
        Plans of the main graph.
    options : CompileOptions
    inputs, outputs : dict of str to Declared
        As the file declares them.
    index : dict of str to int
        Places of the outputs.
    metadata : dict
    """

    if TYPE_CHECKING:

        def clone(self) -> "PlannedModel":
            """An independent model."""
            ...

    def __init__(
        self, name: str, core: Plans, options: "CompileOptions", inputs: dict[str, Declared],
        outputs: dict[str, Declared], index: dict[str, int], metadata: dict[str, Any],
    ) -> None:
        self.name = name
        self._core = core
        self._options = options
        self._inputs = inputs
        self._outputs = outputs
        self._index = index
        self._metadata = metadata
        self._handles: Handles | None = None  # made when the first one is bound
        self._cache_runs: CacheRuns | None = None  # made with the first cache that has no length of its own
        self._required = tuple(n for n, t in inputs.items() if not t.default)
        self._direct: dict[tuple[tuple[int, ...], ...], Any] = {}
        self._fast = not options.poison and not options.nan_check and options.busy != "wait"
        self._lock = _thread.allocate_lock()
        self._dtypes = {n: numpy_type(t.code, n) if t.code and not t.default else None for n, t in inputs.items()}
        follow(self)

    def _after_fork(self) -> None:
        self._lock = _thread.allocate_lock()
        shared = getattr(self._core, "model", None)
        if shared is not None:
            shared.lock = _thread.RLock()
        for part in (getattr(self._core, "followed", None), self._cache_runs):
            if part is not None:
                part.after_fork()
        for variant in self._programs():
            variant.executor.abandon()

    # -- running ------------------------------------------------------------------------

    def run(
        self, inputs: Mapping[str, Any] | None = None, *, threads: int | None = None, out: Any = None
    ) -> _interp.Outputs:
        """Run once.

        Parameters
        ----------
        inputs : mapping of name to array
            Lists for sequences, None for an empty optional, arrays of objects for strings.
        threads : int, optional
            Threads of this run.
        out : mapping of name to array, or sequence, optional
            Where to write outputs; the same arrays come back.

        Returns
        -------
        Outputs
            Indexable by position and by name.

        Raises
        ------
        BindingError
            A name, element type, rank or declared size does not fit.
        ExecutionError
            The run failed; names the node.
        """
        if inputs is None:
            inputs = {}
        if self._handles is not None and self._handles.active:
            return self._run_stateful(self._handles, inputs, threads, out)
        try:
            executor = self._direct[tuple([inputs[n].shape for n in self._required])]
            if len(inputs) != len(self._required):
                return self._run(inputs, threads, out)
            if type(executor) is not _interp.Executor:
                if type(executor) is Route:
                    return self._run_route(executor, inputs, threads, out)
                executor = executor.pick(inputs)
        except (KeyError, AttributeError, TypeError):
            executor = None
        if executor is None:  # outside of the handler: an error of the run has no context
            return self._run(inputs, threads, out)
        if threads is not None:
            threads = check_threads(threads)
        outputs: _interp.Outputs = executor.run(inputs if type(inputs) is dict else dict(inputs), threads or 0, out)
        return outputs

    def _run_route(
        self, route: Route, inputs: Mapping[str, Any], threads: int | None, out: Any
    ) -> _interp.Outputs:
        before = self._core.rng.counter
        try:
            found = None if out is not None else route.run(inputs, 0 if threads is None else check_threads(threads))
            return self._run(inputs, threads, out) if found is None else found
        except BaseException:
            self._core.rng.rewind(before)  # its first steps may have drawn
            raise

    def _run(self, inputs: Mapping[str, Any], threads: int | None, out: Any) -> _interp.Outputs:
        if self._options.busy == "wait":
            with self._lock:
                return self._run_bound(self._bind(inputs), threads, out)
        return self._run_bound(self._bind(inputs), threads, out)

    def _run_bound(self, values: list[Any], threads: int | None, out: Any) -> _interp.Outputs:
        if threads is not None:
            threads = check_threads(threads)
        root = self._core.plan(values)
        if self._core.evicted:  # the short cuts hold what was dropped
            self._direct.clear()
            self._core.evicted = 0
        executor = self._whole(root, values)
        if executor is not None:
            given = {n: v for n, v in zip(self._inputs, values, strict=True) if v is not ABSENT}
            return executor.run(given, threads or 0, out)
        before = self._core.rng.counter
        try:
            results = self._core.results(root, list(values), threads or 0)
            self._whole(root, values)
            if out is not None:
                results = self._copy_out(results, out)
        except BaseException:
            self._core.rng.rewind(before)
            raise
        return _interp.Outputs(tuple(results), self._index)

    def _whole(self, root: Step, values: list[Any]) -> _interp.Executor | None:
        """The executor of a plan that is one segment, known by its shapes from now on."""
        step = root.children.get(None)
        arrays = [v for v in values if v is not ABSENT]
        if not self._fast or step is None or len(arrays) != len(self._required):
            return None
        if not all(isinstance(v, np.ndarray) for v in arrays):
            return None
        found: Any = None
        if isinstance(step, Segment) and step.direct:
            found = step.variant.executor
        elif isinstance(step, (Guard, Test)) and self._asks_only(step, len(values)):
            found = Guarded([(i, n) for i, n in enumerate(self._inputs) if n in self._required], step)
        elif all(self._dtypes[n] is not None for n in self._required):
            ports = [(n, self._dtypes[n]) for n in self._inputs]
            found = Route(root, ports, ABSENT, self._index, self._core.resume)
        if found is None:
            return None
        if len(self._direct) >= 64:
            self._direct.clear()
        self._direct[tuple(v.shape for v in arrays)] = found
        return found if isinstance(found, _interp.Executor) else None

    def _asks_only(self, step: Step, inputs: int) -> bool:
        """Whether a plan looks at inputs and then runs one program."""
        while isinstance(step, (Guard, Test)):
            if any(i >= inputs or part is not None for i, part in step.slots) or not step.children:
                return False
            step = next(reversed(step.children.values()))
        return isinstance(step, Segment) and step.direct

    def run_typed(self, inputs: Mapping[str, Any]) -> list[tuple[bytes, dtypes.DType]]:
        """Run on raw bytes: name -> (bytes, dtype) or array; returns (bytes, dtype) per output.

        Raises
        ------
        BindingError
            A byte count does not fit, more than one size is open, or an output is no tensor of a type of rlx.
        """
        from rlx.runtime.binding import as_mapping, nearest

        arrays: dict[str, Any] = {}
        for name, item in as_mapping(inputs, "inputs").items():
            if isinstance(item, tuple) and len(item) == 2:
                if name not in self._inputs:
                    raise UnknownNameError(f"model {self.name!r}: no input {name!r}{nearest(name, self._inputs)}")
                what = f"input {name!r} of model {self.name!r}"
                arrays[name] = from_bytes(item[0], item[1], self._inputs[name], what)
            else:
                arrays[name] = item
        found = self.run(arrays)
        for name, value in found.items():
            if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
                raise BindingTypeError(f"output {name!r} of model {self.name!r}: must be a tensor to be given as bytes,"
                                       f" got {self._outputs[name]}\nhint: use run")
        return [(a.tobytes(), dtypes.of_array(a)) for a in found]

    def run_raw(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Outputs as a list, the arrays read-only."""
        results = list(self.run(inputs))
        for value in results:
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        return results

    def cancel(self) -> None:
        """Stop a run in progress on another thread before its next kernel call."""
        for variant in self._programs():
            variant.executor.cancel()

    # -- state ------------------------------------------------------------------------------

    def _state(self) -> "Handles":
        if self._handles is None:
            from rlx.runtime.state import Handles, Place

            def place(t: Declared, shape: tuple[Dim, ...] | None) -> Place:
                dtype = dtypes.from_onnx(t.code) if t.kind == "tensor" else None
                return Place(dtype, shape)

            inputs = {n: place(t, t.sizes) for n, t in self._inputs.items()}
            outputs = {n: place(t, None) for n, t in self._outputs.items() if t.kind == "tensor"}
            self._handles = Handles(f"model {self.name!r}", inputs, outputs)
        return self._handles

    @property
    def _grows(self) -> bool:
        """Whether there are caches that have no length of their own."""
        return self._handles is not None and LENGTH in self._handles.cells and self._cache_runs is not None

    def _given(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inputs of an ordinary run: handles for those that are not given, of caches that grow the valid part."""
        if self._handles is None:
            return inputs
        if not self._grows:
            return self._handles.feed(dict(inputs))
        held = {n: self._handles.view(n) for n in self._handles.cells if n in self._inputs}
        return {**held, **inputs}

    def _caches(self) -> "CacheRuns":
        """What runs this model with caches.

        Raises
        ------
        BindingError
            The model was loaded from an ahead-of-time file: what it would compile is not there.
        """
        if self._cache_runs is None:
            sized = getattr(self._core, "sized", None)
            if sized is None:
                raise BindingError(f"model {self.name!r}: caches of growing inputs need the ONNX file, got an "
                                   "ahead-of-time one")
            from rlx.onnx.caches import CacheRuns

            self._cache_runs = CacheRuns(self, sized)
        return self._cache_runs

    def bind_handle(
        self, name: str, array: Any, *, axis: int | None = None, capacity: int | None = None, length: str | None = None
    ) -> None:
        """As of an executable; a cache may have no `length` if an output is this input with rows behind it.

        How much of such caches is valid is a handle of its own, ``cache_length``, that runs count up. They are
        written in place, and their lengths are no new programs. See `bind_caches`.

        Raises
        ------
        UnknownNameError, BindingError
            No such input (or output), or another shape or element type; nothing grows along that axis.
        """
        state = self._state()
        grows = axis is not None and length is None and name in self._inputs
        if grows and not isinstance(axis, bool) and isinstance(axis, int):
            self._caches().declare(state, name, axis, len(self._inputs[name].sizes or ()))
            length = LENGTH
        state.bind(name, array, axis, capacity, length)
        if grows and LENGTH_NEXT not in state.links:
            state.link(LENGTH_NEXT, LENGTH)

    def bind_caches(self, capacity: int, sizes: Mapping[str, int] | None = None) -> "dict[str, CacheOf]":
        """Bind and link all outputs that are an input with rows behind it, empty.

        Parameters
        ----------
        capacity : int
            Most rows of each.
        sizes : mapping of str to int, optional
            Of other open axes by their names in the file, such as ``{"batch_size": 4}``, or by input and axis
            where they have none (``{"past.2": 64}``); 1 by default.

        Returns
        -------
        dict of str to CacheOf
            By output: the input that it grows, and the axis. Empty if there is none.

        Raises
        ------
        BindingError
            The capacity is not a positive int, or sizes do not fit the declared ones.
        """
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise BindingError(f"bind_caches: capacity must be a positive int, got {capacity!r}")
        return self._caches().bind_all(capacity, sizes or {})

    def _run_stateful(
        self, handles: "Handles", inputs: Mapping[str, Any], threads: int | None, out: Any
    ) -> _interp.Outputs:
        """Run with handles as defaults, and take linked outputs."""
        if threads is not None:
            threads = check_threads(threads)
        if self._grows and self._cache_runs is not None:
            if self._options.busy == "wait":
                with self._lock:
                    return self._cache_runs.run(handles, inputs, threads, out)
            return self._cache_runs.run(handles, inputs, threads, out)
        if self._options.busy == "wait":
            with self._lock:
                return self._run_in_steps(handles, inputs, threads, out)
        given = handles.feed(inputs if type(inputs) is dict else dict(inputs))
        executor: Any = None
        try:
            if len(given) == len(self._required):
                executor = self._direct[tuple([given[n].shape for n in self._required])]
                if type(executor) is Guarded:
                    executor = executor.pick(given)
        except (KeyError, AttributeError, TypeError):
            executor = None
        if type(executor) is _interp.Executor:
            return handles.run(executor, given, threads or 0, out)
        if type(executor) is Route and out is None and threads is None:
            return self._run_in_steps(handles, inputs, None, None, executor)
        return self._run_in_steps(handles, inputs, threads, out)

    def _run_in_steps(
        self, handles: "Handles", inputs: Mapping[str, Any], threads: int | None, out: Any, route: Route | None = None
    ) -> _interp.Outputs:
        """Run by the plan, whose steps make their own arrays."""
        given = handles.feed(inputs if type(inputs) is dict else dict(inputs))
        before = self._core.rng.counter
        try:
            results = None if route is None else route.run(given)
            if results is None:
                results = self._run_bound(self._bind(given, handles.origins(inputs)), threads, out)
            handles.adopt(results, out is not None)
        except BaseException:
            self._core.rng.rewind(before)  # its first steps may have drawn
            raise
        return results

    def _copy_out(self, results: list[Any], out: Any) -> list[Any]:
        from rlx.runtime.binding import nearest

        if not isinstance(out, (Mapping, list, tuple)):
            raise BindingTypeError(f"out: must be a mapping of names or a sequence of arrays, got {type(out).__name__}")
        if not isinstance(out, Mapping) and len(out) != len(self._index):
            raise BindingError(f"out: must have {len(self._index)} arrays, got {len(out)}")
        given = out if isinstance(out, Mapping) else dict(zip(self._index, out, strict=True))
        for name, array in given.items():
            if name not in self._index:
                raise UnknownNameError(f"model {self.name!r}: no output {name!r}{nearest(name, self._index)}")
            if array is None:
                continue
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise BindingTypeError(f"out[{name!r}]: must be a writeable NumPy array, got {type(array).__name__}")
            value = results[self._index[name]]
            if not isinstance(value, np.ndarray) or array.dtype != value.dtype:
                raise BindingTypeError(
                    f"out[{name!r}]: dtype must be {getattr(value, 'dtype', type(value).__name__)}, got {array.dtype}"
                )
            if array.shape != value.shape:
                raise BindingError(f"out[{name!r}]: shape must be {value.shape}, got {array.shape}")
            array[...] = value
            results[self._index[name]] = array
        return results

    def _bind(self, inputs: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> list[Any]:
        from rlx.runtime.binding import as_mapping, nearest

        inputs = as_mapping(inputs, "inputs")
        for name in inputs:
            if name not in self._inputs:
                raise UnknownNameError(f"model {self.name!r}: no input {name!r}{nearest(name, self._inputs)}")
        missing = [n for n in self._required if n not in inputs]
        missing = [n for n in missing if self._inputs[n].kind != "optional"]
        if missing:
            raise BindingError(
                f"model {self.name!r}: every input must be given, {missing} missing; inputs are {list(self._inputs)}"
            )
        values = []
        for name, declared in self._inputs.items():
            if name in inputs:
                what = f"input {name!r} of model {self.name!r}{origins.get(name, '') if origins else ''}"
                values.append(fit_declared(inputs[name], declared, what))
            else:
                values.append(ABSENT if declared.default else None)
        return values

    def set_rng(self, options: "RngOptions") -> None:
        """Seed the random ops anew; the number of the run starts at 0 again."""
        from rlx.options import RngOptions

        if not isinstance(options, RngOptions):
            raise ConfigError(f"set_rng: must be given RngOptions, got {type(options).__name__}")
        self._core.rng.reset(options.seed, int(options.backend == "zero"))
        for variant in self._programs():
            variant.executor.state = self._core.rng

    @property
    def rng(self) -> "RngOptions":
        """Seed and backend of the random ops."""
        from rlx.options import RngOptions

        return RngOptions(self._core.rng.seed, "zero" if self._core.rng.backend else "philox")

    def _all_options(self) -> "CompileOptions":
        return self._options

    # -- life cycle ------------------------------------------------------------------------

    def _programs(self) -> "list[Variant]":
        followed = getattr(self._core, "followed", None)
        found = [s.variant for s in self._core.segments()] + ([] if followed is None else followed.programs())
        return list({id(v): v for v in found}.values())

    def _what(self) -> str:
        return f"model {self.name!r}"

    def _waiting(self) -> Any:
        return self._lock if self._options.busy == "wait" else None

    def _let_go(self) -> None:
        self._core = ClosedPlans(self._core.name)
        self._direct = {}
        self._handles = self._cache_runs = None
        for name in ("_shared", "_file"):  # weights, and the map of the file
            self.__dict__.pop(name, None)

    def _over(self, core: Plans) -> Self:
        """A copy that runs other plans; handles are forked."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._core = core
        other._direct = {}
        other._lock = _thread.allocate_lock()
        if self._handles is not None:
            other._handles = self._handles.fork()
        other._cache_runs = None
        if self._cache_runs is not None:
            other._caches()
        follow(other)
        return other

    # -- files ---------------------------------------------------------------------------

    def save(self, path: Any, inputs: Mapping[str, Any] | None = None, portable: bool = False) -> None:
        """Write an ahead-of-time file with what has been compiled so far; `rlx.load` maps it.

        Parameters
        ----------
        path : path
            Appears when it is whole.
        inputs : mapping of name to array, optional
            Run once with these first, so that their shapes are compiled.
        portable : bool
            Write the ONNX file, too: then the model that is loaded compiles new shapes as this one does, and plans
            that a file cannot hold are compiled when they are met.

        Raises
        ------
        BindingError
            Nothing has been compiled yet.
        FormatError
            A step runs in Python and has no name.
        FileError
            The file cannot be written.
        """
        from rlx.aot.save import save_model

        if inputs is not None:
            self.run(inputs)
        save_model(self, path, portable)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a file: the shapes met so far; and the handles."""
        from rlx.aot.pickles import model_of
        from rlx.aot.save import pickled

        if self._grows:
            raise BindingError(f"model {self.name!r}: must have no caches that grow when it is pickled, got {LENGTH!r}"
                               "\nhint: unbind_handle them, and keep what read_handle gives")
        return model_of, (pickled(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PlannedModel":
        return self.clone()
