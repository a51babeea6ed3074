"""Caches of models that put new rows behind their past: memory of fixed size, written in place."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx.errors import BindingError
from rlx.onnx.declared import LENGTH, LENGTH_NEXT, CacheOf, fit_declared
from rlx.onnx.planned import PlannedModel
from rlx.onnx.sized import Sized, check_equal
from rlx.runtime.binding import nearest
from rlx.runtime.cache import LRU, VARIANTS
from rlx.runtime.state import Handles, Place

if TYPE_CHECKING:
    from rlx._kernels._cells import Cell
    from rlx.runtime.variant import Variant


class CacheRuns:
    """Runs of a model with caches.

    Parameters
    ----------
    model : PlannedModel
    sized : Sized
        Its programs by sizes.
    """

    def __init__(self, model: PlannedModel, sized: Sized) -> None:
        self.model = model
        self.sized = sized
        self.used: Variant | None = None  # by the last run
        self._known: LRU[Any, Variant] = LRU(VARIANTS)
        self._links: Any = None
        self._cells: dict[str, Cell] = {}
        self._outputs: dict[str, int] = {}  # cache -> place of the output that is it

    def after_fork(self) -> None:
        """In a child: a thread that held a lock does not exist here."""
        self._known.after_fork()

    # -- binding ------------------------------------------------------------------------

    def declare(self, handles: Handles, name: str, axis: int, rank: int) -> None:
        """Make the length of the caches a handle, which runs count up.

        Raises
        ------
        BindingError
            No output is this input with rows behind it.
        """
        known = {c.input: c.axis for c in self.sized.caches.values()}
        if known.get(name) != axis % max(rank, 1):
            raise BindingError(f"handle {name!r} of {handles.place}: a cache without a length must be an input that an "
                               f"output puts rows behind; these are {known or 'none'} (input: axis), got axis {axis}"
                               f"{nearest(name, known)}")
        if LENGTH in self.model.signature.inputs or LENGTH_NEXT in self.model.signature.outputs:
            raise BindingError(f"{handles.place}: caches need the names {LENGTH!r} and {LENGTH_NEXT!r} for their "
                               "length, got a file that has them")
        handles.inputs.setdefault(LENGTH, Place(dtypes.i64, ()))
        handles.outputs.setdefault(LENGTH_NEXT, Place(dtypes.i64, ()))

    def bind_all(self, capacity: int, sizes: Mapping[str, int]) -> dict[str, CacheOf]:
        """Bind and link every cache of the file, empty."""
        model, names = self.model, {}
        for cache in self.sized.caches.values():  # open axes: as the file calls them, else by input and place
            shape = model.signature.inputs[cache.input].shape or ()
            for i, d in enumerate(shape):
                if i != cache.axis and not (isinstance(d, int) and d > 0):
                    names[cache.input, i] = d if isinstance(d, str) else f"{cache.input}.{i}"
        strange = [n for n in sizes if n not in names.values()]
        if strange:
            raise BindingError(f"bind_caches: open sizes of caches are {sorted(set(names.values()))}, got {strange}")
        for output, cache in self.sized.caches.items():
            declared = model.signature.inputs[cache.input]
            shape = tuple(0 if i == cache.axis else sizes.get(names.get((cache.input, i), ""), 1)
                          if (cache.input, i) in names else d for i, d in enumerate(declared.shape or ()))
            kind = dtypes.from_onnx(declared.code)
            if kind is None:
                raise BindingError(f"cache {cache.input!r}: must have an element type of rlx, got {declared.dtype}")
            model.bind_handle(cache.input, np.zeros(shape, kind.numpy), axis=cache.axis, capacity=capacity)
            model.link(output, cache.input)
        return dict(self.sized.caches)

    # -- running ------------------------------------------------------------------------

    def _look(self, handles: Handles) -> None:
        """What is bound and linked, looked at again when that has changed."""
        if self._links is handles.links:
            return
        length = handles.cells[LENGTH]
        cells = {n: c for n, c in handles.cells.items() if c.length is length}
        linked = {link.handle: o for o, link in handles.links.items() if not link.append}
        for name in (*cells, LENGTH):
            wanted = LENGTH_NEXT if name == LENGTH else next(o for o, c in self.sized.caches.items() if c.input == name)
            if linked.get(name) != wanted:
                raise BindingError(f"cache {name!r} of {handles.place}: must be linked from {wanted!r}, got "
                                   f"{linked.get(name)!r}\nhint: call link({wanted!r}, {name!r})")
        places = list(self.model.signature.outputs)
        self._outputs = {n: places.index(linked[n]) for n in cells}
        self._cells, self._links = cells, handles.links
        self._known = LRU(VARIANTS)

    def run(
        self, handles: Handles, inputs: Mapping[str, Any], threads: int | None, out: Any
    ) -> _interp.Outputs:
        """Run with caches in their memory; a run that is given one explicitly is an ordinary one.

        Raises
        ------
        BindingError
            New rows do not fit, or a cache is not linked.
        """
        self._look(handles)
        past = int(handles.cells[LENGTH].array)
        given = handles.feed(inputs if type(inputs) is dict else dict(inputs))
        if LENGTH in inputs or not self._cells.keys().isdisjoint(inputs):
            return self._by_hand(handles, inputs, threads, out, past, keep=False)
        try:
            key = (past, *[v.shape for n, v in given.items() if n not in self._cells])
            variant = self._known.get(key)
        except AttributeError:
            key, variant = None, None
        if variant is None:
            variant = self._variant(given, past)
            if variant is None:
                return self._by_hand(handles, inputs, threads, out, past, keep=True)
            if key is not None:
                self._known.put(key, variant)
        self.used = variant
        if self.model._options.poison:
            variant.scratch[...] = 0xA5
        results = handles.run(variant.executor, given, threads or 0, out)
        arrays = list(results.values_[:-1])
        for name, place in self._outputs.items():
            arrays[place] = self._valid(arrays[place], name)
        return _interp.Outputs(tuple(arrays), self.model._index)

    def _valid(self, array: Any, name: str) -> Any:
        """The part of a whole cache that is valid."""
        return array[self._along(name, slice(0, self._cells[name].valid()))]

    def _along(self, name: str, part: slice) -> tuple[slice, ...]:
        """An index of a part of a cache along its axis."""
        axis = self._cells[name].axis
        assert axis is not None
        return (*(slice(None),) * axis, part)

    def _variant(self, given: dict[str, Any], past: int) -> "Variant | None":
        """The program for these inputs, imported or compiled where that is new."""
        model, shapes = self.model, {}
        if any(n not in model._inputs and n != LENGTH for n in given):
            model._bind({n: v for n, v in given.items() if n != LENGTH})  # says which name is wrong
        for name, declared in model.signature.inputs.items():
            if name in self._cells:
                shapes[name] = self._cells[name].array.shape
            elif name in given:
                given[name] = fit_declared(given[name], declared, f"input {name!r} of model {model.name!r}")
                if not isinstance(given[name], np.ndarray):
                    return None
                shapes[name] = given[name].shape
            elif not declared.default:
                raise BindingError(f"model {model.name!r}: every input must be given, [{name!r}] missing; inputs are "
                                   f"{list(model.signature.inputs)}")
        if model._options.nan_check:
            return None
        room = {n: c.array.shape[c.axis or 0] for n, c in self._cells.items()}
        return self.sized.program(shapes, room, past)

    def _by_hand(
        self, handles: Handles, inputs: Mapping[str, Any], threads: int | None, out: Any, past: int, *, keep: bool
    ) -> _interp.Outputs:
        """An ordinary run on the valid parts, whose new rows are put into the caches if `keep`."""
        model = self.model
        self.used = None
        before = model._core.rng.counter
        try:
            results = model._run_bound(model._bind(model._given(inputs)), threads, out)
            arrays = list(results)
            if keep:
                rows = []
                for name, place in self._outputs.items():
                    cell = self._cells[name]
                    new = arrays[place][self._along(name, slice(past, None))]
                    handles.check_room(cell, new)
                    rows.append((cell, new))
                totals = {n: arrays[place].shape[self._cells[n].axis or 0] for n, place in self._outputs.items()}
                check_equal(totals)
                handles.append(rows)
                handles.cells[LENGTH].put(np.asarray(max(totals.values()), np.int64))
                others = {o: k for o, k in handles.links.items() if k.handle not in (*self._cells, LENGTH)}
                handles.take(others, results, out is not None)
        except BaseException:
            model._core.rng.rewind(before)
            raise
        return results
