"""The cost model: what lowering and passes assume about the processor. One table.

Kernels are chosen, and work is cut, by estimates in nanoseconds on one core. The figures behind them
are here, with defaults for each ISA level that need no tuning; `rlx tune` measures this machine and
writes a file that is read instead, if it was made on this processor model by this version.

A figure never changes what a kernel sums in which order, except in a 3x3 convolution: `winograd_*`, `flops` and
`read` choose between algorithms that agree within the tolerance of a convolution.
"""

import contextlib
import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlx import config
from rlx._kernels import _cpu
from rlx.records import record, replace

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
_MOST_BYTES = 1 << 16  # of a file that is looked at


@record(frozen=True)
class Costs:
    """Figures of one ISA level.

    Attributes
    ----------
    flops : float
        f32 operations per nanosecond that the product kernels reach.
    macs_i8 : float
        8-bit multiply-adds per nanosecond that they reach.
    read : float
        Bytes per nanosecond of weights that are read once.
    copy : float
        Nanoseconds per byte that is moved in rows; items one by one take twice, a plain copy half as long.
    l2_block : float
        Bytes of a product's second operand that are meant to stay in the second cache.
    task_ns : float
        A piece of a product, convolution or attention that one thread takes at a time.
    split_ns : float
        A call cheaper than this is not handed to a second thread.
    winograd_channels, winograd_products : float
        A 3x3 convolution has at least so many input and output channels, and so large a product of both, before
        transforms win; `winograd_ns` and `conv3x3_ns` decide beyond.
    """

    flops: float
    macs_i8: float
    l2_block: float
    read: float = 30.0
    copy: float = 0.05
    task_ns: float = 4_000.0
    split_ns: float = 20_000.0
    winograd_channels: float = 32.0
    winograd_products: float = 1024.0


DEFAULTS: dict[str, Costs] = {
    "baseline": Costs(flops=12.0, macs_i8=8.0, l2_block=384 * 1024),
    "avx2": Costs(flops=65.0, macs_i8=30.0, l2_block=384 * 1024),
    "avx512": Costs(flops=130.0, macs_i8=250.0, l2_block=768 * 1024),
}

# What a file may say; anything beyond is not believed.
LIMITS: dict[str, tuple[float, float]] = {
    "flops": (0.1, 1e5), "macs_i8": (0.1, 1e6), "l2_block": (32 * 1024, 64 << 20), "read": (0.1, 1e4),
    "copy": (1e-4, 100.0), "task_ns": (200.0, 1e6), "split_ns": (200.0, 1e7), "winograd_channels": (4, 4096),
    "winograd_products": (16, 1 << 24),
}  # fmt: skip


@record(frozen=True)
class Loaded:
    """What a file gave.

    Attributes
    ----------
    path : str
    costs : dict
        By ISA level; empty when nothing was taken.
    why : str
        Why nothing was taken, if there is a file.
    """

    path: str
    costs: Mapping[str, Costs]
    why: str = ""


def path() -> str:
    """The file of this user: in `RLX_CACHE_DIR`, else `$XDG_CACHE_HOME/rlx`, else `~/.cache/rlx`."""
    return os.path.join(config.cache_dir(), "tune.json")


