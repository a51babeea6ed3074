"""Ops under active extents, held against graphs of the smaller size; programs, against what families foretell."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.compiler import compile_static
from rlx.dtypes import DType
from rlx.errors import RlxError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array, OpDef, Sample
from rlx.ir.traced import Trace
from rlx.options import CompileOptions, RngOptions
from rlx.runtime.executable import CompiledGraph
from rlx.runtime.extent import Extents
from rlx.runtime.family import compile_family, same_program
from rlx.runtime.staged import is_dynamic
from rlx.testing.optest import samples_of

# Per input its array, and the axes that carry the symbol.
Feeds = dict[str, tuple[Array, set[int]]]


def graphs(op: OpDef, sample: Sample) -> Iterator[tuple[Graph, int, Feeds]]:
    """The sample with a size as symbol: all axes of that size together, then each axis of the first operand alone.

    Yields the graph, the size, and per input its array and the axes that carry the symbol. What the
    rule of the op refuses is left out.
    """
    arrays = [(i, a) for i, a in enumerate(sample.args) if a is not None]
    fixed = {i for i, _ in arrays[1:]} if op.has("constants") else set()
    free = [(i, a) for i, a in arrays if i not in fixed]
    choices: list[tuple[int, dict[int, set[int]]]] = []
    for size in sorted({d for _, a in free for d in a.shape if d > 1}):
        choices.append((size, {i: {k for k, d in enumerate(a.shape) if d == size} for i, a in free}))
    if free:
        first, a = free[0]
        choices += [(d, {first: {k}}) for k, d in enumerate(a.shape) if d > 1]
    for size, axes in choices:
        graph = Graph(op.name)
        values: list[Any] = [None] * len(sample.args)
        feeds: Feeds = {}
        for i, a in arrays:
            if i in fixed:
                values[i] = graph.constant(a)
                continue
            on = axes.get(i, set())
            shape = tuple("n" if k in on else d for k, d in enumerate(a.shape))
            values[i] = graph.input(f"x{i}", shape, dtypes.of_array(a))
            feeds[f"x{i}"] = (np.ascontiguousarray(a).reshape(a.shape), on)
        try:
            for i, r in enumerate(graph.emit(op, values, sample.attrs)):
                graph.output(f"y{i}", r)
        except RlxError:
            continue
        if graph.symbols():
            yield graph, size, feeds


def first(array: Array, axes: set[int], n: int) -> Array:
    """The first n indices of some axes."""
    part = array[tuple(slice(0, n) if k in axes else slice(None) for k in range(array.ndim))]
    return np.ascontiguousarray(part).reshape(part.shape)


def attempt(call: Any) -> Any:
    """Results of a run, or the class of what it raised."""
    try:
        return list(call())
    except RlxError as error:
        return type(error)


def compare(graph: Graph, size: int, feeds: Feeds, threads: int, extents: set[int]) -> int:
    """Hold each extent against a graph of that size; returns how many extents were in use."""
    options = CompileOptions(poison=True, check=True, threads=threads)
    try:
        exe = CompiledGraph(graph, replace(options, extents={"n": size}))
    except RlxError:
        return 0
    wide = {k: a for k, (a, _) in feeds.items()}
    used = 0
    for n in sorted(extents):
        report = exe.set_active_extent("n", n)
        narrow = {k: first(a, axes, n) for k, (a, axes) in feeds.items()}
        try:
            small = CompiledGraph(graph, replace(options, dims={"n": n}))
        except RlxError as error:
            assert not report and str(error) in report.reason
            continue
        if not report:
            assert "grow with the extent" in report.reason
            continue
        used += 1
        for given in (wide, narrow):
            small.set_rng(RngOptions(seed=1))
            exe.set_rng(RngOptions(seed=1))
            want = attempt(lambda: small.run(narrow))  # noqa: B023
            got = attempt(lambda: exe.run(given))  # noqa: B023
            if isinstance(want, type):
                assert got is want, (n, got)
                continue
            assert not isinstance(got, type), (n, got)
            for g, w in zip(got, want, strict=True):
                rows = tuple(slice(0, d) for d in w.shape)
                assert np.ascontiguousarray(g[rows]).tobytes() == w.tobytes(), (n, g, w)
                rest = g.copy()
                rest[rows] = 0
                assert not any(rest.tobytes()), (n, g)
    return used


def samples_under_extents(op: OpDef, dtype: DType, most: int) -> tuple[int, int]:
    """Run samples at every extent; returns how many graphs there were, and how many extents were in use."""
    found = used = 0
    for sample in samples_of(op, dtype):
        for graph, size, feeds in graphs(op, sample):
            if size <= 12 and found < most:
                found += 1
                used += compare(graph, size, feeds, 1 + found % 2, set(range(1, size + 1)))
    return found, used


def foretold(op: OpDef, dtype: DType, most: int, upper: int, owns: tuple[int, ...], isa: str | None = None) -> int:
    """Hold the programs that families have against ordinary compilations; returns how many families there were."""
    options = CompileOptions(threads=1, isa=isa)
    seen = made = 0
    for sample in samples_of(op, dtype):
        for graph, _, _ in graphs(op, sample):
            if is_dynamic(graph) or seen == most:
                continue
            seen += 1
            for own in owns:
                trace = Trace(own, upper)
                try:
                    extents = Extents(graph, {"n": upper})
                    compile_static(extents.bind({"n": own}), options)
                except RlxError:
                    continue
                family = compile_family(extents.bind({"n": trace.size}), options, trace)
                if family is None:
                    assert trace.ended
                    continue
                made += 1
                valid = np.flatnonzero(family.valid) + 1
                for n in {valid[0], valid[-1], *np.random.default_rng(own).choice(valid, 2)}:
                    plain = compile_static(extents.bind({"n": int(n)}), options).program
                    mine = family.program_at(int(n))
                    assert same_program(mine, plain), (sample.attrs, own, n, str(mine), str(plain))
                    for a, b in zip(mine.weights, plain.weights, strict=True):
                        assert a.array is not None and b.array is not None and a.array.tobytes() == b.array.tobytes()
    return made
