"""dynamic_quantize_lstm against ONNX Runtime and its definition, at every level and on any cut."""

import numpy as np
import onnx_node
import pytest

from rlx import ops
from rlx.lower import gemm_int8
from rlx.lower.context import per_thread, workspaces
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = available_levels()
ORDER = [0, 2, 3, 1]
ATTRS = {"activations": None, "activation_alpha": None, "activation_beta": None, "clip": 0.0,
         "input_forget": False}
DIRECTIONS = ["forward", "reverse", "bidirectional"]


def make(seq, batch, inputs, hidden, direction="forward", dtype=np.int8, columns=False,
         state=True, lens=None, seed=0):
    rng = np.random.default_rng(seed)
    d = 2 if direction == "bidirectional" else 1
    info = np.iinfo(dtype)
    c = {"x": rng.normal(0, 1, (seq, batch, inputs)).astype(np.float32), "direction": direction}
    for name, n in (("w", inputs), ("r", hidden)):
        c[name] = rng.integers(info.min, info.max, (d, n, 4 * hidden), endpoint=True).astype(dtype)
        shape = (d, 4 * hidden) if columns else (d,)
        c[name + "_scale"] = (rng.uniform(0.5, 1, shape) / (40 * np.sqrt(n + 1))).astype(np.float32)
        c[name + "_zero"] = np.full(shape, 120 if dtype == np.uint8 else 0, dtype)
    c["b"] = rng.uniform(-0.5, 0.5, (d, 8 * hidden)).astype(np.float32)
    c["lens"] = None if lens is None else np.array(lens, np.int32)
    c["h"], c["c"] = (rng.uniform(-1, 1, (d, batch, hidden)).astype(np.float32) if state else None
                      for _ in range(2))
    return c


def definition(c):
    return ops.TABLE["dynamic_quantize_lstm"].reference(
        c["x"], c["w"], c["r"], c["w_scale"], c["r_scale"], c["w_zero"], c["r_zero"], c["b"],
        c["lens"], c["h"], c["c"], None, **{**ATTRS, "direction": c["direction"]})