def processor() -> str:
    """The name of the processor model."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()[:200]
    except OSError:
        pass
    import platform

    return (platform.processor() or platform.machine())[:200]


def _version() -> str:
    import rlx

    return rlx.__version__


def parse(text: str) -> dict[str, Costs]:
    """Figures of a file, strictly.

    Raises
    ------
    ValueError
        It is no such file, or of another machine or version, or a figure is out of its limits.
    """
    import json  # this and pathlib are slow to import, and mostly there is no file

    found = json.loads(text)
    if not isinstance(found, dict) or set(found) != {"format", "rlx", "processor", "costs"}:
        raise ValueError("the file must have format, rlx, processor and costs")
    want = {"format": FORMAT, "rlx": _version(), "processor": processor()}
    for key, value in want.items():
        if found[key] != value:
            raise ValueError(f"{key} must be {value!r}, got {str(found[key])[:100]!r}")
    if not isinstance(found["costs"], dict) or not set(found["costs"]) <= set(DEFAULTS):
        raise ValueError(f"costs must be by ISA level, {list(DEFAULTS)}")
    return {level: _checked(level, values) for level, values in found["costs"].items()}


def _checked(level: str, values: Any) -> Costs:
    names = list(Costs.__annotations__)
    if not isinstance(values, dict) or set(values) != set(names):
        raise ValueError(f"{level}: figures must be {names}")
    for name, value in values.items():
        low, high = LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(f"{level}: {name} must be in [{low:g}, {high:g}], got {str(value)[:40]}")
    return Costs(**{name: float(value) for name, value in values.items()})


@functools.cache
def loaded() -> Loaded:
    """The file of this machine, read once; whatever is wrong with it, there are the defaults."""
    where = path()
    if not config.tuned():
        return Loaded(where, {}, "RLX_TUNED is 0")
    try:
        with open(where, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):
        return Loaded(where, {})
    try:
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"it must have at most {_MOST_BYTES} bytes")
        return Loaded(where, parse(raw.decode("utf-8")))
    except (ValueError, RecursionError, OverflowError) as error:  # of JSON and UTF-8 too
        return Loaded(where, {}, str(error).splitlines()[0][:200])


def write(costs: Mapping[str, Costs]) -> "Path":
    """Write figures for this machine and version, at once or not at all; they hold from now on."""
    import json
    from pathlib import Path

    where = Path(path())
    where.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "rlx": _version(), "processor": processor(),
                       "costs": {level: vars(c) for level, c in costs.items()}}, indent=1)  # fmt: skip
    parse(text)
    part = where.with_name(f"{where.name}.{os.getpid()}")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(where)
    loaded.cache_clear()
    return where


_USED: dict[str, Costs] = {}


def level_here() -> str:
    """The ISA level that runs unless a compilation says otherwise."""
    wanted = config.isa()
    return wanted if wanted in DEFAULTS else _cpu.levels()[-1]


def of(level: str | None = None) -> Costs:
    """Figures of an ISA level (default: the one that runs)."""
    level = level or level_here()
    return _USED.get(level) or loaded().costs.get(level) or DEFAULTS[level]


@contextlib.contextmanager
def using(level: str, **figures: float) -> Iterator[Costs]:
    """Compile with other figures inside the block: for measuring, and for tests. Not for several threads."""
    before = _USED.get(level)
    _USED[level] = made = replace(of(level), **figures)
    try:
        yield made
    finally:
        if before is None:
            del _USED[level]
        else:
            _USED[level] = before


# What both transforms of a tile of side x side outputs take for one channel in and one out, counted as operations
# that the product kernels do meanwhile (measured, see isa/winograd.c).
_TRANSFORMS = {2: 110.0, 4: 260.0}
WINOGRAD_SIDES = tuple(_TRANSFORMS)


# Weights of a network that has many so large do not wait in the third cache from run to run, and stream in at this
# part of `read`.
_FAR_BYTES = 1 << 20
_FAR = 0.35


def product_ns(m: int, n: int, k: int, level: str | None = None, *, size: int = 4, near: float = 1.0) -> float:
    """Estimate of a product [m, k] [k, n] of floats of `size` bytes: arithmetic or the read of the second operand,
    at `near` of the usual rate, whichever takes longer."""
    figures = of(level)
    return max(m * n * k * (size * 0.5) / figures.flops, n * k * size / (near * figures.read))


def _near(c: int, oc: int) -> float:
    return _FAR if 36 * c * oc > _FAR_BYTES else 1.0


def conv3x3_ns(batch: int, height: int, width: int, c: int, oc: int, level: str | None = None) -> float:
    """Estimate of a 3x3 convolution with stride 1 by direct sums; height, width: of the result."""
    return product_ns(batch * height * width, oc, 9 * c, level, near=_near(c, oc)) * 1.1


def winograd_phases(pixels: Sequence[int], dilations: Sequence[int]) -> tuple[int, int, int]:
    """Images, height and width (of a result) of the plain convolutions that one with `dilations` is made of: one for
    each phase, the outputs that read the same inputs."""
    batch, height, width = pixels
    down, across = dilations
    return batch * down * across, -(-height // down), -(-width // across)


def winograd_ns(side: int, batch: int, height: int, width: int, c: int, oc: int, level: str | None = None) -> float:
    """Estimate of the same by transforms of tiles of side x side outputs."""
    tiles = batch * -(-height // side) * -(-width // side)
    products = (side + 2) ** 2 * (product_ns(tiles, oc, c, level, near=_near(c, oc)) + 60.0)
    return products + tiles * (c + oc) / 2 * _TRANSFORMS[side] / of(level).flops


def report() -> list[str]:
    """Lines for people: where the figures come from, and those of the level that runs."""
    level = level_here()
    file = loaded()
    source = f"tuned, {file.path}" if level in file.costs else "defaults"
    if file.why:
        source += f" ({os.path.basename(file.path)} not used: {file.why})"
    values = vars(of(level))
    return [source, ", ".join(f"{k} {_short(v)}" for k, v in values.items())]


def _short(value: float) -> str:
    return f"{int(value)}" if math.isclose(value, round(value)) else f"{value:.3g}"
