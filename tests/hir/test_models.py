"""Whole models: BERT-like encoder, Llama-like decoder, custom ops; the passes find what primitives spell out."""

import hir_numpy as want
import numpy as np
import pytest

import rlx
from rlx import hir, ops


def run(graph, params, feeds, **options):
    exe = rlx.compile(graph, options=rlx.CompileOptions(**options))
    exe.set_params(params)
    return exe, exe.run(feeds)["y"]


def encoder(fused, dtype):
    g = rlx.Graph("bert")
    b = hir.Builder(g, "bert", fused=fused, dtype=dtype)
    ids = g.input("ids", ("batch", "length"), rlx.i64)
    mask = g.input("mask", ("batch", "length"), "bool")
    x = hir.layer_norm(b, hir.embedding(b, ids, 20, 16, name="tok"), name="norm")
    for i in range(2):
        x = hir.encoder_layer(b, x, 4, 32, mask=mask, name=f"layer{i}")
    g.output("y", x)
    return g, b


def encoder_in_numpy(p, ids, mask):
    p = want.sub(p, "bert")
    x = want.layer_norm(want.sub(p, "norm"), p["tok.weight"][ids])
    for i in range(2):
        x = want.encoder_layer(want.sub(p, f"layer{i}"), x, 4, mask)
    return x


def decoder(fused, dtype):
    g = rlx.Graph("llama")
    b = hir.Builder(g, "model", fused=fused, dtype=dtype)
    x = hir.embedding(b, g.input("ids", ("batch", "length"), rlx.i64), 20, 16, name="embed_tokens")
    for i in range(2):
        x = hir.decoder_layer(b, x, 4, 32, num_kv_heads=2, rope=hir.Rope(max_positions=32), name=f"layers.{i}")
    x = hir.rms_norm(b, x, name="norm")
    g.output("y", x @ ops.transpose(b["model.embed_tokens.weight"], perm=(1, 0)))
    return g, b


def decoder_in_numpy(p, ids):
    p = want.sub(p, "model")
    x = p["embed_tokens.weight"][ids]
    for i in range(2):
        x = want.decoder_layer(want.sub(p, f"layers.{i}"), x, 4, 2, np.arange(ids.shape[1])[None])
    return want.rms_norm(want.sub(p, "norm"), x) @ p["embed_tokens.weight"].T


@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64], ids=str)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "primitive"])
def test_bert_like_encoder(fused: bool, dtype: rlx.DType) -> None:
    g, b = encoder(fused, dtype)
    params = b.random_params()
    wide = {n: a.astype(np.float64) for n, a in params.items()}
    rng = np.random.default_rng(0)
    tolerance = 5e-5 if dtype == rlx.f32 else 1e-11
    exe = rlx.compile(g)
    exe.set_params(params)
    for batch, length in ((3, 7), (1, 2), (3, 7)):
        ids, mask = rng.integers(0, 20, (batch, length)), rng.random((batch, length)) < 0.7
        y = exe.run({"ids": ids, "mask": mask})["y"]
        np.testing.assert_allclose(y, encoder_in_numpy(wide, ids, mask), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64], ids=str)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "primitive"])
def test_llama_like_decoder(fused: bool, dtype: rlx.DType) -> None:
    g, b = decoder(fused, dtype)
    assert "model.layers.1.self_attn.k_proj.weight" in b.params
    params = b.random_params()
    wide = {n: a.astype(np.float64) for n, a in params.items()}
    tolerance = 5e-5 if dtype == rlx.f32 else 1e-11
    exe = rlx.compile(g)
    exe.set_params(params)
    for shape in ((2, 6), (1, 1), (2, 6)):
        ids = np.random.default_rng(0).integers(0, 20, shape)
        np.testing.assert_allclose(exe.run({"ids": ids})["y"], decoder_in_numpy(wide, ids), rtol=tolerance,
                                   atol=tolerance)


def test_tables_of_rope_are_shared_by_layers() -> None:
    g, _ = decoder(True, rlx.f32)
    assert sum(n.op.name == "constant" and n.outputs[0].shape == (32, 2) for n in g.nodes) == 2


