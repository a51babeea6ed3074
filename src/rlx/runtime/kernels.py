"""Which kernels exist on this machine: ISA levels, loading, name -> address."""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from rlx._kernels import _host, _interp
from rlx.errors import LoweringError
from rlx.records import record
from rlx.runtime.levels import LEVELS, available_levels, rows_of, used_levels

__all__ = ["LEVELS", "EwRow", "Field", "KernelRow", "KernelTable", "available_levels", "parse_layout", "table"]


Row = TypeVar("Row")


@record(eq=False)
class Field:
    """One attribute of a kernel: its name and kind ('int', 'float' or 'list')."""

    name: str
    kind: str


@record(eq=False)
class KernelRow:
    """A range kernel at the level that won."""

    name: str
    address: int
    fields: tuple[Field, ...]
    inplace: bool
    level: str

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset([f.name for f in self.fields])

    @functools.cached_property
    def fixed_words(self) -> int:
        """Words before the items of the lists."""
        return sum(2 if f.kind == "list" else 1 for f in self.fields)


@record(eq=False)
class EwRow:
    """An elementwise micro-kernel at the level that won."""

    name: str
    address: int
    arity: int
    level: str


class _Rows(Mapping[str, Row]):
    """Rows by name, each made when it is asked for: a program uses a few of several hundred."""

    def __init__(self, raw: Mapping[str, Any], make: Callable[[str, Any], Row]) -> None:
        self._raw = raw
        self._make = make
        self._made: dict[str, Row] = {}

    def __getitem__(self, name: str) -> Row:
        row = self._made.get(name)
        if row is None:
            self._made[name] = row = self._make(name, self._raw[name])
        return row

    def get(self, name: str, default: Any = None) -> Any:
        """The row, or the default."""
        return self._made.get(name) or (self[name] if name in self._raw else default)

    def __contains__(self, name: object) -> bool:
        return name in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


@record(eq=False)
class KernelTable:
    """All kernels of one ISA level."""

    level: str
    levels: tuple[str, ...]
    kernels: Mapping[str, KernelRow]
    ews: Mapping[str, EwRow]

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


def table(level: str | None = None) -> KernelTable:
    """Return the kernels of `level` (default: `RLX_ISA`, else the strongest that runs)."""
    return _table(used_levels(level))


@functools.cache
def _table(used: tuple[str, ...]) -> KernelTable:
    name = used[-1]  # every level is built from all families: no other needs to be opened
    rows, ew_rows, _ = rows_of(name)
    rows = {**rows, **_host.KERNELS}

    def kernel(key: str, row: tuple[int, str, int]) -> KernelRow:
        address, layout, flags = row
        level = "baseline" if key in _interp.KERNELS or key in _host.KERNELS else name
        return KernelRow(key, address, parse_layout(layout), bool(flags & 1), level)

    return KernelTable(name, used, _Rows(rows, kernel),
                       _Rows(ew_rows, lambda key, row: EwRow(key, row[0], row[1], name)))
