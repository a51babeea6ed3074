"""Plans of Fourier transforms: factors and twiddles, made once at compile time."""

import functools
from typing import Any

import numpy as np

from rlx.errors import SizeError
from rlx.records import record

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

LARGEST = 2**28  # points; the tables take several times that
GROUP = 16  # rows of a work item
_GROUP_LIMIT = 4096  # longer transforms are work items by themselves
_LARGEST_RADIX = 31
_PLANE_GAP = 144  # elements between the planes of one row


@record(eq=False)
class FftPlan:
    """The operand `plan`, the attribute list `plan` and what goes with them (see isa/fft.c)."""

    words: tuple[int, ...]
    table: Array
    group: int
    workspace: int

    def extent(self, rows: int) -> int:
        """Work items of a transform of `rows` rows."""
        return -(-rows // self.group)


def factors(n: int) -> list[int]:
    """Radices of n, fours first; the last one may be a large prime."""
    found = []
    for radix in (4, 2, 3, 5):
        while n % radix == 0:
            found.append(radix)
            n //= radix
    p = 7
    while n > 1:
        if p * p > n:
            p = n
        while n % p == 0:
            found.append(p)
            n //= p
        p += 2
    return found


def roots(k: Array, n: int) -> tuple[Array, Array]:
    """Real and imaginary part of exp(-2 pi i k/n), folded to an eighth of the circle first."""
    k = np.asarray(k) % n
    quarter, rest = np.divmod(4 * k, n)
    fold = 2 * rest > n
    angle = np.where(fold, n - rest, rest) * (np.pi / 2) / n
    c = np.cos(angle)
    s = np.where(2 * rest == n, c, np.sin(angle))
    c, s = np.where(fold, s, c), np.where(fold, c, s)
    re = np.choose(quarter, [c, -s, -c, s])
    im = np.choose(quarter, [-s, -c, s, c])
    return re, im


def _passes(n: int) -> tuple[list[int], list[Array]]:
    """Words and tables of the passes of length n."""
    radices, tables, m = factors(n), [], n
    for r in radices:
        length, m = m, m // r
        if r % 2:
            c, s = roots(np.arange(r), r)
            tables += [c, -s]
        j, p = np.arange(1, r)[:, None], np.arange(m)
        tables += [t.reshape(-1) for t in roots(j * p, length)]
    return [n, len(radices), *radices], tables


def _split(n: int) -> int:
    """The first of two factors of n that fill vectors of 16 best; 0: do not split."""
    if n < 64:
        return 0
    best, cost = 0, float("inf")
    for d in range(4, int(n**0.5) + 1):
        for first in (d, n // d) if n % d == 0 else ():
            second = n // first
            padded = -(-second // 16) * 16 * first + -(-first // 16) * 16 * second
            size = padded * (1 + 0.02 * abs(np.log2(first / second)))
            if size < cost:
                best, cost = first, size
    return best


@functools.lru_cache(maxsize=64)
def fft_plan(n: int, dtype: Any, real: bool = False) -> FftPlan:
    """Plan a transform of length n >= 1.

    Parameters
    ----------
    n
        Length of the transform (of the real sequence for `real`).
    dtype
        `numpy.float32` or `numpy.float64`: type of the parts.
    real
        For rfft, irfft and stft.
    """
    if n > LARGEST:
        raise SizeError(f"fft: a transform must have at most {LARGEST} points, got {n}")
    points = n // 2 if real and n % 2 == 0 else n
    prime = max(factors(points), default=1)
    bluestein = prime > _LARGEST_RADIX
    core = points
    if bluestein:
        core = 1 << (2 * points - 2).bit_length()
    words, tables = _passes(core)
    first = _split(core)
    if first:
        for part in (first, core // first):
            more, more_tables = _passes(part)
            words += more
            tables += more_tables
        k = np.arange(first)[:, None] * np.arange(core // first)
        tables += [t.reshape(-1) for t in roots(k, core)]
    else:
        words += [0, 0]
    if real:
        tables += roots(np.arange(n // 2 + 1), n)
    if bluestein:
        # exp(-i pi k^2/points); k^2 mod 2 points is exact
        k = np.arange(points)
        re, im = roots(k * k % (2 * points), 2 * points)
        kernel = np.zeros(core, np.complex128)
        kernel[:points] = re - 1j * im
        kernel[core - points + 1 :] = kernel[1:points][::-1]
        spectrum = np.fft.fft(kernel) / core
        tables += [re, im, spectrum.real, spectrum.imag]
    group = GROUP if core <= _GROUP_LIMIT else 1
    size = np.dtype(dtype).itemsize
    table = np.concatenate(tables).astype(dtype) if tables else np.zeros(1, dtype)
    # four planes, for as many rows as a vector may hold; a block of 32 columns
    most = max(core, n) + 1
    planes = 4 * max(most * (64 // size) if core <= 768 else 0, -(-most // 16) * 16 + _PLANE_GAP)
    block = 4 * (max(first, core // first) * 32 + _PLANE_GAP) if first else 0
    return FftPlan((n, int(real), int(bluestein), points, *words), table, group,
                   (planes + block) * size)
