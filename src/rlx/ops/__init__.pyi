# Made by tools/gen_reference.py from the table of ops; do not edit.
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rlx.dtypes import DType
from rlx.ir.dims import DimLike
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import OpDef
from rlx.ops.einsum import einsum as einsum
from rlx.ops.fft import dft as dft
from rlx.ops.fft import fftn as fftn
from rlx.ops.fft import window as window
from rlx.ops.movement import arange as arange
from rlx.ops.movement import center_crop_pad as center_crop_pad
from rlx.ops.movement import split as split
from rlx.ops.movement import stack as stack
from rlx.ops.movement import unstack as unstack
from rlx.ops.view import squeeze as squeeze
from rlx.ops.view import unsqueeze as unsqueeze

Operand: TypeAlias = Value | npt.NDArray[Any] | np.generic | complex
DTypeLike: TypeAlias = DType | npt.DTypeLike

TABLE: dict[str, OpDef]
FAMILY: dict[str, str]

def abs(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def acos(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def acosh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def add(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def affine_grid(
    theta: Operand,
    /,
    *,
    size: Sequence[DimLike],
    align_corners: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def argmax(
    x: Operand,
    /,
    *,
    axis: int = 0,
    keepdims: bool = False,
    select_last: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def argmin(
    x: Operand,
    /,
    *,
    axis: int = 0,
    keepdims: bool = False,
    select_last: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def argsort(
    x: Operand,
    /,
    *,
    axis: int = -1,
    descending: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def asin(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def asinh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def atan(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def atan2(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def atanh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def attention(
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None = None,
    lens: Operand | None = None,
    /,
    *,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    causal: bool = False,
    past: int | None = None,
    window: int | None = None,
    lens_past: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def avg_pool(
    x: Operand,
    /,
    *,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def batch_norm(
    x: Operand,
    gamma: Operand,
    beta: Operand,
    mean: Operand,
    var: Operand,
    /,
    *,
    eps: float = 1e-05,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def bernoulli(
    p: Operand,
    /,
    *,
    dtype: DTypeLike = ...,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def bit_and(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def bit_not(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def bit_or(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def bit_xor(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cache_append(
    cache: Operand,
    rows: Operand,
    length: Operand,
    /,
    *,
    axis: int,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def cast(
    x: Operand,
    /,
    *,
    dtype: DTypeLike,
    saturate: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def ceil(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def celu(
    x: Operand,
    /,
    *,
    alpha: float = 1.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def clip(
    x: Operand,
    /,
    *,
    lo: float = ...,
    hi: float = ...,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def col2im(
    x: Operand,
    /,
    *,
    image_shape: int | Sequence[int],
    block_shape: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def compress(
    x: Operand,
    condition: Operand,
    /,
    *,
    axis: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def concat(
    *xs: Operand | Sequence[Operand],
    axis: int,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cond(
    pred: Operand,
    /,
    *captures: Operand | Sequence[Operand],
    then: Any,
    orelse: Any,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def conj(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def conv(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    groups: int = 1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def conv_integer(
    x: Operand,
    w: Operand,
    x_zero: Operand | None = None,
    w_zero: Operand | None = None,
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    groups: int = 1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def conv_transpose(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    output_padding: int | Sequence[int] | None = None,
    groups: int = 1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cos(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def cosh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def cummax(
    x: Operand,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cummin(
    x: Operand,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cumprod(
    x: Operand,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def cumsum(
    x: Operand,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def depth_to_space(
    x: Operand,
    /,
    *,
    block: int,
    mode: Literal['DCR', 'CRD'] = 'DCR',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def dequantize_linear(
    x: Operand,
    scale: Operand,
    zero: Operand | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def det(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def div(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def dropout(
    x: Operand,
    /,
    *,
    ratio: float = 0.5,
    training: bool = False,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def dynamic_quantize_linear(
    x: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def dynamic_quantize_lstm(
    x: Operand,
    w: Operand,
    r: Operand,
    w_scale: Operand,
    r_scale: Operand,
    w_zero: Operand | None = None,
    r_zero: Operand | None = None,
    b: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    initial_c: Operand | None = None,
    p: Operand | None = None,
    /,
    *,
    direction: Literal['forward', 'reverse', 'bidirectional'] = 'forward',
    activations: Any | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float = 0.0,
    input_forget: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def elu(
    x: Operand,
    /,
    *,
    alpha: float = 1.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def eq(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def erf(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def erfc(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def exp(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def exp2(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def expand(
    x: Operand,
    /,
    *,
    shape: Sequence[DimLike],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def expm1(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def eye(
    *,
    shape: Sequence[DimLike],
    k: int = 0,
    dtype: DTypeLike = ...,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def fft(
    x: Operand,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Literal['backward', 'ortho', 'forward'] = 'backward',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def flip(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def floor(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def floor_div(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def fma(
    a: Operand,
    b: Operand,
    c: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def fmod(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def gather(
    x: Operand,
    indices: Operand,
    /,
    *,
    axis: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def gather_elements(
    x: Operand,
    indices: Operand,
    /,
    *,
    axis: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def gather_nd(
    x: Operand,
    indices: Operand,
    /,
    *,
    batch_dims: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def ge(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def gelu(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def gelu_tanh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def gemm(
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def grid_sample(
    x: Operand,
    grid: Operand,
    /,
    *,
    mode: Literal['nearest', 'linear', 'cubic'] = 'linear',
    padding_mode: Literal['zeros', 'border', 'reflection'] = 'zeros',
    align_corners: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def group_norm(
    x: Operand,
    gamma: Operand | None = None,
    beta: Operand | None = None,
    /,
    *,
    num_groups: int,
    eps: float = 1e-05,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def gru(
    x: Operand,
    w: Operand,
    r: Operand,
    b: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    /,
    *,
    direction: Literal['forward', 'reverse', 'bidirectional'] = 'forward',
    layout: int = 0,
    activations: Any | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float = 0.0,
    linear_before_reset: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def gt(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def hard_sigmoid(
    x: Operand,
    /,
    *,
    alpha: float = 0.2,
    beta: float = 0.5,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def hard_swish(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def hold(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def ifft(
    x: Operand,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Literal['backward', 'ortho', 'forward'] = 'backward',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def imag(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def instance_norm(
    x: Operand,
    gamma: Operand | None = None,
    beta: Operand | None = None,
    /,
    *,
    eps: float = 1e-05,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def inverse(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def iota(
    *,
    shape: Sequence[DimLike],
    start: Any = 0,
    step: Any = 1,
    dtype: DTypeLike = ...,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def irfft(
    x: Operand,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Literal['backward', 'ortho', 'forward'] = 'backward',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def isfinite(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def isinf(
    x: Operand,
    /,
    *,
    negative: bool = True,
    positive: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def isnan(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def layer_norm(
    x: Operand,
    gamma: Operand | None = None,
    beta: Operand | None = None,
    /,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def le(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def leaky_relu(
    x: Operand,
    /,
    *,
    alpha: float = 0.01,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def log(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def log10(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def log1p(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def log2(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def log_sigmoid(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def log_softmax(
    x: Operand,
    /,
    *,
    axis: int = -1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def logical_and(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def logical_not(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def logical_or(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def logical_xor(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def loop(
    trips: Operand | None = None,
    start: Operand | None = None,
    /,
    *values: Operand | Sequence[Operand],
    body: Any,
    n_carried: int,
    bound: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def lp_norm(
    x: Operand,
    /,
    *,
    axis: int = -1,
    p: int = 2,
    eps: float = 0.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def lp_pool(
    x: Operand,
    /,
    *,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
    p: float = 2.0,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def lrn(
    x: Operand,
    /,
    *,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def lstm(
    x: Operand,
    w: Operand,
    r: Operand,
    b: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    initial_c: Operand | None = None,
    p: Operand | None = None,
    /,
    *,
    direction: Literal['forward', 'reverse', 'bidirectional'] = 'forward',
    layout: int = 0,
    activations: Any | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float = 0.0,
    input_forget: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def lt(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def make_complex(
    re: Operand,
    im: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def matmul(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def matmul_integer(
    a: Operand,
    b: Operand,
    a_zero: Operand | None = None,
    b_zero: Operand | None = None,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def matmul_nbits(
    a: Operand,
    codes: Operand,
    scale: Operand,
    zero: Operand | None = None,
    bias: Operand | None = None,
    /,
    *,
    bits: int,
    block_size: int,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def max(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def max_pool(
    x: Operand,
    /,
    *,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
    layout: Literal['nchw', 'nhwc'] = 'nchw',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def max_pool_indices(
    x: Operand,
    /,
    *,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
    storage_order: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def max_unpool(
    x: Operand,
    indices: Operand,
    /,
    *,
    shape: Sequence[DimLike],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def mean_variance_norm(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    eps: float = 1e-09,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def min(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def mish(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def mod(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def moments(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def mul(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def multinomial(
    logits: Operand,
    /,
    *,
    samples: int = 1,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def ne(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def neg(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def nll_loss(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    /,
    *,
    reduction: Literal['mean', 'sum', 'none'] = 'mean',
    ignore_index: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def non_max_suppression(
    boxes: Operand,
    scores: Operand,
    max_output: Operand | None = None,
    iou_threshold: Operand | None = None,
    score_threshold: Operand | None = None,
    /,
    *,
    center_point_box: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def nonzero(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def one_hot(
    indices: Operand,
    values: Operand,
    /,
    *,
    depth: int,
    axis: int = -1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def pad(
    x: Operand,
    /,
    *,
    before: int | Sequence[int],
    after: int | Sequence[int],
    mode: Literal['constant', 'edge', 'reflect', 'wrap'] = 'constant',
    value: Any = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def pow(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def qlinear_conv(
    x: Operand,
    x_scale: Operand,
    x_zero: Operand,
    w: Operand,
    w_scale: Operand,
    w_zero: Operand,
    y_scale: Operand,
    y_zero: Operand,
    b: Operand | None = None,
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    groups: int = 1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def qlinear_matmul(
    a: Operand,
    a_scale: Operand,
    a_zero: Operand,
    b: Operand,
    b_scale: Operand,
    b_zero: Operand,
    y_scale: Operand,
    y_zero: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def quantize_linear(
    x: Operand,
    scale: Operand,
    zero: Operand | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: DTypeLike | None = None,
    saturate: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def randint(
    *,
    shape: Sequence[DimLike],
    low: int,
    high: int,
    dtype: DTypeLike = ...,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def random_normal(
    *,
    shape: Sequence[DimLike],
    dtype: DTypeLike = ...,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def random_uniform(
    *,
    shape: Sequence[DimLike],
    dtype: DTypeLike = ...,
    low: float = 0.0,
    high: float = 1.0,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def real(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def recip(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def reduce_all(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_any(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_l1(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_l2(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_log_sum(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_log_sum_exp(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_max(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_mean(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_min(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_prod(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_sum(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reduce_sum_square(
    x: Operand,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    keepdims: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def relu(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def repeat(
    x: Operand,
    /,
    *,
    repeats: int | Sequence[int],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def reshape(
    x: Operand,
    /,
    *,
    shape: Sequence[DimLike],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def resize(
    x: Operand,
    /,
    *,
    sizes: Sequence[DimLike] | None = None,
    scales: Sequence[float] | None = None,
    roi: Sequence[float] | None = None,
    mode: Literal['nearest', 'linear', 'cubic'] = 'nearest',
    coordinate_transformation_mode: Literal['half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'align_corners', 'asymmetric', 'tf_half_pixel_for_nn', 'tf_crop_and_resize'] = 'half_pixel',
    nearest_mode: Literal['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] = 'round_prefer_floor',
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def rfft(
    x: Operand,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Literal['backward', 'ortho', 'forward'] = 'backward',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def rms_norm(
    x: Operand,
    gamma: Operand | None = None,
    /,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def rnn(
    x: Operand,
    w: Operand,
    r: Operand,
    b: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    /,
    *,
    direction: Literal['forward', 'reverse', 'bidirectional'] = 'forward',
    layout: int = 0,
    activations: Any | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float = 0.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def roi_align(
    x: Operand,
    rois: Operand,
    items: Operand,
    /,
    *,
    output_size: int | Sequence[int],
    mode: Literal['avg', 'max'] = 'avg',
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    half_pixel: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def roll(
    x: Operand,
    /,
    *,
    shifts: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def rotary_embedding(
    x: Operand,
    cos: Operand,
    sin: Operand,
    positions: Operand | None = None,
    /,
    *,
    interleaved: bool = False,
    num_heads: int | None = None,
    rotary_dim: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def round(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def rsqrt(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def sample(
    logits: Operand,
    /,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def scan(
    *values: Operand | Sequence[Operand],
    body: Any,
    n_carried: int,
    n_xs: int,
    length: int | None = None,
    reverse: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def scatter_elements(
    x: Operand,
    indices: Operand,
    updates: Operand,
    /,
    *,
    axis: int = 0,
    reduction: Literal['none', 'add', 'mul', 'max', 'min'] = 'none',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def scatter_nd(
    x: Operand,
    indices: Operand,
    updates: Operand,
    /,
    *,
    reduction: Literal['none', 'add', 'mul', 'max', 'min'] = 'none',
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def search_sorted(
    sorted: Operand,
    values: Operand,
    /,
    *,
    right: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def selu(
    x: Operand,
    /,
    *,
    alpha: float = 1.6732632423543772,
    gamma: float = 1.0507009873554805,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def shl(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def shr(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def shrink(
    x: Operand,
    /,
    *,
    lambd: float = 0.5,
    bias: float = 0.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def sigmoid(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def sign(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def silu(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def sin(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def sinh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def slice(
    x: Operand,
    /,
    *,
    starts: int | Sequence[int],
    stops: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def softmax(
    x: Operand,
    /,
    *,
    axis: int = -1,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def softmax_cross_entropy(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    /,
    *,
    reduction: Literal['mean', 'sum', 'none'] = 'mean',
    ignore_index: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def softplus(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def softsign(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def sort(
    x: Operand,
    /,
    *,
    axis: int = -1,
    descending: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def space_to_depth(
    x: Operand,
    /,
    *,
    block: int,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def sqrt(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def square(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def stft(
    x: Operand,
    window: Operand | None = None,
    /,
    *,
    n: int,
    hop: int,
    onesided: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def sub(
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def swish(
    x: Operand,
    /,
    *,
    alpha: float = 1.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def tan(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def tanh(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def thresholded_relu(
    x: Operand,
    /,
    *,
    alpha: float = 1.0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def tile(
    x: Operand,
    /,
    *,
    reps: Sequence[DimLike],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def topk(
    x: Operand,
    /,
    *,
    k: int,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def transpose(
    x: Operand,
    /,
    *,
    perm: int | Sequence[int],
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def tree_ensemble(
    x: Operand,
    nodes: Operand,
    roots: Operand,
    leaf_offsets: Operand,
    leaf_targets: Operand,
    leaf_weights: Operand,
    members: Operand | None = None,
    base: Operand | None = None,
    /,
    *,
    trees: int,
    targets: int,
    features: int,
    general: bool = False,
    single: bool = False,
    aggregate: Literal['sum', 'average', 'min', 'max'] = 'sum',
    post: Literal['none', 'logistic', 'softmax', 'softmax_zero', 'probit'] = 'none',
    binary: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value]: ...
def trilu(
    x: Operand,
    /,
    *,
    upper: bool = True,
    k: int = 0,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def trunc(x: Operand, /, *, graph: Graph | None = None, name: str | None = None) -> Value: ...
def unique(
    x: Operand,
    /,
    *,
    axis: int | None = None,
    sorted: bool = True,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value, Value]: ...
def view_as_complex(
    x: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def view_as_real(
    x: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
def where(
    condition: Operand,
    a: Operand,
    b: Operand,
    /,
    *,
    graph: Graph | None = None,
    name: str | None = None,
) -> Value: ...
