"""Products over weights stored in halves or float8: the bits are those of the f32 product of the widened weights."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from rlx.lower import gemm, gemm_conv, gemm_half
from rlx.lower.context import workspaces
from rlx.lower.program import EwRef
from rlx.testing.kernels import call_kernel

HALF = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
        "f8e5m2": ml_dtypes.float8_e5m2}


def pack(b, level, stored=None, trans=False):
    k, n = b.shape[-2:][:: -1 if trans else 1]
    groups = b.size // max(1, k * n)
    how = {"groups": groups, "trans": trans, "level": level}
    if stored is None:
        plan, size = gemm.plan_pack(k, n, **how), gemm.packed_bytes(k, n, "f32", level) // 4
    else:
        plan = gemm_half.plan_pack(k, n, stored=stored, **how)
        size = gemm_half.packed_bytes(k, n, stored, level) // b.dtype.itemsize
    out = np.full(groups * size, np.nan, b.dtype)
    call_kernel(plan.kernel, [b, out], plan.attrs, extent=plan.extent, level=level)
    return out


def run(plan, args, level, threads=1, grain=None):
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8) if plan.workspace else None
    call_kernel(plan.kernel, [*args[:4], work, *args[4:]], plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)


def halves(stored, *shape, seed=0):
    rng = np.random.default_rng(seed)
    top = 3 if HALF[stored] == HALF["f8e4m3fn"] else 4
    return (rng.standard_normal(shape) * 8.0 ** rng.integers(-3, top, shape)).astype(HALF[stored])


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("stored", HALF)
def test_pack(stored, trans, level, guarded):
    nr = gemm.panel("f32", level)[1]
    for k, n in itertools.product([0, 1, 7, 35, 70], [1, nr - 1, nr, nr + 1, 2 * nr + 1]):
        b = halves(stored, 2, k, n)
        got = pack(guarded(np.swapaxes(b, 1, 2) if trans else b), level, stored, trans)
        want = np.zeros((2, -(-n // nr), k, nr), b.dtype)
        for j in range(n):
            want[:, j // nr, :, j % nr] = b[:, :, j]
        np.testing.assert_array_equal(got.view(np.uint8), want.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("direct", [0, 10**9])
@pytest.mark.parametrize("stored", HALF)
def test_bits_are_those_of_widened_weights(stored, direct, level, guarded, monkeypatch):
    monkeypatch.setattr(gemm_half, "DIRECT_ROWS", dict.fromkeys(HALF, direct))
    mr, nr = gemm.panel("f32", level)
    rng = np.random.default_rng(5)
    for m, n, k in itertools.product([1, 3, mr, mr + 1, 2 * mr + 3], [1, nr, 3 * nr + 2], [0, 1, 33, 400]):
        a, b = rng.standard_normal((m, k)).astype(np.float32), halves(stored, k, n, seed=k + n)
        bias, clamp = rng.standard_normal(n).astype(np.float32), (-3.0, 30.0)
        want, out = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
        wide = pack(b.astype(np.float32), level)
        run(gemm.plan_matmul(m, n, k, clamp=clamp, level=level), [a, wide, want, bias], level)
        plan = gemm_half.plan_matmul(m, n, k, stored=stored, clamp=clamp, level=level)
        out = guarded(out)
        run(plan, [guarded(a), guarded(pack(b, level, stored)), out, guarded(bias)], level)
        np.testing.assert_array_equal(out, want)
        for threads, grain in ((2, 1), (1, 1)):
            out[...] = np.nan
            run(plan, [a, pack(b, level, stored), out, bias], level, threads, grain)
            np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("stored", HALF)
def test_every_half_widens_to_its_value(stored, level):
    bits = np.arange(65536, dtype=np.uint16) if stored in ("f16", "bf16") else np.arange(256, dtype=np.uint8)
    b = bits.view(HALF[stored]).reshape(1, -1)
    for direct in (True, False):
        plan = gemm_half.plan_matmul(1, b.size, 1, stored=stored, level=level)
        if not direct:
            plan = gemm_half.plan_matmul(64, b.size, 1, stored=stored, level=level)
        m = 1 if direct else 64
        out = np.empty((m, b.size), np.float32)
        run(plan, [np.ones((m, 1), np.float32), pack(b, level, stored), out, None], level)
        np.testing.assert_array_equal(out, np.repeat(b.astype(np.float32), m, 0))


@pytest.mark.parametrize("stored", HALF)
def test_transposed_rows_and_batches(stored, level, guarded):
    m, n, k = 45, 37, 50
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, k, m)).astype(np.float32), halves(stored, 3, k, n)
    outs = []
    for wide in (True, False):
        size = gemm.packed_bytes(k, n, "f32", level) // 4
        how = {"trans_a": True, "batch": [(3, m * k, size, m * n)], "level": level}
        plan = gemm.plan_matmul(m, n, k, **how) if wide else gemm_half.plan_matmul(m, n, k, stored=stored, **how)
        packed = pack(b.astype(np.float32), level) if wide else pack(b, level, stored)
        out = np.zeros((3, m, n), np.float32)
        run(plan, [guarded(a), guarded(packed), out, None], level)
        outs.append(out)
    np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("size", [11, 70])  # tasks of few rows and of many
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 5)])
@pytest.mark.parametrize("stored", HALF)
def test_conv(stored, kernel, groups, size, level, guarded):
    rng = np.random.default_rng(2)
    c, oc = 6, 20
    x = rng.standard_normal((2, 9, size, c * groups)).astype(np.float32)
    shape = gemm_conv.conv_shape(x.shape, oc * groups, kernel, pads=[kernel[0] // 2, 0, 0, 1], groups=groups)
    w = halves(stored, groups, oc, shape.depth)
    bias = rng.standard_normal(oc * groups).astype(np.float32)
    outs = []
    for wide in (True, False):
        packed = pack(w.astype(np.float32), level, trans=True) if wide else pack(w, level, stored, trans=True)
        half = {} if wide else {"stored": stored}
        plan = (gemm_conv if wide else gemm_half).plan_conv(shape, level=level, **half)
        out = np.zeros((*shape.out[1:], 2, oc * groups), np.float32)
        run(plan, [guarded(x), guarded(packed), out, bias], level)
        outs.append(out)
    np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("stored", HALF)
def test_an_operand_is_added_in_registers(stored, level):
    for m, n, k in itertools.product([1, 7, 45, 120], [33, 70], [20, 450]):
        rng = np.random.default_rng(m + n)
        a, extra = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((m, n)).astype(np.float32)
        b = halves(stored, k, n)
        out, plain = np.full((m, n), np.nan, np.float32), np.full((m, n), np.nan, np.float32)
        run(gemm_half.plan_matmul(m, n, k, stored=stored, level=level), [a, pack(b, level, stored), plain, None], level)
        steps = [gemm.Step(EwRef("add.f32"), gemm.EPI_FULL, 5, n)]
        plan = gemm_half.plan_matmul(m, n, k, stored=stored, level=level, steps=steps)
        run(plan, [a, pack(b, level, stored), out, None, extra], level, threads=2, grain=1)
        np.testing.assert_array_equal(out, plain + extra)
