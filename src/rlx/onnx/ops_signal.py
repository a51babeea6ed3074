"""Fourier transforms and the mel scale."""

from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext, dim
from rlx.onnx.registry import onnx_op


def _plain(v: Value) -> Any:
    """The operand as f32 or f64."""
    return v if v.dtype in (dtypes.f32, dtypes.f64) else ops.cast(v, dtype=dtypes.f32)


def _unpaired(x: Value) -> Any:
    """Real numbers, or complex ones from pairs on the last axis."""
    if x.rank < 2 or dim(x, x.rank - 1) not in (1, 2):
        raise FormatError(f"the last axis must hold a real number or a pair, got shape {list(x.shape)}")
    x = _plain(x)
    return ops.view_as_complex(x) if dim(x, x.rank - 1) == 2 else ops.reshape(x, shape=x.shape[:-1])


def _paired(y: Value, like: Value) -> Any:
    pairs = ops.view_as_real(y) if y.dtype.is_complex else ops.unsqueeze(y, axes=(y.rank,))
    return pairs if pairs.dtype == like.dtype else ops.cast(pairs, dtype=like.dtype)


def _mirrored(half: Value, length: int, axis: int) -> Any:
    """The whole transform of real values from its first half."""
    if length < 3:
        return half
    back = ops.slice(half, starts=((length - 1) // 2,), stops=(0,), axes=(axis,), steps=(-1,))
    return ops.concat(half, ops.conj(back), axis=axis)


@onnx_op("DFT")
def _dft(n: NodeContext) -> Any:
    length = n.opt_scalar(1)
    axis = n.int("axis", 1) if n.opset < 20 else n.opt_scalar(2, -2)
    inverse, onesided = bool(n.int("inverse", 0)), bool(n.int("onesided", 0))
    x = n.x(0)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis < x.rank - 1:
        raise FormatError(f"axis must be in [0, {x.rank - 1}), got {axis}")
    values = _unpaired(x)
    if inverse and onesided:
        return _paired(ops.irfft(values, n=length, axis=axis), x)
    if onesided and not values.dtype.is_complex:
        return _paired(ops.rfft(values, n=length, axis=axis), x)
    if not inverse and not values.dtype.is_complex:
        return _paired(_mirrored(ops.rfft(values, n=length, axis=axis), length or dim(values, axis), axis), x)
    y = (ops.ifft if inverse else ops.fft)(values, n=length, axis=axis)
    if onesided:
        y = ops.slice(y, starts=(0,), stops=(dim(y, axis) // 2 + 1,), axes=(axis,))
    return _paired(y, x)


@onnx_op("STFT")
def _stft(n: NodeContext) -> Any:
    hop, given = int(n.scalar(1)), n.opt_scalar(3)
    signal, window = n.x(0), n.opt(2)
    length = int(given) if given is not None else dim(window, 0) if window is not None else 0
    onesided = bool(n.int("onesided", 1))
    x = _unpaired(signal) if signal.rank == 3 else _plain(signal)
    w = (
        None
        if window is None
        else ops.cast(window, dtype=dtypes.f64 if x.dtype in (dtypes.f64, dtypes.c128) else dtypes.f32)
    )
    if not x.dtype.is_complex:
        return _paired(ops.stft(x, w, n=length, hop=hop, onesided=onesided), signal)
    frames = (dim(x, 1) - length) // hop + 1
    places = (np.arange(frames)[:, None] * hop + np.arange(length)[None, :]).astype(np.int64)
    parts = ops.gather(x, n.constant(places), axis=1)
    y = ops.fft(parts if w is None else ops.mul(parts, ops.cast(w, dtype=x.dtype)))
    return _paired(ops.slice(y, starts=(0,), stops=(length // 2 + 1,), axes=(2,)) if onesided else y, signal)


@onnx_op("MelWeightMatrix")
def _mel(n: NodeContext) -> Any:
    bins, size, rate = int(n.scalar(0)), int(n.scalar(1)), int(n.scalar(2))
    low, high = float(n.scalar(3)), float(n.scalar(4))
    kind = n.type_attr("output_datatype", dtypes.f32.onnx)
    if not 0 < bins < 1 << 16 or not 0 < size < 1 << 24 or rate <= 0:
        raise FormatError(f"bins, length and rate must be positive, got {bins}, {size} and {rate}")
    mel = 2595 * np.log10(1 + np.asarray([low, high]) / 700)
    step = (mel[1] - mel[0]) / (bins + 2)
    edges = 700 * (10 ** ((np.arange(bins + 2) * step + mel[0]) / 2595) - 1)
    places = ((size + 1) * edges // rate).astype(np.int64)
    result = np.zeros((size // 2 + 1, bins))
    for i in range(bins):
        first, peak, last = places[i : i + 3]
        if peak == first:
            result[min(peak, size // 2), i] = 1
        else:
            for j in range(first, min(peak + 1, size // 2 + 1)):
                result[j, i] = (j - first) / (peak - first)
        for j in range(peak, min(last, size // 2 + 1)):
            if last != peak:
                result[j, i] = (last - j) / (last - peak)
    return result.astype(kind.numpy)
