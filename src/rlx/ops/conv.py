"""Convolutions over 1 to 3 spatial axes, channels first; the channels-last forms are made by passes."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.dtypes import FLOATS, DType, f32
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank, same_dtype
from rlx.ops.matmul import PRODUCT, Epilogue, epilogue_types, run_epilogue, stored_as
from rlx.records import record

GEOMETRY = (Attr("strides", "ints", None), Attr("pads", "ints", None), Attr("dilations", "ints", None),
            Attr("groups", "int", 1))


@record(eq=False)
class Geometry:
    """Attributes of a convolution with the defaults filled in."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int

    def __init__(
        self, strides: tuple[int, ...], pads: tuple[int, ...], dilations: tuple[int, ...], groups: int
    ) -> None:
        self.strides = strides
        self.pads = pads
        self.dilations = dilations
        self.groups = groups


def geometry(op: str, n: int, strides: Sequence[int] | None, pads: Sequence[int] | None,
             dilations: Sequence[int] | None, groups: int) -> Geometry:
    """Check the attributes of a convolution with n spatial axes.

    Raises
    ------
    TypeRuleError
        A list has the wrong length or a number is out of range.
    """
    found = Geometry(tuple(strides or (1,) * n), tuple(pads or (0,) * 2 * n), tuple(dilations or (1,) * n), groups)
    for name, values, want, least in (("strides", found.strides, n, 1), ("pads", found.pads, 2 * n, 0),
                                      ("dilations", found.dilations, n, 1)):
        if len(values) != want:
            raise TypeRuleError(f"{op}: {name} must have {want} numbers, got {list(values)}")
        for v in values:
            if v < least:
                raise TypeRuleError(f"{op}: {name} must be >= {least}, got {list(values)}")
    if groups < 1:
        raise TypeRuleError(f"{op}: groups must be >= 1, got {groups}")
    return found


def window_size(op: str, size: AnyDim, kernel: int, stride: int, before: int, after: int, dilation: int) -> AnyDim:
    """Number of places of a window on an axis."""
    room = size + (before + after - (kernel - 1) * dilation - 1)
    if isinstance(room, int) and room < 0:
        if size == 0:
            return 0
        raise TypeRuleError(f"{op}: the kernel must fit the padded input, got kernel {kernel} (dilation {dilation})"
                            f" and size {size} with pads {before}, {after}")
    return room // stride + 1


def conv_type(op: str, x: TensorType, w: TensorType, b: TensorType | None, at: dict[str, Any]) -> TensorType:
    """Type of a channels-first convolution; rules shared by the float, integer and quantised ones."""
    require_rank(op, x, 3, 5, "x")
    if w.rank != x.rank:
        raise TypeRuleError(f"{op}: rank of w must be that of x, got {x} and {w}")
    n = x.rank - 2
    g = geometry(op, n, at["strides"], at["pads"], at["dilations"], at["groups"])
    kernel = [d for d in w.shape if isinstance(d, int)][2:]
    if len(kernel) < n:
        raise TypeRuleError(f"{op}: sizes of w must be numbers, got {w}")
    for k in kernel:
        if k < 1:
            raise TypeRuleError(f"{op}: kernel sizes must be >= 1, got {w}")
    if x.shape[1] != w.shape[1] * g.groups:
        raise TypeRuleError(f"{op}: channels of x must be groups * w.shape[1] = {w.shape[1] * g.groups}, got {x}")
    if isinstance(w.shape[0], int) and w.shape[0] % g.groups:
        raise TypeRuleError(f"{op}: output channels must divide by groups {g.groups}, got {w}")
    if b is not None and b.shape != w.shape[:1]:
        raise TypeRuleError(f"{op}: b must have shape [{w.shape[0]}], got {b}")
    spatial = [window_size(op, x.shape[2 + i], kernel[i], g.strides[i], g.pads[i], g.pads[i + n], g.dilations[i])
               for i in range(n)]
    return x.with_shape((x.shape[0], w.shape[0], *spatial))


def _infer_conv(x: TensorType, w: TensorType, b: TensorType | None = None, **at: Any) -> tuple[TensorType, ...]:
    require_dtype("conv", same_dtype("conv", [t for t in (x, w, b) if t is not None]), FLOATS)
    return (conv_type("conv", x, w, b, at),)


