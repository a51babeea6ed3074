"""Lifetimes to slots and offsets, and an independent checker.

A result takes over the memory of an operand that dies in the same call where the
kernel allows it; what then shares memory is a block, and `rlx.lower.offsets` finds
places for the blocks.
"""


from rlx.errors import LoweringError
from rlx.lower.context import ALIGN
from rlx.lower.offsets import lower_bound, pack
from rlx.lower.program import Buffer, Program
from rlx.records import record


@record(eq=False)
class _Block:
    """Buffers that share one piece of memory, and when it is alive (calls, inclusive)."""

    first: int
    last: int
    nbytes: int
    members: list[Buffer]

    def __init__(self, first: int, last: int, nbytes: int, members: list[Buffer]) -> None:
        self.first = first
        self.last = last
        self.nbytes = nbytes
        self.members = members


def lifetimes(program: Program) -> dict[Buffer, tuple[int, int]]:
    """First and last call that touches each scratch buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for i, call in enumerate(program.calls):
        for arg in call.args:
            if arg is None or arg.operand.buffer.kind != "scratch":
                continue
            buffer = arg.operand.buffer
            first, _ = spans.get(buffer, (i, i))
            spans[buffer] = (first, i)
    return spans


def _share_in_place(program: Program, spans: dict[Buffer, tuple[int, int]]) -> dict[Buffer, _Block]:
    """Give results the memory of operands that die in the same call."""
    blocks = {b: _Block(first, last, b.nbytes, [b]) for b, (first, last) in spans.items()}
    placed: set[Buffer] = set()  # results that already took over an operand's memory
    for i, call in enumerate(program.calls):
        for written, read in call.inplace:
            target, source = call.args[written], call.args[read]
            if target is None or source is None:
                continue
            new, old = target.operand.buffer, source.operand.buffer
            if new is old or new in placed or old.kind != "scratch" or target.operand.offset or source.operand.offset:
                continue
            block = blocks[old]
            if block.last != i or new.nbytes != old.nbytes or any(m.kind == "output" for m in block.members):
                continue
            others = [a for k, a in enumerate(call.args)
                      if a is not None and k not in (written, read) and a.operand.buffer in blocks
                      and blocks[a.operand.buffer] is block]
            if others:
                continue
            if new.kind == "output":
                block.members.append(new)
                placed.add(new)
            elif new.kind == "scratch" and spans[new][0] == i:
                mine = blocks[new]
                placed.add(new)
                block.last = max(block.last, mine.last)
                block.members += mine.members
                for member in mine.members:
                    blocks[member] = block
    return blocks


def plan(program: Program, *, reuse: bool = True) -> None:
    """Give every buffer its slot and offset; sets arena_bytes and live_bound.

    Without `reuse` every buffer has bytes of its own, which shows whether a result depends on sharing.
    """
    spans = lifetimes(program)
    if not reuse:
        spans = dict.fromkeys(spans, (0, len(program.calls)))
    blocks = _share_in_place(program, spans)
    unique = {id(b): b for b in blocks.values()}
    todo = []
    for block in unique.values():
        output = next((m for m in block.members if m.kind == "output"), None)
        if output is not None:
            for member in block.members:
                member.kind, member.slot, member.offset = "output", output.slot, 0
        else:
            todo.append(block)
    spans_of = [(b.first, b.last, -(-max(b.nbytes, 1) // ALIGN) * ALIGN) for b in todo]
    offsets, program.arena_bytes = pack(spans_of)
    program.live_bound = lower_bound(spans_of)
    for block, offset in zip(todo, offsets, strict=True):
        for member in block.members:
            member.slot, member.offset = 0, offset
    weights = 0
    inputs = 0
    for buffer in program.buffers:
        if buffer.kind == "input":
            buffer.slot, buffer.offset = program.input_slot(inputs), 0
            inputs += 1
        elif buffer.kind == "weight":
            buffer.slot, buffer.offset = program.weight_slot(weights), 0
            weights += 1


def live_bytes(program: Program) -> list[int]:
    """Bytes of scratch alive at each call; buffers in one place at once are one piece of memory."""
    change = [0] * (len(program.calls) + 1)
    places: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for buffer, span in lifetimes(program).items():
        if buffer.slot == 0:
            places.setdefault((buffer.offset, buffer.nbytes), []).append(span)
    for (_, nbytes), spans in places.items():
        stop = -1
        for first, last in sorted(spans):
            first = max(first, stop + 1)
            if last >= first:
                change[first] += nbytes
                change[last + 1] -= nbytes
                stop = last
    found, now = [], 0
    for delta in change[:-1]:
        now += delta
        found.append(now)
    return found


def check(program: Program) -> None:
    """Prove a plan independently: every argument inside its buffer, live bytes disjoint.

    Raises
    ------
    LoweringError
        Naming the call and the buffers.
    """
    spans = lifetimes(program)
    for i, call in enumerate(program.calls):
        for arg in call.args:
            if arg is None:
                continue
            b = arg.operand.buffer
            if arg.operand.offset < 0 or arg.operand.offset + arg.nbytes > b.nbytes or b.slot < 0:
                raise LoweringError(f"call {i} ({call.kernel}): operand must lie inside {b}, got {arg}")
            if b.slot == 0 and b.offset + b.nbytes > program.arena_bytes:
                raise LoweringError(f"call {i} ({call.kernel}): {b} must lie inside the arena")
    allowed = {(c.args[w].operand.buffer, c.args[r].operand.buffer, i)  # type: ignore[union-attr]
               for i, c in enumerate(program.calls) for w, r in c.inplace
               if c.args[w] is not None and c.args[r] is not None}
    live = sorted(spans.items(), key=lambda item: item[1])
    for k, (a, (first, last)) in enumerate(live):
        for b, (first2, last2) in live[k + 1 :]:
            if first2 > last:
                break
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            if a.nbytes == 0 or b.nbytes == 0 or apart or a.slot != b.slot:
                continue
            if first2 == last and (b, a, last) in allowed:
                continue
            raise LoweringError(f"{a} and {b} must not share bytes while both live"
                                f" (calls {first}..{last} and {first2}..{last2})")
