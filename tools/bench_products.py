"""Matrix products against what the processor can do: multiply-adds in registers, and reading the weights.

Every product runs by turns with a kernel that does nothing else: multiply-adds in registers for products of many
rows, reading as many bytes as the stored weights have for products of few. The share is the time of that kernel,
for the same operations or bytes, over the time of the product; medians of the turns.

    bench_products.py [--gemm] [--gemv] [--seconds 0.3] [--least-gemm 0.85] [--least-gemv 0.85] [--json OUT]

RLX_ISA=avx2 measures that level. The exit status is 1 if a share is below `--least-...`.
"""

import argparse
import functools
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rlx
from rlx import ops
from rlx.runtime import kernels
from rlx.runtime.report import table_text
from rlx.runtime.roofline import arithmetic_probe, read_probe

SIDES = (64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
WEIGHTS = ((1024, 1024), (4096, 4096), (768, 3072))
ROWS = (1, 2, 4, 8)


class Cell(NamedTuple):
    """A product and what bounds it."""

    family: str
    name: str
    make: Callable[[], Callable[[], Any]]
    probe: Callable[[], tuple[Callable[[], None], float]]  # and what a call of it does
    work: float  # operations, or bytes to be read
    unit: str


def executable(shape: tuple[int, int], dtype: str, build: Callable[[Any], Any], **options: Any) -> Callable[[], Any]:
    """A call that computes one product into an array that is kept."""
    g = rlx.Graph("product")
    y = build(g.input("x", shape, dtype))
    g.output("y", y)
    exe = rlx.compile(g, rlx.CompileOptions(threads=1, **options))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 128, shape, np.uint8) if dtype == "u8" else rng.standard_normal(shape).astype(np.float32)
    out = {"y": np.empty(tuple(map(int, y.shape)), y.dtype.numpy)}
    return lambda: exe.run({"x": x}, out=out)


def normal(*shape: int) -> np.ndarray:
    """Weights."""
    return np.random.default_rng(1).standard_normal(shape, np.float32) * np.float32(0.05)


def many_rows() -> Iterator[Cell]:
    """Square products with weights, against the arithmetic."""
    for label, unit, precision in (("f32", "f32", "f32"), ("f16 weights", "f32", "f16"),
                                   ("bf16 weights", "f32", "bf16"), ("u8 x i8", "i8", "")):
        for side in SIDES:
            make = bytes_product(side, side, side) if unit == "i8" else stored_product(side, side, side, precision)
            yield Cell("gemm", f"{label} {side}^3", make, lambda unit=unit: arithmetic_probe(kernels.table(), unit),
                       2 * side**3, "G/s")


def stored_product(m: int, k: int, n: int, precision: str) -> Callable[[], Callable[[], Any]]:
    """Weights given in f32."""
    return lambda: executable((m, k), "f32", lambda x: x @ normal(k, n), precision=precision)


def bytes_product(m: int, k: int, n: int) -> Callable[[], Callable[[], Any]]:
    """u8 by i8 to i32."""
    def make() -> Callable[[], Any]:
        w = np.random.default_rng(1).integers(-127, 128, (k, n), np.int8)
        return executable((m, k), "u8", lambda x: ops.matmul_integer(x, w))

    return make


