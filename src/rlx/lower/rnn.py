"""Recurrent layers: weights into panels (ahead where they are constant), all steps projected, then the recurrence."""

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.graph import Node, Value
from rlx.lower.context import Context, lowering, shape_of
from rlx.lower.packing import packed
from rlx.lower.program import Arg, Attrs, Operand, Transform
from rlx.ops.rnn import ACTIVATIONS, GATES, chosen_activations

_ORDER = {"lstm": [0, 2, 3, 1], "gru": [0, 1, 2], "rnn": [0]}
_PEEPHOLES = [0, 2, 1]
_BUFFERS = {"lstm": 3, "gru": 4, "rnn": 2}
_ROWS = 24  # rows of the batch per work item
_CODES = {name: i for i, name in enumerate(ACTIVATIONS)}


def _unit(dtype: DType) -> int:
    return 16 if dtype == dtypes.f32 else 8


def _panels(ctx: Context, value: Value, order: list[int], hidden: int, depth: int) -> Operand:
    """w, r or peepholes in panels."""
    dirs, gates, unit = shape_of(value)[0], len(order), _unit(value.dtype)
    count = -(-hidden // unit)
    attrs: Attrs = {"dirs": dirs, "gates": gates, "hidden": hidden, "depth": depth, "row": depth,
                    "dir": gates * hidden * depth, "order": order}
    nbytes = dirs * count * depth * gates * unit * value.dtype.itemsize
    return packed(ctx, value, Transform(f"rnn_pack.{value.dtype}", attrs, nbytes, dirs * count,
                                        ("rnn_pack", dirs, gates, hidden, depth, tuple(order))))


def _biases(ctx: Context, value: Value, order: list[int], hidden: int, apart: bool) -> tuple[Operand, Operand | None]:
    """Sum of the biases in panels; `apart`: the recurrent bias of the last gate by itself behind it."""
    dirs, gates, unit, size = shape_of(value)[0], len(order), _unit(value.dtype), value.dtype.itemsize
    count = -(-hidden // unit)
    both = dirs * count * gates * unit * size
    alone = dirs * count * unit * size if apart else 0
    attrs: Attrs = {"dirs": dirs, "gates": gates, "hidden": hidden, "dir": 2 * gates * hidden, "order": order}
    transform = Transform(f"rnn_pack_bias.{value.dtype}", attrs, both + alone, dirs * count,
                          ("rnn_pack_bias", dirs, gates, hidden, tuple(order), apart),
                          args=((0, 0), (0, gates * hidden * size), (1, 0), (1, both) if apart else None))
    place = packed(ctx, value, transform)
    return place, place.at(both) if apart else None


@lowering("lstm", "gru", "rnn")
def lower_recurrent(ctx: Context, node: Node) -> None:
    """Project all time steps, then run the recurrence; results nobody reads are not written."""
    kind, at, inputs = node.op.name, node.attrs, [*node.inputs, *[None] * 8]
    x, w, r, b, lens, h0, c0, p = inputs[:8]
    assert x is not None and w is not None and r is not None
    dtype, order, gates = x.dtype, _ORDER[kind], GATES[kind]
    dirs, hidden, depth = shape_of(w)[0], shape_of(r)[2], shape_of(x)[2]
    first, second = shape_of(x)[:2]
    seq, batch = (second, first) if at["layout"] else (first, second)
    unit = _unit(dtype)
    pad = -(-hidden // unit) * unit
    linear = kind == "gru" and at["linear_before_reset"]
    w_place = _panels(ctx, w, order, hidden, depth)
    r_place = _panels(ctx, r, order, hidden, hidden)
    bias, bias_h = _biases(ctx, b, order, hidden, linear) if b is not None else (None, None)
    z = ctx.temp(dirs * seq * batch * gates * pad * dtype.itemsize, f"{node.name}/z")
    rows = dirs * seq * batch
    work = rows * gates * pad
    ctx.call(
        f"rnn_project.{dtype}",
        [ctx.read(x), ctx.read(w_place), None if bias is None else ctx.read(bias), ctx.write(z)],
        {
            "dirs": dirs,
            "seq": seq,
            "batch": batch,
            "inputs": depth,
            "hidden": hidden,
            "gates": gates,
            "x_t": depth if at["layout"] else batch * depth,
            "x_b": seq * depth if at["layout"] else depth,
        },
        extent=rows,
        grain=12,
        cost=work * (depth + 1) * 0.04 + 50,
    )
    y = shape_of(node.outputs[0])
    if at["layout"]:
        strides = {
            "y_t": dirs * hidden,
            "y_d": hidden,
            "y_b": y[1] * dirs * hidden,
            "h_d": hidden,
            "h_b": dirs * hidden,
        }
    else:
        strides = {
            "y_t": dirs * batch * hidden,
            "y_d": batch * hidden,
            "y_b": hidden,
            "h_d": batch * hidden,
            "h_b": hidden,
        }
    acts = chosen_activations(kind, dirs, at["activations"], at["activation_alpha"], at["activation_beta"])
    scratch = ctx.write(ctx.temp(dirs * batch * _BUFFERS[kind] * pad * dtype.itemsize, f"{node.name}/state"))
    results = [ctx.write(v) if ctx.uses.get(v) else None for v in node.outputs]
    own: list[Arg | None] = []
    if kind == "lstm":
        own = [ctx.read(_panels(ctx, p, _PEEPHOLES, hidden, 1)) if p is not None else None,
               ctx.maybe(lens), ctx.maybe(h0), ctx.maybe(c0)]
    else:
        own = [ctx.maybe(lens), ctx.maybe(h0)]
        if kind == "gru":
            own.insert(0, None if bias_h is None else ctx.read(bias_h))
    ctx.call(
        f"{kind}.{dtype}",
        [ctx.read(z), ctx.read(r_place), *own, *results, scratch],
        {
            "dirs": dirs,
            "seq": seq,
            "batch": batch,
            "hidden": hidden,
            "reverse": ("forward", "reverse", "bidirectional").index(at["direction"]),
            "block": _ROWS,
            "flag": int(linear or (kind == "lstm" and at["input_forget"])),
            **strides,
            "s_d": strides["h_d"],
            "s_b": strides["h_b"],
            "clip": at["clip"],
            "acts": [_CODES[name] for name, _, _ in acts],
            "alpha": [alpha for _, alpha, _ in acts],
            "beta": [beta for _, _, beta in acts],
        },
        extent=dirs * -(-batch // _ROWS),
        grain=1,
        cost=work * (hidden + 20) * 0.05 + 50,
    )

