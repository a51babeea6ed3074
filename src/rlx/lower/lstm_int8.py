"""The recurrence of an LSTM with 8-bit weights: a direction is a work item."""

from rlx import dtypes
from rlx.ir.graph import Node
from rlx.lower import gemm
from rlx.lower.context import Context, lowering, per_thread, shape_of, size_of
from rlx.lower.packing import packed
from rlx.lower.program import Transform

_GROUP = {"baseline": 2, "avx2": 2, "avx512": 4}
_TERM = {"baseline": 2, "avx2": 2, "avx512": 1}


@lowering("lstm_int8_steps")
def lower_lstm_int8(ctx: Context, node: Node) -> None:
    """Weights packed ahead, results that nobody reads left out."""
    z, r, scale, zero, lens, h0, c0 = (*node.inputs, *[None] * 4)[:7]
    assert z is not None and r is not None and scale is not None
    isa = gemm.level_of("lstm_int8.f32", ctx.isa)
    dirs, seq, batch, width = shape_of(z)
    hidden = width // 4
    signed = int(r.dtype == dtypes.i8)
    depth = -(-hidden // _GROUP[isa]) * _GROUP[isa]
    nbytes = dirs * (-(-hidden // 16) * depth * 64 + 16 * hidden)
    weights = packed(
        ctx,
        r,
        Transform(
            "lstm_int8_pack",
            {"dirs": dirs, "hidden": hidden, "is_signed": signed},
            nbytes,
            dirs,
            ("lstm_int8", isa, dirs, hidden, signed),
        ),
    )
    work = per_thread(2 * batch * hidden * 4 + depth * _TERM[isa])
    results = [ctx.write(v) if ctx.uses.get(v) else None for v in node.outputs]
    ctx.call(
        "lstm_int8.f32",
        [
            ctx.read(z),
            ctx.read(weights),
            ctx.read(scale),
            ctx.maybe(zero),
            ctx.maybe(lens),
            ctx.maybe(h0),
            ctx.maybe(c0),
            *results,
            ctx.work(work),
        ],
        {
            "dirs": dirs,
            "seq": seq,
            "batch": batch,
            "hidden": hidden,
            "reverse": ("forward", "reverse", "bidirectional").index(node.attrs["direction"]),
            "scale_n": size_of(scale) // dirs,
            "zero_n": 0 if zero is None else size_of(zero) // dirs,
            "is_signed": signed,
            "work_stride": work,
        },
        extent=dirs,
        grain=1,
        cost=dirs * seq * batch * hidden * (hidden * 0.06 + 10) + 100,
    )
