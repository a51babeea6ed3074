"""Run samples of the ops table through the compiler and compare with the definitions."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array, OpDef, Sample
from rlx.ops import TABLE
from rlx.options import CompileOptions
from rlx.reference import evaluate_op
from rlx.runtime.executable import CompiledGraph


def cases() -> Iterator[tuple[OpDef, DType]]:
    """Every op x element type that the table claims."""
    for op in TABLE.values():
        if not op.internal and op.samples is not None:
            for dtype in op.dtypes:
                yield op, dtype


def samples_of(op: OpDef, dtype: DType) -> list[Sample]:
    """The samples of a row; the generator is seeded by the names."""
    assert op.samples is not None
    return op.samples(dtype, np.random.default_rng(zlib.crc32(f"{op.name}.{dtype}".encode())))


@dataclass(frozen=True)
class Setup:
    """How a sample is run: threads, passes on or off, operands as constants or inputs."""

    threads: int = 1
    optimize: bool = True
    isa: str | None = None
    constants: bool = False


def build(op: OpDef, sample: Sample, constants: bool = False) -> tuple[Graph, dict[str, Array]]:
    """A graph with one node, and the arrays of its inputs."""
    graph = Graph(op.name)
    values: list[Any] = []
    feeds: dict[str, Array] = {}
    constants = constants or op.has("constants")
    for i, a in enumerate(sample.args):
        if a is None:
            values.append(None)
        elif constants and i > 0:
            values.append(graph.constant(a))
        else:
            values.append(graph.input(f"x{i}", a.shape, dtypes.of_array(a)))
            feeds[f"x{i}"] = np.ascontiguousarray(a).reshape(a.shape)
    results = graph.emit(op, values, sample.attrs)
    for i, r in enumerate(results):
        graph.output(f"y{i}", r)
    return graph, feeds


def run_sample(op: OpDef, sample: Sample, setup: Setup) -> tuple[Array, ...]:
    """Results of the compiled op."""
    graph, feeds = build(op, sample, setup.constants)
    options = CompileOptions(threads=setup.threads, optimize=setup.optimize, isa=setup.isa, check=True, poison=True)
    exe = CompiledGraph(graph, options)
    first = tuple(exe.run(feeds))
    second = tuple(exe.run(feeds))
    for a, b in zip(first, second, strict=True):
        if op.has("random"):
            continue
        assert a.tobytes() == b.tobytes(), f"{op.name}: two runs differ, {a} and {b}"
    return first


def compare(op: OpDef, got: Array, want: Array, what: str) -> None:
    """Assert type, shape and closeness by the row's tolerance; NaN equals NaN, zeros by sign where exact."""
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, want {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, want {want.shape}"
    dtype = dtypes.of_array(want)
    rtol, atol = op.tolerance.of(dtype)
    if not (dtype.is_float or dtype.is_complex):
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    wide = np.complex128 if dtype.is_complex else np.float64
    a, b = got.astype(wide), want.astype(wide)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def check_sample(op: OpDef, sample: Sample, setup: Setup, index: int = 0) -> None:
    """Compile, run and compare one sample."""
    shapes = ", ".join("-" if a is None else f"{a.dtype}{list(a.shape)}" for a in sample.args)
    what = f"{op.name}({shapes}) {dict(sample.attrs)} sample {index} {setup}"
    got = run_sample(op, sample, setup)
    exact = op.tolerance.exact or any(a is not None and a.dtype.kind not in "fcV" for a in sample.args[:1])
    want = evaluate_op(op, sample.args, sample.attrs, precise=not exact)
    for g, w in zip(got, want, strict=True):
        if op.has("random"):  # the reference gives the distribution, not the numbers
            assert (g.dtype, g.shape) == (w.dtype, w.shape), what
            continue
        compare(op, g, w, what)
