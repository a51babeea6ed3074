"""Fourier transforms and the mel scale."""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import onnx_op


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
