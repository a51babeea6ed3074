"""Ops of the domain com.microsoft, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

import rlx
from rlx.ops import nbits
from rlx.testing.onnx_models import proto

ort = pytest.importorskip("onnxruntime")

R = np.random.default_rng(3)
MS = "com.microsoft"
Case = tuple[str, list[Any], dict[str, Any], int]


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return R.integers(0, 255, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return R.integers(-60, 60, shape).astype(np.int8)


S, Z = np.float32(0.05), np.uint8(120)
SZ = (S, np.uint8(100))


def packed(k: int, columns: int, block: int) -> list[np.ndarray]:
    blocks = -(-k // block)
    return [u8(columns, blocks, block // 2), abs(f(columns * blocks)) / 8]


def full_groups(k: int, block: int) -> np.ndarray:
    """Groups of rows in any order, all of one size."""
    return R.permutation(np.arange(k) // block).astype(np.int32)


def tables(length: int, half: int) -> list[np.ndarray]:
    angle = np.arange(length)[:, None] / 10.0 ** np.arange(half)[None, :]
    return [np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)]


def past(batch: int, length: int) -> list[np.ndarray]:
    return [f(batch, 2, length, 16), f(batch, 2, length, 16)]


def lstm(directions: int, per_channel: bool) -> list[Any]:
    columns = 16 if per_channel else 1
    scale = [abs(f(directions, columns)) / 60 + 0.01, np.zeros((directions, columns), np.int8)]
    scale = scale if per_channel else [s.reshape(-1) for s in scale]
    state = [f(directions, 1, 4), f(directions, 1, 4)]
    weights = [i8(directions, 3, 16), i8(directions, 4, 16), f(directions, 32)]
    return [f(5, 1, 3), *weights, None, *state, None, *scale, *scale]


I64 = np.int64
CASES: list[Case] = [
    ("FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], {"transB": 1, "alpha": 0.5}, 1),
    ("FusedMatMul", [f(2, 4, 3), f(4, 5)], {"transA": 1}, 1),
    ("BiasGelu", [f(2, 3, 4), f(4)], {}, 1),
    ("Gelu", [f(3, 4)], {}, 1),
    ("FastGelu", [f(3, 4), f(4)], {}, 1),
    ("QuickGelu", [f(3, 4)], {"alpha": 1.5}, 1),
    ("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], {"epsilon": 1e-5}, 1),
    ("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], {"epsilon": 1e-5}, 1),
    ("QLinearAdd", [u8(2, 3), S, Z, u8(3), *SZ, S, Z], {}, 1),
    ("QLinearMul", [u8(2, 3), S, Z, u8(3), *SZ, S, Z], {}, 1),
    ("QLinearSigmoid", [u8(2, 3), S, Z, np.float32(1 / 256), np.uint8(0)], {}, 1),
    ("QLinearLeakyRelu", [u8(2, 3), S, Z, S, Z], {"alpha": 0.2}, 1),
    ("QLinearGlobalAveragePool", [u8(1, 3, 4, 5), S, Z, S, Z], {}, 1),
    ("QLinearConcat", [S, Z, u8(2, 3), S, Z, u8(2, 2), *SZ], {"axis": 1}, 1),
    ("QGemm", [u8(3, 4), S, Z, i8(4, 5), S, np.int8(0), None, S, Z], {}, 1),
    ("QGemm", [u8(3, 4), S, Z, i8(5, 4), S, np.int8(0), R.integers(-99, 99, 5).astype(np.int32)], {"transB": 1}, 1),
    ("MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), S, S, Z, np.int8(3), f(5)], {}, 1),
    ("DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), S, np.int8(2), f(5)], {}, 1),
    ("DynamicQuantizeLSTM", lstm(1, False), {"hidden_size": 4}, 3),
    ("DynamicQuantizeLSTM", lstm(1, True), {"hidden_size": 4, "direction": "reverse"}, 3),
    ("DynamicQuantizeLSTM", lstm(2, True), {"hidden_size": 4, "direction": "bidirectional"}, 3),
    ("MatMulNBits", [f(2, 3, 32), *packed(32, 5, 16)], {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1),
    ("MatMulNBits", [f(3, 40), *packed(40, 5, 32), u8(5)], {"K": 40, "N": 5, "bits": 4, "block_size": 32}, 1),
    ("MatMulNBits", [f(2, 3, 64), *packed(64, 5, 16), None, full_groups(64, 16)],
     {"K": 64, "N": 5, "bits": 4, "block_size": 16}, 1),
    ("MatMulNBits", [f(2, 3, 64), *packed(64, 5, 16), None, R.integers(0, 4, 64).astype(np.int32)],
     {"K": 64, "N": 5, "bits": 4, "block_size": 16}, 1),
    ("MultiHeadAttention", [f(2, 3, 8), f(2, 5, 8), f(2, 5, 8)], {"num_heads": 2}, 1),
    ("MultiHeadAttention", [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), f(24)], {"num_heads": 2, "unidirectional": 1}, 1),
    (
        "MultiHeadAttention",
        [f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), None, np.int32([[1, 1, 1, 0, 0], [1] * 5])],
        {"num_heads": 2},
        1,
    ),
    (
        "MultiHeadAttention",
        [f(1, 1, 8), f(1, 1, 8), f(1, 1, 8), None, None, None, f(1, 2, 4, 4), f(1, 2, 4, 4)],
        {"num_heads": 2},
        3,
    ),
    ("RotaryEmbedding", [f(2, 3, 8), I64([[0, 1, 2], [4, 5, 6]]), *tables(9, 2)], {"num_heads": 2}, 1),
    ("RotaryEmbedding", [f(2, 2, 3, 4), I64([3]), *tables(9, 2)], {"interleaved": 1}, 1),
    (
        "GroupQueryAttention",
        [f(2, 3, 64), f(2, 3, 32), f(2, 3, 32), None, None, np.int32([2, 2]), np.int32(3)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    (
        "GroupQueryAttention",
        [f(1, 1, 64), f(1, 1, 32), f(1, 1, 32), *past(1, 5), np.int32([5]), np.int32(6), *tables(12, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        3,
    ),
    (
        "GroupQueryAttention",
        [f(1, 4, 128), None, None, None, None, np.int32([3]), np.int32(4), *tables(12, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 2},
        3,
    ),
    (
        "GroupQueryAttention",
        [f(1, 4, 128), None, None, *past(1, 3), np.int32([6]), np.int32(7), *tables(12, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1, "softcap": 5.0},
        3,
    ),
    ("CDist", [f(3, 4), f(5, 4)], {"metric": "euclidean"}, 1),
    ("Inverse", [f(2, 3, 3)], {}, 1),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], {"activation": "Relu"}, 1),
    ("FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "Relu"}, 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_same_answers_as_onnx_runtime(case: Case) -> None:
    op, operands, attrs, n_out = case
    names = ["" if v is None else f"x{i}" for i, v in enumerate(operands)]
    arrays = {f"x{i}": np.asarray(v) for i, v in enumerate(operands) if v is not None}
    first = next(iter(arrays))
    given = {k: v for k, v in arrays.items() if k == first or v.dtype == np.float32 and v.ndim > 2}
    held = {k: v for k, v in arrays.items() if k not in given}
    node = helper.make_node(op, names, [f"y{i}" for i in range(n_out)], domain=MS, **attrs)
    data = proto([node], given, [f"y{i}" for i in range(n_out)], held, 18, domains=[MS])
    data.ir_version = 8
    try:
        want = ort.InferenceSession(data.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    except Exception as error:  # its exceptions have no common base
        pytest.skip(f"ONNX Runtime refuses it: {str(error)[:200]}")
    m = rlx.load(data, threads=1)
    for _ in range(2):
        for a, b in zip(m.run(given), want, strict=True):
            assert a.dtype == b.dtype
            if a.dtype.kind in "iu":
                assert np.abs(a.astype(int) - b.astype(int)).max() <= 1
            else:
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("groups", ["full", "part", "blocks", "any"])
@pytest.mark.parametrize(("bits", "zeros"), [(4, True), (4, False), (8, True), (2, False)])
def test_groups_of_rows_in_any_order(groups: str, bits: int, zeros: bool) -> None:
    """g_idx: row k has the scale and zero point of group g_idx[k]; of full groups the codes stay codes.

    ONNX Runtime 1.32 leaves out the zero points when g_idx is given.
    """
    k, columns, block = (56 if groups == "part" else 64), 37, 16
    blocks = 4
    q = R.integers(0, 1 << bits, (columns, blocks * block)).astype(np.uint8)
    scale = abs(f(columns, blocks))
    zero = R.integers(0, 1 << bits, (columns, blocks)).astype(np.uint8)
    order = np.arange(k) // block
    order = {"full": R.permutation(order), "part": R.permutation(order), "blocks": order,
             "any": R.integers(0, blocks, k)}[groups].astype(np.int32)
    w = (q[:, :k].astype(np.float32) - (zero[:, order] if zeros else float(1 << (bits - 1)))) * scale[:, order]
    held = {"b": nbits.pack(q, bits).reshape(columns, blocks, -1), "s": scale.reshape(-1), "g": order}
    if zeros:
        held["z"] = nbits.pack(zero, bits).reshape(-1)
    node = helper.make_node("MatMulNBits", ["x", "b", "s", "z" if zeros else "", "g"], ["y"], domain=MS, K=k, N=columns,
                            bits=bits, block_size=block)
    x = f(3, k)
    m = rlx.load(proto([node], {"x": x}, ["y"], held, 18, domains=[MS]), threads=1)
    np.testing.assert_allclose(m.run({"x": x})[0], x @ w.T, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("groups", [np.zeros(63, np.int32), np.full(64, 4, np.int32), np.full(64, -1, np.int32)],
                         ids=["too few", "too large", "negative"])
def test_wrong_groups_are_refused(groups: np.ndarray) -> None:
    held = {"b": u8(5, 4, 8), "s": f(20), "g": groups}
    node = helper.make_node("MatMulNBits", ["x", "b", "s", "", "g"], ["y"], domain=MS, K=64, N=5, bits=4, block_size=16)
    with pytest.raises(rlx.errors.FormatError, match="g_idx must hold 64 groups"):
        rlx.load(proto([node], {"x": f(1, 64)}, ["y"], held, 18, domains=[MS]), threads=1).run({"x": f(1, 64)})
