"""ISA levels: which are built and run here, and the rows of each. Imports next to nothing."""

import functools
import importlib
import sys
from typing import Any

from rlx import _kernels, config
from rlx._kernels import _cpu, _interp
from rlx.errors import ConfigError

LEVELS = ("baseline", "avx2", "avx512")

Rows = dict[str, tuple[int, str, int]]


@functools.cache
def available_levels() -> tuple[str, ...]:
    """ISA levels that are both built and run on this processor, weakest first."""
    return tuple(level for level in _cpu.levels() if _is_built(f"rlx._kernels._isa_{level}"))


def _is_built(name: str) -> bool:
    """As `importlib.util.find_spec` tells, without that module, which takes as long as the question."""
    return any(finder.find_spec(name, _kernels.__path__) is not None for finder in sys.meta_path)


def used_levels(level: str | None = None) -> tuple[str, ...]:
    """The levels up to `level` (default: `RLX_ISA`, else the strongest that runs).

    Raises
    ------
    ConfigError
        There is no such level, or it does not run here.
    """
    built = available_levels()
    wanted = level or config.isa()
    if wanted is None:
        return built
    if wanted not in LEVELS:
        raise ConfigError(f"RLX_ISA must be one of {list(LEVELS)}, got {wanted!r}")
    if wanted not in built:
        raise ConfigError(f"ISA level {wanted!r} is not available here, got {list(built)}")
    return tuple(x for x in built if LEVELS.index(x) <= LEVELS.index(wanted))


def families_of(level: str) -> Any:
    """The kernel families of a level, as a capsule."""
    return importlib.import_module(f"rlx._kernels._isa_{level}").FAMILIES


@functools.cache
def rows_of(level: str) -> tuple[Rows, dict[str, tuple[int, int, int]], str]:
    """Kernels (address, layout, flags), micro-kernels (address, arity, flags), digest of the sources of a level."""
    module = importlib.import_module(f"rlx._kernels._isa_{level}")
    kernels, ews = _interp.rows_of(module.FAMILIES)
    return {**kernels, **_interp.KERNELS}, ews, module.SOURCES
