"""Random numbers: known answers, independence of the cut, distributions, sampling."""

import ctypes
import itertools

import numpy as np
import pytest

from rlx.lower.context import workspaces
from rlx.runtime import kernels
from rlx.runtime.link import pack_attrs
from rlx.testing.kernels import KernelFailure, call_kernel

LEVELS = kernels.available_levels()


class State(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("counter", ctypes.c_uint64), ("trip", ctypes.c_uint64),
                ("backend", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Frame(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("error", ctypes.c_void_p), ("cancel", ctypes.c_void_p),
                ("state", ctypes.c_void_p), ("tid", ctypes.c_int32), ("n_threads", ctypes.c_int32)]


class Argument(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int32), ("reserved", ctypes.c_int32), ("offset", ctypes.c_int64)]


class Thunk(ctypes.Structure):
    _fields_ = [("fn", ctypes.c_void_p), ("attrs", ctypes.c_void_p), ("args", ctypes.c_void_p),
                ("extent", ctypes.c_int64), ("grain", ctypes.c_int64), ("node", ctypes.c_int32),
                ("n_args", ctypes.c_int32), ("cost", ctypes.c_int64), ("reserved", ctypes.c_int64)]


def with_state(name, args, attrs, extent, level, seed=0, counter=0, backend=0, pieces=None, trip=0):
    """Call a kernel with a state of our own, in the given pieces of its range."""
    row = kernels.table(level).kernel(name)
    words = (ctypes.c_int64 * 16)(*pack_attrs(row, attrs))
    base = (ctypes.c_void_p * len(args))(*(a.ctypes.data for a in args))
    operands = (Argument * len(args))(*((i, 0, 0) for i in range(len(args))))
    error, state = (ctypes.c_int64 * 4)(), State(seed, counter, trip, backend, 0)
    frame = Frame(ctypes.addressof(base), ctypes.addressof(error), None, ctypes.addressof(state),
                  0, 1)
    thunk = Thunk(row.address, ctypes.addressof(words), ctypes.addressof(operands), extent, 1, 0,
                  len(args), 0, 0)
    fn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                          ctypes.c_int64)(row.address)
    for lo, hi in pieces or [(0, extent)]:
        assert fn(ctypes.addressof(thunk), ctypes.addressof(frame), lo, hi) == 0