def conv_reference(x: Array, w: Array, b: Array | None, strides: Sequence[int] | None, pads: Sequence[int] | None,
                   dilations: Sequence[int] | None, groups: int) -> Array:
    """Convolution as a sum over the taps of the kernel."""
    n = x.ndim - 2
    g = geometry("conv", n, strides, pads, dilations, groups)
    out = conv_type("conv", TensorType.of(FLOATS[0], x.shape), TensorType.of(FLOATS[0], w.shape), None,
                    {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups})
    spatial = [int(d) for d in out.shape[2:] if isinstance(d, int)]
    x = np.pad(x, [(0, 0), (0, 0), *((g.pads[i], g.pads[i + n]) for i in range(n))])
    batch, channels = x.shape[:2]
    per, oc = channels // groups, w.shape[0] // groups
    y = np.zeros((batch, groups, oc, *spatial), x.dtype)
    weights = w.reshape(groups, oc, per, *w.shape[2:])
    for tap in itertools.product(*(range(k) for k in w.shape[2:])):
        at = tuple(slice(t * d, t * d + max(0, (o - 1) * s + 1), s)
                   for t, d, o, s in zip(tap, g.dilations, spatial, g.strides, strict=True))
        where: Any = (..., *tap)
        part = x[(slice(None), slice(None), *at)].reshape(batch, groups, per, *spatial)
        y += np.einsum("ngc...,goc->ngo...", part, weights[where])
    y = y.reshape(batch, w.shape[0], *spatial)
    return np.asarray(y if b is None else y + b.reshape(-1, *(1,) * n))


def _conv(x: Array, w: Array, b: Array | None = None, *, strides: Any, pads: Any, dilations: Any, groups: int) -> Array:
    return conv_reference(x, w, b, strides, pads, dilations, groups)


CONV_CASES: list[tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = [
    ((1, 3, 7, 7), (8, 3, 3, 3), True, {"pads": (1, 1, 1, 1)}),
    ((2, 4, 6, 5), (17, 4, 1, 1), False, {}),
    ((1, 4, 9, 8), (6, 4, 3, 2), True, {"strides": (2, 1), "pads": (0, 1, 2, 0), "dilations": (2, 3)}),
    ((1, 6, 8, 8), (6, 1, 3, 3), True, {"pads": (1, 1, 1, 1), "groups": 6}),
    ((2, 6, 5, 5), (12, 1, 3, 3), False, {"groups": 6, "strides": (2, 2)}),
    ((1, 8, 5, 6), (4, 2, 3, 3), True, {"groups": 4}),
    ((2, 5, 20), (7, 5, 4), True, {"pads": (2, 1), "strides": (3,)}),
    ((1, 1, 33), (3, 1, 5), False, {}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), True, {"pads": (1, 0, 1, 0, 1, 1), "strides": (1, 2, 1)}),
    ((1, 5, 1, 1), (6, 5, 1, 1), True, {}),
    ((0, 3, 5, 5), (4, 3, 3, 3), True, {}),
    ((1, 33, 6, 19), (35, 33, 3, 3), True, {"pads": (1, 1, 1, 1)}),
]


def _conv_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [Sample((data(rng, dtype, *x, low=-2, high=2), data(rng, dtype, *w, low=-1, high=1),
                    data(rng, dtype, w[0]) if bias else None), attrs) for x, w, bias, attrs in CONV_CASES]


def _conv_errors() -> list[ErrorSample]:
    x, w = np.zeros((1, 4, 5, 5), np.float32), np.zeros((6, 4, 3, 3), np.float32)
    return [
        ErrorSample((x, w[:, :3]), {}, "channels of x"),
        ErrorSample((x, w, np.zeros(5, np.float32)), {}, "b must have shape"),
        ErrorSample((x, w), {"strides": (1,)}, "strides must have 2"),
        ErrorSample((x, w), {"pads": (-1, 0, 0, 0)}, "pads must be"),
        ErrorSample((x, w[:, :2]), {"groups": 4}, "channels of x"),
        ErrorSample((x[:, :, :2], w), {}, "must fit"),
        ErrorSample((x, w[:, :, 0]), {}, "rank"),
        ErrorSample((x, w.astype(np.float64)), {}, "types must match"),
        ErrorSample((x, w[:, :1][:5]), {"groups": 4}, "output channels"),
        ErrorSample((x, w), {"strides": (0, 1)}, "strides must be"),
    ]


