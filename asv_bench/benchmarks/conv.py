"""Convolutions as networks have them: first layer, 3x3, pointwise, depthwise."""

from typing import Any

from benchmarks import common
from benchmarks.common import data, simple
from rlx import ops

# input channels, output channels, size of the image, kernel, stride, groups
LAYERS = {
    "first": (3, 32, 224, 3, 2, 1),
    "3x3": (64, 64, 56, 3, 1, 1),
    "pointwise": (128, 128, 28, 1, 1, 1),
    "depthwise": (96, 96, 56, 3, 1, 96),
    "late 3x3": (256, 256, 14, 3, 1, 1),
    "wide pointwise": (16, 96, 112, 1, 1, 1),
    "strided depthwise": (96, 96, 112, 3, 2, 96),
    "grouped": (128, 128, 56, 3, 1, 32),
}


def _layer(name: str, dtype: str) -> Any:
    c, o, size, k, stride, groups = LAYERS[name]

    def build(x: Any, w: Any, b: Any) -> Any:
        pad = k // 2
        return ops.relu(ops.conv(x, w, b, strides=(stride, stride), pads=(pad, pad, pad, pad), groups=groups))

    weights = [data((o, c // groups, k, k), dtype, 1), data((o,), dtype, 2)]
    return build, [data((1, c, size, size), dtype)], weights, None


def _upscale(name: str, dtype: str) -> Any:
    c, o, size, *_ = LAYERS[name]
    weights = [data((c, o, 2, 2), dtype, 1), data((o,), dtype, 2)]
    images = [data((1, c, size, size), dtype)]
    return (lambda x, w, b: ops.conv_transpose(x, w, b, strides=(2, 2))), images, weights, None


class Conv(common.Family):
    """Layers by name, and their transposes of 2x2 with stride 2. Each stands alone: images are channels first."""

    families = ("conv",)
    cases = {"conv relu": _layer, "transposed": _upscale}
    params = common.axes(cases, ("f32",), list(LAYERS))


class Pool(common.Family):
    """Images of networks, pooled and scaled."""

    families = ("pool", "resize")
    cases = {
        "max 2x2": simple(lambda x: ops.max_pool(x, kernel=(2, 2), strides=(2, 2)), None),
        "average 3x3": simple(lambda x: ops.avg_pool(x, kernel=(3, 3), strides=(1, 1)), None),
        "nearest x2": simple(lambda x: ops.resize(x, scales=(1.0, 1.0, 2.0, 2.0)), None),
        "linear x2": simple(lambda x: ops.resize(x, scales=(1.0, 1.0, 2.0, 2.0), mode="linear"), None),
    }
    params = common.axes(cases, ("f32",), [(1, 64, 56, 56), (1, 16, 224, 224)])
