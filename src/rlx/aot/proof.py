"""What is proved of a program of a file before it runs: that no call touches anything but its operands.

`verify` has found that every number that is followed is in range. Here the rules of
the kernels (`_kernels/include/bounds.h`) say, call by call, that the operands hold
what the attributes make the kernel read and write; that what is written is memory
of the run and lies where nothing else does; and of the tables that kernels trust
that they are constants whose contents are in range. Bodies of control flow get
memory of the call that is theirs alone.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels._bounds import Rules
from rlx.aot.tables import Linker, Table, Words
from rlx.aot.verify import (
    CARRIED_IN,
    CARRIED_OUT,
    COUNTER,
    FIXED,
    GO_ON,
    ControlCall,
    X,
    Y,
    require,
)
from rlx.errors import FormatError
from rlx.machine import machine_bytes
from rlx.runtime.levels import families_of, rows_of

if TYPE_CHECKING:
    from rlx.lower.program import Program, Transform
    from rlx.runtime.kernels import KernelTable

CONTROL = ("control.if", "control.loop")
HINT = "\nhint: if you know where the file is from, rlx.load(path, trusted=True) runs its programs as they are"


class Proof:
    """Proves the programs of one file, each once."""

    def __init__(self, linker: Linker) -> None:
        self.linker = linker
        self._proved: set[int] = set()
        self._skip = np.array([name in CONTROL for name in linker.names], np.uint8)
        most = max((t.threads for t in linker.tables), default=1)
        self._workers = most + (most > 1)

    def prove(self, number: int, weights: Sequence[np.ndarray[tuple[Any, ...], np.dtype[Any]] | None] = ()) -> None:
        """Prove a program that has been linked, and its bodies.

        Parameters
        ----------
        weights : sequence of arrays or None
            The constants behind its weight slots.

        Raises
        ------
        FormatError
            A call is not proved.
        """
        table = self.linker.tables[number]
        data = np.zeros(table.n_slots, np.int64)
        for i, array in enumerate(weights):
            if array is not None:
                data[table.weight_slot(i)] = array.ctypes.data
        self._calls(table, data)
        for body in table["body"].tolist():
            if body not in self._proved:
                self._proved.add(body)
                self.prove(body)
        for i in np.flatnonzero(self._skip[table["kernel"]]).tolist() if self._skip.any() else ():
            call = ControlCall(table, i)
            (_branch if self.linker.names[table["kernel"][i]] == CONTROL[0] else _loop)(call, self.linker)

    def _calls(self, table: Table, data: Words) -> None:
        buffer = table["buffer"]
        absent = buffer < 0
        if len(table["slot"]):
            slot, place = np.where(absent, -1, table["slot"][buffer]), table["place"][buffer] + table["offset"]
        else:
            slot, place = np.full(len(buffer), -1), np.zeros(len(buffer), np.int64)
        place = np.where(absent, 0, place)
        address = data[slot]
        refs = np.full(len(table["words"]), -1, np.int64)
        refs[table["ew_at"]] = table["ew"]
        shared = table["inplace"].reshape(-1, 3)
        found = self.linker.rules.prove(
            _plain(table["kernel"]), _plain(table["extent"]), _plain(table["grain"]), _plain(table["phases"]),
            _plain(table["words"]), refs, _plain(table["attr_start"]), _plain(table["arg_start"]),
            slot.astype(np.int64), place.astype(np.int64), _plain(table["nbytes"]), writable(table, slot),
            np.where(address != 0, address + place, 0), self._skip,
            self._workers, _plain(shared))
        if found is not None:
            call, why = found
            name = self.linker.names[int(table["kernel"][call])] if call < len(table["kernel"]) else "none"
            raise FormatError(f"{table.name}: call {call} of {name} must stay inside its operands, got one of which"
                              f" this cannot be proved ({why}){HINT}")


def prove_weights(program: "Program", params: Mapping[str, int], table: "KernelTable", name: str) -> None:
    """Prove that packing parameters of these sizes gives what a program expects behind its weight slots.

    Raises
    ------
    FormatError
        A packing kernel may leave its operands, or the result is too small.
    """
    for weight in program.weights:
        if weight.param is not None:
            given = _packed(weight.transform, params[weight.param], table, name)
            if given < weight.nbytes:
                raise FormatError(f"{name}: parameter {weight.param!r} must give {weight.nbytes} bytes, got {given}")


def _packed(transform: "Transform | None", given: int, table: "KernelTable", name: str) -> int:
    """Bytes that a packing of so many bytes gives."""
    from rlx.lower.program import EwRef
    from rlx.runtime.link import float_word, lay_out

    if transform is None:
        return given
    sizes = (_packed(transform.first, given, table, name), transform.nbytes)
    if not 0 <= transform.nbytes <= machine_bytes():
        raise FormatError(f"{name}: a packed parameter must fit this machine's memory, got {transform.nbytes:,} bytes")
    row = table.kernel(transform.kernel)
    ews: list[tuple[str, int]] = []
    words: list[int] = []
    refs: list[int] = []
    for item in lay_out(row, transform.attrs):
        refs.append(len(ews) if isinstance(item, EwRef) else -1)
        if isinstance(item, EwRef):
            ews.append((item.name, table.ew(item.name).arity))
        words.append(float_word(item) if isinstance(item, float) else item if isinstance(item, int) else 0)
    slots, places = [], []
    for arg in transform.args:
        slot, place = (-1, 0) if arg is None else arg
        if slot not in (-1, 0, 1) or not 0 <= place <= sizes[max(0, slot)]:
            raise FormatError(f"{name}: operands of a packing must lie inside source or result, got {arg!r}")
        slots.append(slot)
        places.append(place)
    layout = rows_of(table.level)[0][transform.kernel][1]
    rules = Rules(families_of(table.level), [(transform.kernel, layout)], ews)

    def ints(*values: int) -> Words:
        return np.array(values, np.int64)

    found = rules.prove(
        ints(0), ints(transform.extent), ints(0), ints(1), ints(*words), ints(*refs), ints(0, len(words)),
        ints(0, len(slots)), ints(*slots), ints(*places), ints(*(sizes[max(0, s)] - p for s, p in zip(slots, places,
                                                                                                    strict=True))),
        np.array([s == 1 for s in slots], np.uint8), ints(*(0 for _ in slots)), np.zeros(1, np.uint8), 1,
        np.zeros((0, 3), np.int64))
    if found is not None:
        raise FormatError(f"{name}: packing by {transform.kernel} must stay inside its operands, got one of which this"
                          f" cannot be proved ({found[1]}){HINT}")
    return transform.nbytes


def _plain(column: Words) -> Words:
    return np.ascontiguousarray(column, np.int64)


def writable(table: Table, slot: Words) -> np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]:
    """Whether slots are memory of the run: scratch and outputs."""
    first = 1 + len(table.inputs)
    return np.asarray((slot == 0) | ((slot >= first) & (slot < first + len(table.outputs))), np.uint8)


def _apart(call: ControlCall, written: set[int], others: set[int], same: set[tuple[int, int]]) -> None:
    """What a body writes is memory of the run, and nothing else that it is given lies there."""
    for w in written:
        require(call.writable(w), call.table, "what a body writes must be memory of the run")
        for r in others:
            if r != w and (w, r) not in same and (r, w) not in same:
                require(not call.overlap(w, r), call.table, "what a body writes must lie where nothing else does")


def _branch(call: ControlCall, linker: Linker) -> None:
    require(call.writable(1), call.table, "what a body writes must be memory of the run")
    for place, at in ((0, 2), (1, 4)):
        body = linker.tables[call.body_number(place)]
        slots = call.items(at)
        mine = writable(body, np.arange(body.n_slots))
        written = {arg for arg, w in zip(slots, mine, strict=True) if w}
        read = {arg for arg, w in zip(slots, mine, strict=True) if not w}
        require(len(written) == int(mine.sum()) and written.isdisjoint(read), call.table,
                "what a body writes must lie where nothing else does")
        _apart(call, written | {1}, {*slots, 1}, set())


def _loop(call: ControlCall, linker: Linker) -> None:
    body = linker.tables[call.body_number(0)]
    slots, carried, rows = call.items(4), call.items(6), call.items(8)
    mine = writable(body, np.arange(body.n_slots)).tolist()
    written, read, same = {2, 3}, {2, 3}, set()
    listed: list[int] = []
    for k in range(0, len(carried), 4):
        first, result, spare = carried[k : k + 3]
        written |= {result, spare}
        read |= {first, result, spare}
        require(result != spare, call.table, "a carried value must have two buffers")
        same |= {(result, first)} if call.identical(result, first) else set()
        listed += [result, spare]
    for (kind, which, _), is_written in zip(zip(*[iter(slots)] * 3, strict=True), mine, strict=True):
        ok = {FIXED: True, CARRIED_IN: not is_written, CARRIED_OUT: True, X: not is_written, Y: True,
              COUNTER: not is_written, GO_ON: True}[kind]
        require(ok, call.table, "a body must write what is there to be written")
        if kind in (FIXED, X, Y):
            read.add(which)
            if is_written:
                written.add(which)
                listed.append(which)
    read |= {i for i in (0, 1, 4) if call.present(i)} | {rows[k] for k in range(0, len(rows), 2)}
    written |= ({4} if call.present(4) else set()) | {rows[k] for k in range(0, len(rows), 2)}
    require(len(set(listed)) == len(listed), call.table, "what a body writes must lie where nothing else does")
    _apart(call, written, read, same)
