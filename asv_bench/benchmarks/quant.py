"""Eight-bit arithmetic: conversion, and products as quantised models have them."""

from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import data, simple
from rlx import ops

SCALE, ZERO = np.array(0.05, np.float32), np.array(3, np.uint8)


def _roundtrip(x: Any) -> Any:
    scale, zero = x.graph.constant(SCALE), x.graph.constant(ZERO)
    return ops.dequantize_linear(ops.quantize_linear(x, scale, zero), scale, zero)


class Convert(common.Family):
    """Float to uint8 and back."""

    families = ("quant",)
    cases = {"round trip": simple(_roundtrip, None), "dynamic": simple(ops.dynamic_quantize_linear, None)}
    params = common.axes(cases, ("f32",), [(1000,), (1 << 17,)])


def _dynamic(size: Any, dtype: str) -> Any:
    m, k, n = size
    w = data((k, n), "i8", 1)

    def build(x: Any, w: Any) -> Any:
        q, scale, zero = ops.dynamic_quantize_linear(x)
        return ops.cast(ops.matmul_integer(q, w, zero), dtype="f32") * scale

    return build, [data((m, k), "f32")], [w], None


class Products(common.Family):
    """(m, k, n): a float input quantised on the way, an int8 weight."""

    families = ("quant", "quant_products", "int8")
    cases = {"dynamic": _dynamic}
    params = common.axes(cases, ("i8",), [(1, 384, 384), (128, 384, 1536)])


def _qlinear(size: Any, dtype: str) -> Any:
    channels, side, out, kernel, stride, groups = size
    w = data((out, channels // groups, kernel, kernel), "i8", 1)
    pads = (kernel // 2,) * 4

    def build(x: Any, w: Any) -> Any:
        scale, zero, none = x.graph.constant(SCALE), x.graph.constant(ZERO), x.graph.constant(np.array(0, np.int8))
        return ops.qlinear_conv(x, scale, zero, w, scale, none, scale, zero, pads=pads, strides=(stride, stride),
                                groups=groups)

    return build, [data((1, channels, side, side), "u8")], [w], None


class Convolutions(common.Family):
    """(channels, side, output channels, kernel, stride, groups): codes in, codes out."""

    families = ("quant_products", "int8", "conv")
    cases = {"qlinear": _qlinear}
    params = common.axes(cases, ("i8",), [(64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 1), (16, 24, 32, 3, 1, 1),
                                          (96, 112, 96, 3, 2, 96), (960, 7, 960, 3, 1, 960)])
