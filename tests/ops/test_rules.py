"""Shape and dtype rules: agree with the definitions, refuse the failing samples, take symbolic sizes."""

import numpy as np
import pytest

import rlx
from rlx import dtypes, ops
from rlx.errors import GraphError
from rlx.ir.graph import Graph
from rlx.ir.opdef import OpDef, result_arrays
from rlx.ops import TABLE
from rlx.testing.optest import build, cases, samples_of

F32 = np.float32
ROWS = [pytest.param(op, id=op.name) for op in TABLE.values() if not op.internal]


@pytest.mark.parametrize("op", ROWS)
def test_row_is_complete(op: OpDef) -> None:
    assert op.doc.endswith((".", ".)"))
    assert op.samples is not None, "a row needs samples"
    assert all(len(samples_of(op, d)) > 0 for d in op.dtypes)


@pytest.mark.parametrize("op", [p for p in ROWS if p.values[0].errors is not None])
def test_failing_samples_are_refused(op: OpDef) -> None:
    assert op.errors is not None
    for sample in op.errors():
        graph = Graph("g")
        values = [None if a is None else graph.input(f"x{i}", np.shape(a), np.asarray(a).dtype)
                  for i, a in enumerate(sample.args)]
        with pytest.raises(GraphError, match=sample.match):
            graph.emit(op, values, sample.attrs)


@pytest.mark.parametrize(("op", "dtype"), [pytest.param(o, d, id=f"{o.name}-{d}") for o, d in cases()])
def test_rule_agrees_with_definition(op: OpDef, dtype: dtypes.DType) -> None:
    for sample in samples_of(op, dtype)[:6]:
        graph, _ = build(op, sample)
        node = graph.nodes[-1]
        wide = [a if a is None or not dtypes.of_array(a).is_half else a.astype(np.float32) for a in sample.args]
        with np.errstate(all="ignore"):
            results = result_arrays(op.reference(*wide, **node.attrs))
        if not op.has("dynamic"):
            assert [v.shape for v in node.outputs] == [r.shape for r in results]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("sum", "reduce_sum"), ("mean", "reduce_mean"), ("concatenate", "concat"), ("Relu", "relu"), ("conv2d", "conv"),
     ("soft_max", "softmax"), ("matmull", "matmul")],
)
def test_an_unknown_op_names_the_nearest(asked: str, expected: str) -> None:
    with pytest.raises(AttributeError, match=rf"no op '{asked}' in rlx\.ops; the nearest are .*\b{expected}\b"):
        getattr(ops, asked)


@pytest.mark.parametrize("asked", ["zzzz", "__wrapped__", "_", "x"])
def test_nothing_is_near_nonsense(asked: str) -> None:
    with pytest.raises(AttributeError, match=rf"no op '{asked}' in rlx\.ops; ops\.TABLE lists all"):
        getattr(ops, asked)


def _in_float8(op: OpDef, dtype: dtypes.DType) -> list[np.ndarray | np.generic | None] | None:
    """Operands of a sample with its floats in float8; None if it has none."""
    for sample in samples_of(op, dtype):
        found = [a if a is None or not dtypes.of_array(a).is_float else np.asarray(a).astype(dtypes.f8e4m3fn.numpy)
                 for a in sample.args]
        if any(a is not None and a.dtype == dtypes.f8e4m3fn.numpy for a in found):
            return found
    return None


@pytest.mark.parametrize("op", ROWS)
def test_float8_is_claimed_or_refused_with_a_hint(op: OpDef) -> None:
    first = next((d for d in op.dtypes if d.is_float and not d.is_float8), None)
    arrays = None if first is None else _in_float8(op, first)
    claimed = [d for d in dtypes.FLOAT8 if d in op.dtypes]
    assert claimed in ([], list(dtypes.FLOAT8))
    if arrays is None or claimed or op.name == "dequantize_linear":
        return
    graph = Graph("g")
    values = [None if a is None else graph.constant(a) if op.has("constants") and i else
              graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    assert op.samples is not None and first is not None
    with pytest.raises(GraphError, match=r"f8e4m3fn.*\nhint: float8 is stored") as caught:
        graph.emit(op, values, samples_of(op, first)[0].attrs, name="here")
    assert "(node 'here')\nhint" in str(caught.value)


@pytest.mark.parametrize(("a", "b", "want"), [
    ("x", 0, F32), (0.5, "x", F32), (1.0, 0.0, F32), (1, 0.5, F32), (1, 0, np.int64), (True, False, np.bool_),
    (np.zeros(3, np.float64), 0, np.float64), (1, np.ones(3, np.int32), np.int32),
    (np.float16(1), 0, np.float16), (1j, 0.5, np.complex64),
])
def test_numbers_that_where_chooses_take_the_type_of_the_other(a, b, want):
    x = np.array([-1.0, 0.0, 2.0], F32)
    g = rlx.Graph("g")
    v = g.input("x", (3,))
    chosen = [v if isinstance(i, str) else i for i in (a, b)]
    g.output("y", ops.where(v > 0.0, *chosen))
    y = rlx.compile(g).run({"x": x})["y"]
    assert y.dtype == want
    np.testing.assert_array_equal(y, np.where(x > 0, *(x if isinstance(i, str) else i for i in (a, b))))


def test_where_takes_a_condition_that_is_a_constant():
    g = rlx.Graph("g")
    x = g.input("x", (3,))
    g.output("y", ops.where(True, x, 0))
    assert rlx.compile(g).run({"x": np.ones(3, F32)})["y"].tolist() == [1, 1, 1]
    with pytest.raises(rlx.TypeRuleError, match="operand types must match, got"):
        ops.where(x > 0, x, np.zeros(3))


def test_stack_takes_a_list():
    g = rlx.Graph("g")
    x = g.input("x", (3,))
    assert ops.stack((x, x), 1).shape == (3, 2)
    with pytest.raises(rlx.TypeRuleError, match=r"stack: must be given a list .* then the axis, got Value\nhint:"):
        ops.stack(x, x)
    for values in ([x, 1.0], [np.zeros(3, F32), x]):
        with pytest.raises(rlx.TypeRuleError, match=r"stack: .* values of a graph, got (float|ndarray)\nhint:"):
            ops.stack(values)
