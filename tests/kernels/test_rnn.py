"""lstm, gru, rnn against ONNX Runtime (f32) and a NumPy loop (f64)."""

import numpy as np
import onnx_node
import pytest

from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = available_levels()
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
ORDER = {"lstm": [0, 2, 3, 1], "gru": [0, 1, 2], "rnn": [0]}
ACTS = {"Sigmoid": 0, "Tanh": 1, "Relu": 2, "Affine": 3, "LeakyRelu": 4, "ThresholdedRelu": 5,
        "ScaledTanh": 6, "HardSigmoid": 7, "Elu": 8, "Softsign": 9, "Softplus": 10}
DEFAULT = {"lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"], "rnn": ["Tanh"]}
BUFFERS = {"lstm": 3, "gru": 4, "rnn": 2}


class Packed:
    """Weights in panels, as the lowering prepares them once."""

    def __init__(self, kind, w, r, b=None, p=None, linear=0, level=None):
        self.kind, self.level, self.dt = kind, level, "f32" if w.dtype == np.float32 else "f64"
        self.unit = 16 if self.dt == "f32" else 8
        self.dirs, gh, self.inputs = w.shape
        self.gates = GATES[kind]
        self.hidden = gh // self.gates
        self.panels = -(-self.hidden // self.unit)
        self.linear, self.type = linear, w.dtype
        self.w = self.pack(w, self.gates, ORDER[kind])
        self.r = self.pack(r, self.gates, ORDER[kind], apart=int(kind == "gru" and not linear))
        self.p = None if p is None else self.pack(p[:, :, None], 3, [0, 2, 1])
        self.b = self.rbh = None
        if b is not None:
            self.b = np.full((self.dirs, self.panels, self.gates, self.unit), np.nan, self.type)
            self.rbh = np.full((self.dirs, self.panels, self.unit), np.nan, self.type)
            b = np.ascontiguousarray(b)
            flat = b.reshape(-1)
            call_kernel(
                f"rnn_pack_bias.{self.dt}",
                [flat, flat[gh:], self.b, self.rbh if kind == "gru" and linear else None],
                dict(dirs=self.dirs, gates=self.gates, hidden=self.hidden, dir=2 * gh,
                     order=ORDER[kind]),
                extent=self.dirs * self.panels, level=level)

    def pack(self, a, gates, order, apart=0):
        a = np.ascontiguousarray(a)
        out = np.full((self.dirs, self.panels, a.shape[2], gates, self.unit), np.nan, self.type)
        call_kernel(
            f"rnn_pack.{self.dt}", [a, out],
            dict(dirs=self.dirs, gates=gates, hidden=self.hidden, depth=a.shape[2],
                 row=a.shape[2], dir=a.shape[1] * a.shape[2], apart=apart, order=order),
            extent=self.dirs * self.panels, level=self.level)
        return out

    def run(self, x, lens=None, h0=None, c0=None, reverse=0, flag=0, clip=0.0, acts=None,
            alpha=None, beta=None, block=16, batch_major=False, repeat=1, phased=False, **how):
        seq, batch = (x.shape[1], x.shape[0]) if batch_major else x.shape[:2]
        ts, bs = (x.shape[2], seq * x.shape[2]) if batch_major else (batch * x.shape[2], x.shape[2])
        d, h = self.dirs, self.hidden
        z = np.full((d, seq, batch, self.panels, self.gates, self.unit), np.nan, self.type)
        y = np.full((seq, d, batch, h), np.nan, self.type)
        yh, yc = np.full((2, d, batch, h), np.nan, self.type)
        ws = np.full((d * batch, BUFFERS[self.kind], self.panels * self.unit), np.nan, self.type)
        acts = acts or DEFAULT[self.kind] * d
        t1 = call_kernel(
            f"rnn_project.{self.dt}", [x, self.w, self.b, z],
            dict(dirs=d, seq=seq, batch=batch, inputs=self.inputs, hidden=h, gates=self.gates,
                 x_t=ts, x_b=bs),
            extent=d * -(-seq * batch // 96) * self.panels, level=self.level, repeat=repeat, **how)
        args = {"lstm": [z, self.r, self.p, lens, h0, c0, y, yh, yc, ws],
                "gru": [z, self.r, self.rbh if self.linear else None, lens, h0, y, yh, ws],
                "rnn": [z, self.r, lens, h0, y, yh, ws]}[self.kind]
        phases = (2 if self.kind == "gru" and not self.linear else 1) * seq + 2
        t2 = call_kernel(
            f"{self.kind}.{self.dt}", args,
            dict(dirs=d, seq=seq, batch=batch, hidden=h, reverse=reverse, block=block,
                 flag=flag or self.linear, y_t=d * batch * h, y_d=batch * h, y_b=h,
                 h_d=batch * h, h_b=h, s_d=batch * h, s_b=h, clip=clip,
                 acts=[ACTS[a] for a in acts], alpha=alpha or [0.0] * len(acts),
                 beta=beta or [0.0] * len(acts)),
            extent=d * -(-batch // block) * (self.panels * phases if phased else 1),
            phases=phases if phased else 1, level=self.level, repeat=repeat, **how)
        self.seconds = (t1, t2)
        return (y, yh, yc) if self.kind == "lstm" else (y, yh)


def weights(rng, kind, d, i, h, dtype=np.float32):
    g = GATES[kind]
    w, r = (rng.normal(0, 1 / np.sqrt(n + 1), (d, g * h, n)) for n in (i, h))
    b, p = rng.normal(0, 0.5, (d, 2 * g * h)), rng.normal(0, 0.5, (d, 3 * h))
    return [a.astype(dtype) for a in (w, r, b, p)]


def ort(kind, x, w, r, b, lens, h0, c0, p, hidden, **attrs):
    ins = [x, w, r, b, lens, h0, c0, p] if kind == "lstm" else [x, w, r, b, lens, h0]
    return onnx_node.session(kind.upper(), ins, 3 if kind == "lstm" else 2, hidden_size=hidden,
                             opset=14, **attrs)()


CASES = [
    # seq batch inputs hidden dirs bias state lens peepholes extra
    (1, 1, 1, 1, "forward", True, False, False, False, {}),
    (7, 1, 128, 128, "forward", True, True, False, False, {}),
    (5, 3, 17, 15, "reverse", True, True, True, False, {}),
    (4, 9, 5, 33, "bidirectional", True, True, True, True, {}),
    (3, 37, 4, 16, "bidirectional", False, False, False, False, {}),
    (3, 2, 8, 17, "forward", True, True, False, False, {"clip": 0.6}),
    (2, 4, 8, 20, "forward", True, True, False, False, {"flag": 1}),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_against_onnxruntime(kind, case, level):
    seq, batch, i, h, direction, bias, state, lengths, peep, extra = case
    rng = np.random.default_rng(seq * 100 + h)
    d = 2 if direction == "bidirectional" else 1
    w, r, b, p = weights(rng, kind, d, i, h)
    x = rng.normal(0, 1, (seq, batch, i)).astype(np.float32)
    h0, c0 = rng.normal(0, 1, (2, d, batch, h)).astype(np.float32) if state else (None, None)
    lens = rng.integers(1, seq + 1, batch).astype(np.int32) if lengths else None
    b = b if bias else None
    p = p if peep and kind == "lstm" else None
    attrs = {"direction": direction}
    if "clip" in extra:
        attrs["clip"] = extra["clip"]
    flag = extra.get("flag", 0)
    if kind == "rnn":
        flag = 0
    if flag:
        attrs["input_forget" if kind == "lstm" else "linear_before_reset"] = 1
    want = ort(kind, x, w, r, b, lens, h0, c0, p, h, **attrs)
    packed = Packed(kind, w, r, b, p, linear=flag if kind == "gru" else 0, level=level)
    got = packed.run(x, lens, h0, c0, {"forward": 0, "reverse": 1, "bidirectional": 2}[direction],
                     flag=flag, clip=extra.get("clip", 0.0))
    for g, e in zip(got, want, strict=True):
        np.testing.assert_allclose(g, e, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "alpha", "beta"), [
    ("Relu", None, None), ("Affine", 0.7, 0.1), ("LeakyRelu", 0.1, None),
    ("ThresholdedRelu", 0.2, None), ("ScaledTanh", 1.2, 0.8), ("HardSigmoid", 0.3, 0.4),
    ("Elu", 1.3, None), ("Softsign", None, None), ("Softplus", None, None)])
@pytest.mark.parametrize("level", LEVELS)
def test_activations(name, alpha, beta, level):
    rng = np.random.default_rng(3)
    w, r, b, _ = weights(rng, "rnn", 1, 6, 19)
    r *= 0.3
    x = rng.normal(0, 1, (3, 2, 6)).astype(np.float32)
    attrs = {"activations": [name]}
    if alpha is not None:
        attrs["activation_alpha"] = [alpha]
    if beta is not None:
        attrs["activation_beta"] = [beta]
    want = ort("rnn", x, w, r, b, None, None, None, None, 19, **attrs)
    got = Packed("rnn", w, r, b, level=level).run(
        x, acts=[name], alpha=[float(alpha or 0)], beta=[float(beta or 0)])
    np.testing.assert_allclose(got[0], want[0], rtol=2e-5, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_lstm(x, w, r, b, h, c):
    """One direction, ONNX gate order i o f c."""
    n = h.shape[-1]
    ys = []
    for xt in x:
        z = xt @ w.T + h @ r.T + b[: 4 * n] + b[4 * n :]
        i, o, f, g = np.split(z, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        ys.append(h)
    return np.stack(ys), h, c


def numpy_gru(x, w, r, b, h, linear):
    n = h.shape[-1]
    wb, rb = b[: 3 * n], b[3 * n :]
    ys = []
    for xt in x:
        zx, rx, hx = np.split(xt @ w.T + wb, 3, -1)
        wz, wr, wh = np.split(r, 3, 0)
        z = sigmoid(zx + h @ wz.T + rb[:n])
        s = sigmoid(rx + h @ wr.T + rb[n : 2 * n])
        g = np.tanh(hx + (s * (h @ wh.T + rb[2 * n :]) if linear else (s * h) @ wh.T + rb[2 * n :]))
        h = (1 - z) * g + z * h
        ys.append(h)
    return np.stack(ys), h


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 7), (1, 16), (5, 9), (4, 8), (1, 0), (0, 8)])
def test_f64(batch, hidden, level):
    rng = np.random.default_rng(hidden)
    x = rng.normal(0, 1, (4, batch, 6))
    h0, c0 = rng.normal(0, 1, (2, 1, batch, hidden))
    w, r, b, _ = weights(rng, "lstm", 1, 6, hidden, np.float64)
    y, yh, yc = Packed("lstm", w, r, b, level=level).run(x, None, h0, c0)
    want = numpy_lstm(x, w[0], r[0], b[0], h0[0], c0[0])
    for g, e in zip((y[:, 0], yh[0], yc[0]), want, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-14)
    w, r, b, _ = weights(rng, "gru", 1, 6, hidden, np.float64)
    for linear in (0, 1):
        y, yh = Packed("gru", w, r, b, linear=linear, level=level).run(x, None, h0)
        want = numpy_gru(x, w[0], r[0], b[0], h0[0], linear)
        np.testing.assert_allclose(y[:, 0], want[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kind", "linear"), [("lstm", 0), ("gru", 0), ("gru", 1), ("rnn", 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_phases_do_not_change_bits(kind, linear, level, dtype):
    rng = np.random.default_rng(1)
    w, r, b, _ = weights(rng, kind, 2, 5, 70, dtype)
    x = rng.normal(0, 1, (6, 5, 5)).astype(dtype)
    h0, c0 = rng.normal(0, 1, (2, 2, 5, 70)).astype(dtype)
    lens = np.array([6, 1, 0, 3, 5], np.int32)
    packed = Packed(kind, w, r, b, level=level, linear=linear)
    whole = packed.run(x, lens, h0, c0, reverse=2, block=3)
    for threads, grain in ((1, 1), (2, 1), (2, 3), (3, 2)):
        other = packed.run(x, lens, h0, c0, reverse=2, block=3, phased=True, threads=threads, grain=grain)
        for a, b in zip(whole, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_cut_block_and_batch_do_not_change_bits(kind, level):
    rng = np.random.default_rng(9)
    w, r, b, _ = weights(rng, kind, 2, 12, 40)
    x = rng.normal(0, 1, (5, 11, 12)).astype(np.float32)
    packed = Packed(kind, w, r, b, linear=int(kind == "gru"), level=level)
    base = packed.run(x, reverse=2, block=16)
    for block, threads in ((1, 1), (3, 2), (5, 2)):
        other = packed.run(x, reverse=2, block=block, threads=threads)
        for g, e in zip(other, base, strict=True):
            assert g.tobytes() == e.tobytes()
    one = packed.run(np.ascontiguousarray(x[:, 4:5]), reverse=2)
    assert one[0].tobytes() == np.ascontiguousarray(base[0][:, :, 4:5]).tobytes()
    swapped = packed.run(np.ascontiguousarray(x.swapaxes(0, 1)), reverse=2, batch_major=True)
    assert swapped[0].tobytes() == base[0].tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_lengths(level):
    rng = np.random.default_rng(4)
    w, r, b, _ = weights(rng, "lstm", 1, 3, 5)
    x = rng.normal(0, 1, (4, 2, 3)).astype(np.float32)
    h0, c0 = rng.normal(0, 1, (2, 1, 2, 5)).astype(np.float32)
    packed = Packed("lstm", w, r, b, level=level)
    y, yh, yc = packed.run(x, np.array([0, 2], np.int32), h0, c0, reverse=1)
    assert not y[:, 0, 0].any() and not y[2:, 0, 1].any()
    np.testing.assert_array_equal(yh[:, 0], h0[:, 0])
    np.testing.assert_array_equal(yc[:, 0], c0[:, 0])
    with pytest.raises(KernelFailure, match="status 1, value 5, bound 4, position 1"):
        packed.run(x, np.array([1, 5], np.int32), h0, c0)


@pytest.mark.parametrize("level", LEVELS)
def test_nan_stays_in_its_row(level):
    rng = np.random.default_rng(5)
    w, r, b, _ = weights(rng, "gru", 1, 3, 18)
    x = rng.normal(0, 1, (3, 6, 3)).astype(np.float32)
    x[1, 2, 0] = np.nan
    y, _ = Packed("gru", w, r, b, level=level).run(x)
    assert np.isnan(y[1:, 0, 2]).all()
    assert not np.isnan(np.delete(y, 2, 2)).any() and not np.isnan(y[0]).any()


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_no_byte_beyond_the_operands(kind, guard_arguments, level):
    rng = np.random.default_rng(6)
    w, r, b, _ = weights(rng, kind, 2, 7, 19)
    x = rng.normal(0, 1, (3, 5, 7)).astype(np.float32)
    h0, c0 = rng.normal(0, 1, (2, 2, 5, 19)).astype(np.float32)
    want = ort(kind, x, w, r, b, None, h0, c0, None, 19, direction="bidirectional")
    got = Packed(kind, w, r, b, level=level).run(x, None, h0, c0, reverse=2)
    np.testing.assert_allclose(got[0], want[0], rtol=2e-5, atol=1e-5)
