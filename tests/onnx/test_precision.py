"""Weights of whole models in half precision and in their codes: half the bytes, the same answers."""

import os
import pathlib

import numpy as np
import pytest

import rlx
from rlx import ops

MODELS = pathlib.Path(os.environ.get("RLX_MODELS", "~/.cache/rlx-models")).expanduser()
MINILM = sorted(MODELS.glob("*paraphrase-MiniLM-L3-v2.onnx"))[:1]
CODES = sorted(MODELS.glob("*minilm-int8*.onnx"))[:1]


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def encoder(layers=2, width=64, heads=4, words=500, seed=0):
    """Embeddings, attention, gelu, layer norms, residual sums: a small sentence encoder."""
    rng = np.random.default_rng(seed)
    g = rlx.Graph("encoder")

    def weight(*shape):
        return g.constant((rng.standard_normal(shape) * 0.7 / np.sqrt(shape[-2])).astype(np.float32))

    def norm(v):
        one, zero = g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32))
        return ops.layer_norm(v, one, zero, axis=-1)

    ids = g.input("ids", (2, 24), rlx.i64)
    x = norm(ops.gather(g.constant(rng.standard_normal((words, width)).astype(np.float32)), ids, axis=0))
    for _ in range(layers):
        parts = [ops.transpose(ops.reshape(x @ weight(width, width), shape=(2, 24, heads, -1)), perm=(0, 2, 1, 3))
                 for _ in range(3)]  # fmt: skip
        q, k, v = parts
        scores = q @ ops.transpose(k, perm=(0, 1, 3, 2)) * g.constant(np.float32((width / heads) ** -0.5))
        heads_out = ops.transpose(ops.softmax(scores, axis=-1) @ v, perm=(0, 2, 1, 3))
        x = norm(x + ops.reshape(heads_out, shape=(2, 24, width)) @ weight(width, width))
        x = norm(x + ops.gelu(x @ weight(width, 4 * width)) @ weight(4 * width, width))
    g.output("y", ops.reduce_mean(x, axes=(1,)))
    return g


@pytest.mark.parametrize("precision", ["f16", "bf16", "auto_mixed", "auto_mixed_conservative", "auto_mixed_bf16_safe",
                                       "always_f16", "auto_mixed_bf16"])  # fmt: skip
def test_an_encoder_keeps_its_direction(precision):
    feeds = {"ids": np.random.default_rng(1).integers(0, 500, (2, 24))}
    full = rlx.compile(encoder())
    exe = rlx.compile(encoder(), rlx.CompileOptions(precision=precision, check=True))
    want, got = full.run(feeds)["y"], exe.run(feeds)["y"]
    assert got.dtype == np.float32
    assert cosine(want, got) > 0.999
    if precision in ("f16", "bf16"):
        assert exe.memory_report().weights < 0.53 * full.memory_report().weights
    np.testing.assert_array_equal(exe.run(feeds, threads=2)["y"], got)
    np.testing.assert_array_equal(exe.clone().run(feeds)["y"], got)


@pytest.mark.models
@pytest.mark.skipif(not MINILM, reason="no model files: set RLX_MODELS")
@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_minilm_in_half_the_bytes(precision):
    feeds = {"input_ids": np.arange(1000, 1032).reshape(1, -1), "attention_mask": np.ones((1, 32), np.int64)}
    full = rlx.load(str(MINILM[0]), threads=1)
    half = rlx.load(str(MINILM[0]), options=rlx.CompileOptions(threads=1, precision=precision))
    want, got = full.run(feeds), half.run(feeds)
    for name in want.keys():
        assert got[name].dtype == want[name].dtype
        if want[name].dtype == np.float32:
            assert cosine(want[name], got[name]) > 0.9999
    assert half.memory_report().weights < 0.51 * full.memory_report().weights


@pytest.mark.models
@pytest.mark.skipif(not CODES, reason="no model files: set RLX_MODELS")
def test_minilm_stays_in_its_codes():
    feeds = {"input_ids": np.arange(1000, 1032).reshape(1, -1), "attention_mask": np.ones((1, 32), np.int64),
             "token_type_ids": np.zeros((1, 32), np.int64)}  # fmt: skip
    kept = rlx.load(str(CODES[0]), threads=1)
    wide = rlx.load(str(CODES[0]), options=rlx.CompileOptions(threads=1, disable=("weight-only",)))
    want, got = wide.run(feeds), kept.run(feeds)
    for name in want.keys():
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
    assert kept.memory_report().weights < 0.45 * wide.memory_report().weights


@pytest.mark.parametrize("signed", [False, True])
def test_constants_of_four_bits_stay_so(signed):
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(2)
    low = -8 if signed else 0
    q, zero = rng.integers(low, low + 16, (128, 96)), rng.integers(low, low + 16, (4, 96))
    scale = (rng.random((4, 96)) / 10).astype(np.float32)
    kind = onnx.TensorProto.INT4 if signed else onnx.TensorProto.UINT4
    make = onnx.helper
    nodes = [make.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=0, block_size=32),
             make.make_node("MatMul", ["x", "f"], ["y"])]  # fmt: skip
    graph = make.make_graph(
        nodes, "g", [make.make_tensor_value_info("x", 1, [5, 128])], [make.make_tensor_value_info("y", 1, [5, 96])],
        [make.make_tensor("w", kind, q.shape, q.ravel().tolist()), onnx.numpy_helper.from_array(scale, "s"),
         make.make_tensor("z", kind, zero.shape, zero.ravel().tolist())],
    )  # fmt: skip
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 21)], ir_version=10)
    x = rng.standard_normal((5, 128)).astype(np.float32)
    exe = rlx.load(model.SerializeToString())
    weights = (q - np.repeat(zero, 32, 0)).astype(np.float32) * np.repeat(scale, 32, 0)
    np.testing.assert_allclose(exe.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-4)
    assert exe.memory_report().weights < 0.75 * q.size