conv = OpDef(
    "conv", ("x", "w", "b?"), _infer_conv, _conv,
    "Convolution of x [N, C, spatial...] with w [OC, C / groups, kernel...]; pads: (before..., after...).",
    attrs=GEOMETRY, dtypes=FLOATS, samples=_conv_samples, errors=_conv_errors, tolerance=PRODUCT,
)


def first(t: TensorType) -> TensorType:
    """A channels-last type as channels first."""
    return t.with_shape((t.shape[0], t.shape[-1], *t.shape[1:-1]))


def last(t: TensorType) -> TensorType:
    """A channels-first type as channels last."""
    return t.with_shape((t.shape[0], *t.shape[2:], t.shape[1]))


def _infer_nhwc(x: TensorType, w: TensorType, b: TensorType | None = None, *extras: TensorType, epilogue: Epilogue,
                winograd: bool, **at: Any) -> tuple[TensorType, ...]:
    (y,) = _infer_conv(first(x), stored_as(x, w), b, **at)
    return (epilogue_types("conv_nhwc", last(y), extras, epilogue),)


def _nhwc(
    x: Array, w: Array, b: Array | None = None, *extras: Array, epilogue: Epilogue, winograd: bool, **at: Any
) -> Array:
    y = conv_reference(np.moveaxis(x, -1, 1), w.astype(x.dtype, copy=False), b, **at)
    return run_epilogue(np.moveaxis(y, 1, -1), extras, epilogue)


conv_nhwc = OpDef(
    "conv_nhwc",
    ("x", "w", "b?", "extras*"),
    _infer_nhwc,
    _nhwc,
    "conv of x [N, spatial..., C], then elementwise steps on the tile; winograd: by transforms of 4x4 tiles.",
    attrs=(*GEOMETRY, Attr("epilogue", "any", ()), Attr("winograd", "bool", False)),
    dtypes=FLOATS,
    tolerance=PRODUCT,
    internal=True,
)


def _infer_alone(x: TensorType, w: TensorType, b: TensorType | None = None, *extras: TensorType, epilogue: Epilogue,
                 **at: Any) -> tuple[TensorType, ...]:
    (y,) = _infer_conv(x, w, b, **at)
    return (epilogue_types("conv_alone", y, extras, epilogue),)


def _alone(x: Array, w: Array, b: Array | None = None, *extras: Array, epilogue: Epilogue, **at: Any) -> Array:
    return run_epilogue(conv_reference(x, w, b, **at), extras, epilogue)


conv_alone = OpDef(
    "conv_alone", ("x", "w", "b?", "extras*"), _infer_alone, _alone,
    "conv of x [N, C, spatial...] among ops of that order, then elementwise steps on the tile.",
    attrs=(*GEOMETRY, Attr("epilogue", "any", ())), dtypes=(f32,), tolerance=PRODUCT, internal=True,
)


# -- transposed convolution -----------------------------------------------------------


