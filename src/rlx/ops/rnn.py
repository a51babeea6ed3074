"""Recurrent layers: lstm, gru, rnn with the semantics and gate orders of ONNX.

x is [T, B, I] (layout 0) or [B, T, I] (layout 1); w [D, G*H, I], r [D, G*H, H], b [D, 2*G*H] (input biases, then
recurrent ones); states [D, B, H] or [B, D, H]; y [T, D, B, H] or [B, T, D, H]. Gates: lstm i o f c, gru z r h.

dynamic_quantize_lstm is an lstm of layout 0 with 8-bit w [D, I, 4*H] and r [D, H, 4*H].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import FLOATS, DType, f32, i8, u8
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank
from rlx.ops.quant import dynamic_range

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
DEFAULTS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}
# name -> default (alpha, beta), None where the function has no such parameter; the order is the kernels' code
ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "sigmoid": (None, None), "tanh": (None, None), "relu": (None, None), "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None), "thresholdedrelu": (1.0, None), "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5), "elu": (1.0, None), "softsign": (None, None), "softplus": (None, None),
}
TOLERANCE = Tolerance(rtol={"f32": 1e-5, "f64": 1e-12, "f16": 4e-3, "bf16": 2e-2},
                      atol={"f32": 5e-6, "f64": 1e-12, "f16": 2e-3, "bf16": 2e-2})
Chosen = tuple[str, float, float]


def chosen_activations(kind: str, directions: int, activations: Sequence[str] | None,
                       alphas: Sequence[float] | None, betas: Sequence[float] | None) -> list[Chosen]:
    """(function, alpha, beta) per direction and gate; parameters go to the functions that take one, in order.

    Raises
    ------
    TypeRuleError
        The number of functions is wrong, or one is unknown.
    """
    if isinstance(activations, str) or not isinstance(activations, Sequence | None):
        raise TypeRuleError(f"{kind}: activations must be a sequence of names, got {activations!r}")
    names = [str(a).replace("_", "").lower() for a in activations or DEFAULTS[kind] * directions]
    want = len(DEFAULTS[kind]) * directions
    if len(names) != want:
        raise TypeRuleError(f"{kind}: activations must be {want} for {directions} direction(s), got {len(names)}")
    left, right = list(alphas or ()), list(betas or ())
    found = []
    for name in names:
        if name not in ACTIVATIONS:
            raise TypeRuleError(f"{kind}: activations must be among {list(ACTIVATIONS)}, got {name!r}")
        alpha, beta = ACTIVATIONS[name]
        if alpha is not None and left:
            alpha = float(left.pop(0))
        if beta is not None and right:
            beta = float(right.pop(0))
        found.append((name, alpha or 0.0, beta or 0.0))
    return found


def _activate(chosen: Chosen, x: Array) -> Array:
    name, a, b = chosen
    if name == "sigmoid":
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-x)))
    if name == "tanh":
        return np.tanh(x)
    if name == "relu":
        return np.where(x < 0, 0, x)
    if name == "affine":
        return a * x + b
    if name == "leakyrelu":
        return np.where(x < 0, a * x, x)
    if name == "thresholdedrelu":
        return np.where(x <= a, 0, x)
    if name == "scaledtanh":
        return np.asarray(a * np.tanh(b * x))
    if name == "hardsigmoid":
        return np.clip(a * x + b, 0, 1)
    if name == "elu":
        return np.where(x < 0, a * np.expm1(x), x)
    if name == "softsign":
        return np.asarray(x / (1 + np.abs(x)))
    return np.logaddexp(x, 0)


def _limit(x: Array, clip: float) -> Array:
    return np.clip(x, -clip, clip) if clip > 0 else x


def _lstm_step(x: Array, r: Array, h: Array, c: Array, b: Array, p: Array, acts: Sequence[Chosen], clip: float,
               input_forget: bool) -> tuple[Array, Array]:
    n = h.shape[-1]
    zi, zo, zf, zc = np.split(x + h @ r.T + b[4 * n :], 4, -1)
    pi, po, pf = np.split(p, 3)
    i = _activate(acts[0], _limit(zi + pi * c, clip))
    f = 1 - i if input_forget else _activate(acts[0], _limit(zf + pf * c, clip))
    c = f * c + i * _activate(acts[1], _limit(zc, clip))
    o = _activate(acts[0], _limit(zo + po * c, clip))
    return o * _activate(acts[2], c), c


def _gru_step(x: Array, r: Array, h: Array, b: Array, acts: Sequence[Chosen], clip: float, linear: bool) -> Array:
    n = h.shape[-1]
    xz, xr, xh = np.split(x, 3, -1)
    rz, rr, rh = np.split(r, 3, 0)
    bz, br, bh = np.split(b[3 * n :], 3)
    z = _activate(acts[0], _limit(xz + h @ rz.T + bz, clip))
    s = _activate(acts[0], _limit(xr + h @ rr.T + br, clip))
    inner = s * (h @ rh.T + bh) if linear else (s * h) @ rh.T + bh
    return np.asarray((1 - z) * _activate(acts[1], _limit(xh + inner, clip)) + z * h)


def run_reference(kind: str, x: Array, w: Array, r: Array, b: Array | None, lens: Array | None, h0: Array | None,
                  c0: Array | None, p: Array | None, at: dict[str, Any]) -> tuple[Array, ...]:
    """One loop for the three layers, direction by direction, row by row."""
    if at["layout"]:
        x = x.swapaxes(0, 1)
        h0, c0 = (None if s is None else s.swapaxes(0, 1) for s in (h0, c0))
    seq, batch, _ = x.shape
    dirs, gates, hidden = w.shape[0], GATES[kind], r.shape[-1]
    acts = chosen_activations(kind, dirs, at["activations"], at["activation_alpha"], at["activation_beta"])
    y = np.zeros((seq, dirs, batch, hidden), x.dtype)
    yh, yc = np.zeros((2, dirs, batch, hidden), x.dtype)
    for d in range(dirs):
        mine = acts[d * len(DEFAULTS[kind]) : (d + 1) * len(DEFAULTS[kind])]
        bias = np.zeros(2 * gates * hidden, x.dtype) if b is None else b[d]
        peep = np.zeros(3 * hidden, x.dtype) if p is None else p[d]
        back = at["direction"] == "reverse" or d == 1
        for row in range(batch):
            n = seq if lens is None else int(lens[row])
            h = np.zeros(hidden, x.dtype) if h0 is None else h0[d, row]
            c = np.zeros(hidden, x.dtype) if c0 is None else c0[d, row]
            for t in reversed(range(n)) if back else range(n):
                z = x[t, row] @ w[d].T + bias[: gates * hidden]
                if kind == "lstm":
                    h, c = _lstm_step(z, r[d], h, c, bias, peep, mine, at["clip"], at["input_forget"])
                elif kind == "gru":
                    h = _gru_step(z, r[d], h, bias, mine, at["clip"], at["linear_before_reset"])
                else:
                    h = _activate(mine[0], _limit(z + h @ r[d].T + bias[hidden:], at["clip"]))
                y[t, d, row] = h
            yh[d, row], yc[d, row] = h, c
    if at["layout"]:
        y, yh, yc = y.transpose(2, 0, 1, 3), yh.swapaxes(0, 1), yc.swapaxes(0, 1)
    return (y, yh, yc) if kind == "lstm" else (y, yh)


def _infer(kind: str, x: TensorType, w: TensorType, r: TensorType, b: TensorType | None, lens: TensorType | None,
           states: Sequence[TensorType | None], p: TensorType | None, at: dict[str, Any]) -> tuple[TensorType, ...]:
    require_dtype(kind, x.dtype, FLOATS)
    turned = kind == "dynamic_quantize_lstm"  # weights with the gates last, types of their own
    weights = () if turned else (("w", w), ("r", r))
    for name, t in (*weights, ("b", b), ("p", p), *(("initial state", s) for s in states)):
        if t is not None and t.dtype != x.dtype:
            raise TypeRuleError(f"{kind}: operand types must match, got {x.dtype} and {t.dtype} of {name}")
    require_rank(kind, x, 3, 3, "x")
    require_rank(kind, w, 3, 3, "w")
    require_rank(kind, r, 3, 3, "r")
    dirs = 2 if at["direction"] == "bidirectional" else 1
    kind, hidden = ("lstm", r.shape[1]) if turned else (kind, r.shape[2])
    gates = GATES[kind]
    seq, batch = x.shape[:2] if at["layout"] == 0 else x.shape[1::-1]

    def want(name: str, t: TensorType | None, *shape: Any) -> None:
        if t is not None and t.shape != shape:
            raise TypeRuleError(f"{kind}: {name} must have shape {list(shape)}, got {t}")

    for name, t, depth in (("w", w, x.shape[2]), ("r", r, hidden)):
        want(name, t, dirs, *((depth, gates * hidden) if turned else (gates * hidden, depth)))
    want("b", b, dirs, 2 * gates * hidden)
    want("p", p, dirs, 3 * hidden)
    want("sequence_lens", lens, batch)
    if lens is not None and lens.dtype != dtypes.i32:
        raise TypeRuleError(f"{kind}: sequence_lens type must be i32, got {lens.dtype}")
    state = (dirs, batch, hidden) if at["layout"] == 0 else (batch, dirs, hidden)
    for s in states:
        want("initial state", s, *state)
    if at["layout"] not in (0, 1):
        raise TypeRuleError(f"{kind}: layout must be 0 or 1, got {at['layout']}")
    chosen_activations(kind, dirs, at["activations"], at["activation_alpha"], at["activation_beta"])
    y = (seq, dirs, batch, hidden) if at["layout"] == 0 else (batch, seq, dirs, hidden)
    final = TensorType(x.dtype, state)
    return (TensorType(x.dtype, y), *([final] * (2 if kind == "lstm" else 1)))


_ATTRS = (
    Attr("direction", "str", "forward", ("forward", "reverse", "bidirectional")), Attr("layout", "int", 0),
    Attr("activations", "any", None), Attr("activation_alpha", "floats", None),
    Attr("activation_beta", "floats", None), Attr("clip", "float", 0.0),
)


def _samples(kind: str) -> Any:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        gates = GATES[kind]

        def call(seq: int, batch: int, inputs: int, hidden: int, *, bias: bool = True, lens: bool = False,
                 state: bool = False, peep: bool = False, **attrs: Any) -> Sample:
            d = 2 if attrs.get("direction") == "bidirectional" else 1
            layout = attrs.get("layout", 0)
            x = data(rng, dtype, *((batch, seq) if layout else (seq, batch)), inputs, low=-1, high=1)
            w, r = (data(rng, dtype, d, gates * hidden, n, low=-0.5, high=0.5) for n in (inputs, hidden))
            b = data(rng, dtype, d, 2 * gates * hidden, low=-0.5, high=0.5) if bias else None
            count = rng.integers(0, seq + 1, batch).astype(np.int32) if lens else None
            shape = (batch, d, hidden) if layout else (d, batch, hidden)
            h, c = (data(rng, dtype, *shape, low=-1, high=1) if state else None for _ in range(2))
            if kind == "lstm":
                p = data(rng, dtype, d, 3 * hidden, low=-0.5, high=0.5) if peep else None
                return Sample((x, w, r, b, count, h, c, p), attrs)
            return Sample((x, w, r, b, count, h), attrs)

        found = [
            call(1, 1, 1, 1),
            call(3, 2, 5, 17, bias=False),
            call(4, 3, 6, 16, lens=True, state=True, direction="bidirectional"),
            call(5, 2, 4, 9, state=True, peep=True, direction="reverse"),
            call(3, 2, 4, 5, layout=1, state=True, lens=True),
            call(3, 2, 4, 5, layout=1, direction="bidirectional", state=True),
            call(2, 3, 4, 33, clip=0.4),
            call(0, 2, 3, 4, state=True),
            call(2, 0, 3, 4),
        ]
        if kind == "lstm":
            found.append(call(3, 2, 4, 7, input_forget=True, state=True, peep=True))
            found.append(call(3, 2, 4, 7, activations=("hard_sigmoid", "relu", "softsign"), activation_alpha=(0.25,),
                              activation_beta=(0.4,)))
        elif kind == "gru":
            found.append(call(4, 3, 5, 18, linear_before_reset=True, state=True, direction="bidirectional"))
            found.append(call(3, 2, 4, 7, linear_before_reset=True, bias=False))
            found.append(call(3, 2, 4, 7, activations=("HardSigmoid", "Softplus")))
        else:
            found += [
                call(2, 2, 3, 4, activations=(a,))
                for a in ("affine", "leaky_relu", "thresholded_relu", "scaled_tanh", "elu")
            ]
        return found

    return make


def _errors(kind: str) -> Any:
    def make() -> list[ErrorSample]:
        g = GATES[kind]
        x, w, r = (np.zeros(s, np.float32) for s in ((2, 1, 3), (1, 4 * g, 3), (1, 4 * g, 4)))
        return [
            ErrorSample((x, w[:, 1:], r), {}, "w must have shape"),
            ErrorSample((x, w, r, np.zeros((1, 3), np.float32)), {}, "b must have shape"),
            ErrorSample((x, w, r), {"direction": "bidirectional"}, "w must have shape"),
            ErrorSample((x, w, r), {"direction": "up"}, "one of"),
            ErrorSample((x, w, r), {"activations": ("tanh",) * 9}, "activations must be"),
            ErrorSample((x, w, r, None, np.zeros(1, np.int64)), {}, "sequence_lens type"),
            ErrorSample((x, w.astype(np.float64), r), {}, "types must match"),
        ]

    return make


lstm = OpDef(
    "lstm",
    ("x", "w", "r", "b?", "sequence_lens?", "initial_h?", "initial_c?", "p?"),
    lambda x, w, r, b=None, lens=None, h=None, c=None, p=None, **at: _infer("lstm", x, w, r, b, lens, (h, c), p, at),
    lambda x, w, r, b=None, lens=None, h=None, c=None, p=None, **at: run_reference(
        "lstm", x, w, r, b, lens, h, c, p, at
    ),
    "Long short-term memory: results y, y_h, y_c. p: peepholes [D, 3*H] of the gates i o f.",
    attrs=(*_ATTRS, Attr("input_forget", "bool", False)),
    dtypes=FLOATS,
    samples=_samples("lstm"),
    errors=_errors("lstm"),
    tolerance=TOLERANCE,
)
gru = OpDef(
    "gru", ("x", "w", "r", "b?", "sequence_lens?", "initial_h?"),
    lambda x, w, r, b=None, lens=None, h=None, **at: _infer("gru", x, w, r, b, lens, (h,), None, at),
    lambda x, w, r, b=None, lens=None, h=None, **at: run_reference("gru", x, w, r, b, lens, h, None, None, at),
    "Gated recurrent unit: results y, y_h.", attrs=(*_ATTRS, Attr("linear_before_reset", "bool", False)),
    dtypes=FLOATS, samples=_samples("gru"), errors=_errors("gru"), tolerance=TOLERANCE,
)
rnn = OpDef(
    "rnn",
    ("x", "w", "r", "b?", "sequence_lens?", "initial_h?"),
    lambda x, w, r, b=None, lens=None, h=None, **at: _infer("rnn", x, w, r, b, lens, (h,), None, at),
    lambda x, w, r, b=None, lens=None, h=None, **at: run_reference("rnn", x, w, r, b, lens, h, None, None, at),
    "Plain recurrent layer: results y, y_h.",
    attrs=_ATTRS,
    dtypes=FLOATS,
    samples=_samples("rnn"),
    errors=_errors("rnn"),
    tolerance=TOLERANCE,
)


# -- 8-bit weights, operands quantised as they come ---------------------------------------


def _codes(x: Array, of: Array) -> tuple[Array, np.float32]:
    """Codes less their zero point, and the scale, over the range of another array."""
    scale, zero = dynamic_range(of)
    with np.errstate(invalid="ignore"):
        return np.clip(np.rint(x / scale), -zero, 255 - zero).astype(np.int64), scale


def _dynamic_reference(
    x: Array, w: Array, r: Array, w_scale: Array, r_scale: Array, w_zero: Array | None, r_zero: Array | None,
    b: Array | None, lens: Array | None, h0: Array | None, c0: Array | None, p: Array | None, **at: Any,
) -> tuple[Array, ...]:
    seq, batch, _ = x.shape
    dirs, hidden = r.shape[:2]
    acts = chosen_activations("lstm", dirs, at["activations"], at["activation_alpha"], at["activation_beta"])
    steps = np.full(batch, seq) if lens is None else lens.astype(np.int64)
    y = np.zeros((seq, dirs, batch, hidden), np.float32)
    yh, yc = (np.zeros((dirs, batch, hidden), np.float32) if s is None else s.copy() for s in (h0, c0))

    def product(q: Array, scale: np.float32, d: int, weight: Array, scales: Array, zero: Array | None) -> Array:
        wide = weight[d].astype(np.int64) - (0 if zero is None else zero[d].astype(np.int64))
        return np.asarray((q @ wide).astype(np.float32) * (scale * scales[d]))

    xq, x_scale = _codes(x, x[: steps.max(initial=0)])
    for d in range(dirs):
        mine, h, c = acts[3 * d : 3 * d + 3], yh[d], yc[d]
        bias = 0 if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        pi, po, pf = np.split(np.zeros(3 * hidden, np.float32) if p is None else p[d], 3)
        back = at["direction"] == "reverse" or d == 1
        for s in range(steps.max(initial=0)):
            on = np.flatnonzero(s < steps)
            hq, h_scale = _codes(h[on], h if s == 0 else h[s <= steps])
            t = steps[on] - 1 - s if back else np.full(len(on), s)
            z = product(xq[t, on], x_scale, d, w, w_scale, w_zero)
            z = z + product(hq, h_scale, d, r, r_scale, r_zero) + bias
            zi, zo, zf, zc = np.split(z, 4, -1)
            i = _activate(mine[0], _limit(zi + pi * c[on], at["clip"]))
            f = 1 - i if at["input_forget"] else _activate(mine[0], _limit(zf + pf * c[on], at["clip"]))
            c[on] = f * c[on] + i * _activate(mine[1], _limit(zc, at["clip"]))
            o = _activate(mine[0], _limit(zo + po * c[on], at["clip"]))
            h[on] = o * _activate(mine[2], c[on])
            y[t, d, on] = h[on]
    return y, yh, yc


def _dynamic_infer(
    x: TensorType, w: TensorType, r: TensorType, w_scale: TensorType, r_scale: TensorType,
    w_zero: TensorType | None = None, r_zero: TensorType | None = None, b: TensorType | None = None,
    lens: TensorType | None = None, h: TensorType | None = None, c: TensorType | None = None,
    p: TensorType | None = None, **at: Any,
) -> tuple[TensorType, ...]:
    op = "dynamic_quantize_lstm"
    require_dtype(op, x.dtype, (f32,))
    for name, t in (("w", w), ("r", r)):
        require_dtype(op, t.dtype, (i8, u8), name)
        require_rank(op, t, 3, 3, name)
    for name, t, scale, zero in (("w", w, w_scale, w_zero), ("r", r, r_scale, r_zero)):
        require_dtype(op, scale.dtype, (f32,), f"{name}_scale")
        if zero is None and t.dtype == u8:
            raise TypeRuleError(f"{op}: {name}_zero must be given for weights of type u8, got none")
        if zero is not None:
            require_dtype(op, zero.dtype, (t.dtype,), f"{name}_zero")
        for what, q in (("scale", scale), ("zero", zero)):
            shapes = (t.shape[0],), (t.shape[0], t.shape[2])
            if q is not None and q.shape not in shapes:
                allowed = " or ".join(str(list(s)) for s in shapes)
                raise TypeRuleError(f"{op}: {name}_{what} must have shape {allowed}, got {q}")
    return _infer(op, x, w, r, b, lens, (h, c), p, {"layout": 0, **at})


def _dynamic_samples(dtype: DType, rng: Rng) -> list[Sample]:
    def call(seq: int, batch: int, inputs: int, hidden: int, *, weight: DType = i8, columns: bool = False,
             zero: bool = False, bias: bool = True, lens: bool = False, state: bool = False, peep: bool = False,
             **attrs: Any) -> Sample:
        d = 2 if attrs.get("direction") == "bidirectional" else 1
        info = np.iinfo(weight.numpy)
        x = data(rng, dtype, seq, batch, inputs, low=-1, high=1.5)
        w, r = (rng.integers(info.min, info.max, (d, n, 4 * hidden), endpoint=True).astype(weight.numpy)
                for n in (inputs, hidden))
        shape = (d, 4 * hidden) if columns else (d,)
        ws, rs = (data(rng, dtype, *shape, low=0.002, high=0.006) for _ in range(2))
        wz, rz = (rng.integers(info.min, info.max, shape).astype(weight.numpy) if zero else None for _ in range(2))
        b = data(rng, dtype, d, 8 * hidden, low=-0.5, high=0.5) if bias else None
        count = rng.integers(0, seq + 1, batch).astype(np.int32) if lens else None
        h, c = (data(rng, dtype, d, batch, hidden, low=-1, high=1) if state else None for _ in range(2))
        p = data(rng, dtype, d, 3 * hidden, low=-0.5, high=0.5) if peep else None
        return Sample((x, w, r, ws, rs, wz, rz, b, count, h, c, p), attrs)

    return [
        call(1, 1, 1, 1),
        call(3, 1, 5, 17, bias=False),
        call(4, 3, 6, 16, lens=True, state=True, direction="bidirectional", columns=True),
        call(3, 7, 18, 33, state=True, weight=u8, zero=True, columns=True),
        call(3, 2, 4, 9, state=True, peep=True, direction="reverse", lens=True, zero=True),
        call(2, 3, 4, 5, clip=0.4, input_forget=True, weight=u8, zero=True),
        call(2, 2, 4, 7, activations=("hard_sigmoid", "relu", "softsign"), activation_alpha=(0.25,),
             activation_beta=(0.4,)),
        call(0, 2, 3, 4, state=True),
        call(2, 0, 3, 4),
    ]


def _dynamic_errors() -> list[ErrorSample]:
    x, w, r = np.zeros((2, 1, 3), np.float32), np.zeros((1, 3, 16), np.int8), np.zeros((1, 4, 16), np.int8)
    s = np.ones(1, np.float32)
    return [
        ErrorSample((x, w[:, 1:], r, s, s), {}, "w must have shape"),
        ErrorSample((x, w.astype(np.float32), r, s, s), {}, "w type must be"),
        ErrorSample((x, w.astype(np.uint8), r, s, s), {}, "w_zero must be given"),
        ErrorSample((x, w, r, s[None], s), {}, "w_scale must have shape"),
        ErrorSample((x, w, r, s, s, np.zeros(1, np.uint8)), {}, "w_zero type must be"),
        ErrorSample((x, w, r, s, s, None, None, np.zeros((1, 3), np.float32)), {}, "b must have shape"),
        ErrorSample((x.astype(np.float64), w, r, s, s), {}, "type must be one of"),
    ]


dynamic_quantize_lstm = OpDef(
    "dynamic_quantize_lstm",
    ("x", "w", "r", "w_scale", "r_scale", "w_zero?", "r_zero?", "b?", "sequence_lens?", "initial_h?", "initial_c?",
     "p?"),
    _dynamic_infer,
    _dynamic_reference,
    "lstm of layout 0 with 8-bit weights w [D, I, 4*H] and r [D, H, 4*H], scales and zeros [D] or [D, 4*H] (zeros "
    "absent: 0, i8 only): x of all steps, and at every step the states of the batch, are quantised like "
    "dynamic_quantize_linear does. Results y, y_h, y_c.",
    attrs=(*(a for a in _ATTRS if a.name != "layout"), Attr("input_forget", "bool", False)),
    dtypes=(f32,),
    samples=_dynamic_samples,
    errors=_dynamic_errors,
    tolerance=Tolerance(rtol={"f32": 1e-5}, atol={"f32": 1e-5}),
)