def codes(m: int, k: int, n: int, bits: int, block: int, zeros: bool, half: bool) -> Callable[[], Any]:
    """A product with codes; `half`: the scales are numbers of f16."""
    rng = np.random.default_rng(1)
    blocks = -(-k // block)
    q, scale = rng.integers(0, 256, (n, k * bits // 8), np.uint8), rng.random((n, blocks)).astype(np.float32)
    scale = scale.astype(np.float16).astype(np.float32) if half else scale
    zero = rng.integers(0, 1 << bits, (n, blocks)).astype(np.uint8) if zeros else None
    return executable((m, k), "f32", lambda x: ops.matmul_nbits(x, q, scale, zero, bits=bits, block_size=block))


def few_rows() -> Iterator[Cell]:
    """Products of few rows, against reading the weights."""
    for (k, n), m in itertools.product(WEIGHTS, ROWS):
        found: list[tuple[str, float, Callable[[], Callable[[], Any]]]] = [
            ("f32", 4, stored_product(m, k, n, "f32")), ("f16", 2, stored_product(m, k, n, "f16")),
            ("bf16", 2, stored_product(m, k, n, "bf16")), ("u8 x i8", 1, bytes_product(m, k, n)),
            # given anew in every run, so that nothing is packed
            ("f32 [N, K], not packed", 4, functools.partial(given, m, k, n))]  # fmt: skip
        kinds = ((8, 32, False), (4, 32, False), (4, 128, False), (4, 32, True), (2, 32, False))
        for (bits, block, zeros), half in itertools.product(kinds, (False, True)):
            label = f"{bits} bits, blocks of {block}" + zeros * ", zero points" + half * ", f16 scales"
            found.append((label, bits / 8 + 4 / block + zeros / block,
                          functools.partial(codes, m, k, n, bits, block, zeros, half)))  # fmt: skip
        for label, size, make in found:
            work = size * k * n
            yield Cell("gemv", f"{label}: {m}x{k}x{n}", make,
                       lambda work=work: read_probe(kernels.table(), int(work)), work, "GB/s")


def given(m: int, k: int, n: int) -> Callable[[], Any]:
    """x w^T with both from outside."""
    g = rlx.Graph("product")
    x, w = g.input("x", (m, k), "f32"), g.input("w", (n, k), "f32")
    g.output("y", x @ ops.transpose(w, perm=(1, 0)))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    feeds, out = {"x": normal(m, k), "w": normal(n, k)}, {"y": np.empty((m, n), np.float32)}
    return lambda: exe.run(feeds, out=out)


def measure(cell: Cell, seconds: float) -> dict[str, Any]:
    """Times by turns."""
    bound_call, each = cell.probe()
    calls, scale = (cell.make(), bound_call), cell.work / each
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, round(2e-4 / max(time.perf_counter() - start, 1e-7))))
    readings: list[list[float]] = [[], []]
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(readings[0]) < 9:
        for call, count, kept in zip(calls, counts, readings, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call()
            kept.append((time.perf_counter() - start) / count)
    took, bound = (statistics.median(r) for r in readings)
    return {"family": cell.family, "name": cell.name, "us": round(took * 1e6, 2),
            "rate": round(cell.work / took / 1e9, 2), "bound": round(cell.work / scale / bound / 1e9, 2),
            "unit": cell.unit, "share": round(bound * scale / took, 3)}


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gemm", action="store_true", help="only products of many rows")
    parser.add_argument("--gemv", action="store_true", help="only products of few rows")
    parser.add_argument("--only", nargs="*", help="cells whose name contains one of these texts")
    parser.add_argument("--seconds", type=float, default=0.1, help="time per cell")
    parser.add_argument("--least-gemm", type=float, default=0.0)
    parser.add_argument("--least-gemv", type=float, default=0.0)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    args = parser.parse_args(given)
    both = args.gemm == args.gemv
    cells = [c for source, on in ((many_rows, args.gemm), (few_rows, args.gemv)) if both or on for c in source()
             if not args.only or any(text in c.name for text in args.only)]
    if not cells:
        print("nothing was measured", file=sys.stderr)
        return 2
    rows = [measure(c, args.seconds) for c in cells]
    print(table_text(("product", "us", "rate", "bound", "share"),
                     [(r["name"], f"{r['us']:.1f}", f"{r['rate']:.1f} {r['unit']}", f"{r['bound']:.1f}",
                       f"{100 * r['share']:.0f} %") for r in rows], (1, 2, 3, 4)))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    least = {"gemm": args.least_gemm, "gemv": args.least_gemv}
    return int(any(r["share"] < least[r["family"]] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
