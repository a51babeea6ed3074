"""What is proved of a program of a file before it is linked.

Every number that the interpreter follows is in range: kernels, references,
places of attributes and lists, buffers inside their slots, operands inside their
buffers, the tables and bodies of control flow. What kernels touch is the next
question: see `proof`.
"""

import math
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.aot.tables import ARGS, BUFFERS, CALLS, KINDS, MOST, Linker, Table, Words
from rlx.errors import FormatError

FIXED, CARRIED_IN, CARRIED_OUT, X, Y, COUNTER, GO_ON = range(7)


def require(holds: Any, table: Table, what: str) -> None:
    """Raise FormatError if something does not hold."""
    if not holds:
        raise FormatError(f"{table.name}: {what}")


def _within(column: Words, low: int, high: int, table: Table, what: str) -> None:
    """Every element in [low, high)."""
    require(not len(column) or (int(column.min()) >= low and int(column.max()) < high), table,
             f"{what} must be in [{low}, {high}), got {column[(column < low) | (column >= high)][:3].tolist()}")


def port_bytes(port: tuple[str, str, tuple[int, ...]], table: Table) -> int:
    """Bytes of an input or output."""
    _, dtype, shape = port
    require(dtype in dtypes.BY_NAME, table, f"element types must be known, got {dtype!r}")
    require(len(shape) <= 64 and all(type(d) is int and 0 <= d < MOST for d in shape), table,
             f"shapes must be up to 64 sizes, got {shape}")
    nbytes = dtypes.BY_NAME[dtype].itemsize * math.prod(shape)
    require(nbytes < MOST, table, f"a value must have less than {MOST} bytes, got {shape}")
    return nbytes


def capacities(table: Table) -> Words:
    """Bytes behind every slot."""
    ports = [port_bytes(p, table) for p in (*table.inputs, *table.outputs)]
    return np.concatenate([np.array([max(64, table.arena), *ports], np.int64), table["weight_nbytes"]])


def verify(table: Table, linker: Linker, number: int) -> None:
    """Prove a table.

    Raises
    ------
    FormatError
        Tells what does not hold.
    """
    n, m, b = len(table["kernel"]), len(table["buffer"]), len(table["kind"])
    for keys, want in ((CALLS, n), (ARGS, m), (BUFFERS, b)):
        require(all(len(table[k]) == want for k in keys), table, f"columns {keys} must be equally long")
    for k in ("weight_param", "weight_transform"):
        require(len(table[k]) == len(table["weight_nbytes"]), table, f"there must be one {k} per weight")
    for k in ("extent", "grain", "cost", "size", "nbytes", "weight_nbytes", "scalars"):
        _within(table[k], 0, MOST, table, k)
    _within(table["offset"], 0, MOST, table, "offsets")
    _within(table["kernel"], 0, len(linker.names), table, "kernels")
    _within(table["node"], 0, 1 << 31, table, "nodes")
    _within(table["phases"], 1, 1 << 31, table, "phases")
    require((table["extent"] % table["phases"] == 0).all(), table, "phases must be equal parts of the extent")
    require(1 <= table.threads <= 64, table, f"threads must be in [1, 64], got {table.threads}")
    require(table.zero_denormals in (0, 1), table, f"zero_denormals must be 0 or 1, got {table.zero_denormals}")
    _starts(table["attr_start"], n, len(table["words"]), table)
    _starts(table["arg_start"], n, m, table)
    _buffers(table)
    buffer = table["buffer"]
    _within(buffer, -1, b, table, "buffers")
    used = buffer[buffer >= 0]
    require((table["slot"][used] >= 0).all(), table, "buffers in use must have a slot")
    ends = table["offset"][buffer >= 0] + table["nbytes"][buffer >= 0]
    require((ends <= table["size"][used]).all(), table, "operands must lie inside their buffers")
    for k, count in (("ew", len(linker.ew_addresses)), ("body", number)):
        require(len(table[k]) == len(table[f"{k}_at"]), table, f"there must be one {k} per place")
        _within(table[k], 0, count, table, f"{k} references")
        _within(table[f"{k}_at"], 0, len(table["words"]), table, f"places of {k} references")
    _attributes(table, linker)
    _control(table, linker)


def _starts(column: Words, n: int, end: int, table: Table) -> None:
    require(len(column) == n + 1 and column[0] == 0 and column[-1] == end and (np.diff(column) >= 0).all(), table,
             f"{n} stretches must cover {end} items in order")


def _buffers(table: Table) -> None:
    """Every buffer inside what its slot holds."""
    slot, place, size = table["slot"], table["place"], table["size"]
    _within(table["kind"], 0, len(KINDS), table, "kinds of buffers")
    _within(slot, -1, table.n_slots, table, "slots")
    placed = slot >= 0
    _within(place[placed], 0, MOST, table, "places of buffers")
    room = capacities(table)[slot[placed]]
    require((place[placed] + size[placed] <= room).all(), table, "buffers must lie inside their slots")
    require((place[placed & (slot == 0)] % 64 == 0).all(), table, "scratch must be aligned to 64 bytes")


def _attributes(table: Table, linker: Linker) -> None:
    """As many words per call as its kernel's layout says, and lists inside their block."""
    starts, kernel, words = table["attr_start"], table["kernel"], table["words"]
    lengths = np.diff(starts)
    for k, layout in enumerate(linker.layouts):
        mine = kernel == k
        if not mine.any():
            continue
        kinds = [token.partition(":")[2] for token in layout.split()]
        fixed = sum(2 if kind == "*" else 1 for kind in kinds)
        at, length, tail = starts[:-1][mine], lengths[mine], np.full(int(mine.sum()), fixed)
        require((length >= fixed).all(), table, f"{linker.names[k]} must have {fixed} attribute words")
        place = 0
        for kind in kinds:
            if kind == "*":
                require((words[at + place] == tail).all() and (words[at + place + 1] >= 0).all()
                         and (words[at + place + 1] < MOST).all(), table,
                         f"{linker.names[k]}: lists must follow one another")
                tail = tail + words[at + place + 1]
                place += 1
            place += 1
        require((tail == length).all(), table, f"{linker.names[k]}: attributes must fill their block")


