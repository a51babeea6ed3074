"""Floating GEMM: packing, every tile shape, strides, batches, epilogues, cuts of the range."""

import ctypes
import itertools

import numpy as np
import pytest

from rlx.lower import gemm
from rlx.lower.context import workspaces
from rlx.lower.program import EwRef
from rlx.runtime import kernels
from rlx.testing.kernels import call_kernel

DTYPES = {"f32": np.float32, "f64": np.float64}
TOLERANCE = {"f32": 3e-6, "f64": 1e-14}
EW = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_int64, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p)


def random(*shape, dtype="f32", seed=0):
    rng = np.random.default_rng(seed + sum(shape))
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def pack(b, level, dtype="f32", trans=False):
    """Pack [..., K, N] (or [..., N, K])."""
    k, n = b.shape[-2:][:: -1 if trans else 1]
    groups = b.size // max(1, k * n)
    plan = gemm.plan_pack(k, n, groups=groups, trans=trans, dtype=dtype, level=level)
    item = b.itemsize
    size = groups * gemm.packed_bytes(k, n, dtype, level) // item
    out = np.full(size, np.nan, b.dtype)
    call_kernel(plan.kernel, [b, out], plan.attrs, extent=plan.extent, level=level)
    return out


def run(plan, args, level, threads=1, grain=None):
    work = np.full(plan.workspace * workspaces(threads), 0xFF, np.uint8) if plan.workspace else None
    args = [*args[:4], work, *args[4:]]
    call_kernel(plan.kernel, args, plan.attrs, extent=plan.extent, threads=threads,
                grain=grain or plan.grain, level=level)


