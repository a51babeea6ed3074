"""Every block against its NumPy definition: both types, fused and primitive, with and without passes."""

import hir_numpy as want
import numpy as np
import pytest

import rlx
from rlx import hir
from rlx.ir.text import large_constants
from rlx.ops.parse import parse_graph

TOLERANCE = {"f16": {"rtol": 3e-2, "atol": 3e-2},
             "f32": {"rtol": 3e-5, "atol": 3e-5}, "f64": {"rtol": 1e-11, "atol": 1e-11}}
RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 5, 8))
CONTEXT = RNG.standard_normal((2, 7, 8))
IMAGE = RNG.standard_normal((2, 4, 9, 7))
MASK = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], bool)  # the second item sees nothing
WIDE_MASK = RNG.random((2, 1, 5, 5)) < 0.6
BIAS = RNG.standard_normal((4, 5, 5))
POSITIONS = np.array([[3, 4, 5, 9, 2], [0, 1, 2, 3, 4]])
STATE = RNG.standard_normal((4, 2, 6))
ORDER = np.arange(5)[None]


def bare(x):
    return x


# name: (inputs, block of (builder, values), definition of (parameters, arrays))
CASES = {
    "linear": ([X], lambda b, x: hir.linear(b, x, 3), lambda p, x: want.linear(p, x)),
    "linear-relu": ([X], lambda b, x: hir.linear(b, x, 3, bias=False, activation="relu", name="fc"),
                    lambda p, x: want.relu(want.linear(want.sub(p, "fc"), x))),
    "linear-callable": ([X], lambda b, x: hir.linear(b, x, 3, activation=lambda v: v * v),
                        lambda p, x: want.linear(p, x) ** 2),
    "mlp": ([X], lambda b, x: hir.mlp(b, x, (16, 3), activation="gelu", last_activation="tanh"),
            lambda p, x: np.tanh(want.linear(want.sub(p, "1"), want.gelu(want.linear(want.sub(p, "0"), x))))),
    "layer_norm": ([X * 3 + 1], lambda b, x: hir.layer_norm(b, x), lambda p, x: want.layer_norm(p, x)),
    "layer_norm-no-bias": ([X], lambda b, x: hir.layer_norm(b, x, bias=False, eps=0.1),
                           lambda p, x: want.layer_norm(p, x, 0.1)),
    "rms_norm": ([X], lambda b, x: hir.rms_norm(b, x), lambda p, x: want.rms_norm(p, x)),
    "swiglu": ([X], lambda b, x: hir.swiglu(b, x, 12), lambda p, x: want.gated(p, x, want.silu)),
    "geglu": ([X], lambda b, x: hir.geglu(b, x, 12, bias=True), lambda p, x: want.gated(p, x, want.gelu)),
    "residual": ([X], lambda b, x: hir.residual(b, x, lambda v: hir.linear(b, v, 8), name="r"),
                 lambda p, x: x + want.linear(want.sub(p, "r"), x)),
    "attention": ([X], lambda b, x: hir.attention(b, x, 4), lambda p, x: want.attention(p, x, 4)),
    "attention-causal": ([X], lambda b, x: hir.attention(b, x, 2, causal=True),
                         lambda p, x: want.attention(p, x, 2, causal=True)),
    "attention-packed": ([X], lambda b, x: hir.attention(b, x, 4, packed=True),
                         lambda p, x: want.attention(p, x, 4)),
    "attention-packed-gqa": ([X], lambda b, x: hir.attention(b, x, 4, num_kv_heads=2, packed=True, bias=False),
                             lambda p, x: want.attention(p, x, 4, 2)),
    "attention-gqa-rope": (
        [X], lambda b, x: hir.attention(b, x, 4, num_kv_heads=2, head_dim=6, causal=True, rope=hir.Rope()),
        lambda p, x: want.attention(p, x, 4, 2, causal=True, positions=ORDER)),
    "attention-rope-at": (
        [X], lambda b, x: hir.attention(b, x, 2, rope=hir.Rope(interleaved=True), positions=POSITIONS),
        lambda p, x: want.attention(p, x, 2, positions=POSITIONS, interleaved=True)),
    "attention-mask": ([X, MASK], lambda b, x, m: hir.attention(b, x, 4, mask=m),
                       lambda p, x, m: want.attention(p, x, 4, mask=m)),
    "attention-mask-causal": ([X, WIDE_MASK], lambda b, x, m: hir.attention(b, x, 4, mask=m, causal=True),
                              lambda p, x, m: want.attention(p, x, 4, mask=m, causal=True)),
    "attention-bias": ([X, BIAS], lambda b, x, m: hir.attention(b, x, 4, mask=m),
                       lambda p, x, m: want.attention(p, x, 4, mask=m)),
    "attention-bias-causal": ([X, BIAS], lambda b, x, m: hir.attention(b, x, 4, mask=m, causal=True),
                              lambda p, x, m: want.attention(p, x, 4, mask=m, causal=True)),
    "cross": ([X, CONTEXT], lambda b, x, c: hir.attention(b, x, 4, context=c, causal=True),
              lambda p, x, c: want.attention(p, x, 4, context=c, causal=True)),
    "cross-short": ([CONTEXT, X], lambda b, x, c: hir.attention(b, x, 4, context=c, causal=True),
                    lambda p, x, c: want.attention(p, x, 4, context=c, causal=True)),
    "cross-packed": ([X, CONTEXT], lambda b, x, c: hir.attention(b, x, 4, context=c, packed=True),
                     lambda p, x, c: want.attention(p, x, 4, context=c)),
    "encoder": ([X, MASK], lambda b, x, m: hir.encoder_layer(b, x, 2, 16, mask=m),
                lambda p, x, m: want.encoder_layer(p, x, 2, m)),
    "encoder-pre": ([X], lambda b, x: hir.encoder_layer(b, x, 2, 16, norm_first=True, activation="relu", causal=True),
                    lambda p, x: want.encoder_layer(p, x, 2, causal=True, norm_first=True, act=want.relu)),
    "decoder": ([X], lambda b, x: hir.decoder_layer(b, x, 4, 16, num_kv_heads=2),
                lambda p, x: want.decoder_layer(p, x, 4, 2, ORDER)),
    "lstm": ([X], lambda b, x: hir.lstm(b, x, 6), lambda p, x: want.recurrent(p, "lstm", x, 6)),
    "lstm-deep": ([X, STATE, STATE[::-1].copy()],
                  lambda b, x, h, c: hir.lstm(b, x, 6, num_layers=2, bidirectional=True, initial_h=h, initial_c=c),
                  lambda p, x, h, c: want.recurrent(p, "lstm", x, 6, 2, True, (h, c))),
    "lstm-no-bias": ([X], lambda b, x: hir.lstm(b, x, 6, bias=False), lambda p, x: want.recurrent(p, "lstm", x, 6)),
    "gru": ([X], lambda b, x: hir.gru(b, x, 6), lambda p, x: want.recurrent(p, "gru", x, 6)),
    "gru-deep": ([X, STATE], lambda b, x, h: hir.gru(b, x, 6, num_layers=2, bidirectional=True, initial_h=h),
                 lambda p, x, h: want.recurrent(p, "gru", x, 6, 2, True, (h,))),
    "conv": ([IMAGE], lambda b, x: hir.conv_block(b, x, 6, 3, strides=2, pads=1),
             lambda p, x: want.conv_block(p, x, 2, 1, 1)),
    "conv-groups": ([IMAGE], lambda b, x: hir.conv_block(b, x, 6, (3, 3), groups=2, bias=True, activation="silu"),
                    lambda p, x: want.conv_block(p, x, 1, 0, 2, want.silu)),
    "conv-bare": ([IMAGE], lambda b, x: hir.conv_block(b, x, 3, 1, norm=False, activation=None),
                  lambda p, x: want.conv_block(p, x, 1, 0, 1, bare)),
}


