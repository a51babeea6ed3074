"""How much a node does: operations and bytes that no kernel can save. One table.

Operations are counted as in the literature: a multiply-add is two; a convolution counts as done
directly, whatever algorithm runs (a Winograd kernel may thus exceed the peak). Ops that have no
rule are bounded by the bytes they touch: every operand and result once, whatever is read again
counts against the kernel. Where only a part of an operand is read, a rule says which.
"""

import math
from collections.abc import Callable

from rlx.ir.graph import Node, Value
from rlx.ir.types import static_shape
from rlx.records import record

Rule = Callable[[Node], float]


@record(frozen=True)
class Work:
    """What a node does.

    Attributes
    ----------
    flops : float
        Operations; 0 when bytes alone bound it.
    nbytes : float
        Bytes read and written.
    unit : str
        Which peak counts: `f32`, `f64` or `i8`.
    """

    flops: float
    nbytes: float
    unit: str


def _shape(v: Value) -> tuple[int, ...]:
    return static_shape(v.shape, v.name)


def _size(v: Value) -> int:
    return math.prod(_shape(v))


def _nbytes(v: Value) -> int:
    return _size(v) * v.dtype.itemsize


def _given(node: Node, i: int) -> Value:
    v = node.inputs[i]
    assert v is not None
    return v


def _matmul(node: Node) -> float:
    """Twice the result times the length of the rows of the first operand."""
    shape = _shape(_given(node, 0))
    perm = node.attrs.get("perm_a")
    return 2.0 * _size(node.outputs[0]) * (shape[perm[-1]] if perm else shape[-1])


def _gemm(node: Node) -> float:
    return 2.0 * _size(node.outputs[0]) * _shape(_given(node, 0))[0 if node.attrs["trans_a"] else 1]


def _conv(weight: int) -> Rule:
    return lambda node: 2.0 * _size(node.outputs[0]) * math.prod(_shape(_given(node, weight))[1:])


def _conv_transpose(node: Node) -> float:
    return 2.0 * _size(_given(node, 0)) * math.prod(_shape(_given(node, 1))[1:])


def _attention(node: Node) -> float:
    """Scores and the sum of values, all keys for every query: 2 b h sq sk (d + dv)."""
    if "sizes" in node.attrs:
        b, heads, _, sq, sk, d, dv = map(int, node.attrs["sizes"])
        return 2.0 * b * heads * sq * sk * (d + dv)
    # [b, s, h d] or [b, h, s, d]: the last but one axis of the keys is their number in both
    return 2.0 * (_size(_given(node, 0)) + _size(node.outputs[0])) * _shape(_given(node, 1))[-2]


def _recurrent(node: Node) -> float:
    """Every step multiplies by both weights of a direction."""
    x = _shape(_given(node, 0))
    return 2.0 * x[0] * x[1] * (_size(_given(node, 1)) + _size(_given(node, 2)))


def _fourier(node: Node) -> float:
    """5 n log2(n) of a complex transform, half of it when one side is real."""
    n = max(2, int(node.attrs["n"] or 2))
    rows = _size(_given(node, 0)) / max(1, _shape(_given(node, 0))[-1])
    return rows * 5.0 * n * math.log2(n) * (1.0 if node.attrs.get("kind") == "fft" else 0.5)


def _stft(node: Node) -> float:
    n = max(2, int(node.attrs["n"] or 2))
    bins = n // 2 + 1 if node.attrs["onesided"] else n
    frames = _size(node.outputs[0]) / (2 * bins)
    return frames * 2.5 * n * math.log2(n)


def _cubic(node: Node) -> float:
    """LU decomposition of n x n: 2/3 n^3."""
    x = _given(node, 0)
    return 2.0 / 3.0 * _size(x) * _shape(x)[-1]


FLOPS: dict[str, Rule] = {
    "matmul": _matmul, "fused_matmul": _matmul, "int8_matmul": _matmul, "matmul_integer": _matmul,
    "qlinear_matmul": _matmul, "matmul_nbits": _matmul, "fused_matmul_nbits": _matmul, "gemm": _gemm,
    "conv": _conv(1), "conv_nhwc": _conv(1), "int8_conv": _conv(1), "int8_conv_nhwc": _conv(1),
    "conv_integer": _conv(1),
    "qlinear_conv": _conv(3), "conv_transpose": _conv_transpose, "conv_transpose_nhwc": _conv_transpose,
    "attention": _attention, "fused_attention": _attention,
    "lstm": _recurrent, "gru": _recurrent, "rnn": _recurrent, "dynamic_quantize_lstm": _recurrent,
    "fourier": _fourier, "fft": _fourier, "ifft": _fourier, "rfft": _fourier, "irfft": _fourier,
    "stft": _stft, "stft_planned": _stft, "det": _cubic, "inverse": _cubic,
}  # fmt: skip

# Ops that read no more of their first operand than they write.
PARTIAL = ("gather", "gather_elements", "gather_nd", "slice", "one_hot", "search_sorted")
# Ops that compare, branch and chase pointers: neither operations nor bytes bound them.
UNBOUNDED = ("tree_ensemble", "cond", "loop", "scan", "non_max_suppression", "non_max_suppression_bounded", "sort",
             "argsort", "topk", "unique", "unique_bounded", "random_uniform", "random_normal", "randint", "bernoulli",
             "dropout", "multinomial", "sample")  # fmt: skip


def work_of(node: Node) -> Work | None:
    """Operations and bytes of a node whose sizes are numbers; None when neither bounds it."""
    name = node.op.name
    if name in UNBOUNDED or not all(v.type.is_static for v in node.outputs):
        return None
    written = sum(map(_nbytes, node.outputs))
    read = 0
    for i, v in enumerate(node.inputs):
        if v is not None:
            read += min(_nbytes(v), written) if i == 0 and name in PARTIAL else _nbytes(v)
    rule = FLOPS.get(name)
    first = next((v.dtype for v in node.inputs if v is not None), node.outputs[0].dtype)
    unit = "i8" if first.name in ("i8", "u8") else "f64" if first.itemsize == 8 and first.is_float else "f32"
    return Work(rule(node) if rule is not None else 0.0, float(read + written), unit)