def check(out, a, b, dtype="f32", extra=0.0):
    """Compare with a f64 product, relative to the product of magnitudes."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    want, size = a @ b + extra, np.abs(a) @ np.abs(b) + np.abs(extra) + 1e-30
    assert out.shape == want.shape
    assert not np.isnan(out).any()
    assert (np.abs(out - want) <= TOLERANCE[dtype] * size).all()


def sizes(around):
    return sorted({1, 2, around - 1, around, around + 1, 2 * around + 1} - {0})


@pytest.mark.parametrize("dtype", DTYPES)
def test_panel_agrees_with_kernel(dtype, level):
    info = np.zeros(2, np.int64)
    call_kernel(f"gemm_info.{dtype}", [info], {}, extent=1, level=level)
    assert tuple(info) == gemm.panel(dtype, level)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pack(dtype, trans, level, guarded):
    nr = gemm.panel(dtype, level)[1]
    for k, n in itertools.product([0, 1, 7, 8, 19], sizes(nr)):
        b = random(2, k, n, dtype=dtype)
        src = guarded(np.swapaxes(b, 1, 2) if trans else b)
        got = pack(src, level, dtype, trans).reshape(2, -(-n // nr), k, nr)
        want = np.zeros_like(got)
        for j in range(n):
            want[:, j // nr, :, j % nr] = b[:, :, j]
        assert (got == want).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_shapes(dtype, level, guarded):
    mr, nr = gemm.panel(dtype, level)
    for m, n in itertools.product([*range(1, mr + 2), 2 * mr + 3], [*sizes(nr), 8 * nr + 3]):
        k = (m * 7 + n) % 23
        a, b = guarded(random(m, k, dtype=dtype)), random(k, n, dtype=dtype)
        packed, out = guarded(pack(b, level, dtype)), guarded(np.full((m, n), np.nan, a.dtype))
        run(gemm.plan_matmul(m, n, k, dtype=dtype, level=level), [a, packed, out, None], level)
        check(out, a, b, dtype)


@pytest.mark.parametrize("k", [0, 1, 383, 384, 385, 1500])
def test_matmul_depth(k, level, guarded):
    for m, n in [(1, 200), (17, 100)]:
        a, b, bias = guarded(random(m, k)), random(k, n), guarded(random(n))
        out = guarded(np.full((m, n), np.nan, np.float32))
        run(gemm.plan_matmul(m, n, k, level=level), [a, pack(b, level), out, bias], level)
        check(out, a, b, extra=bias.astype(np.float64))
        if k == 0:
            assert (out == bias).all()


def test_empty(level):
    for m, n, k in [(0, 5, 3), (5, 0, 3), (0, 0, 0)]:
        plan = gemm.plan_matmul(m, n, k, level=level)
        assert plan.extent == 0
        a, b = random(m, k), random(k, n)
        run(plan, [a, pack(b, level), np.empty((m, n), np.float32), None], level)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(a, b) for a in (False, True) for b in (False, True)])
def test_matmul_unpacked(dtype, trans_a, trans_b, level, guarded):
    mr, nr = gemm.panel(dtype, level)
    cases = itertools.product([1, 2, mr, 2 * mr + 1], [1, nr, nr + 1, 7 * nr + 3], [0, 1, 30, 600])
    for m, n, k in cases:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        out = guarded(np.full((m, n), np.nan, a.dtype))
        plan = gemm.plan_matmul(m, n, k, dtype=dtype, trans_a=trans_a, trans_b=trans_b,
                                packed=False, level=level)
        run(plan, [guarded(a.T if trans_a else a), guarded(b.T if trans_b else b), out, None],
            level)
        check(out, a, b, dtype)
        if not trans_a:
            same = np.full_like(out, np.nan)
            run(gemm.plan_matmul(m, n, k, dtype=dtype, level=level),
                [a, pack(b, level, dtype), same, None], level)
            assert (same == out).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_small_b_in_place_has_the_bits_of_a_packed_one(dtype, level, guarded):
    """From 12 rows on, B is read where it lies, the last panel through a mask; NaN beside it is not read."""
    nr = gemm.panel(dtype, level)[1]
    for m, panels, k, beside in itertools.product([12, 13, 20, 49], [2, 3, 4, 5, 8], [0, 1, 33], [0, 5]):
        for n in (panels * nr - nr + 1, panels * nr):
            a, b, bias = random(m, k, dtype=dtype), random(k, n, dtype=dtype), random(n, dtype=dtype)
            wide = np.full((k, n + beside), np.nan, a.dtype)
            wide[:, :n] = b
            out, same = guarded(np.full((m, n), np.nan, a.dtype)), np.full((m, n), np.nan, a.dtype)
            options = {"dtype": dtype, "clamp": (0.0, 9.0), "level": level}
            run(gemm.plan_matmul(m, n, k, packed=False, ldb=n + beside, **options),
                [guarded(a), guarded(wide), out, guarded(bias)], level)
            run(gemm.plan_matmul(m, n, k, **options), [a, pack(b, level, dtype), same, bias], level)
            assert (same == out).all()


def test_rows_do_not_depend_on_the_batch(level):
    """An element's bits depend on K alone: not on M, N, the tile or the cut."""
    m, n, k = 40, 150, 700
    a, b = random(m, k), random(k, n)
    whole = np.empty((m, n), np.float32)
    run(gemm.plan_matmul(m, n, k, level=level), [a, pack(b, level), whole, None], level)
    for rows in (1, 2, 3, 5, 13, 29):
        out = np.empty((rows, n), np.float32)
        run(gemm.plan_matmul(rows, n, k, level=level), [a, pack(b, level), out, None], level)
        assert (out == whole[:rows]).all()
    for cols in (1, 17, 100):
        out = np.empty((m, cols), np.float32)
        sub = np.ascontiguousarray(b[:, :cols])
        run(gemm.plan_matmul(m, cols, k, level=level), [a, pack(sub, level), out, None], level)
        assert (out == whole[:, :cols]).all()


