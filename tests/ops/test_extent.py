"""Every row of the table under an active extent: first rows bit for bit, the rest zero, stale rows never read.

`tools/hunt_extents.py` does the same for all samples, types and extents.
"""

import pytest

from rlx.dtypes import DType
from rlx.ir.opdef import OpDef
from rlx.runtime.levels import available_levels
from rlx.testing.extents import compare, foretold, graphs, samples_under_extents
from rlx.testing.optest import cases, samples_of

CASES = list(cases())
LEVELS = available_levels()


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.name}-{d}" for o, d in CASES])
def test_c5_op_and_type_under_an_extent(op: OpDef, dtype: DType) -> None:
    """The first sample of every op and element type with a size that can be a symbol."""
    for sample in samples_of(op, dtype):
        for graph, size, feeds in graphs(op, sample):
            if size <= 8:
                assert compare(graph, size, feeds, 1, {size - 1}) <= 1  # 0 where the graph cannot be smaller
                return


@pytest.mark.parametrize("name", sorted({o.name for o, _ in CASES}))
def test_c5_every_extent_of_an_op(name: str) -> None:
    """Every op that has a size can run on fewer rows, or its graph cannot be smaller."""
    found, used = samples_under_extents(*next((o, d) for o, d in CASES if o.name == name), 1)
    if found == 0:
        pytest.skip("no sample with a size that can be a symbol")
    assert used


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", sorted({o.name for o, _ in CASES}))
def test_programs_of_an_op_are_foretold(name: str, isa: str) -> None:
    """No number loses its trace between the rule of an op and its thunks."""
    assert foretold(*next((o, d) for o, d in CASES if o.name == name), 2, 40, (40, 11), isa) <= 4


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", ["conv", "conv_transpose", "matmul", "matmul_nbits", "matmul_integer", "attention"])
def test_programs_of_large_products_are_foretold(name: str, isa: str) -> None:
    """Sizes at which work is cut into tasks and layouts are chosen by cost, in the type that has most kernels."""
    dtypes = {d.name: d for o, d in CASES if o.name == name}
    dtype = dtypes.get("f32") or next(iter(dtypes.values()))
    assert foretold(next(o for o, _ in CASES if o.name == name), dtype, 2, 700, (700, 90), isa) <= 4