def transposed_type(op: str, x: TensorType, w: TensorType, b: TensorType | None, at: dict[str, Any]) -> TensorType:
    """Type of a channels-first transposed convolution."""
    require_rank(op, x, 3, 5, "x")
    if w.rank != x.rank:
        raise TypeRuleError(f"{op}: rank of w must be that of x, got {x} and {w}")
    n = x.rank - 2
    g = geometry(op, n, at["strides"], at["pads"], at["dilations"], at["groups"])
    extra = tuple(at["output_padding"] or (0,) * n)
    if len(extra) != n or any(e < 0 for e in extra):
        raise TypeRuleError(f"{op}: output_padding must have {n} numbers >= 0, got {list(extra)}")
    if any(e >= max(s, d) for e, s, d in zip(extra, g.strides, g.dilations, strict=True)):
        raise TypeRuleError(f"{op}: output_padding must be below the stride or dilation, got {list(extra)}")
    if any(not isinstance(d, int) for d in w.shape) or any(isinstance(k, int) and k < 1 for k in w.shape[2:]):
        raise TypeRuleError(f"{op}: sizes of w must be numbers, those of the kernel >= 1, got {w}")
    if x.shape[1] != w.shape[0] or (isinstance(w.shape[0], int) and w.shape[0] % g.groups):
        raise TypeRuleError(f"{op}: channels of x must be those of w and divide by groups {g.groups}, got {x} and {w}")
    channels = w.shape[1] * g.groups
    if b is not None and b.shape != (channels,):
        raise TypeRuleError(f"{op}: b must have shape [{channels}], got {b}")
    spatial: list[AnyDim] = []
    for i in range(n):
        size, kernel = x.shape[2 + i], w.shape[2 + i]
        total = (size - 1) * g.strides[i] + (kernel - 1) * g.dilations[i] + 1 + extra[i] - g.pads[i] - g.pads[i + n]
        if isinstance(total, int) and total < 0:
            if size != 0:
                raise TypeRuleError(
                    f"{op}: pads must not exceed the result, got {list(g.pads)} for size {size} and kernel {kernel}"
                )
            total = 0
        spatial.append(total)
    return x.with_shape((x.shape[0], channels, *spatial))


def _infer_transposed(x: TensorType, w: TensorType, b: TensorType | None = None, **at: Any) -> tuple[TensorType, ...]:
    op = "conv_transpose"
    require_dtype(op, same_dtype(op, [t for t in (x, w, b) if t is not None]), FLOATS)
    return (transposed_type(op, x, w, b, at),)


def transposed_reference(
    x: Array, w: Array, b: Array | None, strides: Any, pads: Any, dilations: Any, output_padding: Any, groups: int
) -> Array:
    """Each input element adds the kernel, scaled, into the result; pads crop it."""
    n = x.ndim - 2
    g = geometry("conv_transpose", n, strides, pads, dilations, groups)
    extra = tuple(output_padding or (0,) * n)
    batch, channels = x.shape[:2]
    per, oc = channels // groups, w.shape[1]
    size = x.shape[2:]
    full = [max(0, (d - 1) * s + (k - 1) * gap + 1) + e
            for d, s, k, gap, e in zip(size, g.strides, w.shape[2:], g.dilations, extra, strict=True)]
    full = [max(f, g.pads[i] + g.pads[i + n]) for i, f in enumerate(full)]
    y = np.zeros((batch, groups, oc, *full), x.dtype)
    left, weights = x.reshape(batch, groups, per, *size), w.reshape(groups, per, oc, *w.shape[2:])
    for tap in itertools.product(*(range(k) for k in w.shape[2:])):
        if 0 in size:
            break
        at = tuple(slice(t * gap, t * gap + (d - 1) * s + 1, s)
                   for t, gap, d, s in zip(tap, g.dilations, size, g.strides, strict=True))
        to: Any = (..., *at)
        weight_at: Any = (..., *tap)
        y[to] += np.einsum("ngc...,gco->ngo...", left, weights[weight_at])
    crop: Any = (..., *(slice(g.pads[i], f - g.pads[i + n]) for i, f in enumerate(full)))
    y = np.asarray(y.reshape(batch, groups * oc, *full)[crop])
    return y if b is None else np.asarray(y + b.reshape(-1, *(1,) * n))


def _transposed(x: Array, w: Array, b: Array | None = None, **at: Any) -> Array:
    return transposed_reference(x, w, b, **at)