@pytest.mark.parametrize("packed", [True, False])
def test_threads_and_cuts(packed, level):
    m, n, k = 150, 200, 300
    a, b = random(m, k), random(k, n)
    plan = gemm.plan_matmul(m, n, k, packed=packed, level=level)
    assert plan.extent > 2
    args = [a, pack(b, level) if packed else b]
    outs = []
    for threads, grain in [(1, 1), (2, 1), (2, 3)]:
        out = np.full((m, n), np.nan, np.float32)
        run(plan, [*args, out, None], level, threads, grain)
        outs.append(out)
    check(outs[0], a, b)
    assert (outs[0] == outs[1]).all()
    assert (outs[0] == outs[2]).all()


def test_strided_heads(level, guarded):
    """Scores and context of attention straight from packed QKV [B, S, 3, H, D], as views."""
    batch, s, h, d = 2, 9, 3, 8
    qkv = guarded(random(batch, s, 3, h, d))
    row, flat = 3 * h * d, qkv.reshape(-1)
    scores = np.full((batch, h, s, s), np.nan, np.float32)
    dims = [(batch, s * row, s * row, h * s * s), (h, d, d, s * s)]
    plan = gemm.plan_matmul(s, s, d, lda=row, ldb=row, trans_b=True, packed=False, batch=dims,
                            level=level)
    shift = np.ascontiguousarray(flat[h * d :])  # K starts h * d elements after Q
    run(plan, [flat, shift, scores, None], level)
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    check(scores, q, k.transpose(0, 1, 3, 2))
    out = np.full((batch, s, h, d), np.nan, np.float32)
    dims = [(batch, h * s * s, s * row, s * h * d), (h, s * s, d, d)]
    plan = gemm.plan_matmul(s, d, s, ldb=row, ldo=h * d, packed=False, batch=dims, level=level)
    run(plan, [scores, np.ascontiguousarray(flat[2 * h * d :]), out, None], level)
    check(out.transpose(0, 2, 1, 3), scores, v)


def test_broadcast_batches_packed(level):
    a, b = random(3, 1, 5, 6), random(2, 6, 20)
    out = np.full((3, 2, 5, 20), np.nan, np.float32)
    step = gemm.packed_bytes(6, 20, level=level) // 4
    dims = [(3, 30, 0, 200), (2, 0, step, 100)]
    run(gemm.plan_matmul(5, 20, 6, batch=dims, level=level), [a, pack(b, level), out, None], level)
    check(out, a, b)


def test_clamp(level):
    a, b, bias = random(9, 5), random(5, 37), random(37)
    a[2, 1] = np.nan
    ref = np.full((9, 37), np.nan, np.float32)
    run(gemm.plan_matmul(9, 37, 5, level=level), [a, pack(b, level), ref, bias], level)
    for lo, hi in [(0.0, np.inf), (0.0, 0.6), (-np.inf, 0.1)]:
        out = np.full_like(ref, 7)
        plan = gemm.plan_matmul(9, 37, 5, clamp=(lo, hi), level=level)
        run(plan, [a, pack(b, level), out, bias], level)
        np.testing.assert_array_equal(out, np.clip(ref, np.float32(lo), np.float32(hi)))
        assert np.isnan(out[2]).all()


def floats(address, n, dtype=np.float32):
    kind = np.ctypeslib.as_ctypes_type(dtype)
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (n,))


