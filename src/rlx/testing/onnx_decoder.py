"""A small decoder as exporters write it: its keys and values grow by `Concat`, masks and positions come from shapes."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F = np.float32


def decoder(layers: int = 2, heads: int = 2, kv_heads: int | None = None, dim: int = 8, width: int = 16,
            vocab: int = 50, positions: int = 256, *, random: bool = False, seed: int = 0) -> bytes:
    """An ONNX file: tokens, mask and caches in, scores and grown caches out.

    Parameters
    ----------
    layers, heads, dim, width, vocab, positions : int
    kv_heads : int, optional
        Fewer heads of keys and values than of queries, repeated for them.
    random : bool
        Noise is added to the scores.
    seed : int
        Of the weights.
    """
    kv = kv_heads or heads
    rng = np.random.default_rng(seed)
    nodes: list[Any] = []
    weights: dict[str, Any] = {}

    def w(name: str, *shape: int) -> str:
        weights[name] = (rng.standard_normal(shape) * 0.3).astype(F)
        return name

    def c(name: str, value: Any, dtype: Any = np.int64) -> str:
        weights[name] = np.asarray(value, dtype)
        return name

    def n(op: str, inputs: list[str], output: str, **attrs: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attrs))
        return output

    zero, one, two, first = c("zero", 0), c("one", 1), c("two", 2), c("first", [0])
    n("Shape", ["past_key_values.0.key"], "past_shape")
    n("Gather", ["past_shape", two], "past", axis=0)
    n("Shape", ["input_ids"], "ids_shape")
    n("Gather", ["ids_shape", one], "seq", axis=0)
    n("Gather", ["ids_shape", zero], "batch", axis=0)
    n("Add", ["past", "seq"], "total")
    n("Range", ["past", "total", one], "places")
    n("Range", [zero, "total", one], "keys")
    h = n("Add", [n("Gather", [w("embed", vocab, width), "input_ids"], "tokens", axis=0),
                  n("Gather", [w("place", positions, width), "places"], "placed", axis=0)], "h0")
    n("Unsqueeze", ["places", c("last", [-1])], "query_column")
    n("LessOrEqual", [n("Unsqueeze", ["keys", first], "key_row"), "query_column"], "causal")
    n("Unsqueeze", [n("Cast", ["attention_mask"], "mask", to=TensorProto.BOOL), c("middle", [1, 2])], "mask4")
    n("Where", [n("And", ["causal", "mask4"], "seen"), c("nothing", 0, F), c("hidden", -np.inf, F)], "bias")
    sizes = [n("Unsqueeze", ["batch", first], "batch1"), n("Unsqueeze", ["seq", first], "seq1")]
    n("Concat", [*sizes, c("heads", [heads]), c("dim", [dim])], "q_shape", axis=0)
    n("Concat", [*sizes, c("kv", [kv]), "dim"], "k_shape", axis=0)
    n("Concat", [*sizes, c("width", [heads * dim])], "o_shape", axis=0)
    if kv != heads:
        n("Unsqueeze", ["total", first], "total1")
        n("Concat", ["batch1", "kv", c("times", [heads // kv]), "total1", "dim"], "wide_shape", axis=0)
        n("Concat", ["batch1", "heads", "total1", "dim"], "repeated_shape", axis=0)

    def repeated(x: str) -> str:
        if kv == heads:
            return x
        n("Expand", [n("Unsqueeze", [x, "two1"], f"{x}/one"), "wide_shape"], f"{x}/wide")
        return n("Reshape", [f"{x}/wide", "repeated_shape"], f"{x}/all")

    c("two1", [2])
    grown = []
    for i in range(layers):
        for t, count in (("q", heads), ("k", kv), ("v", kv)):
            x = n("MatMul", [h, w(f"{i}.{t}.weight", width, count * dim)], f"{i}.{t}")
            x = n("Reshape", [x, "q_shape" if t == "q" else "k_shape"], f"{i}.{t}/heads")
            n("Transpose", [x], f"{i}.{t}/rows", perm=[0, 2, 1, 3])
        for t, name in (("k", "key"), ("v", "value")):
            grown.append(n("Concat", [f"past_key_values.{i}.{name}", f"{i}.{t}/rows"], f"present.{i}.{name}", axis=2))
        k, v = repeated(grown[-2]), repeated(grown[-1])
        scores = n("MatMul", [f"{i}.q/rows", n("Transpose", [k], f"{i}.kT", perm=[0, 1, 3, 2])], f"{i}.scores")
        scores = n("Add", [n("Mul", [scores, c("scale", dim**-0.5, F)], f"{i}.scaled"), "bias"], f"{i}.biased")
        y = n("MatMul", [n("Softmax", [scores], f"{i}.weights", axis=-1), v], f"{i}.context")
        y = n("Reshape", [n("Transpose", [y], f"{i}.tokens", perm=[0, 2, 1, 3]), "o_shape"], f"{i}.flat")
        h = n("Add", [h, n("MatMul", [y, w(f"{i}.o.weight", heads * dim, width)], f"{i}.o")], f"h{i + 1}")
    scores = n("MatMul", [h, w("head", width, vocab)], "scores" if random else "logits")
    if random:
        n("Add", [scores, n("RandomNormalLike", [scores], "noise")], "logits")

    def port(name: str, code: int, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, code, shape)

    places = [f"{i}.{t}" for i in range(layers) for t in ("key", "value")]
    inputs = [port("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
              port("attention_mask", TensorProto.INT64, ["batch_size", "past_sequence_length + sequence_length"]),
              *(port(f"past_key_values.{p}", TensorProto.FLOAT, ["batch_size", kv, "past_sequence_length", dim])
                for p in places)]
    outputs = [port("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", vocab]),
               *(port(name, TensorProto.FLOAT, ["batch_size", kv, "total_sequence_length", dim]) for name in grown)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs,
                              [numpy_helper.from_array(a, k) for k, a in weights.items()])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    made: bytes = file.SerializeToString()
    return made