def kernel(c, level, threads=1, grain=1):
    seq, batch, inputs = c["x"].shape
    dirs, hidden = c["r"].shape[:2]
    panels, group = -(-hidden // 16), gemm_int8.panel(level)[2]
    how = {"level": level, "threads": threads, "grain": grain}

    def empty(*shape, dtype=np.float32):
        return np.full(shape, np.nan if dtype == np.float32 else 0x5A, dtype)

    def weights(w):
        depth = w.shape[1]
        out = empty(dirs, panels * 64 * (-(-depth // group) * group + 4), dtype=np.uint8)
        call_kernel("rnn_pack.int8", [w, out],
                    dict(dirs=dirs, hidden=hidden, depth=depth, signed=int(w.dtype == np.int8),
                         order=ORDER), extent=dirs * panels, **how)
        return out

    def columns(a):
        if a.dtype == np.int8 and not a.any():
            return None
        out = empty(dirs, panels, 4, 16, dtype=np.float32 if a.dtype == np.float32 else np.int32)
        name = {"float32": "f32", "int8": "i8", "uint8": "u8"}[a.dtype.name]
        call_kernel(f"rnn_columns.{name}", [a, out],
                    dict(dirs=dirs, hidden=hidden, dir=a.size // dirs, column=int(a.ndim > 1),
                         order=ORDER), extent=dirs * panels, **how)
        return out

    bias = empty(dirs, panels, 4, 16)
    flat = np.ascontiguousarray(c["b"]).reshape(-1)
    call_kernel("rnn_pack_bias.f32", [flat, flat[4 * hidden :], bias, None],
                dict(dirs=dirs, gates=4, hidden=hidden, dir=8 * hidden, order=ORDER),
                extent=dirs * panels, **how)
    x, lens, h0, c0 = (c[k] for k in ("x", "lens", "h", "c"))
    codes = empty(seq * batch, gemm_int8.code_bytes(inputs, level), dtype=np.uint8)
    params, z = empty(2), empty(dirs, seq, batch, panels, 4, 16)
    call_kernel("rnn_quantize.int8", [x, lens, codes, params],
                dict(seq=seq, batch=batch, inputs=inputs), extent=1, **how)
    call_kernel("rnn_project.int8",
                [codes, params, weights(c["w"]), columns(c["w_scale"]), columns(c["w_zero"]), z],
                dict(dirs=dirs, seq=seq, batch=batch, inputs=inputs, hidden=hidden),
                extent=dirs * -(-seq * batch // 96) * panels, **how)
    y, yh, yc = empty(seq, dirs, batch, hidden), *(empty(dirs, batch, hidden) for _ in range(2))
    ws = empty(dirs * batch, 3, panels * 16)
    stride = per_thread(batch * gemm_int8.code_bytes(hidden, level))
    state = empty(workspaces(threads), stride, dtype=np.uint8)
    call_kernel("dynamic_quantize_lstm.f32",
                [z, weights(c["r"]), columns(c["r_scale"]), columns(c["r_zero"]), bias, None, lens,
                 h0, c0, y, yh, yc, ws, state],
                dict(dirs=dirs, seq=seq, batch=batch, hidden=hidden, block=max(1, batch), flag=0,
                     reverse=DIRECTIONS.index(c["direction"]), y_t=dirs * batch * hidden,
                     y_d=batch * hidden, y_b=hidden, h_d=batch * hidden, h_b=hidden,
                     s_d=batch * hidden, s_b=hidden, clip=0.0, acts=[0, 1, 1] * dirs,
                     alpha=[0.0] * 3 * dirs, beta=[0.0] * 3 * dirs, stride=stride),
                extent=(seq + 2) * dirs * panels if batch else 0, phases=seq + 2, **how)
    return y, yh, yc


CASES = [
    dict(seq=1, batch=1, inputs=1, hidden=1),
    dict(seq=6, batch=1, inputs=40, hidden=96),
    dict(seq=5, batch=3, inputs=17, hidden=15, direction="reverse", lens=[2, 5, 1]),
    dict(seq=4, batch=9, inputs=5, hidden=33, direction="bidirectional", columns=True),
    dict(seq=3, batch=53, inputs=4, hidden=16, dtype=np.uint8),
    dict(seq=4, batch=2, inputs=7, hidden=20, direction="bidirectional", dtype=np.uint8,
         columns=True, lens=[3, 4]),
    dict(seq=4, batch=3, inputs=6, hidden=17, state=False, lens=[0, 3, 2]),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_definition(case, level):
    c = make(**case)
    for got, want in zip(kernel(c, level), definition(c), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_definition_is_that_of_onnxruntime(case):
    """Signed weights small enough for instructions that saturate, which ONNX Runtime may use."""
    c = make(**case)
    if case.get("dtype", np.int8) == np.int8:
        c["w"], c["r"] = (a.clip(-63, 63) for a in (c["w"], c["r"]))

    run = onnx_node.session(
        "DynamicQuantizeLSTM",
        [c["x"], c["w"], c["r"], c["b"], c["lens"], c["h"], c["c"], None,
         *(c[k] for k in ("w_scale", "w_zero", "r_scale", "r_zero"))],
        3, domain="com.microsoft", opset=1, hidden_size=c["r"].shape[1], direction=c["direction"])
    for got, want in zip(run(), definition(c), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_any_cut_gives_the_same_bits(level):
    c = make(4, 9, 11, 37, "bidirectional", columns=True)
    whole = kernel(c, level, grain=1000)
    for threads, grain in ((2, 1), (2, 7), (1, 3)):
        for got, want in zip(kernel(c, level, threads, grain), whole, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-42])
def test_odd_values_stay_in_bounds(level, value):
    c = make(3, 2, 5, 7)
    c["x"][1, 0, 3] = value
    y = kernel(c, level)[0]
    assert y.shape == (3, 1, 2, 7)
    if value == 1e-42:
        np.testing.assert_allclose(y, definition(c)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_no_byte_beyond_the_operands(guard_arguments, level):
    for case in CASES[1:4]:
        c = make(**case)
        for got, want in zip(kernel(c, level), definition(c), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_length_out_of_range():
    with pytest.raises(KernelFailure, match="status 1, value 9, bound 4"):
        kernel(make(4, 2, 3, 5, lens=[9, 1]), LEVELS[-1])
