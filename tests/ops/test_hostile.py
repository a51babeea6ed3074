"""Every op with wrong attributes and operands: an error of ours, or what the definition gives."""

import signal
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import dtypes
from rlx.ir.opdef import Attr, OpDef, Sample
from rlx.ops import TABLE
from rlx.reference import evaluate_op
from rlx.runtime.executable import CompiledGraph
from rlx.testing.optest import build, samples_of

INTS = (0, 1, -1, 2, -2, 3, 7, 9, 64, -64, 2**31, -(2**31), 2**40, 2**62, -(2**63), 2**63, 2**64)
FLOATS = (0.0, -0.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e10, 1e-10)
STRINGS = ("", "x", "ü\0", "a" * 1000)
KINDS = (
    np.float32,
    np.float64,
    np.float16,
    np.int32,
    np.int64,
    np.uint8,
    np.bool_,
    np.complex64,
    dtypes.bf16.numpy,
)
MUTANTS = 24


def pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def bad_value(attr: Attr, value: Any, rng: np.random.Generator) -> Any:
    """Another value for an attribute."""
    kind = attr.kind
    if rng.random() < 0.06:
        return pick(rng, (None, "x", object(), [], {}, 1.5, (1, "a"), np.zeros(3), True, b"x"))
    if kind == "int":
        return pick(rng, INTS)
    if kind == "float":
        return pick(rng, FLOATS)
    if kind == "bool":
        return not value
    if kind == "str":
        return pick(rng, (*attr.choices, *STRINGS))
    if kind == "dtype":
        return pick(rng, (*KINDS, "zz", None, object))
    if kind in ("ints", "floats", "dims"):
        items = list(value) if isinstance(value, (tuple, list)) else []
        pool = FLOATS if kind == "floats" else INTS
        how = int(rng.integers(5))
        if how == 0 or not items:
            return tuple(pick(rng, pool) for _ in range(int(rng.integers(5))))
        if how == 1:
            items.pop()
        elif how == 2:
            items.append(pick(rng, (items[0], pick(rng, pool))))
        else:
            items[int(rng.integers(len(items)))] = pick(rng, pool)
        return tuple(items)
    return pick(rng, (None, 0, -1, "x", (), (1, 2), 2**63))


