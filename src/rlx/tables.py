"""Tables whose rows are imported when they are asked for."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Table(dict[K, V]):
    """Rows by key, registered by the modules of a package.

    An index tells which module registers a row, so that a process imports the modules of the rows it uses. Whoever
    looks at all rows has all modules imported. `tools/gen_reference.py` writes the index; a row that it does not know
    is found too, by importing everything.

    Parameters
    ----------
    package : str
    index : mapping of module to keys
        Names of modules without the package.
    collect : callable, optional
        ``collect(table, module)`` adds the rows of a module that does not register them itself.
    leave : callable, optional
        ``leave(name)``: whether a module of the package registers nothing and is not to be imported.
    """

    def __init__(self, package: str, index: Mapping[str, Iterable[K]],
                 collect: "Callable[[Table[K, V], ModuleType], None] | None" = None,
                 leave: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.package = package
        self.index = index
        known: dict[K, tuple[str, ...]] = {}
        for module, keys in index.items():
            found: dict[K, tuple[str, ...]] = dict.fromkeys(keys, (module,))
            for key in known.keys() & found.keys():
                found[key] = (*known[key], module)
            known.update(found)
        self._modules = known
        self._collect = collect
        self._leave = leave
        self._loaded: set[str] = set()
        self.whole = False

    def _import(self, name: str) -> None:
        if name not in self._loaded:
            module = importlib.import_module(f"{self.package}.{name}")
            if self._collect is not None:
                self._collect(self, module)
            self._loaded.add(name)

    def _find(self, key: K) -> bool:
        """Import the modules of a row; whether it is there now."""
        for name in self._modules.get(key, ()):
            self._import(name)
        return dict.__contains__(self, key)

    def load(self) -> None:
        """Import every module of the package."""
        if self.whole:
            return
        import pkgutil

        path = importlib.import_module(self.package).__path__
        for info in pkgutil.iter_modules(path):
            if not (info.name.startswith("_") or (self._leave is not None and self._leave(info.name))):
                self._import(info.name)
        self.whole = True

    def __missing__(self, key: K) -> V:
        if not self._find(key):
            self.load()
            if not dict.__contains__(self, key):
                raise KeyError(key)
        return dict.__getitem__(self, key)

    def get(self, key: K, default: Any = None) -> Any:
        """The row of a key, else `default`."""
        return dict.get(self, key, default) if dict.__contains__(self, key) or self._find(key) else default

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or self._find(key)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        self.load()
        return super().__iter__()

    def __len__(self) -> int:
        self.load()
        return super().__len__()

    def keys(self) -> Any:
        """All keys."""
        self.load()
        return super().keys()

    def values(self) -> Any:
        """All rows."""
        self.load()
        return super().values()

    def items(self) -> Any:
        """All keys and rows."""
        self.load()
        return super().items()
