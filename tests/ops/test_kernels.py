"""Every op x element type of the table equals its NumPy definition, however it is run."""

import pytest

from rlx.dtypes import DType
from rlx.ir.opdef import OpDef
from rlx.runtime import kernels
from rlx.testing.optest import Setup, cases, check_sample, samples_of

CASES = [pytest.param(op, dtype, id=f"{op.name}-{dtype}") for op, dtype in cases()]
LEVELS = kernels.available_levels()


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_op_equals_its_definition(op: OpDef, dtype: DType) -> None:
    """Strongest level, one and two threads, passes on and off, operands constant or given."""
    for i, sample in enumerate(samples_of(op, dtype)):
        check_sample(op, sample, Setup(), i)
        check_sample(op, sample, Setup(threads=2, optimize=False), i)
        if i % 3 == 0:
            check_sample(op, sample, Setup(constants=True), i)


@pytest.mark.parametrize("level", LEVELS[:-1])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_op_equals_its_definition_on_weaker_levels(op: OpDef, dtype: DType, level: str) -> None:
    """The same on every ISA level that this processor has."""
    for i, sample in enumerate(samples_of(op, dtype)):
        check_sample(op, sample, Setup(isa=level), i)