def _control(table: Table, linker: Linker) -> None:
    """Bodies: every slot of theirs is bound to as many bytes as they use."""
    bodies = dict(zip(table["body_at"].tolist(), table["body"].tolist(), strict=True))
    for name, check in (("control.if", _branch), ("control.loop", _loop)):
        if name in linker.names:
            for i in np.flatnonzero(table["kernel"] == linker.names.index(name)).tolist():
                check(ControlCall(table, i), bodies, linker)


class ControlCall:
    """Attributes and operands of one control call."""

    def __init__(self, table: Table, i: int) -> None:
        self.table = table
        self.start = int(table["attr_start"][i])
        self.words = table["words"][self.start : int(table["attr_start"][i + 1])].tolist()
        first, last = int(table["arg_start"][i]), int(table["arg_start"][i + 1])
        self.buffers = table["buffer"][first:last].tolist()
        self.offsets = table["offset"][first:last].tolist()
        self.sizes = [-1 if b < 0 else n for b, n in zip(self.buffers, table["nbytes"][first:last].tolist(),
                                                         strict=True)]

    def items(self, place: int) -> list[int]:
        at, n = self.words[place], self.words[place + 1]
        found: list[int] = self.words[at : at + n]
        return found

    def present(self, arg: int) -> bool:
        """Whether there is such an operand."""
        return 0 <= arg < len(self.sizes) and self.sizes[arg] >= 0

    def where(self, arg: int) -> tuple[int, int, int]:
        """Slot, first byte and end of an operand."""
        buffer = self.buffers[arg]
        start = int(self.table["place"][buffer]) + self.offsets[arg]
        return int(self.table["slot"][buffer]), start, start + self.sizes[arg]

    def overlap(self, a: int, b: int) -> bool:
        """Whether two operands share memory."""
        (slot, start, end), (other, first, last) = self.where(a), self.where(b)
        return slot == other and start < last and first < end and start < end and first < last

    def identical(self, a: int, b: int) -> bool:
        """Whether two operands begin at one place."""
        return self.where(a)[:2] == self.where(b)[:2]

    def writable(self, arg: int) -> bool:
        """Whether an operand is scratch or an output."""
        slot, first = self.where(arg)[0], 1 + len(self.table.inputs)
        return slot == 0 or first <= slot < first + len(self.table.outputs)

    def body_number(self, place: int) -> int:
        """Number of a body's program."""
        at = np.flatnonzero(self.table["body_at"] == self.start + place)
        return int(self.table["body"][at[-1]])

    def holds(self, arg: int, nbytes: int, optional: bool = False) -> None:
        ok = 0 <= arg < len(self.sizes) and (self.sizes[arg] >= nbytes or (optional and self.sizes[arg] < 0))
        require(ok, self.table, f"operand {arg} of a control call must have {nbytes} bytes")

    def body(self, place: int, bodies: dict[int, int], linker: Linker) -> tuple[Table, list[int]]:
        number = bodies.get(self.start + place)
        require(number is not None, self.table, "a control call must have its bodies")
        assert number is not None
        body = linker.tables[number]
        return body, [int(n) for n in capacities(body)]


def _branch(call: ControlCall, bodies: dict[int, int], linker: Linker) -> None:
    call.holds(0, 1)
    for place, at in ((0, 2), (1, 4)):
        body, room = call.body(place, bodies, linker)
        slots = call.items(at)
        require(len(slots) == body.n_slots, call.table, "a branch must have one operand per slot")
        call.holds(1, 8 * body.n_slots)
        for arg, nbytes in zip(slots, room, strict=True):
            call.holds(arg, nbytes)


def _loop(call: ControlCall, bodies: dict[int, int], linker: Linker) -> None:
    body, room = call.body(0, bodies, linker)
    bound, slots, carried, rows = call.words[1], call.items(4), call.items(6), call.items(8)
    require(bound >= 0 and len(slots) == 3 * body.n_slots and len(carried) % 4 == 0 and len(rows) % 2 == 0, call.table,
             "a loop must have one entry per slot")
    call.holds(0, 8, optional=True)
    call.holds(1, 1, optional=True)
    call.holds(2, 8 * body.n_slots)
    call.holds(3, 64 + 4 * len(carried))
    call.holds(4, 8, optional=True)
    for k in range(0, len(carried), 4):
        for arg in carried[k : k + 3]:
            call.holds(arg, max(0, carried[k + 3]))
    for k in range(0, len(rows), 2):
        call.holds(rows[k], max(0, rows[k + 1]))
    for (kind, which, step), nbytes in zip(zip(*[iter(slots)] * 3, strict=True), room, strict=True):
        if kind == FIXED:
            call.holds(which, nbytes)
        elif kind in (CARRIED_IN, CARRIED_OUT):
            require(0 <= which < len(carried) // 4 and carried[4 * which + 3] >= nbytes, call.table,
                     f"carried value {which} must have {nbytes} bytes")
        elif kind in (X, Y):
            require(step >= nbytes or not bound, call.table, f"a trip must have {nbytes} bytes, got {step}")
            call.holds(which, bound * max(0, step))
        else:
            require(kind in (COUNTER, GO_ON) and nbytes <= (8 if kind == COUNTER else 1), call.table,
                     "slots of a loop must be of a known kind")
