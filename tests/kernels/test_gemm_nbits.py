"""Products with codes of 2, 4 and 8 bits: the bits are those of dequantise + f32 product with the same passes of K."""

import itertools

import numpy as np
import pytest

from rlx.lower import gemm, gemm_nbits
from rlx.lower.context import workspaces
from rlx.lower.program import EwRef
from rlx.ops import nbits
from rlx.runtime import kernels
from rlx.runtime.weights import run_transform
from rlx.testing.kernels import call_kernel


def problem(m, n, k, bits, block, zeros, level, seed=0, half=False):
    """A, packed operands, and the weights in f32; `half`: scales of few digits, which make weights in one step."""
    rng = np.random.default_rng(seed)
    blocks = nbits.block_count(k, block)
    codes = rng.integers(0, 256, (n, nbits.row_bytes(k, bits)), np.uint8)
    scale = rng.standard_normal((n, blocks)).astype(np.float16 if half else np.float32).astype(np.float32)
    zero = rng.integers(0, 1 << bits, (n, blocks)).astype(np.uint8) if zeros else None
    table = kernels.table(level)

    def words(x, count):
        return run_transform(gemm_nbits.pack_words(count, n, level, x.nbytes // max(1, n)), x, table)

    packed = [words(codes, gemm_nbits.words_of(k, bits)), words(scale, blocks)]
    packed.append(None if zero is None else words(zero, -(-blocks // 4)))
    weights = nbits.dequantised(codes, scale, zero, k, bits, block)
    return rng.standard_normal((m, k)).astype(np.float32), packed, np.ascontiguousarray(weights.T)


def product(a, w, level, **how):
    """The f32 kernel with the passes of K of the codes."""
    (m, k), n = a.shape, w.shape[1]
    plan = gemm.plan_pack(k, n, level=level)
    packed = np.zeros(gemm.packed_bytes(k, n, "f32", level) // 4, np.float32)
    call_kernel(plan.kernel, [w, packed], plan.attrs, extent=plan.extent, level=level)
    plan = gemm.plan_matmul(m, n, k, kc=gemm_nbits.depth(k), level=level, **how)
    out = np.zeros((m, n), np.float32)
    work = np.zeros(plan.workspace, np.uint8) if plan.workspace else None
    call_kernel(plan.kernel, [a, packed, out, how_bias(n), work], plan.attrs, extent=plan.extent, level=level)
    return out


def how_bias(n):
    return np.linspace(-1, 1, n, dtype=np.float32)


def run(plan, a, packed, out, bias, level, threads=1, grain=None, keep=lambda x: x):
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8)
    codes, *others = (None if p is None else keep(p) for p in packed)
    call_kernel(plan.kernel, [keep(a), codes, out, keep(bias), work, *others], plan.attrs, extent=plan.extent,
                level=level, threads=threads, grain=grain or plan.grain)  # fmt: skip


CASES = [
    (k, bits, block, zeros)
    for (k, bits, block), zeros in itertools.product([
        (1, 4, 32), (31, 4, 16), (64, 4, 32), (500, 4, 128), (801, 4, 256), (33, 8, 33), (400, 8, 16), (1000, 8, 1000),
        (50, 2, 16), (420, 2, 64),
    ], (False, True))
]  # fmt: skip


@pytest.mark.parametrize(("k", "bits", "block", "zeros"), CASES)
def test_bits_are_those_of_dequantised_weights(k, bits, block, zeros, level, guarded):
    nr = gemm.panel("f32", level)[1]
    for m, n in itertools.product([1, 2, 3, 4, 5, 7, 8, 9, 17], [1, nr, 4 * nr + 3, 7 * nr]):
        a, packed, w = problem(m, n, k, bits, block, zeros, level, seed=k + n, half=(m + n + k) % 2)
        clamp = (-20.0, 200.0)
        want = product(a, w, level, clamp=clamp)
        plan = gemm_nbits.plan_matmul(m, n, k, bits=bits, block=block, level=level, clamp=clamp)
        out = guarded(np.full((m, n), np.nan, np.float32))
        run(plan, a, packed, out, how_bias(n), level, keep=guarded)
        np.testing.assert_array_equal(out, want)
        out = np.full((m, n), np.nan, np.float32)
        run(plan, a, packed, out, how_bias(n), level, threads=2, grain=1)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("bits", nbits.BITS)
def test_nothing_before_the_operands_is_read(bits, level, guarded):
    nr = gemm.panel("f32", level)[1]
    for m, n in itertools.product([1, 4, 9], [nr, 4 * nr]):
        a, packed, w = problem(m, n, 64, bits, 32, False, level, half=True)
        out = np.full((m, n), np.nan, np.float32)
        run(gemm_nbits.plan_matmul(m, n, 64, bits=bits, block=32, level=level), a, packed, out, how_bias(n), level,
            keep=lambda x: guarded(x, start=True))  # fmt: skip
        np.testing.assert_array_equal(out, product(a, w, level))


@pytest.mark.parametrize("half", [False, True])
def test_results_do_not_depend_on_the_number_of_rows(half, level):
    a, packed, _ = problem(20, 40, 200, 4, 32, True, level, half=half)
    outs = []
    for m in (1, 4, 5, 8, 9, 20):
        plan = gemm_nbits.plan_matmul(m, 40, 200, bits=4, block=32, level=level)
        out = np.zeros((m, 40), np.float32)
        run(plan, a[:m].copy(), packed, out, how_bias(40), level)
        outs.append(out[:1])
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


def test_every_code_and_zero_point(level):
    for bits in nbits.BITS:
        n, k = 1 << bits, 1 << bits
        codes = np.tile(np.arange(k, dtype=np.uint8), (n, 1))
        zero = np.arange(n, dtype=np.uint8).reshape(n, 1)
        table = kernels.table(level)
        packed = [run_transform(gemm_nbits.pack_words(w, n, level, x.nbytes // n), x, table)
                  for x, w in ((nbits.pack(codes, bits), gemm_nbits.words_of(k, bits)),
                               (np.full((n, 1), 0.1, np.float32), 1), (zero, 1))]  # fmt: skip
        want = (np.arange(k, dtype=np.float32)[:, None] - np.arange(n, dtype=np.float32)) * np.float32(0.1)
        eye = np.eye(k, dtype=np.float32)
        for rows in (1, k):
            plan = gemm_nbits.plan_matmul(rows, n, k, bits=bits, block=k, level=level)
            for at in range(0, k, max(rows, k // 8)):
                out = np.zeros((rows, n), np.float32)
                run(plan, eye[at : at + rows].copy(), packed, out, np.zeros(n, np.float32), level)
                np.testing.assert_array_equal(out, want[at : at + rows])


def test_an_operand_is_added_in_registers(level):
    nr = gemm.panel("f32", level)[1]
    for m, n, k in itertools.product([1, 2, 5, 17], [nr - 1, 5 * nr + 3], [40, 500]):
        a, packed, w = problem(m, n, k, 4, 32, True, level)
        extra = np.random.default_rng(m).standard_normal((m, n)).astype(np.float32)
        steps = [gemm.Step(EwRef("add.f32"), gemm.EPI_FULL, 7, n), gemm.Step(EwRef("relu.f32"))]
        plan = gemm_nbits.plan_matmul(m, n, k, bits=4, block=32, level=level, steps=steps)
        assert plan.attrs["addend"] == 7
        out = np.full((m, n), np.nan, np.float32)
        run(plan, a, [*packed, extra], out, how_bias(n), level, threads=2, grain=1)
        np.testing.assert_array_equal(out, np.maximum(product(a, w, level) + extra, 0))


@pytest.mark.parametrize(("bits", "zeros"), list(itertools.product(nbits.BITS, (False, True))))
def test_scales_of_few_digits_and_extreme_ones(bits, zeros, level):
    """Where zero * scale is exact the kernel forms a weight in one step, else in two: the same bits."""
    nr = gemm.panel("f32", level)[1]
    m, n, k, block = 3, 2 * nr + 1, 96, 16
    rng = np.random.default_rng(bits)
    blocks = nbits.block_count(k, block)
    codes = rng.integers(0, 256, (n, nbits.row_bytes(k, bits)), np.uint8)
    scale = rng.standard_normal((n, blocks)).astype(np.float16).astype(np.float32)
    scale[:, 1] = np.float32(1e-45) * rng.integers(-3, 4, n)
    scale[:nr, 2] = [np.float32(0.1), np.float32(-3e37)] + [0] * (nr - 2)
    scale[-1, 3] = 3e38  # the middle of 8 bits times that is infinite
    zero = rng.integers(0, 1 << bits, (n, blocks)).astype(np.uint8) if zeros else None
    table = kernels.table(level)
    packed = [None if x is None else run_transform(gemm_nbits.pack_words(w, n, level, x.nbytes // n), x, table)
              for x, w in ((codes, gemm_nbits.words_of(k, bits)), (scale, blocks), (zero, -(-blocks // 4)))]
    with np.errstate(over="ignore"):
        w = np.ascontiguousarray(nbits.dequantised(codes, scale, zero, k, bits, block).T)
    a = rng.standard_normal((m, k)).astype(np.float32)
    for rows in (1, 3):
        want = product(a[:rows].copy(), w, level)
        out = np.full((rows, n), np.nan, np.float32)
        run(gemm_nbits.plan_matmul(rows, n, k, bits=bits, block=block, level=level), a[:rows].copy(), packed, out,
            how_bias(n), level)  # fmt: skip
        np.testing.assert_array_equal(out, want)
