"""The table of ops. ``ops.<name>(...)`` emits a node; `TABLE` has every row by name.

Every module of this package is a family, except those with an underscore and
the two that hold no rows; its `OpDef` objects are rows of the table. A family is
imported when one of its rows is asked for.
"""

import sys
from types import ModuleType
from typing import Any

from rlx.ir.opdef import OpDef
from rlx.ops._index import INDEX as _INDEX
from rlx.tables import Table as _Table

# What is no row: the module that each function is in.
_FUNCTIONS = {
    "squeeze": "view", "unsqueeze": "view", "arange": "movement", "center_crop_pad": "movement", "split": "movement",
    "stack": "movement", "unstack": "movement", "einsum": "einsum", "dft": "fft", "fftn": "fft", "window": "fft",
}  # fmt: skip
_MODULES = frozenset({*_INDEX, "indexing", "parse", "einsum"})


def _collect(table: "_Table[str, OpDef]", module: ModuleType) -> None:
    for item in list(vars(module).values()):
        if isinstance(item, OpDef):
            table.setdefault(item.name, item)


TABLE: "_Table[str, OpDef]" = _Table("rlx.ops", _INDEX, _collect, ("indexing", "parse").__contains__)
FAMILY: dict[str, str] = {name: family for family, names in _INDEX.items() for name in names}
__all__ = ["FAMILY", "TABLE", *FAMILY, *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        found = getattr(sys.modules.get(f"rlx.ops.{_FUNCTIONS[name]}") or _family(_FUNCTIONS[name]), name)
        globals()[name] = found
        return found
    if name in FAMILY:
        op = TABLE[name]
        globals()[name] = op
        return op
    if name in _MODULES:
        return _family(name)
    if name.startswith("__"):  # of modules; those who look for them do not want all families imported
        raise AttributeError(f"no op {name!r} in rlx.ops; ops.TABLE lists all")
    try:
        return TABLE[name]  # registered by the user
    except KeyError:
        from rlx.ops._nearest import nearest

        near = nearest(name, TABLE)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    raise AttributeError(f"no op {name!r} in rlx.ops{hint}; ops.TABLE lists all {len(TABLE)}")


def _family(name: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"rlx.ops.{name}")


def __dir__() -> list[str]:
    return sorted({*__all__, *TABLE, *globals()})


class _Ops(ModuleType):
    """Rows go before families of the same name: importing ``rlx.ops.softmax`` does not hide the op ``softmax``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and (name in FAMILY or name in _FUNCTIONS)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Ops
