"""More cells of `bench_grid.py`: ops that move, reduce, order, look up, convert or transform, and recurrent layers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from grid_cells import Array, Cell, normal, whole

from rlx import ops

Function = Callable[..., Any]


def shape_text(*shape: int) -> str:
    """What stands in a name."""
    return "x".join(map(str, shape))


def one(family: str, name: str, shape: tuple[int, ...], build: Function, twin: Function, onnx: str,
        numpy: Function | None = None, *, dtype: str = "f32", scale: float = 1.0, below: int = 0) -> Cell:
    """A function of one array `x`."""
    given = whole(*shape, below=below, dtype=dtype) if below else normal(*shape, dtype=dtype, scale=scale)
    label = f"{name} {shape_text(*shape)}" + ("" if dtype == "f32" else f" {dtype}")
    return Cell(family, label, {"x": given}, {}, lambda x: build(x), lambda torch, x: twin(torch, x),
                (onnx,), numpy=numpy)


# -- reductions --------------------------------------------------------------------------


def reduction(op: str, axes: tuple[int, ...], *shape: int, dtype: str = "f32") -> Cell:
    """Sum, mean or maximum over axes."""
    build = {"sum": ops.reduce_sum, "mean": ops.reduce_mean, "max": ops.reduce_max}[op]
    node = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[op]
    return one("reduce", f"{op} over {shape_text(*axes)} of", shape, lambda x: build(x, axes=axes),
               lambda torch, x: {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[op](x, axes),
               f"a = Constant <value_ints = {list(axes)}> () y = {node} <keepdims = 0> (x, a)",
               lambda x: {"sum": np.sum, "mean": np.mean, "max": np.max}[op](x, axes), dtype=dtype)


def arg_max(axis: int, *shape: int) -> Cell:
    """Index of the largest."""
    return one("reduce", f"argmax over {axis} of", shape, lambda x: ops.argmax(x, axis=axis),
               lambda torch, x: torch.argmax(x, axis), f"y = ArgMax <axis = {axis}, keepdims = 0> (x)",
               lambda x: np.argmax(x, axis))


def running_sum(axis: int, *shape: int, dtype: str = "f32") -> Cell:
    """Sums up to here."""
    return one("reduce", f"cumsum over {axis} of", shape, lambda x: ops.cumsum(x, axis=axis),
               lambda torch, x: torch.cumsum(x, axis),
               f"a = Constant <value = int64 {{{axis}}}> () y = CumSum (x, a)",
               lambda x: np.cumsum(x, axis, dtype=x.dtype),
               dtype=dtype, below=0 if dtype.startswith("f") else 100)


def reductions() -> Iterator[Cell]:
    """Rows, columns, planes, all."""
    yield reduction("sum", (1,), 512, 1024)
    yield reduction("sum", (0,), 512, 1024)
    yield reduction("sum", (0, 1), 1024, 1024)
    yield reduction("mean", (1,), 128, 768)
    yield reduction("mean", (1,), 1, 128, 384)
    yield reduction("mean", (2, 3), 1, 64, 56, 56)
    yield reduction("mean", (2, 3), 1, 2048, 7, 7)
    yield reduction("max", (1,), 64, 1000)
    yield reduction("max", (0,), 1024, 512)
    yield reduction("sum", (1,), 512, 1024, dtype="f64")
    yield arg_max(1, 1, 32000)
    yield arg_max(1, 64, 1000)
    yield arg_max(1, 1, 21, 128, 128)
    yield arg_max(2, 1, 100, 97)
    yield running_sum(1, 64, 4096)
    yield running_sum(0, 512, 512)
    yield running_sum(1, 1, 128, dtype="i64")


# -- movement ----------------------------------------------------------------------------


def transposed(perm: tuple[int, ...], *shape: int, dtype: str = "f32") -> Cell:
    """Axes in another order."""
    return one("move", f"transpose {''.join(map(str, perm))} of", shape, lambda x: ops.transpose(x, perm=perm),
               lambda torch, x: x.permute(perm).contiguous(), f"y = Transpose <perm = {list(perm)}> (x)",
               lambda x: np.ascontiguousarray(x.transpose(perm)), dtype=dtype, below=255 if dtype == "u8" else 0)


def joined(axis: int, *shape: int) -> Cell:
    """Two arrays one behind the other."""
    return Cell("move", f"concat over {axis} of two {shape_text(*shape)}",
                {"x": normal(*shape), "z": normal(*shape, seed=1)}, {}, lambda x, z: ops.concat(x, z, axis=axis),
                lambda torch, x, z: torch.cat((x, z), axis), (f"y = Concat <axis = {axis}> (x, z)",),
                numpy=lambda x, z: np.concatenate((x, z), axis))


def padded(*shape: int) -> Cell:
    """A border of one zero around the last two axes."""
    n = len(shape) - 2
    return one("move", "pad", shape, lambda x: ops.pad(x, before=(0,) * n + (1, 1), after=(0,) * n + (1, 1)),
               lambda torch, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
               f"p = Constant <value_ints = {([0] * n + [1, 1]) * 2}> () y = Pad (x, p)",
               lambda x: np.pad(x, [(0, 0)] * n + [(1, 1)] * 2))


def resized(mode: str, *shape: int) -> Cell:
    """Images twice as large."""
    n = len(shape) - 2
    size = (*shape[:2], *(2 * d for d in shape[2:]))
    more = ', coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"' if mode == "nearest" else ""
    given = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {}
    return one("move", f"resize {mode}", shape, lambda x: ops.resize(x, sizes=size, mode=mode, **given),
               lambda torch, x: torch.nn.functional.interpolate(
                   x, scale_factor=2, mode="nearest" if mode == "nearest" else "bilinear"),
               f's = Constant <value_floats = {[1.0, 1.0] + [2.0] * n}> () y = Resize <mode = "{mode}"{more}> (x, , s)')


def movements() -> Iterator[Cell]:
    """Transposes, joins, parts, images."""
    yield transposed((1, 0), 1024, 1024)
    yield transposed((1, 0), 768, 3072)
    yield transposed((0, 2, 3, 1), 1, 64, 56, 56)
    yield transposed((0, 3, 1, 2), 1, 56, 56, 64)
    yield transposed((0, 2, 1, 3), 1, 128, 12, 64)
    yield transposed((0, 2, 1), 1, 84, 8400)
    yield transposed((0, 3, 1, 2), 1, 224, 224, 3)
    yield transposed((2, 0, 1), 224, 224, 3, dtype="u8")
    yield joined(1, 1, 64, 56, 56)
    yield joined(1, 128, 768)
    yield one("move", "slice of columns of", (512, 1024), lambda x: x[:, 256:768],
              lambda torch, x: x[:, 256:768].contiguous(),
              "a = Constant <value_ints = [256]> () b = Constant <value_ints = [768]> () "
              "c = Constant <value_ints = [1]> () y = Slice (x, a, b, c)",
              lambda x: np.ascontiguousarray(x[:, 256:768]))
    yield one("move", "every second column of", (512, 1024), lambda x: x[:, ::2],
              lambda torch, x: x[:, ::2].contiguous(),
              "a = Constant <value_ints = [0]> () b = Constant <value_ints = [1024]> () "
              "c = Constant <value_ints = [1]> () d = Constant <value_ints = [2]> () y = Slice (x, a, b, c, d)",
              lambda x: np.ascontiguousarray(x[:, ::2]))
    yield padded(1, 64, 56, 56)
    yield one("move", "expand to 64 rows of", (1, 4096), lambda x: ops.expand(x, shape=(64, 4096)),
              lambda torch, x: x.expand(64, 4096).contiguous(),
              "s = Constant <value_ints = [64, 4096]> () y = Expand (x, s)",
              lambda x: np.ascontiguousarray(np.broadcast_to(x, (64, 4096))))
    yield one("move", "depth to space", (1, 64, 64, 64), lambda x: ops.depth_to_space(x, block=2, mode="CRD"),
              lambda torch, x: torch.nn.functional.pixel_shuffle(x, 2),
              'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)')
    yield resized("nearest", 1, 64, 28, 28)
    yield resized("linear", 1, 64, 28, 28)


# -- order and indices -------------------------------------------------------------------


def largest(k: int, *shape: int) -> Cell:
    """The k largest of rows, in order."""
    return one("order", f"top {k} of", shape, lambda x: ops.topk(x, k=k)[0], lambda torch, x: torch.topk(x, k)[0],
               f"k = Constant <value_ints = [{k}]> () y, i = TopK (x, k)",
               lambda x: -np.sort(np.partition(-x, k - 1)[..., :k]))


def in_order(*shape: int, dtype: str = "f32") -> Cell:
    """Rows in order."""
    n = shape[-1]
    return one("order", "sort", shape, lambda x: ops.sort(x), lambda torch, x: torch.sort(x)[0],
               f"k = Constant <value_ints = [{n}]> () y, i = TopK <largest = 0> (x, k)", lambda x: np.sort(x),
               dtype=dtype, below=1 << 30 if dtype[0] == "i" else 0)


def arg_sort(*shape: int) -> Cell:
    """Indices of rows in order."""
    n = shape[-1]
    return one("order", "argsort", shape, lambda x: ops.argsort(x), lambda torch, x: torch.argsort(x),
               f"k = Constant <value_ints = [{n}]> () v, y = TopK <largest = 0> (x, k)", lambda x: np.argsort(x))


def looked_up(rows: int, width: int, count: int) -> Cell:
    """Rows of a table, as of an embedding."""
    return Cell("index", f"{count} rows of {rows}x{width}", {"i": whole(count, below=rows)}, {"w": normal(rows, width)},
                lambda i, w: ops.gather(w, i), lambda torch, i, w: torch.nn.functional.embedding(i, w),
                ("y = Gather (w, i)",), numpy=lambda i, w: np.take(w, i, 0))


def elements(*shape: int) -> Cell:
    """An element by an index for each."""
    return Cell("index", f"elements of {shape_text(*shape)}",
                {"x": normal(*shape), "i": whole(*shape, below=shape[1])}, {},
                lambda x, i: ops.gather_elements(x, i, axis=1), lambda torch, x, i: torch.gather(x, 1, i),
                ("y = GatherElements <axis = 1> (x, i)",), numpy=lambda x, i: np.take_along_axis(x, i, 1))


def columns(count: int, *shape: int) -> Cell:
    """Columns by an index."""
    return Cell("index", f"{count} columns of {shape_text(*shape)}",
                {"x": normal(*shape), "i": whole(count, below=shape[1])}, {},
                lambda x, i: ops.gather(x, i, axis=1), lambda torch, x, i: torch.index_select(x, 1, i),
                ("y = Gather <axis = 1> (x, i)",), numpy=lambda x, i: np.take(x, i, 1))


def scattered(reduction: str, rows: int, width: int, count: int) -> Cell:
    """Rows put or added at indices."""
    def twin(torch: Any, x: Any, i: Any, u: Any) -> Any:
        return x.index_add(0, i[:, 0], u) if reduction == "add" else x.index_copy(0, i[:, 0], u)

    return Cell("index", f"scatter ({reduction}) of {count} rows to {rows}x{width}",
                {"x": normal(rows, width), "i": whole(count, 1, below=rows), "u": normal(count, width, seed=1)}, {},
                lambda x, i, u: ops.scatter_nd(x, i, u, reduction=reduction), twin,
                (f'y = ScatterND <reduction = "{reduction}"> (x, i, u)',))


def scattered_elements(*shape: int) -> Cell:
    """Elements added at indices."""
    return Cell("index", f"scatter of elements (add) to {shape_text(*shape)}",
                {"x": normal(*shape), "i": whole(*shape, below=shape[1]), "u": normal(*shape, seed=1)}, {},
                lambda x, i, u: ops.scatter_elements(x, i, u, axis=1, reduction="add"),
                lambda torch, x, i, u: x.scatter_add(1, i, u),
                ('y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)',))


def orders() -> Iterator[Cell]:
    """Sorting, selecting, looking up."""
    yield in_order(1, 10000)
    yield in_order(64, 1000)
    yield in_order(1, 1 << 20)
    yield in_order(1, 100000, dtype="i64")
    yield arg_sort(1, 10000)
    yield arg_sort(1000, 16)
    yield largest(5, 1, 1000)
    yield largest(50, 1, 32000)
    yield largest(300, 1, 8400)
    yield largest(10, 64, 1000)
    yield looked_up(30522, 384, 128)
    yield looked_up(32000, 2048, 1)
    yield columns(64, 512, 1024)
    yield elements(128, 1024)
    yield scattered("none", 4096, 128, 128)
    yield scattered("add", 4096, 128, 1024)
    yield scattered_elements(128, 1024)
    yield Cell("index", "where 128x3072", {"x": normal(128, 3072), "z": normal(128, 3072, seed=1)}, {},
               lambda x, z: ops.where(x > z, x, 0.5 * z), lambda torch, x, z: torch.where(x > z, x, 0.5 * z),
               ("h = Constant <value_float = 0.5> () c = Greater(x, z) a = Mul(h, z) y = Where(c, x, a)",),
               numpy=lambda x, z: np.where(x > z, x, np.float32(0.5) * z))


# -- Fourier -----------------------------------------------------------------------------


def real_fourier(*shape: int, dtype: str = "f32") -> Cell:
    """Half of the spectrum of rows, as pairs."""
    import scipy.fft

    def twin(torch: Any, x: Any) -> Any:
        return torch.view_as_real(torch.fft.rfft(x))

    def scipys(x: Array) -> Array:
        y = scipy.fft.rfft(x)
        return y.view(y.real.dtype).reshape(*y.shape, 2)

    return one("fft", "rfft", shape, lambda x: ops.view_as_real(ops.rfft(x)), twin,
               "a = Constant <value = int64 {1}> () n = Constant <value_ints = [-1, 1]> () s = Shape (x) "
               "e = Constant <value_ints = [-1]> () u = Unsqueeze (x, e) l = Constant <value = int64 "
               f"{{{shape[-1]}}}> () y = DFT <onesided = 1> (u, l, a)", scipys, dtype=dtype)


def inverse_fourier(*shape: int, dtype: str = "f32") -> Cell:
    """Rows by half of their spectrum."""
    import scipy.fft

    full = (shape[0], shape[1] // 2 + 1, 2)
    return Cell("fft", f"irfft {shape_text(*shape)}" + ("" if dtype == "f32" else f" {dtype}"),
                {"x": normal(*full, dtype=dtype)}, {}, lambda x: ops.irfft(ops.view_as_complex(x)),
                lambda torch, x: torch.fft.irfft(torch.view_as_complex(x)), (),
                numpy=lambda x: scipy.fft.irfft(x.view(np.result_type(x.dtype, np.complex64))[..., 0]))


def fourier(*shape: int, dtype: str = "f32") -> Cell:
    """Rows of complex numbers, as pairs."""
    import scipy.fft

    def scipys(x: Array) -> Array:
        return scipy.fft.fft(x.view(np.result_type(x.dtype, np.complex64))[..., 0]).view(x.dtype).reshape(x.shape)

    return one("fft", "fft", (*shape, 2), lambda x: ops.view_as_real(ops.fft(ops.view_as_complex(x))),
               lambda torch, x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
               "a = Constant <value = int64 {1}> () l = Constant <value = int64 "
               f"{{{shape[-1]}}}> () y = DFT (x, l, a)", scipys, dtype=dtype)


def short_time(length: int, n: int, hop: int) -> Cell:
    """Spectra of frames, frequencies last."""
    def twin(torch: Any, x: Any, w: Any) -> Any:
        y = torch.stft(x, n, hop, window=w, center=False, return_complex=True)
        return torch.view_as_real(y.transpose(1, 2)).contiguous()

    return Cell("fft", f"stft {length} by {n}, {hop}", {"x": normal(1, length)}, {"w": normal(n, seed=1)},
                lambda x, w: ops.view_as_real(ops.stft(x, w, n=n, hop=hop)), twin,
                (f"h = Constant <value = int64 {{{hop}}}> () l = Constant <value = int64 {{{n}}}> () "
                 "y = STFT (x, h, w, l)",))


def transforms() -> Iterator[Cell]:
    """Powers of two, mixed factors, a prime, rows and single ones."""
    for dtype in ("f32", "f64"):
        yield real_fourier(64, 128, dtype=dtype)
        yield real_fourier(64, 256, dtype=dtype)
        yield real_fourier(16, 512, dtype=dtype)
        yield real_fourier(100, 400, dtype=dtype)
        yield real_fourier(1, 16000, dtype=dtype)
        yield fourier(64, 256, dtype=dtype)
        yield inverse_fourier(64, 256, dtype=dtype)
    yield real_fourier(16, 997)
    yield short_time(16000, 400, 160)
    yield short_time(16000, 512, 128)


# -- numbers of other types --------------------------------------------------------------


def cast(source: str, target: str, *shape: int) -> Cell:
    """Another type."""
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8",
             "i8": "int8", "bf16": "bfloat16"}
    codes = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "f16": 10, "f64": 11, "bf16": 16}
    whole_numbers = source[0] in "iu"
    return one("convert", f"cast to {target} of", shape, lambda x: ops.cast(x, dtype=target),
               lambda torch, x: x.to(getattr(torch, names[target])), f"y = Cast <to = {codes[target]}> (x)",
               None if "bf16" in (source, target) else lambda x: x.astype(names[target]), dtype=source,
               below=100 if whole_numbers else 0, scale=30.0 if target[0] == "i" else 1.0)


def quantised(rows: int, width: int, *, channels: bool = False) -> Cell:
    """u8 from f32 by one scale, or by one per column."""
    scales = np.float32(0.02) if not channels else np.full(width, 0.02, np.float32)
    zeros = np.uint8(128) if not channels else np.full(width, 128, np.uint8)
    shape = "" if not channels else f"[{width}]"

    def build(x: Any) -> Any:
        return ops.quantize_linear(x, x.graph.constant(scales), x.graph.constant(zeros), axis=1)

    def twin(torch: Any, x: Any) -> Any:
        if channels:
            return (torch.round(x / 0.02) + 128).clamp(0, 255).to(torch.uint8)
        return torch.quantize_per_tensor(x, 0.02, 128, torch.quint8).int_repr()

    body = ("s = Constant <value = float {0.02}> () z = Constant <value = uint8 {128}> () " if not channels else
            f"a = Constant <value = float {{0.02}}> () b = Constant <value = uint8 {{128}}> () "
            f"n = Constant <value_ints = [{width}]> () s = Expand (a, n) c = Cast <to = 6> (b) "
            "d = Expand (c, n) z = Cast <to = 2> (d) ")
    return one("convert", f"quantise {'by columns ' if channels else ''}{shape}".strip(), (rows, width), build, twin,
               body + "y = QuantizeLinear <axis = 1> (x, s, z)")


def dequantised(rows: int, width: int) -> Cell:
    """f32 from u8."""
    return one("convert", "dequantise", (rows, width),
               lambda x: ops.dequantize_linear(x, x.graph.constant(np.float32(0.02)), x.graph.constant(np.uint8(128))),
               lambda torch, x: (x.to(torch.float32) - 128) * 0.02,
               "s = Constant <value = float {0.02}> () z = Constant <value = uint8 {128}> () "
               "y = DequantizeLinear (x, s, z)",
               dtype="u8", below=256)


def dynamic(rows: int, width: int) -> Cell:
    """u8 from f32 by the range of the values."""
    return one("convert", "quantise by range", (rows, width), lambda x: ops.dynamic_quantize_linear(x)[0],
               lambda torch, x: torch.quantize_per_tensor_dynamic(x, torch.quint8, False).int_repr(),
               "y, s, z = DynamicQuantizeLinear (x)")


def conversions() -> Iterator[Cell]:
    """Casts and codes."""
    yield cast("f32", "f16", 128, 3072)
    yield cast("f16", "f32", 128, 3072)
    yield cast("f32", "i32", 128, 3072)
    yield cast("f32", "i64", 128, 1024)
    yield cast("i64", "f32", 128, 1024)
    yield cast("u8", "f32", 1, 3, 224, 224)
    yield cast("f64", "f32", 128, 1024)
    yield cast("i64", "i32", 1, 512)
    yield quantised(128, 3072)
    yield quantised(128, 768, channels=True)
    yield dequantised(128, 3072)
    yield dynamic(128, 384)


# -- recurrent ---------------------------------------------------------------------------


def recurrent(kind: str, steps: int, batch: int, features: int, hidden: int) -> Cell:
    """A layer over whole sequences; the twin is PyTorch's, whose gates stand in another order."""
    gates = 4 if kind == "lstm" else 3
    op, node = (ops.lstm, "LSTM") if kind == "lstm" else (ops.gru, "GRU")
    order = [0, 2, 3, 1] if kind == "lstm" else [1, 0, 2]  # ours, in PyTorch's order of gates

    def twin(torch: Any, x: Any, w: Any, r: Any, b: Any) -> Any:
        def placed(t: Any) -> Any:
            return torch.cat([t.reshape(gates, hidden, -1)[g] for g in order]).contiguous()

        key = (kind, steps, batch, features, hidden)
        if key not in _parts:
            _parts[key] = [placed(w[0]), placed(r[0]), placed(b[0, :gates * hidden])[:, 0].contiguous(),
                           placed(b[0, gates * hidden:])[:, 0].contiguous()], torch.zeros(1, batch, hidden)
        parts, zero = _parts[key]
        if kind == "lstm":
            return torch.lstm(x, (zero, zero), parts, True, 1, 0.0, False, False, False)[0][:, None]
        return torch.gru(x, zero, parts, True, 1, 0.0, False, False, False)[0][:, None]

    more = {} if kind == "lstm" else {"linear_before_reset": True}
    attributes = f"hidden_size = {hidden}" + ("" if kind == "lstm" else ", linear_before_reset = 1")
    return Cell("recurrent", f"{kind} {steps} steps {batch}x{features}->{hidden}",
                {"x": normal(steps, batch, features)},
                {"w": normal(1, gates * hidden, features, scale=features**-0.5, seed=1),
                 "r": normal(1, gates * hidden, hidden, scale=hidden**-0.5, seed=2),
                 "b": normal(1, 2 * gates * hidden, scale=0.1, seed=3)},
                lambda x, w, r, b: op(x, w, r, b, **more)[0], twin, (f"y, h = {node} <{attributes}> (x, w, r, b)",))


_parts: dict[Any, Any] = {}


def recurrents() -> Iterator[Cell]:
    """One step, small sequences, batches."""
    for kind in ("lstm", "gru"):
        yield recurrent(kind, 1, 1, 128, 128)
        yield recurrent(kind, 32, 1, 64, 64)
        yield recurrent(kind, 50, 1, 256, 256)
        yield recurrent(kind, 20, 16, 64, 128)
        yield recurrent(kind, 100, 1, 16, 16)
        yield recurrent(kind, 20, 8, 128, 256)
        yield recurrent(kind, 10, 32, 64, 64)
        yield recurrent(kind, 1, 1, 512, 512)


DATA_CELLS: tuple[Cell, ...] = (*reductions(), *movements(), *orders(), *transforms(), *conversions(), *recurrents())
