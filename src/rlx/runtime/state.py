"""Handles: arrays that an executable keeps between runs, and the links that feed them (docs/adr/0008-state.md)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx._kernels._cells import Cell, Wiring, feed
from rlx.dtypes import DType
from rlx.errors import BindingError, BindingTypeError, SizeError, UnknownNameError
from rlx.ir.graph import PARAM, Graph, Rewriter
from rlx.ir.opdef import Array
from rlx.ir.types import TensorType
from rlx.lower.inplace import over_inputs
from rlx.lower.program import Port
from rlx.machine import machine_bytes
from rlx.records import record
from rlx.runtime.binding import fit, nearest, shape_of
from rlx.runtime.staged import Staged


@record(frozen=True)
class Place:
    """What an input or output is declared to be. None: open."""

    dtype: DType | None
    shape: tuple[Any, ...] | None

    @staticmethod
    def of(type_: TensorType) -> "Place":
        """Of a value of a graph."""
        return Place(type_.dtype, tuple(type_.shape))

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.dtype or 'no tensor'}[{dims}]"


@record(frozen=True)
class Link:
    """Where an output goes: a handle, whose value it becomes or to which it is appended."""

    handle: str
    append: bool = False


class HandleState:
    """The values of all handles at one moment. Made by `fork()`, made current by `restore()`."""

    def __init__(self, cells: dict[str, Cell]) -> None:
        self._cells = fork_cells(cells)

    @property
    def names(self) -> list[str]:
        """Names of the handles."""
        return list(self._cells)

    def __repr__(self) -> str:
        return f"HandleState({', '.join(self._cells)})"


def fork_cells(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Cells with the same values; their buffers are shared until one side writes."""
    made = {name: cell.fork() for name, cell in cells.items()}
    twins = {id(cell): made[name] for name, cell in cells.items()}
    for name, cell in cells.items():
        made[name].length = None if cell.length is None else twins[id(cell.length)]
    return made


