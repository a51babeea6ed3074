"""Which kernels exist on this machine: ISA levels, loading, name -> address."""

import functools
import importlib
import importlib.util
from dataclasses import dataclass

from rlx import config
from rlx._kernels import _cpu, _interp
from rlx.errors import ConfigError, LoweringError

LEVELS = ("baseline", "avx2", "avx512")


@dataclass(frozen=True)
class Field:
    """One attribute of a kernel: its name and kind ('int', 'float' or 'list')."""

    name: str
    kind: str


@dataclass(frozen=True)
class KernelRow:
    """A range kernel at the level that won."""

    name: str
    address: int
    fields: tuple[Field, ...]
    inplace: bool
    level: str


@dataclass(frozen=True)
class EwRow:
    """An elementwise micro-kernel at the level that won."""

    name: str
    address: int
    arity: int
    level: str


@dataclass(frozen=True)
class KernelTable:
    """All kernels of one ISA level."""

    level: str
    levels: tuple[str, ...]
    kernels: dict[str, KernelRow]
    ews: dict[str, EwRow]

    def kernel(self, name: str) -> KernelRow:
        """Return the row called `name`; LoweringError with the nearest dtypes otherwise."""
        row = self.kernels.get(name)
        if row is None:
            stem = name.split(".")[0]
            known = sorted(k for k in self.kernels if k.split(".")[0] == stem)
            raise LoweringError(f"no kernel {name!r}; kernels of that family: {known or 'none'}")
        return row

    def ew(self, name: str) -> EwRow:
        """Return the elementwise row called `name`."""
        row = self.ews.get(name)
        if row is None:
            stem = name.split(".")[0]
            known = sorted(k for k in self.ews if k.split(".")[0] == stem)
            raise LoweringError(f"no elementwise kernel {name!r}; there are: {known or 'none'}")
        return row


@functools.cache
def parse_layout(layout: str) -> tuple[Field, ...]:
    """Parse the attribute layout of a row, e.g. ``"outer axis eps:f perm:*"``."""
    kinds = {"": "int", "f": "float", "*": "list"}
    fields = []
    for token in layout.split():
        name, _, kind = token.partition(":")
        fields.append(Field(name, kinds[kind]))
    return tuple(fields)


def available_levels() -> tuple[str, ...]:
    """ISA levels that are both built and run on this processor, weakest first."""
    return tuple(level for level in _cpu.levels() if importlib.util.find_spec(f"rlx._kernels._isa_{level}"))


@functools.cache
def table(level: str | None = None) -> KernelTable:
    """Return the kernels of `level` (default: `RLX_ISA`, else the strongest that runs)."""
    built = available_levels()
    wanted = level or config.isa()
    if wanted is None:
        used = built
    elif wanted in LEVELS:
        used = tuple(x for x in built if LEVELS.index(x) <= LEVELS.index(wanted))
        if wanted not in built:
            raise ConfigError(f"ISA level {wanted!r} is not available here, got {list(built)}")
    else:
        raise ConfigError(f"RLX_ISA must be one of {list(LEVELS)}, got {wanted!r}")
    kernels: dict[str, KernelRow] = {}
    ews: dict[str, EwRow] = {}
    name = used[-1]  # every level is built from all families: no other needs to be opened
    module = importlib.import_module(f"rlx._kernels._isa_{name}")
    rows, ew_rows = _interp.rows_of(module.FAMILIES)
    for key, (address, layout, flags) in rows.items():
        kernels[key] = KernelRow(key, address, parse_layout(layout), bool(flags & 1), name)
    for key, (address, arity, _) in ew_rows.items():
        ews[key] = EwRow(key, address, arity, name)
    for key, (address, layout, flags) in _interp.KERNELS.items():
        kernels[key] = KernelRow(key, address, parse_layout(layout), bool(flags & 1), "baseline")
    return KernelTable(used[-1], used, kernels, ews)
