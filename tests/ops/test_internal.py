"""Rows that only passes create equal their definitions too."""

import pytest

from rlx import dtypes
from rlx.ir.opdef import OpDef
from rlx.ops import TABLE
from rlx.reference import evaluate_op
from rlx.testing.optest import Setup, compare, run_sample, samples_of

CASES = [
    pytest.param(op, dtype, id=f"{op.name}-{dtype}")
    for op in TABLE.values()
    # the twins of dynamic rows are tested through those; beyond their counts they define nothing
    if op.internal and op.samples is not None and not op.name.endswith("_bounded")
    for dtype in op.dtypes
]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_internal_op_equals_its_definition(op: OpDef, dtype: dtypes.DType) -> None:
    for i, sample in enumerate(samples_of(op, dtype)):
        want = evaluate_op(op, sample.args, sample.attrs, precise=not op.tolerance.exact)
        for setup in (Setup(), Setup(threads=2), Setup(isa="baseline")):
            got = run_sample(op, sample, setup)
            for g, w in zip(got, want, strict=True):
                compare(op, g, w, f"{op.name} sample {i} {setup}")
