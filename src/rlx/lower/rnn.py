"""Recurrent layers: weights into panels (ahead where they are constant), all steps projected, then the recurrence."""

from collections.abc import Mapping
from typing import Any

from rlx import costs, dtypes
from rlx.dtypes import DType
from rlx.ir.graph import Node, Value
from rlx.lower import gemm_int8
from rlx.lower.context import Context, lowering, per_thread, shape_of, size_of
from rlx.lower.packing import packed
from rlx.lower.program import Arg, Attrs, Operand, Transform
from rlx.ops.rnn import ACTIVATIONS, GATES, chosen_activations

_ORDER = {"lstm": [0, 2, 3, 1], "gru": [0, 1, 2], "rnn": [0]}
_PEEPHOLES = [0, 2, 1]
_BUFFERS = {"lstm": 3, "gru": 4, "rnn": 2}
_ROWS = 24  # rows of the batch per work item
_TOGETHER = 96  # rows that are projected together
_MANY_BLOCKS = 4  # of rows, enough to occupy threads
_CODES = {name: i for i, name in enumerate(ACTIVATIONS)}


def _unit(dtype: DType) -> int:
    return 16 if dtype == dtypes.f32 else 8


def _projections(dirs: int, rows: int, panels: int) -> int:
    """Work items of a projection: blocks of rows, by panels."""
    return dirs * -(-rows // _TOGETHER) * panels


def _panels(ctx: Context, value: Value, order: list[int], hidden: int, depth: int, apart: bool = False) -> Operand:
    """w, r or peepholes in panels; `apart`: the last gate of a panel behind the others."""
    dirs, gates, unit = shape_of(value)[0], len(order), _unit(value.dtype)
    count = -(-hidden // unit)
    attrs: Attrs = {"dirs": dirs, "gates": gates, "hidden": hidden, "depth": depth, "row": depth,
                    "dir": gates * hidden * depth, "apart": int(apart), "order": order}
    nbytes = dirs * count * depth * gates * unit * value.dtype.itemsize
    return packed(ctx, value, Transform(f"rnn_pack.{value.dtype}", attrs, nbytes, dirs * count,
                                        ("rnn_pack", dirs, gates, hidden, depth, apart, tuple(order))))


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


def _recurrence(kind: str, at: Mapping[str, Any], dirs: int, seq: int, batch: int, hidden: int, block: int,
                flag: bool) -> Attrs:
    """Attributes of the kernels of a recurrence."""
    major = at.get("layout", 0)
    h_d, h_b = (hidden, dirs * hidden) if major else (batch * hidden, hidden)
    acts = chosen_activations(kind, dirs, at["activations"], at["activation_alpha"], at["activation_beta"])
    return {
        "dirs": dirs,
        "seq": seq,
        "batch": batch,
        "hidden": hidden,
        "reverse": ("forward", "reverse", "bidirectional").index(at["direction"]),
        "block": block,
        "flag": int(flag),
        "y_t": dirs * hidden if major else dirs * batch * hidden,
        "y_d": hidden if major else batch * hidden,
        "y_b": seq * dirs * hidden if major else hidden,
        "h_d": h_d,
        "h_b": h_b,
        "s_d": h_d,
        "s_b": h_b,
        "clip": at["clip"],
        "acts": [_CODES[name] for name, _, _ in acts],
        "alpha": [alpha for _, alpha, _ in acts],
        "beta": [beta for _, _, beta in acts],
    }


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
    r_place = _panels(ctx, r, order, hidden, hidden, kind == "gru" and not linear)
    bias, bias_h = _biases(ctx, b, order, hidden, linear) if b is not None else (None, None)
    z = ctx.temp(dirs * seq * batch * gates * pad * dtype.itemsize, f"{node.name}/z")
    rows = dirs * seq * batch
    work, read = rows * gates * pad, costs.of(ctx.isa).read
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
        extent=_projections(dirs, seq * batch, pad // unit),
        grain=max(2, pad // unit // 8),
        cost=max(work * (depth + 1) * 0.012, dirs * gates * pad * depth * dtype.itemsize / read) + 50,
    )
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
    blocks, panels = dirs * -(-batch // _ROWS), pad // unit
    # Few blocks of rows: threads share every step instead.
    phases = (1 if kind != "gru" or linear else 2) * seq + 2 if blocks < _MANY_BLOCKS else 1
    share = phases / max(1, phases - 2)  # steps decide whether threads share them, not what comes before and after
    ctx.call(
        f"{kind}.{dtype}",
        [ctx.read(z), ctx.read(r_place), *own, *results, scratch],
        _recurrence(kind, at, dirs, seq, batch, hidden, _ROWS, linear or (kind == "lstm" and at["input_forget"])),
        extent=blocks * phases * (panels if phases > 1 else 1),
        grain=max(2, panels // 8) if phases > 1 else 1,
        phases=phases,
        cost=max(work * (hidden + 20) * 0.05, seq * dirs * gates * pad * hidden * dtype.itemsize / read / 2) * share
        + 50,
    )



def _int8_weights(ctx: Context, w: Value, hidden: int) -> Operand:
    """w or r of bytes in panels, the sums of the columns behind them."""
    dirs, depth, signed = shape_of(w)[0], shape_of(w)[1], int(w.dtype.kind == "i")
    count = -(-hidden // 16)
    group = gemm_int8.panel(ctx.isa)[2]
    attrs: Attrs = {"dirs": dirs, "hidden": hidden, "depth": depth, "signed": signed, "order": _ORDER["lstm"]}
    nbytes = dirs * count * 64 * (-(-depth // group) * group + 4)
    return packed(ctx, w, Transform("rnn_pack.int8", attrs, nbytes, dirs * count,
                                    ("rnn_pack_int8", ctx.isa, dirs, hidden, depth, signed)))


def _columns(ctx: Context, value: Value | None, hidden: int) -> Arg | None:
    """A scale or zero point for every column of the panels."""
    if value is None or (value.array is not None and value.dtype == dtypes.i8 and not value.array.any()):
        return None
    dirs = shape_of(value)[0]
    n = size_of(value) // dirs
    count = -(-hidden // 16)
    attrs: Attrs = {"dirs": dirs, "hidden": hidden, "dir": n, "column": int(n > 1), "order": _ORDER["lstm"]}
    transform = Transform(f"rnn_columns.{value.dtype}", attrs, dirs * count * 256, dirs * count,
                          ("rnn_columns", dirs, hidden, n))
    return ctx.read(packed(ctx, value, transform))


@lowering("dynamic_quantize_lstm")
def lower_dynamic_quantize_lstm(ctx: Context, node: Node) -> None:
    """x to codes, all time steps projected, then the recurrence, which quantises the states itself."""
    x, w, r, w_scale, r_scale, w_zero, r_zero, b, lens, h0, c0, p = [*node.inputs, *[None] * 12][:12]
    assert x is not None and w is not None and r is not None
    at = node.attrs
    seq, batch, depth = shape_of(x)
    dirs, hidden = shape_of(r)[:2]
    rows, pad, read = seq * batch, -(-hidden // 16) * 16, costs.of(ctx.isa).read

    def codes(n: int, k: int, label: str) -> Operand:
        return ctx.temp(n * gemm_int8.code_bytes(k, ctx.isa), f"{node.name}/{label}")

    x_codes, params = codes(rows, depth, "x"), ctx.temp(8, f"{node.name}/scale")
    ctx.call("rnn_quantize.int8", [ctx.read(x), ctx.maybe(lens), ctx.write(x_codes), ctx.write(params)],
             {"seq": seq, "batch": batch, "inputs": depth}, extent=1, cost=rows * depth * 0.3 + 50)
    z = ctx.temp(dirs * rows * 4 * pad * 4, f"{node.name}/z")
    ctx.call(
        "rnn_project.int8",
        [ctx.read(x_codes), ctx.read(params), ctx.read(_int8_weights(ctx, w, hidden)), _columns(ctx, w_scale, hidden),
         _columns(ctx, w_zero, hidden), ctx.write(z)],
        {"dirs": dirs, "seq": seq, "batch": batch, "inputs": depth, "hidden": hidden},
        extent=_projections(dirs, rows, pad // 16), grain=max(2, pad // 128),
        cost=max(dirs * rows * 4 * pad * (depth + 20) * 0.006, dirs * 4 * pad * depth / read) + 50,
    )
    scratch = ctx.write(ctx.temp(dirs * batch * _BUFFERS["lstm"] * pad * 4, f"{node.name}/state"))
    codes_bytes, panels, phases = per_thread(batch * gemm_int8.code_bytes(hidden, ctx.isa)), pad // 16, seq + 2
    ctx.call(
        "dynamic_quantize_lstm.f32",
        [ctx.read(z), ctx.read(_int8_weights(ctx, r, hidden)), _columns(ctx, r_scale, hidden),
         _columns(ctx, r_zero, hidden),
         None if b is None else ctx.read(_biases(ctx, b, _ORDER["lstm"], hidden, False)[0]),
         None if p is None else ctx.read(_panels(ctx, p, _PEEPHOLES, hidden, 1)),
         *map(ctx.maybe, (lens, h0, c0)), *(ctx.write(v) if ctx.uses.get(v) else None for v in node.outputs), scratch,
         ctx.work(codes_bytes)],
        {**_recurrence("lstm", at, dirs, seq, batch, hidden, max(1, batch), at["input_forget"]), "stride": codes_bytes},
        extent=phases * dirs * panels if batch else 0, grain=max(2, panels // 8), phases=phases,
        cost=max(dirs * rows * 4 * pad * (hidden + 20) * 0.02, seq * dirs * 4 * pad * hidden / read) * phases
        / max(1, seq) + 50,
    )
