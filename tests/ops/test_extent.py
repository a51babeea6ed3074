"""Every row of the table under an active extent: first rows bit for bit, the rest zero, stale rows never read."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import dtypes
from rlx.compiler import compile_static
from rlx.dtypes import DType
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array, OpDef, Sample
from rlx.ir.traced import Trace
from rlx.runtime.extent import Extents
from rlx.runtime.family import compile_family, same_program
from rlx.runtime.staged import is_dynamic
from rlx.testing.optest import cases, samples_of

CASES = list(cases())


def graphs(op: OpDef, sample: Sample) -> Iterator[tuple[Graph, int, dict[str, tuple[Array, set[int]]]]]:
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
        feeds: dict[str, tuple[Array, set[int]]] = {}
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
        except rlx.RlxError:
            continue
        if graph.symbols():
            yield graph, size, feeds


def first(array: Array, axes: set[int], n: int) -> Array:
    part = array[tuple(slice(0, n) if k in axes else slice(None) for k in range(array.ndim))]
    return np.ascontiguousarray(part).reshape(part.shape)


def attempt(call: Any) -> Any:
    """Results of a run, or the class of what it raised."""
    try:
        return list(call())
    except rlx.RlxError as error:
        return type(error)


def compare(graph: Graph, size: int, feeds: dict[str, tuple[Array, set[int]]], threads: int, extents: set[int]) -> int:
    """Hold each extent against a graph of that size; returns how many extents were in use."""
    options = {"poison": True, "check": True, "threads": threads}
    try:
        exe = rlx.compile(graph, rlx.CompileOptions(extents={"n": size}, **options))
    except rlx.RlxError:
        return 0
    wide = {k: a for k, (a, _) in feeds.items()}
    used = 0
    for n in sorted(extents):
        report = exe.set_active_extent("n", n)
        narrow = {k: first(a, axes, n) for k, (a, axes) in feeds.items()}
        try:
            small = rlx.compile(graph, rlx.CompileOptions(dims={"n": n}, **options))
        except rlx.RlxError as error:
            assert not report and str(error) in report.reason
            continue
        if not report:
            assert "grow with the extent" in report.reason
            continue
        used += 1
        for given in (wide, narrow):
            small.set_rng(rlx.RngOptions(seed=1))
            exe.set_rng(rlx.RngOptions(seed=1))
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


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.name}-{d}" for o, d in CASES])
def test_c5_op_and_type_under_an_extent(op: OpDef, dtype: DType) -> None:
    """The first sample of every op and element type with a size that can be a symbol."""
    for sample in samples_of(op, dtype):
        for graph, size, feeds in graphs(op, sample):
            if size <= 8:
                compare(graph, size, feeds, 1, {size - 1})
                return


def samples_under_extents(op: OpDef, dtype: DType, most: int) -> tuple[int, int]:
    found = used = 0
    for sample in samples_of(op, dtype):
        for graph, size, feeds in graphs(op, sample):
            if size <= 12 and found < most:
                found += 1
                used += compare(graph, size, feeds, 1 + found % 2, set(range(1, size + 1)))
    return found, used


@pytest.mark.parametrize("name", sorted({o.name for o, _ in CASES}))
def test_c5_every_extent_of_an_op(name: str) -> None:
    """Every op that has a size can run on fewer rows, or its graph cannot be smaller."""
    found, used = samples_under_extents(*next((o, d) for o, d in CASES if o.name == name), 1)
    if found == 0:
        pytest.skip("no sample with a size that can be a symbol")
    assert used


def foretold(op: OpDef, dtype: DType, most: int, upper: int, owns: tuple[int, ...]) -> int:
    """Hold the programs that families have against ordinary compilations; returns how many families there were."""
    options = rlx.CompileOptions(threads=1)
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
                except rlx.RlxError:
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


@pytest.mark.parametrize("name", sorted({o.name for o, _ in CASES}))
def test_programs_of_an_op_are_foretold(name: str) -> None:
    """No number loses its trace between the rule of an op and its thunks."""
    foretold(*next((o, d) for o, d in CASES if o.name == name), 2, 40, (40, 11))


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.name}-{d}" for o, d in CASES])
def test_programs_of_every_sample_are_foretold(op: OpDef, dtype: DType) -> None:
    """All samples, all types."""
    foretold(op, dtype, 10**9, 96, (96, 33, 8))


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.name}-{d}" for o, d in CASES])
def test_c5_every_extent_of_every_sample(op: OpDef, dtype: DType) -> None:
    """All samples, all types, all extents."""
    samples_under_extents(op, dtype, 10**9)