@pytest.mark.parametrize("k", [5, 700])
def test_epilogue(k, level):
    """A chain of unary, row, full and same-stride steps, and a narrowing last step."""

    def scale(dst, a, b, c, n, p, err):
        floats(dst, n)[:] = floats(a, n) * np.float32(p[0])
        return 0

    def sub(dst, a, b, c, n, p, err):
        floats(dst, n)[:] = floats(a, n) - floats(b, n)
        return 0

    def narrow(dst, a, b, c, n, p, err):
        floats(dst, n, np.int16)[:] = floats(a, n).astype(np.int16)
        return 0

    fns = [EW(f) for f in (scale, sub, narrow)]
    scale_at, sub_at, narrow_at = (ctypes.cast(f, ctypes.c_void_p).value for f in fns)
    batch, m, n = 2, 19, 70
    a, b = random(batch, m, k), random(k, n)
    row, full = random(n), random(batch * m, n + 3)
    ldo = n + 5
    same = random(batch * m, ldo)
    steps = [
        gemm.Step(scale_at, params=(3.0,)),
        gemm.Step(sub_at, gemm.EPI_ROW | gemm.EPI_SWAP, 5),
        gemm.Step(sub_at, gemm.EPI_FULL, 6, n + 3),
        gemm.Step(sub_at, gemm.EPI_SAME, 7),
    ]
    want = row - np.float32(3) * (a.astype(np.float64) @ b) - full[:, :n].reshape(batch, m, n)
    want = want - same[:, :n].reshape(batch, m, n)
    dims = [(batch, m * k, 0, m * ldo)]
    out = np.full((batch, m, ldo), 99, np.float32)
    plan = gemm.plan_matmul(m, n, k, ldo=ldo, batch=dims, steps=steps, level=level)
    run(plan, [a, pack(b, level), out, None, row, full, same], level, threads=2)
    np.testing.assert_allclose(out[:, :, :n], want, rtol=1e-4, atol=1e-3)
    assert (out[:, :, n:] == 99).all()
    steps = [gemm.Step(scale_at, params=(100.0,)), gemm.Step(narrow_at)]
    short = np.full((batch, m, ldo), 99, np.int16)
    plan = gemm.plan_matmul(m, n, k, ldo=ldo, batch=dims, steps=steps, out_size=2, level=level)
    run(plan, [a, pack(b, level), short, None], level)
    assert np.abs(short[:, :, :n] - 100 * (a.astype(np.float64) @ b)).max() <= 1.01
    assert (short[:, :, n:] == 99).all()


def test_epilogue_failure_is_reported(level):
    fail = EW(lambda *_: 7)
    step = gemm.Step(ctypes.cast(fail, ctypes.c_void_p).value)
    a, b = random(4, 4), random(4, 4)
    plan = gemm.plan_matmul(4, 4, 4, steps=[step], level=level)
    with pytest.raises(Exception, match="status 7"):
        run(plan, [a, pack(b, level), np.empty((4, 4), np.float32), None], level)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matvec(dtype, level, guarded):
    nr = gemm.panel(dtype, level)[1]
    for m, k in itertools.product([0, 1, 3, 4, 9, 133], [0, 1, nr - 1, 2 * nr + 1, 300]):
        a, x = guarded(random(m, k, dtype=dtype)), guarded(random(k, dtype=dtype))
        bias = guarded(random(m, dtype=dtype))
        out = guarded(np.full(m, np.nan, a.dtype))
        run(gemm.plan_matvec(m, k, dtype=dtype, level=level), [a, x, out, bias], level, threads=2)
        check(out, a, x, dtype, bias.astype(np.longdouble))
    a, x = random(2, 40, 30, dtype=dtype), random(2, 30, dtype=dtype)
    out, one = np.full((2, 40), np.nan, a.dtype), np.ones(1, a.dtype)
    plan = gemm.plan_matvec(40, 30, dtype=dtype, bias_scalar=True, clamp=(0.0, 2.0),
                            batch=[(2, 1200, 30, 40)], level=level)
    run(plan, [a, x, out, one], level)
    np.testing.assert_allclose(out, np.clip(np.einsum("bmk,bk->bm", a, x) + 1, 0, 2), atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k", "kind"), [
    (1, 1, 1, gemm.EPI_FULL), (21, 50, 40, gemm.EPI_FULL), (33, 37, 800, gemm.EPI_SAME), (15, 129, 0, gemm.EPI_FULL),
    (29, 65, 9, gemm.EPI_SAME), (100, 33, 130, gemm.EPI_FULL),
])  # fmt: skip
def test_an_operand_added_in_registers_has_the_bits_of_a_step(m, n, k, kind, dtype, level):
    ews = kernels.table(level)
    a, b, ldo = random(2, m, k, dtype=dtype), random(k, n, dtype=dtype), n + 3
    size, bias, packed = a.itemsize, random(n, dtype=dtype), pack(b, level, dtype)
    ld = ldo if kind == gemm.EPI_SAME else n
    extra = random(2 * m, ld, dtype=dtype)
    batch = ((2, m * k, 0, m * ldo),)
    for swap in (0, gemm.EPI_SWAP):
        for then in ([], [("relu", ())], [("clip", (-0.25, 0.5))], [("neg", ()), ("relu", ())]):
            results = []
            for named in (True, False):  # by name what goes to registers, by address what stays a step

                def ref(op, named=named, then=then):
                    name = f"{op}.{dtype}"
                    return EwRef(name) if named and len(then) < 2 else ews.ew(name).address

                first = EwRef(f"add.{dtype}") if named else ews.ew(f"add.{dtype}").address
                steps = [gemm.Step(first, kind | swap, 5, ld, size),
                         *[gemm.Step(ref(op), size=size, params=params) for op, params in then]]
                plan = gemm.plan_matmul(m, n, k, batch=batch, ldo=ldo, dtype=dtype, steps=steps, level=level)
                out = np.full((2 * m, ldo), np.nan, a.dtype)
                run(plan, [a, packed, out, bias, extra], level, threads=2, grain=1)
                results.append((plan.attrs["addend"], out[:, :n]))
            assert [r[0] for r in results] == [5, -1]
            np.testing.assert_array_equal(results[0][1], results[1][1])
            assert not np.isnan(results[0][1]).any()