def _is_output(name: str, count: int) -> bool:
    """Whether a handle's name is `out{i}` for an existing output."""
    digits = name[3:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 9
    return name.startswith("out") and is_number and int(digits) < count


class Handles(_interp.Bound):
    """Defaults of inputs, fed by outputs that are linked to them.

    Parameters
    ----------
    place : str
        Whose they are, for messages.
    inputs, outputs : mapping of str to Place
    """

    def __init__(self, place: str, inputs: Mapping[str, Place], outputs: Mapping[str, Place]) -> None:
        self.place = place
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        self.cells: dict[str, Cell] = {}
        self.links: dict[str, Link] = {}
        self.params: set[str] = set()  # parameters that are state
        self._feeds: list[tuple[str, Cell]] = []

    def _changed(self) -> None:
        """Look at all cells and links anew; so do the programs, which know the links by identity."""
        self.links = dict(self.links)
        self._feeds = [(name, cell) for name, cell in self.cells.items() if name in self.inputs]

    @property
    def active(self) -> bool:
        """Whether any handle is bound."""
        return bool(self.cells)

    # -- binding ------------------------------------------------------------------

    def _declared(self, name: str) -> Place:
        """What a handle of this name must be."""
        if not isinstance(name, str):
            raise UnknownNameError(f"{self.place}: a handle's name must be a string, got {name!r}")
        if name in self.inputs:
            return self.inputs[name]
        outputs = list(self.outputs.values())
        if _is_output(name, len(outputs)):
            return outputs[int(name[3:])]
        raise UnknownNameError(f"{self.place}: a handle must be called like an input, or out0 .. "
                               f"out{len(outputs) - 1}, got {name!r}{nearest(name, self.inputs)}")

    def _cell(self, name: str) -> Cell:
        if name not in self.cells:
            raise UnknownNameError(f"{self.place}: no handle {name!r}{nearest(name, self.cells)}")
        return self.cells[name]

    def _fit(self, array: Any, declared: Place, what: str, axis: int | None = None) -> Array:
        """The array as its place wants it; along `axis` any size will do."""
        if declared.dtype is None:
            raise BindingTypeError(f"{what}: a handle must be a tensor of a declared type, got {declared}")
        given = shape_of(array, what)
        if declared.shape is None:
            return fit(array, declared.dtype, given, what)
        if len(given) != len(declared.shape):
            raise BindingError(f"{what}: rank must be {len(declared.shape)} ({declared}), got shape {given}")
        shape = tuple(d if isinstance(d, int) and i != axis else n
                      for i, (d, n) in enumerate(zip(declared.shape, given, strict=True)))
        return fit(array, declared.dtype, shape, what)

    def bind(
        self, name: str, array: Any, axis: int | None = None, capacity: int | None = None, length: str | None = None
    ) -> None:
        """Set a handle to a copy of an array."""
        if name in self.params:
            raise BindingError(f"{self.place}: {name!r} must be an input, got a parameter\nhint: use set_param")
        declared = self._declared(name)
        what = f"handle {name!r} of {self.place}"
        if length is None:
            if axis is not None or capacity is not None:
                raise BindingError(f"{what}: a cache must have a length, got none"
                                   "\nhint: bind_handle(name, array, axis=2, length='the input that holds it')")
            value = self._fit(array, declared, what)
            caches = [c for c in self.cells.values() if c.length is not None and c.length is self.cells.get(name)]
            if caches:
                self._set_length(self.cells[name], caches, value, what)
                return
            made = Cell(value.copy())
        else:
            made = self._cache(name, array, declared, what, axis, capacity, length)
        self.cells[name] = made
        self._changed()
        outputs = list(self.outputs)
        if _is_output(name, len(outputs)) and outputs[int(name[3:])] not in self.links:
            self.link(outputs[int(name[3:])], name)

    def _cache(
        self, name: str, array: Any, declared: Place, what: str, axis: int | None, capacity: int | None, length: str
    ) -> Cell:
        rank = len(declared.shape or ())
        if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
            raise BindingError(f"{what}: axis must be an int in [{-rank}, {rank}), got {axis!r}")
        axis %= rank
        value = self._fit(array, declared, what, axis)
        size = (declared.shape or ())[axis]
        room = capacity if capacity is not None else size
        if isinstance(room, bool) or not isinstance(room, int):
            raise BindingError(f"{what}: capacity must be an int, the most rows of axis {axis}, got {capacity!r}")
        if isinstance(size, int) and room != size:
            raise BindingError(f"{what}: capacity must be {size}, the size of axis {axis}, got {room}")
        n = value.shape[axis]
        if n > room:
            raise BindingError(f"{what}: at most {room} of axis {axis} must be valid, got {n}")
        shape = (*value.shape[:axis], room, *value.shape[axis + 1 :])
        if math.prod(shape) * value.itemsize > machine_bytes():
            raise SizeError(f"{what}: memory for {list(shape)} of {value.dtype} must fit this machine's "
                            f"{machine_bytes():,} bytes\nhint: give a smaller capacity")
        memory = np.zeros(shape, value.dtype)
        memory[(slice(None),) * axis + (slice(0, n),)] = value
        users = [k for k, c in self.cells.items() if c.length is not None and c.length is self.cells.get(length)]
        return Cell(memory, axis, self._length(length, n, value.shape, axis, what, users == [name]))

    def _set_length(self, cell: Cell, caches: list[Cell], value: Array, what: str) -> None:
        """A new length of caches; rows that become invalid may be written from now on."""
        room = min(c.array.shape[c.axis or 0] for c in caches)
        if value.shape != cell.array.shape or (value < 0).any() or (value > room).any():
            raise BindingError(f"{what}: lengths {list(cell.array.shape)} must be in [0, {room}], got {value.tolist()}")
        for cache in caches:
            cache.pinned = cache.pinned or cache.is_viewed
        cell.put(value)

    def _length(self, name: str, n: int, shape: tuple[int, ...], axis: int, what: str, alone: bool) -> Cell:
        """The cell that holds how much of a cache is valid; bound when it is new."""
        kind = self.inputs.get(name)
        if kind is None:
            raise UnknownNameError(f"{what}: length must name an input, got {name!r}{nearest(name, self.inputs)}")
        per_item = kind.shape is not None and len(kind.shape) == 1 and kind.shape != (1,)
        if kind.dtype not in (dtypes.i64, dtypes.i32) or kind.shape is None or len(kind.shape) > 1 or (
            per_item and axis == 0
        ):
            raise BindingError(f"{what}: length {name!r} must be one i64, or one per item of axis 0, got {kind}")
        found = self.cells.get(name)
        full = np.full((shape[0],) if per_item else tuple(1 for _ in kind.shape), n, kind.dtype.numpy)
        if found is None:
            self.cells[name] = found = Cell(full)
        elif alone:
            found.put(full)
        elif int(found.array.max(initial=0)) != n:
            raise BindingError(f"{what}: caches of one length must be equally long, got {n} and "
                               f"{name!r} = {found.array.tolist()}")
        return found

    def add_param(self, name: str, type_: TensorType, value: Array) -> None:
        """Take a parameter that has become state."""
        self.inputs[name] = Place.of(type_)
        self.params.add(name)
        self.cells[name] = Cell(value.copy())
        self._changed()

    def set_param(self, name: str, array: Any) -> None:
        """A new value of a parameter that is state."""
        self.cells[name].put(self._fit(array, self.inputs[name], f"parameter {name!r} of {self.place}"))

    def link(self, output: str, handle: str, append: bool = False) -> None:
        """Feed a handle from an output."""
        if output not in self.outputs:
            raise UnknownNameError(f"{self.place}: no output {output!r}{nearest(output, self.outputs)}")
        want, have = self._declared(handle), self.outputs[output]
        what = f"link {output!r} -> {handle!r}"
        if handle not in self.cells:
            raise BindingError(f"{what}: the handle must be bound first, got none"
                               "\nhint: call bind_handle(name, initial_value)")
        axis = self.cells[handle].axis
        if append and axis is None:
            raise BindingError(f"{what}: only a cache can be appended to, got a handle without axis and length"
                               "\nhint: call bind_handle(name, array, axis=..., length=...)")
        if not _agree(want, have, axis if append else None):
            raise BindingError(f"{what}: types must be equal, got {have} and {want}")
        self.links = {o: k for o, k in self.links.items() if k.handle != handle and o != output}
        self.links[output] = Link(handle, append)

    def unbind(self, name: str) -> None:
        """Forget a handle and its links."""
        cell = self._cell(name)
        if name in self.params:
            raise BindingError(f"{self.place}: parameter {name!r} must stay what it is, got unbind_handle")
        users = [n for n, c in self.cells.items() if c.length is cell]
        if users:
            raise BindingError(f"handle {name!r} of {self.place}: must not be the length of a cache, got {users}"
                               "\nhint: unbind the caches first")
        del self.cells[name]
        self.links = {o: k for o, k in self.links.items() if k.handle != name}
        self._changed()

    # -- reading and changing -----------------------------------------------------

    def view(self, name: str) -> Array:
        """A read-only view of a handle's value, the valid part of a cache."""
        return self._cell(name).part()

    def read(self, name: str) -> Array:
        """A copy of a handle's value."""
        return self.view(name).copy()

    def truncate(self, name: str, length: Any) -> None:
        """Lower the length of a cache, and of all that share it."""
        cell = self._cell(name)
        what = f"truncate {name!r} of {self.place}"
        if cell.length is None:
            raise BindingError(f"{what}: must be a cache, got a handle without axis and length")
        old = cell.length.array
        new = np.asarray(length)
        if new.dtype.kind not in "iu" or new.shape not in ((), old.shape):
            raise BindingError(f"{what}: length must be an int or ints {list(old.shape)}, got {length!r}")
        if (new < 0).any() or (new.ndim == 0 and new > old.max(initial=0)) or (new.ndim and (new > old).any()):
            raise BindingError(f"{what}: length must be in [0, {old.tolist()}], got {length!r}")
        caches = [c for c in self.cells.values() if c.length is cell.length]
        self._set_length(cell.length, caches, np.minimum(old, new).astype(old.dtype), what)

    def fork(self) -> "Handles":
        """An independent copy; the arrays are shared until one side replaces them."""
        other = Handles(self.place, self.inputs, self.outputs)
        other.cells, other.links, other.params = fork_cells(self.cells), dict(self.links), set(self.params)
        other._changed()
        return other

    def restore(self, state: HandleState) -> None:
        """Make forked values current."""
        if not isinstance(state, HandleState):
            raise BindingTypeError(f"restore: must be given what fork() returned, got {type(state).__name__}")
        if state._cells.keys() != self.cells.keys():
            raise BindingError(f"restore: handles must be {list(self.cells)}, got {state.names}")
        for name, cell in state._cells.items():
            declared, have, axis = self._declared(name), cell.array, self.cells[name].axis
            if not _holds(declared, have.dtype, have.shape) or cell.axis != axis:
                raise BindingError(f"restore: handle {name!r} of {self.place} must be {declared} with axis {axis}, got "
                                   f"{have.dtype}{list(have.shape)} with axis {cell.axis}")
        self.cells = fork_cells(state._cells)
        self._changed()

    # -- runs ---------------------------------------------------------------------

    def feed(self, given: dict[str, Any]) -> dict[str, Any]:
        """Inputs of a run: what was given, and handles for the rest."""
        if self.params and not self.params.isdisjoint(given):
            name = min(self.params.intersection(given))
            raise UnknownNameError(f"{self.place}: no input {name!r}, it is a parameter\nhint: use set_param")
        return feed(self._feeds, given)

    def origins(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Where the inputs that were not given come from, for messages about them."""
        made = {name: f" (handle {name!r})" for name, _ in self._feeds if name not in given}
        for output, link in self.links.items():
            if link.handle in made:
                made[link.handle] = f" (handle {link.handle!r}, linked from {output!r})"
        return made

    def wire(self, inputs: Sequence[Port], outputs: Sequence[Port], over: Mapping[int, int]) -> Wiring:
        """What the links mean for a program that has these ports."""
        whole, rows = [], []
        for i, port in enumerate(outputs):
            link = self.links.get(port.name)
            if link is None:
                continue
            cell = self.cells[link.handle]
            if link.append:
                rows.append((i, cell, port))
                continue
            self._check_linked(port.name, link.handle, port.dtype.numpy, port.shape)
            same = cell.axis is not None and i in over and inputs[over[i]].name == link.handle
            whole.append((i, port.name, cell, port.shape, port.dtype.numpy, link.handle if same else None))
        return Wiring(self.links, whole, rows, len(outputs))

    def run(
        self, executor: _interp.Executor | Staged, given: dict[str, Any], threads: int, out: Any,
        kept: list[Array] | None = None,
    ) -> _interp.Outputs:
        """Run a program with linked outputs in the memory of their handles, which hold them afterwards.

        The others go to `out`, or to the arrays of `kept`.
        """
        if not isinstance(executor, _interp.Executor):
            before = executor.state.counter
            results = executor.run(given, threads, out)
            try:
                self.adopt(results, out is not None)
            except BaseException:
                executor.state.rewind(before)
                raise
            return results
        wiring = executor.wiring
        if wiring is None or wiring.links is not self.links:
            program = executor.source
            executor.wiring = wiring = self.wire(program.inputs, program.outputs, over_inputs(program))
        for _, cell, port in wiring.rows:
            self.check_room(cell, port)
        targets = wiring.targets(given, out, set() if out is None else _given_outputs(out), kept)
        results = executor.run(given, threads, targets)
        wiring.absorb(results.values_)
        if wiring.rows:
            self.append([(cell, results[i]) for i, cell, _ in wiring.rows])
        return results

    def adopt(self, results: Any, copy: bool) -> None:
        """Take linked outputs as the new values, after a run that made its own arrays."""
        rows = []
        for output, link in self.links.items():
            if link.append:
                rows.append((self.cells[link.handle], results[output]))
                self.check_room(*rows[-1])
        self.take({o: k for o, k in self.links.items() if not k.append}, results, copy)
        self.append(rows)

    def take(self, links: Mapping[str, Link], results: Any, copy: bool) -> None:
        """Take whole outputs as new values; they are copied if the caller may write them."""
        for output, link in links.items():
            self._check_linked(output, link.handle, results[output].dtype, results[output].shape)
        for output, link in links.items():
            array, cell = results[output], self.cells[link.handle]
            if copy:
                cell.put(array)
            else:
                array.flags.writeable = False
                cell.adopt(array)

    def _check_linked(self, output: str, handle: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Refuse an output whose size the file or graph does not allow the handle to have."""
        declared = self._declared(handle)
        if not _holds(declared, dtype, shape):
            raise BindingError(f"link {output!r} -> {handle!r} of {self.place}: the output must fit the handle, "
                               f"{declared}, got {dtype}{list(shape)}")

    def check_room(self, cell: Cell, rows: Any) -> None:
        """Raise unless new rows fit behind the valid part of a cache."""
        assert cell.axis is not None
        n, have, room = rows.shape[cell.axis], cell.valid() or 0, cell.array.shape[cell.axis]
        if have + n > room:
            name = next(k for k, c in self.cells.items() if c is cell)
            raise BindingError(f"cache {name!r} of {self.place}: length and new rows must fit the capacity {room}, "
                               f"got {have} and {n}\nhint: truncate it, or bind it with a larger capacity")

    def append(self, rows: Sequence[tuple[Cell, Array]]) -> None:
        """Put new rows behind the valid part of caches, then raise their lengths."""
        grown: dict[int, tuple[Cell, int]] = {}
        for cell, array in rows:
            assert cell.axis is not None and cell.length is not None
            memory: Any = cell.own()
            before = (slice(None),) * cell.axis
            n, at = array.shape[cell.axis], cell.length.array
            if at.size == 1:
                start = int(at.reshape(-1)[0])
                memory[(*before, slice(start, start + n))] = array
            else:
                for item, start in enumerate(at.tolist()):
                    memory[(item, *before[1:], slice(start, start + n))] = array[item]
            grown[id(cell.length)] = (cell.length, n)
        linked = {id(self.cells[k.handle]) for k in self.links.values() if not k.append}
        for key, (length, n) in grown.items():
            if key not in linked:
                np.add(length.array, n, out=length.target(length.array.shape, length.array.dtype))
                length.swap()


def _agree(want: Place, have: Place, axis: int | None) -> bool:
    """Whether an output may become a handle's value; `axis` may differ."""
    if want.dtype != have.dtype and have.dtype is not None:
        return False
    if want.shape is None or have.shape is None:
        return True
    return len(want.shape) == len(have.shape) and all(
        a == b or a is None or b is None or i == axis
        for i, (a, b) in enumerate(zip(want.shape, have.shape, strict=True))
    )


def _holds(declared: Place, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether an array of this type may be the value of a handle; open sizes may be any."""
    if declared.dtype is not None and dtype != declared.dtype.numpy:
        return False
    if declared.shape is None:
        return True
    return len(declared.shape) == len(shape) and all(
        d == n or not isinstance(d, int) for d, n in zip(declared.shape, shape, strict=True))


def _given_outputs(out: Any) -> set[Any]:
    """Names or positions of outputs for which the caller gave an array."""
    if isinstance(out, Mapping):
        return {name for name, array in out.items() if array is not None}
    if isinstance(out, (list, tuple)):
        return {i for i, array in enumerate(out) if array is not None}
    return set()


def handles_of(graph: Graph) -> Handles:
    """Handles for the inputs and outputs of a graph; none are bound yet."""
    inputs = {v.node.name: Place.of(v.type) for v in graph.inputs}
    return Handles(f"graph {graph.name!r}", inputs, {n: Place.of(v.type) for n, v in graph.outputs.items()})


def with_inputs(graph: Graph, names: set[str]) -> Graph:
    """The graph with some of its parameters as inputs behind the others."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.op is PARAM and node.name in names:
            kind = node.outputs[0].type
            rewriter.replace(node.outputs[0], rewriter.graph.input(node.name, kind.shape, kind.dtype))
        else:
            rewriter.copy(node)
    return rewriter.finish()