def torch_gates(array, gates):
    """Gates i o f c as i f g o, z r h as r z n."""
    if not gates:
        return array
    parts = np.split(array[0], len(gates))
    return np.concatenate([parts[i] for i in ((0, 2, 3, 1) if len(gates) == 4 else (1, 0, 2))])


def build(case, dtype, fused, symbolic=False):
    arrays, block, definition = CASES[case]
    kind = getattr(rlx, dtype)
    given = [a if a.dtype == bool else a.astype(kind.numpy) for a in arrays]
    g = rlx.Graph(case)
    b = hir.Builder(g, fused=fused)
    names = {2: "batch", 5: "length", 7: "other"} if symbolic else {}
    values = []
    for i, a in enumerate(given):
        state = case.endswith("deep") and i  # [layers * directions, batch, hidden]
        shape = [names.get(n, n) if (d == 1 if state else d != 1 or n != 4) else n for d, n in enumerate(a.shape)]
        if a.ndim == 4 and a.dtype != bool:  # an image
            shape[1:] = a.shape[1:]
        values.append(g.input(f"x{i}", shape, "bool" if a.dtype == bool else kind))
    y = block(b, *values)
    for i, v in enumerate(y if isinstance(y, tuple) else (y,)):
        g.output(f"y{i}", v)
    params = b.random_params(3)
    rng = np.random.default_rng(5)
    for name, p in params.items():  # ones and zeros would hide a mistake
        if b.params[name].init in ("ones", "zeros"):
            params[name] = (rng.uniform(0.5, 1.5, p.shape)).astype(p.dtype)
    wide = {k: torch_gates(v, b.params[k].gates).astype(np.float64) for k, v in params.items()}
    stored = {k: v.T if b.params[k].is_linear else torch_gates(v, b.params[k].gates) for k, v in params.items()}
    assert all(np.array_equal(v, params[k]) for k, v in b.load_params(stored, layout="out_in").items())
    expected = definition(wide, *[a if a.dtype == bool else a.astype(np.float64) for a in given])
    feeds = {f"x{i}": a for i, a in enumerate(given)}
    return g, params, feeds, expected if isinstance(expected, list) else [expected]