def bad_array(array: Any, rng: np.random.Generator) -> Any:
    """Another operand."""
    if array is None:
        return pick(rng, (np.float32(1), np.zeros((2, 3), np.float32), np.zeros((), np.int64)))
    array = np.asarray(array)
    how = int(rng.integers(6))
    if how == 0:
        return array.astype(pick(rng, KINDS))
    if how == 1:
        return None
    if how == 2 and array.dtype.kind in "iu" and array.size:
        info = np.iinfo(array.dtype)
        changed = array.copy()
        changed.flat[int(rng.integers(array.size))] = pick(
            rng, (info.min, info.max, 0, info.max // 2, min(array.size, info.max))
        )
        return changed
    if how == 2 and array.dtype.kind in "fV" and array.size:
        changed = array.copy()
        changed.flat[int(rng.integers(array.size))] = pick(rng, (np.nan, np.inf, -np.inf, 0.0, 1e4))
        return changed
    shape = list(array.shape)
    if how == 3 and shape:
        shape.pop(int(rng.integers(len(shape))))
    elif how == 4 or not shape:
        shape.insert(int(rng.integers(len(shape) + 1)), pick(rng, (0, 1, 2)))
    else:
        at = int(rng.integers(len(shape)))
        shape[at] = pick(rng, (0, 1, shape[at] + 1, max(0, shape[at] - 1)))
    return (
        np.resize(array, shape).astype(array.dtype) if array.size else np.zeros(shape, array.dtype)
    )


def mutants(op: OpDef, count: int, seed: int = 0) -> Iterator[Sample]:
    """Calls that are a step or two away from samples of the row."""
    rng = np.random.default_rng([zlib.crc32(op.name.encode()), seed])
    samples = [s for d in (op.dtypes[0], pick(rng, op.dtypes)) for s in samples_of(op, d)]
    for _ in range(count):
        sample = pick(rng, samples)
        args, attrs = list(sample.args), dict(sample.attrs)
        for _ in range(1 + int(rng.random() < 0.3)):
            if op.attrs and (not args or rng.random() < 0.55):
                attr = pick(rng, op.attrs)
                attrs[attr.name] = bad_value(attr, attrs.get(attr.name, attr.default), rng)
            elif args:
                i = int(rng.integers(len(args)))
                args[i] = bad_array(args[i], rng)
        yield Sample(tuple(args), attrs)


def outcome(op: OpDef, sample: Sample, *, poison: bool = True) -> str:
    """Run a call: `refused` with an error of ours, or `ran`."""
    try:
        graph, feeds = build(op, sample)
        exe = CompiledGraph(graph, rlx.CompileOptions(threads=1, check=True, poison=poison))
        got = tuple(exe.run(feeds))
    except rlx.RlxError as error:
        if not str(error):
            raise AssertionError("an error without a text") from error
        return "refused"
    if sum(g.nbytes for g in got) > 1 << 20 or op.has("random"):
        return "ran"
    numbers = [v for v in sample.attrs.values() if isinstance(v, float)] + [
        a for a in sample.args if a is not None
    ]
    if not all(
        np.isfinite(np.asarray(a, np.complex128)).all()
        for a in numbers
        if np.asarray(a).dtype.kind in "fcV"
    ):
        return "ran"  # which sums and products of infinities are NaN depends on their order
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = evaluate_op(op, sample.args, graph.nodes[-1].attrs)
    except (rlx.RlxError, ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
        return "ran"
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if g.dtype.kind in "fcV":
            wide = np.complex128 if g.dtype.kind == "c" else np.float64
            loose = max(
                1e-2 if g.dtype.itemsize < 4 else 1e-3, 4 * op.tolerance.of(dtypes.of_array(w))[0]
            )
            a, b = g.astype(wide), w.astype(wide)
            np.testing.assert_allclose(a, b, rtol=loose, atol=loose)
        else:
            np.testing.assert_array_equal(g, w)
    return "ran"


def describe(op: OpDef, sample: Sample) -> str:
    shapes = ", ".join(
        "-" if a is None else f"{np.asarray(a).dtype}{list(np.shape(a))}" for a in sample.args
    )
    return f"{op.name}({shapes}) {dict(sample.attrs)}"


class TooLong(BaseException):
    """The alarm went off."""


def _alarm(*_: Any) -> None:
    raise TooLong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [o.name for o in TABLE.values() if o.samples is not None and not o.internal]
)
def test_a_hostile_call_is_refused_or_right(name: str) -> None:
    op = TABLE[name]
    before = signal.signal(signal.SIGALRM, _alarm)
    try:
        for sample in mutants(op, MUTANTS):
            signal.alarm(20)
            try:
                outcome(op, sample)
            except (Exception, TooLong) as error:
                raise AssertionError(
                    f"{describe(op, sample)}: {type(error).__name__}: {error}"
                ) from error
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)


def _resized(g: rlx.Graph, x: rlx.Value) -> rlx.Graph:
    g.output("y", TABLE["resize"](x, sizes=(2, 2**31), mode="linear"))
    return g


def test_resizing_to_an_absurd_size_is_refused_at_once() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (2, 3), rlx.f32)
    with pytest.raises(rlx.SizeError):
        rlx.compile(_resized(g, x))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_region_outside_the_image_does_not_read_it(mode: str) -> None:
    op = TABLE["roi_align"]
    image = np.full((1, 2, 4, 4), np.nan, np.float32)
    rois = np.array([[50, 50, 60, 60]], np.float32)
    attrs = {"output_size": (2, 2), "mode": mode, "sampling_ratio": 2}
    graph, feeds = build(op, Sample((image, rois, np.zeros(1, np.int64)), attrs))
    np.testing.assert_array_equal(CompiledGraph(graph, rlx.CompileOptions(threads=1)).run(feeds)[0], 0)