KNOWN = [
    (0, 0, 0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (2**64 - 1, 2**56 - 1, -1, 4 * (2**40 - 1), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    # counter 243f6a88 85a308d3 13198a2e 03707344: run = 85a308 03707344, block d3 243f6a88
    (0x299F31D0A4093822, 0x85A30803707344, 0x13198A2E, 4 * 0xD3243F6A88,
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", KNOWN, ids=range(3))
def test_r43_c2_known_answers(case, level):
    seed, run, key, offset, want = case
    y = np.zeros(4, np.uint32)
    with_state("random_bits.u32", [y], {"key": key, "offset": offset}, 4, level, seed, run)
    assert [hex(v) for v in y] == [hex(v) for v in want]


def test_without_state_seed_and_counter_are_zero():
    y = np.zeros(4, np.uint32)
    call_kernel("random_bits.u32", [y], {"key": 0, "offset": 0}, extent=4)
    assert y.tolist() == KNOWN[0][4]


NAMES = [("uniform.f32", np.float32, {"low": -1.0, "high": 3.0}),
         ("uniform.f64", np.float64, {"low": -1.0, "high": 3.0}),
         ("normal.f32", np.float32, {"mean": 1.0, "std": 2.0}),
         ("normal.f64", np.float64, {"mean": 1.0, "std": 2.0}),
         ("randint.i32", np.int32, {"low": -3, "high": 1000}),
         ("randint.i64", np.int64, {"low": -(2**62), "high": 2**62})]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", NAMES, ids=lambda c: c[0])
def test_cut_stream_and_levels(case, level):
    name, dtype, attrs = case
    n = 1003
    attrs = attrs | {"key": 5}
    whole, cut, other = np.zeros(n, dtype), np.zeros(n, dtype), np.zeros(n, dtype)
    with_state(name, [whole], attrs, n, level, 7, 3)
    edges = [0, 1, 2, 5, 64, 65, 127, 500, n]
    with_state(name, [cut], attrs, n, level, 7, 3, pieces=list(itertools.pairwise(edges)))
    assert whole.tobytes() == cut.tobytes()
    for change in ({"seed": 8}, {"counter": 4}, {"trip": 5}, {"key": 6}):
        stream = {"seed": 7, "counter": 3} | {k: v for k, v in change.items() if k != "key"}
        with_state(name, [other], attrs | {k: v for k, v in change.items() if k == "key"}, n,
                   level, **stream)
        assert (other != whole).mean() > 0.9
    base = np.zeros(n, dtype)
    with_state(name, [base], attrs, n, LEVELS[0], 7, 3)
    np.testing.assert_allclose(base, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_distributions(level):
    n = 200_000
    x = np.zeros(n, np.float32)
    with_state("uniform.f32", [x], {"key": 1, "low": 0.0, "high": 1.0}, n, level, 1)
    assert 0 <= x.min() < 1e-4 < 0.9999 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.003 and abs(np.corrcoef(x[::2], x[1::2])[0, 1]) < 0.01
    for name, dtype in (("normal.f32", np.float32), ("normal.f64", np.float64)):
        z = np.zeros(n, dtype)
        with_state(name, [z], {"key": 1, "mean": 0.0, "std": 1.0}, n, level, 1)
        assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
        assert abs((z**3).mean()) < 0.03 and abs((z**4).mean() - 3) < 0.1
        assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 0.01
        assert abs((np.abs(z) > 3).mean() - 0.0027) < 0.0005
    k = np.zeros(n, np.int32)
    with_state("randint.i32", [k], {"key": 2, "low": -2, "high": 5}, n, level, 1)
    counts = np.bincount(k + 2, minlength=7)
    assert len(counts) == 7 and (abs(counts - n / 7) < 800).all()
    p = np.full(n, 0.3, np.float32)
    p[:2] = np.nan, 1.0
    b = np.zeros(n, np.uint8)
    with_state("bernoulli.f32", [p, b], {"key": 2}, n, level, 1)
    assert b[0] == 0 and b[1] == 1 and abs(b.mean() - 0.3) < 0.004


@pytest.mark.parametrize("level", LEVELS)
def test_normal_is_box_muller(level):
    z, w = np.zeros(1000, np.float32), np.zeros(1000, np.uint32)
    with_state("normal.f32", [z], {"key": 1, "mean": 0.0, "std": 1.0}, 1000, level, 9)
    with_state("random_bits.u32", [w], {"key": 1, "offset": 0}, 1000, level, 9)
    u = (w[::2].astype(np.float32).astype(np.float64) + 1) / 2**32
    angle = 2 * np.pi * w[1::2].astype(np.int32).astype(np.float64) / 2**32
    r = np.sqrt(-2 * np.log(np.minimum(u, 1)))
    np.testing.assert_allclose(z[::2], r * np.cos(angle), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(z[1::2], r * np.sin(angle), rtol=2e-5, atol=1e-6)
    z, w = np.zeros(1000), np.zeros(2000, np.uint32)
    with_state("normal.f64", [z], {"key": 1, "mean": 0.0, "std": 1.0}, 1000, level, 9)
    with_state("random_bits.u32", [w], {"key": 1, "offset": 0}, 2000, level, 9)
    w = w.reshape(-1, 4).astype(np.float64)
    r = np.sqrt(-2 * np.log(w[:, 1] / 2**32 + (w[:, 0] // 2048 + 1) / 2**53))
    angle = 2 * np.pi * (w[:, 3] / 2**32 + w[:, 2] / 2**64)
    np.testing.assert_allclose(z[::2], r * np.cos(angle), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(z[1::2], r * np.sin(angle), rtol=1e-13, atol=1e-14)


def test_zeros_back_end():
    y = np.ones(9, np.float32)
    with_state("normal.f32", [y], {"key": 1, "mean": 0.5, "std": 1.0}, 9, None, 1, 1, backend=1)
    assert (y == 0.5).all()
    with_state("uniform.f32", [y], {"key": 1, "low": 2.0, "high": 3.0}, 9, None, 1, 1, backend=1)
    assert (y == 2).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout(dtype, level):
    n = 10_001
    x = np.arange(n).astype(dtype) + 1
    x[5] = np.nan
    for ratio in (0.0, 0.25, 1.0):
        y, mask = np.zeros(n, dtype), np.zeros(n, np.uint8)
        call_kernel(f"dropout.{'f32' if dtype == np.float32 else 'f64'}", [x, y, mask],
                    {"key": 3, "ratio": ratio}, extent=n, level=level, threads=2, grain=100)
        assert abs(mask.mean() - (1 - ratio)) < 0.02
        keep = mask.astype(bool)
        assert not y[~keep].any()
        if keep.any():
            np.testing.assert_allclose(y[keep], x[keep] * dtype(1 / (1 - ratio)), rtol=1e-6)


def sample(x, level=None, temperature=1.0, top_k=0, top_p=1.0, key=1):
    x = np.ascontiguousarray(x, np.float32)
    y = np.full(len(x), -9, np.int64)
    size = x.shape[1] * 16
    call_kernel("sample.f32", [x, y, np.zeros(max(1, size * workspaces(2)), np.uint8)],
                dict(vocab=x.shape[1], x_s=x.shape[1], key=key, top_k=top_k,
                     temperature=temperature, top_p=top_p, ws=size),
                extent=len(x), level=level, threads=2)
    return y


@pytest.mark.parametrize("level", LEVELS)
def test_sample_shares(level):
    p = np.array([0.5, 0.0, 0.2, 0.25, 0.05])
    with np.errstate(divide="ignore"):
        x = np.tile(np.log(p), (20_000, 1))

    def shares(**how):
        return np.bincount(sample(x, level, **how), minlength=5) / len(x)

    np.testing.assert_allclose(shares(), p, atol=0.015)
    q = p**2 / (p**2).sum()
    np.testing.assert_allclose(shares(temperature=0.5), q, atol=0.015)
    np.testing.assert_allclose(shares(top_k=2), [2 / 3, 0, 0, 1 / 3, 0], atol=0.015)
    np.testing.assert_allclose(shares(top_p=0.6), [2 / 3, 0, 0, 1 / 3, 0], atol=0.015)
    np.testing.assert_allclose(shares(top_p=0.76), [0.5 / 0.95, 0, 0.2 / 0.95, 0.25 / 0.95, 0],
                               atol=0.015)
    np.testing.assert_allclose(shares(top_k=3, top_p=0.7), [2 / 3, 0, 0, 1 / 3, 0], atol=0.015)
    assert shares(top_p=0.0)[0] == 1 and shares(temperature=0.0)[0] == 1
    assert shares(temperature=50.0)[1] == 0 and shares(top_k=5, temperature=50.0)[1] == 0


@pytest.mark.parametrize("level", LEVELS)
def test_top_k_keeps_exactly_k_lowest_indices(level):
    x = np.zeros((4000, 100))
    x[:, 90:] = 1
    assert set(sample(x, level, top_k=4)) == {90, 91, 92, 93}
    assert set(sample(np.zeros((4000, 100)), level, top_k=3)) == {0, 1, 2}
    assert set(sample(np.zeros((4000, 100)), level, top_p=0.03)) == {0, 1, 2}
    x = np.random.default_rng(0).permutation(1000)[None].repeat(3000, 0) * 1e-3
    for k in (1, 2, 7, 200, 999):
        got = sample(x, level, top_k=k)
        assert (np.sort(x[0])[-k] <= x[0, got]).all()


@pytest.mark.parametrize("bad", [[0, np.nan, 1], [np.inf, 0, 0], [-np.inf] * 3, []], ids=str)
def test_sample_bad_logits(bad):
    with pytest.raises(KernelFailure, match=f"status 7.*position {len(bad) // 3}"):
        sample([[0.0] * len(bad), bad])


@pytest.mark.parametrize("level", LEVELS)
def test_multinomial(level):
    p = np.array([[0.1, 0.0, 0.9], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        x = np.log(p).astype(np.float32)
    y = np.zeros((2, 20_000), np.int64)
    call_kernel("multinomial.f32", [x, y, np.zeros(24 * workspaces(2), np.uint8)],
                dict(classes=3, samples=20_000, x_s=3, key=4, ws=24), extent=2, level=level,
                threads=2)
    for row, want in zip(y, p, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 20_000, want, atol=0.015)


def test_no_byte_beyond_the_operands(guard_arguments, level):
    for n in (1, 5, 67):
        y = np.zeros(n, np.float32)
        call_kernel("normal.f32", [y], {"key": 1, "mean": 0.0, "std": 1.0}, extent=n, level=level)
        sample(np.random.default_rng(n).normal(0, 1, (2, n)), level, top_k=3)
        sample(np.random.default_rng(n).normal(0, 1, (2, n)), level, top_p=0.5)
