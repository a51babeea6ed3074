"""Values rearranged by a kernel for another one: ahead where they are weights, else in the run."""


from rlx.ir.graph import Value
from rlx.lower.context import Context, nbytes_of
from rlx.lower.program import Arg, Operand, Transform
from rlx.records import record


@record(eq=False)
class Packed:
    """Bytes on their way through a chain of transforms."""

    place: Operand
    nbytes: int


def packed(ctx: Context, value: Value, transform: Transform) -> Operand:
    """A value packed by a kernel: ahead if it is a weight, else in this run."""
    if ctx.is_weight(value):
        return ctx.weight(value, transform)
    source = Packed(ctx.operand(value), nbytes_of(value))
    return _run(ctx, source, transform)


def _run(ctx: Context, source: Packed, transform: Transform) -> Operand:
    if transform.first is not None:
        source = Packed(_run(ctx, source, transform.first), transform.first.nbytes)
    target = ctx.temp(transform.nbytes, "packed")
    args: list[Arg | None] = []
    for where in transform.args:
        if where is None:
            args.append(None)
        elif where[0] == 0:
            args.append(ctx.read(source.place.at(where[1]), source.nbytes - where[1]))
        else:
            args.append(ctx.write(target.at(where[1])))
    ctx.call(transform.kernel, args, transform.attrs, extent=transform.extent, grain=1, cost=transform.nbytes / 12)
    return target
