"""Which outputs of a planned program may lie in the memory of an input."""

from rlx.lower.program import Program


def over_inputs(program: Program) -> dict[int, int]:
    """Output -> input that a run may be given as one and the same memory.

    The call that makes the output takes its first value from the input in place, no later call reads the
    input, and no earlier one touches the output.
    """
    # Calls of a family differ in sizes alone, and what lies in an input's memory has one size.
    alike: dict[str, dict[int, int]] | None = getattr(program.calls, "alike", None)
    if alike is None:
        return _over_inputs(program)
    if "over" not in alike:
        alike["over"] = _over_inputs(program)
    return alike["over"]


def _over_inputs(program: Program) -> dict[int, int]:
    ins = {program.input_slot(i): i for i in range(len(program.inputs))}
    outs = {program.output_slot(i): i for i in range(len(program.outputs))}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, call in enumerate(program.calls):
        for arg in call.args:
            if arg is not None:
                slot = arg.operand.buffer.slot
                first.setdefault(slot, at)
                last[slot] = at
    found: dict[int, int] = {}
    for at, call in enumerate(program.calls):
        for written, read in call.inplace:
            target, source = call.args[written], call.args[read]
            if target is None or source is None:
                continue
            out, given = target.operand.buffer.slot, source.operand.buffer.slot
            reads = sum(a is not None and a.operand.buffer.slot == given for a in call.args)
            if (
                out in outs
                and given in ins
                and ins[given] not in found.values()
                and first[out] == last[given] == at
                and reads == 1
                and target.nbytes == source.nbytes == target.operand.buffer.nbytes == source.operand.buffer.nbytes
            ):
                found[outs[out]] = ins[given]
    return found
