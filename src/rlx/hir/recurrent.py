"""LSTM and GRU of several layers, with the names of torch.nn.LSTM and torch.nn.GRU.

Parameters have the ops' order of gates and leading axis of one direction, so that they are packed once, not in each
run; state dicts of layout "out_in" have torch's.
"""

from typing import Any

from rlx import ops
from rlx.hir.builder import Builder
from rlx.ir.graph import Graph, Value
from rlx.ops.rnn import GATES

# places of the op's gates (i o f c, z r h) among torch's (i f g o, r z n)
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def _part(x: Value, i: int, size: int, axis: int) -> Value:
    return ops.slice(x, starts=i * size, stops=(i + 1) * size, axes=axis)


def _step(kind: str, hidden: int, z: Value, state: list[Value], r: Value, bias: Value | None) -> list[Value]:
    """States after one step; z [B, G*H] is the input's share, r [H, G*H] the recurrent matrix."""
    h = state[0]
    y = h @ r
    y = y if bias is None else y + bias
    if kind == "lstm":
        i, o, f, g = (_part(z + y, n, hidden, 1) for n in range(4))
        c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
        return [ops.sigmoid(o) * ops.tanh(c), c]
    update, reset = (ops.sigmoid(_part(z, n, hidden, 1) + _part(y, n, hidden, 1)) for n in (0, 1))
    new = ops.tanh(_part(z, 2, hidden, 1) + reset * _part(y, 2, hidden, 1))
    return [(1.0 - update) * new + update * h]


def _scanned(kind: str, x: Value, hidden: int, w: Value, r: Value, biases: list[Value], states: list[Value],
             reverse: bool) -> tuple[Value, ...]:
    """One direction as a loop: rows [B, T, H], then the states [B, H] after it."""
    w, r, *biases = (ops.squeeze(v, axes=(0,)) for v in (w, r, *biases))
    z = ops.transpose(x, perm=(1, 0, 2)) @ ops.transpose(w, perm=(1, 0))
    z = z + biases[0] if biases else z
    body = Graph(f"{kind}_step")
    inner = [body.input(f"s{i}", s.shape, s.dtype) for i, s in enumerate(states)]
    row = body.input("z", z.shape[1:], z.dtype)
    captured = [ops.transpose(r, perm=(1, 0)), *biases[1:]]
    seen = [body.input(f"w{i}", v.shape, v.dtype) for i, v in enumerate(captured)]
    after = _step(kind, hidden, row, inner, seen[0], seen[1] if biases else None)
    for i, s in enumerate(after):
        body.output(f"s{i}", s)
    body.output("row", after[0])
    found: Any = ops.scan(*states, z, *captured, body=body, n_carried=len(states), n_xs=1, reverse=reverse)
    return (ops.transpose(found[-1], perm=(1, 0, 2)), *found[:-1])


def _native(kind: str, x: Value, hidden: int, w: Value, r: Value, biases: list[Value], states: list[Value],
            reverse: bool) -> tuple[Value, ...]:
    """One direction as the op."""
    batch = x.shape[0]
    bias = ops.concat(biases, axis=1) if biases else None
    first = [ops.reshape(s, shape=(batch, 1, hidden)) for s in states]
    direction: Any = "reverse" if reverse else "forward"
    found: tuple[Value, ...]
    if kind == "lstm":
        found = ops.lstm(x, w, r, bias, None, first[0], first[1], layout=1, direction=direction)
    else:
        found = ops.gru(x, w, r, bias, None, first[0], layout=1, direction=direction, linear_before_reset=True)
    y = ops.reshape(found[0], shape=(batch, x.shape[1], hidden))
    return (y, *(ops.reshape(s, shape=(batch, hidden)) for s in found[1:]))


