"""Byte code of what first answers import, in one file that is made when the package is built.

A module costs a search, a file to open, to read and to compare, besides its work; a first answer imports a hundred. The
file lies in the package and holds code objects by groups, each read when the first of its modules is imported. What is
imported from it has the file, source, line numbers and loader type as if it came from its own; whatever does not fit
(another Python, a source that was changed, no such file: editable installs have none) is imported as ever.

The file is read as Python reads its own byte code files: whoever can write to the folder of a package can as well
change its sources. ``tools/pack_startup.py`` makes it; see ADR 0021.
"""

import _imp
import io
import marshal
import os
import sys
from collections.abc import Sequence
from importlib._bootstrap_external import (
    MAGIC_NUMBER,  # where importlib.util has it from, which imports more
)
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

HEAD = b"rlxcode1" + MAGIC_NUMBER
# As importlib does for byte code that was compiled elsewhere.
_FIX_FILE: Any = getattr(_imp, "_fix_co_filename", None)
# Installers write files in any order: sources as old as this one, to the second, are those it was made from.
SLACK = 1.0

# By module: path in the package, bytes of the source, its hash, number of the group.
Entry = tuple[str, int, bytes, int]


class Startup:
    """A finder of the modules in a file of byte code.

    Parameters
    ----------
    folder : str
        Of the package.
    path : str
        The file.

    Raises
    ------
    OSError, ValueError, EOFError, TypeError
        It cannot be read, or is no file of byte code for this Python.
    """

    def __init__(self, folder: str, path: str) -> None:
        self.folder = folder
        self.path = path
        with io.open_code(path) as file:
            about = os.fstat(file.fileno())
            if file.read(len(HEAD)) != HEAD:
                raise ValueError(f"{path}: must begin with {HEAD!r}")
            made: tuple[dict[str, Entry], list[tuple[int, int]]] = marshal.load(file)
        self.entries, self._groups = made
        self._identity = (about.st_ino, about.st_size, about.st_mtime_ns)
        self._newest = about.st_mtime + SLACK
        self._read: set[int] = set()
        self._codes: dict[str, CodeType] = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """How a module is imported; None leaves it to the finders that follow."""
        entry = self.entries.get(name)
        if entry is None or not path:
            return None
        relative, size, digest, _ = entry
        file = f"{self.folder}/{relative}"
        place = file.rpartition("/")[0]
        package = relative.endswith("/__init__.py")
        if path[0] != (place.rpartition("/")[0] if package else place):
            return None
        try:
            about = os.stat(file)
            if about.st_size != size or (about.st_mtime > self._newest and _hash(file) != digest):
                return None
        except OSError:
            return None
        spec = ModuleSpec(name, _Loader(name, file, self), origin=file, is_package=package)
        if package:
            spec.submodule_search_locations = [place]
        spec.has_location = True
        if sys.pycache_prefix is None:  # as Python would work it out, for longer
            spec.cached = f"{place}/__pycache__/{file[len(place) + 1:-3]}.{sys.implementation.cache_tag}.pyc"
        return spec

    def take(self, name: str) -> CodeType | None:
        """The code of a module, once; None if it is not there (any more)."""
        number = self.entries[name][3]
        if number not in self._read:
            self._read.add(number)  # another thread that comes meanwhile reads files of its own
            offset, size = self._groups[number]
            try:
                with io.open_code(self.path) as file:
                    about = os.fstat(file.fileno())
                    if (about.st_ino, about.st_size, about.st_mtime_ns) != self._identity:
                        return None  # another version has been installed
                    file.seek(offset)
                    self._codes.update(marshal.loads(file.read(size)))
            except (OSError, ValueError, EOFError, TypeError):
                return None
        return self._codes.pop(name, None)


class _Loader(SourceFileLoader):
    """A loader of source files that knows where else the code may be."""

    def __init__(self, name: str, path: str, startup: Startup) -> None:
        super().__init__(name, path)
        self._startup = startup

    def get_code(self, fullname: str) -> CodeType | None:
        """The code object of the module."""
        code = self._startup.take(fullname)
        if code is None:
            return super().get_code(fullname)
        _FIX_FILE(code, self.path)
        return code


def _hash(path: str) -> bytes:
    import importlib.util

    with io.open_code(path) as file:
        return importlib.util.source_hash(file.read())


def install(folder: str) -> Startup | None:
    """Import from the file in the folder of the package from here on, if it is there and fits; what does, else None."""
    path = f"{folder}/startup.{sys.implementation.cache_tag}.bin"
    if sys.flags.optimize or _FIX_FILE is None or PathFinder not in sys.meta_path:
        return None
    try:
        found = Startup(folder, path)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    # Behind what others have put first, before Python's own.
    own = next(i for i, finder in enumerate(sys.meta_path) if finder is PathFinder or finder is BuiltinImporter)
    sys.meta_path.insert(own, found)
    return found
