"""Programs to thunks: kernel names to addresses, attributes to words."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx import costs
from rlx._kernels import _interp
from rlx._kernels._host import HostCall
from rlx.errors import LoweringError
from rlx.ir.opdef import Array
from rlx.ir.traced import TracedFloat, trace_of
from rlx.lower.program import AttrItem, AttrValue, BodyRef, EwRef, HostRef, NativeRef, Program
from rlx.records import record
from rlx.runtime.kernels import KernelRow, KernelTable

_WORD, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")


def float_word(value: float) -> int:
    """The bits of a double as a signed 64-bit integer."""
    if isinstance(value, TracedFloat):
        traced: int = value.trace.number(value.values.astype(np.float64).view(np.int64))
        return traced
    word: int = _WORD.unpack(_DOUBLE.pack(value))[0]
    return word


def lay_out(row: KernelRow, attrs: Mapping[str, AttrValue]) -> list[AttrItem]:
    """The items of `attrs` in the order that the kernel's row says; every field must be given, and nothing else.

    A list is its place and length, and its items after all that is fixed.
    """
    if row.names != attrs.keys():
        names = [field.name for field in row.fields]
        missing, extra = sorted(set(names) - set(attrs)), sorted(set(attrs) - set(names))
        raise LoweringError(f"{row.name}: attributes must be {names}, missing {missing}, got also {extra}")
    fixed: list[AttrItem] = []
    tail: list[AttrItem] = []
    size = row.fixed_words
    for field in row.fields:
        value = attrs[field.name]
        if field.kind == "list":
            assert isinstance(value, Sequence)
            fixed += [size + len(tail), len(value)]
            tail += value
        elif type(value) is float or type(value) is int and field.kind == "int":
            fixed.append(value)
        elif field.kind == "float":
            fixed.append(value * 1.0 if trace_of(value) is not None else float(value))  # type: ignore[operator, arg-type]
        else:
            fixed.append(value)  # type: ignore[arg-type]
    return fixed + tail


def pack_attrs(row: KernelRow, attrs: Mapping[str, AttrValue]) -> list[int]:
    """The words of `attrs`: floats as bit copies, integers as they are."""
    return [float_word(v) if isinstance(v, float) else v for v in lay_out(row, attrs)]  # type: ignore[misc]


@record(frozen=True)
class Assembled:
    """A program as lists of numbers in the order of `_interp.Program`, and what must live as long as it."""

    columns: tuple[list[int], ...]
    n_slots: int
    kept: list[object]

    def link(self, arrays: Sequence[Array] | None = None) -> _interp.Program:
        """The thunks of these numbers, or of others in the same order."""
        fns, extents, grains, phases, nodes, estimates, words, starts, slots, offsets, ends = arrays or self.arrays()
        return _interp.Program(fns, extents, grains, phases, nodes, estimates, words, starts, slots, offsets, ends,
                               self.n_slots, self.kept)

    def arrays(self) -> list[Array]:
        """The columns as arrays of 64-bit integers."""
        return [np.array(c, np.int64) for c in self.columns]


def link(program: Program, table: KernelTable, keep: list[object] | None = None) -> _interp.Program:
    """Names to addresses: the thunks of a planned program.

    Raises
    ------
    LoweringError
        A kernel does not exist or its attributes do not fit its layout.
    """
    return assemble(program, table, keep).link()


def assemble(program: Program, table: KernelTable, keep: list[object] | None = None) -> Assembled:
    """As `link`, before the numbers become thunks."""
    _interp.set_split_ns(int(costs.of(table.level).split_ns))
    kept: list[object] = keep if keep is not None else []
    fns, extents, grains, phases, nodes, estimates = [], [], [], [], [], []
    words: list[int] = []
    starts: list[int] = []
    slots: list[int] = []
    offsets: list[int] = []
    arg_starts = [0]

    def word(item: Any) -> Any:
        if isinstance(item, float):
            return float_word(item)
        if isinstance(item, EwRef):
            return table.ew(item.name).address
        if isinstance(item, BodyRef):
            body = link(item.program, table, kept)
            kept.append(body)
            return body.address
        if isinstance(item, NativeRef):
            kept.append(item.owner)
            return item.address
        if isinstance(item, HostRef):
            call = HostCall(item.function, dict(item.attrs), [*item.operands], [*item.results],
                            item.writes, item.copies)
            kept.append(call)
            return call.address
        return item

    for call in program.calls:
        row = table.kernel(call.kernel)
        starts.append(len(words))
        words += [item if type(item) is int else word(item) for item in lay_out(row, call.attrs)]
        fns.append(row.address)
        extents.append(call.extent)
        grains.append(call.grain)
        phases.append(call.phases)
        nodes.append(call.node)
        estimates.append(call.cost)
        for arg in call.args:
            slots.append(-1 if arg is None else arg.operand.buffer.slot)
            offsets.append(0 if arg is None else arg.operand.buffer.offset + arg.operand.offset)
        arg_starts.append(len(slots))

    return Assembled((fns, extents, grains, phases, nodes, estimates, words, starts, slots, offsets, arg_starts),
                     program.n_slots, kept)


def one_call(
    row: KernelRow, attrs: Mapping[str, AttrValue], args: Sequence[tuple[int, int] | None], n_slots: int, *,
    extent: int, grain: int = 0, phases: int = 1, cost: int = 0,
) -> _interp.Program:
    """A program that is one kernel call; arguments are (slot, offset) or absent, attributes have no names left."""
    words = pack_attrs(row, attrs)
    at = 8 + len(words)
    places = [(-1, 0) if a is None else a for a in args]
    numbers = np.array([row.address, extent, grain, phases, 0, cost, 0, len(args), *words,
                        *[slot for slot, _ in places], *[offset for _, offset in places]], np.int64)
    fn, extents, grains, phases_, node, costs_, start = [numbers[i : i + 1] for i in range(7)]
    return _interp.Program(fn, extents, grains, phases_, node, costs_, numbers[8:at], start,
                           numbers[at : at + len(args)], numbers[at + len(args) :], numbers[6:8], n_slots, None)
