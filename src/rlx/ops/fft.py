"""Fourier transforms with NumPy's conventions, short-time transforms, windows, complex views."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.dtypes import COMPLEX, DType, c64, c128, f32, f64
from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim
from rlx.ir.opdef import EXACT, Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.traced import sqrt
from rlx.ir.types import TensorType, normal_axis
from rlx.ops._rules import Rng, data, require_dtype, require_rank

SINGLE = (f32, f64)
NORMS = ("backward", "ortho", "forward")
TO_COMPLEX = {f32: c64, f64: c128, c64: c64, c128: c128}
TO_REAL = {c64: f32, c128: f64}
TOLERANCE = Tolerance(
    rtol={"f32": 1e-5, "f64": 1e-12, "c64": 1e-5, "c128": 1e-12},
    atol={"f32": 2e-4, "f64": 1e-11, "c64": 2e-4, "c128": 1e-11},
)


# -- the transform along the last axis ------------------------------------------------


def _infer_fourier(
    x: TensorType, plan: TensorType, *, kind: str, n: int, inverse: bool, scale: float
) -> tuple[TensorType, ...]:
    lead = x.shape[:-1]
    if kind == "irfft":
        return (TensorType(TO_REAL[x.dtype], (*lead, n)),)
    return (TensorType(TO_COMPLEX[x.dtype], (*lead, n if kind == "fft" else n // 2 + 1)),)


def _fourier(x: Array, plan: Array, *, kind: str, n: int, inverse: bool, scale: float) -> Array:
    if kind == "irfft":
        return np.asarray(np.fft.irfft(x, n, norm="forward") * scale)
    if kind == "rfft":
        return np.asarray(np.fft.rfft(x, n) * scale)
    return np.asarray((np.fft.ifft(x, n, norm="forward") if inverse else np.fft.fft(x, n)) * scale)


fourier = OpDef(
    "fourier",
    ("x", "plan"),
    _infer_fourier,
    _fourier,
    "fft, rfft or irfft of length n along the last axis, times scale.",
    attrs=(
        Attr("kind", "str", "fft", ("fft", "rfft", "irfft")),
        Attr("n", "int"),
        Attr("inverse", "bool", False),
        Attr("scale", "float", 1.0),
    ),
    dtypes=(*SINGLE, *COMPLEX),
    tolerance=TOLERANCE,
    internal=True,
)


# -- NumPy's functions ----------------------------------------------------------------


def _length(op: str, x: TensorType, n: int | None, axis: int) -> tuple[int, AnyDim]:
    require_rank(op, x, 1)
    axis = normal_axis(axis, x.rank, op)
    size = x.shape[axis] if n is None else n
    if isinstance(size, int) and size < 1:
        raise TypeRuleError(f"{op}: the length must be >= 1, got {size}")
    return axis, size


def _resized(x: TensorType, axis: int, size: AnyDim, dtype: DType) -> TensorType:
    return TensorType(dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _infer_fft(op: str) -> Any:
    def rule(x: TensorType, *, n: int | None, axis: int, norm: str) -> tuple[TensorType, ...]:
        require_dtype(op, x.dtype, (*SINGLE, *COMPLEX))
        axis, size = _length(op, x, n, axis)
        return (_resized(x, axis, size, TO_COMPLEX[x.dtype]),)

    return rule


def _infer_rfft(x: TensorType, *, n: int | None, axis: int, norm: str) -> tuple[TensorType, ...]:
    require_dtype("rfft", x.dtype, SINGLE)
    axis, size = _length("rfft", x, n, axis)
    return (_resized(x, axis, size // 2 + 1, TO_COMPLEX[x.dtype]),)


def _infer_irfft(x: TensorType, *, n: int | None, axis: int, norm: str) -> tuple[TensorType, ...]:
    require_dtype("irfft", x.dtype, COMPLEX)
    require_rank("irfft", x, 1)
    axis = normal_axis(axis, x.rank, "irfft")
    size = 2 * (x.shape[axis] - 1) if n is None else n
    if isinstance(size, int) and size < 1:
        raise TypeRuleError(f"irfft: the length must be >= 1, got {size}")
    return (_resized(x, axis, size, TO_REAL[x.dtype]),)


def factor(norm: str, n: int, inverse: bool) -> float:
    """Scale of a transform."""
    if norm == "ortho":
        return 1 / sqrt(n)
    return 1 / n if (norm == "backward") == inverse else 1.0


def _in_ops(kind: str, inverse: bool) -> Any:
    def build(x: Any, *, n: int | None, axis: int, norm: str) -> Any:
        from rlx import ops
        from rlx.ops._fft_plan import fft_plan

        axis %= x.rank
        if kind == "fft" and x.dtype in SINGLE:
            x = ops.cast(x, dtype=TO_COMPLEX[x.dtype])
        size = n if n is not None else 2 * (x.shape[axis] - 1) if kind == "irfft" else x.shape[axis]
        perm = (*(i for i in range(x.rank) if i != axis), axis)
        last = axis == x.rank - 1
        y = x if last else ops.transpose(x, perm=perm)
        part = np.float64 if x.dtype in (f64, c128) else np.float32
        plan = x.graph.constant(fft_plan(size, part, kind != "fft").table)
        y = fourier(y, plan, kind=kind, n=size, inverse=inverse, scale=factor(norm, size, inverse))
        return y if last else ops.transpose(y, perm=tuple(perm.index(i) for i in range(x.rank)))

    return build


_LENGTHS = (1, 2, 3, 4, 5, 8, 12, 31, 37, 60, 64, 74, 100, 127, 256, 400)


def _samples(kind: str) -> Any:
    def make(dtype: DType, rng: Rng) -> list[Sample]:
        found = [
            Sample((data(rng, dtype, 3, n // 2 + 1 if kind == "irfft" else n),), {"n": n} if kind == "irfft" else {})
            for n in _LENGTHS
        ]
        x = data(rng, dtype, 4, 6, 5)
        found += [
            Sample((x,), {"axis": a, "norm": norm}) for a, norm in ((0, "ortho"), (1, "forward"), (-1, "backward"))
        ]
        found += [Sample((x,), {"n": n, "axis": 1}) for n in (3, 9)]
        found += [
            Sample((data(rng, dtype, 0, 6),)),
            Sample((data(rng, dtype, 40, 24),)),
            Sample((data(rng, dtype, 1200),)),
        ]
        return found

    return make


_ATTRS = (Attr("n", "int", None), Attr("axis", "int", -1), Attr("norm", "str", "backward", NORMS))


def _errors(kind: str) -> Any:
    x = np.zeros((2, 3), np.complex64 if kind == "irfft" else np.float32)
    wrong = np.zeros((2, 3), np.float32 if kind == "irfft" else np.int32)
    return lambda: [ErrorSample((x,), {"n": 0}, "length must"), ErrorSample((x,), {"axis": 2}, "axis must"),
                    ErrorSample((wrong,), {}, "type must be one of"), ErrorSample((x,), {"norm": "none"}, "one of")]


def _row(
    name: str, infer: Any, reference: Any, doc: str, allowed: tuple[DType, ...], kind: str, inverse: bool
) -> OpDef:
    return OpDef(name, ("x",), infer, reference, doc, attrs=_ATTRS, dtypes=allowed, decompose=_in_ops(kind, inverse),
                 samples=_samples(kind), errors=_errors(kind), tolerance=TOLERANCE)


_ANY = (*SINGLE, *COMPLEX)
fft = _row("fft", _infer_fft("fft"), lambda x, n, axis, norm: np.fft.fft(x, n, axis, norm),
           "Discrete Fourier transform along an axis; x is cut or padded with zeros to n.", _ANY, "fft", False)
ifft = _row(
    "ifft",
    _infer_fft("ifft"),
    lambda x, n, axis, norm: np.fft.ifft(x, n, axis, norm),
    "Inverse of fft.",
    _ANY,
    "fft",
    True,
)
rfft = _row(
    "rfft",
    _infer_rfft,
    lambda x, n, axis, norm: np.fft.rfft(x, n, axis, norm),
    "The n // 2 + 1 first values of fft of a real x.",
    SINGLE,
    "rfft",
    False,
)
irfft = _row("irfft", _infer_irfft, lambda x, n, axis, norm: np.fft.irfft(x, n, axis, norm),
             "Inverse of rfft; n is 2 (m - 1) unless given.", COMPLEX, "irfft", True)


def fftn(x: Any, axes: Sequence[int] | None = None, norm: str = "backward", inverse: bool = False) -> Any:
    """fft (or ifft) along several axes, all by default."""
    for axis in range(x.rank) if axes is None else axes:
        x = (ifft if inverse else fft)(x, axis=axis, norm=norm)
    return x


# -- complex numbers as pairs ---------------------------------------------------------


def _infer_as_real(x: TensorType) -> tuple[TensorType, ...]:
    require_dtype("view_as_real", x.dtype, COMPLEX)
    return (TensorType(TO_REAL[x.dtype], (*x.shape, 2)),)


def _infer_as_complex(x: TensorType) -> tuple[TensorType, ...]:
    require_dtype("view_as_complex", x.dtype, SINGLE)
    if x.rank == 0 or x.shape[-1] != 2:
        raise TypeRuleError(f"view_as_complex: the last size must be 2, got {x}")
    return (TensorType(TO_COMPLEX[x.dtype], x.shape[:-1]),)


view_as_real = OpDef(
    "view_as_real",
    ("x",),
    _infer_as_real,
    lambda x: np.stack([x.real, x.imag], -1),
    "Complex numbers as pairs on a new last axis.",
    dtypes=COMPLEX,
    samples=lambda dtype, rng: [Sample((data(rng, dtype, *s),)) for s in ((), (3,), (2, 5), (0, 3))],
    tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros(2, np.float32),), {}, "type must be one of")],
)
view_as_complex = OpDef(
    "view_as_complex",
    ("x",),
    _infer_as_complex,
    lambda x: np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))[..., 0],
    "Pairs on the last axis as complex numbers.",
    dtypes=SINGLE,
    samples=lambda dtype, rng: [Sample((data(rng, dtype, *s, 2),)) for s in ((), (3,), (2, 5), (0, 3))],
    tolerance=EXACT,
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), {}, "last size")],
)


def dft(x: Any, n: int | None = None, axis: int = -2, inverse: bool = False, onesided: bool = False) -> Any:
    """The DFT operator of ONNX: x and the result hold pairs, or reals, on their last axis.

    Parameters
    ----------
    x : Value
        [..., 1] real or [..., 2] complex.
    n : int, optional
        Length; x is cut or padded with zeros.
    axis : int
        Axis of the signal, the last one not counted in.
    inverse, onesided : bool
        onesided gives (or, inverse, takes) the first n // 2 + 1 values.
    """
    from rlx import ops

    axis = normal_axis(axis, x.rank, "dft")
    if axis == x.rank - 1:
        raise TypeRuleError(f"dft: axis must not be that of the pairs, got {axis}")
    single = x.shape[-1] == 1
    value = ops.squeeze(x, axes=(-1,)) if single else view_as_complex(x)
    if onesided and inverse:
        value = ops.cast(value, dtype=TO_COMPLEX[x.dtype]) if single else value
        return ops.unsqueeze(irfft(value, n=n, axis=axis), -1)
    if onesided and not single:
        raise TypeRuleError(f"dft: a onesided transform needs a real signal, got {x.type}")
    if onesided:
        return view_as_real(rfft(value, n=n, axis=axis))
    return view_as_real((ifft if inverse else fft)(value, n=n, axis=axis))


# -- short-time transform -------------------------------------------------------------


def _infer_stft(x: TensorType, window: TensorType | None = None, plan: TensorType | None = None, *, n: int, hop: int,
                onesided: bool, **at: Any) -> tuple[TensorType, ...]:
    require_dtype("stft", x.dtype, SINGLE)
    require_rank("stft", x, 2, 2, "x")
    if n < 1 or hop < 1:
        raise TypeRuleError(f"stft: n and hop must be >= 1, got {n} and {hop}")
    if window is not None and window != TensorType(x.dtype, (n,)):
        raise TypeRuleError(f"stft: window must be {x.dtype}[{n}], got {window}")
    size = x.shape[1]
    if isinstance(size, int) and size < n:
        raise TypeRuleError(f"stft: the signal must have at least n = {n} values, got {x}")
    return (TensorType(TO_COMPLEX[x.dtype], (x.shape[0], (size - n) // hop + 1, n // 2 + 1 if onesided else n)),)


def _stft(
    x: Array, window: Array | None = None, plan: Array | None = None, *, n: int, hop: int, onesided: bool
) -> Array:
    frames = np.lib.stride_tricks.sliding_window_view(x, n, -1)[:, ::hop]
    frames = frames if window is None else frames * window
    return np.asarray(np.fft.rfft(frames) if onesided else np.fft.fft(frames))


def _stft_in_ops(x: Any, window: Any = None, **at: Any) -> Any:
    from rlx.ops._fft_plan import fft_plan

    plan = fft_plan(at["n"], np.float64 if x.dtype == f64 else np.float32, True)
    return stft_planned(x, window, x.graph.constant(plan.table), **at)


def _stft_samples(dtype: DType, rng: Rng) -> list[Sample]:
    found = []
    for n, hop, size in ((8, 3, 50), (16, 16, 64), (25, 10, 100), (400, 160, 1600), (37, 5, 37)):
        window = data(rng, dtype, n, low=0, high=1)
        found += [
            Sample((data(rng, dtype, 2, size), window), {"n": n, "hop": hop}),
            Sample((data(rng, dtype, 1, size),), {"n": n, "hop": hop, "onesided": False}),
        ]
    return found


_STFT = (Attr("n", "int"), Attr("hop", "int"), Attr("onesided", "bool", True))
stft = OpDef(
    "stft",
    ("x", "window?"),
    _infer_stft,
    _stft,
    "Transforms of frames of n values, hop apart, times a window: [batch, size] to [batch, frames, n // 2 + 1] "
    "(n unless onesided).",
    attrs=_STFT,
    dtypes=SINGLE,
    decompose=_stft_in_ops,
    samples=_stft_samples,
    tolerance=TOLERANCE,
    errors=lambda: [
        ErrorSample((np.zeros((1, 5), np.float32),), {"n": 8, "hop": 1}, "at least n"),
        ErrorSample((np.zeros((1, 9), np.float32), np.ones(7, np.float32)), {"n": 8, "hop": 1}, "window must"),
        ErrorSample((np.zeros((1, 9), np.float32),), {"n": 8, "hop": 0}, "hop must"),
    ],
)
stft_planned = OpDef(
    "stft_planned",
    ("x", "window?", "plan?"),
    _infer_stft,
    _stft,
    "stft with its plan.",
    attrs=_STFT,
    dtypes=SINGLE,
    tolerance=TOLERANCE,
    internal=True,
)


def window(kind: str, size: int, periodic: bool = True, dtype: Any = np.float32) -> Array:
    """A window as an array.

    Parameters
    ----------
    kind : str
        `hann`, `hamming` (a0 = 25/46, as ONNX) or `blackman`.
    size : int
    periodic : bool
        One period of size `size` (for transforms), else symmetric.
    """
    weights = {"hann": (0.5, 0.5, 0.0), "hamming": (25 / 46, 21 / 46, 0.0), "blackman": (0.42, 0.5, 0.08)}
    if kind not in weights:
        raise TypeRuleError(f"window: kind must be one of {list(weights)}, got {kind!r}")
    a, b, c = weights[kind]
    angle = 2 * np.pi * np.arange(size) / max(1, size if periodic else size - 1)
    return np.asarray((a - b * np.cos(angle) + c * np.cos(2 * angle)).astype(dtype))
