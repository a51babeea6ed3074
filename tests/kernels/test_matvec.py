"""Few vectors by a matrix read along K: every number of vectors, halves, narrowing, cuts, guard pages."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from rlx.lower import gemm
from rlx.lower.context import workspaces
from rlx.runtime import kernels
from rlx.testing.kernels import call_kernel

STORED = {None: np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def run(plan, args, level, threads=1, grain=None):
    work = np.zeros(plan.workspace * workspaces(threads), np.uint8) if plan.workspace else None
    call_kernel(plan.kernel, [*args[:4], work, *args[4:]], plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)  # fmt: skip


@pytest.mark.parametrize("stored", STORED)
def test_vectors(stored, level, guarded):
    nr = gemm.panel("f32", level)[1]
    rng = np.random.default_rng(3)
    for m, k in itertools.product([1, 3, 9, 70], [0, 1, nr - 1, 2 * nr + 1, 301]):
        a = guarded(rng.standard_normal((m, k)).astype(STORED[stored]))
        x, bias = guarded(rng.standard_normal((4, k)).astype(np.float32)), rng.standard_normal(m).astype(np.float32)
        want = x.astype(np.float64) @ a.astype(np.float64).T + bias
        first = None
        for vectors in (4, 3, 2, 1):
            plan = gemm.plan_matvec(m, k, stored=stored, vectors=vectors, level=level)
            given = guarded(x[:vectors])
            for threads, grain in ((1, plan.grain), (2, 1)):
                out = guarded(np.full((vectors, m), np.nan, np.float32))
                run(plan, [a, given, out, guarded(bias)], level, threads, grain)
                np.testing.assert_allclose(out, want[:vectors], rtol=1e-5, atol=1e-4)
                first = out if first is None else first
                np.testing.assert_array_equal(out, first[:vectors])  # a row does not see the others


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_a_last_step_that_narrows(stored, level, guarded):
    rng = np.random.default_rng(4)
    m, k = 77, 40
    a, x = rng.standard_normal((m, k)).astype(STORED[stored]), rng.standard_normal((3, k)).astype(np.float32)
    wide, out = np.zeros((3, m), np.float32), np.zeros((3, m), a.dtype)
    run(gemm.plan_matvec(m, k, stored=stored, vectors=3, level=level), [a, x, wide, None], level)
    step = gemm.Step(kernels.table(level).ew(f"cast_{stored}.f32").address)
    plan = gemm.plan_matvec(m, k, stored=stored, vectors=3, steps=[step], out_size=2, level=level)
    out = guarded(out)
    run(plan, [a, x, out, None], level, 2, 1)
    np.testing.assert_array_equal(out.view(np.uint16), wide.astype(a.dtype).view(np.uint16))


def test_rows_apart(level, guarded):
    rng = np.random.default_rng(5)
    a, x = rng.standard_normal((20, 50)).astype(np.float32), rng.standard_normal((2, 60)).astype(np.float32)
    out = np.full((2, 30), 7, np.float32)
    plan = gemm.plan_matvec(20, 50, vectors=2, ldx=60, ldo=30, level=level)
    run(plan, [guarded(a), x, out, None], level)
    np.testing.assert_allclose(out[:, :20], x[:, :50] @ a.T, rtol=1e-4, atol=1e-4)
    assert (out[:, 20:] == 7).all()