def _recurrent(b: Builder, kind: str, x: Value, hidden: int, num_layers: int, bidirectional: bool, bias: bool,
               initial: list[Value | None], name: str | None) -> tuple[Value, ...]:
    with b.scope(name):
        b.width(kind, x)
        h, layers = b.count(kind, "hidden", hidden), b.count(kind, "num_layers", num_layers)
        if x.rank != 3:
            raise b.fail(kind, f"x must be [batch, time, in], got {x.type}")
        directions = ("", "_reverse") if bidirectional else ("",)
        batch, rows = x.shape[0], GATES[kind] * h
        want = (layers * len(directions), batch, h)
        for state in initial:
            if state is not None and (state.shape != want or state.dtype != x.dtype):
                raise b.fail(kind, f"an initial state must be {x.dtype}{list(want)}, got {state.type}")
        finals: list[list[Value]] = [[] for _ in initial]
        run = _native if b.fused else _scanned
        for layer in range(layers):
            n = b.width(kind, x)
            ys = []
            for d, suffix in enumerate(directions):
                tag = f"l{layer}{suffix}"
                how: dict[str, Any] = {"dtype": x.dtype, "fan_in": h, "gates": _ORDER[kind]}
                w = b.param(f"weight_ih_{tag}", (1, rows, n), **how)
                r = b.param(f"weight_hh_{tag}", (1, rows, h), **how)
                biases = [b.param(f"bias_{p}_{tag}", (1, rows), **how) for p in ("ih", "hh")] if bias else []
                at = layer * len(directions) + d
                zero = ops.expand(b.graph.constant(0.0, dtype=x.dtype), shape=(batch, h))
                states = [zero if s is None else ops.reshape(_part(s, at, 1, 0), shape=(batch, h)) for s in initial]
                y, *after = run(kind, x, h, w, r, biases, states, suffix != "")
                ys.append(y)
                for found, state in zip(finals, after, strict=True):
                    found.append(ops.reshape(state, shape=(1, batch, h)))
            x = ys[0] if len(ys) == 1 else ops.concat(ys, axis=2)
        return (x, *(s[0] if len(s) == 1 else ops.concat(s, axis=0) for s in finals))


def lstm(b: Builder, x: Value, hidden: int, *, num_layers: int = 1, bidirectional: bool = False, bias: bool = True,
         initial_h: Value | None = None, initial_c: Value | None = None,
         name: str | None = None) -> tuple[Value, Value, Value]:
    """LSTM (Hochreiter, Schmidhuber 1997), batch first.

    Parameters of layer k: `weight_ih_lk` [1, 4*hidden, in], `weight_hh_lk` [1, 4*hidden, hidden], `bias_ih_lk` and
    `bias_hh_lk` [1, 4*hidden] with gates i o f c; those of the way back end with `_reverse`. State dicts of layout
    "out_in" hold them without the first axis and with gates i f g o, as torch.nn.LSTM.

    Parameters
    ----------
    b : Builder
    x : Value
        [B, T, in]
    hidden : int
    num_layers : int
    bidirectional, bias : bool
    initial_h, initial_c : Value, optional
        [num_layers * directions, B, hidden]; zeros if not given.
    name : str, optional

    Returns
    -------
    y : Value
        [B, T, directions * hidden] of the last layer.
    h, c : Value
        [num_layers * directions, B, hidden] after the last step.

    Raises
    ------
    TypeRuleError
        Ranks or sizes do not fit.
    """
    y, h, c = _recurrent(b, "lstm", x, hidden, num_layers, bidirectional, bias, [initial_h, initial_c], name)
    return y, h, c


def gru(b: Builder, x: Value, hidden: int, *, num_layers: int = 1, bidirectional: bool = False, bias: bool = True,
        initial_h: Value | None = None, name: str | None = None) -> tuple[Value, Value]:
    """GRU (Cho et al. 2014) whose reset gate multiplies after the product, batch first.

    Parameters and sizes as for `lstm`, with three gates z r h; r z n in state dicts of layout "out_in".

    Parameters
    ----------
    b, x, hidden, num_layers, bidirectional, bias, initial_h, name
        As for `lstm`.

    Returns
    -------
    y, h : Value
        As for `lstm`.

    Raises
    ------
    TypeRuleError
        Ranks or sizes do not fit.
    """
    y, h = _recurrent(b, "gru", x, hidden, num_layers, bidirectional, bias, [initial_h], name)
    return y, h