def test_a_sequence_beyond_the_table_is_an_error_of_the_run() -> None:
    for fused in (True, False):
        g, b = decoder(fused, rlx.f32)
        exe = rlx.compile(g)
        exe.set_params(b.random_params())
        with pytest.raises(rlx.RlxError):
            exe.run({"ids": np.zeros((1, 33), np.int64)})


def names(exe) -> set[str]:
    """Ops that the executable runs."""
    return {node.op.name for node in exe._any_variant().compiled.graph.nodes}


@pytest.mark.parametrize(
    ("build", "found", "gone"),
    [
        (lambda b, x: hir.attention(b, x, 2, causal=True), {"fused_attention", "fused_matmul"}, {"softmax", "where"}),
        (lambda b, x: hir.attention(b, x, 2, packed=True), {"fused_attention"}, {"softmax", "slice"}),
        (lambda b, x: hir.attention(b, x, 2, causal=True, mask=np.ones((5, 5), x.dtype.numpy)), {"fused_attention"},
         {"softmax"}),
        (lambda b, x: hir.layer_norm(b, x), {"layer_norm"}, {"sqrt", "region", "reduce_mean"}),
        (lambda b, x: hir.rms_norm(b, x), {"rms_norm"}, {"sqrt", "region", "reduce_mean"}),
        (lambda b, x: hir.geglu(b, x, 12, bias=True), {"fused_matmul"}, {"erf", "region", "matmul"}),
        (lambda b, x: hir.encoder_layer(b, x, 2, 16), {"fused_attention", "layer_norm", "fused_matmul"},
         {"softmax", "matmul", "region"}),
    ],
)
@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f64], ids=str)
def test_passes_fuse_primitives_again(build, found, gone, dtype) -> None:
    x = np.random.default_rng(1).standard_normal((2, 5, 8)).astype(dtype.numpy)
    results = {}
    for fused in (True, False):
        g = rlx.Graph("g")
        b = hir.Builder(g, fused=fused)
        g.output("y", build(b, g.input("x", (2, 5, 8), dtype)))
        exe, results[fused] = run(g, b.random_params(), {"x": x})
        assert not fused or found <= names(exe)
    assert found <= names(exe) and not gone & names(exe)
    tolerance = 1e-5 if dtype == rlx.f32 else 1e-12
    np.testing.assert_allclose(results[False], results[True], rtol=tolerance, atol=tolerance)


@pytest.fixture
def shrink():
    op = rlx.register_op(
        "hirtest.shrink", inputs=("x",),
        reference=lambda x: np.sign(x) * np.maximum(np.abs(x) - x.dtype.type(0.1), 0),
        samples=[rlx.Sample((np.float32([-2, 0, 1]),))],
    )
    yield op
    rlx.unregister_op("hirtest.shrink")


@pytest.mark.parametrize("by_name", [True, False])
def test_custom_op_as_activation_and_block(shrink, by_name: bool) -> None:
    g = rlx.Graph("custom")
    b = hir.Builder(g)
    x = g.input("x", ("n", 4), rlx.f32)
    y = hir.linear(b, x, 4, activation="hirtest.shrink" if by_name else shrink, name="fc")
    g.output("y", hir.residual(b, y, shrink))
    params = b.random_params()
    data = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    _, got = run(g, params, {"x": data})
    h = data @ params["fc.weight"] + params["fc.bias"]

    def low(v):
        return np.sign(v) * np.maximum(np.abs(v) - 0.1, 0)

    np.testing.assert_allclose(got, low(h) + low(low(h)), rtol=1e-5, atol=1e-6)


def test_a_block_of_ones_own_is_a_function() -> None:
    def lora(b, x, rank, *, name=None):
        with b.scope(name):
            low = x @ b.param("a", (b.width("lora", x), rank), x.dtype, is_linear=True)
            return hir.linear(b, x, 3, name="base") + low @ b.param("b", (rank, 3), x.dtype, init="zeros")

    g = rlx.Graph("lora")
    b = hir.Builder(g)
    g.output("y", lora(b, g.input("x", ("n", 4), rlx.f64), 2, name="q"))
    assert list(b.params) == ["q.a", "q.base.weight", "q.base.bias", "q.b"]
    params = b.random_params()
    _, got = run(g, params, {"x": np.ones((1, 4))})
    np.testing.assert_allclose(got[0], params["q.base.weight"].sum(0) + params["q.base.bias"], rtol=1e-12)
