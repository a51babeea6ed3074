"""The cells of `bench_grid.py`: real shapes, each computation written for rlx, PyTorch and ONNX."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import rlx
from rlx import ops

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Given:
    """An array to be made: normal values of one scale, or whole numbers below it if the type has no others."""

    shape: tuple[int, ...]
    scale: float
    seed: int
    dtype: str = "f32"


@functools.lru_cache(maxsize=16)
def values(given: Given) -> Array:
    """Reproducible numbers. The last ones are kept, so that all runners of a cell read the same memory."""
    rng, dtype = np.random.default_rng(given.seed), rlx.dtypes.as_dtype(given.dtype).numpy
    if dtype.kind in "iu":
        return rng.integers(0, int(given.scale), given.shape).astype(dtype)
    array = rng.standard_normal(given.shape, np.float32) * np.float32(given.scale)
    return array.astype(dtype)


def normal(*shape: int, scale: float = 1.0, seed: int = 0, dtype: str = "f32") -> Given:
    """What an input or weight holds."""
    return Given(shape, scale, seed, dtype)


def whole(*shape: int, below: int, seed: int = 0, dtype: str = "i64") -> Given:
    """Whole numbers from 0."""
    return Given(shape, below, seed, dtype)


@dataclass(frozen=True)
class Cell:
    """One computation.

    Attributes
    ----------
    family, name : str
    inputs, weights : dict of name to Given
        What is given anew in every run, and what is constant.
    rlx : callable
        Value of the result from one `rlx` value per input and weight, by name.
    torch : callable
        The same from the module `torch` and one tensor per input and weight.
    onnx : tuple of str
        Graph bodies in the textual syntax of ONNX that assign `y`; the fastest counts.
    opset : int
        Version of the ONNX operators.
    numpy : callable, optional
        The same by NumPy or SciPy from one array per input and weight.
    """

    family: str
    name: str
    inputs: Mapping[str, Given]
    weights: Mapping[str, Given]
    rlx: Callable[..., Any]
    torch: Callable[..., Any]
    onnx: tuple[str, ...]
    opset: int = 20
    numpy: Callable[..., Any] | None = None

    @property
    def title(self) -> str:
        """Family and name."""
        return f"{self.family}/{self.name}"

    def feeds(self) -> dict[str, Array]:
        """Arrays of the inputs."""
        return {n: values(a) for n, a in self.inputs.items()}

    def constants(self) -> dict[str, Array]:
        """Arrays of the weights."""
        return {n: values(a) for n, a in self.weights.items()}


# -- products ---------------------------------------------------------------------------


def linear(family: str, m: int, k: int, n: int, label: str = "") -> Cell:
    """x w + b, w constant."""
    return Cell(
        family, f"{label or 'linear'} {m}x{k}x{n}", {"x": normal(m, k)},
        {"w": normal(k, n, scale=k**-0.5, seed=1), "b": normal(n, seed=2)},
        lambda x, w, b: x @ w + b,
        lambda torch, x, w, b: torch.addmm(b, x, w),
        ("y = Gemm(x, w, b)", "t = MatMul(x, w) y = Add(t, b)"),
    )


def product(m: int, k: int, n: int) -> Cell:
    """x w, w constant."""
    return Cell("gemm", f"product {m}x{k}x{n}", {"x": normal(m, k)}, {"w": normal(k, n, scale=k**-0.5, seed=1)},
                lambda x, w: x @ w, lambda torch, x, w: torch.mm(x, w), ("y = MatMul(x, w)",))


def batched(batch: int, m: int, k: int, n: int) -> Cell:
    """x z, both given in every run."""
    return Cell("gemm", f"batched {batch}x{m}x{k}x{n}",
                {"x": normal(batch, m, k), "z": normal(batch, k, n, seed=1)}, {},
                lambda x, z: x @ z, lambda torch, x, z: torch.bmm(x, z), ("y = MatMul(x, z)",))


def feed_forward(tokens: int, width: int) -> Cell:
    """Two products with gelu between them and a residual."""
    inner = 4 * width
    return Cell(
        "gemm", f"feed forward {tokens}x{width}x{inner}", {"x": normal(tokens, width)},
        {"w": normal(width, inner, scale=width**-0.5, seed=1), "b": normal(inner, seed=2),
         "v": normal(inner, width, scale=inner**-0.5, seed=3), "c": normal(width, seed=4)},
        lambda x, w, b, v, c: ops.gelu(x @ w + b) @ v + c + x,
        lambda torch, x, w, b, v, c: torch.addmm(c, torch.nn.functional.gelu(torch.addmm(b, x, w)), v) + x,
        ("h = MatMul(x, w) i = Add(h, b) g = Gelu(i) o = MatMul(g, v) p = Add(o, c) y = Add(p, x)",),
    )


def products() -> Iterator[Cell]:
    """GEMM and GEMV."""
    for m in (4, 16, 32, 128):
        yield linear("gemm", m, 384, 384, "MiniLM")
        yield linear("gemm", m, 384, 1536, "MiniLM")
        yield linear("gemm", m, 1536, 384, "MiniLM")
    for m in (8, 64, 128):
        yield linear("gemm", m, 768, 768, "BERT")
        yield linear("gemm", m, 768, 3072, "BERT")
        yield linear("gemm", m, 3072, 768, "BERT")
    for m in (32, 64, 128, 256, 512, 1024):
        yield product(m, m, m)
    yield product(2048, 64, 64)
    yield product(64, 4096, 64)
    yield product(512, 32, 2048)
    yield product(196, 768, 2304)
    yield batched(12, 128, 64, 128)
    yield batched(12, 128, 128, 64)
    yield batched(64, 49, 32, 49)
    yield feed_forward(16, 384)
    yield feed_forward(128, 768)
    for k, n, label in ((384, 1536, "MiniLM"), (768, 768, "BERT"), (768, 3072, "BERT"), (3072, 768, "BERT"),
                        (2048, 1000, "classifier"), (1280, 1000, "classifier"), (1024, 4096, "decoder"),
                        (4096, 4096, "decoder"), (128, 10, "small"), (16, 16, "small")):
        yield linear("gemv", 1, k, n, label)


# -- convolution ------------------------------------------------------------------------


def conv(label: str, channels: int, out: int, size: Sequence[int], kernel: Sequence[int], *, stride: int = 1,
         groups: int = 1, dilation: int = 1, act: bool = True) -> Cell:
    """Convolution with bias that keeps the size (over the stride), and relu."""
    n = len(size)
    pads = [(k - 1) * dilation // 2 for k in kernel]
    fan = channels // groups * math.prod(kernel)

    def build(x: Any, w: Any, b: Any) -> Any:
        y = ops.conv(x, w, b, strides=(stride,) * n, pads=(*pads, *pads), dilations=(dilation,) * n, groups=groups)
        return ops.relu(y) if act else y

    def twin(torch: Any, x: Any, w: Any, b: Any) -> Any:
        f = torch.nn.functional.conv1d if n == 1 else torch.nn.functional.conv2d
        y = f(x, w, b, stride, pads, dilation, groups)
        return torch.relu(y) if act else y

    attributes = f"strides = {[stride] * n}, pads = {pads * 2}, dilations = {[dilation] * n}, group = {groups}"
    body = f"c = Conv <{attributes}> (x, w, b) y = {'Relu' if act else 'Identity'}(c)"
    shape = "x".join(map(str, kernel))
    more = (f" s{stride}" if stride > 1 else "") + (f" d{dilation}" if dilation > 1 else "")
    more += "" if groups == 1 else " depthwise" if groups == channels else f" g{groups}"
    return Cell("conv", f"{label} {shape}{more} {channels}->{out} at {'x'.join(map(str, size))}",
                {"x": normal(1, channels, *size)},
                {"w": normal(out, channels // groups, *kernel, scale=fan**-0.5, seed=1), "b": normal(out, seed=2)},
                build, twin, (body,))


def conv_transpose(channels: int, out: int, size: int, kernel: int, stride: int) -> Cell:
    """Transposed convolution with bias."""
    pad = (kernel - stride) // 2

    def build(x: Any, w: Any, b: Any) -> Any:
        return ops.conv_transpose(x, w, b, strides=(stride,) * 2, pads=(pad,) * 4)

    return Cell("conv", f"transposed {kernel}x{kernel} s{stride} {channels}->{out} at {size}x{size}",
                {"x": normal(1, channels, size, size)},
                {"w": normal(channels, out, kernel, kernel, scale=channels**-0.5, seed=1), "b": normal(out, seed=2)},
                build, lambda torch, x, w, b: torch.nn.functional.conv_transpose2d(x, w, b, stride, pad),
                (f"y = ConvTranspose <strides = {[stride] * 2}, pads = {[pad] * 4}> (x, w, b)",))


def convolutions() -> Iterator[Cell]:
    """Layers of ResNet, MobileNet, ResNeXt, U-Net, and of audio models."""
    square = {s: (s, s) for s in (7, 14, 28, 56, 112, 224)}
    k1, k3, k5, k7 = (1, 1), (3, 3), (5, 5), (7, 7)
    yield conv("ResNet", 3, 64, square[224], k7, stride=2)
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        yield conv("ResNet", channels, channels, square[size], k3)
    yield conv("ResNet", 128, 128, square[56], k3, stride=2)
    yield conv("ResNet", 64, 256, square[56], k1, act=False)
    yield conv("ResNet", 256, 64, square[56], k1)
    yield conv("ResNet", 1024, 256, square[14], k1)
    yield conv("ResNet", 512, 2048, square[7], k1, act=False)
    yield conv("ResNet", 256, 512, square[56], k1, stride=2, act=False)
    yield conv("MobileNet", 3, 32, square[224], k3, stride=2)
    yield conv("MobileNet", 32, 32, square[112], k3, groups=32)
    yield conv("MobileNet", 96, 96, square[112], k3, stride=2, groups=96)
    yield conv("MobileNet", 144, 144, square[56], k3, groups=144)
    yield conv("MobileNet", 960, 960, square[7], k3, groups=960)
    yield conv("EfficientNet", 240, 240, square[28], k5, groups=240)
    for channels, size in ((96, 56), (192, 28), (384, 14), (768, 7)):
        yield conv("ConvNeXt", channels, channels, square[size], k7, groups=channels, act=False)
    yield conv("MobileNet", 16, 96, square[112], k1)
    yield conv("MobileNet", 96, 24, square[56], k1, act=False)
    yield conv("MobileNet", 320, 1280, square[7], k1)
    yield conv("ResNeXt", 128, 128, square[56], k3, groups=32)
    yield conv("dilated", 64, 64, square[56], k3, dilation=2)
    yield conv("digits", 1, 8, square[28], k5)
    yield conv("U-Net", 32, 32, (128, 128), k3)
    yield conv("whisper", 80, 384, (3000,), (3,), act=False)
    yield conv("whisper", 384, 384, (3000,), (3,), stride=2, act=False)
    yield conv("wav2vec", 1, 512, (16000,), (10,), stride=5, act=False)
    yield conv("wav2vec", 512, 512, (1599,), (3,), stride=2, act=False)
    yield conv("conformer", 256, 256, (500,), (31,), groups=256, act=False)
    yield conv_transpose(64, 32, 56, 2, 2)
    yield conv_transpose(24, 1, 160, 2, 2)
    yield conv_transpose(128, 64, 16, 4, 2)


# -- pooling ----------------------------------------------------------------------------


def pool(label: str, kind: str, channels: int, size: int, kernel: int, stride: int, pad: int = 0) -> Cell:
    """Maxima or means (padding counts) of square windows over planes."""
    at = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
    attributes = f"kernel_shape = {[kernel] * 2}, strides = {[stride] * 2}, pads = {[pad] * 4}"

    def build(x: Any) -> Any:
        return ops.max_pool(x, **at) if kind == "max" else ops.avg_pool(x, **at, count_include_pad=True)

    def twin(torch: Any, x: Any) -> Any:
        f = torch.nn.functional
        return (f.max_pool2d if kind == "max" else f.avg_pool2d)(x, kernel, stride, pad)

    body = (f"y = MaxPool <{attributes}> (x)" if kind == "max" else
            f"y = AveragePool <{attributes}, count_include_pad = 1> (x)")
    more = (f" s{stride}" if stride > 1 else "") + (f" p{pad}" if pad else "")
    return Cell("pool", f"{label} {kind} {kernel}x{kernel}{more} {channels} at {size}x{size}",
                {"x": normal(1, channels, size, size)}, {}, build, twin, (body,))


def pools() -> Iterator[Cell]:
    """Layers of ResNet, VGG, Inception, SqueezeNet, YOLO and DenseNet, planes of 7x7 to 112x112."""
    yield pool("ResNet", "max", 64, 112, 3, 2, 1)
    yield pool("VGG", "max", 128, 112, 2, 2)
    yield pool("VGG", "max", 512, 28, 2, 2)
    yield pool("VGG", "max", 512, 14, 2, 2)
    yield pool("SqueezeNet", "max", 256, 27, 3, 2)
    yield pool("Inception", "max", 192, 28, 3, 1, 1)
    yield pool("Inception", "max", 480, 14, 3, 1, 1)
    yield pool("Inception", "max", 832, 7, 3, 1, 1)
    yield pool("YOLO", "max", 256, 20, 5, 1, 2)
    yield pool("Inception", "avg", 192, 35, 3, 1, 1)
    yield pool("Inception", "avg", 1280, 8, 3, 1, 1)
    yield pool("DenseNet", "avg", 128, 56, 2, 2)
    yield pool("DenseNet", "avg", 512, 14, 2, 2)
    yield pool("ResNet", "avg", 2048, 7, 7, 1)


# -- attention --------------------------------------------------------------------------


def attention(label: str, heads: int, groups: int, queries: int, keys: int, depth: int, *,
              causal: bool = False) -> Cell:
    """Scaled dot products of [1, heads, length, depth]; `groups` heads of keys."""

    def twin(torch: Any, q: Any, k: Any, v: Any) -> Any:
        more = {"enable_gqa": True} if groups != heads else {}
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **more)

    one = "y = Attention" + (" <is_causal = 1>" if causal else "") + " (q, k, v)"
    bodies = [one]
    if not causal and heads == groups:
        bodies.append("t = Transpose <perm = [0, 1, 3, 2]> (k) m = MatMul(q, t) "
                      f"c = Constant <value_float = {depth**-0.5!r}> () s = Mul(m, c) p = Softmax(s) y = MatMul(p, v)")
    return Cell("attention", f"{label} h{heads}" + ("" if groups == heads else f"/{groups}")
                + f" q{queries} k{keys} d{depth}" + (" causal" if causal else ""),
                {"q": normal(1, heads, queries, depth), "k": normal(1, groups, keys, depth, seed=1),
                 "v": normal(1, groups, keys, depth, seed=2)}, {},
                lambda q, k, v: ops.attention(q, k, v, causal=causal), twin, tuple(bodies), 23)


def packed(label: str, heads: int, length: int, depth: int) -> Cell:
    """Attention of a packed [1, length, 3 * heads * depth] projection, as models hold it."""
    width = heads * depth

    def build(x: Any) -> Any:
        q, k, v = (x[:, :, i * width:(i + 1) * width] for i in range(3))
        return ops.attention(q, k, v, num_heads=heads)

    def twin(torch: Any, x: Any) -> Any:
        q, k, v = (t.view(1, length, heads, depth).transpose(1, 2) for t in x.split(width, 2))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, length, width)

    parts = f"s = Constant <value_ints = {[width] * 3}> () q, k, v = Split <axis = 2> (x, s) "
    heads4 = f"h = Constant <value_ints = {[1, length, heads, depth]}> () " + "".join(
        f"{t}r = Reshape({t}, h) {t}4 = Transpose <perm = {[0, 2, 3, 1] if t == 'k' else [0, 2, 1, 3]}> ({t}r) "
        for t in "qkv")
    plain = (f"m = MatMul(q4, k4) c = Constant <value_float = {depth**-0.5!r}> () z = Mul(m, c) p = Softmax(z) "
             "o = MatMul(p, v4) t = Transpose <perm = [0, 2, 1, 3]> (o) "
             f"f = Constant <value_ints = {[1, length, width]}> () y = Reshape(t, f)")
    return Cell("attention", f"{label} packed h{heads} s{length} d{depth}", {"x": normal(1, length, 3 * width)}, {},
                build, twin,
                (parts + heads4 + plain,
                 parts + f"y = Attention <q_num_heads = {heads}, kv_num_heads = {heads}> (q, k, v)",
                 parts + f"y = com.microsoft.MultiHeadAttention <num_heads = {heads}> (q, k, v)"), 23)


def attentions() -> Iterator[Cell]:
    """Whole sequences, one query against a long past, grouped queries."""
    yield attention("short", 12, 12, 16, 16, 64)
    yield attention("MiniLM", 12, 12, 128, 128, 32)
    yield attention("BERT", 12, 12, 128, 128, 64)
    yield attention("BERT", 12, 12, 512, 512, 64)
    yield attention("GPT-2", 12, 12, 256, 256, 64, causal=True)
    yield attention("Swin", 24, 24, 49, 49, 32)
    yield attention("decode", 12, 12, 1, 1024, 64)
    yield attention("decode", 12, 12, 1, 128, 64)
    yield attention("grouped decode", 32, 8, 1, 1024, 128)
    yield attention("grouped", 32, 8, 128, 128, 64, causal=True)
    yield packed("MiniLM", 12, 128, 32)
    yield packed("BERT", 12, 128, 64)
    yield packed("BERT", 12, 384, 64)


# -- rows -------------------------------------------------------------------------------


def softmax(*shape: int, log: bool = False) -> Cell:
    """Softmax over the last axis."""
    name = "log softmax" if log else "softmax"
    op = ops.log_softmax if log else ops.softmax
    return Cell("softmax", f"{name} {'x'.join(map(str, shape))}", {"x": normal(*shape, scale=2.0)}, {}, lambda x: op(x),
                lambda torch, x: (torch.log_softmax if log else torch.softmax)(x, -1),
                (f"y = {'LogSoftmax' if log else 'Softmax'} <axis = -1> (x)",))


def layer_norm(rows: int, width: int, *, residual: bool = False) -> Cell:
    """Layer norm over the last axis, of a sum if `residual`."""
    inputs = {"x": normal(rows, width)} | ({"r": normal(rows, width, seed=3)} if residual else {})

    def build(x: Any, gamma: Any, beta: Any, r: Any = None) -> Any:
        return ops.layer_norm(x if r is None else x + r, gamma, beta)

    def twin(torch: Any, x: Any, gamma: Any, beta: Any, r: Any = None) -> Any:
        return torch.nn.functional.layer_norm(x if r is None else x + r, (width,), gamma, beta)

    body = "y = LayerNormalization <axis = -1> (x, gamma, beta)"
    if residual:
        body = "s = Add(x, r) y = LayerNormalization <axis = -1> (s, gamma, beta)"
    return Cell("norm", f"layer{' of a sum' if residual else ''} {rows}x{width}", inputs,
                {"gamma": normal(width, seed=1), "beta": normal(width, seed=2)}, build, twin, (body,))


def rms_norm(rows: int, width: int) -> Cell:
    """Root mean square norm over the last axis."""
    decomposed = ("q = Mul(x, x) a = Constant <value_ints = [-1]> () m = ReduceMean(q, a) "
                  "e = Constant <value_float = 0.00001> () n = Add(m, e) s = Sqrt(n) d = Div(x, s) y = Mul(d, gamma)")
    return Cell("norm", f"rms {rows}x{width}", {"x": normal(rows, width)}, {"gamma": normal(width, seed=1)},
                lambda x, gamma: ops.rms_norm(x, gamma, eps=1e-5),
                lambda torch, x, gamma: torch.nn.functional.rms_norm(x, (width,), gamma, 1e-5),
                (decomposed, "y = RMSNormalization <axis = -1, epsilon = 0.00001> (x, gamma)"), 23)


def rows() -> Iterator[Cell]:
    """Softmax and norms."""
    yield softmax(1, 1000)
    yield softmax(64, 1000)
    yield softmax(1536, 128)
    yield softmax(12, 512, 512)
    yield softmax(4096, 16)
    yield softmax(2304, 49)
    yield softmax(8, 32000)
    yield softmax(64, 1000, log=True)
    yield layer_norm(1, 768)
    yield layer_norm(128, 384)
    yield layer_norm(128, 768)
    yield layer_norm(512, 1024)
    yield layer_norm(3136, 96)
    yield layer_norm(128, 384, residual=True)
    yield layer_norm(128, 768, residual=True)
    yield rms_norm(1, 4096)
    yield rms_norm(128, 2048)


# -- elementwise ------------------------------------------------------------------------


def arithmetic(n: int) -> Cell:
    """Eight operations of one cycle each."""
    return Cell(
        "elementwise", f"8 arithmetic {n}", {"x": normal(n), "z": normal(n, seed=1)}, {},
        lambda x, z: ops.abs(ops.max(ops.min((x * z + x) * 0.5 - z, 4.0), -4.0)) * x + z,
        lambda torch, x, z: torch.abs(torch.clamp_min(torch.clamp_max((x * z + x) * 0.5 - z, 4.0), -4.0)) * x + z,
        ("h = Constant <value_float = 0.5> () t = Constant <value_float = 4.0> () u = Constant <value_float = -4.0> () "
         "a = Mul(x, z) b = Add(a, x) c = Mul(b, h) d = Sub(c, z) e = Min(d, t) f = Max(e, u) g = Abs(f) i = Mul(g, x) "
         "y = Add(i, z)",),
    )


def functions(n: int) -> Cell:
    """Eight operations with tanh, sigmoid, exp and sqrt among them."""
    return Cell(
        "elementwise", f"8 functions {n}", {"x": normal(n), "z": normal(n, seed=1)}, {},
        lambda x, z: ops.sqrt(ops.exp(ops.tanh(x * z) * ops.sigmoid(x)) + ops.abs(z)) - x,
        lambda torch, x, z: torch.sqrt(torch.exp(torch.tanh(x * z) * torch.sigmoid(x)) + torch.abs(z)) - x,
        ("a = Mul(x, z) b = Tanh(a) c = Sigmoid(x) d = Mul(b, c) e = Exp(d) f = Abs(z) g = Add(e, f) h = Sqrt(g) "
         "y = Sub(h, x)",),
    )


def activation(label: str, build: Callable[[Any], Any], twin: Callable[[Any, Any], Any], body: str,
               *shape: int) -> Cell:
    """One activation."""
    return Cell("elementwise", f"{label} {'x'.join(map(str, shape))}", {"x": normal(*shape, scale=2.0)}, {},
                lambda x: build(x), twin, (body,))


def bias_gelu(m: int, n: int) -> Cell:
    """gelu(x + row) + residual."""
    return Cell("elementwise", f"gelu(x + row) + r {m}x{n}", {"x": normal(m, n), "r": normal(m, n, seed=1)},
                {"b": normal(n, seed=2)}, lambda x, r, b: ops.gelu(x + b) + r,
                lambda torch, x, r, b: torch.nn.functional.gelu(x + b) + r,
                ("s = Add(x, b) g = Gelu(s) y = Add(g, r)",))


def channel_affine(channels: int, size: int) -> Cell:
    """relu(x * scale + shift) with a number per channel."""
    return Cell("elementwise", f"relu(x * channel + channel) {channels}x{size}x{size}",
                {"x": normal(1, channels, size, size)},
                {"s": normal(channels, 1, 1, seed=1), "t": normal(channels, 1, 1, seed=2)},
                lambda x, s, t: ops.relu(x * s + t), lambda torch, x, s, t: torch.relu(x * s + t),
                ("a = Mul(x, s) b = Add(a, t) y = Relu(b)",))


def elementwise() -> Iterator[Cell]:
    """Chains and activations."""
    for n in (1 << 10, 1 << 14, 1 << 17, 1 << 20):
        yield arithmetic(n)
        yield functions(n)
    yield activation("gelu", ops.gelu, lambda torch, x: torch.nn.functional.gelu(x), "y = Gelu(x)", 128, 3072)
    yield activation("tanh", ops.tanh, lambda torch, x: torch.tanh(x), "y = Tanh(x)", 128, 1024)
    yield activation("silu", ops.silu, lambda torch, x: torch.nn.functional.silu(x), "s = Sigmoid(x) y = Mul(x, s)",
                     64, 4096)
    yield activation("relu", ops.relu, lambda torch, x: torch.relu(x), "y = Relu(x)", 1, 64, 112, 112)
    yield bias_gelu(128, 3072)
    yield channel_affine(64, 56)


CELLS: tuple[Cell, ...] = (*products(), *convolutions(), *pools(), *attentions(), *rows(), *elementwise())