_TRANSPOSED_CASES: list[tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = [
    ((1, 3, 4, 5), (3, 8, 3, 3), True, {}),
    ((2, 4, 5, 6), (4, 17, 2, 2), True, {"strides": (2, 2)}),
    ((1, 4, 5, 4), (4, 3, 3, 4), False, {"strides": (2, 3), "pads": (1, 0, 1, 2), "output_padding": (1, 2)}),
    ((1, 6, 4, 4), (6, 2, 3, 3), True, {"groups": 3, "strides": (2, 1), "dilations": (1, 2)}),
    ((1, 5, 7, 3), (5, 1, 3, 3), False, {"groups": 5, "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((2, 5, 9), (5, 4, 4), True, {"strides": (3,), "pads": (1, 1)}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 2, 3), True, {"strides": (1, 2, 2), "pads": (0, 1, 0, 1, 0, 1)}),
    ((1, 7, 1, 1), (7, 5, 3, 2), True, {}),
    ((0, 3, 4, 4), (3, 2, 2, 2), True, {}),
    ((1, 20, 6, 9), (20, 33, 2, 2), True, {"strides": (2, 2)}),
]


def _transposed_samples(dtype: DType, rng: Rng) -> list[Sample]:
    return [Sample((data(rng, dtype, *x, low=-2, high=2), data(rng, dtype, *w, low=-1, high=1),
                    data(rng, dtype, w[1] * attrs.get("groups", 1)) if bias else None), attrs)
            for x, w, bias, attrs in _TRANSPOSED_CASES]


def _transposed_errors() -> list[ErrorSample]:
    x, w = np.zeros((1, 4, 5, 5), np.float32), np.zeros((4, 6, 3, 3), np.float32)
    return [
        ErrorSample((x, w[:3]), {}, "channels of x"),
        ErrorSample((x, w, np.zeros(5, np.float32)), {}, "b must have shape"),
        ErrorSample((x, w), {"output_padding": (1, 0)}, "output_padding"),
        ErrorSample((x, w), {"groups": 3}, "channels of x"),
        ErrorSample((x, w), {"pads": (9, 0, 9, 0)}, "pads must"),
        ErrorSample((x, w[..., 0]), {}, "rank"),
    ]


_TRANSPOSED = (*GEOMETRY[:3], Attr("output_padding", "ints", None), GEOMETRY[3])
conv_transpose = OpDef(
    "conv_transpose",
    ("x", "w", "b?"),
    _infer_transposed,
    _transposed,
    "Gradient of conv with respect to its input: x [N, C, spatial...], w [C, OC / groups, kernel...]; pads "
    "crop the result, "
    "output_padding adds to its end.",
    attrs=_TRANSPOSED,
    dtypes=FLOATS,
    samples=_transposed_samples,
    errors=_transposed_errors,
    tolerance=PRODUCT,
)


def _infer_transposed_nhwc(
    x: TensorType, w: TensorType, b: TensorType | None = None, *extras: TensorType, epilogue: Epilogue, **at: Any
) -> tuple[TensorType, ...]:
    (y,) = _infer_transposed(first(x), w, b, **at)
    return (epilogue_types("conv_transpose_nhwc", last(y), extras, epilogue),)


def _transposed_nhwc(
    x: Array, w: Array, b: Array | None = None, *extras: Array, epilogue: Epilogue, **at: Any
) -> Array:
    y = transposed_reference(np.moveaxis(x, -1, 1), w, b, **at)
    return run_epilogue(np.moveaxis(y, 1, -1), extras, epilogue)


def _infer_transposed_alone(
    x: TensorType, w: TensorType, b: TensorType | None = None, *, kernel: Sequence[int]
) -> tuple[TensorType, ...]:
    at = {"strides": kernel, "pads": None, "dilations": None, "output_padding": None, "groups": 1}
    return _infer_transposed(x, w, b, **at)


def _transposed_alone(x: Array, w: Array, b: Array | None = None, *, kernel: Sequence[int]) -> Array:
    return transposed_reference(x, w, b, kernel, None, None, None, 1)


conv_transpose_alone = OpDef(
    "conv_transpose_alone", ("x", "w", "b?"), _infer_transposed_alone, _transposed_alone,
    "conv_transpose of x [N, C, spatial...] among ops of that order, with the kernel's size as strides.",
    attrs=(Attr("kernel", "ints"),), dtypes=(f32,), tolerance=PRODUCT, internal=True,
)

conv_transpose_nhwc = OpDef(
    "conv_transpose_nhwc", ("x", "w", "b?", "extras*"), _infer_transposed_nhwc, _transposed_nhwc,
    "conv_transpose of x [N, spatial..., C], then elementwise steps on the tile.",
    attrs=(*_TRANSPOSED, Attr("epilogue", "any", ())), dtypes=FLOATS, tolerance=PRODUCT, internal=True,
)