def test_what_stays_a_step():
    full = gemm.Step(EwRef("add.f32"), gemm.EPI_FULL, 5, 9)
    relu = gemm.Step(EwRef("relu.f32"))
    for steps, clamp in [((full,), (0.0, 1.0)), ((relu, full), None), ((), None),
                         ((gemm.Step(EwRef("add.f32"), gemm.EPI_ROW, 5),), None),
                         ((gemm.Step(EwRef("mul.f32"), gemm.EPI_FULL, 5, 9),), None),
                         ((gemm.Step(EwRef("add.f64"), gemm.EPI_FULL, 5, 9),), None)]:
        added, rest, limits = gemm.in_registers(steps, clamp, "f32")
        assert added["addend"] == -1 and rest == steps and limits == clamp
    added, rest, limits = gemm.in_registers((full, relu, relu), None, "f32")
    assert added == {"addend": 5, "ld_addend": 9} and rest == (relu,) and limits == (0.0, np.inf)


def test_blocks_end_together():
    assert gemm.balanced(28, 4) == 2
    assert gemm.balanced(28, 4, 2) == 4
    assert gemm.balanced(128, 12) == 8
    assert gemm.balanced(0, 1) == 1
    assert gemm.balanced(5, 5) == 5
    assert gemm.balanced(640, 10) == 10


def test_epilogue_with_library_micro_kernels(level):
    """Fused steps give the bits of the steps run apart."""
    ews = kernels.table(level)
    m, n, k = 21, 50, 40
    a, b, full = random(m, k), random(k, n), random(m, n)
    packed = pack(b, level)
    plain, fused, clamped = (np.full((m, n), np.nan, np.float32) for _ in range(3))
    run(gemm.plan_matmul(m, n, k, level=level), [a, packed, plain, None], level)
    steps = [
        gemm.Step(ews.ew("add.f32").address, gemm.EPI_FULL, 5, n),
        gemm.Step(ews.ew("relu.f32").address),
    ]
    run(gemm.plan_matmul(m, n, k, steps=steps, level=level), [a, packed, fused, None, full], level)
    np.testing.assert_array_equal(fused, np.maximum(plain + full, 0))
    run(gemm.plan_matmul(m, n, k, clamp=(0.0, np.inf), level=level), [a, packed, clamped, None],
        level)
    relu = [gemm.Step(ews.ew("relu.f32").address)]
    run(gemm.plan_matmul(m, n, k, steps=relu, level=level), [a, packed, fused, None], level)
    assert fused.tobytes() == clamped.tobytes()
