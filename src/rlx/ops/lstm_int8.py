"""LSTM with 8-bit weights whose inputs and hidden states are quantised as they come."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType, f32, i8, u8
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank
from rlx.ops.quant import dynamic_range, full_range

SMALL = (i8, u8)
# quantised values that lie on a rounding edge may differ by one step
TOLERANCE = Tolerance(rtol={"f32": 1e-2}, atol={"f32": 2e-2})
_DIRECTION = Attr("direction", "str", "forward", ("forward", "reverse", "bidirectional"))


def _check(op: str, hidden: Any, dirs: Any, pairs: Sequence[tuple[str, TensorType | None, DType]]) -> None:
    for name, t, dtype in pairs:
        if t is None:
            continue
        require_dtype(op, t.dtype, (dtype,), name)
        if t.shape not in ((dirs,), (dirs, 4 * hidden)):
            raise TypeRuleError(f"{op}: {name} must be [{dirs}] or [{dirs}, {4 * hidden}], got {t}")


def _infer_steps(
    z: TensorType,
    r: TensorType,
    scale: TensorType,
    zero: TensorType | None = None,
    lens: TensorType | None = None,
    h0: TensorType | None = None,
    c0: TensorType | None = None,
    *,
    direction: str,
) -> tuple[TensorType, ...]:
    dirs, seq, batch, width = z.shape
    hidden = width // 4
    state = TensorType(f32, (dirs, batch, hidden))
    return (TensorType(f32, (seq, dirs, batch, hidden)), state, state)


def _steps(
    z: Array,
    r: Array,
    scale: Array,
    zero: Array | None = None,
    lens: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    dirs, seq, batch, width = z.shape
    hidden = width // 4
    y = np.zeros((seq, dirs, batch, hidden), np.float32)
    final = np.zeros((2, dirs, batch, hidden), np.float32)
    for d in range(dirs):
        weights = r[d].astype(np.int32) - (0 if zero is None else zero[d].astype(np.int32))
        h = np.zeros((batch, hidden), np.float32) if h0 is None else h0[d].astype(np.float32)
        c = np.zeros((batch, hidden), np.float32) if c0 is None else c0[d].astype(np.float32)
        counts = np.full(batch, seq) if lens is None else lens
        for s in range(seq):
            step, offset = dynamic_range(h)
            q = np.clip(np.rint(h / step) + offset, 0, 255).astype(np.int32) - int(offset)
            new_h, new_c = h.copy(), c.copy()
            for b in np.flatnonzero(counts > s):
                t = counts[b] - 1 - s if direction == "reverse" or d == 1 else s
                i, o, f, g = np.split(z[d, t, b] + (q[b] @ weights).astype(np.float32) * (step * scale[d]), 4)
                new_c[b] = c[b] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
                new_h[b] = np.tanh(new_c[b]) / (1 + np.exp(-o))
                y[t, d, b] = new_h[b]
            h, c = new_h, new_c
        final[0, d], final[1, d] = h, c
    return y, final[0], final[1]


lstm_int8_steps = OpDef(
    "lstm_int8_steps", ("z", "r", "scale", "zero?", "lens?", "initial_h?", "initial_c?"), _infer_steps, _steps,
    "The recurrence of dynamic_quantize_lstm over projected inputs [D, T, B, 4*H].", attrs=(_DIRECTION,), dtypes=(f32,),
    tolerance=TOLERANCE, internal=True,
)


def _infer(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    w_scale: TensorType,
    r_scale: TensorType,
    w_zero: TensorType | None = None,
    r_zero: TensorType | None = None,
    b: TensorType | None = None,
    lens: TensorType | None = None,
    h0: TensorType | None = None,
    c0: TensorType | None = None,
    *,
    direction: str,
) -> tuple[TensorType, ...]:
    op = "dynamic_quantize_lstm"
    require_dtype(op, x.dtype, (f32,), "x")
    for name, t in (("x", x), ("w", w), ("r", r)):
        require_rank(op, t, 3, 3, name)
    require_dtype(op, w.dtype, SMALL, "w")
    require_dtype(op, r.dtype, SMALL, "r")
    dirs, hidden = 2 if direction == "bidirectional" else 1, r.shape[1]
    for name, given, shape in (
        ("w", w, (dirs, x.shape[2], 4 * hidden)),
        ("r", r, (dirs, hidden, 4 * hidden)),
        ("b", b, (dirs, 8 * hidden)),
        ("sequence_lens", lens, (x.shape[1],)),
        ("initial_h", h0, (dirs, x.shape[1], hidden)),
        ("initial_c", c0, (dirs, x.shape[1], hidden)),
    ):
        if given is not None and given.shape != shape:
            raise TypeRuleError(f"{op}: {name} must have shape {list(shape)}, got {given}")
    _check(
        op,
        hidden,
        dirs,
        (
            ("w_scale", w_scale, f32),
            ("r_scale", r_scale, f32),
            ("w_zero", w_zero, w.dtype),
            ("r_zero", r_zero, r.dtype),
        ),
    )
    if lens is not None and lens.dtype != dtypes.i32:
        raise TypeRuleError(f"{op}: sequence_lens type must be i32, got {lens.dtype}")
    state = TensorType(f32, (dirs, x.shape[1], hidden))
    return (TensorType(f32, (x.shape[0], dirs, x.shape[1], hidden)), state, state)


def _lstm(
    x: Array,
    w: Array,
    r: Array,
    w_scale: Array,
    r_scale: Array,
    w_zero: Array | None = None,
    r_zero: Array | None = None,
    b: Array | None = None,
    lens: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    x = x.astype(np.float32)
    step, offset = dynamic_range(x)
    q = np.clip(np.rint(x / step) + offset, 0, 255).astype(np.int32) - int(offset)
    hidden = r.shape[1]
    z = np.zeros((len(w), *x.shape[:2], 4 * hidden), np.float32)
    for d in range(len(w)):
        weights = w[d].astype(np.int32) - (0 if w_zero is None else w_zero[d].astype(np.int32))
        z[d] = (q @ weights).astype(np.float32) * (step * w_scale[d])
        if b is not None:
            z[d] += b[d, : 4 * hidden].astype(np.float32) + b[d, 4 * hidden :].astype(np.float32)
    return _steps(z, r, r_scale, r_zero, lens, h0, c0, direction=direction)


def _in_ops(
    x: Any,
    w: Any,
    r: Any,
    w_scale: Any,
    r_scale: Any,
    w_zero: Any = None,
    r_zero: Any = None,
    b: Any = None,
    lens: Any = None,
    h0: Any = None,
    c0: Any = None,
    *,
    direction: str,
) -> Any:
    from rlx import ops
    from rlx.ops.int8 import int8_matmul

    seq, batch, width = x.shape
    dirs, hidden = r.shape[0], r.shape[1]
    q, step, offset = ops.dynamic_quantize_linear(ops.reshape(x, shape=(seq * batch, width)))

    def part(v: Any, d: int) -> Any:
        """Direction d: one number as rank 0, else the rest of the shape."""
        if v is None:
            return None
        if v.array is not None:
            return v.graph.constant(v.array[d])
        one = v if dirs == 1 else ops.slice(v, starts=(d,), stops=(d + 1,), axes=(0,))
        return ops.reshape(one, shape=v.shape[1:])

    parts = []
    for d in range(dirs):
        z = int8_matmul(q, part(w, d), None, offset, part(w_zero, d), step * part(w_scale, d), out=f32)
        if b is not None:
            both = part(b, d)
            halves = [
                ops.slice(both, starts=(i * 4 * hidden,), stops=((i + 1) * 4 * hidden,), axes=(0,)) for i in range(2)
            ]
            z = z + (halves[0] + halves[1])
        parts.append(ops.reshape(z, shape=(1, seq, batch, 4 * hidden)))
    z = parts[0] if dirs == 1 else ops.concat(*parts, axis=0)
    return lstm_int8_steps(z, r, r_scale, r_zero, lens, h0, c0, direction=direction)


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    def call(
        seq: int,
        batch: int,
        inputs: int,
        hidden: int,
        kind: DType,
        *,
        state: bool = False,
        lens: bool = False,
        bias: bool = True,
        zeros: bool = False,
        columns: bool = False,
        direction: str = "forward",
    ) -> Sample:
        d = 2 if direction == "bidirectional" else 1
        x = data(rng, dtype, seq, batch, inputs, low=-1, high=1)
        w, r = full_range(rng, kind, d, inputs, 4 * hidden), full_range(rng, kind, d, hidden, 4 * hidden)
        shape = (d, 4 * hidden) if columns else (d,)
        ws, rs = (rng.uniform(0.002, 0.004, shape).astype(np.float32) for _ in range(2))
        wz, rz = (
            data(rng, kind, *shape, low=0 if kind == i8 else 120, high=5 if kind == i8 else 130)
            if zeros or kind == u8
            else None
            for _ in range(2)
        )
        b = data(rng, dtype, d, 8 * hidden, low=-0.5, high=0.5) if bias else None
        h, c = (data(rng, dtype, d, batch, hidden, low=-1, high=1) if state else None for _ in range(2))
        counts = rng.integers(0, seq + 1, batch).astype(np.int32) if lens else None
        return Sample((x, w, r, ws, rs, wz, rz, b, counts, h, c), {"direction": direction})

    return [
        call(1, 1, 3, 5, i8),
        call(4, 1, 8, 16, i8, state=True),
        call(3, 2, 5, 33, u8, state=True),
        call(3, 3, 7, 20, i8, lens=True, zeros=True, direction="reverse"),
        call(3, 2, 9, 18, i8, columns=True, zeros=True, direction="bidirectional", state=True),
        call(2, 1, 4, 64, u8, bias=False, columns=True),
    ]


def _errors() -> list[ErrorSample]:
    x, w, r, s = (
        np.zeros((2, 1, 3), np.float32),
        np.zeros((1, 3, 16), np.int8),
        np.zeros((1, 4, 16), np.int8),
        np.ones(1, np.float32),
    )
    return [
        ErrorSample((x, w[:, :2], r, s, s), {}, "w must have shape"),
        ErrorSample((x, w.astype(np.float32), r, s, s), {}, "w type"),
        ErrorSample((x, w, r, np.ones(3, np.float32), s), {}, "w_scale must be"),
        ErrorSample((x, w, r, s, s, np.zeros(1, np.uint8)), {}, "w_zero type"),
    ]


dynamic_quantize_lstm = OpDef(
    "dynamic_quantize_lstm",
    ("x", "w", "r", "w_scale", "r_scale", "w_zero?", "r_zero?", "b?", "sequence_lens?", "initial_h?", "initial_c?"),
    _infer,
    _lstm,
    "lstm with 8-bit w [D, I, 4*H] and r [D, H, 4*H] (gates i o f c); x as a whole and the hidden states of "
    "each step are quantised to u8 "
    "over their range; scales and zero points are [D] or [D, 4*H].",
    attrs=(_DIRECTION,),
    dtypes=(f32,),
    traits=frozenset({"exact"}),
    decompose=_in_ops,
    samples=_samples,
    errors=_errors,
    tolerance=TOLERANCE,
)