def check(graph, params, feeds, expected, dtype, **options):
    exe = rlx.compile(graph, options=rlx.CompileOptions(**options)) if options else rlx.compile(graph)
    if params:
        exe.set_params(params)
    out = exe.run(feeds)
    for i, e in enumerate(expected):
        assert out[f"y{i}"].dtype == graph.outputs[f"y{i}"].dtype.numpy
        np.testing.assert_allclose(out[f"y{i}"], e, **TOLERANCE[dtype], err_msg=f"y{i}")
    return exe


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "primitive"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("case", CASES)
def test_block_is_its_definition(case: str, dtype: str, fused: bool) -> None:
    check(*build(case, dtype, fused), dtype)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "primitive"])
@pytest.mark.parametrize("case", [c for c in CASES if "rope-at" not in c])
def test_block_with_symbolic_sizes(case: str, fused: bool) -> None:
    graph, params, feeds, expected = build(case, "f64", fused, symbolic=True)
    assert not graph.inputs[0].type.is_static
    check(graph, params, feeds, expected, "f64")


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "primitive"])
@pytest.mark.parametrize("case", ["attention-bias-causal", "swiglu", "encoder", "decoder", "gru-deep", "conv"])
def test_passes_threads_and_poison_change_nothing(case: str, fused: bool) -> None:
    graph, params, feeds, expected = build(case, "f32", fused)
    check(graph, params, feeds, expected, "f32", optimize=False)
    outs = []
    for threads in (1, 2):
        exe = check(graph, params, feeds, expected, "f32", threads=threads, check=True, poison=True)
        outs += [exe.run(feeds)["y0"].copy() for _ in range(2)]
    assert all(np.array_equal(outs[0], y) for y in outs)


@pytest.mark.parametrize("case", ["lstm", "gru"])
def test_matrices_of_recurrent_layers_are_packed_once(case: str) -> None:
    graph, params, feeds, expected = build(case, "f32", fused=True)
    kernels = str(check(graph, params, feeds, expected, "f32").profile(feeds))
    assert f"{case}.f32" in kernels and "rnn_pack.f32" not in kernels


@pytest.mark.parametrize("case", ["attention-gqa-rope", "encoder", "swiglu", "conv-groups"])
def test_half_types_build_and_agree(case: str) -> None:
    for fused in (True, False):
        graph, params, feeds, expected = build(case, "f16", fused)
        check(graph, params, feeds, expected, "f16")


@pytest.mark.parametrize("case", ["attention-mask-causal", "encoder", "decoder", "lstm-deep", "conv"])
def test_text_form_round_trip(case: str) -> None:
    graph, params, feeds, expected = build(case, "f64", fused=False)
    check(parse_graph(str(graph), large_constants(graph)), params, feeds, expected, "f64")


def test_embedding_reads_rows() -> None:
    g = rlx.Graph("emb")
    b = hir.Builder(g, dtype=rlx.f64)
    ids = np.array([[3, 0, -1], [2, 2, 1]])
    g.output("y", hir.embedding(b, g.input("ids", ("n", 3), rlx.i64), 5, 4, name="tok"))
    exe = rlx.compile(g)
    params = b.random_params()
    exe.set_params(params)
    assert np.array_equal(exe.run({"ids": ids})["y"], params["tok.weight"][ids])
